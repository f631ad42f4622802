// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of a process that the GPU is given (USERPTR): the GPU's view of it while the process
 * unmaps, moves, shares and changes it. The GPU sees the process's current memory, or nothing,
 * never its former memory.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "packets.h"
#include "trace.h"
#include "userptr_fixture.h"

/* A copy from memory that the process has given up brings none of its content, and faults. */
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

TEST_F(userptr, copies_in_and_out)
{
	GIVE(0x11, KFD_ALLOC_USERPTR);
	EXPECT_GPU_SEES(0x11);
	memset(self->mem, 0x12, SIZE);
	EXPECT_GPU_SEES(0x12);
	EXPECT_GPU_WRITES(0x13);
	EXPECT_EQ(0, kfd_unmap(self->dev.fd, self->handle, self->dev.gpu_id));
	EXPECT_EQ(0, kfd_free(self->dev.fd, self->handle));
}

/* Pages that have never been touched. */
TEST_F(userptr, untouched)
{
	ASSERT_EQ(self->mem, anonymous(self->mem, SIZE, PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, kfd_userptr_create(&self->dev, self->mem, SIZE, KFD_ALLOC_USERPTR,
					&self->handle));
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
	EXPECT_EQ(EFAULT, kfd_userptr_create(&self->dev, self->mem, SIZE, KFD_ALLOC_USERPTR,
					     &self->handle));
	ASSERT_EQ(0, kfd_userptr_create(&self->dev, self->mem, SIZE, flags, &self->handle));
	EXPECT_GPU_SEES(0x31);
	/* The GPU may not write either. */
	EXPECT_GPU_DOES_NOT_WRITE(0x31);
}

/* Memory that is writable when the GPU gets it, and read-only later. */
TEST_F(userptr, made_read_only)
{
	SKIP_ON_AMDKFD("queues stay evicted for good");
	GIVE(0x41, KFD_ALLOC_USERPTR);
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
	ASSERT_EQ(0, kfd_userptr_create(&self->dev, self->mem, SIZE, KFD_ALLOC_USERPTR,
					&self->handle));
	EXPECT_GPU_SEES(0x51);
	EXPECT_GPU_WRITES(0x52);
	EXPECT_EQ((ssize_t)SIZE, pread(file, content, SIZE, 0));
	EXPECT_TRUE(all(content, 0x52, SIZE));
	/* The GPU sees other writers' data. */
	memset(content, 0x53, SIZE);
	EXPECT_EQ((ssize_t)SIZE, pwrite(file, content, SIZE, 0));
	EXPECT_GPU_SEES(0x53);
	/* The file's pages go, the mapping stays. */
	ASSERT_EQ(0, ftruncate(file, 0));
	EXPECT_GPU_SEES_NOTHING();
}

/* After a file has been shortened, the rest is still there. */
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
	ASSERT_EQ(0, kfd_userptr_create(&self->dev, self->mem, SIZE, KFD_ALLOC_USERPTR,
					&self->handle));
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
	ASSERT_EQ(0, kfd_userptr_create(&self->dev, self->mem, SIZE, flags, &self->handle));
	EXPECT_GPU_SEES(0x61);
	/* The process gets pages of its own, and the GPU with it. */
	memset(self->mem, 0x62, SIZE);
	EXPECT_GPU_SEES(0x62);
	EXPECT_EQ((ssize_t)SIZE, pread(file, content, SIZE, 0));
	EXPECT_TRUE(all(content, 0x61, SIZE));
}

TEST_F(userptr, unmapped)
{
	GIVE(0x71, KFD_ALLOC_USERPTR);
	EXPECT_GPU_SEES(0x71);
	ASSERT_EQ(0, munmap(self->mem, SIZE));
	EXPECT_GPU_SEES_NOTHING();
	EXPECT_EQ(0, kfd_unmap(self->dev.fd, self->handle, self->dev.gpu_id));
	EXPECT_EQ(0, kfd_free(self->dev.fd, self->handle));
}

