// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of one GPU in another, both of this driver: one exports VRAM, the other imports it
 * without pinning, and is notified when it moves. Where the machine has a path from one to the
 * other (RKFD_LINKED=1) it stays in VRAM, else it goes to system memory. Wants little VRAM.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "tap.h"
#include "trace.h"
#include "two_gpus_fixture.h"

FIXTURE(two)
{
	TWO_GPUS_MEMBERS;
	struct kfd_bo host;		/* of the one */
	struct kfd_bo other_host;
};

FIXTURE_SETUP(two)
{
	TWO_GPUS_SETUP();
	ASSERT_EQ(0, kfd_bo_create(&self->one, &self->host, SIZE, KFD_ALLOC_GTT));
	ASSERT_EQ(0, kfd_bo_create(&self->other, &self->other_host, SIZE, KFD_ALLOC_GTT));
}

FIXTURE_TEARDOWN(two)
{
	if (self->host.cpu) {
		EXPECT_EQ(0, kfd_bo_destroy(&self->one, &self->host));
		EXPECT_EQ(0, kfd_bo_destroy(&self->other, &self->other_host));
		TWO_GPUS_DESTROY_QUEUES();
	}
	TWO_GPUS_CLOSE();
}

static bool away(long long bytes)
{
	return objects_become("evicted_bytes", bytes, TIMEOUT_MS);
}

/* The part of @bytes imported bytes that is not in VRAM. */
static size_t out(size_t bytes)
{
	return linked_by_machine() ? 0 : bytes;
}

TEST_F(two, shared_and_given_back)
{
	struct kfd_bo bo, import;
	unsigned int round;
	int fd;

	ASSERT_EQ(0, kfd_bo_create(&self->one, &bo, SIZE, KFD_ALLOC_VRAM));
	ASSERT_EQ(0, kfd_export(&self->one, bo.handle, O_CLOEXEC, &fd));
	for (round = 1; round <= 3; round++) {
		EXPECT_EQ(0, gpu_fill(&self->of_one, bo.cpu, 0x1000 + round));
		ASSERT_EQ(0, kfd_bo_import(&self->other, &import, fd, SIZE));
		EXPECT_EQ(out(SIZE), objects_count("evicted_bytes"));
		EXPECT_EQ(0, gpu_unequal(&self->of_other, &self->other_host, import.cpu,
					 0x1000 + round));
		EXPECT_EQ(0, gpu_fill(&self->of_other, import.cpu, 0x2000 + round));
		EXPECT_EQ(0, gpu_unequal(&self->of_one, &self->host, bo.cpu, 0x2000 + round));
		/* Unmapped memory is in no tables, though there is a handle. */
		EXPECT_EQ(0, kfd_unmap(self->other.fd, import.handle, self->other.gpu_id));
		EXPECT_TRUE(away(0));
		EXPECT_EQ(0, kfd_map(self->other.fd, import.handle, self->other.gpu_id));
		EXPECT_EQ(out(SIZE), objects_count("evicted_bytes"));
		EXPECT_EQ(0, gpu_unequal(&self->of_other, &self->other_host, import.cpu,
					 0x2000 + round));
		EXPECT_EQ(0, kfd_bo_destroy(&self->other, &import));
		EXPECT_TRUE(away(0));
		EXPECT_EQ(0, gpu_unequal(&self->of_one, &self->host, bo.cpu, 0x2000 + round));
	}
	close(fd);
	EXPECT_EQ(0, kfd_bo_destroy(&self->one, &bo));
}

/*
 * The exporter's process is moved out for another one, and back: then its shared memory moves
 * too, the importer's queues wait, and it is shared again. None of that shows in the content
 * that either of them finds.
 */
