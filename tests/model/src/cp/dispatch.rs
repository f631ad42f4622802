// SPDX-License-Identifier: GPL-2.0
//! Packets that launch waves, and the work after these. KERNEL_DISPATCH: from the packet, the
//! kernel's descriptor and the amd_queue_t to the queue's COMPUTE_* registers.

use std::time::Instant;

use rkfd_shader::kernel::{Descriptor, UserData, DESCRIPTOR, USER};

use super::aql::Packet;
use super::compute::{Checked, Kernel};
use super::execute::{address_space, Executor, Outcome, Work};
use super::interrupt::Exception;
use super::launch::Owner;
use super::pm4::Dims;
use super::signal::Queue;
use crate::error::Result;
use crate::regs::Field;
use crate::sq::grid::Rest;
use crate::timing;

/// Greatest LDS of a group.
const MOST_LDS: u32 = 64 << 10;
/// Value of queue_inactive_signal when there is too little scratch, and scratch can be reclaimed.
const MORE_SCRATCH: u64 = 1;
const SCRATCH_USED: u64 = 512;

/// The fields of a dispatch packet.
struct Dispatch {
    dims: u32,
    size: [u32; 3],
    grid: [u32; 3],
    private: u32,
    group: u32,
    kernel: u64,
    kernarg: u64,
}

impl Dispatch {
    fn of(packet: &Packet) -> Dispatch {
        const SETUP_DIMS: Field = Field::new(17, 16);
        const LOW: Field = Field::new(15, 0);
        const HIGH: Field = Field::new(31, 16);
        let word = |n| packet.word(n);
        Dispatch {
            dims: SETUP_DIMS.get(word(0)),
            size: [LOW.get(word(1)), HIGH.get(word(1)), LOW.get(word(2))],
            grid: [word(3), word(4), word(5)],
            private: word(6),
            group: word(7),
            kernel: packet.qword(8),
            kernarg: packet.qword(10),
        }
    }

    fn check(&self) -> Checked<()> {
        let used = self.dims as usize;
        let sizes = || self.size.iter().zip(&self.grid);
        if used == 0 || sizes().any(|(&size, &grid)| size == 0 || grid == 0) {
            return Err((Exception::Dimensions, "a dimension of the dispatch is 0"));
        }
        if sizes()
            .skip(used)
            .any(|(&size, &grid)| (size, grid) != (1, 1))
        {
            let reason = "a dimension that is not used is not 1";
            return Err((Exception::Dimensions, reason));
        }
        if self.group > MOST_LDS {
            let reason = "a group has more than 64 KiB of LDS";
            return Err((Exception::GroupSegment, reason));
        }
        if self.kernel == 0 || self.kernel % 64 != 0 {
            let reason = "the kernel object is 0 or not aligned";
            return Err((Exception::Code, reason));
        }
        Ok(())
    }
}

