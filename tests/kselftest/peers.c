// SPDX-License-Identifier: GPL-2.0
/*
 * A process on two GPUs: memory of either mapped on both, in each GPU's own
 * address space of the process. Wants little VRAM.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "two_gpus_fixture.h"

FIXTURE(peers)
{
	TWO_GPUS_MEMBERS;
	struct kfd_bo result;		/* of the one, for both */
};

FIXTURE_SETUP(peers)
{
	TWO_GPUS_SETUP();
	ASSERT_EQ(0, kfd_bo_create(&self->one, &self->result, SIZE, KFD_ALLOC_GTT));
	ASSERT_EQ(0, kfd_map(self->one.fd, self->result.handle, self->other.gpu_id));
}

FIXTURE_TEARDOWN(peers)
{
	if (self->result.cpu) {
		EXPECT_EQ(0, kfd_unmap(self->one.fd, self->result.handle, self->other.gpu_id));
		EXPECT_EQ(0, kfd_bo_destroy(&self->one, &self->result));
		TWO_GPUS_DESTROY_QUEUES();
	}
	TWO_GPUS_CLOSE();
}

/* MAP or UNMAP with a list. Returns the errno, and the number of GPUs done in *@done. */
static int map_list(const struct kfd_dev *dev, bool map, uint64_t handle, const uint32_t *ids,
		    uint32_t count, uint32_t *done)
{
	struct kfd_ioctl_map_memory_to_gpu_args args = {
		.handle = handle,
		.device_ids_array_ptr = (uintptr_t)ids,
		.n_devices = count,
		.n_success = *done,
	};
	int err = kfd_ioctl(dev->fd, map ? AMDKFD_IOC_MAP_MEMORY_TO_GPU :
			    AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &args);

	*done = args.n_success;
	return err;
}

/* Each kind of host memory, of the first GPU, on both. */
static void on_both(struct __test_metadata *_metadata, FIXTURE_DATA(peers) *self, uint32_t flags)
{
	uint32_t ids[] = { self->one.gpu_id, self->other.gpu_id }, done = 0;
	struct kfd_bo bo;
	unsigned int i;

	ASSERT_EQ(0, kfd_bo_create(&self->one, &bo, SIZE, flags));
	ASSERT_EQ(0, map_list(&self->one, true, bo.handle, ids, 2, &done));
	EXPECT_EQ(2, done);
	for (i = 1; i <= 3; i++) {
		EXPECT_EQ(0, gpu_fill(&self->of_one, bo.cpu, i));
		EXPECT_EQ(0, gpu_unequal(&self->of_other, &self->result, bo.cpu, i));
		EXPECT_EQ(0, gpu_fill(&self->of_other, bo.cpu, 0x100 + i));
		EXPECT_EQ(0, unequal(bo.cpu, 0x100 + i, SIZE));
		EXPECT_EQ(0, gpu_unequal(&self->of_one, &self->result, bo.cpu, 0x100 + i));
	}
	/* One without the other, both ways. */
	EXPECT_EQ(0, kfd_unmap(self->one.fd, bo.handle, self->other.gpu_id));
	EXPECT_EQ(0, gpu_fill(&self->of_one, bo.cpu, 0x200));
	EXPECT_EQ(0, kfd_map(self->one.fd, bo.handle, self->other.gpu_id));
	EXPECT_EQ(0, kfd_unmap(self->one.fd, bo.handle, self->one.gpu_id));
	EXPECT_EQ(0, gpu_unequal(&self->of_other, &self->result, bo.cpu, 0x200));
	EXPECT_EQ(EBUSY, kfd_free(self->one.fd, bo.handle));
	EXPECT_EQ(0, kfd_unmap(self->one.fd, bo.handle, self->other.gpu_id));
	EXPECT_EQ(0, kfd_bo_destroy(&self->one, &bo));
}

TEST_F(peers, gtt)
{
	on_both(_metadata, self, KFD_ALLOC_GTT);
}

TEST_F(peers, userptr)
{
	on_both(_metadata, self, KFD_ALLOC_USERPTR);
}

