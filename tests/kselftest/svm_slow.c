// SPDX-License-Identifier: GPL-2.0
/*
 * Shared virtual memory, and memory for answers, whose pages come from a program that takes its
 * time: the waiting process can be killed, and no other process waits.
 */
#include <drm/amdgpu_drm.h>
#include <drm/drm.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "kfd_dmabuf.h"
#include "kfd_svm.h"
#include "packets.h"
#include "slow_file.h"
#include "user_faults.h"
#include "userptr_fixture.h"

#define FD		(self->dev.fd)
#define GPU		(self->dev.gpu_id)
#define DRIVER		"/sys/bus/pci/drivers/rkfd"
/* Timeout for events that must come: later means a hang. */
#define COMES_MS	20000u

/* The fixture is userptr's; here all of its memory is a file's, or handled by the test. */

/* Work of another thread, as it may not return. */
struct act {
	pthread_t thread;
	int (*call)(const struct kfd_dev *dev, void *mem);
	const struct kfd_dev *dev;
	void *mem;
	volatile bool go, done;
	volatile int err;
};

static void *act_run(void *arg)
{
	struct act *act = arg;

	while (!act->go)
		usleep(1000);
	act->err = act->call(act->dev, act->mem);
	act->done = true;
	return NULL;
}

static int share(const struct kfd_dev *dev, void *mem)
{
	return svm_set(dev->fd, mem, SIZE, SVM_ACCESS, dev->gpu_id);
}

static int unbind(const struct kfd_dev *dev, void *mem)
{
	(void)dev;
	return kfd_write_file(DRIVER "/unbind", mem);
}

/* Made before anything waits: the process may get no more threads then. */
static int act_prepare(struct act *act, int (*call)(const struct kfd_dev *, void *),
		       const struct kfd_dev *dev, void *mem)
{
	*act = (struct act){ .call = call, .dev = dev, .mem = mem };
	return pthread_create(&act->thread, NULL, act_run, act);
}

static bool act_done(const struct act *act, unsigned int ms)
{
	for (; !act->done && ms; ms--)
		usleep(1000);
	return act->done;
}

#define MAP_FILE_AT_MEM(file)							\
	do {									\
		ASSERT_EQ(0, slow_open(file, SIZE, 0x5a, FUSE_ASYNC_READ));	\
		ASSERT_EQ(self->mem, mmap(self->mem, SIZE, PROT_READ | PROT_WRITE, \
					  MAP_PRIVATE | MAP_FIXED, (file)->fd, 0)); \
	} while (0)

/* The pages come late, and the GPU has them then. */
TEST_F(userptr, file_comes_late)
{
	struct slow_file file;
	struct act set;

	MAP_FILE_AT_MEM(&file);
	ASSERT_EQ(0, act_prepare(&set, share, &self->dev, self->mem));
	file.hold = true;
	set.go = true;
	EXPECT_TRUE(slow_await(&file, COMES_MS));
	file.hold = false;
	EXPECT_TRUE(act_done(&set, COMES_MS));
	pthread_join(set.thread, NULL);
	EXPECT_EQ(0, set.err);
	EXPECT_GPU_SEES(0x5a);
	EXPECT_GPU_WRITES(0x5b);
	slow_close(&file);
}

/* A process that waits for pages in @call can be killed. */
static void killed_while_waiting(struct __test_metadata *_metadata,
				 FIXTURE_DATA(userptr) *self,
				 int (*call)(const struct kfd_dev *, void *))
{
	struct slow_file file;
	int status, ms;
	pid_t pid;

	MAP_FILE_AT_MEM(&file);
	file.hold = true;
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		struct kfd_dev dev;

		close(file.fuse);
		if (kfd_open(&dev))
			_exit(2);
		_exit(call(&dev, self->mem) != 0);
	}
	EXPECT_TRUE(slow_await(&file, COMES_MS));
	kill(pid, SIGKILL);
	for (ms = COMES_MS; ms && waitpid(pid, &status, WNOHANG) != pid; ms--)
		usleep(1000);
	EXPECT_LT(0, ms);
	EXPECT_LT(0, file.held);
	slow_close(&file);
	if (!ms)
		waitpid(pid, &status, 0);
	EXPECT_TRUE(WIFSIGNALED(status));
}

TEST_F(userptr, killed_while_file_waits)
{
	killed_while_waiting(_metadata, self, share);
}

