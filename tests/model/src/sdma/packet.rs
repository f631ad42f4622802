// SPDX-License-Identifier: GPL-2.0
//! SDMA v4 packets: dwords to meaning.

use super::window::SubWindow;
use crate::condition::Condition;
use crate::regs::Field;

/// Dwords that hold every packet except the data of WRITE.
pub const HEAD: usize = 16;
/// Dwords before the data of WRITE.
pub const WRITE_HEAD: u64 = 4;
/// POLL_REGMEM retry count that means for ever.
const FOREVER: u32 = 0xfff;

const OP: Field = Field::new(7, 0);
const SUB_OP: Field = Field::new(15, 8);
const ENCRYPT: Field = Field::new(16, 16);
const TMZ: Field = Field::new(18, 18);
const BROADCAST: Field = Field::new(27, 27);

/// The operand of a POLL_REGMEM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Polled {
    /// Nothing: the condition is "always".
    Nothing,
    /// A dword of memory.
    Memory(u64),
    /// A register, by byte offset.
    Register(u64),
    /// HDP flush: writes `value` to the request register, then reads the done register. Byte
    /// offsets.
    Hdp {
        /// GPU_HDP_FLUSH_REQ.
        request: u64,
        /// GPU_HDP_FLUSH_DONE.
        done: u64,
        /// The bits to request.
        value: u32,
    },
}

/// A decoded packet. Addresses are of the queue's (or indirect buffer's) address space; lengths are
/// bytes unless they say otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Packet {
    Nop,
    CopyLinear {
        len: u64,
        from: u64,
        to: u64,
        also_to: Option<u64>,
    },
    CopySubWindow(Box<SubWindow>),
    Write {
        to: u64,
        dwords: u64,
    },
    Fill {
        to: u64,
        len: u64,
        pattern: u32,
    },
    Fence {
        to: u64,
        value: u32,
    },
    Trap {
        context: u32,
    },
    Poll {
        what: Polled,
        until: Condition,
        retries: Option<u32>,
    },
    Atomic {
        op: u32,
        addr: u64,
        operand: u64,
        compare: u64,
        looped: bool,
    },
    Indirect {
        vmid: u8,
        base: u64,
        dwords: u64,
    },
    PtePdeGenerate {
        to: u64,
        mask: u64,
        first: u64,
        step: u64,
        count: u64,
    },
    PtePdeCopy {
        from: u64,
        to: u64,
        mask: u64,
        count: u64,
    },
    PtePdeModify {
        addr: u64,
        mask: u64,
        value: u64,
    },
    TimestampSet {
        value: u64,
    },
    TimestampGet {
        to: u64,
        global: bool,
    },
    SrbmWrite {
        dword: u32,
        value: u32,
        bytes: u32,
    },
}

impl Packet {
    /// For the summary.
    pub fn name(&self) -> &'static str {
        match self {
            Packet::Nop => "NOP",
            Packet::CopyLinear { also_to: None, .. } => "COPY_LINEAR",
            Packet::CopyLinear { .. } => "COPY_BROADCAST",
            Packet::CopySubWindow(window) => window.name(),
            Packet::Write { .. } => "WRITE",
            Packet::Fill { .. } => "FILL",
            Packet::Fence { .. } => "FENCE",
            Packet::Trap { .. } => "TRAP",
            Packet::Poll { .. } => "POLL_REGMEM",
            Packet::Atomic { .. } => "ATOMIC",
            Packet::Indirect { .. } => "INDIRECT",
            Packet::PtePdeGenerate { .. } => "PTEPDE_GEN",
            Packet::PtePdeCopy { .. } => "PTEPDE_COPY",
            Packet::PtePdeModify { .. } => "PTEPDE_RMW",
            Packet::TimestampSet { .. } | Packet::TimestampGet { .. } => "TIMESTAMP",
            Packet::SrbmWrite { .. } => "SRBM_WRITE",
        }
    }

    /// The bytes that it copies or fills; None for other packets.
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Packet::CopyLinear { len, .. } | Packet::Fill { len, .. } => Some(*len),
            Packet::CopySubWindow(window) => {
                let elements = window.size.iter();
                let bytes = 1u64 << window.element;
                Some(elements.fold(bytes, |bytes, n| bytes.saturating_mul(*n)))
            }
            _ => None,
        }
    }

    /// Returns whether a test's fail-copy applies to it.
    pub fn is_copy(&self) -> bool {
        matches!(self, Packet::CopyLinear { .. } | Packet::CopySubWindow(_))
    }
}

