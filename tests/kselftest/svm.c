// SPDX-License-Identifier: GPL-2.0
/*
 * Attributes of shared virtual memory: those that can be set for ranges of the process's own
 * memory, and the answers to bad input, in the order of the checks. Their effect on the GPU's
 * access is in svm_memory.
 */
#include <sys/wait.h>

#include "svm_fixture.h"

#define EXPECT_VALUE(type, expected, start, size)					\
	do {										\
		uint32_t got = 0;							\
		EXPECT_EQ(0, svm_get(FD, start, size, type, &got));			\
		EXPECT_EQ((uint32_t)(expected), got);					\
	} while (0)

#define EXPECT_ACCESS(kind, start, size)						\
	EXPECT_EQ((uint32_t)(kind), svm_access(FD, start, size, GPU))

TEST_F(svm, defaults)
{
	EXPECT_VALUE(SVM_PREFERRED, SVM_UNDEFINED, self->mem, SIZE);
	EXPECT_VALUE(SVM_PREFETCH, SVM_UNDEFINED, self->mem, SIZE);
	EXPECT_VALUE(SVM_SET_FLAGS, SVM_DEFAULT_FLAGS, self->mem, SIZE);
	EXPECT_VALUE(SVM_CLR_FLAGS, ~SVM_DEFAULT_FLAGS, self->mem, SIZE);
	EXPECT_VALUE(SVM_GRANULARITY, SVM_DEFAULT_GRANULARITY, self->mem, SIZE);
	EXPECT_ACCESS(SVM_NO_ACCESS, self->mem, SIZE);
	/* The same after a call that sets nothing. */
	EXPECT_EQ(0, svm(FD, SVM_SET, self->mem, SIZE, NULL, 0));
	EXPECT_EQ(0, svm(FD, SVM_GET, self->mem, SIZE, NULL, 0));
	EXPECT_VALUE(SVM_SET_FLAGS, SVM_DEFAULT_FLAGS, self->mem, SIZE);
	EXPECT_VALUE(SVM_GRANULARITY, SVM_DEFAULT_GRANULARITY, self->mem, SIZE);
	EXPECT_ACCESS(SVM_NO_ACCESS, self->mem, SIZE);
}

TEST_F(svm, what_is_set_is_told)
{
	EXPECT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_PREFERRED, GPU));
	EXPECT_VALUE(SVM_PREFERRED, GPU, self->mem, SIZE);
	EXPECT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_PREFERRED, SVM_SYSTEM));
	EXPECT_VALUE(SVM_PREFERRED, SVM_SYSTEM, self->mem, SIZE);
	EXPECT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_PREFERRED, SVM_UNDEFINED));
	EXPECT_VALUE(SVM_PREFERRED, SVM_UNDEFINED, self->mem, SIZE);
	EXPECT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_PREFETCH, SVM_SYSTEM));
	EXPECT_VALUE(SVM_PREFETCH, SVM_SYSTEM, self->mem, SIZE);
	EXPECT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_ACCESS, GPU));
	EXPECT_ACCESS(SVM_ACCESS, self->mem, SIZE);
	EXPECT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_IN_PLACE, GPU));
	EXPECT_ACCESS(SVM_IN_PLACE, self->mem, SIZE);
	EXPECT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_NO_ACCESS, GPU));
	EXPECT_ACCESS(SVM_NO_ACCESS, self->mem, SIZE);
	EXPECT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_SET_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_EXEC));
	EXPECT_VALUE(SVM_SET_FLAGS, SVM_DEFAULT_FLAGS | KFD_IOCTL_SVM_FLAG_GPU_EXEC,
		     self->mem, SIZE);
	EXPECT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_CLR_FLAGS,
			     KFD_IOCTL_SVM_FLAG_HOST_ACCESS));
	EXPECT_VALUE(SVM_CLR_FLAGS, ~(uint32_t)(KFD_IOCTL_SVM_FLAG_COHERENT |
						KFD_IOCTL_SVM_FLAG_GPU_EXEC), self->mem, SIZE);
	EXPECT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_GRANULARITY, 3));
	EXPECT_VALUE(SVM_GRANULARITY, 3, self->mem, SIZE);
	/* More than the maximum. */
	EXPECT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_GRANULARITY, 0xff));
	EXPECT_VALUE(SVM_GRANULARITY, 0x3f, self->mem, SIZE);
	/* Unknown flags are kept. */
	EXPECT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_SET_FLAGS, 1u << 30));
	EXPECT_VALUE(SVM_SET_FLAGS, 1u << 30 | KFD_IOCTL_SVM_FLAG_COHERENT |
		     KFD_IOCTL_SVM_FLAG_GPU_EXEC, self->mem, SIZE);
}

