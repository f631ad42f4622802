// SPDX-License-Identifier: GPL-2.0
/*
 * One of several GPUs is unbound from the driver, and bound again, while others work and while
 * they use its memory. Wants little VRAM.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "proc.h"
#include "two_gpus_fixture.h"

#define DRIVER		"/sys/bus/pci/drivers/rkfd"
#define MOST		8
/*
 * Minimum number of unbinds, and the maximum where an unbind is so fast that the others make no
 * progress meanwhile.
 */
#define ROUNDS		3
#define MOST_ROUNDS	50

/*
 * The name of the last GPU, in the order of their nodes, and their number. It is the last one
 * again when it has come back.
 */
static size_t last_gpu(char *name, size_t size)
{
	uint64_t simds, where, domain;
	size_t count = 0;
	unsigned int n;

	for (n = 0;; n++) {
		char file[128];

		snprintf(file, sizeof(file), KFD_TOPOLOGY "/nodes/%u/properties", n);
		if (!kfd_is_rkfd() || !kfd_property(file, "simd_count", &simds))
			return count;
		if (!simds || !kfd_property(file, "location_id", &where) ||
		    !kfd_property(file, "domain", &domain))
			continue;
		snprintf(name, size, "%04x:%02x:%02x.%x", (unsigned int)domain,
			 (unsigned int)where >> 8, (unsigned int)where >> 3 & 31,
			 (unsigned int)where & 7);
		count++;
	}
}

/* In a child: GPU number @gpu fills memory of both kinds for ever, and counts the fills. */
static int child_works(unsigned int gpu, volatile unsigned int *count)
{
	struct kfd_queue queue;
	struct kfd_bo vram, gtt;
	struct kfd_dev dev, before;
	uint32_t value;
	int err;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	err = kfd_open(&dev);
	while (!err && gpu-- > 0) {
		before = dev;
		err = kfd_open_next(&before, &dev);
	}
	if (err || kfd_queue_create(&dev, &queue, RING) ||
	    kfd_bo_create(&dev, &vram, SIZE, KFD_ALLOC_VRAM) ||
	    kfd_bo_create(&dev, &gtt, SIZE, KFD_ALLOC_GTT))
		return 2;
	for (value = 1;; value++) {
		if (gpu_fill(&queue, vram.cpu, value))
			return 3;
		if (gpu_unequal(&queue, &gtt, vram.cpu, value))
			return 4;
		++*count;
	}
}

/* True if each of @workers has counted @more since @from. */
static bool get_on(const volatile unsigned int *counts, const unsigned int *from, size_t workers,
		   unsigned int more)
{
	uint64_t end = kfd_now_ms() + KFD_HANG_MS;
	size_t i;

	for (i = 0; i < workers; i++) {
		while (counts[i] - from[i] < more) {
			if (kfd_now_ms() > end)
				return false;
			usleep(1000);
		}
	}
	return true;
}

/* True if each of @workers has counted something. */
static bool all_counted(const unsigned int *counts, size_t workers)
{
	size_t i;

	for (i = 0; i < workers; i++)
		if (!counts[i])
			return false;
	return true;
}

