// SPDX-License-Identifier: GPL-2.0
/* Sync objects, timelines and sync files, as jobs of the render node wait for and signal them. */
#include <linux/sync_file.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cs_fixture.h"
#include "syncobj.h"

/* Much longer than anything here takes. */
#define LONG		(now_ns() + 5000 * MS)
#define SOON		(now_ns() + 50 * MS)

/* A job of one IB, at @at of the IB buffer, for @ring; it is submitted with @job. */
static void start_job(struct job *job, const struct cs_bo *ibs, size_t at, uint32_t ring,
		      const struct packets *p, struct drm_amdgpu_cs_chunk_ib *ib)
{
	*ib = ib_at(ibs, at, p);
	ib->ring = ring;
	job->count = 0;
	add_chunk(job, AMDGPU_CHUNK_ID_IB, ib, sizeof(*ib));
}

/* A job that waits for the word, and one of the other ring that stores @value. */
#define TWO_JOBS(value)									\
	const int drm_fd = self->dev.drm_fd;						\
	volatile uint32_t *word = self->data.cpu + WORD / 4;				\
	volatile uint32_t *stored = self->data.cpu;					\
	struct drm_amdgpu_cs_chunk_ib first_ib, second_ib;				\
	struct packets wait = { .count = 0 }, store = { .count = 0 };			\
	struct job first, second;							\
											\
	sdma_wait_memory(&wait, DATA_VA + WORD, 1);					\
	fill(&store, DATA_VA, value);							\
	start_job(&first, &self->ib, 0, 0, &wait, &first_ib);				\
	start_job(&second, &self->ib, 1024, 1, &store, &second_ib)

TEST_F(cs, binary)
{
	struct drm_get_cap cap = { .capability = DRM_CAP_SYNCOBJ };
	struct drm_amdgpu_cs_chunk_sem sem;
	uint32_t unset;

	TWO_JOBS(9);
	ASSERT_EQ(0, kfd_ioctl(drm_fd, DRM_IOCTL_GET_CAP, &cap));
	EXPECT_EQ(1, cap.value);
	ASSERT_EQ(0, syncobj_make(drm_fd, 0, &unset));
	ASSERT_EQ(0, syncobj_make(drm_fd, 0, &sem.handle));
	add_chunk(&first, AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &sem, sizeof(sem));
	add_chunk(&second, AMDGPU_CHUNK_ID_SYNCOBJ_IN, &sem, sizeof(sem));

	/* Without a fence yet. */
	EXPECT_EQ(EINVAL, submit(drm_fd, self->ctx, 0, &second, NULL));
	ASSERT_EQ(0, submit(drm_fd, self->ctx, 0, &first, NULL));
	ASSERT_EQ(0, submit(drm_fd, self->ctx, 0, &second, NULL));
	EXPECT_EQ(ETIME, syncobj_wait(drm_fd, sem.handle, SOON));
	EXPECT_EQ(0, *stored);
	*word = 1;
	EXPECT_EQ(0, syncobj_wait(drm_fd, sem.handle, LONG));
	EXPECT_EQ(0, wait_ring(drm_fd, self->ctx, 1, 1, FOREVER, NULL));
	EXPECT_EQ(9, *stored);

	sem.handle = UNKNOWN;
	EXPECT_EQ(ENOENT, submit(drm_fd, self->ctx, 0, &second, NULL));
	EXPECT_EQ(EINVAL, submit(drm_fd, self->ctx, 0, &first, NULL));
	sem.handle = unset;
	add_chunk(&first, AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &sem, sizeof(sem));
	EXPECT_EQ(EINVAL, submit(drm_fd, self->ctx, 0, &first, NULL));
	/* What was refused has left no fence. */
	EXPECT_EQ(EINVAL, syncobj_wait(drm_fd, unset, SOON));
}

