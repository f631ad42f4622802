// SPDX-License-Identifier: GPL-2.0
/*
 * dma-bufs with a descriptor for reading only: neither GPU, CPU nor driver writes to their
 * memory.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include <drm/amdgpu_drm.h>
#include <drm/drm.h>

#include "dmabuf_fixture.h"
#include "kfd_event.h"
#include "packets.h"

DMABUF_FIXTURE(sharing)

/*
 * The engine reads the zeros that are imported through the read-only @fd. Neither the engine
 * nor the CPU can write there.
 */
static void check_read_only(struct __test_metadata *_metadata, const struct kfd_dev *dev,
			    struct kfd_queue *queue, int fd)
{
	struct kfd_event_data fault = { 0 };
	struct packets write = { 0 };
	struct kfd_queue writer;
	uint64_t handle;
	struct kfd_bo vram;
	void *va, *p;

	p = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, p);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
	EXPECT_EQ(EACCES, errno);
	va = kfd_reserve(SIZE, KFD_PAGE);
	ASSERT_NE(NULL, va);
	ASSERT_EQ(0, kfd_bo_create(dev, &vram, SIZE, KFD_ALLOC_VRAM));
	memset(vram.cpu, 0xff, SIZE);
	ASSERT_EQ(0, kfd_import(dev, fd, (uintptr_t)va, &handle));
	ASSERT_EQ(0, kfd_map(dev->fd, handle, dev->gpu_id));
	EXPECT_EQ(0, gpu_copy(queue, vram.cpu, va, SIZE));
	EXPECT_EQ(0, unequal(vram.cpu, 0, SIZE));
	/* The fate of a queue that tries is another matter. */
	ASSERT_EQ(0, event_create(dev, KFD_IOC_EVENT_MEMORY, false, &fault.event_id));
	ASSERT_EQ(0, kfd_queue_create(dev, &writer, RING));
	sdma_fill(&write, (uintptr_t)va, 0x1234, KFD_PAGE / 4);
	kfd_queue_submit(&writer, write.dwords, write.count);
	EXPECT_EQ(0, event_wait_many(dev, &fault, 1, true, TIMEOUT_MS));
	EXPECT_EQ((uintptr_t)va, fault.memory_exception_data.va);
	EXPECT_EQ(1, fault.memory_exception_data.failure.ReadOnly);
	EXPECT_EQ(0, kfd_queue_destroy(dev, &writer));
	EXPECT_EQ(0, unequal(p, 0, SIZE));
	EXPECT_EQ(0, kfd_unmap(dev->fd, handle, dev->gpu_id));
	EXPECT_EQ(0, kfd_free(dev->fd, handle));
	munmap(va, SIZE);
	munmap(p, SIZE);
	EXPECT_EQ(0, kfd_bo_destroy(dev, &vram));
	close(fd);
}

/* A process that has tried has no queues any more, so each of these is a test of its own. */
TEST_F(sharing, read_only)
{
	const int drm_fd = self->dev.drm_fd;
	uint32_t handle;
	int fd;

	if (!kfd_is_rkfd())
		SKIP(return, "amdkfd does not look at it");
	ASSERT_EQ(0, drm_gem_create(drm_fd, SIZE, AMDGPU_GEM_DOMAIN_VRAM, 0, &handle));
	ASSERT_EQ(0, drm_handle_to_read_only_fd(drm_fd, handle, &fd));
	check_read_only(_metadata, &self->dev, &self->queue, fd);
	EXPECT_EQ(0, drm_gem_close(drm_fd, handle));
}

TEST_F(sharing, read_only_of_dma_heap)
{
	int fd, err;

	if (!kfd_is_rkfd())
		SKIP(return, "amdkfd does not look at it");
	err = dma_heap_alloc_for(SIZE, O_RDONLY, &fd);
	if (err == ENOENT)
		SKIP(return, "no /dev/dma_heap/system");
	ASSERT_EQ(0, err);
	check_read_only(_metadata, &self->dev, &self->queue, fd);
}

/* A buffer of another open file, its offset there, and a read-only descriptor of it. */
struct exporter {
	int drm_fd;
	uint32_t handle;
	uint64_t offset;
	int fd;
};

static int export_read_only(const struct kfd_dev *dev, struct exporter *theirs)
{
	union drm_amdgpu_gem_mmap mapping;
	int err;

	err = kfd_open_render(dev, &theirs->drm_fd);
	if (!err)
		err = drm_gem_create(theirs->drm_fd, SIZE, AMDGPU_GEM_DOMAIN_GTT, 0,
				     &theirs->handle);
	mapping.in.handle = theirs->handle;
	if (!err)
		err = kfd_ioctl(theirs->drm_fd, DRM_IOCTL_AMDGPU_GEM_MMAP, &mapping);
	theirs->offset = mapping.out.addr_ptr;
	return err ? err : drm_handle_to_read_only_fd(theirs->drm_fd, theirs->handle, &theirs->fd);
}

