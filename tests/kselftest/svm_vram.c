// SPDX-License-Identifier: GPL-2.0
/*
 * Shared virtual memory that is prefetched to VRAM: it stays there until the CPU touches it,
 * keeps its content wherever it goes, and never shows the former content of that VRAM.
 */
#include <pthread.h>
#include <sys/wait.h>

#include "kfd_svm.h"
#include "objects.h"
#include "pagemap.h"
#include "smi_lines.h"
#include "toucher.h"
#include "userptr_fixture.h"

#define FD		(self->dev.fd)
#define GPU		(self->dev.gpu_id)
#define PAGE(n)		(self->mem + (size_t)(n) * KFD_PAGE)
#define PAGES		(SIZE / KFD_PAGE)

/*
 * The fixture is userptr's: a queue, VRAM as the other end of copies, an event of faults, and
 * SIZE bytes at mem.
 */

/* Makes untouched memory of the process accessible to the GPU. */
#define SHARE_FRESH(mem, size)							\
	do {									\
		ASSERT_EQ(mem, anonymous(mem, size, PROT_READ | PROT_WRITE));	\
		ASSERT_EQ(0, svm_set(FD, mem, size, SVM_ACCESS, GPU));		\
	} while (0)

/* Each page has a number of its own in all of its words. */
static void number_pages(void *mem, size_t pages, uint32_t first)
{
	uint32_t *words = mem;
	size_t i;

	for (i = 0; i < pages * KFD_PAGE / sizeof(*words); i++)
		words[i] = first + (uint32_t)(i * sizeof(*words) / KFD_PAGE);
}

/* The first page without its number, or @pages. */
static size_t numbered(const void *mem, size_t pages, uint32_t first)
{
	const uint32_t *words = mem;
	size_t i;

	for (i = 0; i < pages * KFD_PAGE / sizeof(*words); i++)
		if (words[i] != first + (uint32_t)(i * sizeof(*words) / KFD_PAGE))
			return i * sizeof(*words) / KFD_PAGE;
	return pages;
}

TEST_F(userptr, used_in_vram)
{
	ASSERT_EQ(self->mem, anonymous(self->mem, SIZE, PROT_READ | PROT_WRITE));
	memset(self->mem, 0x11, SIZE);
	ASSERT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_ACCESS, GPU));
	EXPECT_PREFETCH(self->mem, SIZE);
	EXPECT_GPU_SEES(0x11);
	memset(self->vram.cpu, 0x12, SIZE);
	EXPECT_EQ(0, copy(&self->queue, self->mem, self->vram.cpu, WAIT_MS));
	EXPECT_EQ(PAGES, in_vram(self->mem, SIZE));
	EXPECT_GPU_SEES(0x12);
	EXPECT_EQ(PAGES, in_vram(self->mem, SIZE));
	/* The CPU's access brings it back. */
	EXPECT_TRUE(all(self->mem, 0x12, SIZE));
	EXPECT_EQ(0, in_vram(self->mem, SIZE));
	EXPECT_GPU_WRITES(0x13);
}

TEST_F(userptr, back_when_asked)
{
	SHARE_FRESH(self->mem, SIZE);
	number_pages(self->mem, PAGES, 100);
	EXPECT_PREFETCH(self->mem, SIZE);
	EXPECT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_PREFETCH, SVM_SYSTEM));
	EXPECT_EQ(0, in_vram(self->mem, SIZE));
	EXPECT_EQ(PAGES, numbered(self->mem, PAGES, 100));
	/* Each time, also if the attribute is set already. */
	EXPECT_PREFETCH(self->mem, SIZE);
	EXPECT_PREFETCH(self->mem, SIZE);
	*(volatile uint32_t *)PAGE(3) = 103;
	EXPECT_PREFETCH(self->mem, SIZE);
	EXPECT_EQ(PAGES, numbered(self->mem, PAGES, 100));
}

