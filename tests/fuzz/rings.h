/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two queues of a process, one of SDMA and one of compute, that are created again and again in
 * the same memory, and packets for them.
 */
#ifndef RKFD_FUZZ_RINGS_H
#define RKFD_FUZZ_RINGS_H

#include <stdint.h>

#include "kfd.h"

#define RINGS	2u

/* The memory of queue @i, from its arguments @args; once, before the threads. */
void ring_begin(unsigned int i, const struct kfd_ioctl_create_queue_args *args);
/* Arguments to create queue @i. */
struct kfd_ioctl_create_queue_args ring_args(unsigned int i);
/*
 * The queue was created, with its doorbell at @doorbell of the process's doorbell slice, which
 * is mapped at @slice unless that is NULL.
 */
void ring_made(unsigned int i, uint64_t doorbell, void *slice);
/* Puts packets into one of the queues and rings, or does something similar elsewhere. */
void fuzz_ring(void);

#endif /* RKFD_FUZZ_RINGS_H */
