// SPDX-License-Identifier: GPL-2.0
/* ALLOC, FREE, MAP and UNMAP of memory, with good input and bad. */
#include <sys/mman.h>

#include "kfd_harness.h"
#include "kfd_dmabuf.h"
#include "tap.h"

#define MIB	(1ull << 20)

KFD_FIXTURE(memory)

/* Arguments of a good allocation of one page, for a test to spoil. */
static struct kfd_ioctl_alloc_memory_of_gpu_args good(const struct kfd_dev *dev,
						      uint32_t flags)
{
	return (struct kfd_ioctl_alloc_memory_of_gpu_args){
		.va_addr = (uintptr_t)kfd_reserve(2 * MIB, 2 * MIB),
		.size = KFD_PAGE,
		.gpu_id = dev->gpu_id,
		.flags = flags,
	};
}

static uint64_t vram_size(const struct kfd_dev *dev)
{
	char file[256];
	uint64_t size = 0;

	snprintf(file, sizeof(file),
		 KFD_TOPOLOGY "/nodes/%u/mem_banks/0/properties", dev->node);
	kfd_property(file, "size_in_bytes", &size);
	return size;
}

TEST_F(memory, kinds_and_sizes)
{
	static const uint32_t kinds[] = {
		KFD_ALLOC_VRAM, KFD_ALLOC_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_CONTIGUOUS,
		KFD_ALLOC_GTT, KFD_ALLOC_USERPTR,
	};
	static const size_t sizes[] = { KFD_PAGE, 3 * KFD_PAGE, 2 * MIB, 5 * MIB };
	unsigned int k, s;

	for (k = 0; k < ARRAY_SIZE(kinds); k++) {
		for (s = 0; s < ARRAY_SIZE(sizes); s++) {
			struct kfd_bo bo;
			volatile uint64_t *last;

			ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, sizes[s], kinds[k])) {
				TH_LOG("flags 0x%x, %zu bytes", kinds[k], sizes[s]);
			}
			EXPECT_NE(0, bo.handle);
			last = (uint64_t *)((char *)bo.cpu + sizes[s]) - 1;
			*last = 0x1122334455667788;
			EXPECT_EQ(0x1122334455667788, *last);
			EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
		}
	}
}

/* New memory is cleared, even if another process had it a moment ago. */
TEST_F(memory, vram_is_zeroed)
{
	const size_t size = 8 * MIB;
	unsigned int round;

	for (round = 0; round < 3; round++) {
		struct kfd_bo bo;
		uint64_t *p, or = 0;
		size_t i;

		ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, size, KFD_ALLOC_VRAM));
		p = bo.cpu;
		for (i = 0; i < size / sizeof(*p); i++)
			or |= p[i];
		EXPECT_EQ(0, or);
		memset(bo.cpu, 0xa5, size);
		ASSERT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
	}
}

/* libhsakmt maps VRAM without PUBLIC too, with no access. */
TEST_F(memory, vram_without_cpu_access)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args =
		good(&self->dev, KFD_ALLOC_RW | KFD_IOC_ALLOC_MEM_FLAGS_VRAM);
	void *p;

	ASSERT_EQ(0, kfd_alloc(self->dev.fd, &args));
	p = mmap((void *)args.va_addr, args.size, PROT_NONE, MAP_SHARED | MAP_FIXED,
		 self->dev.drm_fd, (off_t)args.mmap_offset);
	EXPECT_EQ((void *)args.va_addr, p);
	EXPECT_EQ(0, kfd_map(self->dev.fd, args.handle, self->dev.gpu_id));
	EXPECT_EQ(0, kfd_unmap(self->dev.fd, args.handle, self->dev.gpu_id));
	EXPECT_EQ(0, kfd_free(self->dev.fd, args.handle));
}

