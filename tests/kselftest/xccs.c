// SPDX-License-Identifier: GPL-2.0
/*
 * A GPU of several XCCs: they share the work of an AQL queue, one of them executes the packets of a
 * PM4 queue, and the waves of all of them leave the hardware and come back.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kfd_harness.h"
#include "kfd_waves.h"
#include "model.h"
#include "tap.h"

#define RING		(64u * 1024)
#define TIMEOUT_MS	KFD_HANG_MS
#define MOST_XCCS	8u
/* Groups of a dispatch for each XCC. */
#define EACH		16u
#define MOST_WAVES	(EACH * MOST_XCCS)
#define LONG_S		5000
/* Milliseconds between two lines of a test that takes long. */
#define SAY_MS		20000u

/* A kernel's descriptor (amd_kernel_code of LLVM), as far as it is not 0. */
struct kernel {
	uint32_t group, private, kernarg, pad;
	int64_t entry;
	uint32_t more[5], rsrc3, rsrc1, rsrc2;
	uint16_t properties, preload;
	uint32_t end;
};

#define KERNARG_PTR	(1u << 3)

FIXTURE(xccs)
{
	struct kfd_dev dev;
	struct kfd_save save;
	struct kfd_compute queue;
	struct kfd_bo packets;
	struct waves waves;
	unsigned int xccs;
};

FIXTURE_VARIANT(xccs)
{
	bool kernel;	/* by a KERNEL_DISPATCH packet, or PM4 packets in a vendor packet */
};

FIXTURE_VARIANT_ADD(xccs, dispatch_packet)
{
	.kernel = true,
};

FIXTURE_VARIANT_ADD(xccs, pm4_packets)
{
	.kernel = false,
};

/* A property of the GPU's node. */
static uint64_t property(const struct kfd_dev *dev, const char *name)
{
	char path[128];
	uint64_t value = 0;

	snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%u/properties", dev->node);
	kfd_property(path, name, &value);
	return value;
}

FIXTURE_SETUP(xccs)
{
	ASSERT_EQ(0, kfd_open(&self->dev));
	self->xccs = (unsigned int)property(&self->dev, "num_xcc");
	ASSERT_LE(1, self->xccs);
	ASSERT_GE(MOST_XCCS, self->xccs);
	ASSERT_EQ(0, kfd_save_create(&self->dev, &self->save));
	ASSERT_EQ(0, kfd_compute_create(&self->dev, &self->queue, &self->save, true, RING));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &self->packets, KFD_PAGE, KFD_ALLOC_GTT));
	ASSERT_EQ(0, waves_create(&self->dev, &self->waves, MOST_WAVES));
	if (self->xccs == 1)
		SKIP(return, "the GPU has one XCC");
}

FIXTURE_TEARDOWN(xccs)
{
	EXPECT_EQ(0, kfd_compute_destroy(&self->dev, &self->queue));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &self->packets));
	EXPECT_EQ(0, waves_destroy(&self->dev, &self->waves));
	EXPECT_EQ(0, kfd_save_destroy(&self->dev, &self->save));
	kfd_close(&self->dev);
}

static volatile struct aql_signal *signal_of(FIXTURE_DATA(xccs) *self)
{
	return (volatile struct aql_signal *)kfd_compute_qword(&self->queue, KFD_COMPUTE_SIGNAL);
}

