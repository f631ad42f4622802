// SPDX-License-Identifier: GPL-2.0
/*
 * DBG_TRAP by several threads of a debugger at a time, while the process that they debug makes
 * queues and destroys them, registers its runtime, ends or loses the GPU.
 */
#include <pthread.h>
#include <stdlib.h>

#include "debugger.h"
#include "objects.h"
#include "tap.h"

#define DRIVER		"/sys/bus/pci/drivers/rkfd"
#define THREADS		3u
/* Queues that the child has made when something happens to it. */
#define BEGUN		3u
#define MOST_QUEUES	8u

/* What the threads of a debugger share. */
struct debugger {
	int fd;
	pid_t pid;
	int file;			/* for notices */
	uint32_t gpu_id;
	volatile bool stop;
	volatile int bad;		/* a result that no call may have */
};

static bool is_bad(int result)
{
	return result == -EFAULT || result == -EIO || result == -ETIMEDOUT || result == -ENOTTY;
}

static void note(struct debugger *d, int result)
{
	if (is_bad(result))
		d->bad = result;
}

/* Stops all queues, and lets them run again. */
static void *suspend_and_resume(void *arg)
{
	struct debugger *d = arg;

	while (!d->stop) {
		struct kfd_queue_snapshot_entry entries[MOST_QUEUES] = { 0 };
		uint32_t count = MOST_QUEUES, size = sizeof(entries[0]), ids[MOST_QUEUES], i;
		int err = queues(d->fd, d->pid, MASK(EC_QUEUE_NEW), entries, &count, &size);

		note(d, err);
		if (err || count > MOST_QUEUES)
			continue;
		for (i = 0; i < count; i++)
			ids[i] = entries[i].queue_id;
		note(d, suspend(d->fd, d->pid, MASK(EC_QUEUE_WAVE_TRAP), ids, count));
		note(d, resume(d->fd, d->pid, NULL, 0));
	}
	return NULL;
}

/* Changes what the hardware does. */
static void *set_and_clear(void *arg)
{
	struct debugger *d = arg;
	unsigned int seed = 3;

	while (!d->stop) {
		struct kfd_ioctl_dbg_trap_args mode = { 0 }, set, flags = { 0 }, clear = { 0 };

		mode.launch_mode.launch_mode = rand_r(&seed) % 2 ?
					       KFD_DBG_TRAP_WAVE_LAUNCH_MODE_DEBUG :
					       KFD_DBG_TRAP_WAVE_LAUNCH_MODE_NORMAL;
		note(d, trap(d->fd, d->pid, KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_MODE, &mode));
		set = (struct kfd_ioctl_dbg_trap_args){
			.set_node_address_watch = {
				.address = 0x1000, .mask = ~63u, .gpu_id = d->gpu_id,
			},
		};
		note(d, trap(d->fd, d->pid, KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH, &set));
		flags.set_flags.flags = rand_r(&seed) % 2 ? KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP : 0;
		note(d, trap(d->fd, d->pid, KFD_IOC_DBG_TRAP_SET_FLAGS, &flags));
		clear.clear_node_address_watch.gpu_id = d->gpu_id;
		clear.clear_node_address_watch.id = set.set_node_address_watch.id % 4;
		note(d, trap(d->fd, d->pid, KFD_IOC_DBG_TRAP_CLEAR_NODE_ADDRESS_WATCH, &clear));
	}
	return NULL;
}

/* Takes events, and answers the runtime. */
static void *take_events(void *arg)
{
	struct debugger *d = arg;

	while (!d->stop) {
		struct kfd_dbg_device_info_entry entry = { 0 };
		struct kfd_ioctl_dbg_trap_args args, devices = {
			.device_snapshot = {
				.snapshot_buf_ptr = (uintptr_t)&entry,
				.num_devices = 1,
				.entry_size = sizeof(entry),
			},
		};

		note(d, query(d->fd, d->pid, ~0ull, &args));
		note(d, send_event(d->fd, d->pid, MASK(EC_PROCESS_RUNTIME), 0, 0));
		note(d, subscribe(d->fd, d->pid, ~0ull));
		note(d, trap(d->fd, d->pid, KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT, &devices));
	}
	return NULL;
}

static void *(*const loops[THREADS])(void *) = {
	suspend_and_resume, set_and_clear, take_events,
};

