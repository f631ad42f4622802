// SPDX-License-Identifier: GPL-2.0
/*
 * Objects of a process are charged: to its share or its cgroup.
 * Documentation/limits.md has the table.
 */
#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <drm/amdgpu_drm.h>
#include <drm/drm.h>
#include <sys/wait.h>

#include "debugfs.h"
#include "kfd_event.h"
#include "kfd_harness.h"
#include "kfd_dmabuf.h"
#include "kfd_svm.h"
#include "kworkers.h"
#include "many_queues.h"
#include "tap.h"

#define KIB		1024ull
#define MIB		(1ull << 20)
#define MANY		40u
/* amdkfd's limit for a process on these GPUs. */
#define QUEUES_MOST	127u
#define CGROUPS		"/tmp/cgroups"
#define CGROUP		CGROUPS "/cost"

KFD_FIXTURE(cost)

/* The number behind @key in the file at @path, or -1. */
static long long number_in(const char *path, const char *key)
{
	const size_t length = strlen(key);
	long long value = -1;
	char line[256];
	FILE *f = fopen(path, "r");

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, key, length)) {
			value = strtoll(line + length + strspn(line + length, ": \t"), NULL, 10);
			break;
		}
	if (f)
		fclose(f);
	return value;
}

/* No kernel thread is made for a queue. */
TEST_F(cost, no_thread_for_a_queue)
{
	const unsigned int before = kworkers("R").count;
	struct queues queues;

	ASSERT_NE(0, before);
	ASSERT_EQ(0, queues_prepare(&self->dev, &queues, 4096, KFD_ALLOC_GTT));
	while (queues.count < MANY)
		ASSERT_EQ(0, queues_add(&self->dev, &queues));
	EXPECT_EQ(before, kworkers("R").count);
	EXPECT_EQ(0, queues_remove(&self->dev, &queues));
}

/* The driver's memory for a ring is counted as the process's. */
TEST_F(cost, rings_are_counted)
{
	const long long counted = kfd_fdinfo(self->dev.drm_fd, "drm-total-gtt", " KiB");
	long long grown, taken;
	struct queues queues;

	if (!kfd_is_rkfd())
		SKIP(return, "amdkfd has no such rings");
	ASSERT_EQ(0, queues_prepare(&self->dev, &queues, 8 * MIB, KFD_ALLOC_GTT));
	taken = number_in("/proc/meminfo", "MemAvailable");
	while (queues.count < 16)
		ASSERT_EQ(0, queues_add(&self->dev, &queues));
	taken -= number_in("/proc/meminfo", "MemAvailable");
	grown = kfd_fdinfo(self->dev.drm_fd, "drm-total-gtt", " KiB") - counted;
	/* In KiB. Other activity of the machine adds little. */
	EXPECT_LT(taken, grown + 16 * 1024);
	EXPECT_EQ(0, queues_remove(&self->dev, &queues));
	EXPECT_EQ(counted + 8 * 1024 + 4, kfd_fdinfo(self->dev.drm_fd, "drm-total-gtt", " KiB"));
}

/* The number of queues of a process is limited, whatever their kind. */
TEST_F(cost, queues_of_a_process)
{
	struct queues queues;
	int err = 0;

	ASSERT_EQ(0, queues_prepare(&self->dev, &queues, 4096, KFD_ALLOC_GTT));
	while (queues.count < 1024 && !err)
		err = queues_add(&self->dev, &queues);
	if (kfd_is_rkfd())
		EXPECT_EQ(ENOSPC, err);
	EXPECT_GE(QUEUES_MOST, queues.count);
	EXPECT_EQ(0, kfd_destroy_queue(self->dev.fd, queues.ids[--queues.count]));
	EXPECT_EQ(0, queues_add(&self->dev, &queues));
	EXPECT_EQ(0, queues_remove(&self->dev, &queues));
}

static int drop_capability(unsigned int capability)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data))
		return errno;
	data[capability / 32].effective &= ~(1u << capability % 32);
	return syscall(SYS_capset, &header, data) ? errno : 0;
}

