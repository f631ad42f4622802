// SPDX-License-Identifier: GPL-2.0
//! The content of a buffer, on its way between VRAM and system memory by the engines. What is in system memory they
//! see through a window in the GART, one part after the other.

use crate::{
    gpu::Gpu,
    kern::{pages::SystemPages, trace},
    mem::{
        bo::Bo,
        gart::Memory,
        placement::{Away, Place},
        vm::Vm,
        vram::{VramBlocks, VramRun},
    },
};
use kernel::{prelude::*, sync::Arc};

/// Bytes of the window.
const WINDOW: u64 = 64 << 20;

/// Which way.
#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Out,
    Home,
}

/// Moves `bo`, a VRAM buffer that only `vm` maps, to system memory; false if it has to stay. No queue of `vm` is on the
/// hardware. `ENOMEM`; `EINTR` when the caller is killed; errors of the engines. After an error the buffer is where it
/// was, and not mapped.
pub(super) fn out(gpu: &Arc<Gpu>, vm: &Vm, bo: &Bo) -> Result<bool> {
    let Some(placement) = bo.placement() else {
        return Ok(false);
    };
    let Some(moving) = placement.begin() else {
        return Ok(false);
    };
    let Place::Vram(blocks) = placement.place() else {
        return Ok(false);
    };
    // From here on nobody else writes to it, and what was written is there.
    bo.zap();
    gpu.hdp.flush();
    vm.hide(bo)?;
    let pages = Arc::new(SystemPages::alloc_dirty(&gpu.dev, bo.size())?, GFP_KERNEL)?;
    let away = Away::new(gpu, placement.client(), pages)?;
    copy(gpu, &blocks, away.pages(), Direction::Out)?;
    trace::evict(vm.group().pid(), placement.bytes());
    moving.settle(Place::System(away));
    Ok(true)
}

/// Moves `bo`, which is in system memory, home to `blocks`; false if it has to stay. The rest as [`out`].
pub(super) fn home(gpu: &Arc<Gpu>, vm: &Vm, bo: &Bo, blocks: VramBlocks) -> Result<bool> {
    let Some(placement) = bo.placement() else {
        return Ok(false);
    };
    let Some(moving) = placement.begin() else {
        return Ok(false);
    };
    let Place::System(away) = placement.place() else {
        return Ok(false);
    };
    let blocks = Arc::new(blocks, GFP_KERNEL)?;
    bo.zap();
    vm.hide(bo)?;
    copy(gpu, &blocks, away.pages(), Direction::Home)?;
    // What the CPU has read there before is another's.
    gpu.hdp.invalidate();
    trace::restore(vm.group().pid(), placement.bytes());
    moving.settle(Place::Vram(blocks));
    Ok(true)
}

/// Copies all of `pages` to or from `blocks`, which has as many bytes.
fn copy(
    gpu: &Arc<Gpu>,
    blocks: &Arc<VramBlocks>,
    pages: &Arc<SystemPages>,
    direction: Direction,
) -> Result {
    if !pages.is_mapped() {
        return Err(ENODEV);
    }
    let size = pages.size();
    let window = gpu.gart.window(WINDOW.min(size))?;
    let vram = gpu.gmc.fb_base();
    let mut at = 0;
    while at < size {
        let part = WINDOW.min(size - at);
        window.show(pages.dma_runs(), at, part)?;
        let pieces = within(blocks, at, part).map(|run| {
            let here = vram + run.offset;
            let there = window.mc_addr() + (run.at - at);
            match direction {
                Direction::Out => (here, there, run.size),
                Direction::Home => (there, here, run.size),
            }
        });
        let memory = Memory::new(blocks, Some((&window, pages)));
        gpu.rings.copy(pieces, memory)?;
        at += part;
    }
    Ok(())
}

/// The runs of VRAM behind the `size` bytes at byte `at` of a buffer.
fn within(blocks: &VramBlocks, at: u64, size: u64) -> impl Iterator<Item = VramRun> + '_ {
    let end = at + size;
    blocks.runs().iter().filter_map(move |run| {
        let from = run.at.max(at);
        let to = (run.at + run.size).min(end);
        (from < to).then(|| VramRun {
            offset: run.offset + (from - run.at),
            at: from,
            size: to - from,
        })
    })
}
