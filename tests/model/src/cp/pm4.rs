// SPDX-License-Identifier: GPL-2.0
//! PM4 packets of compute queues: dwords to meaning.

use super::interrupt::Exception;
use crate::condition::Condition;
use crate::regs::Field;

/// The reason why a packet is refused: the exception code for the interrupt, and words for the log.
pub type Refusal = (Exception, &'static str);

const TYPE: Field = Field::new(31, 30);
const COUNT: Field = Field::new(29, 16);
const OPCODE: Field = Field::new(15, 8);

const NOP: u32 = 0x10;
const DISPATCH_DIRECT: u32 = 0x15;
const DISPATCH_INDIRECT: u32 = 0x16;
const ATOMIC_MEM: u32 = 0x1e;
const PRED_EXEC: u32 = 0x23;
const WRITE_DATA: u32 = 0x37;
const WAIT_REG_MEM: u32 = 0x3c;
const INDIRECT_BUFFER: u32 = 0x3f;
const COPY_DATA: u32 = 0x40;
const EVENT_WRITE: u32 = 0x46;
const RELEASE_MEM: u32 = 0x49;
const ACQUIRE_MEM: u32 = 0x58;
const SET_SH_REG: u32 = 0x76;
const SET_UCONFIG_REG: u32 = 0x79;

/// EVENT_WRITE's type: waits until all waves of the queue have ended.
const EVENT: Field = Field::new(5, 0);
const CS_PARTIAL_FLUSH: u32 = 7;
/// NOP's count that means no dwords at all behind the header.
const NOP_ALONE: u32 = 0x3fff;
/// First registers of SET_SH_REG and SET_UCONFIG_REG, and behind the last.
const SH: (u32, u32) = (0x2c00, 0x3000);
const UCONFIG: (u32, u32) = (0xc000, 0x1_0000);

/// Source or destination of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A register, by dword index.
    Register(u32),
    /// Memory.
    Memory(u64),
    /// The packet itself.
    Immediate(u64),
    /// The reference clock.
    Clock,
}

/// A decoded type-3 packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packet {
    /// NOP, and packets without effect here.
    Nop(&'static str),
    /// WRITE_DATA.
    Write {
        /// Register or memory.
        to: Place,
        /// All to the same place.
        fixed: bool,
        /// The data.
        data: Vec<u32>,
    },
    /// COPY_DATA.
    Copy {
        /// The source.
        from: Place,
        /// The destination.
        to: Place,
        /// 64 bits, not 32.
        wide: bool,
    },
    /// WAIT_REG_MEM.
    Wait {
        /// Register or memory.
        what: Place,
        /// Until when.
        until: Condition,
        /// A register that the reference value is written to first.
        request: Option<u32>,
    },
    /// INDIRECT_BUFFER.
    Indirect {
        /// Its address.
        base: u64,
        /// Its length.
        dwords: u64,
        /// Address space, if the kernel chooses it.
        vmid: u8,
        /// Takes the place of the buffer that it is in.
        chain: bool,
    },
    /// ATOMIC_MEM.
    Atomic {
        /// TC opcode.
        op: u32,
        /// Memory.
        addr: u64,
        /// Operand.
        operand: u64,
        /// For compare and swap.
        compare: u64,
        /// Try until it swaps.
        looped: bool,
    },
    /// RELEASE_MEM.
    Release {
        /// Memory.
        addr: u64,
        /// The written data.
        data: Release,
        /// Context id of the interrupt, if there is one.
        interrupt: Option<u32>,
    },
    /// DISPATCH_DIRECT and DISPATCH_INDIRECT.
    Dispatch {
        /// The dimensions.
        dims: Dims,
        /// COMPUTE_DISPATCH_INITIATOR.
        initiator: u32,
    },
    /// EVENT_WRITE of CS_PARTIAL_FLUSH.
    Flush,
    /// PRED_EXEC.
    Predicate {
        /// The XCCs of the partition that execute what follows, a bit each.
        mask: u32,
        /// How much follows.
        dwords: u64,
    },
    /// SET_SH_REG and SET_UCONFIG_REG.
    SetRegisters {
        /// Dword index of the first.
        first: u32,
        /// Values.
        values: Vec<u32>,
        /// Packet's name.
        name: &'static str,
    },
}

/// Place of a dispatch's dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dims {
    /// In the packet.
    Here([u32; 3]),
    /// In memory.
    At(u64),
}

/// The data that RELEASE_MEM writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// Nothing.
    Nothing,
    /// 32 bits.
    Dword(u32),
    /// 64 bits.
    Qword(u64),
    /// The reference clock.
    Clock,
}

