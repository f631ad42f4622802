// SPDX-License-Identifier: GPL-2.0
/* DBG_TRAP: a process debugs itself. */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/kfd_sysfs.h>

#include "scenes.h"

#define RING	(16u * 1024)

static int trap(struct stage *s, uint32_t op, struct kfd_ioctl_dbg_trap_args *args)
{
	args->pid = (uint32_t)getpid();
	args->op = op;
	return ioctl(s->dev.fd, AMDKFD_IOC_DBG_TRAP, args) < 0 ? errno : 0;
}

static bool has_pipe(struct stage *s)
{
	int fds[2];

	if (kfd_open(&s->dev) || pipe2(fds, O_CLOEXEC | O_NONBLOCK))
		return false;
	s->fd = fds[1];
	return true;
}

static int enable(struct stage *s)
{
	struct kfd_runtime_info info;
	struct kfd_ioctl_dbg_trap_args args = {
		.enable = {
			.exception_mask = ~0ull,
			.rinfo_ptr = (uintptr_t)&info,
			.rinfo_size = sizeof(info),
			.dbg_fd = (uint32_t)s->fd,
		},
	};

	return trap(s, KFD_IOC_DBG_TRAP_ENABLE, &args);
}

static int disable(struct stage *s)
{
	struct kfd_ioctl_dbg_trap_args args = { 0 };

	return trap(s, KFD_IOC_DBG_TRAP_DISABLE, &args);
}

static bool disabled(struct stage *s)
{
	return disable(s) == 0;
}

static bool is_debugged(struct stage *s)
{
	return has_pipe(s) && !enable(s);
}

static int queues(struct stage *s)
{
	struct kfd_queue_snapshot_entry entry;
	struct kfd_ioctl_dbg_trap_args args = {
		.queue_snapshot = {
			.exception_mask = KFD_EC_MASK(EC_QUEUE_NEW),
			.snapshot_buf_ptr = (uintptr_t)&entry,
			.num_queues = 1,
			.entry_size = sizeof(entry),
		},
	};

	return trap(s, KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT, &args);
}

static int devices(struct stage *s)
{
	struct kfd_dbg_device_info_entry entry;
	struct kfd_ioctl_dbg_trap_args args = {
		.device_snapshot = {
			.snapshot_buf_ptr = (uintptr_t)&entry,
			.num_devices = 1,
			.entry_size = sizeof(entry),
		},
	};

	return trap(s, KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT, &args);
}

/* A queue of a process whose runtime has registered, which the debugger knows. */
static bool has_queue(struct stage *s)
{
	struct kfd_ioctl_runtime_enable_args args = {
		.mode_mask = KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK,
	};

	return has_pipe(s) && !kfd_ioctl(s->dev.fd, AMDKFD_IOC_RUNTIME_ENABLE, &args) &&
	       !kfd_save_create(&s->dev, &s->save) &&
	       !kfd_compute_create(&s->dev, &s->compute, &s->save, false, RING) &&
	       !enable(s) && !queues(s);
}

static int suspend(struct stage *s)
{
	struct kfd_ioctl_dbg_trap_args args = {
		.suspend_queues = {
			.queue_array_ptr = (uintptr_t)&s->compute.id,
			.num_queues = 1,
		},
	};

	return trap(s, KFD_IOC_DBG_TRAP_SUSPEND_QUEUES, &args);
}

static int resume(struct stage *s)
{
	struct kfd_ioctl_dbg_trap_args args = {
		.resume_queues = {
			.queue_array_ptr = (uintptr_t)&s->compute.id,
			.num_queues = 1,
		},
	};

	return trap(s, KFD_IOC_DBG_TRAP_RESUME_QUEUES, &args);
}

static bool works(struct stage *s)
{
	return kfd_compute_works(&s->compute, KFD_HANG_MS);
}

static bool resumed(struct stage *s)
{
	return !resume(s) && works(s);
}

static bool has_suspended(struct stage *s)
{
	return has_queue(s) && !suspend(s);
}

static int watch(struct stage *s)
{
	struct kfd_ioctl_dbg_trap_args args = {
		.set_node_address_watch = {
			.address = 0x1000, .mask = ~63u, .gpu_id = s->dev.gpu_id,
		},
	};
	int err = trap(s, KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH, &args);

	s->number = args.set_node_address_watch.id;
	return err;
}

static bool unwatched(struct stage *s)
{
	struct kfd_ioctl_dbg_trap_args args = {
		.clear_node_address_watch = { .gpu_id = s->dev.gpu_id, .id = s->number },
	};

	return !trap(s, KFD_IOC_DBG_TRAP_CLEAR_NODE_ADDRESS_WATCH, &args) && works(s);
}

static int launch_mode(struct stage *s)
{
	struct kfd_ioctl_dbg_trap_args args = {
		.launch_mode.launch_mode = KFD_DBG_TRAP_WAVE_LAUNCH_MODE_DEBUG,
	};

	return trap(s, KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_MODE, &args);
}

const struct scene debug_scenes[] = {
	{ "DBG_TRAP, enable", has_pipe, enable, disabled, EALREADY },
	{ "DBG_TRAP, disable", is_debugged, disable, NULL, EINVAL },
	{ "DBG_TRAP, queues", has_queue, queues, NULL, 0 },
	{ "DBG_TRAP, GPUs", is_debugged, devices, NULL, 0 },
	{ "DBG_TRAP, suspend", has_queue, suspend, resumed, 0 },
	{ "DBG_TRAP, resume", has_suspended, resume, works, 0 },
	{ "DBG_TRAP, watch", has_queue, watch, unwatched, 0 },
	{ "DBG_TRAP, launch mode", has_queue, launch_mode, works, 0 },
};
const unsigned int debug_scene_count = sizeof(debug_scenes) / sizeof(debug_scenes[0]);
