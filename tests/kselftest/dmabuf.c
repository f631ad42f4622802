// SPDX-License-Identifier: GPL-2.0
/* dma-bufs: export and import by KFD and by the render node, in one process and between several. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "dmabuf_fixture.h"

DMABUF_FIXTURE(dmabuf)

/* Runs the same tests with either kind of memory. */
FIXTURE_VARIANT(dmabuf)
{
	uint32_t flags;
	uint32_t info;
};

FIXTURE_VARIANT_ADD(dmabuf, vram)
{
	.flags = KFD_ALLOC_VRAM,
	.info = KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC,
};

FIXTURE_VARIANT_ADD(dmabuf, gtt)
{
	.flags = KFD_ALLOC_GTT,
	.info = KFD_IOC_ALLOC_MEM_FLAGS_GTT,
};

static int gpu_fill(struct kfd_queue *queue, const void *dst, uint32_t value, size_t bytes)
{
	return kfd_queue_fill(queue, (uintptr_t)dst, value, bytes, TIMEOUT_MS);
}

static void pattern(void *memory, uint32_t seed, size_t bytes)
{
	uint32_t *dwords = memory;
	size_t i;

	for (i = 0; i < bytes / 4; i++)
		dwords[i] = seed + (uint32_t)i * 2654435761u;
}

/* The number of dwords that are not those of pattern(). */
static size_t differences(const void *memory, uint32_t seed, size_t bytes)
{
	const uint32_t *dwords = memory;
	size_t i, n = 0;

	for (i = 0; i < bytes / 4; i++)
		n += dwords[i] != seed + (uint32_t)i * 2654435761u;
	return n;
}

TEST_F(dmabuf, info)
{
	struct kfd_ioctl_get_dmabuf_info_args args = { 0 };
	struct kfd_bo bo;
	int fd;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, SIZE, variant->flags));
	ASSERT_EQ(0, kfd_export(&self->dev, bo.handle, O_CLOEXEC, &fd));
	EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
	EXPECT_EQ(SIZE, lseek(fd, 0, SEEK_END));
	ASSERT_EQ(0, kfd_dmabuf_info(&self->dev, fd, &args));
	EXPECT_EQ(SIZE, args.size);
	EXPECT_EQ(self->dev.gpu_id, args.gpu_id);
	EXPECT_EQ(kfd_info_flags(variant->info), args.flags);
	EXPECT_EQ(0, args.metadata_size);
	close(fd);
	ASSERT_EQ(0, kfd_export(&self->dev, bo.handle, 0, &fd));
	EXPECT_EQ(0, fcntl(fd, F_GETFD));
	close(fd);
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
}

/* A buffer has one dma-buf at a time. After that is closed, it may get another. */
TEST_F(dmabuf, export_twice)
{
	struct kfd_bo bo;
	int first, second, round;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, SIZE, variant->flags));
	for (round = 0; round < 3; round++) {
		ASSERT_EQ(0, kfd_export(&self->dev, bo.handle, O_CLOEXEC, &first));
		ASSERT_EQ(0, kfd_export(&self->dev, bo.handle, O_CLOEXEC, &second));
		EXPECT_NE(first, second);
		EXPECT_EQ(fd_inode(first), fd_inode(second));
		close(first);
		close(second);
	}
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
}

/*
 * An open without access mode keeps the dma-buf's inode, but not its file. The next file may
 * get the same address and must not be mistaken for it.
 */
TEST_F(dmabuf, export_after_its_file_is_closed)
{
	struct kfd_ioctl_get_dmabuf_info_args args = { 0 };
	int files[256], path, fd;
	struct kfd_bo bo;
	unsigned int i;
	char name[64];

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, SIZE, variant->flags));
	ASSERT_EQ(0, kfd_export(&self->dev, bo.handle, O_CLOEXEC, &fd));
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	path = open(name, O_PATH | O_CLOEXEC);
	ASSERT_LE(0, path);
	close(fd);
	for (i = 0; i < ARRAY_SIZE(files); i++)
		files[i] = memfd_create("another file", MFD_CLOEXEC);
	ASSERT_EQ(0, kfd_export(&self->dev, bo.handle, O_CLOEXEC, &fd));
	EXPECT_EQ(SIZE, lseek(fd, 0, SEEK_END));
	EXPECT_EQ(0, kfd_dmabuf_info(&self->dev, fd, &args));
	EXPECT_EQ(SIZE, args.size);
	for (i = 0; i < ARRAY_SIZE(files); i++)
		close(files[i]);
	close(fd);
	close(path);
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
}

