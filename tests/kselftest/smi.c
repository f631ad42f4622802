// SPDX-License-Identifier: GPL-2.0
/* SMI_EVENTS: which watcher is notified of which events of a GPU. */
#include <linux/sched.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "kfd_event.h"
#include "kfd_harness.h"
#include "kfd_svm.h"
#include "kfd_userptr.h"
#include "packets.h"
#include "processors.h"
#include "smi_lines.h"

#define SOON_MS		KFD_HANG_MS
#define NOT_MS		300
#define RING_SIZE	(16u << 10)
#define TEXT_SIZE	16384u
#define NOBODY		65534
#define SETTLED_MS	50u
/*
 * Processes that are made on each of two processors: one is likely to have the address space's
 * structure of a process that ended.
 */
#define NEXT		32u
/* More evictions than there is room for their lines. */
#define MANY		1000u

#define MASK(event)	KFD_SMI_EVENT_MASK_FROM_INDEX(event)

FIXTURE(smi)
{
	struct kfd_dev dev;
	struct kfd_bo user;
	int fd;
	char text[TEXT_SIZE];
};

FIXTURE_SETUP(smi)
{
	ASSERT_EQ(0, kfd_open(&self->dev));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &self->user, KFD_PAGE, KFD_ALLOC_USERPTR));
	ASSERT_EQ(0, smi_open(&self->dev, &self->fd));
}

FIXTURE_TEARDOWN(smi)
{
	close(self->fd);
	kfd_close(&self->dev);
}

static bool readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1 && (p.revents & POLLIN);
}

/* Reads all that is there, terminates it, and returns its length. */
static size_t read_all(int fd, char *text)
{
	size_t length = 0;
	ssize_t n;

	while ((n = read(fd, text + length, TEXT_SIZE - 1 - length)) > 0)
		length += (size_t)n;
	text[length] = '\0';
	return length;
}

/* Waits for a line that begins with @start and reads up to it; NULL if none comes. */
static const char *line_with(int fd, char *text, const char *start)
{
	const uint64_t end = kfd_now_ms() + SOON_MS;
	char *line, *rest;

	while (kfd_now_ms() < end) {
		if (!readable(fd, 100))
			continue;
		read_all(fd, text);
		for (line = text; *line; line = rest + 1) {
			rest = strchr(line, '\n');
			if (!rest)
				break;
			if (!strncmp(line, start, strlen(start)))
				return line;
		}
	}
	return NULL;
}

/* True if the queues are restored: amdkfd also reports an attempt that failed. */
static bool is_restored(int fd, char *text)
{
	const char *line = line_with(fd, text, "a ");

	while (line) {
		const char *rest = strchr(line, '\n');

		if (rest && !strncmp(line, "a ", 2) && rest[-1] == '0')
			return true;
		line = rest && rest[1] ? rest + 1 : line_with(fd, text, "a ");
	}
	return false;
}

/*
 * Takes memory away from the GPU: queues are evicted until it has it again. If it was taken
 * away already (also by a fork), there is time for that before.
 */
static void evict_settled(struct kfd_bo *user)
{
	*(volatile char *)user->cpu = 1;
	madvise(user->cpu, user->size, MADV_DONTNEED);
	*(volatile char *)user->cpu = 2;
}

static void evict(struct kfd_bo *user)
{
	usleep(SETTLED_MS * 1000);
	evict_settled(user);
}

TEST_F(smi, nothing_unless_wanted)
{
	char c;

	evict(&self->user);
	EXPECT_FALSE(readable(self->fd, NOT_MS));
	EXPECT_EQ(-1, read(self->fd, &c, 1));
	EXPECT_EQ(EAGAIN, errno);
	ASSERT_EQ(0, smi_want(self->fd, ~MASK(KFD_SMI_EVENT_QUEUE_EVICTION) &
			      ~MASK(KFD_SMI_EVENT_QUEUE_RESTORE)));
	evict(&self->user);
	EXPECT_FALSE(readable(self->fd, NOT_MS));
}

