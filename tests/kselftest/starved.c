// SPDX-License-Identifier: GPL-2.0
/*
 * A thread that the kernel's scheduler hardly ever runs delays nothing but itself: what it has
 * begun on the GPU's behalf, another thread completes.
 */
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>

#include "kfd_compute.h"
#include "kfd_harness.h"
#include "kfd_waves.h"
#include "model.h"
#include "packets.h"
#include "starving.h"
#include "tap.h"

#define RING		KFD_PAGE
#define TIMEOUT_MS	KFD_HANG_MS
/* Starved threads of the process that harms others, and the pause between two of its calls. */
#define THREADS		4u
#define PAUSE_US	25000u
/* Waves of a queue of its own. */
#define WAVES		64u
/*
 * What others may have to wait, milliseconds. A thread that waits for its turn beside the
 * spinning ones does so for seconds.
 */
#define GAP_MS		500u

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Seconds that a case lasts. */
static unsigned int seconds(void)
{
	return work(20, 8);
}

FIXTURE(starved)
{
	struct kfd_dev dev;
	struct kfd_save save;
	struct kfd_compute queue;
	uint64_t longest_us;
};

FIXTURE_SETUP(starved)
{
	if (!keep_off_starving_cpu())
		SKIP(return, "one processor");
	ASSERT_EQ(0, kfd_open(&self->dev));
	ASSERT_EQ(0, kfd_save_create(&self->dev, &self->save));
	ASSERT_EQ(0, kfd_compute_create(&self->dev, &self->queue, &self->save, true, RING));
}

FIXTURE_TEARDOWN(starved)
{
	EXPECT_EQ(0, kfd_compute_destroy(&self->dev, &self->queue));
	EXPECT_EQ(0, kfd_save_destroy(&self->dev, &self->save));
	kfd_close(&self->dev);
}

/* Lets an AQL queue take a barrier packet; false if it does not do so in time. */
static bool pass_barrier(struct kfd_compute *queue)
{
	volatile struct aql_signal *signal =
		(void *)kfd_compute_qword(queue, KFD_COMPUTE_SIGNAL);
	const uint64_t end = now_us() + TIMEOUT_MS * 1000ull;
	struct aql_packet packet;

	signal->value = 1;
	aql_barrier(&packet, AQL_BARRIER_AND, NULL, 0,
		    kfd_compute_address(queue, KFD_COMPUTE_SIGNAL));
	if (!kfd_compute_aql(queue, &packet, 1))
		return false;
	while (signal->value)
		if (now_us() > end)
			return false;
	return true;
}

/* Has the process that harms others go on for a while, and notes the longest time of @once. */
static bool endure(pid_t pid, FIXTURE_DATA(starved) *self,
		   bool (*once)(FIXTURE_DATA(starved) *self))
{
	const uint64_t end = now_us() + seconds() * 1000000ull;

	while (now_us() < end) {
		const uint64_t begun = now_us();
		uint64_t took;

		if (!once(self) || waitpid(pid, NULL, WNOHANG) != 0)
			return false;
		took = now_us() - begun;
		self->longest_us = took > self->longest_us ? took : self->longest_us;
		usleep(200);
	}
	return true;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static bool barrier(FIXTURE_DATA(starved) *self)
{
	return pass_barrier(&self->queue);
}

/*
 * Threads that change the CU mask of a queue each, of which there are many, so that one does so
 * every second, and milliseconds that a barrier packet may take beside them. One that waits for
 * such a thread takes ten seconds.
 */
#define MASK_THREADS	16u
#define MASK_GAP_MS	2000u

static struct kfd_dev mask_dev;
static struct kfd_compute mask_queue[MASK_THREADS];

/* Makes their queues, and one with waves, which are saved when the queues leave the hardware. */
static bool make_mask_queues(void)
{
	static struct kfd_compute busy;
	static struct kfd_save save, waves_save;
	static struct waves waves;
	unsigned int i;

	if (kfd_open(&mask_dev) || kfd_save_create(&mask_dev, &save) ||
	    kfd_save_create(&mask_dev, &waves_save) || waves_create(&mask_dev, &waves, WAVES) ||
	    kfd_compute_create(&mask_dev, &busy, &waves_save, false, RING) ||
	    !waves_start(&waves, &busy, WAVES_SMALL, WAVES, true) ||
	    !waves_go_on(&waves, TIMEOUT_MS))
		return false;
	for (i = 0; i < MASK_THREADS; i++)
		if (kfd_compute_create(&mask_dev, &mask_queue[i], &save, false, RING) ||
		    !kfd_compute_works(&mask_queue[i], TIMEOUT_MS))
			return false;
	return true;
}

static void change_mask(unsigned int number)
{
	static uint32_t masks[MASK_THREADS];
	struct kfd_ioctl_set_cu_mask_args args = {
		.queue_id = mask_queue[number].id,
		.num_cu_mask = 32,
		.cu_mask_ptr = (uintptr_t)&masks[number],
	};

	masks[number] = masks[number] == 0xf ? 0xff : 0xf;
	usleep(PAUSE_US);
	if (kfd_ioctl(mask_dev.fd, AMDKFD_IOC_SET_CU_MASK, &args))
		_exit(4);
}

/* Each change has the queues of all processes leave the hardware and come back. */
TEST_F(starved, mask_changes_of_the_starved)
{
	pid_t pid;

	ASSERT_TRUE(pass_barrier(&self->queue));
	pid = starved_process(make_mask_queues, change_mask, MASK_THREADS);
	EXPECT_TRUE(endure(pid, self, barrier));
	end(pid);
	TH_LOG("the longest barrier packet took %llu us; %u changes, the longest %llu ms",
	       (unsigned long long)self->longest_us, starved_work->rounds,
	       (unsigned long long)starved_work->longest_ms);
	EXPECT_LT(0, starved_work->rounds);
	EXPECT_GT(MASK_GAP_MS * 1000ull, self->longest_us);
}

/* Buffers of the process that harms others, one for each of its threads, mapped and unmapped. */
static struct kfd_dev map_dev;
static struct kfd_queue map_queue;
static struct kfd_bo map_bo[THREADS];

/* Gives the process a VMID, which stays while no other process wants one. */
static bool has_vmid(const struct kfd_dev *dev, struct kfd_queue *queue)
{
	return !kfd_queue_create(dev, queue, 4 * RING) && !kfd_queue_finish(queue, TIMEOUT_MS);
}

static bool make_maps(void)
{
	unsigned int i;

	if (kfd_open(&map_dev) || !has_vmid(&map_dev, &map_queue))
		return false;
	for (i = 0; i < THREADS; i++)
		if (kfd_bo_create(&map_dev, &map_bo[i], KFD_PAGE, KFD_ALLOC_GTT))
			return false;
	return true;
}

static bool map_again(const struct kfd_dev *dev, const struct kfd_bo *bo)
{
	return !kfd_unmap(dev->fd, bo->handle, dev->gpu_id) &&
	       !kfd_map(dev->fd, bo->handle, dev->gpu_id);
}

static void change_map(unsigned int number)
{
	if (!map_again(&map_dev, &map_bo[number]))
		_exit(4);
}

static struct kfd_bo victims_bo;

static bool victims_map(FIXTURE_DATA(starved) *self)
{
	return map_again(&self->dev, &victims_bo);
}

/* Each change of an address space has both hubs flush translations, of which there is one pair. */
TEST_F(starved, maps_of_the_starved)
{
	struct kfd_queue queue;
	pid_t pid;

	ASSERT_TRUE(has_vmid(&self->dev, &queue));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &victims_bo, KFD_PAGE, KFD_ALLOC_GTT));
	pid = starved_process(make_maps, change_map, THREADS);
	EXPECT_TRUE(endure(pid, self, victims_map));
	end(pid);
	TH_LOG("the longest unmap and map took %llu us", (unsigned long long)self->longest_us);
	EXPECT_GT(GAP_MS * 1000ull, self->longest_us);
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &queue));
}