/* The location is kept, whether the memory goes there or not. */
TEST_F(svm, prefetch_is_told)
{
	memset(self->mem, 1, SIZE);
	EXPECT_EQ(0, svm_set(FD, self->mem, SIZE / 2, SVM_PREFETCH, GPU));
	EXPECT_VALUE(SVM_PREFETCH, GPU, self->mem, SIZE / 2);
	EXPECT_VALUE(SVM_PREFETCH, GPU, self->mem, SIZE);
	EXPECT_EQ(0, svm_set(FD, PAGE(PAGES / 2), SIZE / 2, SVM_PREFETCH, SVM_SYSTEM));
	EXPECT_VALUE(SVM_PREFETCH, SVM_UNDEFINED, self->mem, SIZE);
	EXPECT_TRUE(all(self->mem, 1, SIZE));
}

TEST_F(svm, attributes_apply_in_order)
{
	struct svm_attribute all_at_once[] = {
		{ SVM_SET_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_RO | KFD_IOCTL_SVM_FLAG_GPU_EXEC },
		{ SVM_CLR_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_RO },
		{ SVM_IN_PLACE, GPU },
		{ SVM_NO_ACCESS, GPU },
		{ SVM_GRANULARITY, 4 },
		{ SVM_GRANULARITY, 5 },
		{ SVM_PREFERRED, GPU },
	};
	struct svm_attribute asked[] = {
		{ SVM_GRANULARITY, 0 }, { SVM_ACCESS, GPU }, { SVM_SET_FLAGS, 0 },
		{ SVM_CLR_FLAGS, 0 }, { SVM_PREFERRED, 0 }, { SVM_PREFETCH, 0 },
	};
	const uint32_t flags = SVM_DEFAULT_FLAGS | KFD_IOCTL_SVM_FLAG_GPU_EXEC;

	EXPECT_EQ(0, svm(FD, SVM_SET, self->mem, SIZE, all_at_once, 7));
	EXPECT_EQ(0, svm(FD, SVM_GET, self->mem, SIZE, asked, 6));
	EXPECT_EQ(5, asked[0].value);
	EXPECT_EQ(SVM_NO_ACCESS, asked[1].type);
	EXPECT_EQ(GPU, asked[1].value);
	EXPECT_EQ(flags, asked[2].value);
	EXPECT_EQ(~flags, asked[3].value);
	EXPECT_EQ(GPU, asked[4].value);
	EXPECT_EQ(SVM_UNDEFINED, asked[5].value);
}

/* For several ranges: their common values. Parts without attributes do not count. */
TEST_F(svm, several_ranges)
{
	const size_t half = SIZE / 2;

	EXPECT_EQ(0, svm_set(FD, self->mem, half, SVM_PREFERRED, GPU));
	EXPECT_EQ(0, svm_set(FD, self->mem, half, SVM_SET_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_EXEC));
	EXPECT_EQ(0, svm_set(FD, self->mem, half, SVM_GRANULARITY, 12));
	EXPECT_EQ(0, svm_set(FD, self->mem, half, SVM_ACCESS, GPU));
	EXPECT_VALUE(SVM_PREFERRED, GPU, self->mem, SIZE);
	EXPECT_VALUE(SVM_GRANULARITY, 12, self->mem, SIZE);
	EXPECT_ACCESS(SVM_ACCESS, self->mem, SIZE);
	EXPECT_VALUE(SVM_SET_FLAGS, SVM_DEFAULT_FLAGS | KFD_IOCTL_SVM_FLAG_GPU_EXEC,
		     self->mem, SIZE);
	EXPECT_EQ(0, svm_set(FD, self->mem + half, half, SVM_IN_PLACE, GPU));
	EXPECT_VALUE(SVM_PREFERRED, SVM_UNDEFINED, self->mem, SIZE);
	EXPECT_VALUE(SVM_GRANULARITY, SVM_DEFAULT_GRANULARITY, self->mem, SIZE);
	EXPECT_VALUE(SVM_SET_FLAGS, SVM_DEFAULT_FLAGS, self->mem, SIZE);
	EXPECT_VALUE(SVM_CLR_FLAGS, ~(SVM_DEFAULT_FLAGS | KFD_IOCTL_SVM_FLAG_GPU_EXEC),
		     self->mem, SIZE);
	/* Neither kind of access applies to all of the range. */
	EXPECT_ACCESS(SVM_NO_ACCESS, self->mem, SIZE);
	EXPECT_ACCESS(SVM_ACCESS, self->mem, half);
	EXPECT_ACCESS(SVM_IN_PLACE, self->mem + half, half);
	EXPECT_EQ(0, svm_set(FD, self->mem + half, half, SVM_ACCESS, GPU));
	EXPECT_ACCESS(SVM_ACCESS, self->mem, SIZE);
}

