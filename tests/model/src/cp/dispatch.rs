// SPDX-License-Identifier: GPL-2.0
//! KERNEL_DISPATCH: from the packet, the kernel's descriptor and the amd_queue_t to waves, and what comes after them.

use std::sync::Arc;

use rkfd_shader::dispatch::Launch;
use rkfd_shader::kernel::{Descriptor, UserData, DESCRIPTOR};
use rkfd_shader::wave::{Apertures, Reason};

use super::aql::Packet;
use super::execute::{address_space, Executor, Outcome, Work};
use super::interrupt::Exception;
use super::mqd;
use super::pm4::Refusal;
use super::signal::Queue;
use crate::error::{ModelError, Result};
use crate::regs::{gc, Field};
use crate::sq::grid::{Grid, Origin, Scratch};

/// Greatest LDS and greatest number of items of a group.
const MOST_LDS: u32 = 64 << 10;
const MOST_ITEMS: u32 = 1024;
/// VGPRs of a lane of a SIMD, and how many SIMDs a group goes round.
const VGPRS: u32 = 512;
const SIMDS: u32 = 4;
/// What queue_inactive_signal is stored for: there is too little scratch, and scratch can be taken back.
const MORE_SCRATCH: u64 = 1;
const SCRATCH_USED: u64 = 512;

/// Result of looking at something that a user wrote.
type Checked<T> = std::result::Result<T, Refusal>;

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
        // Each of them fits into 16 bits, so the product of two into 32.
        let items = self.size.iter().map(|&n| u64::from(n)).product::<u64>();
        if items > u64::from(MOST_ITEMS) {
            let reason = "a group has more than 1024 items";
            return Err((Exception::GroupSize, reason));
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
    /// KERNEL_DISPATCH: starts its waves, or looks whether they have ended.
    pub(super) fn dispatch(&mut self, packet: &Packet) -> Outcome {
        let Some(grid) = self.job.grid.clone() else {
            return self.launch(packet);
        };
        let Some(times) = grid.times() else {
            return Ok(Ok(Work::Blocked));
        };
        self.job.ended = true;
        if grid.is_killed() {
            self.job.grid = None;
            return Ok(Ok(Work::Blocked));
        }
        if grid.is_faulted() {
            return Ok(Ok(Work::Stuck));
        }
        if !self.returned_scratch()? {
            return Ok(Ok(Work::Blocked));
        }
        self.times = Some(times);
        self.job.grid = None;
        Ok(Ok(Work::Done))
    }

    /// Whether the queue may go on: where scratch is to be used once, its owner is asked to take it back, and has.
    fn returned_scratch(&self) -> Result<bool> {
        let ring = address_space(self.gpu, self.job.vmid);
        let Some(queue) = Queue::of(self.job, &ring)? else {
            return Ok(true);
        };
        if !queue.uses_scratch_once(&ring)? {
            return Ok(true);
        }
        if queue.inactive(&ring)? == 0 {
            queue.deactivate(self.gpu, self.job, &ring, SCRATCH_USED)?;
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
        let mut bytes = [0; DESCRIPTOR];
        let before = ring.faults();
        ring.read(dispatch.kernel, &mut bytes)?;
        if ring.faults() != before {
            return Ok(Err((Exception::Code, "the descriptor cannot be read")));
        }
        let descriptor = Descriptor::of(&bytes);
        let mut scratch = None;
        if dispatch.private > 0 {
            let (tmpring, lane) = match &queue {
                Some(queue) => queue.scratch(&ring)?,
                None => (0, 0),
            };
            if tmpring == 0 || dispatch.private > lane {
                let Some(queue) = &queue else {
                    let reason = "private memory without an amd_queue_t";
                    return Ok(Err((Exception::Unsupported, reason)));
                };
                queue.deactivate(self.gpu, self.job, &ring, MORE_SCRATCH)?;
                return Ok(Ok(Work::Blocked));
            }
            scratch = Some(Scratch::of(tmpring));
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
        }
        let launch = match self.waves(&dispatch, &descriptor, &data) {
            Ok(launch) => launch,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let cus = mqd::cus(self.gpu, self.job.mqd)?;
        if cus.is_empty() {
            return Err(ModelError::Other(format!(
                "{}: a dispatch, and the masks in the MQD leave no CU",
                self.job.slot
            )));
        }
        let origin = Origin {
            queue: self.job.slot.to_string(),
            vmid: self.job.vmid,
            doorbell: Field::new(9, 0).of(self.job.doorbell / 2),
            kernel: dispatch.kernel,
        };
        let scratch = scratch.filter(|_| launch.has_scratch());
        let grid = match Grid::new(launch, origin, cus, scratch) {
            Ok(grid) => Arc::new(grid),
            Err(reason) => return Ok(Err((Exception::Unsupported, reason))),
        };
        self.gpu.sq.start(self.gpu, grid.clone());
        self.job.grid = Some(grid);
        Ok(Ok(Work::Blocked))
    }

    fn waves(
        &self,
        dispatch: &Dispatch,
        descriptor: &Descriptor,
        data: &UserData,
    ) -> Checked<Launch> {
        const USER_SGPR: Field = Field::new(5, 1);
        const SHARED: Field = Field::new(31, 16);
        const PRIVATE: Field = Field::new(15, 0);
        let code = |reason| Err((Exception::Code, reason));
        let pc = dispatch.kernel.wrapping_add_signed(descriptor.entry);
        if pc % 256 != 0 {
            return code("the code is not aligned to 256 bytes");
        }
        if descriptor.preload != 0 {
            return code("kernel arguments are not preloaded on gfx90a");
        }
        let (user, count) = descriptor.user(data);
        if count as u32 != USER_SGPR.get(descriptor.rsrc2) {
            return code("USER_SGPR is not what the kernel's properties ask for");
        }
        let vmid = u32::from(self.job.vmid);
        let bases = self.gpu.grbm.of_vmid(gc::SH_MEM_BASES, vmid);
        let (size, grid) = (dispatch.size, dispatch.grid);
        let launch = Launch {
            pc,
            rsrc1: descriptor.rsrc1,
            rsrc2: descriptor.rsrc2,
            rsrc3: descriptor.rsrc3,
            user,
            size,
            groups: [0, 1, 2].map(|n| grid[n].div_ceil(size[n])),
            last: [0, 1, 2].map(|n| (grid[n] - 1) % size[n] + 1),
            start: [0; 3],
            lds: dispatch.group,
            apertures: Apertures {
                shared: SHARED.get(bases) as u16,
                private: PRIVATE.get(bases) as u16,
            },
        };
        let (arch, acc) = launch.vgprs();
        if launch.waves().div_ceil(SIMDS) * u32::from(arch + acc) > VGPRS {
            let reason = "a group's registers do not fit into a CU";
            return Err((Exception::Registers, reason));
        }
        match launch.check() {
            Ok(()) => Ok(launch),
            Err(Reason::Unsupported(what)) => Err((Exception::Unsupported, what)),
            Err(_) => code("the kernel's registers make no sense"),
        }
    }
}
