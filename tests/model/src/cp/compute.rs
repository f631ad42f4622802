// SPDX-License-Identifier: GPL-2.0
//! The COMPUTE_* registers of a queue: the state with which its next dispatch starts.

use rkfd_shader::dispatch::{Debug, Launch};
use rkfd_shader::image::LDS_UNIT;
use rkfd_shader::wave::{Apertures, Reason};

use super::interrupt::Exception;
use super::pm4::Refusal;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::hub::HubId;
use crate::regs::gc::{self, spi_gdbg_per_vmid_cntl as debug};
use crate::regs::{Field, Reg};
use crate::sq::grid::{Limits, Scratch};
use crate::sq::{Shape, ENGINES};
use crate::vm::Vm;

/// LAUNCH_MODE of new waves: halted, or trapping after each instruction.
const HALTED: u32 = 1;
const STEPPED: u32 = 3;

/// Result of a check of user data.
pub type Checked<T> = std::result::Result<T, Refusal>;

/// First register, and how many there are.
const FIRST: u32 = 0x2e00;
const COUNT: usize = 0x80;

/// Numbers of registers, from the first.
mod at {
    pub const INITIATOR: usize = 0x00;
    pub const DIM: usize = 0x01;
    pub const START: usize = 0x04;
    pub const NUM_THREAD: usize = 0x07;
    pub const PGM: usize = 0x0c;
    /// DISPATCH_SCRATCH_BASE, which gfx942 has.
    pub const SCRATCH: usize = 0x10;
    pub const RSRC1: usize = 0x12;
    pub const RSRC2: usize = 0x13;
    pub const VMID: usize = 0x14;
    pub const RESOURCE_LIMITS: usize = 0x15;
    pub const TMPRING_SIZE: usize = 0x18;
    pub const RESTART: usize = 0x1b;
    pub const DISPATCH_ID: usize = 0x20;
    pub const RELAUNCH: usize = 0x22;
    pub const RESTORE_ADDR_HI: usize = 0x24;
    pub const RSRC3: usize = 0x2d;
    pub const USER_DATA: usize = 0x40;
}

/// STATIC_THREAD_MGMT of engines 0 to 7.
const CU_MASKS: [usize; ENGINES as usize] = [0x16, 0x17, 0x19, 0x1a, 0x25, 0x26, 0x27, 0x28];

/// DISPATCH_INITIATOR.
pub mod initiator {
    use crate::regs::Field;

    pub const SHADER_EN: Field = Field::new(0, 0);
    pub const PARTIAL_TG_EN: Field = Field::new(1, 1);
    pub const FORCE_START_AT_000: Field = Field::new(2, 2);
    pub const ORDERED_APPEND_ENBL: Field = Field::new(3, 3);
    pub const USE_THREAD_DIMENSIONS: Field = Field::new(5, 5);
    pub const RESTORE: Field = Field::new(14, 14);
}

/// PGM_RSRC1.PRIV.
const PRIV: Field = Field::new(20, 20);
/// PGM_RSRC2.
pub const TRAP_PRESENT: Field = Field::new(6, 6);
const LDS_SIZE: Field = Field::new(23, 15);
/// NUM_THREAD.
const FULL: Field = Field::new(15, 0);
const PARTIAL: Field = Field::new(31, 16);
/// RESOURCE_LIMITS.
const WAVES_PER_SH: Field = Field::new(9, 0);
const TG_PER_CU: Field = Field::new(15, 12);
const SIMD_DISABLE: Field = Field::new(30, 27);
/// Bit of RELAUNCH's payload, which is the command processor's own: the packet at the read pointer
/// is done when the waves have ended.
const OF_PACKET: Field = Field::new(0, 0);

/// Greatest LDS and greatest number of items of a group.
const MOST_LDS: u32 = 64 << 10;
const MOST_ITEMS: u64 = 1024;
/// VGPRs of a lane of a SIMD, and the number of SIMDs over which a group is distributed.
const VGPRS: u32 = 512;
const SIMDS: u32 = 4;

/// The place of RSRC3 in the MQD: it is undocumented, so one of the reserved dwords.
const RSRC3_DWORD: u64 = 43;
/// Dwords of the MQD that have registers.
const DWORDS: usize = 81;

