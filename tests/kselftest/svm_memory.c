// SPDX-License-Identifier: GPL-2.0
/*
 * The GPU's view of shared virtual memory, without retried page faults: the process's current
 * memory, as far as the GPU has access, and never the process's former memory.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>

#include "kfd_svm.h"
#include "packets.h"
#include "userptr_fixture.h"

#define FD		(self->dev.fd)
#define GPU		(self->dev.gpu_id)
#define PAGE(n)		(self->mem + (size_t)(n) * KFD_PAGE)
#define PAGES		(SIZE / KFD_PAGE)

/*
 * The fixture is userptr's: a queue, VRAM as the other end of copies, an event of faults, and
 * SIZE bytes at mem.
 */

/* Memory of the process, filled with @value, that the GPU may use. */
#define SHARE(value)								\
	do {									\
		ASSERT_EQ(self->mem, anonymous(self->mem, SIZE, PROT_READ | PROT_WRITE)); \
		memset(self->mem, value, SIZE);					\
		ASSERT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_ACCESS, GPU));	\
	} while (0)

/* Expects some pages of it as seen by the GPU. */
#define EXPECT_PART(value, first, count)					\
	do {									\
		const size_t bytes = (count) * (size_t)KFD_PAGE;		\
		memset(self->vram.cpu, 0xee, SIZE);				\
		EXPECT_EQ(0, kfd_queue_copy(&self->queue, (uintptr_t)self->vram.cpu, \
					    (uintptr_t)PAGE(first), bytes, WAIT_MS)); \
		EXPECT_TRUE(all(self->vram.cpu, value, bytes));			\
	} while (0)

/* Expects the GPU to get nothing of @count pages from @first on. */
#define EXPECT_NO_READ(first, count)						\
	do {									\
		const size_t bytes = (count) * (size_t)KFD_PAGE;		\
		memset(self->vram.cpu, 0, SIZE);				\
		start_copy(&self->queue, self->vram.cpu, PAGE(first), bytes);	\
		EXPECT_QUEUE_STOPPED();						\
		EXPECT_TRUE(all(self->vram.cpu, 0, SIZE));			\
	} while (0)

TEST_F(userptr, shared)
{
	SHARE(0x11);
	EXPECT_GPU_SEES(0x11);
	memset(self->mem, 0x12, SIZE);
	EXPECT_GPU_SEES(0x12);
	EXPECT_GPU_WRITES(0x13);
}

TEST_F(userptr, shared_in_place)
{
	ASSERT_EQ(self->mem, anonymous(self->mem, SIZE, PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_IN_PLACE, GPU));
	EXPECT_GPU_SEES(0);
	EXPECT_GPU_WRITES(0x14);
}

/* The GPU has not been given access. */
TEST_F(userptr, no_access)
{
	ASSERT_EQ(self->mem, anonymous(self->mem, SIZE, PROT_READ | PROT_WRITE));
	memset(self->mem, 0x21, SIZE);
	ASSERT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_GRANULARITY, 4));
	EXPECT_NO_READ(0, PAGES);
}

TEST_F(userptr, access_taken_back)
{
	SKIP_ON_AMDKFD("pages that stay keep the fragment of those that are gone");
	SHARE(0x22);
	EXPECT_GPU_SEES(0x22);
	ASSERT_EQ(0, svm_set(FD, PAGE(4), 4 * KFD_PAGE, SVM_NO_ACCESS, GPU));
	EXPECT_PART(0x22, 0, 4);
	EXPECT_PART(0x22, 8, PAGES - 8);
	EXPECT_NO_READ(4, 4);
}

TEST_F(userptr, access_given_again)
{
	SHARE(0x23);
	ASSERT_EQ(0, svm_set(FD, PAGE(4), 4 * KFD_PAGE, SVM_NO_ACCESS, GPU));
	ASSERT_EQ(0, svm_set(FD, PAGE(4), 4 * KFD_PAGE, SVM_ACCESS, GPU));
	EXPECT_GPU_SEES(0x23);
	EXPECT_GPU_WRITES(0x24);
}

