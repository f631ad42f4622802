// SPDX-License-Identifier: GPL-2.0
//! Kernel descriptors of code objects (the same in versions 4, 5 and 6), and the user SGPRs that
//! they ask for.

use crate::decode::bits;

/// Bytes of a descriptor.
pub const DESCRIPTOR: usize = 64;
/// Most user SGPRs.
pub const USER: usize = 16;
/// Bytes from the entry of code that loads its arguments itself to that of code whose arguments are
/// preloaded.
const PRELOADED: i64 = 256;

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
    /// Kernel arguments in SGPRs, see [`Descriptor::preload`]; none on gfx90a.
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
    /// Arguments that are preloaded.
    pub preload: [u32; USER],
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

    /// The arguments that are preloaded: the offset of the first one and their number, dwords.
    pub fn preload(&self) -> (usize, usize) {
        let field = |high, low| bits(self.preload.into(), high, low) as usize;
        (field(15, 7), field(6, 0))
    }

    /// Where the code begins, in bytes from the descriptor.
    pub fn entry(&self) -> i64 {
        match self.preload() {
            (_, 0) => self.entry,
            _ => self.entry.saturating_add(PRELOADED),
        }
    }

    /// The user SGPRs in their order, and their number, which is more than [`USER`] if the kernel
    /// asks for more.
    pub fn user(&self, data: &UserData) -> ([u32; USER], usize) {
        let mut user = [0; USER];
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
        let (_, count) = self.preload();
        for (user, argument) in user[next..].iter_mut().zip(data.preload).take(count) {
            *user = argument;
        }
        (user, next + count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preloaded_arguments_are_behind_the_other_sgprs() {
        let mut bytes = [0; DESCRIPTOR];
        bytes[0x10..0x12].copy_from_slice(&0x400_u16.to_le_bytes());
        // The arguments' address; two arguments, from dword 3 on.
        bytes[0x38..0x3c].copy_from_slice(&(1_u32 << 3 | (3 << 7 | 2) << 16).to_le_bytes());
        let kernel = Descriptor::of(&bytes);
        assert_eq!((kernel.preload(), kernel.entry()), ((3, 2), 0x500));
        let mut data = UserData {
            kernarg: 0x1_0000_0002,
            ..UserData::default()
        };
        data.preload[..3].copy_from_slice(&[7, 8, 9]);
        let (user, count) = kernel.user(&data);
        assert_eq!((&user[..5], count), (&[2, 1, 7, 8, 0][..], 4));
        // More than there are.
        bytes[0x3a] = 15;
        assert_eq!(Descriptor::of(&bytes).user(&data).1, 17);
    }
}
