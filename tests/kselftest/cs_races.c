// SPDX-License-Identifier: GPL-2.0
/*
 * Threads submit jobs to the render node while others free the contexts, close the file, kill the
 * process or take the GPU away.
 */
#include <linux/sync_file.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cs.h"
#include "kfd_harness.h"
#include "objects.h"
#include "syncobj.h"

#define DRIVER		"/sys/bus/pci/drivers/rkfd"
#define IB_VA		0x10000000ull
#define DATA_VA		0x20000000ull
#define IB_SIZE		(16u * 1024)
#define DATA_SIZE	8192u
/* The words that jobs wait for, one of each thread, in the second page. */
#define WORD		4096u
#define MS		1000000ull
#define CONTEXTS	4u
#define THREADS		3u
#define CHILDREN	3u
/* Bytes of the buffer of IBs for each thread, and where its second IB is. */
#define IBS		2048u
#define SECOND		1024u
/* Jobs that a process has submitted when something happens to it. */
#define BEGUN		20u

/* An open file, whose contexts several threads use. */
struct client {
	int drm_fd;
	struct cs_bo ib, data;
	volatile uint32_t ctx[CONTEXTS];
	uint32_t sync;
	volatile bool stop;
	volatile int error;		/* one that no call may have */
	volatile uint32_t *jobs;	/* submitted by the process */
};

struct submitter {
	struct client *client;
	unsigned int number, times;
	pthread_t thread;
};

/* The errors of calls for contexts that were freed, and for sync objects without a fence. */
static bool is_expected(int err)
{
	return !err || err == EINVAL || err == ENOENT || err == ECANCELED;
}

static uint64_t word_of(unsigned int number)
{
	return WORD + 64ull * number;
}

static void set_word(const struct client *c, unsigned int number, uint32_t value)
{
	if (c->data.cpu)
		*(volatile uint32_t *)(c->data.cpu + word_of(number) / 4) = value;
}

/* A job at random of the thread @number. */
static int submit_one(struct client *c, unsigned int number, unsigned int *seed)
{
	struct drm_amdgpu_bo_list_entry entry = { .bo_handle = c->data.handle };
	struct drm_amdgpu_bo_list_in list = list_of(&entry, 1);
	const unsigned int what = (unsigned int)rand_r(seed);
	struct drm_amdgpu_cs_chunk_sem sem = { .handle = c->sync };
	struct drm_amdgpu_cs_chunk_ib ib = {
		.va_start = IB_VA + IBS * number + (what & 1 ? SECOND : 0),
		.ib_bytes = 32,
		.ip_type = AMDGPU_HW_IP_DMA,
		.ring = what >> 1 & 1,
	};
	struct drm_amdgpu_cs_chunk_dep after = {
		.ip_type = AMDGPU_HW_IP_DMA,
		.ring = what >> 2 & 1,
		.ctx_id = c->ctx[(what >> 3) % CONTEXTS],
		.handle = UINT64_MAX,
	};
	const uint32_t ctx = c->ctx[(what >> 6) % CONTEXTS];
	struct job job = { .count = 0 };
	int err;

	add_chunk(&job, AMDGPU_CHUNK_ID_IB, &ib, sizeof(ib));
	if (what & 1 << 10)
		add_chunk(&job, AMDGPU_CHUNK_ID_DEPENDENCIES, &after, sizeof(after));
	if (what & 1 << 11)
		add_chunk(&job, AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &sem, sizeof(sem));
	if (what & 1 << 12)
		add_chunk(&job, AMDGPU_CHUNK_ID_SYNCOBJ_IN, &sem, sizeof(sem));
	if (what & 1 << 13)
		add_chunk(&job, AMDGPU_CHUNK_ID_BO_HANDLES, &list, sizeof(list));
	/* What the second IB waits for is there while this waits for earlier jobs of the ring. */
	set_word(c, number, 1);
	err = submit(c->drm_fd, ctx, 0, &job, NULL);
	set_word(c, number, 0);
	if (!err)
		__sync_fetch_and_add(c->jobs, 1);
	if (is_expected(err) && what & 1 << 14)
		err = wait_ring(c->drm_fd, ctx, ib.ring, UINT64_MAX, now_ns() + MS, NULL);
	return err;
}

static void *submit_jobs(void *arg)
{
	struct submitter *s = arg;
	struct client *c = s->client;
	unsigned int i, seed = s->number;

	for (i = 0; i < s->times && !c->stop; i++) {
		int err = submit_one(c, s->number, &seed);

		if (!is_expected(err)) {
			c->error = err;
			c->stop = true;
		}
	}
	set_word(c, s->number, 1);
	return NULL;
}

