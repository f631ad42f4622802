/* SPDX-License-Identifier: GPL-2.0 */
/*
 * gpu_scheduler:drm_run_job, with the fields it had up to Linux 6.16, for the jobs that rkfd runs.
 * Since then the scheduler's own event is drm_sched_job_run, which exists beside this one.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM gpu_scheduler

#if !defined(RKFD_DRM_RUN_JOB_H) || defined(TRACE_HEADER_MULTI_READ)
#define RKFD_DRM_RUN_JOB_H

#include <drm/gpu_scheduler.h>
#include <drm/spsc_queue.h>
#include <linux/tracepoint.h>

TRACE_EVENT(drm_run_job,
	TP_PROTO(struct drm_sched_job *job, struct drm_sched_entity *entity, u64 id),
	TP_ARGS(job, entity, id),
	TP_STRUCT__entry(
		__field(struct drm_sched_entity *, entity)
		__field(struct dma_fence *, fence)
		__string(name, job->sched->name)
		__field(u64, id)
		__field(u32, job_count)
		__field(int, hw_job_count)
	),
	TP_fast_assign(
		__entry->entity = entity;
		__entry->fence = &job->s_fence->finished;
		__assign_str(name);
		__entry->id = id;
		__entry->job_count = spsc_queue_count(&entity->job_queue);
		__entry->hw_job_count = atomic_read(&job->sched->credit_count);
	),
	TP_printk("entity=%p, id=%llu, fence=%p, ring=%s, job count:%u, hw job count:%d",
		  __entry->entity, __entry->id, __entry->fence, __get_str(name),
		  __entry->job_count, __entry->hw_job_count)
);

#endif /* RKFD_DRM_RUN_JOB_H */

#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE rkfd_drm_run_job
#include <trace/define_trace.h>
