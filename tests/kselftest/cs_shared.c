// SPDX-License-Identifier: GPL-2.0
/* Buffers of jobs: which jobs wait for which, and when buffers leave the address space. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "cs_fixture.h"

#define SHARED_VA	0x30000000ull
#define OTHER_VA	0x40000000ull
#define SIZE		(64u * 1024)
#define SOON		(now_ns() + 50 * MS)

/* The chunk of a list with one buffer, and what it points to. */
struct one_bo {
	struct drm_amdgpu_bo_list_entry entry;
	struct drm_amdgpu_bo_list_in list;
};

/* A job of one IB at @at of @ibs, for @ring, whose list has @handle. */
static void job_with(struct job *job, struct one_bo *bo, uint32_t handle,
		     struct drm_amdgpu_cs_chunk_ib *ib)
{
	bo->entry = (struct drm_amdgpu_bo_list_entry){ .bo_handle = handle };
	bo->list = list_of(&bo->entry, 1);
	job->count = 0;
	add_chunk(job, AMDGPU_CHUNK_ID_IB, ib, sizeof(*ib));
	add_chunk(job, AMDGPU_CHUNK_ID_BO_HANDLES, &bo->list, sizeof(bo->list));
}

/* Another open file that has the same buffer. */
struct other {
	struct kfd_dev dev;
	struct cs_bo ib;
	uint32_t shared, ctx;
};

static int share_with(int drm_fd, uint32_t handle, const struct kfd_dev *dev, struct other *other,
		      int *fd)
{
	struct drm_prime_handle prime = { .handle = handle, .flags = DRM_CLOEXEC | DRM_RDWR };
	int err = kfd_ioctl(drm_fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime);

	if (err)
		return err;
	*fd = prime.fd;
	other->dev = *dev;
	err = kfd_open_render(&other->dev, &other->dev.drm_fd) ?:
	      make_ctx(other->dev.drm_fd, &other->ctx) ?:
	      make_bo(other->dev.drm_fd, AMDGPU_GEM_DOMAIN_GTT, IB_SIZE, IB_VA, &other->ib) ?:
	      kfd_ioctl(other->dev.drm_fd, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime);
	if (err)
		return err;
	other->shared = prime.handle;
	return gem_va(other->dev.drm_fd, AMDGPU_VA_OP_MAP, other->shared, SHARED_VA, SIZE);
}

static void leave(struct other *other, struct cs_bo *shared, int fd)
{
	munmap(other->ib.cpu, IB_SIZE);
	munmap(shared->cpu, SIZE);
	close(other->dev.drm_fd);
	close(fd);
}

static bool is_readable(int fd)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	return poll(&poll_fd, 1, 0) == 1;
}

/* Jobs of another file wait for those that have the buffer in their list, those of the same not. */
TEST_F(cs, shared)
{
	const int drm_fd = self->dev.drm_fd;
	volatile uint32_t *word = self->data.cpu + WORD / 4;
	struct packets wait = { .count = 0 }, p = { .count = 0 };
	struct drm_amdgpu_cs_chunk_ib ib, own_ib, others_ib;
	struct job job, own, others;
	struct one_bo bo, others_bo;
	uint64_t handle, mine;
	struct other other;
	struct cs_bo shared;
	bool busy = false;
	int fd;

	ASSERT_EQ(0, make_bo(drm_fd, AMDGPU_GEM_DOMAIN_GTT, SIZE, SHARED_VA, &shared));
	shared.cpu[0] = 0;
	shared.cpu[1] = 0;
	ASSERT_EQ(0, share_with(drm_fd, shared.handle, &self->dev, &other, &fd));
	sdma_wait_memory(&wait, DATA_VA + WORD, 1);
	ib = ib_at(&self->ib, 0, &wait);
	job_with(&job, &bo, shared.handle, &ib);
	ASSERT_EQ(0, submit(drm_fd, self->ctx, 0, &job, &handle));

	EXPECT_EQ(0, wait_idle(drm_fd, shared.handle, SOON, &busy));
	EXPECT_TRUE(busy);
	EXPECT_FALSE(is_readable(fd));
	/* What is not in a list is idle. */
	EXPECT_EQ(0, wait_idle(drm_fd, self->data.handle, 0, &busy));
	EXPECT_FALSE(busy);

	fill(&p, SHARED_VA + 4, 4);
	own_ib = ib_at(&self->ib, 1024, &p);
	own_ib.ring = 1;
	job_with(&own, &bo, shared.handle, &own_ib);
	ASSERT_EQ(0, submit(drm_fd, self->ctx, 0, &own, NULL));
	EXPECT_EQ(0, wait_ring(drm_fd, self->ctx, 1, 1, now_ns() + 1000 * MS, &busy));
	EXPECT_FALSE(busy);
	EXPECT_EQ(4, shared.cpu[1]);
	p.count = 0;
	fill(&p, SHARED_VA, 3);
	others_ib = ib_at(&other.ib, 0, &p);
	job_with(&others, &others_bo, other.shared, &others_ib);
	ASSERT_EQ(0, submit(other.dev.drm_fd, other.ctx, 0, &others, &mine));
	EXPECT_EQ(0, wait_ring(other.dev.drm_fd, other.ctx, 0, mine, SOON, &busy));
	EXPECT_TRUE(busy);
	EXPECT_EQ(0, shared.cpu[0]);

	*word = 1;
	EXPECT_EQ(0, wait_done(other.dev.drm_fd, other.ctx, mine));
	EXPECT_EQ(3, shared.cpu[0]);
	EXPECT_EQ(0, wait_idle(drm_fd, shared.handle, FOREVER, &busy));
	EXPECT_FALSE(busy);
	EXPECT_TRUE(is_readable(fd));
	leave(&other, &shared, fd);
}

