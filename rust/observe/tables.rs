// SPDX-License-Identifier: GPL-2.0
//! A GPU's objects, counted and listed, as text. Tables have a header line. They are not a snapshot
//! of one moment: no lock is held while a line is written, apart from that of the list of compute
//! queues.

use crate::gpu::Gpu;
use crate::ip::vmid::Vmid;
use crate::kern::params::{self, SchedulerMode, SdmaMode};
use crate::mem::account::MemoryRegion;
use crate::queue::compute::{self, ComputePlace};
use crate::queue::sdma::slots::QueueView;
use hw::seat::Seat;
use kernel::fmt;

/// Writes a table of a GPU.
pub(super) type Table = fn(&Gpu, &mut fmt::Formatter<'_>) -> fmt::Result;

/// The number of objects of each kind.
pub(super) fn objects(gpu: &Gpu, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let counts = gpu.hw.ledger.snapshot();
    counts
        .iter()
        .try_for_each(|(kind, count)| writeln!(f, "{} {count}", kind.name()))
}

/// VRAM in bytes.
pub(super) fn vram(gpu: &Gpu, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (total, used) = (gpu.memory.vram.total(), gpu.memory.vram.used());
    writeln!(
        f,
        "total {total}\nused {used}\nfree {}",
        total.saturating_sub(used)
    )
}

/// The processes. A process has a slice of doorbells once it has a queue or has mapped its
/// doorbells.
pub(super) fn processes(gpu: &Gpu, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "pid pasid slice queues")?;
    gpu.queues.slices.states(|slice, pid, pasid| {
        let mut count = 0;
        gpu.queues.slots.states(|queue| {
            count += u32::from(queue.owner.pasid == pasid);
            Ok(())
        })?;
        gpu.queues.compute.states(&mut |queue| {
            count += u32::from(queue.owner().pasid == pasid);
            Ok(())
        })?;
        writeln!(f, "{pid} {pasid} {slice} {count}")
    })
}

/// The memory of each acquired address space, in bytes. Its queues are evicted while its buffers
/// are moved out.
pub(super) fn clients(gpu: &Gpu, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "pid vram evicted pinned gtt userptr state")?;
    gpu.memory.evictor.states(|member| {
        let bytes = |region| member.client.bytes(region);
        writeln!(
            f,
            "{} {} {} {} {} {} {}",
            member.pid,
            bytes(MemoryRegion::Vram),
            bytes(MemoryRegion::Evicted),
            bytes(MemoryRegion::Stuck),
            bytes(MemoryRegion::Gtt),
            bytes(MemoryRegion::User),
            if member.away { "away" } else { "home" }
        )
    })
}

/// Every queue.
pub(super) fn queues(gpu: &Gpu, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(
        f,
        "pid queue mode engine slot vmid rptr wptr hw_rptr hw_wptr busy_us saved turns"
    )?;
    gpu.queues.slots.states(|queue| {
        let QueueView {
            owner,
            engine,
            seat,
            vmid,
            mode,
            pointers,
            hardware,
            time,
        } = queue;
        let mode = mode.name();
        write!(f, "{} {} {mode} {engine} ", owner.pid, owner.queue)?;
        seat_of_queue(&seat, f, |slot, f| write!(f, "{slot}"))?;
        let (rptr, wptr) = pointers;
        vmid_of_queue(vmid, f)?;
        write!(f, " {rptr} {wptr} {} {} ", hardware.0, hardware.1)?;
        match time {
            Some(time) => writeln!(f, "{} - -", time.as_nanos() / 1000),
            None => writeln!(f, "- - -"),
        }
    })?;
    gpu.queues
        .compute
        .states(&mut |queue| compute_queue(queue, f))
}

/// Like [`queues`], for a compute queue. The slot is pipe and queue of the micro engine for user
/// queues. The hardware read and write pointers are not available here. The bytes of saved waves
/// are those of a queue that is off the hardware.
fn compute_queue(queue: &compute::QueuePlacement<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let owner = queue.owner();
    let format = if queue.is_aql() { "aql" } else { "pm4" };
    write!(f, "{} {} {format} cp ", owner.pid, owner.queue)?;
    seat_of_queue(&queue.seat, f, |place, f| match place {
        ComputePlace::Runlist => write!(f, "hws"),
        ComputePlace::Hqd(hqd) => write!(f, "{}.{}", hqd.pipe(), hqd.queue()),
    })?;
    let (rptr, wptr) = queue.pointers();
    vmid_of_queue(queue.vmid, f)?;
    write!(f, " {rptr} {wptr} - - -")?;
    match queue.saved_waves() {
        Some(saved) => write!(f, " {saved}")?,
        None => write!(f, " -")?,
    }
    match queue.turns {
        Some(turns) => writeln!(f, " {turns}"),
        None => writeln!(f, " -"),
    }
}