/* Each GPU follows changes to memory of the process, whichever other GPU has it. */
TEST_F(peers, userptr_changes)
{
	struct kfd_bo bo;
	unsigned int i;

	ASSERT_EQ(0, kfd_bo_create(&self->one, &bo, SIZE, KFD_ALLOC_USERPTR));
	ASSERT_EQ(0, kfd_map(self->one.fd, bo.handle, self->other.gpu_id));
	for (i = 1; i <= 5; i++) {
		EXPECT_EQ(0, gpu_fill(&self->of_other, bo.cpu, i));
		EXPECT_EQ(0, madvise(bo.cpu, SIZE, MADV_DONTNEED));
		EXPECT_EQ(0, gpu_unequal(&self->of_other, &self->result, bo.cpu, 0));
		EXPECT_EQ(0, gpu_unequal(&self->of_one, &self->result, bo.cpu, 0));
		EXPECT_EQ(0, gpu_fill(&self->of_one, bo.cpu, 0x100 + i));
		EXPECT_EQ(0, unequal(bo.cpu, 0x100 + i, SIZE));
		EXPECT_EQ(0, gpu_unequal(&self->of_other, &self->result, bo.cpu, 0x100 + i));
	}
	EXPECT_EQ(0, kfd_unmap(self->one.fd, bo.handle, self->other.gpu_id));
	EXPECT_EQ(0, kfd_bo_destroy(&self->one, &bo));
}

/*
 * A buffer that is imported on one GPU counts as imported on the other too, or is the other's
 * own.
 */
TEST_F(peers, imports)
{
	struct kfd_bo own, import;
	unsigned int i;
	int memfd, fd, err;

	err = udmabuf_create(SIZE, &memfd, &fd);
	for (i = 0; i < 2; i++) {
		if (i == 1) {
			ASSERT_EQ(0, kfd_bo_create(&self->other, &own, SIZE, KFD_ALLOC_GTT));
			ASSERT_EQ(0, kfd_export(&self->other, own.handle, O_CLOEXEC, &fd));
		} else if (err == ENOENT) {
			TH_LOG("no udmabuf");
			continue;
		}
		ASSERT_EQ(0, kfd_bo_import(&self->one, &import, fd, SIZE));
		EXPECT_EQ(0, kfd_map(self->one.fd, import.handle, self->other.gpu_id));
		EXPECT_EQ(0, gpu_fill(&self->of_one, import.cpu, 0x31 + i));
		EXPECT_EQ(0, gpu_unequal(&self->of_other, &self->result, import.cpu, 0x31 + i));
		EXPECT_EQ(0, gpu_fill(&self->of_other, import.cpu, 0x41 + i));
		EXPECT_EQ(0, gpu_unequal(&self->of_one, &self->result, import.cpu, 0x41 + i));
		EXPECT_EQ(0, kfd_unmap(self->one.fd, import.handle, self->other.gpu_id));
		EXPECT_EQ(0, kfd_bo_destroy(&self->one, &import));
		close(fd);
		if (i == 0)
			close(memfd);
	}
	EXPECT_EQ(0, gpu_unequal(&self->of_other, &self->result, own.cpu, 0x42));
	EXPECT_EQ(0, kfd_bo_destroy(&self->other, &own));
}

/* As in libhsakmt: the buffers that a queue of any GPU needs belong to the first GPU. */
TEST_F(peers, queue_in_a_peers_memory)
{
	struct kfd_ioctl_create_queue_args args;
	struct kfd_queue queue = { 0 };
	const uint32_t flags[] = { KFD_ALLOC_GTT, KFD_ALLOC_USERPTR };
	unsigned int i;

	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, kfd_bo_create(&self->one, &queue.ring, RING, flags[i]));
		ASSERT_EQ(0, kfd_bo_create(&self->one, &queue.pointers, KFD_PAGE, flags[i]));
		memset(queue.pointers.cpu, 0, KFD_PAGE);
		kfd_queue_args(&self->other, &queue.ring, &queue.pointers, &args);
		EXPECT_EQ(EINVAL, kfd_ioctl(self->one.fd, AMDKFD_IOC_CREATE_QUEUE, &args));
		ASSERT_EQ(0, kfd_map(self->one.fd, queue.ring.handle, self->other.gpu_id));
		ASSERT_EQ(0, kfd_map(self->one.fd, queue.pointers.handle, self->other.gpu_id));
		ASSERT_EQ(0, kfd_ioctl(self->one.fd, AMDKFD_IOC_CREATE_QUEUE, &args));
		queue.id = args.queue_id;
		queue.wptr = 0;
		queue.fence = 0;
		ASSERT_EQ(0, kfd_doorbell_map(self->one.fd, args.doorbell_offset, &queue.slice,
					      &queue.doorbell));
		EXPECT_EQ(0, gpu_fill(&queue, self->result.cpu, 0x51 + i));
		EXPECT_EQ(0, unequal(self->result.cpu, 0x51 + i, SIZE));
		/* In use there, and free to be unmapped from the other GPU. */
		EXPECT_EQ(EBUSY, kfd_unmap(self->one.fd, queue.ring.handle, self->other.gpu_id));
		EXPECT_EQ(0, kfd_unmap(self->one.fd, queue.ring.handle, self->one.gpu_id));
		EXPECT_EQ(0, kfd_destroy_queue(self->one.fd, queue.id));
		munmap(queue.slice, KFD_DOORBELL_SLICE);
		EXPECT_EQ(0, kfd_unmap(self->one.fd, queue.ring.handle, self->other.gpu_id));
		EXPECT_EQ(0, kfd_unmap(self->one.fd, queue.pointers.handle, self->other.gpu_id));
		EXPECT_EQ(0, kfd_bo_destroy(&self->one, &queue.ring));
		EXPECT_EQ(0, kfd_bo_destroy(&self->one, &queue.pointers));
	}
}