TEST_F(two, told_of_moves)
{
	const unsigned int rounds = work(4, 2);
	char own[32], text[64];
	struct kfd_bo bo, import, large;
	unsigned int round, restored, i = 0;
	int fd, status;

	ASSERT_TRUE(trace_open("two_gpus"));
	ASSERT_TRUE(trace_enable("rkfd"));
	ASSERT_EQ(0, kfd_bo_create(&self->one, &bo, SIZE, KFD_ALLOC_VRAM));
	ASSERT_EQ(0, kfd_bo_create(&self->one, &large, 100u << 20, KFD_ALLOC_VRAM));
	ASSERT_EQ(0, kfd_export(&self->one, bo.handle, O_CLOEXEC, &fd));
	ASSERT_EQ(0, kfd_bo_import(&self->other, &import, fd, SIZE));
	snprintf(own, sizeof(own), "pid=%d ", getpid());
	snprintf(text, sizeof(text), "gpu=%u reason=eviction", self->other.gpu_id);
	for (round = 0; round < rounds; round++) {
		pid_t pid = fork();

		ASSERT_LE(0, pid);
		if (pid == 0)
			_exit(kfd_take_vram(GPU_VA, 300));
		do {
			i++;
			ASSERT_EQ(0, gpu_fill(&self->of_other, import.cpu, i));
			ASSERT_EQ(0, gpu_unequal(&self->of_one, &self->host, bo.cpu, i));
			ASSERT_EQ(0, gpu_unequal(&self->of_other, &self->other_host, import.cpu,
						 i));
		} while (waitpid(pid, &status, WNOHANG) == 0);
		EXPECT_TRUE(WIFEXITED(status));
		EXPECT_EQ(0, WEXITSTATUS(status));
		/*
		 * The exporter works when all of its memory is back, and the importer when it
		 * has again the part that was taken back for that.
		 */
		ASSERT_EQ(0, gpu_fill(&self->of_one, bo.cpu, ++i));
		ASSERT_EQ(0, gpu_unequal(&self->of_other, &self->other_host, import.cpu, i));
		/* All is back except the shared part. */
		EXPECT_TRUE(away(out(SIZE)));
	}
	TH_LOG("%u copies; the importer was halted %u times", i,
	       trace_count("rkfd_queue_evict", text));
	if (linked_by_machine()) {
		EXPECT_EQ(0, trace_count("rkfd_queue_evict", text));
	} else {
		EXPECT_LE(rounds, trace_count("rkfd_queue_evict", text));
		EXPECT_TRUE(trace_wait("rkfd_queue_restore", text,
				       trace_count("rkfd_queue_evict", text), TIMEOUT_MS));
	}
	EXPECT_EQ(trace_count("rkfd_queue_evict", text), trace_count("rkfd_queue_restore", text));
	/* From then on nothing moves: the importer keeps its memory. */
	restored = trace_count("rkfd_restore", own);
	usleep(1500 * 1000);
	EXPECT_EQ(restored, trace_count("rkfd_restore", own));
	/* The shared buffer and the large one each time. */
	EXPECT_LE(linked_by_machine() ? rounds : 2 * rounds, trace_count("rkfd_restore", own));
	EXPECT_EQ(0, kfd_bo_destroy(&self->other, &import));
	EXPECT_EQ(0, kfd_bo_destroy(&self->one, &large));
	close(fd);
	EXPECT_EQ(0, kfd_bo_destroy(&self->one, &bo));
	trace_close();
}

/* In a child, which stays. */
static int child_exports(int socket, uint32_t flags)
{
	int err = kfd_export_filled(socket, SIZE, flags, 0x44444444, TIMEOUT_MS);
	char byte;

	return err ? err : read(socket, &byte, 1) < 0;
}

