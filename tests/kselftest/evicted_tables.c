// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that has to be mapped anew, beside a thread or a process that takes all page tables
 * there are. Wants a device with little VRAM.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <drm/amdgpu_drm.h>
#include <drm/drm.h>

#include "debugfs.h"
#include "kfd_dmabuf.h"
#include "kfd_harness.h"
#include "objects.h"

#define MIB		(1ull << 20)
#define RING		(64u * 1024)
/* Addresses that only the GPU uses. */
#define GPU_VA		(1ull << 40)
#define OTHER_VA	(2ull << 40)
#define TABLES_VA	(1ull << 44)
/* The span of a page table. */
#define SPAN		(2 * MIB)
/* More tables than the least of a process on this GPU. */
#define BUFFERS		40u
/* A queue that is evicted runs again within this time if it can, milliseconds. */
#define SOON_MS		10000u
/* User memory that cannot be mapped is given up after half a minute. */
#define GIVEN_UP_MS	60000u
/* Memory of the process. */
#define USER_BYTES	(64 * MIB)

/* Messages between the processes. */
enum { READY, FULL, BEGIN, MORE, HOLES, END, WORDS };

FIXTURE(evicted_tables)
{
	volatile uint32_t *said;
	pid_t owner;
	pid_t hoarder;
	pid_t breaker;
};

FIXTURE_SETUP(evicted_tables)
{
	self->said = kfd_share();
	ASSERT_NE(NULL, (void *)self->said);
}

/* What a failed test leaves behind would fail the next one. */
FIXTURE_TEARDOWN(evicted_tables)
{
	const pid_t children[] = { self->owner, self->hoarder, self->breaker };
	unsigned int i;

	for (i = 0; i < sizeof(children) / sizeof(children[0]); i++) {
		if (children[i] > 0 && waitpid(children[i], NULL, WNOHANG) == 0) {
			kill(children[i], SIGKILL);
			waitpid(children[i], NULL, 0);
		}
	}
}

/* In a child: waits for the message @word. */
static void hear(const FIXTURE_DATA(evicted_tables) *self, unsigned int word)
{
	if (!kfd_becomes(&self->said[word], 1, KFD_HANG_MS))
		_exit(100 + (int)word);
}