TEST_F(smi, eviction_and_restore)
{
	long long ns, later;
	unsigned int id, gpu;
	const char *line;
	int pid, why;
	char again;

	ASSERT_EQ(0, smi_want(self->fd, MASK(KFD_SMI_EVENT_QUEUE_EVICTION) |
			      MASK(KFD_SMI_EVENT_QUEUE_RESTORE)));
	evict(&self->user);
	line = line_with(self->fd, self->text, "9 ");
	ASSERT_NE(NULL, line);
	ASSERT_EQ(5, sscanf(line, "%x %lld -%d %x %d\n", &id, &ns, &pid, &gpu, &why));
	EXPECT_EQ(KFD_SMI_EVENT_QUEUE_EVICTION, id);
	EXPECT_EQ(getpid(), pid);
	EXPECT_EQ(KFD_QUEUE_EVICTION_TRIGGER_USERPTR, why);
	if (kfd_is_rkfd())
		EXPECT_EQ(self->dev.gpu_id, gpu);
	/* It may have been read with that line, or be still to come. */
	line = strstr(line, "\na ");
	line = line ? line + 1 : line_with(self->fd, self->text, "a ");
	ASSERT_NE(NULL, line);
	ASSERT_EQ(5, sscanf(line, "%x %lld -%d %x %c\n", &id, &later, &pid, &gpu, &again));
	EXPECT_EQ(KFD_SMI_EVENT_QUEUE_RESTORE, id);
	EXPECT_EQ(getpid(), pid);
	EXPECT_LE(ns, later);
	EXPECT_EQ('0', again);
}

TEST_F(smi, faults)
{
	struct packets p = { 0 };
	char name[32] = "", own[32] = "";
	struct kfd_queue queue;
	unsigned int id, pid;
	const char *line;
	FILE *comm;

	ASSERT_EQ(0, smi_want(self->fd, MASK(KFD_SMI_EVENT_VMFAULT)));
	ASSERT_EQ(0, kfd_queue_create(&self->dev, &queue, RING_SIZE));
	sdma_fill(&p, (uintptr_t)kfd_reserve(KFD_PAGE, KFD_PAGE), 1, 64);
	kfd_queue_submit(&queue, p.dwords, p.count);
	line = line_with(self->fd, self->text, "1 ");
	ASSERT_NE(NULL, line);
	ASSERT_EQ(3, sscanf(line, "%x %x:%31s\n", &id, &pid, name));
	EXPECT_EQ(KFD_SMI_EVENT_VMFAULT, id);
	EXPECT_EQ((unsigned int)getpid(), pid);
	comm = fopen("/proc/self/comm", "r");
	ASSERT_NE(NULL, comm);
	ASSERT_EQ(1, fscanf(comm, "%31s", own));
	fclose(comm);
	EXPECT_STREQ(own, name);
}

/* A process whose name looks like a line has a fault. */
static int fault_by_forger(void)
{
	struct packets p = { 0 };
	struct kfd_queue queue;
	struct kfd_dev dev;
	uint32_t event;

	if (prctl(PR_SET_NAME, "a\n9 1 -1 1\\1\n") || kfd_open(&dev) ||
	    event_create(&dev, KFD_IOC_EVENT_MEMORY, true, &event) ||
	    kfd_queue_create(&dev, &queue, RING_SIZE))
		return 1;
	sdma_fill(&p, (uintptr_t)kfd_reserve(KFD_PAGE, KFD_PAGE), 1, 64);
	kfd_queue_submit(&queue, p.dwords, p.count);
	return event_wait(&dev, event, SOON_MS);
}

