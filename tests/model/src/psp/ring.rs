// SPDX-License-Identifier: GPL-2.0
//! The ring by which the secure OS takes commands (C2PMSG_64, and _67 to _71).

use std::time::Duration;

use super::bootloader::{SecureOs, READY};
use super::{Psp, State};
use crate::error::{ModelError, Result};
use crate::gpu::Gpu;
use crate::hub::HubId;
use crate::regs::mp0;
use crate::vm::Vm;

/// Commands of C2PMSG_64, whose answer is the command with bit 31 and a status below.
const MAKE: u32 = 2 << 16;
const DESTROY: u32 = 3 << 16;
/// Another ring is there.
const STATUS_EXISTS: u32 = 0x7;
/// Bytes and dwords of a frame.
const FRAME: u64 = 64;
const FRAME_DWORDS: u32 = 16;
const PAGE: u64 = 4096;
/// The time that the secure OS takes to answer C2PMSG_64, and to look at the ring.
pub(super) const CONTROL: Duration = Duration::from_millis(1);
pub(super) const FETCH: Duration = Duration::from_micros(50);

/// A ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ring {
    base: u64,
    dwords: u32,
    /// Commands since it was made.
    pub(super) commands: u64,
}

impl Ring {
    /// The ring of a previous driver.
    pub(super) fn left() -> Ring {
        Ring {
            base: 0,
            dwords: PAGE as u32 / 4,
            commands: 0,
        }
    }
}

/// A frame, as far as it is not zero.
pub(super) struct Frame {
    pub(super) page: u64,
    pub(super) fence: u64,
    pub(super) value: u32,
}

impl Frame {
    fn parse(bytes: &[u8; FRAME as usize]) -> Result<Frame> {
        let dword = |n: usize| u32::from_le_bytes([0, 1, 2, 3].map(|k| bytes[4 * n + k]));
        let wide = |n: usize| u64::from(dword(n)) | u64::from(dword(n + 1)) << 32;
        let frame = Frame {
            page: wide(0),
            fence: wide(3),
            value: dword(5),
        };
        // amdgpu does not set the command's size. The fields behind the fence are for other rings.
        if (6..16).any(|n| dword(n) != 0) {
            return Err(error("a frame has something behind its fence"));
        }
        if frame.page % PAGE != 0 || frame.fence % 4 != 0 {
            return Err(error("a frame's addresses are not aligned"));
        }
        Ok(frame)
    }
}

fn error(what: &str) -> ModelError {
    ModelError::Other(format!("the PSP's ring: {what}"))
}

impl Psp {
    /// Handles a write of C2PMSG_64.
    pub(super) fn ring_command(&self, gpu: &Gpu, state: &State, value: u32) -> Result<()> {
        let reg = mp0::MP0_SMN_C2PMSG_64;
        if state.os != SecureOs::Alive {
            return Err(gpu.regs.refuse(reg, value, "no secure OS runs"));
        }
        if gpu.regs.get(reg) & READY == 0 {
            return Err(gpu.regs.refuse(reg, value, "the last command is not done"));
        }
        if !matches!(value, MAKE | DESTROY) {
            return Err(gpu.regs.refuse(reg, value, "no command that is modelled"));
        }
        gpu.regs.set(reg, value);
        Ok(())
    }

    /// Executes the command in C2PMSG_64.
    pub(super) fn control(&self, gpu: &Gpu, state: &mut State, command: u32) -> Result<()> {
        if state.faults.ring_hangs {
            return Ok(());
        }
        let status = if command == MAKE {
            self.make_ring(gpu, state)?
        } else {
            state.ring = None;
            self.trace.add("ring gone".into());
            0
        };
        gpu.regs
            .set(mp0::MP0_SMN_C2PMSG_64, READY | command | status);
        Ok(())
    }

    fn make_ring(&self, gpu: &Gpu, state: &mut State) -> Result<u32> {
        let regs = &gpu.regs;
        let base = u64::from(regs.get(mp0::MP0_SMN_C2PMSG_69))
            | u64::from(regs.get(mp0::MP0_SMN_C2PMSG_70)) << 32;
        let size = u64::from(regs.get(mp0::MP0_SMN_C2PMSG_71));
        if base % PAGE != 0 || size == 0 || size % FRAME != 0 {
            return Err(error(&format!("{size:#x} bytes at {base:#x}")));
        }
        gpu.check_bar0()?;
        // The ring has to be accessible as a whole.
        Vm::kernel(gpu, HubId::Mm).read(base, &mut vec![0; size as usize])?;
        let status = match (state.faults.ring, state.ring) {
            (Some(status), _) => status,
            (None, Some(_)) => STATUS_EXISTS,
            (None, None) => 0,
        };
        if status == 0 {
            state.ring = Some(Ring {
                base,
                dwords: (size / 4) as u32,
                commands: 0,
            });
            state.fresh = true;
            regs.set(mp0::MP0_SMN_C2PMSG_67, 0);
            regs.set(mp0::MP0_SMN_C2PMSG_68, 0);
        }
        self.trace.add(format!("ring make {size:#x} {status:#x}"));
        Ok(status)
    }

    /// Handles a write of C2PMSG_67.
    pub(super) fn ring_pointer(&self, gpu: &Gpu, state: &State, value: u32) -> Result<()> {
        let reg = mp0::MP0_SMN_C2PMSG_67;
        let refuse = |reason: &str| Err(gpu.regs.refuse(reg, value, reason));
        match state.ring {
            None => refuse("there is no ring"),
            Some(ring) if value % FRAME_DWORDS != 0 || value >= ring.dwords => {
                refuse("no frame of the ring begins there")
            }
            Some(_) => {
                gpu.regs.set(reg, value);
                Ok(())
            }
        }
    }

    /// Executes the frames in the ring.
    pub(super) fn frames(&self, gpu: &Gpu, state: &mut State) -> Result<()> {
        let vm = Vm::kernel(gpu, HubId::Mm);
        while let Some(ring) = state.ring {
            let at = gpu.regs.get(mp0::MP0_SMN_C2PMSG_68);
            if at == gpu.regs.get(mp0::MP0_SMN_C2PMSG_67) {
                break;
            }
            let mut bytes = [0; FRAME as usize];
            vm.read(ring.base + 4 * u64::from(at), &mut bytes)?;
            let frame = Frame::parse(&bytes)?;
            self.command(gpu, state, &frame)?;
            let next = (at + FRAME_DWORDS) % ring.dwords;
            gpu.regs.set(mp0::MP0_SMN_C2PMSG_68, next);
        }
        Ok(())
    }
}
