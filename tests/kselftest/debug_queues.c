// SPDX-License-Identifier: GPL-2.0
/*
 * DBG_TRAP: queues that a debugger takes off the hardware, and what is left when either side ends.
 */
#include <sys/syscall.h>

#include "debugger.h"
#include "objects.h"

TEST_F(debug, suspends_queues)
{
	const int fd = self->dev.fd, pid = self->child.pid;
	uint32_t id, ids[4], header[4] = { 0 };
	unsigned int i;

	ASSERT_EQ(0, attach_to_queue(self, 0));
	ids[0] = id = self->child.shared->queue_id;
	/* The debugger does not know it yet. */
	EXPECT_EQ(0, suspend(fd, pid, 0, ids, 1));
	EXPECT_EQ(id | INVALID, ids[0]);
	ASSERT_EQ(id, know_queue(self));
	ASSERT_EQ(0, debuggee_do(&self->child, DEBUGGEE_START, 8));
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, debuggee_do(&self->child, DEBUGGEE_RUNS, SOON_MS));
		ids[0] = id;
		EXPECT_EQ(1, suspend(fd, pid, 0, ids, 1));
		EXPECT_EQ(id, ids[0]);
		EXPECT_EQ(ETIMEDOUT, debuggee_do(&self->child, DEBUGGEE_RUNS, NOT_MS));
		ASSERT_TRUE(read_header(&self->child, header));
		/* Used bytes of control stack and waves. */
		EXPECT_NE(0, header[1]);
		EXPECT_NE(0, header[3]);
		EXPECT_EQ(0, header[0] % 4);
		/* It counts again. */
		EXPECT_EQ(1, suspend(fd, pid, 0, ids, 1));
		EXPECT_EQ(id, ids[0]);
		EXPECT_EQ(1, resume(fd, pid, ids, 1));
		EXPECT_EQ(id, ids[0]);
	}
	ASSERT_EQ(0, debuggee_do(&self->child, DEBUGGEE_RUNS, SOON_MS));
	/* Not suspended: it counts, too. */
	EXPECT_EQ(1, resume(fd, pid, NULL, 0));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_STOP, 0));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_WORKS, 0));
	/* Whoever detaches resumes. */
	EXPECT_EQ(1, suspend(fd, pid, 0, ids, 1));
	EXPECT_EQ(0, detach(self));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_WORKS, 0));
}

/* Each XCC has an area of its own, behind that of the one before. */
TEST_F(debug, suspends_waves_of_all_xccs)
{
	const int fd = self->dev.fd, pid = self->child.pid;
	const unsigned int xccs = kfd_xccs(&self->dev);
	struct kfd_queue_snapshot_entry entry = { 0 };
	uint32_t count = 1, size = sizeof(entry), id, header[4] = { 0 }, stack = 0;
	unsigned int i, k;

	ASSERT_EQ(0, debuggee_do(&self->child, DEBUGGEE_OPEN, 0));
	ASSERT_EQ(0, debuggee_do(&self->child, DEBUGGEE_RUNTIME, ON | TTMP));
	ASSERT_EQ(0, debuggee_do(&self->child, DEBUGGEE_QUEUE, 1));
	ASSERT_EQ(0, attach(self, 0));
	ASSERT_EQ(0, queues(fd, pid, MASK(EC_QUEUE_NEW), &entry, &count, &size));
	id = entry.queue_id;
	ASSERT_EQ(0, debuggee_do(&self->child, DEBUGGEE_START, 8 * xccs));
	for (k = 0; k < 3; k++) {
		ASSERT_EQ(0, debuggee_do(&self->child, DEBUGGEE_RUNS, SOON_MS));
		EXPECT_EQ(1, suspend(fd, pid, 0, &id, 1));
		for (i = 0; i < xccs; i++) {
			const uint64_t area = entry.ctx_save_restore_address +
					      (uint64_t)i * entry.ctx_save_restore_area_size;

			ASSERT_TRUE(read_words(&self->child, area, header, 4));
			EXPECT_NE(0, header[1]) {
				TH_LOG("XCC %u", i);
			}
			EXPECT_NE(0, header[3]);
			ASSERT_TRUE(read_words(&self->child, area + header[0], &stack, 1));
			EXPECT_NE(0, stack);
		}
		EXPECT_EQ(1, resume(fd, pid, &id, 1));
	}
	/* What was written has not changed the waves. */
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_STOP, 0));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_WORKS, 0));
	EXPECT_EQ(0, detach(self));
}

