// SPDX-License-Identifier: GPL-2.0
/* CREATE, UPDATE and DESTROY of SDMA queues, with good input and bad. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "kfd_harness.h"
#include "packets.h"

#define RING		(64u * 1024)
/* Bytes of a copy that takes long. */
#define LONG		(2u << 20)
#define TIMEOUT_MS	KFD_HANG_MS

FIXTURE(queue)
{
	struct kfd_dev dev;
	struct kfd_bo ring;
	struct kfd_bo pointers;
	struct kfd_ioctl_create_queue_args args;	/* good ones, for tests to spoil */
};

FIXTURE_SETUP(queue)
{
	ASSERT_EQ(0, kfd_open(&self->dev));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &self->ring, RING, KFD_ALLOC_GTT));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &self->pointers, KFD_PAGE, KFD_ALLOC_GTT));
	memset(self->pointers.cpu, 0, KFD_PAGE);
	kfd_queue_args(&self->dev, &self->ring, &self->pointers, &self->args);
}

FIXTURE_TEARDOWN(queue)
{
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &self->ring));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &self->pointers));
	kfd_close(&self->dev);
}

static int create(const struct kfd_dev *dev, struct kfd_ioctl_create_queue_args *args)
{
	return kfd_ioctl(dev->fd, AMDKFD_IOC_CREATE_QUEUE, args);
}

static int update(const struct kfd_dev *dev, uint32_t id, uint64_t ring,
		  uint32_t size, uint32_t percentage, uint32_t priority)
{
	struct kfd_ioctl_update_queue_args args = {
		.ring_base_address = ring,
		.queue_id = id,
		.ring_size = size,
		.queue_percentage = percentage,
		.queue_priority = priority,
	};

	return kfd_ioctl(dev->fd, AMDKFD_IOC_UPDATE_QUEUE, &args);
}

TEST_F(queue, create_and_destroy)
{
	const uint64_t type_and_gpu = ~(uint64_t)(KFD_DOORBELL_SLICE - 1);

	ASSERT_EQ(0, create(&self->dev, &self->args));
	EXPECT_EQ(KFD_OFFSET_DOORBELL | KFD_OFFSET_GPU(self->dev.gpu_id),
		  self->args.doorbell_offset & type_and_gpu);
	EXPECT_EQ(0, self->args.doorbell_offset % 8);
	EXPECT_EQ(0, kfd_destroy_queue(self->dev.fd, self->args.queue_id));
}

/* libhsakmt 6.2.4 knows only the first 88 bytes of the arguments. */
TEST_F(queue, create_with_old_size)
{
	struct {
		struct kfd_ioctl_create_queue_args args;
		char guard[8];
	} old = { .args = self->args };
	char *after = (char *)&old + 88;
	unsigned int i;

	memset(after, 0x5a, sizeof(old) - 88);
	ASSERT_EQ(0, kfd_ioctl(self->dev.fd,
			       KFD_COMMAND(_IOC_READ | _IOC_WRITE, 0x02, 88), &old));
	for (i = 0; i < sizeof(old) - 88; i++)
		EXPECT_EQ(0x5a, after[i]);
	EXPECT_EQ(0, kfd_destroy_queue(self->dev.fd, old.args.queue_id));
}

TEST_F(queue, copies)
{
	struct kfd_queue queue;
	struct kfd_bo bo;
	uint32_t *data;

	ASSERT_EQ(0, kfd_queue_create(&self->dev, &queue, RING));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, 2 * KFD_PAGE, KFD_ALLOC_VRAM));
	data = bo.cpu;
	data[0] = 0xc0ffee;
	EXPECT_EQ(0, kfd_queue_copy(&queue, (uintptr_t)&data[KFD_PAGE / 4], (uintptr_t)&data[0],
				    4, TIMEOUT_MS));
	EXPECT_EQ(0xc0ffee, data[KFD_PAGE / 4]);
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &queue));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
}

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static int by_size(const void *one, const void *other)
{
	const uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;

	return (a > b) - (a < b);
}

/*
 * Rings @second when its process was idle, or just after @first, which has a long copy to do then
 * and waits until it is told to go on. Returns the median of the microseconds after which @second
 * begins; 0 if it does not.
 */