/* The child: makes queues as long as it has a GPU. */
static void make_queues(struct debuggee_shared *shared)
{
	struct debuggee_state s = { 0 };

	if (debuggee_open(&s, shared))
		_exit(1);
	for (;;) {
		struct kfd_queue sdma;
		int err = debuggee_runtime(&s, ON | TTMP);

		/* A debugger that has gone has not answered. */
		if (err && err != EINTR)
			break;
		err = kfd_compute_create(&s.dev, &s.queue, &s.save, false, DEBUGGEE_RING);
		if (err || kfd_queue_create(&s.dev, &sdma, DEBUGGEE_RING))
			break;
		kfd_compute_works(&s.queue, 50);
		if (kfd_queue_destroy(&s.dev, &sdma) || kfd_compute_destroy(&s.dev, &s.queue))
			break;
		__sync_fetch_and_add(&shared->queue_id, 1);
		if (debuggee_runtime(&s, 0))
			break;
	}
	for (;;)
		pause();
}

/* A child that the calling thread traces. */
static int start(struct debuggee *child)
{
	int status;

	child->shared = kfd_share();
	if (!child->shared)
		return ENOMEM;
	child->pid = fork();
	if (child->pid < 0)
		return errno;
	if (!child->pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		make_queues(child->shared);
	}
	if (waitpid(child->pid, &status, 0) != child->pid || !WIFSTOPPED(status))
		return ECHILD;
	return ptrace(PTRACE_CONT, child->pid, NULL, NULL) ? errno : 0;
}

static void end(struct debuggee *child)
{
	int status;

	kill(child->pid, SIGKILL);
	while (waitpid(child->pid, &status, 0) == child->pid && WIFSTOPPED(status))
		ptrace(PTRACE_CONT, child->pid, NULL, NULL);
	munmap(child->shared, KFD_PAGE);
}

struct races {
	struct debuggee child;
	struct debugger debugger;
	pthread_t threads[THREADS];
};

/* Attaches to a new child, and detaches, while the other threads are at work, @rounds times. */
static void debug_a_child(struct __test_metadata *_metadata, FIXTURE_DATA(debug) *self,
			  struct races *races, unsigned int rounds)
{
	const uint64_t late = kfd_now_ms() + KFD_HANG_MS;
	struct debuggee *child = &races->child;
	struct debugger *d = &races->debugger;
	struct kfd_runtime_info info;
	unsigned int i, done = 0;

	ASSERT_EQ(0, start(child));
	*d = (struct debugger){
		.fd = self->dev.fd,
		.pid = child->pid,
		.file = self->notice[1],
		.gpu_id = self->dev.gpu_id,
	};
	for (i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&races->threads[i], NULL, loops[i], d));
	while (done < rounds || child->shared->queue_id < BEGUN) {
		const int result = enable(d->fd, d->pid, ~0ull, d->file, &info);

		ASSERT_GT(late, kfd_now_ms());
		ASSERT_EQ(0, result);
		usleep(2000 * (done % 8));
		/* At the end the child is debugged. */
		if (++done < rounds || child->shared->queue_id < BEGUN)
			ASSERT_EQ(0, plain(d->fd, d->pid, KFD_IOC_DBG_TRAP_DISABLE));
	}
}

static void stop_debugging(struct __test_metadata *_metadata, struct races *races)
{
	unsigned int i;

	races->debugger.stop = true;
	for (i = 0; i < THREADS; i++)
		pthread_join(races->threads[i], NULL);
	EXPECT_EQ(0, races->debugger.bad);
}

TEST_F(debug, races_with_its_end)
{
	const unsigned int times = work(8, 3);
	char base[OBJECTS_MAX];
	struct races races;
	unsigned int i;

	SKIP_ON_AMDKFD("one thread at a time may debug");
	ASSERT_TRUE(objects_base(base, 1));
	for (i = 0; i < times; i++) {
		debug_a_child(_metadata, self, &races, 10);
		end(&races.child);
		stop_debugging(_metadata, &races);
		EXPECT_TRUE(objects_return_to(base, SOON_MS));
	}
}

TEST_F(debug, races_with_an_unbind)
{
	const unsigned int times = work(4, 2);
	struct races races;
	unsigned int i;
	char name[64];

	SKIP_ON_AMDKFD("an unbind waits for the processes");
	ASSERT_TRUE(kfd_find_device(name, sizeof(name)));
	for (i = 0; i < times; i++) {
		debug_a_child(_metadata, self, &races, 10);
		ASSERT_EQ(0, kfd_write_file(DRIVER "/unbind", name));
		stop_debugging(_metadata, &races);
		end(&races.child);
		ASSERT_EQ(0, kfd_write_file(DRIVER "/bind", name));
		kfd_close(&self->dev);
		ASSERT_EQ(0, kfd_open_files(&self->dev));
	}
}

KFD_HARNESS_MAIN
