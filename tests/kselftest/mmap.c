// SPDX-License-Identifier: GPL-2.0
/* mmap() of /dev/kfd and of the render node. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "kfd_harness.h"

KFD_FIXTURE(mmap)

static int map_and_drop(int fd, size_t length, uint64_t offset)
{
	void *p;
	int err = kfd_mmap(fd, length, offset, &p);

	if (!err)
		munmap(p, length);
	return err;
}

TEST_F(mmap, doorbells)
{
	const uint64_t offset = KFD_OFFSET_DOORBELL | KFD_OFFSET_GPU(self->dev.gpu_id);
	struct kfd_queue queue;

	/* Only a process that has, or had, a queue has doorbells. */
	ASSERT_EQ(0, kfd_queue_create(&self->dev, &queue, KFD_PAGE));
	EXPECT_EQ(0, map_and_drop(self->dev.fd, KFD_DOORBELL_SLICE, offset));
	EXPECT_ANSWER(mmap_length,
		      map_and_drop(self->dev.fd, KFD_PAGE, offset));
	EXPECT_ANSWER(mmap_length,
		      map_and_drop(self->dev.fd, 2 * KFD_DOORBELL_SLICE, offset));
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &queue));
}

/*
 * A container's /dev is a file system of its own, which may be unmounted before the process
 * ends.
 */
TEST_F(mmap, doorbells_by_another_file)
{
	const uint64_t offset = KFD_OFFSET_DOORBELL | KFD_OFFSET_GPU(self->dev.gpu_id);
	char dir[] = "/tmp/rkfd-XXXXXX", path[64];
	struct kfd_dev other = self->dev;
	struct kfd_queue queue;
	struct stat node;
	void *slice;

	ASSERT_EQ(0, stat(KFD_PATH, &node));
	ASSERT_NE(NULL, mkdtemp(dir));
	if (mount("none", dir, "tmpfs", 0, NULL)) {
		rmdir(dir);
		SKIP(return, "nothing can be mounted");
	}
	snprintf(path, sizeof(path), "%s/kfd", dir);
	EXPECT_EQ(0, mknod(path, S_IFCHR | 0600, node.st_rdev));
	other.fd = open(path, O_RDWR | O_CLOEXEC);
	EXPECT_LE(0, other.fd);
	EXPECT_EQ(0, kfd_queue_create(&other, &queue, KFD_PAGE));
	EXPECT_EQ(0, kfd_queue_finish(&queue, 20000));
	/* Both at once, then only the file of the real /dev. */
	EXPECT_EQ(0, kfd_mmap(self->dev.fd, KFD_DOORBELL_SLICE, offset, &slice));
	munmap(queue.slice, KFD_DOORBELL_SLICE);
	queue.doorbell = (volatile uint64_t *)((char *)slice +
			 ((char *)queue.doorbell - (char *)queue.slice));
	queue.slice = slice;
	close(other.fd);
	EXPECT_EQ(0, umount(dir));
	rmdir(dir);
	EXPECT_EQ(0, kfd_queue_finish(&queue, 20000));
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &queue));
}

TEST_F(mmap, unknown_gpu)
{
	const uint64_t wrong = KFD_OFFSET_GPU(self->dev.gpu_id ^ 1);

	EXPECT_ANSWER(mmap_unknown_gpu,
		      map_and_drop(self->dev.fd, KFD_DOORBELL_SLICE,
				   KFD_OFFSET_DOORBELL | wrong));
	EXPECT_ANSWER(mmap_unknown_gpu,
		      map_and_drop(self->dev.fd, KFD_DOORBELL_SLICE,
				   KFD_OFFSET_DOORBELL));
	EXPECT_ANSWER(mmap_unknown_gpu,
		      map_and_drop(self->dev.fd, KFD_PAGE, KFD_OFFSET_MMIO | wrong));
	EXPECT_ANSWER(mmap_unknown_gpu, map_and_drop(self->dev.fd, KFD_PAGE, 0));
}

TEST_F(mmap, types)
{
	const uint64_t gpu = KFD_OFFSET_GPU(self->dev.gpu_id);

	EXPECT_ANSWER(mmap_reserved_type,
		      map_and_drop(self->dev.fd, KFD_PAGE, KFD_OFFSET_RESERVED | gpu));
	EXPECT_ANSWER(mmap_no_event_page,
		      map_and_drop(self->dev.fd, 3 * KFD_PAGE, KFD_OFFSET_EVENTS | gpu));
}

TEST_F(mmap, remapped_registers)
{
	const uint64_t offset = KFD_OFFSET_MMIO | KFD_OFFSET_GPU(self->dev.gpu_id);
	volatile uint32_t *flush;
	void *p;

	EXPECT_ANSWER(mmap_length, map_and_drop(self->dev.fd, 2 * KFD_PAGE, offset));
	ASSERT_EQ(0, kfd_mmap(self->dev.fd, KFD_PAGE, offset, &p));
	/* HDP_MEM_FLUSH_CNTL: a client writes it before the GPU reads. */
	flush = p;
	flush[0] = 1;
	munmap(p, KFD_PAGE);
}

