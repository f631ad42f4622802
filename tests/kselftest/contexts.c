// SPDX-License-Identifier: GPL-2.0
/* Contexts of an open file of the render node: AMDGPU_CTX. */
#include <unistd.h>

#include <drm/amdgpu_drm.h>
#include <drm/drm.h>

#include "kfd_harness.h"
#include "objects.h"

#define NOBODY		65534
/* The most contexts that rkfd gives a file. */
#define MOST		4096u
#define UNKNOWN		12345u

FIXTURE(contexts)
{
	struct kfd_dev dev;
	char base[OBJECTS_MAX];
};

FIXTURE_SETUP(contexts)
{
	ASSERT_EQ(0, kfd_find_gpu(&self->dev));
	ASSERT_TRUE(objects_base(self->base, 0));
	ASSERT_EQ(0, kfd_open_render(&self->dev, &self->dev.drm_fd));
}

FIXTURE_TEARDOWN(contexts)
{
	kfd_close(&self->dev);
	EXPECT_TRUE(objects_return_to(self->base, KFD_HANG_MS));
}

static int ctx(int drm_fd, uint32_t op, uint32_t flags, uint32_t id, int32_t priority,
	       union drm_amdgpu_ctx_out *out)
{
	union drm_amdgpu_ctx args = {
		.in = { .op = op, .flags = flags, .ctx_id = id, .priority = priority },
	};
	int err = kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_CTX, &args);

	if (!err && out)
		*out = args.out;
	return err;
}

static int alloc(int drm_fd, int32_t priority, uint32_t *id)
{
	union drm_amdgpu_ctx_out out = { 0 };
	int err = ctx(drm_fd, AMDGPU_CTX_OP_ALLOC_CTX, 0, 0, priority, &out);

	*id = out.alloc.ctx_id;
	return err;
}

static int release(int drm_fd, uint32_t id)
{
	return ctx(drm_fd, AMDGPU_CTX_OP_FREE_CTX, 0, id, 0, NULL);
}

/* Numbers begin at 1, belong to their file, and can be used again. */
TEST_F(contexts, numbers)
{
	uint32_t first, second, again, foreign;
	int other;

	ASSERT_EQ(0, alloc(self->dev.drm_fd, AMDGPU_CTX_PRIORITY_NORMAL, &first));
	ASSERT_EQ(0, alloc(self->dev.drm_fd, AMDGPU_CTX_PRIORITY_NORMAL, &second));
	EXPECT_EQ(1, first);
	EXPECT_EQ(2, second);

	ASSERT_EQ(0, kfd_open_render(&self->dev, &other));
	EXPECT_EQ(EINVAL, release(other, first));
	ASSERT_EQ(0, alloc(other, AMDGPU_CTX_PRIORITY_NORMAL, &foreign));
	EXPECT_EQ(1, foreign);
	close(other);

	EXPECT_EQ(0, release(self->dev.drm_fd, first));
	EXPECT_EQ(EINVAL, release(self->dev.drm_fd, first));
	ASSERT_EQ(0, alloc(self->dev.drm_fd, AMDGPU_CTX_PRIORITY_NORMAL, &again));
	EXPECT_EQ(1, again);
	EXPECT_EQ(0, release(self->dev.drm_fd, second));
	EXPECT_EQ(EINVAL, release(self->dev.drm_fd, 0));
	EXPECT_EQ(EINVAL, release(self->dev.drm_fd, UINT32_MAX));
}

TEST_F(contexts, bad_input)
{
	static const uint32_t ops[] = {
		AMDGPU_CTX_OP_ALLOC_CTX, AMDGPU_CTX_OP_FREE_CTX, AMDGPU_CTX_OP_QUERY_STATE,
		AMDGPU_CTX_OP_QUERY_STATE2, AMDGPU_CTX_OP_GET_STABLE_PSTATE,
	};
	const int drm_fd = self->dev.drm_fd;
	unsigned int i;
	uint32_t id;

	ASSERT_EQ(0, alloc(drm_fd, AMDGPU_CTX_PRIORITY_NORMAL, &id));
	EXPECT_EQ(EINVAL, ctx(drm_fd, 0, 0, id, 0, NULL));
	EXPECT_EQ(EINVAL, ctx(drm_fd, AMDGPU_CTX_OP_SET_STABLE_PSTATE + 1, 0, id, 0, NULL));
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		TH_LOG("operation %u", ops[i]);
		EXPECT_EQ(EINVAL, ctx(drm_fd, ops[i], 1, id, 0, NULL));
		if (ops[i] != AMDGPU_CTX_OP_ALLOC_CTX)
			EXPECT_EQ(EINVAL, ctx(drm_fd, ops[i], 0, UNKNOWN, 0, NULL));
	}
	/* It is still there. */
	EXPECT_EQ(0, release(drm_fd, id));
}

static const struct {
	int32_t number;
	bool high;
} priorities[] = {
	{ AMDGPU_CTX_PRIORITY_VERY_LOW, false },
	{ AMDGPU_CTX_PRIORITY_LOW, false },
	{ AMDGPU_CTX_PRIORITY_NORMAL, false },
	{ AMDGPU_CTX_PRIORITY_HIGH, true },
	{ AMDGPU_CTX_PRIORITY_VERY_HIGH, true },
	/* Numbers without a meaning count as the normal priority. */
	{ AMDGPU_CTX_PRIORITY_UNSET, false },
	{ AMDGPU_CTX_PRIORITY_HIGH + 1, false },
	{ INT32_MAX, false },
	{ INT32_MIN, false },
};

