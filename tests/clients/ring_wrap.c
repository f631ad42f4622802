// SPDX-License-Identifier: GPL-2.0
/* Rings that wrap around, at every position, padded and with packets across the end. */
#include <stdlib.h>
#include <string.h>

#include "common/pattern.h"
#include "common/queue.h"
#include "tap.h"

#define SLOTS	64u
#define SLOT	256u

static struct gpu gpu;

/* Copies slot after slot until the ring has gone round @turns times. */
static bool go_round(struct queue *queue, const struct buffer *dst,
		     const struct buffer *src, unsigned int turns)
{
	const uint64_t end = queue->wptr + (uint64_t)turns * queue->ring.size;
	uint32_t last = queue->sequence;
	unsigned int i = 0;

	while (queue->wptr < end) {
		struct packets p = { 0 };
		const unsigned int slot = i++ % SLOTS;

		if (slot == 0) {
			/* All slots are written again, so no copy may be in progress. */
			if (!queue_wait(queue, last))
				return false;
			memset(dst->cpu, 0, dst->size);
		}
		/* Some filling, so that the wrap comes at changing places. */
		sdma_nop(&p, 1 + random_below(9));
		sdma_copy(&p, dst->gpu + slot * SLOT, src->gpu + slot * SLOT, SLOT);
		last = queue_submit(queue, &p);
		if (slot == SLOTS - 1) {
			if (!queue_wait(queue, last))
				return false;
			if (pattern_check(dst->cpu, SLOTS * SLOT, 7, 0) != SLOTS * SLOT) {
				tap_note("wrong data at write pointer %llu",
					 (unsigned long long)queue->wptr);
				return false;
			}
		}
	}
	return queue_wait(queue, last);
}

static void ring(size_t size, enum buffer_kind kind, bool straddle, unsigned int turns)
{
	struct buffer src, dst;
	struct queue queue;

	buffer_create(&gpu, &src, BUFFER_GTT, SLOTS * SLOT);
	buffer_create(&gpu, &dst, BUFFER_VRAM, SLOTS * SLOT);
	pattern_fill(src.cpu, SLOTS * SLOT, 7, 0);
	queue_create(&gpu, &queue, size, kind);
	queue.straddle = straddle;
	tap_ok(go_round(&queue, &dst, &src, turns) &&
	       queue_read_pointer(&queue) <= queue.wptr,
	       "ring of %zu KiB in %s, %u turns, packets %s its end", size >> 10,
	       buffer_kind_name[kind], turns, straddle ? "across" : "padded to");
	queue_destroy(&queue);
	buffer_destroy(&dst);
	buffer_destroy(&src);
}

/* The read pointer follows all the way: a drained ring is an empty ring. */
static void drained(void)
{
	struct queue queue;
	struct packets p = { 0 };
	unsigned long long end;

	queue_create(&gpu, &queue, 4096, BUFFER_GTT);
	sdma_nop(&p, 3);
	if (!queue_wait(&queue, queue_submit(&queue, &p))) {
		tap_ok(false, "a drained ring");
		return;
	}
	end = now_ns() + timeout_ms() * 1000000ull;
	while (queue_read_pointer(&queue) != queue.wptr && now_ns() < end)
		;
	tap_ok(queue_read_pointer(&queue) == queue.wptr,
	       "the read pointer reaches the write pointer");
	queue_destroy(&queue);
}

int main(void)
{
	tap_start();
	gpu_open(&gpu);
	ring(4096, BUFFER_GTT, false, work(40, 4));
	ring(4096, BUFFER_GTT, true, work(40, 4));
	ring(4096, BUFFER_USERPTR, true, work(10, 2));
	ring(64 << 10, BUFFER_USERPTR, false, work(4, 1));
	if (!quick())
		ring(256 << 10, BUFFER_USERPTR, true, 1);
	drained();
	gpu_close();
	return tap_end();
}
