// SPDX-License-Identifier: GPL-2.0
/*
 * Descriptors in other processes: in children, after exec, sent to strangers, shared by
 * threads, used by 32-bit calls.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <drm/amdgpu_drm.h>
#include <drm/drm.h>

#include "kfd_harness.h"
#include "kfd_dmabuf.h"
#include "objects.h"

#define RING		(64u * 1024)
#define TIMEOUT_MS	KFD_HANG_MS
#define THREADS		4

static int get_version(int fd)
{
	struct kfd_ioctl_get_version_args args;

	return kfd_ioctl(fd, AMDKFD_IOC_GET_VERSION, &args);
}

FIXTURE(inherit)
{
	char base[OBJECTS_MAX];
	struct kfd_dev dev;
	struct kfd_bo bo;
};

FIXTURE_SETUP(inherit)
{
	ASSERT_TRUE(objects_base(self->base, 0));
	ASSERT_EQ(0, kfd_open(&self->dev));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &self->bo, KFD_PAGE, KFD_ALLOC_GTT));
	*(uint32_t *)self->bo.cpu = 0x12345678;
}

FIXTURE_TEARDOWN(inherit)
{
	if (self->dev.fd >= 0)
		EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &self->bo));
	kfd_close(&self->dev);
	EXPECT_TRUE(objects_return_to(self->base, KFD_HANG_MS));
}

static int exit_status(pid_t pid)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

/* Every call of a child on an inherited descriptor is refused, whatever it is. */
static int child_calls(const struct kfd_dev *dev, const struct kfd_bo *bo)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args alloc = {
		.va_addr = 0x100000000, .size = KFD_PAGE, .gpu_id = dev->gpu_id,
		.flags = KFD_ALLOC_GTT,
	};
	const int refused = kfd_expected(answer_file_of_other_process);
	int fd;
	void *p;

	if (get_version(dev->fd) != refused ||
	    kfd_alloc(dev->fd, &alloc) != refused ||
	    kfd_unmap(dev->fd, bo->handle, dev->gpu_id) != refused ||
	    kfd_free(dev->fd, bo->handle) != refused ||
	    kfd_export(dev, bo->handle, 0, &fd) != refused ||
	    kfd_acquire_vm(dev->fd, dev->drm_fd, dev->gpu_id) != refused)
		return 1;
	if (kfd_mmap(dev->fd, KFD_DOORBELL_SLICE,
		     KFD_OFFSET_DOORBELL | KFD_OFFSET_GPU(dev->gpu_id), &p) != refused ||
	    kfd_mmap(dev->fd, KFD_PAGE, KFD_OFFSET_MMIO | KFD_OFFSET_GPU(dev->gpu_id),
		     &p) != refused)
		return 2;
	/* Closing it concerns the child alone. */
	close(dev->fd);
	return 0;
}

TEST_F(inherit, child_is_refused)
{
	pid_t pid = fork();

	ASSERT_LE(0, pid);
	if (pid == 0)
		_exit(child_calls(&self->dev, &self->bo));
	EXPECT_EQ(0, exit_status(pid));
	EXPECT_EQ(0, get_version(self->dev.fd));
	EXPECT_EQ(0x12345678, *(uint32_t *)self->bo.cpu);
}

/* Results of a child that shares its parent's memory, as after vfork. */
static struct {
	const struct kfd_dev *dev;
	int version, mapping, opened;
} shared_child;

static int call_in_shared_memory(void *arg)
{
	void *p;
	int fd;

	(void)arg;
	shared_child.version = get_version(shared_child.dev->fd);
	shared_child.mapping = kfd_mmap(shared_child.dev->fd, KFD_DOORBELL_SLICE,
					KFD_OFFSET_DOORBELL |
					KFD_OFFSET_GPU(shared_child.dev->gpu_id), &p);
	/* Opened anew, it still belongs to the parent's address space, which has the process. */
	fd = open(KFD_PATH, O_RDWR | O_CLOEXEC);
	shared_child.opened = fd < 0 ? errno : get_version(fd);
	close(fd);
	return 0;
}

