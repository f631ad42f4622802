/* SPDX-License-Identifier: GPL-2.0 */
/* Queues at work on a process's own memory. */
#ifndef SVM_WORK_H
#define SVM_WORK_H

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "kfd_svm.h"
#include "kfd_userptr.h"

#define RING		(64u * 1024)
#define SIZE		(256u * 1024)
#define WAIT_MS		KFD_HANG_MS

static inline int copy(struct kfd_queue *queue, const void *dst, const void *src, size_t bytes)
{
	return kfd_queue_copy(queue, (uintptr_t)dst, (uintptr_t)src, bytes, WAIT_MS);
}

/* Memory of the process, at @at or anywhere. */
static inline uint8_t *memory(void *at, size_t size)
{
	return at ? anonymous(at, size, PROT_READ | PROT_WRITE) :
		    mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/*
 * In another process: copies until *@stop, beside the test, with page faults retried or not,
 * and counts the copies in *@copies.
 */
static inline int work_beside(volatile uint32_t *stop, volatile uint32_t *copies, int mode)
{
	struct kfd_bo from, to;
	struct kfd_queue queue;
	struct kfd_dev dev;
	uint8_t *mem;

	if (kfd_open(&dev) || xnack_set(dev.fd, mode) || kfd_queue_create(&dev, &queue, RING) ||
	    kfd_bo_create(&dev, &from, SIZE, KFD_ALLOC_GTT) ||
	    kfd_bo_create(&dev, &to, SIZE, KFD_ALLOC_VRAM))
		return 1;
	while (!*stop) {
		memset(from.cpu, (int)*copies + 1, SIZE);
		mem = mode ? memory(NULL, SIZE) : from.cpu;
		if (mode)
			memset(mem, (int)*copies + 1, SIZE);
		if (copy(&queue, to.cpu, mem, SIZE))
			return 2 + mode;
		if (memcmp(to.cpu, from.cpu, SIZE))
			return 4 + mode;
		if (mode)
			munmap(mem, SIZE);
		(*copies)++;
	}
	return 0;
}

#endif /* SVM_WORK_H */
