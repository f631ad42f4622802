// SPDX-License-Identifier: GPL-2.0
/*
 * Followed SDMA queues (sdma_sched=2): their doorbells are the hardware's, and jobs are made after
 * the fact. Each byte that the engine has done must be in one job, in order, and no doorbell may be
 * lost, whichever queue has the slot. With other values of sdma_sched the copies are the same, and
 * nothing is said about jobs.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "debugfs.h"
#include "kfd_harness.h"
#include "packets.h"
#include "trace.h"

#define RING		(64u * 1024)
#define SMALL_RING	4096u
#define TIMEOUT_MS	KFD_HANG_MS
/* Some ticks, after which a queue that rests was looked at for the last time. */
#define REST_US		100000u

FIXTURE(followed)
{
	struct kfd_dev dev;
	struct kfd_bo bo[2];
	bool followed;
};

FIXTURE_SETUP(followed)
{
	char text[512] = "";
	int i;

	ASSERT_EQ(0, kfd_open(&self->dev));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, kfd_bo_create(&self->dev, &self->bo[i], 2 << 20, KFD_ALLOC_GTT));
	self->followed = kfd_is_rkfd() && debugfs_read("parameters", text, sizeof(text)) &&
			 debugfs_number(text, "sdma_sched") == 2;
}

FIXTURE_TEARDOWN(followed)
{
	int i;

	for (i = 0; i < 2; i++)
		EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &self->bo[i]));
	kfd_close(&self->dev);
}

/* The account of a queue's jobs in the trace. */
struct account {
	uint32_t queue;
	uint64_t announced, done;	/* bytes */
	unsigned int jobs, spans, gaps;
};

static void see(const char *line, int thread, void *arg)
{
	struct account *account = arg;
	unsigned long long from, to;
	unsigned int queue;
	const char *event;
	int pid;

	(void)thread;
	event = strstr(line, ": rkfd_doorbell: ");
	if (event && sscanf(event, ": rkfd_doorbell: pid=%d queue=%u wptr=%llx", &pid, &queue,
			    &to) == 3 && pid == getpid() && queue == account->queue) {
		account->gaps += to <= account->announced;
		account->announced = to;
		account->jobs++;
	}
	event = strstr(line, ": rkfd_sdma_span: ");
	if (event && sscanf(event, ": rkfd_sdma_span: pid=%d queue=%u from=%llx to=%llx", &pid,
			    &queue, &from, &to) == 4 && pid == getpid() && queue == account->queue) {
		account->gaps += from != account->done || to <= from;
		account->done = to;
		account->spans++;
	}
}

/* All bytes of the queue up to its write pointer are in jobs, in order, and all jobs have ended. */
static bool accounted(const struct kfd_queue *queue, unsigned int least)
{
	struct account account = { .queue = queue->id };

	trace_each(see, &account);
	printf("# %llu bytes: %u jobs, %u spans, %llu announced, %llu done, %u gaps\n",
	       (unsigned long long)queue->wptr, account.jobs, account.spans,
	       (unsigned long long)account.announced, (unsigned long long)account.done,
	       account.gaps);
	return account.announced == queue->wptr && account.done == queue->wptr && !account.gaps &&
	       account.jobs == account.spans && account.jobs >= least;
}

static bool watch(void)
{
	return trace_open("followed") && trace_enable("rkfd/rkfd_doorbell") &&
	       trace_enable("rkfd/rkfd_sdma_span");
}

#define COPY(queue, bytes)							\
	ASSERT_EQ(0, kfd_queue_copy(queue, (uintptr_t)self->bo[1].cpu,		\
				    (uintptr_t)self->bo[0].cpu, bytes, TIMEOUT_MS))

