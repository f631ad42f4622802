// SPDX-License-Identifier: GPL-2.0
/*
 * Processes are moved out for another only as far as that helps, and no uninvolved process
 * waits for it. Wants a device with little VRAM.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "kfd_compute.h"
#include "kfd_harness.h"
#include "kfd_dmabuf.h"
#include "kfd_svm.h"
#include "kfd_userptr.h"
#include "model.h"
#include "objects.h"
#include "trace.h"

#define MIB		(1ull << 20)
#define RING		(64u * 1024)
#define TIMEOUT_MS	KFD_HANG_MS
/* Addresses that only the GPU uses. */
#define GPU_VA		(1ull << 40)
#define OTHER_VA	(2ull << 40)
/* No run of free VRAM is so long. */
#define RUN		(64 * MIB)
/*
 * The attempts of a stranger to be faster than a move: its time on the processor is late now
 * and then.
 */
#define ROUNDS		10u
/* Of buffers that make room one by one. */
#define PIECE		(8 * MIB)
/* The free rest: with the save area of a compute queue's waves, 61 MiB. */
#define LEFT		(96 * MIB)

/* Messages between the processes. */
enum { READY, BEGIN, FREED, HAS, END, WORDS };

FIXTURE(strangers)
{
	struct kfd_dev dev;
	volatile uint32_t *said;
	uint64_t all;
};

FIXTURE_SETUP(strangers)
{
	ASSERT_EQ(0, kfd_open(&self->dev));
	self->said = kfd_share();
	ASSERT_NE(NULL, (void *)self->said);
	self->all = kfd_available(&self->dev);
	ASSERT_TRUE(trace_open("strangers"));
	ASSERT_TRUE(trace_enable("rkfd/rkfd_evict"));
	ASSERT_TRUE(trace_enable("rkfd/rkfd_restore"));
	ASSERT_TRUE(trace_enable("rkfd/rkfd_map"));
	ASSERT_TRUE(trace_enable("rkfd/rkfd_unmap"));
	ASSERT_TRUE(trace_enable("rkfd/rkfd_queue_evict"));
}

FIXTURE_TEARDOWN(strangers)
{
	trace_close();
	kfd_close(&self->dev);
}

/* In a child: waits for the message @word. */
static void hear(const FIXTURE_DATA(strangers) *self, unsigned int word)
{
	if (!kfd_becomes(&self->said[word], 1, TIMEOUT_MS))
		_exit(100 + (int)word);
}

static int alloc(const struct kfd_dev *dev, uint64_t va, uint64_t size)
{
	uint64_t handle;

	return kfd_alloc_at(dev, KFD_ALLOC_VRAM, va, size, &handle);
}

static int exit_status(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Half of VRAM is free, in holes of a MiB. False on failure. */
static bool make_holes(const struct kfd_dev *dev)
{
	const unsigned int count = kfd_available(dev) / MIB;
	uint64_t *handles = calloc(count, sizeof(*handles));
	unsigned int i, bad = !handles;

	for (i = 0; !bad && i < count; i++)
		bad = kfd_alloc_at(dev, KFD_ALLOC_VRAM, GPU_VA + i * MIB, MIB, &handles[i]);
	for (i = 0; !bad && i < count; i += 2)
		bad = kfd_free(dev->fd, handles[i]);
	free(handles);
	return !bad;
}

/*
 * A request for VRAM in one run gets it in pieces if there is no such run, as with amdgpu. No
 * process is moved out for that.
 */
TEST_F(strangers, no_run_is_long_enough)
{
	const struct kfd_dev *dev = &self->dev;
	struct kfd_dev other;
	uint64_t handle;
	char text[64];
	pid_t pid;

	ASSERT_TRUE(make_holes(dev));
	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0) {
		if (kfd_open(&other) || alloc(&other, OTHER_VA, RUN / 4))
			_exit(1);
		self->said[READY] = 1;
		hear(self, END);
		_exit(0);
	}
	EXPECT_TRUE(kfd_becomes(&self->said[READY], 1, TIMEOUT_MS));
	EXPECT_EQ(0, kfd_alloc_at(dev, KFD_ALLOC_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_CONTIGUOUS,
				  OTHER_VA, RUN, &handle));
	EXPECT_EQ(0, kfd_map(dev->fd, handle, dev->gpu_id));
	snprintf(text, sizeof(text), "pid=%d ", pid);
	EXPECT_EQ(0, trace_count("rkfd_evict", text));
	self->said[END] = 1;
	EXPECT_EQ(0, exit_status(pid));
}

