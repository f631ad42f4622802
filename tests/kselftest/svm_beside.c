// SPDX-License-Identifier: GPL-2.0
/*
 * Page faults that are retried (XNACK) beside other changes of a process's memory: they are
 * resolved soon, so that the queues get on and are not taken for hung.
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kfd_harness.h"
#include "pagemap.h"
#include "svm_work.h"

#define MIB		(1ull << 20)
#define HUGE		(2 * MIB)
/* An amount that takes some seconds in small pages. */
#define MUCH		(1024 * MIB)

FIXTURE(svm_beside)
{
	struct kfd_dev dev;
	struct kfd_queue queue;
	struct kfd_bo vram;
	uint8_t *mem;
};

FIXTURE_SETUP(svm_beside)
{
	ASSERT_EQ(0, kfd_open(&self->dev));
	ASSERT_EQ(0, xnack_set(self->dev.fd, 1));
	ASSERT_EQ(0, kfd_queue_create(&self->dev, &self->queue, RING));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &self->vram, SIZE, KFD_ALLOC_VRAM));
	self->mem = kfd_reserve(MUCH, HUGE);
	ASSERT_EQ(self->mem, memory(self->mem, MUCH));
}

FIXTURE_TEARDOWN(svm_beside)
{
	EXPECT_EQ(0, munmap(self->mem, MUCH));
	kfd_close(&self->dev);
}

struct long_call {
	const struct kfd_dev *dev;
	uint8_t *mem;
	volatile int err;
};

static void *call_long(void *data)
{
	struct long_call *call = data;

	call->err = svm_set(call->dev->fd, call->mem, MUCH, SVM_PREFETCH, call->dev->gpu_id);
	return NULL;
}

/* A queue that needs a page does not wait until another thread's call has done a gigabyte. */
TEST_F(svm_beside, a_long_call)
{
	struct long_call call = { .dev = &self->dev, .mem = self->mem, .err = -1 };
	uint8_t *mem = memory(NULL, SIZE);
	pthread_t thread;

	ASSERT_EQ(0, madvise(call.mem, MUCH, MADV_NOHUGEPAGE));
	memset(mem, 0x61, SIZE);
	ASSERT_EQ(0, pthread_create(&thread, NULL, call_long, &call));
	while (in_vram(call.mem, HUGE) == 0 && call.err == -1)
		usleep(1000);
	ASSERT_EQ(0, copy(&self->queue, self->vram.cpu, mem, SIZE));
	EXPECT_EQ(-1, call.err);
	EXPECT_TRUE(all(self->vram.cpu, 0x61, SIZE));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(0, call.err);
	EXPECT_EQ(MUCH / KFD_PAGE, in_vram(call.mem, MUCH));
	munmap(mem, SIZE);
}

/* Threads that change a process's memory all the time: its lock always has a waiter. */
#define CHANGERS	4u

struct changers {
	uint8_t *mem;
	volatile bool stop;
	volatile uint32_t changes;
};

static void *change_all_the_time(void *data)
{
	struct changers *changers = data;
	int access = PROT_READ;

	while (!changers->stop) {
		if (mprotect(changers->mem, MUCH, access))
			return data;
		access ^= PROT_WRITE;
		__sync_fetch_and_add(&changers->changes, 1);
	}
	return NULL;
}

/* More queues than an engine has slots for. */
#define OTHERS		3u

/*
 * A queue that faults in a process with many threads gets its pages, and is not a failure when
 * other queues want its slot.
 */
TEST_F(svm_beside, threads_that_change_memory)
{
	struct changers changers = { .mem = self->mem };
	volatile uint32_t *shared = kfd_share();
	pthread_t threads[CHANGERS];
	uint64_t end;
	unsigned int i, round = 0;
	pid_t pid[OTHERS];
	int status, err = 0;

	ASSERT_NE(NULL, shared);
	for (i = 0; i < OTHERS; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (pid[i] == 0)
			_exit(work_beside(&shared[0], &shared[1 + i], 1));
	}
	for (i = 0; i < MUCH / HUGE; i++)
		changers.mem[i * HUGE] = 1;
	for (i = 0; i < CHANGERS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, change_all_the_time, &changers));
	end = kfd_now_ms() + 10000;
	while (!err && kfd_now_ms() < end) {
		uint8_t *mem = memory(NULL, SIZE);

		round++;
		memset(mem, (int)round, SIZE);
		err = copy(&self->queue, self->vram.cpu, mem, SIZE);
		EXPECT_TRUE(err || all(self->vram.cpu, (uint8_t)round, SIZE));
		munmap(mem, SIZE);
	}
	EXPECT_EQ(0, err);
	printf("# %u rounds beside %u changes and %u copies of other processes\n", round,
	       changers.changes, shared[1] + shared[2] + shared[3]);
	changers.stop = true;
	for (i = 0; i < CHANGERS; i++) {
		void *failed;

		ASSERT_EQ(0, pthread_join(threads[i], &failed));
		EXPECT_EQ(NULL, failed);
	}
	shared[0] = 1;
	for (i = 0; i < OTHERS; i++) {
		EXPECT_EQ(pid[i], waitpid(pid[i], &status, 0));
		EXPECT_EQ(0, status);
	}
}

KFD_HARNESS_MAIN