static int limit_locked(uint64_t bytes)
{
	struct rlimit limit = { .rlim_cur = bytes, .rlim_max = RLIM_INFINITY };

	return setrlimit(RLIMIT_MEMLOCK, &limit) ? errno : 0;
}

/*
 * A process's own memory that a queue needs pinned does not count as locked: amdkfd pins none, and
 * limits for containers are small.
 */
TEST_F(cost, pins_whatever_the_limit)
{
	static const uint64_t limits[] = { 0, 64 * KIB, 3 * MIB, 8 * MIB };
	const long long pinned = number_in("/proc/self/status", "VmPin");
	struct queues queues;
	unsigned int i;

	ASSERT_EQ(0, drop_capability(CAP_IPC_LOCK));
	ASSERT_EQ(0, queues_prepare(&self->dev, &queues, MIB, KFD_ALLOC_USERPTR));
	for (i = 0; i < 4 * ARRAY_SIZE(limits); i++) {
		ASSERT_EQ(0, limit_locked(limits[i / 4]));
		ASSERT_EQ(0, queues_add(&self->dev, &queues));
		/* It leaves the limit to others: RDMA counts here. */
		EXPECT_EQ(pinned, number_in("/proc/self/status", "VmPin"));
	}
	EXPECT_EQ(0, queues_remove(&self->dev, &queues));
}

/* In a child: whether a queue can be made whose memory has to be pinned. */
static int pins_a_page(void)
{
	struct queues queues;
	struct kfd_dev dev;
	int err = kfd_open(&dev);

	if (!err)
		err = queues_prepare(&dev, &queues, KFD_PAGE, KFD_ALLOC_USERPTR);
	return err ? err : queues_add(&dev, &queues);
}

/* The driver has a share for such memory, of which one process leaves a part to others. */
TEST_F(cost, pins_are_a_share)
{
	const uint64_t share = (uint64_t)number_in("/proc/meminfo", "MemTotal") * KIB / 16;
	size_t size = KFD_PAGE;
	struct queues queues;
	int status, err = 0;
	pid_t pid;

	if (!kfd_is_rkfd())
		SKIP(return, "amdkfd pins nothing");
	while (2 * size <= share / 64)
		size *= 2;
	ASSERT_EQ(0, queues_prepare(&self->dev, &queues, size, KFD_ALLOC_USERPTR));
	while (queues.count < QUEUES_MOST && !err)
		err = queues_add(&self->dev, &queues);
	EXPECT_EQ(ENOMEM, err);
	EXPECT_LE(share / 4, queues.count * size);
	EXPECT_GE(share / 4 * 3, queues.count * size);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(pins_a_page());
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, queues_remove(&self->dev, &queues));
	ASSERT_EQ(0, queues_add(&self->dev, &queues));
	EXPECT_EQ(0, queues_remove(&self->dev, &queues));
}

/* A queue's pointers do not keep a large buffer in VRAM. */
TEST_F(cost, pinned_vram)
{
	struct kfd_ioctl_create_queue_args args;
	struct kfd_bo ring, large, small;

	if (!kfd_is_rkfd())
		SKIP(return, "amdkfd pins nothing");
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &ring, 4096, KFD_ALLOC_GTT));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &large, 512 * MIB, KFD_ALLOC_VRAM));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &small, KFD_PAGE, KFD_ALLOC_VRAM));
	kfd_queue_args(&self->dev, &ring, &large, &args);
	EXPECT_EQ(ENOMEM, kfd_ioctl(self->dev.fd, AMDKFD_IOC_CREATE_QUEUE, &args));
	kfd_queue_args(&self->dev, &ring, &small, &args);
	ASSERT_EQ(0, kfd_ioctl(self->dev.fd, AMDKFD_IOC_CREATE_QUEUE, &args));
	EXPECT_EQ(0, kfd_destroy_queue(self->dev.fd, args.queue_id));
}

#define PLACES	20000u