/* Copies with a rest after each: each is a job of its own. */
TEST_F(followed, each_copy_is_a_job)
{
	struct kfd_queue queue;
	int i;

	ASSERT_EQ(0, kfd_queue_create(&self->dev, &queue, RING));
	ASSERT_TRUE(!self->followed || watch());
	for (i = 0; i < 5; i++) {
		COPY(&queue, KFD_PAGE);
		usleep(REST_US);
	}
	if (self->followed) {
		EXPECT_TRUE(accounted(&queue, 5));
		trace_close();
	}
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &queue));
}

/* Copies that follow closely share jobs. A ring goes round many times between two looks. */
TEST_F(followed, a_stream_is_in_jobs)
{
	const int copies = self->followed ? 20000 : 500;
	struct kfd_queue queue;
	int i;

	ASSERT_EQ(0, kfd_queue_create(&self->dev, &queue, SMALL_RING));
	ASSERT_TRUE(!self->followed || watch());
	for (i = 0; i < copies; i++)
		COPY(&queue, 64);
	usleep(REST_US);
	if (self->followed) {
		EXPECT_TRUE(accounted(&queue, 1));
		trace_close();
	}
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &queue));
}

/* DESTROY_QUEUE makes jobs of what was not looked at yet. */
TEST_F(followed, a_queue_that_goes_is_accounted)
{
	struct kfd_queue queue, gone;
	int i;

	ASSERT_TRUE(!self->followed || watch());
	for (i = 0; i < 10; i++) {
		ASSERT_EQ(0, kfd_queue_create(&self->dev, &queue, RING));
		COPY(&queue, KFD_PAGE);
		gone = queue;
		ASSERT_EQ(0, kfd_queue_destroy(&self->dev, &queue));
		if (self->followed) {
			EXPECT_TRUE(accounted(&gone, 1));
			trace_clear();
		}
	}
	if (self->followed)
		trace_close();
}

/* One queue waits for memory for a while; the doorbells of the other have effect. */
TEST_F(followed, one_waits_and_others_work)
{
	volatile uint32_t *gate = self->bo[0].cpu;
	struct kfd_queue waiting, queue;
	struct packets p = { 0 };
	int i;

	ASSERT_EQ(0, kfd_queue_create(&self->dev, &waiting, RING));
	ASSERT_EQ(0, kfd_queue_create(&self->dev, &queue, RING));
	*gate = 0;
	sdma_wait_memory(&p, (uintptr_t)gate, 1);
	kfd_queue_submit(&waiting, p.dwords, p.count);
	for (i = 0; i < 20; i++) {
		COPY(&queue, KFD_PAGE);
		*gate = 0;
		usleep(1000 * i);
	}
	*gate = 1;
	EXPECT_EQ(0, kfd_queue_finish(&waiting, TIMEOUT_MS));
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &waiting));
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &queue));
}

/* More queues on one engine than it has doorbells for a process, by turns and together. */
TEST_F(followed, more_queues_than_doorbells)
{
	struct kfd_queue queues[12];
	unsigned int i, round;

	for (i = 0; i < ARRAY_SIZE(queues); i++)
		ASSERT_EQ(0, kfd_queue_create_on(&self->dev, &queues[i], RING, 0));
	for (round = 0; round < 10; round++)
		for (i = 0; i < ARRAY_SIZE(queues); i++)
			COPY(&queues[i], KFD_PAGE);
	for (i = 0; i < ARRAY_SIZE(queues); i++) {
		struct packets p = { 0 };

		sdma_copy(&p, (uintptr_t)self->bo[1].cpu, (uintptr_t)self->bo[0].cpu, 1 << 20);
		kfd_queue_submit(&queues[i], p.dwords, p.count);
	}
	for (i = 0; i < ARRAY_SIZE(queues); i++)
		EXPECT_EQ(0, kfd_queue_finish(&queues[i], TIMEOUT_MS));
	for (i = 0; i < ARRAY_SIZE(queues); i++)
		EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &queues[i]));
}

/* More than the four doorbells that an engine has for a process, fewer than slots and VMIDs. */
#define SHARERS		6u
#define SEATED_MS	5000u

