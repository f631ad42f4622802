// SPDX-License-Identifier: GPL-2.0
//! Ioctls that only return information: version, clocks, apertures.

use hw::va;
use kernel::prelude::*;

use super::caller::Caller;
use crate::kern::host::{self, NumaNode};
use crate::kern::{uaccess_ext, uapi};
use crate::topology::GpuFacts;

/// Version of the interface. The next version is about trap handlers of another generation.
const MAJOR: u32 = 1;
const MINOR: u32 = 19;

/// Frequency of the clocks of the host, Hz: they count nanoseconds.
const HOST_CLOCK_HZ: u64 = 1_000_000_000;

/// GET_VERSION.
pub(super) fn get_version(_caller: &Caller<'_>, args: &mut uapi::GetVersion) -> Result {
    args.major_version = MAJOR;
    args.minor_version = MINOR;
    Ok(())
}

/// GET_CLOCK_COUNTERS: the clocks of host and GPU at about one moment. A GPU that the process may
/// not use has a clock of 0.
pub(super) fn get_clock_counters(caller: &Caller<'_>, args: &mut uapi::GetClockCounters) -> Result {
    let now = |id| {
        let kfd = caller.kfd;
        kfd.with_granted(caller.process, id, |node| Ok(node.gpu.hw.clock.now()))
    };
    args.gpu_clock_counter = caller.gpu_id(args.gpu_id).and_then(now).unwrap_or(0);
    args.cpu_clock_counter = host::raw_ns();
    args.system_clock_counter = host::boot_ns();
    args.system_clock_freq = HOST_CLOCK_HZ;
    Ok(())
}

/// The apertures of a GPU, the same for each process.
fn apertures(caller: &Caller<'_>, facts: &GpuFacts) -> uapi::Apertures {
    uapi::Apertures {
        lds_base: va::LDS_BASE,
        lds_limit: va::LDS_LIMIT,
        scratch_base: va::SCRATCH_BASE,
        scratch_limit: va::SCRATCH_LIMIT,
        gpuvm_base: va::GPUVM_BASE,
        gpuvm_limit: va::GPUVM_LIMIT,
        gpu_id: caller.shown_id(facts.id),
        pad: 0,
    }
}

/// GET_PROCESS_APERTURES: the first seven GPUs that the process may use.
pub(super) fn get_process_apertures(
    caller: &Caller<'_>,
    args: &mut uapi::GetProcessApertures,
) -> Result {
    let gpus = caller.kfd.facts_for(caller.process)?;
    for (place, facts) in args.process_apertures.iter_mut().zip(&gpus) {
        *place = apertures(caller, facts);
        args.num_of_nodes += 1;
    }
    Ok(())
}

/// GET_PROCESS_APERTURES_NEW: as many of those GPUs as the caller has room for; their number if it
/// has none.
///
/// # Errors
///
/// `EINVAL` for more room than the topology has nodes, those of processors included.
pub(super) fn get_process_apertures_new(
    caller: &Caller<'_>,
    args: &mut uapi::GetProcessAperturesNew,
) -> Result {
    let gpus = caller.kfd.facts_for(caller.process)?;
    let count = u32::try_from(gpus.len())?;
    if args.num_of_nodes == 0 {
        args.num_of_nodes = count;
        return Ok(());
    }
    let nodes = NumaNode::all().count() + caller.kfd.gpus();
    if args.num_of_nodes as usize > nodes {
        return Err(EINVAL);
    }
    let filled = count.min(args.num_of_nodes);
    for (index, facts) in (0..filled).zip(&gpus) {
        uaccess_ext::write_element(
            args.kfd_process_device_apertures_ptr,
            index,
            &apertures(caller, facts),
        )?;
    }
    args.num_of_nodes = filled;
    Ok(())
}
