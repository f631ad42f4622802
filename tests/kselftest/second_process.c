// SPDX-License-Identifier: GPL-2.0
/*
 * Secondary processes of one address space (CREATE_PROCESS): GPU addresses, queues, events and
 * faults of their own; what they are refused; the order in which files are closed.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "kfd_compute.h"
#include "kfd_event.h"
#include "kfd_harness.h"
#include "kfd_svm.h"
#include "proc.h"

#ifndef AMDKFD_IOC_CREATE_PROCESS
#define AMDKFD_IOC_CREATE_PROCESS	AMDKFD_IO(0x27)
#endif

#define RING		(64u * 1024)
#define SIZE		(2ul << 20)
#define LOOP		32u
#define STEPS		5u
#define THREADS		4u
/* What rkfd lets an address space have. */
#define MOST		32u
#define TIMEOUT_MS	KFD_HANG_MS

static int create_process(int fd)
{
	return kfd_ioctl(fd, AMDKFD_IOC_CREATE_PROCESS, NULL);
}

/* A new file of KFD with a process of its own; -1 if there is none. */
static int secondary_file(void)
{
	int fd = open(KFD_PATH, O_RDWR | O_CLOEXEC);

	if (fd >= 0 && create_process(fd)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Gives a process that has a file its render node and its GPU. */
static int acquire_secondary(struct kfd_dev *second)
{
	int err;

	second->drm_fd = -1;
	err = kfd_open_render(second, &second->drm_fd);
	if (!err)
		err = kfd_acquire_vm(second->fd, second->drm_fd, second->gpu_id);
	if (err)
		kfd_close(second);
	return err;
}

/* Another process of this address space, on the GPU of @dev. */
static int open_secondary(const struct kfd_dev *dev, struct kfd_dev *second)
{
	*second = *dev;
	second->fd = secondary_file();
	return second->fd < 0 ? EBADF : acquire_secondary(second);
}

/* A buffer of GTT, at address @va of the GPU, and elsewhere for the CPU. */
struct placed {
	uint64_t va, handle;
	void *cpu;
};

static int place(const struct kfd_dev *dev, struct placed *placed, void *va)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.va_addr = (uintptr_t)va, .size = SIZE, .gpu_id = dev->gpu_id,
		.flags = KFD_ALLOC_GTT,
	};
	int err = kfd_alloc(dev->fd, &args);

	placed->va = (uintptr_t)va;
	placed->handle = args.handle;
	if (!err)
		err = kfd_map(dev->fd, args.handle, dev->gpu_id);
	if (!err)
		err = kfd_mmap(dev->drm_fd, SIZE, args.mmap_offset, &placed->cpu);
	if (!err)
		memset(placed->cpu, 0, SIZE);
	return err;
}

static int take_away(const struct kfd_dev *dev, struct placed *placed)
{
	int err = kfd_unmap(dev->fd, placed->handle, dev->gpu_id);

	munmap(placed->cpu, SIZE);
	return err ? err : kfd_free(dev->fd, placed->handle);
}

static bool is_all(const struct placed *placed, uint32_t value)
{
	const uint32_t *words = placed->cpu;
	size_t i;

	for (i = 0; i < SIZE / sizeof(*words); i++)
		if (words[i] != value)
			return false;
	return true;
}

static int exit_status(pid_t pid)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

FIXTURE(second_process)
{
	struct kfd_dev dev, second;
	void *va;		/* free addresses, SIZE bytes */
};

FIXTURE_SETUP(second_process)
{
	int probe = open(KFD_PATH, O_RDWR | O_CLOEXEC), err = create_process(probe);

	self->second.fd = self->second.drm_fd = -1;
	close(probe);
	ASSERT_EQ(0, kfd_open(&self->dev));
	if (err == ENOTTY && !kfd_is_rkfd())
		SKIP(return, "this amdkfd has no CREATE_PROCESS");
	ASSERT_EQ(0, err);
	ASSERT_EQ(0, open_secondary(&self->dev, &self->second));
	self->va = kfd_reserve(SIZE, SIZE);
	ASSERT_NE(NULL, self->va);
}

FIXTURE_TEARDOWN(second_process)
{
	kfd_close(&self->second);
	kfd_close(&self->dev);
}