/* An attribute that was set earlier still applies when another is set. */
TEST_F(userptr, comes_with_access)
{
	ASSERT_EQ(self->mem, anonymous(self->mem, SIZE, PROT_READ | PROT_WRITE));
	memset(self->mem, 0x15, SIZE);
	EXPECT_PREFETCH(self->mem, SIZE);
	EXPECT_TRUE(all(self->mem, 0x15, SIZE));
	EXPECT_EQ(0, in_vram(self->mem, SIZE));
	EXPECT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_ACCESS, GPU));
	EXPECT_EQ(PAGES, in_vram(self->mem, SIZE));
	EXPECT_GPU_SEES(0x15);
}

/* Untouched pages come as zeroes, whatever was in that VRAM before. */
TEST_F(userptr, holes_are_zero)
{
	const size_t size = 4 * HUGE + 3 * KFD_PAGE;
	uint8_t *mem = kfd_reserve(size, HUGE);
	struct kfd_bo vram;
	size_t i;

	ASSERT_NE(NULL, mem);
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &vram, size, KFD_ALLOC_VRAM));
	memset(vram.cpu, 0xa5, size);
	ASSERT_EQ(0, kfd_bo_destroy(&self->dev, &vram));
	ASSERT_EQ(mem, anonymous(mem, size, PROT_READ | PROT_WRITE));
	/* So that a touch brings one page only. */
	madvise(mem, size, MADV_NOHUGEPAGE);
	for (i = 0; i < size; i += 5 * KFD_PAGE)
		memset(mem + i, 0x21, KFD_PAGE);
	EXPECT_PREFETCH(mem, size);
	ASSERT_EQ(0, svm_set(FD, mem, size, SVM_ACCESS, GPU));
	EXPECT_EQ(size / KFD_PAGE, in_vram(mem, size));
	EXPECT_EQ(0, kfd_queue_copy(&self->queue, (uintptr_t)self->vram.cpu, (uintptr_t)mem, SIZE,
				    WAIT_MS));
	for (i = 0; i < PAGES; i++)
		EXPECT_TRUE(all((uint8_t *)self->vram.cpu + i * KFD_PAGE, i % 5 ? 0 : 0x21,
				KFD_PAGE));
	for (i = 0; i < size / KFD_PAGE; i++)
		ASSERT_TRUE(all(mem + i * KFD_PAGE, i % 5 ? 0 : 0x21, KFD_PAGE)) {
			TH_LOG("page %zu", i);
		}
}

static const size_t sizes[] = { 1, 2, 511, 512, 513, 1024, 4096, 16384 };

/* Both ways, of all sizes, at any address. */
TEST_F(userptr, sizes)
{
	const size_t all_of_it = (sizes[ARRAY_SIZE(sizes) - 1] + 7) * KFD_PAGE;
	uint8_t *mem = kfd_reserve(all_of_it, HUGE);
	size_t i;

	ASSERT_NE(NULL, mem);
	ASSERT_EQ(mem, anonymous(mem, all_of_it, PROT_READ | PROT_WRITE));
	madvise(mem, all_of_it, MADV_HUGEPAGE);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		const size_t first = i % 2 ? 7 : 0, size = sizes[i] * KFD_PAGE;
		uint8_t *at = mem + first * KFD_PAGE;

		number_pages(at, sizes[i], 1000 * (uint32_t)i);
		EXPECT_PREFETCH(at, size);
		EXPECT_EQ(0, svm_set(FD, at, size, SVM_PREFETCH, SVM_SYSTEM));
		EXPECT_EQ(0, in_vram(at, size));
		EXPECT_EQ(sizes[i], numbered(at, sizes[i], 1000 * (uint32_t)i));
		EXPECT_PREFETCH(at, size);
		EXPECT_EQ(sizes[i], numbered(at, sizes[i], 1000 * (uint32_t)i)) {
			TH_LOG("%zu pages", sizes[i]);
		}
	}
}

/*
 * A child has the memory of the time of the fork, and its writes are its own; the parent's GPU
 * writes the parent's.
 */
