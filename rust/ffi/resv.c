// SPDX-License-Identifier: GPL-2.0
/* The fences of shared memory, which loops of macros go through. */
#include <linux/dma-fence-chain.h>
#include <linux/dma-resv.h>
#include <linux/rcupdate.h>
#include <linux/sort.h>

#include <drm/drm_gem.h>
#include <drm/gpu_scheduler.h>

#include "rkfd_shims.h"

static int by_resv(const void *a, const void *b)
{
	const struct drm_gem_object *const *one = a, *const *other = b;

	if ((*one)->resv == (*other)->resv)
		return 0;
	return (*one)->resv < (*other)->resv ? -1 : 1;
}

/* Sorts the objects by the addresses of their reservations. */
void rkfd_gem_sort(struct drm_gem_object **objects, size_t count)
{
	sort(objects, count, sizeof(*objects), by_resv, NULL);
}

/*
 * Whether the fence is the end of a job of @dev that is not done. Until a grace period after that
 * the job's scheduler exists.
 */
static bool is_job_of(struct dma_fence *fence, const struct device *dev)
{
	struct drm_sched_fence *job = to_drm_sched_fence(fence);
	bool is = false;

	if (!job)
		return false;
	rcu_read_lock();
	if (!dma_fence_test_signaled_flag(fence))
		is = job->sched->dev == dev;
	rcu_read_unlock();
	return is;
}

/* Whether nothing is at work on the memory but jobs of @dev, as far as can be seen now. */
bool rkfd_dma_resv_is_idle(struct dma_resv *resv, const struct device *dev)
{
	struct dma_resv_iter cursor;
	struct dma_fence *fence;
	bool is_idle = true;

	dma_resv_iter_begin(&cursor, resv, DMA_RESV_USAGE_BOOKKEEP);
	dma_resv_for_each_fence_unlocked(&cursor, fence) {
		if (!is_job_of(fence, dev) && !dma_fence_is_signaled(fence)) {
			is_idle = false;
			break;
		}
	}
	dma_resv_iter_end(&cursor);
	return is_idle;
}

/* Waits for all jobs of @dev, or for all others. The reservation is locked. */
static long wait_some(struct dma_resv *resv, const struct device *dev, bool jobs, long timeout)
{
	struct dma_resv_iter cursor;
	struct dma_fence *fence;

	dma_resv_for_each_fence(&cursor, resv, DMA_RESV_USAGE_BOOKKEEP, fence) {
		if (is_job_of(fence, dev) != jobs)
			continue;
		timeout = dma_fence_wait_timeout(fence, false, timeout);
		if (timeout <= 0)
			break;
	}
	return timeout;
}

/*
 * Waits at most @timeout for all that is at work on the memory but jobs of @dev; returns the rest
 * of the time, or 0. The reservation is locked.
 */
long rkfd_dma_resv_wait_others(struct dma_resv *resv, const struct device *dev, long timeout)
{
	return wait_some(resv, dev, false, timeout);
}

/* The same for jobs of @dev. */
long rkfd_dma_resv_wait_jobs(struct dma_resv *resv, const struct device *dev, long timeout)
{
	return wait_some(resv, dev, true, timeout);
}

/*
 * Lets a job of @owner wait for all that move, write or read the memory, but not for jobs of the
 * same owner. With @explicit_sync it waits for no jobs of owners at all; jobs without one move
 * memory. The reservation is locked.
 */
int rkfd_sched_job_add_users(struct drm_sched_job *job, struct dma_resv *resv, void *owner,
			     bool explicit_sync)
{
	struct dma_resv_iter cursor;
	struct dma_fence *fence, *part;
	int err;

	dma_resv_for_each_fence(&cursor, resv, DMA_RESV_USAGE_READ, fence) {
		dma_fence_chain_for_each(part, fence) {
			struct drm_sched_fence *other =
				to_drm_sched_fence(dma_fence_chain_contained(part));

			if (other && other->owner && (explicit_sync || other->owner == owner))
				continue;
			/* The job takes over a reference, also if the call fails. */
			err = drm_sched_job_add_dependency(job, dma_fence_get(part));
			dma_fence_put(part);
			if (err)
				return err;
			break;
		}
	}
	return 0;
}