/* One address, two buffers: SDMA queues of both fill what is theirs. */
TEST_F(second_process, same_address)
{
	const struct kfd_dev *dev[2] = { &self->dev, &self->second };
	struct kfd_queue queue[2];
	struct placed placed[2];
	unsigned int i;

	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, place(dev[i], &placed[i], self->va));
		ASSERT_EQ(0, kfd_queue_create(dev[i], &queue[i], RING));
	}
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, kfd_queue_fill(&queue[i], placed[i].va, 0x1111 * (i + 1), SIZE,
					    TIMEOUT_MS));
	for (i = 0; i < 2; i++)
		EXPECT_TRUE(is_all(&placed[i], 0x1111 * (i + 1)));
	/* Handles and queues are each process's own. */
	EXPECT_NE(0, kfd_destroy_queue(self->second.fd, queue[1].id + 1));
	EXPECT_EQ(0, kfd_queue_destroy(dev[1], &queue[1]));
	EXPECT_EQ(0, take_away(dev[1], &placed[1]));
	ASSERT_EQ(0, kfd_queue_fill(&queue[0], placed[0].va, 0x3333, SIZE, TIMEOUT_MS));
	EXPECT_TRUE(is_all(&placed[0], 0x3333));
	EXPECT_EQ(0, kfd_queue_destroy(dev[0], &queue[0]));
	EXPECT_EQ(0, take_away(dev[0], &placed[0]));
}

/* A compute queue that counts for ever at an address of the other's buffer too. */
struct counter {
	struct kfd_save save;
	struct kfd_bo loop;
	struct placed placed;
	struct kfd_compute queue;
};

static int start(const struct kfd_dev *dev, struct counter *counter, void *va)
{
	int err = kfd_save_create(dev, &counter->save);

	if (!err)
		err = kfd_bo_create(dev, &counter->loop, KFD_PAGE, KFD_ALLOC_GTT);
	if (!err)
		err = place(dev, &counter->placed, va);
	if (!err)
		err = kfd_compute_create(dev, &counter->queue, &counter->save, false, RING);
	if (!err && !kfd_compute_count(&counter->queue, &counter->loop, LOOP, counter->placed.va,
				       0))
		err = ETIMEDOUT;
	return err;
}

static uint64_t counted(const struct counter *counter)
{
	return *(volatile uint64_t *)counter->placed.cpu;
}

/* True if it counts on, again and again. */
static bool goes_on(const struct counter *counter)
{
	const uint64_t end = kfd_now_ms() + TIMEOUT_MS;
	unsigned int steps = 0;
	uint64_t seen = counted(counter);

	while (steps < STEPS && kfd_now_ms() < end) {
		usleep(1000);
		if (counted(counter) != seen) {
			seen = counted(counter);
			steps++;
		}
	}
	return steps == STEPS;
}

/* Compute queues of both run at once, and the second's end is not the first's. */
TEST_F(second_process, both_count)
{
	static struct counter counter[2];
	uint64_t last;

	ASSERT_EQ(0, start(&self->dev, &counter[0], self->va));
	ASSERT_EQ(0, start(&self->second, &counter[1], self->va));
	EXPECT_TRUE(goes_on(&counter[0]));
	EXPECT_TRUE(goes_on(&counter[1]));
	EXPECT_TRUE(goes_on(&counter[0]));
	EXPECT_EQ(0, kfd_compute_destroy(&self->second, &counter[1].queue));
	last = counted(&counter[1]);
	EXPECT_TRUE(goes_on(&counter[0]));
	EXPECT_EQ(last, counted(&counter[1]));
	EXPECT_EQ(0, kfd_compute_destroy(&self->dev, &counter[0].queue));
}

/* A fault stops the queues of the process that it is of, and is in no event of the other. */
static void check_fault(struct __test_metadata *_metadata, const struct kfd_dev *bad,
			const struct kfd_dev *good, void *va)
{
	static struct counter counter[2];
	struct kfd_event_data fault[2] = { 0 };
	void *nothing = kfd_reserve(KFD_PAGE, KFD_PAGE);
	struct packets p = { 0 };
	struct kfd_compute queue;

	ASSERT_NE(NULL, nothing);
	ASSERT_EQ(0, start(good, &counter[0], va));
	ASSERT_EQ(0, start(bad, &counter[1], va));
	ASSERT_EQ(0, event_create(good, KFD_IOC_EVENT_MEMORY, false, &fault[0].event_id));
	ASSERT_EQ(0, event_create(bad, KFD_IOC_EVENT_MEMORY, false, &fault[1].event_id));
	ASSERT_EQ(0, kfd_compute_create(bad, &queue, &counter[1].save, false, RING));
	pm4_write(&p, (uintptr_t)nothing, 1);
	ASSERT_TRUE(kfd_compute_pm4(&queue, &p));
	EXPECT_EQ(0, event_wait_many(bad, &fault[1], 1, true, TIMEOUT_MS));
	EXPECT_EQ((uintptr_t)nothing, fault[1].memory_exception_data.va);
	EXPECT_EQ(ETIMEDOUT, event_wait_many(good, &fault[0], 1, true, 0));
	EXPECT_TRUE(goes_on(&counter[0]));
	EXPECT_EQ(0, kfd_compute_destroy(bad, &queue));
	EXPECT_EQ(0, kfd_compute_destroy(bad, &counter[1].queue));
	EXPECT_TRUE(goes_on(&counter[0]));
	EXPECT_EQ(0, kfd_compute_destroy(good, &counter[0].queue));
}