TEST_F(smi, names_forge_no_lines)
{
	char wanted[64];
	pid_t pid;
	int status;

	if (!kfd_is_rkfd())
		SKIP(return, "amdkfd shows names as they are");
	ASSERT_EQ(0, smi_want(self->fd, MASK(KFD_SMI_EVENT_VMFAULT)));
	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0)
		_exit(fault_by_forger());
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_TRUE(readable(self->fd, SOON_MS));
	read_all(self->fd, self->text);
	snprintf(wanted, sizeof(wanted), "1 %x:a\\0129 1 -1 1\\1341\\012\n", (unsigned int)pid);
	EXPECT_STREQ(wanted, self->text);
}

/* Lines that do not fit are dropped as a whole. */
TEST_F(smi, backlog)
{
	const uint64_t both = MASK(KFD_SMI_EVENT_QUEUE_EVICTION) |
			      MASK(KFD_SMI_EVENT_QUEUE_RESTORE);
	size_t length, told = 0;
	unsigned int i;
	char *line;
	int other;

	ASSERT_EQ(0, smi_open(&self->dev, &other));
	ASSERT_EQ(0, smi_want(self->fd, both));
	ASSERT_EQ(0, smi_want(other, both));
	usleep(SETTLED_MS * 1000);
	/* One reader reads all the time, which shows when it is too much for the other. */
	for (i = 0; i < MANY && told < 8192 + KFD_SMI_EVENT_MSG_SIZE; i++) {
		evict_settled(&self->user);
		/* Until the memory is back. */
		do {
			ASSERT_TRUE(readable(other, SOON_MS));
			told += read_all(other, self->text);
		} while (self->text[0] != 'a' && !strstr(self->text, "\na"));
	}
	ASSERT_LT(8192, told);
	length = read_all(self->fd, self->text);
	EXPECT_GE(8192, length);
	EXPECT_LT(8192 - KFD_SMI_EVENT_MSG_SIZE, length);
	EXPECT_EQ('\n', self->text[length - 1]);
	for (line = self->text; *line; line = strchr(line, '\n') + 1)
		EXPECT_TRUE(!strncmp(line, "9 ", 2) || !strncmp(line, "a ", 2));
	/* There is room again. */
	evict(&self->user);
	EXPECT_TRUE(readable(self->fd, SOON_MS));
	close(other);
}

/* Each open file costs the process that causes an event: their number for a process is limited. */
TEST_F(smi, limit)
{
	int fd[128];
	unsigned int i, n;

	SKIP_ON_AMDKFD("as many files as a process may have open");
	for (n = 0; n < ARRAY_SIZE(fd) && smi_open(&self->dev, &fd[n]) == 0; n++)
		;
	/* One is the fixture's. */
	EXPECT_EQ(63, n);
	if (n < ARRAY_SIZE(fd))
		EXPECT_EQ(EMFILE, smi_open(&self->dev, &fd[n]));
	for (i = 0; i < n; i++)
		close(fd[i]);
	ASSERT_EQ(0, smi_open(&self->dev, &fd[0]));
	close(fd[0]);
}

/*
 * Forks, with this process's files for CLONE_FILES. The child has number @pid, if that is not
 * 0. Returns 0 in the child.
 */
