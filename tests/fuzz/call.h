/* SPDX-License-Identifier: GPL-2.0 */
/* How the fuzzer makes one call, and its counts. */
#ifndef RKFD_FUZZ_CALL_H
#define RKFD_FUZZ_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kfd.h"

#define NUMBERS	256u

/* One interface's ioctls, by number. */
struct tally {
	_Atomic uint64_t good[NUMBERS], bad[NUMBERS];
};

/* The counts that all processes of a run share. */
struct counts {
	_Atomic uint64_t calls;
	struct tally kfd, drm;
};

/* The counts of calls, and the GPU of the calls; set once, before the processes. */
extern struct counts *counts;
extern struct kfd_dev gpu;

/*
 * Makes the ioctl @number of an interface ('K' or 'd') with @size bytes of arguments; now and
 * then another size, other bytes, or no memory. True if it succeeded.
 */
bool fuzz_call(int fd, char type, unsigned int number, void *args, size_t size);
/* Another call, not of an interface's table. */
void count_call(void);

/* One call of each kind, at random. */
void fuzz_kfd(void);
void fuzz_criu(void);
void fuzz_drm(void);
void fuzz_mm(void);

/* Ends what CRIU_OP may have begun. */
void criu_unpause(void);

/* The files, queues and event that a process begins with. */
void begin_kfd(void);
/* The files, without which no call gets far. */
extern struct kfd_dev own;

#endif /* RKFD_FUZZ_CALL_H */