/* VRAM without an address cannot be mapped, but it can be exported, and imported at an address. */
TEST_F(memory, vram_without_address)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = good(&self->dev, KFD_ALLOC_VRAM);
	struct kfd_bo bo;
	int fd;

	args.va_addr = 0;
	ASSERT_EQ(0, kfd_alloc(self->dev.fd, &args));
	EXPECT_EQ(EINVAL, kfd_map(self->dev.fd, args.handle, self->dev.gpu_id));
	ASSERT_EQ(0, kfd_export(&self->dev, args.handle, 0, &fd));
	ASSERT_EQ(0, kfd_bo_import(&self->dev, &bo, fd, args.size));
	close(fd);
	EXPECT_EQ(0, kfd_free(self->dev.fd, args.handle));
	*(uint32_t *)bo.cpu = 42;
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
	if (kfd_is_rkfd()) {
		args = good(&self->dev, KFD_ALLOC_GTT);
		args.va_addr = 0;
		EXPECT_EQ(EINVAL, kfd_alloc(self->dev.fd, &args));
	}
}

TEST_F(memory, map_again_and_unmap_again)
{
	struct kfd_bo bo;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, KFD_PAGE, KFD_ALLOC_VRAM));
	EXPECT_EQ(0, kfd_map(self->dev.fd, bo.handle, self->dev.gpu_id));
	EXPECT_EQ(0, kfd_unmap(self->dev.fd, bo.handle, self->dev.gpu_id));
	EXPECT_EQ(0, kfd_map(self->dev.fd, bo.handle, self->dev.gpu_id));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
}

TEST_F(memory, alloc_unknown_gpu)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = good(&self->dev, KFD_ALLOC_GTT);

	args.gpu_id ^= 1;
	EXPECT_ANSWER(unknown_gpu, kfd_alloc(self->dev.fd, &args));
	args.gpu_id = 0;
	EXPECT_ANSWER(unknown_gpu, kfd_alloc(self->dev.fd, &args));
}

TEST_F(memory, alloc_bad_sizes)
{
	static const uint32_t kinds[] = {
		KFD_ALLOC_VRAM, KFD_ALLOC_GTT, KFD_ALLOC_USERPTR,
	};
	unsigned int k;

	for (k = 0; k < ARRAY_SIZE(kinds); k++) {
		struct kfd_ioctl_alloc_memory_of_gpu_args args =
			good(&self->dev, kinds[k]);

		args.mmap_offset = args.va_addr;
		args.size = 0;
		EXPECT_ANSWER(size_zero, kfd_alloc(self->dev.fd, &args));
		/* The end of the range wraps around. */
		args.size = UINT64_MAX & ~(uint64_t)(KFD_PAGE - 1);
		EXPECT_NE(0, kfd_alloc(self->dev.fd, &args));
		args.size = 1ull << 63;
		EXPECT_NE(0, kfd_alloc(self->dev.fd, &args));
		args.size = 1ull << 48;
		EXPECT_NE(0, kfd_alloc(self->dev.fd, &args));
	}
}

/* Sizes are rounded up to whole pages. */
TEST_F(memory, alloc_rounds_sizes_up)
{
	static const uint32_t kinds[] = {
		KFD_ALLOC_VRAM, KFD_ALLOC_GTT, KFD_ALLOC_USERPTR,
	};
	static const size_t sizes[] = { 1, 0x100, KFD_PAGE - 1, KFD_PAGE + 1, 3 * KFD_PAGE - 8 };
	struct kfd_ioctl_alloc_memory_of_gpu_args next = good(&self->dev, KFD_ALLOC_GTT);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sizes) * ARRAY_SIZE(kinds); i++) {
		const size_t size = sizes[i % ARRAY_SIZE(sizes)];
		const size_t whole = (size + KFD_PAGE - 1) / KFD_PAGE * KFD_PAGE;
		struct kfd_bo bo;

		TH_LOG("%zu bytes, flags %#x", size, kinds[i / ARRAY_SIZE(sizes)]);
		ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, size,
					   kinds[i / ARRAY_SIZE(sizes)]));
		((volatile uint8_t *)bo.cpu)[whole - 1] = 0x11;
		EXPECT_EQ(0x11, ((volatile uint8_t *)bo.cpu)[whole - 1]);
		/* The last page is mapped, and no page after it. */
		next.va_addr = (uintptr_t)bo.cpu + whole - KFD_PAGE;
		ASSERT_EQ(0, kfd_alloc(self->dev.fd, &next));
		EXPECT_NE(0, kfd_map(self->dev.fd, next.handle, self->dev.gpu_id));
		EXPECT_EQ(0, kfd_free(self->dev.fd, next.handle));
		next.va_addr = (uintptr_t)bo.cpu + whole;
		ASSERT_EQ(0, kfd_alloc(self->dev.fd, &next));
		EXPECT_EQ(0, kfd_map(self->dev.fd, next.handle, self->dev.gpu_id));
		EXPECT_EQ(0, kfd_unmap(self->dev.fd, next.handle, self->dev.gpu_id));
		EXPECT_EQ(0, kfd_free(self->dev.fd, next.handle));
		EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
	}
}

