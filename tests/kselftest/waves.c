// SPDX-License-Identifier: GPL-2.0
/* Waves that leave the hardware and come back: nothing of their state is lost. */
#include "waves_fixture.h"

/* Bytes of the scalar registers, and of the other state, in the record of a wave. */
#define SGPRS		448u
#define OTHERS		0xc0u
/* Milliseconds between two lines of a test that takes long. */
#define SAY_MS		20000u
#define KFD_CU_MASK_DWORDS	10
/* Fields of HW_ID: engine, array and number of the compute unit; the engine. */
#define HW_ID_CU(hw_id)		((hw_id) >> 8 & 0xff)
#define HW_ID_ENGINE(hw_id)	((hw_id) >> 13 & 7)
/* Seconds that a test may take whose amount of work RKFD_TIMES sets. */
#define LONG_S		5000

static int wave_state(const struct kfd_dev *dev, const struct kfd_compute *queue,
		      const struct kfd_save *save, struct kfd_ioctl_get_queue_wave_state_args *args)
{
	*args = (struct kfd_ioctl_get_queue_wave_state_args){
		.ctl_stack_address = (uintptr_t)save->bo.cpu,
		.queue_id = queue->id,
	};
	return kfd_ioctl(dev->fd, AMDKFD_IOC_GET_QUEUE_WAVE_STATE, args);
}

/* Bytes of a wave's record, without the group's LDS. */
static unsigned int record_bytes(const struct waves_shape *shape)
{
	return (shape->arch + shape->acc) * 256 + SGPRS + OTHERS;
}

/*
 * The number of times that queues are evicted and restored; RKFD_TIMES overrides it for all
 * tests.
 */
static unsigned int how_often(unsigned int much, unsigned int little)
{
	const char *said = getenv("RKFD_TIMES");

	return said ? (unsigned int)strtoul(said, NULL, 10) : work(much, little);
}

/* Takes the queue off the hardware and puts it back, @times times. */
static void go_and_come(struct __test_metadata *_metadata, FIXTURE_DATA(waves) *self,
			enum waves_program program, unsigned int count, unsigned int times)
{
	const struct waves_shape *shape = &waves_shape[program];
	const uint64_t begun = kfd_now_ms();
	struct kfd_ioctl_get_queue_wave_state_args state;
	uint64_t said = begun;
	unsigned int i;

	ASSERT_TRUE(waves_start(&self->waves, &self->queue, program, count, true));
	ASSERT_TRUE(waves_go_on(&self->waves, TIMEOUT_MS));
	for (i = 0; i < times; i++) {
		uint64_t rounds;

		/* A test that prints nothing is taken for one that hangs. */
		if (kfd_now_ms() - said > SAY_MS) {
			said = kfd_now_ms();
			TH_LOG("%u waves, %s: %u of %u times", count, shape->name, i, times);
		}
		ASSERT_EQ(0, kfd_compute_update(&self->dev, &self->queue, 0));
		rounds = waves_rounds(&self->waves);
		ASSERT_EQ(0, wave_state(&self->dev, &self->queue, &self->save, &state));
		ASSERT_EQ(count * record_bytes(shape) + count / shape->waves * shape->lds,
			  state.save_area_used_size) {
			TH_LOG("%u waves, %s", count, shape->name);
		}
		ASSERT_LE(count * 4, state.ctl_stack_used_size);
		/* They stand still. */
		ASSERT_EQ(rounds, waves_rounds(&self->waves));
		ASSERT_EQ(0, kfd_compute_update(&self->dev, &self->queue, 100));
		if (i % 16 == 0)
			ASSERT_TRUE(waves_go_on(&self->waves, TIMEOUT_MS));
	}
	waves_stop(&self->waves);
	ASSERT_TRUE(waves_ended(&self->waves, TIMEOUT_MS));
	EXPECT_EQ(0, waves_bad(&self->waves)) {
		TH_LOG("%u waves, %s", count, shape->name);
	}
	EXPECT_TRUE(kfd_compute_works(&self->queue, TIMEOUT_MS));
	TH_LOG("%u waves, %s: %u times in %llu ms", count, shape->name, times,
	       (unsigned long long)(kfd_now_ms() - begun));
}

