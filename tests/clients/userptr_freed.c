// SPDX-License-Identifier: GPL-2.0
/*
 * userptr_freed [SECONDS]: user memory is unmapped from the GPU by one thread and freed by
 * another at the same moment, while a queue writes to it without end. The next owner of the
 * pages must find its own data in them, and nothing may write to them in between: with
 * page_poison=1 on its command line the kernel checks that.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/check.h"
#include "packets.h"
#include "pm4.h"
#include "tap.h"
#include "kfd_compute.h"

#define RING_SIZE	(64u << 10)
/* The GPU writes here and the process frees it: its entries are the last to be cleared. */
#define TAIL		(256u << 10)
#define TAIL_PAGES	(TAIL / KFD_PAGE)
#define WRITTEN		0x6b666431u
#define MINE		0x5a5a5a5a5a5a5a5aull
#define START_MS	KFD_HANG_MS
/* The assumed duration of an unmap before one has been measured. */
#define FIRST_UNMAP_NS	5000000ull

enum freeing { DISCARDED, UNMAPPED, FREEINGS };

static struct kfd_dev dev;
static struct kfd_save save;
static struct kfd_bo userptr;
static uint8_t *tail;

/* A queue of either kind that writes to the tail until it is destroyed. */
struct writer {
	bool compute;
	struct kfd_queue sdma;
	struct kfd_compute cp;
	struct kfd_bo loop;
};

/* A round's thread that frees the tail. */
struct freer {
	pthread_barrier_t begin, end;
	enum freeing how;
	unsigned long long after_ns;	/* from the beginning of the unmap */
	bool stop;
	uint64_t *next;			/* pages that were allocated behind it */
};

/*
 * One page here, one there: no two pages of @memory follow each other, so that each has an
 * entry of its own.
 */