/*
 * It is the same dma-buf after the exporter has freed its handle and another file has imported
 * it.
 */
TEST_F(dmabuf, export_of_an_import)
{
	uint64_t handle;
	struct kfd_bo bo;
	int fd, again;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, SIZE, variant->flags));
	ASSERT_EQ(0, kfd_export(&self->dev, bo.handle, O_CLOEXEC, &fd));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
	ASSERT_EQ(0, kfd_import(&self->dev, fd, 0, &handle));
	ASSERT_EQ(0, kfd_export(&self->dev, handle, O_CLOEXEC, &again));
	EXPECT_EQ(fd_inode(fd), fd_inode(again));
	close(again);
	EXPECT_EQ(0, kfd_free(self->dev.fd, handle));
	close(fd);
}

TEST_F(dmabuf, mmap)
{
	struct kfd_bo bo;
	void *p;
	int fd;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, SIZE, variant->flags));
	ASSERT_EQ(0, kfd_export(&self->dev, bo.handle, O_CLOEXEC, &fd));
	p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, p);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, SIZE + KFD_PAGE, PROT_READ, MAP_SHARED, fd, 0));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, KFD_PAGE));
	EXPECT_EQ(0, dmabuf_sync(fd, false));
	pattern(p, 1, SIZE);
	EXPECT_EQ(0, dmabuf_sync(fd, true));
	EXPECT_EQ(0, differences(bo.cpu, 1, SIZE));
	EXPECT_EQ(0, gpu_fill(&self->queue, bo.cpu, 0x5eed, SIZE));
	EXPECT_EQ(0, dmabuf_sync(fd, false));
	EXPECT_EQ(0, unequal(p, 0x5eed, SIZE));
	EXPECT_EQ(0, dmabuf_sync(fd, true));
	/* A part of it, from the middle on. */
	munmap(p, SIZE);
	p = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, SIZE / 2);
	ASSERT_NE(MAP_FAILED, p);
	pattern(p, 2, KFD_PAGE);
	EXPECT_EQ(0, differences((char *)bo.cpu + SIZE / 2, 2, KFD_PAGE));
	/* The mapping keeps the memory, and nothing else does. */
	close(fd);
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
	EXPECT_EQ(0, differences(p, 2, KFD_PAGE));
	munmap(p, KFD_PAGE);
}

/* The same memory at another address, under a handle of its own. */
TEST_F(dmabuf, import_into_the_same_process)
{
	long long bos;
	struct kfd_bo bo, again, third;
	int fd;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, SIZE, variant->flags));
	bos = objects_count("bos");
	ASSERT_EQ(0, kfd_export(&self->dev, bo.handle, O_CLOEXEC, &fd));
	ASSERT_EQ(0, kfd_bo_import(&self->dev, &again, fd, SIZE));
	ASSERT_EQ(0, kfd_bo_import(&self->dev, &third, fd, SIZE));
	EXPECT_NE(bo.handle, again.handle);
	EXPECT_NE(again.handle, third.handle);
	EXPECT_EQ(bos, objects_count("bos"));

	pattern(bo.cpu, 3, SIZE);
	EXPECT_EQ(0, gpu_copy(&self->queue, (char *)again.cpu + SIZE / 2, third.cpu, SIZE / 2));
	EXPECT_EQ(0, differences((char *)bo.cpu + SIZE / 2, 3, SIZE / 2));
	/* Freeing one handle does not affect the others. */
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &third));
	close(fd);
	EXPECT_EQ(0, gpu_fill(&self->queue, again.cpu, 0xabcd, SIZE));
	EXPECT_EQ(0, unequal(again.cpu, 0xabcd, SIZE));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &again));
}

