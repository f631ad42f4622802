// SPDX-License-Identifier: GPL-2.0
/*
 * Page faults (XNACK on) whose pages a program has to provide, and does not: they hold up no other
 * fault of the process, and no process beside it.
 */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "kfd_harness.h"
#include "kworkers.h"
#include "svm_touch.h"
#include "user_faults.h"

#define HUGE		(2u << 20)
/* More pages than one process's faults may keep places for in the CAM. */
#define SOME		(2 * LANES)
/* More than the CAM has places. */
#define MANY		(24 * LANES)
/* Processes of which each may keep LANES places: together as many as the CAM has. */
#define HOARDERS	16u
/* The time that a copy beside the faults may take. */
#define SOON_MS		20000u
/* For this long, the kernel's threads are watched. */
#define WATCH_MS	2000u

FIXTURE(pending)
{
	struct kfd_dev dev;
	struct kfd_queue queue;
	struct kfd_bo vram;
	volatile uint32_t *shared;
};

FIXTURE_SETUP(pending)
{
	self->shared = kfd_share();
	ASSERT_NE(NULL, (void *)self->shared);
}

FIXTURE_TEARDOWN(pending)
{
}

/* A compute queue whose waves wait for pages. */
struct waiting {
	struct kfd_dev dev;
	struct kfd_compute compute;
	struct kfd_save save;
	struct waves waves;
	uint8_t *mem;
	unsigned int pages;
	int uffd;
};

/* Makes waves wait for @pages pages; false on failure. */
static bool wait_for(struct waiting *w, unsigned int pages)
{
	const size_t size = (size_t)pages * KFD_PAGE;
	struct pollfd ready = { .events = POLLIN };

	w->pages = pages;
	if (kfd_open(&w->dev) || xnack_set(w->dev.fd, 1) || kfd_save_create(&w->dev, &w->save) ||
	    kfd_compute_create(&w->dev, &w->compute, &w->save, false, RING) ||
	    waves_create(&w->dev, &w->waves, 1))
		return false;
	w->mem = kfd_reserve(size, HUGE);
	if (!w->mem || memory(w->mem, size) != w->mem)
		return false;
	w->uffd = handle_faults(w->mem, size);
	ready.fd = w->uffd;
	return w->uffd >= 0 && start_touch(&w->compute, &w->waves, w->mem, pages) &&
	       /* The driver asks for one of them. */
	       poll(&ready, 1, WAIT_MS) == 1;
}

/* Provides the pages: true if the waves get on. */
static bool provide(struct waiting *w)
{
	return !provide_zeros(w->uffd, w->mem, w->pages) && touched(w->mem, w->pages, 1);
}

/* Copies memory that the GPU has not accessed yet: 0, or the error. */
static int copy_fresh(struct kfd_queue *queue, const struct kfd_bo *vram)
{
	uint8_t *mem = memory(NULL, SIZE);
	int err;

	memset(mem, 0x51, SIZE);
	memset(vram->cpu, 0, SIZE);
	err = kfd_queue_copy(queue, (uintptr_t)vram->cpu, (uintptr_t)mem, SIZE, SOON_MS);
	if (!err && memcmp(vram->cpu, mem, SIZE))
		err = EIO;
	munmap(mem, SIZE);
	return err;
}

/* Faults of the process whose pages are there are resolved, behind any number of others. */
TEST_F(pending, others_of_the_process)
{
	unsigned long long before, after;
	struct waiting w;

	ASSERT_TRUE(wait_for(&w, SOME));
	ASSERT_EQ(0, kfd_queue_create(&w.dev, &self->queue, RING));
	ASSERT_EQ(0, kfd_bo_create(&w.dev, &self->vram, SIZE, KFD_ALLOC_VRAM));
	EXPECT_EQ(0, copy_fresh(&self->queue, &self->vram));
	before = kworkers("u").run_ns;
	usleep(WATCH_MS * 1000);
	after = kworkers("u").run_ns;
	TH_LOG("the kernel's threads ran for %llu us of %u ms", (after - before) / 1000, WATCH_MS);
	/* They do not look at these pages all the time. */
	EXPECT_GT(WATCH_MS * 1000000ull / 20 * 19, after - before);
	EXPECT_TRUE(provide(&w));
	kfd_close(&w.dev);
}