static uint32_t begins_after(struct kfd_queue *first, struct kfd_queue *second, uintptr_t data,
			     bool beside)
{
	volatile uint32_t *go_on = (uint32_t *)((char *)first->pointers.cpu + KFD_QUEUE_FENCE + 64);
	volatile uint32_t *begun = (uint32_t *)((char *)second->pointers.cpu + KFD_QUEUE_FENCE + 64);
	uint32_t took[32];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(took); i++) {
		struct packets long_one = { 0 }, short_one = { 0 };
		uint64_t rung;

		*begun = 0;
		*go_on = 0;
		sdma_copy(&long_one, data, data + LONG, LONG);
		sdma_wait_memory(&long_one, (uintptr_t)go_on, 1);
		sdma_fence(&short_one, (uintptr_t)begun, 1);
		/* Idle: the next doorbell faults. */
		usleep(10000);
		if (beside)
			kfd_queue_submit(first, long_one.dwords, long_one.count);
		rung = now_us();
		kfd_queue_submit(second, short_one.dwords, short_one.count);
		while (!*begun)
			if (now_us() - rung > TIMEOUT_MS * 1000ull)
				return 0;
		took[i] = (uint32_t)(now_us() - rung);
		*go_on = 1;
		if (kfd_queue_finish(first, TIMEOUT_MS) || kfd_queue_finish(second, TIMEOUT_MS))
			return 0;
	}
	qsort(took, ARRAY_SIZE(took), sizeof(took[0]), by_size);
	return took[ARRAY_SIZE(took) / 2];
}

/*
 * Two queues of a process that was idle are rung one after the other. The second, which has an
 * engine to itself, begins while the first has yet to end. How soon is printed.
 */
TEST_F(queue, rung_together)
{
	struct kfd_queue first, second;
	uint32_t alone, beside;
	struct kfd_bo bo;

	ASSERT_EQ(0, kfd_queue_create(&self->dev, &first, RING));
	ASSERT_EQ(0, kfd_queue_create(&self->dev, &second, RING));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, 2 * LONG, KFD_ALLOC_GTT));
	alone = begins_after(&first, &second, (uintptr_t)bo.cpu, false);
	beside = begins_after(&first, &second, (uintptr_t)bo.cpu, true);
	TH_LOG("it begins after %u us, beside another after %u us", alone, beside);
	EXPECT_NE(0, alone);
	EXPECT_NE(0, beside);
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &first));
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &second));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
}

TEST_F(queue, bad_scalars)
{
	struct kfd_ioctl_create_queue_args args = self->args;

	args.gpu_id ^= 1;
	EXPECT_ANSWER(unknown_gpu, create(&self->dev, &args));
	args = self->args;
	args.queue_type = 5;
	EXPECT_ANSWER(queue_type_unknown, create(&self->dev, &args));
	args.queue_type = UINT32_MAX;
	EXPECT_ANSWER(queue_type_unknown, create(&self->dev, &args));
	args = self->args;
	args.queue_percentage = KFD_MAX_QUEUE_PERCENTAGE + 1;
	EXPECT_ANSWER(queue_percentage, create(&self->dev, &args));
	args = self->args;
	args.queue_priority = KFD_MAX_QUEUE_PRIORITY + 1;
	EXPECT_ANSWER(queue_priority, create(&self->dev, &args));
}

TEST_F(queue, bad_rings)
{
	struct kfd_ioctl_create_queue_args args = self->args;

	args.ring_size = 3 * KFD_PAGE;
	EXPECT_ANSWER(ring_not_power_of_two, create(&self->dev, &args));
	args.ring_size = UINT32_MAX;
	EXPECT_ANSWER(ring_not_power_of_two, create(&self->dev, &args));
	args.ring_size = RING / 2;
	EXPECT_ANSWER(ring_other_size, create(&self->dev, &args));
	args.ring_size = 2 * RING;
	EXPECT_ANSWER(ring_other_size, create(&self->dev, &args));

	args = self->args;
	args.ring_base_address += RING / 2;
	args.ring_size = RING / 2;
	EXPECT_ANSWER(ring_inside_buffer, create(&self->dev, &args));
	args.ring_base_address = 1ull << 40;
	EXPECT_ANSWER(ring_unmapped, create(&self->dev, &args));
	args.ring_base_address = 0;
	EXPECT_ANSWER(ring_unmapped, create(&self->dev, &args));
	args.ring_base_address = 0xffff800000000000;
	EXPECT_ANSWER(pointer_in_kernel, create(&self->dev, &args));
}

