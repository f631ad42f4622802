// SPDX-License-Identifier: GPL-2.0
/* The cost of events. */
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "kfd_event.h"
#include "packets.h"
#include "tap.h"

#define RING_SIZE	(64u << 10)
#define EVENTS		64u

/*
 * Runs when no other thread wants to, so that the processor is never idle: after subtracting
 * its time, the rest of a clock of instructions is the work that was done.
 */
static volatile bool filled;
static pthread_t filler;

static void *fill(void *p)
{
	const struct sched_param none = { 0 };

	(void)p;
	pthread_setschedparam(pthread_self(), SCHED_IDLE, &none);
	while (!filled)
		;
	return NULL;
}

static unsigned long long filler_ns(void)
{
	struct timespec t = { 0 };
	clockid_t clock;

	if (!instructions())
		return 0;
	if (pthread_getcpuclockid(filler, &clock) || clock_gettime(clock, &t))
		die("no clock of a thread");
	return (unsigned long long)t.tv_sec * 1000000000ull + (unsigned long long)t.tv_nsec;
}

/* A thread that only waits, and records the time of its wake-up. */
struct sleeper {
	const struct kfd_dev *dev;
	uint32_t id;
	unsigned int rounds;
	volatile unsigned int ready;	/* rounds it has begun */
	volatile unsigned long long woken[SAMPLES_MAX];
	unsigned long long filled[SAMPLES_MAX];	/* the filler's time by then */
};

static void *sleep_for_event(void *p)
{
	struct sleeper *s = p;
	unsigned int i;

	for (i = 0; i < s->rounds; i++) {
		s->ready = i + 1;
		must(event_wait(s->dev, s->id, timeout_ms()), "wait");
		s->filled[i] = filler_ns();
		s->woken[i] = now_ns();
	}
	return NULL;
}

/*
 * Makes @set wake the sleeper in each round, and reports the time from before that to the
 * sleeper's return.
 */
static void wake_up(const char *name, const struct kfd_dev *dev, uint32_t id,
		    void (*set)(void *), void *what)
{
	static struct sleeper s;
	struct samples samples = { .count = 0 };
	unsigned int i;
	pthread_t thread;

	memset(&s, 0, sizeof(s));
	s.dev = dev;
	s.id = id;
	s.rounds = work(100, 10);
	filled = false;
	if ((instructions() && pthread_create(&filler, NULL, fill, NULL)) ||
	    pthread_create(&thread, NULL, sleep_for_event, &s))
		die("no thread");
	for (i = 0; i < s.rounds; i++) {
		unsigned long long before, idle;

		/* It sleeps by then. */
		while (s.ready <= i)
			usleep(100);
		usleep(3000);
		idle = filler_ns();
		before = now_ns();
		set(what);
		while (!s.woken[i])
			usleep(100);
		samples.ns[samples.count++] = s.woken[i] - before - (s.filled[i] - idle);
	}
	pthread_join(thread, NULL);
	filled = true;
	if (instructions())
		pthread_join(filler, NULL);
	report(name, 0, &samples);
}

struct target {
	const struct kfd_dev *dev;
	struct kfd_queue *queue;
	uint64_t slot;
	uint32_t id;
};

static void set_by_call(void *p)
{
	const struct target *t = p;

	must(event_set(t->dev, t->id), "set");
}

static void set_by_gpu(void *p)
{
	const struct target *t = p;
	struct packets packets = { 0 };

	sdma_fence(&packets, t->slot, t->id);
	sdma_trap(&packets, t->id);
	sdma_nop(&packets, 16 - packets.count);
	kfd_queue_submit(t->queue, packets.dwords, packets.count);
}

static void calls(const struct kfd_dev *dev)
{
	struct samples create = { .count = 0 }, set = create, destroy = create;
	unsigned int i, rounds = work(EVENTS, 8);
	uint32_t ids[EVENTS];

	for (i = 0; i < rounds; i++) {
		const unsigned long long t = now_ns();

		must(event_create(dev, KFD_IOC_EVENT_SIGNAL, true, &ids[i]), "create");
		sample(&create, t);
	}
	for (i = 0; i < rounds; i++) {
		const unsigned long long t = now_ns();

		must(event_set(dev, ids[i]), "set");
		sample(&set, t);
	}
	for (i = 0; i < rounds; i++) {
		const unsigned long long t = now_ns();

		must(event_destroy(dev, ids[i]), "destroy");
		sample(&destroy, t);
	}
	report("event_create", 0, &create);
	report("event_set", 0, &set);
	report("event_destroy", 0, &destroy);
}

void bench_events(const struct kfd_dev *dev)
{
	struct kfd_queue queue;
	struct target target;
	struct kfd_bo page;
	uint32_t id;

	must(event_page_user(dev, &page, &id), "event page");
	must(kfd_queue_create(dev, &queue, RING_SIZE), "queue");
	calls(dev);
	target = (struct target){
		.dev = dev,
		.queue = &queue,
		.slot = (uintptr_t)page.cpu + 8 * id,
		.id = id,
	};
	wake_up("wake_by_set", dev, id, set_by_call, &target);
	/* From the doorbell of an idle queue over the engine and its interrupt. */
	wake_up("wake_by_trap", dev, id, set_by_gpu, &target);
	must(kfd_queue_destroy(dev, &queue), "destroy");
}
