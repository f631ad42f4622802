// SPDX-License-Identifier: GPL-2.0
//! From a queue's COMPUTE_* registers to waves: new ones, and those that left with their queue.

use std::sync::Arc;

use super::compute::{Checked, ComputeRegisters};
use super::gang::Share;
use super::hqd::Hqd;
use super::interrupt::Exception;
use super::{mqd, Slot};
use crate::error::{ModelError, Result};
use crate::gpu::Gpu;
use crate::regs::gc::{self, cp_hqd_persistent_state as persistent};
use crate::regs::Field;
use crate::sq::grid::{Grid, Origin, Part, Rest, Room};
use crate::sq::image::{Area, Image};

/// Queue, address space and the like in HW_ID.
const PIPE: Field = Field::new(7, 6);
const VMID: Field = Field::new(23, 20);
const QUEUE: Field = Field::new(26, 24);
const ME: Field = Field::new(31, 30);
/// A doorbell's slot of eight bytes in its process' slice, from its dword index.
const DOORBELL: Field = Field::new(10, 1);

/// A queue that owns waves.
pub struct Owner {
    /// Its HQD.
    pub slot: Slot,
    /// Its address space.
    pub vmid: u8,
    /// Dword index of its doorbell.
    pub doorbell: u32,
    /// The save area of its waves, if there is one.
    pub area: Option<Area>,
    /// The part that this XCC has in its dispatches.
    pub share: Share,
}

impl Owner {
    /// The dispatch in `registers`, which begins with `rest`. None: it has no groups.
    pub fn grid(
        &self,
        gpu: &Gpu,
        registers: &ComputeRegisters,
        of_packet: bool,
        rest: impl FnOnce(&rkfd_shader::dispatch::Launch) -> Rest,
    ) -> Result<Checked<Option<Arc<Grid>>>> {
        let launch = match registers.launch(gpu, self.vmid) {
            Ok(launch) => launch,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if launch.count() == 0 {
            return Ok(Ok(None));
        }
        let cus = registers.cus(&gpu.regs.asic.shape);
        // A user's masks may leave none in one of several XCCs: then nothing is launched there.
        if cus.is_empty() && gpu.layout().xccs == 1 {
            return Err(ModelError::Other(format!(
                "{}: a dispatch, and the masks in the MQD leave no CU",
                self.slot
            )));
        }
        let origin = Origin {
            xcc: self.slot.xcc(),
            queue: self.slot.to_string(),
            vmid: self.vmid,
            doorbell: DOORBELL.get(self.doorbell),
            hw_id: PIPE.of(self.slot.pipe())
                | VMID.of(self.vmid.into())
                | QUEUE.of(self.slot.queue())
                | ME.of(self.slot.me()),
            of_packet,
        };
        let room = Room {
            cus,
            limits: registers.limits(),
            scratch: launch
                .has_scratch()
                .then(|| registers.scratch(&gpu.regs.asic.shape)),
            area: self.area,
            share: Part {
                index: self.share.index,
                count: self.share.gang.size() as u64,
                chunk: self.share.chunk,
            },
        };
        let rest = rest(&launch);
        let grid = Grid::new(launch, origin, room, rest);
        Ok(grid
            .map(|grid| Some(Arc::new(grid)))
            .map_err(|reason| (Exception::Unsupported, reason)))
    }
}

/// Loads the state that a queue which was just started had left in its MQD: its COMPUTE_*
/// registers, and a dispatch.
pub fn resume(gpu: &Gpu, slot: Slot, hqd: &mut Hqd) -> Result<()> {
    hqd.compute.load(gpu, hqd.regs.mqd())?;
    let share = mqd::share(gpu, hqd, slot.xcc())?;
    hqd.set_share(share);
    let state = hqd.regs.get(gc::CP_HQD_PERSISTENT_STATE);
    let cut = persistent::DISP_ACTIVE.is_set(state);
    let image = image(gpu, slot, hqd)?;
    if image.is_none() && !cut {
        return Ok(());
    }
    let state = persistent::DISP_ACTIVE.put(state, 0);
    let state = persistent::RELAUNCH_WAVES.put(state, 0);
    hqd.regs.put(gc::CP_HQD_PERSISTENT_STATE, state);
    let owner = Owner {
        slot,
        vmid: hqd.regs.vmid(),
        doorbell: hqd.regs.doorbell(),
        area: hqd.regs.area(),
        share,
    };
    let wrong =
        |reason: &str| ModelError::Other(format!("{slot}: the dispatch in its MQD: {reason}"));
    let launch = hqd
        .compute
        .launch(gpu, owner.vmid)
        .map_err(|(_, reason)| wrong(reason))?;
    let (next, of_packet) = hqd.compute.restart(&launch);
    let now = gpu.clock.now();
    let started = mqd::started(gpu, hqd.regs.mqd())?;
    let rest = |launch: &rkfd_shader::dispatch::Launch| Rest {
        next: if cut { next } else { launch.count() },
        image,
        started: Some(started).filter(|&at| at != 0),
    };
    let grid = owner
        .grid(gpu, &hqd.compute, of_packet, rest)?
        .map_err(|(_, reason)| wrong(reason))?
        .ok_or_else(|| wrong("it has no groups"))?;
    mqd::note_restore(gpu, hqd.regs.mqd(), now, gpu.clock.now())?;
    gpu.summary.cp_restores.bump();
    hqd.resume(grid.clone());
    // It may have to leave already.
    hqd.save_waves(gpu.clock.now());
    gpu.sq.start(grid);
    Ok(())
}

/// The saved waves of a queue, if there are any.
fn image(gpu: &Gpu, slot: Slot, hqd: &mut Hqd) -> Result<Option<Image>> {
    let Some(area) = hqd.regs.area() else {
        return Ok(None);
    };
    let (stack, state) = hqd.regs.saved();
    if stack >= area.stack {
        return Ok(None);
    }
    let dwords = mqd::control_stack(gpu, hqd.regs.mqd(), stack, area.stack)?;
    hqd.regs.set_saved(area.stack, area.stack);
    Image::of(area, &dwords, state)
        .map(Some)
        .map_err(|reason| ModelError::Other(format!("{slot}: control stack: {reason}")))
}
