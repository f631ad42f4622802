// SPDX-License-Identifier: GPL-2.0
/*
 * Measurements of one module load, one line each:
 *   bench <name> <size> <value> <unit>
 * where size is in bytes, 0 where it means nothing. bench.sh makes the table.
 *
 * - `bench copies` measures only the differences between scheduled and direct queues.
 * - `bench small` measures these for the smallest copies only.
 * - `bench compute` measures those between the schedulers of compute queues.
 * - `bench svm` measures shared virtual memory.
 * - `bench calls` is for RKFD_INSTRUCTIONS=1: a guest whose clock counts instructions.
 * - `bench compare` measures functions that every driver of the ABI has.
 * - `bench command NAME COMMAND...` measures a program as a whole.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "kfd.h"
#include "packets.h"
#include "tap.h"
#include "trace.h"

#define KIB		(1ull << 10)
#define MIB		(1ull << 20)
#define GIB		(1ull << 30)
#define RING_SIZE	(64u << 10)
/* copies in progress while streaming: half of the ring's room */
#define WINDOW		512u
#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))

void sample(struct samples *s, unsigned long long since)
{
	if (s->count < SAMPLES_MAX)
		s->ns[s->count++] = now_ns() - since;
}

static int by_value(const void *a, const void *b)
{
	const unsigned long long x = *(const unsigned long long *)a;
	const unsigned long long y = *(const unsigned long long *)b;

	return x < y ? -1 : x > y;
}

bool instructions(void)
{
	return getenv("RKFD_INSTRUCTIONS");
}

void report(const char *name, uint64_t size, struct samples *s)
{
	if (!s->count)
		die("%s: nothing measured", name);
	qsort(s->ns, s->count, sizeof(s->ns[0]), by_value);
	if (instructions()) {
		printf("bench %s %llu %llu instructions\n", name, (unsigned long long)size,
		       s->ns[s->count / 2]);
		return;
	}
	printf("bench %s %llu %.1f us\n", name, (unsigned long long)size,
	       (double)s->ns[s->count / 2] / 1000);
}

void must(int err, const char *what)
{
	if (err)
		die("%s: %s", what, strerror(err));
}

/* A queue and two buffers to copy between. */
struct copier {
	struct kfd_dev dev;
	struct kfd_queue queue;
	struct kfd_bo src, dst;
};

static volatile uint32_t *fence(const struct copier *c)
{
	return (volatile uint32_t *)((char *)c->queue.pointers.cpu + KFD_QUEUE_FENCE);
}

static void copier_create(struct copier *c, uint64_t size)
{
	must(kfd_open(&c->dev), "open");
	must(kfd_queue_create(&c->dev, &c->queue, RING_SIZE), "queue");
	must(kfd_bo_create(&c->dev, &c->src, size, KFD_ALLOC_GTT), "source");
	must(kfd_bo_create(&c->dev, &c->dst, size, KFD_ALLOC_VRAM), "target");
	memset(c->src.cpu, 1, size);
}

static void copier_destroy(struct copier *c)
{
	must(kfd_queue_destroy(&c->dev, &c->queue), "destroy");
	must(kfd_bo_destroy(&c->dev, &c->src), "free");
	must(kfd_bo_destroy(&c->dev, &c->dst), "free");
	kfd_close(&c->dev);
}

/* Starts a copy of everything; returns its fence. */
static uint32_t start(struct copier *c)
{
	const uint64_t left = c->queue.ring.size - c->queue.wptr % c->queue.ring.size;
	struct packets p = { 0 };

	/* Each submission is 16 dwords, so that none crosses the ring's end. */
	sdma_copy(&p, (uintptr_t)c->dst.cpu, (uintptr_t)c->src.cpu, c->src.size);
	sdma_fence(&p, (uintptr_t)fence(c), ++c->queue.fence);
	sdma_nop(&p, 16 - p.count);
	if (left < p.count * 4)
		die("the ring does not divide by a submission");
	kfd_queue_submit(&c->queue, p.dwords, p.count);
	return c->queue.fence;
}

static void finish(const struct copier *c, uint32_t value)
{
	const unsigned long long end = now_ns() + timeout_ms() * 1000000ull;

	/* The kernel's threads need a processor too, where there are but two. */
	while ((int32_t)(*fence(c) - value) < 0) {
		if (now_ns() > end)
			die("a copy of %zu bytes does not end", c->src.size);
		sched_yield();
	}
}

/* From the doorbell of an idle queue to the fence. */
void bench_latency(uint64_t size)
{
	const unsigned int rounds = size < MIB ? work(100, 10) : work(20, 4);
	struct samples s = { .count = 0 };
	struct copier c;
	unsigned int i;

	copier_create(&c, size);
	for (i = 0; i <= rounds; i++) {
		unsigned long long before;

		usleep(3000);
		before = now_ns();
		finish(&c, start(&c));
		/* The first copy pays for the one-time setup. */
		if (i)
			sample(&s, before);
	}
	report("latency", size, &s);
	copier_destroy(&c);
}