/// The MQD's dword of a register.
fn dword(n: usize) -> Option<u64> {
    match n {
        0x00..=0x24 | 0x40..=0x4f => Some(n as u64 + 1),
        0x25..=0x28 => Some(n as u64 + 2),
        at::RSRC3 => Some(RSRC3_DWORD),
        _ => None,
    }
}

/// Returns whether only the driver sets a register of a user's queue.
fn is_the_drivers(n: usize) -> bool {
    n == at::VMID || CU_MASKS.contains(&n)
}

/// The registers of one queue.
#[derive(Clone)]
pub struct ComputeRegisters {
    values: [u32; COUNT],
    /// RSRC2.TRAP_PRESENT in the MQD.
    trap_present: bool,
    /// They differ from the MQD.
    changed: bool,
}

/// A dispatch as described by an AQL packet and its kernel.
pub struct Kernel {
    /// Address of the code.
    pub pc: u64,
    /// COMPUTE_PGM_RSRC1 to 3.
    pub rsrc: [u32; 3],
    /// Items of a group.
    pub size: [u32; 3],
    /// Items in all.
    pub grid: [u32; 3],
    /// Bytes of LDS, at most 64 KiB.
    pub lds: u32,
    /// COMPUTE_TMPRING_SIZE.
    pub tmpring: u32,
    /// Address of the scratch of the first slot, where it does not come in user SGPRs.
    pub scratch: Option<u64>,
    /// User SGPRs.
    pub user: [u32; 16],
    /// Index of the packet in the ring.
    pub packet: u32,
}

impl ComputeRegisters {
    /// Out of reset.
    pub fn new() -> ComputeRegisters {
        ComputeRegisters {
            values: [0; COUNT],
            trap_present: false,
            changed: false,
        }
    }

    /// Returns whether `reg` is one of those that a queue has: they are in its MQD.
    pub fn owns(reg: Reg) -> bool {
        let n = reg.0.checked_sub(FIRST);
        n.is_some_and(|n| dword(n as usize).is_some())
    }

    /// Loads them from the MQD.
    pub fn load(&mut self, gpu: &Gpu, mqd: u64) -> Result<()> {
        let mut image = [0; DWORDS * 4];
        Vm::kernel(gpu, HubId::Gfx).read(mqd, &mut image)?;
        for (n, value) in self.values.iter_mut().enumerate() {
            let Some(dword) = dword(n) else { continue };
            let at = dword as usize * 4;
            *value = u32::from_le_bytes([image[at], image[at + 1], image[at + 2], image[at + 3]]);
        }
        self.trap_present = TRAP_PRESENT.is_set(self.values[at::RSRC2]);
        self.changed = false;
        Ok(())
    }

    /// Stores those that a user can change into the MQD.
    pub fn save(&self, gpu: &Gpu, mqd: u64) -> Result<()> {
        if !self.changed {
            return Ok(());
        }
        let vm = Vm::kernel(gpu, HubId::Gfx);
        for (n, &value) in self.values.iter().enumerate() {
            let Some(dword) = dword(n).filter(|_| !is_the_drivers(n)) else {
                continue;
            };
            let value = match n {
                at::RSRC2 => value | TRAP_PRESENT.of(self.trap_present.into()),
                _ => value,
            };
            vm.store32(mqd + dword * 4, value)?;
        }
        Ok(())
    }

    /// SET_SH_REG. A user cannot choose CUs and VMID, nor the command processor's own fields or
    /// STATUS.PRIV.
    pub fn write(&mut self, reg: Reg, value: u32, privileged: bool) -> Checked<()> {
        let n = (reg.0 - FIRST) as usize;
        if !privileged {
            let refused = match n {
                at::RELAUNCH..=at::RESTORE_ADDR_HI => true,
                at::RSRC1 => PRIV.is_set(value),
                _ => false,
            };
            if refused {
                let reason = "COMPUTE_* of a user: RELAUNCH, WAVE_RESTORE_ADDR or RSRC1.PRIV";
                return Err((Exception::Unsupported, reason));
            }
            if is_the_drivers(n) {
                return Ok(());
            }
        }
        self.values[n] = value;
        self.changed = true;
        Ok(())
    }

    /// DISPATCH_DIRECT.
    pub fn dispatch(&mut self, dims: [u32; 3], initiator: u32) {
        self.values[at::DIM..][..3].copy_from_slice(&dims);
        self.values[at::INITIATOR] = initiator;
        self.changed = true;
    }

