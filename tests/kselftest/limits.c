// SPDX-License-Identifier: GPL-2.0
/*
 * The amount of memory: in AVAILABLE_MEMORY, in ALLOC, in fdinfo. Fills VRAM and the system
 * memory for GPUs, so it wants a small device and a machine that does nothing else.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <drm/amdgpu_drm.h>
#include <drm/drm.h>

#include "kfd_harness.h"
#include "kfd_dmabuf.h"

#define MIB		(1ull << 20)
#define GRANULE		(2 * MIB)
/* Addresses that only the GPU uses. */
#define GPU_VA		(1ull << 40)
#define GTT_CHUNK	(64 * MIB)
#define GTT_CHUNKS	4096u

KFD_FIXTURE(limits)

static long long oom_kills(void)
{
	char line[128];
	long long value = -1;
	FILE *f = fopen("/proc/vmstat", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "oom_kill %lld", &value) == 1)
			break;
	if (f)
		fclose(f);
	return value;
}

TEST_F(limits, available_is_what_one_allocation_gets)
{
	const struct kfd_dev *dev = &self->dev;
	const uint64_t all = kfd_available(dev);
	uint64_t handle, refused;

	ASSERT_NE(UINT64_MAX, all);
	ASSERT_NE(0, all);
	EXPECT_EQ(0, all % GRANULE);
	EXPECT_EQ(ENOMEM, kfd_alloc_at(dev, KFD_ALLOC_VRAM, GPU_VA, all + GRANULE, &refused));
	if (kfd_is_rkfd())
		EXPECT_EQ(ENOMEM, kfd_alloc_at(dev, KFD_ALLOC_VRAM, GPU_VA, all + KFD_PAGE,
					&refused));
	EXPECT_EQ(all, kfd_available(dev));
	ASSERT_EQ(0, kfd_alloc_at(dev, KFD_ALLOC_VRAM, GPU_VA, all, &handle));
	/* There is room for its page tables. */
	EXPECT_EQ(0, kfd_map(dev->fd, handle, dev->gpu_id));
	EXPECT_EQ(0, kfd_available(dev));
	EXPECT_EQ(ENOMEM, kfd_alloc_at(dev, KFD_ALLOC_VRAM, GPU_VA + all, KFD_PAGE, &refused));
	EXPECT_EQ(0, kfd_unmap(dev->fd, handle, dev->gpu_id));
	EXPECT_EQ(0, kfd_free(dev->fd, handle));
	EXPECT_EQ(all, kfd_available(dev));
}

TEST_F(limits, available_counts_down)
{
	const struct kfd_dev *dev = &self->dev;
	const uint64_t all = kfd_available(dev);
	uint64_t first, rest, refused, left;

	ASSERT_EQ(0, kfd_alloc_at(dev, KFD_ALLOC_VRAM, GPU_VA, 10 * MIB, &first));
	left = kfd_available(dev);
	EXPECT_EQ(all - 10 * MIB, left);
	EXPECT_EQ(ENOMEM, kfd_alloc_at(dev, KFD_ALLOC_VRAM, 2 * GPU_VA, left + GRANULE, &refused));
	ASSERT_EQ(0, kfd_alloc_at(dev, KFD_ALLOC_VRAM, 2 * GPU_VA, left, &rest));
	EXPECT_EQ(0, kfd_free(dev->fd, first));
	EXPECT_EQ(10 * MIB, kfd_available(dev));
	EXPECT_EQ(0, kfd_free(dev->fd, rest));
	EXPECT_EQ(all, kfd_available(dev));
}

/*
 * Many small buffers with a hole after each second one: a single allocation can still get the
 * rest.
 */
TEST_F(limits, available_in_pieces)
{
	const struct kfd_dev *dev = &self->dev;
	const uint64_t size = kfd_available(dev) / 64 / KFD_PAGE * KFD_PAGE;
	uint64_t handles[64], big;
	unsigned int i;

	for (i = 0; i < 64; i++)
		ASSERT_EQ(0, kfd_alloc_at(dev, KFD_ALLOC_VRAM, GPU_VA + i * size, size,
					  &handles[i]));
	for (i = 0; i < 64; i += 2)
		EXPECT_EQ(0, kfd_free(dev->fd, handles[i]));
	ASSERT_EQ(0, kfd_alloc_at(dev, KFD_ALLOC_VRAM, 2 * GPU_VA, kfd_available(dev), &big));
	EXPECT_EQ(0, kfd_map(dev->fd, big, dev->gpu_id));
	EXPECT_EQ(0, kfd_unmap(dev->fd, big, dev->gpu_id));
	EXPECT_EQ(0, kfd_free(dev->fd, big));
	for (i = 1; i < 64; i += 2)
		EXPECT_EQ(0, kfd_free(dev->fd, handles[i]));
}