/* A ring has at least 1024 bytes, whatever the request. */
TEST_F(queue, small_rings)
{
	static const uint32_t sizes[] = { 0, 1, 512, 1024 };
	struct kfd_ioctl_create_queue_args args = self->args;
	struct kfd_bo small;
	unsigned int i;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &small, KFD_PAGE, KFD_ALLOC_GTT));
	args.ring_base_address = (uintptr_t)small.cpu;
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		args.ring_size = sizes[i];
		EXPECT_EQ(0, create(&self->dev, &args));
		EXPECT_EQ(0, kfd_destroy_queue(self->dev.fd, args.queue_id));
	}
	args.ring_size = 3;
	EXPECT_ANSWER(ring_not_power_of_two, create(&self->dev, &args));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &small));
}

TEST_F(queue, bad_pointers)
{
	struct kfd_ioctl_create_queue_args args = self->args;

	args.read_pointer_address = 1ull << 40;
	EXPECT_ANSWER(pointer_unmapped, create(&self->dev, &args));
	args.read_pointer_address = 0;
	EXPECT_ANSWER(pointer_unmapped, create(&self->dev, &args));
	args.read_pointer_address = 0xffff800000000000;
	EXPECT_ANSWER(pointer_in_kernel, create(&self->dev, &args));
	args = self->args;
	args.write_pointer_address = 1ull << 40;
	EXPECT_ANSWER(pointer_unmapped, create(&self->dev, &args));
	args.write_pointer_address = 0;
	EXPECT_ANSWER(pointer_unmapped, create(&self->dev, &args));
	args.write_pointer_address = 0xffff800000000000;
	EXPECT_ANSWER(pointer_in_kernel, create(&self->dev, &args));
}

/* A ring that exists but is not mapped to the GPU is as good as none. */
TEST_F(queue, ring_not_mapped)
{
	ASSERT_EQ(0, kfd_unmap(self->dev.fd, self->ring.handle, self->dev.gpu_id));
	EXPECT_ANSWER(ring_unmapped, create(&self->dev, &self->args));
	EXPECT_EQ(0, kfd_map(self->dev.fd, self->ring.handle, self->dev.gpu_id));
}

/* After all refusals a good queue is created. */
TEST_F(queue, good_after_bad)
{
	struct kfd_ioctl_create_queue_args args = self->args;
	unsigned int i;

	for (i = 0; i < 100; i++) {
		args.read_pointer_address = 1ull << 40;
		EXPECT_ANSWER(pointer_unmapped, create(&self->dev, &args));
	}
	ASSERT_EQ(0, create(&self->dev, &self->args));
	EXPECT_EQ(0, kfd_destroy_queue(self->dev.fd, self->args.queue_id));
}

TEST_F(queue, unknown_ids)
{
	const uint64_t ring = self->args.ring_base_address;
	uint32_t id;

	EXPECT_ANSWER(queue_unknown_destroy, kfd_destroy_queue(self->dev.fd, 0));
	EXPECT_ANSWER(queue_unknown_destroy,
		      kfd_destroy_queue(self->dev.fd, UINT32_MAX));
	EXPECT_ANSWER(queue_unknown_update, update(&self->dev, 77, ring, RING, 100, 7));

	ASSERT_EQ(0, create(&self->dev, &self->args));
	id = self->args.queue_id;
	EXPECT_EQ(0, kfd_destroy_queue(self->dev.fd, id));
	EXPECT_ANSWER(queue_unknown_destroy, kfd_destroy_queue(self->dev.fd, id));
	EXPECT_ANSWER(queue_unknown_update, update(&self->dev, id, ring, RING, 100, 7));
}

TEST_F(queue, updates)
{
	const uint64_t ring = self->args.ring_base_address;
	uint32_t id;

	ASSERT_EQ(0, create(&self->dev, &self->args));
	id = self->args.queue_id;
	EXPECT_EQ(0, update(&self->dev, id, ring, RING, 50, 15));
	EXPECT_ANSWER(queue_percentage, update(&self->dev, id, ring, RING, 101, 7));
	EXPECT_ANSWER(queue_priority, update(&self->dev, id, ring, RING, 100, 16));
	EXPECT_ANSWER(ring_not_power_of_two,
		      update(&self->dev, id, ring, 3 * KFD_PAGE, 100, 7));
	EXPECT_EQ(0, kfd_destroy_queue(self->dev.fd, id));
}

/* Percentage 0 takes a queue off the hardware; another value brings it back. */
TEST_F(queue, deactivated_queue_waits)
{
	struct kfd_queue queue;

	ASSERT_EQ(0, kfd_queue_create(&self->dev, &queue, RING));
	ASSERT_EQ(0, kfd_queue_finish(&queue, TIMEOUT_MS));
	ASSERT_EQ(0, update(&self->dev, queue.id, (uintptr_t)queue.ring.cpu, RING, 0, 7));
	EXPECT_EQ(ETIMEDOUT, kfd_queue_finish(&queue, 200));
	ASSERT_EQ(0, update(&self->dev, queue.id, (uintptr_t)queue.ring.cpu, RING, 100, 7));
	EXPECT_EQ(0, kfd_queue_finish(&queue, TIMEOUT_MS));
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &queue));
}

