// SPDX-License-Identifier: GPL-2.0
/* The module's trace events, and functions that fire them for Rust. */
#include "rkfd_shims.h"

#define CREATE_TRACE_POINTS
#include "rkfd_trace.h"
#include "rkfd_drm_run_job.h"

void rkfd_trace_drm_run_job(struct drm_sched_job *job,
			    struct drm_sched_entity *entity, u64 id)
{
	trace_drm_run_job(job, entity, id);
}

void rkfd_trace_ioctl(u32 pid, u32 nr, int error)
{
	trace_rkfd_ioctl(pid, nr, error);
}

void rkfd_trace_queue_create(u32 pid, u32 queue, u32 engine, u64 ring, u64 size)
{
	trace_rkfd_queue_create(pid, queue, engine, ring, size);
}

void rkfd_trace_queue_destroy(u32 pid, u32 queue)
{
	trace_rkfd_queue_destroy(pid, queue);
}

void rkfd_trace_queue_evict(u32 pid, u32 pasid, u32 gpu, u32 reason)
{
	trace_rkfd_queue_evict(pid, pasid, gpu, reason);
}

void rkfd_trace_queue_restore(u32 pid, u32 pasid, u32 gpu, u32 reason)
{
	trace_rkfd_queue_restore(pid, pasid, gpu, reason);
}

void rkfd_trace_evict(u32 pid, u64 size)
{
	trace_rkfd_evict(pid, size);
}

void rkfd_trace_restore(u32 pid, u64 size)
{
	trace_rkfd_restore(pid, size);
}

void rkfd_trace_doorbell(u32 pid, u32 queue, u64 wptr)
{
	trace_rkfd_doorbell(pid, queue, wptr);
}

void rkfd_trace_sdma_span(u32 pid, u32 queue, u64 from, u64 to, u64 within_ns)
{
	trace_rkfd_sdma_span(pid, queue, from, to, within_ns);
}

void rkfd_trace_map(u32 pid, u64 va, u64 size, u64 entries)
{
	trace_rkfd_map(pid, va, size, entries);
}

void rkfd_trace_unmap(u32 pid, u64 va, u64 size, u64 entries)
{
	trace_rkfd_unmap(pid, va, size, entries);
}

void rkfd_trace_tlb_flush(u32 vmid, u32 kind)
{
	trace_rkfd_tlb_flush(vmid, kind);
}

void rkfd_trace_interrupt(u32 client, u32 source, u32 ring, u32 vmid, u32 pasid,
			  u32 data0)
{
	trace_rkfd_interrupt(client, source, ring, vmid, pasid, data0);
}

void rkfd_trace_shader_interrupt(u32 pasid, u32 vmid, u32 data, bool priv,
				 bool error, u32 place)
{
	trace_rkfd_shader_interrupt(pasid, vmid, data, priv, error, place);
}

bool rkfd_trace_wave_save_enabled(void)
{
	return trace_rkfd_wave_save_enabled();
}

void rkfd_trace_wave_save(u32 pid, u32 queue, u32 waves, u32 stack)
{
	trace_rkfd_wave_save(pid, queue, waves, stack);
}

void rkfd_trace_wave_restore(u32 pid, u32 queue, u32 waves, u32 stack)
{
	trace_rkfd_wave_restore(pid, queue, waves, stack);
}

void rkfd_trace_vm_fault(u32 pasid, u32 pid, u64 addr, u32 status)
{
	trace_rkfd_vm_fault(pasid, pid, addr, status);
}
