// SPDX-License-Identifier: GPL-2.0
//! Facts of the machine: processors and memory of each NUMA node, clocks.

use core::iter::successors;

use kernel::device::Device;
use kernel::page::PAGE_SIZE;
use kernel::time::NSEC_PER_MSEC;

use super::device;
use crate::ffi;

/// A NUMA node that has memory and processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NumaNode(i32);

impl NumaNode {
    /// All of them, in their order; at least one.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        // SAFETY: Any number may be asked for.
        let from = |node| unsafe { ffi::rkfd_next_numa_node(node) };
        let is = |node: i32| (node >= 0).then_some(Self(node));
        successors(is(from(0)), move |node| is(from(node.0 + 1)))
    }

    /// The one that `dev` hangs on, if that is known, and it has memory and processors.
    pub(crate) fn of(dev: &Device) -> Option<Self> {
        // SAFETY: The device is valid.
        let node = unsafe { ffi::rkfd_dev_to_numa_node(device::as_raw(dev)) };
        Self::all().find(|other| other.0 == node)
    }

    /// Processors that are online.
    pub(crate) fn processors(self) -> u32 {
        // SAFETY: The node is there, and stays.
        unsafe { ffi::rkfd_num_cpus(self.0) }
    }

    /// APIC id of the first processor.
    pub(crate) fn first_apic_id(self) -> u32 {
        // SAFETY: As above.
        unsafe { ffi::rkfd_first_apic_id(self.0) }
    }

    /// Bytes of RAM.
    pub(crate) fn memory_bytes(self) -> u64 {
        // SAFETY: As above.
        let pages = unsafe { ffi::rkfd_numa_node_pages(self.0) };
        pages.saturating_mul(PAGE_SIZE as u64)
    }

    /// How far it is from here to `to`, as the firmware says: 10 for no way at all.
    pub(crate) fn distance(self, to: Self) -> u32 {
        // SAFETY: Both are there, and stay.
        unsafe { ffi::rkfd_numa_distance(self.0, to.0) as u32 }
    }
}

/// Whether the processors are AMD's.
pub(crate) fn is_amd() -> bool {
    // SAFETY: It reads a constant.
    unsafe { ffi::rkfd_cpu_is_amd() }
}

/// Highest clock of a processor, MHz; 0 where the kernel does not scale it.
pub(crate) fn processor_mhz() -> u32 {
    // SAFETY: Processor 0 exists; an unknown policy gives 0. It may sleep.
    unsafe { ffi::rkfd_cpufreq_quick_get_max(0) / 1000 }
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

/// The same in milliseconds.
pub(crate) fn boot_ms() -> u64 {
    boot_ns() / NSEC_PER_MSEC as u64
}

/// Whether the machine is being switched off, or started anew: devices are shut down, or have been.
pub(crate) fn is_shutting_down() -> bool {
    // SAFETY: It reads a variable of the kernel's.
    unsafe { ffi::rkfd_machine_goes_down() }
}

/// Whether the calling system call is one of a 32-bit program.
pub(crate) fn in_compat_syscall() -> bool {
    // SAFETY: It reads the state of the current task.
    unsafe { ffi::rkfd_in_compat_syscall() }
}
