/* SPDX-License-Identifier: GPL-2.0 */
/* Processes that a test starts, and their ends. */
#ifndef RKFD_TEST_CHILD_H
#define RKFD_TEST_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

/* fork() that does not fail, with nothing left in stdout that the child would print again. */
pid_t child_fork(void);

/*
 * Starts a process that runs @run. @run writes a byte to @ready when it has got as far as the
 * test wants it, and does not return. Returns its number then, or 0 when it has ended before.
 */
pid_t child_start(void (*run)(int ready, unsigned int number), unsigned int number);
/* Kills it; true if it was still there. */
bool child_kill(pid_t pid);

/* Waits for its end: its exit status, or -1 when it did not exit. */
int child_status(pid_t pid);
/* Waits for all of them; true if each exits with 0. */
bool children_succeed(const pid_t *pid, unsigned int count);

#endif /* RKFD_TEST_CHILD_H */
