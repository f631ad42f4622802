// SPDX-License-Identifier: GPL-2.0
/*
 * Shared virtual memory in huge pages, which are split on their way to VRAM. Changes to parts
 * of them there leave the rest unchanged, and a child may give them up at any moment.
 */
#include <sys/wait.h>

#include "kfd_svm.h"
#include "objects.h"
#include "pagemap.h"
#include "userptr_fixture.h"

#define FD		(self->dev.fd)
#define GPU		(self->dev.gpu_id)
#define HUGE_PAGES	(HUGE / KFD_PAGE)
#define AT(mem, page)	((mem) + (size_t)(page) * KFD_PAGE)

/* The fixture is userptr's: a queue, and VRAM of SIZE bytes as the other end of copies. */

/* Each page has a number of its own in all of its words. */
static void number_pages(void *mem, size_t pages, uint32_t first)
{
	uint32_t *words = mem;
	size_t i;

	for (i = 0; i < pages * KFD_PAGE / sizeof(*words); i++)
		words[i] = first + (uint32_t)(i * sizeof(*words) / KFD_PAGE);
}

static bool numbered(const void *mem, size_t pages, uint32_t first)
{
	const uint32_t *words = mem;
	size_t i;

	for (i = 0; i < pages * KFD_PAGE / sizeof(*words); i++)
		if (words[i] != first + (uint32_t)(i * sizeof(*words) / KFD_PAGE))
			return false;
	return true;
}

/* The part of the mapping at @mem that is in huge pages, wherever they are, in bytes. */
static size_t in_huge_pages(const void *mem)
{
	FILE *file = fopen("/proc/self/smaps", "r");
	unsigned long start, end;
	size_t found = 0, kib;
	bool in = false;
	char line[512];

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			in = start == (uintptr_t)mem;
		else if (in && sscanf(line, "AnonHugePages: %zu kB", &kib) == 1)
			found = kib << 10;
	}
	if (file)
		fclose(file);
	return found;
}

/*
 * @size bytes at an address of a huge page, in a mapping of their own that has not been
 * touched; NULL on failure. Their surroundings are unmapped, so that the kernel does not merge
 * two mappings.
 */
static uint8_t *fresh(size_t size)
{
	uint8_t *mem = kfd_reserve(size + 2 * HUGE, HUGE);

	if (!mem || munmap(mem, size + 2 * HUGE))
		return NULL;
	mem += HUGE;
	if (anonymous(mem, size, PROT_READ | PROT_WRITE) != mem)
		return NULL;
	madvise(mem, size, MADV_HUGEPAGE);
	return mem;
}

/*
 * The same in huge pages, which are numbered from @first; NULL also when the kernel has given
 * no huge pages.
 */
static uint8_t *numbered_huge(size_t size, uint32_t first)
{
	uint8_t *mem = fresh(size);

	if (!mem)
		return NULL;
	number_pages(mem, size / KFD_PAGE, first);
	return in_huge_pages(mem) == size ? mem : NULL;
}

/* The GPU finds the numbers of @pages pages, SIZE at most, from page @page of @mem on. */
#define EXPECT_GPU_FINDS(mem, page, pages, first)				\
	do {									\
		memset(self->vram.cpu, 0xee, SIZE);				\
		EXPECT_EQ(0, kfd_queue_copy(&self->queue, (uintptr_t)self->vram.cpu, \
					    (uintptr_t)AT(mem, page), (pages) * KFD_PAGE, \
					    WAIT_MS));				\
		EXPECT_TRUE(numbered(self->vram.cpu, pages, (first) + (page)));	\
	} while (0)

