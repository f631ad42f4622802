// SPDX-License-Identifier: GPL-2.0
#include <inttypes.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "queue.h"
#include "tap.h"

#define PERCENTAGE	100

static volatile uint32_t *fence_of(const struct queue *queue)
{
	return (volatile uint32_t *)queue->status.cpu;
}

bool queue_try_create(const struct gpu *gpu, struct queue *queue,
		      size_t ring_size, enum buffer_kind ring_kind)
{
	HSAKMT_STATUS status;

	memset(queue, 0, sizeof(*queue));
	buffer_create(gpu, &queue->ring, ring_kind, ring_size);
	buffer_create(gpu, &queue->status, BUFFER_GTT, 4096);
	memset(queue->status.cpu, 0, queue->status.size);
	status = hsaKmtCreateQueue(gpu->node, HSA_QUEUE_SDMA, PERCENTAGE,
				   HSA_QUEUE_PRIORITY_NORMAL, queue->ring.cpu,
				   ring_size, NULL, &queue->resource);
	if (status == HSAKMT_STATUS_SUCCESS) {
		queue->wptr = *queue->resource.Queue_write_ptr_aql;
		return true;
	}
	buffer_destroy(&queue->status);
	buffer_destroy(&queue->ring);
	return false;
}

void queue_create(const struct gpu *gpu, struct queue *queue,
		  size_t ring_size, enum buffer_kind ring_kind)
{
	if (!queue_try_create(gpu, queue, ring_size, ring_kind))
		die("hsaKmtCreateQueue with a ring of %zu bytes failed", ring_size);
}

void queue_destroy(struct queue *queue)
{
	if (hsaKmtDestroyQueue(queue->resource.QueueId) != HSAKMT_STATUS_SUCCESS)
		die("hsaKmtDestroyQueue failed");
	buffer_destroy(&queue->status);
	buffer_destroy(&queue->ring);
}

uint64_t queue_read_pointer(const struct queue *queue)
{
	return *(volatile uint64_t *)queue->resource.Queue_read_ptr_aql;
}

/* Waits until @bytes more fit: the read pointer never equals the write pointer. */
static void wait_for_space(struct queue *queue, uint64_t bytes)
{
	const unsigned long long end = now_ns() + timeout_ms() * 1000000ull;
	const uint64_t size = queue->ring.size;

	if (bytes >= size)
		die("%" PRIu64 " bytes of packets do not fit into the ring", bytes);
	if (queue->wptr + bytes - queue_read_pointer(queue) < size)
		return;
	queue_ring(queue);
	while (queue->wptr + bytes - queue_read_pointer(queue) >= size) {
		if (now_ns() > end)
			die("the ring stays full: read pointer %" PRIu64 ", write pointer %" PRIu64,
			    queue_read_pointer(queue), queue->wptr);
		sched_yield();
	}
}

static void write_dwords(struct queue *queue, const uint32_t *dwords, unsigned int count)
{
	volatile uint32_t *ring = (volatile uint32_t *)queue->ring.cpu;
	const uint64_t mask = queue->ring.size / 4 - 1;
	unsigned int i;

	for (i = 0; i < count; i++)
		ring[(queue->wptr / 4 + i) & mask] = dwords[i];
	queue->wptr += (uint64_t)count * 4;
}

/* Fills the ring up to its end with one NOP. */
static void pad_to_end(struct queue *queue, unsigned int dwords)
{
	uint32_t header = SDMA_NOP | (dwords - 1) << 16;

	wait_for_space(queue, (uint64_t)dwords * 4);
	write_dwords(queue, &header, 1);
	header = 0;
	while (--dwords)
		write_dwords(queue, &header, 1);
}

void queue_push(struct queue *queue, const struct packets *packets)
{
	const uint64_t size = queue->ring.size;
	unsigned int left = (unsigned int)(size - queue->wptr % size) / 4;

	if (left < packets->count && !queue->straddle)
		pad_to_end(queue, left);
	wait_for_space(queue, (uint64_t)packets->count * 4);
	write_dwords(queue, packets->dwords, packets->count);
}

void queue_ring(struct queue *queue)
{
	__sync_synchronize();
	*(volatile uint64_t *)queue->resource.Queue_write_ptr_aql = queue->wptr;
	__sync_synchronize();
	*(volatile uint64_t *)queue->resource.Queue_DoorBell_aql = queue->wptr;
}

uint32_t queue_submit(struct queue *queue, const struct packets *packets)
{
	struct packets all = *packets;

	sdma_fence(&all, queue->status.gpu, ++queue->sequence);
	queue_push(queue, &all);
	queue_ring(queue);
	return queue->sequence;
}

bool queue_done(const struct queue *queue, uint32_t sequence)
{
	return (int32_t)(*fence_of(queue) - sequence) >= 0;
}

bool queue_wait_ms(const struct queue *queue, uint32_t sequence, unsigned int ms)
{
	const unsigned long long start = now_ns();
	const unsigned long long spin = start + 2000000;
	const unsigned long long end = start + ms * 1000000ull;

	while (!queue_done(queue, sequence)) {
		const unsigned long long now = now_ns();

		if (now > end)
			return queue_done(queue, sequence);
		if (now > spin)
			usleep(100);
		else
			sched_yield();
	}
	return true;
}

bool queue_wait(const struct queue *queue, uint32_t sequence)
{
	if (queue_wait_ms(queue, sequence, timeout_ms()))
		return true;
	tap_note("queue %llu: fence %u instead of %u after %u ms; read pointer %" PRIu64
		 ", write pointer %" PRIu64,
		 (unsigned long long)queue->resource.QueueId, *fence_of(queue), sequence,
		 timeout_ms(), queue_read_pointer(queue), queue->wptr);
	return false;
}

bool queue_copy(struct queue *queue, uint64_t dst, uint64_t src, uint64_t bytes)
{
	struct packets p = { 0 };

	sdma_copy(&p, dst, src, bytes);
	return queue_wait(queue, queue_submit(queue, &p));
}