impl Packet {
    /// For the counters.
    pub fn name(&self) -> &'static str {
        match self {
            Packet::Nop(name) | Packet::SetRegisters { name, .. } => name,
            Packet::Write { .. } => "WRITE_DATA",
            Packet::Copy { .. } => "COPY_DATA",
            Packet::Wait { .. } => "WAIT_REG_MEM",
            Packet::Indirect { .. } => "INDIRECT_BUFFER",
            Packet::Atomic { .. } => "ATOMIC_MEM",
            Packet::Release { .. } => "RELEASE_MEM",
            Packet::Flush => "EVENT_WRITE",
            Packet::Predicate { .. } => "PRED_EXEC",
            Packet::Dispatch {
                dims: Dims::Here(_),
                ..
            } => "DISPATCH_DIRECT",
            Packet::Dispatch { .. } => "DISPATCH_INDIRECT",
        }
    }
}

/// The opcode in a packet's header.
pub fn opcode(header: u32) -> u32 {
    OPCODE.get(header)
}

/// Dwords of the packet that begins with `header`.
pub fn length(header: u32) -> std::result::Result<u64, Refusal> {
    match TYPE.get(header) {
        // A filler of one dword.
        2 => Ok(1),
        3 if opcode(header) == NOP && COUNT.get(header) == NOP_ALONE => Ok(1),
        3 => Ok(u64::from(COUNT.get(header)) + 2),
        _ => Err((Exception::Unsupported, "the packet type is not 3")),
    }
}

/// Decodes a whole packet.
pub fn decode(words: &[u32]) -> std::result::Result<Packet, Refusal> {
    let header = words.first().copied().unwrap_or_default();
    if TYPE.get(header) == 2 {
        return Ok(Packet::Nop("NOP"));
    }
    let exactly = |n: usize| {
        if words.len() == n {
            Ok(())
        } else {
            Err(unsupported("the packet's count is wrong"))
        }
    };
    let at_least = |n: usize| {
        if words.len() >= n {
            Ok(())
        } else {
            Err(unsupported("the packet is too short"))
        }
    };
    match opcode(header) {
        NOP => Ok(Packet::Nop("NOP")),
        PRED_EXEC => exactly(2).map(|()| Packet::Predicate {
            mask: Field::new(31, 24).get(words[1]),
            dwords: Field::new(13, 0).get(words[1]).into(),
        }),
        ACQUIRE_MEM => exactly(7).map(|()| Packet::Nop("ACQUIRE_MEM")),
        DISPATCH_DIRECT => exactly(5).map(|()| Packet::Dispatch {
            dims: Dims::Here([words[1], words[2], words[3]]),
            initiator: words[4],
        }),
        DISPATCH_INDIRECT => exactly(4).map(|()| Packet::Dispatch {
            dims: Dims::At(wide(words, 1) & !3),
            initiator: words[3],
        }),
        EVENT_WRITE => match words.len() {
            2 if EVENT.get(words[1]) == CS_PARTIAL_FLUSH => Ok(Packet::Flush),
            2 | 4 => Ok(Packet::Nop("EVENT_WRITE")),
            _ => Err(unsupported("the packet's count is wrong")),
        },
        WRITE_DATA => at_least(5).and_then(|()| write_data(words)),
        COPY_DATA => exactly(6).and_then(|()| copy_data(words)),
        WAIT_REG_MEM => exactly(7).and_then(|()| wait_reg_mem(words)),
        INDIRECT_BUFFER => exactly(4).map(|()| indirect_buffer(words)),
        ATOMIC_MEM => exactly(9).and_then(|()| atomic_mem(words)),
        RELEASE_MEM => exactly(8).and_then(|()| release_mem(words)),
        SET_SH_REG => at_least(3).and_then(|()| set_registers(words, SH, "SET_SH_REG")),
        SET_UCONFIG_REG => {
            at_least(3).and_then(|()| set_registers(words, UCONFIG, "SET_UCONFIG_REG"))
        }
        _ => Err(unsupported("the opcode is unknown")),
    }
}

/// INDIRECT_BUFFER's operands; also within an AQL vendor packet.
pub fn indirect_buffer(words: &[u32]) -> Packet {
    Packet::Indirect {
        base: wide(words, 1) & !3,
        dwords: Field::new(19, 0).get(words[3]).into(),
        vmid: Field::new(27, 24).get(words[3]) as u8,
        chain: Field::new(20, 20).is_set(words[3]),
    }
}

/// Returns whether the four dwords are an INDIRECT_BUFFER packet.
pub fn is_indirect_buffer(words: &[u32]) -> bool {
    words.len() == 4 && length(words[0]) == Ok(4) && opcode(words[0]) == INDIRECT_BUFFER
}