/*
 * Checks that one buffer can have exactly the size from AVAILABLE_MEMORY, and not more. Returns
 * the number of the step that failed, or 0.
 */
static int takes_what_is_available(const struct kfd_dev *dev, uint64_t va, uint64_t *handle)
{
	const uint64_t size = kfd_available(dev);

	if (size == 0 || size == UINT64_MAX)
		return 1;
	if (kfd_alloc_at(dev, KFD_ALLOC_VRAM, va, size + GRANULE, handle) != ENOMEM)
		return 2;
	if (kfd_alloc_at(dev, KFD_ALLOC_VRAM, va, size, handle) != 0)
		return 3;
	if (kfd_map(dev->fd, *handle, dev->gpu_id) != 0)
		return 4;
	return kfd_available(dev) == 0 ? 0 : 5;
}

/*
 * Each of two processes can allocate all that is available to it, though together that is more
 * than there is: they make room for each other.
 */
TEST_F(limits, available_to_two_processes)
{
	const struct kfd_dev *dev = &self->dev;
	const uint64_t all = kfd_available(dev);
	uint64_t first, rest;
	int sockets[2], status;
	char byte = 0;
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	ASSERT_EQ(0, kfd_alloc_at(dev, KFD_ALLOC_VRAM, GPU_VA, all / 3 / GRANULE * GRANULE,
				  &first));
	ASSERT_EQ(0, kfd_map(dev->fd, first, dev->gpu_id));
	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0) {
		struct kfd_dev other;
		uint64_t handle;
		int err;

		close(sockets[0]);
		err = kfd_open(&other) ? 10 : takes_what_is_available(&other, GPU_VA, &handle);
		if (write(sockets[1], &byte, 1) != 1 || read(sockets[1], &byte, 1) < 0)
			err = 11;
		_exit(err);
	}
	close(sockets[1]);
	ASSERT_EQ(1, read(sockets[0], &byte, 1));
	EXPECT_EQ(0, takes_what_is_available(dev, 2 * GPU_VA, &rest));
	close(sockets[0]);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
	EXPECT_EQ(0, kfd_unmap(dev->fd, rest, dev->gpu_id));
	EXPECT_EQ(0, kfd_free(dev->fd, rest));
	EXPECT_EQ(0, kfd_unmap(dev->fd, first, dev->gpu_id));
	EXPECT_EQ(0, kfd_free(dev->fd, first));
	EXPECT_EQ(all, kfd_available(dev));
}

#define PIECE	(16 * MIB)

/*
 * Allocates @size bytes of VRAM by the render node alone, reports that, and checks their
 * content on request.
 */
static int take_by_render_node(const struct kfd_dev *where, uint64_t size, int socket)
{
	static void *pieces[4096];
	uint64_t count = size / PIECE, i;
	int drm_fd, err;
	char byte = 0;

	err = kfd_open_render(where, &drm_fd);
	if (err)
		return 1;
	for (i = 0; i < count; i++) {
		union drm_amdgpu_gem_mmap map = { 0 };

		if (drm_gem_create(drm_fd, PIECE, AMDGPU_GEM_DOMAIN_VRAM, 0, &map.in.handle))
			return 2;
		if (kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_GEM_MMAP, &map) ||
		    kfd_mmap(drm_fd, PIECE, map.out.addr_ptr, &pieces[i]))
			return 3;
		*(volatile uint64_t *)pieces[i] = i + 1;
	}
	if (write(socket, &byte, 1) != 1 || read(socket, &byte, 1) < 0)
		return 4;
	for (i = 0; i < count; i++)
		if (*(volatile uint64_t *)pieces[i] != i + 1)
			return 5;
	return 0;
}

