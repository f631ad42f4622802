// SPDX-License-Identifier: GPL-2.0
/*
 * What a file of the render node can ask of its buffers, memory of the process among them, and the
 * reservation of its VMID. Some of it is younger than the headers of the guest's system.
 */
#include <fcntl.h>
#include <unistd.h>

#include "cs_fixture.h"

#define PLACE_VA	0x30000000ull
#define SIZE		(64u * 1024)
#define ALL_FLAGS	(AMDGPU_GEM_USERPTR_ANONONLY | AMDGPU_GEM_USERPTR_VALIDATE | \
			 AMDGPU_GEM_USERPTR_REGISTER)
#define MAPPING_INFO	2u
#define LIST_HANDLES	0x19u
#define IS_IMPORT	1u

struct gem_op {
	uint32_t handle, op;
	uint64_t value;
	uint32_t num_entries, padding;
};

struct vm_entry {
	uint64_t addr, size, offset, flags;
};

struct list_handles {
	uint64_t entries;
	uint32_t num_entries, padding;
};

struct bo_entry {
	uint32_t gem_handle, flags;
	uint64_t size, preferred_domains, alloc_flags, alignment;
};

static int gem_op(int drm_fd, struct gem_op *args)
{
	return kfd_ioctl(drm_fd, DRM_IOWR(DRM_COMMAND_BASE + DRM_AMDGPU_GEM_OP, struct gem_op),
			 args);
}

static int list_handles(int drm_fd, struct bo_entry *entries, uint32_t *count)
{
	struct list_handles args = { .entries = (uintptr_t)entries, .num_entries = *count };
	int err = kfd_ioctl(drm_fd,
			    DRM_IOWR(DRM_COMMAND_BASE + LIST_HANDLES, struct list_handles), &args);

	*count = args.num_entries;
	return err;
}

static int close_bo(int drm_fd, uint32_t handle)
{
	struct drm_gem_close args = { .handle = handle };

	return kfd_ioctl(drm_fd, DRM_IOCTL_GEM_CLOSE, &args);
}

static int userptr(int drm_fd, const void *p, size_t size, uint32_t flags, uint32_t *handle)
{
	struct drm_amdgpu_gem_userptr args = {
		.addr = (uintptr_t)p,
		.size = size,
		.flags = flags,
	};
	int err = kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_GEM_USERPTR, &args);

	*handle = args.handle;
	return err;
}

TEST_F(cs, mapping_info)
{
	const int drm_fd = self->dev.drm_fd;
	struct gem_op op = { .op = MAPPING_INFO, .num_entries = 2 };
	struct vm_entry entries[2] = { { .addr = 7 } };
	struct cs_bo bo;

	ASSERT_EQ(0, make_bo(drm_fd, AMDGPU_GEM_DOMAIN_GTT, SIZE, PLACE_VA, &bo));
	munmap(bo.cpu, SIZE);
	op.handle = bo.handle;
	op.value = (uintptr_t)entries;
	ASSERT_EQ(0, gem_op(drm_fd, &op));
	EXPECT_EQ(1, op.num_entries);
	EXPECT_EQ(PLACE_VA, entries[0].addr);
	EXPECT_EQ(SIZE, entries[0].size);
	EXPECT_EQ(0, entries[0].offset);
	EXPECT_EQ(ACCESS, entries[0].flags);
	/* Too little room: the number alone. */
	op.num_entries = 0;
	op.value = 8;
	ASSERT_EQ(0, gem_op(drm_fd, &op));
	EXPECT_EQ(1, op.num_entries);
	EXPECT_EQ(EFAULT, gem_op(drm_fd, &op));
	ASSERT_EQ(0, gem_va(drm_fd, AMDGPU_VA_OP_UNMAP, bo.handle, PLACE_VA, SIZE));
	op.num_entries = 2;
	ASSERT_EQ(0, gem_op(drm_fd, &op));
	EXPECT_EQ(0, op.num_entries);

	op.padding = 1;
	EXPECT_EQ(EINVAL, gem_op(drm_fd, &op));
	op.padding = 0;
	op.op = 5;
	EXPECT_EQ(EINVAL, gem_op(drm_fd, &op));
	op.op = MAPPING_INFO;
	op.handle = UNKNOWN;
	EXPECT_EQ(ENOENT, gem_op(drm_fd, &op));
}