/*
 * So does an update without a ring, whatever the percentage. An update with one brings the
 * queue back.
 */
TEST_F(queue, queue_without_ring_waits)
{
	static const uint32_t sizes[] = { 0, RING };
	struct kfd_queue queue;
	unsigned int i;

	ASSERT_EQ(0, kfd_queue_create(&self->dev, &queue, RING));
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		ASSERT_EQ(0, kfd_queue_finish(&queue, TIMEOUT_MS));
		ASSERT_EQ(0, update(&self->dev, queue.id, 0, sizes[i], 100, 7));
		EXPECT_EQ(ETIMEDOUT, kfd_queue_finish(&queue, 200));
		ASSERT_EQ(0, update(&self->dev, queue.id, 0, sizes[i], 50, 7));
		EXPECT_EQ(ETIMEDOUT, kfd_queue_finish(&queue, 200));
		ASSERT_EQ(0, update(&self->dev, queue.id, (uintptr_t)queue.ring.cpu, RING, 0, 7));
		EXPECT_EQ(ETIMEDOUT, kfd_queue_finish(&queue, 200));
		ASSERT_EQ(0, update(&self->dev, queue.id, (uintptr_t)queue.ring.cpu, RING, 100, 7));
		EXPECT_EQ(0, kfd_queue_finish(&queue, TIMEOUT_MS));
	}
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &queue));
}

TEST_F(queue, ring_in_use)
{
	ASSERT_EQ(0, create(&self->dev, &self->args));
	EXPECT_ANSWER(ring_in_use, kfd_free(self->dev.fd, self->ring.handle));
	EXPECT_ANSWER(ring_in_use,
		      kfd_unmap(self->dev.fd, self->ring.handle, self->dev.gpu_id));
	EXPECT_ANSWER(ring_in_use,
		      kfd_unmap(self->dev.fd, self->pointers.handle, self->dev.gpu_id));
	EXPECT_EQ(0, kfd_destroy_queue(self->dev.fd, self->args.queue_id));
}

/* A queue that waits for ever can be destroyed, in bounded time. */
TEST_F(queue, destroy_busy)
{
	struct kfd_queue queue, other;
	struct packets p = { 0 };
	uint64_t start;

	ASSERT_EQ(0, kfd_queue_create(&self->dev, &queue, RING));
	sdma_wait_memory(&p, (uintptr_t)self->pointers.cpu + 256, 1);
	kfd_queue_submit(&queue, p.dwords, p.count);
	EXPECT_EQ(ETIMEDOUT, kfd_queue_finish(&queue, 100));
	start = kfd_now_ms();
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &queue));
	EXPECT_GT(start + TIMEOUT_MS, kfd_now_ms());

	ASSERT_EQ(0, kfd_queue_create(&self->dev, &other, RING));
	EXPECT_EQ(0, kfd_queue_finish(&other, TIMEOUT_MS));
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &other));
}

/* A process that ends with a busy queue leaves nothing behind. */
TEST_F(queue, left_to_the_kernel)
{
	struct packets p = { 0 };
	struct kfd_queue queue;

	ASSERT_EQ(0, kfd_queue_create(&self->dev, &queue, RING));
	sdma_wait_memory(&p, (uintptr_t)queue.pointers.cpu + 256, 1);
	kfd_queue_submit(&queue, p.dwords, p.count);
}

/* A packet that is announced in part waits for the rest; the packets before it are done. */
TEST_F(queue, rung_in_mid_packet)
{
	const uint64_t word = (uintptr_t)self->pointers.cpu + 256;
	volatile uint32_t *seen = (void *)(uintptr_t)word;
	struct kfd_queue queue;
	unsigned int cut, ms;

	ASSERT_EQ(0, kfd_queue_create(&self->dev, &queue, RING));
	for (cut = 1; cut < 5; cut++) {
		struct packets p = { 0 };

		*seen = 0;
		sdma_fence(&p, word, 0x600d);
		sdma_fill(&p, word, 0xbad + cut, 1);
		ASSERT_LT(4 + cut, p.count);
		kfd_queue_submit(&queue, p.dwords, 4 + cut);
		for (ms = 0; *seen != 0x600d && ms < TIMEOUT_MS; ms++)
			usleep(1000);
		usleep(20000);
		EXPECT_EQ(0x600d, *seen);
		kfd_queue_submit(&queue, p.dwords + 4 + cut, p.count - 4 - cut);
		EXPECT_EQ(0, kfd_queue_finish(&queue, TIMEOUT_MS));
		EXPECT_EQ(0xbad + cut, *seen);
	}
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &queue));
}

