// SPDX-License-Identifier: GPL-2.0
/*
 * Shared virtual memory on its way to VRAM and back, beside a copy of the same size; given to
 * the GPU and taken back, beside the same as a buffer of user memory; and the time of a queue's
 * first access to it (XNACK).
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"
#include "kfd_svm.h"
#include "kfd_userptr.h"
#include "tap.h"

#define KIB		(1ull << 10)
#define MIB		(1ull << 20)
#define RING_SIZE	(64u << 10)
#define ROUNDS		20u

/* A queue of the process copies as much, from the process's memory to VRAM. */
static void copies(const struct kfd_dev *dev, uint8_t *mem, uint64_t size)
{
	struct samples s = { .count = 0 };
	struct kfd_queue queue;
	struct kfd_bo vram;
	unsigned int i;

	must(kfd_queue_create(dev, &queue, RING_SIZE), "queue");
	must(kfd_bo_create(dev, &vram, size, KFD_ALLOC_VRAM), "VRAM");
	must(svm_set(dev->fd, mem, size, SVM_ACCESS, dev->gpu_id), "access");
	for (i = 0; i <= ROUNDS; i++) {
		const unsigned long long before = now_ns();

		must(kfd_queue_copy(&queue, (uintptr_t)vram.cpu, (uintptr_t)mem, size,
				    timeout_ms()), "copy");
		if (i)
			sample(&s, before);
	}
	report("svm_copy", size, &s);
	must(svm_set(dev->fd, mem, size, SVM_NO_ACCESS, dev->gpu_id), "no access");
	must(kfd_bo_destroy(dev, &vram), "destroy");
	must(kfd_queue_destroy(dev, &queue), "destroy");
}

/* Prefetched both ways; then fetched by the CPU. */
static void moves(const struct kfd_dev *dev, uint8_t *mem, uint64_t size)
{
	struct samples in = { .count = 0 }, out = { .count = 0 }, fault = { .count = 0 };
	unsigned int i;

	memset(mem, 1, size);
	for (i = 0; i <= ROUNDS; i++) {
		unsigned long long before = now_ns();

		must(svm_set(dev->fd, mem, size, SVM_PREFETCH, dev->gpu_id), "prefetch");
		if (i)
			sample(&in, before);
		before = now_ns();
		must(svm_set(dev->fd, mem, size, SVM_PREFETCH, SVM_SYSTEM), "prefetch");
		if (i)
			sample(&out, before);
		must(svm_set(dev->fd, mem, size, SVM_PREFETCH, dev->gpu_id), "prefetch");
		before = now_ns();
		*(volatile uint8_t *)mem = 1;
		if (i)
			sample(&fault, before);
	}
	report("svm_to_vram", size, &in);
	report("svm_to_system", size, &out);
	/* More than a large page does not come at once. */
	if (size <= 2 * MIB)
		report("svm_cpu_fault", size, &fault);
}

/*
 * Given and taken back, as libhsakmt does with memory of the host: as shared virtual memory,
 * and as a buffer.
 */
static void given(const struct kfd_dev *dev, uint8_t *mem, uint64_t size)
{
	struct samples svm = { .count = 0 }, userptr = { .count = 0 };
	unsigned int i;

	memset(mem, 1, size);
	for (i = 0; i <= ROUNDS; i++) {
		unsigned long long before = now_ns();
		uint64_t handle;

		must(svm_set(dev->fd, mem, size, SVM_IN_PLACE, dev->gpu_id), "access");
		must(svm_set(dev->fd, mem, size, SVM_NO_ACCESS, dev->gpu_id), "no access");
		if (i)
			sample(&svm, before);
		/* Its attributes are gone. */
		if (mmap(mem, size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE, -1, 0) != mem)
			die("no memory");
		before = now_ns();
		must(kfd_userptr_create(dev, mem, size, KFD_ALLOC_USERPTR, &handle), "USERPTR");
		must(kfd_unmap(dev->fd, handle, dev->gpu_id), "unmap");
		must(kfd_free(dev->fd, handle), "free");
		if (i)
			sample(&userptr, before);
	}
	report("svm_given", size, &svm);
	report("userptr_given", size, &userptr);
}

/* A queue reads a word that is not mapped, and one that is. Page faults are retried. */
static void faults(const struct kfd_dev *dev, uint8_t *mem)
{
	struct samples fault = { .count = 0 }, found = { .count = 0 };
	const uint64_t size = 2 * MIB;
	struct kfd_queue queue;
	struct kfd_bo vram;
	unsigned int i;

	must(xnack_set(dev->fd, 1), "XNACK");
	must(kfd_queue_create(dev, &queue, RING_SIZE), "queue");
	must(kfd_bo_create(dev, &vram, KFD_PAGE, KFD_ALLOC_VRAM), "VRAM");
	must(svm_set(dev->fd, mem, size, SVM_PREFERRED, SVM_SYSTEM), "preferred");
	for (i = 0; i <= ROUNDS; i++) {
		unsigned long long before;

		must(madvise(mem, size, MADV_DONTNEED) ? errno : 0, "madvise");
		memset(mem, 1, size);
		before = now_ns();
		must(kfd_queue_copy(&queue, (uintptr_t)vram.cpu, (uintptr_t)mem, 4, timeout_ms()),
		     "copy");
		if (i)
			sample(&fault, before);
		before = now_ns();
		must(kfd_queue_copy(&queue, (uintptr_t)vram.cpu, (uintptr_t)mem, 4, timeout_ms()),
		     "copy");
		if (i)
			sample(&found, before);
	}
	report("svm_gpu_fault", size, &fault);
	report("svm_gpu_found", size, &found);
	must(kfd_bo_destroy(dev, &vram), "destroy");
	must(kfd_queue_destroy(dev, &queue), "destroy");
}

void bench_svm(void)
{
	static const uint64_t sizes[] = { 4 * KIB, 2 * MIB, 16 * MIB };
	struct kfd_dev dev;
	unsigned int i;

	must(kfd_open(&dev), "open");
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint8_t *mem = kfd_reserve(sizes[i], 2 * MIB);

		if (anonymous(mem, sizes[i], PROT_READ | PROT_WRITE) != mem)
			die("no memory");
		moves(&dev, mem, sizes[i]);
		copies(&dev, mem, sizes[i]);
		munmap(mem, sizes[i]);
		if (anonymous(mem, sizes[i], PROT_READ | PROT_WRITE) != mem)
			die("no memory");
		given(&dev, mem, sizes[i]);
		/* The last one is large enough. */
		if (i == sizeof(sizes) / sizeof(sizes[0]) - 1)
			faults(&dev, mem);
		munmap(mem, sizes[i]);
	}
	kfd_close(&dev);
}
