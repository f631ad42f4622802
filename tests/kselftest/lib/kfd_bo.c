// SPDX-License-Identifier: GPL-2.0
/* Buffer objects by plain ioctls; see kfd.h. */
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

#include "kfd.h"

#define USERPTR_PROT	(PROT_READ | PROT_WRITE)

void *kfd_reserve(size_t size, size_t align)
{
	size_t length = size + align;
	uintptr_t start, base;
	void *p = mmap(NULL, length, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	start = (uintptr_t)p;
	base = (start + align - 1) / align * align;
	if (base > start)
		munmap(p, base - start);
	if (start + length > base + size)
		munmap((void *)(base + size), start + length - base - size);
	return (void *)base;
}

/* Maps the memory of an allocated object at its addresses. */
static int map_to_cpu(const struct kfd_dev *dev, const struct kfd_bo *bo)
{
	void *p;

	if (bo->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR)
		return 0;
	p = mmap(bo->cpu, bo->size, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED, dev->drm_fd, (off_t)bo->mmap_offset);
	if (p == MAP_FAILED)
		return errno;
	madvise(bo->cpu, bo->size, MADV_DONTFORK);
	return 0;
}

int kfd_bo_create(const struct kfd_dev *dev, struct kfd_bo *bo, size_t size,
		  uint32_t flags)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.size = size,
		.gpu_id = dev->gpu_id,
		.flags = flags,
	};
	size_t align = size >= (2u << 20) ? 2u << 20 : KFD_PAGE;
	int err;

	*bo = (struct kfd_bo){ .size = size, .flags = flags };
	bo->cpu = kfd_reserve(size, align);
	if (!bo->cpu)
		return ENOMEM;
	args.va_addr = (uintptr_t)bo->cpu;
	if (flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) {
		if (mprotect(bo->cpu, size, USERPTR_PROT)) {
			err = errno;
			goto unreserve;
		}
		args.mmap_offset = args.va_addr;
	}
	err = kfd_alloc(dev->fd, &args);
	if (err)
		goto unreserve;
	bo->handle = args.handle;
	bo->mmap_offset = args.mmap_offset;
	err = map_to_cpu(dev, bo);
	if (err)
		goto free;
	err = kfd_map(dev->fd, bo->handle, dev->gpu_id);
	if (!err)
		return 0;
free:
	kfd_free(dev->fd, bo->handle);
unreserve:
	munmap(bo->cpu, size);
	bo->cpu = NULL;
	return err;
}

int kfd_bo_destroy(const struct kfd_dev *dev, struct kfd_bo *bo)
{
	int err;

	if (!bo->cpu)
		return 0;
	err = kfd_unmap(dev->fd, bo->handle, dev->gpu_id);
	if (!err)
		err = kfd_free(dev->fd, bo->handle);
	if (err)
		return err;
	munmap(bo->cpu, bo->size);
	bo->cpu = NULL;
	return 0;
}

uint64_t kfd_map_registers(const struct kfd_dev *dev, uint32_t kind, size_t size, uint64_t *handle)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.va_addr = (uintptr_t)kfd_reserve(size, KFD_PAGE),
		.size = size,
		.gpu_id = dev->gpu_id,
		.flags = kind | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | KFD_IOC_ALLOC_MEM_FLAGS_COHERENT,
	};

	if (kfd_alloc(dev->fd, &args) || kfd_map(dev->fd, args.handle, dev->gpu_id))
		return 0;
	*handle = args.handle;
	return args.va_addr;
}
