/* SPDX-License-Identifier: GPL-2.0 */
/* Processes that do the same thing in rounds all the time, beside a test. */
#ifndef RKFD_TEST_ROUNDS_H
#define RKFD_TEST_ROUNDS_H

#include <stdbool.h>
#include <sys/types.h>

#define ROUNDS_MAX	8u

struct rounds_shared;

struct rounds {
	struct rounds_shared *shared;
	pid_t pids[ROUNDS_MAX];
	unsigned int count;
};

/*
 * Starts @count of them, which run @run (see child_start), numbered from 0 on; each has done a
 * round when this returns.
 */
void rounds_start(struct rounds *rounds, void (*run)(int ready, unsigned int number),
		  unsigned int count);
/* For @run: process @number has done a round, right or not; true if it must do another one. */
bool rounds_next(const struct rounds *rounds, int ready, unsigned int number);
/* True if each goes on: it ends a round that it begins after this call. */
bool rounds_go_on(const struct rounds *rounds);
/* Ends them; true if each has exited with 0. */
bool rounds_stop(struct rounds *rounds);

#endif /* RKFD_TEST_ROUNDS_H */