/* The GPU goes while a call waits. */
TEST_F(userptr, unbound_while_file_waits)
{
	struct slow_file file;
	struct act set, gone;
	char name[64];

	SKIP_ON_AMDKFD("an unbind waits for the processes");
	ASSERT_TRUE(kfd_find_device(name, sizeof(name)));
	MAP_FILE_AT_MEM(&file);
	ASSERT_EQ(0, act_prepare(&set, share, &self->dev, self->mem));
	ASSERT_EQ(0, act_prepare(&gone, unbind, &self->dev, name));
	file.hold = true;
	set.go = true;
	EXPECT_TRUE(slow_await(&file, COMES_MS));
	gone.go = true;
	EXPECT_TRUE(act_done(&gone, COMES_MS));
	EXPECT_FALSE(set.done);
	file.hold = false;
	EXPECT_TRUE(act_done(&set, COMES_MS));
	pthread_join(gone.thread, NULL);
	pthread_join(set.thread, NULL);
	EXPECT_EQ(0, gone.err);
	EXPECT_EQ(ENODEV, set.err);
	EXPECT_EQ(0, kfd_write_file(DRIVER "/bind", name));
	slow_close(&file);
}

/*
 * The GPU loses the pages, and they do not come again soon: the queues wait, and nothing else
 * does.
 */
TEST_F(userptr, file_changes)
{
	struct slow_file file;

	ASSERT_EQ(0, slow_open(&file, SIZE, 0x5a, FUSE_ASYNC_READ));
	ASSERT_EQ(self->mem, mmap(self->mem, SIZE, PROT_READ, MAP_SHARED | MAP_FIXED, file.fd, 0));
	ASSERT_EQ(0, share(&self->dev, self->mem));
	EXPECT_GPU_SEES(0x5a);
	file.value = 0x5c;
	file.hold = true;
	file.invalidate = true;
	EXPECT_TRUE(slow_await(&file, COMES_MS));
	file.hold = false;
	EXPECT_GPU_SEES(0x5c);
	slow_close(&file);
}

/* The file system reads as @flags say. */
static void unbind_while_file_changes(struct __test_metadata *_metadata,
				      FIXTURE_DATA(userptr) *self, uint32_t flags)
{
	struct slow_file file;
	struct act gone;
	char name[64];

	ASSERT_TRUE(kfd_find_device(name, sizeof(name)));
	ASSERT_EQ(0, slow_open(&file, SIZE, 0x5a, flags));
	ASSERT_EQ(self->mem, mmap(self->mem, SIZE, PROT_READ, MAP_SHARED | MAP_FIXED, file.fd, 0));
	ASSERT_EQ(0, share(&self->dev, self->mem));
	EXPECT_GPU_SEES(0x5a);
	ASSERT_EQ(0, act_prepare(&gone, unbind, &self->dev, name));
	file.hold = true;
	file.invalidate = true;
	EXPECT_TRUE(slow_await(&file, COMES_MS));
	gone.go = true;
	EXPECT_TRUE(act_done(&gone, COMES_MS));
	file.hold = false;
	pthread_join(gone.thread, NULL);
	EXPECT_EQ(0, gone.err);
	EXPECT_EQ(0, kfd_write_file(DRIVER "/bind", name));
	slow_close(&file);
}

TEST_F(userptr, unbound_while_file_changes)
{
	SKIP_ON_AMDKFD("an unbind waits for the processes");
	unbind_while_file_changes(_metadata, self, FUSE_ASYNC_READ);
}

/* The kernel waits for such a file system wherever it looks for a page. */
TEST_F(userptr, unbound_while_synchronous_file_changes)
{
	SKIP_ON_AMDKFD("an unbind waits for the processes");
	unbind_while_file_changes(_metadata, self, 0);
}

/* A page beyond the file's end is not waited for. */
TEST_F(userptr, file_is_short)
{
	struct slow_file file;

	ASSERT_EQ(0, slow_open(&file, SIZE / 2, 0x5a, FUSE_ASYNC_READ));
	ASSERT_EQ(self->mem, mmap(self->mem, SIZE, PROT_READ, MAP_SHARED | MAP_FIXED, file.fd, 0));
	ASSERT_EQ(0, share(&self->dev, self->mem));
	memset(self->vram.cpu, 0xee, SIZE);
	EXPECT_EQ(0, kfd_queue_copy(&self->queue, (uintptr_t)self->vram.cpu, (uintptr_t)self->mem,
				    SIZE / 2, COMES_MS));
	EXPECT_TRUE(all(self->vram.cpu, 0x5a, SIZE / 2));
	slow_close(&file);
}

static int ask_info(const struct kfd_dev *dev, void *mem)
{
	struct drm_amdgpu_info request = {
		.query = AMDGPU_INFO_DEV_INFO,
		.return_pointer = (uintptr_t)mem,
		.return_size = sizeof(struct drm_amdgpu_info_device),
	};

	return kfd_ioctl(dev->drm_fd, DRM_IOCTL_AMDGPU_INFO, &request);
}

