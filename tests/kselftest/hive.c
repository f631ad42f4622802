// SPDX-License-Identifier: GPL-2.0
/*
 * GPUs that XGMI joins to a hive: the links that the topology shows, and VRAM of the one that the
 * other accesses, without a way over PCI Express. The model checks each entry of the page tables:
 * VRAM of another GPU is probed there, and of type NC or UC. Wants little VRAM.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "tap.h"
#include "two_gpus_fixture.h"

#define LINK_XGMI	11u
#define WEIGHT_XGMI	15u

FIXTURE(hive)
{
	TWO_GPUS_MEMBERS;
	struct kfd_bo result;		/* of the one, for both */
};

FIXTURE_SETUP(hive)
{
	TWO_GPUS_SETUP();
	ASSERT_EQ(0, kfd_bo_create(&self->one, &self->result, SIZE, KFD_ALLOC_GTT));
	ASSERT_EQ(0, kfd_map(self->one.fd, self->result.handle, self->other.gpu_id));
}

FIXTURE_TEARDOWN(hive)
{
	if (self->result.cpu) {
		EXPECT_EQ(0, kfd_unmap(self->one.fd, self->result.handle, self->other.gpu_id));
		EXPECT_EQ(0, kfd_bo_destroy(&self->one, &self->result));
		TWO_GPUS_DESTROY_QUEUES();
	}
	TWO_GPUS_CLOSE();
}

/* The property @name of a node. */
static uint64_t node_property(uint32_t node, const char *name)
{
	uint64_t value = UINT64_MAX;
	char file[256];

	snprintf(file, sizeof(file), KFD_TOPOLOGY "/nodes/%u/properties", node);
	return kfd_property(file, name, &value) ? value : UINT64_MAX;
}

/* The file of the direct link from node @from to node @to; false if there is none. */
static bool link_file(uint32_t from, uint32_t to, char *file, size_t size)
{
	uint64_t found = UINT64_MAX;
	unsigned int i;

	for (i = 0; found != to; i++) {
		snprintf(file, size, KFD_TOPOLOGY "/nodes/%u/io_links/%u/properties", from, i);
		if (access(file, F_OK) || !kfd_property(file, "node_to", &found))
			return false;
	}
	return true;
}

/* ROCr and RCCL take a link for XGMI by its type and its weight. */
TEST_F(hive, links)
{
	const uint32_t nodes[] = { self->one.node, self->other.node };
	uint64_t hive = node_property(nodes[0], "hive_id");
	unsigned int i;

	EXPECT_NE(0, hive);
	EXPECT_NE(UINT64_MAX, hive);
	for (i = 0; i < 2; i++) {
		uint64_t type = 0, weight = 0, least = 0, most = 0, flags = 0, mask = 0;
		char file[256];

		EXPECT_EQ(hive, node_property(nodes[i], "hive_id"));
		EXPECT_EQ(3, node_property(nodes[i], "num_sdma_xgmi_engines"));
		EXPECT_FALSE(reaches(nodes[i], nodes[1 - i]));
		ASSERT_TRUE(link_file(nodes[i], nodes[1 - i], file, sizeof(file)));
		EXPECT_TRUE(kfd_property(file, "type", &type));
		EXPECT_TRUE(kfd_property(file, "weight", &weight));
		EXPECT_TRUE(kfd_property(file, "min_bandwidth", &least));
		EXPECT_TRUE(kfd_property(file, "max_bandwidth", &most));
		EXPECT_TRUE(kfd_property(file, "flags", &flags));
		EXPECT_TRUE(kfd_property(file, "recommended_sdma_engine_id_mask", &mask));
		EXPECT_EQ(LINK_XGMI, type);
		EXPECT_EQ(WEIGHT_XGMI, weight);
		EXPECT_EQ(50000, least);
		EXPECT_EQ(200000, most);
		EXPECT_EQ(1, flags);
		EXPECT_EQ(0x1c, mask);
	}
}

/* VRAM of each on both, for each wish about caches. */
TEST_F(hive, vram)
{
	const uint32_t wishes[] = { 0, KFD_IOC_ALLOC_MEM_FLAGS_COHERENT,
				    KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED };
	struct kfd_dev *const owners[] = { &self->one, &self->other };
	struct kfd_bo bo;
	unsigned int i, n;

	for (i = 0; i < 6; i++) {
		struct kfd_dev *owner = owners[i % 2], *other = owners[1 - i % 2];

		ASSERT_EQ(0, kfd_bo_create(owner, &bo, SIZE, KFD_ALLOC_VRAM | wishes[i / 2]));
		ASSERT_EQ(0, kfd_map(owner->fd, bo.handle, other->gpu_id));
		for (n = 1; n <= 3; n++) {
			EXPECT_EQ(0, gpu_fill(&self->of_one, bo.cpu, n));
			EXPECT_EQ(0, gpu_unequal(&self->of_other, &self->result, bo.cpu, n));
			EXPECT_EQ(0, gpu_fill(&self->of_other, bo.cpu, 0x100 + n));
			EXPECT_EQ(0, gpu_unequal(&self->of_one, &self->result, bo.cpu, 0x100 + n));
			EXPECT_EQ(0, unequal(bo.cpu, 0x100 + n, SIZE));
		}
		EXPECT_EQ(EBUSY, kfd_free(owner->fd, bo.handle));
		/* On the other alone. */
		EXPECT_EQ(0, kfd_unmap(owner->fd, bo.handle, owner->gpu_id));
		EXPECT_EQ(0, gpu_unequal(i % 2 ? &self->of_one : &self->of_other, &self->result,
					 bo.cpu, 0x103));
		EXPECT_EQ(0, kfd_unmap(owner->fd, bo.handle, other->gpu_id));
		EXPECT_EQ(0, kfd_map(owner->fd, bo.handle, owner->gpu_id));
		EXPECT_EQ(0, kfd_bo_destroy(owner, &bo));
	}
}