TEST_F(contexts, priorities_of_root)
{
	unsigned int i;
	uint32_t id;

	for (i = 0; i < ARRAY_SIZE(priorities); i++) {
		TH_LOG("priority %d", priorities[i].number);
		EXPECT_EQ(0, alloc(self->dev.drm_fd, priorities[i].number, &id));
	}
}

/* High priorities need CAP_SYS_NICE. */
TEST_F(contexts, priorities_of_others)
{
	unsigned int i;
	uint32_t id;
	pid_t child;
	int status;

	/* The fixture's look at debugfs afterwards needs root. */
	child = fork();
	ASSERT_LE(0, child);
	if (child == 0) {
		if (setuid(NOBODY))
			_exit(100);
		for (i = 0; i < ARRAY_SIZE(priorities); i++) {
			if (alloc(self->dev.drm_fd, priorities[i].number, &id) !=
			    (priorities[i].high ? EACCES : 0))
				_exit(1 + (int)i);
		}
		_exit(0);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
}

/* Nothing has happened to a new context. */
TEST_F(contexts, state)
{
	const int drm_fd = self->dev.drm_fd;
	union drm_amdgpu_ctx_out out;
	uint32_t id;

	ASSERT_EQ(0, alloc(drm_fd, AMDGPU_CTX_PRIORITY_NORMAL, &id));
	memset(&out, 0x5a, sizeof(out));
	ASSERT_EQ(0, ctx(drm_fd, AMDGPU_CTX_OP_QUERY_STATE, 0, id, 0, &out));
	EXPECT_EQ(0, out.state.flags);
	EXPECT_EQ(0, out.state.hangs);
	EXPECT_EQ(AMDGPU_CTX_NO_RESET, out.state.reset_status);
	memset(&out, 0x5a, sizeof(out));
	ASSERT_EQ(0, ctx(drm_fd, AMDGPU_CTX_OP_QUERY_STATE2, 0, id, 0, &out));
	EXPECT_EQ(0, out.state.flags);
	EXPECT_EQ(0, out.state.hangs);
}

TEST_F(contexts, clocks_for_profilers)
{
	const int drm_fd = self->dev.drm_fd;
	union drm_amdgpu_ctx_out out;
	uint32_t id;

	ASSERT_EQ(0, alloc(drm_fd, AMDGPU_CTX_PRIORITY_NORMAL, &id));
	memset(&out, 0x5a, sizeof(out));
	ASSERT_EQ(0, ctx(drm_fd, AMDGPU_CTX_OP_GET_STABLE_PSTATE, 0, id, 0, &out));
	EXPECT_EQ(AMDGPU_CTX_STABLE_PSTATE_NONE, out.pstate.flags);
	EXPECT_EQ(0, ctx(drm_fd, AMDGPU_CTX_OP_SET_STABLE_PSTATE, AMDGPU_CTX_STABLE_PSTATE_NONE,
			 id, 0, NULL));
	EXPECT_EQ(EINVAL, ctx(drm_fd, AMDGPU_CTX_OP_SET_STABLE_PSTATE,
			      AMDGPU_CTX_STABLE_PSTATE_PEAK + 1, id, 0, NULL));
	EXPECT_EQ(EINVAL, ctx(drm_fd, AMDGPU_CTX_OP_SET_STABLE_PSTATE, 0x10, id, 0, NULL));
	EXPECT_EQ(EINVAL, ctx(drm_fd, AMDGPU_CTX_OP_SET_STABLE_PSTATE,
			      AMDGPU_CTX_STABLE_PSTATE_NONE, UNKNOWN, 0, NULL));
	EXPECT_ANSWER(stable_pstate,
		      ctx(drm_fd, AMDGPU_CTX_OP_SET_STABLE_PSTATE,
			  AMDGPU_CTX_STABLE_PSTATE_PEAK, id, 0, NULL));
}

/* A file has a limit, which others do not feel. Its contexts go with it. */
TEST_F(contexts, many)
{
	uint32_t id = 0, others;
	unsigned int i;
	int other;

	SKIP_ON_AMDKFD("amdgpu has no limit but the numbers");
	for (i = 0; i < MOST; i++)
		ASSERT_EQ(0, alloc(self->dev.drm_fd, AMDGPU_CTX_PRIORITY_NORMAL, &id));
	EXPECT_EQ(MOST, id);
	EXPECT_EQ(MOST, objects_count("contexts"));
	EXPECT_EQ(ENOSPC, alloc(self->dev.drm_fd, AMDGPU_CTX_PRIORITY_NORMAL, &others));
	ASSERT_EQ(0, kfd_open_render(&self->dev, &other));
	EXPECT_EQ(0, alloc(other, AMDGPU_CTX_PRIORITY_NORMAL, &others));
	close(other);
	EXPECT_EQ(0, release(self->dev.drm_fd, id / 2));
	EXPECT_EQ(0, alloc(self->dev.drm_fd, AMDGPU_CTX_PRIORITY_NORMAL, &others));
	EXPECT_EQ(id / 2, others);
}

KFD_HARNESS_MAIN