static int ask_how_made(const struct kfd_dev *dev, void *mem)
{
	struct drm_amdgpu_gem_op op = {
		.op = AMDGPU_GEM_OP_GET_GEM_CREATE_INFO, .value = (uintptr_t)mem,
	};
	int err = drm_gem_create(dev->drm_fd, KFD_PAGE, AMDGPU_GEM_DOMAIN_GTT, 0, &op.handle);

	return err ? err : kfd_ioctl(dev->drm_fd, DRM_IOCTL_AMDGPU_GEM_OP, &op);
}

/* The GPU goes while the answer of @call cannot be given. */
static void unbind_while_answer_waits(struct __test_metadata *_metadata,
				      FIXTURE_DATA(userptr) *self,
				      int (*call)(const struct kfd_dev *, void *))
{
	struct act asks, gone;
	struct slow_file file;
	char name[64];

	ASSERT_TRUE(kfd_find_device(name, sizeof(name)));
	MAP_FILE_AT_MEM(&file);
	ASSERT_EQ(0, act_prepare(&asks, call, &self->dev, self->mem));
	ASSERT_EQ(0, act_prepare(&gone, unbind, &self->dev, name));
	file.hold = true;
	asks.go = true;
	EXPECT_TRUE(slow_await(&file, COMES_MS));
	EXPECT_FALSE(asks.done);
	gone.go = true;
	EXPECT_TRUE(act_done(&gone, COMES_MS));
	EXPECT_FALSE(asks.done);
	file.hold = false;
	EXPECT_TRUE(act_done(&asks, COMES_MS));
	pthread_join(gone.thread, NULL);
	pthread_join(asks.thread, NULL);
	EXPECT_EQ(0, gone.err);
	EXPECT_EQ(0, asks.err);
	/* The file does not supply these bytes. */
	EXPECT_FALSE(all(self->mem, 0x5a, sizeof(struct drm_amdgpu_gem_create_in)));
	EXPECT_EQ(0, kfd_write_file(DRIVER "/bind", name));
	slow_close(&file);
}

TEST_F(userptr, unbound_while_info_waits)
{
	SKIP_ON_AMDKFD("an unbind waits for the processes");
	unbind_while_answer_waits(_metadata, self, ask_info);
}

TEST_F(userptr, unbound_while_create_info_waits)
{
	SKIP_ON_AMDKFD("an unbind waits for the processes");
	unbind_while_answer_waits(_metadata, self, ask_how_made);
}

TEST_F(userptr, killed_while_info_waits)
{
	killed_while_waiting(_metadata, self, ask_info);
}

TEST_F(userptr, killed_while_create_info_waits)
{
	killed_while_waiting(_metadata, self, ask_how_made);
}

static int make_queue(const struct kfd_dev *dev, void *args)
{
	return ioctl(dev->fd, AMDKFD_IOC_CREATE_QUEUE, args) ? errno : 0;
}

static int make_queue_of_ring(const struct kfd_dev *dev, void *mem)
{
	struct kfd_ioctl_create_queue_args args;
	struct kfd_queue queue;
	uint64_t handle;
	int err = kfd_queue_create(dev, &queue, KFD_PAGE);

	if (!err)
		err = kfd_userptr_create(dev, mem, SIZE, KFD_ALLOC_USERPTR, &handle);
	if (err)
		return err;
	kfd_queue_args(dev, &queue.ring, &queue.pointers, &args);
	args.ring_base_address = (uintptr_t)mem;
	args.ring_size = SIZE;
	return make_queue(dev, &args);
}

TEST_F(userptr, killed_while_ring_waits)
{
	SKIP_ON_AMDKFD("rings are not pinned");
	killed_while_waiting(_metadata, self, make_queue_of_ring);
}