impl Executor<'_> {
    /// KERNEL_DISPATCH: starts its waves, or checks whether they have ended.
    pub(super) fn dispatch(&mut self, packet: &Packet) -> Outcome {
        let own = self.job.grid.clone().filter(|grid| grid.origin.of_packet);
        let before = self.job.grid.clone();
        match self.waves() {
            Work::Done => {}
            wait => return Ok(Ok(wait)),
        }
        let Some(grid) = own else {
            return self.launch(packet);
        };
        self.job.times = grid.times();
        if self.follows() {
            return Ok(Ok(Work::Done));
        }
        if self.waits_for_others() {
            // They may have to leave before that, and so may this one.
            grid.hold();
            self.job.grid = before;
            return Ok(Ok(Work::Blocked));
        }
        if !self.returned_scratch()? {
            self.job.grid = before;
            return Ok(Ok(Work::Blocked));
        }
        let others = self.job.team.and_then(|team| team.times);
        self.times = match (self.job.times, others) {
            (Some(own), Some(others)) if own.1 != 0 => {
                Some((own.0.min(others.0), own.1.max(others.1)))
            }
            (own, others) => others.or(own),
        };
        Ok(Ok(Work::Done))
    }

    /// Checks whether the waves of the previous dispatch have ended; it is forgotten then.
    pub(super) fn waves(&mut self) -> Work {
        let Some(grid) = &self.job.grid else {
            return Work::Done;
        };
        if !grid.is_over() {
            return Work::Blocked;
        }
        self.job.ended = true;
        if grid.is_killed() {
            self.job.grid = None;
            return Work::Blocked;
        }
        if grid.is_faulted() {
            return Work::Stuck;
        }
        self.job.grid = None;
        Work::Done
    }

    /// DISPATCH_DIRECT and DISPATCH_INDIRECT.
    pub(super) fn direct(&mut self, dims: Dims, initiator: u32) -> Outcome {
        match self.waves() {
            Work::Done => {}
            wait => return Ok(Ok(wait)),
        }
        let dims = match dims {
            Dims::Here(dims) => dims,
            Dims::At(address) => {
                let before = self.vm.faults();
                let mut dims = [0; 3];
                for (n, dim) in (0..).zip(&mut dims) {
                    *dim = self.vm.load32(address.wrapping_add(4 * n))?;
                }
                if self.vm.faults() != before {
                    return Ok(Ok(Work::Stuck));
                }
                dims
            }
        };
        self.job.compute.dispatch(dims, initiator);
        if !self.job.compute.is_enabled() {
            return Ok(Ok(Work::Done));
        }
        Ok(self.start(false)?.map(|()| Work::Done))
    }

    /// Launches the dispatch in the registers.
    fn start(&mut self, of_packet: bool) -> Result<Checked<()>> {
        let owner = Owner {
            slot: self.job.slot,
            vmid: self.job.vmid,
            doorbell: self.job.doorbell,
            area: self.job.area,
            share: self.job.share,
        };
        let grid = match owner.grid(self.gpu, &self.job.compute, of_packet, |_| Rest::default())? {
            Ok(grid) => grid,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if let Some(grid) = grid {
            if !self.follows() {
                self.gpu.summary.sq_dispatches.bump();
            }
            self.gpu.summary.xccs[self.gpu.regs.xcc].dispatches.bump();
            self.gpu.sq.start(grid.clone());
            self.job.grid = Some(grid);
            self.job.ended = false;
        }
        Ok(Ok(()))
    }

    /// Returns whether the queue may go on: where scratch is for one use, its owner is asked to
    /// reclaim it, and has done so. Between the two it stores 0 to the signal, and is not asked
    /// again.
    fn returned_scratch(&mut self) -> Result<bool> {
        let ring = address_space(self.gpu, self.job.vmid);
        let Some(queue) = Queue::of(self.job, &ring)? else {
            return Ok(true);
        };
        if !queue.uses_scratch_once(&ring)? {
            self.job.reclaims = false;
            return Ok(true);
        }
        if !self.job.reclaims && queue.inactive(&ring)? == 0 {
            queue.deactivate(self.gpu, self.job, &ring, SCRATCH_USED)?;
            self.job.reclaims = true;
        }
        Ok(false)
    }

    fn launch(&mut self, packet: &Packet) -> Outcome {
        let ring = address_space(self.gpu, self.job.vmid);
        let queue = Queue::of(self.job, &ring)?;
        if let Some(queue) = &queue {
            if queue.inactive(&ring)? != 0 {
                return Ok(Ok(Work::Blocked));
            }
        }
        let dispatch = Dispatch::of(packet);
        if let Err(refusal) = dispatch.check() {
            return Ok(Err(refusal));
        }
        if let Some(timing) = self.gpu.timing {
            timing::wait(Instant::now() + timing.launch(), || true);
        }
        let mut bytes = [0; DESCRIPTOR];
        let before = ring.faults();
        ring.read(dispatch.kernel, &mut bytes)?;
        if ring.faults() != before {
            return Ok(Err((Exception::Code, "the descriptor cannot be read")));
        }
        let descriptor = Descriptor::of(&bytes);
        let mut tmpring = 0;
        if dispatch.private > 0 {
            let lane;
            (tmpring, lane) = match &queue {
                Some(queue) => queue.scratch(&ring)?,
                None => (0, 0),
            };
            if tmpring == 0 || dispatch.private > lane {
                let Some(queue) = &queue else {
                    let reason = "private memory without an amd_queue_t";
                    return Ok(Err((Exception::Unsupported, reason)));
                };
                if !self.follows() {
                    queue.deactivate(self.gpu, self.job, &ring, MORE_SCRATCH)?;
                }
                return Ok(Ok(Work::Blocked));
            }
        }
        let at = self.job.rptr % self.job.size * 4;
        let mut data = UserData {
            dispatch: self.job.base.wrapping_add(at),
            kernarg: dispatch.kernarg,
            dispatch_id: self.job.rptr / super::hqd_registers::AQL_DWORDS,
            private: dispatch.private.saturating_add(3) & !3,
            ..UserData::default()
        };
        if let Some(queue) = &queue {
            queue.fill(&ring, &mut data)?;
            if let Some(team) = self.job.team {
                let own = queue.scratch_size(&ring)?.wrapping_mul(team.place as u64);
                data.flat_scratch = data.flat_scratch.wrapping_add(own);
            }
        }
        if self.gpu.regs.asic.isa.is_gfx942() {
            let (first, count) = descriptor.preload();
            let mut bytes = [0; USER * 4];
            let bytes = &mut bytes[..count.min(USER) * 4];
            if count != 0 {
                ring.read(dispatch.kernarg.wrapping_add(first as u64 * 4), bytes)?;
            }
            for (argument, word) in data.preload.iter_mut().zip(bytes.chunks_exact(4)) {
                *argument = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            }
        }
        let kernel = match self.kernel(&dispatch, &descriptor, &data) {
            Ok(kernel) => kernel,
            Err(refusal) => return Ok(Err(refusal)),
        };
        self.job.compute.kernel(&Kernel { tmpring, ..kernel });
        Ok(self.start(true)?.map(|()| Work::Blocked))
    }

    fn kernel(
        &self,
        dispatch: &Dispatch,
        descriptor: &Descriptor,
        data: &UserData,
    ) -> Checked<Kernel> {
        const USER_SGPR: Field = Field::new(5, 1);
        const SCRATCH_EN: Field = Field::new(0, 0);
        let code = |reason| Err((Exception::Code, reason));
        let pc = dispatch.kernel.wrapping_add_signed(descriptor.entry());
        if pc % 256 != 0 {
            return code("the code is not aligned to 256 bytes");
        }
        if descriptor.preload != 0 && !self.gpu.regs.asic.isa.is_gfx942() {
            return code("kernel arguments are not preloaded on gfx90a");
        }
        let (user, count) = descriptor.user(data);
        if count as u32 != USER_SGPR.get(descriptor.rsrc2) {
            return code("USER_SGPR is not what the kernel's properties ask for");
        }
        // Without private memory there are no slots, whatever the descriptor says.
        let rsrc2 = match dispatch.private {
            0 => SCRATCH_EN.put(descriptor.rsrc2, 0),
            _ => descriptor.rsrc2,
        };
        let at = self.job.rptr % self.job.size / super::hqd_registers::AQL_DWORDS;
        let isa = self.gpu.regs.asic.isa;
        Ok(Kernel {
            pc,
            rsrc: [descriptor.rsrc1, rsrc2, descriptor.rsrc3],
            size: dispatch.size,
            grid: dispatch.grid,
            lds: dispatch.group,
            tmpring: 0,
            scratch: isa.is_gfx942().then_some(data.flat_scratch),
            user,
            packet: at as u32,
        })
    }
}
