// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>
#include <sys/mman.h>

#include "faulters.h"
#include "kfd_svm.h"
#include "pattern.h"
#include "rounds.h"
#include "tap.h"

#define RING_SIZE	(16u << 10)
/*
 * A queue leaves the hardware when it is through with its packet: no more pages in one than are
 * faulted in within the ten seconds that it has, on a busy machine too.
 */
#define BYTES		(32u * KFD_PAGE)

static struct rounds rounds;

/* Memory of which each page faults on its own: at nearly all times a fault is under way. */
static uint8_t *fresh(const struct kfd_dev *dev)
{
	struct svm_attribute how[] = {
		{ SVM_GRANULARITY, 0 },
		{ SVM_PREFERRED, SVM_SYSTEM },
	};
	uint8_t *mem = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);

	if (mem == MAP_FAILED || svm(dev->fd, SVM_SET, mem, BYTES, how, 2))
		exit(3);
	return mem;
}

static void run(int ready, unsigned int number)
{
	struct kfd_queue queue;
	struct kfd_dev dev;
	uint8_t *src, *dst;
	uint64_t seed = 0;
	bool ok;

	if (kfd_open(&dev) || xnack_set(dev.fd, 1) || kfd_queue_create(&dev, &queue, RING_SIZE))
		exit(2);
	do {
		src = fresh(&dev);
		dst = fresh(&dev);
		pattern_fill(src, BYTES, ++seed, 0);
		ok = !kfd_queue_copy(&queue, (uintptr_t)dst, (uintptr_t)src, BYTES, timeout_ms()) &&
		     pattern_check(dst, BYTES, seed, 0) == BYTES;
		munmap(src, BYTES);
		munmap(dst, BYTES);
	} while (rounds_next(&rounds, ready, number) && ok);
	exit(ok ? EXIT_SUCCESS : EXIT_FAILURE);
}

void faulters_start(unsigned int count)
{
	rounds_start(&rounds, run, count);
}

bool faulters_go_on(void)
{
	return rounds_go_on(&rounds);
}

bool faulters_stop(void)
{
	return rounds_stop(&rounds);
}