/* Bad addresses that amdkfd rejects in a later MAP, rkfd rejects at once. */
TEST_F(memory, alloc_bad_addresses)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = good(&self->dev, KFD_ALLOC_GTT);
	const uint64_t va = args.va_addr;

	if (!kfd_is_rkfd())
		SKIP(return, "amdkfd checks addresses in MAP");
	args.va_addr = va + 8;
	EXPECT_ANSWER(address_overflow, kfd_alloc(self->dev.fd, &args));
	args.va_addr = UINT64_MAX & ~(uint64_t)(KFD_PAGE - 1);
	EXPECT_ANSWER(address_overflow, kfd_alloc(self->dev.fd, &args));
	args.va_addr = (1ull << 47) - KFD_PAGE;
	args.size = 2 * KFD_PAGE;
	EXPECT_ANSWER(address_overflow, kfd_alloc(self->dev.fd, &args));
	/* Below the GPU's aperture. */
	args.va_addr = KFD_PAGE;
	args.size = KFD_PAGE;
	EXPECT_ANSWER(address_overflow, kfd_alloc(self->dev.fd, &args));
}

TEST_F(memory, alloc_bad_flags)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = good(&self->dev, KFD_ALLOC_RW);

	EXPECT_ANSWER(no_memory_type, kfd_alloc(self->dev.fd, &args));
	args.flags = KFD_ALLOC_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT;
	EXPECT_ANSWER(two_memory_types, kfd_alloc(self->dev.fd, &args));
	args.flags = KFD_ALLOC_GTT | KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM;
	args.size = 2 * KFD_PAGE;
	EXPECT_ANSWER(ring_twice, kfd_alloc(self->dev.fd, &args));
}

/* Flags that have no meaning yet are ignored. */
TEST_F(memory, alloc_unknown_flags)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args =
		good(&self->dev, KFD_ALLOC_GTT | 1u << 5 | 1u << 10 | 1u << 22);

	ASSERT_EQ(0, kfd_alloc(self->dev.fd, &args));
	EXPECT_EQ(0, kfd_map(self->dev.fd, args.handle, self->dev.gpu_id));
	EXPECT_EQ(0, kfd_unmap(self->dev.fd, args.handle, self->dev.gpu_id));
	EXPECT_EQ(0, kfd_free(self->dev.fd, args.handle));
}

TEST_F(memory, alloc_more_than_there_is)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = good(&self->dev, KFD_ALLOC_VRAM);
	const uint64_t vram = vram_size(&self->dev);
	struct kfd_bo bo;

	ASSERT_NE(0, vram);
	args.va_addr = 1ull << 40;
	args.size = vram + 2 * MIB;
	EXPECT_ANSWER(more_than_vram, kfd_alloc(self->dev.fd, &args));
	/* The attempt does not lose the buffer. */
	EXPECT_EQ(0, kfd_bo_create(&self->dev, &bo, 2 * MIB, KFD_ALLOC_VRAM));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
}

TEST_F(memory, special_kinds_have_one_size)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args =
		good(&self->dev, KFD_ALLOC_RW | KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL);

	args.size = KFD_PAGE;
	EXPECT_ANSWER(size_wrong, kfd_alloc(self->dev.fd, &args));
	args.size = 2 * KFD_DOORBELL_SLICE;
	EXPECT_ANSWER(size_wrong, kfd_alloc(self->dev.fd, &args));
	args.size = KFD_DOORBELL_SLICE;
	ASSERT_EQ(0, kfd_alloc(self->dev.fd, &args));
	EXPECT_EQ(0, kfd_free(self->dev.fd, args.handle));

	args = good(&self->dev, KFD_ALLOC_RW | KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP);
	args.size = 2 * KFD_PAGE;
	EXPECT_ANSWER(size_wrong, kfd_alloc(self->dev.fd, &args));
	args.size = KFD_PAGE;
	ASSERT_EQ(0, kfd_alloc(self->dev.fd, &args));
	EXPECT_EQ(KFD_OFFSET_MMIO | KFD_OFFSET_GPU(self->dev.gpu_id), args.mmap_offset);
	EXPECT_EQ(0, kfd_free(self->dev.fd, args.handle));
}

