// SPDX-License-Identifier: GPL-2.0
//! Kernel descriptors of code objects (the same in versions 4, 5 and 6), and the user SGPRs that
//! they ask for.

use crate::decode::bits;

/// Bytes of a descriptor.
pub const DESCRIPTOR: usize = 64;

/// Content of a kernel descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// Bytes of LDS of the kernel's own.
    pub group: u32,
    /// Bytes of private memory of an item.
    pub private: u32,
    /// The code, in bytes from the descriptor.
    pub entry: i64,
    /// COMPUTE_PGM_RSRC1, 2, 3.
    pub rsrc1: u32,
    /// See above.
    pub rsrc2: u32,
    /// See above.
    pub rsrc3: u32,
    /// The user SGPRs that it asks for.
    pub properties: u16,
    /// Kernel arguments in SGPRs; none on gfx90a.
    pub preload: u16,
}

/// Values of user SGPRs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UserData {
    /// V# of private memory.
    pub private_segment_buffer: [u32; 4],
    /// Address of the AQL packet.
    pub dispatch: u64,
    /// Address of amd_queue_t.
    pub queue: u64,
    /// Address of the arguments.
    pub kernarg: u64,
    /// Index of the packet.
    pub dispatch_id: u64,
    /// Address of scratch.
    pub flat_scratch: u64,
    /// Bytes of private memory of an item.
    pub private: u32,
}

impl Descriptor {
    /// Decodes its bytes.
    pub fn of(bytes: &[u8; DESCRIPTOR]) -> Descriptor {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| bytes[at + n]));
        Descriptor {
            group: word(0),
            private: word(4),
            entry: (u64::from(word(0x10)) | u64::from(word(0x14)) << 32) as i64,
            rsrc3: word(0x2c),
            rsrc1: word(0x30),
            rsrc2: word(0x34),
            properties: word(0x38) as u16,
            preload: (word(0x38) >> 16) as u16,
        }
    }

    /// The user SGPRs in their order, and their number.
    pub fn user(&self, data: &UserData) -> ([u32; 16], usize) {
        let mut user = [0; 16];
        let mut next = 0;
        let mut push = |bit: u32, words: &[u32]| {
            if bits(self.properties.into(), bit, bit) == 1 {
                user[next..next + words.len()].copy_from_slice(words);
                next += words.len();
            }
        };
        let halves = |value: u64| [value as u32, (value >> 32) as u32];
        push(0, &data.private_segment_buffer);
        push(1, &halves(data.dispatch));
        push(2, &halves(data.queue));
        push(3, &halves(data.kernarg));
        push(4, &halves(data.dispatch_id));
        push(5, &halves(data.flat_scratch));
        push(6, &[data.private]);
        (user, next)
    }
}
