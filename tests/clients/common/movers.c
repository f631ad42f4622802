// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>
#include <sys/mman.h>

#include "kfd_svm.h"
#include "kfd_userptr.h"
#include "movers.h"
#include "pattern.h"
#include "rounds.h"
#include "tap.h"

#define RING_SIZE	(16u << 10)
#define HUGE		(2u << 20)
/* Small pages before a huge one. */
#define BEFORE		(16u * KFD_PAGE)
#define BYTES		(BEFORE + HUGE)

static struct rounds rounds;

/* @n is the GPU's number. */
static bool open_gpu(struct kfd_dev *dev, unsigned int n)
{
	struct kfd_dev first;

	if (kfd_open(dev))
		return false;
	while (n--) {
		first = *dev;
		if (kfd_open_next(&first, dev))
			return false;
	}
	return true;
}

static uint8_t *share(const struct kfd_dev *dev)
{
	uint8_t *mem = kfd_reserve(2 * HUGE, HUGE);

	if (!mem)
		return NULL;
	mem += HUGE - BEFORE;
	if (anonymous(mem, BYTES, PROT_READ | PROT_WRITE) != mem ||
	    madvise(mem + BEFORE, HUGE, MADV_HUGEPAGE) ||
	    svm_set(dev->fd, mem, BYTES, SVM_ACCESS, dev->gpu_id))
		return NULL;
	return mem;
}

static void run(int ready, unsigned int number)
{
	uint8_t *src, *dst;
	struct kfd_queue queue;
	struct kfd_dev dev;
	uint64_t seed = 0;
	bool ok;

	if (!open_gpu(&dev, number) || kfd_queue_create(&dev, &queue, RING_SIZE))
		exit(2);
	src = share(&dev);
	dst = share(&dev);
	if (!src || !dst)
		exit(3);
	/* The CPU's accesses bring memory back, in small pages. */
	do {
		if (madvise(src + BEFORE, HUGE, MADV_DONTNEED))
			exit(4);
		pattern_fill(src, BYTES, ++seed, 0);
		ok = !svm_set(dev.fd, src, BYTES, SVM_PREFETCH, dev.gpu_id) &&
		     !svm_set(dev.fd, dst, BYTES, SVM_PREFETCH, dev.gpu_id) &&
		     !kfd_queue_copy(&queue, (uintptr_t)dst, (uintptr_t)src, BYTES, timeout_ms()) &&
		     pattern_check(dst, BYTES, seed, 0) == BYTES;
	} while (rounds_next(&rounds, ready, number) && ok);
	exit(ok ? EXIT_SUCCESS : EXIT_FAILURE);
}

void movers_start(unsigned int count)
{
	rounds_start(&rounds, run, count);
}

bool movers_go_on(void)
{
	return rounds_go_on(&rounds);
}

bool movers_stop(void)
{
	return rounds_stop(&rounds);
}
