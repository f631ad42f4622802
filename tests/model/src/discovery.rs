// SPDX-License-Identifier: GPL-2.0
//! The IP discovery table: the chip's own account of its blocks, where their registers are, and how
//! many of them work. The board's firmware leaves it in the last 64 KiB of VRAM. Source of the
//! layout: amdgpu, include/discovery.h and amdgpu_discovery.c.

/// Bytes from the table to the end of VRAM.
pub const FROM_END: u64 = 64 << 10;

const SIGNATURE: u32 = 0x2821_1407;
/// "IPDS".
const IPS: u32 = 0x5344_5049;
/// "GC".
const GRAPHICS: u32 = 0x4347;
/// "HARV".
const HARVEST: u32 = 0x5652_4148;
/// Tables that the binary's header lists: IPs, GC, harvest, and three that are absent.
const TABLES: usize = 6;
/// Bytes of the binary's header up to its list, the checksum of which begins at [`SUMMED`].
const HEADER: usize = 12;
const SUMMED: usize = 10;
/// Dies, and harvested instances, that their tables have room for.
const DIES: usize = 16;
const HARVESTED: usize = 32;

/// A block.
#[derive(Debug)]
pub struct Ip {
    /// Its kind.
    pub id: u16,
    /// Which one of the kind.
    pub instance: u8,
    /// Major, minor, revision.
    pub version: [u8; 3],
    /// First dwords of its segments of registers.
    pub bases: &'static [u32],
}

/// The contents of the table.
#[derive(Debug)]
pub struct Table {
    /// All blocks, of the one die.
    pub ips: &'static [Ip],
    /// The fields of the GC table 2.1, of one XCC.
    pub graphics: &'static [u32; 24],
    /// Kind and instance of the blocks that are fused off.
    pub harvested: &'static [(u16, u8)],
}

const fn ip(id: u16, instance: u8, version: [u8; 3], bases: &'static [u32]) -> Ip {
    Ip {
        id,
        instance,
        version,
        bases,
    }
}

/// The first dwords of NBIF's segments 5 and 8, whose registers are only in the fabric.
pub const NBIF_GDC: u32 = 0x50_0000;
/// See above.
pub const NBIF_BIFC: u32 = 0x404_0000;

/// MI300X with one XCC and one AID. The order of SMUIO's segments is that of its header.
pub static GFX942: Table = Table {
    ips: &[
        ip(11, 0, [9, 4, 3], &[0x2000, 0xa000]),
        ip(34, 0, [1, 8, 0], &[0x1_8000]),
        ip(42, 0, [4, 4, 2], &[0x1260]),
        ip(42, 1, [4, 4, 2], &[0x1860]),
        ip(42, 2, [4, 4, 2], &[0x1_9400]),
        ip(42, 3, [4, 4, 2], &[0x1_9800]),
        ip(40, 0, [4, 4, 2], &[0x10a0]),
        ip(41, 0, [4, 4, 2], &[0xf20]),
        ip(35, 0, [1, 8, 0], &[0xc20, 0x1_1800]),
        ip(
            108,
            0,
            [7, 9, 0],
            &[0, 0x14, 0xd20, 0x1_0400, 0, NBIF_GDC, 0, 0, NBIF_BIFC],
        ),
        ip(255, 0, [13, 0, 6], &[0x1_6000]),
        ip(1, 0, [13, 0, 6], &[0x1_6000]),
        ip(3, 0, [13, 0, 6], &[0x1_6600]),
        ip(4, 0, [13, 0, 3], &[0, 0x1_6800, 0x1_6a00]),
    ],
    // 4 shader engines of 10 CUs, 16 channels of L2, 64 KiB of LDS; caches in KiB: 32 of a CU, 64
    // and 16 of two CUs, 4096 for all.
    graphics: &[
        4, 10, 1, 4, 16, 512, 32, 32, 1792, 1024, 256, 64, 8, 32, 64, 1, 1, 10, 32, 16, 2, 64, 16,
        4096,
    ],
    harvested: &[],
};

