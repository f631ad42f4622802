// SPDX-License-Identifier: GPL-2.0
/*
 * VRAM that another device attaches to: it moves to memory that the device can access, is used
 * there by everyone, and moves back afterwards. The other device is vivid's camera, which maps
 * the buffers that it is to write to for DMA, and cannot be notified of moves.
 */
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <drm/drm.h>
#include <drm/vgem_drm.h>
#include <linux/videodev2.h>

#include "kfd_harness.h"
#include "kfd_dmabuf.h"
#include "objects.h"
#include "tap.h"

#define SIZE		(3u << 20)
#define RING		(64u * 1024)
#define TIMEOUT_MS	KFD_HANG_MS

/* Larger than one of vivid's pictures, and small enough to be contiguous anywhere. */
#define PICTURE		(1u << 20)

/* Opens vivid's capture device for buffers by dma-buf; a new file, or -1. */
static int vivid_open(void)
{
	struct v4l2_requestbuffers buffers = {
		.count = 1,
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
		.memory = V4L2_MEMORY_DMABUF,
	};
	int fd;

	if (access("/dev/video0", F_OK) != 0 &&
	    system("modprobe -q vivid n_devs=1 node_types=1 allocators=1") != 0)
		return -1;
	fd = open("/dev/video0", O_RDWR | O_CLOEXEC);
	if (fd >= 0 && kfd_ioctl(fd, VIDIOC_REQBUFS, &buffers) != 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Makes the device attach to @fd and map it. It releases its previous mapping. */
static int vivid_take(int video, int fd)
{
	struct v4l2_buffer buffer = {
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
		.memory = V4L2_MEMORY_DMABUF,
		.m.fd = fd,
		.length = PICTURE,
	};

	return kfd_ioctl(video, VIDIOC_QBUF, &buffer);
}

/* Closing the file releases its mapping. */
static void vivid_give_back(int *video)
{
	close(*video);
	*video = vivid_open();
}

/*
 * Opens vgem's render node, or -1. That device attaches to imported buffers, and never maps
 * them.
 */
static int vgem_open(void)
{
	glob_t found;
	size_t i;
	int fd = -1;

	if (system("modprobe -q vgem") != 0 || glob("/dev/dri/renderD*", 0, NULL, &found) != 0)
		return -1;
	for (i = 0; i < found.gl_pathc && fd < 0; i++) {
		char name[16] = "";
		struct drm_version version = { .name = name, .name_len = sizeof(name) - 1 };

		fd = open(found.gl_pathv[i], O_RDWR | O_CLOEXEC);
		if (fd >= 0 && (kfd_ioctl(fd, DRM_IOCTL_VERSION, &version) ||
				strcmp(name, "vgem") != 0)) {
			close(fd);
			fd = -1;
		}
	}
	globfree(&found);
	return fd;
}

FIXTURE(attached)
{
	struct kfd_dev dev;
	struct kfd_queue queue;
	char base[OBJECTS_MAX];
	int video;
};

FIXTURE_SETUP(attached)
{
	self->video = vivid_open();
	if (self->video < 0)
		SKIP(return, "no vivid");
	ASSERT_TRUE(objects_base(self->base, 0));
	ASSERT_EQ(0, kfd_open(&self->dev));
	ASSERT_EQ(0, kfd_queue_create(&self->dev, &self->queue, RING));
}

FIXTURE_TEARDOWN(attached)
{
	if (self->video < 0)
		return;
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &self->queue));
	kfd_close(&self->dev);
	close(self->video);
	EXPECT_TRUE(objects_return_to(self->base, KFD_HANG_MS));
}

static int gpu_fill(struct kfd_queue *queue, const void *dst, uint32_t value, size_t bytes)
{
	return kfd_queue_fill(queue, (uintptr_t)dst, value, bytes, TIMEOUT_MS);
}

static int gpu_copy(struct kfd_queue *queue, const void *dst, const void *src, size_t bytes)
{
	return kfd_queue_copy(queue, (uintptr_t)dst, (uintptr_t)src, bytes, TIMEOUT_MS);
}

/* True if @bytes bytes are away from VRAM within some time. */
static bool away(long long bytes)
{
	return objects_become("evicted_bytes", bytes, TIMEOUT_MS);
}

