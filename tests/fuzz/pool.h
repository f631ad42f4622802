/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The state of a fuzzing process: numbers of all kinds that calls returned, which all of its
 * threads use, and choices among them that are mostly good.
 *
 * Threads race for the numbers on purpose.
 */
#ifndef RKFD_FUZZ_POOL_H
#define RKFD_FUZZ_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kind {
	KFD_FILE,
	RENDER_FILE,
	SHARED_FILE,	/* dma-bufs */
	SMI_FILE,
	BUFFER,		/* handles of /dev/kfd */
	PLACE,		/* addresses that buffers were made for */
	GEM,		/* handles of the render node */
	GEM_OFFSET,	/* the mmap offset of one in a file of the render node */
	QUEUE,
	EVENT,
	MAPPING,	/* addresses that mmap returned */
	DOORBELL,	/* addresses of doorbells */
	KINDS
};

/* The process's own addresses: user memory and places for buffers. */
#define ARENA_BYTES	(64ull << 20)

/* Starts the random choices of the process (or a thread); the same seed gives the same ones. */
void pool_seed(uint64_t seed);
/* The process's arena; once, before its threads. */
void pool_start(void);

/* Puts one in the place of another; returns that, or 0 if there was none. */
uint64_t pool_put(enum kind kind, uint64_t value);
/* One of that kind, 0 if there is none. */
uint64_t pool_any(enum kind kind);
/* The same, and removes it, so that no other thread gets it. */
uint64_t pool_take(enum kind kind);
/* One of that kind, or now and then another number: one near it, of another kind, or any. */
uint64_t pool_guess(enum kind kind);

uint64_t random64(void);
uint32_t random32(void);
/* Below @limit, which is not 0. */
uint32_t below(uint32_t limit);
/* True once in @n. */
bool once_in(uint32_t n);
/* Numbers at which arithmetic goes wrong, and any others. */
uint64_t odd_number(void);
/* Bytes of a buffer: mostly a few pages. */
uint64_t some_size(void);
/* An address of the arena, on a page. */
uint64_t arena_address(void);
/* Addresses where memory may or may not be: places, mappings, the arena, and nonsense. */
uint64_t some_address(void);
/* Memory of the process for a call to read and write, now and then none. */
void *some_pointer(void *good);

#endif /* RKFD_FUZZ_POOL_H */