TEST_F(second_process, fault_in_the_second)
{
	check_fault(_metadata, &self->second, &self->dev, self->va);
}

TEST_F(second_process, fault_in_the_first)
{
	check_fault(_metadata, &self->dev, &self->second, self->va);
}

TEST_F(second_process, refused)
{
	struct kfd_ioctl_svm_args svm = { .start_addr = (uintptr_t)self->va, .size = SIZE };
	struct kfd_ioctl_dbg_trap_args debug = {
		.pid = (uint32_t)getpid(), .op = KFD_IOC_DBG_TRAP_ENABLE,
	};
	struct kfd_ioctl_criu_args criu = { .op = KFD_CRIU_OP_PROCESS_INFO };
	struct kfd_dev *second = &self->second;
	struct kfd_dev third = *second;
	uint64_t handle;
	void *own;

	EXPECT_EQ(EINVAL, create_process(second->fd));
	EXPECT_EQ(EOPNOTSUPP, kfd_ioctl(second->fd, AMDKFD_IOC_SVM, &svm));
	EXPECT_EQ(EOPNOTSUPP, kfd_ioctl(second->fd, AMDKFD_IOC_DBG_TRAP, &debug));
	/* amdkfd saves the first process, and forgets the second. */
	if (kfd_is_rkfd()) {
		EXPECT_EQ(EOPNOTSUPP, kfd_ioctl(second->fd, AMDKFD_IOC_CRIU_OP, &criu));
		EXPECT_EQ(EOPNOTSUPP, kfd_ioctl(self->dev.fd, AMDKFD_IOC_CRIU_OP, &criu));
	}
	own = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, own);
	EXPECT_EQ(EOPNOTSUPP, kfd_alloc_at(second, KFD_ALLOC_USERPTR, (uintptr_t)own, SIZE,
					   &handle));
	/* That there are no bytes comes first. */
	EXPECT_ANSWER(size_zero, kfd_alloc_at(second, KFD_ALLOC_USERPTR, (uintptr_t)own, 0,
					      &handle));
	/* The first process has what the second is refused. */
	ASSERT_EQ(0, kfd_alloc_at(&self->dev, KFD_ALLOC_USERPTR, (uintptr_t)own, SIZE, &handle));
	EXPECT_EQ(0, kfd_free(self->dev.fd, handle));
	/* An address space of the GPU belongs to one process. */
	third.fd = secondary_file();
	ASSERT_LE(0, third.fd);
	EXPECT_ANSWER(vm_of_other_process,
		      kfd_acquire_vm(third.fd, self->dev.drm_fd, third.gpu_id));
	EXPECT_ANSWER(vm_of_other_process, kfd_acquire_vm(third.fd, second->drm_fd, third.gpu_id));
	close(third.fd);
}

/* With XNACK both find the program's own memory, wherever the other's access has moved it. */
TEST_F(second_process, own_memory_of_both)
{
	const struct kfd_dev *dev[2] = { &self->dev, &self->second };
	struct kfd_queue queue[2];
	struct placed placed[2];
	unsigned int i, round;
	uint32_t *own;

	SKIP_ON_AMDKFD("the kernel stops at memory that the other process has in VRAM");
	own = mmap(NULL, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, own);
	own = (uint32_t *)(((uintptr_t)own + SIZE - 1) & ~(SIZE - 1));
	for (i = 0; i < 2; i++) {
		if (xnack_set(dev[i]->fd, 1))
			SKIP(return, "there is no XNACK");
		ASSERT_EQ(0, place(dev[i], &placed[i], self->va));
		ASSERT_EQ(0, kfd_queue_create(dev[i], &queue[i], RING));
	}
	for (round = 0; round < 4; round++) {
		/* One after the other, the CPU between them or not. */
		for (i = 0; i < 2; i++) {
			const uint32_t value = 0x100 * round + i + 1;
			size_t at;

			if (round % 2)
				for (at = 0; at < SIZE / sizeof(*own); at++)
					own[at] = value;
			else
				ASSERT_EQ(0, kfd_queue_fill(&queue[i], (uintptr_t)own, value, SIZE,
							    TIMEOUT_MS));
			ASSERT_EQ(0, kfd_queue_copy(&queue[!i], placed[!i].va, (uintptr_t)own,
						    SIZE, TIMEOUT_MS));
			EXPECT_TRUE(is_all(&placed[!i], value))
				TH_LOG("round %u, process %u", round, !i);
		}
	}
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(0, kfd_queue_destroy(dev[i], &queue[i]));
		EXPECT_EQ(0, take_away(dev[i], &placed[i]));
	}
}