TEST_F(userptr, forked)
{
	int status, go[2];
	char byte;
	pid_t pid;

	SHARE_FRESH(self->mem, SIZE);
	memset(self->mem, 0x31, SIZE);
	EXPECT_PREFETCH(self->mem, SIZE);
	EXPECT_GPU_SEES(0x31);
	ASSERT_EQ(0, pipe(go));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(go[1]);
		if (read(go[0], &byte, 1) != 1)
			_exit(1);
		/* The GPU has written in between. */
		if (!all(self->mem, 0x31, SIZE))
			_exit(2);
		memset(self->mem, 0x32, SIZE);
		if (read(go[0], &byte, 1) != 0)
			_exit(3);
		_exit(all(self->mem, 0x32, SIZE) ? 0 : 4);
	}
	close(go[0]);
	memset(self->vram.cpu, 0x33, SIZE);
	EXPECT_EQ(0, copy(&self->queue, self->mem, self->vram.cpu, WAIT_MS));
	EXPECT_GPU_SEES(0x33);
	EXPECT_EQ(1, write(go[1], "", 1));
	close(go[1]);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_TRUE(all(self->mem, 0x33, SIZE));
}

/* A child has pages in VRAM when its parent, their former owner, has ended. */
TEST_F(userptr, outlives_the_parent)
{
	int done[2], status;
	char byte = 1;
	pid_t pid;

	ASSERT_EQ(0, pipe(done));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		const pid_t parent = getpid();
		struct kfd_dev dev;
		pid_t child;

		if (kfd_open(&dev) ||
		    anonymous(self->mem, SIZE, PROT_READ | PROT_WRITE) != self->mem)
			_exit(1);
		number_pages(self->mem, PAGES, 500);
		if (svm_set(dev.fd, self->mem, SIZE, SVM_PREFETCH, dev.gpu_id) ||
		    in_vram(self->mem, SIZE) != PAGES)
			_exit(2);
		child = fork();
		if (child)
			_exit(child < 0 ? 3 : 0);
		while (getppid() == parent)
			usleep(1000);
		usleep(200000);
		byte = in_vram(self->mem, SIZE) != PAGES;
		byte |= (char)(numbered(self->mem, PAGES, 500) != PAGES) << 1;
		if (write(done[1], &byte, 1) != 1)
			_exit(4);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	close(done[1]);
	EXPECT_EQ(1, read(done[0], &byte, 1));
	EXPECT_EQ(0, byte);
}

/* Memory is the same at another address, without attributes. */
TEST_F(userptr, moved)
{
	uint8_t *away = kfd_reserve(SIZE, HUGE);

	SHARE_FRESH(self->mem, SIZE);
	number_pages(self->mem, PAGES, 700);
	EXPECT_PREFETCH(self->mem, SIZE);
	ASSERT_EQ(away, mremap(self->mem, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, away));
	EXPECT_EQ(PAGES, in_vram(away, SIZE));
	EXPECT_EQ(PAGES, numbered(away, PAGES, 700));
}

TEST_F(userptr, unmapped_in_part)
{
	SHARE_FRESH(self->mem, SIZE);
	number_pages(self->mem, PAGES, 800);
	EXPECT_PREFETCH(self->mem, SIZE);
	ASSERT_EQ(0, munmap(PAGE(4), 4 * KFD_PAGE));
	EXPECT_EQ(4, in_vram(self->mem, 4 * KFD_PAGE));
	EXPECT_EQ(PAGES - 8, in_vram(PAGE(8), SIZE - 8 * KFD_PAGE));
	EXPECT_EQ(0, kfd_queue_copy(&self->queue, (uintptr_t)self->vram.cpu, (uintptr_t)PAGE(8),
				    4 * KFD_PAGE, WAIT_MS));
	EXPECT_EQ(4, numbered(self->vram.cpu, 4, 808));
	EXPECT_EQ(4, numbered(self->mem, 4, 800));
	EXPECT_EQ(PAGES - 8, numbered(PAGE(8), PAGES - 8, 808));
}

TEST_F(userptr, protected_and_given_up)
{
	SHARE_FRESH(self->mem, SIZE);
	memset(self->mem, 0x41, SIZE);
	EXPECT_PREFETCH(self->mem, SIZE);
	ASSERT_EQ(0, mprotect(self->mem, SIZE, PROT_READ));
	EXPECT_GPU_SEES(0x41);
	ASSERT_EQ(0, mprotect(self->mem, SIZE, PROT_READ | PROT_WRITE));
	EXPECT_GPU_WRITES(0x42);
	EXPECT_PREFETCH(self->mem, SIZE);
	ASSERT_EQ(0, madvise(self->mem, SIZE, MADV_DONTNEED));
	EXPECT_GPU_SEES(0);
	EXPECT_TRUE(all(self->mem, 0, SIZE));
}

