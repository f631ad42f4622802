/* SPDX-License-Identifier: GPL-2.0 */
/* Threads that the kernel's scheduler hardly ever runs. */
#ifndef RKFD_TEST_STARVING_H
#define RKFD_TEST_STARVING_H

#include <signal.h>
#include <sys/prctl.h>

#include "processors.h"

/* Threads of normal priority that take the processor from the starved ones. */
#define SPINNERS	4u

/* The last processor, on which threads starve. The others stay free for the rest. */
static inline long starving_cpu(void)
{
	return sysconf(_SC_NPROCESSORS_ONLN) - 1;
}

/* Restricts the caller to the processors without starved threads; false if there is none. */
static inline bool keep_off_starving_cpu(void)
{
	long cpu;
	cpu_set_t set;

	CPU_ZERO(&set);
	for (cpu = 0; cpu < starving_cpu(); cpu++)
		CPU_SET(cpu, &set);
	return CPU_COUNT(&set) && !sched_setaffinity(0, sizeof(set), &set);
}

/*
 * Restricts the caller, and the threads that it will make, to the processor where they starve,
 * and keeps that busy until the process ends. No privilege is needed for any of it.
 */
static inline bool begin_to_starve(void)
{
	unsigned int i;

	if (!stay_on(starving_cpu()))
		return false;
	for (i = 0; i < SPINNERS; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, run_for_ever, NULL))
			return false;
	}
	return true;
}

/* Gives the calling thread only the time that others leave. */
static inline bool starve(void)
{
	const struct sched_param none = { 0 };

	return !sched_setscheduler(0, SCHED_IDLE, &none);
}

struct starved_thread {
	void (*loop)(unsigned int number);
	unsigned int number;
};

static inline void *run_starved(void *arg)
{
	const struct starved_thread *me = arg;

	if (!starve())
		_exit(3);
	for (;;)
		me->loop(me->number);
	return NULL;
}

/*
 * Runs @prepare in a process of its own and then, on a busy processor, @loop in @count
 * starved threads of it, each with its number, again and again. The process ends with the caller.
 */
static inline pid_t starved_process(bool (*prepare)(void), void (*loop)(unsigned int number),
				    unsigned int count)
{
	const pid_t pid = fork();
	struct starved_thread threads[count];
	unsigned int i;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!prepare())
		_exit(1);
	if (!begin_to_starve())
		_exit(2);
	for (i = 0; i < count; i++) {
		pthread_t thread;

		threads[i] = (struct starved_thread){ .loop = loop, .number = i };
		if (pthread_create(&thread, NULL, run_starved, &threads[i]))
			_exit(2);
	}
	for (;;)
		pause();
}

#endif /* RKFD_TEST_STARVING_H */