/// Bytes that are written in their order.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    fn word(&mut self, value: usize) {
        self.0.extend((value as u16).to_le_bytes());
    }

    fn dword(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    fn put_word(&mut self, at: usize, value: usize) {
        self.0[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// The sum of bytes that the binary has of itself and of each table.
fn sum(bytes: &[u8]) -> usize {
    let sum: u32 = bytes.iter().map(|&byte| u32::from(byte)).sum();
    sum as usize & 0xffff
}

impl Table {
    /// The binary.
    pub fn binary(&self) -> Vec<u8> {
        let first = HEADER + 8 * TABLES;
        let ips = self.blocks(first);
        let graphics = self.counts();
        let harvest = self.fused_off();
        let mut out = Bytes::default();
        out.dword(SIGNATURE);
        // Version 1.0, sum, size.
        for value in [1, 0, 0] {
            out.word(value);
        }
        let total = first + ips.len() + graphics.len() + harvest.len();
        out.word(total);
        let mut at = first;
        for table in [&ips, &graphics, &harvest] {
            for value in [at, sum(&table.0), table.len(), 0] {
                out.word(value);
            }
            at += table.len();
        }
        out.0.resize(first, 0);
        for table in [ips, graphics, harvest] {
            out.0.extend(table.0);
        }
        let own = sum(&out.0[SUMMED..]);
        out.put_word(SUMMED - 2, own);
        out.0
    }

    /// The table of blocks, `first` bytes from the binary's begin.
    fn blocks(&self, first: usize) -> Bytes {
        let mut out = Bytes::default();
        out.dword(IPS);
        // Version and size.
        out.word(3);
        out.word(0);
        out.dword(0);
        out.word(1);
        let die = first + out.len() + 4 * DIES + 2;
        out.word(0);
        out.word(die);
        out.0.resize(die - first, 0);
        out.word(0);
        out.word(self.ips.len());
        for ip in self.ips {
            out.word(ip.id.into());
            out.byte(ip.instance);
            out.byte(ip.bases.len() as u8);
            ip.version.map(|part| out.byte(part));
            // Revision of the part, and its variant.
            out.byte(0);
            ip.bases.iter().for_each(|&base| out.dword(base));
        }
        let size = out.len();
        out.put_word(6, size);
        out
    }

    fn counts(&self) -> Bytes {
        let mut out = Bytes::default();
        out.dword(GRAPHICS);
        // Version 2.1, size.
        out.word(2);
        out.word(1);
        out.dword(12 + 4 * self.graphics.len() as u32);
        self.graphics.iter().for_each(|&value| out.dword(value));
        out
    }

    fn fused_off(&self) -> Bytes {
        let mut out = Bytes::default();
        out.dword(HARVEST);
        out.dword(0);
        for &(id, instance) in self.harvested {
            out.word(id.into());
            out.byte(instance);
            out.byte(0);
        }
        out.0.resize(8 + 4 * HARVESTED, 0);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(data: &[u8], at: usize) -> usize {
        u16::from_le_bytes([data[at], data[at + 1]]).into()
    }

    fn dword(data: &[u8], at: usize) -> u32 {
        u32::from_le_bytes([0, 1, 2, 3].map(|n| data[at + n]))
    }

    /// A table of the binary.
    fn part(data: &[u8], n: usize) -> &[u8] {
        let at = HEADER + 8 * n;
        let (offset, size) = (word(data, at), word(data, at + 4));
        &data[offset..offset + size]
    }

    #[test]
    fn sums_are_those_of_the_bytes() {
        let data = GFX942.binary();
        assert_eq!(dword(&data, 0), SIGNATURE);
        assert_eq!(word(&data, 10), data.len());
        assert!(data.len() < 10 << 10);
        assert_eq!(word(&data, 8), sum(&data[10..]));
        for n in 0..3 {
            assert_eq!(word(&data, HEADER + 8 * n + 2), sum(part(&data, n)));
        }
        assert_eq!(data[HEADER + 24..HEADER + 48], [0; 24]);
        let mut other = data.clone();
        other[0x80] ^= 1;
        assert_ne!(word(&data, 8), sum(&other[10..]));
    }

    #[test]
    fn blocks_follow_one_another() {
        let data = GFX942.binary();
        let ips = part(&data, 0);
        assert_eq!(&ips[..4], b"IPDS");
        assert_eq!(
            [word(ips, 4), word(ips, 6), word(ips, 12)],
            [3, ips.len(), 1]
        );
        // The die's number, and its offset from the binary's begin, are those of the first of 16.
        assert_eq!(word(ips, 14), 0);
        let die = word(ips, 16);
        assert_eq!(die, word(&data, HEADER) + 80);
        assert_eq!(
            [word(&data, die), word(&data, die + 2)],
            [0, GFX942.ips.len()]
        );
        let mut at = die + 4;
        for ip in GFX942.ips {
            assert_eq!(word(&data, at), usize::from(ip.id));
            let [instance, bases] = [2, 3].map(|n| usize::from(data[at + n]));
            assert_eq!([instance, bases], [ip.instance.into(), ip.bases.len()]);
            assert_eq!(
                data[at + 4..at + 8],
                [ip.version[0], ip.version[1], ip.version[2], 0]
            );
            assert_eq!(dword(&data, at + 8), ip.bases[0]);
            at += 8 + 4 * bases;
        }
        assert_eq!(at, die - 80 + ips.len());
    }

    #[test]
    fn counts_and_harvest() {
        let table = Table {
            harvested: &[(11, 3)],
            ..GFX942
        };
        let data = table.binary();
        let counts = part(&data, 1);
        assert_eq!(counts.len(), 108);
        assert_eq!(
            [dword(counts, 0), dword(counts, 4), dword(counts, 8)],
            [0x4347, 0x1_0002, 108]
        );
        assert_eq!(dword(counts, 12), 4);
        assert_eq!(dword(counts, 104), 4096);
        let harvest = part(&data, 2);
        assert_eq!(harvest.len(), 136);
        assert_eq!(&harvest[..4], b"HARV");
        assert_eq!([dword(harvest, 8), dword(harvest, 12)], [3 << 16 | 11, 0]);
    }
}