/* Memory of a file stays where it is. */
TEST_F(userptr, of_a_file)
{
	int file = memfd_create("svm", 0);

	ASSERT_LE(0, file);
	ASSERT_EQ(0, ftruncate(file, SIZE));
	ASSERT_EQ(self->mem, mmap(self->mem, SIZE, PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_FIXED, file, 0));
	memset(self->mem, 0x51, SIZE);
	ASSERT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_ACCESS, GPU));
	EXPECT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_PREFETCH, GPU));
	EXPECT_EQ(0, in_vram(self->mem, SIZE));
	EXPECT_GPU_SEES(0x51);
	EXPECT_GPU_WRITES(0x52);
}

/*
 * Memory that finds no room in VRAM stays in system memory, and VRAM that a buffer needs is
 * given back.
 */
TEST_F(userptr, buffers_go_first)
{
	const size_t size = 4 * HUGE;
	uint8_t *mem = kfd_reserve(size, HUGE), *more = kfd_reserve(size, HUGE);
	const uint64_t before = kfd_available(&self->dev);
	uint64_t handle;

	SHARE_FRESH(mem, size);
	number_pages(mem, size / KFD_PAGE, 5000);
	EXPECT_PREFETCH(mem, size);
	/* It counts as free, */
	EXPECT_EQ(before, kfd_available(&self->dev));
	ASSERT_EQ(0, kfd_alloc_at(&self->dev, KFD_ALLOC_VRAM, (uintptr_t)kfd_reserve(before, HUGE),
				  before, &handle));
	/* and is given up. */
	EXPECT_EQ(0, in_vram(mem, size));
	EXPECT_EQ(size / KFD_PAGE, numbered(mem, size / KFD_PAGE, 5000));
	SHARE_FRESH(more, size);
	number_pages(more, size / KFD_PAGE, 9000);
	EXPECT_EQ(0, svm_set(FD, more, size, SVM_PREFETCH, GPU));
	EXPECT_EQ(0, in_vram(more, size));
	EXPECT_EQ(0, kfd_queue_copy(&self->queue, (uintptr_t)self->vram.cpu, (uintptr_t)more, SIZE,
				    WAIT_MS));
	EXPECT_EQ(PAGES, numbered(self->vram.cpu, PAGES, 9000));
	EXPECT_EQ(0, kfd_free(FD, handle));
	EXPECT_PREFETCH(more, size);
	EXPECT_EQ(size / KFD_PAGE, numbered(more, size / KFD_PAGE, 9000));
}

/* The content that a process leaves in VRAM is visible to no other process, however it ends. */
TEST_F(userptr, nobody_elses)
{
	const size_t size = 2 * HUGE;
	uint8_t *mem = kfd_reserve(size, HUGE);
	unsigned int round;
	int status;
	pid_t pid;

	ASSERT_EQ(mem, anonymous(mem, size, PROT_READ | PROT_WRITE));
	for (round = 0; round < 4; round++) {
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			struct kfd_dev dev;
			uint8_t *own = kfd_reserve(size, HUGE);

			if (kfd_open(&dev) || anonymous(own, size, PROT_READ | PROT_WRITE) != own)
				_exit(1);
			memset(own, 0xbb, size);
			if (svm_set(dev.fd, own, size, SVM_PREFETCH, dev.gpu_id) ||
			    in_vram(own, size) != size / KFD_PAGE)
				_exit(2);
			if (round & 1)
				munmap(own, size);
			_exit(0);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_EQ(0, status);
		EXPECT_PREFETCH(mem, size);
		ASSERT_EQ(0, svm_set(FD, mem, size, SVM_ACCESS, GPU));
		EXPECT_EQ(0, kfd_queue_copy(&self->queue, (uintptr_t)self->vram.cpu, (uintptr_t)mem,
					    SIZE, WAIT_MS));
		EXPECT_TRUE(all(self->vram.cpu, 0, SIZE));
		EXPECT_TRUE(all(mem, 0, size));
		/* Holes again, which stay. */
		ASSERT_EQ(0, svm_set(FD, mem, size, SVM_NO_ACCESS, GPU));
		ASSERT_EQ(0, madvise(mem, size, MADV_DONTNEED));
	}
}

