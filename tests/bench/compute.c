// SPDX-License-Identifier: GPL-2.0
/* The cost of compute queues, with any scheduler. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "fair.h"
#include "kfd_compute.h"
#include "kfd_event.h"
#include "tap.h"

#define RING_SIZE	(4u << 10)
#define MOST		120u	/* a process may have 127 */
#define FAIR_MS		2000u
#define IDLE_US		3000u

struct bench_compute {
	const struct kfd_dev *dev;
	struct kfd_save save;
	struct kfd_compute queue;
	uint64_t slot;		/* of the event, for the GPU */
	uint32_t event;
};

static void create(struct bench_compute *c, struct kfd_compute *queue, bool aql)
{
	must(kfd_compute_create(c->dev, queue, &c->save, aql, RING_SIZE), "compute queue");
}

static void destroy(struct bench_compute *c, struct kfd_compute *queue)
{
	must(kfd_compute_destroy(c->dev, queue), "destroy");
}

/* Waits for a qword to become @value, yielding the processor. */
static void poll_for(const volatile uint64_t *at, uint64_t value)
{
	const unsigned long long end = now_ns() + timeout_ms() * 1000000ull;

	while (*at != value) {
		if (now_ns() > end)
			die("a compute queue does not end what it was given");
		sched_yield();
	}
}

/*
 * From the doorbell of an idle queue to the signal of a barrier, or to the
 * return from the wait for its event.
 */
static void barrier(struct bench_compute *c, const char *name, bool interrupt)
{
	const uint64_t address = kfd_compute_address(&c->queue, KFD_COMPUTE_SIGNAL);
	struct aql_signal *signal = (void *)kfd_compute_qword(&c->queue, KFD_COMPUTE_SIGNAL);
	const unsigned int rounds = work(100, 10);
	struct samples s = { .count = 0 };
	struct aql_packet packet;
	unsigned int i;

	for (i = 0; i <= rounds; i++) {
		unsigned long long before;

		memset(signal, 0, sizeof(*signal));
		signal->kind = 1;
		signal->value = 1;
		if (interrupt) {
			signal->mailbox = c->slot;
			signal->event = c->event;
		}
		aql_barrier(&packet, AQL_BARRIER_AND, NULL, 0, address);
		usleep(IDLE_US);
		before = now_ns();
		if (!kfd_compute_aql(&c->queue, &packet, 1))
			die("the ring stays full");
		if (interrupt)
			must(event_wait(c->dev, c->event, timeout_ms()), "wait");
		else
			poll_for((const volatile uint64_t *)&signal->value, 0);
		/* The first one pays for the one-time setup. */
		if (i)
			sample(&s, before);
	}
	report(name, 0, &s);
}

/* From the doorbell of an idle queue to a dword in memory. */
static void pm4(struct kfd_compute *queue)
{
	const unsigned int rounds = work(100, 10);
	struct samples s = { .count = 0 };
	unsigned int i;

	for (i = 0; i <= rounds; i++) {
		struct packets p = { 0 };
		unsigned long long before;

		pm4_write(&p, kfd_compute_address(queue, KFD_COMPUTE_FENCE), ++queue->fence);
		usleep(IDLE_US);
		before = now_ns();
		if (!kfd_compute_pm4(queue, &p))
			die("the ring stays full");
		poll_for(kfd_compute_qword(queue, KFD_COMPUTE_FENCE), queue->fence);
		if (i)
			sample(&s, before);
	}
	report("pm4_write", 0, &s);
}

