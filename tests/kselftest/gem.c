// SPDX-License-Identifier: GPL-2.0
/* Buffers by GEM handle, as libdrm_amdgpu creates, maps, places and describes them. */
#include <sys/mman.h>

#include <drm/amdgpu_drm.h>
#include <drm/drm.h>

#include "kfd_harness.h"
#include "kfd_dmabuf.h"
#include "objects.h"
#include "tap.h"

#define SIZE		(256u * 1024)
#define RING		(64u * 1024)
#define TIMEOUT_MS	KFD_HANG_MS
#define ACCESS		(AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE | \
			 AMDGPU_VM_PAGE_EXECUTABLE)

FIXTURE(gem)
{
	struct kfd_dev dev;
	struct kfd_queue queue;
	char base[OBJECTS_MAX];
};

FIXTURE_VARIANT(gem)
{
	uint64_t domain;
	uint32_t info;
};

FIXTURE_VARIANT_ADD(gem, vram)
{
	.domain = AMDGPU_GEM_DOMAIN_VRAM,
	.info = KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC,
};

FIXTURE_VARIANT_ADD(gem, gtt)
{
	.domain = AMDGPU_GEM_DOMAIN_GTT,
	.info = KFD_IOC_ALLOC_MEM_FLAGS_GTT,
};

FIXTURE_SETUP(gem)
{
	ASSERT_TRUE(objects_base(self->base, 0));
	ASSERT_EQ(0, kfd_open(&self->dev));
	ASSERT_EQ(0, kfd_queue_create(&self->dev, &self->queue, RING));
}

FIXTURE_TEARDOWN(gem)
{
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &self->queue));
	kfd_close(&self->dev);
	EXPECT_TRUE(objects_return_to(self->base, KFD_HANG_MS));
}

static int map_cpu(int drm_fd, uint32_t handle, size_t size, void **p)
{
	union drm_amdgpu_gem_mmap args = { .in = { .handle = handle } };
	int err = kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_GEM_MMAP, &args);

	return err ? err : kfd_mmap(drm_fd, size, args.out.addr_ptr, p);
}

static int place(int drm_fd, uint32_t operation, uint32_t handle, uint64_t va, uint64_t offset,
		 uint64_t size)
{
	struct drm_amdgpu_gem_va args = {
		.handle = handle,
		.operation = operation,
		.flags = ACCESS,
		.va_address = va,
		.offset_in_bo = offset,
		.map_size = size,
	};

	return kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_GEM_VA, &args);
}

static int map(int drm_fd, uint32_t handle, uint64_t va, uint64_t offset, uint64_t size)
{
	return place(drm_fd, AMDGPU_VA_OP_MAP, handle, va, offset, size);
}

static int unmap(int drm_fd, uint32_t handle, uint64_t va, uint64_t size)
{
	return place(drm_fd, AMDGPU_VA_OP_UNMAP, handle, va, 0, size);
}

static int gpu_fill(struct kfd_queue *queue, uint64_t dst, uint32_t value, size_t bytes)
{
	return kfd_queue_fill(queue, dst, value, bytes, TIMEOUT_MS);
}