/* Nothing is left of a process's memory there. */
TEST_F(userptr, given_back_at_exit)
{
	long long before;
	int status;
	pid_t pid;

	SKIP_ON_AMDKFD("it has no such counts");
	/* The pages' structures come with the first one. */
	SHARE_FRESH(self->mem, SIZE);
	EXPECT_PREFETCH(self->mem, SIZE);
	ASSERT_EQ(0, munmap(self->mem, SIZE));
	ASSERT_TRUE(objects_become("shared_vram_bytes", 0, WAIT_MS));
	before = objects_count("vram_bytes");
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		struct kfd_dev dev;
		uint8_t *own = kfd_reserve(3 * HUGE, HUGE);

		if (kfd_open(&dev) || anonymous(own, 3 * HUGE, PROT_READ | PROT_WRITE) != own ||
		    svm_set(dev.fd, own, 3 * HUGE, SVM_PREFETCH, dev.gpu_id) ||
		    objects_count("shared_vram_bytes") != 3 * HUGE)
			_exit(1);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_TRUE(objects_become("shared_vram_bytes", 0, WAIT_MS));
	EXPECT_TRUE(objects_become("vram_bytes", before, WAIT_MS));
}

/*
 * The memory goes to the other GPU's VRAM, and to neither's while both may use it: so much that
 * the move takes longer than it takes the GPUs to get back the part that has moved.
 */
TEST_F(userptr, another_gpu)
{
	const size_t size = 4 * HUGE, pages = size / KFD_PAGE;
	uint8_t *mem = kfd_reserve(size, HUGE);
	struct kfd_dev other;

	if (kfd_open_next(&self->dev, &other))
		SKIP(return, "there is but one GPU");
	SHARE_FRESH(mem, size);
	number_pages(mem, pages, 600);
	EXPECT_PREFETCH(mem, size);
	ASSERT_EQ(0, svm_set(FD, mem, size, SVM_ACCESS, other.gpu_id));
	EXPECT_EQ(0, in_vram(mem, size));
	EXPECT_EQ(0, svm_set(FD, mem, size, SVM_PREFETCH, GPU));
	EXPECT_EQ(0, in_vram(mem, size));
	ASSERT_EQ(0, svm_set(FD, mem, size, SVM_NO_ACCESS, other.gpu_id));
	EXPECT_EQ(pages, in_vram(mem, size));
	ASSERT_EQ(0, svm_set(FD, mem, size, SVM_NO_ACCESS, GPU));
	EXPECT_EQ(0, svm_set(FD, mem, size, SVM_PREFETCH, other.gpu_id));
	EXPECT_EQ(pages, in_vram(mem, size));
	/* The first one gets it from there by way of system memory. */
	ASSERT_EQ(0, svm_set(FD, mem, size, SVM_IN_PLACE, GPU));
	EXPECT_EQ(0, in_vram(mem, size));
	EXPECT_EQ(0, copy(&self->queue, self->vram.cpu, mem, WAIT_MS));
	EXPECT_EQ(PAGES, numbered(self->vram.cpu, PAGES, 600));
	EXPECT_EQ(pages, numbered(mem, pages, 600));
}

/*
 * Where page faults are retried it goes to one GPU's VRAM though the other may use it, and
 * moves to the other one on its access.
 */
