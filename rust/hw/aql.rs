// SPDX-License-Identifier: GPL-2.0
//! Packets of AQL queues as a report shows them: HSA Platform System Architecture 1.2, 2.9. They
//! are the memory of a process, which may hold anything.

use core::fmt;

use crate::bits::{join, Field};

/// Dwords of a packet.
pub const PACKET_DWORDS: usize = 16;

const TYPE: Field = Field::new(7, 0);
const DIMENSIONS: Field = Field::new(17, 16);
const GROUP_X: Field = Field::new(15, 0);
const GROUP_Y: Field = Field::new(31, 16);

const VENDOR: u32 = 0;
const INVALID: u32 = 1;
const KERNEL_DISPATCH: u32 = 2;
const BARRIER_AND: u32 = 3;
const AGENT_DISPATCH: u32 = 4;
const BARRIER_OR: u32 = 5;

/// The start of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelDispatch {
    /// Work-items in each dimension.
    pub grid: [u32; 3],
    /// Work-items of a work-group in each dimension.
    pub group: [u32; 3],
    /// Address of the kernel object.
    pub object: u64,
    /// Address of the arguments.
    pub arguments: u64,
}

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AqlPacket {
    /// Starts a kernel.
    Kernel(KernelDispatch),
    /// Did so: the CP has taken it, and what is behind its header is left.
    Taken(KernelDispatch),
    /// Waits for signals.
    Barrier,
    /// Of a format of the vendor's.
    Vendor,
    /// Calls an agent.
    Agent,
    /// The process has not written it yet, or the CP has taken it.
    Invalid,
    /// No packet: the type.
    Unknown(u8),
}

impl AqlPacket {
    /// The packet of these dwords.
    pub fn decode(dwords: &[u32; PACKET_DWORDS]) -> Self {
        let dispatch = KernelDispatch {
            grid: [dwords[3], dwords[4], dwords[5]],
            group: [
                GROUP_X.get(dwords[1]),
                GROUP_Y.get(dwords[1]),
                GROUP_X.get(dwords[2]),
            ],
            object: join(dwords[8], dwords[9]),
            arguments: join(dwords[10], dwords[11]),
        };
        match TYPE.get(dwords[0]) {
            VENDOR => Self::Vendor,
            INVALID if DIMENSIONS.is_set(dwords[0]) && dispatch.object != 0 => {
                Self::Taken(dispatch)
            }
            INVALID => Self::Invalid,
            KERNEL_DISPATCH => Self::Kernel(dispatch),
            BARRIER_AND | BARRIER_OR => Self::Barrier,
            AGENT_DISPATCH => Self::Agent,
            other => Self::Unknown(other as u8),
        }
    }
}

impl fmt::Display for KernelDispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([x, y, z], [gx, gy, gz]) = (self.grid, self.group);
        let (object, arguments) = (self.object, self.arguments);
        write!(
            f,
            "kernel object {object:#x}, grid {x}x{y}x{z}, group {gx}x{gy}x{gz}, arguments at \
             {arguments:#x}"
        )
    }
}

impl fmt::Display for AqlPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(dispatch) => write!(f, "dispatch, {dispatch}"),
            Self::Taken(dispatch) => write!(f, "dispatch that was taken, {dispatch}"),
            Self::Barrier => f.write_str("barrier"),
            Self::Vendor => f.write_str("vendor packet"),
            Self::Agent => f.write_str("agent dispatch"),
            Self::Invalid => f.write_str("invalid packet"),
            Self::Unknown(format) => write!(f, "packet of unknown type {format}"),
        }
    }
}