/* At most half of VRAM stays for others; further buffers are used in system memory. */
TEST_F(two, half_of_vram)
{
	const size_t part = kfd_available(&self->one) / 5 & ~((2ull << 20) - 1);
	struct kfd_bo bo[3], import[3];
	unsigned int i;
	int fd;

	if (!linked_by_machine())
		SKIP(return, "no way between the GPUs");
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, kfd_bo_create(&self->one, &bo[i], part, KFD_ALLOC_VRAM));
		EXPECT_EQ(0, gpu_fill(&self->of_one, bo[i].cpu, 0x81 + i));
		ASSERT_EQ(0, kfd_export(&self->one, bo[i].handle, O_CLOEXEC, &fd));
		ASSERT_EQ(0, kfd_bo_import(&self->other, &import[i], fd, part));
		close(fd);
		EXPECT_EQ(i < 2 ? 0 : part, objects_count("evicted_bytes"));
	}
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(0, gpu_unequal(&self->of_other, &self->other_host, import[i].cpu,
					 0x81 + i));
		EXPECT_EQ(0, kfd_bo_destroy(&self->other, &import[i]));
	}
	EXPECT_TRUE(away(0));
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(0, gpu_unequal(&self->of_one, &self->host, bo[i].cpu, 0x81 + i));
		EXPECT_EQ(0, kfd_bo_destroy(&self->one, &bo[i]));
	}
}

/* The exporter's process ends while another GPU has its memory. */
TEST_F(two, exporter_goes)
{
	const uint32_t flags[] = { KFD_ALLOC_VRAM, KFD_ALLOC_GTT };
	int sockets[2], fd, status;
	struct kfd_bo import;
	unsigned int i;
	pid_t pid;

	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
		pid = fork();
		ASSERT_LE(0, pid);
		if (pid == 0)
			_exit(child_exports(sockets[1], flags[i]));
		close(sockets[1]);
		ASSERT_EQ(0, receive_fd(sockets[0], &fd));
		ASSERT_EQ(0, kfd_bo_import(&self->other, &import, fd, SIZE));
		close(fd);
		kill(pid, SIGKILL);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		close(sockets[0]);
		EXPECT_EQ(0, gpu_unequal(&self->of_other, &self->other_host, import.cpu,
					 0x44444444));
		EXPECT_EQ(0, gpu_fill(&self->of_other, import.cpu, 0x55555555));
		EXPECT_EQ(0, gpu_unequal(&self->of_other, &self->other_host, import.cpu,
					 0x55555555));
		EXPECT_EQ(0, kfd_bo_destroy(&self->other, &import));
	}
}

/* In a child: imports on the other GPU, and endless copies, announced in *@works. */
static int child_imports(int fd, volatile uint32_t *works)
{
	struct kfd_dev one, other;
	struct kfd_queue queue;
	struct kfd_bo import;
	unsigned int i;
	int err;

	err = kfd_open(&one);
	if (!err)
		err = kfd_open_next(&one, &other);
	if (!err)
		err = kfd_queue_create(&other, &queue, RING);
	if (!err)
		err = kfd_bo_import(&other, &import, fd, SIZE);
	for (i = 0; !err; i++) {
		err = gpu_fill(&queue, import.cpu, i);
		*works = 1;
	}
	return err;
}

/* The importer's process is killed at any moment; the memory moves back. */
TEST_F(two, importer_goes)
{
	volatile uint32_t *works = kfd_share();
	struct kfd_bo bo;
	int fd, status, i;

	ASSERT_EQ(0, kfd_bo_create(&self->one, &bo, SIZE, KFD_ALLOC_VRAM));
	ASSERT_EQ(0, kfd_export(&self->one, bo.handle, O_CLOEXEC, &fd));
	ASSERT_NE(NULL, works);
	for (i = 0; i < 5; i++) {
		pid_t pid;

		*works = 0;
		pid = fork();
		ASSERT_LE(0, pid);
		if (pid == 0)
			_exit(child_imports(fd, works));
		EXPECT_TRUE(kfd_becomes(works, 1, KFD_HANG_MS));
		usleep(i * 50000);
		kill(pid, SIGKILL);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_TRUE(WIFSIGNALED(status));
		EXPECT_TRUE(away(0));
		EXPECT_EQ(0, gpu_fill(&self->of_one, bo.cpu, 0x77777777));
		EXPECT_EQ(0, gpu_unequal(&self->of_one, &self->host, bo.cpu, 0x77777777));
	}
	close(fd);
	EXPECT_EQ(0, kfd_bo_destroy(&self->one, &bo));
}

KFD_HARNESS_MAIN