TEST_F(userptr, another_gpu_that_retries)
{
	struct kfd_queue queue;
	struct kfd_dev other;
	struct kfd_bo vram;

	if (kfd_open_next(&self->dev, &other))
		SKIP(return, "there is but one GPU");
	ASSERT_EQ(0, kfd_queue_destroy(&self->dev, &self->queue));
	ASSERT_EQ(0, xnack_set(FD, 1));
	ASSERT_EQ(0, kfd_queue_create(&self->dev, &self->queue, RING_SIZE));
	ASSERT_EQ(0, kfd_queue_create(&other, &queue, RING_SIZE));
	ASSERT_EQ(0, kfd_bo_create(&other, &vram, SIZE, KFD_ALLOC_VRAM));
	ASSERT_EQ(self->mem, anonymous(self->mem, SIZE, PROT_READ | PROT_WRITE));
	number_pages(self->mem, PAGES, 650);
	ASSERT_EQ(SVM_ACCESS, svm_access(FD, self->mem, SIZE, other.gpu_id));
	EXPECT_PREFETCH(self->mem, SIZE);
	EXPECT_EQ(0, copy(&self->queue, self->vram.cpu, self->mem, WAIT_MS));
	EXPECT_EQ(PAGES, numbered(self->vram.cpu, PAGES, 650));
	EXPECT_EQ(0, copy(&queue, vram.cpu, self->mem, WAIT_MS));
	EXPECT_EQ(PAGES, numbered(vram.cpu, PAGES, 650));
	EXPECT_EQ(PAGES, in_vram(self->mem, SIZE));
	/* But not if that one has access in place. */
	ASSERT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_IN_PLACE, other.gpu_id));
	EXPECT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_PREFETCH, GPU));
	EXPECT_EQ(0, in_vram(self->mem, SIZE));
	EXPECT_EQ(0, copy(&queue, vram.cpu, self->mem, WAIT_MS));
	EXPECT_EQ(PAGES, numbered(self->mem, PAGES, 650));
	EXPECT_EQ(0, kfd_queue_destroy(&other, &queue));
}

/* A watcher gets one pair of lines for each move, however large it is. */
TEST_F(userptr, told)
{
	const size_t size = 3 * HUGE + KFD_PAGE;
	uint8_t *mem = kfd_reserve(size, HUGE);
	const uintptr_t first = (uintptr_t)mem / KFD_PAGE;
	int file = smi_watch(&self->dev, SMI_MASK(MIGRATE_START) | SMI_MASK(MIGRATE_END));
	char text[4096], wanted[512];

	ASSERT_LE(0, file);
	SHARE_FRESH(mem, size);
	memset(mem, 0x61, size);
	EXPECT_PREFETCH(mem, size);
	EXPECT_EQ(0, svm_set(FD, mem, size, SVM_PREFETCH, SVM_SYSTEM));
	/* It is there, and a move that is not made is not reported. */
	EXPECT_EQ(0, svm_set(FD, mem, size, SVM_PREFETCH, SVM_SYSTEM));
	ASSERT_TRUE(smi_lines(file, 4, text, sizeof(text)));
	snprintf(wanted, sizeof(wanted),
		 "5 -%d @%lx(%zx) 0->%x %x:ffffffff 0\n6 -%d @%lx(%zx) 0->%x 0 0\n"
		 "5 -%d @%lx(%zx) %x->0 0:ffffffff 0\n6 -%d @%lx(%zx) %x->0 0 0\n",
		 getpid(), first, size / KFD_PAGE, GPU, GPU,
		 getpid(), first, size / KFD_PAGE, GPU,
		 getpid(), first, size / KFD_PAGE, GPU,
		 getpid(), first, size / KFD_PAGE, GPU);
	EXPECT_STREQ(wanted, text);
	close(file);
}

/*
 * Watchers are notified of memory that comes back, because the CPU touches it or a buffer needs
 * the VRAM, and of unmapping.
 */