/* Whether a process beside this one can map memory. */
static int another(void)
{
	struct kfd_bo bo;
	struct kfd_dev dev;
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(kfd_open(&dev) || kfd_bo_create(&dev, &bo, 4 * KFD_PAGE, KFD_ALLOC_GTT));
	return waitpid(pid, &status, 0) == pid ? status : -1;
}

/* One page at many places: endless page tables for almost no memory. */
TEST_F(cost, page_tables_are_shared)
{
	struct drm_amdgpu_gem_va place = {
		.operation = AMDGPU_VA_OP_MAP,
		.flags = AMDGPU_VM_PAGE_READABLE,
		.va_address = 1ull << 44,
		.map_size = KFD_PAGE,
	};
	unsigned int count;
	int err = 0;

	if (!kfd_is_rkfd())
		SKIP(return, "amdgpu evicts page tables");
	ASSERT_EQ(0, drm_gem_create(self->dev.drm_fd, KFD_PAGE, AMDGPU_GEM_DOMAIN_GTT, 0,
				    &place.handle));
	for (count = 0; count < PLACES && !err; count++) {
		err = kfd_ioctl(self->dev.drm_fd, DRM_IOCTL_AMDGPU_GEM_VA, &place);
		place.va_address += 2 * MIB;
	}
	EXPECT_EQ(ENOMEM, err);
	EXPECT_LT(1000, count);
	EXPECT_EQ(0, another());
}

/* True if the kernel charges memory to cgroups; mounts their file system. */
static bool has_memory_cgroups(void)
{
	char controllers[256] = "";
	FILE *f;

	mkdir(CGROUPS, 0755);
	if (access(CGROUPS "/cgroup.procs", F_OK) && mount("none", CGROUPS, "cgroup2", 0, NULL))
		return false;
	f = fopen(CGROUPS "/cgroup.controllers", "r");
	if (!f)
		return false;
	if (!fgets(controllers, sizeof(controllers), f))
		controllers[0] = 0;
	fclose(f);
	return strstr(controllers, "memory");
}

/* Moves the process into a cgroup of its own. */
static int enter_cgroup(void)
{
	char pid[32];
	int err;

	err = kfd_write_file(CGROUPS "/cgroup.subtree_control", "+memory");
	if (err)
		return err;
	if (mkdir(CGROUP, 0755) && errno != EEXIST)
		return errno;
	snprintf(pid, sizeof(pid), "%d", getpid());
	return kfd_write_file(CGROUP "/cgroup.procs", pid);
}

static long long cgroup_kib(void)
{
	return number_in(CGROUP "/memory.stat", "kernel ") / 1024;
}

/* The driver's allocations for a process are charged to its cgroup. */
TEST_F(cost, memory_is_the_cgroups)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args;
	uint64_t handles[512];
	struct queues queues;
	char text[512] = "";
	long long before;
	unsigned int i;

	if (!kfd_is_rkfd())
		SKIP(return, "amdkfd tells no cgroup");
	if (!has_memory_cgroups())
		SKIP(return, "a kernel without CONFIG_MEMCG");
	ASSERT_EQ(0, enter_cgroup());
	before = cgroup_kib();
	ASSERT_LE(0, before);
	ASSERT_EQ(0, queues_prepare(&self->dev, &queues, 8 * MIB, KFD_ALLOC_GTT));
	EXPECT_LE(before + 8 * 1024, cgroup_kib());
	ASSERT_EQ(0, queues_add(&self->dev, &queues));
	/* The driver's copy of the ring, which a followed queue does not have. */
	if (debugfs_read("parameters", text, sizeof(text)) &&
	    debugfs_number(text, "sdma_sched") != 2)
		EXPECT_LE(before + (8 + 16) * 1024, cgroup_kib());
	EXPECT_EQ(0, queues_remove(&self->dev, &queues));
	/* Buffers without memory of their own. */
	before = cgroup_kib();
	for (i = 0; i < 512; i++) {
		args = (struct kfd_ioctl_alloc_memory_of_gpu_args) {
			.va_addr = (1ull << 40) + i * 2 * MIB,
			.size = KFD_DOORBELL_SLICE,
			.gpu_id = self->dev.gpu_id,
			.flags = KFD_ALLOC_RW | KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL,
		};
		ASSERT_EQ(0, kfd_alloc(self->dev.fd, &args));
		handles[i] = args.handle;
	}
	EXPECT_LE(before + 256, cgroup_kib());
	for (i = 0; i < 512; i++)
		EXPECT_EQ(0, kfd_free(self->dev.fd, handles[i]));
}

