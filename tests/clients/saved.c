// SPDX-License-Identifier: GPL-2.0
/*
 * The process that criu.sh saves and restores: waves that go on until the file of the first argument
 * is there, and afterwards more work on the same queue. Prints a line when the waves run, and TAP
 * at the end.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kfd_compute.h"
#include "kfd_event.h"
#include "kfd_waves.h"
#include "tap.h"

#define RING	(16u << 10)
#define WAVES	16u
#define NAP_US	20000

struct saved {
	struct kfd_dev dev;
	struct kfd_save save;
	struct kfd_compute queue;
	struct waves waves;
	struct kfd_bo vram;
	uint32_t event;
};

#define VRAM	(1u << 20)

static uint32_t word(uint32_t n)
{
	return n * 2654435761u;
}

static void begin(struct saved *s)
{
	uint32_t i;

	if (kfd_open(&s->dev) || kfd_save_create(&s->dev, &s->save) ||
	    event_create(&s->dev, KFD_IOC_EVENT_SIGNAL, true, &s->event) ||
	    kfd_bo_create(&s->dev, &s->vram, VRAM, KFD_ALLOC_VRAM) ||
	    waves_create(&s->dev, &s->waves, WAVES) ||
	    kfd_compute_create(&s->dev, &s->queue, &s->save, false, RING))
		die("the GPU is not to be had");
	for (i = 0; i < VRAM / 4; i++)
		((volatile uint32_t *)s->vram.cpu)[i] = word(i);
	if (!waves_start(&s->waves, &s->queue, WAVES_SMALL, WAVES, true) ||
	    !waves_go_on(&s->waves, KFD_HANG_MS))
		die("the waves do not run");
}

static bool holds(const struct saved *s)
{
	uint32_t i;

	for (i = 0; i < VRAM / 4; i++)
		if (((volatile uint32_t *)s->vram.cpu)[i] != word(i))
			return false;
	return true;
}

int main(int argc, char **argv)
{
	struct saved s = { 0 };
	uint64_t rounds;

	if (argc != 2)
		die("usage: saved FILE");
	tap_start();
	begin(&s);
	printf("# the waves run\n");
	fflush(stdout);
	while (access(argv[1], F_OK))
		usleep(NAP_US);
	rounds = waves_rounds(&s.waves);
	tap_ok(waves_go_on(&s.waves, KFD_HANG_MS) && waves_rounds(&s.waves) > rounds,
	       "the waves go on");
	waves_stop(&s.waves);
	tap_ok(waves_ended(&s.waves, KFD_HANG_MS) && !waves_bad(&s.waves),
	       "they end, and have lost nothing");
	tap_ok(holds(&s), "memory of the GPU is what it was");
	tap_ok(kfd_compute_works(&s.queue, KFD_HANG_MS) && !event_set(&s.dev, s.event) &&
	       !event_wait(&s.dev, s.event, KFD_HANG_MS), "queue and event work");
	return tap_end();
}