TEST_F(mmap, buffer_wrong_offset_or_length)
{
	struct kfd_bo bo;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, 2 * KFD_PAGE, KFD_ALLOC_VRAM));
	EXPECT_EQ(0, map_and_drop(self->dev.drm_fd, bo.size, bo.mmap_offset));
	EXPECT_ANSWER(mmap_no_such_buffer,
		      map_and_drop(self->dev.drm_fd, bo.size + KFD_PAGE, bo.mmap_offset));
	EXPECT_ANSWER(mmap_no_such_buffer,
		      map_and_drop(self->dev.drm_fd, bo.size, bo.mmap_offset + KFD_PAGE));
	EXPECT_ANSWER(mmap_no_such_buffer,
		      map_and_drop(self->dev.drm_fd, KFD_PAGE, 0));
	EXPECT_ANSWER(mmap_no_such_buffer,
		      map_and_drop(self->dev.drm_fd, KFD_PAGE, bo.mmap_offset + (1ull << 40)));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
}

TEST_F(mmap, buffer_gone)
{
	struct kfd_bo bo;
	uint64_t offset;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, KFD_PAGE, KFD_ALLOC_GTT));
	offset = bo.mmap_offset;
	ASSERT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
	EXPECT_ANSWER(mmap_no_such_buffer,
		      map_and_drop(self->dev.drm_fd, KFD_PAGE, offset));
}

/* A second open of the render node has no right to the first one's buffers. */
TEST_F(mmap, buffer_of_other_file)
{
	struct kfd_bo bo;
	int other;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, KFD_PAGE, KFD_ALLOC_VRAM));
	ASSERT_EQ(0, kfd_open_render(&self->dev, &other));
	EXPECT_ANSWER(mmap_foreign_buffer, map_and_drop(other, KFD_PAGE, bo.mmap_offset));
	close(other);
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
}

/* A mapping outlives the handle: the pages stay until it is gone. */
TEST_F(mmap, mapping_outlives_handle)
{
	struct kfd_bo bo;
	volatile uint32_t *p;
	void *second;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, KFD_PAGE, KFD_ALLOC_VRAM));
	ASSERT_EQ(0, kfd_mmap(self->dev.drm_fd, KFD_PAGE, bo.mmap_offset, &second));
	p = second;
	p[5] = 42;
	ASSERT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
	EXPECT_EQ(42, p[5]);
	munmap(second, KFD_PAGE);
}

/*
 * A debugger's access: it reads and writes the memory of a process without the process's page
 * tables.
 */
static void check_access(struct __test_metadata *_metadata, const struct kfd_dev *dev,
			 uint32_t flags)
{
	static const char text[] = "across the end of a page";
	char back[sizeof(text)] = "";
	struct kfd_bo bo;
	int memory;
	off_t at;
	void *p;

	ASSERT_EQ(0, kfd_bo_create(dev, &bo, 4 * KFD_PAGE, flags));
	memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, memory);
	at = (off_t)(uintptr_t)bo.cpu + 2 * KFD_PAGE - 11;
	/* The pages have not been touched yet. */
	EXPECT_EQ(sizeof(text), pwrite(memory, text, sizeof(text), at));
	EXPECT_EQ(0, strcmp((char *)bo.cpu + 2 * KFD_PAGE - 11, text));
	((char *)bo.cpu)[2 * KFD_PAGE] = 'X';
	EXPECT_EQ(sizeof(back), pread(memory, back, sizeof(back), at));
	EXPECT_EQ(0, memcmp(back, text, 11));
	EXPECT_EQ('X', back[11]);
	EXPECT_EQ(0, strcmp(back + 12, text + 12));
	/* libhsakmt maps memory that the CPU must not touch this way, for debuggers alone. */
	p = mmap(NULL, bo.size, PROT_NONE, MAP_SHARED, dev->drm_fd, (off_t)bo.mmap_offset);
	ASSERT_NE(MAP_FAILED, p);
	EXPECT_EQ(1, pwrite(memory, "x", 1, (off_t)(uintptr_t)p));
	EXPECT_EQ('x', *(volatile char *)bo.cpu);
	EXPECT_EQ(1, pread(memory, back, 1, (off_t)(uintptr_t)p));
	EXPECT_EQ('x', back[0]);
	munmap(p, bo.size);
	/* Not where the process itself cannot make it writable either. */
	p = mmap(NULL, bo.size, PROT_NONE, MAP_PRIVATE, dev->drm_fd, (off_t)bo.mmap_offset);
	ASSERT_NE(MAP_FAILED, p);
	EXPECT_EQ(-1, mprotect(p, bo.size, PROT_WRITE));
	if (kfd_is_rkfd())
		EXPECT_EQ(-1, pwrite(memory, "y", 1, (off_t)(uintptr_t)p));
	EXPECT_EQ(1, pread(memory, back, 1, (off_t)(uintptr_t)p));
	EXPECT_EQ('x', back[0]);
	munmap(p, bo.size);
	close(memory);
	EXPECT_EQ(0, kfd_bo_destroy(dev, &bo));
}

TEST_F(mmap, debugger_of_vram)
{
	check_access(_metadata, &self->dev, KFD_ALLOC_VRAM);
}

TEST_F(mmap, debugger_of_gtt)
{
	check_access(_metadata, &self->dev, KFD_ALLOC_GTT);
}

KFD_HARNESS_MAIN