#define WAITERS		32u

struct waiter {
	pthread_t thread;
	const struct kfd_dev *dev;
	struct kfd_event_data *data;
	int err;
};

static void *wait_for_many(void *arg)
{
	struct waiter *waiter = arg;

	waiter->err = event_wait_many(waiter->dev, waiter->data, EVENT_SLOTS, false, KFD_HANG_MS);
	return NULL;
}

/* The list of a thread's events is charged to its cgroup for the duration of the wait. */
TEST_F(cost, waits_are_the_cgroups)
{
	const long long expected = WAITERS * EVENT_SLOTS * 64ull / KIB;
	struct waiter waiters[WAITERS];
	struct kfd_event_data *data;
	long long before;
	unsigned int i;
	uint32_t id;

	if (!kfd_is_rkfd())
		SKIP(return, "amdkfd tells no cgroup");
	if (!has_memory_cgroups())
		SKIP(return, "a kernel without CONFIG_MEMCG");
	ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_SIGNAL, false, &id));
	data = calloc(EVENT_SLOTS, sizeof(*data));
	ASSERT_NE(NULL, data);
	for (i = 0; i < EVENT_SLOTS; i++)
		data[i].event_id = id;
	ASSERT_EQ(0, enter_cgroup());
	before = cgroup_kib();
	for (i = 0; i < WAITERS; i++) {
		waiters[i] = (struct waiter){ .dev = &self->dev, .data = data };
		ASSERT_EQ(0, pthread_create(&waiters[i].thread, NULL, wait_for_many, &waiters[i]));
	}
	for (i = 0; i < 500 && cgroup_kib() < before + expected; i++)
		usleep(10000);
	EXPECT_LE(before + expected, cgroup_kib());
	EXPECT_EQ(0, event_set(&self->dev, id));
	for (i = 0; i < WAITERS; i++) {
		pthread_join(waiters[i].thread, NULL);
		EXPECT_EQ(0, waiters[i].err);
	}
	free(data);
}

/*
 * Uses up the process's share of system memory, with memory that is never touched, until less
 * than a page is left.
 */
