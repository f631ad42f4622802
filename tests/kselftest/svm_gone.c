// SPDX-License-Identifier: GPL-2.0
/*
 * Shared virtual memory of processes that survive the removal of their GPU, and the parts of it
 * that outlive the processes.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "kfd_harness.h"
#include "kfd_svm.h"
#include "kfd_userptr.h"
#include "objects.h"
#include "slow_file.h"

#define DRIVER		"/sys/bus/pci/drivers/rkfd"
#define SIZE		(64u * KFD_PAGE)
/* Timeout for events that must come: later means a hang. */
#define COMES_MS	20000u

FIXTURE(svm_gone)
{
	struct kfd_dev dev;
	char name[64];
};

FIXTURE_SETUP(svm_gone)
{
	SKIP_ON_AMDKFD("an unbind waits for the processes");
	ASSERT_TRUE(kfd_find_device(self->name, sizeof(self->name)));
	ASSERT_EQ(0, kfd_open(&self->dev));
}

FIXTURE_TEARDOWN(svm_gone)
{
	kfd_close(&self->dev);
}

static int share(const struct kfd_dev *dev, void *mem, size_t size)
{
	return svm_set(dev->fd, mem, size, SVM_ACCESS, dev->gpu_id);
}

/* Opens the GPU that has come back. */
static int open_again(struct kfd_dev *dev)
{
	struct kfd_dev found;
	int err = kfd_find_gpu(&found);

	if (err)
		return err;
	close(dev->drm_fd);
	dev->node = found.node;
	dev->gpu_id = found.gpu_id;
	dev->drm_minor = found.drm_minor;
	err = kfd_open_render(dev, &dev->drm_fd);
	return err ? err : kfd_acquire_vm(dev->fd, dev->drm_fd, dev->gpu_id);
}

/*
 * In its long form, more often than there are places for GPUs. Attributes for a GPU that is
 * gone do not count any more.
 */
TEST_F_TIMEOUT(svm_gone, again_and_again, 3000)
{
	const char *said = getenv("RKFD_TIMES");
	const unsigned int times = said ? (unsigned int)strtoul(said, NULL, 10) : 2;
	uint8_t *mem = kfd_reserve(2 * SIZE, 2u << 20);
	unsigned int i;

	ASSERT_EQ(mem, anonymous(mem, 2 * SIZE, PROT_READ | PROT_WRITE));
	for (i = 0; i < times; i++) {
		ASSERT_EQ(0, share(&self->dev, mem, SIZE)) {
			TH_LOG("after %u times", i);
		}
		ASSERT_EQ(SVM_ACCESS, svm_access(self->dev.fd, mem, SIZE, self->dev.gpu_id));
		ASSERT_EQ(0, kfd_write_file(DRIVER "/unbind", self->name));
		ASSERT_EQ(0, kfd_write_file(DRIVER "/bind", self->name));
		ASSERT_EQ(0, open_again(&self->dev));
		ASSERT_EQ(SVM_NO_ACCESS, svm_access(self->dev.fd, mem, SIZE, self->dev.gpu_id));
		if (i % 10 == 9)
			TH_LOG("%u times", i + 1);
	}
}

/* A long call, made by a thread. */
struct call {
	const struct kfd_dev *dev;
	void *mem;
	size_t size;
	volatile int err;
};

static void *call_share(void *arg)
{
	struct call *call = arg;

	call->err = share(call->dev, call->mem, call->size);
	return NULL;
}

static size_t resident(void)
{
	unsigned long total = 0, pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (!file || fscanf(file, "%lu %lu", &total, &pages) != 2)
		pages = 0;
	if (file)
		fclose(file);
	return pages * (size_t)KFD_PAGE;
}

#define MUCH		(512u << 20)
#define BEGUN		(16u << 20)

/*
 * Unbinds the GPU while @call_thread has half a gigabyte of the process's memory found:
 * the unbind does not wait until all of it was found.
 */
