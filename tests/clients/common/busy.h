/* SPDX-License-Identifier: GPL-2.0 */
/* A process whose compute queues have work until it ends. */
#ifndef RKFD_TEST_BUSY_H
#define RKFD_TEST_BUSY_H

#include <sys/types.h>

#define BUSY_QUEUES_MAX	8u

/*
 * Starts a process with @queues queues of PM4 and AQL packets, of which the last waits for ever
 * and the others count: child_start(), which is ready when all that count have begun.
 */
pid_t busy_start(unsigned int queues);

#endif /* RKFD_TEST_BUSY_H */
