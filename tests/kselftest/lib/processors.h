/* SPDX-License-Identifier: GPL-2.0 */
/* Control of the processors' use during a test. */
#ifndef PROCESSORS_H
#define PROCESSORS_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kfd.h"

/* Restricts the thread, and the threads that it will make, to one processor. */
static inline bool stay_on(long cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return !sched_setaffinity(0, sizeof(set), &set);
}

/* The number of times that the thread has waited. */
static inline long sleeps(void)
{
	struct rusage usage = { 0 };

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw;
}

/*
 * A thread with priority. When it has waited for the mmap lock, it preempts the thread that has
 * released it, and spins for a while.
 */
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

/*
 * Restricts the caller to processor 0, beside a thread of higher priority that preempts it
 * there.
 */
static inline bool be_cut_in(void *page)
{
	const struct sched_param first = { .sched_priority = 1 }, none = { 0 };
	pthread_t thread;

	/* A new thread inherits the scheduling of its creator. */
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

/*
 * Gives the caller one processor with priority over all other threads, and keeps the other
 * processors busy until the process ends.
 */
static inline bool take_processors(void)
{
	const struct sched_param first = { .sched_priority = 1 };
	const long count = sysconf(_SC_NPROCESSORS_ONLN);
	long cpu;

	/* A new thread inherits the scheduling of its creator. */
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
