/* SPDX-License-Identifier: GPL-2.0 */
/* Who has the processors while something is tried. */
#ifndef PROCESSORS_H
#define PROCESSORS_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kfd.h"

/* The thread, and those that it makes, run on one processor alone. */
static inline bool stay_on(long cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return !sched_setaffinity(0, sizeof(set), &set);
}

/* How often the thread has waited. */
static inline long sleeps(void)
{
	struct rusage usage = { 0 };

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw;
}

/* Where it has waited for the mmap lock, it takes the processor from who has let it in, and keeps it for a while. */
static inline void *cut_in(void *page)
{
	unsigned char resident;

	for (;;) {
		const long before = sleeps();
		uint64_t end;

		mincore(page, 1, &resident);
		if (sleeps() != before)
			for (end = kfd_now_ms() + 10; kfd_now_ms() < end;)
				;
		usleep(50);
	}
	return NULL;
}

/* The caller runs on processor 0 alone, and there somebody else before it, who cuts in. */
static inline bool be_cut_in(void *page)
{
	const struct sched_param first = { .sched_priority = 1 }, none = { 0 };
	pthread_t thread;

	/* A thread begins as who makes it. */
	return stay_on(0) && !sched_setscheduler(0, SCHED_FIFO, &first) &&
	       !pthread_create(&thread, NULL, cut_in, page) &&
	       !sched_setscheduler(0, SCHED_OTHER, &none);
}

static inline void *run_for_ever(void *unused)
{
	for (;;)
		;
	return unused;
}

/* The caller runs on one processor, before everybody else, and nothing runs on the others until the process ends. */
static inline bool take_processors(void)
{
	const struct sched_param first = { .sched_priority = 1 };
	const long count = sysconf(_SC_NPROCESSORS_ONLN);
	long cpu;

	/* A thread begins as who makes it. */
	if (sched_setscheduler(0, SCHED_FIFO, &first))
		return false;
	for (cpu = count - 1; cpu >= 0; cpu--) {
		pthread_t thread;

		if (!stay_on(cpu))
			return false;
		if (cpu > 0 && pthread_create(&thread, NULL, run_for_ever, NULL))
			return false;
	}
	return true;
}

#endif /* PROCESSORS_H */