TEST_F(memory, userptr_bad_pages)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args =
		good(&self->dev, KFD_ALLOC_USERPTR);
	void *read_only;

	/* Reserved addresses without memory. */
	args.mmap_offset = args.va_addr;
	EXPECT_ANSWER(userptr_nothing_there, kfd_alloc(self->dev.fd, &args));
	args.mmap_offset = 0;
	EXPECT_NE(0, kfd_alloc(self->dev.fd, &args));
	args.mmap_offset = 0xffff800000000000;
	EXPECT_NE(0, kfd_alloc(self->dev.fd, &args));

	read_only = mmap(NULL, KFD_PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, read_only);
	args.mmap_offset = (uintptr_t)read_only;
	EXPECT_NE(0, kfd_alloc(self->dev.fd, &args));
}

/* The GPU's address may differ from the CPU's. */
TEST_F(memory, userptr_at_other_address)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args =
		good(&self->dev, KFD_ALLOC_USERPTR);
	void *pages = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT_NE(MAP_FAILED, pages);
	args.mmap_offset = (uintptr_t)pages;
	ASSERT_EQ(0, kfd_alloc(self->dev.fd, &args));
	EXPECT_EQ(0, kfd_map(self->dev.fd, args.handle, self->dev.gpu_id));
	EXPECT_EQ(0, kfd_unmap(self->dev.fd, args.handle, self->dev.gpu_id));
	EXPECT_EQ(0, kfd_free(self->dev.fd, args.handle));
}

/* An address inside a page stands for the page. */
TEST_F(memory, userptr_inside_page)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args =
		good(&self->dev, KFD_ALLOC_USERPTR);
	uint8_t *pages = mmap(NULL, 2 * KFD_PAGE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT_NE(MAP_FAILED, pages);
	args.mmap_offset = (uintptr_t)pages + 0x80;
	args.size = 0x100;
	ASSERT_EQ(0, kfd_alloc(self->dev.fd, &args));
	EXPECT_EQ(0, kfd_map(self->dev.fd, args.handle, self->dev.gpu_id));
	EXPECT_EQ(0, kfd_unmap(self->dev.fd, args.handle, self->dev.gpu_id));
	EXPECT_EQ(0, kfd_free(self->dev.fd, args.handle));
}

/* Two objects cannot be at one address; which call fails is the driver's choice. */
TEST_F(memory, overlap)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a = good(&self->dev, KFD_ALLOC_GTT);
	struct kfd_ioctl_alloc_memory_of_gpu_args b = a;
	int err;

	a.size = 4 * KFD_PAGE;
	b.va_addr += KFD_PAGE;
	ASSERT_EQ(0, kfd_alloc(self->dev.fd, &a));
	ASSERT_EQ(0, kfd_map(self->dev.fd, a.handle, self->dev.gpu_id));
	err = kfd_alloc(self->dev.fd, &b);
	if (!err)
		err = kfd_map(self->dev.fd, b.handle, self->dev.gpu_id);
	EXPECT_NE(0, err);
	EXPECT_EQ(0, kfd_unmap(self->dev.fd, a.handle, self->dev.gpu_id));
	EXPECT_EQ(0, kfd_free(self->dev.fd, a.handle));
}

TEST_F(memory, free_bad_handles)
{
	const uint64_t gpu = (uint64_t)self->dev.gpu_id << 32;
	struct kfd_bo bo;
	uint64_t handle;

	EXPECT_ANSWER(unknown_handle_free, kfd_free(self->dev.fd, 0));
	EXPECT_ANSWER(unknown_handle_free, kfd_free(self->dev.fd, UINT64_MAX));
	EXPECT_ANSWER(unknown_handle_free, kfd_free(self->dev.fd, gpu | 12345));

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, KFD_PAGE, KFD_ALLOC_VRAM));
	handle = bo.handle;
	ASSERT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
	EXPECT_ANSWER(unknown_handle_free, kfd_free(self->dev.fd, handle));
	EXPECT_ANSWER(unknown_handle_map,
		      kfd_map(self->dev.fd, handle, self->dev.gpu_id));
	EXPECT_ANSWER(unknown_handle_map,
		      kfd_unmap(self->dev.fd, handle, self->dev.gpu_id));
}