TEST_F(userptr, gpu_read_only)
{
	SHARE(0x31);
	ASSERT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_SET_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_RO));
	EXPECT_GPU_SEES(0x31);
	memset(self->vram.cpu, 0xee, SIZE);
	start_copy(&self->queue, self->mem, self->vram.cpu, SIZE);
	EXPECT_QUEUE_STOPPED();
	EXPECT_TRUE(all(self->mem, 0x31, SIZE));
}

/* The GPU loses unmapped memory, and keeps the rest. */
TEST_F(userptr, unmapped_in_part)
{
	SKIP_ON_AMDKFD("pages that stay keep the fragment of those that are gone");
	SHARE(0x41);
	EXPECT_GPU_SEES(0x41);
	ASSERT_EQ(0, munmap(PAGE(4), 4 * KFD_PAGE));
	EXPECT_PART(0x41, 0, 4);
	EXPECT_PART(0x41, 8, PAGES - 8);
	EXPECT_NO_READ(4, 4);
}

TEST_F(userptr, unmapped_as_a_whole)
{
	SHARE(0x42);
	EXPECT_GPU_SEES(0x42);
	ASSERT_EQ(0, munmap(self->mem, SIZE));
	EXPECT_NO_READ(0, PAGES);
}

/* A buffer of the driver's is placed where the process has unmapped something. */
TEST_F(userptr, buffer_in_a_hole)
{
	const size_t hole = 4 * KFD_PAGE;
	uint64_t handle;

	SKIP_ON_AMDKFD("pages that stay keep the fragment of those that are gone");
	SHARE(0x45);
	EXPECT_GPU_SEES(0x45);
	ASSERT_EQ(0, munmap(PAGE(4), hole));
	ASSERT_EQ(0, kfd_alloc_at(&self->dev, KFD_ALLOC_GTT, (uintptr_t)PAGE(4), hole, &handle));
	ASSERT_EQ(0, kfd_map(FD, handle, GPU));
	EXPECT_EQ(0, kfd_queue_fill(&self->queue, (uintptr_t)PAGE(4), 0x46464646, hole, WAIT_MS));
	EXPECT_PART(0x46, 4, 4);
	EXPECT_PART(0x45, 0, 4);
	EXPECT_PART(0x45, 8, PAGES - 8);
	EXPECT_EQ(0, kfd_unmap(FD, handle, GPU));
	EXPECT_EQ(0, kfd_free(FD, handle));
}

/* Memory that replaces it is not the GPU's before access is set. */
TEST_F(userptr, other_memory_in_its_place)
{
	SKIP_ON_AMDKFD("pages that stay keep the fragment of those that are gone");
	SHARE(0x43);
	EXPECT_GPU_SEES(0x43);
	ASSERT_EQ(PAGE(4), anonymous(PAGE(4), 4 * KFD_PAGE, PROT_READ | PROT_WRITE));
	memset(PAGE(4), 0x44, 4 * KFD_PAGE);
	/* Enough for anything that may still happen. */
	usleep(100000);
	EXPECT_PART(0x43, 0, 4);
	EXPECT_PART(0x43, 8, PAGES - 8);
	EXPECT_NO_READ(4, 4);
}

TEST_F(userptr, other_memory_shared)
{
	SKIP_ON_AMDKFD("pages that stay keep the fragment of those that are gone");
	SHARE(0x45);
	EXPECT_GPU_SEES(0x45);
	ASSERT_EQ(PAGE(4), anonymous(PAGE(4), 4 * KFD_PAGE, PROT_READ | PROT_WRITE));
	memset(PAGE(4), 0x46, 4 * KFD_PAGE);
	ASSERT_EQ(0, svm_set(FD, PAGE(4), 4 * KFD_PAGE, SVM_ACCESS, GPU));
	EXPECT_PART(0x45, 0, 4);
	EXPECT_PART(0x46, 4, 4);
	EXPECT_PART(0x45, 8, PAGES - 8);
	EXPECT_GPU_WRITES(0x47);
}

/* Pages that the process gives up and gets anew at the same place stay accessible to the GPU. */
TEST_F(userptr, given_up_and_touched_again)
{
	SHARE(0x51);
	EXPECT_GPU_SEES(0x51);
	ASSERT_EQ(0, madvise(self->mem, SIZE, MADV_DONTNEED));
	EXPECT_GPU_SEES(0);
	memset(self->mem, 0x52, SIZE);
	EXPECT_GPU_SEES(0x52);
	EXPECT_GPU_WRITES(0x53);
}