static int take_system_memory(const struct kfd_dev *dev)
{
	const size_t all = 1ull << 36;
	char *at = mmap(NULL, all, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t handle;
	size_t size;
	int err = 0;

	if (at == MAP_FAILED)
		return errno;
	for (size = all / 2; size >= KFD_PAGE; size /= 2) {
		err = kfd_alloc_at(dev, KFD_ALLOC_USERPTR, (uintptr_t)at, size, &handle);
		if (!err)
			at += size;
		else if (err != ENOMEM)
			return err;
	}
	return 0;
}

/* In a thread: asks for more than there can be, again and again, until *@arg. */
static void *ask_too_much(void *arg)
{
	const struct kfd_dev *dev = ((void **)arg)[0];
	const volatile bool *over = ((void **)arg)[1];
	uint32_t handle;

	while (!*over)
		drm_gem_create(dev->drm_fd, (1ull << 63) - KFD_PAGE, AMDGPU_GEM_DOMAIN_GTT, 0,
			       &handle);
	return NULL;
}

/* A request that is refused does not count, neither for nor against the process. */
TEST_F(cost, a_refused_request_does_not_count)
{
	const uint64_t end = kfd_now_ms() + 3000;
	volatile bool over = false;
	void *args[] = { &self->dev, (void *)&over };
	unsigned int got = 0;
	pthread_t thread;
	uint32_t handle;

	if (!kfd_is_rkfd())
		SKIP(return, "amdkfd has no such share");
	/* What processes that have ended give back comes first. */
	sleep(1);
	ASSERT_EQ(0, take_system_memory(&self->dev));
	ASSERT_EQ(0, pthread_create(&thread, NULL, ask_too_much, args));
	while (kfd_now_ms() < end)
		got += !drm_gem_create(self->dev.drm_fd, KFD_PAGE, AMDGPU_GEM_DOMAIN_GTT, 0,
				       &handle);
	over = true;
	pthread_join(thread, NULL);
	EXPECT_EQ(0, got);
}

/* Each import is charged, through either file, though the memory belongs to another process. */
TEST_F(cost, imports_are_paid)
{
	uint64_t handles[1024];
	unsigned int count = 0, round;
	uint32_t handle;
	int memfd, fd, err;

	if (!kfd_is_rkfd())
		SKIP(return, "amdkfd counts the memory alone");
	err = udmabuf_create(KFD_PAGE, &memfd, &fd);
	if (err == ENOENT)
		SKIP(return, "no /dev/udmabuf");
	ASSERT_EQ(0, err);
	ASSERT_EQ(0, drm_fd_to_handle(self->dev.drm_fd, fd, &handle));
	EXPECT_EQ(0, drm_gem_close(self->dev.drm_fd, handle));
	for (round = 0; round < 20; round++) {
		ASSERT_EQ(0, take_system_memory(&self->dev));
		for (err = 0; count < ARRAY_SIZE(handles) && !err; count += !err)
			err = kfd_import(&self->dev, fd, 0, &handles[count]);
		ASSERT_EQ(ENOMEM, err);
		err = drm_fd_to_handle(self->dev.drm_fd, fd, &handle);
		if (err)
			break;
		/* A process that has ended gave something back in between. */
		ASSERT_EQ(0, drm_gem_close(self->dev.drm_fd, handle));
		usleep(100000);
	}
	EXPECT_EQ(ENOMEM, err);
	/* The share of a closed handle can be used again. */
	if (count) {
		EXPECT_EQ(0, kfd_free(self->dev.fd, handles[0]));
		EXPECT_EQ(0, drm_fd_to_handle(self->dev.drm_fd, fd, &handle));
	}
	close(fd);
	close(memfd);
}

/* Ranges of shared virtual memory. */
#define RANGES_MOST	(1u << 18)

static uint8_t *reserve(size_t pages, int prot)
{
	void *mem = mmap(NULL, pages * KFD_PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			 -1, 0);

	return mem == MAP_FAILED ? NULL : mem;
}

/* Sets a different attribute for every second page; returns the number of successful calls. */
static unsigned int cut(int fd, uint8_t *mem, size_t pages, int *err)
{
	unsigned int count = 0;
	size_t page;

	for (page = 1; page < pages; page += 2, count++) {
		*err = svm_set(fd, mem + page * KFD_PAGE, KFD_PAGE, SVM_GRANULARITY, 3);
		if (*err)
			break;
	}
	return count;
}

/* Maps other memory in place of a page. */
static int place_anew(uint8_t *page)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;

	return mmap(page, KFD_PAGE, PROT_NONE, flags, -1, 0) == page ? 0 : errno;
}

/* The granularity of @pages at @start. */
static uint32_t granularity(int fd, uint8_t *start, size_t pages)
{
	uint32_t value = 0;

	return svm_get(fd, start, pages * KFD_PAGE, SVM_GRANULARITY, &value) ? UINT32_MAX : value;
}