static void *create_in_thread(void *fd)
{
	return (void *)(intptr_t)create_process(*(int *)fd);
}

/* Of several threads one makes the file's process. */
TEST_F(second_process, of_one_file_once)
{
	unsigned int i, round, created;
	pthread_t thread[THREADS];

	for (round = 0; round < 20; round++) {
		int fd = open(KFD_PATH, O_RDWR | O_CLOEXEC);

		ASSERT_LE(0, fd);
		for (created = 0, i = 0; i < THREADS; i++)
			ASSERT_EQ(0, pthread_create(&thread[i], NULL, create_in_thread, &fd));
		for (i = 0; i < THREADS; i++) {
			void *result;

			ASSERT_EQ(0, pthread_join(thread[i], &result));
			if (!result)
				created++;
			else
				EXPECT_EQ(EINVAL, (intptr_t)result);
		}
		EXPECT_EQ(1, created);
		close(fd);
	}
}

/* A child is refused on files of its parent, and makes its own. */
static int child(const struct kfd_dev *first, const struct kfd_dev *second, void *va)
{
	const int refused = kfd_expected(answer_file_of_other_process);
	struct kfd_ioctl_get_version_args version;
	struct kfd_dev own, another;
	struct placed placed;

	if (kfd_ioctl(second->fd, AMDKFD_IOC_GET_VERSION, &version) != refused ||
	    create_process(first->fd) != refused || create_process(second->fd) != refused)
		return 1;
	if (kfd_open(&own) || open_secondary(&own, &another) || place(&another, &placed, va))
		return 2;
	return 0;
}

TEST_F(second_process, fork)
{
	struct placed placed;
	pid_t pid;

	ASSERT_EQ(0, place(&self->second, &placed, self->va));
	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0)
		_exit(child(&self->dev, &self->second, self->va));
	EXPECT_EQ(0, exit_status(pid));
	EXPECT_TRUE(goes(pid));
	EXPECT_EQ(0, take_away(&self->second, &placed));
}

/* A process that is killed, with queues of two processes that run, leaves nothing. */
TEST_F(second_process, killed)
{
	volatile unsigned int *ready = kfd_share();
	pid_t pid;

	ASSERT_NE(NULL, ready);
	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0) {
		static struct counter counter[2];
		struct kfd_dev own, another;

		if (kfd_open(&own) || open_secondary(&own, &another) ||
		    start(&own, &counter[0], self->va) || start(&another, &counter[1], self->va) ||
		    !goes_on(&counter[0]) || !goes_on(&counter[1]))
			_exit(1);
		*ready = 1;
		for (;;)
			pause();
	}
	EXPECT_TRUE(kfd_becomes((volatile uint32_t *)ready, 1, TIMEOUT_MS));
	EXPECT_EQ(0, kill(pid, SIGKILL));
	EXPECT_EQ(-1, exit_status(pid));
	EXPECT_TRUE(goes(pid));
}

/* The first file may be closed before the second, which goes on, and then be opened again. */
TEST_F(second_process, first_is_closed)
{
	struct kfd_queue queue;
	struct placed placed;
	struct kfd_dev again;

	ASSERT_EQ(0, place(&self->second, &placed, self->va));
	ASSERT_EQ(0, kfd_queue_create(&self->second, &queue, RING));
	kfd_close(&self->dev);
	ASSERT_EQ(0, kfd_queue_fill(&queue, placed.va, 0x1234, SIZE, TIMEOUT_MS));
	EXPECT_TRUE(is_all(&placed, 0x1234));
	ASSERT_EQ(0, kfd_open_files(&again));
	/* The primary process is still there, with its address space. */
	EXPECT_EQ(EBUSY, kfd_acquire_vm(again.fd, again.drm_fd, again.gpu_id));
	kfd_close(&again);
	ASSERT_EQ(0, kfd_queue_fill(&queue, placed.va, 0x4321, SIZE, TIMEOUT_MS));
	EXPECT_TRUE(is_all(&placed, 0x4321));
	EXPECT_EQ(0, kfd_queue_destroy(&self->second, &queue));
	EXPECT_EQ(0, take_away(&self->second, &placed));
}