TEST_F(memory, free_while_mapped)
{
	struct kfd_bo bo;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, KFD_PAGE, KFD_ALLOC_VRAM));
	EXPECT_ANSWER(free_while_mapped, kfd_free(self->dev.fd, bo.handle));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
}

static int map_args(const struct kfd_dev *dev, uint64_t handle,
		    const uint32_t *ids, uint32_t devices, uint32_t success,
		    bool map)
{
	struct kfd_ioctl_map_memory_to_gpu_args args = {
		.handle = handle,
		.device_ids_array_ptr = (uintptr_t)ids,
		.n_devices = devices,
		.n_success = success,
	};

	return kfd_ioctl(dev->fd, map ? AMDKFD_IOC_MAP_MEMORY_TO_GPU :
			 AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &args);
}

FIXTURE(map)
{
	struct kfd_dev dev;
	struct kfd_bo bo;
};

FIXTURE_VARIANT(map)
{
	bool map;
};

FIXTURE_VARIANT_ADD(map, map) { .map = true };
FIXTURE_VARIANT_ADD(map, unmap) { .map = false };

FIXTURE_SETUP(map)
{
	ASSERT_EQ(0, kfd_open(&self->dev));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &self->bo, KFD_PAGE, KFD_ALLOC_VRAM));
}

FIXTURE_TEARDOWN(map)
{
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &self->bo));
	kfd_close(&self->dev);
}

TEST_F(map, bad_device_lists)
{
	const struct kfd_dev *dev = &self->dev;
	const uint64_t handle = self->bo.handle;
	const uint32_t good_id = dev->gpu_id, bad_id = dev->gpu_id ^ 1;
	const bool map = variant->map;

	EXPECT_ANSWER(map_no_devices, map_args(dev, handle, &good_id, 0, 0, map));
	EXPECT_ANSWER(map_success_beyond, map_args(dev, handle, &good_id, 1, 2, map));
	EXPECT_ANSWER(map_bad_array, map_args(dev, handle, NULL, 1, 0, map));
	EXPECT_ANSWER(unknown_gpu, map_args(dev, handle, &bad_id, 1, 0, map));
	EXPECT_ANSWER(map_huge_array,
		      map_args(dev, handle, &good_id, UINT32_MAX, 0, map));
}

TEST_F(map, success_count)
{
	struct kfd_ioctl_map_memory_to_gpu_args args = {
		.handle = self->bo.handle,
		.device_ids_array_ptr = (uintptr_t)&self->dev.gpu_id,
		.n_devices = 1,
	};

	ASSERT_EQ(0, kfd_ioctl(self->dev.fd, variant->map ?
			       AMDKFD_IOC_MAP_MEMORY_TO_GPU :
			       AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &args));
	EXPECT_EQ(1, args.n_success);
	/* All done already: nothing to do, no error. */
	EXPECT_EQ(0, map_args(&self->dev, self->bo.handle, &self->dev.gpu_id, 1, 1,
			      variant->map));
	/* The teardown expects this. */
	EXPECT_EQ(0, kfd_map(self->dev.fd, self->bo.handle, self->dev.gpu_id));
}

/* Nothing of this is freed by the process: the kernel must do it when the process ends. */
TEST_F(memory, left_to_the_kernel)
{
	struct kfd_bo bo[16];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bo); i++)
		ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo[i], (i + 1) * 64 * 1024,
					   i & 1 ? KFD_ALLOC_VRAM : KFD_ALLOC_USERPTR));
}

/* More handles than a table in contiguous pages holds, and too many to scan for each that goes. */
TEST_F(memory, many_left_to_the_kernel)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args =
		good(&self->dev, KFD_ALLOC_RW | KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP);
	const unsigned int count = work(70000, 5000);
	unsigned int i;

	for (i = 0; i < count; i++)
		ASSERT_EQ(0, kfd_alloc(self->dev.fd, &args));
}

KFD_HARNESS_MAIN
