/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An SDMA queue made by libhsakmt, and its use by a client: packets into the ring, the write
 * pointer, the doorbell; a FENCE packet marks the end.
 */
#ifndef RKFD_TEST_QUEUE_H
#define RKFD_TEST_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hsakmt/hsakmt.h>

#include "buffer.h"
#include "gpu.h"
#include "packets.h"

struct queue {
	struct buffer ring;
	struct buffer status;		/* a page; the fence is its first dword */
	HsaQueueResource resource;
	uint64_t wptr;			/* bytes, ever growing */
	uint32_t sequence;		/* of the last fence */
	bool straddle;			/* packets may cross the ring's end */
};

/* False if the driver has no room for another queue. */
bool queue_try_create(const struct gpu *gpu, struct queue *queue,
		      size_t ring_size, enum buffer_kind ring_kind);
/* The same, or the program ends. */
void queue_create(const struct gpu *gpu, struct queue *queue,
		  size_t ring_size, enum buffer_kind ring_kind);
void queue_destroy(struct queue *queue);

/* Puts packets into the ring, waiting for space; the engine sees nothing yet. */
void queue_push(struct queue *queue, const struct packets *packets);
/* Stores the write pointer, then the doorbell. */
void queue_ring(struct queue *queue);
/* Pushes the packets and a fence behind them and rings; returns the fence's value. */
uint32_t queue_submit(struct queue *queue, const struct packets *packets);

uint64_t queue_read_pointer(const struct queue *queue);
bool queue_done(const struct queue *queue, uint32_t sequence);
/* False if the fence did not come in @ms milliseconds. */
bool queue_wait_ms(const struct queue *queue, uint32_t sequence, unsigned int ms);
/* Within timeout_ms(); prints the queue's position if it is too late. */
bool queue_wait(const struct queue *queue, uint32_t sequence);

/* One linear copy in one submission, which is waited for. */
bool queue_copy(struct queue *queue, uint64_t dst, uint64_t src, uint64_t bytes);

#endif /* RKFD_TEST_QUEUE_H */
