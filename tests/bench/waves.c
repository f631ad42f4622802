// SPDX-License-Identifier: GPL-2.0
/* The cost of waves: from a dispatch's doorbell to its end, and of saving and restoring them. */
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "bench.h"
#include "kfd_event.h"
#include "kfd_waves.h"
#include "tap.h"

#define RING_SIZE	(64u << 10)
#define MOST		3328u	/* as many as the GPU holds */
#define IDLE_US		3000u

struct bench_waves {
	const struct kfd_dev *dev;
	struct kfd_compute queue;
	struct waves waves;
};

/*
 * From the doorbell of an idle queue to the fence behind a dispatch of one wave, or to the
 * return from the wait for its event.
 */
static void dispatch(struct bench_waves *w, const char *name, uint64_t slot, uint32_t event)
{
	const uint64_t fence = kfd_compute_address(&w->queue, KFD_COMPUTE_FENCE);
	const volatile uint64_t *at = kfd_compute_qword(&w->queue, KFD_COMPUTE_FENCE);
	const unsigned int rounds = work(100, 10);
	struct samples s = { .count = 0 };
	unsigned int i;

	waves_stop(&w->waves);
	for (i = 0; i <= rounds; i++) {
		struct packets p = { 0 };
		unsigned long long before, end;

		waves_dispatch(&p, &w->waves, WAVES_SMALL, 1, true);
		pm4_release(&p, fence, ++w->queue.fence, 0);
		if (event)
			pm4_release(&p, slot, event, event);
		usleep(IDLE_US);
		before = now_ns();
		end = before + timeout_ms() * 1000000ull;
		if (!kfd_compute_pm4(&w->queue, &p))
			die("the ring stays full");
		if (event)
			must(event_wait(w->dev, event, timeout_ms()), "wait");
		while (*at != w->queue.fence) {
			if (now_ns() > end)
				die("a dispatch does not end");
			sched_yield();
		}
		/* The first one pays for the one-time setup. */
		if (i)
			sample(&s, before);
	}
	report(name, 0, &s);
}

/* UPDATE_QUEUE to 0, which saves all waves, and from UPDATE_QUEUE to 100 until all have gone on. */
static void save_and_restore(struct bench_waves *w, unsigned int count)
{
	const unsigned int rounds = work(10, 3);
	struct samples saved = { .count = 0 }, restored = saved;
	char name[32];
	unsigned int i;

	if (!waves_start(&w->waves, &w->queue, WAVES_MIDDLE, count, true) ||
	    !waves_go_on(&w->waves, timeout_ms()))
		die("waves do not start");
	for (i = 0; i < rounds; i++) {
		unsigned long long before = now_ns();

		must(kfd_compute_update(w->dev, &w->queue, 0), "stop");
		sample(&saved, before);
		before = now_ns();
		must(kfd_compute_update(w->dev, &w->queue, KFD_MAX_QUEUE_PERCENTAGE), "go on");
		if (!waves_go_on(&w->waves, timeout_ms()))
			die("waves do not go on");
		sample(&restored, before);
	}
	waves_stop(&w->waves);
	if (!waves_ended(&w->waves, timeout_ms()) || waves_bad(&w->waves))
		die("waves are not what they were");
	snprintf(name, sizeof(name), "save_%u", count);
	report(name, 0, &saved);
	snprintf(name, sizeof(name), "restore_%u", count);
	report(name, 0, &restored);
}

void bench_waves(const struct kfd_dev *dev, uint64_t slot, uint32_t event)
{
	struct bench_waves w = { .dev = dev };
	struct kfd_save save;

	must(kfd_save_create(dev, &save), "save area");
	must(kfd_compute_create(dev, &w.queue, &save, false, RING_SIZE), "compute queue");
	must(waves_create(dev, &w.waves, MOST), "buffers");
	dispatch(&w, "dispatch_polled", 0, 0);
	dispatch(&w, "dispatch_irq", slot, event);
	save_and_restore(&w, 1);
	save_and_restore(&w, 256);
	save_and_restore(&w, MOST);
	must(kfd_compute_destroy(dev, &w.queue), "destroy");
	must(waves_destroy(dev, &w.waves), "free");
	must(kfd_save_destroy(dev, &save), "free");
}