/// The reason why the engine does not execute a packet.
pub type Refusal = &'static str;

fn opcode(header: u32) -> (u32, u32) {
    (OP.get(header), SUB_OP.get(header))
}

/// Dwords of the packet that begins with `head`; None if more of it is needed to decide.
pub fn length(head: &[u32]) -> Result<Option<u64>, Refusal> {
    let Some(&header) = head.first() else {
        return Ok(None);
    };
    let dwords = match opcode(header) {
        (0, _) => 1 + u64::from(Field::new(29, 16).get(header)),
        (1, 0) if BROADCAST.is_set(header) => 9,
        (1, 0) => 7,
        (1, 4) => 13,
        (2, 0) => match head.get(3) {
            Some(&count) => WRITE_HEAD + 1 + u64::from(Field::new(19, 0).get(count)),
            None => return Ok(None),
        },
        (4, _) => 6,
        (5, _) => 4,
        (6, _) => 2,
        (8, 0) => 6,
        (10, _) => 8,
        (11, 0) => 5,
        (12, 0) => 10,
        (12, 1) => 8,
        (12, 2) => 7,
        (13, 0..=2) => 3,
        (14, _) => 3,
        _ => return Err("the opcode is unknown"),
    };
    Ok(Some(dwords))
}

/// Decodes the packet at the start of `words`, which holds all of it except the data of a WRITE.
pub fn decode(words: &[u32]) -> Result<Packet, Refusal> {
    let word = |n: usize| words.get(n).copied().unwrap_or(0);
    let wide = |n: usize| u64::from(word(n)) | u64::from(word(n + 1)) << 32;
    let header = word(0);
    let aligned = |address: u64, to: u64| {
        if address % to == 0 {
            Ok(address)
        } else {
            Err("the address is not aligned")
        }
    };
    let (op, sub_op) = opcode(header);
    if matches!(op, 1 | 2 | 11) && (ENCRYPT.is_set(header) || TMZ.is_set(header)) {
        return Err("encrypted memory is not there");
    }
    Ok(match (op, sub_op) {
        (0, _) => Packet::Nop,
        (1, 0) => {
            if word(2) & (Field::new(17, 16).of(3) | Field::new(25, 24).of(3)) != 0 {
                return Err("endian swap is not supported");
            }
            if Field::new(31, 30).is_set(word(1)) {
                return Err("the byte count is too large");
            }
            Packet::CopyLinear {
                len: u64::from(word(1)) + 1,
                from: wide(3),
                to: wide(5),
                also_to: BROADCAST.is_set(header).then(|| wide(7)),
            }
        }
        (1, 4) => Packet::CopySubWindow(Box::new(SubWindow::decode(words)?)),
        (2, 0) => Packet::Write {
            to: aligned(wide(1), 4)?,
            dwords: u64::from(Field::new(19, 0).get(word(3))) + 1,
        },
        (4, _) => Packet::Indirect {
            vmid: Field::new(19, 16).get(header) as u8,
            base: aligned(wide(1), 32)?,
            dwords: Field::new(19, 0).get(word(3)).into(),
        },
        (5, _) => Packet::Fence {
            to: aligned(wide(1), 4)?,
            value: word(3),
        },
        (6, _) => Packet::Trap {
            context: Field::new(27, 0).get(word(1)),
        },
        (8, 0) => poll(header, words)?,
        (10, _) => {
            let op = Field::new(31, 25).get(header);
            let Some(size) = super::atomic::size(op) else {
                return Err("the atomic operation is unknown");
            };
            Packet::Atomic {
                op,
                addr: aligned(wide(1), size)?,
                operand: wide(3),
                compare: wide(5),
                looped: Field::new(16, 16).is_set(header),
            }
        }
        (11, 0) => {
            let log2 = Field::new(31, 30).get(header);
            let element = 1u64 << log2;
            if log2 == 3 {
                return Err("the fill size is unknown");
            }
            let count = u64::from(word(4));
            if count >> 30 != 0 {
                return Err("the byte count is too large");
            }
            Packet::Fill {
                to: aligned(wide(1), element)?,
                len: count / element * element + element,
                pattern: word(3),
            }
        }
        (12, 0) => Packet::PtePdeGenerate {
            to: aligned(wide(1), 8)?,
            mask: wide(3),
            first: wide(5),
            step: wide(7),
            count: u64::from(Field::new(18, 0).get(word(9))) + 1,
        },
        (12, 1) => Packet::PtePdeCopy {
            from: aligned(wide(1), 8)?,
            to: aligned(wide(3), 8)?,
            mask: wide(5),
            count: u64::from(Field::new(18, 0).get(word(7))) + 1,
        },
        (12, 2) => Packet::PtePdeModify {
            addr: aligned(wide(1), 8)?,
            mask: wide(3),
            value: wide(5),
        },
        (13, 0) => Packet::TimestampSet { value: wide(1) },
        (13, _) => Packet::TimestampGet {
            to: aligned(wide(1), 8)?,
            global: sub_op == 2,
        },
        (14, _) => Packet::SrbmWrite {
            dword: Field::new(17, 0).get(word(1)),
            value: word(2),
            bytes: Field::new(31, 28).get(header),
        },
        _ => return Err("the opcode is unknown"),
    })
}

