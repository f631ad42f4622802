// SPDX-License-Identifier: GPL-2.0
/*
 * What typical calls cost the hardware, by the device model's counters: register accesses,
 * flushes of TLBs, doorbells and interrupts. A driver that spends more than these bounds fails,
 * however fast the machine is.
 */
#include <stdio.h>
#include <unistd.h>

#include "kfd_compute.h"
#include "kfd_harness.h"
#include "model.h"
#include "packets.h"

#define RING		(64u * 1024)
#define TIMES		64u
/* After this nothing of the calls before is left to do. */
#define SETTLE_US	500000u
#define IDLE_US		2000000u

FIXTURE(budgets)
{
	struct kfd_dev dev;
	struct kfd_queue queue;
	struct kfd_save save;
	struct kfd_compute compute;
};

FIXTURE_SETUP(budgets)
{
	if (!model_present())
		SKIP(return, "no device model, which counts");
	ASSERT_EQ(0, kfd_open(&self->dev));
	ASSERT_EQ(0, kfd_queue_create(&self->dev, &self->queue, RING));
	ASSERT_EQ(0, kfd_save_create(&self->dev, &self->save));
	ASSERT_EQ(0, kfd_compute_create(&self->dev, &self->compute, &self->save, false, RING));
	ASSERT_EQ(0, kfd_queue_finish(&self->queue, KFD_HANG_MS));
	usleep(SETTLE_US);
}

FIXTURE_TEARDOWN(budgets)
{
	EXPECT_EQ(0, kfd_compute_destroy(&self->dev, &self->compute));
	EXPECT_EQ(0, kfd_save_destroy(&self->dev, &self->save));
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &self->queue));
	kfd_close(&self->dev);
}

/* What the hardware has had to do. */
struct spent {
	unsigned long long accesses, interrupts, entries, doorbells, flushes;
};

static struct spent spent(void)
{
	static const char names[] =
		"registers.reads registers.writes interrupts.msis interrupts.msixs interrupts.ivs "
		"doorbells.sdma doorbells.cp tlb.flushes";
	unsigned long long n[8];

	model_counts(names, n, ARRAY_SIZE(n));
	return (struct spent){
		.accesses = n[0] + n[1],
		.interrupts = n[2] + n[3],
		.entries = n[4],
		.doorbells = n[5] + n[6],
		.flushes = n[7],
	};
}

/* What was spent since @before, when all of it is done. */
static struct spent since(struct spent before)
{
	struct spent now;

	usleep(SETTLE_US);
	now = spent();
	return (struct spent){
		.accesses = now.accesses - before.accesses,
		.interrupts = now.interrupts - before.interrupts,
		.entries = now.entries - before.entries,
		.doorbells = now.doorbells - before.doorbells,
		.flushes = now.flushes - before.flushes,
	};
}

static void log_spent(struct __test_metadata *_metadata, const char *what, struct spent s)
{
	TH_LOG("%u times %s: %llu accesses, %llu interrupts with %llu entries, %llu doorbells, %llu flushes",
	       TIMES, what, s.accesses, s.interrupts, s.entries, s.doorbells, s.flushes);
}

/* True if queues of SDMA have the hardware's doorbells from the start. */
static bool is_direct(void)
{
	FILE *f = fopen("/sys/module/rkfd/parameters/sdma_sched", "r");
	int mode = 1;

	if (f) {
		if (fscanf(f, "%d", &mode) != 1)
			mode = 1;
		fclose(f);
	}
	return f && mode == 0;
}

/* Queues without work cost nothing. */
TEST_F(budgets, idle_queues)
{
	const struct spent before = spent();
	struct spent s;

	usleep(IDLE_US);
	s = since(before);
	log_spent(_metadata, "nothing", s);
	EXPECT_EQ(0, s.accesses);
	EXPECT_EQ(0, s.interrupts);
	EXPECT_EQ(0, s.doorbells);
	EXPECT_EQ(0, s.flushes);
}

/* A buffer that is mapped and unmapped while queues are on the hardware. */
TEST_F(budgets, map_and_unmap)
{
	struct spent before, s;
	struct kfd_bo bo;
	unsigned int i;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, RING, KFD_ALLOC_VRAM));
	before = spent();
	for (i = 0; i < TIMES; i++) {
		ASSERT_EQ(0, kfd_unmap(self->dev.fd, bo.handle, self->dev.gpu_id));
		ASSERT_EQ(0, kfd_map(self->dev.fd, bo.handle, self->dev.gpu_id));
	}
	s = since(before);
	log_spent(_metadata, "unmapped and mapped", s);
	/*
	 * Each call flushes both hubs for the two VMIDs, that of the driver's queues and that of the
	 * firmware's. amdgpu does not flush after MAP, and has the KIQ do it after UNMAP: two
	 * flushes, four accesses and a doorbell.
	 */
	EXPECT_LE(s.flushes, 8 * TIMES);
	EXPECT_LE(s.accesses, 36 * TIMES);
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
}

/* One copy at a time. */
TEST_F(budgets, copies)
{
	struct spent before, s;
	struct kfd_bo bo;
	unsigned int i;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, RING, KFD_ALLOC_GTT));
	before = spent();
	for (i = 0; i < TIMES; i++)
		ASSERT_EQ(0, kfd_queue_copy(&self->queue, (uintptr_t)bo.cpu,
					    (uintptr_t)bo.cpu + RING / 2, RING / 2, KFD_HANG_MS));
	s = since(before);
	log_spent(_metadata, "a copy and a fence", s);
	/* The two are one submission, or two. */
	EXPECT_LE(s.doorbells, 2 * TIMES);
	EXPECT_LE(s.interrupts, is_direct() ? 0 : 2 * TIMES);
	EXPECT_LE(s.accesses, is_direct() ? 0 : 4 * TIMES);
	EXPECT_EQ(0, s.flushes);
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
}

/* Packets of a compute queue, which rings by itself. */
TEST_F(budgets, packets)
{
	volatile uint32_t *const fence =
		(volatile uint32_t *)kfd_compute_qword(&self->compute, KFD_COMPUTE_FENCE);
	const struct spent before = spent();
	struct spent s;
	unsigned int i;

	for (i = 1; i <= TIMES; i++) {
		struct packets p = { 0 };

		pm4_release(&p, kfd_compute_address(&self->compute, KFD_COMPUTE_FENCE), i, 0);
		ASSERT_TRUE(kfd_compute_pm4(&self->compute, &p));
		ASSERT_TRUE(kfd_becomes(fence, i, KFD_HANG_MS));
	}
	s = since(before);
	log_spent(_metadata, "a packet", s);
	EXPECT_LE(s.doorbells, TIMES);
	EXPECT_EQ(0, s.accesses);
	EXPECT_EQ(0, s.interrupts);
	EXPECT_EQ(0, s.flushes);
}

/* A queue that comes and goes while others are on the hardware. */
TEST_F(budgets, queues)
{
	struct spent before = spent(), s;
	unsigned int i;

	for (i = 0; i < TIMES; i++) {
		struct kfd_queue queue;

		ASSERT_EQ(0, kfd_queue_create(&self->dev, &queue, KFD_PAGE));
		ASSERT_EQ(0, kfd_queue_finish(&queue, KFD_HANG_MS));
		ASSERT_EQ(0, kfd_queue_destroy(&self->dev, &queue));
	}
	s = since(before);
	log_spent(_metadata, "a queue", s);
	EXPECT_LE(s.accesses, 100 * TIMES);
	EXPECT_LE(s.interrupts, s.entries);
}

KFD_HARNESS_MAIN
