// SPDX-License-Identifier: GPL-2.0
/* Jobs of the render node for SDMA: AMDGPU_CS, and what AMDGPU_INFO says of the engines. */
#include <signal.h>
#include <unistd.h>

#include "cs_fixture.h"

/* A job copies; each ring of the context has numbers of its own. */
TEST_F(cs, copies)
{
	const int drm_fd = self->dev.drm_fd;
	struct drm_amdgpu_cs_chunk_ib ib;
	uint64_t handle;
	uint32_t ring, i;
	bool busy;

	for (ring = 0; ring < 2; ring++) {
		struct packets p = { .count = 0 };

		for (i = 0; i < 1024; i++) {
			self->data.cpu[i] = i * 7 + ring;
			self->data.cpu[4096 + i] = 0;
		}
		sdma_copy(&p, DATA_VA + 16384, DATA_VA, 4096);
		ib = ib_at(&self->ib, 0, &p);
		ib.ring = ring;
		ASSERT_EQ(0, submit_ib(drm_fd, self->ctx, &ib, &handle));
		EXPECT_EQ(1, handle);
		busy = true;
		ASSERT_EQ(0, wait_ring(drm_fd, self->ctx, ring, handle, FOREVER, &busy));
		EXPECT_FALSE(busy);
		for (i = 0; i < 1024; i++)
			ASSERT_EQ(i * 7 + ring, self->data.cpu[4096 + i]);
	}
}

/* The IBs of a job are executed one after the other, and so are jobs. */
TEST_F(cs, in_order)
{
	const int drm_fd = self->dev.drm_fd;
	struct drm_amdgpu_cs_chunk_ib ibs[3];
	struct job job = { .count = 0 };
	uint64_t handle, last = 0;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ibs); i++) {
		struct packets p = { .count = 0 };

		fill(&p, DATA_VA, 100 + i);
		fill(&p, DATA_VA + 4 + 4 * i, 200 + i);
		ibs[i] = ib_at(&self->ib, 1024 * i, &p);
		add_chunk(&job, AMDGPU_CHUNK_ID_IB, &ibs[i], sizeof(ibs[i]));
	}
	/* More than may be under way at a time. */
	for (i = 1; i <= 200; i++) {
		ASSERT_EQ(0, submit(drm_fd, self->ctx, 0, &job, &handle));
		ASSERT_EQ(last + 1, handle);
		last = handle;
	}
	EXPECT_EQ(0, wait_done(drm_fd, self->ctx, last));
	EXPECT_EQ(102, self->data.cpu[0]);
	EXPECT_EQ(200, self->data.cpu[1]);
	EXPECT_EQ(201, self->data.cpu[2]);
	EXPECT_EQ(202, self->data.cpu[3]);
	/* All others are done, and none is to come. */
	for (i = 1; i <= 200; i++)
		ASSERT_EQ(0, wait_done(drm_fd, self->ctx, i));
	EXPECT_EQ(0, wait_done(drm_fd, self->ctx, UINT64_MAX));
	EXPECT_EQ(EINVAL, wait_done(drm_fd, self->ctx, last + 1));
	EXPECT_EQ(EINVAL, wait_done(drm_fd, self->ctx, UINT64_MAX - 1));
}

