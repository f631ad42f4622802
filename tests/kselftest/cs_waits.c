// SPDX-License-Identifier: GPL-2.0
/* Waits for jobs of the render node, also for those that do not end well. */
#include "cs_fixture.h"

/* A wait ends at its time, or when the job is done. */
TEST_F(cs, waits)
{
	const int drm_fd = self->dev.drm_fd;
	volatile uint32_t *word = self->data.cpu + WORD / 4;
	struct drm_amdgpu_cs_chunk_ib ib;
	struct packets p = { .count = 0 };
	uint64_t handle, before;
	bool busy = true;

	/* The last job of none is done. */
	EXPECT_EQ(0, wait_done(drm_fd, self->ctx, UINT64_MAX));
	EXPECT_EQ(EINVAL, wait_done(drm_fd, self->ctx, 1));

	sdma_wait_memory(&p, DATA_VA + WORD, 1);
	ib = ib_at(&self->ib, 0, &p);
	ASSERT_EQ(0, submit_ib(drm_fd, self->ctx, &ib, &handle));
	busy = false;
	EXPECT_EQ(0, wait_ring(drm_fd, self->ctx, 0, handle, 0, &busy));
	EXPECT_TRUE(busy);
	busy = false;
	before = now_ns();
	EXPECT_EQ(0, wait_ring(drm_fd, self->ctx, 0, handle, before + 50 * MS, &busy));
	EXPECT_TRUE(busy);
	EXPECT_LE(before + 40 * MS, now_ns());
	*word = 1;
	EXPECT_EQ(0, wait_done(drm_fd, self->ctx, handle));
}

/* A job waits for others, of another ring too. */
TEST_F(cs, dependencies)
{
	const int drm_fd = self->dev.drm_fd;
	volatile uint32_t *word = self->data.cpu + WORD / 4;
	struct drm_amdgpu_cs_chunk_dep after[2] = {
		{ .ip_type = AMDGPU_HW_IP_DMA, .ctx_id = self->ctx },
		{ .ip_type = AMDGPU_HW_IP_DMA, .ctx_id = self->ctx },
	};
	struct packets wait = { .count = 0 }, p = { .count = 0 };
	struct drm_amdgpu_cs_chunk_ib first, second;
	struct job job = { .count = 0 };
	uint64_t before, handle;
	bool busy = false;

	sdma_wait_memory(&wait, DATA_VA + WORD, 1);
	first = ib_at(&self->ib, 0, &wait);
	fill(&p, DATA_VA, 9);
	second = ib_at(&self->ib, 1024, &p);
	second.ring = 1;
	add_chunk(&job, AMDGPU_CHUNK_ID_IB, &second, sizeof(second));
	add_chunk(&job, AMDGPU_CHUNK_ID_DEPENDENCIES, after, sizeof(after));

	/* A job that is still to come, and an unknown context. */
	after[0].handle = 1;
	EXPECT_EQ(EINVAL, submit(drm_fd, self->ctx, 0, &job, NULL));
	after[0].ctx_id = UNKNOWN;
	EXPECT_EQ(EINVAL, submit(drm_fd, self->ctx, 0, &job, NULL));
	after[0].ctx_id = self->ctx;

	ASSERT_EQ(0, submit_ib(drm_fd, self->ctx, &first, &before));
	after[0].handle = before;
	after[1].handle = before;
	ASSERT_EQ(0, submit(drm_fd, self->ctx, 0, &job, &handle));
	EXPECT_EQ(0, wait_ring(drm_fd, self->ctx, 1, handle, now_ns() + 50 * MS, &busy));
	EXPECT_TRUE(busy);
	EXPECT_EQ(0, self->data.cpu[0]);
	*word = 1;
	EXPECT_EQ(0, wait_ring(drm_fd, self->ctx, 1, handle, FOREVER, &busy));
	EXPECT_FALSE(busy);
	EXPECT_EQ(9, self->data.cpu[0]);
}

static int wait_fences(int drm_fd, const struct drm_amdgpu_fence *fences, uint32_t count,
		       bool all, uint64_t until, struct drm_amdgpu_wait_fences_out *out)
{
	union drm_amdgpu_wait_fences args = {
		.in = {
			.fences = (uintptr_t)fences,
			.fence_count = count,
			.wait_all = all,
			.timeout_ns = until,
		},
	};
	int err = kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_WAIT_FENCES, &args);

	*out = args.out;
	return err;
}

