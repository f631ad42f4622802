// SPDX-License-Identifier: GPL-2.0
//! What a debugger sets of a process's waves on a GPU: how they are launched, which exceptions
//! trap, and which memory is watched. The numbers are those of linux/kfd_ioctl.h.

use crate::bits::{hi, lo, Field};

/// Watch points of a GPU, which its processes share.
pub const WATCH_POINTS: usize = 4;
/// Exceptions that can be made to trap: `KFD_DBG_TRAP_MASK_*`. Those by which waves trap at their
/// start and end, of gfx 9.4.3, are not among them.
pub const EXCEPTIONS: u32 = 0x1ff;

/// Fields of SPI_GDBG_PER_VMID_CNTL.
const LAUNCH_MODE: Field = Field::new(2, 1);
/// Waves find their packet, group and place in their TTMPs.
const TRAP_EN: Field = Field::bit(3);
const EXCP_EN: Field = Field::new(12, 4);
const EXCP_REPLACE: Field = Field::bit(13);

/// Fields of TCP_WATCHn_CNTL. The firmware adds the VMID.
const WATCH_MASK: Field = Field::new(23, 0);
const WATCH_MODE: Field = Field::new(30, 29);
const WATCH_VALID: Field = Field::bit(31);

/// How waves are launched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaunchMode {
    /// They run.
    #[default]
    Normal = 0,
    /// They are halted before their first instruction.
    Halt = 1,
    /// They trap after each instruction.
    Debug = 3,
}

impl LaunchMode {
    /// The mode of number `mode`, if there is one.
    pub const fn new(mode: u32) -> Option<Self> {
        match mode {
            0 => Some(Self::Normal),
            1 => Some(Self::Halt),
            3 => Some(Self::Debug),
            _ => None,
        }
    }
}

/// What is set of the waves of a process, the same on all GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaveControls {
    /// How they are launched.
    pub launch: LaunchMode,
    /// Bits of [`EXCEPTIONS`] that trap.
    exceptions: u32,
    /// Only these, and none that the kernel enables.
    replaces: bool,
    /// A wave has one access to memory under way at a time, so that a trap comes right after it.
    pub precise_memory: bool,
}

impl WaveControls {
    /// Has the exceptions of `request` trap or not, as `enable` says, in addition to those that
    /// kernels enable, or instead (`replaces`). Returns those that have trapped before.
    pub fn override_exceptions(&mut self, replaces: bool, enable: u32, request: u32) -> u32 {
        let before = self.exceptions;
        self.exceptions = (enable & request | before & !request) & EXCEPTIONS;
        self.replaces = replaces;
        before
    }

    /// SPI_GDBG_PER_VMID_CNTL.
    #[inline]
    pub const fn register(self) -> u32 {
        LAUNCH_MODE.put(self.launch as u32)
            | TRAP_EN.flag(true)
            | EXCP_EN.put(self.exceptions)
            | EXCP_REPLACE.flag(self.replaces)
    }
}

/// Bits of an address that a chip can leave out of a watch point's comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchInfo {
    /// The lowest one. Those below are never compared.
    pub lowest: u32,
    /// The highest one. Those above are always compared.
    pub highest: u32,
}

/// A watch point: accesses to an address whose bits under the mask are those of the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchPoint {
    /// The address.
    pub address: u64,
    /// Bits 31:0 of the mask; all others are compared.
    pub mask: u32,
    /// Which accesses: 0 loads, 1 all others, 2 atomics, 3 all. Only two bits count.
    pub mode: u32,
}

impl WatchPoint {
    /// TCP_WATCHn_ADDR_H and _L.
    #[inline]
    pub const fn address_registers(self) -> [u32; 2] {
        [hi(self.address) & 0xffff, lo(self.address)]
    }

    /// TCP_WATCHn_CNTL, without the VMID, of a chip with `info`.
    #[inline]
    pub const fn control(self, info: WatchInfo) -> u32 {
        WATCH_MASK.put((self.mask >> info.lowest) & WATCH_MASK.max())
            | WATCH_MODE.put(self.mode & WATCH_MODE.max())
            | WATCH_VALID.flag(true)
    }
}

/// What is set of a process's waves on one GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DebugControls {
    /// The same on all GPUs.
    pub waves: WaveControls,
    /// The watch points that are the process's: TCP_WATCHn_CNTL without the VMID; 0 for none.
    pub watches: [u32; WATCH_POINTS],
}
