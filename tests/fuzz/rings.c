// SPDX-License-Identifier: GPL-2.0
#include <stdatomic.h>
#include <string.h>

#include "packets.h"
#include "pm4.h"
#include "pool.h"
#include "rings.h"
#include "touch.h"

/* Threads race for all of it on purpose. */
struct ring {
	_Atomic uint64_t slice;
	_Atomic uint64_t doorbell;
	_Atomic uint64_t wptr;	/* dwords */
	struct kfd_ioctl_create_queue_args args;
};

static struct ring rings[RINGS];

void ring_begin(unsigned int i, const struct kfd_ioctl_create_queue_args *args)
{
	rings[i].args = *args;
}

struct kfd_ioctl_create_queue_args ring_args(unsigned int i)
{
	return rings[i].args;
}

void ring_made(unsigned int i, uint64_t doorbell, void *slice)
{
	struct ring *ring = &rings[i];

	if (slice)
		atomic_store(&ring->slice, (uintptr_t)slice);
	/* Write pointers that remain from the previous queue count for this one, too. */
	atomic_store(&ring->wptr, 0);
	atomic_store(&ring->doorbell, atomic_load(&ring->slice) + doorbell % KFD_DOORBELL_SLICE);
}

/* Mostly the address of a buffer; in it a dword that a packet can name. */
static uint64_t target(void)
{
	return some_address() & (once_in(20) ? ~0ull : once_in(2) ? ~3ull : ~7ull);
}

static void sdma_packet(struct packets *p)
{
	static const uint32_t words[] = { 1, 2, 3, 4 };

	switch (below(10)) {
	case 0:
		sdma_nop(p, 1 + below(8));
		break;
	case 1:
		sdma_fence(p, target(), random32());
		break;
	case 2:
		sdma_fill(p, target(), random32(), 1 + below(4096));
		break;
	case 3:
		sdma_write(p, target(), words, 1 + below(4));
		break;
	case 4:
		sdma_atomic_add64(p, target(), random64());
		break;
	case 5:
		sdma_timestamp(p, target());
		break;
	case 6:
		sdma_trap(p, below(5000));
		break;
	case 7:
		if (once_in(20))
			sdma_wait_memory(p, target(), random32());
		if (once_in(50))
			sdma_srbm_write(p, random32(), random32());
		break;
	default:
		sdma_copy(p, target(), target(), 1 + below(once_in(4) ? 1u << 20 : 16384));
	}
}

static void pm4_packet(struct packets *p)
{
	switch (below(8)) {
	case 0:
		pm4_nop(p, 1 + below(8));
		break;
	case 1:
		pm4_write(p, target(), random32());
		break;
	case 2:
	case 3:
		pm4_copy(p, target(), target());
		break;
	case 4:
		pm4_atomic_add64(p, target(), random64());
		break;
	case 5:
		pm4_release(p, target(), random64(), below(5000));
		break;
	case 6:
		if (once_in(20))
			pm4_wait_memory(p, target(), random32());
		break;
	default:
		if (once_in(4))
			pm4_indirect(p, target(), below(64));
		else
			pm4_header(p, below(256), 1 + below(6));
	}
}

/* An AQL packet: any type, with addresses that may be good. */
static void aql_packet(struct packets *p)
{
	struct aql_packet packet = { .header = AQL_HEADER(below(7)) };

	for (unsigned int i = 0; i < 13; i++)
		packet.dwords[i] = once_in(2) ? 0 : (uint32_t)target();
	if (once_in(2))
		packet.completion = target();
	memcpy(p->dwords, &packet, sizeof(packet));
	p->count = sizeof(packet) / 4;
}

static void submit(struct ring *ring)
{
	const uint32_t type = ring->args.queue_type, dwords = ring->args.ring_size / 4;
	const bool sdma = type == KFD_IOC_QUEUE_TYPE_SDMA;
	const bool aql = type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
	struct packets p = { 0 };
	uint64_t from, wptr, doorbell;

	for (unsigned int n = 1 + below(aql ? 1 : 4); n; n--) {
		if (sdma)
			sdma_packet(&p);
		else if (aql)
			aql_packet(&p);
		else
			pm4_packet(&p);
	}
	if (once_in(40))
		p.dwords[below(p.count + 1)] = random32();
	from = atomic_fetch_add(&ring->wptr, p.count);
	for (unsigned int i = 0; i < p.count; i++)
		touch(ring->args.ring_base_address + (from + i) % dwords * 4, &p.dwords[i], 4);
	from += p.count;
	/* Bytes, packets, dwords. */
	wptr = sdma ? from * 4 : aql ? from / 16 : from;
	touch(ring->args.write_pointer_address, &wptr, sizeof(wptr));
	doorbell = atomic_load(&ring->doorbell);
	if (aql)
		wptr--;
	touch(doorbell, &wptr, sizeof(wptr));
}

/* Stores to possible rings, and to possible doorbells. */
static void scatter(void)
{
	struct packets p = { 0 };
	uint64_t wptr = 8 * below(64);

	if (once_in(2))
		sdma_packet(&p);
	touch(pool_any(PLACE), p.dwords, p.count * sizeof(p.dwords[0]));
	touch(pool_any(PLACE), &wptr, sizeof(wptr));
	touch(pool_any(DOORBELL), &wptr, once_in(10) ? below(sizeof(wptr)) : sizeof(wptr));
}

void fuzz_ring(void)
{
	if (once_in(4))
		scatter();
	else
		submit(&rings[below(RINGS)]);
}