TEST_F_TIMEOUT(waves, one_wave, LONG_S)
{
	unsigned int program;

	for (program = 0; program < WAVES_SHARED; program++)
		go_and_come(_metadata, self, program, 1, how_often(250, 20));
}

/* A CU has four SIMDs, of 8 waves and 512 VGPRs. */
static unsigned int room(const struct kfd_dev *dev, enum waves_program program)
{
	const unsigned int vgprs = waves_shape[program].arch + waves_shape[program].acc;

	return 4 * kfd_xcc_cus(dev) * (512 / vgprs < 8 ? 512 / vgprs : 8);
}

TEST_F_TIMEOUT(waves, many_waves, LONG_S)
{
	unsigned int program;

	for (program = 0; program < WAVES_SHARED; program++) {
		const unsigned int most = room(&self->dev, program);

		go_and_come(_metadata, self, program, most < 256 ? most : 256, how_often(20, 3));
	}
}

/* As many as there is room for. */
TEST_F_TIMEOUT(waves, all_waves, LONG_S)
{
	const unsigned int small = room(&self->dev, WAVES_SMALL);

	ASSERT_LT(0, small);
	ASSERT_GE(MOST_WAVES, small);
	go_and_come(_metadata, self, WAVES_SMALL, small, how_often(10, 2));
	go_and_come(_metadata, self, WAVES_HUGE, room(&self->dev, WAVES_HUGE), how_often(4, 1));
}

TEST_F_TIMEOUT(waves, barriers_and_lds, LONG_S)
{
	const unsigned int of_group = waves_shape[WAVES_SHARED].waves;

	go_and_come(_metadata, self, WAVES_SHARED, of_group, how_often(250, 20));
	/* A group has all LDS of a CU. */
	go_and_come(_metadata, self, WAVES_SHARED, of_group * kfd_xcc_cus(&self->dev),
		    how_often(10, 2));
}

/* More groups than there is room for: the rest begin later. */
TEST_F(waves, a_launch_in_the_middle)
{
	struct waves *waves = &self->waves;
	unsigned int i;

	ASSERT_TRUE(waves_start(waves, &self->queue, WAVES_HUGE, 1000, true));
	for (i = 0; i < work(10, 3); i++) {
		ASSERT_EQ(0, kfd_compute_update(&self->dev, &self->queue, 0));
		ASSERT_EQ(0, kfd_compute_update(&self->dev, &self->queue, 100));
	}
	waves_stop(waves);
	ASSERT_TRUE(waves_ended(waves, TIMEOUT_MS));
	EXPECT_EQ(0, waves_bad(waves));
}

/*
 * Each bit of a CU mask is a compute unit of its own, and the first ones are in different engines,
 * whichever compute units of the card are disabled.
 */
TEST_F_TIMEOUT(waves, each_bit_of_a_cu_mask, LONG_S)
{
	uint32_t mask[KFD_CU_MASK_DWORDS];
	struct kfd_ioctl_set_cu_mask_args args = {
		.queue_id = self->queue.id,
		.num_cu_mask = sizeof(mask) * 8,
		.cu_mask_ptr = (uintptr_t)mask,
	};
	/* Bits are dealt to the XCCs in turn; a PM4 queue is the first one's. */
	const unsigned int xccs = kfd_xccs(&self->dev), cus = kfd_xcc_cus(&self->dev);
	const unsigned int engines = kfd_engines(&self->dev);
	unsigned int bit, found = 0;
	bool seen[256] = { false };

	ASSERT_LT(0, engines);
	ASSERT_LE(engines, cus);
	ASSERT_GE(sizeof(mask) * 8, cus * xccs);
	for (bit = 0; bit < cus; bit++) {
		uint32_t where;

		memset(mask, 0, sizeof(mask));
		mask[bit * xccs / 32] = 1u << bit * xccs % 32;
		ASSERT_EQ(0, kfd_ioctl(self->dev.fd, AMDKFD_IOC_SET_CU_MASK, &args));
		ASSERT_TRUE(waves_start(&self->waves, &self->queue, WAVES_WHERE, 2, true));
		ASSERT_TRUE(waves_ended(&self->waves, TIMEOUT_MS)) {
			TH_LOG("bit %u of %u", bit, cus);
		}
		where = HW_ID_CU(waves_record(&self->waves, 0)->hw_id);
		EXPECT_EQ(where, HW_ID_CU(waves_record(&self->waves, 1)->hw_id));
		EXPECT_FALSE(seen[where]) {
			TH_LOG("bit %u: unit 0x%x once more", bit, where);
		}
		seen[where] = true;
		if (bit < engines)
			found |= 1u << HW_ID_ENGINE(waves_record(&self->waves, 0)->hw_id);
	}
	EXPECT_EQ((1u << engines) - 1, found);
}