/* Jobs do not wait at a buffer whose users synchronize by themselves. */
TEST_F(cs, explicit_sync)
{
	const int drm_fd = self->dev.drm_fd;
	volatile uint32_t *word = self->data.cpu + WORD / 4;
	struct packets wait = { .count = 0 }, p = { .count = 0 };
	struct drm_amdgpu_cs_chunk_ib ib, others_ib;
	struct one_bo bo, others_bo;
	struct job job, others;
	struct other other;
	struct cs_bo shared;
	uint64_t handle;
	bool busy = true;
	int fd;

	ASSERT_EQ(0, make_bo_with(drm_fd, AMDGPU_GEM_DOMAIN_GTT, AMDGPU_GEM_CREATE_EXPLICIT_SYNC,
				  SIZE, SHARED_VA, &shared));
	shared.cpu[0] = 0;
	ASSERT_EQ(0, share_with(drm_fd, shared.handle, &self->dev, &other, &fd));
	sdma_wait_memory(&wait, DATA_VA + WORD, 1);
	ib = ib_at(&self->ib, 0, &wait);
	job_with(&job, &bo, shared.handle, &ib);
	ASSERT_EQ(0, submit(drm_fd, self->ctx, 0, &job, NULL));
	fill(&p, SHARED_VA, 3);
	others_ib = ib_at(&other.ib, 0, &p);
	/* amdgpu's other engine. */
	others_ib.ring = 1;
	job_with(&others, &others_bo, other.shared, &others_ib);
	ASSERT_EQ(0, submit(other.dev.drm_fd, other.ctx, 0, &others, &handle));
	EXPECT_EQ(0, wait_ring(other.dev.drm_fd, other.ctx, 1, handle, now_ns() + 5000 * MS, &busy));
	EXPECT_FALSE(busy);
	EXPECT_EQ(3, shared.cpu[0]);
	EXPECT_EQ(0, wait_idle(drm_fd, shared.handle, 0, &busy));
	EXPECT_TRUE(busy);
	*word = 1;
	EXPECT_EQ(0, wait_done(drm_fd, self->ctx, 1));
	leave(&other, &shared, fd);
}

/* The same buffer twice in a list, and a list by number. */
TEST_F(cs, twice)
{
	const struct drm_amdgpu_bo_list_entry entries[] = {
		{ .bo_handle = self->data.handle },
		{ .bo_handle = self->ib.handle },
		{ .bo_handle = self->data.handle },
	};
	union drm_amdgpu_bo_list list = {
		.in = {
			.operation = AMDGPU_BO_LIST_OP_CREATE,
			.bo_number = ARRAY_SIZE(entries),
			.bo_info_size = sizeof(entries[0]),
			.bo_info_ptr = (uintptr_t)entries,
		},
	};
	const int drm_fd = self->dev.drm_fd;
	volatile uint32_t *word = self->data.cpu + WORD / 4;
	struct packets wait = { .count = 0 };
	struct drm_amdgpu_cs_chunk_ib ib;
	struct job job = { .count = 0 };
	uint64_t handle;
	bool busy;

	ASSERT_EQ(0, kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_BO_LIST, &list));
	sdma_wait_memory(&wait, DATA_VA + WORD, 1);
	ib = ib_at(&self->ib, 0, &wait);
	add_chunk(&job, AMDGPU_CHUNK_ID_IB, &ib, sizeof(ib));
	ASSERT_EQ(0, submit(drm_fd, self->ctx, list.out.list_handle, &job, &handle));
	ASSERT_EQ(0, submit(drm_fd, self->ctx, list.out.list_handle, &job, &handle));
	EXPECT_EQ(0, wait_idle(drm_fd, self->data.handle, 0, &busy));
	EXPECT_TRUE(busy);
	EXPECT_EQ(0, wait_idle(drm_fd, self->ib.handle, 0, &busy));
	EXPECT_TRUE(busy);
	*word = 1;
	EXPECT_EQ(0, wait_done(drm_fd, self->ctx, handle));
	EXPECT_EQ(0, wait_idle(drm_fd, self->ib.handle, FOREVER, &busy));
	EXPECT_FALSE(busy);
}

