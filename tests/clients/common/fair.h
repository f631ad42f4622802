/* SPDX-License-Identifier: GPL-2.0 */
/* Measures how evenly compute queues that always have work share the hardware. */
#ifndef RKFD_TEST_FAIR_H
#define RKFD_TEST_FAIR_H

#include <stdbool.h>
#include <stdint.h>

#define FAIR_QUEUES_MAX		128u
#define FAIR_PROCESSES_MAX	20u

struct fair {
	double share;		/* the least work of a queue over the most */
	uint64_t done;		/* the work of all */
	unsigned int ms;	/* in this time */
	/*
	 * The number of times that a queue came onto the hardware in that time: fewest and
	 * most. Only where the driver itself schedules, and with debugfs.
	 */
	bool counted;
	unsigned int fewest, most;
};

/*
 * Makes @queues queues of @processes processes count for @ms milliseconds, and on for as long
 * as one of them has not counted at all, up to @limit. False when a process fails.
 */
bool fair_measure(unsigned int queues, unsigned int processes, unsigned int ms,
		  unsigned int limit, struct fair *fair);

#endif /* RKFD_TEST_FAIR_H */
