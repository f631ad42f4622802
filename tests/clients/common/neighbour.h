/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A process with a compute queue of its own beside one that is in trouble: it
 * works when it is told to, loses nothing, and hears of nothing.
 */
#ifndef RKFD_TEST_NEIGHBOUR_H
#define RKFD_TEST_NEIGHBOUR_H

#include <stdbool.h>
#include <sys/types.h>

/* One line to a process and one back. */
struct neighbour {
	pid_t pid;
	int to, from;
};

/* Forks it, before the caller has opened the device. */
void neighbour_start(struct neighbour *n);
void neighbour_go(const struct neighbour *n);
/*
 * Whether it has done work since it was told to go, none was lost, and it was
 * told of no exception and no fault.
 */
bool neighbour_worked(const struct neighbour *n);
/* Whether it ends well. */
bool neighbour_ended(struct neighbour *n);

#endif /* RKFD_TEST_NEIGHBOUR_H */