TEST_F(svm, sizes_of_the_command)
{
	struct svm_attribute one = { SVM_GRANULARITY, 4 };

	EXPECT_EQ(EINVAL, svm_sized(FD, SVM_SET, self->mem, SIZE, &one, 1, -1));
	EXPECT_EQ(EINVAL, svm_sized(FD, SVM_SET, self->mem, SIZE, &one, 1, -8));
	EXPECT_VALUE(SVM_GRANULARITY, SVM_DEFAULT_GRANULARITY, self->mem, SIZE);
	/* Room that is not used. */
	EXPECT_EQ(0, svm_sized(FD, SVM_SET, self->mem, SIZE, &one, 1, 64));
	EXPECT_VALUE(SVM_GRANULARITY, 4, self->mem, SIZE);
}

/* More attributes than any command can hold, and than can be counted. */
TEST_F(svm, counts_beyond_the_command)
{
	static const uint32_t counts[] = { 2, 3, 1u << 29, UINT32_MAX / 8 + 1, UINT32_MAX };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(counts); i++) {
		struct {
			struct kfd_ioctl_svm_args args;
			struct svm_attribute one;
		} call = {
			.args = {
				.start_addr = (uintptr_t)self->mem,
				.size = SIZE,
				.op = SVM_SET,
				.nattr = counts[i],
			},
			.one = { SVM_GRANULARITY, 4 },
		};

		EXPECT_EQ(EINVAL, kfd_ioctl(FD, KFD_COMMAND(_IOC_READ | _IOC_WRITE, 0x20,
							    sizeof(call)), &call));
	}
}

TEST_F(svm, no_whole_pages)
{
	struct svm_attribute one = { SVM_GRANULARITY, 4 };
	unsigned int op;

	for (op = SVM_SET; op <= SVM_GET; op++) {
		EXPECT_EQ(EINVAL, svm(FD, op, self->mem + 1, SIZE - KFD_PAGE, &one, 1));
		EXPECT_EQ(EINVAL, svm(FD, op, self->mem, SIZE - 1, &one, 1));
		EXPECT_EQ(EINVAL, svm(FD, op, self->mem, 0, &one, 1));
		EXPECT_EQ(EINVAL, svm(FD, op, NULL, SIZE, &one, 1));
	}
	EXPECT_EQ(EINVAL, svm(FD, 2, self->mem, SIZE, &one, 1));
	EXPECT_EQ(EINVAL, svm(FD, UINT32_MAX, self->mem, SIZE, &one, 1));
}

/* A range that wraps, or exceeds the process's addresses. */
TEST_F(svm, beyond_memory)
{
	const uint64_t page = KFD_PAGE;
	struct svm_attribute one = { SVM_GRANULARITY, 4 };
	unsigned int op;

	for (op = SVM_SET; op <= SVM_GET; op++) {
		EXPECT_ANSWER(svm_wraps, svm(FD, op, self->mem, -page, &one, 1));
		EXPECT_EQ(EFAULT, svm(FD, op, self->mem, 1ull << 48, &one, 1));
		EXPECT_EQ(EFAULT, svm(FD, op, (void *)(1ull << 47), page, &one, 1));
		EXPECT_EQ(EFAULT, svm(FD, op, (void *)(-2 * page), page, &one, 1));
	}
}