/* A handle without an address can be exported, but not mapped. */
TEST_F(dmabuf, import_without_address)
{
	struct kfd_bo bo;
	uint64_t handle;
	int fd, other;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, SIZE, variant->flags));
	ASSERT_EQ(0, kfd_export(&self->dev, bo.handle, O_CLOEXEC, &fd));
	ASSERT_EQ(0, kfd_import(&self->dev, fd, 0, &handle));
	EXPECT_EQ(EINVAL, kfd_map(self->dev.fd, handle, self->dev.gpu_id));
	ASSERT_EQ(0, kfd_export(&self->dev, handle, O_CLOEXEC, &other));
	EXPECT_EQ(fd_inode(fd), fd_inode(other));
	EXPECT_EQ(0, kfd_free(self->dev.fd, handle));
	close(fd);
	close(other);
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
}

/* The render node has one handle for a buffer, however often it is imported. */
TEST_F(dmabuf, render_node_handles)
{
	uint32_t first, second, other_handle;
	struct kfd_bo bo;
	int fd, back, other;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, SIZE, variant->flags));
	ASSERT_EQ(0, kfd_export(&self->dev, bo.handle, O_CLOEXEC, &fd));
	ASSERT_EQ(0, drm_fd_to_handle(self->dev.drm_fd, fd, &first));
	ASSERT_EQ(0, drm_fd_to_handle(self->dev.drm_fd, fd, &second));
	EXPECT_EQ(first, second);
	ASSERT_EQ(0, drm_handle_to_fd(self->dev.drm_fd, first, &back));
	EXPECT_EQ(fd_inode(fd), fd_inode(back));
	close(back);

	ASSERT_EQ(0, kfd_open_render(&self->dev, &other));
	ASSERT_EQ(0, drm_fd_to_handle(other, fd, &other_handle));
	close(fd);
	/* From here on only the handles keep the buffer. */
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
	EXPECT_EQ(0, drm_gem_close(self->dev.drm_fd, first));
	EXPECT_EQ(EINVAL, drm_gem_close(self->dev.drm_fd, first));
	EXPECT_EQ(ENOENT, drm_handle_to_fd(self->dev.drm_fd, first, &back));
	ASSERT_EQ(0, drm_handle_to_fd(other, other_handle, &back));
	ASSERT_EQ(0, kfd_bo_import(&self->dev, &bo, back, SIZE));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
	close(back);
	close(other);
}

/*
 * In a child: imports the dma-buf from the socket, fills it by the GPU, reports that, and waits
 * for the end.
 */
static int child_fills(int socket)
{
	struct kfd_queue queue;
	struct kfd_dev dev;
	struct kfd_bo bo;
	char byte = 0;
	int err, fd;

	err = receive_fd(socket, &fd);
	if (!err)
		err = kfd_open(&dev);
	if (!err)
		err = kfd_queue_create(&dev, &queue, RING);
	if (!err)
		err = kfd_bo_import(&dev, &bo, fd, SIZE);
	if (!err)
		err = unequal(bo.cpu, 0x11111111, SIZE) ? EIO : 0;
	if (!err)
		err = gpu_fill(&queue, bo.cpu, 0x22222222, SIZE);
	if (write(socket, &byte, 1) != 1 || read(socket, &byte, 1) != 1)
		return EPIPE;
	/* The exporter has ended by now. */
	if (!err)
		err = gpu_fill(&queue, bo.cpu, 0x33333333, SIZE);
	if (!err)
		err = unequal(bo.cpu, 0x33333333, SIZE) ? EIO : 0;
	return err;
}

TEST_F(dmabuf, exporter_goes_first)
{
	int sockets[2], fd, status;
	struct kfd_bo bo;
	char byte = 0;
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0)
		_exit(child_fills(sockets[1]));
	close(sockets[1]);
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, SIZE, variant->flags));
	ASSERT_EQ(0, kfd_export(&self->dev, bo.handle, O_CLOEXEC, &fd));
	EXPECT_EQ(0, gpu_fill(&self->queue, bo.cpu, 0x11111111, SIZE));
	ASSERT_EQ(0, send_fd(sockets[0], fd));
	close(fd);
	ASSERT_EQ(1, read(sockets[0], &byte, 1));
	EXPECT_EQ(0, unequal(bo.cpu, 0x22222222, SIZE));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
	ASSERT_EQ(1, write(sockets[0], &byte, 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
}

/* The process that made the buffer has ended with everything except the buffer. */
TEST_F(dmabuf, buffer_outlives_its_process)
{
	int sockets[2], fd, status;
	struct kfd_bo bo;
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0)
		_exit(kfd_export_filled(sockets[1], SIZE, variant->flags, 0x44444444, TIMEOUT_MS));
	close(sockets[1]);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_TRUE(WIFEXITED(status));
	ASSERT_EQ(0, WEXITSTATUS(status));
	ASSERT_EQ(0, receive_fd(sockets[0], &fd));
	close(sockets[0]);
	ASSERT_EQ(0, kfd_bo_import(&self->dev, &bo, fd, SIZE));
	EXPECT_EQ(0, unequal(bo.cpu, 0x44444444, SIZE));
	EXPECT_EQ(0, gpu_fill(&self->queue, bo.cpu, 0x55555555, SIZE));
	EXPECT_EQ(0, unequal(bo.cpu, 0x55555555, SIZE));
	close(fd);
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
}