/*
 * The buffer moves out with its content, is used there by engine and CPU, and moves back with
 * it.
 */
TEST_F(attached, there_and_back)
{
	struct kfd_bo bo, host, more;
	void *p;
	int fd, round;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, SIZE, KFD_ALLOC_VRAM));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &host, SIZE, KFD_ALLOC_GTT));
	ASSERT_EQ(0, kfd_export(&self->dev, bo.handle, O_CLOEXEC, &fd));
	p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, p);
	for (round = 1; round <= 3; round++) {
		EXPECT_EQ(0, gpu_fill(&self->queue, bo.cpu, 0x1000 + round, SIZE));
		/* Both CPU mappings have accessed VRAM before the move. */
		EXPECT_EQ(0, unequal(p, 0x1000 + round, SIZE));
		EXPECT_EQ(0, unequal(bo.cpu, 0x1000 + round, KFD_PAGE));
		ASSERT_EQ(0, vivid_take(self->video, fd));
		EXPECT_EQ(SIZE, objects_count("evicted_bytes"));
		EXPECT_EQ(0, unequal(p, 0x1000 + round, SIZE));
		EXPECT_EQ(0, gpu_copy(&self->queue, host.cpu, bo.cpu, SIZE));
		EXPECT_EQ(0, unequal(host.cpu, 0x1000 + round, SIZE));
		EXPECT_EQ(0, gpu_fill(&self->queue, bo.cpu, 0x2000 + round, SIZE));
		EXPECT_EQ(0, unequal(p, 0x2000 + round, SIZE));
		EXPECT_EQ(0, unequal(bo.cpu, 0x2000 + round, SIZE));
		/* A later import is mapped where the memory is, too. */
		ASSERT_EQ(0, kfd_bo_import(&self->dev, &more, fd, SIZE));
		EXPECT_EQ(0, gpu_fill(&self->queue, more.cpu, 0x3000 + round, SIZE));
		EXPECT_EQ(0, unequal(bo.cpu, 0x3000 + round, SIZE));
		EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &more));
		vivid_give_back(&self->video);
		EXPECT_TRUE(away(0));
		EXPECT_EQ(0, unequal(p, 0x3000 + round, SIZE));
		EXPECT_EQ(0, gpu_copy(&self->queue, host.cpu, bo.cpu, SIZE));
		EXPECT_EQ(0, unequal(host.cpu, 0x3000 + round, SIZE));
	}
	munmap(p, SIZE);
	close(fd);
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &host));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
}

/*
 * A buffer that a device works on stays where the device reaches it, even if no device has it
 * mapped any more.
 */
TEST_F(attached, at_work)
{
	const int vgem = vgem_open();
	struct drm_vgem_fence_attach work = { .flags = VGEM_FENCE_WRITE };
	struct drm_vgem_fence_signal end = { 0 };
	long long away_at_work;
	struct kfd_bo bo;
	int fd;

	if (vgem < 0)
		SKIP(return, "no vgem");
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, SIZE, KFD_ALLOC_VRAM));
	EXPECT_EQ(0, gpu_fill(&self->queue, bo.cpu, 0x4000, SIZE));
	ASSERT_EQ(0, kfd_export(&self->dev, bo.handle, O_CLOEXEC, &fd));
	ASSERT_EQ(0, drm_fd_to_handle(vgem, fd, &work.handle));
	ASSERT_EQ(0, vivid_take(self->video, fd));
	ASSERT_EQ(0, kfd_ioctl(vgem, DRM_IOCTL_VGEM_FENCE_ATTACH, &work));
	end.fence = work.out_fence;
	vivid_give_back(&self->video);
	/* Longer than the way back to VRAM takes. */
	usleep(2000 * 1000);
	away_at_work = objects_count("evicted_bytes");
	/* The process goes on with the buffer there. */
	EXPECT_EQ(0, gpu_fill(&self->queue, bo.cpu, 0x4001, SIZE));
	/* The device ends its work itself after ten seconds, if a busy host comes too late. */
	if (kfd_ioctl(vgem, DRM_IOCTL_VGEM_FENCE_SIGNAL, &end) == 0)
		EXPECT_EQ(SIZE, away_at_work);
	EXPECT_TRUE(away(0));
	EXPECT_EQ(0, unequal(bo.cpu, 0x4001, SIZE));
	EXPECT_EQ(0, drm_gem_close(vgem, work.handle));
	close(fd);
	close(vgem);
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
}