    /// KERNEL_DISPATCH.
    pub fn kernel(&mut self, kernel: &Kernel) {
        let initiator = initiator::SHADER_EN.of(1)
            | initiator::FORCE_START_AT_000.of(1)
            | initiator::USE_THREAD_DIMENSIONS.of(1);
        self.dispatch(kernel.grid, initiator);
        let values = &mut self.values;
        values[at::NUM_THREAD..][..3].copy_from_slice(&kernel.size.map(|n| FULL.of(n)));
        values[at::PGM] = (kernel.pc >> 8) as u32;
        values[at::PGM + 1] = (kernel.pc >> 40) as u32 & 0xff;
        let [rsrc1, rsrc2, rsrc3] = kernel.rsrc;
        values[at::RSRC1] = PRIV.put(rsrc1, 0);
        values[at::RSRC2] = LDS_SIZE.put(rsrc2, kernel.lds.div_ceil(LDS_UNIT))
            | TRAP_PRESENT.of(self.trap_present.into());
        values[at::RSRC3] = rsrc3;
        if let Some(base) = kernel.scratch {
            values[at::SCRATCH] = (base >> 8) as u32;
            values[at::SCRATCH + 1] = (base >> 40) as u32 & 0xff;
        }
        values[at::TMPRING_SIZE] = kernel.tmpring;
        values[at::USER_DATA..][..16].copy_from_slice(&kernel.user);
        values[at::DISPATCH_ID] = kernel.packet;
    }

    fn three(&self, first: usize) -> [u32; 3] {
        [0, 1, 2].map(|n| self.values[first + n])
    }

    /// Returns whether the initiator starts waves.
    pub fn is_enabled(&self) -> bool {
        initiator::SHADER_EN.is_set(self.values[at::INITIATOR])
    }

    /// The dispatch, in address space `vmid`.
    pub fn launch(&self, gpu: &Gpu, vmid: u8) -> Checked<Launch> {
        const SHARED: Field = Field::new(31, 16);
        const PRIVATE: Field = Field::new(15, 0);
        let refuse = |code, reason| Err((code, reason));
        let initiator = self.values[at::INITIATOR];
        if initiator::ORDERED_APPEND_ENBL.is_set(initiator) || initiator::RESTORE.is_set(initiator)
        {
            return refuse(Exception::Unsupported, "ORDERED_APPEND_ENBL or RESTORE");
        }
        let threads = self.three(at::NUM_THREAD);
        let size = threads.map(|n| FULL.get(n));
        if size.contains(&0) {
            return refuse(Exception::Dimensions, "a group has no items");
        }
        // Each of them fits into 16 bits, so the product of three into 64.
        if size.iter().map(|&n| u64::from(n)).product::<u64>() > MOST_ITEMS {
            return refuse(Exception::GroupSize, "a group has more than 1024 items");
        }
        let lds = LDS_SIZE.get(self.values[at::RSRC2]) * LDS_UNIT;
        if lds > MOST_LDS {
            return refuse(
                Exception::GroupSegment,
                "a group has more than 64 KiB of LDS",
            );
        }
        let dims = self.three(at::DIM);
        let start = if initiator::FORCE_START_AT_000.is_set(initiator) {
            [0; 3]
        } else {
            self.three(at::START)
        };
        let by_thread = initiator::USE_THREAD_DIMENSIONS.is_set(initiator);
        let partial = initiator::PARTIAL_TG_EN.is_set(initiator);
        // Dimensions count from 0, even if the first group is another one.
        let ends = [0, 1, 2].map(|n| {
            if by_thread {
                dims[n].div_ceil(size[n])
            } else {
                dims[n]
            }
        });
        let last = [0, 1, 2].map(|n| match PARTIAL.get(threads[n]) {
            _ if by_thread => dims[n].saturating_sub(1) % size[n] + 1,
            0 => size[n],
            items if partial => items.min(size[n]),
            _ => size[n],
        });
        let vmid = u32::from(vmid);
        let bases = gpu.grbm.of_bank(gc::SH_MEM_BASES, vmid);
        let control = gpu.grbm.of_bank(gc::SPI_GDBG_PER_VMID_CNTL, vmid);
        let mut user = [0; 16];
        user.copy_from_slice(&self.values[at::USER_DATA..][..16]);
        let launch = Launch {
            isa: gpu.regs.asic.isa,
            scratch: u64::from(self.values[at::SCRATCH]) << 8
                | u64::from(self.values[at::SCRATCH + 1] & 0xff) << 40,
            pc: u64::from(self.values[at::PGM]) << 8
                | u64::from(self.values[at::PGM + 1] & 0xff) << 40,
            rsrc1: self.values[at::RSRC1],
            rsrc2: self.values[at::RSRC2],
            rsrc3: self.values[at::RSRC3],
            user,
            size,
            groups: [0, 1, 2].map(|n| ends[n].saturating_sub(start[n])),
            last,
            start,
            lds,
            apertures: Apertures {
                shared: SHARED.get(bases) as u16,
                private: PRIVATE.get(bases) as u16,
            },
            ttmps: debug::TRAP_EN
                .is_set(control)
                .then_some(self.values[at::DISPATCH_ID]),
            debug: Debug {
                halted: debug::LAUNCH_MODE.get(control) == HALTED,
                stepped: debug::LAUNCH_MODE.get(control) == STEPPED,
                exceptions: debug::EXCP_EN.get(control),
                replaces: debug::EXCP_REPLACE.is_set(control),
            },
        };
        let (arch, acc) = launch.vgprs();
        if launch.waves().div_ceil(SIMDS) * u32::from(arch + acc) > VGPRS {
            let reason = "a group's registers do not fit into a CU";
            return refuse(Exception::Registers, reason);
        }
        match launch.check() {
            Ok(()) => Ok(launch),
            Err(Reason::Unsupported(what)) => refuse(Exception::Unsupported, what),
            Err(_) => refuse(Exception::Code, "the kernel's registers make no sense"),
        }
    }