/*
 * VRAM and doorbells of a GPU are mapped on the other one where the topology has a link, and
 * nowhere else.
 */
TEST_F(peers, vram)
{
	const bool linked = linked_by_machine();
	struct kfd_ioctl_create_queue_args create;
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.gpu_id = self->one.gpu_id,
		.size = KFD_DOORBELL_SLICE,
		.flags = KFD_ALLOC_RW | KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL,
	};
	const uint32_t ids[] = { self->one.gpu_id, self->other.gpu_id };
	uint32_t done = 0;
	struct kfd_bo bo;
	unsigned int i;

	TH_LOG("the GPUs reach each other: %s", linked ? "yes" : "no");
	EXPECT_EQ(linked, reaches(self->one.node, self->other.node));
	EXPECT_EQ(linked, reaches(self->other.node, self->one.node));
	ASSERT_EQ(0, kfd_bo_create(&self->one, &bo, SIZE, KFD_ALLOC_VRAM));
	EXPECT_EQ(linked ? 0 : EREMOTEIO, map_list(&self->one, true, bo.handle, ids, 2, &done));
	EXPECT_EQ(linked ? 2 : 1, done);
	for (i = 1; linked && i <= 3; i++) {
		EXPECT_EQ(0, gpu_fill(&self->of_one, bo.cpu, i));
		EXPECT_EQ(0, gpu_unequal(&self->of_other, &self->result, bo.cpu, i));
		EXPECT_EQ(0, gpu_fill(&self->of_other, bo.cpu, 0x100 + i));
		EXPECT_EQ(0, gpu_unequal(&self->of_one, &self->result, bo.cpu, 0x100 + i));
		EXPECT_EQ(0, unequal(bo.cpu, 0x100 + i, SIZE));
	}
	/* A queue's memory is not taken from it when another GPU goes. */
	kfd_queue_args(&self->other, &bo, &self->result, &create);
	create.ring_size = 2u << 20;
	EXPECT_NE(0, kfd_ioctl(self->one.fd, AMDKFD_IOC_CREATE_QUEUE, &create));
	done = 0;
	EXPECT_EQ(0, map_list(&self->one, false, bo.handle, ids, 2, &done));
	EXPECT_EQ(0, kfd_bo_destroy(&self->one, &bo));

	args.va_addr = (uintptr_t)kfd_reserve(KFD_DOORBELL_SLICE, KFD_PAGE);
	ASSERT_EQ(0, kfd_alloc(self->one.fd, &args));
	EXPECT_EQ(linked ? 0 : EREMOTEIO, kfd_map(self->one.fd, args.handle, self->other.gpu_id));
	EXPECT_EQ(0, kfd_unmap(self->one.fd, args.handle, self->other.gpu_id));
	EXPECT_EQ(0, kfd_free(self->one.fd, args.handle));
}

/*
 * VRAM that another GPU reaches has to stay. It is at most half, so that the rest can make room
 * for others.
 */