TEST_F(inherit, child_in_the_same_memory)
{
	static char stack[64 * 1024] __attribute__((aligned(16)));
	const int refused = kfd_expected(answer_file_of_other_process);
	pid_t pid;

	shared_child.dev = &self->dev;
	pid = clone(call_in_shared_memory, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD,
		    NULL);
	ASSERT_LT(0, pid);
	EXPECT_EQ(0, exit_status(pid));
	EXPECT_EQ(refused, shared_child.version);
	EXPECT_EQ(refused, shared_child.mapping);
	EXPECT_EQ(refused, shared_child.opened);
	/* The end of the child is not the parent's. */
	EXPECT_EQ(0, get_version(self->dev.fd));
	EXPECT_EQ(0, kfd_unmap(self->dev.fd, self->bo.handle, self->dev.gpu_id));
	EXPECT_EQ(0, kfd_map(self->dev.fd, self->bo.handle, self->dev.gpu_id));
}

/* The parent ends first: the child's copies of its descriptors keep none of its objects. */
TEST_F(inherit, child_outlives_its_parent)
{
	char base[OBJECTS_MAX], byte = 0;
	int result[2], go[2];
	pid_t pid;

	SKIP_ON_AMDKFD("a VM stays its first owner's");
	ASSERT_EQ(0, pipe(result));
	ASSERT_EQ(0, pipe(go));
	ASSERT_TRUE(objects_base(base, 1));
	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0) {
		struct kfd_dev dev;
		struct kfd_bo bo;
		int err;

		if (kfd_open(&dev) || kfd_bo_create(&dev, &bo, KFD_PAGE, KFD_ALLOC_VRAM))
			_exit(1);
		pid = fork();
		if (pid != 0)
			_exit(pid < 0);
		/* The grandchild, with all descriptors of its parent. */
		if (read(go[0], &byte, 1) != 1)
			_exit(1);
		err = objects_count("processes") <= 1 ? 0 : 1;
		if (get_version(dev.fd) != kfd_expected(answer_file_of_other_process))
			err = 2;
		/* The address space is free for another owner, and empty. */
		close(dev.fd);
		dev.fd = open(KFD_PATH, O_RDWR | O_CLOEXEC);
		if (!err)
			err = kfd_acquire_vm(dev.fd, dev.drm_fd, dev.gpu_id);
		if (!err && kfd_is_rkfd())
			err = kfd_bo_create(&dev, &bo, KFD_PAGE, KFD_ALLOC_VRAM);
		_exit(write(result[1], &err, sizeof(err)) != sizeof(err));
	}
	EXPECT_EQ(0, exit_status(pid));
	ASSERT_EQ(1, write(go[1], &byte, 1));
	ASSERT_EQ(sizeof(pid), read(result[0], &pid, sizeof(pid)));
	EXPECT_EQ(0, pid);
	EXPECT_TRUE(objects_return_to(base, KFD_HANG_MS));
}

/* The part of main() that runs in the program started by exec: see after_exec. */
static int after_exec(char **argv)
{
	int kfd = atoi(argv[0]), closed = atoi(argv[1]), err;
	struct kfd_dev dev;

	if (fcntl(closed, F_GETFD) != -1)
		return 1;
	if (get_version(kfd) != kfd_expected(answer_file_of_other_process))
		return 2;
	/* The process from before exec is gone: only the parent's is left. */
	if (kfd_is_rkfd() && objects_count("processes") > 1)
		return 3;
	err = kfd_open(&dev);
	if (err)
		return err;
	kfd_close(&dev);
	return 0;
}

TEST_F(inherit, exec)
{
	pid_t pid;

	SKIP_ON_AMDKFD("a descriptor that exec keeps goes on working");
	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0) {
		char kfd[16], closed[16];
		struct kfd_dev dev;
		struct kfd_bo bo;
		int kept;

		if (kfd_open(&dev) || kfd_bo_create(&dev, &bo, KFD_PAGE, KFD_ALLOC_VRAM))
			_exit(100);
		kept = open(KFD_PATH, O_RDWR);
		snprintf(kfd, sizeof(kfd), "%d", kept);
		snprintf(closed, sizeof(closed), "%d", dev.fd);
		execl("/proc/self/exe", "inherit", "after-exec", kfd, closed, NULL);
		_exit(101);
	}
	EXPECT_EQ(0, exit_status(pid));
}