    /// TMPRING_SIZE.
    pub fn scratch(&self, shape: &Shape) -> Scratch {
        Scratch::of(self.values[at::TMPRING_SIZE], shape.engines)
    }

    /// The CUs that the masks leave: engine and number, engines first.
    pub fn cus(&self, shape: &Shape) -> Vec<(u32, u32)> {
        let engines = shape.engines;
        let all = (0..shape.cus).flat_map(|bit| (0..engines).map(move |engine| (engine, bit)));
        all.filter(|&(engine, bit)| self.values[CU_MASKS[engine as usize]] >> bit & 1 == 1)
            .filter_map(|(engine, bit)| Some((engine, shape.by_mask_bit(engine, bit)?)))
            .collect()
    }

    /// RESOURCE_LIMITS.
    pub fn limits(&self) -> Limits {
        let value = self.values[at::RESOURCE_LIMITS];
        let limit = |field: Field| Some(field.get(value)).filter(|&n| n != 0);
        Limits {
            waves_per_engine: limit(WAVES_PER_SH),
            groups_per_cu: limit(TG_PER_CU),
            simds: !SIMD_DISABLE.get(value) as u8 & 0xf,
        }
    }

    /// The first group of a dispatch that was not launched when its queue left, among all of
    /// `launch`, and whether the packet at the read pointer is done with its waves.
    pub fn restart(&self, launch: &Launch) -> (u64, bool) {
        let at = self.three(at::RESTART);
        let [x, y, z] = [0, 1, 2].map(|n| u64::from(at[n].saturating_sub(launch.start[n])));
        let [width, height, _] = launch.groups.map(u64::from);
        let index =
            x.saturating_add(width.saturating_mul(y.saturating_add(height.saturating_mul(z))));
        (
            index.min(launch.count()),
            OF_PACKET.is_set(self.values[at::RELAUNCH]),
        )
    }

    /// See [`ComputeRegisters::restart`].
    pub fn set_restart(&mut self, launch: &Launch, next: u64, of_packet: bool) {
        let [width, height, _] = launch.groups.map(|n| u64::from(n.max(1)));
        let id = [next % width, next / width % height, next / width / height];
        for (n, (start, id)) in launch.start.iter().zip(id).enumerate() {
            self.values[at::RESTART + n] = start.wrapping_add(id as u32);
        }
        self.values[at::RELAUNCH] = OF_PACKET.of(of_packet.into());
        self.changed = true;
    }
}
