/* SPDX-License-Identifier: GPL-2.0 */
/* A process that does nothing wrong beside those that do. */
#ifndef RKFD_FUZZ_NEIGHBOUR_H
#define RKFD_FUZZ_NEIGHBOUR_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * One queue, one checked fill of system memory and of VRAM in a process of its own; true if all
 * went well.
 */
bool neighbour_once(void);
/* A process that does so again and again until it is told to end. */
pid_t neighbour_start(void);
/* Ends it: returns the number of its rounds, or -1 when something went wrong. */
long neighbour_end(pid_t pid);

#endif /* RKFD_FUZZ_NEIGHBOUR_H */
