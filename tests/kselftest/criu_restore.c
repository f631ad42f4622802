// SPDX-License-Identifier: GPL-2.0
/*
 * CRIU_OP: a process is saved in the middle of its work, killed, and restored in a new process
 * with the same addresses, where the work goes on.
 */
#include "criu_fixture.h"
#include "objects.h"

/* Waves go on where they were, and find nothing changed. */
static void go_on(struct __test_metadata *_metadata, FIXTURE_DATA(restored) *self, uint32_t aql,
		  uint32_t count)
{
	ASSERT_EQ(0, ask(self, DEBUGGEE_OPEN, 0));
	ASSERT_EQ(0, ask(self, DEBUGGEE_QUEUE, aql));
	ASSERT_EQ(0, ask(self, DEBUGGEE_START, count));
	ASSERT_EQ(0, ask(self, DEBUGGEE_RUNS, SOON_MS));
	ASSERT_EQ(0, replace(self));
	ASSERT_EQ(0, ask(self, RESTORE, 0));
	/* Not before it is resumed. */
	EXPECT_EQ(ETIMEDOUT, ask(self, DEBUGGEE_RUNS, NOT_MS));
	ASSERT_EQ(0, resume(self));
	EXPECT_EQ(0, ask(self, DEBUGGEE_RUNS, SOON_MS));
	EXPECT_EQ(0, ask(self, GREW, 0));
	EXPECT_EQ(0, ask(self, DEBUGGEE_STOP, 0));
	EXPECT_EQ(0, ask(self, DEBUGGEE_WORKS, 0));
}

TEST_F(restored, waves)
{
	SKIP_ON_AMDKFD("the device model refuses some of the control stacks that it restores");
	go_on(_metadata, self, 0, 8);
	EXPECT_EQ(0, ask(self, OWNS, 0));
}

/* Again and again, also of a process that was restored. */
TEST_F(restored, many_times)
{
	unsigned int i;

	SKIP_ON_AMDKFD("the device model refuses some of the control stacks that it restores");
	ASSERT_EQ(0, ask(self, DEBUGGEE_OPEN, 0));
	ASSERT_EQ(0, ask(self, DEBUGGEE_QUEUE, 0));
	ASSERT_EQ(0, ask(self, DEBUGGEE_START, 64));
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, ask(self, DEBUGGEE_RUNS, SOON_MS));
		criu_free(&self->all->dump);
		ASSERT_EQ(0, replace(self));
		ASSERT_EQ(0, ask(self, RESTORE, 0));
		ASSERT_EQ(0, resume(self));
	}
	EXPECT_EQ(0, ask(self, DEBUGGEE_RUNS, SOON_MS));
	EXPECT_EQ(0, ask(self, DEBUGGEE_STOP, 0));
	EXPECT_EQ(0, ask(self, DEBUGGEE_WORKS, 0));
}

/* A queue without work, whose packets are read from where it was. */
TEST_F(restored, idle_queues)
{
	uint32_t aql, i;

	for (aql = 0; aql < 2; aql++) {
		ASSERT_EQ(0, ask(self, DEBUGGEE_OPEN, 0));
		ASSERT_EQ(0, ask(self, DEBUGGEE_QUEUE, aql));
		for (i = 0; i < 5; i++)
			ASSERT_EQ(0, ask(self, DEBUGGEE_WORKS, 0));
		ASSERT_EQ(0, replace(self));
		ASSERT_EQ(0, ask(self, RESTORE, 0));
		ASSERT_EQ(0, resume(self));
		for (i = 0; i < 5; i++)
			ASSERT_EQ(0, ask(self, DEBUGGEE_WORKS, 0));
		EXPECT_EQ(0, ask(self, OWNS, 0));
		end(self);
		criu_free(&self->all->dump);
		memset(self->all, 0, sizeof(*self->all));
		ASSERT_EQ(0, start(self));
	}
}

TEST_F(restored, events)
{
	ASSERT_EQ(0, ask(self, DEBUGGEE_OPEN, 0));
	ASSERT_EQ(0, ask(self, EVENT_SET, 0));
	ASSERT_EQ(0, replace(self));
	ASSERT_EQ(0, ask(self, RESTORE, 0));
	ASSERT_EQ(0, resume(self));
	EXPECT_EQ(0, ask(self, EVENT_THERE, 0));
	/* It has reset itself. */
	EXPECT_EQ(ETIMEDOUT, ask(self, EVENT_THERE, 0));
	EXPECT_EQ(0, ask(self, EVENT_SET, 0));
	EXPECT_EQ(0, ask(self, EVENT_THERE, 0));
}

