// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that a process lends to the GPU (USERPTR): what the GPU sees of it while the process unmaps, moves, shares and
 * changes it. The GPU sees what the process has, or nothing, never what the process had.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "kfd_event.h"
#include "kfd_harness.h"
#include "lend.h"
#include "packets.h"
#include "trace.h"

#define MIB		(1ull << 20)
#define HUGE		(2 * MIB)
#define RING_SIZE	(16u << 10)
#define SIZE		(64u << 10)
#define WAIT_MS		KFD_HANG_MS
/* For what must not come. */
#define STOPPED_MS	200u

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif

FIXTURE(userptr)
{
	struct kfd_dev dev;
	struct kfd_queue queue;
	struct kfd_bo vram;	/* the other end of copies */
	uint8_t *mem;		/* the lent memory; also its address on the GPU */
	uint64_t handle;
	uint32_t fault;		/* the event */
};

FIXTURE_SETUP(userptr)
{
	ASSERT_EQ(0, kfd_open(&self->dev));
	ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_MEMORY, true, &self->fault));
	ASSERT_EQ(0, kfd_queue_create(&self->dev, &self->queue, RING_SIZE));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &self->vram, SIZE, KFD_ALLOC_VRAM));
	self->mem = kfd_reserve(SIZE, HUGE);
	ASSERT_NE(NULL, self->mem);
}

FIXTURE_TEARDOWN(userptr)
{
	kfd_close(&self->dev);
}

/* 0, or ETIMEDOUT when the copy does not end in time. */
static int copy(struct kfd_queue *queue, const void *dst, const void *src,
		unsigned int ms)
{
	return kfd_queue_copy(queue, (uintptr_t)dst, (uintptr_t)src, SIZE, ms);
}

static void start_copy(struct kfd_queue *queue, const void *dst, const void *src, size_t bytes)
{
	struct packets p = { 0 };

	sdma_copy(&p, (uintptr_t)dst, (uintptr_t)src, bytes);
	kfd_queue_submit(queue, p.dwords, p.count);
}

/* A copy from lent memory gives @value everywhere. */
#define EXPECT_GPU_SEES(value)							\
	do {									\
		memset(self->vram.cpu, 0xee, SIZE);				\
		EXPECT_EQ(0, copy(&self->queue, self->vram.cpu, self->mem, WAIT_MS)); \
		EXPECT_TRUE(all(self->vram.cpu, value, SIZE));			\
	} while (0)

/* A copy to lent memory arrives where the process sees it. */
#define EXPECT_GPU_WRITES(value)						\
	do {									\
		memset(self->vram.cpu, value, SIZE);				\
		EXPECT_EQ(0, copy(&self->queue, self->mem, self->vram.cpu, WAIT_MS)); \
		EXPECT_TRUE(all(self->mem, value, SIZE));			\
	} while (0)

/* A queue that has come to an address that it may not use faults, and a moment later does no more. */
#define EXPECT_QUEUE_STOPPED()							\
	do {									\
		EXPECT_EQ(0, event_wait(&self->dev, self->fault, WAIT_MS));	\
		usleep(100000);							\
		EXPECT_EQ(ETIMEDOUT, kfd_queue_finish(&self->queue, STOPPED_MS)); \
	} while (0)

/* A copy from memory that the process has given up brings nothing of it, and faults. */
#define EXPECT_GPU_SEES_NOTHING()						\
	do {									\
		memset(self->vram.cpu, 0, SIZE);				\
		start_copy(&self->queue, self->vram.cpu, self->mem, SIZE);	\
		EXPECT_QUEUE_STOPPED();						\
		EXPECT_TRUE(all(self->vram.cpu, 0, SIZE));			\
	} while (0)

/* A copy to memory that the process may not write faults, and changes nothing. */
#define EXPECT_GPU_DOES_NOT_WRITE(value)					\
	do {									\
		memset(self->vram.cpu, 0xee, SIZE);				\
		start_copy(&self->queue, self->mem, self->vram.cpu, SIZE);	\
		EXPECT_QUEUE_STOPPED();						\
		EXPECT_TRUE(all(self->mem, value, SIZE));			\
	} while (0)

/* Ordinary memory of the process, filled with @value and lent. */
#define LEND(value, flags)							\
	do {									\
		ASSERT_EQ(self->mem, anonymous(self->mem, SIZE, PROT_READ | PROT_WRITE)); \
		memset(self->mem, value, SIZE);					\
		ASSERT_EQ(0, lend(&self->dev, self->mem, SIZE, flags, &self->handle)); \
	} while (0)