/* A stranger receives the descriptors, and the sender ends. */
static int stranger(int socket)
{
	struct kfd_dev dev = { .fd = -1, .drm_fd = -1 };
	struct kfd_dev own;
	char byte = 0;
	int err;

	if (receive_fd(socket, &dev.fd) || receive_fd(socket, &dev.drm_fd) || kfd_find_gpu(&own))
		return 100;
	own.fd = open(KFD_PATH, O_RDWR | O_CLOEXEC);
	if (get_version(dev.fd) != kfd_expected(answer_file_of_other_process))
		return 1;
	if (kfd_acquire_vm(own.fd, dev.drm_fd, own.gpu_id) !=
	    kfd_expected(answer_vm_of_other_process))
		return 2;
	if (write(socket, &byte, 1) != 1 || read(socket, &byte, 1) != 1)
		return 101;
	/* The sender has ended: its files live here, its process does not. */
	err = get_version(dev.fd);
	if (err != kfd_expected(answer_file_of_other_process))
		return 3;
	close(dev.fd);
	return 0;
}

TEST_F(inherit, sent_to_a_stranger)
{
	int sockets[2];
	char byte = 0;
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0) {
		/* Of the parent's objects, keep only the socket. */
		kfd_close(&self->dev);
		_exit(stranger(sockets[1]));
	}
	close(sockets[1]);
	ASSERT_EQ(0, send_fd(sockets[0], self->dev.fd));
	ASSERT_EQ(0, send_fd(sockets[0], self->dev.drm_fd));
	ASSERT_EQ(1, read(sockets[0], &byte, 1));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &self->bo));
	kfd_close(&self->dev);
	self->dev.fd = -1;
	self->dev.drm_fd = -1;
	ASSERT_EQ(1, write(sockets[0], &byte, 1));
	EXPECT_EQ(0, exit_status(pid));
}

/* The process lasts until its last file is closed. */
TEST_F(inherit, several_opens)
{
	int second = open(KFD_PATH, O_RDWR | O_CLOEXEC);
	int third = dup(self->dev.fd);

	ASSERT_LE(0, second);
	ASSERT_LE(0, third);
	close(self->dev.fd);
	self->dev.fd = second;
	EXPECT_EQ(0, kfd_unmap(second, self->bo.handle, self->dev.gpu_id));
	EXPECT_EQ(0, kfd_map(third, self->bo.handle, self->dev.gpu_id));
	EXPECT_EQ(0, kfd_acquire_vm(third, self->dev.drm_fd, self->dev.gpu_id));
	close(third);
	EXPECT_EQ(0, kfd_unmap(second, self->bo.handle, self->dev.gpu_id));
	EXPECT_EQ(0, kfd_map(second, self->bo.handle, self->dev.gpu_id));
}

static void *work(void *arg)
{
	const struct kfd_dev *dev = arg;
	struct kfd_queue queue;
	struct kfd_bo bo;
	long err = 0;
	int round;

	for (round = 0; round < 4 && !err; round++) {
		err = kfd_queue_create(dev, &queue, RING);
		if (err)
			break;
		err = kfd_bo_create(dev, &bo, 16 * KFD_PAGE, round % 2 ? KFD_ALLOC_VRAM :
				    KFD_ALLOC_GTT);
		if (err)
			break;
		err = kfd_queue_fill(&queue, (uintptr_t)bo.cpu, 0xfeed0000u + (uint32_t)round,
				     16 * KFD_PAGE, TIMEOUT_MS);
		if (!err && ((uint32_t *)bo.cpu)[KFD_PAGE] != 0xfeed0000u + (uint32_t)round)
			err = EIO;
		if (!err)
			err = kfd_queue_destroy(dev, &queue);
		if (!err)
			err = kfd_bo_destroy(dev, &bo);
	}
	return (void *)err;
}

