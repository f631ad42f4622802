// SPDX-License-Identifier: GPL-2.0
/* Lists of buffers of an open file of the render node: AMDGPU_BO_LIST. */
#include <stdlib.h>
#include <unistd.h>

#include <drm/amdgpu_drm.h>
#include <drm/drm.h>

#include "kfd_harness.h"
#include "objects.h"

#define SIZE		(64u * 1024)
#define UNKNOWN		12345u
/* The most entries of a list. */
#define ENTRIES		(128u * 1024)

FIXTURE(bo_lists)
{
	struct kfd_dev dev;
	char base[OBJECTS_MAX];
	uint32_t bos[2];
};

static int make_bo(int drm_fd, uint32_t *handle)
{
	union drm_amdgpu_gem_create args = {
		.in = { .bo_size = SIZE, .domains = AMDGPU_GEM_DOMAIN_GTT },
	};
	int err = kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_GEM_CREATE, &args);

	*handle = args.out.handle;
	return err;
}

static int close_bo(int drm_fd, uint32_t handle)
{
	struct drm_gem_close args = { .handle = handle };

	return kfd_ioctl(drm_fd, DRM_IOCTL_GEM_CLOSE, &args);
}

FIXTURE_SETUP(bo_lists)
{
	ASSERT_EQ(0, kfd_find_gpu(&self->dev));
	ASSERT_TRUE(objects_base(self->base, 0));
	ASSERT_EQ(0, kfd_open_render(&self->dev, &self->dev.drm_fd));
	ASSERT_EQ(0, make_bo(self->dev.drm_fd, &self->bos[0]));
	ASSERT_EQ(0, make_bo(self->dev.drm_fd, &self->bos[1]));
}

FIXTURE_TEARDOWN(bo_lists)
{
	kfd_close(&self->dev);
	EXPECT_TRUE(objects_return_to(self->base, KFD_HANG_MS));
}

static int bo_list(int drm_fd, uint32_t operation, uint32_t *list, const void *entries,
		   uint32_t number)
{
	union drm_amdgpu_bo_list args = {
		.in = {
			.operation = operation,
			.list_handle = *list,
			.bo_number = number,
			.bo_info_size = sizeof(struct drm_amdgpu_bo_list_entry),
			.bo_info_ptr = (uintptr_t)entries,
		},
	};
	int err = kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_BO_LIST, &args);

	if (!err)
		*list = args.out.list_handle;
	return err;
}

static int create(int drm_fd, const struct drm_amdgpu_bo_list_entry *entries, uint32_t number,
		  uint32_t *list)
{
	*list = 0;
	return bo_list(drm_fd, AMDGPU_BO_LIST_OP_CREATE, list, entries, number);
}

static int destroy(int drm_fd, uint32_t list)
{
	int err = bo_list(drm_fd, AMDGPU_BO_LIST_OP_DESTROY, &list, NULL, 0);

	/* There is no list any more. */
	return err ? err : list ? EPROTO : 0;
}

TEST_F(bo_lists, numbers)
{
	const struct drm_amdgpu_bo_list_entry entries[] = {
		{ .bo_handle = self->bos[0] },
		{ .bo_handle = self->bos[1], .bo_priority = UINT32_MAX },
		{ .bo_handle = self->bos[0] },
	};
	const int drm_fd = self->dev.drm_fd;
	uint32_t first, second, third;

	ASSERT_EQ(0, create(drm_fd, entries, ARRAY_SIZE(entries), &first));
	EXPECT_EQ(1, first);
	/* A list may be empty. */
	ASSERT_EQ(0, create(drm_fd, NULL, 0, &second));
	EXPECT_EQ(2, second);
	EXPECT_EQ(0, bo_list(drm_fd, AMDGPU_BO_LIST_OP_UPDATE, &second, entries, 2));
	EXPECT_EQ(2, second);
	EXPECT_EQ(0, destroy(drm_fd, first));
	/* There need not be one. */
	EXPECT_EQ(0, destroy(drm_fd, first));
	EXPECT_EQ(ENOENT, bo_list(drm_fd, AMDGPU_BO_LIST_OP_UPDATE, &first, entries, 2));
	ASSERT_EQ(0, create(drm_fd, entries, 1, &third));
	EXPECT_EQ(1, third);
	/* amdgpu then gives a list the number 0. */
	EXPECT_EQ(0, destroy(drm_fd, 0));
}

TEST_F(bo_lists, bad_input)
{
	struct drm_amdgpu_bo_list_entry entries[] = {
		{ .bo_handle = self->bos[0] },
		{ .bo_handle = UNKNOWN },
	};
	union drm_amdgpu_bo_list other_size = {
		.in = {
			.operation = AMDGPU_BO_LIST_OP_CREATE,
			.bo_number = 1,
			.bo_info_size = sizeof(entries[0]) + 8,
			.bo_info_ptr = (uintptr_t)entries,
		},
	};
	const int drm_fd = self->dev.drm_fd;
	uint32_t list, unknown = UNKNOWN;
	int other;

	EXPECT_EQ(ENOENT, create(drm_fd, entries, ARRAY_SIZE(entries), &list));
	EXPECT_EQ(EFAULT, create(drm_fd, (void *)8, 1, &list));
	EXPECT_EQ(EINVAL, create(drm_fd, entries, ENTRIES + 1, &list));
	EXPECT_EQ(EINVAL, create(drm_fd, entries, UINT32_MAX, &list));
	EXPECT_EQ(EINVAL, kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_BO_LIST, &other_size));
	EXPECT_EQ(EINVAL, bo_list(drm_fd, AMDGPU_BO_LIST_OP_UPDATE + 1, &unknown, entries, 1));
	/* The buffers are looked at first. */
	EXPECT_EQ(ENOENT, bo_list(drm_fd, AMDGPU_BO_LIST_OP_UPDATE, &unknown, entries, 1));

	/* The buffers of another file. */
	ASSERT_EQ(0, kfd_open_render(&self->dev, &other));
	EXPECT_EQ(ENOENT, create(other, entries, 1, &list));
	close(other);
}

/* A list of all entries that there may be, and its end with the file. */
TEST_F(bo_lists, many_entries)
{
	struct drm_amdgpu_bo_list_entry *entries = calloc(ENTRIES, sizeof(*entries));
	unsigned int i;
	uint32_t list;

	ASSERT_NE(NULL, entries);
	for (i = 0; i < ENTRIES; i++)
		entries[i].bo_handle = self->bos[i % 2];
	EXPECT_EQ(0, create(self->dev.drm_fd, entries, ENTRIES, &list));
	free(entries);
}

/* A list keeps its buffers, whose handles may be closed. */
TEST_F(bo_lists, keeps_buffers)
{
	const struct drm_amdgpu_bo_list_entry entry = { .bo_handle = self->bos[0] };
	const int drm_fd = self->dev.drm_fd;
	const long long before = objects_count("bos");
	uint32_t list;

	ASSERT_EQ(0, create(drm_fd, &entry, 1, &list));
	ASSERT_EQ(0, close_bo(drm_fd, self->bos[0]));
	EXPECT_EQ(before, objects_count("bos"));
	EXPECT_EQ(0, destroy(drm_fd, list));
	EXPECT_EQ(before < 0 ? before : before - 1, objects_count("bos"));
}

KFD_HARNESS_MAIN