/* A queue whose ring has not come yet. */
TEST_F(userptr, unbound_while_ring_waits)
{
	struct kfd_ioctl_create_queue_args args;
	struct act create, gone;
	struct slow_file file;
	char name[64];

	SKIP_ON_AMDKFD("an unbind waits for the processes");
	ASSERT_TRUE(kfd_find_device(name, sizeof(name)));
	MAP_FILE_AT_MEM(&file);
	kfd_queue_args(&self->dev, &self->queue.ring, &self->queue.pointers, &args);
	args.ring_base_address = (uintptr_t)self->mem;
	args.ring_size = SIZE;
	ASSERT_EQ(0, act_prepare(&create, make_queue, &self->dev, &args));
	ASSERT_EQ(0, act_prepare(&gone, unbind, &self->dev, name));
	file.hold = true;
	ASSERT_EQ(0, kfd_userptr_create(&self->dev, self->mem, SIZE, KFD_ALLOC_USERPTR,
					&self->handle));
	create.go = true;
	EXPECT_TRUE(slow_await(&file, COMES_MS));
	usleep(100000);
	EXPECT_FALSE(create.done);
	gone.go = true;
	EXPECT_TRUE(act_done(&gone, COMES_MS));
	EXPECT_FALSE(create.done);
	file.hold = false;
	EXPECT_TRUE(act_done(&create, COMES_MS));
	pthread_join(gone.thread, NULL);
	pthread_join(create.thread, NULL);
	EXPECT_EQ(0, gone.err);
	EXPECT_EQ(ENODEV, create.err);
	EXPECT_EQ(0, kfd_write_file(DRIVER "/bind", name));
	slow_close(&file);
}

/* Makes the process's own mmap() wait: it replaces a page of a file that is not written back. */
struct waiting_mmap {
	struct slow_file file;
	struct act act;
	uint8_t *dirty;
};

static int replace(const struct kfd_dev *dev, void *mem)
{
	(void)dev;
	return anonymous(mem, KFD_PAGE, PROT_READ) == mem ? 0 : errno;
}

static int waiting_mmap_prepare(struct waiting_mmap *w)
{
	int err = slow_open(&w->file, KFD_PAGE, 0x5a, FUSE_ASYNC_READ);

	if (err)
		return err;
	w->dirty = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, w->file.fd, 0);
	if (w->dirty == MAP_FAILED)
		return errno;
	*w->dirty = 1;
	return act_prepare(&w->act, replace, NULL, w->dirty);
}

/* From here on no other thread of the process changes or inspects its mappings. */
static bool waiting_mmap_begin(struct waiting_mmap *w)
{
	w->file.hold = true;
	w->act.go = true;
	return slow_await(&w->file, COMES_MS);
}

static bool waiting_mmap_end(struct waiting_mmap *w)
{
	w->file.hold = false;
	if (!act_done(&w->act, COMES_MS))
		return false;
	pthread_join(w->act.thread, NULL);
	slow_close(&w->file);
	return true;
}

static int ask(const struct kfd_dev *dev, void *mem)
{
	uint32_t value = 0;

	return svm_get(dev->fd, mem, SIZE, SVM_GRANULARITY, &value);
}

static int allocate_it(const struct kfd_dev *dev, void *mem)
{
	uint64_t handle;

	return kfd_userptr_create(dev, mem, SIZE, KFD_ALLOC_USERPTR, &handle);
}

