// SPDX-License-Identifier: GPL-2.0
//! Facts about the machine: processors and memory of each NUMA node, clocks.

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
    /// All nodes in their order; at least one.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        // SAFETY: Any number may be passed.
        let from = |node| unsafe { ffi::rkfd_next_numa_node(node) };
        let is = |node: i32| (node >= 0).then_some(Self(node));
        successors(is(from(0)), move |node| is(from(node.0 + 1)))
    }

    /// The node of `dev`, if it is known and has memory and processors.
    pub(crate) fn of(dev: &Device) -> Option<Self> {
        // SAFETY: The device is valid.
        let node = unsafe { ffi::rkfd_dev_to_numa_node(device::as_raw(dev)) };
        Self::all().find(|other| other.0 == node)
    }

    /// The number of online processors.
    pub(crate) fn processors(self) -> u32 {
        // SAFETY: The node exists, and stays.
        unsafe { ffi::rkfd_num_cpus(self.0) }
    }

    /// The APIC id of the first processor.
    pub(crate) fn first_apic_id(self) -> u32 {
        // SAFETY: As above.
        unsafe { ffi::rkfd_first_apic_id(self.0) }
    }

    /// The size of the RAM in bytes.
    pub(crate) fn memory_bytes(self) -> u64 {
        // SAFETY: As above.
        let pages = unsafe { ffi::rkfd_numa_node_pages(self.0) };
        pages.saturating_mul(PAGE_SIZE as u64)
    }

    /// The distance from this node to `to`, from the firmware: 10 is the node itself.
    pub(crate) fn distance(self, to: Self) -> u32 {
        // SAFETY: Both nodes exist, and stay.
        unsafe { ffi::rkfd_numa_distance(self.0, to.0) as u32 }
    }
}

/// Whether the processors are AMD's.
pub(crate) fn is_amd() -> bool {
    // SAFETY: It reads a constant.
    unsafe { ffi::rkfd_cpu_is_amd() }
}

/// The highest clock of a processor in MHz; 0 if the kernel does not scale it.
pub(crate) fn processor_mhz() -> u32 {
    // SAFETY: Processor 0 exists; an unknown policy gives 0. The call may sleep.
    unsafe { ffi::rkfd_cpufreq_quick_get_max(0) / 1000 }
}

/// The speed of the memory modules in MT/s, which the topology calls MHz; 0 if the firmware does
/// not tell it.
pub(crate) fn memory_mhz() -> u32 {
    // SAFETY: It reads the firmware's tables, which stay. The call may sleep.
    unsafe { ffi::rkfd_memory_speed() }
}

/// The raw monotonic clock in nanoseconds.
pub(crate) fn raw_ns() -> u64 {
    // SAFETY: It reads a clock.
    unsafe { ffi::ktime_get_raw() as u64 }
}

/// The monotonic clock in nanoseconds, as programs read it.
pub(crate) fn monotonic_ns() -> u64 {
    // SAFETY: It reads a clock.
    unsafe { ffi::ktime_get() as u64 }
}

/// The time since boot in nanoseconds, including sleep.
pub(crate) fn boot_ns() -> u64 {
    // SAFETY: It reads a clock.
    unsafe { ffi::ktime_get_with_offset(ffi::tk_offsets_TK_OFFS_BOOT) as u64 }
}

/// The time since boot in milliseconds, including sleep.
pub(crate) fn boot_ms() -> u64 {
    boot_ns() / NSEC_PER_MSEC as u64
}

/// Whether the machine is being powered off or rebooted: devices are shut down, or have been.
pub(crate) fn is_shutting_down() -> bool {
    // SAFETY: It reads a variable of the kernel's.
    unsafe { ffi::rkfd_is_shutting_down() }
}

/// Whether the current system call is from a 32-bit program.
pub(crate) fn in_compat_syscall() -> bool {
    // SAFETY: It reads the state of the current task.
    unsafe { ffi::rkfd_in_compat_syscall() }
}