TEST_F(svm, bad_attributes_to_set)
{
	static const uint32_t unknown[] = { 8, 9, UINT32_MAX };
	static const uint32_t of_a_gpu[] = {
		SVM_PREFERRED, SVM_PREFETCH, SVM_ACCESS, SVM_IN_PLACE, SVM_NO_ACCESS,
	};
	struct svm_attribute mixed[] = { { SVM_GRANULARITY, 4 }, { SVM_ACCESS, GPU ^ 1 } };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(unknown); i++)
		EXPECT_EQ(EINVAL, svm_set(FD, self->mem, SIZE, unknown[i], 0));
	for (i = 0; i < ARRAY_SIZE(of_a_gpu); i++)
		EXPECT_EQ(EINVAL, svm_set(FD, self->mem, SIZE, of_a_gpu[i], GPU ^ 1));
	for (i = 2; i < ARRAY_SIZE(of_a_gpu); i++)
		EXPECT_EQ(EINVAL, svm_set(FD, self->mem, SIZE, of_a_gpu[i], 0));
	EXPECT_EQ(EINVAL, svm_set(FD, self->mem, SIZE, SVM_PREFETCH, SVM_UNDEFINED));
	/* A bad attribute leaves all unchanged. */
	EXPECT_EQ(EINVAL, svm(FD, SVM_SET, self->mem, SIZE, mixed, 2));
	EXPECT_VALUE(SVM_GRANULARITY, SVM_DEFAULT_GRANULARITY, self->mem, SIZE);
}

TEST_F(svm, bad_attributes_to_get)
{
	struct svm_attribute mixed[] = { { SVM_GRANULARITY, 0 }, { SVM_NO_ACCESS, GPU } };
	uint32_t value = GPU;

	EXPECT_EQ(EINVAL, svm_get(FD, self->mem, SIZE, SVM_IN_PLACE, &value));
	EXPECT_EQ(EINVAL, svm_get(FD, self->mem, SIZE, SVM_NO_ACCESS, &value));
	EXPECT_EQ(EINVAL, svm_get(FD, self->mem, SIZE, 8, &value));
	EXPECT_EQ(EINVAL, svm(FD, SVM_GET, self->mem, SIZE, mixed, 2));
	value = GPU ^ 1;
	EXPECT_EQ(EINVAL, svm_get(FD, self->mem, SIZE, SVM_ACCESS, &value));
}

/* Of two mistakes, which is reported. */
TEST_F(svm, order_of_answers)
{
	uint32_t value = 0;

	ASSERT_EQ(0, munmap(PAGE(1), KFD_PAGE));
	EXPECT_EQ(EFAULT, svm_set(FD, self->mem, SIZE, SVM_GRANULARITY, 4));
	EXPECT_EQ(EFAULT, svm_get(FD, self->mem, SIZE, SVM_GRANULARITY, &value));
	/* Attributes before addresses, except for a GET. */
	EXPECT_EQ(EINVAL, svm_set(FD, self->mem, SIZE, 8, 4));
	EXPECT_EQ(EFAULT, svm_get(FD, self->mem, SIZE, 8, &value));
	EXPECT_EQ(EFAULT, svm_get(FD, self->mem, SIZE, SVM_NO_ACCESS, &value));
	/* Memory that is there is unchanged. */
	EXPECT_VALUE(SVM_GRANULARITY, SVM_DEFAULT_GRANULARITY, self->mem, KFD_PAGE);
	EXPECT_VALUE(SVM_GRANULARITY, SVM_DEFAULT_GRANULARITY, PAGE(2), SIZE - 2 * KFD_PAGE);
}

/* Nothing can be set before an address space of any GPU is acquired. */
TEST(without_a_vm)
{
	struct kfd_dev dev;
	struct svm_attribute one = { SVM_GRANULARITY, 0 };
	void *mem = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT_EQ(0, kfd_open_files(&dev));
	EXPECT_EQ(EINVAL, svm_set(dev.fd, mem, SIZE, SVM_GRANULARITY, 4));
	EXPECT_EQ(0, svm(dev.fd, SVM_GET, mem, SIZE, &one, 1));
	EXPECT_EQ(SVM_DEFAULT_GRANULARITY, one.value);
	/* The addresses are not even checked. */
	EXPECT_EQ(EINVAL, svm_set(dev.fd, (void *)0x10000, KFD_PAGE, SVM_GRANULARITY, 4));
	EXPECT_EQ(EFAULT, svm(dev.fd, SVM_GET, (void *)0x10000, KFD_PAGE, &one, 1));
	EXPECT_EQ(0, kfd_acquire_vm(dev.fd, dev.drm_fd, dev.gpu_id));
	EXPECT_EQ(0, svm_set(dev.fd, mem, SIZE, SVM_GRANULARITY, 4));
	kfd_close(&dev);
}