static void touch(uint8_t *memory, size_t size)
{
	uint8_t *between = mmap(NULL, size, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t at;

	if (between == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	madvise(memory, size, MADV_NOHUGEPAGE);
	madvise(between, size, MADV_NOHUGEPAGE);
	for (at = 0; at < size; at += KFD_PAGE) {
		memory[at] = 0;
		between[at] = 1;
	}
	munmap(between, size);
}

static void write_by_sdma(struct kfd_queue *queue)
{
	const unsigned int room = RING_SIZE / 4 / 5 - 1;
	struct packets p = { 0 };
	unsigned int i;

	for (i = 0; i < room; i++) {
		p.count = 0;
		sdma_fill(&p, (uintptr_t)tail, WRITTEN, TAIL / 4);
		memcpy((uint32_t *)queue->ring.cpu + queue->wptr / 4, p.dwords, p.count * 4);
		queue->wptr += p.count * 4;
	}
	sdma_nop(&p, 1);
	kfd_queue_submit(queue, p.dwords + p.count - 1, 1);
}

static void write_by_compute(struct writer *w)
{
	uint32_t *at = w->loop.cpu;
	struct packets p;
	unsigned int i;

	for (i = 0; i < TAIL_PAGES; i++) {
		p.count = 0;
		pm4_write(&p, (uintptr_t)tail + i * KFD_PAGE, WRITTEN);
		memcpy(at, p.dwords, p.count * 4);
		at += p.count;
	}
	p.count = 0;
	pm4_chain(&p, (uintptr_t)w->loop.cpu, (unsigned int)(at - (uint32_t *)w->loop.cpu) + 4);
	memcpy(at, p.dwords, p.count * 4);
	at += p.count;
	if (!kfd_compute_run(&w->cp, (uintptr_t)w->loop.cpu,
			     (unsigned int)(at - (uint32_t *)w->loop.cpu)))
		die("no room in a new ring");
}

static void writer_start(struct writer *w, bool compute)
{
	const uint64_t end = kfd_now_ms() + START_MS;
	volatile uint32_t *last = (volatile uint32_t *)(tail + TAIL - KFD_PAGE);
	int err;

	w->compute = compute;
	*last = 0;
	if (compute) {
		err = kfd_bo_create(&dev, &w->loop, KFD_PAGE, KFD_ALLOC_GTT);
		if (!err)
			err = kfd_compute_create(&dev, &w->cp, &save, false, RING_SIZE);
	} else {
		err = kfd_queue_create(&dev, &w->sdma, RING_SIZE);
	}
	if (err)
		die("no queue: %s", strerror(err));
	if (compute)
		write_by_compute(w);
	else
		write_by_sdma(&w->sdma);
	while (*last != WRITTEN)
		if (kfd_now_ms() > end)
			die("the queue does not write");
}

static void writer_stop(struct writer *w)
{
	int err;

	if (w->compute) {
		err = kfd_compute_destroy(&dev, &w->cp);
		if (!err)
			err = kfd_bo_destroy(&dev, &w->loop);
	} else {
		err = kfd_queue_destroy(&dev, &w->sdma);
	}
	if (err)
		die("a queue cannot be destroyed: %s", strerror(err));
}

/*
 * Frees the tail at the chosen moment, and allocates as many pages at once: very likely the
 * same.
 */
static void *freeing(void *arg)
{
	struct freer *f = arg;

	for (;;) {
		unsigned long long at;
		size_t i;

		pthread_barrier_wait(&f->begin);
		if (f->stop)
			return NULL;
		at = now_ns() + f->after_ns;
		while (now_ns() < at)
			;
		if (f->how == DISCARDED ? madvise(tail, TAIL, MADV_DONTNEED) : munmap(tail, TAIL))
			die("the memory cannot be freed: %s", strerror(errno));
		for (i = 0; i < TAIL / 8; i++)
			f->next[i] = MINE;
		pthread_barrier_wait(&f->end);
	}
}

/* The tail is ordinary memory with pages again. */
static void renew(enum freeing how)
{
	if (how == UNMAPPED &&
	    mmap(tail, TAIL, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != tail)
		die("mmap: %s", strerror(errno));
	touch(tail, TAIL);
}

static bool is_mine(const uint64_t *memory)
{
	size_t i;

	for (i = 0; i < TAIL / 8; i++)
		if (memory[i] != MINE) {
			tap_note("qword %zu is %#llx", i, (unsigned long long)memory[i]);
			return false;
		}
	return true;
}

/* Rounds with one kind of queue and one way to free, for @ms milliseconds. */
static void rounds(bool compute, enum freeing how, uint64_t ms)
{
	static const char *const names[FREEINGS] = {
		[DISCARDED] = "discarded",
		[UNMAPPED] = "unmapped by the process",
	};
	const uint64_t end = kfd_now_ms() + ms;
	unsigned long long unmap_ns = FIRST_UNMAP_NS, all_ns = 0;
	struct freer f = { .how = how };
	unsigned int done = 0, bad = 0;
	pthread_t thread;

	pthread_barrier_init(&f.begin, NULL, 2);
	pthread_barrier_init(&f.end, NULL, 2);
	if (pthread_create(&thread, NULL, freeing, &f))
		die("no thread");
	do {
		struct writer w = { 0 };
		unsigned long long start;
		int err;

		f.next = mmap(NULL, TAIL, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (f.next == MAP_FAILED)
			die("mmap: %s", strerror(errno));
		madvise(f.next, TAIL, MADV_NOHUGEPAGE);
		renew(done ? how : DISCARDED);
		err = kfd_map(dev.fd, userptr.handle, dev.gpu_id);
		if (err)
			die("the memory cannot be mapped: %s", strerror(err));
		writer_start(&w, compute);
		f.after_ns = unmap_ns * random_below(1001) / 1000;
		pthread_barrier_wait(&f.begin);
		start = now_ns();
		err = kfd_unmap(dev.fd, userptr.handle, dev.gpu_id);
		unmap_ns = now_ns() - start;
		if (err)
			die("the memory cannot be unmapped: %s", strerror(err));
		pthread_barrier_wait(&f.end);
		writer_stop(&w);
		bad += !is_mine(f.next);
		munmap(f.next, TAIL);
		all_ns += unmap_ns;
		done++;
	} while (kfd_now_ms() < end);
	f.stop = true;
	pthread_barrier_wait(&f.begin);
	pthread_join(thread, NULL);
	renew(how);
	tap_ok(!bad, "nobody writes to pages that were %s while %s wrote to them",
	       names[how], compute ? "a compute queue" : "an SDMA queue");
	tap_note("%u times, %u with other people's writes; an unmap takes %llu us", done, bad,
		 all_ns / done / 1000);
}

int main(int argc, char **argv)
{
	const char *const given = argc > 1 ? argv[1] : getenv("RKFD_SECONDS");
	const uint64_t ms = (given ? (unsigned int)atoi(given) : work(20, 8)) * 1000ull;
	const size_t size = work(128, 32) << 20;
	unsigned int i;

	tap_start();
	if (kfd_open(&dev) || kfd_save_create(&dev, &save))
		die("no device");
	if (kfd_bo_create(&dev, &userptr, size, KFD_ALLOC_USERPTR) ||
	    kfd_unmap(dev.fd, userptr.handle, dev.gpu_id))
		die("no memory");
	tail = (uint8_t *)userptr.cpu + size - TAIL;
	madvise(userptr.cpu, size, MADV_DONTNEED);
	touch(userptr.cpu, size);
	for (i = 0; i < 2 * FREEINGS; i++)
		rounds(i % 2, i / 2, ms / (2 * FREEINGS));
	kfd_close(&dev);
	tap_ok(check_process_copies(), "a copy afterwards");
	return tap_end();
}