static void *set_later(void *word)
{
	usleep(100000);
	*(volatile uint32_t *)word = 1;
	return NULL;
}

static int close_bo(int drm_fd, uint32_t handle)
{
	struct drm_gem_close args = { .handle = handle };

	return kfd_ioctl(drm_fd, DRM_IOCTL_GEM_CLOSE, &args);
}

/* A job reads what was unmapped, and closed, while it was under way; the next one what is new. */
TEST_F(cs, unmapped_under_job)
{
	const int drm_fd = self->dev.drm_fd;
	volatile uint32_t *word = self->data.cpu + WORD / 4;
	volatile uint32_t *got = self->data.cpu;
	struct packets p = { .count = 0 };
	struct drm_amdgpu_cs_chunk_ib ib;
	struct cs_bo unmapped, closed, next;
	uint64_t handle;
	pthread_t thread;

	ASSERT_EQ(0, make_bo(drm_fd, AMDGPU_GEM_DOMAIN_GTT, SIZE, SHARED_VA, &unmapped));
	ASSERT_EQ(0, make_bo(drm_fd, AMDGPU_GEM_DOMAIN_VRAM, SIZE, OTHER_VA, &closed));
	unmapped.cpu[0] = 1001;
	closed.cpu[0] = 1002;
	sdma_wait_memory(&p, DATA_VA + WORD, 1);
	sdma_copy(&p, DATA_VA, SHARED_VA, 4);
	sdma_copy(&p, DATA_VA + 4, OTHER_VA, 4);
	ib = ib_at(&self->ib, 0, &p);
	ASSERT_EQ(0, submit_ib(drm_fd, self->ctx, &ib, &handle));
	/* amdgpu waits here for the job in an address space that a process has acquired. */
	ASSERT_EQ(0, pthread_create(&thread, NULL, set_later, (void *)word));
	ASSERT_EQ(0, gem_va(drm_fd, AMDGPU_VA_OP_UNMAP, unmapped.handle, SHARED_VA, SIZE));
	EXPECT_EQ(ENOENT, gem_va(drm_fd, AMDGPU_VA_OP_UNMAP, unmapped.handle, SHARED_VA, SIZE));
	munmap(closed.cpu, SIZE);
	ASSERT_EQ(0, close_bo(drm_fd, closed.handle));
	ASSERT_EQ(0, make_bo(drm_fd, AMDGPU_GEM_DOMAIN_GTT, SIZE, SHARED_VA, &next));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_EQ(0, wait_done(drm_fd, self->ctx, handle));
	EXPECT_EQ(1001, got[0]);
	EXPECT_EQ(1002, got[1]);

	next.cpu[0] = 1003;
	p.count = 0;
	sdma_copy(&p, DATA_VA, SHARED_VA, 4);
	ib = ib_at(&self->ib, 0, &p);
	ASSERT_EQ(0, submit_ib(drm_fd, self->ctx, &ib, &handle));
	ASSERT_EQ(0, wait_done(drm_fd, self->ctx, handle));
	EXPECT_EQ(1003, got[0]);
	munmap(unmapped.cpu, SIZE);
	munmap(next.cpu, SIZE);
}

/* The file is closed with jobs under way, and buffers that wait for them. */
TEST_F(cs, closed_under_job)
{
	struct packets p = { .count = 0 };
	struct drm_amdgpu_cs_chunk_ib ib;
	struct cs_bo unmapped;

	SKIP_ON_AMDKFD("the job goes on");
	ASSERT_EQ(0, make_bo(self->dev.drm_fd, AMDGPU_GEM_DOMAIN_GTT, SIZE, SHARED_VA, &unmapped));
	munmap(unmapped.cpu, SIZE);
	sdma_wait_memory(&p, DATA_VA + WORD, 1);
	ib = ib_at(&self->ib, 0, &p);
	ASSERT_EQ(0, submit_ib(self->dev.drm_fd, self->ctx, &ib, NULL));
	ASSERT_EQ(0, close_bo(self->dev.drm_fd, unmapped.handle));
}

KFD_HARNESS_MAIN