/* True if the folder of this process's number @context becomes @there. */
static bool folder_becomes(unsigned int context, bool there)
{
	const uint64_t end = kfd_now_ms() + TIMEOUT_MS;
	char name[64];

	snprintf(name, sizeof(name), "context_%u", context);
	while (is_there(getpid(), name) != there) {
		if (kfd_now_ms() >= end)
			return false;
		usleep(1000);
	}
	return true;
}

/* The folders of this address space's secondary processes. */
static unsigned int folders(void)
{
	unsigned int context, count = 0;
	char name[64];

	for (context = 0; context < MOST; context++) {
		snprintf(name, sizeof(name), "context_%u", context);
		count += is_there(getpid(), name);
	}
	return count;
}

/*
 * A file whose process has the number @context, which is the lowest one without a folder. A
 * process that ends keeps its number for a moment after its folder is gone.
 */
static int numbered_file(unsigned int context)
{
	const uint64_t end = kfd_now_ms() + TIMEOUT_MS;
	const unsigned int before = folders();
	char name[64];

	snprintf(name, sizeof(name), "context_%u", context);
	while (kfd_now_ms() < end) {
		const int fd = folders() == before ? secondary_file() : -1;

		if (fd >= 0 && is_there(getpid(), name))
			return fd;
		if (fd >= 0)
			close(fd);
		usleep(1000);
	}
	return -1;
}

/* Each has a folder in that of the first, by the lowest free number. */
TEST_F(second_process, folders)
{
	struct kfd_queue queue;
	int third, fourth;
	char name[64];

	/* That of the fixture's probe may still be there: it has number 0 then. */
	kfd_close(&self->second);
	ASSERT_TRUE(folder_becomes(0, false));
	ASSERT_TRUE(folder_becomes(1, false));
	self->second = self->dev;
	self->second.fd = numbered_file(0);
	ASSERT_LE(0, self->second.fd);
	ASSERT_EQ(0, acquire_secondary(&self->second));
	third = numbered_file(1);
	ASSERT_LE(0, third);
	fourth = numbered_file(2);
	ASSERT_LE(0, fourth);
	EXPECT_LE(0, number(getpid(), "context_0/pasid"));
	if (kfd_is_rkfd()) {
		EXPECT_NE(number(getpid(), "pasid"), number(getpid(), "context_0/pasid"));
		EXPECT_NE(number(getpid(), "context_1/pasid"),
			  number(getpid(), "context_0/pasid"));
	}
	EXPECT_EQ(0, entries(getpid(), "context_0/queues"));
	ASSERT_EQ(0, kfd_queue_create(&self->second, &queue, RING));
	EXPECT_EQ(1, entries(getpid(), "context_0/queues"));
	EXPECT_EQ(0, entries(getpid(), "queues"));
	snprintf(name, sizeof(name), "context_0/vram_%u", self->dev.gpu_id);
	EXPECT_EQ(0, number(getpid(), name));
	snprintf(name, sizeof(name), "context_1/stats_%u/evicted_ms", self->dev.gpu_id);
	EXPECT_EQ(0, number(getpid(), name));
	EXPECT_EQ(0, kfd_queue_destroy(&self->second, &queue));

	close(third);
	ASSERT_TRUE(folder_becomes(1, false));
	EXPECT_TRUE(folder_becomes(2, true));
	third = numbered_file(1);
	ASSERT_LE(0, third);
	EXPECT_FALSE(folder_becomes(3, false) && is_there(getpid(), "context_3"));
	close(third);
	close(fourth);
}

/* An address space has so many at a time; those that are closed do not count. */
TEST_F(second_process, most)
{
	int fd[MOST - 1], more;
	unsigned int i;

	SKIP_ON_AMDKFD("it allows 65,535");
	for (i = 0; i < MOST - 1; i++) {
		fd[i] = secondary_file();
		ASSERT_LE(0, fd[i]) TH_LOG("number %u", i);
	}
	more = open(KFD_PATH, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, more);
	EXPECT_EQ(ENOSPC, create_process(more));
	/* It is still a file of the first process. */
	EXPECT_EQ(0, kfd_acquire_vm(more, self->dev.drm_fd, self->dev.gpu_id));
	close(fd[7]);
	EXPECT_EQ(0, create_process(more));
	close(more);
	for (i = 0; i < MOST - 1; i++)
		if (i != 7)
			close(fd[i]);
	/* Again, at once, and many times. */
	for (i = 0; i < 4 * MOST; i++) {
		more = secondary_file();
		ASSERT_LE(0, more) TH_LOG("number %u", i);
		close(more);
	}
}

KFD_HARNESS_MAIN