/* The number of ranges with attributes is limited, until some are unmapped. */
TEST_F(cost, svm_ranges_of_a_process)
{
	const size_t pages = RANGES_MOST + 1024;
	uint8_t *mem = reserve(pages, PROT_NONE);
	const int fd = self->dev.fd;
	unsigned int made;
	uint8_t *rest;
	int err = 0;

	if (!kfd_is_rkfd())
		SKIP(return, "amdkfd has no limit");
	if (quick())
		SKIP(return, "130,000 calls are too many for a kernel that checks everything");
	ASSERT_NE(NULL, mem);
	ASSERT_EQ(0, svm_set(fd, mem, pages * KFD_PAGE, SVM_GRANULARITY, 2));
	made = cut(fd, mem, pages, &err);
	EXPECT_EQ(ENOMEM, err);
	EXPECT_EQ((RANGES_MOST - 1) / 2, made);
	/* A call that makes no new ranges succeeds. */
	EXPECT_EQ(0, svm_set(fd, mem + KFD_PAGE, KFD_PAGE, SVM_GRANULARITY, 4));
	EXPECT_EQ(0, svm_set(fd, mem, pages * KFD_PAGE, SVM_SET_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_RO));
	EXPECT_EQ(ENOMEM, svm_set(fd, mem + (pages - 2) * KFD_PAGE, KFD_PAGE, SVM_GRANULARITY, 1));
	/*
	 * Other memory in the middle of a range does not add one either: the rest stays one
	 * range.
	 */
	rest = mem + 2 * made * KFD_PAGE;
	EXPECT_EQ(0, place_anew(rest + 100 * KFD_PAGE));
	EXPECT_EQ(0, place_anew(rest + 105 * KFD_PAGE));
	EXPECT_EQ(2, granularity(fd, rest, 100));
	EXPECT_EQ(SVM_DEFAULT_GRANULARITY, granularity(fd, rest + 101 * KFD_PAGE, 4));
	EXPECT_EQ(2, granularity(fd, rest + 106 * KFD_PAGE, 100));
	ASSERT_EQ(0, munmap(mem, 16 * KFD_PAGE));
	EXPECT_EQ(0, svm_set(fd, mem + (pages - 2) * KFD_PAGE, KFD_PAGE, SVM_GRANULARITY, 1));
	/* All of them at once. */
	ASSERT_EQ(0, munmap(mem, pages * KFD_PAGE));
	mem = reserve(4, PROT_NONE);
	EXPECT_EQ(0, svm_set(fd, mem, 4 * KFD_PAGE, SVM_GRANULARITY, 2));
	EXPECT_EQ(2, cut(fd, mem, 4, &err));
	EXPECT_EQ(0, munmap(mem, 4 * KFD_PAGE));
}

/*
 * The attributes of shared virtual memory are charged to the cgroup, and so are the GPUs'
 * mappings of it, at no more than their price.
 */
TEST_F(cost, svm_is_the_cgroups)
{
	const size_t pages = 8192;
	const int fd = self->dev.fd;
	uint8_t *mem = reserve(pages, PROT_READ | PROT_WRITE);
	long long before, ranges, chunks;
	int err = 0;

	if (!kfd_is_rkfd())
		SKIP(return, "amdkfd tells no cgroup");
	if (!has_memory_cgroups())
		SKIP(return, "a kernel without CONFIG_MEMCG");
	ASSERT_NE(NULL, mem);
	memset(mem, 1, pages * KFD_PAGE);
	ASSERT_EQ(0, enter_cgroup());
	before = cgroup_kib();
	ASSERT_EQ(0, svm_set(fd, mem, pages * KFD_PAGE, SVM_GRANULARITY, 2));
	EXPECT_EQ(pages / 2, cut(fd, mem, pages, &err));
	ranges = cgroup_kib() - before;
	EXPECT_LE(pages * 96 / KIB, ranges);
	EXPECT_GE(pages * 128 / KIB, ranges);
	/* A chunk for each. */
	ASSERT_EQ(0, svm_set(fd, mem, pages * KFD_PAGE, SVM_ACCESS, self->dev.gpu_id));
	chunks = cgroup_kib() - before - ranges;
	printf("# %lld bytes a range, %lld a chunk\n", ranges * 1024 / (long long)pages,
	       chunks * 1024 / (long long)pages);
	EXPECT_LE(pages * 1, chunks);
	EXPECT_GE(pages * 3, chunks);
	EXPECT_EQ(0, munmap(mem, pages * KFD_PAGE));
}

KFD_HARNESS_MAIN
