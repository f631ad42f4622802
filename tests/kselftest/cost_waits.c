// SPDX-License-Identifier: GPL-2.0
/* What a process has made does not keep those waiting who have little to do with it. Documentation/limits.md has the table. */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kfd_harness.h"

KFD_FIXTURE(waits)

struct queues {
	struct kfd_bo ring, pointers;
	uint32_t ids[8];
	unsigned int count;
};

static int queues_prepare(const struct kfd_dev *dev, struct queues *queues, size_t ring,
			  uint32_t flags)
{
	int err;

	queues->count = 0;
	err = kfd_bo_create(dev, &queues->ring, ring, flags);
	return err ? err : kfd_bo_create(dev, &queues->pointers, KFD_PAGE, flags);
}

/* One more, on the same memory as the others. */
static int queues_add(const struct kfd_dev *dev, struct queues *queues)
{
	struct kfd_ioctl_create_queue_args args;
	int err;

	kfd_queue_args(dev, &queues->ring, &queues->pointers, &args);
	err = kfd_ioctl(dev->fd, AMDKFD_IOC_CREATE_QUEUE, &args);
	if (!err)
		queues->ids[queues->count++] = args.queue_id;
	return err;
}

static int queues_remove(const struct kfd_dev *dev, struct queues *queues)
{
	int err = 0;

	while (queues->count && !err)
		err = kfd_destroy_queue(dev->fd, queues->ids[--queues->count]);
	return err;
}

/* Queues with rings full of packets, and the part of the time until they are read that somebody may have to wait. */
#define FULL_QUEUES	4u
#define FULL_RING	(1ull << 20)
#define FULL_PART	4u

struct beside {
	const struct kfd_dev *dev;
	struct queues *queues;
	volatile bool go;
	uint64_t took;
	int err;
};

/* A call for another queue of the process. */
static void *destroy_beside(void *arg)
{
	struct beside *beside = arg;
	uint64_t began;

	while (!beside->go)
		;
	began = kfd_now_ms();
	beside->err = kfd_destroy_queue(beside->dev->fd,
					beside->queues->ids[--beside->queues->count]);
	beside->took = kfd_now_ms() - began;
	return NULL;
}

/*
 * A doorbell may announce as many packets as all rings hold: the store that
 * does waits for few of them, and so do calls beside it.
 */
TEST_F(waits, full_rings_keep_nobody_waiting)
{
	struct kfd_ioctl_create_queue_args args;
	struct beside beside = { .dev = &self->dev };
	volatile uint64_t *pointers, *doorbell;
	uint64_t rung, began, stored, mapped, all;
	struct queues queues;
	pthread_t thread;
	void *slice, *mem;

	/* Zeroes are NOPs of one dword. */
	ASSERT_EQ(0, queues_prepare(&self->dev, &queues, FULL_RING, KFD_ALLOC_GTT));
	pointers = queues.pointers.cpu;
	kfd_queue_args(&self->dev, &queues.ring, &queues.pointers, &args);
	ASSERT_EQ(0, kfd_ioctl(self->dev.fd, AMDKFD_IOC_CREATE_QUEUE, &args));
	ASSERT_EQ(0, kfd_doorbell_map(self->dev.fd, args.doorbell_offset, &slice, &doorbell));
	while (queues.count < FULL_QUEUES)
		ASSERT_EQ(0, queues_add(&self->dev, &queues));
	beside.queues = &queues;
	ASSERT_EQ(0, pthread_create(&thread, NULL, destroy_beside, &beside));

	pointers[KFD_QUEUE_WPTR / 8] = FULL_RING - KFD_PAGE;
	__sync_synchronize();
	beside.go = true;
	rung = kfd_now_ms();
	*doorbell = FULL_RING - KFD_PAGE;
	stored = kfd_now_ms() - rung;
	began = kfd_now_ms();
	mem = mmap(NULL, KFD_PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mapped = kfd_now_ms() - began;
	EXPECT_NE(MAP_FAILED, mem);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(0, beside.err);

	/* All are read in the end. */
	while (pointers[KFD_QUEUE_RPTR / 8] != FULL_RING - KFD_PAGE &&
	       kfd_now_ms() - rung < KFD_HANG_MS)
		usleep(10000);
	EXPECT_EQ(FULL_RING - KFD_PAGE, pointers[KFD_QUEUE_RPTR / 8]);
	all = kfd_now_ms() - rung;
	TH_LOG("store %llu ms, mmap %llu ms, destroy %llu ms, all %llu ms",
	       (unsigned long long)stored, (unsigned long long)mapped,
	       (unsigned long long)beside.took, (unsigned long long)all);
	EXPECT_GT(all, FULL_PART * stored);
	EXPECT_GT(all, FULL_PART * mapped);
	EXPECT_GT(all, FULL_PART * beside.took);
	EXPECT_EQ(0, queues_remove(&self->dev, &queues));
	EXPECT_EQ(0, kfd_destroy_queue(self->dev.fd, args.queue_id));
}

KFD_HARNESS_MAIN