/* The runtime and the process's own trap handler, which tells it of a wave's trap. */
TEST_F(restored, runtime_and_trap_handler)
{
	SKIP_ON_AMDKFD("forgets the trap handler, and that a runtime has registered");
	ASSERT_EQ(0, ask(self, DEBUGGEE_OPEN, 0));
	ASSERT_EQ(0, ask(self, DEBUGGEE_RUNTIME, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK));
	ASSERT_EQ(0, ask(self, DEBUGGEE_QUEUE, 0));
	ASSERT_EQ(0, replace(self));
	ASSERT_EQ(0, ask(self, RESTORE, 0));
	ASSERT_EQ(0, resume(self));
	EXPECT_EQ(EBUSY, ask(self, DEBUGGEE_RUNTIME, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK));
	ASSERT_EQ(0, ask(self, DEBUGGEE_WRONG, WAVES_TRAP));
	EXPECT_EQ(0, ask(self, DEBUGGEE_TOLD, KFD_EC_MASK(EC_QUEUE_WAVE_TRAP)));
}

TEST_F(restored, sdma)
{
	ASSERT_EQ(0, ask(self, DEBUGGEE_OPEN, 0));
	ASSERT_EQ(0, ask(self, SDMA_START, 0));
	ASSERT_EQ(0, replace(self));
	ASSERT_EQ(0, ask(self, RESTORE, 0));
	ASSERT_EQ(0, resume(self));
	EXPECT_EQ(0, ask(self, SDMA_END, 0));
}

/* On a GPU of another id. The process knows it by the old one. */
TEST_F(restored, another_gpu)
{
	const uint32_t other = self->own.gpu_id ^ 0x101;

	SKIP_ON_AMDKFD("has other private data");
	if (kfd_gpus() != 1)
		SKIP(return, "more than one GPU");
	ASSERT_EQ(0, ask(self, DEBUGGEE_OPEN, 0));
	ASSERT_EQ(0, ask(self, DEBUGGEE_QUEUE, 0));
	ASSERT_EQ(0, ask(self, DEBUGGEE_START, 8));
	ASSERT_EQ(0, replace(self));
	ASSERT_EQ(0, ask(self, RESTORE_AS, other));
	ASSERT_EQ(0, resume(self));
	EXPECT_EQ(0, ask(self, DEBUGGEE_RUNS, SOON_MS));
	EXPECT_EQ(0, ask(self, DEBUGGEE_STOP, 0));
	EXPECT_EQ(0, ask(self, DEBUGGEE_WORKS, 0));
	EXPECT_EQ(0, ask(self, NAMES, 0));
	/* It can be saved again. */
	criu_free(&self->all->dump);
	ASSERT_EQ(0, replace(self));
	EXPECT_EQ(other, self->all->dump.devices[0].user_gpu_id);
	EXPECT_EQ(self->own.gpu_id, self->all->dump.devices[0].actual_gpu_id);
	ASSERT_EQ(0, ask(self, RESTORE_AS, other));
	ASSERT_EQ(0, resume(self));
	EXPECT_EQ(0, ask(self, DEBUGGEE_WORKS, 0));
}

/* Their addresses on the GPU, and the offsets at which the CPU maps them. */
TEST_F(restored, registers)
{
	ASSERT_EQ(0, ask(self, DEBUGGEE_OPEN, 0));
	ASSERT_EQ(0, ask(self, DEBUGGEE_QUEUE, 0));
	ASSERT_EQ(0, ask(self, REGISTERS, 0));
	ASSERT_EQ(0, replace(self));
	ASSERT_EQ(0, ask(self, RESTORE, 0));
	ASSERT_EQ(0, resume(self));
	EXPECT_EQ(0, ask(self, DEBUGGEE_WORKS, 0));
	EXPECT_EQ(0, ask(self, FLUSHES, 0));
}

TEST_F(restored, user_memory)
{
	ASSERT_EQ(0, ask(self, DEBUGGEE_OPEN, 0));
	ASSERT_EQ(0, ask(self, DEBUGGEE_QUEUE, 0));
	ASSERT_EQ(0, ask(self, USER_START, 0));
	ASSERT_EQ(0, ask(self, USER_WORKS, 0));
	ASSERT_EQ(0, replace(self));
	ASSERT_EQ(0, ask(self, RESTORE, 1));
	ASSERT_EQ(0, resume(self));
	EXPECT_EQ(0, ask(self, USER_WORKS, 0));
}

/* CRIU lays the memory out after RESTORE, and before RESUME. */
TEST_F(restored, user_memory_later)
{
	ASSERT_EQ(0, ask(self, DEBUGGEE_OPEN, 0));
	ASSERT_EQ(0, ask(self, DEBUGGEE_QUEUE, 0));
	ASSERT_EQ(0, ask(self, USER_START, 0));
	ASSERT_EQ(0, ask(self, USER_WORKS, 0));
	ASSERT_EQ(0, replace(self));
	ASSERT_EQ(0, ask(self, RESTORE, 0));
	ASSERT_EQ(0, ask(self, USER_MAP, 0));
	ASSERT_EQ(0, resume(self));
	EXPECT_EQ(0, ask(self, USER_WORKS, 0));
	EXPECT_EQ(0, ask(self, USER_AGAIN, 0));
	EXPECT_EQ(0, ask(self, USER_WORKS, 0));
}

