// SPDX-License-Identifier: GPL-2.0
/*
 * The pages of process memory that the GPU is given (USERPTR): huge pages, pages that become
 * one, pages that go to swap and return.
 */
#include <sys/mman.h>

#include "pagemap.h"
#include "trace.h"
#include "userptr_fixture.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif

/* The number behind @key in the trace line of a mapping at @va. */
static unsigned long entries_of(const void *va)
{
	char line[512], text[64];
	const char *entries;

	snprintf(text, sizeof(text), "va=0x%llx", (unsigned long long)(uintptr_t)va);
	if (!trace_wait("rkfd_map", text, 1, WAIT_MS) ||
	    !trace_find("rkfd_map", text, line, sizeof(line)))
		return 0;
	entries = strstr(line, "entries=");
	return entries ? strtoul(entries + strlen("entries="), NULL, 10) : 0;
}

static bool is_huge(const void *mem, size_t size)
{
	char line[256];
	bool found = false;
	unsigned long kib = 0;
	FILE *f = fopen("/proc/self/smaps", "r");

	if (!f)
		return false;
	while (fgets(line, sizeof(line), f)) {
		unsigned long start, end;

		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			found = start <= (uintptr_t)mem && (uintptr_t)mem < end;
		else if (found && sscanf(line, "AnonHugePages: %lu", &kib) == 1)
			break;
	}
	fclose(f);
	return kib >= size >> 10;
}

/* Huge pages of the process are large pages of the GPU: one entry each. */
TEST_F(userptr, huge_pages)
{
	const size_t size = 8 * HUGE;
	/* At most one new table on each of two levels, all of whose entries are written. */
	const unsigned long tables = 2 * 512;
	uint8_t *mem = kfd_reserve(size, HUGE);
	uint64_t handle;

	if (!trace_open("userptr") || !trace_enable("rkfd"))
		SKIP(return, "no trace of rkfd");
	ASSERT_EQ(mem, anonymous(mem, size, PROT_READ | PROT_WRITE));
	madvise(mem, size, MADV_HUGEPAGE);
	memset(mem, 1, size);
	if (!is_huge(mem, size))
		SKIP(return, "the kernel gives no huge pages");
	ASSERT_EQ(0, kfd_userptr_create(&self->dev, mem, size, KFD_ALLOC_USERPTR, &handle));
	EXPECT_GE(8 + tables, entries_of(mem));
	EXPECT_LE(8, entries_of(mem));
	trace_close();
}

/*
 * Fills every other small page first, so that neighbouring pages are not neighbours in memory:
 * amdgpu makes one entry for 2 MiB of neighbours, whether they are aligned or not
 * (Documentation/amdgpu-bugs.md).
 */
static void fill_scattered(uint8_t *mem, uint8_t value, size_t size)
{
	size_t at;

	for (at = 0; at < size; at += 2 * KFD_PAGE)
		memset(mem + at, value, KFD_PAGE);
	for (at = KFD_PAGE; at < size; at += 2 * KFD_PAGE)
		memset(mem + at, value, KFD_PAGE);
}

/* A range that begins and ends within huge pages, with small ones between. */
TEST_F(userptr, parts_of_huge_pages)
{
	const size_t pages = 3 * HUGE / KFD_PAGE, first = 100, behind = pages - 37, every = 13;
	uint32_t *mem = kfd_reserve(3 * HUGE, HUGE);
	const size_t step = KFD_PAGE / sizeof(*mem);
	uint64_t handle;
	uint8_t *user;
	size_t i;

	ASSERT_EQ((void *)mem, anonymous(mem, 3 * HUGE, PROT_READ | PROT_WRITE));
	madvise(mem, 3 * HUGE, MADV_HUGEPAGE);
	madvise((uint8_t *)mem + HUGE, HUGE, MADV_NOHUGEPAGE);
	fill_scattered((uint8_t *)mem + HUGE, 0, HUGE);
	for (i = 0; i < pages; i++)
		mem[i * step] = i;
	user = (uint8_t *)(mem + first * step);
	ASSERT_EQ(0, kfd_userptr_create(&self->dev, user, (behind - first) * KFD_PAGE,
					KFD_ALLOC_USERPTR, &handle));
	for (i = first; i < behind; i += every) {
		const uintptr_t at = (uintptr_t)(mem + i * step);

		ASSERT_EQ(0, kfd_queue_copy(&self->queue, at + 8, at, 4, WAIT_MS));
		ASSERT_EQ(0, kfd_queue_fill(&self->queue, at + 4, ~i, 4, WAIT_MS));
	}
	for (i = 0; i < pages; i++) {
		const bool written = i >= first && i < behind && (i - first) % every == 0;

		ASSERT_EQ(i, mem[i * step]);
		ASSERT_EQ(written ? (uint32_t)~i : 0, mem[i * step + 1]);
		ASSERT_EQ(written ? i : 0, mem[i * step + 2]);
	}
}