/* Lists of buffers, by number and in the call, and a place that tells of the end. */
TEST_F(cs, lists_and_fence)
{
	const struct drm_amdgpu_bo_list_entry entries[] = {
		{ .bo_handle = self->ib.handle },
		{ .bo_handle = self->data.handle },
	};
	struct drm_amdgpu_bo_list_in bos = list_of(entries, ARRAY_SIZE(entries));
	union drm_amdgpu_bo_list list = { .in = bos };
	struct drm_amdgpu_cs_chunk_fence fence = { .offset = 8 };
	const int drm_fd = self->dev.drm_fd;
	struct drm_amdgpu_cs_chunk_ib ib;
	struct job with_bos, with_list;
	struct packets p = { .count = 0 };
	volatile uint64_t *place;
	struct cs_bo page;
	uint64_t handle;

	list.in.operation = AMDGPU_BO_LIST_OP_CREATE;
	list.in.list_handle = 0;
	ASSERT_EQ(0, kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_BO_LIST, &list));
	ASSERT_EQ(0, make_bo(drm_fd, AMDGPU_GEM_DOMAIN_GTT, KFD_PAGE, DATA_VA + DATA_SIZE, &page));
	place = (volatile uint64_t *)page.cpu;
	place[0] = 77;
	place[1] = 77;
	place[2] = 77;
	fence.handle = page.handle;

	fill(&p, DATA_VA, 1);
	ib = ib_at(&self->ib, 0, &p);
	with_list.count = 0;
	add_chunk(&with_list, AMDGPU_CHUNK_ID_IB, &ib, sizeof(ib));
	add_chunk(&with_list, AMDGPU_CHUNK_ID_FENCE, &fence, sizeof(fence));
	with_bos = with_list;
	with_bos.count = 0;
	add_chunk(&with_bos, AMDGPU_CHUNK_ID_IB, &ib, sizeof(ib));
	add_chunk(&with_bos, AMDGPU_CHUNK_ID_BO_HANDLES, &bos, sizeof(bos));
	add_chunk(&with_bos, AMDGPU_CHUNK_ID_FENCE, &fence, sizeof(fence));

	ASSERT_EQ(0, submit(drm_fd, self->ctx, list.out.list_handle, &with_list, &handle));
	EXPECT_EQ(0, wait_done(drm_fd, self->ctx, handle));
	EXPECT_EQ(1, place[1]);
	ASSERT_EQ(0, submit(drm_fd, self->ctx, 0, &with_bos, &handle));
	EXPECT_EQ(0, wait_done(drm_fd, self->ctx, handle));
	EXPECT_EQ(2, place[1]);
	EXPECT_EQ(77, place[0]);
	EXPECT_EQ(77, place[2]);

	EXPECT_EQ(EINVAL, submit(drm_fd, self->ctx, list.out.list_handle, &with_bos, NULL));
	EXPECT_EQ(ENOENT, submit(drm_fd, self->ctx, UNKNOWN, &with_list, NULL));
	fence.offset = KFD_PAGE - 4;
	EXPECT_EQ(EINVAL, submit(drm_fd, self->ctx, 0, &with_bos, NULL));
	fence.offset = 0;
	fence.handle = UNKNOWN;
	EXPECT_EQ(EINVAL, submit(drm_fd, self->ctx, 0, &with_bos, NULL));
	/* Not one page. */
	fence.handle = self->ib.handle;
	EXPECT_EQ(EINVAL, submit(drm_fd, self->ctx, 0, &with_bos, NULL));
	fence.handle = page.handle;
	add_chunk(&with_bos, AMDGPU_CHUNK_ID_FENCE, &fence, sizeof(fence));
	EXPECT_EQ(EINVAL, submit(drm_fd, self->ctx, 0, &with_bos, NULL));
	munmap(page.cpu, KFD_PAGE);
}

TEST_F(cs, bad_input)
{
	const int drm_fd = self->dev.drm_fd;
	struct packets p = { .count = 0 };
	struct drm_amdgpu_cs_chunk_ib good, bad;
	struct job job = { .count = 0 };
	uint64_t handle;
	bool busy;

	fill(&p, DATA_VA, 1);
	good = ib_at(&self->ib, 0, &p);
	EXPECT_EQ(EINVAL, submit(drm_fd, self->ctx, 0, &job, NULL));
	EXPECT_EQ(EINVAL, submit_ib(drm_fd, UNKNOWN, &good, NULL));

	bad = good;
	bad.ip_type = AMDGPU_HW_IP_UVD;
	EXPECT_EQ(EINVAL, submit_ib(drm_fd, self->ctx, &bad, NULL));
	bad.ip_type = AMDGPU_HW_IP_NUM;
	EXPECT_EQ(EINVAL, submit_ib(drm_fd, self->ctx, &bad, NULL));
	bad = good;
	bad.ip_instance = 1;
	EXPECT_EQ(EINVAL, submit_ib(drm_fd, self->ctx, &bad, NULL));
	bad = good;
	bad.ring = 2;
	EXPECT_EQ(EINVAL, submit_ib(drm_fd, self->ctx, &bad, NULL));
	EXPECT_EQ(EINVAL, wait_ring(drm_fd, self->ctx, 2, 1, 0, &busy));
	bad = good;
	bad.flags = AMDGPU_IB_FLAG_CE;
	EXPECT_EQ(EINVAL, submit_ib(drm_fd, self->ctx, &bad, NULL));

	/* A chunk that is shorter than an IB, one that cannot be read, one without a meaning. */
	add_chunk(&job, AMDGPU_CHUNK_ID_IB, &good, sizeof(good) - 4);
	EXPECT_EQ(EINVAL, submit(drm_fd, self->ctx, 0, &job, NULL));
	job.count = 0;
	add_chunk(&job, AMDGPU_CHUNK_ID_IB, (void *)8, sizeof(good));
	EXPECT_EQ(EFAULT, submit(drm_fd, self->ctx, 0, &job, NULL));
	job.count = 0;
	add_chunk(&job, AMDGPU_CHUNK_ID_IB, &good, sizeof(good));
	add_chunk(&job, 0x1234, &good, sizeof(good));
	EXPECT_EQ(EINVAL, submit(drm_fd, self->ctx, 0, &job, NULL));
	job.count = 1;
	job.places[0] = 8;
	EXPECT_EQ(EFAULT, submit(drm_fd, self->ctx, 0, &job, NULL));

	/* The context still works, and counts only what was accepted. */
	ASSERT_EQ(0, submit_ib(drm_fd, self->ctx, &good, &handle));
	EXPECT_EQ(1, handle);
	EXPECT_EQ(0, wait_done(drm_fd, self->ctx, handle));
}