/* Calls that need the lock of the process's memory wait for it, and nothing waits for them. */
TEST_F(userptr, unbound_while_mmap_waits)
{
	struct act asks, allocates, gone;
	struct waiting_mmap waits;
	char name[64];
	void *mem;

	SKIP_ON_AMDKFD("an unbind waits for the processes");
	ASSERT_TRUE(kfd_find_device(name, sizeof(name)));
	ASSERT_EQ(self->mem, anonymous(self->mem, SIZE, PROT_READ | PROT_WRITE));
	mem = kfd_reserve(SIZE, HUGE);
	ASSERT_EQ(mem, anonymous(mem, SIZE, PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, share(&self->dev, self->mem));
	ASSERT_EQ(0, waiting_mmap_prepare(&waits));
	ASSERT_EQ(0, act_prepare(&asks, ask, &self->dev, self->mem));
	ASSERT_EQ(0, act_prepare(&allocates, allocate_it, &self->dev, mem));
	ASSERT_EQ(0, act_prepare(&gone, unbind, &self->dev, name));
	EXPECT_TRUE(waiting_mmap_begin(&waits));
	asks.go = true;
	allocates.go = true;
	usleep(100000);
	EXPECT_FALSE(asks.done);
	EXPECT_FALSE(allocates.done);
	gone.go = true;
	EXPECT_TRUE(act_done(&gone, COMES_MS));
	EXPECT_FALSE(waits.act.done);
	EXPECT_TRUE(waiting_mmap_end(&waits));
	EXPECT_TRUE(act_done(&asks, COMES_MS));
	EXPECT_TRUE(act_done(&allocates, COMES_MS));
	pthread_join(gone.thread, NULL);
	EXPECT_EQ(0, gone.err);
	EXPECT_EQ(0, asks.err);
	EXPECT_EQ(ENODEV, allocates.err);
	EXPECT_EQ(0, kfd_write_file(DRIVER "/bind", name));
}

/* The search for pages that were taken away waits, too. */
TEST_F(userptr, unbound_while_mmap_waits_and_pages_go)
{
	int memfd = memfd_create("svm_slow", MFD_CLOEXEC);
	struct waiting_mmap waits;
	struct act gone;
	char name[64];

	SKIP_ON_AMDKFD("an unbind waits for the processes");
	ASSERT_TRUE(kfd_find_device(name, sizeof(name)));
	ASSERT_EQ(0, ftruncate(memfd, SIZE));
	ASSERT_EQ(self->mem, mmap(self->mem, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
				  memfd, 0));
	memset(self->mem, 0x5a, SIZE);
	ASSERT_EQ(0, share(&self->dev, self->mem));
	EXPECT_GPU_SEES(0x5a);
	ASSERT_EQ(0, waiting_mmap_prepare(&waits));
	ASSERT_EQ(0, act_prepare(&gone, unbind, &self->dev, name));
	EXPECT_TRUE(waiting_mmap_begin(&waits));
	EXPECT_EQ(0, fallocate(memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, SIZE));
	usleep(100000);
	gone.go = true;
	EXPECT_TRUE(act_done(&gone, COMES_MS));
	EXPECT_FALSE(waits.act.done);
	EXPECT_TRUE(waiting_mmap_end(&waits));
	pthread_join(gone.thread, NULL);
	EXPECT_EQ(0, gone.err);
	EXPECT_EQ(0, kfd_write_file(DRIVER "/bind", name));
	close(memfd);
}

/*
 * Pages of a buffer that is gone, which never come, do not keep those of another buffer from
 * coming.
 */
TEST_F(userptr, others_wait_for_one_that_is_gone)
{
	uint8_t *never = kfd_reserve(SIZE, HUGE);
	struct pollfd ready = { .events = POLLIN };
	struct slow_file file;

	SKIP_ON_AMDKFD("what HMM cannot have is an error");
	ASSERT_EQ(never, anonymous(never, SIZE, PROT_READ | PROT_WRITE));
	ready.fd = handle_faults(never, SIZE);
	ASSERT_LE(0, ready.fd);
	ASSERT_EQ(0, kfd_userptr_create(&self->dev, never, SIZE, KFD_ALLOC_USERPTR, &self->handle));
	/* A thread waits for it. */
	EXPECT_EQ(1, poll(&ready, 1, COMES_MS));
	EXPECT_EQ(0, kfd_unmap(FD, self->handle, GPU));
	EXPECT_EQ(0, kfd_free(FD, self->handle));
	MAP_FILE_AT_MEM(&file);
	ASSERT_EQ(0, kfd_userptr_create(&self->dev, self->mem, SIZE, KFD_ALLOC_USERPTR,
					&self->handle));
	memset(self->vram.cpu, 0xee, SIZE);
	EXPECT_EQ(0, copy(&self->queue, self->vram.cpu, self->mem, COMES_MS));
	EXPECT_TRUE(all(self->vram.cpu, 0x5a, SIZE));
	slow_close(&file);
	close(ready.fd);
}

/* Pages whose faults the process handles come from it. */
TEST_F(userptr, faults_in_user_space)
{
	static uint8_t page[KFD_PAGE];
	unsigned int brought = 0;
	struct act set;
	int uffd;

	SKIP_ON_AMDKFD("what HMM cannot have is an error");
	ASSERT_EQ(self->mem, anonymous(self->mem, SIZE, PROT_READ | PROT_WRITE));
	uffd = handle_faults(self->mem, SIZE);
	ASSERT_LE(0, uffd);
	ASSERT_EQ(0, act_prepare(&set, share, &self->dev, self->mem));
	memset(page, 0x6a, sizeof(page));
	set.go = true;
	while (!set.done) {
		struct pollfd ready = { .fd = uffd, .events = POLLIN };
		struct uffd_msg msg;
		struct uffdio_copy copy = { .src = (uintptr_t)page, .len = KFD_PAGE };

		if (poll(&ready, 1, 10) != 1 || read(uffd, &msg, sizeof(msg)) != sizeof(msg))
			continue;
		EXPECT_FALSE(set.done);
		copy.dst = msg.arg.pagefault.address & ~(uint64_t)(KFD_PAGE - 1);
		EXPECT_EQ(0, ioctl(uffd, UFFDIO_COPY, &copy));
		brought++;
	}
	pthread_join(set.thread, NULL);
	EXPECT_EQ(0, set.err);
	EXPECT_EQ(SIZE / KFD_PAGE, brought);
	EXPECT_GPU_SEES(0x6a);
	EXPECT_GPU_WRITES(0x6b);
	close(uffd);
}

KFD_HARNESS_MAIN