/* Write pointers that make no sense harm only their queue. */
TEST_F(queue, nonsense_write_pointers)
{
	static const uint64_t values[] = {
		UINT64_MAX, 1, 3, RING + 4, 1ull << 40, (1ull << 63) | 8,
	};
	struct kfd_queue good;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(values); i++) {
		struct kfd_queue queue;

		ASSERT_EQ(0, kfd_queue_create(&self->dev, &queue, RING));
		*(volatile uint64_t *)queue.pointers.cpu = values[i];
		*queue.doorbell = values[i];
		usleep(20000);
		EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &queue)) {
			TH_LOG("write pointer 0x%llx", (unsigned long long)values[i]);
		}
	}
	ASSERT_EQ(0, kfd_queue_create(&self->dev, &good, RING));
	EXPECT_EQ(0, kfd_queue_finish(&good, TIMEOUT_MS));
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &good));
}

/* Queues that have had work once, on every place of engine 0, until the parent ends. */
static void idle_queues(int told)
{
	static struct kfd_queue queues[32];
	struct kfd_dev dev;
	unsigned int i;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || kfd_open(&dev))
		_exit(1);
	for (i = 0; i < ARRAY_SIZE(queues); i++)
		if (kfd_queue_create_on(&dev, &queues[i], KFD_PAGE, 0) ||
		    kfd_queue_finish(&queues[i], TIMEOUT_MS))
			break;
	if (i == 0 || write(told, "", 1) != 1)
		_exit(2);
	pause();
}

/*
 * Of two queues of a process on one engine, all places of which idle queues of another process
 * have, the one that was made last gets work: the other, which has none, does not keep it out.
 */
TEST_F(queue, behind_an_idle_one)
{
	struct kfd_queue first, last;
	int told[2], status;
	pid_t pid;
	char byte;

	if (!kfd_is_rkfd())
		SKIP(return, "amdkfd gives an engine no more queues than it has places");
	ASSERT_EQ(0, pipe(told));
	pid = fork();
	ASSERT_NE(-1, pid);
	if (pid == 0)
		idle_queues(told[1]);
	ASSERT_EQ(0, close(told[1]));
	ASSERT_EQ(1, read(told[0], &byte, 1));
	ASSERT_EQ(0, close(told[0]));
	ASSERT_EQ(0, kfd_queue_create_on(&self->dev, &first, RING, 0));
	ASSERT_EQ(0, kfd_queue_create_on(&self->dev, &last, RING, 0));
	EXPECT_EQ(0, kfd_queue_finish(&last, TIMEOUT_MS));
	EXPECT_EQ(0, kfd_queue_finish(&first, TIMEOUT_MS));
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &first));
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &last));
}

/* Creates queues and destroys each, even while another thread does so. */
struct maker {
	pthread_t thread;
	const struct kfd_dev *dev;
	struct kfd_ioctl_create_queue_args args;
	unsigned int guess;	/* guess a number that may be another thread's queue; 0: do not */
	int err;
};

static void *make_queues(void *arg)
{
	struct maker *m = arg;
	unsigned int i;
	int err;

	for (i = 0; i < 500 && !m->err; i++) {
		m->err = create(m->dev, &m->args);
		if (m->err)
			break;
		if (m->guess)
			kfd_destroy_queue(m->dev->fd, m->guess);
		err = kfd_destroy_queue(m->dev->fd, m->args.queue_id);
		/* Another thread was faster. */
		if (err && err != EINVAL)
			m->err = err;
	}
	return NULL;
}

/* A number that one thread has released is another's queue, with a folder of its own in sysfs. */
TEST_F(queue, made_by_threads)
{
	struct maker m[4] = { 0 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(m); i++) {
		m[i].dev = &self->dev;
		m[i].args = self->args;
		m[i].guess = i % 2;
		ASSERT_EQ(0, pthread_create(&m[i].thread, NULL, make_queues, &m[i]));
	}
	for (i = 0; i < ARRAY_SIZE(m); i++) {
		pthread_join(m[i].thread, NULL);
		EXPECT_EQ(0, m[i].err);
	}
}

KFD_HARNESS_MAIN
