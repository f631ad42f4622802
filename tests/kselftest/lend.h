/* SPDX-License-Identifier: GPL-2.0 */
/* Memory that a process lends to the GPU. */
#ifndef RKFD_TEST_LEND_H
#define RKFD_TEST_LEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "kfd.h"

/* Lends the GPU memory of the process, and maps it at its own address. */
static inline int lend(const struct kfd_dev *dev, void *mem, size_t size, uint32_t flags,
		       uint64_t *handle)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.va_addr = (uintptr_t)mem,
		.mmap_offset = (uintptr_t)mem,
		.size = size,
		.gpu_id = dev->gpu_id,
		.flags = flags,
	};
	int err = kfd_alloc(dev->fd, &args);

	if (err)
		return err;
	*handle = args.handle;
	err = kfd_map(dev->fd, args.handle, dev->gpu_id);
	if (err)
		kfd_free(dev->fd, args.handle);
	return err;
}

/* Memory of the process alone, in place of what is at @at. */
static inline void *anonymous(void *at, size_t size, int prot)
{
	return mmap(at, size, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

/* Whether it is @value everywhere. */
static inline bool all(const void *p, uint8_t value, size_t size)
{
	const uint8_t *bytes = p;
	size_t i;

	for (i = 0; i < size; i++)
		if (bytes[i] != value)
			return false;
	return true;
}

#endif /* RKFD_TEST_LEND_H */
