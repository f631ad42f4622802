// SPDX-License-Identifier: GPL-2.0
/*
 * userptr_stress [SECONDS]: threads map over, discard, move, unmap, swap out and fork memory
 * that is mapped on the GPU, while copies from it and to it run, and a compute queue writes to
 * it. Where a copy begins after the change, its data is checked; where both happen at once, the
 * data is unknown, but the device must not touch a page that was given back: with an IOMMU the
 * device model ends the run for that. libhsakmt is told not to make shared virtual memory of
 * it, of which unmapped parts are forgotten: svm_stress tests that.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hsakmt/hsakmt.h>

#include "common/buffer.h"
#include "common/check.h"
#include "debugfs.h"
#include "common/pattern.h"
#include "pm4.h"
#include "common/queue.h"
#include "tap.h"

#define KIB		1024u
#define MIB		(1u << 20)
#define RING_SIZE	(64u * KIB)
#define AREA		(256u * KIB)
/* Whole and aligned, so that it may be a huge page. */
#define HUGE		(2u * MIB)
#define CHANGERS	2u
#define LEAST		3u

/* A thread, and its progress. */
struct worker {
	pthread_t thread;
	unsigned int number;
	unsigned int seed;
	unsigned int done;
	bool failed;
};

static struct gpu gpu;
static volatile bool stop;

/* Each does something, however slow the machine is. */
static bool is_over(const struct worker *w)
{
	return w->failed || (stop && w->done >= LEAST);
}

/* A number of the thread's own series. */
static unsigned int below(struct worker *w, unsigned int limit)
{
	return (unsigned int)rand_r(&w->seed) % limit;
}

static void fail(struct worker *w, const char *what)
{
	w->failed = true;
	tap_note("%s after %u rounds", what, w->done);
}