/* The last page first, as a program may provide them. */
TEST_F(pending, in_another_order)
{
	struct waiting w;
	unsigned int i;

	ASSERT_TRUE(wait_for(&w, SOME));
	for (i = SOME; i--;)
		ASSERT_EQ(0, provide_zeros(w.uffd, w.mem + (size_t)i * KFD_PAGE, 1));
	EXPECT_TRUE(touched(w.mem, SOME, 1));
	kfd_close(&w.dev);
}

/* In a child: copies memory that the GPU has not accessed yet, until *@stop. */
static int bystander(volatile uint32_t *stop, volatile uint32_t *copies)
{
	struct kfd_queue queue;
	struct kfd_bo vram;
	struct kfd_dev dev;
	int err;

	if (kfd_open(&dev) || xnack_set(dev.fd, 1) || kfd_queue_create(&dev, &queue, RING) ||
	    kfd_bo_create(&dev, &vram, SIZE, KFD_ALLOC_VRAM))
		return 1;
	while (!*stop) {
		err = copy_fresh(&queue, &vram);
		if (err)
			return err;
		(*copies)++;
	}
	return 0;
}

static bool copies_go_on(volatile uint32_t *copies)
{
	const uint32_t wanted = *copies + 3;
	const uint64_t end = kfd_now_ms() + SOON_MS;

	while (*copies < wanted && kfd_now_ms() < end)
		usleep(1000);
	return *copies >= wanted;
}

static int exit_status(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* More faults of one process than there are places do not keep out those of another. */
TEST_F(pending, more_than_there_are_places)
{
	struct waiting w;
	pid_t pid;

	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0)
		_exit(bystander(&self->shared[0], &self->shared[1]));
	EXPECT_TRUE(copies_go_on(&self->shared[1]));
	ASSERT_TRUE(wait_for(&w, MANY));
	EXPECT_TRUE(copies_go_on(&self->shared[1]));
	EXPECT_TRUE(copies_go_on(&self->shared[1]));
	self->shared[0] = 1;
	EXPECT_EQ(0, exit_status(pid));
	EXPECT_TRUE(provide(&w));
	kfd_close(&w.dev);
}

/* In a child: waits with waves for pages that never come, and says so in *@waiting. */
static int wait_for_ever(volatile uint32_t *waiting)
{
	struct waiting w;

	if (!wait_for(&w, SOME))
		return 1;
	__atomic_fetch_add(waiting, 1, __ATOMIC_RELAXED);
	for (;;)
		pause();
}

/*
 * So many processes could fill the CAM, each with no more faults than one process's may keep: they
 * keep a part of it together, and another process's faults are served. Without the hardware's
 * scheduler processes beyond the number of VMIDs take turns, in which the copies are not at once:
 * fewer hoarders are enough to fill that part there.
 */
TEST_F(pending, of_many_processes)
{
	volatile uint32_t *waiting = &self->shared[2];
	const unsigned int hoarders = kfd_sched_is_direct() ? 6 : HOARDERS;
	uint64_t end = kfd_now_ms() + WAIT_MS;
	pid_t pid, hoarder[HOARDERS];
	unsigned int i;

	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0)
		_exit(bystander(&self->shared[0], &self->shared[1]));
	EXPECT_TRUE(copies_go_on(&self->shared[1]));
	for (i = 0; i < hoarders; i++) {
		hoarder[i] = fork();
		ASSERT_LE(0, hoarder[i]);
		if (hoarder[i] == 0)
			_exit(wait_for_ever(waiting));
	}
	while (*waiting < hoarders && kfd_now_ms() < end)
		usleep(1000);
	EXPECT_EQ(hoarders, *waiting);
	for (i = 0; i < 2; i++)
		EXPECT_TRUE(copies_go_on(&self->shared[1]));
	for (i = 0; i < hoarders; i++) {
		EXPECT_EQ(0, kill(hoarder[i], SIGKILL));
		EXPECT_EQ(-1, exit_status(hoarder[i]));
	}
	EXPECT_TRUE(copies_go_on(&self->shared[1]));
	self->shared[0] = 1;
	EXPECT_EQ(0, exit_status(pid));
}

KFD_HARNESS_MAIN