TEST_F(userptr, come_back)
{
	const size_t size = 3 * HUGE;
	uint8_t *mem = numbered_huge(size, 1000);

	ASSERT_NE(NULL, mem);
	ASSERT_EQ(0, svm_set(FD, mem, size, SVM_ACCESS, GPU));
	EXPECT_PREFETCH(mem, size);
	EXPECT_GPU_FINDS(mem, 700, 16, 1000);
	/* The CPU's access brings that one back, */
	EXPECT_TRUE(numbered(AT(mem, HUGE_PAGES + 3), 1, 1000 + HUGE_PAGES + 3));
	EXPECT_EQ(2 * HUGE_PAGES, in_vram(mem, size));
	/* and a call the others. */
	EXPECT_EQ(0, svm_set(FD, mem, size, SVM_PREFETCH, SVM_SYSTEM));
	EXPECT_EQ(0, in_vram(mem, size));
	EXPECT_TRUE(numbered(mem, size / KFD_PAGE, 1000));
	EXPECT_PREFETCH(mem, size);
	EXPECT_GPU_FINDS(mem, HUGE_PAGES - 8, 16, 1000);
	EXPECT_TRUE(numbered(mem, size / KFD_PAGE, 1000));
}

/* Untouched memory comes as zeroes. */
TEST_F(userptr, holes)
{
	uint8_t *mem = fresh(HUGE);
	struct kfd_bo dirt;

	ASSERT_NE(NULL, mem);
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &dirt, 4 * HUGE, KFD_ALLOC_VRAM));
	memset(dirt.cpu, 0xa5, 4 * HUGE);
	ASSERT_EQ(0, kfd_bo_destroy(&self->dev, &dirt));
	ASSERT_EQ(0, svm_set(FD, mem, HUGE, SVM_PREFETCH, GPU));
	EXPECT_EQ(HUGE_PAGES, in_vram(mem, HUGE));
	ASSERT_EQ(0, svm_set(FD, mem, HUGE, SVM_ACCESS, GPU));
	memset(self->vram.cpu, 0xee, SIZE);
	EXPECT_EQ(0, copy(&self->queue, self->vram.cpu, AT(mem, 100), WAIT_MS));
	EXPECT_TRUE(all(self->vram.cpu, 0, SIZE));
	EXPECT_TRUE(all(mem, 0, HUGE));
}

/* The GPU has access to the middle of a page only, and not to the parts around it. */
TEST_F(userptr, used_in_part)
{
	static const size_t firsts[] = { 3, 64, 511, 77, 496 }, counts[] = { 5, 16, 1, 1, 16 };
	uint8_t *mem = numbered_huge(HUGE, 3000);
	size_t i;

	ASSERT_NE(NULL, mem);
	EXPECT_PREFETCH(mem, HUGE);
	for (i = 0; i < ARRAY_SIZE(firsts); i++) {
		const size_t size = counts[i] * KFD_PAGE;

		ASSERT_EQ(0, svm_set(FD, AT(mem, firsts[i]), size, SVM_ACCESS, GPU));
		EXPECT_EQ(HUGE_PAGES, in_vram(mem, HUGE));
		EXPECT_GPU_FINDS(mem, firsts[i], counts[i], 3000);
		ASSERT_EQ(0, svm_set(FD, AT(mem, firsts[i]), size, SVM_NO_ACCESS, GPU));
	}
	EXPECT_TRUE(numbered(mem, HUGE_PAGES, 3000));
}

/* A part is unmapped, and the rest stays in VRAM; all of it is freed with the last page. */
TEST_F(userptr, unmapped_in_part)
{
	uint8_t *mem = numbered_huge(HUGE, 4000);

	ASSERT_NE(NULL, mem);
	ASSERT_EQ(0, svm_set(FD, mem, HUGE, SVM_ACCESS, GPU));
	EXPECT_PREFETCH(mem, HUGE);
	ASSERT_EQ(0, munmap(AT(mem, 8), 8 * KFD_PAGE));
	ASSERT_EQ(0, munmap(AT(mem, 500), 12 * KFD_PAGE));
	EXPECT_EQ(8, in_vram(mem, 8 * KFD_PAGE));
	EXPECT_EQ(484, in_vram(AT(mem, 16), 484 * KFD_PAGE));
	EXPECT_GPU_FINDS(mem, 2, 6, 4000);
	EXPECT_GPU_FINDS(mem, 484, 16, 4000);
	EXPECT_TRUE(numbered(AT(mem, 300), 1, 4300));
	EXPECT_TRUE(numbered(mem, 8, 4000));
	EXPECT_TRUE(numbered(AT(mem, 16), 484, 4016));
	EXPECT_GPU_FINDS(mem, 484, 16, 4000);
	ASSERT_EQ(0, munmap(mem, HUGE));
	if (kfd_is_rkfd())
		EXPECT_TRUE(objects_become("shared_vram_bytes", 0, WAIT_MS));
}

