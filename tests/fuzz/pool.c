// SPDX-License-Identifier: GPL-2.0
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "pool.h"
#include "tap.h"

#define SLOTS	48u
#define PAGE	4096ull

/* One more than the number, so that 0 is none. */
static _Atomic uint64_t slots[KINDS][SLOTS];
static uint64_t arena;
static void *read_only;

static _Thread_local uint64_t state;

void pool_seed(uint64_t seed)
{
	/* Neighbouring seeds should differ from the first choice on (splitmix64). */
	seed += 0x9e3779b97f4a7c15ull;
	seed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9ull;
	seed = (seed ^ seed >> 27) * 0x94d049bb133111ebull;
	state = (seed ^ seed >> 31) | 1;
}

void pool_start(void)
{
	/* Overruns of its end fall into the room behind. */
	void *p = mmap(NULL, 2 * ARENA_BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	read_only = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED || read_only == MAP_FAILED)
		die("no memory to fuzz with");
	arena = (uintptr_t)p;
}

/* xorshift64*: fast, and good enough for choices. */
uint64_t random64(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 0x2545f4914f6cdd1dull;
}

uint32_t random32(void)
{
	return (uint32_t)(random64() >> 32);
}

uint32_t below(uint32_t limit)
{
	return (uint32_t)((uint64_t)random32() * limit >> 32);
}

bool once_in(uint32_t n)
{
	return below(n) == 0;
}


static _Atomic uint64_t *find(enum kind kind)
{
	const unsigned int from = below(SLOTS);
	unsigned int i;

	for (i = 0; i < SLOTS; i++) {
		_Atomic uint64_t *slot = &slots[kind][(from + i) % SLOTS];

		if (atomic_load(slot))
			return slot;
	}
	return NULL;
}

static uint64_t value_of(uint64_t content)
{
	return content ? content - 1 : 0;
}

uint64_t pool_put(enum kind kind, uint64_t value)
{
	return value_of(atomic_exchange(&slots[kind][below(SLOTS)], value + 1));
}

uint64_t pool_any(enum kind kind)
{
	_Atomic uint64_t *slot = find(kind);

	return value_of(slot ? atomic_load(slot) : 0);
}

uint64_t pool_take(enum kind kind)
{
	_Atomic uint64_t *slot = find(kind);

	return value_of(slot ? atomic_exchange(slot, 0) : 0);
}

uint64_t pool_guess(enum kind kind)
{
	switch (below(40)) {
	case 0:
		return pool_any(kind) + below(5) - 2;
	case 1:
		return pool_any(below(KINDS));
	case 2:
		return odd_number();
	default:
		return pool_any(kind);
	}
}

uint64_t odd_number(void)
{
	static const uint64_t edges[] = {
		0, 1, 2, 0xfff, 0x1000, 0x1001, 1ull << 21, (1ull << 31) - 1, 1ull << 31,
		UINT32_MAX, 1ull << 32, (1ull << 47) - PAGE, 1ull << 47, (1ull << 48) - PAGE,
		1ull << 48, 1ull << 62, 1ull << 63, UINT64_MAX - PAGE + 1, UINT64_MAX,
		0xffff800000000000ull,
	};

	switch (below(4)) {
	case 0:
		return random64() >> below(64);
	case 1:
		return 1ull << below(64);
	default:
		return edges[below(sizeof(edges) / sizeof(edges[0]))];
	}
}

uint64_t some_size(void)
{
	switch (below(16)) {
	case 0:
		return odd_number();
	case 1:
		return 2ull << 20;
	case 2:
		return (uint64_t)(1 + below(4)) << 22;
	case 3:
		return 8192;
	default:
		return PAGE * (1 + below(16));
	}
}

uint64_t arena_address(void)
{
	return arena + PAGE * below(ARENA_BYTES / PAGE);
}

uint64_t some_address(void)
{
	switch (below(16)) {
	case 0:
		return odd_number();
	case 1:
		return pool_any(PLACE) + below(PAGE);
	case 2:
		return pool_any(MAPPING);
	case 3:
	case 4:
	case 5:
		return arena_address();
	default:
		return pool_any(PLACE);
	}
}

void *some_pointer(void *good)
{
	switch (below(200)) {
	case 0:
		return NULL;
	case 1:
		return read_only;
	case 2:
		return (void *)(uintptr_t)odd_number();
	case 3:
		return (void *)(uintptr_t)some_address();
	default:
		return good;
	}
}