static pid_t fork_as(pid_t pid, uint64_t flags)
{
	struct clone_args args = {
		.flags = flags, .exit_signal = SIGCHLD,
		.set_tid = pid ? (uintptr_t)&pid : 0, .set_tid_size = !!pid,
	};

	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/*
 * Leaves as many files as it may open to other processes, all with evictions enabled; returns
 * the last in *@last.
 */
static int leave_files(int *last)
{
	struct kfd_dev dev;
	unsigned int n;
	int fd;

	if (kfd_open(&dev) || setuid(NOBODY))
		return 1;
	for (n = 0; smi_open(&dev, &fd) == 0; n++) {
		if (smi_want(fd, MASK(KFD_SMI_EVENT_QUEUE_EVICTION)))
			return 2;
		*last = fd;
	}
	return n == 64 ? 0 : 3;
}

static int be_evicted(void)
{
	struct kfd_bo user;
	struct kfd_dev dev;
	int fd;

	if (kfd_open(&dev) || kfd_bo_create(&dev, &user, KFD_PAGE, KFD_ALLOC_USERPTR))
		return 1;
	if (smi_open(&dev, &fd) || smi_want(fd, MASK(KFD_SMI_EVENT_QUEUE_EVICTION)))
		return 2;
	evict(&user);
	return readable(fd, SOON_MS) ? 0 : 3;
}

/* Files that a process has left do not belong to the next one with its number. */
TEST_F(smi, number_used_again)
{
	int *last = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid, again;
	int status;

	SKIP_ON_AMDKFD("told by the process's number");
	if (geteuid())
		SKIP(return, "not root");
	ASSERT_NE(MAP_FAILED, last);
	pid = fork_as(0, CLONE_FILES);
	ASSERT_LE(0, pid);
	if (pid == 0)
		_exit(leave_files(last));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	read_all(*last, self->text);
	again = fork_as(pid, 0);
	if (again == 0)
		_exit(be_evicted());
	ASSERT_EQ(pid, again);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_FALSE(readable(*last, NOT_MS));
}

TEST_F(smi, bad_input)
{
	struct kfd_ioctl_smi_events_args args = { .gpuid = self->dev.gpu_id ^ 1 };
	void *nothing = kfd_reserve(KFD_PAGE, KFD_PAGE);
	uint64_t mask = 1;

	EXPECT_ANSWER(unknown_gpu, kfd_ioctl(self->dev.fd, AMDKFD_IOC_SMI_EVENTS, &args));
	EXPECT_EQ(-1, write(self->fd, &mask, 4));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-1, write(self->fd, nothing, 8));
	EXPECT_EQ(EFAULT, errno);
	ASSERT_EQ(0, smi_want(self->fd, MASK(KFD_SMI_EVENT_QUEUE_EVICTION)));
	evict(&self->user);
	ASSERT_TRUE(readable(self->fd, SOON_MS));
	EXPECT_EQ(-1, read(self->fd, nothing, 64));
	EXPECT_EQ(EFAULT, errno);
}

/*
 * Another process gets the evictions of its own. With the privilege to see all, it also gets
 * ours.
 */
static int watch(bool privileged, const int *ready, const int *go)
{
	char text[TEXT_SIZE], own[32], c = 0;
	struct kfd_bo user;
	struct kfd_dev dev;
	int fd;
	bool others;

	if (kfd_open(&dev) || kfd_bo_create(&dev, &user, KFD_PAGE, KFD_ALLOC_USERPTR))
		return 1;
	if (!privileged && setuid(NOBODY))
		return 2;
	if (smi_open(&dev, &fd) || smi_want(fd, MASK(KFD_SMI_EVENT_QUEUE_EVICTION)))
		return 3;
	if (write(ready[1], &c, 1) != 1 || read(go[0], &c, 1) != 1)
		return 4;
	others = readable(fd, NOT_MS);
	if (others != privileged)
		return 5;
	read_all(fd, text);
	evict(&user);
	if (!readable(fd, SOON_MS))
		return 6;
	read_all(fd, text);
	snprintf(own, sizeof(own), " -%d ", getpid());
	return strstr(text, own) ? 0 : 7;
}