/* Memory that is given up and touched again is new. */
TEST_F(userptr, given_up_in_part)
{
	uint8_t *mem = numbered_huge(HUGE, 5000);

	ASSERT_NE(NULL, mem);
	ASSERT_EQ(0, svm_set(FD, mem, HUGE, SVM_ACCESS, GPU));
	EXPECT_PREFETCH(mem, HUGE);
	ASSERT_EQ(0, madvise(AT(mem, 100), 4 * KFD_PAGE, MADV_DONTNEED));
	EXPECT_GPU_FINDS(mem, 90, 10, 5000);
	EXPECT_GPU_FINDS(mem, 104, 10, 5000);
	memset(self->vram.cpu, 0xee, SIZE);
	EXPECT_EQ(0, kfd_queue_copy(&self->queue, (uintptr_t)self->vram.cpu,
				    (uintptr_t)AT(mem, 100), 4 * KFD_PAGE, WAIT_MS));
	EXPECT_TRUE(all(self->vram.cpu, 0, 4 * KFD_PAGE));
	EXPECT_TRUE(numbered(mem, 100, 5000));
	EXPECT_TRUE(numbered(AT(mem, 104), HUGE_PAGES - 104, 5104));
}

TEST_F(userptr, protected_in_part)
{
	uint8_t *mem = numbered_huge(HUGE, 6000);

	ASSERT_NE(NULL, mem);
	ASSERT_EQ(0, svm_set(FD, mem, HUGE, SVM_ACCESS, GPU));
	EXPECT_PREFETCH(mem, HUGE);
	ASSERT_EQ(0, mprotect(mem, HUGE, PROT_READ));
	EXPECT_GPU_FINDS(mem, 20, 16, 6000);
	ASSERT_EQ(0, mprotect(AT(mem, 128), HUGE / 2, PROT_READ | PROT_WRITE));
	EXPECT_GPU_FINDS(mem, 120, 16, 6000);
	number_pages(self->vram.cpu, 16, 1);
	EXPECT_EQ(0, copy(&self->queue, AT(mem, 128), self->vram.cpu, WAIT_MS));
	EXPECT_TRUE(numbered(AT(mem, 128), 16, 1));
	EXPECT_TRUE(numbered(mem, 128, 6000));
	EXPECT_TRUE(numbered(AT(mem, 144), HUGE_PAGES - 144, 6144));
}

/* Memory is the same at another address, of a huge page or not. */
TEST_F(userptr, moved)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		uint8_t *mem = numbered_huge(HUGE, 7000), *to = fresh(2 * HUGE);
		uint8_t *away = AT(to, i * 5);

		ASSERT_NE(NULL, mem);
		ASSERT_NE(NULL, to);
		EXPECT_PREFETCH(mem, HUGE);
		ASSERT_EQ(away, mremap(mem, HUGE, HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, away));
		EXPECT_EQ(HUGE_PAGES, in_vram(away, HUGE));
		ASSERT_EQ(0, svm_set(FD, away, HUGE, SVM_ACCESS, GPU));
		EXPECT_GPU_FINDS(away, 400, 16, 7000);
		EXPECT_TRUE(numbered(away, HUGE_PAGES, 7000));
		ASSERT_EQ(0, munmap(to, 2 * HUGE));
	}
}

/*
 * A child has the memory of the time of the fork, and the parent's GPU writes only to the
 * parent's; then the child gives up a part of it.
 */
