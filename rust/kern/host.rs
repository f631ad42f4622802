// SPDX-License-Identifier: GPL-2.0
//! Facts of the machine: processors, memory, clocks.

use crate::ffi;

/// Processors that are online.
pub(crate) fn processors() -> u32 {
    // SAFETY: It reads a counter.
    unsafe { ffi::rkfd_num_online_cpus() }
}

/// APIC id of the first processor.
pub(crate) fn first_apic_id() -> u32 {
    // SAFETY: It reads a constant of the boot processor.
    unsafe { ffi::rkfd_first_apic_id() }
}

/// Highest clock of a processor, MHz; 0 where the kernel does not scale it.
pub(crate) fn processor_mhz() -> u32 {
    // SAFETY: Processor 0 exists; an unknown policy gives 0. It may sleep.
    unsafe { ffi::rkfd_cpufreq_quick_get_max(0) / 1000 }
}

/// Bytes of RAM.
pub(crate) fn memory_bytes() -> u64 {
    let mut info = ffi::sysinfo::default();
    // SAFETY: The structure is filled in.
    unsafe { ffi::si_meminfo(&mut info) };
    (info.totalram as u64).saturating_mul(info.mem_unit.into())
}

/// Nanoseconds of the raw monotonic clock.
pub(crate) fn raw_ns() -> u64 {
    // SAFETY: It reads a clock.
    unsafe { ffi::ktime_get_raw() as u64 }
}

/// Nanoseconds since boot, sleep included.
pub(crate) fn boot_ns() -> u64 {
    // SAFETY: It reads a clock.
    unsafe { ffi::ktime_get_with_offset(ffi::tk_offsets_TK_OFFS_BOOT) as u64 }
}

/// Whether the calling system call is one of a 32-bit program.
pub(crate) fn in_compat_syscall() -> bool {
    // SAFETY: It reads the state of the current task.
    unsafe { ffi::rkfd_in_compat_syscall() }
}