/* Objects that are not cleaned up go with the process; the test frees none. */
TEST_F(dmabuf, left_to_the_end)
{
	struct kfd_bo bo, again;
	uint32_t handle;
	int fd;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, SIZE, variant->flags));
	ASSERT_EQ(0, kfd_export(&self->dev, bo.handle, 0, &fd));
	ASSERT_EQ(0, kfd_bo_import(&self->dev, &again, fd, SIZE));
	ASSERT_EQ(0, drm_fd_to_handle(self->dev.drm_fd, fd, &handle));
	/* The fixture closes the device files, after which nothing may be left. */
	munmap(bo.cpu, SIZE);
	munmap(again.cpu, SIZE);
	close(fd);
}

DMABUF_FIXTURE(sharing)

TEST_F(sharing, bad_input)
{
	struct kfd_ioctl_get_dmabuf_info_args info = { 0 };
	struct kfd_dev unknown = self->dev;
	struct kfd_bo bo, user;
	uint64_t handle;
	int fd;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, SIZE, KFD_ALLOC_GTT));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &user, SIZE, KFD_ALLOC_USERPTR));
	EXPECT_ANSWER(export_unknown, kfd_export(&self->dev, bo.handle + 1000, 0, &fd));
	EXPECT_ANSWER(export_unknown, kfd_export(&self->dev, 0, 0, &fd));
	EXPECT_ANSWER(export_userptr, kfd_export(&self->dev, user.handle, 0, &fd));
	EXPECT_ANSWER(export_flags, kfd_export(&self->dev, bo.handle, 0x40000000, &fd));
	if (fd >= 0)
		close(fd);
	ASSERT_EQ(0, kfd_export(&self->dev, bo.handle, O_CLOEXEC, &fd));

	EXPECT_ANSWER(dmabuf_bad_fd, kfd_dmabuf_info(&self->dev, -1, &info));
	EXPECT_ANSWER(dmabuf_bad_fd, kfd_dmabuf_info(&self->dev, 1000, &info));
	EXPECT_ANSWER(dmabuf_other_file, kfd_dmabuf_info(&self->dev, self->dev.fd, &info));
	EXPECT_ANSWER(dmabuf_bad_fd, kfd_import(&self->dev, -1, 0, &handle));
	EXPECT_ANSWER(dmabuf_other_file, kfd_import(&self->dev, self->dev.drm_fd, 0, &handle));
	unknown.gpu_id ^= 1;
	EXPECT_ANSWER(unknown_gpu, kfd_import(&unknown, fd, 0, &handle));
	if (kfd_is_rkfd()) {
		/* Not page-aligned, not user space, beyond the end. */
		EXPECT_EQ(EINVAL, kfd_import(&self->dev, fd, 0x100000001, &handle));
		EXPECT_EQ(EINVAL, kfd_import(&self->dev, fd, 1ull << 63, &handle));
		EXPECT_EQ(EINVAL, kfd_import(&self->dev, fd, (1ull << 47) - KFD_PAGE, &handle));
	}
	close(fd);
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &user));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
}

/* GPU and exporter see each other's writes, without a move, and all is given back. */
static void check_foreign(struct __test_metadata *_metadata, const struct kfd_dev *dev,
			  struct kfd_queue *queue, int fd, void *own)
{
	struct kfd_ioctl_get_dmabuf_info_args info = { 0 };
	struct kfd_bo foreign, again, vram;
	uint32_t handle, same;
	int out;

