/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A process with a compute queue of its own beside a process in trouble: it works on request,
 * loses nothing, and gets no notification.
 */
#ifndef RKFD_TEST_NEIGHBOUR_H
#define RKFD_TEST_NEIGHBOUR_H

#include <stdbool.h>
#include <sys/types.h>

/* A pipe to a process and one back. */
struct neighbour {
	pid_t pid;
	int to, from;
};

/* Forks it, before the caller has opened the device. */
void neighbour_start(struct neighbour *n);
void neighbour_go(const struct neighbour *n);
/*
 * True if it has worked since the request to go, no work was lost, and it got no exception and
 * no fault.
 */
bool neighbour_worked(const struct neighbour *n);
/* True if it ends well. */
bool neighbour_ended(struct neighbour *n);

#endif /* RKFD_TEST_NEIGHBOUR_H */