/* A wait for one of two jobs, and for both. */
TEST_F(cs, waits_for_several)
{
	const int drm_fd = self->dev.drm_fd;
	volatile uint32_t *word = self->data.cpu + WORD / 4;
	struct drm_amdgpu_fence fences[2] = {
		{ .ctx_id = self->ctx, .ip_type = AMDGPU_HW_IP_DMA },
		{ .ctx_id = self->ctx, .ip_type = AMDGPU_HW_IP_DMA, .ring = 1 },
	};
	struct packets wait = { .count = 0 }, p = { .count = 0 };
	struct drm_amdgpu_cs_chunk_ib first, second;
	struct drm_amdgpu_wait_fences_out out;
	uint64_t handle;

	sdma_wait_memory(&wait, DATA_VA + WORD, 1);
	first = ib_at(&self->ib, 0, &wait);
	fill(&p, DATA_VA, 9);
	second = ib_at(&self->ib, 1024, &p);
	second.ring = 1;
	ASSERT_EQ(0, submit_ib(drm_fd, self->ctx, &first, &handle));
	fences[0].seq_no = handle;
	ASSERT_EQ(0, submit_ib(drm_fd, self->ctx, &second, &handle));
	fences[1].seq_no = handle;

	EXPECT_EQ(0, wait_fences(drm_fd, fences, 2, false, FOREVER, &out));
	EXPECT_EQ(1, out.status);
	EXPECT_EQ(1, out.first_signaled);
	EXPECT_EQ(0, wait_fences(drm_fd, fences, 2, true, now_ns() + 50 * MS, &out));
	EXPECT_EQ(0, out.status);
	EXPECT_EQ(0, wait_fences(drm_fd, fences, 1, false, 0, &out));
	EXPECT_EQ(0, out.status);
	*word = 1;
	EXPECT_EQ(0, wait_fences(drm_fd, fences, 2, true, FOREVER, &out));
	EXPECT_EQ(1, out.status);

	EXPECT_EQ(EINVAL, wait_fences(drm_fd, fences, 0, true, 0, &out));
	EXPECT_EQ(EFAULT, wait_fences(drm_fd, (void *)8, 1, true, 0, &out));
	fences[0].seq_no++;
	EXPECT_EQ(EINVAL, wait_fences(drm_fd, fences, 2, true, 0, &out));
	EXPECT_EQ(EINVAL, wait_fences(drm_fd, fences, 2, false, 0, &out));
}

/* A job that takes too long costs its ring, and nothing else. */
TEST_F(cs, hangs)
{
	const int drm_fd = self->dev.drm_fd;
	union drm_amdgpu_ctx state = { .in = { .op = AMDGPU_CTX_OP_QUERY_STATE2 } };
	struct drm_amdgpu_cs_chunk_ib endless, good;
	struct packets wait = { .count = 0 }, p = { .count = 0 };
	uint32_t other;
	uint64_t handle;
	int round;

	SKIP_ON_AMDKFD("amdgpu resets more than the ring");
	ASSERT_EQ(0, make_ctx(drm_fd, &other));
	sdma_wait_memory(&wait, DATA_VA + WORD, 1);
	endless = ib_at(&self->ib, 0, &wait);
	fill(&p, DATA_VA, 5);
	good = ib_at(&self->ib, 1024, &p);

	ASSERT_EQ(0, submit_ib(drm_fd, self->ctx, &endless, &handle));
	/* Others go on meanwhile. */
	for (round = 0; round < 3; round++) {
		uint64_t mine;

		ASSERT_EQ(0, submit_ib(drm_fd, other, &good, &mine));
		EXPECT_EQ(0, wait_done(drm_fd, other, mine));
	}
	EXPECT_EQ(ETIME, wait_done(drm_fd, self->ctx, handle));
	EXPECT_EQ(ETIME, submit_ib(drm_fd, self->ctx, &good, NULL));
	state.in.ctx_id = self->ctx;
	ASSERT_EQ(0, kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_CTX, &state));
	EXPECT_EQ(AMDGPU_CTX_QUERY2_FLAGS_GUILTY, state.out.state.flags);

	ASSERT_EQ(0, submit_ib(drm_fd, other, &good, &handle));
	EXPECT_EQ(0, wait_done(drm_fd, other, handle));
	state = (union drm_amdgpu_ctx){ .in = { .op = AMDGPU_CTX_OP_QUERY_STATE2, .ctx_id = other } };
	ASSERT_EQ(0, kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_CTX, &state));
	EXPECT_EQ(0, state.out.state.flags);
	/* The other ring of the context is another line. */
	good.ring = 1;
	ASSERT_EQ(0, submit_ib(drm_fd, self->ctx, &good, &handle));
	EXPECT_EQ(0, wait_ring(drm_fd, self->ctx, 1, handle, FOREVER, NULL));
}

/* Registers are the kernel's. */
TEST_F(cs, privileged_packet)
{
	struct packets p = { .count = 0 };
	struct drm_amdgpu_cs_chunk_ib ib;
	uint64_t handle;

	SKIP_ON_AMDKFD("the engine stops for all");
	sdma_srbm_write(&p, 0x1234, 1);
	ib = ib_at(&self->ib, 0, &p);
	ASSERT_EQ(0, submit_ib(self->dev.drm_fd, self->ctx, &ib, &handle));
	EXPECT_EQ(EIO, wait_done(self->dev.drm_fd, self->ctx, handle));
}

TEST_F(cs, fault)
{
	struct packets p = { .count = 0 };
	struct drm_amdgpu_cs_chunk_ib ib;
	uint64_t handle;

	SKIP_ON_AMDKFD("the job goes on with another page");
	fill(&p, NOWHERE, 1);
	ib = ib_at(&self->ib, 0, &p);
	ASSERT_EQ(0, submit_ib(self->dev.drm_fd, self->ctx, &ib, &handle));
	EXPECT_EQ(EFAULT, wait_done(self->dev.drm_fd, self->ctx, handle));
}

KFD_HARNESS_MAIN