/* The rest of a range is still there. */
TEST_F(userptr, unmapped_in_part)
{
	struct packets p = { 0 };

	SKIP_ON_AMDKFD("of a buffer that has lost a page nothing is mapped again");
	GIVE(0x72, KFD_ALLOC_USERPTR);
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
	GIVE(0x80, KFD_ALLOC_USERPTR);
	for (round = 1; round < 8; round++) {
		ASSERT_EQ(self->mem, anonymous(self->mem, SIZE, PROT_READ | PROT_WRITE));
		memset(self->mem, 0x80 + round, SIZE);
		EXPECT_GPU_SEES(0x80 + round);
		EXPECT_GPU_WRITES(0x90 + round);
	}
}

TEST_F(userptr, dont_need)
{
	GIVE(0xa1, KFD_ALLOC_USERPTR);
	EXPECT_GPU_SEES(0xa1);
	ASSERT_EQ(0, madvise(self->mem, SIZE, MADV_DONTNEED));
	EXPECT_GPU_SEES(0);
	EXPECT_GPU_WRITES(0xa2);
}

TEST_F(userptr, moved_away)
{
	uint8_t *elsewhere = kfd_reserve(SIZE, KFD_PAGE);

	GIVE(0xb1, KFD_ALLOC_USERPTR);
	ASSERT_EQ(elsewhere, mremap(self->mem, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED,
				    elsewhere));
	EXPECT_GPU_SEES_NOTHING();
	EXPECT_TRUE(all(elsewhere, 0xb1, SIZE));
}

TEST_F(userptr, moved_in)
{
	uint8_t *other = kfd_reserve(SIZE, KFD_PAGE);

	GIVE(0xb2, KFD_ALLOC_USERPTR);
	ASSERT_EQ(other, anonymous(other, SIZE, PROT_READ | PROT_WRITE));
	memset(other, 0xb3, SIZE);
	ASSERT_EQ(self->mem, mremap(other, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED,
				    self->mem));
	EXPECT_GPU_SEES(0xb3);
	EXPECT_GPU_WRITES(0xb4);
}