	EXPECT_ANSWER(dmabuf_foreign_info, kfd_dmabuf_info(dev, fd, &info));
	ASSERT_EQ(0, kfd_bo_create(dev, &vram, SIZE, KFD_ALLOC_VRAM));
	ASSERT_EQ(0, kfd_bo_import(dev, &foreign, fd, SIZE));
	ASSERT_EQ(0, kfd_bo_import(dev, &again, fd, SIZE));
	pattern(own, 7, SIZE);
	EXPECT_EQ(0, gpu_copy(queue, vram.cpu, foreign.cpu, SIZE));
	EXPECT_EQ(0, differences(vram.cpu, 7, SIZE));
	EXPECT_EQ(0, gpu_fill(queue, again.cpu, 0x66666666, SIZE));
	EXPECT_EQ(0, unequal(own, 0x66666666, SIZE));
	EXPECT_EQ(0, unequal(foreign.cpu, 0x66666666, SIZE));

	/* An export of the import gives the same dma-buf. */
	ASSERT_EQ(0, kfd_export(dev, foreign.handle, O_CLOEXEC, &out));
	EXPECT_EQ(fd_inode(fd), fd_inode(out));
	close(out);
	ASSERT_EQ(0, drm_fd_to_handle(dev->drm_fd, fd, &handle));
	ASSERT_EQ(0, drm_fd_to_handle(dev->drm_fd, fd, &same));
	EXPECT_EQ(handle, same);
	ASSERT_EQ(0, drm_handle_to_fd(dev->drm_fd, handle, &out));
	EXPECT_EQ(fd_inode(fd), fd_inode(out));
	close(out);
	EXPECT_EQ(0, drm_gem_close(dev->drm_fd, handle));

	/* The import holds the memory after its exporter has let go of it. */
	EXPECT_EQ(0, kfd_bo_destroy(dev, &again));
	close(fd);
	EXPECT_EQ(0, gpu_fill(queue, foreign.cpu, 0x77777777, SIZE));
	EXPECT_EQ(0, unequal(own, 0x77777777, SIZE));
	EXPECT_EQ(0, kfd_bo_destroy(dev, &foreign));
	EXPECT_EQ(0, kfd_bo_destroy(dev, &vram));
}

TEST_F(sharing, memory_of_udmabuf)
{
	int memfd, fd, err;
	void *own;

	err = udmabuf_create(SIZE, &memfd, &fd);
	if (err == ENOENT)
		SKIP(return, "no /dev/udmabuf");
	ASSERT_EQ(0, err);
	own = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	ASSERT_NE(MAP_FAILED, own);
	check_foreign(_metadata, &self->dev, &self->queue, fd, own);
	munmap(own, SIZE);
	close(memfd);
}

TEST_F(sharing, memory_of_dma_heap)
{
	void *own;
	int fd, err;

	err = dma_heap_alloc(SIZE, &fd);
	if (err == ENOENT)
		SKIP(return, "no /dev/dma_heap/system");
	ASSERT_EQ(0, err);
	own = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, own);
	check_foreign(_metadata, &self->dev, &self->queue, fd, own);
	munmap(own, SIZE);
}

/* The lowest descriptor that is free. */
static int next_fd(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

/* A call whose answer cannot be written leaves no descriptor behind. */
TEST_F(sharing, no_descriptor_without_answer)
{
	struct kfd_ioctl_export_dmabuf_args *export;
	struct kfd_ioctl_smi_events_args *smi;
	struct kfd_bo bo;
	int next;

	if (!kfd_is_rkfd())
		SKIP(return, "amdkfd leaves it");
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, SIZE, KFD_ALLOC_GTT));
	export = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, export);
	export->handle = bo.handle;
	smi = (void *)(export + 1);
	smi->gpuid = self->dev.gpu_id;
	ASSERT_EQ(0, mprotect(export, KFD_PAGE, PROT_READ));
	next = next_fd();
	EXPECT_EQ(EFAULT, kfd_ioctl(self->dev.fd, AMDKFD_IOC_EXPORT_DMABUF, export));
	EXPECT_EQ(EFAULT, kfd_ioctl(self->dev.fd, AMDKFD_IOC_SMI_EVENTS, smi));
	EXPECT_EQ(next, next_fd());
	munmap(export, KFD_PAGE);
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
}

KFD_HARNESS_MAIN
