/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A debugger (DBG_TRAP) and the child that it traces. Functions that return int give what the ioctl
 * returns, or minus the errno.
 */
#ifndef RKFD_TEST_DEBUGGER_H
#define RKFD_TEST_DEBUGGER_H

#include <linux/kfd_sysfs.h>

#include "debuggee.h"
#include "kfd_harness.h"

#define MASK(code)	KFD_EC_MASK(code)
#define SOON_MS		KFD_HANG_MS
#define NOT_MS		300u
#define WAVES		MASK(EC_QUEUE_WAVE_ABORT) | MASK(EC_QUEUE_WAVE_TRAP) | \
			MASK(EC_QUEUE_WAVE_ILLEGAL_INSTRUCTION)
#define ON		KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK
#define TTMP		KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK
#define INVALID		(1u << KFD_DBG_QUEUE_INVALID_BIT)
#define NO_QUEUE	98u

/* What the ioctl returns, or minus the errno. */
static inline int trap(int fd, pid_t pid, uint32_t op, struct kfd_ioctl_dbg_trap_args *args)
{
	int result;

	args->pid = (uint32_t)pid;
	args->op = op;
	do {
		result = ioctl(fd, AMDKFD_IOC_DBG_TRAP, args);
	} while (result < 0 && errno == EINTR);
	return result < 0 ? -errno : result;
}

static inline int plain(int fd, pid_t pid, uint32_t op)
{
	struct kfd_ioctl_dbg_trap_args args = { 0 };

	return trap(fd, pid, op, &args);
}

static inline int enable(int fd, pid_t pid, uint64_t mask, int file, struct kfd_runtime_info *info)
{
	struct kfd_ioctl_dbg_trap_args args = {
		.enable = {
			.exception_mask = mask,
			.rinfo_ptr = (uintptr_t)info,
			.rinfo_size = sizeof(*info),
			.dbg_fd = (uint32_t)file,
		},
	};

	return trap(fd, pid, KFD_IOC_DBG_TRAP_ENABLE, &args);
}

static inline int subscribe(int fd, pid_t pid, uint64_t mask)
{
	struct kfd_ioctl_dbg_trap_args args = {
		.set_exceptions_enabled.exception_mask = mask,
	};

	return trap(fd, pid, KFD_IOC_DBG_TRAP_SET_EXCEPTIONS_ENABLED, &args);
}

static inline int query(int fd, pid_t pid, uint64_t clear, struct kfd_ioctl_dbg_trap_args *args)
{
	*args = (struct kfd_ioctl_dbg_trap_args){ .query_debug_event.exception_mask = clear };
	return trap(fd, pid, KFD_IOC_DBG_TRAP_QUERY_DEBUG_EVENT, args);
}

static inline int query_info(int fd, pid_t pid, uint32_t code, uint32_t source, bool clear, void *info,
		      uint32_t *size)
{
	struct kfd_ioctl_dbg_trap_args args = {
		.query_exception_info = {
			.info_ptr = (uintptr_t)info,
			.info_size = *size,
			.source_id = source,
			.exception_code = code,
			.clear_exception = clear,
		},
	};
	int result = trap(fd, pid, KFD_IOC_DBG_TRAP_QUERY_EXCEPTION_INFO, &args);

	*size = args.query_exception_info.info_size;
	return result;
}

static inline int send_event(int fd, pid_t pid, uint64_t mask, uint32_t gpu, uint32_t queue)
{
	struct kfd_ioctl_dbg_trap_args args = {
		.send_runtime_event = {
			.exception_mask = mask, .gpu_id = gpu, .queue_id = queue,
		},
	};

	return trap(fd, pid, KFD_IOC_DBG_TRAP_SEND_RUNTIME_EVENT, &args);
}

static inline int queues(int fd, pid_t pid, uint64_t clear, struct kfd_queue_snapshot_entry *entries,
		  uint32_t *count, uint32_t *size)
{
	struct kfd_ioctl_dbg_trap_args args = {
		.queue_snapshot = {
			.exception_mask = clear,
			.snapshot_buf_ptr = (uintptr_t)entries,
			.num_queues = *count,
			.entry_size = *size,
		},
	};
	int result = trap(fd, pid, KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT, &args);

	*count = args.queue_snapshot.num_queues;
	*size = args.queue_snapshot.entry_size;
	return result;
}

static inline int suspend(int fd, pid_t pid, uint64_t clear, uint32_t *ids, uint32_t count)
{
	struct kfd_ioctl_dbg_trap_args args = {
		.suspend_queues = {
			.exception_mask = clear,
			.queue_array_ptr = (uintptr_t)ids,
			.num_queues = count,
		},
	};

	return trap(fd, pid, KFD_IOC_DBG_TRAP_SUSPEND_QUEUES, &args);
}