/* Parent and child share pages until one writes; the GPU stays with the parent. */
TEST_F(userptr, forked)
{
	int status, pipes[2];
	pid_t child;
	char byte;

	ASSERT_EQ(0, pipe(pipes));
	GIVE(0xc1, KFD_ALLOC_USERPTR);
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

/* libhsakmt marks memory for the GPU this way: a fork leaves it alone, and the queues too. */
TEST_F(userptr, not_for_children)
{
	int status;
	pid_t child;

	GIVE(0xd1, KFD_ALLOC_USERPTR);
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

/* The ring of a queue, and its pointers, in such memory. */
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
	GIVE(0xe0, KFD_ALLOC_USERPTR);
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

/* A queue that waits in the middle of a packet is evicted, and goes on afterwards. */
TEST_F(userptr, changed_under_a_waiting_queue)
{
	struct packets p = { 0 };
	volatile uint32_t *flag = (volatile uint32_t *)((char *)self->queue.pointers.cpu + 256);

	GIVE(0xf1, KFD_ALLOC_USERPTR);
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
	EXPECT_EQ(EFAULT, kfd_userptr_create(&self->dev, mem, twice, KFD_ALLOC_USERPTR, &handle));
	EXPECT_EQ(EFAULT, kfd_userptr_create(&self->dev, mem + SIZE, SIZE, KFD_ALLOC_USERPTR,
					     &handle));
	ASSERT_EQ(mem, anonymous(mem, twice, PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, munmap(mem + KFD_PAGE, KFD_PAGE));
	EXPECT_EQ(EFAULT, kfd_userptr_create(&self->dev, mem, twice, KFD_ALLOC_USERPTR, &handle));
	/* Not readable; a part not writable. */
	ASSERT_EQ(mem, anonymous(mem, twice, PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, mprotect(mem + SIZE, SIZE, PROT_NONE));
	EXPECT_EQ(EFAULT, kfd_userptr_create(&self->dev, mem, twice, KFD_ALLOC_USERPTR, &handle));
	ASSERT_EQ(0, mprotect(mem + SIZE, SIZE, PROT_READ));
	EXPECT_ANSWER(userptr_not_writable, kfd_userptr_create(&self->dev, mem, twice,
							       KFD_ALLOC_USERPTR, &handle));
	/* A device's memory. */
	EXPECT_EQ(EFAULT, kfd_userptr_create(&self->dev, self->vram.cpu, SIZE, KFD_ALLOC_USERPTR,
					     &handle));
	EXPECT_EQ(EFAULT, kfd_userptr_create(&self->dev, self->queue.slice, KFD_PAGE,
					     KFD_ALLOC_USERPTR, &handle));
	/* Not whole pages, the end of all addresses. */
	EXPECT_NE(0, kfd_userptr_create(&self->dev, mem + 8, KFD_PAGE, KFD_ALLOC_USERPTR, &handle));
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
	/* None of that did any harm. */
	GIVE(0x19, KFD_ALLOC_USERPTR);
	EXPECT_GPU_SEES(0x19);
}

/* Each eviction of the queues is followed by their restore. */
TEST_F(userptr, traced)
{
	if (!trace_open("userptr") || !trace_enable("rkfd"))
		SKIP(return, "no trace of rkfd");
	GIVE(0x39, KFD_ALLOC_USERPTR);
	/* Without any time on the hardware there is nothing to flush. */
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

/* Together with two others, as many as there is room for at first. */
#define FEW		14u

struct ranges {
	uint8_t *pages;		/* that the GPU has, each as a buffer */
	volatile bool stop;
};

static void *change_ranges(void *arg)
{
	struct ranges *r = arg;
	unsigned int i;

	while (!r->stop)
		for (i = 0; i < FEW; i++)
			madvise(r->pages + i * KFD_PAGE, KFD_PAGE, MADV_DONTNEED);
	return NULL;
}

/*
 * More ranges wait than there is room to list, so that the driver has to search for them: one
 * of them is changed and taken from the GPU again and again, and leaves an entry each time.
 */
TEST_F(userptr, more_wait_than_there_are)
{
	struct ranges r = { .pages = kfd_reserve(FEW * KFD_PAGE, HUGE) };
	const uint64_t end = kfd_now_ms() + 5000;
	uint8_t *one = kfd_reserve(KFD_PAGE, HUGE);
	unsigned int i, rounds = 0;
	pthread_t thread;
	uint64_t handle;

	GIVE(0x71, KFD_ALLOC_USERPTR);
	ASSERT_EQ(r.pages, anonymous(r.pages, FEW * KFD_PAGE, PROT_READ | PROT_WRITE));
	ASSERT_EQ(one, anonymous(one, KFD_PAGE, PROT_READ | PROT_WRITE));
	for (i = 0; i < FEW; i++) {
		ASSERT_EQ(0, kfd_userptr_create(&self->dev, r.pages + i * KFD_PAGE, KFD_PAGE,
						KFD_ALLOC_USERPTR, &handle));
	}
	ASSERT_EQ(0, kfd_userptr_create(&self->dev, one, KFD_PAGE, KFD_ALLOC_USERPTR, &handle));
	ASSERT_EQ(0, pthread_create(&thread, NULL, change_ranges, &r));
	for (; kfd_now_ms() < end; rounds++) {
		EXPECT_EQ(0, kfd_unmap(self->dev.fd, handle, self->dev.gpu_id));
		EXPECT_EQ(0, kfd_map(self->dev.fd, handle, self->dev.gpu_id));
		madvise(one, KFD_PAGE, MADV_DONTNEED);
	}
	r.stop = true;
	pthread_join(thread, NULL);
	TH_LOG("%u times", rounds);
	EXPECT_GPU_SEES(0x71);
}

KFD_HARNESS_MAIN
