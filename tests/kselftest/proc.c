// SPDX-License-Identifier: GPL-2.0
/* The content of /sys/class/kfd/kfd/proc/PID, and its lifetime. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "kfd_compute.h"
#include "kfd_harness.h"
#include "packets.h"
#include "proc.h"
#include "tap.h"

#define MIB		(1ull << 20)
#define RING		(64u * 1024)
#define TIMEOUT_MS	KFD_HANG_MS

/* amdkfd's numbers of the kinds of queues. */
#define TYPE_COMPUTE	0
#define TYPE_SDMA	1
#define TYPE_SDMA_XGMI	3

KFD_FIXTURE(proc)

TEST_F(proc, of_its_own)
{
	struct kfd_dev *dev = &self->dev;
	struct kfd_bo bo[2];

	/* amdkfd has no PASID any more that belongs to the process, and shows 0. */
	EXPECT_LE(kfd_is_rkfd() ? 1 : 0, number(getpid(), "pasid"));
	EXPECT_EQ(0, entries(getpid(), "queues"));
	EXPECT_EQ(0, vram(getpid(), dev));
	EXPECT_EQ(0, evicted(getpid(), dev));
	ASSERT_EQ(0, kfd_bo_create(dev, &bo[0], 2 * MIB, KFD_ALLOC_VRAM));
	ASSERT_EQ(0, kfd_bo_create(dev, &bo[1], 3 * MIB, KFD_ALLOC_VRAM));
	EXPECT_EQ(5 * MIB, (unsigned long long)vram(getpid(), dev));
	EXPECT_EQ(0, kfd_bo_destroy(dev, &bo[0]));
	EXPECT_EQ(3 * MIB, (unsigned long long)vram(getpid(), dev));
	EXPECT_EQ(0, kfd_bo_destroy(dev, &bo[1]));
	EXPECT_EQ(0, vram(getpid(), dev));
	/* There are no files that no code would write; counters are of shared virtual memory. */
	if (kfd_is_rkfd()) {
		char name[64];

		snprintf(name, sizeof(name), "counters_%u", dev->gpu_id);
		EXPECT_FALSE(is_there(getpid(), name));
	}
}

/* A process that has opened the device is shown with each GPU, though it has acquired none. */
TEST_F(proc, that_acquires_nothing)
{
	struct kfd_dev *dev = &self->dev;
	int status;
	pid_t pid;

	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0) {
		if (open(KFD_PATH, O_RDWR | O_CLOEXEC) < 0)
			_exit(1);
		if (vram(getpid(), dev) != 0 || evicted(getpid(), dev) != 0)
			_exit(2);
		/* Both have the file of SDMA's time, or neither. */
		_exit(sdma(getpid(), dev) == (sdma(getppid(), dev) < 0 ? -1 : 0) ? 0 : 3);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_TRUE(goes(pid));
}

/* The files are readable for all, and writable for none. */
TEST_F(proc, read_only)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), PROC "/%d/pasid", getpid());
	EXPECT_EQ(0, access(path, R_OK));
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		EXPECT_GT(0, write(fd, "1", 1));
		close(fd);
	}
}

static void expect_queue(struct __test_metadata *_metadata, const struct kfd_dev *dev,
			 uint32_t id, int type, size_t size)
{
	char name[64], text[64], expected[64];

	snprintf(name, sizeof(name), "queues/%u/size", id);
	snprintf(expected, sizeof(expected), "%zu", size);
	ASSERT_EQ(0, read_text(getpid(), name, text, sizeof(text)));
	EXPECT_STREQ(expected, text);
	snprintf(name, sizeof(name), "queues/%u/type", id);
	snprintf(expected, sizeof(expected), "%d", type);
	ASSERT_EQ(0, read_text(getpid(), name, text, sizeof(text)));
	EXPECT_STREQ(expected, text);
	snprintf(name, sizeof(name), "queues/%u/gpuid", id);
	snprintf(expected, sizeof(expected), "%u", dev->gpu_id);
	ASSERT_EQ(0, read_text(getpid(), name, text, sizeof(text)));
	EXPECT_STREQ(expected, text);
}