static int free_ctx(int drm_fd, uint32_t ctx)
{
	union drm_amdgpu_ctx args = {
		.in = { .op = AMDGPU_CTX_OP_FREE_CTX, .ctx_id = ctx },
	};

	return kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_CTX, &args);
}

/* Puts new contexts in the places of old ones, which it frees. */
static void *replace_contexts(void *arg)
{
	struct client *c = arg;
	unsigned int seed = 77;

	while (!c->stop) {
		volatile uint32_t *place = &c->ctx[(unsigned int)rand_r(&seed) % CONTEXTS];
		const uint32_t before = *place;
		uint32_t next;
		int err = make_ctx(c->drm_fd, &next);

		if (!err) {
			*place = next;
			err = free_ctx(c->drm_fd, before);
		}
		if (err) {
			c->error = err;
			c->stop = true;
		}
	}
	return NULL;
}

/* With the sync object that @sync_fd describes, or one of its own. */
static int client_open(struct client *c, const struct kfd_dev *dev, int sync_fd,
		       volatile uint32_t *jobs)
{
	unsigned int i;
	int err;

	memset(c, 0, sizeof(*c));
	c->jobs = jobs;
	err = kfd_open_render(dev, &c->drm_fd) ?:
	      make_bo(c->drm_fd, AMDGPU_GEM_DOMAIN_GTT, IB_SIZE, IB_VA, &c->ib) ?:
	      make_bo(c->drm_fd, AMDGPU_GEM_DOMAIN_GTT, DATA_SIZE, DATA_VA, &c->data) ?:
	      (sync_fd < 0 ? syncobj_make(c->drm_fd, 0, &c->sync) :
			     syncobj_from_fd(c->drm_fd, sync_fd, 0, &c->sync));
	if (err)
		return err;
	memset(c->data.cpu, 0, DATA_SIZE);
	for (i = 0; i < THREADS; i++) {
		struct packets store = { .count = 0 }, wait = { .count = 0 };

		fill(&store, DATA_VA + 64 * i, i);
		ib_at(&c->ib, IBS * i, &store);
		sdma_wait_memory(&wait, DATA_VA + word_of(i), 1);
		ib_at(&c->ib, IBS * i + SECOND, &wait);
	}
	for (i = 0; i < CONTEXTS && !err; i++) {
		uint32_t ctx;

		err = make_ctx(c->drm_fd, &ctx);
		c->ctx[i] = ctx;
	}
	return err;
}

static void unmap(struct client *c)
{
	munmap(c->ib.cpu, IB_SIZE);
	munmap(c->data.cpu, DATA_SIZE);
	c->ib.cpu = c->data.cpu = NULL;
}

static int start(struct client *c, struct submitter *submitters, unsigned int times)
{
	unsigned int i;
	int err = 0;

	for (i = 0; i < THREADS && !err; i++) {
		submitters[i] = (struct submitter){ .client = c, .number = i, .times = times };
		err = pthread_create(&submitters[i].thread, NULL, submit_jobs, &submitters[i]);
	}
	return err;
}

static void join(struct submitter *submitters)
{
	unsigned int i;

	for (i = 0; i < THREADS; i++)
		pthread_join(submitters[i].thread, NULL);
}

static bool await_jobs(volatile uint32_t *jobs, uint32_t count)
{
	const uint64_t end = kfd_now_ms() + KFD_HANG_MS;

	while (*jobs < count && kfd_now_ms() < end)
		usleep(200);
	return *jobs >= count;
}

/* A process that submits jobs until its file has no GPU any more; it exits with 0 then. */
static void be_busy(const struct kfd_dev *dev, int sync_fd, bool acquires, volatile uint32_t *jobs)
{
	struct submitter submitters[THREADS];
	struct kfd_dev own = *dev;
	struct client c;

	if (client_open(&c, dev, sync_fd, jobs))
		_exit(1);
	if (acquires && (kfd_open_files(&own) || kfd_acquire_vm(own.fd, c.drm_fd, own.gpu_id)))
		_exit(2);
	if (start(&c, submitters, UINT32_MAX))
		_exit(3);
	replace_contexts(&c);
	join(submitters);
	_exit(c.error == ENODEV ? 0 : 100 + c.error % 100);
}

FIXTURE(cs_races)
{
	struct kfd_dev dev;
	char base[OBJECTS_MAX];
	volatile uint32_t *jobs;	/* one word for each process at work */
};