/* A queue whose ring is in a buffer that is attached keeps the buffer where it is. */
TEST_F(attached, ring)
{
	struct kfd_bo ring, pointers;
	struct kfd_ioctl_create_queue_args args;
	int fd;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &ring, PICTURE, KFD_ALLOC_VRAM));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &pointers, KFD_PAGE, KFD_ALLOC_GTT));
	memset(pointers.cpu, 0, KFD_PAGE);
	kfd_queue_args(&self->dev, &ring, &pointers, &args);
	ASSERT_EQ(0, kfd_export(&self->dev, ring.handle, O_CLOEXEC, &fd));
	EXPECT_EQ(0, vivid_take(self->video, fd));
	EXPECT_EQ(PICTURE, objects_count("evicted_bytes"));
	ASSERT_EQ(0, kfd_ioctl(self->dev.fd, AMDKFD_IOC_CREATE_QUEUE, &args));
	vivid_give_back(&self->video);
	usleep(200000);
	EXPECT_EQ(PICTURE, objects_count("evicted_bytes"));
	EXPECT_EQ(0, kfd_destroy_queue(self->dev.fd, args.queue_id));
	close(fd);
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &pointers));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &ring));
}

/*
 * A GPU uses the buffer in VRAM, by the switch between the GPUs, when a device attaches that
 * does not reach it there. Then both use it in system memory.
 */
TEST_F(attached, beside_a_peer)
{
	struct kfd_queue of_other;
	struct kfd_bo bo, import;
	struct kfd_dev other;
	unsigned int round;
	int fd;

	if (!getenv("RKFD_LINKED") || *getenv("RKFD_LINKED") != '1')
		SKIP(return, "no two GPUs that reach each other");
	ASSERT_EQ(0, kfd_open_next(&self->dev, &other));
	ASSERT_EQ(0, kfd_queue_create(&other, &of_other, RING));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, SIZE, KFD_ALLOC_VRAM));
	ASSERT_EQ(0, kfd_export(&self->dev, bo.handle, O_CLOEXEC, &fd));
	for (round = 1; round <= 2; round++) {
		ASSERT_EQ(0, kfd_bo_import(&other, &import, fd, SIZE));
		EXPECT_EQ(0, objects_count("evicted_bytes"));
		EXPECT_EQ(0, gpu_fill(&of_other, import.cpu, 0x5000 + round, SIZE));
		ASSERT_EQ(0, vivid_take(self->video, fd));
		EXPECT_EQ(SIZE, objects_count("evicted_bytes"));
		EXPECT_EQ(0, unequal(bo.cpu, 0x5000 + round, SIZE));
		EXPECT_EQ(0, gpu_fill(&of_other, import.cpu, 0x6000 + round, SIZE));
		EXPECT_EQ(0, unequal(bo.cpu, 0x6000 + round, SIZE));
		/* The GPU imports it last, and uses it where it is. */
		EXPECT_EQ(0, kfd_bo_destroy(&other, &import));
		ASSERT_EQ(0, kfd_bo_import(&other, &import, fd, SIZE));
		EXPECT_EQ(SIZE, objects_count("evicted_bytes"));
		EXPECT_EQ(0, gpu_fill(&of_other, import.cpu, 0x7000 + round, SIZE));
		vivid_give_back(&self->video);
		EXPECT_EQ(0, gpu_fill(&self->queue, bo.cpu, 0x8000 + round, SIZE));
		EXPECT_EQ(0, gpu_copy(&of_other, import.cpu, import.cpu, SIZE));
		EXPECT_EQ(0, kfd_bo_destroy(&other, &import));
		EXPECT_TRUE(away(0));
		EXPECT_EQ(0, unequal(bo.cpu, 0x8000 + round, SIZE));
	}
	close(fd);
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
	EXPECT_EQ(0, kfd_queue_destroy(&other, &of_other));
	close(other.drm_fd);
}

/*
 * The exporting process has ended before the device attaches. Another process then imports the
 * buffer from where it is.
 */
