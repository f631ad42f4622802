// SPDX-License-Identifier: GPL-2.0
/*
 * Waves that leave the hardware and come back: nothing of them is lost, and
 * nobody's long dispatch is in another's way.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "kfd_harness.h"
#include "kfd_waves.h"

#define RING		(64u * 1024)
#define TIMEOUT_MS	KFD_HANG_MS
/* Milliseconds that a queue may take to leave before it is taken for one that hangs. */
#define HANG_MS		2000u
/* Bytes of the scalar registers, and of the other things, in the record of a wave. */
#define SGPRS		448u
#define OTHERS		0xc0u

FIXTURE(waves)
{
	struct kfd_dev dev;
	struct kfd_save save;
	struct kfd_compute queue;
	struct waves waves;
};

FIXTURE_SETUP(waves)
{
	SKIP_ON_AMDKFD("the model does not know its trap handler");
	ASSERT_EQ(0, kfd_open(&self->dev));
	ASSERT_EQ(0, kfd_save_create(&self->dev, &self->save));
	ASSERT_EQ(0, kfd_compute_create(&self->dev, &self->queue, &self->save, false, RING));
	ASSERT_EQ(0, waves_create(&self->dev, &self->waves, 3328));
}

FIXTURE_TEARDOWN(waves)
{
	EXPECT_EQ(0, kfd_compute_destroy(&self->dev, &self->queue));
	EXPECT_EQ(0, waves_destroy(&self->dev, &self->waves));
	EXPECT_EQ(0, kfd_save_destroy(&self->dev, &self->save));
	kfd_close(&self->dev);
}

/* How much less there is to do where things take longer. */
static unsigned int work(unsigned int much, unsigned int little)
{
	return getenv("RKFD_QUICK") ? little : much;
}

static int update(const struct kfd_dev *dev, const struct kfd_compute *queue, uint32_t percentage)
{
	struct kfd_ioctl_update_queue_args args = {
		.ring_base_address = (uintptr_t)queue->ring.cpu,
		.ring_size = (uint32_t)queue->ring.size,
		.queue_id = queue->id,
		.queue_percentage = percentage,
		.queue_priority = 7,
	};

	return kfd_ioctl(dev->fd, AMDKFD_IOC_UPDATE_QUEUE, &args);
}

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

/* Takes the queue off and lets it on again, @times times. */
static void go_and_come(struct __test_metadata *_metadata, FIXTURE_DATA(waves) *self,
			enum waves_program program, unsigned int count, unsigned int times)
{
	const struct waves_shape *shape = &waves_shape[program];
	struct kfd_ioctl_get_queue_wave_state_args state;
	unsigned int i;

	ASSERT_TRUE(waves_start(&self->waves, &self->queue, program, count, true));
	ASSERT_TRUE(waves_go_on(&self->waves, TIMEOUT_MS));
	for (i = 0; i < times; i++) {
		uint64_t rounds;

		ASSERT_EQ(0, update(&self->dev, &self->queue, 0));
		rounds = waves_rounds(&self->waves);
		ASSERT_EQ(0, wave_state(&self->dev, &self->queue, &self->save, &state));
		ASSERT_EQ(count * record_bytes(shape) + count / shape->waves * shape->lds,
			  state.save_area_used_size) {
			TH_LOG("%u waves, %s", count, shape->name);
		}
		ASSERT_LE(count * 4, state.ctl_stack_used_size);
		/* They stand still. */
		ASSERT_EQ(rounds, waves_rounds(&self->waves));
		ASSERT_EQ(0, update(&self->dev, &self->queue, 100));
		if (i % 16 == 0)
			ASSERT_TRUE(waves_go_on(&self->waves, TIMEOUT_MS));
	}
	waves_stop(&self->waves);
	ASSERT_TRUE(waves_ended(&self->waves, TIMEOUT_MS));
	EXPECT_EQ(0, waves_bad(&self->waves)) {
		TH_LOG("%u waves, %s", count, shape->name);
	}
	EXPECT_TRUE(kfd_compute_works(&self->queue, TIMEOUT_MS));
}

TEST_F(waves, one_wave)
{
	unsigned int program;

	for (program = 0; program < WAVES_SHARED; program++)
		go_and_come(_metadata, self, program, 1, work(250, 20));
}

TEST_F(waves, many_waves)
{
	unsigned int program;

	for (program = 0; program < WAVES_SHARED; program++)
		go_and_come(_metadata, self, program, 256, work(20, 3));
}