/* A buffer in one run that was moved out comes back in pieces, too. */
TEST_F(strangers, comes_home_in_pieces)
{
	char text[64];
	pid_t pid = fork();

	ASSERT_LE(0, pid);
	if (pid == 0) {
		struct kfd_queue queue;
		struct kfd_dev dev;
		uint64_t handle;

		if (kfd_open(&dev) || kfd_queue_create(&dev, &queue, RING) ||
		    kfd_alloc_at(&dev, KFD_ALLOC_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_CONTIGUOUS,
				 OTHER_VA, RUN, &handle) ||
		    kfd_map(dev.fd, handle, dev.gpu_id))
			_exit(1);
		self->said[READY] = 1;
		hear(self, BEGIN);
		_exit(kfd_queue_fill(&queue, OTHER_VA, 1, RUN, TIMEOUT_MS));
	}
	EXPECT_TRUE(kfd_becomes(&self->said[READY], 1, TIMEOUT_MS));
	EXPECT_TRUE(make_holes(&self->dev));
	snprintf(text, sizeof(text), "pid=%d ", pid);
	EXPECT_EQ(1, trace_count("rkfd_evict", text));
	self->said[BEGIN] = 1;
	EXPECT_EQ(0, exit_status(pid));
	EXPECT_EQ(1, trace_count("rkfd_restore", text));
}

/* Some calls of an uninvolved process. */
static int little(const struct kfd_dev *dev, uint64_t size)
{
	uint64_t handle;
	int err = kfd_alloc_at(dev, KFD_ALLOC_VRAM, OTHER_VA, size, &handle);

	if (!err)
		err = kfd_map(dev->fd, handle, dev->gpu_id);
	if (!err && kfd_available(dev) == UINT64_MAX)
		err = EIO;
	if (!err)
		err = kfd_unmap(dev->fd, handle, dev->gpu_id);
	return err ? err : kfd_free(dev->fd, handle);
}

/* Bytes of VRAM that are allocated. */
static unsigned long long used(const struct kfd_dev *dev)
{
	unsigned long long bytes = 0;
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/drm/renderD%u/device/mem_info_vram_used",
		 dev->drm_minor);
	f = fopen(path, "re");
	if (!f || fscanf(f, "%llu", &bytes) != 1)
		_exit(3);
	fclose(f);
	return bytes;
}

/* In a child: has @size bytes moved out, and back when there is work for them. */
static int large(FIXTURE_DATA(strangers) *self, uint64_t size)
{
	struct kfd_queue queue;
	struct kfd_dev dev;
	uint64_t handle;

	if (kfd_open(&dev) || kfd_queue_create(&dev, &queue, RING) ||
	    kfd_alloc_at(&dev, KFD_ALLOC_VRAM, GPU_VA, size, &handle) ||
	    kfd_map(dev.fd, handle, dev.gpu_id))
		return 1;
	self->said[HAS] = 1;
	hear(self, BEGIN);
	return kfd_queue_fill(&queue, GPU_VA, 1, KFD_PAGE, TIMEOUT_MS);
}

/* In a child: acts when a buffer of at least @size bytes is on its way out, or back. */
static int beside(FIXTURE_DATA(strangers) *self, unsigned int word, uint64_t size)
{
	struct kfd_dev dev;
	int err;

	__sync_fetch_and_add(&self->said[READY], 1);
	if (word == FREED) {
		hear(self, FREED);
		while (used(&self->dev) < size)
			;
	} else {
		while (objects_count("evicted_bytes") <= 0)
			;
	}
	err = kfd_open(&dev);
	return err ? err : little(&dev, KFD_PAGE);
}

static bool was_before(const char *first, pid_t of_first, const char *second, pid_t of_second)
{
	char a[64], b[64];

	snprintf(a, sizeof(a), "%s: pid=%d ", first, of_first);
	snprintf(b, sizeof(b), "%s: pid=%d ", second, of_second);
	return trace_before(a, b);
}

