// SPDX-License-Identifier: GPL-2.0
/* Jobs of the render node: what their submission costs, and the way to their end. */
#include <unistd.h>

#include "bench.h"
#include "cs.h"
#include "tap.h"

#define IB_VA		0x10000000ull
#define DATA_VA		0x20000000ull
#define SIZE		(16u << 10)
#define MANY		100u

struct client {
	struct kfd_dev dev;
	struct cs_bo ib, data;
	struct drm_amdgpu_bo_list_entry entries[MANY];
	uint32_t ctx;
};

static void done(const struct client *c, uint64_t handle)
{
	must(wait_done(c->dev.drm_fd, c->ctx, handle), "wait");
}

/* Times the submission of @job, and of the way to its end. */
static void submissions(const struct client *c, const struct job *job, const char *name,
			const char *whole)
{
	struct samples calls = { .count = 0 }, ends = calls;
	const unsigned int rounds = work(50, 5);
	uint64_t handle;
	unsigned int i;

	must(submit(c->dev.drm_fd, c->ctx, 0, job, &handle), "submit");
	done(c, handle);
	for (i = 0; i < rounds; i++) {
		const unsigned long long t = now_ns();

		must(submit(c->dev.drm_fd, c->ctx, 0, job, &handle), "submit");
		sample(&calls, t);
		done(c, handle);
		sample(&ends, t);
	}
	report(name, 0, &calls);
	if (whole)
		report(whole, 0, &ends);
}

static void with_buffers(struct client *c, struct job *job, uint32_t count, const char *name)
{
	struct drm_amdgpu_bo_list_in list = list_of(c->entries, count);

	job->count = 1;
	add_chunk(job, AMDGPU_CHUNK_ID_BO_HANDLES, &list, sizeof(list));
	submissions(c, job, name, NULL);
	job->count = 1;
}

/* The wait for a job that is done. */
static void waits(const struct client *c)
{
	struct samples s = { .count = 0 };
	const unsigned int rounds = work(100, 10);
	unsigned int i;

	for (i = 0; i < rounds; i++) {
		const unsigned long long t = now_ns();

		done(c, UINT64_MAX);
		sample(&s, t);
	}
	report("wait_cs", 0, &s);
}

/* From a job's submission to the end of the wait for its sync object. */
static void syncobj(const struct client *c, struct job *job)
{
	struct drm_syncobj_create create = { .flags = 0 };
	struct drm_amdgpu_cs_chunk_sem sem;
	struct samples s = { .count = 0 };
	const unsigned int rounds = work(50, 5);
	struct drm_syncobj_wait wait = {
		.timeout_nsec = INT64_MAX,
		.count_handles = 1,
	};
	unsigned int i;

	must(kfd_ioctl(c->dev.drm_fd, DRM_IOCTL_SYNCOBJ_CREATE, &create), "syncobj");
	sem.handle = create.handle;
	wait.handles = (uintptr_t)&sem.handle;
	job->count = 1;
	add_chunk(job, AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &sem, sizeof(sem));
	for (i = 0; i < rounds; i++) {
		const unsigned long long t = now_ns();

		must(submit(c->dev.drm_fd, c->ctx, 0, job, NULL), "submit");
		must(kfd_ioctl(c->dev.drm_fd, DRM_IOCTL_SYNCOBJ_WAIT, &wait), "syncobj wait");
		sample(&s, t);
	}
	report("cs_syncobj_wait", 0, &s);
	job->count = 1;
}

void bench_jobs(void)
{
	static struct client c;
	struct drm_amdgpu_cs_chunk_ib ib;
	struct packets p = { .count = 0 };
	struct job job = { .count = 0 };
	unsigned int i;

	must(kfd_find_gpu(&c.dev), "GPU");
	must(kfd_open_render(&c.dev, &c.dev.drm_fd), "open");
	must(make_ctx(c.dev.drm_fd, &c.ctx), "context");
	must(make_bo(c.dev.drm_fd, AMDGPU_GEM_DOMAIN_GTT, SIZE, IB_VA, &c.ib), "buffer");
	must(make_bo(c.dev.drm_fd, AMDGPU_GEM_DOMAIN_VRAM, SIZE, DATA_VA, &c.data), "buffer");
	c.entries[0].bo_handle = c.data.handle;
	for (i = 1; i < MANY; i++) {
		struct cs_bo bo = { .handle = 0 };

		must(make_bo(c.dev.drm_fd, AMDGPU_GEM_DOMAIN_GTT, SIZE, DATA_VA + i * SIZE, &bo),
		     "buffer");
		munmap(bo.cpu, SIZE);
		c.entries[i].bo_handle = bo.handle;
	}

	sdma_nop(&p, 8);
	ib = ib_at(&c.ib, 0, &p);
	add_chunk(&job, AMDGPU_CHUNK_ID_IB, &ib, sizeof(ib));
	submissions(&c, &job, "cs_empty", "cs_empty_done");
	p.count = 0;
	sdma_copy(&p, DATA_VA + 4096, DATA_VA, 4096);
	ib = ib_at(&c.ib, 0, &p);
	submissions(&c, &job, "cs_copy", "cs_copy_done");
	with_buffers(&c, &job, 1, "cs_bos_1");
	with_buffers(&c, &job, MANY, "cs_bos_100");
	waits(&c);
	syncobj(&c, &job);
	munmap(c.ib.cpu, SIZE);
	munmap(c.data.cpu, SIZE);
	close(c.dev.drm_fd);
}