TEST_F(gem, cpu_and_gpu)
{
	const uint64_t va = (uintptr_t)kfd_reserve(2 * SIZE, SIZE);
	const int fd = self->dev.drm_fd;
	uint32_t handle, other;
	void *p;

	ASSERT_NE(0, va);
	ASSERT_EQ(0, drm_gem_create(fd, SIZE, variant->domain, 0, &handle));
	ASSERT_EQ(0, map_cpu(fd, handle, SIZE, &p));
	/* Memory comes without its previous owner's content. */
	EXPECT_EQ(0, unequal(p, 0, SIZE));
	ASSERT_EQ(0, map(fd, handle, va, 0, SIZE));
	EXPECT_EQ(0, gpu_fill(&self->queue, va, 0x1111, SIZE));
	EXPECT_EQ(0, unequal(p, 0x1111, SIZE));

	/* The second half once more, behind the first mapping. */
	ASSERT_EQ(0, map(fd, handle, va + SIZE, SIZE / 2, SIZE / 2));
	EXPECT_EQ(0, gpu_fill(&self->queue, va + SIZE, 0x2222, SIZE / 2));
	EXPECT_EQ(0, unequal(p, 0x1111, SIZE / 2));
	EXPECT_EQ(0, unequal((char *)p + SIZE / 2, 0x2222, SIZE / 2));

	/* Mappings cannot overlap, and an unmapped place is unmapped. */
	ASSERT_EQ(0, drm_gem_create(fd, SIZE, variant->domain, 0, &other));
	EXPECT_ANSWER(gem_va_overlap, map(fd, other, va + SIZE / 2, 0, SIZE));
	EXPECT_EQ(ENOENT, unmap(fd, other, va, SIZE));
	EXPECT_EQ(0, unmap(fd, handle, va, SIZE));
	EXPECT_EQ(ENOENT, unmap(fd, handle, va, SIZE));
	ASSERT_EQ(0, map(fd, other, va, 0, SIZE));
	/*
	 * amdgpu flushes nothing here when the CPU writes its tables: the GPU may continue at
	 * the first buffer.
	 */
	SKIP_ON_AMDKFD("no flush between two buffers at one place");
	EXPECT_EQ(0, gpu_fill(&self->queue, va, 0x3333, SIZE));
	EXPECT_EQ(0, unequal(p, 0x1111, SIZE / 2));

	/* Closing a handle ends its mappings. */
	EXPECT_EQ(0, drm_gem_close(fd, other));
	ASSERT_EQ(0, map(fd, handle, va, 0, SIZE));
	EXPECT_EQ(0, gpu_fill(&self->queue, va, 0x4444, SIZE));
	EXPECT_EQ(0, unequal(p, 0x4444, SIZE));
	EXPECT_EQ(0, drm_gem_close(fd, handle));
	/* The CPU's mapping keeps the memory. */
	EXPECT_EQ(0, unequal(p, 0x4444, SIZE));
	munmap(p, SIZE);
}

/* From the render node to KFD and back: one buffer, seen through both. */
TEST_F(gem, to_kfd_and_back)
{
	const int fd = self->dev.drm_fd;
	struct kfd_bo bo;
	uint32_t handle, back;
	int buf, out;
	void *p;

	ASSERT_EQ(0, drm_gem_create(fd, SIZE, variant->domain, 0, &handle));
	ASSERT_EQ(0, map_cpu(fd, handle, SIZE, &p));
	ASSERT_EQ(0, drm_handle_to_fd(fd, handle, &buf));
	ASSERT_EQ(0, kfd_bo_import(&self->dev, &bo, buf, SIZE));
	EXPECT_EQ(0, gpu_fill(&self->queue, (uintptr_t)bo.cpu, 0x5555, SIZE));
	EXPECT_EQ(0, unequal(p, 0x5555, SIZE));
	ASSERT_EQ(0, kfd_export(&self->dev, bo.handle, 0, &out));
	EXPECT_EQ(fd_inode(buf), fd_inode(out));
	ASSERT_EQ(0, drm_fd_to_handle(fd, out, &back));
	EXPECT_EQ(handle, back);
	close(out);
	close(buf);
	EXPECT_EQ(0, drm_gem_close(fd, handle));
	munmap(p, SIZE);
	EXPECT_EQ(0, gpu_fill(&self->queue, (uintptr_t)bo.cpu, 0x6666, SIZE));
	EXPECT_EQ(0, unequal(bo.cpu, 0x6666, SIZE));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
}

