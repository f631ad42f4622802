// SPDX-License-Identifier: GPL-2.0
//! The content of buffers, which the engines copy between VRAM and system memory. The engines see
//! the system memory through a window in the GART, one part after the other.

use crate::{
    kern::{pages::SystemPages, trace},
    mem::{
        bo::Bo,
        copy_engine::CopyLane,
        gart::{JobMemory, VramSystemPair},
        placement::{BoMove, BoPlace, SystemCopy, VramPlacement},
        vm::Vm,
        vram::{VramBlocks, VramRun},
        GpuMemory,
    },
};
use kernel::{
    prelude::*,
    sync::{aref::ARef, Arc},
};

/// Bytes of the window: the limit for buffers that move together, if there is more than one.
pub(super) const WINDOW: u64 = 64 << 20;

/// The direction of a move.
#[derive(Clone, Copy, PartialEq)]
enum TransferDirection {
    Out,
    Home,
}

/// A buffer that is being moved.
struct BufferTransfer<'a> {
    bo: &'a Bo,
    placement: &'a VramPlacement,
    moving: BoMove,
}

/// Starts to move `bo` if `from` maps its place to `Some`. `None` if it has to stay, or is in
/// another place.
fn start<P>(
    bo: &Bo,
    to_be_shared: bool,
    from: impl FnOnce(BoPlace) -> Option<P>,
) -> Option<(BufferTransfer<'_>, P)> {
    let placement = bo.placement()?;
    let moving = placement.start(to_be_shared)?;
    let place = from(placement.place())?;
    let begun = BufferTransfer {
        bo,
        placement,
        moving,
    };
    Some((begun, place))
}

/// Moves VRAM buffers, which only `vm` maps, to system memory, except those that have to stay.
/// Returns the bytes that moved. No queue of `vm` is on the hardware. After an error the buffers
/// are where they were, and not mapped.
///
/// # Errors
///
/// `ENOMEM`; errors of the engines.
pub(super) fn out(gpu: &Arc<GpuMemory>, vm: &Vm, bos: &[ARef<Bo>]) -> Result<u64> {
    to_system(gpu, Some(vm), bos.iter().map(|bo| &**bo), false)
}

/// Like [`out`], for one buffer that other devices want. Its client may be gone, and with it `vm`.
pub(super) fn share(gpu: &Arc<GpuMemory>, vm: Option<&Vm>, bo: &Bo) -> Result<u64> {
    to_system(gpu, vm, core::iter::once(bo), true)
}

fn to_system<'a>(
    gpu: &Arc<GpuMemory>,
    vm: Option<&Vm>,
    bos: impl ExactSizeIterator<Item = &'a Bo>,
    to_be_shared: bool,
) -> Result<u64> {
    let mut begun = KVVec::with_capacity(bos.len(), GFP_KERNEL)?;
    for bo in bos {
        let of_vram = |place| match place {
            BoPlace::Vram(blocks) => Some(blocks),
            BoPlace::System(_) => None,
        };
        if let Some(one) = start(bo, to_be_shared, of_vram) {
            begun.push(one, GFP_KERNEL)?;
        }
    }
    if begun.is_empty() {
        return Ok(0);
    }
    // From here on no CPU writes to them, and earlier writes have reached VRAM.
    begun.iter().for_each(|(one, _)| one.bo.zap());
    gpu.hw.hdp.flush();
    if let Some(vm) = vm {
        vm.hide(begun.iter().map(|(one, _)| one.bo.address()))?;
    }
    let mut aways = KVVec::with_capacity(begun.len(), GFP_KERNEL)?;
    let mut pairs = KVVec::with_capacity(begun.len(), GFP_KERNEL)?;
    for (one, blocks) in &begun {
        let client = one.placement.client();
        let paid = gpu.budget.pay_for_away(client, one.placement.bytes())?;
        let pages = Arc::new(
            SystemPages::alloc_dirty(&gpu.hw.dev, one.bo.size())?,
            GFP_KERNEL,
        )?;
        let away = SystemCopy::new(gpu, client, pages, paid)?;
        let pair = VramSystemPair {
            blocks: blocks.clone(),
            pages: away.pages().clone(),
        };
        pairs.push(pair, GFP_KERNEL)?;
        aways.push(away, GFP_KERNEL)?;
    }
    copy(gpu, pairs, TransferDirection::Out)?;
    let mut bytes = 0;
    for ((one, _), away) in begun.into_iter().zip(aways) {
        bytes += one.placement.bytes();
        trace::evict(vm.map_or(0, |vm| vm.group().pid()), one.placement.bytes());
        one.moving.finish(BoPlace::System(away));
    }
    Ok(bytes)
}

