/* SPDX-License-Identifier: GPL-2.0 */
/* Trace events of the group rkfd. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM rkfd

#if !defined(RKFD_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define RKFD_TRACE_H

#include <linux/tracepoint.h>

/* An ioctl of /dev/kfd that returned an error. */
TRACE_EVENT(rkfd_ioctl,
	TP_PROTO(u32 pid, u32 nr, int error),
	TP_ARGS(pid, nr, error),
	TP_STRUCT__entry(
		__field(u32, pid)
		__field(u32, nr)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->pid = pid;
		__entry->nr = nr;
		__entry->error = error;
	),
	TP_printk("pid=%u nr=0x%02x error=%d", __entry->pid, __entry->nr,
		  __entry->error)
);

TRACE_EVENT(rkfd_queue_create,
	TP_PROTO(u32 pid, u32 queue, u32 engine, u64 ring, u64 size),
	TP_ARGS(pid, queue, engine, ring, size),
	TP_STRUCT__entry(
		__field(u32, pid)
		__field(u32, queue)
		__field(u32, engine)
		__field(u64, ring)
		__field(u64, size)
	),
	TP_fast_assign(
		__entry->pid = pid;
		__entry->queue = queue;
		__entry->engine = engine;
		__entry->ring = ring;
		__entry->size = size;
	),
	TP_printk("pid=%u queue=%u engine=%u ring=0x%llx size=%llu",
		  __entry->pid, __entry->queue, __entry->engine, __entry->ring,
		  __entry->size)
);

TRACE_EVENT(rkfd_queue_destroy,
	TP_PROTO(u32 pid, u32 queue),
	TP_ARGS(pid, queue),
	TP_STRUCT__entry(
		__field(u32, pid)
		__field(u32, queue)
	),
	TP_fast_assign(
		__entry->pid = pid;
		__entry->queue = queue;
	),
	TP_printk("pid=%u queue=%u", __entry->pid, __entry->queue)
);

DECLARE_EVENT_CLASS(rkfd_queues,
	TP_PROTO(u32 pid, u32 pasid, u32 gpu, u32 reason),
	TP_ARGS(pid, pasid, gpu, reason),
	TP_STRUCT__entry(
		__field(u32, pid)
		__field(u32, pasid)
		__field(u32, gpu)
		__field(u32, reason)
	),
	TP_fast_assign(
		__entry->pid = pid;
		__entry->pasid = pasid;
		__entry->gpu = gpu;
		__entry->reason = reason;
	),
	TP_printk("pid=%u pasid=%u gpu=%u reason=%s", __entry->pid,
		  __entry->pasid, __entry->gpu,
		  __print_symbolic(__entry->reason,
				   { 1, "userptr" },
				   { 2, "eviction" }))
);

DEFINE_EVENT(rkfd_queues, rkfd_queue_evict,
	TP_PROTO(u32 pid, u32 pasid, u32 gpu, u32 reason),
	TP_ARGS(pid, pasid, gpu, reason)
);

DEFINE_EVENT(rkfd_queues, rkfd_queue_restore,
	TP_PROTO(u32 pid, u32 pasid, u32 gpu, u32 reason),
	TP_ARGS(pid, pasid, gpu, reason)
);

DECLARE_EVENT_CLASS(rkfd_move,
	TP_PROTO(u32 pid, u64 size),
	TP_ARGS(pid, size),
	TP_STRUCT__entry(
		__field(u32, pid)
		__field(u64, size)
	),
	TP_fast_assign(
		__entry->pid = pid;
		__entry->size = size;
	),
	TP_printk("pid=%u size=%llu", __entry->pid, __entry->size)
);

DEFINE_EVENT(rkfd_move, rkfd_evict,
	TP_PROTO(u32 pid, u64 size),
	TP_ARGS(pid, size)
);

DEFINE_EVENT(rkfd_move, rkfd_restore,
	TP_PROTO(u32 pid, u64 size),
	TP_ARGS(pid, size)
);

TRACE_EVENT(rkfd_doorbell,
	TP_PROTO(u32 pid, u32 queue, u64 wptr),
	TP_ARGS(pid, queue, wptr),
	TP_STRUCT__entry(
		__field(u32, pid)
		__field(u32, queue)
		__field(u64, wptr)
	),
	TP_fast_assign(
		__entry->pid = pid;
		__entry->queue = queue;
		__entry->wptr = wptr;
	),
	TP_printk("pid=%u queue=%u wptr=0x%llx", __entry->pid, __entry->queue,
		  __entry->wptr)
);

TRACE_EVENT(rkfd_sdma_span,
	TP_PROTO(u32 pid, u32 queue, u64 from, u64 to, u64 within_ns),
	TP_ARGS(pid, queue, from, to, within_ns),
	TP_STRUCT__entry(
		__field(u32, pid)
		__field(u32, queue)
		__field(u64, from)
		__field(u64, to)
		__field(u64, within_ns)
	),
	TP_fast_assign(
		__entry->pid = pid;
		__entry->queue = queue;
		__entry->from = from;
		__entry->to = to;
		__entry->within_ns = within_ns;
	),
	TP_printk("pid=%u queue=%u from=0x%llx to=0x%llx within_ns=%llu",
		  __entry->pid, __entry->queue, __entry->from, __entry->to,
		  __entry->within_ns)
);