/* From one GPU's VRAM to the other's, by the engines of either. */
TEST_F(hive, copies)
{
	struct kfd_bo from, to;

	ASSERT_EQ(0, kfd_bo_create(&self->one, &from, SIZE, KFD_ALLOC_VRAM));
	ASSERT_EQ(0, kfd_bo_create(&self->other, &to, SIZE, KFD_ALLOC_VRAM));
	ASSERT_EQ(0, kfd_map(self->one.fd, from.handle, self->other.gpu_id));
	ASSERT_EQ(0, kfd_map(self->one.fd, to.handle, self->one.gpu_id));
	EXPECT_EQ(0, gpu_fill(&self->of_one, from.cpu, 0x77));
	EXPECT_EQ(0, kfd_queue_copy(&self->of_other, (uintptr_t)to.cpu, (uintptr_t)from.cpu, SIZE,
				    TIMEOUT_MS));
	EXPECT_EQ(0, unequal(to.cpu, 0x77, SIZE));
	EXPECT_EQ(0, gpu_fill(&self->of_other, to.cpu, 0x78));
	EXPECT_EQ(0, kfd_queue_copy(&self->of_one, (uintptr_t)from.cpu, (uintptr_t)to.cpu, SIZE,
				    TIMEOUT_MS));
	EXPECT_EQ(0, unequal(from.cpu, 0x78, SIZE));
	EXPECT_EQ(0, kfd_unmap(self->one.fd, from.handle, self->other.gpu_id));
	EXPECT_EQ(0, kfd_unmap(self->one.fd, to.handle, self->one.gpu_id));
	EXPECT_EQ(0, kfd_bo_destroy(&self->one, &from));
	EXPECT_EQ(0, kfd_bo_destroy(&self->other, &to));
}

/* Nothing is pinned for it: it may be all of VRAM. */
TEST_F(hive, most_of_vram)
{
	const size_t part = kfd_available(&self->one) / 5 & ~((2ull << 20) - 1);
	struct kfd_bo bo[4];
	unsigned int i;

	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, kfd_bo_create(&self->one, &bo[i], part, KFD_ALLOC_VRAM));
		EXPECT_EQ(0, kfd_map(self->one.fd, bo[i].handle, self->other.gpu_id));
	}
	for (i = 0; i < 4; i++)
		EXPECT_EQ(0, gpu_fill(&self->of_other, bo[i].cpu, i));
	for (i = 0; i < 4; i++)
		EXPECT_EQ(0, gpu_unequal(&self->of_one, &self->result, bo[i].cpu, i));
	for (i = 0; i < 4; i++) {
		EXPECT_EQ(0, kfd_unmap(self->one.fd, bo[i].handle, self->other.gpu_id));
		EXPECT_EQ(0, kfd_bo_destroy(&self->one, &bo[i]));
	}
}

/*
 * Another process takes the VRAM of the one, and gives it back. Meanwhile the other GPU finds each
 * buffer where it is, mapped before it moved or after that.
 */