/* Checks that the memory is unwritten. */
static bool take_back(struct exporter *theirs)
{
	void *p = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, theirs->drm_fd, theirs->offset);
	bool clean = p != MAP_FAILED && unequal(p, 0, SIZE) == 0;

	munmap(p, SIZE);
	close(theirs->fd);
	close(theirs->drm_fd);
	return clean;
}

/* The driver itself writes a queue's read pointer and the slots of events. */
TEST_F(sharing, read_only_for_the_driver)
{
	struct kfd_ioctl_create_event_args event = { .event_type = KFD_IOC_EVENT_SIGNAL };
	struct kfd_ioctl_create_queue_args args;
	struct exporter theirs;
	uint64_t handle;
	void *va;

	if (!kfd_is_rkfd())
		SKIP(return, "amdkfd does not look at it");
	ASSERT_EQ(0, export_read_only(&self->dev, &theirs));
	va = kfd_reserve(SIZE, KFD_PAGE);
	ASSERT_NE(NULL, va);
	ASSERT_EQ(0, kfd_import(&self->dev, theirs.fd, (uintptr_t)va, &handle));
	ASSERT_EQ(0, kfd_map(self->dev.fd, handle, self->dev.gpu_id));

	event.event_page_offset = handle;
	EXPECT_ANSWER(event_page_bad, event_create_args(&self->dev, &event));

	kfd_queue_args(&self->dev, &self->queue.ring, &self->queue.pointers, &args);
	args.read_pointer_address = (uintptr_t)va;
	EXPECT_EQ(EINVAL, kfd_ioctl(self->dev.fd, AMDKFD_IOC_CREATE_QUEUE, &args));
	/* The process writes the other pointer. */
	args.read_pointer_address = (uintptr_t)self->queue.pointers.cpu + KFD_QUEUE_RPTR;
	args.write_pointer_address = (uintptr_t)va;
	EXPECT_EQ(0, kfd_ioctl(self->dev.fd, AMDKFD_IOC_CREATE_QUEUE, &args));
	EXPECT_EQ(0, kfd_destroy_queue(self->dev.fd, args.queue_id));

	EXPECT_EQ(0, kfd_unmap(self->dev.fd, handle, self->dev.gpu_id));
	EXPECT_EQ(0, kfd_free(self->dev.fd, handle));
	munmap(va, SIZE);
	EXPECT_TRUE(take_back(&theirs));
}

/*
 * A handle of the render node could be mapped for writing, and so could the offset of such a
 * handle.
 */
TEST_F(sharing, read_only_at_the_render_node)
{
	struct exporter theirs;
	uint32_t handle;
	uint64_t kfd;
	void *p;

	if (!kfd_is_rkfd())
		SKIP(return, "amdgpu does not look at it");
	ASSERT_EQ(0, export_read_only(&self->dev, &theirs));
	EXPECT_EQ(EACCES, drm_fd_to_handle(self->dev.drm_fd, theirs.fd, &handle));
	EXPECT_EQ(EACCES, kfd_mmap(self->dev.drm_fd, SIZE, theirs.offset, &p));
	ASSERT_EQ(0, kfd_import(&self->dev, theirs.fd, 0, &kfd));
	EXPECT_EQ(EACCES, kfd_mmap(self->dev.drm_fd, SIZE, theirs.offset, &p));
	EXPECT_EQ(0, kfd_free(self->dev.fd, kfd));
	/* The exporter gets its own handle. */
	EXPECT_EQ(0, drm_fd_to_handle(theirs.drm_fd, theirs.fd, &handle));
	EXPECT_EQ(theirs.handle, handle);
	EXPECT_TRUE(take_back(&theirs));
}

/* A buffer that was imported for reading only stays so, even after its dma-buf is gone. */
TEST_F(sharing, read_only_stays_so)
{
	struct exporter theirs;
	uint64_t handle;
	int fd;

	if (!kfd_is_rkfd())
		SKIP(return, "amdkfd does not look at it");
	ASSERT_EQ(0, export_read_only(&self->dev, &theirs));
	ASSERT_EQ(0, kfd_import(&self->dev, theirs.fd, 0, &handle));
	ASSERT_EQ(0, kfd_export(&self->dev, handle, 0, &fd));
	EXPECT_EQ(fd_inode(theirs.fd), fd_inode(fd));
	EXPECT_EQ(O_RDONLY, fcntl(fd, F_GETFL) & O_ACCMODE);
	close(fd);
	/*
	 * With its handle the owner lets go of the dma-buf; the next one belongs to the
	 * read-only importer.
	 */
	EXPECT_EQ(0, drm_gem_close(theirs.drm_fd, theirs.handle));
	close(theirs.drm_fd);
	close(theirs.fd);
	ASSERT_EQ(0, kfd_export(&self->dev, handle, 0, &fd));
	EXPECT_EQ(O_RDONLY, fcntl(fd, F_GETFL) & O_ACCMODE);
	EXPECT_EQ(0, kfd_free(self->dev.fd, handle));
	close(fd);
}

KFD_HARNESS_MAIN