static void watch_from_outside(struct __test_metadata *_metadata, FIXTURE_DATA(smi) *self,
			       bool privileged)
{
	int ready[2], go[2], status;
	char c = 0;
	pid_t pid;

	ASSERT_EQ(0, pipe(ready));
	ASSERT_EQ(0, pipe(go));
	ASSERT_EQ(0, smi_want(self->fd, MASK(KFD_SMI_EVENT_QUEUE_RESTORE)));
	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0)
		_exit(watch(privileged, ready, go));
	close(ready[1]);
	ASSERT_EQ(1, read(ready[0], &c, 1));
	/* The fork was an eviction, too; memory that is not back cannot be taken away again. */
	ASSERT_TRUE(is_restored(self->fd, self->text));
	evict_settled(&self->user);
	ASSERT_EQ(1, write(go[1], &c, 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
}

TEST_F(smi, others_are_hidden)
{
	watch_from_outside(_metadata, self, false);
}

TEST_F(smi, others_are_shown_to_root)
{
	if (geteuid())
		SKIP(return, "not root");
	watch_from_outside(_metadata, self, true);
}

/* The file may outlive the process's use of the GPU. */
TEST_F(smi, outlives_its_opener)
{
	ASSERT_EQ(0, smi_want(self->fd, UINT64_MAX));
	kfd_close(&self->dev);
	EXPECT_FALSE(readable(self->fd, 0) && !read_all(self->fd, self->text));
	EXPECT_ANSWER(vm_after_close, kfd_open(&self->dev));
}

/* In a child: moves memory to VRAM, and exits. Its own child touches the memory after *@go. */
static int bequeath(volatile uint32_t *go, volatile uint32_t *touched)
{
	const size_t size = 16 * KFD_PAGE;
	volatile uint8_t *mem = kfd_reserve(size, 2u << 20);
	struct kfd_dev dev;
	pid_t heir;

	if (kfd_open(&dev) || anonymous((void *)mem, size, PROT_READ | PROT_WRITE) != mem)
		return 1;
	memset((void *)mem, 0x41, size);
	if (svm_set(dev.fd, (void *)mem, size, SVM_ACCESS, dev.gpu_id) ||
	    svm_set(dev.fd, (void *)mem, size, SVM_PREFETCH, dev.gpu_id))
		return 2;
	heir = fork();
	if (heir == 0) {
		/* The files have the address space as long as any process has them open. */
		close(dev.fd);
		close(dev.drm_fd);
		kfd_becomes(go, 1, SOON_MS);
		*touched = mem[0] == 0x41 ? 1 : 2;
		_exit(0);
	}
	return heir < 0 ? 3 : 0;
}

/* In a child: watches its own memory's moves, of which there are none, until *@touched. */
static int watch_moves(volatile uint32_t *ready, volatile uint32_t *touched)
{
	struct kfd_dev dev;
	int file;

	if (kfd_open(&dev) || setuid(NOBODY) || smi_open(&dev, &file) ||
	    smi_want(file, SMI_MASK(MIGRATE_START) | SMI_MASK(MIGRATE_END)))
		return 1;
	__sync_fetch_and_add(ready, 1);
	if (!kfd_becomes(touched, 1, SOON_MS))
		return 2;
	return readable(file, NOT_MS) ? 3 : 0;
}

/*
 * A process has memory in VRAM of its parent, which has ended. Of its moves, no process is
 * notified that happens to have the address space's structure that was the parent's.
 */
TEST_F(smi, moves_of_inherited_memory)
{
	/* Whether to go on, whether the memory is touched, how many watch. */
	volatile uint32_t *shared = kfd_share();
	pid_t pid, next[2 * NEXT];
	unsigned int i;
	int status;

	if (!kfd_is_rkfd())
		SKIP(return, "with amdkfd the memory is not read after the parent's end");
	ASSERT_NE(NULL, (void *)shared);
	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0)
		_exit(bequeath(&shared[0], &shared[1]));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	/* The driver's part of the process ends soon after it. */
	usleep(500000);
	for (i = 0; i < 2 * NEXT; i++) {
		ASSERT_TRUE(i % NEXT || stay_on(i / NEXT));
		next[i] = fork();
		ASSERT_LE(0, next[i]);
		if (next[i] == 0)
			_exit(watch_moves(&shared[2], &shared[1]));
	}
	EXPECT_TRUE(kfd_becomes(&shared[2], 2 * NEXT, SOON_MS));
	shared[0] = 1;
	EXPECT_TRUE(kfd_becomes(&shared[1], 1, SOON_MS));
	for (i = 0; i < 2 * NEXT; i++) {
		EXPECT_EQ(next[i], waitpid(next[i], &status, 0));
		EXPECT_EQ(0, status);
	}
}

KFD_HARNESS_MAIN