TEST_F(userptr, of_a_shared_file)
{
	uint8_t *content = malloc(SIZE);
	int file = memfd_create("svm", 0);

	ASSERT_LE(0, file);
	ASSERT_EQ(0, ftruncate(file, SIZE));
	ASSERT_EQ(self->mem, mmap(self->mem, SIZE, PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_FIXED, file, 0));
	memset(self->mem, 0x54, SIZE);
	ASSERT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_ACCESS, GPU));
	EXPECT_GPU_SEES(0x54);
	EXPECT_GPU_WRITES(0x55);
	EXPECT_EQ((ssize_t)SIZE, pread(file, content, SIZE, 0));
	EXPECT_TRUE(all(content, 0x55, SIZE));
}

/* The GPU can read memory that the process may only read. */
TEST_F(userptr, read_only_memory)
{
	ASSERT_EQ(self->mem, anonymous(self->mem, SIZE, PROT_READ | PROT_WRITE));
	memset(self->mem, 0x56, SIZE);
	ASSERT_EQ(0, mprotect(self->mem, SIZE, PROT_READ));
	ASSERT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_ACCESS, GPU));
	EXPECT_GPU_SEES(0x56);
	memset(self->vram.cpu, 0xee, SIZE);
	start_copy(&self->queue, self->mem, self->vram.cpu, SIZE);
	EXPECT_QUEUE_STOPPED();
	EXPECT_TRUE(all(self->mem, 0x56, SIZE));
}

/* A child's writes stay the child's, and the GPU sees the parent's memory. */
TEST_F(userptr, forked)
{
	int status, go[2];
	char byte;
	pid_t pid;

	SHARE(0x61);
	EXPECT_GPU_SEES(0x61);
	ASSERT_EQ(0, pipe(go));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(go[1]);
		memset(self->mem, 0x62, SIZE / 2);
		if (read(go[0], &byte, 1) != 0)
			_exit(1);
		_exit(!all(self->mem, 0x62, SIZE / 2) ||
		      !all(self->mem + SIZE / 2, 0x61, SIZE / 2));
	}
	close(go[0]);
	EXPECT_GPU_SEES(0x61);
	EXPECT_GPU_WRITES(0x63);
	close(go[1]);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_GPU_SEES(0x63);
}

/* A range of several chunks, large pages among them, set in pieces by one call after the other. */
TEST_F(userptr, large)
{
	const size_t size = 3 * HUGE + 5 * KFD_PAGE;
	uint8_t *mem = kfd_reserve(size, HUGE);
	struct kfd_bo vram;

	ASSERT_NE(NULL, mem);
	ASSERT_EQ(mem, anonymous(mem, size, PROT_READ | PROT_WRITE));
	madvise(mem, size, MADV_HUGEPAGE);
	memset(mem, 0x71, size);
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &vram, size, KFD_ALLOC_VRAM));
	ASSERT_EQ(0, svm_set(FD, mem + KFD_PAGE, HUGE, SVM_ACCESS, GPU));
	ASSERT_EQ(0, svm_set(FD, mem, size, SVM_ACCESS, GPU));
	ASSERT_EQ(0, svm_set(FD, mem + HUGE, HUGE, SVM_CLR_FLAGS, KFD_IOCTL_SVM_FLAG_COHERENT));
	EXPECT_EQ(0, kfd_queue_copy(&self->queue, (uintptr_t)vram.cpu, (uintptr_t)mem, size,
				    WAIT_MS));
	EXPECT_TRUE(all(vram.cpu, 0x71, size));
	memset(vram.cpu, 0x72, size);
	EXPECT_EQ(0, kfd_queue_copy(&self->queue, (uintptr_t)mem, (uintptr_t)vram.cpu, size,
				    WAIT_MS));
	EXPECT_TRUE(all(mem, 0x72, size));
}

/* Changes beside the pages that a queue uses. */
struct neighbours {
	const struct kfd_dev *dev;
	uint8_t *mem;		/* HUGE bytes, of which the first SIZE do not change */
	volatile bool stop;
	unsigned int steps, failed;
};