TEST_F(userptr, copies_in_and_out)
{
	LEND(0x11, KFD_ALLOC_USERPTR);
	EXPECT_GPU_SEES(0x11);
	memset(self->mem, 0x12, SIZE);
	EXPECT_GPU_SEES(0x12);
	EXPECT_GPU_WRITES(0x13);
	EXPECT_EQ(0, kfd_unmap(self->dev.fd, self->handle, self->dev.gpu_id));
	EXPECT_EQ(0, kfd_free(self->dev.fd, self->handle));
}

/* Pages that nobody has touched before. */
TEST_F(userptr, untouched)
{
	ASSERT_EQ(self->mem, anonymous(self->mem, SIZE, PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, lend(&self->dev, self->mem, SIZE, KFD_ALLOC_USERPTR, &self->handle));
	EXPECT_GPU_SEES(0);
	EXPECT_GPU_WRITES(0x21);
}

TEST_F(userptr, read_only)
{
	const uint32_t flags = KFD_ALLOC_USERPTR & ~(uint32_t)KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE;

	SKIP_ON_AMDKFD("it wants to write, whatever the flags say");
	ASSERT_EQ(self->mem, anonymous(self->mem, SIZE, PROT_READ | PROT_WRITE));
	memset(self->mem, 0x31, SIZE);
	ASSERT_EQ(0, mprotect(self->mem, SIZE, PROT_READ));
	EXPECT_EQ(EFAULT, lend(&self->dev, self->mem, SIZE, KFD_ALLOC_USERPTR, &self->handle));
	ASSERT_EQ(0, lend(&self->dev, self->mem, SIZE, flags, &self->handle));
	EXPECT_GPU_SEES(0x31);
	/* The GPU may not write either. */
	EXPECT_GPU_DOES_NOT_WRITE(0x31);
}

/* Memory that may be written when it is lent, and may not later. */
TEST_F(userptr, made_read_only)
{
	SKIP_ON_AMDKFD("queues stay evicted for good");
	LEND(0x41, KFD_ALLOC_USERPTR);
	ASSERT_EQ(0, mprotect(self->mem, SIZE, PROT_READ));
	EXPECT_GPU_SEES(0x41);
	ASSERT_EQ(0, mprotect(self->mem, SIZE, PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, mprotect(self->mem, SIZE, PROT_READ));
	EXPECT_GPU_DOES_NOT_WRITE(0x41);
}

TEST_F(userptr, file_shared)
{
	uint8_t *content = malloc(SIZE);
	int file = memfd_create("userptr", 0);

	ASSERT_LE(0, file);
	ASSERT_EQ(0, ftruncate(file, SIZE));
	ASSERT_EQ(self->mem, mmap(self->mem, SIZE, PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_FIXED, file, 0));
	memset(self->mem, 0x51, SIZE);
	ASSERT_EQ(0, lend(&self->dev, self->mem, SIZE, KFD_ALLOC_USERPTR, &self->handle));
	EXPECT_GPU_SEES(0x51);
	EXPECT_GPU_WRITES(0x52);
	EXPECT_EQ((ssize_t)SIZE, pread(file, content, SIZE, 0));
	EXPECT_TRUE(all(content, 0x52, SIZE));
	/* What others write is seen. */
	memset(content, 0x53, SIZE);
	EXPECT_EQ((ssize_t)SIZE, pwrite(file, content, SIZE, 0));
	EXPECT_GPU_SEES(0x53);
	/* The file's pages go, the mapping stays. */
	ASSERT_EQ(0, ftruncate(file, 0));
	EXPECT_GPU_SEES_NOTHING();
}

/* Of a file that has become shorter, what is left is still there. */
TEST_F(userptr, file_cut)
{
	const size_t kept = 5 * KFD_PAGE;
	int file = memfd_create("userptr", 0);

	SKIP_ON_AMDKFD("of a buffer that has lost a page nothing is mapped again");
	ASSERT_LE(0, file);
	ASSERT_EQ(0, ftruncate(file, SIZE));
	ASSERT_EQ(self->mem, mmap(self->mem, SIZE, PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_FIXED, file, 0));
	memset(self->mem, 0x54, SIZE);
	ASSERT_EQ(0, lend(&self->dev, self->mem, SIZE, KFD_ALLOC_USERPTR, &self->handle));
	EXPECT_GPU_SEES(0x54);
	ASSERT_EQ(0, ftruncate(file, kept));
	memset(self->vram.cpu, 0xee, SIZE);
	EXPECT_EQ(0, kfd_queue_copy(&self->queue, (uintptr_t)self->vram.cpu,
				    (uintptr_t)self->mem, kept, WAIT_MS));
	EXPECT_TRUE(all(self->vram.cpu, 0x54, kept));
	/* And nothing behind it. */
	memset(self->vram.cpu, 0, KFD_PAGE);
	start_copy(&self->queue, self->vram.cpu, self->mem + kept, KFD_PAGE);
	EXPECT_QUEUE_STOPPED();
	EXPECT_TRUE(all(self->vram.cpu, 0, KFD_PAGE));
}

TEST_F(userptr, file_private)
{
	const uint32_t flags = KFD_ALLOC_USERPTR & ~(uint32_t)KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE;
	uint8_t *content = malloc(SIZE);
	int file = memfd_create("userptr", 0);

	memset(content, 0x61, SIZE);
	ASSERT_LE(0, file);
	ASSERT_EQ((ssize_t)SIZE, pwrite(file, content, SIZE, 0));
	ASSERT_EQ(self->mem, mmap(self->mem, SIZE, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_FIXED, file, 0));
	ASSERT_EQ(0, lend(&self->dev, self->mem, SIZE, flags, &self->handle));
	EXPECT_GPU_SEES(0x61);
	/* The process gets pages of its own, and the GPU with it. */
	memset(self->mem, 0x62, SIZE);
	EXPECT_GPU_SEES(0x62);
	EXPECT_EQ((ssize_t)SIZE, pread(file, content, SIZE, 0));
	EXPECT_TRUE(all(content, 0x61, SIZE));
}

TEST_F(userptr, unmapped)
{
	LEND(0x71, KFD_ALLOC_USERPTR);
	EXPECT_GPU_SEES(0x71);
	ASSERT_EQ(0, munmap(self->mem, SIZE));
	EXPECT_GPU_SEES_NOTHING();
	EXPECT_EQ(0, kfd_unmap(self->dev.fd, self->handle, self->dev.gpu_id));
	EXPECT_EQ(0, kfd_free(self->dev.fd, self->handle));
}

/* What is left of a range is still there. */
TEST_F(userptr, unmapped_in_part)
{
	struct packets p = { 0 };

	SKIP_ON_AMDKFD("of a buffer that has lost a page nothing is mapped again");
	LEND(0x72, KFD_ALLOC_USERPTR);
	ASSERT_EQ(0, munmap(self->mem + KFD_PAGE, KFD_PAGE));
	memset(self->vram.cpu, 0xee, SIZE);
	sdma_copy(&p, (uintptr_t)self->vram.cpu, (uintptr_t)self->mem, KFD_PAGE);
	sdma_copy(&p, (uintptr_t)self->vram.cpu + 2 * KFD_PAGE,
		  (uintptr_t)self->mem + 2 * KFD_PAGE, SIZE - 2 * KFD_PAGE);
	kfd_queue_submit(&self->queue, p.dwords, p.count);
	EXPECT_EQ(0, kfd_queue_finish(&self->queue, WAIT_MS));
	EXPECT_TRUE(all(self->vram.cpu, 0x72, KFD_PAGE));
	EXPECT_TRUE(all((char *)self->vram.cpu + KFD_PAGE, 0xee, KFD_PAGE));
	EXPECT_TRUE(all((char *)self->vram.cpu + 2 * KFD_PAGE, 0x72, SIZE - 2 * KFD_PAGE));
}

TEST_F(userptr, mapped_over)
{
	unsigned int round;

	SKIP_ON_AMDKFD("queues stay evicted for good");
	LEND(0x80, KFD_ALLOC_USERPTR);
	for (round = 1; round < 8; round++) {
		ASSERT_EQ(self->mem, anonymous(self->mem, SIZE, PROT_READ | PROT_WRITE));
		memset(self->mem, 0x80 + round, SIZE);
		EXPECT_GPU_SEES(0x80 + round);
		EXPECT_GPU_WRITES(0x90 + round);
	}
}

TEST_F(userptr, dont_need)
{
	LEND(0xa1, KFD_ALLOC_USERPTR);
	EXPECT_GPU_SEES(0xa1);
	ASSERT_EQ(0, madvise(self->mem, SIZE, MADV_DONTNEED));
	EXPECT_GPU_SEES(0);
	EXPECT_GPU_WRITES(0xa2);
}

TEST_F(userptr, moved_away)
{
	uint8_t *elsewhere = kfd_reserve(SIZE, KFD_PAGE);

	LEND(0xb1, KFD_ALLOC_USERPTR);
	ASSERT_EQ(elsewhere, mremap(self->mem, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED,
				    elsewhere));
	EXPECT_GPU_SEES_NOTHING();
	EXPECT_TRUE(all(elsewhere, 0xb1, SIZE));
}

TEST_F(userptr, moved_in)
{
	uint8_t *other = kfd_reserve(SIZE, KFD_PAGE);

	LEND(0xb2, KFD_ALLOC_USERPTR);
	ASSERT_EQ(other, anonymous(other, SIZE, PROT_READ | PROT_WRITE));
	memset(other, 0xb3, SIZE);
	ASSERT_EQ(self->mem, mremap(other, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED,
				    self->mem));
	EXPECT_GPU_SEES(0xb3);
	EXPECT_GPU_WRITES(0xb4);
}

/* Parent and child share pages until one writes; the GPU goes with the parent. */
TEST_F(userptr, forked)
{
	int status, pipes[2];
	pid_t child;
	char byte;

	ASSERT_EQ(0, pipe(pipes));
	LEND(0xc1, KFD_ALLOC_USERPTR);
	child = fork();
	ASSERT_LE(0, child);
	if (child == 0) {
		close(pipes[1]);
		/* Waits for the parent, whose writes it must not see. */
		if (read(pipes[0], &byte, 1) != 0)
			_exit(1);
		if (!all(self->mem, 0xc1, SIZE))
			_exit(2);
		memset(self->mem, 0xc9, SIZE);
		_exit(0);
	}
	close(pipes[0]);
	EXPECT_GPU_SEES(0xc1);
	EXPECT_GPU_WRITES(0xc2);
	memset(self->mem, 0xc3, SIZE);
	EXPECT_GPU_SEES(0xc3);
	close(pipes[1]);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_GPU_SEES(0xc3);
	EXPECT_GPU_WRITES(0xc4);
}

/* As libhsakmt marks what it lends: a fork leaves it alone, and the queues too. */
TEST_F(userptr, not_for_children)
{
	int status;
	pid_t child;

	LEND(0xd1, KFD_ALLOC_USERPTR);
	ASSERT_EQ(0, madvise(self->mem, SIZE, MADV_DONTFORK));
	child = fork();
	ASSERT_LE(0, child);
	if (child == 0)
		_exit(0);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_GPU_SEES(0xd1);
	EXPECT_GPU_WRITES(0xd2);
}

/* The ring of a queue, and its pointers, in lent memory. */
TEST_F(userptr, ring)
{
	struct kfd_ioctl_create_queue_args args;
	struct kfd_queue *queue = &self->queue, own = *queue;
	struct kfd_bo ring, pointers;
	unsigned int round;
	int status;
	pid_t child;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &ring, RING_SIZE, KFD_ALLOC_USERPTR));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &pointers, KFD_PAGE, KFD_ALLOC_USERPTR));
	memset(pointers.cpu, 0, KFD_PAGE);
	kfd_queue_args(&self->dev, &ring, &pointers, &args);
	ASSERT_EQ(0, kfd_ioctl(self->dev.fd, AMDKFD_IOC_CREATE_QUEUE, &args));
	own.ring = ring;
	own.pointers = pointers;
	own.id = args.queue_id;
	own.wptr = 0;
	own.fence = 0;
	own.doorbell = (volatile uint64_t *)((char *)queue->slice +
			(args.doorbell_offset & (KFD_DOORBELL_SLICE - 1)));
	*queue = own;
	LEND(0xe0, KFD_ALLOC_USERPTR);
	for (round = 1; round < 4; round++) {
		child = fork();
		ASSERT_LE(0, child);
		if (child == 0)
			_exit(0);
		memset(self->mem, 0xe0 + round, SIZE);
		EXPECT_GPU_SEES(0xe0 + round);
		ASSERT_EQ(child, waitpid(child, &status, 0));
	}
	EXPECT_EQ(EBUSY, kfd_unmap(self->dev.fd, ring.handle, self->dev.gpu_id));
	EXPECT_EQ(0, kfd_destroy_queue(self->dev.fd, own.id));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &ring));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &pointers));
}