/*
 * Processes that destroy queues: as many as there are VMIDs for queues of SDMA, or more. Engines
 * let go of a queue some milliseconds late, as they do when a packet takes that long.
 */
#define DESTROYERS	7u
#define PACKET_MS	"5"

static struct kfd_dev sdma_dev;
static struct kfd_queue sdma_queue;
static sem_t sdma_made, sdma_gone;

/* The thread that starves: it only destroys. */
static void *destroy_queues(void *arg)
{
	const bool *spins = arg;

	if (*spins ? !begin_to_starve() : !stay_on(starving_cpu()))
		_exit(2);
	if (!starve())
		_exit(3);
	for (;;) {
		sem_wait(&sdma_made);
		if (kfd_destroy_queue(sdma_dev.fd, sdma_queue.id))
			_exit(4);
		sem_post(&sdma_gone);
	}
	return NULL;
}

/* A process that makes queues which wait, and has them destroyed. */
static pid_t destroyer(bool spins)
{
	const pid_t pid = fork();
	struct packets wait = { 0 };
	pthread_t thread;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sem_init(&sdma_made, 0, 0);
	sem_init(&sdma_gone, 0, 0);
	if (kfd_open(&sdma_dev) || pthread_create(&thread, NULL, destroy_queues, &spins))
		_exit(1);
	for (;;) {
		if (kfd_queue_create(&sdma_dev, &sdma_queue, RING))
			_exit(5);
		wait.count = 0;
		sdma_wait_memory(&wait, (uintptr_t)sdma_queue.pointers.cpu + KFD_QUEUE_FENCE, 1);
		kfd_queue_submit(&sdma_queue, wait.dwords, wait.count);
		sem_post(&sdma_made);
		sem_wait(&sdma_gone);
		munmap(sdma_queue.slice, KFD_DOORBELL_SLICE);
		if (kfd_bo_destroy(&sdma_dev, &sdma_queue.pointers) ||
		    kfd_bo_destroy(&sdma_dev, &sdma_queue.ring))
			_exit(6);
	}
}

static struct kfd_queue own_queue;

static bool copy(FIXTURE_DATA(starved) *self)
{
	const uintptr_t at = (uintptr_t)own_queue.pointers.cpu + KFD_PAGE / 2;

	(void)self;
	return !kfd_queue_copy(&own_queue, at, at + 8, 8, TIMEOUT_MS);
}

TEST_F(starved, destroys_of_the_starved)
{
	pid_t pid[DESTROYERS];
	unsigned int i;

	if (!model_present())
		SKIP(return, "needs the device model");
	ASSERT_EQ(0, kfd_queue_create(&self->dev, &own_queue, RING));
	ASSERT_TRUE(copy(self));
	ASSERT_TRUE(model_command("linger " PACKET_MS));
	for (i = 0; i < DESTROYERS; i++)
		pid[i] = destroyer(i == 0);
	EXPECT_TRUE(endure(pid[0], self, copy));
	for (i = 0; i < DESTROYERS; i++)
		end(pid[i]);
	EXPECT_TRUE(model_command("linger 0"));
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &own_queue));
	TH_LOG("the longest copy took %llu us", (unsigned long long)self->longest_us);
	EXPECT_GT(GAP_MS * 1000ull, self->longest_us);
}

KFD_HARNESS_MAIN