TEST_F(peers, half_of_vram)
{
	const size_t part = kfd_available(&self->one) / 5 & ~((2ull << 20) - 1);
	struct kfd_bo bo[3];
	unsigned int i;

	if (!linked_by_machine())
		SKIP(return, "no way between the GPUs");
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, kfd_bo_create(&self->one, &bo[i], part, KFD_ALLOC_VRAM));
		EXPECT_EQ(i < 2 ? 0 : ENOMEM,
			  kfd_map(self->one.fd, bo[i].handle, self->other.gpu_id));
	}
	EXPECT_EQ(0, kfd_unmap(self->one.fd, bo[0].handle, self->other.gpu_id));
	EXPECT_EQ(0, kfd_map(self->one.fd, bo[2].handle, self->other.gpu_id));
	for (i = 1; i < 3; i++)
		EXPECT_EQ(0, kfd_unmap(self->one.fd, bo[i].handle, self->other.gpu_id));
	for (i = 0; i < 3; i++)
		EXPECT_EQ(0, kfd_bo_destroy(&self->one, &bo[i]));
}

/*
 * Processes share the VRAM of one GPU while another process works on the second one. Evicted
 * memory is mapped where it is; mapped VRAM stays.
 */
TEST_F(peers, vram_is_short)
{
	const bool linked = linked_by_machine();
	unsigned int copies = 0, round, i;
	struct kfd_bo bo[3];
	bool mapped = false;
	int status;

	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, kfd_bo_create(&self->one, &bo[i], SIZE, KFD_ALLOC_VRAM));
		EXPECT_EQ(0, gpu_fill(&self->of_one, bo[i].cpu, 0x10 + i));
	}
	if (linked) {
		EXPECT_EQ(0, kfd_map(self->one.fd, bo[1].handle, self->other.gpu_id));
	}
	/* Twice, and until a buffer was evicted when it was mapped. */
	for (round = 0; round < 2 || (linked && !mapped && round < 20); round++) {
		pid_t pid = fork();

		ASSERT_LE(0, pid);
		if (pid == 0)
			_exit(kfd_take_vram(GPU_VA, 500));
		do {
			EXPECT_EQ(0, gpu_fill(&self->of_other, self->result.cpu, copies));
			EXPECT_EQ(0, unequal(self->result.cpu, copies++, SIZE));
			if (linked) {
				EXPECT_EQ(0, gpu_unequal(&self->of_other, &self->result,
							 bo[1].cpu, 0x11));
			}
			if (linked && !mapped && objects_count("evicted_bytes") > 0) {
				EXPECT_EQ(0, kfd_map(self->one.fd, bo[0].handle,
						     self->other.gpu_id));
				mapped = true;
			}
			if (mapped) {
				EXPECT_EQ(0, gpu_unequal(&self->of_other, &self->result,
							 bo[0].cpu, 0x10));
			}
		} while (waitpid(pid, &status, WNOHANG) == 0);
		EXPECT_EQ(0, status);
	}
	EXPECT_EQ(linked, mapped);
	TH_LOG("%u copies meanwhile; one buffer was mapped while it was away: %s", copies,
	       mapped ? "yes" : "no");
	if (linked) {
		EXPECT_EQ(0, kfd_unmap(self->one.fd, bo[1].handle, self->other.gpu_id));
	}
	if (mapped) {
		EXPECT_EQ(0, kfd_unmap(self->one.fd, bo[0].handle, self->other.gpu_id));
	}
	EXPECT_TRUE(objects_become("evicted_bytes", 0, TIMEOUT_MS));
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(0, gpu_unequal(&self->of_one, &self->result, bo[i].cpu, 0x10 + i));
		EXPECT_EQ(0, kfd_bo_destroy(&self->one, &bo[i]));
	}
}

/*
 * A buffer that was mapped while evicted moves back too, if it is unmapped while the rest moves
 * back.
 */