TEST_F(debug, names_queues)
{
	const int fd = self->dev.fd, pid = self->child.pid;
	uint32_t id, ids[4];

	ASSERT_EQ(0, attach_to_queue(self, 0));
	ASSERT_NE(NO_QUEUE, id = know_queue(self));
	ids[0] = 97;
	ids[1] = id;
	ids[2] = 99;
	ids[3] = id;
	EXPECT_EQ(1, suspend(fd, pid, 0, ids, 4));
	EXPECT_EQ(97 | INVALID, ids[0]);
	EXPECT_EQ(id, ids[1]);
	EXPECT_EQ(99 | INVALID, ids[2]);
	EXPECT_EQ(id | INVALID, ids[3]);
	ids[0] = id | INVALID;
	ids[1] = 99;
	EXPECT_EQ(1, resume(fd, pid, ids, 2));
	EXPECT_EQ(id, ids[0]);
	EXPECT_EQ(99 | INVALID, ids[1]);
	EXPECT_EQ(0, suspend(fd, pid, 0, NULL, 0));
	EXPECT_EQ(-EINVAL, suspend(fd, pid, 0, NULL, 1));
	EXPECT_EQ(-EINVAL, suspend(fd, pid, 0, ids, 1025));
	EXPECT_EQ(-EFAULT, suspend(fd, pid, 0, (void *)8, 1));
	EXPECT_EQ(-EINVAL, resume(fd, pid, ids, 1025));
	EXPECT_EQ(-EFAULT, resume(fd, pid, (void *)8, 1));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_WORKS, 0));
	EXPECT_EQ(0, detach(self));
}

/* Exceptions of queues are taken when they are suspended. */
TEST_F(debug, suspending_takes_exceptions)
{
	const int fd = self->dev.fd, pid = self->child.pid;
	struct kfd_ioctl_dbg_trap_args args;
	uint32_t id;

	ASSERT_EQ(0, attach_to_queue(self, WAVES));
	ASSERT_NE(NO_QUEUE, id = know_queue(self));
	ASSERT_EQ(0, debuggee_do(&self->child, DEBUGGEE_WRONG, WAVES_TRAP));
	EXPECT_TRUE(is_notified(self, SOON_MS));
	EXPECT_EQ(1, suspend(fd, pid, MASK(EC_QUEUE_WAVE_TRAP), &id, 1));
	EXPECT_EQ(-EAGAIN, query(fd, pid, 0, &args));
	EXPECT_EQ(0, detach(self));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_WORKS, 0));
}

TEST_F(debug, destroys_when_resumed)
{
	const int fd = self->dev.fd, pid = self->child.pid;
	uint32_t id, ids[1];

	ASSERT_EQ(0, attach_to_queue(self, 0));
	ASSERT_NE(NO_QUEUE, id = know_queue(self));
	ids[0] = id;
	EXPECT_EQ(1, suspend(fd, pid, 0, ids, 1));
	debuggee_order(&self->child, DEBUGGEE_DESTROY, 0);
	EXPECT_FALSE(debuggee_has_answer(&self->child, NOT_MS));
	EXPECT_EQ(1, resume(fd, pid, ids, 1));
	EXPECT_EQ(0, debuggee_answer(&self->child));
	EXPECT_EQ(0, resume(fd, pid, ids, 1));
	EXPECT_EQ(id | INVALID, ids[0]);
	EXPECT_EQ(0, detach(self));
}

/* How far a debugger has come when either side ends. */
enum step {
	ATTACHED,	/* to a process that does not use KFD */
	RUNTIME_WAITS,	/* the child waits for the debugger's answer */
	HAS_QUEUE,
	SUSPENDED,	/* with waves */
	DESTROY_WAITS,	/* the child waits until its queue is resumed */
	STEPS,
};