/* A queue that waits in the middle of a packet is halted, and goes on afterwards. */
TEST_F(userptr, changed_under_a_waiting_queue)
{
	struct packets p = { 0 };
	volatile uint32_t *flag = (volatile uint32_t *)((char *)self->queue.pointers.cpu + 256);

	LEND(0xf1, KFD_ALLOC_USERPTR);
	memset(self->vram.cpu, 0xee, SIZE);
	sdma_wait_memory(&p, (uintptr_t)flag, 1);
	sdma_copy(&p, (uintptr_t)self->vram.cpu, (uintptr_t)self->mem, SIZE);
	kfd_queue_submit(&self->queue, p.dwords, p.count);
	usleep(20000);
	ASSERT_EQ(self->mem, anonymous(self->mem, SIZE, PROT_READ | PROT_WRITE));
	memset(self->mem, 0xf2, SIZE);
	usleep(20000);
	*flag = 1;
	EXPECT_EQ(0, kfd_queue_finish(&self->queue, WAIT_MS));
	EXPECT_TRUE(all(self->vram.cpu, 0xf2, SIZE));
}

TEST_F(userptr, bad_input)
{
	const size_t twice = 2 * SIZE;
	uint8_t *mem = kfd_reserve(twice, HUGE);
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.va_addr = (uintptr_t)mem,
		.mmap_offset = (uintptr_t)mem,
		.size = twice,
		.gpu_id = self->dev.gpu_id,
		.flags = KFD_ALLOC_USERPTR,
	};
	uint64_t handle;

	/* A hole at the end, at the start, in the middle. */
	ASSERT_EQ(mem, anonymous(mem, SIZE, PROT_READ | PROT_WRITE));
	EXPECT_EQ(EFAULT, lend(&self->dev, mem, twice, KFD_ALLOC_USERPTR, &handle));
	EXPECT_EQ(EFAULT, lend(&self->dev, mem + SIZE, SIZE, KFD_ALLOC_USERPTR, &handle));
	ASSERT_EQ(mem, anonymous(mem, twice, PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, munmap(mem + KFD_PAGE, KFD_PAGE));
	EXPECT_EQ(EFAULT, lend(&self->dev, mem, twice, KFD_ALLOC_USERPTR, &handle));
	/* Not readable; a part not writable. */
	ASSERT_EQ(mem, anonymous(mem, twice, PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, mprotect(mem + SIZE, SIZE, PROT_NONE));
	EXPECT_EQ(EFAULT, lend(&self->dev, mem, twice, KFD_ALLOC_USERPTR, &handle));
	ASSERT_EQ(0, mprotect(mem + SIZE, SIZE, PROT_READ));
	EXPECT_ANSWER(userptr_not_writable, lend(&self->dev, mem, twice, KFD_ALLOC_USERPTR, &handle));
	/* A device's memory. */
	EXPECT_EQ(EFAULT, lend(&self->dev, self->vram.cpu, SIZE, KFD_ALLOC_USERPTR, &handle));
	EXPECT_EQ(EFAULT, lend(&self->dev, self->queue.slice, KFD_PAGE, KFD_ALLOC_USERPTR,
			       &handle));
	/* Not whole pages, the end of all addresses. */
	EXPECT_NE(0, lend(&self->dev, mem + 8, KFD_PAGE, KFD_ALLOC_USERPTR, &handle));
	args.mmap_offset = -(uint64_t)KFD_PAGE;
	EXPECT_NE(0, kfd_alloc(self->dev.fd, &args));
	/* Gone between allocation and mapping. */
	ASSERT_EQ(0, mprotect(mem, twice, PROT_READ | PROT_WRITE));
	args.mmap_offset = (uintptr_t)mem;
	ASSERT_EQ(0, kfd_alloc(self->dev.fd, &args));
	ASSERT_EQ(0, munmap(mem, KFD_PAGE));
	EXPECT_ANSWER(userptr_gone, kfd_map(self->dev.fd, args.handle, self->dev.gpu_id));
	if (kfd_expected(answer_userptr_gone) == 0)
		EXPECT_EQ(0, kfd_unmap(self->dev.fd, args.handle, self->dev.gpu_id));
	EXPECT_EQ(0, kfd_free(self->dev.fd, args.handle));
	/* All that did not hurt. */
	LEND(0x19, KFD_ALLOC_USERPTR);
	EXPECT_GPU_SEES(0x19);
}

/* The number behind @key in the line of a mapping at @va in the trace. */
static unsigned long entries_of(const void *va)
{
	char line[512], text[64];
	const char *entries;

	snprintf(text, sizeof(text), "va=0x%llx", (unsigned long long)(uintptr_t)va);
	if (!trace_wait("rkfd_map", text, 1, 2000) ||
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
	ASSERT_EQ(0, lend(&self->dev, mem, size, KFD_ALLOC_USERPTR, &handle));
	EXPECT_GE(8 + tables, entries_of(mem));
	EXPECT_LE(8, entries_of(mem));
	trace_close();
}

/* Small pages that become a huge one move. */
TEST_F(userptr, collapsed)
{
	uint8_t *mem = kfd_reserve(HUGE, HUGE);
	uint64_t handle;

	ASSERT_EQ(mem, anonymous(mem, HUGE, PROT_READ | PROT_WRITE));
	madvise(mem, HUGE, MADV_NOHUGEPAGE);
	memset(mem, 0x29, HUGE);
	ASSERT_EQ(0, lend(&self->dev, mem, HUGE, KFD_ALLOC_USERPTR, &handle));
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
static unsigned long vmstat(const char *key)
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

/* Needs swap; see swap.sh of the clients. */
TEST_F(userptr, swapped)
{
	const unsigned long before = vmstat("pswpout");
	unsigned int round;

	LEND(0x49, KFD_ALLOC_USERPTR);
	EXPECT_GPU_SEES(0x49);
	for (round = 0; round < 20; round++) {
		madvise(self->mem, SIZE, MADV_PAGEOUT);
		EXPECT_GPU_SEES(0x49);
	}
	if (!getenv("RKFD_SWAP"))
		SKIP(return, "there is no swap; see swap.sh of the clients");
	EXPECT_LT(before, vmstat("pswpout"));
	EXPECT_GPU_WRITES(0x4a);
	madvise(self->mem, SIZE, MADV_PAGEOUT);
	EXPECT_TRUE(all(self->mem, 0x4a, SIZE));
	EXPECT_GPU_SEES(0x4a);
}

/* Pages that came back from swap are as they are on the disk. What the GPU writes to them must go there, too. */
TEST_F(userptr, swapped_in_and_written)
{
	unsigned int round;

	if (!getenv("RKFD_SWAP"))
		SKIP(return, "there is no swap; see swap.sh of the clients");
	for (round = 0; round < 6; round++) {
		ASSERT_EQ(self->mem, anonymous(self->mem, SIZE, PROT_READ | PROT_WRITE));
		memset(self->mem, 0x4b, SIZE);
		madvise(self->mem, SIZE, MADV_PAGEOUT);
		EXPECT_TRUE(all(self->mem, 0x4b, SIZE));
		ASSERT_EQ(0, lend(&self->dev, self->mem, SIZE, KFD_ALLOC_USERPTR, &self->handle));
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

/* Each halt of the queues is followed by their return. */
TEST_F(userptr, traced)
{
	if (!trace_open("userptr") || !trace_enable("rkfd"))
		SKIP(return, "no trace of rkfd");
	LEND(0x39, KFD_ALLOC_USERPTR);
	/* Without a turn on the hardware there is nothing to flush. */
	EXPECT_GPU_SEES(0x39);
	trace_clear();
	ASSERT_EQ(0, madvise(self->mem, SIZE, MADV_DONTNEED));
	/* All of it before the call that takes the pages has returned. */
	EXPECT_EQ(1, trace_count("rkfd_queue_evict", "reason=userptr"));
	EXPECT_LE(1, trace_count("rkfd_unmap", NULL));
	EXPECT_LE(1, trace_count("rkfd_tlb_flush", "heavyweight"));
	EXPECT_TRUE(trace_wait("rkfd_queue_restore", "reason=userptr", 1, WAIT_MS));
	EXPECT_LE(1, trace_count("rkfd_map", NULL));
	EXPECT_GPU_SEES(0);
	trace_close();
}

KFD_HARNESS_MAIN