/* What INFO says of the engines. */
TEST_F(cs, info)
{
	struct drm_amdgpu_info request = { .query = AMDGPU_INFO_HW_IP_INFO };
	struct drm_amdgpu_info_hw_ip ip;
	uint32_t count = 0;

	memset(&ip, 0x5a, sizeof(ip));
	request.query_hw_ip.type = AMDGPU_HW_IP_DMA;
	request.return_pointer = (uintptr_t)&ip;
	request.return_size = sizeof(ip);
	ASSERT_EQ(0, kfd_ioctl(self->dev.drm_fd, DRM_IOCTL_AMDGPU_INFO, &request));
	EXPECT_EQ(4, ip.hw_ip_version_major);
	EXPECT_EQ(kfd_is_gfx942(&self->dev) ? 4 : 0, ip.hw_ip_version_minor);
	EXPECT_EQ(0, ip.capabilities_flags);
	EXPECT_EQ(3, ip.available_rings);
	EXPECT_EQ(256, ip.ib_start_alignment);
	EXPECT_EQ(4, ip.ib_size_alignment);
	EXPECT_EQ(kfd_is_gfx942(&self->dev) ? 0x040402 : 0x040400, ip.ip_discovery_version);
	request.query_hw_ip.ip_instance = 1;
	EXPECT_EQ(EINVAL, kfd_ioctl(self->dev.drm_fd, DRM_IOCTL_AMDGPU_INFO, &request));
	request.query_hw_ip.ip_instance = 0;
	request.query_hw_ip.type = AMDGPU_HW_IP_NUM;
	EXPECT_EQ(EINVAL, kfd_ioctl(self->dev.drm_fd, DRM_IOCTL_AMDGPU_INFO, &request));
	/* There is no graphics. */
	request.query_hw_ip.type = AMDGPU_HW_IP_GFX;
	ASSERT_EQ(0, kfd_ioctl(self->dev.drm_fd, DRM_IOCTL_AMDGPU_INFO, &request));
	EXPECT_EQ(0, ip.available_rings);

	request.query = AMDGPU_INFO_HW_IP_COUNT;
	request.query_hw_ip.type = AMDGPU_HW_IP_DMA;
	request.return_pointer = (uintptr_t)&count;
	request.return_size = sizeof(count);
	ASSERT_EQ(0, kfd_ioctl(self->dev.drm_fd, DRM_IOCTL_AMDGPU_INFO, &request));
	EXPECT_EQ(kfd_sdma_engines(&self->dev), count);
}

/*
 * A signal ends a wait, and the file can be closed with jobs under way: they are stopped before
 * their buffers go, so that none faults.
 */
TEST_F(cs, ends_with_the_file)
{
	struct packets p = { .count = 0 };
	struct drm_amdgpu_cs_chunk_ib ib;
	unsigned int i;
	uint64_t handle;
	pid_t child;
	int status;

	SKIP_ON_AMDKFD("the jobs stay on the engine until they time out");
	sdma_wait_memory(&p, DATA_VA + WORD, 1);
	ib = ib_at(&self->ib, 0, &p);
	for (i = 0; i < 5; i++)
		ASSERT_EQ(0, submit_ib(self->dev.drm_fd, self->ctx, &ib, &handle));
	child = fork();
	ASSERT_LE(0, child);
	if (child == 0)
		_exit(wait_done(self->dev.drm_fd, self->ctx, handle));
	usleep(100000);
	ASSERT_EQ(0, kill(child, SIGKILL));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
}

KFD_HARNESS_MAIN