/* A large buffer moves out, and back: an uninvolved process gets the free VRAM meanwhile. */
TEST_F(strangers, beside_a_large_buffer)
{
	const uint64_t size = self->all / 4 * 3 / PIECE * PIECE;
	unsigned int round, i, out = 0, home = 0;
	uint64_t handle;
	pid_t pid[3];

	for (round = 0; round < ROUNDS && !(out && home); round++) {
		memset((void *)self->said, 0, WORDS * sizeof(*self->said));
		trace_clear();
		for (i = 0; i < ARRAY_SIZE(pid); i++) {
			pid[i] = fork();
			ASSERT_LE(0, pid[i]);
			if (pid[i] == 0)
				_exit(i == 0 ? large(self, size) :
				      beside(self, i == 1 ? BEGIN : FREED, size));
		}
		EXPECT_TRUE(kfd_becomes(&self->said[HAS], 1, TIMEOUT_MS));
		EXPECT_TRUE(kfd_becomes(&self->said[READY], 2, TIMEOUT_MS));
		ASSERT_EQ(0, kfd_alloc_at(&self->dev, KFD_ALLOC_VRAM, GPU_VA, self->all / 2,
					  &handle));
		EXPECT_EQ(0, exit_status(pid[1]));
		self->said[BEGIN] = 1;
		self->said[FREED] = 1;
		EXPECT_EQ(0, kfd_free(self->dev.fd, handle));
		EXPECT_EQ(0, exit_status(pid[2]));
		EXPECT_EQ(0, exit_status(pid[0]));
		EXPECT_TRUE(was_before("rkfd_evict", pid[0], "rkfd_restore", pid[0]));
		out += was_before("rkfd_unmap", pid[1], "rkfd_evict", pid[0]);
		home += was_before("rkfd_unmap", pid[2], "rkfd_restore", pid[0]);
	}
	TH_LOG("in %u rounds %u were faster than it went, %u than it came", round, out, home);
	EXPECT_LT(0, out);
	EXPECT_LT(0, home);
}

/* In a child: has a compute queue that hangs, and a buffer. */
static int hangs(FIXTURE_DATA(strangers) *self)
{
	const unsigned long long before = model_count("cp", "hangs");
	struct kfd_compute queue;
	struct kfd_save save;
	struct kfd_dev dev;
	uint64_t handle;

	if (kfd_open(&dev) || kfd_save_create(&dev, &save) ||
	    kfd_compute_create(&dev, &queue, &save, false, RING) ||
	    kfd_alloc_at(&dev, KFD_ALLOC_VRAM, GPU_VA, MIB, &handle) ||
	    kfd_map(dev.fd, handle, dev.gpu_id))
		return 1;
	if (!model_command("hang-queue 1") || kfd_compute_works(&queue, 1) ||
	    !model_exceeds("cp", "hangs", before))
		return 2;
	self->said[READY] = 1;
	hear(self, END);
	return 0;
}

/* In a child: has most of the VRAM that the hung process has left, in pieces. */
static int has_much(FIXTURE_DATA(strangers) *self)
{
	struct kfd_dev dev;
	int err = kfd_open(&dev);
	uint64_t at;

	for (at = 0; !err && at < self->all - LEFT; at += PIECE)
		err = alloc(&dev, GPU_VA + at, PIECE);
	if (!err)
		err = little(&dev, KFD_PAGE);
	self->said[HAS] = 1;
	hear(self, END);
	return err;
}

static int wants_more(const FIXTURE_DATA(strangers) *self)
{
	struct kfd_dev dev;
	int err;

	hear(self, HAS);
	err = kfd_open(&dev);
	return err ? err : little(&dev, LEFT / 2);
}

/*
 * A process is to make room, and its queue does not leave the hardware. Other processes get the
 * free VRAM, and a request for more is served by those.
 */
