/* SPDX-License-Identifier: GPL-2.0 */
/*
 * PM4 packets of compute queues and AQL packets as a client builds them.
 * Addresses are the GPU's.
 */
#ifndef RKFD_TEST_PM4_H
#define RKFD_TEST_PM4_H

#include <stdint.h>
#include <string.h>

#include "packets.h"

enum pm4_op {
	PM4_NOP = 0x10,
	PM4_ATOMIC_MEM = 0x1e,
	PM4_WRITE_DATA = 0x37,
	PM4_WAIT_REG_MEM = 0x3c,
	PM4_INDIRECT_BUFFER = 0x3f,
	PM4_COPY_DATA = 0x40,
	PM4_RELEASE_MEM = 0x49,
};

/* A header of a packet with @dwords dwords behind it. */
static inline void pm4_header(struct packets *p, unsigned int op, unsigned int dwords)
{
	sdma_emit(p, 3u << 30 | (uint32_t)(dwords - 1) << 16 | (uint32_t)op << 8);
}

static inline void pm4_nop(struct packets *p, unsigned int dwords)
{
	unsigned int i;

	pm4_header(p, PM4_NOP, dwords);
	for (i = 0; i < dwords; i++)
		sdma_emit(p, 0);
}

/* One dword to memory, confirmed. */
static inline void pm4_write(struct packets *p, uint64_t address, uint32_t value)
{
	const uint32_t memory = 5u << 8, confirm = 1u << 20;

	pm4_header(p, PM4_WRITE_DATA, 4);
	sdma_emit(p, memory | confirm);
	sdma_emit64(p, address);
	sdma_emit(p, value);
}

/* One dword from memory to memory. */
static inline void pm4_copy(struct packets *p, uint64_t to, uint64_t from)
{
	const uint32_t from_memory = 1, to_memory = 5u << 8, confirm = 1u << 20;

	pm4_header(p, PM4_COPY_DATA, 5);
	sdma_emit(p, from_memory | to_memory | confirm);
	sdma_emit64(p, from);
	sdma_emit64(p, to);
}

/* Adds to 64 bits of memory. */
static inline void pm4_atomic_add64(struct packets *p, uint64_t address, uint64_t addend)
{
	const uint32_t add64 = 0x2f;

	pm4_header(p, PM4_ATOMIC_MEM, 8);
	sdma_emit(p, add64);
	sdma_emit64(p, address);
	sdma_emit64(p, addend);
	sdma_emit64(p, 0);
	sdma_emit(p, 0);
}

/* Waits without end until the dword at @address is @value or more. */
static inline void pm4_wait_memory(struct packets *p, uint64_t address, uint32_t value)
{
	const uint32_t at_least = 5, memory = 1u << 4;

	pm4_header(p, PM4_WAIT_REG_MEM, 6);
	sdma_emit(p, at_least | memory);
	sdma_emit64(p, address);
	sdma_emit(p, value);
	sdma_emit(p, 0xffffffff);
	sdma_emit(p, 10);
}

static inline void pm4_indirect(struct packets *p, uint64_t address, unsigned int dwords)
{
	const uint32_t valid = 1u << 23;

	pm4_header(p, PM4_INDIRECT_BUFFER, 3);
	sdma_emit64(p, address);
	sdma_emit(p, dwords | valid);
}

/* The last packet of an indirect buffer: goes on at @address, without return. */
static inline void pm4_chain(struct packets *p, uint64_t address, unsigned int dwords)
{
	const uint32_t chain = 1u << 20;

	pm4_indirect(p, address, dwords);
	p->dwords[p->count - 1] |= chain;
}

/* After all earlier work: 64 bits to memory, and an interrupt of event @event unless that is 0. */
static inline void pm4_release(struct packets *p, uint64_t address, uint64_t value,
			       uint32_t event)
{
	const uint32_t end_of_pipe = 0x14 | 5u << 8, qword = 2u << 29, confirmed = 2u << 24;

	pm4_header(p, PM4_RELEASE_MEM, 7);
	sdma_emit(p, end_of_pipe);
	sdma_emit(p, qword | (event ? confirmed : 0));
	sdma_emit64(p, address);
	sdma_emit64(p, value);
	sdma_emit(p, event);
}

enum aql_type {
	AQL_VENDOR = 0,
	AQL_INVALID = 1,
	AQL_KERNEL_DISPATCH = 2,
	AQL_BARRIER_AND = 3,
	AQL_BARRIER_OR = 5,
};

struct aql_packet {
	uint16_t header;
	uint16_t format;	/* of a vendor packet, low byte */
	uint32_t dwords[13];
	uint64_t completion;
} __attribute__((packed, aligned(64)));

/* amd_signal_t. */
struct aql_signal {
	int64_t kind;
	volatile int64_t value;
	uint64_t mailbox;
	uint32_t event;
	uint32_t pad;
	uint64_t start, end;
	uint64_t more[2];
};

#define AQL_HEADER(type)	((uint16_t)((type) | 1u << 8 | 2u << 9 | 2u << 11))

/* Waits for up to five signals to be 0; then decrements @completion. */
static inline void aql_barrier(struct aql_packet *packet, enum aql_type type,
			       const uint64_t *signals, unsigned int count,
			       uint64_t completion)
{
	memset(packet, 0, sizeof(*packet));
	packet->header = AQL_HEADER(type);
	memcpy(&packet->dwords[1], signals, count * sizeof(*signals));
	packet->completion = completion;
}

/* Runs @dwords dwords of PM4 at @address; then decrements @completion. */
static inline void aql_pm4(struct aql_packet *packet, uint64_t address,
			   unsigned int dwords, uint64_t completion)
{
	struct packets p = { 0 };

	memset(packet, 0, sizeof(*packet));
	packet->header = AQL_HEADER(AQL_VENDOR);
	packet->format = 1;
	pm4_indirect(&p, address, dwords);
	memcpy(packet->dwords, p.dwords, p.count * sizeof(uint32_t));
	packet->dwords[p.count] = 10;
	packet->completion = completion;
}

#endif /* RKFD_TEST_PM4_H */