/* Starts @count waves of @program on the AQL queue. */
static bool start(FIXTURE_DATA(xccs) *self, bool kernel, enum waves_program program,
		  unsigned int count)
{
	const uint64_t signal = kfd_compute_address(&self->queue, KFD_COMPUTE_SIGNAL);
	const struct waves_shape *shape = &waves_shape[program];
	struct kernel *descriptor = self->packets.cpu;
	struct waves *waves = &self->waves;
	struct aql_packet packet = { 0 };
	struct packets p = { 0 };

	waves->count = count;
	waves->program = program;
	memset(waves->data.cpu, 0, waves->data.size);
	signal_of(self)->value = 1;
	if (!kernel) {
		waves_dispatch(&p, waves, program, count, true);
		memcpy(self->packets.cpu, p.dwords, p.count * 4);
		aql_pm4(&packet, (uintptr_t)self->packets.cpu, p.count, signal);
		return kfd_compute_aql(&self->queue, &packet, 1);
	}
	memset(descriptor, 0, sizeof(*descriptor));
	descriptor->entry = (int64_t)(waves_address(waves, program) - (uintptr_t)descriptor);
	descriptor->rsrc1 = waves_rsrc1(program);
	/* Two user SGPRs with the address of the arguments, and the group's number. */
	descriptor->rsrc2 = 2u << 1 | 1u << 7;
	descriptor->rsrc3 = shape->arch / 4 - 1;
	descriptor->properties = KERNARG_PTR;
	packet.header = AQL_HEADER(AQL_KERNEL_DISPATCH);
	/* One dimension. */
	packet.format = 1;
	packet.dwords[0] = shape->waves * 64 | 1u << 16;
	packet.dwords[1] = 1;
	packet.dwords[2] = count * 64;
	packet.dwords[3] = 1;
	packet.dwords[4] = 1;
	packet.dwords[6] = shape->lds;
	memcpy(&packet.dwords[7], &(uint64_t){ (uintptr_t)descriptor }, 8);
	memcpy(&packet.dwords[9], &(uint64_t){ (uintptr_t)waves->data.cpu }, 8);
	packet.completion = signal;
	return kfd_compute_aql(&self->queue, &packet, 1);
}

/* True if the dispatch ends, its packet too, and no wave has changed. */
static bool ends_well(FIXTURE_DATA(xccs) *self)
{
	const uint64_t end = kfd_now_ms() + TIMEOUT_MS;

	waves_stop(&self->waves);
	if (!waves_ended(&self->waves, TIMEOUT_MS) || waves_bad(&self->waves))
		return false;
	while (signal_of(self)->value) {
		if (kfd_now_ms() > end) {
			printf("# the signal is %lld\n", (long long)signal_of(self)->value);
			return false;
		}
		usleep(200);
	}
	return true;
}

/* Groups that the XCCs have launched. */
static void groups(unsigned int xccs, unsigned long long *counts)
{
	char names[MOST_XCCS * 16] = "";
	unsigned int i;

	for (i = 0; i < xccs; i++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), " xcc%u.groups", i);
	model_counts(names, counts, xccs);
}

TEST_F(xccs, each_does_its_part)
{
	unsigned long long before[MOST_XCCS], after[MOST_XCCS];
	unsigned int i, k;

	for (k = 0; k < 3; k++) {
		groups(self->xccs, before);
		ASSERT_TRUE(start(self, variant->kernel, WAVES_SMALL, EACH * self->xccs));
		ASSERT_TRUE(waves_go_on(&self->waves, TIMEOUT_MS));
		/* The packet is not done before the waves are. */
		EXPECT_EQ(1, signal_of(self)->value);
		ASSERT_TRUE(ends_well(self));
		groups(self->xccs, after);
		for (i = 0; model_present() && i < self->xccs; i++)
			EXPECT_EQ(EACH, after[i] - before[i]) {
				TH_LOG("XCC %u", i);
			}
	}
}

/* Fewer groups than XCCs: some have nothing to do. */
TEST_F(xccs, one_group)
{
	unsigned long long before[MOST_XCCS], after[MOST_XCCS], sum = 0;
	unsigned int i;

	groups(self->xccs, before);
	ASSERT_TRUE(start(self, variant->kernel, WAVES_SMALL, 1));
	ASSERT_TRUE(waves_go_on(&self->waves, TIMEOUT_MS));
	ASSERT_TRUE(ends_well(self));
	groups(self->xccs, after);
	for (i = 0; i < self->xccs; i++)
		sum += after[i] - before[i];
	if (model_present())
		EXPECT_EQ(1, sum);
}