/* The queries of libdrm about a buffer that it has imported. */
TEST_F(gem, description)
{
	struct drm_amdgpu_gem_metadata note = { .op = AMDGPU_GEM_METADATA_OP_SET_METADATA };
	struct kfd_ioctl_get_dmabuf_info_args info = { 0 };
	union drm_amdgpu_gem_wait_idle idle = { 0 };
	struct drm_amdgpu_gem_op op = { .op = AMDGPU_GEM_OP_GET_GEM_CREATE_INFO };
	struct drm_amdgpu_gem_create_in made;
	const int fd = self->dev.drm_fd;
	uint32_t handle, text[4] = { 0 };
	int buf;

	ASSERT_EQ(0, drm_gem_create(fd, SIZE - 1, variant->domain, AMDGPU_GEM_CREATE_COHERENT,
				    &handle));
	memset(&made, 0, sizeof(made));
	op.handle = handle;
	op.value = (uintptr_t)&made;
	ASSERT_EQ(0, kfd_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_OP, &op));
	EXPECT_EQ(SIZE, made.bo_size);
	EXPECT_EQ(variant->domain, made.domains);
	EXPECT_TRUE(made.domain_flags & AMDGPU_GEM_CREATE_COHERENT);
	op.value = 8;
	EXPECT_EQ(EFAULT, kfd_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_OP, &op));

	idle.in.handle = handle;
	ASSERT_EQ(0, kfd_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_WAIT_IDLE, &idle));
	EXPECT_EQ(0, idle.out.status);

	/* Metadata goes with the buffer. */
	note.handle = handle;
	note.data.flags = 3;
	note.data.tiling_info = 0x1234;
	note.data.data_size_bytes = 12;
	memcpy(note.data.data, "hello world", 12);
	ASSERT_EQ(0, kfd_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_METADATA, &note));
	note.data.data_size_bytes = sizeof(note.data.data) + 1;
	EXPECT_EQ(EINVAL, kfd_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_METADATA, &note));
	memset(&note.data, 0xff, sizeof(note.data));
	note.op = AMDGPU_GEM_METADATA_OP_GET_METADATA;
	ASSERT_EQ(0, kfd_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_METADATA, &note));
	EXPECT_EQ(3, note.data.flags);
	EXPECT_EQ(0x1234, note.data.tiling_info);
	EXPECT_EQ(12, note.data.data_size_bytes);
	EXPECT_STREQ("hello world", (char *)note.data.data);

	ASSERT_EQ(0, drm_handle_to_fd(fd, handle, &buf));
	info.metadata_ptr = (uintptr_t)text;
	info.metadata_size = 11;
	EXPECT_EQ(EINVAL, kfd_dmabuf_info(&self->dev, buf, &info));
	EXPECT_EQ(12, info.metadata_size);
	EXPECT_EQ(0, text[0]);
	ASSERT_EQ(0, kfd_dmabuf_info(&self->dev, buf, &info));
	EXPECT_STREQ("hello world", (char *)text);
	EXPECT_EQ(SIZE, info.size);
	EXPECT_EQ(kfd_info_flags(variant->info), info.flags);
	EXPECT_EQ(self->dev.gpu_id, info.gpu_id);
	info.metadata_ptr = 8;
	EXPECT_EQ(EFAULT, kfd_dmabuf_info(&self->dev, buf, &info));
	close(buf);
	EXPECT_EQ(0, drm_gem_close(fd, handle));
}

/* A buffer that a queue uses stays mapped when its handle is closed, and goes with the queue. */
TEST_F(gem, handle_of_a_ring)
{
	const uint64_t va = (uintptr_t)kfd_reserve(RING, RING);
	const int fd = self->dev.drm_fd;
	struct kfd_queue other = self->queue;
	struct kfd_ioctl_create_queue_args args;
	const uint64_t end = kfd_now_ms() + 2 * TIMEOUT_MS;
	struct kfd_bo pointers;
	long long bos;
	uint32_t handle;
	int err;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &pointers, KFD_PAGE, KFD_ALLOC_GTT));
	memset(pointers.cpu, 0, KFD_PAGE);
	bos = objects_count("bos");
	SKIP_ON_AMDKFD("the place of a ring is not kept");
	ASSERT_EQ(0, drm_gem_create(fd, RING, variant->domain, 0, &handle));
	ASSERT_EQ(0, map_cpu(fd, handle, RING, &other.ring.cpu));
	ASSERT_EQ(0, map(fd, handle, va, 0, RING));
	other.pointers = pointers;
	other.wptr = 0;
	other.fence = 0;
	kfd_queue_args(&self->dev, &other.ring, &pointers, &args);
	args.ring_base_address = va;
	ASSERT_EQ(0, kfd_ioctl(self->dev.fd, AMDKFD_IOC_CREATE_QUEUE, &args));
	other.doorbell = (volatile uint64_t *)((char *)self->queue.slice +
			 (args.doorbell_offset & (KFD_DOORBELL_SLICE - 1)));
	EXPECT_EQ(EBUSY, unmap(fd, handle, va, RING));
	EXPECT_EQ(0, drm_gem_close(fd, handle));
	/* The queue goes on working, and its place is still taken. */
	EXPECT_EQ(0, kfd_queue_finish(&other, TIMEOUT_MS));
	ASSERT_EQ(0, drm_gem_create(fd, RING, variant->domain, 0, &handle));
	EXPECT_EQ(EEXIST, map(fd, handle, va, 0, RING));
	EXPECT_EQ(0, kfd_queue_finish(&other, TIMEOUT_MS));
	EXPECT_EQ(0, kfd_destroy_queue(self->dev.fd, args.queue_id));
	munmap(other.ring.cpu, RING);
	do {
		err = map(fd, handle, va, 0, RING);
	} while (err == EEXIST && kfd_now_ms() < end);
	EXPECT_EQ(0, err);
	EXPECT_EQ(0, drm_gem_close(fd, handle));
	/* The queue's memory is freed a moment after its place. */
	while (objects_count("bos") != bos && kfd_now_ms() < end)
		usleep(1000);
	EXPECT_EQ(bos, objects_count("bos"));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &pointers));
}