TEST_F(peers, unmapped_on_the_way_home)
{
	const size_t part = kfd_available(&self->one) / 6 & ~((2ull << 20) - 1);
	struct kfd_bo shared, rest[2];
	unsigned int round, i;
	int status;

	if (!linked_by_machine())
		SKIP(return, "no way between the GPUs");
	ASSERT_EQ(0, kfd_bo_create(&self->one, &shared, SIZE, KFD_ALLOC_VRAM));
	EXPECT_EQ(0, gpu_fill(&self->of_one, shared.cpu, 0x20));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, kfd_bo_create(&self->one, &rest[i], part, KFD_ALLOC_VRAM));
	}
	for (round = 0; round < 3; round++) {
		const uint64_t end = kfd_now_ms() + 2 * TIMEOUT_MS;
		long long away = SIZE + 2 * (long long)part;
		pid_t pid = fork();

		ASSERT_LE(0, pid);
		if (pid == 0)
			_exit(kfd_take_vram(GPU_VA, 500));
		while (objects_count("evicted_bytes") < away && kfd_now_ms() < end)
			usleep(1000);
		EXPECT_EQ(0, kfd_map(self->one.fd, shared.handle, self->other.gpu_id));
		EXPECT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_EQ(0, status);
		/* One of the other buffers is back. */
		away -= (long long)part;
		while (objects_count("evicted_bytes") > away && kfd_now_ms() < end)
			usleep(1000);
		EXPECT_EQ(0, kfd_unmap(self->one.fd, shared.handle, self->other.gpu_id));
		EXPECT_TRUE(objects_become("evicted_bytes", 0, TIMEOUT_MS));
		EXPECT_EQ(0, gpu_unequal(&self->of_one, &self->result, shared.cpu, 0x20));
	}
	for (i = 0; i < 2; i++)
		EXPECT_EQ(0, kfd_bo_destroy(&self->one, &rest[i]));
	EXPECT_EQ(0, kfd_bo_destroy(&self->one, &shared));
}

TEST_F(peers, lists)
{
	const uint32_t one = self->one.gpu_id, other = self->other.gpu_id;
	const uint32_t none = one ^ other ^ 0x5555;
	uint32_t both[] = { one, other }, twice[] = { other, one, other };
	uint32_t bad[] = { other, none, one }, done;
	struct kfd_bo bo;
	uint32_t *edge;
	unsigned int i;

	ASSERT_NE(none, one);
	ASSERT_NE(none, other);
	ASSERT_EQ(0, kfd_bo_create(&self->one, &bo, SIZE, KFD_ALLOC_GTT));
	ASSERT_EQ(0, kfd_unmap(self->one.fd, bo.handle, one));
	for (i = 0; i < 2; i++) {
		const bool map = i == 0;

		/* The entries before a bad one are done. */
		done = 0;
		EXPECT_EQ(EINVAL, map_list(&self->one, map, bo.handle, bad, 3, &done));
		EXPECT_EQ(1, done);
		EXPECT_EQ(map ? EBUSY : 0, map ? kfd_free(self->one.fd, bo.handle) : 0);
		/* A call that continues behind it does the rest. */
		done = 2;
		EXPECT_EQ(0, map_list(&self->one, map, bo.handle, bad, 3, &done));
		EXPECT_EQ(3, done);
		/* A GPU listed twice is the same as once. */
		done = 0;
		EXPECT_EQ(0, map_list(&self->one, map, bo.handle, twice, 3, &done));
		EXPECT_EQ(3, done);
		/* All done, more than all, nothing, too many. */
		EXPECT_EQ(0, map_list(&self->one, map, bo.handle, twice, 3, &done));
		done = 4;
		EXPECT_EQ(EINVAL, map_list(&self->one, map, bo.handle, twice, 3, &done));
		EXPECT_EQ(4, done);
		done = 0;
		EXPECT_EQ(EINVAL, map_list(&self->one, map, bo.handle, both, 0, &done));
		EXPECT_EQ(EINVAL, map_list(&self->one, map, bo.handle, both, 257, &done));
		EXPECT_EQ(EINVAL, map_list(&self->one, map, bo.handle, both, UINT32_MAX, &done));
		EXPECT_EQ(0, done);
		EXPECT_EQ(EINVAL, map_list(&self->one, map, bo.handle + 1000, both, 2, &done));
		EXPECT_EQ(0, done);
	}
	EXPECT_EQ(0, kfd_free(self->one.fd, bo.handle));
	munmap(bo.cpu, SIZE);

	/* A list that ends where memory does. */
	ASSERT_EQ(0, kfd_bo_create(&self->one, &bo, SIZE, KFD_ALLOC_GTT));
	edge = mmap(NULL, 2 * KFD_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, edge);
	ASSERT_EQ(0, munmap((char *)edge + KFD_PAGE, KFD_PAGE));
	edge += KFD_PAGE / 4 - 1;
	*edge = other;
	done = 0;
	EXPECT_EQ(EFAULT, map_list(&self->one, true, bo.handle, edge, 2, &done));
	done = 0;
	EXPECT_EQ(0, map_list(&self->one, true, bo.handle, edge, 1, &done));
	EXPECT_EQ(0, gpu_fill(&self->of_other, bo.cpu, 0x61));
	EXPECT_EQ(0, kfd_unmap(self->one.fd, bo.handle, other));
	EXPECT_EQ(0, kfd_bo_destroy(&self->one, &bo));
}