static inline int resume(int fd, pid_t pid, uint32_t *ids, uint32_t count)
{
	struct kfd_ioctl_dbg_trap_args args = {
		.resume_queues = { .queue_array_ptr = (uintptr_t)ids, .num_queues = count },
	};

	return trap(fd, pid, KFD_IOC_DBG_TRAP_RESUME_QUEUES, &args);
}

FIXTURE(debug)
{
	struct kfd_dev dev;	/* the debugger's */
	struct debuggee child;
	int notice[2];
	struct kfd_runtime_info info;
};

FIXTURE_SETUP(debug)
{
	if (kfd_sched_is_direct())
		SKIP(return, "the driver schedules the queues: no process can be debugged");
	ASSERT_EQ(0, kfd_open_files(&self->dev));
	ASSERT_EQ(0, pipe2(self->notice, O_CLOEXEC | O_NONBLOCK));
	ASSERT_EQ(0, debuggee_start(&self->child, true));
}

FIXTURE_TEARDOWN(debug)
{
	debuggee_end(&self->child);
	kfd_close(&self->dev);
}

/* True if the debugger is notified, which it is not again before the next time. */
static inline bool is_notified(FIXTURE_DATA(debug) *self, unsigned int ms)
{
	struct pollfd fd = { .fd = self->notice[0], .events = POLLIN };
	char byte;

	if (poll(&fd, 1, (int)ms) != 1)
		return false;
	while (read(self->notice[0], &byte, 1) == 1)
		if (byte != '.')
			return false;
	return true;
}

static inline int attach(FIXTURE_DATA(debug) *self, uint64_t mask)
{
	return enable(self->dev.fd, self->child.pid, mask, self->notice[1], &self->info);
}

static inline int detach(FIXTURE_DATA(debug) *self)
{
	return plain(self->dev.fd, self->child.pid, KFD_IOC_DBG_TRAP_DISABLE);
}

/* The debugger is told that the runtime comes or goes, and lets it. */
static inline int shake_hands(FIXTURE_DATA(debug) *self, struct kfd_runtime_info *info)
{
	struct kfd_ioctl_dbg_trap_args args;
	uint32_t size = sizeof(*info);
	int err;

	if (!is_notified(self, SOON_MS))
		return -ETIMEDOUT;
	err = query(self->dev.fd, self->child.pid, 0, &args);
	if (err)
		return err;
	if (args.query_debug_event.exception_mask != MASK(EC_PROCESS_RUNTIME) ||
	    args.query_debug_event.queue_id || args.query_debug_event.gpu_id)
		return -EBADMSG;
	err = query_info(self->dev.fd, self->child.pid, EC_PROCESS_RUNTIME, 0, true, info, &size);
	if (err || size != sizeof(*info))
		return err ? err : -EBADMSG;
	return send_event(self->dev.fd, self->child.pid, MASK(EC_PROCESS_RUNTIME), 0, 0);
}

/* Attaches to a child whose runtime has registered and that has a queue. */
static inline int attach_to_queue(FIXTURE_DATA(debug) *self, uint64_t mask)
{
	int err = debuggee_do(&self->child, DEBUGGEE_OPEN, 0);

	if (!err)
		err = debuggee_do(&self->child, DEBUGGEE_RUNTIME, ON | TTMP);
	if (!err)
		err = debuggee_do(&self->child, DEBUGGEE_QUEUE, 0);
	return err ? -err : attach(self, mask);
}

/* The child's queue, which the debugger knows now; NO_QUEUE if it has none. */
static inline uint32_t know_queue(FIXTURE_DATA(debug) *self)
{
	struct kfd_queue_snapshot_entry entry = { 0 };
	uint32_t count = 1, size = sizeof(entry);
	int err = queues(self->dev.fd, self->child.pid, MASK(EC_QUEUE_NEW), &entry, &count, &size);

	return err || count != 1 ? NO_QUEUE : entry.queue_id;
}

/* The first @count dwords at @address of the child. */
static inline bool read_words(const struct debuggee *child, uint64_t address, uint32_t *words,
			      size_t count)
{
	const size_t bytes = count * sizeof(*words);
	char path[64];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", child->pid);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return false;
	got = pread(fd, words, bytes, (off_t)address);
	close(fd);
	return got == (ssize_t)bytes;
}

/* The header of the child's save area. */
static inline bool read_header(const struct debuggee *child, uint32_t words[4])
{
	return read_words(child, child->shared->save, words, 4);
}

#endif /* RKFD_TEST_DEBUGGER_H */