fn poll(header: u32, words: &[u32]) -> Result<Packet, Refusal> {
    let [_, lo, hi, reference, mask, control, ..] = *words else {
        return Err("the packet is too short");
    };
    let until = Condition::new(Field::new(30, 28).get(header), reference, mask)
        .ok_or("the comparison is unknown")?;
    let memory = Field::new(31, 31).is_set(header);
    let hdp = Field::new(26, 26).is_set(header);
    let address = u64::from(lo) | u64::from(hi) << 32;
    let what = if until.is_always() && !hdp {
        Polled::Nothing
    } else if memory && hdp {
        return Err("a poll cannot be of memory and of HDP");
    } else if memory && address % 4 != 0 {
        return Err("the address is not aligned");
    } else if memory {
        Polled::Memory(address)
    } else if hdp {
        Polled::Hdp {
            done: lo.into(),
            request: hi.into(),
            value: reference,
        }
    } else {
        Polled::Register(address)
    };
    let retries = Field::new(27, 16).get(control);
    Ok(Packet::Poll {
        what,
        until,
        retries: (retries != FOREVER).then_some(retries),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        assert_eq!(length(&[]), Ok(None));
        assert_eq!(length(&[5 << 16]), Ok(Some(6)));
        assert_eq!(length(&[1]), Ok(Some(7)));
        assert_eq!(length(&[1 | 1 << 27]), Ok(Some(9)));
        assert_eq!(length(&[2]), Ok(None));
        assert_eq!(length(&[2, 0, 0, 7]), Ok(Some(12)));
        assert!(length(&[7]).is_err());
        assert!(length(&[9]).is_err());
        assert!(length(&[0x11]).is_err());
        assert!(length(&[1 | 1 << 8]).is_err());
    }

    #[test]
    fn fill_lengths() {
        let fill = |size: u32, count: u32| match decode(&[11 | size << 30, 0, 0, 7, count]) {
            Ok(Packet::Fill { len, .. }) => Some(len),
            _ => None,
        };
        assert_eq!(fill(0, 4095), Some(4096));
        assert_eq!(fill(2, (1024 - 1) * 4), Some(4096));
        assert_eq!(fill(2, 4095), Some(4096));
        assert_eq!(fill(1, 4095), Some(4096));
        assert_eq!(fill(2, 3), Some(4));
        assert_eq!(fill(3, 0), None);
    }

    #[test]
    fn refused() {
        assert!(decode(&[5, 2, 0, 0]).is_err());
        assert!(decode(&[1, 1 << 30, 0, 0, 0, 0, 0]).is_err());
        assert!(decode(&[1, 0, 1 << 16, 0, 0, 0, 0]).is_err());
        assert!(decode(&[4, 16, 0, 1, 0, 0]).is_err());
        assert!(decode(&[10 | 0x2f << 25, 4, 0, 0, 0, 0, 0, 0]).is_err());
        assert!(decode(&[10 | 0x01 << 25, 0, 0, 0, 0, 0, 0, 0]).is_err());
        assert!(decode(&[8 | 7 << 28 | 1 << 31, 0, 0, 0, 0, 0]).is_err());
    }
}