static void *change_neighbours(void *arg)
{
	struct neighbours *they = arg;
	const struct kfd_dev *dev = they->dev;
	const unsigned int pages = HUGE / KFD_PAGE;
	unsigned int seed = 1;

	while (!they->stop) {
		const unsigned int first = PAGES + (unsigned int)rand_r(&seed) % (pages - PAGES);
		const unsigned int count = 1 + (unsigned int)rand_r(&seed) % (pages - first);
		uint8_t *at = they->mem + (size_t)first * KFD_PAGE;
		const size_t size = (size_t)count * KFD_PAGE;
		int err = 0;

		switch (rand_r(&seed) % 6) {
		case 0:
			err = svm_set(dev->fd, at, size, SVM_NO_ACCESS, dev->gpu_id);
			break;
		case 1:
			err = svm_set(dev->fd, at, size, SVM_SET_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_RO);
			break;
		case 2:
			err = svm_set(dev->fd, at, size, SVM_CLR_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_RO);
			break;
		case 3:
			madvise(at, size, MADV_DONTNEED);
			break;
		case 4:
			if (anonymous(at, size, PROT_READ | PROT_WRITE) != at)
				err = errno;
			break;
		default:
			err = svm_set(dev->fd, at, size, SVM_ACCESS, dev->gpu_id);
		}
		they->failed += err != 0;
		they->steps++;
	}
	return NULL;
}

/*
 * A queue goes on working while the surroundings of its memory, perhaps in the same large page,
 * are changed in all ways.
 */
TEST_F(userptr, neighbours_change)
{
	const char *seconds = getenv("RKFD_SECONDS");
	const uint64_t end = kfd_now_ms() + (seconds ? 1000u * (unsigned int)atoi(seconds) : 3000);
	struct neighbours they = { .dev = &self->dev };
	unsigned int rounds = 0;
	pthread_t thread;

	SKIP_ON_AMDKFD("pages that stay keep the fragment of those that are gone");
	munmap(self->mem, SIZE);
	they.mem = kfd_reserve(HUGE, HUGE);
	ASSERT_EQ(they.mem, anonymous(they.mem, HUGE, PROT_READ | PROT_WRITE));
	self->mem = they.mem;
	memset(they.mem, 0x75, HUGE);
	ASSERT_EQ(0, svm_set(FD, they.mem, HUGE, SVM_ACCESS, GPU));
	ASSERT_EQ(0, pthread_create(&thread, NULL, change_neighbours, &they));
	while (kfd_now_ms() < end && !_metadata->exit_code) {
		const uint8_t value = (uint8_t)rounds++;

		memset(self->mem, value, SIZE);
		EXPECT_GPU_SEES(value);
		EXPECT_GPU_WRITES((uint8_t)~value);
	}
	they.stop = true;
	pthread_join(thread, NULL);
	EXPECT_EQ(0, they.failed);
	EXPECT_LT(0, they.steps);
	printf("# %u rounds beside %u changes\n", rounds, they.steps);
}

/* Prefetched to VRAM, the content is the same, wherever it is. */
TEST_F(userptr, prefetched)
{
	SHARE(0x73);
	ASSERT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_PREFETCH, GPU));
	EXPECT_GPU_SEES(0x73);
	EXPECT_GPU_WRITES(0x74);
	ASSERT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_PREFETCH, SVM_SYSTEM));
	EXPECT_GPU_SEES(0x74);
	EXPECT_TRUE(all(self->mem, 0x74, SIZE));
}

/* A buffer cannot be mapped over a range, and a queue's ring cannot be in one. */
TEST_F(userptr, no_ring)
{
	struct kfd_ioctl_create_queue_args args;
	struct kfd_bo ring;

	SHARE(0);
	ring = (struct kfd_bo){ .cpu = self->mem, .size = RING_SIZE };
	kfd_queue_args(&self->dev, &ring, &self->queue.pointers, &args);
	EXPECT_EQ(EINVAL, kfd_ioctl(FD, AMDKFD_IOC_CREATE_QUEUE, &args));
}

KFD_HARNESS_MAIN
