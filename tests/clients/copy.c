// SPDX-License-Identifier: GPL-2.0
/* Linear copies: all kinds of memory, 4 B to 256 MiB, odd sizes and offsets. */
#include <stdlib.h>
#include <string.h>

#include "common/pattern.h"
#include "common/queue.h"
#include "tap.h"

#define RING_SIZE	(64u << 10)
#define KIB		(1ull << 10)
#define MIB		(1ull << 20)
#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))

static struct gpu gpu;
static struct queue queue;

static uint64_t new_seed(void)
{
	return (uint64_t)random_below(UINT32_MAX) << 32 | random_below(UINT32_MAX);
}

static bool copy_at(const struct buffer *dst, size_t dst_at,
		    const struct buffer *src, size_t src_at, size_t bytes)
{
	const struct pattern_copy c = {
		.dst = dst->cpu,
		.dst_size = dst->size,
		.dst_at = dst_at,
		.src = src->cpu,
		.src_at = src_at,
		.bytes = bytes,
		.seed = new_seed(),
	};
	bool ok;

	pattern_prepare(&c);
	ok = queue_copy(&queue, dst->gpu + dst_at, src->gpu + src_at, bytes) &&
	     pattern_verify(&c);
	if (!ok)
		tap_note("%zu bytes from offset %zu of %s to offset %zu of %s", bytes,
			 src_at, buffer_kind_name[src->kind], dst_at,
			 buffer_kind_name[dst->kind]);
	return ok;
}

static const struct direction {
	enum buffer_kind src, dst;
} directions[] = {
	{ BUFFER_GTT, BUFFER_VRAM },
	{ BUFFER_VRAM, BUFFER_GTT },
	{ BUFFER_VRAM, BUFFER_VRAM },
	{ BUFFER_GTT, BUFFER_GTT },
	{ BUFFER_USERPTR, BUFFER_REGISTERED },
};

static bool one_size(const struct direction *d, size_t bytes)
{
	struct buffer src, dst;
	bool ok;

	buffer_create(&gpu, &src, d->src, bytes);
	buffer_create(&gpu, &dst, d->dst, bytes);
	ok = copy_at(&dst, 0, &src, 0, bytes);
	buffer_destroy(&dst);
	buffer_destroy(&src);
	return ok;
}

static void sizes(void)
{
	static const size_t all[] = {
		4, 8, 256, 4 * KIB, 64 * KIB, MIB, 16 * MIB, 256 * MIB,
	};
	const unsigned int count = COUNT(all) - work(0, 1);
	unsigned int d, s;

	for (d = 0; d < COUNT(directions); d++) {
		bool ok = true;

		for (s = 0; s < count; s++)
			ok = one_size(&directions[d], all[s]) && ok;
		tap_ok(ok, "%s to %s, 4 B to %zu MiB", buffer_kind_name[directions[d].src],
		       buffer_kind_name[directions[d].dst], all[count - 1] >> 20);
	}
}

static void odd(enum buffer_kind from, enum buffer_kind to)
{
	static const size_t some[] = { 1, 2, 3, 5, 7, 31, 63, 65, 4095, 4097, 65537 };
	const unsigned int random = work(20, 4);
	const size_t size = 192 * KIB;
	struct buffer src, dst;
	unsigned int i;
	bool ok = true;

	buffer_create(&gpu, &src, from, size);
	buffer_create(&gpu, &dst, to, size);
	for (i = 0; i < COUNT(some); i++)
		ok = copy_at(&dst, 4093 + i, &src, 8189 - i, some[i]) && ok;
	for (i = 0; i < random; i++) {
		const size_t bytes = 1 + random_below(96 * KIB);

		ok = copy_at(&dst, random_below((unsigned int)(size - bytes)), &src,
			     random_below((unsigned int)(size - bytes)), bytes) && ok;
	}
	buffer_destroy(&dst);
	buffer_destroy(&src);
	tap_ok(ok, "odd sizes and offsets, %s to %s", buffer_kind_name[from],
	       buffer_kind_name[to]);
}