/* Shared by the processes that have their queues in slots at once. */
struct meeting {
	volatile unsigned int ready, go;
};

/* In a child: a queue on engine 0 waits for memory until all may go on. */
static int waits_in_a_slot(struct meeting *meeting)
{
	volatile uint32_t *gate;
	struct kfd_queue queue;
	struct packets p = { 0 };
	struct kfd_dev dev;
	struct kfd_bo bo;

	if (kfd_open(&dev) || kfd_bo_create(&dev, &bo, KFD_PAGE, KFD_ALLOC_GTT) ||
	    kfd_queue_create_on(&dev, &queue, RING, 0))
		return 1;
	gate = bo.cpu;
	*gate = 0;
	sdma_wait_memory(&p, (uintptr_t)gate, 1);
	kfd_queue_submit(&queue, p.dwords, p.count);
	__atomic_add_fetch(&meeting->ready, 1, __ATOMIC_SEQ_CST);
	while (!meeting->go)
		usleep(1000);
	*gate = 1;
	return kfd_queue_finish(&queue, TIMEOUT_MS) || kfd_queue_destroy(&dev, &queue);
}

/* The number of queues of engine 0 that are in a slot, of these processes. */
static unsigned int seated(const pid_t *pids, unsigned int count)
{
	static char text[65536];
	char *line, *rest = text;
	unsigned int n = 0, i;

	if (!debugfs_read("queues", text, sizeof(text)))
		return 0;
	while ((line = strsep(&rest, "\n"))) {
		unsigned int engine, slot;
		int pid;

		if (sscanf(line, "%d %*u %*s %u %u ", &pid, &engine, &slot) != 3 || engine != 0)
			continue;
		for (i = 0; i < count; i++)
			n += pids[i] == pid;
	}
	return n;
}

/* Queues of several processes have all slots of an engine: none is bound to its doorbell. */
TEST_F(followed, any_slot)
{
	struct meeting *meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned int most = 0, looks, i;
	pid_t pids[SHARERS];

	SKIP_ON_AMDKFD("does not say which slots queues have");
	ASSERT_NE(MAP_FAILED, meeting);
	for (i = 0; i < SHARERS; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			_exit(waits_in_a_slot(meeting));
		ASSERT_LT(0, pids[i]);
	}
	for (looks = 0; meeting->ready < SHARERS && looks < TIMEOUT_MS / 20; looks++)
		usleep(20000);
	/* They may take a while to be loaded. */
	for (looks = 0; most < SHARERS && looks < SEATED_MS / 20; looks++) {
		const unsigned int now = seated(pids, SHARERS);

		most = now > most ? now : most;
		usleep(20000);
	}
	meeting->go = 1;
	EXPECT_EQ(SHARERS, most);
	for (i = 0; i < SHARERS; i++) {
		int status;

		ASSERT_EQ(pids[i], waitpid(pids[i], &status, 0));
		EXPECT_EQ(0, status);
	}
	munmap(meeting, sizeof(*meeting));
}

/* A process that spoils its pointers in memory spoils the account, and nothing else. */
TEST_F(followed, forged_pointers)
{
	static const uint64_t values[] = { 0, 7, 1ull << 63, ~0ull, RING * 4ull, 4 };
	volatile uint64_t *pointers;
	struct kfd_queue queue;
	unsigned int i;

	ASSERT_EQ(0, kfd_queue_create(&self->dev, &queue, RING));
	pointers = queue.pointers.cpu;
	for (i = 0; i < ARRAY_SIZE(values); i++) {
		COPY(&queue, KFD_PAGE);
		pointers[KFD_QUEUE_RPTR / 8] = values[i];
		usleep(20000);
		COPY(&queue, KFD_PAGE);
		pointers[KFD_QUEUE_WPTR / 8] = values[i];
		usleep(20000);
	}
	COPY(&queue, KFD_PAGE);
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &queue));
}

KFD_HARNESS_MAIN