TEST_F(cs, timeline)
{
	struct drm_get_cap cap = { .capability = DRM_CAP_SYNCOBJ_TIMELINE };
	struct drm_amdgpu_cs_chunk_syncobj at[2] = { { .point = 1 }, { .point = 4 } };
	struct drm_amdgpu_cs_chunk_syncobj last;
	uint64_t point = 77;

	TWO_JOBS(8);
	ASSERT_EQ(0, kfd_ioctl(drm_fd, DRM_IOCTL_GET_CAP, &cap));
	EXPECT_EQ(1, cap.value);
	ASSERT_EQ(0, syncobj_make(drm_fd, 0, &at[0].handle));
	at[1].handle = at[0].handle;
	last = at[1];
	add_chunk(&first, AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL, at, sizeof(at));
	add_chunk(&second, AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT, &last, sizeof(last));
	EXPECT_EQ(EINVAL, submit(drm_fd, self->ctx, 0, &second, NULL));
	ASSERT_EQ(0, submit(drm_fd, self->ctx, 0, &first, NULL));
	/* A point that is still to come. */
	last.point = 5;
	EXPECT_EQ(EINVAL, submit(drm_fd, self->ctx, 0, &second, NULL));
	last.flags = ~0u;
	EXPECT_EQ(EINVAL, submit(drm_fd, self->ctx, 0, &second, NULL));
	last = at[1];
	ASSERT_EQ(0, submit(drm_fd, self->ctx, 0, &second, NULL));
	ASSERT_EQ(0, syncobj_query(drm_fd, last.handle, &point));
	EXPECT_EQ(0, point);
	EXPECT_EQ(ETIME, syncobj_wait_point(drm_fd, last.handle, 1, SOON));
	EXPECT_EQ(0, *stored);
	*word = 1;
	EXPECT_EQ(0, syncobj_wait_point(drm_fd, last.handle, 4, LONG));
	ASSERT_EQ(0, syncobj_query(drm_fd, last.handle, &point));
	EXPECT_EQ(4, point);
	EXPECT_EQ(0, wait_ring(drm_fd, self->ctx, 1, 1, FOREVER, NULL));
	EXPECT_EQ(8, *stored);

	/* The points of a job that is refused are not there. */
	at[0].point = 5;
	at[1].handle = UNKNOWN;
	EXPECT_EQ(EINVAL, submit(drm_fd, self->ctx, 0, &first, NULL));
	ASSERT_EQ(0, syncobj_query(drm_fd, last.handle, &point));
	EXPECT_EQ(4, point);
	EXPECT_EQ(EINVAL, syncobj_wait_point(drm_fd, last.handle, 5, SOON));
}

struct signaler {
	int drm_fd;
	uint32_t handle;
};

static void *signal_later(void *data)
{
	const struct signaler *s = data;

	usleep(100000);
	return (void *)(intptr_t)syncobj_signal_point(s->drm_fd, s->handle, 3);
}

/* The call waits for a point that another thread is about to make. */
TEST_F(cs, waits_for_submit)
{
	struct drm_amdgpu_cs_chunk_syncobj at = {
		.flags = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT,
		.point = 3,
	};
	struct signaler signaler;
	uint64_t before, handle;
	pthread_t thread;
	void *result;

	TWO_JOBS(7);
	*word = 1;
	ASSERT_EQ(0, syncobj_make(drm_fd, 0, &at.handle));
	signaler = (struct signaler){ .drm_fd = drm_fd, .handle = at.handle };
	add_chunk(&second, AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT, &at, sizeof(at));
	before = now_ns();
	ASSERT_EQ(0, pthread_create(&thread, NULL, signal_later, &signaler));
	ASSERT_EQ(0, submit(drm_fd, self->ctx, 0, &second, &handle));
	EXPECT_LE(before + 90 * MS, now_ns());
	ASSERT_EQ(0, pthread_join(thread, &result));
	EXPECT_EQ(NULL, result);
	EXPECT_EQ(0, wait_ring(drm_fd, self->ctx, 1, handle, FOREVER, NULL));
	EXPECT_EQ(7, *stored);
	(void)first;
}

/* A job waits for another one's start alone. */
TEST_F(cs, after_start)
{
	struct drm_amdgpu_cs_chunk_dep after = {
		.ip_type = AMDGPU_HW_IP_DMA,
		.ctx_id = self->ctx,
		.handle = 1,
	};
	uint64_t handle;
	bool busy = true;

	TWO_JOBS(6);
	add_chunk(&second, AMDGPU_CHUNK_ID_SCHEDULED_DEPENDENCIES, &after, sizeof(after));
	EXPECT_EQ(EINVAL, submit(drm_fd, self->ctx, 0, &second, NULL));
	ASSERT_EQ(0, submit(drm_fd, self->ctx, 0, &first, &handle));
	ASSERT_EQ(1, handle);
	ASSERT_EQ(0, submit(drm_fd, self->ctx, 0, &second, &handle));
	EXPECT_EQ(0, wait_ring(drm_fd, self->ctx, 1, handle, LONG, &busy));
	EXPECT_FALSE(busy);
	EXPECT_EQ(6, *stored);
	EXPECT_EQ(0, wait_ring(drm_fd, self->ctx, 0, 1, 0, &busy));
	EXPECT_TRUE(busy);
	*word = 1;
	EXPECT_EQ(0, wait_done(drm_fd, self->ctx, 1));
}

