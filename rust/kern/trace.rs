// SPDX-License-Identifier: GPL-2.0
//! Trace events: group `rkfd`, and `gpu_scheduler:drm_run_job`. Each costs next to nothing while it
//! is disabled.

use crate::ffi;
use kernel::time::{Instant, Monotonic};

/// A job is submitted to the hardware: the information of `gpu_scheduler:drm_run_job` up to Linux
/// 6.16.
///
/// # Safety
///
/// `job` must be armed, and `entity` be the queue that it came from, both valid.
pub(super) unsafe fn drm_run_job(
    job: *mut ffi::drm_sched_job,
    entity: *mut ffi::drm_sched_entity,
    id: u64,
) {
    // SAFETY: By this function's contract.
    unsafe { ffi::rkfd_trace_drm_run_job(job, entity, id) };
}

/// An ioctl of /dev/kfd failed with an error.
pub(crate) fn ioctl(pid: u32, nr: u32, errno: i32) {
    // SAFETY: Values only.
    unsafe { ffi::rkfd_trace_ioctl(pid, nr, errno) };
}

/// A user queue was created: its ring's GPU address and size (bytes).
pub(crate) fn queue_create(pid: u32, queue: u32, engine: u32, ring: u64, size: u64) {
    // SAFETY: Values only.
    unsafe { ffi::rkfd_trace_queue_create(pid, queue, engine, ring, size) };
}

/// A user queue was destroyed.
pub(crate) fn queue_destroy(pid: u32, queue: u32) {
    // SAFETY: Values only.
    unsafe { ffi::rkfd_trace_queue_destroy(pid, queue) };
}

/// A process's queues on a GPU are evicted, for one of `KFD_QUEUE_EVICTION_TRIGGERS`.
pub(crate) fn queue_evict(pid: u32, pasid: u32, gpu: u32, reason: u32) {
    // SAFETY: Values only.
    unsafe { ffi::rkfd_trace_queue_evict(pid, pasid, gpu, reason) };
}

/// A process's queues on a GPU are restored; `reason` is that of their eviction.
pub(crate) fn queue_restore(pid: u32, pasid: u32, gpu: u32, reason: u32) {
    // SAFETY: Values only.
    unsafe { ffi::rkfd_trace_queue_restore(pid, pasid, gpu, reason) };
}

/// A buffer of `size` bytes of a process was moved from VRAM to system memory.
pub(crate) fn evict(pid: u32, size: u64) {
    // SAFETY: Values only.
    unsafe { ffi::rkfd_trace_evict(pid, size) };
}

/// A buffer of `size` bytes of a process was moved back to VRAM.
pub(crate) fn restore(pid: u32, size: u64) {
    // SAFETY: Values only.
    unsafe { ffi::rkfd_trace_restore(pid, size) };
}

/// A user queue has new work up to `wptr` (bytes, never wrapped).
pub(crate) fn doorbell(pid: u32, queue: u32, wptr: u64) {
    // SAFETY: Values only.
    unsafe { ffi::rkfd_trace_doorbell(pid, queue, wptr) };
}

/// The engine has executed bytes of a followed queue (byte counts that never wrap), all within the
/// time since `after`.
pub(crate) fn sdma_span(pid: u32, queue: u32, from: u64, to: u64, after: Instant<Monotonic>) {
    let within = u64::try_from(after.elapsed().as_nanos()).unwrap_or(0);
    // SAFETY: Values only.
    unsafe { ffi::rkfd_trace_sdma_span(pid, queue, from, to, within) };
}

/// A range of GPU addresses of a process was mapped by writing `entries` PTEs.
pub(crate) fn map(pid: u32, va: u64, size: u64, entries: u64) {
    // SAFETY: Values only.
    unsafe { ffi::rkfd_trace_map(pid, va, size, entries) };
}

/// A range of GPU addresses of a process was unmapped by writing `entries` PTEs.
pub(crate) fn unmap(pid: u32, va: u64, size: u64, entries: u64) {
    // SAFETY: Values only.
    unsafe { ffi::rkfd_trace_unmap(pid, va, size, entries) };
}

/// The TLBs were flushed for a VMID. `kind` is FLUSH_TYPE of VM_INVALIDATE_ENG*_REQ: 0 legacy,
/// 2 heavyweight.
pub(crate) fn tlb_flush(vmid: u32, kind: u32) {
    // SAFETY: Values only.
    unsafe { ffi::rkfd_trace_tlb_flush(vmid, kind) };
}

/// An interrupt vector was read from the IH ring.
pub(crate) fn interrupt(client: u32, source: u32, ring: u32, vmid: u32, pasid: u32, data0: u32) {
    // SAFETY: Values only.
    unsafe { ffi::rkfd_trace_interrupt(client, source, ring, vmid, pasid, data0) };
}

/// A shader engine interrupted for a wave: its message (24 bits), whether the wave was in a trap
/// handler, whether it has an error, and its place as
/// [`ShaderMessage::place`](hw::ih::ShaderMessage::place).
pub(crate) fn shader_interrupt(
    pasid: u16,
    vmid: u8,
    data: u32,
    privileged: bool,
    error: bool,
    place: u32,
) {
    let (pasid, vmid) = (pasid.into(), vmid.into());
    // SAFETY: Values only.
    unsafe { ffi::rkfd_trace_shader_interrupt(pasid, vmid, data, privileged, error, place) };
}

/// Whether [`wave_save`] is enabled.
pub(crate) fn is_wave_save_on() -> bool {
    // SAFETY: No arguments.
    unsafe { ffi::rkfd_trace_wave_save_enabled() }
}

/// A queue was removed from the hardware with waves, or with groups of a dispatch that are still to
/// be launched: the sizes of the saved waves and of the control stack in bytes.
pub(crate) fn wave_save(pid: u32, queue: u32, waves: u32, stack: u32) {
    // SAFETY: Values only.
    unsafe { ffi::rkfd_trace_wave_save(pid, queue, waves, stack) };
}

/// A queue with saved waves is loaded into the hardware; values as for [`wave_save`].
pub(crate) fn wave_restore(pid: u32, queue: u32, waves: u32, stack: u32) {
    // SAFETY: Values only.
    unsafe { ffi::rkfd_trace_wave_restore(pid, queue, waves, stack) };
}

/// A GPU access of a process had no mapping that allows it. `status` is
/// VM_L2_PROTECTION_FAULT_STATUS.
pub(crate) fn vm_fault(pasid: u32, pid: u32, addr: u64, status: u32) {
    // SAFETY: Values only.
    unsafe { ffi::rkfd_trace_vm_fault(pasid, pid, addr, status) };
}