/// Writes where a queue is: `-` if it is out, or the place, with a mark if the queue comes (`+`),
/// goes (`-`) or is stuck (`!`).
fn seat_of_queue<P>(
    seat: &Seat<P>,
    f: &mut fmt::Formatter<'_>,
    show: impl FnOnce(&P, &mut fmt::Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    if let Some(place) = seat.place() {
        show(place, f)?;
    }
    match seat {
        Seat::In(_) => Ok(()),
        Seat::Loading(..) => write!(f, "+"),
        Seat::Out | Seat::Leaving(..) => write!(f, "-"),
        Seat::Stuck(_) => write!(f, "!"),
    }
}

fn vmid_of_queue(vmid: Option<u8>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match vmid {
        Some(vmid) => write!(f, " {vmid}"),
        None => write!(f, " -"),
    }
}

/// The VMIDs that queues use, with their process: one line a VMID.
pub(super) fn vmids(gpu: &Gpu, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "vmid pasid pid queues")?;
    for vmid in 0..16 {
        let mut found = None;
        let mut count = 0;
        gpu.queues.slots.states(|queue| {
            if queue.vmid == Some(vmid) {
                found = Some(queue.owner);
                count += 1;
            }
            Ok(())
        })?;
        gpu.queues.compute.states(&mut |queue| {
            if queue.vmid == Some(vmid) {
                found = Some(queue.owner());
                count += 1;
            }
            Ok(())
        })?;
        if let Some(owner) = found {
            writeln!(f, "{vmid} {} {} {count}", owner.pasid, owner.pid)?;
        }
    }
    match SchedulerMode::get() {
        SchedulerMode::Direct => Ok(()),
        SchedulerMode::Hws => firmware_vmids(gpu, f),
    }
}

/// The VMIDs that the firmware has given to processes, and how many queues of each are on its
/// runlist.
fn firmware_vmids(gpu: &Gpu, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for vmid in Vmid::of_firmware(&gpu.hw.asic.vmids) {
        let Some(pasid) = gpu.hw.gmc.process(vmid) else {
            continue;
        };
        let (mut pid, mut count) = (0, 0);
        gpu.queues.compute.states(&mut |queue| {
            if queue.owner().pasid == pasid && queue.seat == Seat::In(ComputePlace::Runlist) {
                pid = queue.owner().pid;
                count += 1;
            }
            Ok(())
        })?;
        writeln!(f, "{} {pasid} {pid} {count}", vmid.get())?;
    }
    Ok(())
}

/// The slices of doorbells and their owners.
pub(super) fn doorbells(gpu: &Gpu, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "slice byte pid pasid\n0 0 kernel -\n1 8192 scheduled -")?;
    gpu.queues.slices.states(|slice, pid, pasid| {
        writeln!(
            f,
            "{slice} {} {pid} {pasid}",
            u64::from(slice) * hw::doorbell::SLICE_BYTES
        )
    })
}

/// The module's parameters: the kernel crate does not show them in sysfs yet.
pub(super) fn parameters(_gpu: &Gpu, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let sdma_sched = SdmaMode::get().value();
    let sched = match SchedulerMode::get() {
        SchedulerMode::Direct => "direct",
        SchedulerMode::Hws => "hws",
    };
    let svm = u8::from(params::is_svm_enabled());
    let resets = params::resets();
    writeln!(
        f,
        "sdma_sched {sdma_sched}\nsched {sched}\nsvm {svm}\nreset {resets}"
    )
}

/// The driver's own rings.
pub(super) fn rings(gpu: &Gpu, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "ring rptr wptr issued done state")?;
    gpu.rings.states(|ring| {
        let state = if ring.dead { "failed" } else { "running" };
        let (issued, done) = ring.sequence;
        writeln!(
            f,
            "sdma{} {} {} {issued} {done} {state}",
            ring.engine, ring.rptr, ring.wptr
        )
    })
}

/// The runlists of the hardware's scheduler: their number, and how long none ran while one replaced
/// another.
pub(super) fn runlists(gpu: &Gpu, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(lists) = gpu.queues.compute.lists() else {
        return Ok(());
    };
    let between = lists.between.as_micros_ceil();
    writeln!(f, "lists {}\nbetween_us {between}", lists.count)
}

/// The interrupt ring. The watchdogs of rings and queues find the entries that an overflow has
/// lost.
pub(super) fn ih(gpu: &Gpu, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "overflows {}", gpu.hw.ih.overflows())
}

/// The last faults of processes.
pub(super) fn faults(gpu: &Gpu, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    gpu.queues.faults.show(f)
}
