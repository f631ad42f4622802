/* SPDX-License-Identifier: GPL-2.0 */
/* A process whose compute queues have work until it ends. */
#ifndef RKFD_TEST_BUSY_H
#define RKFD_TEST_BUSY_H

#include <stdbool.h>
#include <sys/types.h>

#define BUSY_QUEUES_MAX	8u

/*
 * Starts a process with @queues queues of PM4 and AQL packets, of which the
 * last waits for ever and the others count. Gives its number when all that
 * count have begun, 0 when it did not get so far.
 */
pid_t busy_start(unsigned int queues);
/* Kills it; whether it was still there. */
bool busy_kill(pid_t pid);

#endif /* RKFD_TEST_BUSY_H */
