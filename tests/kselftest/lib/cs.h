/* SPDX-License-Identifier: GPL-2.0 */
/* Calls of the render node for buffers and for jobs of SDMA. Each returns an errno. */
#ifndef RKFD_TEST_CS_H
#define RKFD_TEST_CS_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <drm/amdgpu_drm.h>
#include <drm/drm.h>

#include "kfd.h"
#include "packets.h"
#include "tap.h"

#define ACCESS		(AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE | \
			 AMDGPU_VM_PAGE_EXECUTABLE)
#define FOREVER		UINT64_MAX

struct cs_bo {
	uint32_t handle;
	uint64_t va;
	uint32_t *cpu;
};

static inline int gem_va(int drm_fd, uint32_t operation, uint32_t handle, uint64_t va, size_t size)
{
	struct drm_amdgpu_gem_va args = {
		.handle = handle,
		.operation = operation,
		.flags = operation == AMDGPU_VA_OP_MAP ? ACCESS : 0,
		.va_address = va,
		.map_size = size,
	};

	return kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_GEM_VA, &args);
}

/* Makes a buffer and maps it for the GPU and the processor. */
static inline int make_bo_with(int drm_fd, uint64_t domain, uint64_t flags, size_t size,
			       uint64_t va, struct cs_bo *bo)
{
	union drm_amdgpu_gem_create create = { .in = { .bo_size = size, .domains = domain } };
	union drm_amdgpu_gem_mmap place;
	void *cpu;
	int err;

	create.in.domain_flags = AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED | flags;
	err = kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_GEM_CREATE, &create);
	if (err)
		return err;
	*bo = (struct cs_bo){ .handle = create.out.handle, .va = va };
	err = gem_va(drm_fd, AMDGPU_VA_OP_MAP, bo->handle, va, size);
	if (err)
		return err;
	place = (union drm_amdgpu_gem_mmap){ .in = { .handle = bo->handle } };
	err = kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_GEM_MMAP, &place);
	if (!err)
		err = kfd_mmap(drm_fd, size, place.out.addr_ptr, &cpu);
	bo->cpu = err ? NULL : cpu;
	return err;
}

static inline int make_bo(int drm_fd, uint64_t domain, size_t size, uint64_t va, struct cs_bo *bo)
{
	return make_bo_with(drm_fd, domain, 0, size, va, bo);
}

static inline int make_ctx(int drm_fd, uint32_t *ctx)
{
	union drm_amdgpu_ctx args = { .in = { .op = AMDGPU_CTX_OP_ALLOC_CTX } };
	int err = kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_CTX, &args);

	*ctx = args.out.alloc.ctx_id;
	return err;
}

/* Writes @p at @at of the IB buffer, padded to whole fetches; the chunk for it. */
static inline struct drm_amdgpu_cs_chunk_ib ib_at(const struct cs_bo *ib, size_t at,
					   const struct packets *p)
{
	unsigned int count = p->count;

	memcpy(ib->cpu + at / 4, p->dwords, count * 4);
	while (count % 8)
		ib->cpu[at / 4 + count++] = SDMA_NOP;
	return (struct drm_amdgpu_cs_chunk_ib){
		.va_start = ib->va + at,
		.ib_bytes = count * 4,
		.ip_type = AMDGPU_HW_IP_DMA,
	};
}

/* A list of @count buffers for BO_LIST, or for a chunk BO_HANDLES. */
static inline struct drm_amdgpu_bo_list_in
list_of(const struct drm_amdgpu_bo_list_entry *entries, uint32_t count)
{
	return (struct drm_amdgpu_bo_list_in){
		.operation = UINT32_MAX,
		.list_handle = UINT32_MAX,
		.bo_number = count,
		.bo_info_size = sizeof(*entries),
		.bo_info_ptr = (uintptr_t)entries,
	};
}

struct job {
	struct drm_amdgpu_cs_chunk chunks[8];
	uint64_t places[8];
	uint32_t count;
};

static inline void add_chunk(struct job *job, uint32_t id, const void *data, size_t size)
{
	job->chunks[job->count] = (struct drm_amdgpu_cs_chunk){
		.chunk_id = id,
		.length_dw = (uint32_t)(size / 4),
		.chunk_data = (uintptr_t)data,
	};
	job->places[job->count] = (uintptr_t)&job->chunks[job->count];
	job->count++;
}

static inline int submit(int drm_fd, uint32_t ctx, uint32_t list, const struct job *job,
		  uint64_t *handle)
{
	const unsigned long long end = now_ns() + timeout_ms() * 1000000ull;
	union drm_amdgpu_cs args;
	int err;

	/* amdgpu wants another try when memory of the process has changed, which libdrm makes. */
	do {
		args = (union drm_amdgpu_cs){
			.in = {
				.ctx_id = ctx,
				.bo_list_handle = list,
				.num_chunks = job->count,
				.chunks = (uintptr_t)job->places,
			},
		};
		err = kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_CS, &args);
	} while (err == EAGAIN && now_ns() < end);
	if (handle)
		*handle = args.out.handle;
	return err;
}

/* Submits a job of one IB. */
static inline int submit_ib(int drm_fd, uint32_t ctx, const struct drm_amdgpu_cs_chunk_ib *ib,
		     uint64_t *handle)
{
	struct job job = { .count = 0 };

	add_chunk(&job, AMDGPU_CHUNK_ID_IB, ib, sizeof(*ib));
	return submit(drm_fd, ctx, 0, &job, handle);
}

static inline int wait_ring(int drm_fd, uint32_t ctx, uint32_t ring, uint64_t handle,
			    uint64_t until, bool *busy)
{
	union drm_amdgpu_wait_cs args = {
		.in = {
			.handle = handle,
			.timeout = until,
			.ip_type = AMDGPU_HW_IP_DMA,
			.ring = ring,
			.ctx_id = ctx,
		},
	};
	int err = kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_WAIT_CS, &args);

	if (busy)
		*busy = args.out.status != 0;
	return err;
}

/* Waits for a job of ring 0 until it is done. */
static inline int wait_done(int drm_fd, uint32_t ctx, uint64_t handle)
{
	bool busy = false;
	int err = wait_ring(drm_fd, ctx, 0, handle, FOREVER, &busy);

	return err ? err : busy ? EPROTO : 0;
}

/* Whether jobs, or other devices, are at work on a buffer, from their lists. */
static inline int wait_idle(int drm_fd, uint32_t handle, uint64_t until, bool *busy)
{
	union drm_amdgpu_gem_wait_idle args = { .in = { .handle = handle, .timeout = until } };
	int err = kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_GEM_WAIT_IDLE, &args);

	*busy = args.out.status != 0;
	return err;
}

static inline void fill(struct packets *p, uint64_t to, uint32_t value)
{
	sdma_fill(p, to, value, 1);
}

#endif /* RKFD_TEST_CS_H */
