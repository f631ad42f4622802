// SPDX-License-Identifier: GPL-2.0
/*
 * Others are moved for somebody no further than that helps. Wants a device with little VRAM.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "kfd_harness.h"
#include "kfd_share.h"
#include "trace.h"

#define MIB		(1ull << 20)
#define RING		(64u * 1024)
#define TIMEOUT_MS	KFD_HANG_MS
/* Addresses that only the GPU uses. */
#define GPU_VA		(1ull << 40)
#define OTHER_VA	(2ull << 40)
/* No run of free VRAM is so long. */
#define RUN		(64 * MIB)

/* What processes tell each other. */
enum { READY, BEGIN, END };

FIXTURE(strangers)
{
	struct kfd_dev dev;
	volatile uint32_t *said;
};

FIXTURE_SETUP(strangers)
{
	ASSERT_EQ(0, kfd_open(&self->dev));
	self->said = kfd_share();
	ASSERT_NE(NULL, (void *)self->said);
	ASSERT_TRUE(trace_open("strangers"));
	ASSERT_TRUE(trace_enable("rkfd/rkfd_evict"));
	ASSERT_TRUE(trace_enable("rkfd/rkfd_restore"));
}

FIXTURE_TEARDOWN(strangers)
{
	trace_close();
	kfd_close(&self->dev);
}

/* In a child: waits until somebody says it. */
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

/* Half of VRAM is free, in holes of a MiB. False if it is not to be had. */
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

/* Who asks for VRAM in one run, and there is none, has it in pieces, as with amdgpu. Nobody is moved out for that. */
TEST_F_TIMEOUT(strangers, no_run_is_long_enough, 300)
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
	EXPECT_EQ(0, kfd_alloc_at(dev, KFD_ALLOC_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_CONTIGUOUS, OTHER_VA,
				  RUN, &handle));
	EXPECT_EQ(0, kfd_map(dev->fd, handle, dev->gpu_id));
	snprintf(text, sizeof(text), "pid=%d ", pid);
	EXPECT_EQ(0, trace_count("rkfd_evict", text));
	self->said[END] = 1;
	EXPECT_EQ(0, exit_status(pid));
}

/* Who had it in one run, and was moved out, comes home in pieces, too. */
TEST_F_TIMEOUT(strangers, comes_home_in_pieces, 300)
{
	char text[64];
	pid_t pid = fork();

	ASSERT_LE(0, pid);
	if (pid == 0) {
		struct kfd_queue queue;
		struct kfd_dev dev;
		uint64_t handle;

		if (kfd_open(&dev) || kfd_queue_create(&dev, &queue, RING) ||
		    kfd_alloc_at(&dev, KFD_ALLOC_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_CONTIGUOUS, OTHER_VA,
				 RUN, &handle) ||
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

KFD_HARNESS_MAIN