static int go_to(FIXTURE_DATA(debug) *self, enum step step)
{
	uint32_t id;
	int err;

	if (step <= RUNTIME_WAITS) {
		err = attach(self, MASK(EC_PROCESS_RUNTIME));
		if (!err && step == RUNTIME_WAITS) {
			err = -debuggee_do(&self->child, DEBUGGEE_OPEN, 0);
			debuggee_order(&self->child, DEBUGGEE_RUNTIME, ON);
			if (!is_notified(self, SOON_MS))
				return -ETIMEDOUT;
		}
		return err;
	}
	err = attach_to_queue(self, WAVES);
	if (err || step == HAS_QUEUE)
		return err;
	err = -debuggee_do(&self->child, DEBUGGEE_START, 4);
	id = know_queue(self);
	if (!err && suspend(self->dev.fd, self->child.pid, 0, &id, 1) != 1)
		err = -EIO;
	if (step == DESTROY_WAITS)
		debuggee_order(&self->child, DEBUGGEE_DESTROY, 0);
	return err;
}

/* The process that is debugged is killed. */
TEST_F(debug, debuggee_killed)
{
	const int fd = self->dev.fd;
	struct kfd_ioctl_dbg_trap_args args;
	char base[OBJECTS_MAX];
	unsigned int step;
	bool counts;
	pid_t pid;

	counts = kfd_is_rkfd() && objects_base(base, 1);
	for (step = 0; step < STEPS; step++) {
		ASSERT_EQ(0, go_to(self, (enum step)step));
		pid = self->child.pid;
		debuggee_end(&self->child);
		EXPECT_EQ(-ESRCH, query(fd, pid, 0, &args));
		if (counts)
			EXPECT_TRUE(objects_return_to(base, SOON_MS));
		is_notified(self, 0);
		ASSERT_EQ(0, debuggee_start(&self->child, true));
	}
}

/* A debugger in a process of its own, which says where the orders to its child go. */
static void debug_and_wait(enum step step, int out)
{
	FIXTURE_DATA(debug) own = { 0 };
	int numbers[3];

	if (kfd_open_files(&own.dev) || pipe2(own.notice, O_CLOEXEC | O_NONBLOCK) ||
	    debuggee_start(&own.child, true) || go_to(&own, step))
		_exit(1);
	numbers[0] = own.child.orders;
	numbers[1] = own.child.answers;
	numbers[2] = own.child.pid;
	if (write(out, numbers, sizeof(numbers)) != sizeof(numbers))
		_exit(2);
	pause();
}

/* The debugger is killed: its child goes on. */
TEST_F(debug, debugger_killed)
{
	char base[OBJECTS_MAX];
	unsigned int step;
	bool counts;

	counts = kfd_is_rkfd() && objects_base(base, 1);
	for (step = 0; step < STEPS; step++) {
		struct debuggee child = { 0 };
		int out[2], numbers[3], process, status;
		pid_t pid;

		if (step == RUNTIME_WAITS && !kfd_is_rkfd())
			continue;	/* it waits for ever */
		ASSERT_EQ(0, pipe(out));
		pid = fork();
		if (pid == 0) {
			debug_and_wait((enum step)step, out[1]);
			_exit(0);
		}
		close(out[1]);
		ASSERT_EQ(sizeof(numbers), read(out[0], numbers, sizeof(numbers)));
		close(out[0]);
		process = (int)syscall(SYS_pidfd_open, pid, 0);
		ASSERT_LE(0, process);
		child.orders = (int)syscall(SYS_pidfd_getfd, process, numbers[0], 0);
		child.answers = (int)syscall(SYS_pidfd_getfd, process, numbers[1], 0);
		ASSERT_LE(0, child.orders);
		ASSERT_LE(0, child.answers);
		kill(pid, SIGKILL);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		if (step == RUNTIME_WAITS || step == DESTROY_WAITS)
			EXPECT_EQ(0, debuggee_answer(&child));
		if (step == HAS_QUEUE)
			EXPECT_EQ(0, debuggee_do(&child, DEBUGGEE_WORKS, 0));
		if (step == SUSPENDED) {
			EXPECT_EQ(0, debuggee_do(&child, DEBUGGEE_RUNS, SOON_MS));
			EXPECT_EQ(0, debuggee_do(&child, DEBUGGEE_STOP, 0));
		}
		kill(numbers[2], SIGKILL);
		close(child.orders);
		close(child.answers);
		close(process);
		if (counts)
			EXPECT_TRUE(objects_return_to(base, SOON_MS));
	}
}

KFD_HARNESS_MAIN