/* @size bytes of ordinary memory at @at, in place of the existing mapping. */
static void renew(void *at, size_t size)
{
	if (mmap(at, size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at)
		die("mmap: %s", strerror(errno));
}

/* Memory that changes while copies from it and to it run. */
static struct {
	struct buffer from, to;
} wild;

/* Memory whose content stays, wherever its pages go. */
static struct {
	struct buffer src, dst;
} calm;

/* Copies between buffers that only forks and swapping disturb; every byte is checked. */
static void *steady(void *arg)
{
	const struct buffer src = calm.src, dst = calm.dst;
	struct worker *w = arg;
	struct queue queue;

	queue_create(&gpu, &queue, RING_SIZE, BUFFER_USERPTR);
	while (!is_over(w)) {
		pattern_fill(src.cpu, AREA, w->done, 0);
		if (!queue_copy(&queue, dst.gpu, src.gpu, AREA))
			fail(w, "a steady copy does not end");
		else if (pattern_check(dst.cpu, AREA, w->done, 0) != AREA)
			fail(w, "a steady copy brings wrong data");
		w->done++;
	}
	queue_destroy(&queue);
	return NULL;
}

/* Makes pages go to swap, if there is any: see swap.sh. */
static void *paging_out(void *arg)
{
	struct worker *w = arg;

	while (!is_over(w)) {
		struct buffer *const some[] = { &calm.src, &calm.dst, &wild.from, &wild.to };
		const struct buffer *b = some[below(w, 4)];

		if (madvise(b->cpu, b->size, MADV_PAGEOUT) && errno != EINVAL)
			fail(w, "paging out failed");
		w->done++;
		usleep(below(w, 400000));
	}
	return NULL;
}

/* Changes the origin of user memory, and fills it anew. */
static void change(struct worker *w, uint8_t *area, uint64_t seed)
{
	uint8_t *other;

	switch (below(w, 6)) {
	case 0:
		renew(area, AREA);
		break;
	case 1:
		madvise(area, AREA, MADV_DONTNEED);
		break;
	case 2:
		other = mmap(NULL, AREA, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (other == MAP_FAILED ||
		    mremap(other, AREA, AREA, MREMAP_MAYMOVE | MREMAP_FIXED, area) != area)
			die("mremap: %s", strerror(errno));
		break;
	case 3:
		if (mmap(area, AREA, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != area)
			die("mmap: %s", strerror(errno));
		break;
	case 4:
		/* Only a part in the middle. */
		renew(area + AREA / 4, AREA / 4);
		break;
	default:
		mprotect(area, AREA, PROT_READ);
		mprotect(area, AREA, PROT_READ | PROT_WRITE);
	}
	pattern_fill(area, AREA, seed, 0);
}

/* Changes, then copies out of the new memory and back into it. */
static void *changing(void *arg)
{
	struct worker *w = arg;
	struct buffer area, other;
	struct queue queue;

	buffer_create(&gpu, &area, BUFFER_REGISTERED, AREA);
	buffer_create(&gpu, &other, w->number % 2 ? BUFFER_GTT : BUFFER_VRAM, AREA);
	queue_create(&gpu, &queue, RING_SIZE, BUFFER_GTT);
	while (!is_over(w)) {
		const uint64_t seed = (uint64_t)(w->number + 1) << 32 | w->done;

		change(w, area.cpu, seed);
		if (!queue_copy(&queue, other.gpu, area.gpu, AREA))
			fail(w, "a copy from changed memory does not end");
		else if (pattern_check(other.cpu, AREA, seed, 0) != AREA)
			fail(w, "a copy from changed memory brings old data");
		pattern_fill(other.cpu, AREA, ~seed, 0);
		if (!w->failed && !queue_copy(&queue, area.gpu, other.gpu, AREA))
			fail(w, "a copy to changed memory does not end");
		else if (!w->failed && pattern_check(area.cpu, AREA, ~seed, 0) != AREA)
			fail(w, "a copy to changed memory does not arrive");
		w->done++;
	}
	queue_destroy(&queue);
	buffer_destroy(&area);
	buffer_destroy(&other);
	return NULL;
}

static void *copying_wildly(void *arg)
{
	struct worker *w = arg;
	struct buffer vram;
	struct queue queue;

	buffer_create(&gpu, &vram, BUFFER_VRAM, HUGE);
	queue_create(&gpu, &queue, RING_SIZE, BUFFER_GTT);
	while (!is_over(w)) {
		struct packets p = { 0 };

		sdma_copy(&p, vram.gpu, wild.from.gpu, HUGE);
		sdma_copy(&p, wild.to.gpu, vram.gpu, HUGE);
		if (!queue_wait(&queue, queue_submit(&queue, &p)))
			fail(w, "a copy beside changes does not end");
		w->done++;
	}
	queue_destroy(&queue);
	buffer_destroy(&vram);
	return NULL;
}

static void *changing_wildly(void *arg)
{
	struct worker *w = arg;

	while (!is_over(w)) {
		struct buffer *b = below(w, 2) ? &wild.from : &wild.to;
		const size_t at = below(w, HUGE / 4096) * 4096ul;
		const size_t size = (below(w, (unsigned int)((HUGE - at) / 4096)) + 1) * 4096ul;

		switch (below(w, 3)) {
		case 0:
			renew(b->cpu, HUGE);
			break;
		case 1:
			renew(b->cpu + at, size);
			break;
		default:
			madvise(b->cpu + at, size, MADV_DONTNEED);
		}
		memset(b->cpu + at, (int)w->done, size);
		w->done++;
		usleep(below(w, 20000));
	}
	return NULL;
}

/* Registers memory, has it copied, unmaps it under the GPU, and frees the buffer after that. */
static void *unmapping(void *arg)
{
	struct worker *w = arg;
	struct buffer dst;
	struct queue queue;

	buffer_create(&gpu, &dst, BUFFER_VRAM, AREA);
	queue_create(&gpu, &queue, RING_SIZE, BUFFER_GTT);
	while (!is_over(w)) {
		struct buffer b;

		buffer_create(&gpu, &b, BUFFER_REGISTERED, AREA);
		pattern_fill(b.cpu, AREA, w->done, 0);
		if (!queue_copy(&queue, dst.gpu, b.gpu, AREA))
			fail(w, "a copy before an unmap does not end");
		else if (pattern_check(dst.cpu, AREA, w->done, 0) != AREA)
			fail(w, "a copy before an unmap brings wrong data");
		munmap(b.cpu + AREA / 2, AREA / 2);
		usleep(below(w, 2000));
		munmap(b.cpu, AREA / 2);
		usleep(below(w, 2000));
		/*
		 * Its addresses may be another thread's by now, so they are not unmapped once
		 * more.
		 */
		if (hsaKmtUnmapMemoryToGPU(b.cpu) != HSAKMT_STATUS_SUCCESS ||
		    hsaKmtDeregisterMemory(b.cpu) != HSAKMT_STATUS_SUCCESS)
			fail(w, "memory that is gone cannot be taken back");
		w->done++;
	}
	queue_destroy(&queue);
	buffer_destroy(&dst);
	return NULL;
}

/*
 * Keeps large areas to this process. libhsakmt's area for a compute queue's waves is 61 MiB of
 * ordinary memory, each page of which has to be copied after each fork. The queues would do
 * little but wait for that.
 */
static void keep_from_children(size_t least)
{
	unsigned long start, end, inode;
	char line[512], flags[8];
	FILE *maps = fopen("/proc/self/maps", "r");

	if (!maps)
		die("/proc/self/maps: %s", strerror(errno));
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %7s %*x %*s %lu", &start, &end, flags, &inode) == 4 &&
		    !inode && flags[1] == 'w' && end - start >= least)
			madvise((void *)start, end - start, MADV_DONTFORK);
	fclose(maps);
}

/*
 * A compute queue writes to memory that is discarded in between, and so is evicted and restored
 * like the copies' queues.
 */
static void *computing(void *arg)
{
	struct worker *w = arg;
	struct buffer ring, area;
	HsaQueueResource resource = { 0 };
	volatile uint64_t *wptr, *doorbell, *value;
	uint64_t at = 0;

	buffer_create(&gpu, &ring, BUFFER_GTT, RING_SIZE);
	buffer_create(&gpu, &area, BUFFER_REGISTERED, AREA);
	if (hsaKmtCreateQueue(gpu.node, HSA_QUEUE_COMPUTE, 100, HSA_QUEUE_PRIORITY_NORMAL,
			      ring.cpu, RING_SIZE, NULL, &resource) != HSAKMT_STATUS_SUCCESS)
		die("no compute queue");
	keep_from_children(32 * MIB);
	wptr = (volatile uint64_t *)resource.Queue_write_ptr_aql;
	doorbell = (volatile uint64_t *)resource.Queue_DoorBell_aql;
	while (!is_over(w)) {
		const unsigned int place = below(w, AREA / 8) * 8;
		unsigned long long end;
		struct packets p = { 0 };
		unsigned int i;

		madvise(area.cpu, AREA, MADV_DONTNEED);
		value = (volatile uint64_t *)(area.cpu + place);
		pm4_release(&p, area.gpu + place, ++w->done, 0);
		for (i = 0; i < p.count; i++)
			((volatile uint32_t *)ring.cpu)[at++ % (RING_SIZE / 4)] = p.dwords[i];
		__sync_synchronize();
		*wptr = at;
		__sync_synchronize();
		*doorbell = at;
		end = now_ns() + timeout_ms() * 1000000ull;
		while (*value != w->done && now_ns() < end)
			usleep(100);
		if (*value != w->done)
			fail(w, "a compute queue does not write");
	}
	hsaKmtDestroyQueue(resource.QueueId);
	buffer_destroy(&area);
	buffer_destroy(&ring);
	return NULL;
}

static void *forking(void *arg)
{
	struct worker *w = arg;
	int status;

	while (!is_over(w)) {
		const pid_t child = fork();

		if (child == 0) {
			/* Some of the shared pages become its own. */
			memset(wild.from.cpu + below(w, HUGE / 2), 0x77, 8192);
			usleep(below(w, 2000));
			_exit(0);
		}
		if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
			fail(w, "a fork failed");
		w->done++;
		usleep(below(w, 20000));
	}
	return NULL;
}

static void wild_create(struct buffer *b)
{
	HSAuint64 address = 0;
	uint8_t *p = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	p = (uint8_t *)(((uintptr_t)p + HUGE - 1) / HUGE * HUGE);
	madvise(p, HUGE, MADV_HUGEPAGE);
	if (hsaKmtRegisterMemory(p, HUGE) != HSAKMT_STATUS_SUCCESS ||
	    hsaKmtMapMemoryToGPU(p, HUGE, &address) != HSAKMT_STATUS_SUCCESS)
		die("registering %u bytes failed", HUGE);
	*b = (struct buffer){
		.kind = BUFFER_REGISTERED,
		.size = HUGE,
		.cpu = p,
		.gpu = address ? address : (uintptr_t)p,
	};
}

enum role { STEADY, CHANGER, LAST_CHANGER = CHANGER + CHANGERS - 1, WILD_COPIES, WILD_CHANGES,
	    UNMAPS, COMPUTES, FORKS, PAGE_OUTS, WORKERS };

int main(int argc, char **argv)
{
	static void *(*const run[WORKERS])(void *) = {
		[STEADY] = steady,
		[CHANGER ... LAST_CHANGER] = changing,
		[WILD_COPIES] = copying_wildly,
		[WILD_CHANGES] = changing_wildly,
		[UNMAPS] = unmapping,
		[COMPUTES] = computing,
		[FORKS] = forking,
		[PAGE_OUTS] = paging_out,
	};
	static const char *const what[WORKERS] = {
		[STEADY] = "copies of steady memory",
		[CHANGER ... LAST_CHANGER] = "changes with copies out and in",
		[WILD_COPIES] = "copies of memory that changes meanwhile",
		[WILD_CHANGES] = "changes of memory that is copied meanwhile",
		[UNMAPS] = "buffers unmapped while the GPU has them",
		[COMPUTES] = "writes by a compute queue",
		[FORKS] = "forks",
		[PAGE_OUTS] = "calls that page out",
	};
	const char *const given = argc > 1 ? argv[1] : getenv("RKFD_SECONDS");
	const unsigned int seconds = given ? (unsigned int)atoi(given) : work(120, 6);
	static struct worker workers[WORKERS];
	unsigned int i;

	tap_start();
	setenv("HSA_USE_SVM", "0", 1);
	gpu_open(&gpu);
	wild_create(&wild.from);
	wild_create(&wild.to);
	buffer_create(&gpu, &calm.src, BUFFER_REGISTERED, AREA);
	buffer_create(&gpu, &calm.dst, BUFFER_USERPTR, AREA);
	for (i = 0; i < WORKERS; i++) {
		workers[i].number = i;
		workers[i].seed = random_below(1u << 30);
		if (pthread_create(&workers[i].thread, NULL, run[i], &workers[i]) != 0)
			die("no thread");
	}
	sleep(seconds);
	stop = true;
	for (i = 0; i < WORKERS; i++) {
		pthread_join(workers[i].thread, NULL);
		tap_ok(!workers[i].failed, "%s", what[i]);
		tap_note("%u in %u s", workers[i].done, seconds);
	}
	buffer_destroy(&wild.from);
	buffer_destroy(&wild.to);
	buffer_destroy(&calm.src);
	buffer_destroy(&calm.dst);
	tap_ok(check_copies(&gpu), "a copy afterwards");
	gpu_close();
	return tap_end();
}