/* That memory may be a queue's pointers, which the driver itself reads and writes. */
TEST_F(restored, user_memory_of_a_queue)
{
	SKIP_ON_AMDKFD("wants a queue's pointers in buffers of one page");
	ASSERT_EQ(0, ask(self, DEBUGGEE_OPEN, 0));
	ASSERT_EQ(0, ask(self, USER_START, 0));
	ASSERT_EQ(0, ask(self, USER_QUEUE, 0));
	ASSERT_EQ(0, replace(self));
	ASSERT_EQ(0, ask(self, RESTORE, 0));
	ASSERT_EQ(0, ask(self, USER_MAP, 0));
	ASSERT_EQ(0, resume(self));
	EXPECT_EQ(0, ask(self, USER_QUEUE_WORKS, 0));
}

/* Without it there is no such queue. */
TEST_F(restored, user_memory_of_a_queue_never)
{
	char base[OBJECTS_MAX];

	SKIP_ON_AMDKFD("wants a queue's pointers in buffers of one page");
	end(self);
	ASSERT_TRUE(objects_base(base, 1));
	ASSERT_EQ(0, start(self));
	ASSERT_EQ(0, ask(self, DEBUGGEE_OPEN, 0));
	ASSERT_EQ(0, ask(self, USER_START, 0));
	ASSERT_EQ(0, ask(self, USER_QUEUE, 0));
	ASSERT_EQ(0, replace(self));
	ASSERT_EQ(0, ask(self, RESTORE, 0));
	EXPECT_EQ(EFAULT, resume(self));
	EXPECT_EQ(EINVAL, resume(self));
	end(self);
	EXPECT_TRUE(objects_return_to(base, SOON_MS));
}

/* A process that is killed before its memory is there, or never has it. */
TEST_F(restored, user_memory_never)
{
	char base[OBJECTS_MAX];

	end(self);
	ASSERT_TRUE(objects_base(base, 1));
	ASSERT_EQ(0, start(self));
	ASSERT_EQ(0, ask(self, DEBUGGEE_OPEN, 0));
	ASSERT_EQ(0, ask(self, DEBUGGEE_QUEUE, 0));
	ASSERT_EQ(0, ask(self, USER_START, 0));
	ASSERT_EQ(0, replace(self));
	ASSERT_EQ(0, ask(self, RESTORE, 0));
	end(self);
	EXPECT_TRUE(objects_return_to(base, SOON_MS));
	ASSERT_EQ(0, start(self));
	ASSERT_EQ(0, ask(self, RESTORE, 0));
	ASSERT_EQ(0, resume(self));
	end(self);
	EXPECT_TRUE(objects_return_to(base, SOON_MS));
}

TEST_F(restored, shared_virtual_memory)
{
	ASSERT_EQ(0, ask(self, DEBUGGEE_OPEN, 0));
	ASSERT_EQ(0, ask(self, DEBUGGEE_QUEUE, 0));
	ASSERT_EQ(0, ask(self, SVM_START, 0));
	ASSERT_EQ(0, ask(self, SVM_THERE, 0));
	ASSERT_EQ(0, replace(self));
	ASSERT_EQ(0, ask(self, RESTORE, 1));
	ASSERT_EQ(0, resume(self));
	EXPECT_EQ(0, ask(self, SVM_THERE, 0));
}

/* Damaged data, at each kind of end of the process that gives them. */
TEST_F(restored, refused)
{
	char base[OBJECTS_MAX];

	SKIP_ON_AMDKFD("checks its data one by one, and has no checksum");
	end(self);
	ASSERT_TRUE(objects_base(base, 1));
	ASSERT_EQ(0, start(self));
	ASSERT_EQ(0, ask(self, DEBUGGEE_OPEN, 0));
	ASSERT_EQ(0, ask(self, DEBUGGEE_RUNTIME, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK));
	ASSERT_EQ(0, ask(self, DEBUGGEE_QUEUE, 0));
	ASSERT_EQ(0, ask(self, SDMA_START, 0));
	ASSERT_EQ(0, replace(self));
	EXPECT_EQ(0, ask(self, REFUSES, 0));
	EXPECT_EQ(EINVAL, resume(self));
	end(self);
	EXPECT_TRUE(objects_return_to(base, SOON_MS));
	/* What was good is good still, and can be resumed once. */
	ASSERT_EQ(0, start(self));
	EXPECT_EQ(ESRCH, resume(self));
	ASSERT_EQ(0, ask(self, RESTORE, 0));
	EXPECT_EQ(0, resume(self));
	EXPECT_EQ(EINVAL, resume(self));
	EXPECT_EQ(0, ask(self, DEBUGGEE_WORKS, 0));
	end(self);
	EXPECT_TRUE(objects_return_to(base, SOON_MS));
	/* It is killed before it is resumed. */
	ASSERT_EQ(0, start(self));
	ASSERT_EQ(0, ask(self, RESTORE, 0));
	end(self);
	EXPECT_TRUE(objects_return_to(base, SOON_MS));
}

KFD_HARNESS_MAIN