/* Waves of @program on all XCCs leave the hardware and come back, @times times. */
static void go_and_come(struct __test_metadata *_metadata, FIXTURE_DATA(xccs) *self,
			const FIXTURE_VARIANT(xccs) *variant, enum waves_program program,
			unsigned int times)
{
	const unsigned int count = EACH * self->xccs;
	const uint64_t begun = kfd_now_ms();
	uint64_t said = begun;
	unsigned int i;

	ASSERT_TRUE(start(self, variant->kernel, program, count));
	ASSERT_TRUE(waves_go_on(&self->waves, TIMEOUT_MS));
	for (i = 0; i < times; i++) {
		uint64_t rounds;

		/* A test that prints nothing is taken for one that hangs. */
		if (kfd_now_ms() - said > SAY_MS) {
			said = kfd_now_ms();
			TH_LOG("%u waves, %s: %u of %u times", count, waves_shape[program].name, i,
			       times);
		}
		ASSERT_EQ(0, kfd_compute_update(&self->dev, &self->queue, 0));
		rounds = waves_rounds(&self->waves);
		ASSERT_EQ(rounds, waves_rounds(&self->waves));
		ASSERT_EQ(0, kfd_compute_update(&self->dev, &self->queue, 100));
		if (i % 16 == 0)
			ASSERT_TRUE(waves_go_on(&self->waves, TIMEOUT_MS));
	}
	ASSERT_TRUE(ends_well(self)) {
		TH_LOG("%u waves, %s", count, waves_shape[program].name);
	}
	TH_LOG("%u waves, %s: %u times in %llu ms", count, waves_shape[program].name, times,
	       (unsigned long long)(kfd_now_ms() - begun));
}

/*
 * All XCCs save their waves and restore them, with their registers and LDS; RKFD_TIMES says how
 * often.
 */
TEST_F_TIMEOUT(xccs, waves_of_all_come_back, LONG_S)
{
	const char *said = getenv("RKFD_TIMES");
	const unsigned int times = said ? (unsigned int)strtoul(said, NULL, 10) : work(20, 3);
	unsigned int program;

	for (program = 0; program <= WAVES_SHARED; program++)
		go_and_come(_metadata, self, variant, program, times);
	EXPECT_TRUE(kfd_compute_works(&self->queue, TIMEOUT_MS));
}

/* PM4 packets of a queue of their own are for the XCC that CREATE_QUEUE names. */
TEST_F(xccs, pm4_has_its_target)
{
	unsigned long long before[MOST_XCCS], after[MOST_XCCS];
	unsigned int target, i;

	for (target = 0; target < self->xccs; target++) {
		struct kfd_ioctl_create_queue_args args;
		struct kfd_compute queue;

		ASSERT_EQ(0, kfd_compute_prepare(&self->dev, &queue, &self->save, false, RING,
						 &args));
		args.queue_percentage |= target << 8;
		ASSERT_EQ(0, kfd_ioctl(self->dev.fd, AMDKFD_IOC_CREATE_QUEUE, &args));
		queue.id = args.queue_id;
		ASSERT_EQ(0, kfd_doorbell_map(self->dev.fd, args.doorbell_offset, &queue.slice,
					      &queue.doorbell));
		groups(self->xccs, before);
		ASSERT_TRUE(waves_start(&self->waves, &queue, WAVES_SMALL, EACH, true));
		ASSERT_TRUE(waves_go_on(&self->waves, TIMEOUT_MS));
		waves_stop(&self->waves);
		ASSERT_TRUE(waves_ended(&self->waves, TIMEOUT_MS));
		EXPECT_EQ(0, waves_bad(&self->waves));
		groups(self->xccs, after);
		for (i = 0; model_present() && i < self->xccs; i++)
			EXPECT_EQ(i == target ? EACH : 0, after[i] - before[i]);
		ASSERT_EQ(0, kfd_compute_destroy(&self->dev, &queue));
	}
}

TEST_HARNESS_MAIN