/* Processes on all other GPUs notice nothing when the last one is unbound and bound. */
TEST(others_work)
{
	unsigned int during[MOST] = { 0 }, from[MOST];
	volatile unsigned int *counts;
	char base[OBJECTS_MAX], name[64];
	size_t gpus, workers, i;
	unsigned int round;
	pid_t pid[MOST];
	int status;

	gpus = last_gpu(name, sizeof(name));
	if (gpus < 2)
		SKIP(return, "one GPU only");
	workers = gpus - 1 < MOST ? gpus - 1 : MOST;
	ASSERT_TRUE(objects_base(base, 0));
	counts = kfd_share();
	ASSERT_NE(NULL, counts);
	for (i = 0; i < workers; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (pid[i] == 0)
			_exit(child_works((unsigned int)i, &counts[i]));
	}
	for (round = 0; round < ROUNDS ||
	     (round < MOST_ROUNDS && !all_counted(during, workers)); round++) {
		memcpy(from, (const void *)counts, sizeof(from));
		EXPECT_TRUE(get_on(counts, from, workers, 2));
		memcpy(from, (const void *)counts, sizeof(from));
		ASSERT_EQ(0, kfd_write_file(DRIVER "/unbind", name));
		for (i = 0; i < workers; i++)
			during[i] += counts[i] - from[i];
		memcpy(from, (const void *)counts, sizeof(from));
		EXPECT_TRUE(get_on(counts, from, workers, 2));
		ASSERT_EQ(0, kfd_write_file(DRIVER "/bind", name));
		TH_LOG("round %u: it has gone and come", round);
	}
	for (i = 0; i < workers; i++) {
		TH_LOG("GPU %zu: %u copies while the other went, %u times", i, during[i], round);
		EXPECT_LT(0, during[i]);
		EXPECT_EQ(0, waitpid(pid[i], &status, WNOHANG)) {
			TH_LOG("GPU %zu: its process has ended with %x", i, status);
		}
		kill(pid[i], SIGKILL);
		waitpid(pid[i], &status, 0);
	}
	munmap((void *)counts, KFD_PAGE);
	EXPECT_TRUE(objects_return_to(base, KFD_HANG_MS));
}

/*
 * A GPU goes whose buffers another GPU has imported. System memory keeps its content, VRAM is
 * lost, and both are freed as usual.
 */
TEST(exporter)
{
	const uint32_t flags[] = { KFD_ALLOC_GTT, KFD_ALLOC_VRAM };
	struct kfd_bo host, bo[2], import[2];
	struct kfd_dev one, before, other;
	char base[OBJECTS_MAX], name[64];
	struct kfd_queue queue;
	unsigned int i;
	size_t gpus;
	int fd[2];

	gpus = last_gpu(name, sizeof(name));
	if (gpus < 2)
		SKIP(return, "one GPU only");
	ASSERT_TRUE(objects_base(base, 0));
	ASSERT_EQ(0, kfd_open(&one));
	before = one;
	before.node += gpus - 2;
	ASSERT_EQ(0, kfd_open_next(&before, &other));
	ASSERT_EQ(0, kfd_queue_create(&one, &queue, RING));
	ASSERT_EQ(0, kfd_bo_create(&one, &host, SIZE, KFD_ALLOC_GTT));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, kfd_bo_create(&other, &bo[i], SIZE, flags[i]));
		ASSERT_EQ(0, kfd_export(&other, bo[i].handle, O_CLOEXEC, &fd[i]));
		ASSERT_EQ(0, kfd_bo_import(&one, &import[i], fd[i], SIZE));
		EXPECT_EQ(0, gpu_fill(&queue, import[i].cpu, 0x31 + i));
	}
	ASSERT_EQ(0, kfd_write_file(DRIVER "/unbind", name));
	EXPECT_EQ(0, gpu_unequal(&queue, &host, import[0].cpu, 0x31));
	EXPECT_EQ(0, gpu_fill(&queue, import[0].cpu, 0x41));
	EXPECT_EQ(0, unequal(bo[0].cpu, 0x41, SIZE));
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(0, kfd_bo_destroy(&one, &import[i]));
		munmap(bo[i].cpu, SIZE);
		close(fd[i]);
	}
	/* The importer's own objects go on. */
	EXPECT_EQ(0, gpu_fill(&queue, host.cpu, 0x51));
	EXPECT_EQ(0, unequal(host.cpu, 0x51, SIZE));
	close(other.drm_fd);
	EXPECT_EQ(0, kfd_bo_destroy(&one, &host));
	EXPECT_EQ(0, kfd_queue_destroy(&one, &queue));
	kfd_close(&one);
	ASSERT_EQ(0, kfd_write_file(DRIVER "/bind", name));
	EXPECT_TRUE(objects_return_to(base, KFD_HANG_MS));
}

/*
 * The other GPU goes while memory is mapped on it, and comes back. The first GPU does not
 * notice, and the mappings on the other are gone.
 */