TEST_F(gem, bad_input)
{
	const uint64_t va = 0x100000000;
	const int fd = self->dev.drm_fd;
	uint32_t handle, none;
	void *p;

	EXPECT_ANSWER(gem_size_zero, drm_gem_create(fd, 0, variant->domain, 0, &none));
	EXPECT_ANSWER(gem_no_domain, drm_gem_create(fd, SIZE, 0, 0, &none));
	EXPECT_ANSWER(gem_gds, drm_gem_create(fd, SIZE, AMDGPU_GEM_DOMAIN_GDS, 0, &none));
	EXPECT_EQ(EINVAL, drm_gem_create(fd, SIZE, variant->domain | 1ull << 40, 0, &none));
	EXPECT_EQ(EINVAL, drm_gem_create(fd, SIZE, variant->domain, 1ull << 40, &none));
	EXPECT_NE(0, drm_gem_create(fd, UINT64_MAX, variant->domain, 0, &none));
	EXPECT_EQ(ENOMEM, drm_gem_create(fd, 1ull << 46, variant->domain, 0, &none));

	ASSERT_EQ(0, drm_gem_create(fd, SIZE, variant->domain, 0, &handle));
	EXPECT_EQ(ENOENT, map_cpu(fd, handle + 100, SIZE, &p));
	EXPECT_EQ(EINVAL, map_cpu(fd, handle, SIZE + KFD_PAGE, &p));
	EXPECT_EQ(ENOENT, map(fd, handle + 100, va, 0, SIZE));
	EXPECT_EQ(EINVAL, map(fd, handle, va + 1, 0, SIZE));
	EXPECT_EQ(EINVAL, map(fd, handle, va, 1, KFD_PAGE));
	EXPECT_EQ(EINVAL, map(fd, handle, va, 0, 0));
	EXPECT_EQ(EINVAL, map(fd, handle, va, 0, SIZE + KFD_PAGE));
	EXPECT_EQ(EINVAL, map(fd, handle, va, KFD_PAGE, SIZE));
	EXPECT_EQ(EINVAL, map(fd, handle, va, UINT64_MAX - KFD_PAGE + 1, SIZE));
	EXPECT_EQ(EINVAL, map(fd, handle, 0, 0, SIZE));
	EXPECT_EQ(EINVAL, map(fd, handle, 1ull << 47, 0, SIZE));
	EXPECT_EQ(EINVAL, map(fd, handle, UINT64_MAX - SIZE + 1, 0, SIZE));
	EXPECT_EQ(EINVAL, place(fd, 77, handle, va, 0, SIZE));
	/* Left to the close of the file, with a mapping. */
	EXPECT_EQ(0, map(fd, handle, va, 0, SIZE));
}

/*
 * More mappings than a list in contiguous pages holds, and too many to scan the list for each
 * that goes.
 */
TEST_F(gem, many_mappings)
{
	const uint64_t va = 1ull << 40;
	const unsigned int count = work(135000, 5000);
	uint32_t handle;
	unsigned int i;
	int fd;

	if (variant->domain != AMDGPU_GEM_DOMAIN_GTT)
		SKIP(return, "with one kind of memory");
	ASSERT_EQ(0, kfd_open_render(&self->dev, &fd));
	ASSERT_EQ(0, drm_gem_create(fd, KFD_PAGE, variant->domain, 0, &handle));
	for (i = 0; i < count; i++)
		ASSERT_EQ(0, map(fd, handle, va + i * (uint64_t)KFD_PAGE, 0, KFD_PAGE));
	EXPECT_EQ(0, unmap(fd, handle, va + KFD_PAGE, KFD_PAGE));
	EXPECT_EQ(ENOENT, unmap(fd, handle, va + KFD_PAGE, KFD_PAGE));
	EXPECT_EQ(0, drm_gem_close(fd, handle));
	close(fd);
}

KFD_HARNESS_MAIN