static int fence_as(int drm_fd, uint32_t ctx, uint64_t job, uint32_t what, uint32_t *handle)
{
	union drm_amdgpu_fence_to_handle args = {
		.in = {
			.fence = { .ctx_id = ctx, .ip_type = AMDGPU_HW_IP_DMA, .seq_no = job },
			.what = what,
		},
	};
	int err = kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_FENCE_TO_HANDLE, &args);

	*handle = args.out.handle;
	return err;
}

static bool is_readable(int fd, int ms)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	return poll(&poll_fd, 1, ms) == 1;
}

/* The end of a job in all forms that it can have. */
TEST_F(cs, fence_to_handle)
{
	struct sync_file_info info = { .flags = 0 };
	uint32_t object, file, sync, copy = 0, imported;
	struct drm_amdgpu_cs_chunk_sem sem;
	uint64_t handle;
	int out;

	TWO_JOBS(5);
	EXPECT_EQ(EINVAL, fence_as(drm_fd, self->ctx, 1, AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ, &object));
	ASSERT_EQ(0, submit(drm_fd, self->ctx, 0, &first, &handle));
	EXPECT_EQ(EINVAL, fence_as(drm_fd, self->ctx, handle, 3, &object));
	EXPECT_EQ(EINVAL, fence_as(drm_fd, UNKNOWN, handle, 0, &object));
	ASSERT_EQ(0, fence_as(drm_fd, self->ctx, handle, AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ,
			      &object));
	ASSERT_EQ(0, fence_as(drm_fd, self->ctx, handle, AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ_FD,
			      &file));
	ASSERT_EQ(0, fence_as(drm_fd, self->ctx, handle, AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD,
			      &sync));

	ASSERT_EQ(0, syncobj_from_fd(drm_fd, (int)file, 0, &copy));
	ASSERT_EQ(0, syncobj_make(drm_fd, 0, &imported));
	ASSERT_EQ(0, syncobj_from_fd(drm_fd, (int)sync,
				     DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE, &imported));
	/* The other job waits for the sync file, and tells by another one. */
	sem.handle = imported;
	add_chunk(&second, AMDGPU_CHUNK_ID_SYNCOBJ_IN, &sem, sizeof(sem));
	add_chunk(&second, AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &sem, sizeof(sem));
	ASSERT_EQ(0, submit(drm_fd, self->ctx, 0, &second, NULL));
	ASSERT_EQ(0, syncobj_to_fd(drm_fd, imported,
				   DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE, &out));

	EXPECT_FALSE(is_readable((int)sync, 50));
	EXPECT_FALSE(is_readable(out, 0));
	ASSERT_EQ(0, kfd_ioctl((int)sync, SYNC_IOC_FILE_INFO, &info));
	EXPECT_EQ(0, info.status);
	EXPECT_EQ(1, info.num_fences);
	EXPECT_EQ(ETIME, syncobj_wait(drm_fd, object, 0));
	EXPECT_EQ(0, *stored);
	*word = 1;
	EXPECT_TRUE(is_readable(out, 5000));
	EXPECT_TRUE(is_readable((int)sync, 0));
	EXPECT_EQ(5, *stored);
	info = (struct sync_file_info){ .flags = 0 };
	ASSERT_EQ(0, kfd_ioctl((int)sync, SYNC_IOC_FILE_INFO, &info));
	EXPECT_EQ(1, info.status);
	EXPECT_EQ(0, syncobj_wait(drm_fd, object, 0));
	EXPECT_EQ(0, syncobj_wait(drm_fd, copy, 0));

	/* Done long ago, and the last one. */
	start_job(&first, &self->ib, 0, 0, &wait, &first_ib);
	for (int i = 0; i < 40; i++)
		ASSERT_EQ(0, submit(drm_fd, self->ctx, 0, &first, &handle));
	ASSERT_EQ(0, fence_as(drm_fd, self->ctx, 1, AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ, &object));
	EXPECT_EQ(0, syncobj_wait(drm_fd, object, 0));
	ASSERT_EQ(0, fence_as(drm_fd, self->ctx, UINT64_MAX, AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ,
			      &object));
	EXPECT_EQ(0, syncobj_wait(drm_fd, object, LONG));
	EXPECT_EQ(0, wait_done(drm_fd, self->ctx, handle));
	close((int)file);
	close((int)sync);
	close(out);
}

static void *set_later(void *word)
{
	usleep(100000);
	*(volatile uint32_t *)word = 1;
	return NULL;
}