fn unsupported(reason: &'static str) -> Refusal {
    (Exception::Unsupported, reason)
}

fn wide(words: &[u32], at: usize) -> u64 {
    u64::from(words[at]) | u64::from(words[at + 1]) << 32
}

fn register(word: u32) -> Place {
    Place::Register(Field::new(17, 0).get(word))
}

fn write_data(words: &[u32]) -> std::result::Result<Packet, Refusal> {
    let to = match Field::new(11, 8).get(words[1]) {
        0 => register(words[2]),
        1 | 2 | 5 => Place::Memory(wide(words, 2) & !3),
        _ => return Err(unsupported("WRITE_DATA: the destination is unknown")),
    };
    Ok(Packet::Write {
        to,
        fixed: Field::new(16, 16).is_set(words[1]),
        data: words[4..].to_vec(),
    })
}

fn copy_data(words: &[u32]) -> std::result::Result<Packet, Refusal> {
    let is_wide = Field::new(16, 16).is_set(words[1]);
    let align = if is_wide { !7 } else { !3 };
    let from = match Field::new(3, 0).get(words[1]) {
        0 => register(words[2]),
        1 | 2 => Place::Memory(wide(words, 2) & align),
        5 => Place::Immediate(wide(words, 2)),
        9 => Place::Clock,
        _ => return Err(unsupported("COPY_DATA: the source is unknown")),
    };
    let to = match Field::new(11, 8).get(words[1]) {
        0 => register(words[4]),
        1 | 2 | 5 => Place::Memory(wide(words, 4) & align),
        _ => return Err(unsupported("COPY_DATA: the destination is unknown")),
    };
    Ok(Packet::Copy {
        from,
        to,
        wide: is_wide,
    })
}

fn wait_reg_mem(words: &[u32]) -> std::result::Result<Packet, Refusal> {
    let until = Condition::new(Field::new(2, 0).get(words[1]), words[4], words[5])
        .ok_or(unsupported("WAIT_REG_MEM: the function is unknown"))?;
    let operation = Field::new(7, 6).get(words[1]);
    let (what, request) = match (Field::new(5, 4).get(words[1]), operation) {
        (0, 0) => (register(words[2]), None),
        (0, 1) => (register(words[3]), Some(Field::new(17, 0).get(words[2]))),
        (1, 0 | 3) => (Place::Memory(wide(words, 2) & !3), None),
        _ => return Err(unsupported("WAIT_REG_MEM: the operation is unknown")),
    };
    Ok(Packet::Wait {
        what,
        until,
        request,
    })
}

fn atomic_mem(words: &[u32]) -> std::result::Result<Packet, Refusal> {
    let op = Field::new(6, 0).get(words[1]);
    let size =
        crate::sdma::atomic::size(op).ok_or(unsupported("ATOMIC_MEM: the operation is unknown"))?;
    let addr = wide(words, 2);
    if addr % size != 0 {
        return Err(unsupported("ATOMIC_MEM: the address is not aligned"));
    }
    let looped = match Field::new(11, 8).get(words[1]) {
        0 => false,
        1 => true,
        _ => return Err(unsupported("ATOMIC_MEM: the command is unknown")),
    };
    Ok(Packet::Atomic {
        op,
        addr,
        operand: wide(words, 4),
        compare: wide(words, 6),
        looped,
    })
}

fn release_mem(words: &[u32]) -> std::result::Result<Packet, Refusal> {
    let data = match Field::new(31, 29).get(words[2]) {
        0 => Release::Nothing,
        1 => Release::Dword(words[5]),
        2 => Release::Qword(wide(words, 5)),
        3 | 4 => Release::Clock,
        _ => return Err(unsupported("RELEASE_MEM: the data is unknown")),
    };
    let interrupt = match Field::new(26, 24).get(words[2]) {
        0 | 3 => None,
        1 | 2 => Some(words[7]),
        _ => return Err(unsupported("RELEASE_MEM: the interrupt is unknown")),
    };
    let align = if matches!(data, Release::Dword(_)) {
        !3
    } else {
        !7
    };
    Ok(Packet::Release {
        addr: wide(words, 3) & align,
        data,
        interrupt,
    })
}

fn set_registers(
    words: &[u32],
    (base, end): (u32, u32),
    name: &'static str,
) -> std::result::Result<Packet, Refusal> {
    let first = base + Field::new(15, 0).get(words[1]);
    let values = words[2..].to_vec();
    if first as usize + values.len() > end as usize {
        return Err(unsupported(
            "the registers are outside of the packet's range",
        ));
    }
    Ok(Packet::SetRegisters {
        first,
        values,
        name,
    })
}