/* A stream of copies, WINDOW of them in progress at a time. */
void bench_streaming(uint64_t size)
{
	const unsigned long long length = work(1500, 200) * 1000000ull;
	unsigned long long begin, end;
	unsigned int copies = 0;
	struct copier c;

	copier_create(&c, size);
	finish(&c, start(&c));
	begin = now_ns();
	do {
		const uint32_t last = start(&c);

		if (++copies > WINDOW)
			finish(&c, last - WINDOW);
	} while (now_ns() - begin < length);
	finish(&c, c.queue.fence);
	end = now_ns();
	printf("bench streaming %llu %.1f MiB/s\n", (unsigned long long)size,
	       (double)size * copies / MIB / ((double)(end - begin) / 1e9));
	copier_destroy(&c);
}

static const struct kind {
	const char *name;
	uint32_t flags;
} kinds[BENCH_KINDS] = {
	{ "vram", KFD_ALLOC_VRAM },
	{ "gtt", KFD_ALLOC_GTT },
	{ "userptr", KFD_ALLOC_USERPTR },
};

/* Addresses, for a userptr with pages that are present already. */
static void *addresses(uint64_t size, uint32_t flags)
{
	void *p = kfd_reserve(size, 2 * MIB);

	if (!p)
		die("no addresses");
	if (flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) {
		if (mprotect(p, size, PROT_READ | PROT_WRITE))
			die("no pages");
		memset(p, 1, size);
	}
	return p;
}

void bench_memory(const struct kfd_dev *dev, unsigned int which, uint64_t size)
{
	const struct kind *kind = &kinds[which];
	const unsigned int rounds = size < 16 * MIB ? work(50, 5) : work(5, 2);
	struct samples alloc = { .count = 0 }, map = alloc, unmap = alloc, free = alloc;
	struct samples per_mib = alloc;
	struct kfd_ioctl_alloc_memory_of_gpu_args args;
	void *p = addresses(size, kind->flags);
	char name[32];
	unsigned int i;

	for (i = 0; i < rounds; i++) {
		unsigned long long t, begin;

		args = (struct kfd_ioctl_alloc_memory_of_gpu_args){
			.va_addr = (uintptr_t)p,
			.mmap_offset = (uintptr_t)p,
			.size = size,
			.gpu_id = dev->gpu_id,
			.flags = kind->flags,
		};
		t = begin = now_ns();
		must(kfd_alloc(dev->fd, &args), "alloc");
		sample(&alloc, t);
		t = now_ns();
		must(kfd_map(dev->fd, args.handle, dev->gpu_id), "map");
		sample(&map, t);
		if (size >= MIB)
			per_mib.ns[per_mib.count++] = (now_ns() - begin) / (size / MIB);
		t = now_ns();
		must(kfd_unmap(dev->fd, args.handle, dev->gpu_id), "unmap");
		sample(&unmap, t);
		t = now_ns();
		must(kfd_free(dev->fd, args.handle), "free");
		sample(&free, t);
	}
	snprintf(name, sizeof(name), "alloc_%s", kind->name);
	report(name, size, &alloc);
	snprintf(name, sizeof(name), "map_%s", kind->name);
	report(name, size, &map);
	/* The cost of a registration: both together, for each MiB. */
	if (per_mib.count && kind->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR)
		report("register_per_mib", size, &per_mib);
	snprintf(name, sizeof(name), "unmap_%s", kind->name);
	report(name, size, &unmap);
	snprintf(name, sizeof(name), "free_%s", kind->name);
	report(name, size, &free);
	munmap(p, size);
}

static void open_and_close(void)
{
	const unsigned int rounds = work(50, 5);
	struct samples open = { .count = 0 }, close = open;
	unsigned int i;

	for (i = 0; i < rounds; i++) {
		unsigned long long t = now_ns();
		struct kfd_dev dev;

		must(kfd_open(&dev), "open");
		sample(&open, t);
		t = now_ns();
		kfd_close(&dev);
		sample(&close, t);
		/* The process itself goes a little later. */
		usleep(10000);
	}
	report("open", 0, &open);
	report("close", 0, &close);
}