/* A GPU without an acquired address space, and addresses that are in use. */
TEST_F(peers, refused)
{
	const uint32_t other = self->other.gpu_id;
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.flags = KFD_ALLOC_GTT,
		.gpu_id = other,
		.size = SIZE,
	};
	struct kfd_dev dev;
	struct kfd_bo bo;
	int status;
	pid_t pid;

	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0) {
		if (kfd_open(&dev) || kfd_bo_create(&dev, &bo, SIZE, KFD_ALLOC_GTT))
			_exit(1);
		if (kfd_map(dev.fd, bo.handle, other) != ENODEV)
			_exit(2);
		_exit(kfd_bo_destroy(&dev, &bo) ? 3 : 0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);

	ASSERT_EQ(0, kfd_bo_create(&self->one, &bo, SIZE, KFD_ALLOC_GTT));
	args.va_addr = (uintptr_t)bo.cpu;
	ASSERT_EQ(0, kfd_alloc(self->one.fd, &args));
	ASSERT_EQ(0, kfd_map(self->one.fd, args.handle, other));
	EXPECT_EQ(EEXIST, kfd_map(self->one.fd, bo.handle, other));
	EXPECT_EQ(0, kfd_unmap(self->one.fd, args.handle, other));
	EXPECT_EQ(0, kfd_map(self->one.fd, bo.handle, other));
	EXPECT_EQ(EEXIST, kfd_map(self->one.fd, args.handle, other));
	EXPECT_EQ(0, kfd_unmap(self->one.fd, bo.handle, other));
	EXPECT_EQ(0, kfd_free(self->one.fd, args.handle));
	EXPECT_EQ(0, kfd_bo_destroy(&self->one, &bo));
}

/* In a child: memory of all kinds on both GPUs, and endless copies, announced in *@works. */
static int child_works(volatile uint32_t *works)
{
	const uint32_t flags[] = { KFD_ALLOC_GTT, KFD_ALLOC_USERPTR };
	struct kfd_queue of_one, of_other;
	struct kfd_dev one, other;
	struct kfd_bo bo[2];
	unsigned int i;
	int err;

	err = kfd_open(&one);
	if (!err)
		err = kfd_open_next(&one, &other);
	if (!err)
		err = kfd_queue_create(&one, &of_one, RING);
	if (!err)
		err = kfd_queue_create(&other, &of_other, RING);
	for (i = 0; !err && i < 2; i++) {
		err = kfd_bo_create(&one, &bo[i], SIZE, flags[i]);
		if (!err)
			err = kfd_map(one.fd, bo[i].handle, other.gpu_id);
	}
	for (i = 0; !err; i++) {
		err = gpu_fill(&of_one, bo[i & 1].cpu, i);
		if (!err)
			err = gpu_fill(&of_other, bo[i & 1].cpu, i);
		*works = 1;
		if (i % 4 == 3)
			madvise(bo[1].cpu, SIZE, MADV_DONTNEED);
	}
	return err;
}

/* A process that is killed leaves no objects on either GPU: see the teardown. */
TEST_F(peers, killed)
{
	volatile uint32_t *works = kfd_share();
	int status, i;

	ASSERT_NE(NULL, works);
	for (i = 0; i < 5; i++) {
		pid_t pid;

		*works = 0;
		pid = fork();
		ASSERT_LE(0, pid);
		if (pid == 0)
			_exit(child_works(works));
		EXPECT_TRUE(kfd_becomes(works, 1, TIMEOUT_MS));
		usleep(i * 80000);
		kill(pid, SIGKILL);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_TRUE(WIFSIGNALED(status));
	}
	EXPECT_EQ(0, gpu_fill(&self->of_other, self->result.cpu, 0x71));
	EXPECT_EQ(0, unequal(self->result.cpu, 0x71, SIZE));
}

KFD_HARNESS_MAIN