/* The words of the control stack, and the layout of a wave's record. */
TEST_F(waves, what_debuggers_read)
{
	const struct waves_shape *shape = &waves_shape[WAVES_MIDDLE];
	const unsigned int bytes = record_bytes(shape);
	struct kfd_ioctl_get_queue_wave_state_args state;
	const volatile uint32_t *header = self->save.bo.cpu;
	unsigned int words, i, waves = 0;
	uint32_t vgprs = 0;
	bool seen[16] = { false };

	if (!kfd_ttmps_are_set(&self->dev))
		SKIP_ON_AMDKFD("it has TTMPs set up for debuggers only");
	ASSERT_TRUE(waves_start(&self->waves, &self->queue, WAVES_MIDDLE, 16, true));
	ASSERT_TRUE(waves_go_on(&self->waves, TIMEOUT_MS));
	ASSERT_EQ(0, kfd_compute_update(&self->dev, &self->queue, 0));
	ASSERT_EQ(0, wave_state(&self->dev, &self->queue, &self->save, &state));
	ASSERT_EQ(self->save.control_stack, header[0] + header[1]);
	ASSERT_EQ(state.ctl_stack_used_size, header[1]);
	ASSERT_EQ(self->save.control_stack + header[3], header[2]);
	ASSERT_EQ(state.save_area_used_size, header[3]);
	words = header[1] / 4;
	for (i = 2; i < words; i++) {
		const uint32_t word = header[header[0] / 4 + i];
		const uint8_t *record;
		const uint32_t *others;
		uint32_t number, first, expected;

		if (word >> 30 == 2) {
			vgprs = ((word & 0x3f) + 1) * 8;
			EXPECT_EQ(shape->arch + shape->acc, vgprs);
			continue;
		}
		ASSERT_EQ(0, word >> 30);
		/* A group of one wave. */
		EXPECT_EQ(3, word >> 16 & 3);
		waves++;
		record = (const uint8_t *)self->save.bo.cpu + header[2] - waves * bytes;
		others = (const uint32_t *)(record + vgprs * 256 + SGPRS);
		/* M0; EXEC; PC inside the code; the group in TTMP8. */
		EXPECT_EQ(0x12345678, others[0]);
		EXPECT_EQ(0x5555aaa1, others[3]);
		EXPECT_EQ(0xf0f00ff1, others[4]);
		EXPECT_LE((uintptr_t)self->waves.code.cpu, others[1] | (uint64_t)others[2] << 32);
		EXPECT_GT((uintptr_t)self->waves.code.cpu + self->waves.code.size,
			  others[1] | (uint64_t)others[2] << 32);
		number = others[16 + 8];
		ASSERT_GT(16, number);
		EXPECT_FALSE(seen[number]);
		seen[number] = true;
		/* Lane 5 of v3, s77. */
		first = (number << 6 | 5) * 0x9e3779b1;
		expected = first + 3 * 0x01000193;
		EXPECT_EQ(expected, ((const uint32_t *)(record + 3 * 256))[5]);
		expected = number * 0x85ebca6b + (77 - 40) * 0x01234567;
		EXPECT_EQ(expected, ((const uint32_t *)(record + vgprs * 256))[77]);
	}
	EXPECT_EQ(16, waves);
	ASSERT_EQ(0, kfd_compute_update(&self->dev, &self->queue, 100));
	waves_stop(&self->waves);
	ASSERT_TRUE(waves_ended(&self->waves, TIMEOUT_MS));
	EXPECT_EQ(0, waves_bad(&self->waves));
}

KFD_HARNESS_MAIN