TEST_F(proc, queues)
{
	struct kfd_dev *dev = &self->dev;
	struct kfd_queue queue[3];
	struct kfd_compute compute[2];
	struct kfd_save save;
	char name[64], text[64];
	int fd;

	ASSERT_EQ(0, kfd_queue_create(dev, &queue[0], RING));
	ASSERT_EQ(0, kfd_queue_create_on(dev, &queue[1], 2 * RING, 1));
	ASSERT_EQ(0, kfd_queue_create_on(dev, &queue[2], 4 * RING, 3));
	ASSERT_EQ(0, kfd_save_create(dev, &save));
	ASSERT_EQ(0, kfd_compute_create(dev, &compute[0], &save, false, RING));
	ASSERT_EQ(0, kfd_compute_create(dev, &compute[1], &save, true, 2 * RING));
	EXPECT_EQ(5, entries(getpid(), "queues"));
	expect_queue(_metadata, dev, queue[0].id, TYPE_SDMA, RING);
	expect_queue(_metadata, dev, queue[1].id, TYPE_SDMA, 2 * RING);
	expect_queue(_metadata, dev, queue[2].id, TYPE_SDMA_XGMI, 4 * RING);
	expect_queue(_metadata, dev, compute[0].id, TYPE_COMPUTE, RING);
	expect_queue(_metadata, dev, compute[1].id, TYPE_COMPUTE, 2 * RING);

	/* A file that is open when its queue goes reads as nothing. */
	snprintf(name, sizeof(name), PROC "/%d/queues/%u/size", getpid(), queue[1].id);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, kfd_queue_destroy(dev, &queue[1]));
	EXPECT_EQ(-1, read(fd, text, sizeof(text)));
	EXPECT_EQ(ENODEV, errno);
	close(fd);
	snprintf(name, sizeof(name), "queues/%u", queue[1].id);
	EXPECT_FALSE(is_there(getpid(), name));
	EXPECT_EQ(4, entries(getpid(), "queues"));

	/*
	 * A queue whose creation failed is not shown. amdkfd reports that as an error of its
	 * own.
	 */
	if (kfd_is_rkfd()) {
		EXPECT_NE(0, kfd_queue_create_on(dev, &queue[1], RING, 1000));
	}
	EXPECT_EQ(4, entries(getpid(), "queues"));

	EXPECT_EQ(0, kfd_compute_destroy(dev, &compute[1]));
	EXPECT_EQ(0, kfd_compute_destroy(dev, &compute[0]));
	EXPECT_EQ(0, kfd_save_destroy(dev, &save));
	EXPECT_EQ(0, kfd_queue_destroy(dev, &queue[2]));
	EXPECT_EQ(0, kfd_queue_destroy(dev, &queue[0]));
	EXPECT_EQ(0, entries(getpid(), "queues"));
}

/* UPDATE_QUEUE with a ring of another size. */
TEST_F(proc, queue_changes)
{
	struct kfd_ioctl_update_queue_args args = {
		.ring_size = RING,
		.queue_percentage = KFD_MAX_QUEUE_PERCENTAGE,
		.queue_priority = 7,
	};
	struct kfd_dev *dev = &self->dev;
	struct kfd_compute queue;
	struct kfd_save save;
	struct kfd_bo ring;

	ASSERT_EQ(0, kfd_save_create(dev, &save));
	ASSERT_EQ(0, kfd_compute_create(dev, &queue, &save, false, 2 * RING));
	ASSERT_EQ(0, kfd_bo_create(dev, &ring, RING, KFD_ALLOC_GTT));
	args.queue_id = queue.id;
	args.ring_base_address = (uintptr_t)ring.cpu;
	expect_queue(_metadata, dev, queue.id, TYPE_COMPUTE, 2 * RING);
	ASSERT_EQ(0, kfd_ioctl(dev->fd, AMDKFD_IOC_UPDATE_QUEUE, &args));
	expect_queue(_metadata, dev, queue.id, TYPE_COMPUTE, RING);
	EXPECT_EQ(0, kfd_compute_destroy(dev, &queue));
	EXPECT_EQ(0, kfd_bo_destroy(dev, &ring));
	EXPECT_EQ(0, kfd_save_destroy(dev, &save));
}