TEST_F(userptr, told_of_what_comes_back)
{
	uint8_t *mem = kfd_reserve(HUGE, HUGE);
	const uintptr_t first = (uintptr_t)mem / KFD_PAGE;
	const uint64_t most = kfd_available(&self->dev);
	const size_t pages = HUGE / KFD_PAGE;
	char text[1024], wanted[256];
	uint64_t handle;
	int file;

	SHARE_FRESH(mem, HUGE);
	memset(mem, 0x63, HUGE);
	EXPECT_PREFETCH(mem, HUGE);
	file = smi_watch(&self->dev, SMI_MASK(MIGRATE_START) | SMI_MASK(MIGRATE_END) |
				     SMI_MASK(UNMAP_FROM_GPU));
	ASSERT_LE(0, file);
	EXPECT_EQ(0x63, mem[3 * KFD_PAGE]);
	ASSERT_TRUE(smi_lines(file, 2, text, sizeof(text)));
	snprintf(wanted, sizeof(wanted),
		 "5 -%d @%lx(%zx) %x->0 %x:ffffffff 2\n6 -%d @%lx(%zx) %x->0 2 0\n",
		 getpid(), first, pages, GPU, GPU, getpid(), first, pages, GPU);
	EXPECT_STREQ(wanted, text);
	EXPECT_PREFETCH(mem, HUGE);
	ASSERT_TRUE(smi_lines(file, 2, text, sizeof(text)));
	ASSERT_EQ(0, kfd_alloc_at(&self->dev, KFD_ALLOC_VRAM, (uintptr_t)kfd_reserve(most, HUGE),
				  most, &handle));
	ASSERT_TRUE(smi_lines(file, 2, text, sizeof(text)));
	snprintf(wanted, sizeof(wanted),
		 "5 -%d @%lx(%zx) %x->0 %x:ffffffff 3\n6 -%d @%lx(%zx) %x->0 3 0\n",
		 getpid(), first, pages, GPU, GPU, getpid(), first, pages, GPU);
	EXPECT_STREQ(wanted, text);
	EXPECT_EQ(0, kfd_free(FD, handle));
	/* The process has it back by now. */
	EXPECT_EQ(0, kfd_queue_copy(&self->queue, (uintptr_t)self->vram.cpu, (uintptr_t)mem, SIZE,
				    WAIT_MS));
	EXPECT_TRUE(all(self->vram.cpu, 0x63, SIZE));
	ASSERT_EQ(0, munmap(mem + 4 * KFD_PAGE, 2 * KFD_PAGE));
	ASSERT_TRUE(smi_lines(file, 1, text, sizeof(text)));
	snprintf(wanted, sizeof(wanted), "b -%d @%lx(2) %x 2\n", getpid(), first + 4, GPU);
	EXPECT_STREQ(wanted, text);
	close(file);
}

/* The move is reported first, before its effect on the queues. */
TEST_F(userptr, told_in_order)
{
	int file;
	char text[1024];

	SHARE_FRESH(self->mem, SIZE);
	memset(self->mem, 0x62, SIZE);
	EXPECT_EQ(0, copy(&self->queue, self->vram.cpu, self->mem, WAIT_MS));
	file = smi_watch(&self->dev, SMI_MASK(MIGRATE_START) | SMI_MASK(QUEUE_EVICTION));
	ASSERT_LE(0, file);
	EXPECT_PREFETCH(self->mem, SIZE);
	ASSERT_TRUE(smi_lines(file, 2, text, sizeof(text)));
	EXPECT_EQ(0, strncmp(text, "5 ", 2));
	EXPECT_NE(NULL, strstr(text, "\n9 "));
	close(file);
}

TEST_F(userptr, touched_meanwhile)
{
	struct toucher touchers[2] = { { 0 } };
	pthread_t threads[ARRAY_SIZE(touchers)];
	const uint64_t end = kfd_now_ms() + 2000;
	unsigned int i, rounds = 0;

	SHARE_FRESH(self->mem, SIZE);
	for (i = 0; i < ARRAY_SIZE(touchers); i++) {
		touchers[i].mem = (volatile uint32_t *)self->mem;
		touchers[i].pages = PAGES;
		touchers[i].number = i;
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, touch, &touchers[i]));
	}
	while (kfd_now_ms() < end) {
		EXPECT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_PREFETCH,
				     rounds % 4 == 3 ? SVM_SYSTEM : GPU));
		rounds++;
	}
	for (i = 0; i < ARRAY_SIZE(touchers); i++)
		touchers[i].stop = true;
	for (i = 0; i < ARRAY_SIZE(touchers); i++) {
		pthread_join(threads[i], NULL);
		EXPECT_EQ(0, touchers[i].wrong);
		EXPECT_LT(0, touchers[i].rounds);
	}
	printf("# %u prefetches beside %u and %u rounds\n", rounds, touchers[0].rounds,
	       touchers[1].rounds);
}

KFD_HARNESS_MAIN