/* A process that has VRAM by the render node, without /dev/kfd, makes room like all others. */
TEST_F(limits, render_node_makes_room)
{
	const struct kfd_dev *dev = &self->dev;
	const uint64_t all = kfd_available(dev);
	uint64_t handle;
	int sockets[2], status;
	char byte = 0;
	pid_t pid;

	if (!kfd_is_rkfd())
		SKIP(return, "amdgpu falls back to system memory");
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0) {
		close(sockets[0]);
		_exit(take_by_render_node(dev, all / PIECE * PIECE, sockets[1]));
	}
	close(sockets[1]);
	ASSERT_EQ(1, read(sockets[0], &byte, 1));
	EXPECT_EQ(0, kfd_alloc_at(dev, KFD_ALLOC_VRAM, GPU_VA, 4 * PIECE, &handle));
	close(sockets[0]);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
	EXPECT_EQ(0, kfd_free(dev->fd, handle));
	EXPECT_EQ(all, kfd_available(dev));
}

/* A request for more system memory than the limit fails, and no process is killed for it. */
TEST_F(limits, overcommit_of_system_memory)
{
	const struct kfd_dev *dev = &self->dev;
	const long long killed = oom_kills();
	uint64_t handles[GTT_CHUNKS];
	unsigned int count, i;
	int err = 0, status;
	pid_t pid;

	if (!kfd_is_rkfd())
		SKIP(return, "a machine in use");
	for (count = 0; count < GTT_CHUNKS; count++) {
		err = kfd_alloc_at(dev, KFD_ALLOC_GTT, GPU_VA + count * GTT_CHUNK, GTT_CHUNK,
			    &handles[count]);
		if (err)
			break;
	}
	EXPECT_EQ(ENOMEM, err);
	EXPECT_NE(0, count);
	/* The system still works: a new process can be made, and gets memory. */
	pid = fork();
	if (pid == 0) {
		char *p = malloc(16 * MIB);

		if (!p)
			_exit(1);
		memset(p, 0x5a, 16 * MIB);
		_exit(p[MIB] == 0x5a ? 0 : 1);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	for (i = 0; i < count; i++)
		EXPECT_EQ(0, kfd_free(dev->fd, handles[i]));
	EXPECT_EQ(killed, oom_kills());
	/* All of it is available again. */
	ASSERT_EQ(0, kfd_alloc_at(dev, KFD_ALLOC_GTT, GPU_VA, GTT_CHUNK, &handles[0]));
	EXPECT_EQ(0, kfd_free(dev->fd, handles[0]));
}

TEST_F(limits, fdinfo_counts)
{
	const struct kfd_dev *dev = &self->dev;
	const int fd = dev->drm_fd;
	struct kfd_bo vram, gtt, user;

	if (!kfd_is_rkfd())
		SKIP(return, "amdkfd counts otherwise");
	EXPECT_EQ(0, kfd_fdinfo(fd, "drm-total-vram", " KiB"));
	EXPECT_EQ(0, kfd_fdinfo(fd, "drm-total-gtt", " KiB"));
	EXPECT_LT(0, kfd_fdinfo(fd, "pasid", ""));
	/* amd-smi adds up the values of all files of a process. */
	EXPECT_EQ(-1, kfd_fdinfo(dev->fd, "drm-memory-vram", " KiB"));
	ASSERT_EQ(0, kfd_bo_create(dev, &vram, 3 * MIB, KFD_ALLOC_VRAM));
	ASSERT_EQ(0, kfd_bo_create(dev, &gtt, 1 * MIB, KFD_ALLOC_GTT));
	ASSERT_EQ(0, kfd_bo_create(dev, &user, 64 * 1024, KFD_ALLOC_USERPTR));
	EXPECT_EQ(3072, kfd_fdinfo(fd, "drm-total-vram", " KiB"));
	EXPECT_EQ(3072, kfd_fdinfo(fd, "drm-resident-vram", " KiB"));
	EXPECT_EQ(1024 + 64, kfd_fdinfo(fd, "drm-total-gtt", " KiB"));
	EXPECT_EQ(1024 + 64, kfd_fdinfo(fd, "drm-resident-gtt", " KiB"));
	EXPECT_EQ(0, kfd_bo_destroy(dev, &user));
	EXPECT_EQ(0, kfd_bo_destroy(dev, &gtt));
	EXPECT_EQ(0, kfd_bo_destroy(dev, &vram));
	EXPECT_EQ(0, kfd_fdinfo(fd, "drm-total-vram", " KiB"));
	EXPECT_EQ(0, kfd_fdinfo(fd, "drm-total-gtt", " KiB"));
}

KFD_HARNESS_MAIN