TEST(mapped)
{
	const uint32_t flags[] = { KFD_ALLOC_GTT, KFD_ALLOC_USERPTR };
	struct kfd_queue of_one, of_other;
	struct kfd_bo bo[2], its, its_vram;
	struct kfd_dev one, before, other;
	char base[OBJECTS_MAX], name[64];
	unsigned int i, round;
	size_t gpus;
	int err;

	gpus = last_gpu(name, sizeof(name));
	if (gpus < 2)
		SKIP(return, "one GPU only");
	ASSERT_TRUE(objects_base(base, 0));
	ASSERT_EQ(0, kfd_open(&one));
	before = one;
	before.node += gpus - 2;
	ASSERT_EQ(0, kfd_queue_create(&one, &of_one, RING));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, kfd_bo_create(&one, &bo[i], SIZE, flags[i]));
	for (round = 0; round < 2; round++) {
		ASSERT_EQ(0, kfd_open_next(&before, &other));
		ASSERT_EQ(0, kfd_queue_create(&other, &of_other, RING));
		ASSERT_EQ(0, kfd_bo_create(&other, &its, SIZE, KFD_ALLOC_GTT));
		ASSERT_EQ(0, kfd_map(one.fd, its.handle, one.gpu_id));
		ASSERT_EQ(0, kfd_bo_create(&other, &its_vram, SIZE, KFD_ALLOC_VRAM));
		if (reaches(one.node, other.node)) {
			ASSERT_EQ(0, kfd_map(one.fd, its_vram.handle, one.gpu_id));
			EXPECT_EQ(0, gpu_fill(&of_one, its_vram.cpu, 0x92));
		}
		for (i = 0; i < 2; i++) {
			ASSERT_EQ(0, kfd_map(one.fd, bo[i].handle, other.gpu_id));
			EXPECT_EQ(0, gpu_fill(&of_other, bo[i].cpu, 0x81 + i));
		}
		EXPECT_EQ(0, gpu_fill(&of_one, its.cpu, 0x91));
		EXPECT_LT(0, vram(getpid(), &other));
		ASSERT_EQ(0, kfd_write_file(DRIVER "/unbind", name));
		EXPECT_EQ(-1, vram(getpid(), &other));
		for (i = 0; i < 2; i++) {
			EXPECT_EQ(EINVAL, kfd_map(one.fd, bo[i].handle, other.gpu_id));
			EXPECT_EQ(EINVAL, kfd_unmap(one.fd, bo[i].handle, other.gpu_id));
			EXPECT_EQ(0, unequal(bo[i].cpu, 0x81 + i, SIZE));
			EXPECT_EQ(0, gpu_fill(&of_one, bo[i].cpu, 0xa1 + i));
			EXPECT_EQ(0, unequal(bo[i].cpu, 0xa1 + i, SIZE));
		}
		EXPECT_EQ(EINVAL, kfd_unmap(one.fd, its.handle, one.gpu_id));
		munmap(its.cpu, SIZE);
		munmap(its_vram.cpu, SIZE);
		munmap(of_other.slice, KFD_DOORBELL_SLICE);
		munmap(of_other.ring.cpu, RING);
		munmap(of_other.pointers.cpu, KFD_PAGE);
		close(other.drm_fd);
		ASSERT_EQ(0, kfd_write_file(DRIVER "/bind", name));
		/* It is there again, and its VRAM is unused. */
		EXPECT_EQ(0, vram(getpid(), &other));
		EXPECT_EQ(ENODEV, kfd_map(one.fd, bo[0].handle, other.gpu_id));
	}
	for (i = 0; i < 2; i++) {
		err = kfd_bo_destroy(&one, &bo[i]);
		EXPECT_EQ(0, err);
	}
	EXPECT_EQ(0, kfd_queue_destroy(&one, &of_one));
	kfd_close(&one);
	EXPECT_TRUE(objects_return_to(base, KFD_HANG_MS));
}

KFD_HARNESS_MAIN