DECLARE_EVENT_CLASS(rkfd_range,
	TP_PROTO(u32 pid, u64 va, u64 size, u64 entries),
	TP_ARGS(pid, va, size, entries),
	TP_STRUCT__entry(
		__field(u32, pid)
		__field(u64, va)
		__field(u64, size)
		__field(u64, entries)
	),
	TP_fast_assign(
		__entry->pid = pid;
		__entry->va = va;
		__entry->size = size;
		__entry->entries = entries;
	),
	TP_printk("pid=%u va=0x%llx size=%llu entries=%llu", __entry->pid,
		  __entry->va, __entry->size, __entry->entries)
);

DEFINE_EVENT(rkfd_range, rkfd_map,
	TP_PROTO(u32 pid, u64 va, u64 size, u64 entries),
	TP_ARGS(pid, va, size, entries)
);

DEFINE_EVENT(rkfd_range, rkfd_unmap,
	TP_PROTO(u32 pid, u64 va, u64 size, u64 entries),
	TP_ARGS(pid, va, size, entries)
);

TRACE_EVENT(rkfd_tlb_flush,
	TP_PROTO(u32 vmid, u32 kind),
	TP_ARGS(vmid, kind),
	TP_STRUCT__entry(
		__field(u32, vmid)
		__field(u32, kind)
	),
	TP_fast_assign(
		__entry->vmid = vmid;
		__entry->kind = kind;
	),
	TP_printk("vmid=%u kind=%s", __entry->vmid,
		  __print_symbolic(__entry->kind,
				   { 0, "legacy" },
				   { 2, "heavyweight" }))
);

TRACE_EVENT(rkfd_interrupt,
	TP_PROTO(u32 client, u32 source, u32 ring, u32 vmid, u32 pasid, u32 data0),
	TP_ARGS(client, source, ring, vmid, pasid, data0),
	TP_STRUCT__entry(
		__field(u32, client)
		__field(u32, source)
		__field(u32, ring)
		__field(u32, vmid)
		__field(u32, pasid)
		__field(u32, data0)
	),
	TP_fast_assign(
		__entry->client = client;
		__entry->source = source;
		__entry->ring = ring;
		__entry->vmid = vmid;
		__entry->pasid = pasid;
		__entry->data0 = data0;
	),
	TP_printk("client=%u source=%u ring=%u vmid=%u pasid=%u data0=0x%x",
		  __entry->client, __entry->source, __entry->ring,
		  __entry->vmid, __entry->pasid, __entry->data0)
);

TRACE_EVENT(rkfd_shader_interrupt,
	TP_PROTO(u32 pasid, u32 vmid, u32 data, bool priv, bool error, u32 place),
	TP_ARGS(pasid, vmid, data, priv, error, place),
	TP_STRUCT__entry(
		__field(u32, pasid)
		__field(u32, vmid)
		__field(u32, data)
		__field(bool, priv)
		__field(bool, error)
		__field(u32, place)
	),
	TP_fast_assign(
		__entry->pasid = pasid;
		__entry->vmid = vmid;
		__entry->data = data;
		__entry->priv = priv;
		__entry->error = error;
		__entry->place = place;
	),
	TP_printk("pasid=%u vmid=%u %s=0x%x priv=%d se=%u cu=%u simd=%u wave=%u",
		  __entry->pasid, __entry->vmid,
		  __entry->error ? "error" : "message", __entry->data,
		  __entry->priv, __entry->place & 3, __entry->place >> 8 & 15,
		  __entry->place >> 12 & 3, __entry->place >> 16 & 15)
);

DECLARE_EVENT_CLASS(rkfd_waves,
	TP_PROTO(u32 pid, u32 queue, u32 waves, u32 stack),
	TP_ARGS(pid, queue, waves, stack),
	TP_STRUCT__entry(
		__field(u32, pid)
		__field(u32, queue)
		__field(u32, waves)
		__field(u32, stack)
	),
	TP_fast_assign(
		__entry->pid = pid;
		__entry->queue = queue;
		__entry->waves = waves;
		__entry->stack = stack;
	),
	TP_printk("pid=%u queue=%u waves=%u stack=%u", __entry->pid,
		  __entry->queue, __entry->waves, __entry->stack)
);

DEFINE_EVENT(rkfd_waves, rkfd_wave_save,
	TP_PROTO(u32 pid, u32 queue, u32 waves, u32 stack),
	TP_ARGS(pid, queue, waves, stack)
);

DEFINE_EVENT(rkfd_waves, rkfd_wave_restore,
	TP_PROTO(u32 pid, u32 queue, u32 waves, u32 stack),
	TP_ARGS(pid, queue, waves, stack)
);

TRACE_EVENT(rkfd_vm_fault,
	TP_PROTO(u32 pasid, u32 pid, u64 addr, u32 status),
	TP_ARGS(pasid, pid, addr, status),
	TP_STRUCT__entry(
		__field(u32, pasid)
		__field(u32, pid)
		__field(u64, addr)
		__field(u32, status)
	),
	TP_fast_assign(
		__entry->pasid = pasid;
		__entry->pid = pid;
		__entry->addr = addr;
		__entry->status = status;
	),
	TP_printk("pasid=%u pid=%u addr=0x%llx status=0x%x", __entry->pasid,
		  __entry->pid, __entry->addr, __entry->status)
);

#endif /* RKFD_TRACE_H */

#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE rkfd_trace
#include <trace/define_trace.h>