/* SDMA's time in microseconds grows by copies and by nothing else. */
TEST_F(proc, sdma_time)
{
	struct kfd_dev *dev = &self->dev;
	struct kfd_queue queue;
	struct kfd_bo bo[2];
	uint64_t began, took;
	long long time;
	int i;

	SKIP_ON_AMDKFD("the counter is the firmware's, and the model has none");
	if (sdma(getpid(), dev) < 0)
		SKIP(return, "without jobs (sdma_sched=0) it is not known");
	ASSERT_EQ(0, kfd_queue_create(dev, &queue, RING));
	ASSERT_EQ(0, kfd_bo_create(dev, &bo[0], 8 * MIB, KFD_ALLOC_VRAM));
	ASSERT_EQ(0, kfd_bo_create(dev, &bo[1], 8 * MIB, KFD_ALLOC_VRAM));
	EXPECT_EQ(0, sdma(getpid(), dev));
	began = kfd_now_ms();
	for (i = 0; i < 8; i++)
		ASSERT_EQ(0, kfd_queue_copy(&queue, (uintptr_t)bo[1].cpu, (uintptr_t)bo[0].cpu,
					    8 * MIB, TIMEOUT_MS));
	/* The last job ends a little after its fence. */
	time = comes_to_rest(sdma, dev);
	took = kfd_now_ms() - began + 1;
	EXPECT_LT(0, time);
	/* One queue's time is not longer than the time that passed. */
	EXPECT_GE(took * 1000, (uint64_t)time);
	EXPECT_EQ(0, kfd_bo_destroy(dev, &bo[0]));
	EXPECT_EQ(0, kfd_bo_destroy(dev, &bo[1]));
	/* The time of finished work remains. */
	EXPECT_EQ(0, kfd_queue_destroy(dev, &queue));
	EXPECT_EQ(time, sdma(getpid(), dev));
}

/* It grows during a packet: here one that waits for the CPU. */
TEST_F(proc, sdma_time_of_what_runs)
{
	struct kfd_dev *dev = &self->dev;
	struct packets p = { 0 };
	struct kfd_queue queue;
	uint64_t end = kfd_now_ms() + KFD_HANG_MS;
	long long first, second;
	struct kfd_bo bo;

	SKIP_ON_AMDKFD("the counter is the firmware's, and the model has none");
	if (sdma(getpid(), dev) < 0)
		SKIP(return, "without jobs (sdma_sched=0) it is not known");
	ASSERT_EQ(0, kfd_queue_create(dev, &queue, RING));
	ASSERT_EQ(0, kfd_bo_create(dev, &bo, KFD_PAGE, KFD_ALLOC_GTT));
	*(volatile uint32_t *)bo.cpu = 0;
	sdma_wait_memory(&p, (uintptr_t)bo.cpu, 1);
	kfd_queue_submit(&queue, p.dwords, p.count);
	while ((first = sdma(getpid(), dev)) == 0 && kfd_now_ms() < end)
		usleep(1000);
	usleep(300 * 1000);
	second = sdma(getpid(), dev);
	EXPECT_LT(0, first);
	EXPECT_LE(first + 300 * 1000, second);
	*(volatile uint32_t *)bo.cpu = 1;
	EXPECT_EQ(0, kfd_queue_finish(&queue, TIMEOUT_MS));
	EXPECT_EQ(0, kfd_queue_destroy(dev, &queue));
	EXPECT_EQ(0, kfd_bo_destroy(dev, &bo));
}

