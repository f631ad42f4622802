// SPDX-License-Identifier: GPL-2.0
/* What a process stores to its doorbells takes nothing from other processes. */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "debugfs.h"
#include "kfd_event.h"
#include "kfd_harness.h"
#include "packets.h"

#define RING		(16u << 10)
#define MAX_ENGINES	5u
#define BYTES		(4u << 20)
#define ROUNDS		3u
/* The first doorbell of each engine, in each page of the BAR; those of both chips are in a row. */
#define FIRST_SLOT	0x100u
#define SLOTS		10u

KFD_FIXTURE(doorbells)

/* In a process of its own, without a queue: stores parts of doorbells, which engines report. */
static int store_parts(unsigned int rounds)
{
	struct kfd_dev dev;
	uint64_t handle;
	unsigned int i, k;
	void *slice;

	if (kfd_open(&dev) ||
	    !kfd_map_registers(&dev, KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL, KFD_DOORBELL_SLICE,
			       &handle) ||
	    kfd_mmap(dev.fd, KFD_DOORBELL_SLICE,
		     KFD_OFFSET_DOORBELL | KFD_OFFSET_GPU(dev.gpu_id), &slice))
		return 1;
	for (i = 0; i < rounds; i++) {
		for (k = 0; k < MAX_ENGINES; k++) {
			volatile uint64_t *bell = (volatile uint64_t *)slice +
						  FIRST_SLOT + SLOTS * k;

			*(volatile uint32_t *)bell = 1;
			*((volatile uint8_t *)bell + 3) = 1;
		}
	}
	return 0;
}

/* Interrupts are handled in their order: all that were raised before this have been. */
static int wait_for_interrupts(const struct kfd_dev *dev)
{
	struct kfd_queue queue;
	struct packets p = { 0 };
	struct kfd_bo page;
	uint32_t id;
	int err = event_page_user(dev, &page, &id);

	if (err)
		return err;
	err = kfd_queue_create(dev, &queue, RING);
	if (err)
		return err;
	sdma_fence(&p, (uintptr_t)page.cpu + 8 * id, id);
	sdma_trap(&p, id);
	kfd_queue_submit(&queue, p.dwords, p.count);
	err = event_wait(dev, id, KFD_HANG_MS);
	return err ? err : kfd_queue_destroy(dev, &queue);
}

/* True unless the driver has given up its own queue of an engine, as far as debugfs is there. */
static bool driver_has_engines(void)
{
	char text[4096];

	return !debugfs_read("rings", text, sizeof(text)) || !strstr(text, "failed");
}

/* VRAM is cleared by the driver's own queue of an engine, and copied by queues of all engines. */
static int use_engines(const struct kfd_dev *dev)
{
	const unsigned int count = kfd_sdma_engines(dev);
	struct kfd_bo bo[2];
	unsigned int i;
	int err = 0;

	for (i = 0; i < 2 * count && !err; i++) {
		err = kfd_bo_create(dev, &bo[0], BYTES, KFD_ALLOC_VRAM);
		if (!err)
			err = kfd_bo_destroy(dev, &bo[0]);
	}
	for (i = 0; i < 2 && !err; i++)
		err = kfd_bo_create(dev, &bo[i], BYTES, KFD_ALLOC_VRAM);
	for (i = 0; i < count && !err; i++) {
		struct kfd_queue queue;

		err = kfd_queue_create_on(dev, &queue, RING, i);
		if (err)
			break;
		*(uint32_t *)bo[0].cpu = i + 1;
		err = kfd_queue_copy(&queue, (uintptr_t)bo[1].cpu, (uintptr_t)bo[0].cpu, BYTES,
				     KFD_HANG_MS);
		if (!err && *(uint32_t *)bo[1].cpu != i + 1)
			err = EILSEQ;
		if (!err)
			err = kfd_queue_destroy(dev, &queue);
	}
	for (i = 0; i < 2 && !err; i++)
		err = kfd_bo_destroy(dev, &bo[i]);
	return err;
}

/*
 * An SDMA engine reports a store that is not of a whole doorbell, in any page and with no VMID.
 * Neither the driver's queue of the engine nor one of a process has anything to do with it.
 */
TEST_F(doorbells, parts_take_no_engine)
{
	int status;
	pid_t pid = fork();

	ASSERT_LE(0, pid);
	if (pid == 0)
		_exit(store_parts(ROUNDS));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_EQ(0, wait_for_interrupts(&self->dev));
	EXPECT_TRUE(driver_has_engines());
	EXPECT_EQ(0, use_engines(&self->dev));
}

/* The table of debugfs names the process whose doorbells are in a slice. */
TEST_F(doorbells, table_of_slices)
{
	char text[4096], own[32];
	uint64_t handle;

	/* amdkfd has none. */
	if (!debugfs_read("doorbells", text, sizeof(text)))
		return;
	ASSERT_TRUE(kfd_map_registers(&self->dev, KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL,
				      KFD_DOORBELL_SLICE, &handle));
	ASSERT_TRUE(debugfs_read("doorbells", text, sizeof(text)));
	snprintf(own, sizeof(own), " %d ", getpid());
	EXPECT_NE(NULL, strstr(text, own)) {
		TH_LOG("%s", text);
	}
	EXPECT_NE(NULL, strstr(text, "slice byte pid pasid\n0 0 kernel -\n"));
}

/* Nor is it an error of a queue that has work there. */
TEST_F(doorbells, parts_stop_no_queue)
{
	const unsigned int count = kfd_sdma_engines(&self->dev);
	struct kfd_queue queue[MAX_ENGINES];
	unsigned int i;
	int status;
	pid_t pid;

	for (i = 0; i < count; i++)
		ASSERT_EQ(0, kfd_queue_create_on(&self->dev, &queue[i], RING, i));
	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0)
		_exit(store_parts(50 * ROUNDS));
	do {
		for (i = 0; i < count; i++)
			ASSERT_EQ(0, kfd_queue_finish(&queue[i], KFD_HANG_MS));
	} while (waitpid(pid, &status, WNOHANG) == 0);
	EXPECT_EQ(0, status);
	ASSERT_EQ(0, wait_for_interrupts(&self->dev));
	for (i = 0; i < count; i++) {
		EXPECT_EQ(0, kfd_queue_finish(&queue[i], KFD_HANG_MS));
		EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &queue[i]));
	}
}

KFD_HARNESS_MAIN