TEST_F(strangers, beside_a_hang)
{
	unsigned int round, got = 0, made_room = 0;
	pid_t hung, taker, has, wants;
	char text[64];

	if (!model_present())
		SKIP(return, "needs the device model");
	for (round = 0; round < ROUNDS && !(got && made_room); round++) {
		memset((void *)self->said, 0, WORDS * sizeof(*self->said));
		trace_clear();
		hung = fork();
		ASSERT_LE(0, hung);
		if (hung == 0)
			_exit(hangs(self));
		EXPECT_TRUE(kfd_becomes(&self->said[READY], 1, TIMEOUT_MS));
		taker = fork();
		ASSERT_LE(0, taker);
		if (taker == 0)
			_exit(kfd_take_vram(OTHER_VA, 0));
		snprintf(text, sizeof(text), "pid=%d ", hung);
		EXPECT_TRUE(trace_wait("rkfd_queue_evict", text, 1, TIMEOUT_MS));
		has = fork();
		ASSERT_LE(0, has);
		if (has == 0)
			_exit(has_much(self));
		wants = fork();
		ASSERT_LE(0, wants);
		if (wants == 0)
			_exit(wants_more(self));
		EXPECT_EQ(0, exit_status(wants));
		EXPECT_EQ(0, exit_status(taker));
		self->said[END] = 1;
		EXPECT_EQ(0, exit_status(has));
		EXPECT_EQ(0, exit_status(hung));
		got += was_before("rkfd_unmap", has, "rkfd_unmap", hung);
		made_room += was_before("rkfd_evict", has, "rkfd_unmap", hung) &&
			     was_before("rkfd_unmap", wants, "rkfd_unmap", hung);
	}
	TH_LOG("in %u rounds %u got what there was, %u what others had", round, got, made_room);
	EXPECT_LT(0, got);
	EXPECT_LT(0, made_room);
}

/* In a child: has most of VRAM, and always work there. */
static int has_work(FIXTURE_DATA(strangers) *self)
{
	const uint64_t size = self->all / 4 * 3 / PIECE * PIECE;
	struct kfd_queue queue;
	struct kfd_dev dev;
	uint64_t handle;
	int err;

	if (kfd_open(&dev) || kfd_queue_create(&dev, &queue, RING) ||
	    kfd_alloc_at(&dev, KFD_ALLOC_VRAM, GPU_VA, size, &handle) ||
	    kfd_map(dev.fd, handle, dev.gpu_id))
		return 1;
	do {
		err = kfd_queue_fill(&queue, GPU_VA, 1, PIECE, TIMEOUT_MS);
		self->said[HAS] = 1;
	} while (!err && !self->said[END]);
	return err;
}

/* A thread that allocates VRAM for which another process has to make room. */
struct allocator {
	const struct kfd_dev *dev;
	uint64_t size;
	volatile unsigned int calls;	/* odd during a call */
	volatile bool stop;
	volatile int err;
};

static void *allocate_and_free(void *arg)
{
	struct allocator *a = arg;
	uint64_t handle;

	while (!a->stop && !a->err) {
		a->calls++;
		a->err = kfd_alloc_at(a->dev, KFD_ALLOC_VRAM, OTHER_VA, a->size, &handle);
		a->calls++;
		if (!a->err)
			a->err = kfd_free(a->dev->fd, handle);
	}
	return NULL;
}

/* Queries of the process's memory do not wait while another of its threads waits for VRAM. */
TEST_F(strangers, queries_beside_an_allocation)
{
	struct allocator a = { .dev = &self->dev, .size = self->all / 2 };
	const uint64_t end = kfd_now_ms() + TIMEOUT_MS;
	unsigned int call, during = 0, most = 0, last = 0;
	void *mem = kfd_reserve(MIB, MIB);
	uint32_t value = 0;
	pthread_t thread;
	pid_t pid;

	ASSERT_EQ(mem, anonymous(mem, MIB, PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, svm_set(self->dev.fd, mem, MIB, SVM_GRANULARITY, 9));
	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0)
		_exit(has_work(self));
	EXPECT_TRUE(kfd_becomes(&self->said[HAS], 1, TIMEOUT_MS));
	ASSERT_EQ(0, pthread_create(&thread, NULL, allocate_and_free, &a));
	while (a.calls < 10 && !a.err && kfd_now_ms() < end) {
		call = a.calls;
		EXPECT_EQ(0, svm_get(self->dev.fd, mem, MIB, SVM_GRANULARITY, &value));
		during = call == last ? during + 1 : 0;
		last = call;
		if (call % 2 && call == a.calls && during > most)
			most = during;
		/* The allocation takes the same lock for a look. */
		usleep(1000);
	}
	a.stop = true;
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(0, a.err);
	self->said[END] = 1;
	EXPECT_EQ(0, exit_status(pid));
	TH_LOG("%u queries beside one allocation, of %u", most, a.calls / 2);
	/* One may come before the allocation waits. */
	EXPECT_LT(10, most);
}

KFD_HARNESS_MAIN