/* Memory that the process gives up keeps its queues evicted for a moment. */
TEST_F(proc, evicted_time)
{
	struct kfd_dev *dev = &self->dev;
	uint64_t end = kfd_now_ms() + KFD_HANG_MS;
	struct kfd_queue queue;
	long long before, last = 0;

	ASSERT_EQ(0, kfd_queue_create(dev, &queue, RING));
	do {
		struct kfd_ioctl_alloc_memory_of_gpu_args args = {
			.size = MIB,
			.gpu_id = dev->gpu_id,
			.flags = KFD_ALLOC_USERPTR,
		};
		void *memory = mmap(NULL, MIB, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

		ASSERT_NE(MAP_FAILED, memory);
		args.va_addr = args.mmap_offset = (uintptr_t)memory;
		ASSERT_EQ(0, kfd_alloc(dev->fd, &args));
		ASSERT_EQ(0, kfd_map(dev->fd, args.handle, dev->gpu_id));
		ASSERT_EQ(0, madvise(memory, MIB, MADV_DONTNEED));
		usleep(20 * 1000);
		before = last;
		last = evicted(getpid(), dev);
		EXPECT_LE(before, last);
		ASSERT_EQ(0, kfd_unmap(dev->fd, args.handle, dev->gpu_id));
		ASSERT_EQ(0, kfd_free(dev->fd, args.handle));
		munmap(memory, MIB);
	} while (last == 0 && kfd_now_ms() < end);
	EXPECT_LT(0, last);
	/* They are back: no time passes. */
	EXPECT_LE(last, comes_to_rest(evicted, dev));
	EXPECT_EQ(0, kfd_queue_destroy(dev, &queue));
}

/* A child with VRAM and a queue, which reports when it is ready, and then waits or ends. */
static pid_t child(bool waits)
{
	struct kfd_queue queue;
	struct kfd_dev dev;
	struct kfd_bo bo;
	int ready[2];
	char byte;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC))
		return -1;
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (kfd_open(&dev) || kfd_bo_create(&dev, &bo, 4 * MIB, KFD_ALLOC_VRAM) ||
		    kfd_queue_create(&dev, &queue, RING) || write(ready[1], "r", 1) != 1)
			_exit(1);
		while (waits)
			pause();
		_exit(vram(getpid(), &dev) == 4 * MIB ? 0 : 2);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		pid = -1;
	close(ready[0]);
	return pid;
}

TEST_F(proc, of_another)
{
	char path[128], text[64];
	int status, fd;
	pid_t pid;

	pid = child(true);
	ASSERT_LT(0, pid);
	EXPECT_EQ(4 * MIB, (unsigned long long)vram(pid, &self->dev));
	EXPECT_EQ(1, entries(pid, "queues"));
	EXPECT_EQ(0, entries(getpid(), "queues"));
	EXPECT_EQ(0, vram(getpid(), &self->dev));
	if (kfd_is_rkfd()) {
		EXPECT_NE(number(getpid(), "pasid"), number(pid, "pasid"));
	}
	snprintf(path, sizeof(path), PROC "/%d/vram_%u", pid, self->dev.gpu_id);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	kill(pid, SIGKILL);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(goes(pid));
	/* A file that is open reads as nothing from then on. */
	EXPECT_EQ(-1, read(fd, text, sizeof(text)));
	EXPECT_EQ(ENODEV, errno);
	close(fd);

	pid = child(false);
	ASSERT_LT(0, pid);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_TRUE(goes(pid));
	EXPECT_TRUE(is_there(getpid(), "pasid"));
}

/* The process has one folder, however often it opens the device, until the last close. */
TEST_F(proc, opened_again)
{
	struct kfd_dev *dev = &self->dev;
	uint64_t end = kfd_now_ms() + KFD_HANG_MS;
	int other = open(KFD_PATH, O_RDWR | O_CLOEXEC);

	ASSERT_LE(0, other);
	close(other);
	EXPECT_TRUE(is_there(getpid(), "pasid"));
	SKIP_ON_AMDKFD("a process is one as long as its address space");
	kfd_close(dev);
	dev->fd = dev->drm_fd = -1;
	while (is_there(getpid(), "") && kfd_now_ms() < end)
		usleep(1000);
	EXPECT_FALSE(is_there(getpid(), ""));
	ASSERT_EQ(0, kfd_open(dev));
	EXPECT_EQ(0, vram(getpid(), dev));
}

/* Other processes read all of it while it comes and goes. */
static void *look(void *arg)
{
	volatile bool *end = arg;
	char path[128];

	snprintf(path, sizeof(path), "find " PROC "/%d -type f -exec cat {} + >/dev/null 2>&1",
		 getpid());
	while (!*end)
		if (system(path) == -1)
			break;
	return NULL;
}