/* Pages of system memory lie scattered: a large copy spans many of them. */
static void large_and_odd(void)
{
	const size_t bytes = work(33, 5) * MIB + 4099;
	struct buffer src, dst;

	buffer_create(&gpu, &src, BUFFER_USERPTR, bytes + 64 * KIB);
	buffer_create(&gpu, &dst, BUFFER_VRAM, bytes + 64 * KIB);
	tap_ok(copy_at(&dst, 12345, &src, 7, bytes) &&
	       copy_at(&src, 4097, &dst, 31, bytes), "a large copy at odd offsets, to and fro");
	buffer_destroy(&dst);
	buffer_destroy(&src);
}

/* A chain of copies in one submission runs in the order of the ring. */
static void ordered(void)
{
	const unsigned int links = 24;
	const size_t bytes = 1000;
	struct packets p = { 0 };
	struct buffer b;
	unsigned int i;

	buffer_create(&gpu, &b, BUFFER_VRAM, 64 * KIB);
	memset(b.cpu, 0, b.size);
	pattern_fill(b.cpu, bytes, 99, 0);
	for (i = 0; i < links; i++)
		sdma_copy(&p, b.gpu + (i + 1) * 1024, b.gpu + i * 1024, bytes);
	tap_ok(queue_wait(&queue, queue_submit(&queue, &p)) &&
	       pattern_check(b.cpu + links * 1024, bytes, 99, 0) == bytes,
	       "%u copies in one submission, each from the one before", links);
	buffer_destroy(&b);
}

/* The other packets in a client's stream. */
static void other_packets(void)
{
	const uint32_t data[3] = { 0x11111111, 0x22222222, 0x33333333 };
	struct packets p = { 0 };
	volatile uint64_t *q;
	volatile uint32_t *d;
	struct buffer b;
	unsigned int i;
	bool filled = true;

	buffer_create(&gpu, &b, BUFFER_GTT, 64 * KIB);
	memset(b.cpu, 0, b.size);
	q = (uint64_t *)b.cpu;
	d = (uint32_t *)(b.cpu + 4096);
	q[0] = 5;
	sdma_timestamp(&p, b.gpu + 16);
	sdma_fill(&p, b.gpu + 4096, 0xfee1dead, 1000);
	sdma_write(&p, b.gpu + 32, data, 3);
	sdma_atomic_add64(&p, b.gpu, UINT64_MAX);
	sdma_wait_memory(&p, b.gpu + 4096, 0xfee1dead);
	sdma_nop(&p, 5);
	sdma_trap(&p, 0);
	sdma_timestamp(&p, b.gpu + 24);
	tap_ok(queue_wait(&queue, queue_submit(&queue, &p)),
	       "a stream of all packets finishes");
	for (i = 0; i < 1000; i++)
		filled &= d[i] == 0xfee1dead;
	tap_ok(filled && d[1000] == 0, "CONST_FILL");
	tap_ok(memcmp(b.cpu + 32, data, sizeof(data)) == 0 && q[5] >> 32 == 0,
	       "WRITE");
	tap_ok(q[0] == 4, "ATOMIC decrements a signal");
	tap_ok(q[2] != 0 && q[3] > q[2], "TIMESTAMP grows");
	buffer_destroy(&b);
}

int main(void)
{
	unsigned int from, to;

	tap_start();
	gpu_open(&gpu);
	queue_create(&gpu, &queue, RING_SIZE, BUFFER_USERPTR);
	sizes();
	for (from = 0; from < BUFFER_KINDS; from++)
		for (to = 0; to < BUFFER_KINDS; to++)
			odd(from, to);
	large_and_odd();
	ordered();
	other_packets();
	queue_destroy(&queue);
	gpu_close();
	return tap_end();
}