/* Device memory is not the process's own. */
TEST_F(svm, device_memory)
{
	struct kfd_bo bo;
	uint32_t value = 0;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, KFD_PAGE, KFD_ALLOC_VRAM));
	EXPECT_EQ(EFAULT, svm_set(FD, bo.cpu, KFD_PAGE, SVM_GRANULARITY, 4));
	EXPECT_EQ(EFAULT, svm_get(FD, bo.cpu, KFD_PAGE, SVM_GRANULARITY, &value));
}

static int alloc_at(const struct kfd_dev *dev, const void *at, size_t size, uint32_t flags,
		    const void *cpu, uint64_t *handle)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.va_addr = (uintptr_t)at,
		.mmap_offset = (uintptr_t)cpu,
		.size = size,
		.gpu_id = dev->gpu_id,
		.flags = flags,
	};
	int err = kfd_alloc(dev->fd, &args);

	*handle = args.handle;
	return err;
}

/* Addresses of a mapped buffer cannot be the process's memory, too. */
TEST_F(svm, where_a_buffer_is)
{
	uint64_t handle;
	uint32_t value = 0;

	ASSERT_EQ(0, alloc_at(&self->dev, PAGE(2), KFD_PAGE, KFD_ALLOC_VRAM, NULL, &handle));
	ASSERT_EQ(0, kfd_map(FD, handle, GPU));
	EXPECT_EQ(EADDRINUSE, svm_set(FD, self->mem, SIZE, SVM_GRANULARITY, 4));
	EXPECT_EQ(EADDRINUSE, svm_get(FD, self->mem, SIZE, SVM_GRANULARITY, &value));
	EXPECT_EQ(EADDRINUSE, svm_get(FD, self->mem, SIZE, 8, &value));
	EXPECT_EQ(EINVAL, svm_set(FD, self->mem, SIZE, 8, 4));
	EXPECT_EQ(0, svm_set(FD, self->mem, 2 * KFD_PAGE, SVM_GRANULARITY, 4));
	EXPECT_EQ(0, svm_set(FD, PAGE(3), KFD_PAGE, SVM_GRANULARITY, 4));
	ASSERT_EQ(0, kfd_unmap(FD, handle, GPU));
	ASSERT_EQ(0, kfd_free(FD, handle));
	EXPECT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_GRANULARITY, 4));
}

/* Nor can a buffer be mapped at the process's memory, before that is gone. */
TEST_F(svm, buffer_where_a_range_is)
{
	uint64_t handle;

	ASSERT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_GRANULARITY, 4));
	EXPECT_EQ(EADDRINUSE,
		  alloc_at(&self->dev, PAGE(2), KFD_PAGE, KFD_ALLOC_VRAM, NULL, &handle));
	EXPECT_EQ(EADDRINUSE,
		  alloc_at(&self->dev, PAGE(2), KFD_PAGE, KFD_ALLOC_GTT, NULL, &handle));
	EXPECT_EQ(EADDRINUSE,
		  alloc_at(&self->dev, PAGE(2), KFD_PAGE, KFD_ALLOC_USERPTR, PAGE(2), &handle));
	ASSERT_EQ(0, munmap(PAGE(2), KFD_PAGE));
	EXPECT_EQ(0, alloc_at(&self->dev, PAGE(2), KFD_PAGE, KFD_ALLOC_VRAM, NULL, &handle));
	EXPECT_EQ(0, kfd_free(FD, handle));
	EXPECT_EQ(EADDRINUSE,
		  alloc_at(&self->dev, PAGE(1), 2 * KFD_PAGE, KFD_ALLOC_VRAM, NULL, &handle));
}

/* Memory that the GPU has as a USERPTR buffer elsewhere. */
TEST_F(svm, range_of_userptr)
{
	uint8_t *elsewhere = kfd_reserve(SIZE, 2u << 20);
	uint64_t handle;

	ASSERT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_GRANULARITY, 4));
	EXPECT_EQ(EADDRINUSE,
		  alloc_at(&self->dev, elsewhere, KFD_PAGE, KFD_ALLOC_USERPTR, PAGE(2), &handle));
}

