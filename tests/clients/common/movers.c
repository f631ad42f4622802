// SPDX-License-Identifier: GPL-2.0
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "child.h"
#include "kfd_svm.h"
#include "kfd_userptr.h"
#include "movers.h"
#include "pattern.h"
#include "tap.h"

#define RING_SIZE	(16u << 10)
#define HUGE		(2u << 20)
/* Small pages before a huge one. */
#define BEFORE		(16u * KFD_PAGE)
#define BYTES		(BEFORE + HUGE)

static struct {
	atomic_ulong done[MOVERS_MAX];
	atomic_bool stop;
} *shared;
static pid_t movers[MOVERS_MAX];
static unsigned int running;

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
	/* The CPU brings back what it touches, in small pages. */
	do {
		if (madvise(src + BEFORE, HUGE, MADV_DONTNEED))
			exit(4);
		pattern_fill(src, BYTES, ++seed, 0);
		ok = !svm_set(dev.fd, src, BYTES, SVM_PREFETCH, dev.gpu_id) &&
		     !svm_set(dev.fd, dst, BYTES, SVM_PREFETCH, dev.gpu_id) &&
		     !kfd_queue_copy(&queue, (uintptr_t)dst, (uintptr_t)src, BYTES, timeout_ms()) &&
		     pattern_check(dst, BYTES, seed, 0) == BYTES;
		if (atomic_fetch_add(&shared->done[number], 1) == 0 && write(ready, "", 1) != 1)
			ok = false;
	} while (ok && !atomic_load(&shared->stop));
	exit(ok ? EXIT_SUCCESS : EXIT_FAILURE);
}

void movers_start(unsigned int count)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED || count > MOVERS_MAX)
		die("no memory");
	for (running = 0; running < count; running++) {
		movers[running] = child_start(run, running);
		if (movers[running] <= 0)
			die("no process that moves memory of GPU %u", running);
	}
}

bool movers_go_on(void)
{
	const unsigned long long end = now_ns() + timeout_ms() * 1000000ull;
	unsigned long wanted[MOVERS_MAX];
	unsigned int i;

	/* One may be nearly done. */
	for (i = 0; i < running; i++)
		wanted[i] = atomic_load(&shared->done[i]) + 2;
	for (i = 0; i < running; i++)
		while (atomic_load(&shared->done[i]) < wanted[i]) {
			if (now_ns() > end)
				return false;
			usleep(1000);
		}
	return true;
}

bool movers_stop(void)
{
	bool ok;

	atomic_store(&shared->stop, true);
	ok = children_succeed(movers, running);
	munmap(shared, sizeof(*shared));
	return ok;
}