FIXTURE_SETUP(cs_races)
{
	ASSERT_EQ(0, kfd_find_gpu(&self->dev));
	ASSERT_TRUE(objects_base(self->base, 0));
	self->jobs = kfd_share();
	ASSERT_NE(NULL, self->jobs);
}

FIXTURE_TEARDOWN(cs_races)
{
	EXPECT_TRUE(objects_return_to(self->base, KFD_HANG_MS));
}

TEST_F(cs_races, contexts_freed)
{
	struct submitter submitters[THREADS];
	struct drm_amdgpu_cs_chunk_ib ib;
	struct packets p = { .count = 0 };
	pthread_t replacer;
	struct client c;
	uint64_t handle;

	ASSERT_EQ(0, client_open(&c, &self->dev, -1, self->jobs));
	ASSERT_EQ(0, pthread_create(&replacer, NULL, replace_contexts, &c));
	ASSERT_EQ(0, start(&c, submitters, work(1500, 150)));
	join(submitters);
	c.stop = true;
	pthread_join(replacer, NULL);
	EXPECT_EQ(0, c.error);
	EXPECT_NE(0, *self->jobs);
	/* Where no other job stores. */
	fill(&p, DATA_VA + 64 * THREADS, 99);
	ib = ib_at(&c.ib, IBS * THREADS, &p);
	ASSERT_EQ(0, submit_ib(c.drm_fd, c.ctx[0], &ib, &handle));
	EXPECT_EQ(0, wait_done(c.drm_fd, c.ctx[0], handle));
	EXPECT_EQ(99, c.data.cpu[16 * THREADS]);
	unmap(&c);
	close(c.drm_fd);
}

/* A thread closes the file while others are in calls for it. */
TEST_F(cs_races, file_closed)
{
	const unsigned int times = work(30, 6);
	unsigned int i;

	for (i = 0; i < times; i++) {
		struct submitter submitters[THREADS];
		const uint32_t before = *self->jobs;
		pthread_t replacer;
		struct client c;

		ASSERT_EQ(0, client_open(&c, &self->dev, -1, self->jobs));
		/* Nothing is waited for, and no mapping keeps the file. */
		set_word(&c, 0, 1);
		set_word(&c, 1, 1);
		set_word(&c, 2, 1);
		unmap(&c);
		ASSERT_EQ(0, start(&c, submitters, UINT32_MAX));
		ASSERT_EQ(0, pthread_create(&replacer, NULL, replace_contexts, &c));
		EXPECT_TRUE(await_jobs(self->jobs, before + BEGUN));
		close(c.drm_fd);
		join(submitters);
		pthread_join(replacer, NULL);
		EXPECT_EQ(EBADF, c.error);
	}
}

TEST_F(cs_races, killed)
{
	const unsigned int times = work(15, 4);
	unsigned int i;

	for (i = 0; i < times; i++) {
		const uint32_t before = *self->jobs;
		int status;
		pid_t pid;

		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid)
			be_busy(&self->dev, -1, i % 2, self->jobs);
		EXPECT_TRUE(await_jobs(self->jobs, before + BEGUN));
		kill(pid, SIGKILL);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_TRUE(WIFSIGNALED(status)) {
			TH_LOG("exit status %d", WEXITSTATUS(status));
		}
	}
}

/* Jobs of several processes wait for each other's. */
TEST_F(cs_races, unbound)
{
	const unsigned int times = work(4, 2);
	unsigned int i, k;
	char name[64];

	SKIP_ON_AMDKFD("an unbind waits for the processes");
	ASSERT_TRUE(kfd_find_device(name, sizeof(name)));
	for (i = 0; i < times; i++) {
		pid_t pids[CHILDREN];
		int drm_fd, sync_fd, status;
		uint32_t sync;

		ASSERT_EQ(0, kfd_open_render(&self->dev, &drm_fd));
		ASSERT_EQ(0, syncobj_make(drm_fd, 0, &sync));
		ASSERT_EQ(0, syncobj_to_fd(drm_fd, sync, 0, &sync_fd));
		for (k = 0; k < CHILDREN; k++) {
			self->jobs[k] = 0;
			pids[k] = fork();
			ASSERT_LE(0, pids[k]);
			if (!pids[k])
				be_busy(&self->dev, sync_fd, k == 1, &self->jobs[k]);
		}
		/* Of each: one that is still on its way to the GPU would not find it. */
		for (k = 0; k < CHILDREN; k++)
			EXPECT_TRUE(await_jobs(&self->jobs[k], BEGUN));
		ASSERT_EQ(0, kfd_write_file(DRIVER "/unbind", name));
		for (k = 0; k < CHILDREN; k++) {
			ASSERT_EQ(pids[k], waitpid(pids[k], &status, 0));
			EXPECT_EQ(0, status);
		}
		close(sync_fd);
		close(drm_fd);
		ASSERT_EQ(0, kfd_write_file(DRIVER "/bind", name));
		ASSERT_EQ(0, kfd_find_gpu(&self->dev));
	}
}