TEST_F(hive, follows_moves)
{
	const unsigned int rounds = work(4, 2);
	unsigned int i, round, copies = 0;
	bool mapped = false, seen = false;
	struct kfd_bo bo[3];
	int status;

	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, kfd_bo_create(&self->one, &bo[i], SIZE, KFD_ALLOC_VRAM));
		EXPECT_EQ(0, gpu_fill(&self->of_one, bo[i].cpu, 0x10 + i));
	}
	ASSERT_EQ(0, kfd_map(self->one.fd, bo[1].handle, self->other.gpu_id));
	for (round = 0; round < rounds || (!mapped && round < 20); round++) {
		pid_t pid = fork();

		ASSERT_LE(0, pid);
		if (pid == 0)
			_exit(kfd_take_vram(GPU_VA, 500));
		do {
			const bool away = objects_count("evicted_bytes") >= 3 * (long long)SIZE;

			copies++;
			ASSERT_EQ(0, gpu_fill(&self->of_other, bo[1].cpu, copies));
			ASSERT_EQ(0, gpu_unequal(&self->of_other, &self->result, bo[1].cpu,
						 copies));
			seen |= away;
			if (away && !mapped) {
				ASSERT_EQ(0, kfd_map(self->one.fd, bo[0].handle,
						     self->other.gpu_id));
				mapped = true;
			}
			if (mapped)
				ASSERT_EQ(0, gpu_unequal(&self->of_other, &self->result, bo[0].cpu,
							 0x10));
		} while (waitpid(pid, &status, WNOHANG) == 0);
		EXPECT_EQ(0, status);
	}
	EXPECT_TRUE(seen);
	EXPECT_TRUE(mapped);
	TH_LOG("%u copies meanwhile", copies);
	/* No mapping keeps it away. */
	EXPECT_TRUE(objects_become("evicted_bytes", 0, TIMEOUT_MS));
	EXPECT_EQ(0, gpu_unequal(&self->of_other, &self->result, bo[1].cpu, copies));
	EXPECT_EQ(0, gpu_unequal(&self->of_one, &self->result, bo[1].cpu, copies));
	for (i = 0; i < 2; i++)
		EXPECT_EQ(0, kfd_unmap(self->one.fd, bo[i].handle, self->other.gpu_id));
	EXPECT_EQ(0, gpu_unequal(&self->of_one, &self->result, bo[0].cpu, 0x10));
	EXPECT_EQ(0, gpu_unequal(&self->of_one, &self->result, bo[2].cpu, 0x12));
	for (i = 0; i < 3; i++)
		EXPECT_EQ(0, kfd_bo_destroy(&self->one, &bo[i]));
}

/* A dma-buf of VRAM stays in VRAM when the other GPU imports it, and is exported as itself. */
TEST_F(hive, imports)
{
	struct kfd_bo bo, import, again;
	unsigned int round;
	int fd, same;

	ASSERT_EQ(0, kfd_bo_create(&self->one, &bo, SIZE, KFD_ALLOC_VRAM));
	ASSERT_EQ(0, kfd_export(&self->one, bo.handle, O_CLOEXEC, &fd));
	for (round = 1; round <= 3; round++) {
		ASSERT_EQ(0, kfd_bo_import(&self->other, &import, fd, SIZE));
		EXPECT_EQ(0, objects_count("evicted_bytes"));
		EXPECT_EQ(0, gpu_fill(&self->of_one, bo.cpu, 0x1000 + round));
		EXPECT_EQ(0, gpu_unequal(&self->of_other, &self->result, import.cpu,
					 0x1000 + round));
		EXPECT_EQ(0, gpu_fill(&self->of_other, import.cpu, 0x2000 + round));
		EXPECT_EQ(0, unequal(bo.cpu, 0x2000 + round, SIZE));
		/* On the one, it is its own buffer. */
		EXPECT_EQ(0, kfd_map(self->other.fd, import.handle, self->one.gpu_id));
		EXPECT_EQ(0, gpu_unequal(&self->of_one, &self->result, import.cpu,
					 0x2000 + round));
		EXPECT_EQ(0, kfd_unmap(self->other.fd, import.handle, self->one.gpu_id));
		ASSERT_EQ(0, kfd_export(&self->other, import.handle, O_CLOEXEC, &same));
		ASSERT_EQ(0, kfd_bo_import(&self->one, &again, same, SIZE));
		EXPECT_EQ(0, gpu_unequal(&self->of_one, &self->result, again.cpu,
					 0x2000 + round));
		EXPECT_EQ(0, kfd_bo_destroy(&self->one, &again));
		close(same);
		EXPECT_EQ(0, kfd_bo_destroy(&self->other, &import));
	}
	close(fd);
	EXPECT_EQ(0, kfd_bo_destroy(&self->one, &bo));
}

/* The memory of a process that ends stays with those that have imported it. */
TEST_F(hive, its_owner_ends)
{
	struct kfd_bo import;
	int pair[2], status, fd;
	char done = 0;
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0) {
		int err = kfd_export_filled(pair[1], SIZE, KFD_ALLOC_VRAM, 0x99, TIMEOUT_MS);

		_exit(err || read(pair[1], &done, 1) != 1);
	}
	ASSERT_EQ(0, receive_fd(pair[0], &fd));
	ASSERT_EQ(0, kfd_bo_import(&self->other, &import, fd, SIZE));
	close(fd);
	EXPECT_EQ(0, gpu_unequal(&self->of_other, &self->result, import.cpu, 0x99));
	EXPECT_EQ(1, write(pair[0], &done, 1));
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, gpu_unequal(&self->of_other, &self->result, import.cpu, 0x99));
	EXPECT_EQ(0, gpu_fill(&self->of_other, import.cpu, 0x9a));
	EXPECT_EQ(0, gpu_unequal(&self->of_other, &self->result, import.cpu, 0x9a));
	EXPECT_EQ(0, kfd_bo_destroy(&self->other, &import));
	close(pair[0]);
	close(pair[1]);
}

KFD_HARNESS_MAIN