/* The jobs of a context that is freed have some time to end well. */
TEST_F(cs, freed_context)
{
	union drm_amdgpu_ctx free_ctx = {
		.in = { .op = AMDGPU_CTX_OP_FREE_CTX, .ctx_id = self->ctx },
	};
	struct sync_file_info info = { .flags = 0 };
	pthread_t thread;
	uint64_t handle;
	uint32_t sync;

	TWO_JOBS(3);
	ASSERT_EQ(0, submit(drm_fd, self->ctx, 0, &first, &handle));
	ASSERT_EQ(0, fence_as(drm_fd, self->ctx, handle, AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD,
			      &sync));
	ASSERT_EQ(0, pthread_create(&thread, NULL, set_later, (void *)word));
	ASSERT_EQ(0, kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_CTX, &free_ctx));
	EXPECT_EQ(EINVAL, submit(drm_fd, self->ctx, 0, &second, NULL));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_TRUE(is_readable((int)sync, 5000));
	ASSERT_EQ(0, kfd_ioctl((int)sync, SYNC_IOC_FILE_INFO, &info));
	EXPECT_EQ(1, info.status);
	EXPECT_EQ(0, *stored);
	close((int)sync);
}

/* Submits a job that waits for the fence in the object @in, and puts its own into @out. */
static int in_between(struct kfd_dev *dev, int in, int out)
{
	struct drm_amdgpu_cs_chunk_sem before, after;
	struct packets p = { .count = 0 };
	struct drm_amdgpu_cs_chunk_ib ib;
	struct job job = { .count = 0 };
	struct cs_bo bo;
	uint32_t ctx;
	int err;

	before.handle = 0;
	after.handle = 0;
	err = kfd_open_render(dev, &dev->drm_fd) ?:
	      make_bo(dev->drm_fd, AMDGPU_GEM_DOMAIN_GTT, IB_SIZE, IB_VA, &bo) ?:
	      make_ctx(dev->drm_fd, &ctx) ?:
	      syncobj_from_fd(dev->drm_fd, in, 0, &before.handle) ?:
	      syncobj_from_fd(dev->drm_fd, out, 0, &after.handle);
	if (err)
		return err;
	fill(&p, IB_VA + IB_SIZE - 4, 1);
	ib = ib_at(&bo, 0, &p);
	add_chunk(&job, AMDGPU_CHUNK_ID_IB, &ib, sizeof(ib));
	add_chunk(&job, AMDGPU_CHUNK_ID_SYNCOBJ_IN, &before, sizeof(before));
	add_chunk(&job, AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &after, sizeof(after));
	return submit(dev->drm_fd, ctx, 0, &job, NULL);
}

/* A process dies with a job that waits for another one's: those that wait for it go on. */
TEST_F(cs, killed)
{
	struct drm_amdgpu_cs_chunk_sem before, after;
	int in, out, ready[2], status;
	char byte;
	pid_t pid;

	TWO_JOBS(4);
	ASSERT_EQ(0, syncobj_make(drm_fd, 0, &before.handle));
	ASSERT_EQ(0, syncobj_make(drm_fd, 0, &after.handle));
	ASSERT_EQ(0, syncobj_to_fd(drm_fd, before.handle, 0, &in));
	ASSERT_EQ(0, syncobj_to_fd(drm_fd, after.handle, 0, &out));
	ASSERT_EQ(0, pipe(ready));
	add_chunk(&first, AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &before, sizeof(before));
	ASSERT_EQ(0, submit(drm_fd, self->ctx, 0, &first, NULL));

	pid = fork();
	if (pid == 0) {
		struct kfd_dev dev = self->dev;

		byte = (char)in_between(&dev, in, out);
		if (write(ready[1], &byte, 1) == 1)
			pause();
		_exit(1);
	}
	ASSERT_LT(0, pid);
	ASSERT_EQ(1, read(ready[0], &byte, 1));
	ASSERT_EQ(0, byte);
	add_chunk(&second, AMDGPU_CHUNK_ID_SYNCOBJ_IN, &after, sizeof(after));
	ASSERT_EQ(0, submit(drm_fd, self->ctx, 0, &second, NULL));
	EXPECT_EQ(ETIME, syncobj_wait(drm_fd, after.handle, SOON));
	ASSERT_EQ(0, kill(pid, SIGKILL));
	/* The job ends when the job before it has ended. */
	EXPECT_EQ(ETIME, syncobj_wait(drm_fd, after.handle, SOON));
	*word = 1;
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, syncobj_wait(drm_fd, after.handle, LONG));
	EXPECT_EQ(0, wait_ring(drm_fd, self->ctx, 1, 1, FOREVER, NULL));
	EXPECT_EQ(4, *stored);
	EXPECT_EQ(0, wait_done(drm_fd, self->ctx, 1));
	close(in);
	close(out);
	close(ready[0]);
	close(ready[1]);
}

KFD_HARNESS_MAIN
