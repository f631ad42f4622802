// SPDX-License-Identifier: GPL-2.0
//! The IP discovery table: the chip's own account of its blocks, where their registers are, and how
//! many of them work. The board's firmware leaves it in the last 64 KiB of VRAM. Source of the
//! layout: amdgpu, include/discovery.h and amdgpu_discovery.c.

use crate::layout::Layout;

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

/// Dwords from an XCC's and an AID's registers to those of the next one.
const XCC_STRIDE: u32 = 0x1_0000;
const AID_STRIDE: u32 = 0x2_0000;
/// Kinds of blocks that each XCC or AID has.
const GC: u16 = 11;
const MMHUB: u16 = 34;
const SDMA: u16 = 42;
const NBIF: u16 = 108;

/// A block of a chip with several XCCs: its description, instance, and how much further on it is.
struct Copy {
    ip: &'static Ip,
    instance: u8,
    further: u32,
}

/// The contents of the table.
#[derive(Debug)]
pub struct Table {
    /// All blocks, of the one die, of a chip with one XCC and one AID.
    pub ips: &'static [Ip],
    /// The fields of the GC table 2.1, of one XCC.
    pub graphics: &'static [u32; 24],
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
    /// All blocks.
    fn copies(&self, layout: Layout) -> Vec<Copy> {
        let mut copies = Vec::new();
        for ip in self.ips {
            let (count, engines, stride) = match ip.id {
                GC => (layout.xccs, 1, XCC_STRIDE),
                MMHUB => (layout.aids(), 1, AID_STRIDE),
                SDMA => {
                    let engines = self.ips.iter().filter(|other| other.id == SDMA).count();
                    (layout.aids(), engines, AID_STRIDE)
                }
                // Where the others' registers are is not known: they say the first one's.
                NBIF => (layout.aids(), 1, 0),
                _ => (1, 1, 0),
            };
            copies.extend((0..count).map(|n| Copy {
                ip,
                instance: ip.instance + (n * engines) as u8,
                further: n as u32 * stride,
            }));
        }
        copies.sort_by_key(|copy| (copy.ip.id, copy.instance));
        copies
    }

    /// The binary of a chip with so many XCCs.
    pub fn binary(&self, layout: Layout) -> Vec<u8> {
        let first = HEADER + 8 * TABLES;
        let ips = self.blocks(first, layout);
        let graphics = self.counts();
        let harvest = fused_off(layout);
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
    fn blocks(&self, first: usize, layout: Layout) -> Bytes {
        let copies = self.copies(layout);
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
        out.word(copies.len());
        for &Copy {
            ip,
            instance,
            further,
        } in &copies
        {
            out.word(ip.id.into());
            out.byte(instance);
            out.byte(ip.bases.len() as u8);
            ip.version.iter().for_each(|&part| out.byte(part));
            // Revision of the part, and its variant.
            out.byte(0);
            ip.bases.iter().for_each(|&base| out.dword(base + further));
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
}

/// The table of XCCs that do not work.
fn fused_off(layout: Layout) -> Bytes {
    let mut out = Bytes::default();
    out.dword(HARVEST);
    out.dword(0);
    for xcc in (0..layout.xccs).filter(|xcc| layout.harvested >> xcc & 1 == 1) {
        out.word(GC.into());
        out.byte(xcc as u8);
        out.byte(0);
    }
    out.0.resize(8 + 4 * HARVESTED, 0);
    out
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
        let data = GFX942.binary(Layout::default());
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
        let data = GFX942.binary(Layout::default());
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
        let mut all: Vec<&Ip> = GFX942.ips.iter().collect();
        all.sort_by_key(|ip| (ip.id, ip.instance));
        for ip in all {
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
    fn each_xcc_and_aid_has_blocks_of_its_own() {
        let layout = Layout {
            xccs: 8,
            harvested: 0,
        };
        let copies = GFX942.copies(layout);
        let of = |id: u16| {
            let found = copies.iter().filter(move |copy| copy.ip.id == id);
            found.map(|copy| (copy.instance, copy.ip.bases[0] + copy.further))
        };
        let graphics: Vec<_> = of(GC).collect();
        assert_eq!((graphics.len(), graphics[7]), (8, (7, 0x7_2000)));
        assert_eq!(of(MMHUB).nth(3), Some((3, 0x7_8000)));
        let engines: Vec<_> = of(SDMA).collect();
        assert_eq!(
            (engines.len(), engines[4], engines[15]),
            (16, (4, 0x2_1260), (15, 0x7_9800))
        );
        assert_eq!(of(NBIF).count(), 4);
        assert!(GFX942.binary(layout).len() < 10 << 10);
    }

    #[test]
    fn counts_and_harvest() {
        let data = GFX942.binary(Layout {
            xccs: 4,
            harvested: 1 << 3,
        });
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