TEST_F(cs, placement)
{
	const int drm_fd = self->dev.drm_fd;
	struct drm_amdgpu_gem_create_in made = { .domains = 0 };
	struct gem_op op = {
		.handle = self->ib.handle,
		.op = AMDGPU_GEM_OP_SET_PLACEMENT,
		.value = AMDGPU_GEM_DOMAIN_VRAM,
	};
	struct gem_op get = {
		.handle = self->ib.handle,
		.op = AMDGPU_GEM_OP_GET_GEM_CREATE_INFO,
		.value = (uintptr_t)&made,
	};

	ASSERT_EQ(0, gem_op(drm_fd, &get));
	EXPECT_EQ(AMDGPU_GEM_DOMAIN_GTT, made.domains);
	ASSERT_EQ(0, gem_op(drm_fd, &op));
	ASSERT_EQ(0, gem_op(drm_fd, &get));
	EXPECT_EQ(AMDGPU_GEM_DOMAIN_VRAM, made.domains);
	op.value = AMDGPU_GEM_DOMAIN_GTT;
	ASSERT_EQ(0, gem_op(drm_fd, &op));
	ASSERT_EQ(0, gem_op(drm_fd, &get));
	EXPECT_EQ(AMDGPU_GEM_DOMAIN_GTT, made.domains);
}

TEST_F(cs, handles)
{
	const int drm_fd = self->dev.drm_fd;
	uint32_t count = 0, i, found = 0;
	struct bo_entry entries[16];
	struct kfd_dev other;

	if (list_handles(drm_fd, NULL, &count) == EINVAL && !kfd_is_rkfd())
		SKIP(return, "no GEM_LIST_HANDLES");
	count = 0;
	ASSERT_EQ(0, list_handles(drm_fd, NULL, &count));
	ASSERT_LE(2, count);
	ASSERT_GT(16, count);
	i = count;
	ASSERT_EQ(0, list_handles(drm_fd, entries, &count));
	ASSERT_EQ(i, count);
	for (i = 0; i < count; i++) {
		EXPECT_EQ(0, entries[i].flags & IS_IMPORT);
		if (entries[i].gem_handle == self->ib.handle) {
			found |= 1;
			EXPECT_EQ(IB_SIZE, entries[i].size);
			EXPECT_EQ(AMDGPU_GEM_DOMAIN_GTT, entries[i].preferred_domains);
		}
		if (entries[i].gem_handle == self->data.handle) {
			found |= 2;
			EXPECT_EQ(DATA_SIZE, entries[i].size);
			EXPECT_EQ(variant->domain, entries[i].preferred_domains);
		}
	}
	EXPECT_EQ(3, found);
	EXPECT_EQ(EFAULT, list_handles(drm_fd, (void *)8, &count));

	other = self->dev;
	ASSERT_EQ(0, kfd_open_render(&other, &other.drm_fd));
	count = 4;
	EXPECT_EQ(0, list_handles(other.drm_fd, (void *)8, &count));
	EXPECT_EQ(0, count);
	close(other.drm_fd);
}

/* A job copies into memory of the process, which changes under it. */
TEST_F(cs, userptr)
{
	const int drm_fd = self->dev.drm_fd;
	union drm_amdgpu_gem_mmap place = { .in = { .handle = 0 } };
	struct packets p = { .count = 0 };
	struct drm_amdgpu_cs_chunk_ib ib;
	struct drm_prime_handle prime;
	volatile uint32_t *mem;
	uint32_t handle;
	uint64_t job;
	int round;

	mem = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)mem);
	EXPECT_EQ(EINVAL, userptr(drm_fd, (char *)mem + 4, SIZE, ALL_FLAGS, &handle));
	EXPECT_EQ(EINVAL, userptr(drm_fd, (void *)mem, SIZE - 4, ALL_FLAGS, &handle));
	EXPECT_EQ(EINVAL, userptr(drm_fd, (void *)mem, SIZE, 16, &handle));
	EXPECT_EQ(EACCES, userptr(drm_fd, (void *)mem, SIZE, 0, &handle));
	EXPECT_EQ(EFAULT, userptr(drm_fd, (void *)(8ull << 40), SIZE, ALL_FLAGS, &handle));
	ASSERT_EQ(0, userptr(drm_fd, (void *)mem, SIZE, ALL_FLAGS, &handle));
	ASSERT_EQ(0, gem_va(drm_fd, AMDGPU_VA_OP_MAP, handle, PLACE_VA, SIZE));

	sdma_copy(&p, PLACE_VA, DATA_VA, 4);
	ib = ib_at(&self->ib, 0, &p);
	for (round = 1; round <= 3; round++) {
		struct drm_amdgpu_bo_list_entry entry = { .bo_handle = handle };
		struct drm_amdgpu_bo_list_in list = list_of(&entry, 1);
		struct job with = { .count = 0 };

		self->data.cpu[0] = 500 + round;
		add_chunk(&with, AMDGPU_CHUNK_ID_IB, &ib, sizeof(ib));
		add_chunk(&with, AMDGPU_CHUNK_ID_BO_HANDLES, &list, sizeof(list));
		/* amdgpu sees by the list that pages have changed. */
		ASSERT_EQ(0, submit(drm_fd, self->ctx, 0, &with, &job));
		ASSERT_EQ(0, wait_done(drm_fd, self->ctx, job));
		EXPECT_EQ(500 + round, mem[0]);
		/* Other pages in their place. */
		ASSERT_EQ((void *)mem, mmap((void *)mem, SIZE, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
		EXPECT_EQ(0, mem[0]);
	}

	/* The process has it already, and no other one gets it. */
	place.in.handle = handle;
	EXPECT_EQ(EPERM, kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_GEM_MMAP, &place));
	prime = (struct drm_prime_handle){ .handle = handle };
	EXPECT_EQ(EPERM, kfd_ioctl(drm_fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime));
	EXPECT_EQ(0, close_bo(drm_fd, handle));
	munmap((void *)mem, SIZE);
}