/* A job of context @i that waits for ever, once the one of the context before it is done. */
static int submit_endless(struct client *c, unsigned int i, uint32_t in)
{
	struct drm_amdgpu_cs_chunk_ib ib = {
		.va_start = IB_VA + SECOND,
		.ib_bytes = 32,
		.ip_type = AMDGPU_HW_IP_DMA,
	};
	struct drm_amdgpu_cs_chunk_dep after = {
		.ip_type = AMDGPU_HW_IP_DMA, .ctx_id = i ? c->ctx[i - 1] : 0, .handle = 1,
	};
	struct drm_amdgpu_cs_chunk_sem sem = { .handle = in };
	struct job job = { .count = 0 };

	add_chunk(&job, AMDGPU_CHUNK_ID_IB, &ib, sizeof(ib));
	if (in)
		add_chunk(&job, AMDGPU_CHUNK_ID_SYNCOBJ_IN, &sem, sizeof(sem));
	else if (i)
		add_chunk(&job, AMDGPU_CHUNK_ID_DEPENDENCIES, &after, sizeof(after));
	return submit(c->drm_fd, c->ctx[i], 0, &job, NULL);
}

static int sync_file_of(struct client *c, unsigned int i, int *fd)
{
	union drm_amdgpu_fence_to_handle args = {
		.in = {
			.fence = {
				.ctx_id = c->ctx[i], .ip_type = AMDGPU_HW_IP_DMA, .seq_no = 1,
			},
			.what = AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD,
		},
	};
	int err = kfd_ioctl(c->drm_fd, DRM_IOCTL_AMDGPU_FENCE_TO_HANDLE, &args);

	*fd = (int)args.out.handle;
	return err;
}

static void *free_first(void *arg)
{
	struct client *c = arg;

	c->error = free_ctx(c->drm_fd, c->ctx[0]);
	return NULL;
}

/*
 * A thread frees a context whose job waits for those of another file, which take two seconds each:
 * an unbind ends these, and does not wait for the thread.
 */
TEST_F(cs_races, unbound_while_a_context_goes)
{
	struct sync_fence_info fence = { 0 };
	struct sync_file_info info = { .num_fences = 1, .sync_fence_info = (uintptr_t)&fence };
	struct client others, own;
	pthread_t thread;
	unsigned int i;
	char name[64];
	int fd;

	SKIP_ON_AMDKFD("an unbind waits for the processes");
	ASSERT_TRUE(kfd_find_device(name, sizeof(name)));
	ASSERT_EQ(0, client_open(&others, &self->dev, -1, self->jobs));
	ASSERT_EQ(0, client_open(&own, &self->dev, -1, self->jobs));
	for (i = 0; i < CONTEXTS; i++)
		ASSERT_EQ(0, submit_endless(&others, i, 0));
	ASSERT_EQ(0, sync_file_of(&others, CONTEXTS - 1, &fd));
	ASSERT_EQ(0, syncobj_from_fd(own.drm_fd, fd,
				     DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE, &own.sync));
	ASSERT_EQ(0, submit_endless(&own, 0, own.sync));
	ASSERT_EQ(0, pthread_create(&thread, NULL, free_first, &own));
	/* First the call itself waits a second for the job. */
	usleep(1500000);
	ASSERT_EQ(0, kfd_write_file(DRIVER "/unbind", name));
	pthread_join(thread, NULL);
	EXPECT_EQ(0, own.error);
	ASSERT_EQ(0, kfd_ioctl(fd, SYNC_IOC_FILE_INFO, &info));
	EXPECT_GT(0, (int)info.status);
	/* It has not had its two seconds. */
	EXPECT_NE(-ETIME, info.status);
	close(fd);
	unmap(&own);
	unmap(&others);
	close(own.drm_fd);
	close(others.drm_fd);
	ASSERT_EQ(0, kfd_write_file(DRIVER "/bind", name));
}

KFD_HARNESS_MAIN