/* Small pages that become a huge one move. */
TEST_F(userptr, collapsed)
{
	uint8_t *mem = kfd_reserve(HUGE, HUGE);
	uint64_t handle;

	ASSERT_EQ(mem, anonymous(mem, HUGE, PROT_READ | PROT_WRITE));
	madvise(mem, HUGE, MADV_NOHUGEPAGE);
	fill_scattered(mem, 0x29, HUGE);
	ASSERT_EQ(0, kfd_userptr_create(&self->dev, mem, HUGE, KFD_ALLOC_USERPTR, &handle));
	self->mem = mem;
	EXPECT_GPU_SEES(0x29);
	madvise(mem, HUGE, MADV_HUGEPAGE);
	if (madvise(mem, HUGE, MADV_COLLAPSE) != 0)
		SKIP(return, "the kernel does not collapse pages: %s", strerror(errno));
	EXPECT_GPU_SEES(0x29);
	EXPECT_GPU_WRITES(0x2a);
	EXPECT_TRUE(all(mem + SIZE, 0x29, HUGE - SIZE));
}

/* The number behind @key in /proc/vmstat. */
static unsigned long vm_counter(const char *key)
{
	unsigned long value = 0, n;
	char line[128], name[64];
	FILE *f = fopen("/proc/vmstat", "r");

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%63s %lu", name, &n) == 2 && strcmp(name, key) == 0)
			value = n;
	fclose(f);
	return value;
}

/*
 * Makes the pages at @mem go to swap. Pages that another processor's list of new ones holds do
 * not go yet.
 */
static bool page_out(void *mem)
{
	const uint64_t end = kfd_now_ms() + KFD_HANG_MS;

	do {
		madvise(mem, SIZE, MADV_PAGEOUT);
		if (pagemap_count(mem, SIZE, pagemap_absent) == SIZE / KFD_PAGE)
			return true;
		usleep(1000);
	} while (kfd_now_ms() < end);
	return false;
}

/* Needs swap; see swap.sh of the clients. */
TEST_F(userptr, swapped)
{
	const unsigned long before = vm_counter("pswpout");
	const uint64_t end = kfd_now_ms() + KFD_HANG_MS;
	const bool swap = getenv("RKFD_SWAP");
	unsigned int round;

	GIVE(0x49, KFD_ALLOC_USERPTR);
	EXPECT_GPU_SEES(0x49);
	/* Pages that another processor's list of new ones holds do not go yet. */
	for (round = 0; round < 20 ||
	     (swap && vm_counter("pswpout") == before && kfd_now_ms() < end); round++) {
		madvise(self->mem, SIZE, MADV_PAGEOUT);
		EXPECT_GPU_SEES(0x49);
	}
	if (!swap)
		SKIP(return, "there is no swap; see swap.sh of the clients");
	EXPECT_LT(before, vm_counter("pswpout"));
	EXPECT_GPU_WRITES(0x4a);
	madvise(self->mem, SIZE, MADV_PAGEOUT);
	EXPECT_TRUE(all(self->mem, 0x4a, SIZE));
	EXPECT_GPU_SEES(0x4a);
}

/*
 * Pages that came back from swap are identical to the disk's. The GPU's writes to them must
 * reach the disk, too.
 */
TEST_F(userptr, swapped_in_and_written)
{
	unsigned long written;
	unsigned int round;

	if (!getenv("RKFD_SWAP"))
		SKIP(return, "there is no swap; see swap.sh of the clients");
	for (round = 0; round < 6; round++) {
		ASSERT_EQ(self->mem, anonymous(self->mem, SIZE, PROT_READ | PROT_WRITE));
		memset(self->mem, 0x4b, SIZE);
		written = vm_counter("pswpout");
		ASSERT_TRUE(page_out(self->mem));
		EXPECT_LT(written, vm_counter("pswpout"));
		EXPECT_TRUE(all(self->mem, 0x4b, SIZE));
		ASSERT_EQ(0, kfd_userptr_create(&self->dev, self->mem, SIZE, KFD_ALLOC_USERPTR,
						&self->handle));
		EXPECT_GPU_WRITES(0x4c + round);
		/* It comes back at once while the GPU has it. */
		if (round % 2 == 0)
			madvise(self->mem, SIZE, MADV_PAGEOUT);
		EXPECT_EQ(0, kfd_unmap(self->dev.fd, self->handle, self->dev.gpu_id));
		ASSERT_TRUE(page_out(self->mem));
		EXPECT_TRUE(all(self->mem, 0x4c + round, SIZE));
		EXPECT_EQ(0, kfd_free(self->dev.fd, self->handle));
	}
}

/*
 * Shared memory that was only read is clean, and the process's entries already allow writes.
 * Reclaim must not discard the GPU's writes.
 */
TEST_F(userptr, shared_and_only_read)
{
	unsigned int round;

	SKIP_ON_AMDKFD("pages of files are clean as they were, whatever the GPU has written");
	for (round = 0; round < 6; round++) {
		ASSERT_EQ(self->mem, mmap(self->mem, SIZE, PROT_READ | PROT_WRITE,
					  MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
		EXPECT_TRUE(all(self->mem, 0, SIZE));
		ASSERT_EQ(0, kfd_userptr_create(&self->dev, self->mem, SIZE, KFD_ALLOC_USERPTR,
						&self->handle));
		EXPECT_GPU_WRITES(0x4c + round);
		/* It comes back at once while the GPU has it. */
		if (round % 2 == 0)
			madvise(self->mem, SIZE, MADV_PAGEOUT);
		EXPECT_EQ(0, kfd_unmap(self->dev.fd, self->handle, self->dev.gpu_id));
		madvise(self->mem, SIZE, MADV_PAGEOUT);
		EXPECT_TRUE(all(self->mem, 0x4c + round, SIZE));
		EXPECT_EQ(0, kfd_free(self->dev.fd, self->handle));
	}
}

KFD_HARNESS_MAIN