/* Memory that may only be read, and memory of a file. */
TEST_F(cs, userptr_read_only)
{
	const int drm_fd = self->dev.drm_fd;
	struct packets p = { .count = 0 };
	struct drm_amdgpu_cs_chunk_ib ib;
	struct drm_amdgpu_gem_va map;
	uint32_t handle, *mem;
	uint64_t job;
	int fd;

	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	mem = mmap(NULL, KFD_PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	ASSERT_NE(MAP_FAILED, mem);
	EXPECT_EQ(EPERM, userptr(drm_fd, mem, KFD_PAGE, AMDGPU_GEM_USERPTR_READONLY |
				 AMDGPU_GEM_USERPTR_VALIDATE | AMDGPU_GEM_USERPTR_ANONONLY,
				 &handle));
	ASSERT_EQ(0, userptr(drm_fd, mem, KFD_PAGE, AMDGPU_GEM_USERPTR_READONLY |
			     AMDGPU_GEM_USERPTR_VALIDATE | AMDGPU_GEM_USERPTR_REGISTER, &handle));
	map = (struct drm_amdgpu_gem_va){
		.handle = handle,
		.operation = AMDGPU_VA_OP_MAP,
		.flags = AMDGPU_VM_PAGE_READABLE,
		.va_address = PLACE_VA,
		.map_size = KFD_PAGE,
	};
	ASSERT_EQ(0, kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_GEM_VA, &map));
	sdma_copy(&p, DATA_VA, PLACE_VA, 4);
	ib = ib_at(&self->ib, 0, &p);
	ASSERT_EQ(0, submit_ib(drm_fd, self->ctx, &ib, &job));
	ASSERT_EQ(0, wait_done(drm_fd, self->ctx, job));
	/* The magic number of an ELF file. */
	EXPECT_EQ(0x464c457fu, self->data.cpu[0]);
	EXPECT_EQ(0, close_bo(drm_fd, handle));
	munmap(mem, KFD_PAGE);
	close(fd);
}

static int vm_op(int drm_fd, uint32_t op, uint32_t flags)
{
	union drm_amdgpu_vm args = { .in = { .op = op, .flags = flags } };

	return kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_VM, &args);
}

/* One file of a GPU at a time has the reservation of a VMID. */
TEST_F(cs, reserved_vmid)
{
	const int drm_fd = self->dev.drm_fd;
	struct kfd_dev other = self->dev;

	ASSERT_EQ(0, kfd_open_render(&other, &other.drm_fd));
	EXPECT_EQ(EINVAL, vm_op(drm_fd, AMDGPU_VM_OP_RESERVE_VMID, 1));
	EXPECT_EQ(EINVAL, vm_op(drm_fd, 3, 0));
	EXPECT_EQ(0, vm_op(drm_fd, AMDGPU_VM_OP_UNRESERVE_VMID, 0));
	EXPECT_EQ(0, vm_op(drm_fd, AMDGPU_VM_OP_RESERVE_VMID, 0));
	EXPECT_EQ(0, vm_op(drm_fd, AMDGPU_VM_OP_RESERVE_VMID, 0));
	EXPECT_EQ(ENOENT, vm_op(other.drm_fd, AMDGPU_VM_OP_RESERVE_VMID, 0));
	EXPECT_EQ(0, vm_op(other.drm_fd, AMDGPU_VM_OP_UNRESERVE_VMID, 0));
	EXPECT_EQ(ENOENT, vm_op(other.drm_fd, AMDGPU_VM_OP_RESERVE_VMID, 0));
	EXPECT_EQ(0, vm_op(drm_fd, AMDGPU_VM_OP_UNRESERVE_VMID, 0));
	EXPECT_EQ(0, vm_op(other.drm_fd, AMDGPU_VM_OP_RESERVE_VMID, 0));
	/* It goes with the file. */
	close(other.drm_fd);
	EXPECT_EQ(0, vm_op(drm_fd, AMDGPU_VM_OP_RESERVE_VMID, 0));
}

KFD_HARNESS_MAIN