/* The attributes of memory go with it: memory that replaces it has none of them. */
TEST_F(svm, unmapped_and_mapped_again)
{
	ASSERT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_GRANULARITY, 4));
	ASSERT_EQ(0, munmap(PAGE(8), 8 * KFD_PAGE));
	ASSERT_EQ(PAGE(8), anonymous(PAGE(8), 8 * KFD_PAGE, PROT_READ | PROT_WRITE));
	EXPECT_VALUE(SVM_GRANULARITY, SVM_DEFAULT_GRANULARITY, PAGE(8), 8 * KFD_PAGE);
	EXPECT_VALUE(SVM_GRANULARITY, 4, self->mem, 8 * KFD_PAGE);
	EXPECT_VALUE(SVM_GRANULARITY, 4, PAGE(16), SIZE - 16 * KFD_PAGE);
	EXPECT_VALUE(SVM_GRANULARITY, 4, self->mem, SIZE);
	/* In one call. */
	ASSERT_EQ(PAGE(32), anonymous(PAGE(32), 8 * KFD_PAGE, PROT_READ | PROT_WRITE));
	EXPECT_VALUE(SVM_GRANULARITY, SVM_DEFAULT_GRANULARITY, PAGE(32), 8 * KFD_PAGE);
	/* Other changes of the memory do not matter. */
	ASSERT_EQ(0, mprotect(self->mem, 4 * KFD_PAGE, PROT_NONE));
	ASSERT_EQ(0, madvise(self->mem, 4 * KFD_PAGE, MADV_DONTNEED));
	EXPECT_VALUE(SVM_GRANULARITY, 4, self->mem, 8 * KFD_PAGE);
}

/*
 * More of it at once than a driver keeps apart: every other page, before any call. The processor that
 * makes holes is not the only one: the driver may look for them meanwhile.
 */
TEST_F(svm, unmapped_in_many_parts)
{
	size_t pages = 4096, size = pages * KFD_PAGE, i;
	uint8_t *mem = kfd_reserve(size, 2u << 20);

	ASSERT_NE(NULL, mem);
	ASSERT_EQ(mem, anonymous(mem, size, PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, svm_set(FD, mem, size, SVM_GRANULARITY, 4));
	for (i = 0; i < pages; i += 2)
		ASSERT_EQ(0, munmap(mem + i * KFD_PAGE, KFD_PAGE));
	EXPECT_VALUE(SVM_GRANULARITY, 4, mem + KFD_PAGE, KFD_PAGE);
	for (i = 0; i < pages; i += 2)
		ASSERT_EQ(mem + i * KFD_PAGE,
			  anonymous(mem + i * KFD_PAGE, KFD_PAGE, PROT_READ | PROT_WRITE));
	for (i = 0; i < pages; i += 8) {
		uint8_t *hole = mem + i * KFD_PAGE;

		EXPECT_VALUE(SVM_GRANULARITY, SVM_DEFAULT_GRANULARITY, hole, KFD_PAGE);
		EXPECT_VALUE(SVM_GRANULARITY, 4, hole + KFD_PAGE, KFD_PAGE);
	}
}

/* Attributes do not move along. */
TEST_F(svm, moved)
{
	uint8_t *elsewhere = kfd_reserve(SIZE, 2u << 20);

	ASSERT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_GRANULARITY, 4));
	ASSERT_EQ(elsewhere, mremap(self->mem, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED,
				    elsewhere));
	EXPECT_VALUE(SVM_GRANULARITY, SVM_DEFAULT_GRANULARITY, elsewhere, SIZE);
	ASSERT_EQ(self->mem, anonymous(self->mem, SIZE, PROT_READ | PROT_WRITE));
	EXPECT_VALUE(SVM_GRANULARITY, SVM_DEFAULT_GRANULARITY, self->mem, SIZE);
}

/* A child has memory of its own, and cannot set anything by its parent's file. */
TEST_F(svm, child)
{
	int status;
	pid_t pid;

	ASSERT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_GRANULARITY, 4));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		uint32_t value = 0;
		struct kfd_dev dev;

		if (svm_get(FD, self->mem, SIZE, SVM_GRANULARITY, &value) != EBADF)
			_exit(1);
		if (kfd_open(&dev))
			_exit(2);
		if (svm_get(dev.fd, self->mem, SIZE, SVM_GRANULARITY, &value) ||
		    value != SVM_DEFAULT_GRANULARITY)
			_exit(3);
		munmap(self->mem, SIZE);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_VALUE(SVM_GRANULARITY, 4, self->mem, SIZE);
}

KFD_HARNESS_MAIN