TEST_F(proc, while_others_look)
{
	int times = work(100, 20);
	struct kfd_dev *dev = &self->dev;
	volatile bool end = false;
	struct kfd_queue queue;
	pthread_t reader;
	int i;

	ASSERT_EQ(0, pthread_create(&reader, NULL, look, (void *)&end));
	for (i = 0; i < times; i++) {
		ASSERT_EQ(0, kfd_queue_create(dev, &queue, RING));
		ASSERT_EQ(0, kfd_queue_destroy(dev, &queue));
	}
	end = true;
	pthread_join(reader, NULL);
	EXPECT_EQ(0, entries(getpid(), "queues"));
}

static int pauses(void *arg)
{
	(void)arg;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (pause())
		;
	return 0;
}

/*
 * Two address spaces of one PID: another process still holds the one from before execve. The
 * older one is shown.
 */
TEST(after_exec)
{
	static char stack[64 * 1024] __attribute__((aligned(16)));
	int status;
	pid_t pid;

	SKIP_ON_AMDKFD("what is there of the one of before, it does not say");
	pid = fork();
	if (pid == 0) {
		char keeper[16];
		struct kfd_dev dev;
		pid_t other;

		if (kfd_open(&dev))
			_exit(1);
		fcntl(dev.fd, F_SETFD, 0);
		other = clone(pauses, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);
		if (other < 0)
			_exit(2);
		snprintf(keeper, sizeof(keeper), "%d", other);
		setenv("RKFD_KEEPER", keeper, 1);
		execl("/proc/self/exe", "proc", (char *)NULL);
		_exit(3);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_TRUE(goes(pid));
}

/* The program of after_exec. */
static int begin_after_exec(pid_t keeper)
{
	struct kfd_queue queue;
	struct kfd_dev dev;
	int bad = 0;

	if (!is_there(getpid(), "pasid"))
		return 10;
	if (kfd_open(&dev) || kfd_queue_create(&dev, &queue, RING))
		return 11;
	if (entries(getpid(), "queues") != 0)
		bad = 12;
	if (kfd_queue_destroy(&dev, &queue))
		bad = 13;
	kfd_close(&dev);
	kill(keeper, SIGKILL);
	if (waitpid(keeper, NULL, 0) != keeper)
		bad = 14;
	return bad;
}

#define OPENERS		5u

struct openers {
	pthread_t threads[OPENERS];
	volatile bool stop;
};

static void *open_and_close(void *arg)
{
	struct openers *openers = arg;

	while (!openers->stop) {
		int fd = open(KFD_PATH, O_RDWR | O_CLOEXEC);

		if (fd >= 0)
			close(fd);
	}
	return NULL;
}

/*
 * Threads open and close the device: the process is always one, and is shown while any of them
 * has it open.
 */
TEST_F(proc, opened_and_closed_by_many)
{
	const uint64_t end = kfd_now_ms() + 2000;
	struct openers openers = { .stop = false };
	unsigned int i, opened = 0, unseen = 0;

	SKIP_ON_AMDKFD("its process goes later than its last file");
	kfd_close(&self->dev);
	for (i = 0; i < OPENERS; i++)
		ASSERT_EQ(0, pthread_create(&openers.threads[i], NULL, open_and_close, &openers));
	for (; kfd_now_ms() < end; opened++) {
		int fd = open(KFD_PATH, O_RDWR | O_CLOEXEC);

		if (fd < 0)
			break;
		/* Meanwhile a process that was ending ends. */
		usleep(2000);
		unseen += !is_there(getpid(), "pasid");
		close(fd);
		usleep(opened % 8 * 1000);
	}
	openers.stop = true;
	for (i = 0; i < OPENERS; i++)
		pthread_join(openers.threads[i], NULL);
	printf("# opened %u times, not shown %u times\n", opened, unseen);
	EXPECT_LT(2, opened);
	EXPECT_EQ(0, unseen);
}

int main(int argc, char **argv)
{
	const char *keeper = getenv("RKFD_KEEPER");
	struct kfd_dev probe;

	if (keeper)
		return begin_after_exec(atoi(keeper));
	if (access(KFD_PATH, F_OK) != 0 || kfd_find_gpu(&probe))
		ksft_exit_skip("no " KFD_PATH " with a GPU\n");
	return test_harness_run(argc, argv);
}
