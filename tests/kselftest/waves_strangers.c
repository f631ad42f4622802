// SPDX-License-Identifier: GPL-2.0
/*
 * Waves of several processes: a long dispatch of one does not block another, and a process that
 * harms waves harms only its own.
 */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "debugfs.h"
#include "waves_fixture.h"

/* Milliseconds that a queue may take to leave before it counts as hung. */
#define HANG_MS		2000u

static volatile uint32_t *share(void)
{
	void *shared = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			    0);

	return shared == MAP_FAILED ? NULL : shared;
}

static int exit_status(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Runs @f in a process of its own. */
static pid_t process(void (*f)(volatile uint32_t *shared), volatile uint32_t *shared)
{
	const pid_t pid = fork();

	if (pid == 0) {
		f(shared);
		_exit(0);
	}
	return pid;
}

/* Makes queues and destroys them, until shared[0] is set; counts them in shared[1]. */
static void come_and_go(volatile uint32_t *shared)
{
	struct kfd_compute queue;
	struct kfd_save save;
	struct kfd_dev dev;

	if (kfd_open(&dev) || kfd_save_create(&dev, &save))
		_exit(1);
	while (!shared[0]) {
		if (kfd_compute_create(&dev, &queue, &save, false, RING) ||
		    !kfd_compute_works(&queue, TIMEOUT_MS) || kfd_compute_destroy(&dev, &queue))
			_exit(2);
		shared[1]++;
	}
}

/* Milliseconds that a dispatch lasts; RKFD_SECONDS overrides it. */
static unsigned int long_ms(void)
{
	const char *said = getenv("RKFD_SECONDS");

	return said ? (unsigned int)strtoul(said, NULL, 10) * 1000 : 2 * HANG_MS;
}

/* A dispatch that lasts longer than queues may take to leave does not count as hung. */
TEST_F(waves, strangers_come_and_go)
{
	volatile uint32_t *shared = share();
	const uint64_t begun = kfd_now_ms(), end = begun + long_ms();
	pid_t pid;

	ASSERT_NE(NULL, shared);
	ASSERT_TRUE(waves_start(&self->waves, &self->queue, WAVES_MIDDLE, 64, true));
	ASSERT_TRUE(waves_go_on(&self->waves, TIMEOUT_MS));
	pid = process(come_and_go, shared);
	while (kfd_now_ms() < end || shared[1] < work(100, 10))
		if (kfd_now_ms() > end + TIMEOUT_MS || !waves_go_on(&self->waves, TIMEOUT_MS))
			break;
	shared[0] = 1;
	EXPECT_EQ(0, exit_status(pid));
	EXPECT_LE(work(100, 10), shared[1]);
	ASSERT_TRUE(waves_go_on(&self->waves, TIMEOUT_MS));
	TH_LOG("a dispatch of %llu ms and %u queues of another process",
	       (unsigned long long)(kfd_now_ms() - begun), shared[1]);
	waves_stop(&self->waves);
	ASSERT_TRUE(waves_ended(&self->waves, TIMEOUT_MS));
	EXPECT_EQ(0, waves_bad(&self->waves));
}

/* Starts a wave without a trap handler, which cannot be saved, and waits. */
static void cannot_be_saved(volatile uint32_t *shared)
{
	struct kfd_compute queue;
	struct kfd_save save;
	struct waves waves;
	struct kfd_dev dev;

	if (kfd_open(&dev) || kfd_save_create(&dev, &save) || waves_create(&dev, &waves, 1) ||
	    kfd_compute_create(&dev, &queue, &save, false, RING) ||
	    !waves_start(&waves, &queue, WAVES_SMALL, 1, false) ||
	    !waves_go_on(&waves, TIMEOUT_MS))
		_exit(1);
	shared[2] = 1;
	while (!shared[0])
		usleep(1000);
	/* It is gone. */
	if (waves_go_on(&waves, 100))
		_exit(2);
	kfd_close(&dev);
}

/* A queue that cannot be saved is reset, and no other is. */
TEST_F(waves, one_that_cannot_be_saved)
{
	volatile uint32_t *shared = share();
	struct kfd_compute other;
	pid_t pid;

	ASSERT_NE(NULL, shared);
	ASSERT_TRUE(waves_start(&self->waves, &self->queue, WAVES_MIDDLE, 64, true));
	ASSERT_TRUE(waves_go_on(&self->waves, TIMEOUT_MS));
	pid = process(cannot_be_saved, shared);
	while (!shared[2] && waitpid(pid, NULL, WNOHANG) == 0)
		usleep(1000);
	ASSERT_EQ(1, shared[2]);
	/* With sched=hws that takes the stranger's queue off, too; otherwise its own exit does. */
	ASSERT_EQ(0, kfd_compute_create(&self->dev, &other, &self->save, false, RING));
	EXPECT_TRUE(kfd_compute_works(&other, TIMEOUT_MS));
	ASSERT_EQ(0, kfd_compute_destroy(&self->dev, &other));
	if (kfd_sched_is_direct()) {
		kill(pid, SIGKILL);
		ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	} else {
		shared[0] = 1;
		EXPECT_EQ(0, exit_status(pid));
	}
	EXPECT_TRUE(waves_go_on(&self->waves, TIMEOUT_MS));
	waves_stop(&self->waves);
	ASSERT_TRUE(waves_ended(&self->waves, TIMEOUT_MS));
	EXPECT_EQ(0, waves_bad(&self->waves));
}

/* Changes by a process to its own waves, and to their save area, before shared[0] is set. */
static void take_off_and_on(volatile uint32_t *shared, const struct kfd_dev *dev,
			    const struct kfd_compute *queue, struct kfd_save *save)
{
	(void)save;
	while (!shared[0])
		if (kfd_compute_update(dev, queue, 0) || kfd_compute_update(dev, queue, 100))
			_exit(3);
}

static void unmap_area(volatile uint32_t *shared, const struct kfd_dev *dev,
		       const struct kfd_compute *queue, struct kfd_save *save)
{
	(void)dev;
	(void)queue;
	if (munmap(save->bo.cpu, save->bo.size))
		_exit(3);
	shared[3] = 1;
	while (!shared[0])
		usleep(1000);
}

static void overwrite_area(volatile uint32_t *shared, const struct kfd_dev *dev,
			   const struct kfd_compute *queue, struct kfd_save *save)
{
	if (kfd_compute_update(dev, queue, 0))
		_exit(3);
	memset(save->bo.cpu, (int)shared[4], save->bo.size);
	if (kfd_compute_update(dev, queue, 100))
		_exit(4);
	shared[3] = 1;
	while (!shared[0])
		usleep(1000);
}

/*
 * A process with endless waves does @deed; shared[2] shows that they run. With @own they are
 * saved in memory of the process, which takes the debug kernel a minute to map.
 */
static pid_t evildoer(volatile uint32_t *shared, bool own,
		      void (*deed)(volatile uint32_t *shared, const struct kfd_dev *dev,
				   const struct kfd_compute *queue, struct kfd_save *save))
{
	const pid_t pid = fork();
	struct kfd_compute queue;
	struct kfd_save save;
	struct waves waves;
	struct kfd_dev dev;
	size_t size;

	if (pid)
		return pid;
	if (kfd_open(&dev) || kfd_save_create(&dev, &save))
		_exit(1);
	size = save.bo.size;
	if (own && (kfd_save_destroy(&dev, &save) ||
		    kfd_bo_create(&dev, &save.bo, size, KFD_ALLOC_USERPTR)))
		_exit(1);
	if (waves_create(&dev, &waves, 64) ||
	    kfd_compute_create(&dev, &queue, &save, false, RING) ||
	    !waves_start(&waves, &queue, WAVES_MIDDLE, 64, true) ||
	    !waves_go_on(&waves, TIMEOUT_MS))
		_exit(2);
	shared[2] = 1;
	deed(shared, &dev, &queue, &save);
	/* They are gone, or the process is killed before. */
	_exit(waves_go_on(&waves, 100) ? 5 : 0);
}

/* True if @pid sets shared[@at] in time. */
static bool gets_to(pid_t pid, volatile uint32_t *shared, unsigned int at)
{
	while (!shared[at] && waitpid(pid, NULL, WNOHANG) == 0)
		usleep(1000);
	return shared[at];
}

/* The fixture's own waves are unaffected by other processes. */
static void unharmed(struct __test_metadata *_metadata, FIXTURE_DATA(waves) *self)
{
	EXPECT_TRUE(waves_go_on(&self->waves, TIMEOUT_MS))
	{
		TH_LOG("this process is %d; the driver's queues:", getpid());
		fflush(stdout);
		if (system("sed 's/^/# /' /sys/kernel/debug/rkfd/*/queues /sys/kernel/debug/rkfd/*/ih"))
			TH_LOG("cannot be shown");
	}
	waves_stop(&self->waves);
	ASSERT_TRUE(waves_ended(&self->waves, TIMEOUT_MS));
	EXPECT_EQ(0, waves_bad(&self->waves));
	EXPECT_TRUE(kfd_compute_works(&self->queue, TIMEOUT_MS));
}

/* Somewhere between a save and a restore. */
TEST_F(waves, killed_on_the_way)
{
	volatile uint32_t *shared = share();
	unsigned int i;

	ASSERT_NE(NULL, shared);
	ASSERT_TRUE(waves_start(&self->waves, &self->queue, WAVES_MIDDLE, 64, true));
	for (i = 0; i < work(10, 3); i++) {
		pid_t pid;

		shared[2] = 0;
		pid = evildoer(shared, false, take_off_and_on);
		ASSERT_TRUE(gets_to(pid, shared, 2));
		usleep(7000 * i);
		kill(pid, SIGKILL);
		ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	}
	unharmed(_metadata, self);
}

/* A process that unmaps its own save area, or writes to it, harms only itself. */
TEST_F(waves, an_area_that_is_unmapped)
{
	volatile uint32_t *shared = share();
	pid_t pid;

	ASSERT_NE(NULL, shared);
	ASSERT_TRUE(waves_start(&self->waves, &self->queue, WAVES_MIDDLE, 64, true));
	pid = evildoer(shared, true, unmap_area);
	ASSERT_TRUE(gets_to(pid, shared, 3));
	EXPECT_TRUE(waves_go_on(&self->waves, TIMEOUT_MS));
	shared[0] = 1;
	EXPECT_EQ(0, exit_status(pid));
	unharmed(_metadata, self);
}

TEST_F(waves, an_area_that_is_overwritten)
{
	/*
	 * STATUS of the restored waves: trap handler enabled and running on, at a PC without
	 * code; no trap handler; halted. In MODE, rounding and VSKIP stay unchanged, as the
	 * model has no others.
	 */
	static const uint8_t bytes[] = { 0xc0, 0x00, 0xa0 };
	volatile uint32_t *shared = share();
	unsigned int i;

	ASSERT_NE(NULL, shared);
	ASSERT_TRUE(waves_start(&self->waves, &self->queue, WAVES_MIDDLE, 64, true));
	for (i = 0; i < ARRAY_SIZE(bytes); i++) {
		pid_t pid;

		memset((void *)shared, 0, KFD_PAGE);
		shared[4] = bytes[i];
		pid = evildoer(shared, false, overwrite_area);
		ASSERT_TRUE(gets_to(pid, shared, 3));
		EXPECT_TRUE(waves_go_on(&self->waves, TIMEOUT_MS));
		shared[0] = 1;
		EXPECT_EQ(0, exit_status(pid));
	}
	unharmed(_metadata, self);
}

#define SHARERS		10u
#define QUEUES		4u

/* Endless waves on some queues, until shared[0] is set; rounds from shared[16] on. */
static void endless(volatile uint32_t *shared, unsigned int me)
{
	struct kfd_compute queue[QUEUES];
	struct waves waves[QUEUES];
	struct kfd_save save[QUEUES];
	struct kfd_dev dev;
	unsigned int i;

	if (kfd_open(&dev))
		_exit(1);
	for (i = 0; i < QUEUES; i++)
		if (kfd_save_create(&dev, &save[i]) || waves_create(&dev, &waves[i], 1) ||
		    kfd_compute_create(&dev, &queue[i], &save[i], false, KFD_PAGE) ||
		    !waves_start(&waves[i], &queue[i], WAVES_SMALL, 1, true))
			_exit(2);
	for (i = 0; i < QUEUES; i++)
		if (!waves_go_on(&waves[i], TIMEOUT_MS))
			_exit(3);
	__sync_fetch_and_add((uint32_t *)&shared[2], 1);
	while (!shared[0]) {
		for (i = 0; i < QUEUES; i++)
			shared[16 + me * QUEUES + i] = (uint32_t)waves_rounds(&waves[i]);
		usleep(1000);
	}
	for (i = 0; i < QUEUES; i++)
		waves_stop(&waves[i]);
	for (i = 0; i < QUEUES; i++)
		if (!waves_ended(&waves[i], TIMEOUT_MS) || waves_bad(&waves[i]))
			_exit(4);
	for (i = 0; i < QUEUES; i++)
		if (kfd_compute_destroy(&dev, &queue[i]) || waves_destroy(&dev, &waves[i]) ||
		    kfd_save_destroy(&dev, &save[i]))
			_exit(5);
	kfd_close(&dev);
}

/* More processes with endless waves than there are VMIDs: all get an equal part. */
TEST_F(waves, all_have_turns)
{
	volatile uint32_t *shared = share();
	uint32_t begun[SHARERS * QUEUES], least, most;
	pid_t pid[SHARERS];
	bool is_fair = false;
	unsigned int i, tries;

	ASSERT_NE(NULL, shared);
	for (i = 0; i < SHARERS; i++) {
		pid[i] = fork();
		if (pid[i] == 0) {
			endless(shared, i);
			_exit(0);
		}
		while (shared[2] < i + 1 && waitpid(pid[i], NULL, WNOHANG) == 0)
			usleep(1000);
		ASSERT_EQ(i + 1, shared[2]);
	}
	/* A busy host may let one of the GPU's threads wait for seconds, but not each time. */
	for (tries = 0; tries < 3 && !is_fair; tries++) {
		least = UINT32_MAX;
		most = 0;
		for (i = 0; i < SHARERS * QUEUES; i++)
			begun[i] = shared[16 + i];
		usleep(work(10, 4) * 1000 * 1000);
		for (i = 0; i < SHARERS * QUEUES; i++) {
			const uint32_t done = shared[16 + i] - begun[i];

			least = done < least ? done : least;
			most = done > most ? done : most;
		}
		TH_LOG("rounds of %u queues of %u processes: %u to %u, %.2f", SHARERS * QUEUES,
		       SHARERS, least, most, (double)least / most);
		/* In less time, the result depends on the time slices in it. */
		is_fair = least && (quick() ? 5ull : 8ull) * most <= 10ull * least;
	}
	shared[0] = 1;
	for (i = 0; i < SHARERS; i++)
		EXPECT_EQ(0, exit_status(pid[i]));
	EXPECT_TRUE(is_fair);
}

/* Statistics of the hardware's scheduler, from debugfs; false where it is not used. */
static bool lists(long long *count, long long *between_us)
{
	char text[256];

	if (!debugfs_read("runlists", text, sizeof(text)))
		return false;
	*count = debugfs_number(text, "lists");
	*between_us = debugfs_number(text, "between_us");
	return true;
}

static int set_mask(const struct kfd_dev *dev, const struct kfd_compute *queue, uint32_t mask)
{
	struct kfd_ioctl_set_cu_mask_args args = {
		.queue_id = queue->id,
		.num_cu_mask = 32,
		.cu_mask_ptr = (uintptr_t)&mask,
	};

	return kfd_ioctl(dev->fd, AMDKFD_IOC_SET_CU_MASK, &args);
}

/*
 * Changes of a queue, those that change nothing and others, and milliseconds that a list may
 * have to run before it is replaced.
 */
#define CHANGES		40u
#define LIST_MS		10u

static void change(volatile uint32_t *shared)
{
	long long count, between, count_then, between_then;
	struct kfd_compute queue;
	struct kfd_save save;
	struct kfd_dev dev;
	uint64_t began;
	unsigned int i;

	if (kfd_open(&dev) || kfd_save_create(&dev, &save) ||
	    kfd_compute_create(&dev, &queue, &save, false, RING) ||
	    !kfd_compute_works(&queue, TIMEOUT_MS))
		_exit(1);
	if (kfd_compute_update(&dev, &queue, 100) || set_mask(&dev, &queue, 0xff))
		_exit(2);
	if (!lists(&count, &between))
		_exit(7);
	for (i = 0; i < CHANGES; i++)
		if (kfd_compute_update(&dev, &queue, 100) || set_mask(&dev, &queue, 0xff))
			_exit(3);
	if (!lists(&count_then, &between_then) || count_then != count)
		_exit(4);
	began = kfd_now_ms();
	for (i = 0; i < CHANGES; i++)
		if (set_mask(&dev, &queue, i % 2 ? 0xff : 0xf))
			_exit(5);
	shared[2] = (uint32_t)(kfd_now_ms() - began);
	if (!lists(&count, &between))
		_exit(7);
	shared[3] = (uint32_t)(count - count_then);
	shared[4] = (uint32_t)((between - between_then) / 1000);
	if (kfd_compute_destroy(&dev, &queue) || kfd_save_destroy(&dev, &save))
		_exit(6);
	kfd_close(&dev);
}

/*
 * Waves go on beside a process that does @stranger. They are on the hardware for more than @most
 * times as long as they are not, or for a while with each list.
 */
static void beside_a_stranger(struct __test_metadata *_metadata, FIXTURE_DATA(waves) *self,
			      void (*stranger)(volatile uint32_t *shared), unsigned int most)
{
	volatile uint32_t *shared = share();
	long long count, between;
	uint32_t ran;

	ASSERT_NE(NULL, shared);
	if (!lists(&count, &between))
		SKIP(return, "not the hardware's scheduler");
	ASSERT_TRUE(waves_start(&self->waves, &self->queue, WAVES_SMALL, 4, true));
	ASSERT_TRUE(waves_go_on(&self->waves, TIMEOUT_MS));
	EXPECT_EQ(0, exit_status(process(stranger, shared)));
	TH_LOG("%u lists in %u ms; for %u ms of that there was none", shared[3], shared[2],
	       shared[4]);
	EXPECT_LT(0, shared[3]);
	ran = shared[2] - shared[4];
	EXPECT_TRUE(ran > most * shared[4] || ran > LIST_MS * shared[3]);
	EXPECT_TRUE(waves_go_on(&self->waves, TIMEOUT_MS));
	waves_stop(&self->waves);
	EXPECT_TRUE(waves_ended(&self->waves, TIMEOUT_MS));
	EXPECT_EQ(0, waves_bad(&self->waves));
}

/*
 * A process that changes a queue again and again does not keep the waves of others off the
 * hardware.
 */
TEST_F(waves, changes_of_a_stranger)
{
	beside_a_stranger(_metadata, self, change, 1);
}

/* Queues that fail, one after the other, and the pause between two of them. */
#define FAILURES	100u
#define FAILURE_US	1000u

static void fail_queues(volatile uint32_t *shared)
{
	static struct kfd_compute queue[FAILURES];
	long long count, between, count_then, between_then;
	const unsigned int failures = work(FAILURES, 40);
	struct kfd_save save;
	struct kfd_dev dev;
	uint64_t began;
	unsigned int i;

	if (kfd_open(&dev) || kfd_save_create(&dev, &save))
		_exit(1);
	for (i = 0; i < failures; i++)
		if (kfd_compute_create(&dev, &queue[i], &save, false, KFD_PAGE))
			_exit(2);
	if (!kfd_compute_works(&queue[0], TIMEOUT_MS) || !lists(&count, &between))
		_exit(3);
	began = kfd_now_ms();
	for (i = 0; i < failures; i++) {
		struct packets p = { 0 };

		/* An opcode that the CP does not know. */
		pm4_header(&p, 0xfe, 1);
		sdma_emit(&p, 0);
		if (!kfd_compute_pm4(&queue[i], &p))
			_exit(4);
		usleep(FAILURE_US);
	}
	shared[2] = (uint32_t)(kfd_now_ms() - began);
	if (!lists(&count_then, &between_then))
		_exit(5);
	shared[3] = (uint32_t)(count_then - count);
	shared[4] = (uint32_t)((between_then - between) / 1000);
	kfd_close(&dev);
}

/* Nor does a process whose queues fail, which the CP itself has stopped by then. */
TEST_F(waves, failures_of_a_stranger)
{
	beside_a_stranger(_metadata, self, fail_queues, 4);
}

KFD_HARNESS_MAIN