TEST_F(userptr, forked)
{
	uint8_t *mem = numbered_huge(2 * HUGE, 8000);
	int go[2], status;
	char byte;
	pid_t pid;

	ASSERT_NE(NULL, mem);
	ASSERT_EQ(0, svm_set(FD, mem, 2 * HUGE, SVM_ACCESS, GPU));
	EXPECT_PREFETCH(mem, 2 * HUGE);
	ASSERT_EQ(0, pipe(go));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(go[1]);
		if (munmap(AT(mem, HUGE_PAGES + 9), KFD_PAGE))
			_exit(1);
		if (read(go[0], &byte, 1) != 1)
			_exit(2);
		/* The GPU has written in between. */
		if (!numbered(mem, HUGE_PAGES + 9, 8000) ||
		    !numbered(AT(mem, HUGE_PAGES + 10), HUGE_PAGES - 10, 8010 + HUGE_PAGES))
			_exit(3);
		number_pages(mem, HUGE_PAGES, 1);
		if (read(go[0], &byte, 1) != 0)
			_exit(4);
		_exit(numbered(mem, HUGE_PAGES, 1) ? 0 : 5);
	}
	close(go[0]);
	number_pages(self->vram.cpu, 16, 50);
	EXPECT_EQ(0, copy(&self->queue, AT(mem, 32), self->vram.cpu, WAIT_MS));
	EXPECT_EQ(1, write(go[1], "", 1));
	EXPECT_GPU_FINDS(mem, 32, 16, 50 - 32);
	EXPECT_GPU_FINDS(mem, HUGE_PAGES, 16, 8000);
	close(go[1]);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_TRUE(numbered(AT(mem, 32), 16, 50));
	EXPECT_TRUE(numbered(mem, 32, 8000));
	EXPECT_TRUE(numbered(AT(mem, 48), 2 * HUGE_PAGES - 48, 8048));
}

/* VRAM that a buffer needs is moved out, whichever processes share it. */
TEST_F(userptr, buffers_go_first)
{
	const uint64_t before = kfd_available(&self->dev);
	uint8_t *mem = numbered_huge(4 * HUGE, 9000);
	int done[2], status;
	uint64_t handle;
	char byte;
	pid_t pid;

	ASSERT_NE(NULL, mem);
	EXPECT_PREFETCH(mem, 4 * HUGE);
	ASSERT_EQ(0, pipe(done));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(done[1]);
		if (read(done[0], &byte, 1) != 0)
			_exit(1);
		_exit(numbered(mem, 4 * HUGE_PAGES, 9000) ? 0 : 2);
	}
	close(done[0]);
	ASSERT_EQ(0, munmap(AT(mem, 3), KFD_PAGE));
	ASSERT_EQ(0, kfd_alloc_at(&self->dev, KFD_ALLOC_VRAM, (uintptr_t)kfd_reserve(before, HUGE),
				  before, &handle));
	EXPECT_EQ(0, in_vram(mem, 4 * HUGE));
	EXPECT_TRUE(numbered(mem, 3, 9000));
	EXPECT_TRUE(numbered(AT(mem, 4), 4 * HUGE_PAGES - 4, 9004));
	close(done[1]);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, kfd_free(FD, handle));
}

/*
 * A child gives up memory at the moment that its parent brings it back. A kernel that has a
 * huge page in transit, not pieces of it, gives it up twice, and hangs (7.3.4:
 * zap_huge_pmd_folio).
 */
TEST_F(userptr, given_up_on_the_way)
{
	unsigned int round;
	int go[2], status;
	uint8_t *mem;
	char byte;
	pid_t pid;

	for (round = 0; round < 100; round++) {
		mem = numbered_huge(HUGE, round * HUGE_PAGES);
		ASSERT_NE(NULL, mem);
		EXPECT_PREFETCH(mem, HUGE);
		ASSERT_EQ(0, pipe(go));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			close(go[1]);
			if (read(go[0], &byte, 1) != 0)
				_exit(1);
			usleep(round * 50);
			_exit(munmap(mem, HUGE));
		}
		close(go[0]);
		close(go[1]);
		EXPECT_EQ(0, svm_set(FD, mem, HUGE, SVM_PREFETCH, SVM_SYSTEM));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_EQ(0, status);
		EXPECT_TRUE(numbered(mem, HUGE_PAGES, round * HUGE_PAGES));
		EXPECT_EQ(0, munmap(mem, HUGE));
	}
}

TEST_HARNESS_MAIN
