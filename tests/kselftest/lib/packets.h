/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SDMA v4 packets as a client builds them. Sizes are in bytes, counts in elements or dwords
 * where the packet counts those; addresses are the GPU's.
 */
#ifndef RKFD_TEST_PACKETS_H
#define RKFD_TEST_PACKETS_H

#include <assert.h>
#include <stdint.h>

#define PACKETS_MAX	256u

/* A run of packets that is submitted by one write pointer. */
struct packets {
	unsigned int count;
	uint32_t dwords[PACKETS_MAX];
};

enum sdma_op {
	SDMA_NOP = 0,
	SDMA_COPY = 1,
	SDMA_WRITE = 2,
	SDMA_FENCE = 5,
	SDMA_TRAP = 6,
	SDMA_POLL_REGMEM = 8,
	SDMA_ATOMIC = 10,
	SDMA_CONST_FILL = 11,
	SDMA_TIMESTAMP = 13,
	SDMA_SRBM_WRITE = 14,
};

enum sdma_copy_sub {
	SDMA_COPY_LINEAR = 0,
	SDMA_COPY_SUBWIN = 4,
};

/* The largest copy of one packet on SDMA 4.4: a 30-bit count of bytes - 1. */
#define SDMA_COPY_MAX	(1ull << 30)

static inline void sdma_emit(struct packets *p, uint32_t dword)
{
	assert(p->count < PACKETS_MAX);
	p->dwords[p->count++] = dword;
}

static inline void sdma_emit64(struct packets *p, uint64_t value)
{
	sdma_emit(p, (uint32_t)value);
	sdma_emit(p, (uint32_t)(value >> 32));
}

static inline void sdma_header(struct packets *p, enum sdma_op op,
			       unsigned int sub, uint32_t bits)
{
	sdma_emit(p, (uint32_t)op | sub << 8 | bits);
}

/* One NOP that spans @dwords dwords, its header among them. */
static inline void sdma_nop(struct packets *p, unsigned int dwords)
{
	unsigned int i;

	sdma_header(p, SDMA_NOP, 0, (uint32_t)(dwords - 1) << 16);
	for (i = 1; i < dwords; i++)
		sdma_emit(p, 0);
}

static inline void sdma_copy(struct packets *p, uint64_t dst, uint64_t src,
			     uint64_t bytes)
{
	assert(bytes > 0 && bytes <= SDMA_COPY_MAX);
	sdma_header(p, SDMA_COPY, SDMA_COPY_LINEAR, 0);
	sdma_emit(p, (uint32_t)(bytes - 1));
	sdma_emit(p, 0);
	sdma_emit64(p, src);
	sdma_emit64(p, dst);
}

/* A corner of a sub-window copy; positions and strides count elements. */
struct sdma_window {
	uint64_t base;		/* 4-byte aligned */
	uint32_t x, y, z;
	uint32_t pitch;		/* between rows */
	uint32_t slice;		/* between planes */
};

struct sdma_rect {
	uint32_t x, y, z;	/* size in elements */
};

static inline void sdma_emit_window(struct packets *p,
				    const struct sdma_window *w)
{
	sdma_emit64(p, w->base);
	sdma_emit(p, w->x | w->y << 16);
	sdma_emit(p, w->z | (w->pitch - 1) << 13);
	sdma_emit(p, w->slice - 1);
}

/* @element: log2 of the element's bytes, 0 to 4. */
static inline void sdma_copy_rect(struct packets *p, unsigned int element,
				  const struct sdma_window *dst,
				  const struct sdma_window *src,
				  const struct sdma_rect *rect)
{
	sdma_header(p, SDMA_COPY, SDMA_COPY_SUBWIN, (uint32_t)element << 29);
	sdma_emit_window(p, src);
	sdma_emit_window(p, dst);
	sdma_emit(p, (rect->x - 1) | (rect->y - 1) << 16);
	sdma_emit(p, rect->z - 1);
}

static inline void sdma_fence(struct packets *p, uint64_t address, uint32_t value)
{
	sdma_header(p, SDMA_FENCE, 0, 0);
	sdma_emit64(p, address);
	sdma_emit(p, value);
}

static inline void sdma_trap(struct packets *p, uint32_t context)
{
	sdma_header(p, SDMA_TRAP, 0, 0);
	sdma_emit(p, context & 0xfffffff);
}

/* Waits without end until the dword at @address equals @value. */
static inline void sdma_wait_memory(struct packets *p, uint64_t address,
				    uint32_t value)
{
	const uint32_t equal = 3u << 28, memory = 1u << 31;

	sdma_header(p, SDMA_POLL_REGMEM, 0, equal | memory);
	sdma_emit64(p, address);
	sdma_emit(p, value);
	sdma_emit(p, 0xffffffff);
	sdma_emit(p, 0xfffu << 16 | 10);
}

/* Fills @dwords dwords with @value. */
static inline void sdma_fill(struct packets *p, uint64_t dst, uint32_t value,
			     uint32_t dwords)
{
	const uint32_t dword_elements = 2u << 30;

	sdma_header(p, SDMA_CONST_FILL, 0, dword_elements);
	sdma_emit64(p, dst);
	sdma_emit(p, value);
	sdma_emit(p, (dwords - 1) * 4);
}

static inline void sdma_write(struct packets *p, uint64_t dst,
			      const uint32_t *data, unsigned int dwords)
{
	unsigned int i;

	sdma_header(p, SDMA_WRITE, 0, 0);
	sdma_emit64(p, dst);
	sdma_emit(p, dwords - 1);
	for (i = 0; i < dwords; i++)
		sdma_emit(p, data[i]);
}

/* 64-bit add in memory, as ROCr decrements a signal. */
static inline void sdma_atomic_add64(struct packets *p, uint64_t address,
				     uint64_t addend)
{
	const uint32_t add_rtn_64 = 0x2f;

	sdma_header(p, SDMA_ATOMIC, 0, add_rtn_64 << 25);
	sdma_emit64(p, address);
	sdma_emit64(p, addend);
	sdma_emit64(p, 0);
	sdma_emit(p, 0);
}

/* The GPU's clock, 64 bits, to an 8-byte aligned address. */
static inline void sdma_timestamp(struct packets *p, uint64_t address)
{
	sdma_header(p, SDMA_TIMESTAMP, 2, 0);
	sdma_emit64(p, address);
}

/* A register write, which a user queue has no right to. */
static inline void sdma_srbm_write(struct packets *p, uint32_t reg, uint32_t value)
{
	sdma_header(p, SDMA_SRBM_WRITE, 0, 0xfu << 28);
	sdma_emit(p, reg & 0x3ffff);
	sdma_emit(p, value);
}

#endif /* RKFD_TEST_PACKETS_H */
