/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the parts of the benchmark. */
#ifndef RKFD_BENCH_H
#define RKFD_BENCH_H

#include "kfd.h"

#define SAMPLES_MAX	200u

struct samples {
	unsigned long long ns[SAMPLES_MAX];
	unsigned int count;
};

/* Adds the time since @since. */
void sample(struct samples *s, unsigned long long since);
/* True if a nanosecond of the clock is an instruction of the only processor. */
bool instructions(void);
/* Prints the median in microseconds, or in instructions. */
void report(const char *name, uint64_t size, struct samples *s);
/* Ends the program if @err is an errno. */
void must(int err, const char *what);

/* Making, setting and destroying events, and how long it takes to wake a waiter. */
void bench_events(const struct kfd_dev *dev);

/* Kinds of memory: VRAM, GTT, user memory. */
#define BENCH_KINDS	3u

/* Allocating, mapping, unmapping and freeing a buffer of kind @which. */
void bench_memory(const struct kfd_dev *dev, unsigned int which, uint64_t size);
/* Making and destroying SDMA queues. */
void bench_queues(const struct kfd_dev *dev);
/*
 * One copy of an SDMA queue from its doorbell to its fence; a stream of them. Each opens the
 * device.
 */
void bench_latency(uint64_t size);
void bench_streaming(uint64_t size);

/* Jobs of the render node. Opens the device. */
void bench_jobs(void);

/* The same calls for any driver of the ABI. */
void bench_compare(void);
/* A program from start to end: its name in the output, then its arguments. */
void bench_command(char **argv);

/* Making, changing and destroying compute queues, and their round trips. */
void bench_compute_calls(const struct kfd_dev *dev);
/* Dispatches, of which some set @event with its @slot, and waves that are saved and restored. */
void bench_waves(const struct kfd_dev *dev, uint64_t slot, uint32_t event);
/* Compute queues: round trips, calls, and how they share the hardware. */
void bench_compute(void);
/*
 * Shared virtual memory that is prefetched, touched by the CPU, given to the GPU, and accessed
 * by it. Opens the device.
 */
void bench_svm(void);

#endif /* RKFD_BENCH_H */