/* The two calls alone, with existing buffers. */
static void create_and_destroy(struct bench_compute *c)
{
	const unsigned int rounds = work(50, 5);
	struct samples made = { .count = 0 }, gone = made;
	struct kfd_ioctl_create_queue_args args;
	struct kfd_compute queue;
	unsigned int i;

	must(kfd_compute_prepare(c->dev, &queue, &c->save, false, RING_SIZE, &args), "buffers");
	for (i = 0; i < rounds; i++) {
		unsigned long long t = now_ns();

		must(kfd_ioctl(c->dev->fd, AMDKFD_IOC_CREATE_QUEUE, &args), "compute queue");
		sample(&made, t);
		t = now_ns();
		must(kfd_destroy_queue(c->dev->fd, args.queue_id), "destroy");
		sample(&gone, t);
	}
	must(kfd_compute_release(c->dev, &queue), "free");
	report("cp_create", 0, &made);
	report("cp_destroy", 0, &gone);
}

/*
 * Changes one of @count queues: from the call to its next write to memory. With the hardware's
 * scheduler all queues are taken off, and a new runlist of all is run.
 */
static void update(struct bench_compute *c, struct kfd_compute *queues, unsigned int count)
{
	const unsigned int rounds = work(20, 3);
	struct kfd_compute *queue = &queues[0];
	struct samples s = { .count = 0 };
	unsigned int i;
	char name[32];

	for (i = 0; i <= rounds; i++) {
		struct kfd_ioctl_update_queue_args args = {
			.ring_base_address = (uintptr_t)queue->ring.cpu,
			.ring_size = RING_SIZE,
			.queue_id = queue->id,
			.queue_percentage = KFD_MAX_QUEUE_PERCENTAGE,
			.queue_priority = 7,
		};
		unsigned long long before = now_ns();

		must(kfd_ioctl(c->dev->fd, AMDKFD_IOC_UPDATE_QUEUE, &args), "update");
		if (!kfd_compute_works(queue, timeout_ms()))
			die("a compute queue does not go on");
		if (i)
			sample(&s, before);
	}
	snprintf(name, sizeof(name), "update_of_%u", count);
	report(name, 0, &s);
}

static void updates(struct bench_compute *c)
{
	static const unsigned int counts[] = { 16, MOST };
	static struct kfd_compute queues[MOST];
	unsigned int made = 0, i;

	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		while (made < counts[i])
			create(c, &queues[made++], false);
		update(c, queues, made);
	}
	while (made)
		destroy(c, &queues[--made]);
}

static void fairness(unsigned int queues, unsigned int processes)
{
	struct fair fair;

	if (!fair_measure(queues, processes, FAIR_MS, FAIR_MS, &fair))
		die("busy queues fail");
	printf("bench fair_%u_of_%u 0 %.2f least/most\n", queues, processes, fair.share);
	printf("bench work_%u_of_%u 0 %.1f packets/ms\n", queues, processes,
	       (double)fair.done / fair.ms);
}

/* The calls and round trips of one queue. */
static void one_queue(struct bench_compute *c, const struct kfd_dev *dev)
{
	struct kfd_compute other;
	struct kfd_bo page;

	c->dev = dev;
	must(kfd_save_create(dev, &c->save), "save area");
	must(event_page_user(dev, &page, &c->event), "event page");
	c->slot = (uintptr_t)page.cpu + 8 * c->event;
	create(c, &c->queue, true);
	barrier(c, "barrier_polled", false);
	barrier(c, "barrier_interrupt", true);
	destroy(c, &c->queue);
	create(c, &other, false);
	pm4(&other);
	update(c, &other, 1);
	destroy(c, &other);
	create_and_destroy(c);
}

void bench_compute_calls(const struct kfd_dev *dev)
{
	struct bench_compute c = { 0 };

	one_queue(&c, dev);
	must(kfd_save_destroy(dev, &c.save), "free");
}

void bench_compute(void)
{
	struct bench_compute c = { 0 };
	struct kfd_dev dev;

	/* Before this process has files open that others would inherit. */
	fairness(48, 16);
	fairness(work(128, 40), work(20, 14));
	must(kfd_open(&dev), "open");
	one_queue(&c, &dev);
	updates(&c);
	must(kfd_save_destroy(&dev, &c.save), "free");
	bench_waves(&dev, c.slot, c.event);
	kfd_close(&dev);
}