static int exit_status(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Maps one page at endless places, each with a table of its own, until told to end. */
static int hoard(volatile uint32_t *said, const struct kfd_dev *dev)
{
	struct drm_amdgpu_gem_va place = {
		.operation = AMDGPU_VA_OP_MAP,
		.flags = AMDGPU_VM_PAGE_READABLE,
		.va_address = TABLES_VA,
		.map_size = KFD_PAGE,
	};
	int err;

	if (drm_gem_create(dev->drm_fd, KFD_PAGE, AMDGPU_GEM_DOMAIN_GTT, 0, &place.handle))
		return 1;
	while (!said[END]) {
		err = kfd_ioctl(dev->drm_fd, DRM_IOCTL_AMDGPU_GEM_VA, &place);
		if (!err) {
			place.va_address += SPAN;
			said[MORE] += said[FULL];
		} else if (err == ENOMEM) {
			said[FULL] = 1;
			usleep(100);
		} else {
			return 2;
		}
	}
	return 0;
}

/* In a child: the same in a process of its own. */
static int hoard_apart(volatile uint32_t *said)
{
	struct kfd_dev dev;

	return kfd_open(&dev) ? 3 : hoard(said, &dev);
}

/* Maps a buffer of VRAM at @va, and at a second place too. */
static int map_twice(const struct kfd_dev *dev, uint64_t va, uint64_t size)
{
	struct drm_amdgpu_gem_va place = {
		.operation = AMDGPU_VA_OP_MAP,
		.flags = AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE,
		.va_address = va,
		.map_size = size,
	};
	int err = drm_gem_create(dev->drm_fd, size, AMDGPU_GEM_DOMAIN_VRAM, 0, &place.handle);

	if (!err)
		err = kfd_ioctl(dev->drm_fd, DRM_IOCTL_AMDGPU_GEM_VA, &place);
	place.va_address += OTHER_VA;
	return err ? err : kfd_ioctl(dev->drm_fd, DRM_IOCTL_AMDGPU_GEM_VA, &place);
}

static int map_once(const struct kfd_dev *dev, uint64_t va, uint64_t size)
{
	uint64_t handle;
	int err = kfd_alloc_at(dev, KFD_ALLOC_VRAM, va, size, &handle);

	return err ? err : kfd_map(dev->fd, handle, dev->gpu_id);
}

/* In a child: has buffers of @size bytes, each in the span of a table, and works on them. */
static int own(FIXTURE_DATA(evicted_tables) *self, uint64_t size, bool twice)
{
	struct kfd_queue queue;
	struct kfd_dev dev;
	unsigned int i;

	if (kfd_open(&dev) || kfd_queue_create(&dev, &queue, RING))
		return 1;
	for (i = 0; i < BUFFERS; i++)
		if ((twice ? map_twice : map_once)(&dev, GPU_VA + i * SPAN, size))
			return 2;
	self->said[READY] = 1;
	hear(self, BEGIN);
	for (i = 0; i < BUFFERS; i++)
		if (kfd_queue_fill(&queue, GPU_VA + i * SPAN, i, KFD_PAGE, SOON_MS))
			return 3;
	return 0;
}

/* Starts an owner of such buffers and a hoarder. False on failure. */
static bool start(FIXTURE_DATA(evicted_tables) *self, uint64_t size, bool twice)
{
	self->owner = fork();
	if (self->owner == 0)
		_exit(own(self, size, twice));
	if (!kfd_becomes(&self->said[READY], 1, KFD_HANG_MS))
		return false;
	self->hoarder = fork();
	if (self->hoarder == 0)
		_exit(hoard_apart(self->said));
	return kfd_becomes(&self->said[FULL], 1, KFD_HANG_MS);
}

/* A process that is moved out keeps its tables, and comes back beside a hoarder. */
TEST_F(evicted_tables, comes_back_beside_a_hoarder)
{
	pid_t taker;

	if (!kfd_is_rkfd())
		SKIP(return, "amdgpu evicts page tables");
	ASSERT_TRUE(start(self, KFD_PAGE, false));
	taker = fork();
	ASSERT_LE(0, taker);
	if (taker == 0)
		_exit(kfd_take_vram(OTHER_VA, 500));
	EXPECT_TRUE(objects_become("evicted_bytes", BUFFERS * KFD_PAGE, KFD_HANG_MS));
	EXPECT_EQ(0, exit_status(taker));
	EXPECT_EQ(0, self->said[MORE]);
	self->said[BEGIN] = 1;
	EXPECT_EQ(0, exit_status(self->owner));
	self->said[END] = 1;
	EXPECT_EQ(0, exit_status(self->hoarder));
}

/*
 * In a child: half of VRAM is free, in holes of a MiB. The owner has to be out before: as soon as
 * there is a hole it may come back.
 */
static int make_holes(FIXTURE_DATA(evicted_tables) *self)
{
	struct kfd_dev dev;
	int err = kfd_open(&dev);
	const unsigned int count = err ? 0 : kfd_available(&dev) / MIB;
	uint64_t *handles = calloc(count, sizeof(*handles));
	unsigned int i;

	if (!handles)
		err = ENOMEM;
	for (i = 0; !err && i < count; i++)
		err = kfd_alloc_at(&dev, KFD_ALLOC_VRAM, GPU_VA + i * MIB, MIB, &handles[i]);
	if (!err && !objects_become("evicted_bytes", BUFFERS * SPAN, KFD_HANG_MS / 2))
		err = EBUSY;
	for (i = 0; !err && i < count; i += 2)
		err = kfd_free(dev.fd, handles[i]);
	if (err)
		return err;
	self->said[HOLES] = 1;
	hear(self, END);
	return 0;
}

/* Starts a child that makes such holes, for which the owner moves out. False on failure. */
static bool start_breaker(FIXTURE_DATA(evicted_tables) *self)
{
	self->breaker = fork();
	if (self->breaker == 0)
		_exit(make_holes(self));
	return kfd_becomes(&self->said[HOLES], 1, KFD_HANG_MS);
}

/* Buffers that left in large pages come back in pieces, for which they need more tables. */
TEST_F(evicted_tables, comes_back_in_pieces)
{
	if (!kfd_is_rkfd())
		SKIP(return, "amdgpu evicts page tables");
	ASSERT_TRUE(start(self, SPAN, false));
	ASSERT_TRUE(start_breaker(self));
	EXPECT_EQ(0, self->said[MORE]);
	self->said[BEGIN] = 1;
	EXPECT_EQ(0, exit_status(self->owner));
	self->said[END] = 1;
	EXPECT_EQ(0, exit_status(self->breaker));
	EXPECT_EQ(0, exit_status(self->hoarder));
}

/* Bytes that @pid has in system memory though they belong into VRAM, by the file "clients". */
static long long evicted_of(pid_t pid)
{
	char text[4096], key[32];
	const char *line;
	long long vram, evicted;

	snprintf(key, sizeof(key), "\n%d ", pid);
	if (!debugfs_read("clients", text, sizeof(text)))
		return -1;
	line = strstr(text, key);
	if (!line || sscanf(line + strlen(key), "%lld %lld", &vram, &evicted) != 2)
		return -1;
	return evicted;
}

/*
 * Buffers that find no tables on their way back are counted where they are: otherwise the next
 * process that needs room looks for it in the wrong place.
 */
TEST_F(evicted_tables, what_is_out_is_counted)
{
	unsigned int i, wrong = 0;

	if (!kfd_is_rkfd())
		SKIP(return, "amdgpu evicts page tables");
	ASSERT_TRUE(start(self, SPAN, true));
	ASSERT_TRUE(start_breaker(self));
	self->said[BEGIN] = 1;
	sleep(1);
	for (i = 0; i < 40; i++) {
		usleep(50000);
		wrong += evicted_of(self->owner) != objects_count("evicted_bytes");
	}
	TH_LOG("%lld bytes are out, %lld counted", objects_count("evicted_bytes"),
	       evicted_of(self->owner));
	/* Between the two looks it may have moved. */
	EXPECT_GT(20, wrong);
	EXPECT_EQ(0, kill(self->owner, SIGKILL));
	waitpid(self->owner, NULL, 0);
	self->said[END] = 1;
	EXPECT_EQ(0, exit_status(self->breaker));
	EXPECT_EQ(0, exit_status(self->hoarder));
}

struct hoarder {
	pthread_t thread;
	volatile uint32_t *said;
	struct kfd_dev dev;
	int err;
};

static void *hoard_beside(void *arg)
{
	struct hoarder *hoarder = arg;

	hoarder->err = hoard(hoarder->said, &hoarder->dev);
	return NULL;
}

/* User memory that is mapped to the GPU, a queue, and then a hoarder in the same process. */
struct mapped {
	struct hoarder hoarder;
	struct kfd_queue queue;
	struct kfd_bo bo;
	uint8_t *user;
};

/* With @advice for the memory. 0, or the number of the step that failed. */
static int map_user(volatile uint32_t *said, struct mapped *all, int advice)
{
	struct kfd_dev *dev = &all->hoarder.dev;
	uint64_t handle;

	all->hoarder.said = said;
	if (kfd_open(dev) || kfd_queue_create(dev, &all->queue, RING) ||
	    kfd_bo_create(dev, &all->bo, KFD_PAGE, KFD_ALLOC_GTT))
		return 1;
	all->user = kfd_reserve(USER_BYTES, SPAN);
	if (!all->user || mprotect(all->user, USER_BYTES, PROT_READ | PROT_WRITE) ||
	    madvise(all->user, USER_BYTES, advice))
		return 2;
	memset(all->user, 1, USER_BYTES);
	if (kfd_alloc_at(dev, KFD_ALLOC_USERPTR, (uintptr_t)all->user, USER_BYTES, &handle) ||
	    kfd_map(dev->fd, handle, dev->gpu_id))
		return 3;
	if (pthread_create(&all->hoarder.thread, NULL, hoard_beside, &all->hoarder))
		return 4;
	return kfd_becomes(&said[FULL], 1, KFD_HANG_MS) ? 0 : 5;
}

/* Memory of the process that has changed keeps its tables. */
TEST_F(evicted_tables, user_memory_keeps_its_tables)
{
	const size_t page = USER_BYTES / 2;
	struct mapped all;

	if (!kfd_is_rkfd())
		SKIP(return, "amdgpu evicts page tables");
	ASSERT_EQ(0, map_user(self->said, &all, MADV_NOHUGEPAGE));
	ASSERT_EQ(0, madvise(all.user + page, KFD_PAGE, MADV_DONTNEED));
	memset(all.user + page, 2, KFD_PAGE);
	EXPECT_EQ(0, kfd_queue_copy(&all.queue, (uintptr_t)all.bo.cpu,
				    (uintptr_t)all.user + page, KFD_PAGE, SOON_MS));
	EXPECT_EQ(2, *(uint8_t *)all.bo.cpu);
	EXPECT_EQ(0, self->said[MORE]);
	self->said[END] = 1;
	pthread_join(all.hoarder.thread, NULL);
	EXPECT_EQ(0, all.hoarder.err);
}

/*
 * Memory that now needs more tables than there are: after half a minute the queues go on
 * without it.
 */
TEST_F(evicted_tables, goes_on_without_tables)
{
	struct mapped all;
	size_t at;

	if (!kfd_is_rkfd())
		SKIP(return, "amdgpu evicts page tables");
	ASSERT_EQ(0, map_user(self->said, &all, MADV_HUGEPAGE));
	/* No large page is in one piece any more. */
	for (at = MIB; at < USER_BYTES; at += SPAN)
		ASSERT_EQ(0, mprotect(all.user + at, KFD_PAGE, PROT_READ));
	EXPECT_EQ(0, kfd_queue_fill(&all.queue, (uintptr_t)all.bo.cpu, 7, KFD_PAGE, GIVEN_UP_MS));
	EXPECT_EQ(7, *(uint8_t *)all.bo.cpu);
	self->said[END] = 1;
	pthread_join(all.hoarder.thread, NULL);
	EXPECT_EQ(0, all.hoarder.err);
}

KFD_HARNESS_MAIN