/* All that there is room for. */
TEST_F(waves, all_waves)
{
	go_and_come(_metadata, self, WAVES_SMALL, 3328, work(10, 2));
	go_and_come(_metadata, self, WAVES_HUGE, 416, work(4, 1));
}

TEST_F(waves, barriers_and_lds)
{
	go_and_come(_metadata, self, WAVES_SHARED, 4, work(250, 20));
	go_and_come(_metadata, self, WAVES_SHARED, 416, work(10, 2));
}

/* More groups than there is room for: those that have not begun do so later. */
TEST_F(waves, a_launch_in_the_middle)
{
	struct waves *waves = &self->waves;
	unsigned int i;

	ASSERT_TRUE(waves_start(waves, &self->queue, WAVES_HUGE, 1000, true));
	for (i = 0; i < work(10, 3); i++) {
		ASSERT_EQ(0, update(&self->dev, &self->queue, 0));
		ASSERT_EQ(0, update(&self->dev, &self->queue, 100));
	}
	waves_stop(waves);
	ASSERT_TRUE(waves_ended(waves, TIMEOUT_MS));
	EXPECT_EQ(0, waves_bad(waves));
}

/* The words of the control stack, and what of a wave is where. */
TEST_F(waves, what_debuggers_read)
{
	const struct waves_shape *shape = &waves_shape[WAVES_MIDDLE];
	const unsigned int bytes = record_bytes(shape);
	struct kfd_ioctl_get_queue_wave_state_args state;
	const volatile uint32_t *header = self->save.bo.cpu;
	unsigned int words, i, waves = 0;
	uint32_t vgprs = 0;
	bool seen[16] = { false };

	ASSERT_TRUE(waves_start(&self->waves, &self->queue, WAVES_MIDDLE, 16, true));
	ASSERT_TRUE(waves_go_on(&self->waves, TIMEOUT_MS));
	ASSERT_EQ(0, update(&self->dev, &self->queue, 0));
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
	ASSERT_EQ(0, update(&self->dev, &self->queue, 100));
	waves_stop(&self->waves);
	ASSERT_TRUE(waves_ended(&self->waves, TIMEOUT_MS));
	EXPECT_EQ(0, waves_bad(&self->waves));
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

static volatile uint32_t *share(void)
{
	void *shared = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return shared == MAP_FAILED ? NULL : shared;
}

static int exit_status(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A dispatch that lasts longer than queues may take to leave is none that hangs. */
TEST_F(waves, strangers_come_and_go)
{
	volatile uint32_t *shared = share();
	const uint64_t end = kfd_now_ms() + 2 * HANG_MS;
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
	waves_stop(&self->waves);
	ASSERT_TRUE(waves_ended(&self->waves, TIMEOUT_MS));
	EXPECT_EQ(0, waves_bad(&self->waves));
}

/* Starts a wave without a trap handler, which nobody can save, and waits. */
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

/* Who cannot be saved is reset, and nobody else. */
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
	kill(pid, SIGKILL);
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	EXPECT_TRUE(waves_go_on(&self->waves, TIMEOUT_MS));
	waves_stop(&self->waves);
	ASSERT_TRUE(waves_ended(&self->waves, TIMEOUT_MS));
	EXPECT_EQ(0, waves_bad(&self->waves));
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

/* More queues with endless waves than there are HQDs: none is left out. */
TEST_F(waves, all_have_turns)
{
	volatile uint32_t *shared = share();
	uint32_t begun[SHARERS * QUEUES], least = UINT32_MAX, most = 0;
	pid_t pid[SHARERS];
	unsigned int i;

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
	for (i = 0; i < SHARERS * QUEUES; i++)
		begun[i] = shared[16 + i];
	usleep(work(10, 4) * 1000 * 1000);
	for (i = 0; i < SHARERS * QUEUES; i++) {
		const uint32_t done = shared[16 + i] - begun[i];

		least = done < least ? done : least;
		most = done > most ? done : most;
	}
	shared[0] = 1;
	for (i = 0; i < SHARERS; i++)
		EXPECT_EQ(0, exit_status(pid[i]));
	TH_LOG("rounds of %u queues of %u processes: %u to %u", SHARERS * QUEUES, SHARERS, least,
	       most);
	/* How even it is, is measured elsewhere; here nobody may stand still. */
	EXPECT_LT(0, least);
}

KFD_HARNESS_MAIN
