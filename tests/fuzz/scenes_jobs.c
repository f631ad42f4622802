// SPDX-License-Identifier: GPL-2.0
/* Contexts, lists of buffers and jobs of the render node. */
#include <unistd.h>

#include "cs.h"
#include "scenes.h"
#include "syncobj.h"

#define IB_VA	0x10000000ull
#define IB_SIZE	(16u * 1024)
/* Where jobs store, and the page of the user fence. */
#define DATA	(IB_VA + 8192)
#define PAGE_VA	0x20000000ull

/* Each process plays one scene once. */
static struct cs_bo ib_bo, page;
static uint32_t ctx;
static uint64_t point;

static bool has_file(struct stage *s)
{
	return kfd_open_files(&s->dev) == 0;
}

static int new_ctx(struct stage *s)
{
	return make_ctx(s->dev.drm_fd, &ctx);
}

static int free_ctx(struct stage *s)
{
	union drm_amdgpu_ctx args = {
		.in = { .op = AMDGPU_CTX_OP_FREE_CTX, .ctx_id = ctx },
	};

	return kfd_ioctl(s->dev.drm_fd, DRM_IOCTL_AMDGPU_CTX, &args);
}

static bool ctx_freed(struct stage *s)
{
	return free_ctx(s) == 0;
}

static bool has_bo(struct stage *s)
{
	return has_file(s) &&
	       !make_bo(s->dev.drm_fd, AMDGPU_GEM_DOMAIN_GTT, IB_SIZE, IB_VA, &ib_bo);
}

static bool has_ctx(struct stage *s)
{
	return has_bo(s) && !new_ctx(s);
}

static int submit_job(struct stage *s)
{
	struct drm_amdgpu_cs_chunk_ib ib;
	struct packets p = { .count = 0 };

	fill(&p, DATA, 5);
	ib = ib_at(&ib_bo, 0, &p);
	return submit_ib(s->dev.drm_fd, ctx, &ib, &s->handle);
}

static int wait_job(struct stage *s)
{
	return wait_done(s->dev.drm_fd, ctx, s->handle);
}

static bool job_done(struct stage *s)
{
	return wait_job(s) == 0;
}

/* A context with a ring, whose first job is done. */
static bool has_ring(struct stage *s)
{
	return has_ctx(s) && !submit_job(s) && job_done(s);
}

/* And a sync object that is signalled, and a page for the user fence. */
static bool has_all(struct stage *s)
{
	return has_ring(s) &&
	       !make_bo(s->dev.drm_fd, AMDGPU_GEM_DOMAIN_GTT, KFD_PAGE, PAGE_VA, &page) &&
	       !syncobj_make(s->dev.drm_fd, DRM_SYNCOBJ_CREATE_SIGNALED, &s->number);
}

/* A job with a chunk of each kind. */
static int submit_all(struct stage *s)
{
	struct drm_amdgpu_cs_chunk_dep after = {
		.ip_type = AMDGPU_HW_IP_DMA, .ctx_id = ctx, .handle = UINT64_MAX,
	};
	struct drm_amdgpu_cs_chunk_sem in = { .handle = s->number };
	struct drm_amdgpu_cs_chunk_syncobj out = { .handle = s->number, .point = ++point };
	struct drm_amdgpu_cs_chunk_fence fence = { .handle = page.handle };
	struct drm_amdgpu_bo_list_entry entry = { .bo_handle = ib_bo.handle };
	struct drm_amdgpu_bo_list_in list = list_of(&entry, 1);
	struct drm_amdgpu_cs_chunk_ib ib;
	struct packets p = { .count = 0 };
	struct job job = { .count = 0 };

	fill(&p, DATA, 6);
	ib = ib_at(&ib_bo, 1024, &p);
	add_chunk(&job, AMDGPU_CHUNK_ID_IB, &ib, sizeof(ib));
	add_chunk(&job, AMDGPU_CHUNK_ID_FENCE, &fence, sizeof(fence));
	add_chunk(&job, AMDGPU_CHUNK_ID_DEPENDENCIES, &after, sizeof(after));
	add_chunk(&job, AMDGPU_CHUNK_ID_SYNCOBJ_IN, &in, sizeof(in));
	add_chunk(&job, AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL, &out, sizeof(out));
	add_chunk(&job, AMDGPU_CHUNK_ID_BO_HANDLES, &list, sizeof(list));
	return submit(s->dev.drm_fd, ctx, 0, &job, &s->handle);
}