TEST_F(attached, nobodys)
{
	int sockets[2], fd, status;
	struct kfd_bo bo;
	pid_t pid;
	void *p;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0)
		_exit(kfd_export_filled(sockets[1], SIZE, KFD_ALLOC_VRAM, 0x44444444, TIMEOUT_MS));
	close(sockets[1]);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_TRUE(WIFEXITED(status));
	ASSERT_EQ(0, WEXITSTATUS(status));
	ASSERT_EQ(0, receive_fd(sockets[0], &fd));
	close(sockets[0]);
	ASSERT_EQ(0, vivid_take(self->video, fd));
	EXPECT_EQ(SIZE, objects_count("evicted_bytes"));
	p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, p);
	EXPECT_EQ(0, unequal(p, 0x44444444, SIZE));
	ASSERT_EQ(0, kfd_bo_import(&self->dev, &bo, fd, SIZE));
	EXPECT_EQ(0, gpu_fill(&self->queue, bo.cpu, 0x55555555, SIZE));
	vivid_give_back(&self->video);
	EXPECT_EQ(0, unequal(p, 0x55555555, SIZE));
	EXPECT_EQ(0, gpu_fill(&self->queue, bo.cpu, 0x66666666, SIZE));
	EXPECT_EQ(0, unequal(p, 0x66666666, SIZE));
	munmap(p, SIZE);
	close(fd);
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
}

/* A device attaches and detaches while engines copy. */
TEST_F(attached, while_copies_run)
{
	const unsigned int rounds = work(60, 20);
	struct kfd_bo bo, host;
	unsigned int i;
	pid_t pid;
	int fd, status;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, SIZE, KFD_ALLOC_VRAM));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &host, SIZE, KFD_ALLOC_GTT));
	ASSERT_EQ(0, kfd_export(&self->dev, bo.handle, O_CLOEXEC, &fd));
	close(self->video);
	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0) {
		for (;;) {
			int video = vivid_open();

			if (video < 0 || vivid_take(video, fd))
				_exit(1);
			usleep(rand() % 20000);
			close(video);
			usleep(rand() % 100000);
		}
	}
	for (i = 0; i < rounds; i++) {
		ASSERT_EQ(0, gpu_fill(&self->queue, bo.cpu, i, SIZE));
		ASSERT_EQ(0, gpu_copy(&self->queue, host.cpu, bo.cpu, SIZE));
		EXPECT_EQ(0, unequal(host.cpu, i, SIZE));
		EXPECT_EQ(0, unequal(bo.cpu, i, SIZE));
	}
	self->video = open("/dev/null", O_RDWR);
	EXPECT_EQ(0, waitpid(pid, &status, WNOHANG));
	kill(pid, SIGKILL);
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(away(0));
	close(fd);
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &host));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
}

KFD_FIXTURE(attach)

/*
 * A device cannot attach to a buffer that must be in VRAM, and a buffer that no device has
 * mapped has not moved.
 */
TEST_F(attach, refused)
{
	const int vgem = vgem_open();
	struct kfd_ioctl_create_queue_args args;
	struct kfd_bo ring, pointers;
	uint32_t handle;
	int fd;

	if (vgem < 0)
		SKIP(return, "no vgem");
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &ring, RING, KFD_ALLOC_VRAM));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &pointers, KFD_PAGE, KFD_ALLOC_GTT));
	memset(pointers.cpu, 0, KFD_PAGE);
	kfd_queue_args(&self->dev, &ring, &pointers, &args);
	ASSERT_EQ(0, kfd_export(&self->dev, ring.handle, O_CLOEXEC, &fd));
	ASSERT_EQ(0, kfd_ioctl(self->dev.fd, AMDKFD_IOC_CREATE_QUEUE, &args));
	EXPECT_EQ(EBUSY, drm_fd_to_handle(vgem, fd, &handle));
	EXPECT_EQ(0, kfd_destroy_queue(self->dev.fd, args.queue_id));
	EXPECT_EQ(0, drm_fd_to_handle(vgem, fd, &handle));
	EXPECT_EQ(0, objects_count("evicted_bytes"));
	EXPECT_EQ(0, drm_gem_close(vgem, handle));
	close(fd);
	close(vgem);
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &pointers));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &ring));
}

KFD_HARNESS_MAIN