static void unbind_in_the_middle(struct __test_metadata *_metadata, FIXTURE_DATA(svm_gone) *self,
				 void *(*call_thread)(void *))
{
	struct call call = { .dev = &self->dev, .size = MUCH, .err = -1 };
	const size_t before = resident();
	const uint64_t end = kfd_now_ms() + COMES_MS;
	pthread_t thread;

	call.mem = kfd_reserve(MUCH, 2u << 20);
	ASSERT_EQ(call.mem, anonymous(call.mem, MUCH, PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, madvise(call.mem, MUCH, MADV_NOHUGEPAGE));
	ASSERT_EQ(0, pthread_create(&thread, NULL, call_thread, &call));
	while (resident() < before + BEGUN && kfd_now_ms() < end)
		usleep(1000);
	ASSERT_EQ(0, kfd_write_file(DRIVER "/unbind", self->name));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(ENODEV, call.err);
	EXPECT_GT(before + MUCH, resident());
	munmap(call.mem, MUCH);
	ASSERT_EQ(0, kfd_write_file(DRIVER "/bind", self->name));
	EXPECT_EQ(0, open_again(&self->dev));
}

TEST_F(svm_gone, in_the_middle)
{
	unbind_in_the_middle(_metadata, self, call_share);
}

/*
 * Memory in the VRAM of a GPU that goes stays the process's, and that of a child whose parent
 * has ended.
 */
TEST_F(svm_gone, in_vram)
{
	const size_t words = 3 * (2u << 20) / 4;
	uint32_t *mem = kfd_reserve(words * 4, 2u << 20);
	int go[2], status;
	char byte = 1;
	size_t i;
	pid_t pid;

	ASSERT_NE(NULL, mem);
	ASSERT_EQ(mem, anonymous(mem, words * 4, PROT_READ | PROT_WRITE));
	for (i = 0; i < words; i++)
		mem[i] = (uint32_t)i;
	ASSERT_EQ(0, svm_set(self->dev.fd, mem, words * 4, SVM_PREFETCH, self->dev.gpu_id));
	ASSERT_EQ((long long)words * 4, objects_count("shared_vram_bytes"));
	ASSERT_EQ(0, pipe(go));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(go[1]);
		if (read(go[0], &byte, 1) != 1)
			_exit(1);
		for (i = 0; i < words; i++)
			if (mem[i] != (uint32_t)i)
				_exit(2);
		_exit(0);
	}
	close(go[0]);
	ASSERT_EQ(0, kfd_write_file(DRIVER "/unbind", self->name));
	for (i = 0; i < words; i++)
		ASSERT_EQ((uint32_t)i, mem[i]);
	EXPECT_EQ(1, write(go[1], &byte, 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	ASSERT_EQ(0, kfd_write_file(DRIVER "/bind", self->name));
	ASSERT_EQ(0, open_again(&self->dev));
	ASSERT_EQ(0, share(&self->dev, mem, words * 4));
	EXPECT_EQ(0, svm_set(self->dev.fd, mem, words * 4, SVM_PREFETCH, self->dev.gpu_id));
	EXPECT_EQ((long long)words * 4, objects_count("shared_vram_bytes"));
	for (i = 0; i < words; i++)
		ASSERT_EQ((uint32_t)i, mem[i]);
}

/* A process frees the last pages in the VRAM of a GPU that goes at the same moment. */
TEST_F(svm_gone, freed_while_it_goes)
{
	const size_t size = 3 * (2u << 20);
	uint8_t *mem = kfd_reserve(size, 2u << 20);
	int go[2], status;
	char byte = 1;
	pid_t pid;

	ASSERT_NE(NULL, mem);
	ASSERT_EQ(mem, anonymous(mem, size, PROT_READ | PROT_WRITE));
	memset(mem, 1, size);
	ASSERT_EQ(0, svm_set(self->dev.fd, mem, size, SVM_PREFETCH, self->dev.gpu_id));
	ASSERT_EQ((long long)size, objects_count("shared_vram_bytes"));
	ASSERT_EQ(0, pipe(go));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(read(go[0], &byte, 1) != 1 || munmap(mem, size));
	ASSERT_EQ(0, munmap(mem, size));
	EXPECT_EQ(1, write(go[1], &byte, 1));
	EXPECT_EQ(0, kfd_write_file(DRIVER "/unbind", self->name));
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, kfd_write_file(DRIVER "/bind", self->name));
	EXPECT_EQ(0, open_again(&self->dev));
}

/* The PCI device behind a render node. */
static bool device_of(const struct kfd_dev *dev, char *name, size_t size)
{
	char link[64], path[256];
	ssize_t length;

	snprintf(link, sizeof(link), "/sys/class/drm/renderD%u/device", dev->drm_minor);
	length = readlink(link, path, sizeof(path) - 1);
	if (length <= 0)
		return false;
	path[length] = '\0';
	snprintf(name, size, "%s", strrchr(path, '/') + 1);
	return true;
}

/* Shares memory with two GPUs in one call. */
struct both {
	const struct kfd_dev *dev, *other;
	void *mem;
	volatile int err;
};

static void *call_share_both(void *arg)
{
	struct both *both = arg;
	struct svm_attribute attributes[] = {
		{ SVM_ACCESS, both->dev->gpu_id }, { SVM_ACCESS, both->other->gpu_id },
	};

	both->err = svm(both->dev->fd, SVM_SET, both->mem, MUCH / 4, attributes, 2);
	return NULL;
}

/* When one of them goes, the other has all of the memory by the return of the call. */
TEST_F(svm_gone, in_the_middle_with_another)
{
	struct kfd_dev other;
	struct both both = { .dev = &self->dev, .other = &other, .err = -1 };
	const size_t before = resident(), size = MUCH / 4;
	const uint64_t end = kfd_now_ms() + COMES_MS;
	struct kfd_queue queue;
	pthread_t thread;
	struct kfd_bo bo;
	uint8_t *last;
	int err;

	err = kfd_open_next(&self->dev, &other);
	if (err == ENODEV)
		SKIP(return, "one GPU only");
	ASSERT_EQ(0, err);
	ASSERT_TRUE(device_of(&self->dev, self->name, sizeof(self->name)));
	ASSERT_EQ(0, kfd_queue_create(&other, &queue, 64u << 10));
	ASSERT_EQ(0, kfd_bo_create(&other, &bo, SIZE, KFD_ALLOC_GTT));
	both.mem = kfd_reserve(size, 2u << 20);
	ASSERT_EQ(both.mem, anonymous(both.mem, size, PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, madvise(both.mem, size, MADV_NOHUGEPAGE));
	last = (uint8_t *)both.mem + size - SIZE;
	memset(last, 0x3d, SIZE);
	ASSERT_EQ(0, pthread_create(&thread, NULL, call_share_both, &both));
	while (resident() < before + BEGUN && kfd_now_ms() < end)
		usleep(1000);
	ASSERT_EQ(0, kfd_write_file(DRIVER "/unbind", self->name));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(ENODEV, both.err);
	EXPECT_EQ(SVM_ACCESS, svm_access(other.fd, both.mem, size, other.gpu_id));
	memset(bo.cpu, 0xee, SIZE);
	EXPECT_EQ(0, kfd_queue_copy(&queue, (uintptr_t)bo.cpu, (uintptr_t)last, SIZE, COMES_MS));
	EXPECT_TRUE(all(bo.cpu, 0x3d, SIZE));
	close(other.drm_fd);
	ASSERT_EQ(0, kfd_write_file(DRIVER "/bind", self->name));
}

static void *call_map(void *arg)
{
	struct call *call = arg;
	uint64_t handle;

	call->err = kfd_userptr_create(call->dev, call->mem, call->size, KFD_ALLOC_USERPTR,
				       &handle);
	return NULL;
}

/* The same of one large buffer of the process's memory, while a call maps it. */
TEST_F(svm_gone, in_the_middle_of_a_buffer)
{
	unbind_in_the_middle(_metadata, self, call_map);
}

/* The same while pages of a buffer, which were freed, are found again. */
TEST_F(svm_gone, while_a_buffer_returns)
{
	uint8_t *mem = kfd_reserve(MUCH, 2u << 20);
	uint64_t handle, end;
	size_t before;

	ASSERT_EQ(mem, anonymous(mem, MUCH, PROT_READ | PROT_WRITE));
	/* The first time they are found fast. */
	madvise(mem, MUCH, MADV_HUGEPAGE);
	ASSERT_EQ(0, kfd_userptr_create(&self->dev, mem, MUCH, KFD_ALLOC_USERPTR, &handle));
	ASSERT_EQ(0, madvise(mem, MUCH, MADV_NOHUGEPAGE));
	before = resident() - MUCH;
	ASSERT_EQ(0, madvise(mem, MUCH, MADV_DONTNEED));
	end = kfd_now_ms() + COMES_MS;
	while (resident() < before + BEGUN && kfd_now_ms() < end)
		usleep(1000);
	ASSERT_EQ(0, kfd_write_file(DRIVER "/unbind", self->name));
	EXPECT_GT(before + MUCH, resident());
	munmap(mem, MUCH);
	ASSERT_EQ(0, kfd_write_file(DRIVER "/bind", self->name));
	EXPECT_EQ(0, open_again(&self->dev));
}

static void *unload(void *arg)
{
	volatile int *status = arg;

	*status = system("/rkfd/clients/unload.sh");
	return NULL;
}

/*
 * A process that is ending still waits for a page that does not come: the module can be
 * unloaded.
 */
TEST_F(svm_gone, module_while_file_is_away)
{
	const char *module = getenv("RKFD_MODULE");
	volatile int unloaded = -1;
	char load[256];
	struct slow_file file;
	int status, ready[2];
	pthread_t thread;
	unsigned int ms;
	uint8_t *mem;
	pid_t pid;
	char byte;

	if (!module || access(module, R_OK) || access("/rkfd/clients/unload.sh", X_OK))
		SKIP(return, "no module to load again");
	ASSERT_EQ(0, slow_open(&file, SIZE, 0x5a, FUSE_ASYNC_READ));
	mem = kfd_reserve(SIZE, 2u << 20);
	ASSERT_EQ(mem, mmap(mem, SIZE, PROT_READ, MAP_SHARED | MAP_FIXED, file.fd, 0));
	ASSERT_EQ(0, pipe(ready));
	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0) {
		struct kfd_dev dev;

		close(file.fuse);
		byte = kfd_open(&dev) || share(&dev, mem, SIZE);
		if (write(ready[1], &byte, 1) == 1)
			pause();
		_exit(1);
	}
	ASSERT_EQ(1, read(ready[0], &byte, 1));
	ASSERT_EQ(0, byte);
	file.hold = true;
	file.invalidate = true;
	EXPECT_TRUE(slow_await(&file, COMES_MS));
	kill(pid, SIGKILL);
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	kfd_close(&self->dev);
	EXPECT_LT(0, file.held);
	ASSERT_EQ(0, pthread_create(&thread, NULL, unload, (void *)&unloaded));
	for (ms = COMES_MS; unloaded == -1 && ms; ms--)
		usleep(1000);
	EXPECT_EQ(0, unloaded);
	EXPECT_LT(0, file.held);
	slow_close(&file);
	pthread_join(thread, NULL);
	snprintf(load, sizeof(load), "insmod %s", module);
	EXPECT_EQ(0, system(load));
	self->dev.fd = self->dev.drm_fd = -1;
}

KFD_HARNESS_MAIN