/// Moves buffers from system memory to the VRAM that is paired with each, and maps them. Buffers
/// that have to stay, or that other devices are still at work on, are left out. Returns whether all
/// were moved. Otherwise like [`out`]; but after an error of the mapping the buffers are in VRAM.
pub(super) fn home(
    gpu: &Arc<GpuMemory>,
    vm: &Vm,
    bos: &[(ARef<Bo>, Arc<VramBlocks>)],
) -> Result<bool> {
    let mut begun = KVVec::with_capacity(bos.len(), GFP_KERNEL)?;
    let mut aways = KVVec::with_capacity(bos.len(), GFP_KERNEL)?;
    let mut pairs = KVVec::with_capacity(bos.len(), GFP_KERNEL)?;
    for (bo, blocks) in bos {
        let of_system = |place| match place {
            BoPlace::System(away) => Some(away),
            BoPlace::Vram(_) => None,
        };
        // Once the move has started, no device maps the buffer again.
        let idle = |_: &(BufferTransfer<'_>, _)| bo.is_idle();
        if let Some((one, away)) = start(bo, false, of_system).filter(idle) {
            let pair = VramSystemPair {
                blocks: blocks.clone(),
                pages: away.pages().clone(),
            };
            pairs.push(pair, GFP_KERNEL)?;
            aways.push(away, GFP_KERNEL)?;
            begun.push((one, blocks), GFP_KERNEL)?;
        }
    }
    let all = begun.len() == bos.len();
    if begun.is_empty() {
        return Ok(all);
    }
    aways.iter().for_each(|away| away.count(false));
    begun.iter().for_each(|(one, _)| one.bo.zap());
    let hidden = vm.hide(begun.iter().map(|(one, _)| one.bo.address()));
    let copied = hidden.and_then(|()| copy(gpu, pairs, TransferDirection::Home));
    if copied.is_err() {
        aways.iter().for_each(|away| away.count(true));
    }
    copied?;
    // Data that the CPU has read in this VRAM before belongs to another buffer.
    gpu.hw.hdp.flush();
    // All of them are in VRAM now, whether they can be mapped or not.
    let mut mapped = Ok(());
    for (one, blocks) in begun {
        trace::restore(vm.group().pid(), one.placement.bytes());
        one.moving.finish(BoPlace::Vram(blocks.clone()));
        mapped = mapped.and(vm.reveal(one.bo));
    }
    mapped.map(|()| all)
}

/// Copies all of the pairs in one direction. If there is more than one pair, they fit into the
/// window together.
///
/// # Errors
///
/// `EINTR` if the caller is killed before a part is started.
fn copy(
    gpu: &Arc<GpuMemory>,
    pairs: KVVec<VramSystemPair>,
    direction: TransferDirection,
) -> Result {
    if !pairs.iter().all(|pair| pair.pages.is_mapped()) {
        return Err(ENODEV);
    }
    let pairs = Arc::new(pairs, GFP_KERNEL)?;
    let size = pairs.iter().map(|pair| pair.pages.size()).sum();
    let vram = gpu.hw.gmc.fb_base();
    let mut at = 0;
    while at < size {
        let part = WINDOW.min(size - at);
        let _turn = gpu.evictor.window.lock_killable()?;
        let window = gpu.gart.window(part)?;
        let system = pairs.iter().flat_map(|pair| pair.pages.dma_runs()).copied();
        window.show(system, at, part)?;
        let mut runs = within(&pairs, at, part);
        // If this is a map of the iterator, the names that rustc 1.97 makes are too long for
        // objtool.
        let mut pieces = core::iter::from_fn(|| {
            let run = runs.next()?;
            let here = vram + run.offset;
            let there = window.mc_addr() + (run.at - at);
            Some(match direction {
                TransferDirection::Out => (here, there, run.size),
                TransferDirection::Home => (there, here, run.size),
            })
        });
        gpu.copy_engine()?.copy(
            &mut pieces,
            JobMemory::pairs(&pairs, &window),
            CopyLane::All,
        )?;
        at += part;
    }
    Ok(())
}

/// Returns the runs of VRAM behind the `size` bytes at byte `at` of all pairs.
fn within(pairs: &[VramSystemPair], at: u64, size: u64) -> impl Iterator<Item = VramRun> + '_ {
    let end = at + size;
    let starts = pairs.iter().scan(0, |next, pair| {
        let start = *next;
        *next += pair.pages.size();
        Some((start, pair))
    });
    starts.flat_map(move |(start, pair)| {
        pair.blocks.runs().iter().filter_map(move |run| {
            let begin = start + run.at;
            let from = begin.max(at);
            let to = (begin + run.size).min(end);
            (from < to).then(|| VramRun {
                offset: run.offset + (from - begin),
                at: from,
                size: to - from,
            })
        })
    })
}