/* Threads are one process, even with a file each. */
TEST_F(inherit, threads)
{
	pthread_t threads[THREADS];
	struct kfd_dev devs[THREADS];
	void *err;
	int i;

	for (i = 0; i < THREADS; i++) {
		devs[i] = self->dev;
		if (i % 2)
			devs[i].fd = open(KFD_PATH, O_RDWR | O_CLOEXEC);
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, work, &devs[i]));
	}
	for (i = 0; i < THREADS; i++) {
		ASSERT_EQ(0, pthread_join(threads[i], &err));
		EXPECT_EQ(0, (long)err);
		if (i % 2)
			close(devs[i].fd);
	}
}

#ifdef __x86_64__
static sigjmp_buf no_int80;

static void on_signal(int sig)
{
	siglongjmp(no_int80, sig);
}

/* A system call of the 32-bit kind; its pointers must be below 4 GiB. */
static long int80(long nr, long a, long b, long c)
{
	long ret;

	asm volatile("int $0x80" : "=a"(ret) : "a"(nr), "b"(a), "c"(b), "d"(c)
		     : "memory", "r8", "r9", "r10", "r11");
	return (int)ret;
}

#define I386_OPEN	5
#define I386_GETPID	20
#define I386_IOCTL	54

TEST_F(inherit, calls_of_32_bits)
{
	union {
		struct kfd_ioctl_get_version_args version;
		struct kfd_ioctl_get_process_apertures_new_args apertures;
		struct kfd_ioctl_free_memory_of_gpu_args free;
		struct drm_prime_handle prime;
		char path[16];
	} *low;
	struct drm_amdgpu_info *info;
	uint32_t *working;

	low = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT,
		   -1, 0);
	ASSERT_NE(MAP_FAILED, low);
	signal(SIGSEGV, on_signal);
	if (sigsetjmp(no_int80, 1))
		SKIP(return, "the kernel has no 32-bit system calls");
	ASSERT_LT(0, int80(I386_GETPID, 0, 0, 0));
	signal(SIGSEGV, SIG_DFL);

	/* A 32-bit process may not open the device, but an open file answers. */
	strcpy(low->path, KFD_PATH);
	EXPECT_EQ(-EPERM, int80(I386_OPEN, (long)low->path, O_RDWR, 0));
	memset(low, 0, sizeof(*low));
	EXPECT_EQ(0, int80(I386_IOCTL, self->dev.fd, AMDKFD_IOC_GET_VERSION, (long)&low->version));
	EXPECT_EQ(1, low->version.major_version);
	memset(low, 0, sizeof(*low));
	EXPECT_EQ(0, int80(I386_IOCTL, self->dev.fd, (long)AMDKFD_IOC_GET_PROCESS_APERTURES_NEW,
			   (long)&low->apertures));
	EXPECT_LE(1, low->apertures.num_of_nodes);
	low->free.handle = self->bo.handle + 1000;
	EXPECT_EQ(-EINVAL, int80(I386_IOCTL, self->dev.fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU,
				 (long)&low->free));
	EXPECT_EQ(-EFAULT, int80(I386_IOCTL, self->dev.fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, 8));
	EXPECT_EQ(-ENOTTY, int80(I386_IOCTL, self->dev.fd, (long)KFD_COMMAND(_IOC_READ, 0x70, 8),
				 (long)low));

	info = (void *)((char *)low + 256);
	working = (void *)((char *)low + 512);
	memset(info, 0, sizeof(*info));
	info->query = AMDGPU_INFO_ACCEL_WORKING;
	info->return_pointer = (uintptr_t)working;
	info->return_size = sizeof(*working);
	EXPECT_EQ(0, int80(I386_IOCTL, self->dev.drm_fd, DRM_IOCTL_AMDGPU_INFO, (long)info));
	EXPECT_EQ(1, *working);
	munmap(low, KFD_PAGE);
}
#endif

int main(int argc, char **argv)
{
	struct kfd_dev probe;

	if (argc == 4 && strcmp(argv[1], "after-exec") == 0)
		return after_exec(argv + 2);
	if (access(KFD_PATH, F_OK) != 0 || kfd_find_gpu(&probe))
		ksft_exit_skip("no " KFD_PATH " with a GPU\n");
	return test_harness_run(argc, argv);
}