static int wait_fences(struct stage *s)
{
	struct drm_amdgpu_fence fences[2] = {
		{ .ctx_id = ctx, .ip_type = AMDGPU_HW_IP_DMA, .seq_no = 1 },
		{ .ctx_id = ctx, .ip_type = AMDGPU_HW_IP_DMA, .seq_no = 1 },
	};
	union drm_amdgpu_wait_fences args = {
		.in = {
			.fences = (uintptr_t)fences,
			.fence_count = 2,
			.timeout_ns = FOREVER,
		},
	};

	return kfd_ioctl(s->dev.drm_fd, DRM_IOCTL_AMDGPU_WAIT_FENCES, &args);
}

static int fence_to_handle(struct stage *s)
{
	union drm_amdgpu_fence_to_handle args = {
		.in = {
			.fence = { .ctx_id = ctx, .ip_type = AMDGPU_HW_IP_DMA, .seq_no = 1 },
			.what = AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD,
		},
	};
	int err = kfd_ioctl(s->dev.drm_fd, DRM_IOCTL_AMDGPU_FENCE_TO_HANDLE, &args);

	s->fd = (int)args.out.handle;
	return err;
}

static bool fd_closed(struct stage *s)
{
	return close(s->fd) == 0;
}

static int bo_list(struct stage *s, uint32_t operation)
{
	struct drm_amdgpu_bo_list_entry entries[3] = {
		{ .bo_handle = ib_bo.handle },
		{ .bo_handle = ib_bo.handle },
		{ .bo_handle = ib_bo.handle },
	};
	union drm_amdgpu_bo_list args = {
		.in = {
			.operation = operation,
			.list_handle = s->number,
			.bo_number = 3,
			.bo_info_size = sizeof(entries[0]),
			.bo_info_ptr = (uintptr_t)entries,
		},
	};
	int err = kfd_ioctl(s->dev.drm_fd, DRM_IOCTL_AMDGPU_BO_LIST, &args);

	if (operation == AMDGPU_BO_LIST_OP_CREATE)
		s->number = args.out.list_handle;
	return err;
}

static int make_list(struct stage *s)
{
	return bo_list(s, AMDGPU_BO_LIST_OP_CREATE);
}

static bool list_gone(struct stage *s)
{
	return bo_list(s, AMDGPU_BO_LIST_OP_DESTROY) == 0;
}

static bool has_list(struct stage *s)
{
	return has_bo(s) && !make_list(s);
}

static int update_list(struct stage *s)
{
	return bo_list(s, AMDGPU_BO_LIST_OP_UPDATE);
}

const struct scene job_scenes[] = {
	{ "CTX, alloc", has_file, new_ctx, ctx_freed, 0 },
	{ "CTX, free", has_ring, free_ctx, NULL, EINVAL },
	{ "BO_LIST, create", has_bo, make_list, list_gone, 0 },
	{ "BO_LIST, update", has_list, update_list, list_gone, 0 },
	{ "CS, the first job", has_ctx, submit_job, job_done, 0 },
	{ "CS, a job with all", has_all, submit_all, job_done, 0 },
	{ "WAIT_CS", has_ring, wait_job, NULL, 0 },
	{ "WAIT_FENCES", has_ring, wait_fences, NULL, 0 },
	{ "FENCE_TO_HANDLE", has_ring, fence_to_handle, fd_closed, 0 },
};
const unsigned int job_scene_count = sizeof(job_scenes) / sizeof(job_scenes[0]);
