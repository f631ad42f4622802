/* SPDX-License-Identifier: GPL-2.0 */
/* USERPTR: memory of a process that the GPU is given. */
#ifndef RKFD_TEST_KFD_USERPTR_H
#define RKFD_TEST_KFD_USERPTR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "kfd.h"

/* Gives the GPU memory of the process (USERPTR) at its own address. */
static inline int kfd_userptr_create(const struct kfd_dev *dev, void *mem, size_t size,
				     uint32_t flags, uint64_t *handle)
{
	int err = kfd_alloc_at(dev, flags, (uintptr_t)mem, size, handle);

	if (err)
		return err;
	err = kfd_map(dev->fd, *handle, dev->gpu_id);
	if (err)
		kfd_free(dev->fd, *handle);
	return err;
}

/* Maps private memory of the process in place of the existing mapping at @at. */
static inline void *anonymous(void *at, size_t size, int prot)
{
	return mmap(at, size, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

/* True if every byte is @value. */
static inline bool all(const void *p, uint8_t value, size_t size)
{
	const uint8_t *bytes = p;
	size_t i;

	for (i = 0; i < size; i++)
		if (bytes[i] != value)
			return false;
	return true;
}

#endif /* RKFD_TEST_KFD_USERPTR_H */