void bench_queues(const struct kfd_dev *dev)
{
	const unsigned int rounds = work(50, 5);
	struct samples create = { .count = 0 }, destroy = create;
	struct kfd_ioctl_create_queue_args args;
	struct kfd_bo ring, pointers;
	unsigned int i;

	must(kfd_bo_create(dev, &ring, RING_SIZE, KFD_ALLOC_GTT), "ring");
	must(kfd_bo_create(dev, &pointers, KFD_PAGE, KFD_ALLOC_GTT), "pointers");
	for (i = 0; i < rounds; i++) {
		unsigned long long t;

		memset(pointers.cpu, 0, KFD_PAGE);
		kfd_queue_args(dev, &ring, &pointers, &args);
		t = now_ns();
		must(kfd_ioctl(dev->fd, AMDKFD_IOC_CREATE_QUEUE, &args), "queue");
		sample(&create, t);
		t = now_ns();
		must(kfd_destroy_queue(dev->fd, args.queue_id), "destroy");
		sample(&destroy, t);
	}
	report("queue_create", 0, &create);
	report("queue_destroy", 0, &destroy);
	must(kfd_bo_destroy(dev, &ring), "free");
	must(kfd_bo_destroy(dev, &pointers), "free");
}

/*
 * The number of page-table entries that are written to map contiguous VRAM, including the
 * initial ones of new tables. Beside it there is a buffer, like the ring of any program that
 * has a queue: the first mapping in a region of 512 GiB also pays for that region's table (512
 * entries more).
 */
static void entries(const struct kfd_dev *dev)
{
	const uint64_t size = GIB;
	char line[1024], address[32];
	const char *at;
	struct kfd_bo bo, beside;

	if (!trace_open("rkfd-bench") || !trace_enable("rkfd/rkfd_map")) {
		tap_note("no trace of rkfd_map: entries not counted");
		return;
	}
	must(kfd_bo_create(dev, &beside, 4 * KIB, KFD_ALLOC_GTT), "beside");
	must(kfd_bo_create(dev, &bo, size,
			   KFD_ALLOC_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_CONTIGUOUS), "1 GiB");
	snprintf(address, sizeof(address), "%lx", (unsigned long)(uintptr_t)bo.cpu);
	if (!trace_find("rkfd_map", address, line, sizeof(line)))
		die("no rkfd_map of 0x%s in the trace", address);
	at = strstr(line, "entries=");
	if (!at)
		die("no entries in '%s'", line);
	printf("bench map_entries %llu %lu entries\n", (unsigned long long)size,
	       strtoul(at + strlen("entries="), NULL, 0));
	must(kfd_bo_destroy(dev, &bo), "free");
	must(kfd_bo_destroy(dev, &beside), "free");
	trace_close();
}

/* The calls that are also counted in instructions. */
static void calls(void)
{
	struct kfd_dev dev;

	must(kfd_open(&dev), "open");
	bench_events(&dev);
	bench_memory(&dev, 2, 2 * MIB);
	kfd_close(&dev);
}

static void all_but_copies(void)
{
	static const uint64_t sizes[] = { 4 * KIB, 2 * MIB, 64 * MIB, 256 * MIB };
	struct kfd_dev dev;
	unsigned int k, s;

	open_and_close();
	must(kfd_open(&dev), "open");
	bench_queues(&dev);
	for (k = 0; k < BENCH_KINDS; k++)
		for (s = 0; s < COUNT(sizes); s++)
			bench_memory(&dev, k, sizes[s]);
	entries(&dev);
	bench_events(&dev);
	kfd_close(&dev);
}

int main(int argc, char **argv)
{
	static const uint64_t sizes[] = { 4 * KIB, 64 * KIB, MIB, 16 * MIB };
	unsigned int i;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (access(KFD_PATH, F_OK) != 0) {
		printf("1..0 # SKIP no " KFD_PATH "\n");
		return EXIT_SKIP;
	}
	if (argc > 1 && !strcmp(argv[1], "calls")) {
		calls();
		return EXIT_SUCCESS;
	}
	if (argc > 1 && !strcmp(argv[1], "compare")) {
		bench_compare();
		return EXIT_SUCCESS;
	}
	if (argc > 3 && !strcmp(argv[1], "command")) {
		bench_command(argv + 2);
		return EXIT_SUCCESS;
	}
	if (argc > 1 && !strcmp(argv[1], "compute")) {
		bench_compute();
		return EXIT_SUCCESS;
	}
	if (argc > 1 && !strcmp(argv[1], "svm")) {
		bench_svm();
		return EXIT_SUCCESS;
	}
	if (argc > 1 && !strcmp(argv[1], "small")) {
		bench_latency(sizes[0]);
		bench_streaming(sizes[0]);
		return EXIT_SUCCESS;
	}
	for (i = 0; i < COUNT(sizes); i++)
		bench_latency(sizes[i]);
	for (i = 0; i < COUNT(sizes); i++)
		bench_streaming(sizes[i]);
	if (argc < 2 || strcmp(argv[1], "copies") != 0)
		all_but_copies();
	return EXIT_SUCCESS;
}
