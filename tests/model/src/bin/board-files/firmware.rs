// SPDX-License-Identifier: GPL-2.0
//! Firmware files of both chips. Headers, parts and sizes are those of the vendor's own; the
//! parts consist of counted dwords. The signatures are ones that the model accepts.

use rkfd_model::psp::image::{self, Kind};

use crate::block::Block;

/// Bytes of the header that all files have.
const COMMON: usize = 32;
/// Where the first part begins, from which on others are counted.
const FIRST: usize = 0x100;
/// The same in gfx942's file of the PSP, whose header is longer.
const SOS_FIRST: usize = 0x200;
/// Versions of the files. The MEC's is one below the version from which on the stock driver sets up
/// compute differently.
const SOS_MAIN: u32 = 0x0027_0181;
const SOS: u32 = 0x0027_0085;
const SMU: u32 = 0x0044_4000;
const SDMA: u32 = 8;
/// From this version on the application for XGMI tells the number of links.
const XGMI_TA: u32 = 0x2000_000b;
const MEC: u32 = 101;
const RLC: u32 = 0x11;
/// Those of gfx942.
const SOS_13_0_6: u32 = 0x0036_0256;
const SOS_13_0_6_OLDER: u32 = 0x0036_024e;
const SMU_13_0_6: u32 = 0x0055_7f01;
const SDMA_4_4_2: u32 = 24;
/// From 177 on ROCr expects that the CP reclaims scratch, which the model's does not.
const MEC_9_4_3: u32 = 176;
const RLC_9_4_3: u32 = 0x41;

/// A part: its offset in the file, and the image.
struct Part {
    at: usize,
    image: Vec<u8>,
}

fn part(at: usize, kind: Kind, version: u32, total: usize) -> Part {
    // The signature of the register list is a short one.
    let image = image::make(kind, version, total, kind != Kind::REGISTER_LIST);
    Part { at, image }
}

/// A file: version of its header, of its contents, the data behind the common header, bytes that
/// count as its code, parts.
fn file(
    header: (usize, usize),
    version: u32,
    more: &[u32],
    code: usize,
    parts: &[Part],
) -> Vec<u8> {
    file_with(header, version, more, (FIRST, code), parts)
}

/// The same, with the place of the code.
fn file_with(
    (major, minor): (usize, usize),
    version: u32,
    more: &[u32],
    (first, code): (usize, usize),
    parts: &[Part],
) -> Vec<u8> {
    let end = parts.iter().map(|part| part.at + part.image.len()).max();
    let mut file = Block::new(end.unwrap_or(first));
    file.dword(0, file.0.len() as u32);
    file.dword(4, (COMMON + 4 * more.len()) as u32);
    file.word(8, major);
    file.word(10, minor);
    file.word(12, 9);
    file.word(14, 4);
    file.dword(16, version);
    file.dword(20, code as u32);
    file.dword(24, first as u32);
    for (n, &value) in more.iter().enumerate() {
        file.dword(COMMON + 4 * n, value);
    }
    for part in parts {
        file.bytes(part.at, &part.image);
    }
    file.0
}

/// The PSP's own file: a pair for dies that hang on the processor's fabric, keys and registers for
/// both, a pair for the others.
fn sos() -> Vec<u8> {
    let parts = [
        part(0x100, Kind::SYS_DRIVER, SOS_MAIN, 0x1_e890),
        part(0x1_e990, Kind::SECURE_OS, SOS_MAIN, 0x1_4450),
        part(0x3_2de0, Kind::KEY_DATABASE, SOS, 0xe30),
        part(0x3_3c10, Kind::REGISTER_LIST, SOS, 0x15c0),
        part(0x3_51d0, Kind::SYS_DRIVER, SOS, 0x2_1890),
        part(0x5_6a60, Kind::SECURE_OS, SOS, 0x1_6480),
    ];
    let [sys, main, keys, list, driver, os] = &parts;
    // Version, offset, size of each. There is neither a table of contents nor one of security
    // levels.
    let entry = |version, part: &Part| [version, (part.at - FIRST) as u32, part.image.len() as u32];
    let more = [
        entry(SOS_MAIN, main),
        [0; 3],
        entry(SOS, keys),
        [0; 3],
        entry(SOS, list),
        entry(SOS, driver),
        entry(SOS, os),
    ]
    .concat();
    let code = os.at + os.image.len() - sys.at;
    file((1, 3), SOS_MAIN, &more, code, &parts)
}

/// A part of the PSP's file of gfx942: its type there, the kind of image, bytes.
type SosPart = (u32, Kind, usize);

/// In the order of the file, which has them twice.
const SOS_PARTS: [SosPart; 8] = [
    (2, Kind::SYS_DRIVER, 0x1_1200),
    (1, Kind::SECURE_OS, 0x1_ab80),
    (3, Kind::KEY_DATABASE, 0x2600),
    (7, Kind::SOC_DRIVER, 0x1_9200),
    (8, Kind::INTERFACE_DRIVER, 0x8200),
    (9, Kind::DEBUG_DRIVER, 0x8200),
    (10, Kind::RAS_DRIVER, 0x7200),
    (6, Kind::REGISTER_LIST, 0x24c0),
];

/// The PSP's file of gfx942: the parts for the SMU's newer versions, then those for older ones.
fn sos_13_0_6() -> Vec<u8> {
    let mut at = SOS_FIRST;
    let mut parts = Vec::new();
    let mut more = vec![2 * SOS_PARTS.len() as u32, SOS_PARTS.len() as u32];
    for version in [SOS_13_0_6, SOS_13_0_6_OLDER] {
        for (number, kind, bytes) in SOS_PARTS {
            more.extend([number, version, (at - SOS_FIRST) as u32, bytes as u32]);
            parts.push(part(at, kind, version, bytes));
            at += bytes;
        }
    }
    file_with(
        (2, 1),
        SOS_13_0_6_OLDER,
        &more,
        (SOS_FIRST, at - SOS_FIRST),
        &parts,
    )
}

fn smu() -> Vec<u8> {
    let image = part(FIRST, Kind::SMU, SMU, 0x3_b300);
    // Start address; no tables of its own.
    file((2, 1), SMU, &[0, 0, 0], 0x3_b300, &[image])
}

/// The SMU's file of gfx942, whose own firmware is in the flash chip: its tables, with their ids, of
/// MI300A, MI300X and MI325X.
fn smu_13_0_6() -> Vec<u8> {
    const TABLES: [u32; 3] = [0x5032_5341, 0x5032_5358, 0x5032_5303];
    const ENTRIES: usize = TABLES.len() * 12;
    const TABLE: usize = 0x480;
    let mut list = Vec::new();
    let mut parts = Vec::new();
    for (n, id) in TABLES.into_iter().enumerate() {
        let at = FIRST + ENTRIES + n * TABLE;
        for word in [id, at as u32, TABLE as u32] {
            list.extend(word.to_le_bytes());
        }
        parts.push(part(at, Kind::SMU_TABLE, id, TABLE));
    }
    parts.push(Part {
        at: FIRST,
        image: list,
    });
    // No code; the number of tables, and where the list is.
    let more = [0, 0, 0, TABLES.len() as u32, FIRST as u32];
    file((2, 1), SMU_13_0_6, &more, 0, &parts)
}

/// Of a version, `total` bytes, of which the jump table is the last `jumps` dwords.
fn sdma(version: u32, total: usize, jumps: u32) -> Vec<u8> {
    let image = part(FIRST, Kind::SDMA, version, total);
    // Feature and change version; the jump table.
    let more = [1, 0, total as u32 / 4 - jumps, jumps];
    file((1, 0), version, &more, total, &[image])
}

fn mec(version: u32) -> Vec<u8> {
    const CODE: usize = 0x4_1440;
    const JUMP_TABLE: usize = 0x480;
    let parts = [
        part(FIRST, Kind::MEC, version, CODE),
        part(FIRST + CODE, Kind::MEC_JUMP_TABLE, version, JUMP_TABLE),
    ];
    // Feature version; offset and length of the jump table, dwords.
    let more = [1, CODE as u32 / 4, JUMP_TABLE as u32 / 4];
    file((1, 0), version, &more, CODE + JUMP_TABLE, &parts)
}

/// Of a version, `code` bytes of code, and the offset and bytes of each of three lists of registers.
fn rlc(version: u32, code: usize, [cntl, gpm, srm]: [(usize, usize); 3]) -> Vec<u8> {
    let list = |(at, bytes), kind| part(at, kind, version, bytes);
    let parts = [
        part(FIRST, Kind::RLC, version, code),
        list(cntl, Kind::RLC_LIST_CNTL),
        list(gpm, Kind::RLC_LIST_GPM),
        list(srm, Kind::RLC_LIST_SRM),
    ];
    // No lists of registers for the driver itself. Then those for the RLC.
    let mut more = vec![0; 19];
    for list in &parts[1..] {
        more.extend([version, 1, list.image.len() as u32, list.at as u32]);
    }
    file((2, 1), version, &more, code, &parts)
}

/// Trusted applications: that for XGMI alone.
fn ta() -> Vec<u8> {
    const TYPE_XGMI: u32 = 2;
    const BYTES: usize = 0x6200;
    let image = part(FIRST, Kind::XGMI_TA, XGMI_TA, BYTES);
    // Their number; type, version, place behind the first and bytes of each.
    let more = [1, TYPE_XGMI, XGMI_TA, 0, BYTES as u32];
    file((2, 0), XGMI_TA, &more, BYTES, &[image])
}

/// Name and contents of each file.
pub fn files() -> Vec<(&'static str, Vec<u8>)> {
    let lists = [(0x72ac, 0x360), (0x760c, 0x700), (0x7d0c, 0x36e0)];
    let lists_9_4_3 = [(0x7774, 0x340), (0x7ab4, 0x700), (0x81b4, 0x1580)];
    vec![
        ("amdgpu/aldebaran_sos.bin", sos()),
        ("amdgpu/aldebaran_ta.bin", ta()),
        ("amdgpu/aldebaran_smc.bin", smu()),
        ("amdgpu/aldebaran_sdma.bin", sdma(SDMA, 0x8500, 0x40)),
        ("amdgpu/aldebaran_mec.bin", mec(MEC)),
        ("amdgpu/aldebaran_rlc.bin", rlc(RLC, 0x4300, lists)),
        ("amdgpu/gc_9_4_3_mec.bin", mec(MEC_9_4_3)),
        (
            "amdgpu/gc_9_4_3_rlc.bin",
            rlc(RLC_9_4_3, 0x6300, lists_9_4_3),
        ),
        ("amdgpu/sdma_4_4_2.bin", sdma(SDMA_4_4_2, 0x8500, 0x80)),
        ("amdgpu/psp_13_0_6_sos.bin", sos_13_0_6()),
        ("amdgpu/psp_13_0_6_ta.bin", ta()),
        ("amdgpu/smu_13_0_6.bin", smu_13_0_6()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use rkfd_model::psp::image::Signatures;

    fn dword(data: &[u8], at: usize) -> usize {
        u32::from_le_bytes([0, 1, 2, 3].map(|n| data[at + n])) as usize
    }

    fn contents(name: &str) -> Vec<u8> {
        let found = files().into_iter().find(|file| file.0.contains(name));
        found.map(|file| file.1).unwrap()
    }

    #[test]
    fn common_headers() {
        for (name, file) in files() {
            assert_eq!(dword(&file, 0), file.len(), "{name}");
            let (len, code) = (dword(&file, 20), dword(&file, 24));
            assert!(dword(&file, 4) <= code, "{name}");
            let first = if name.contains("13_0_6_sos") {
                0x200
            } else {
                0x100
            };
            assert_eq!(code, first, "{name}");
            assert!(code + len <= file.len(), "{name}");
        }
        assert_eq!(dword(&contents("sos"), 4), 116);
        assert_eq!(dword(&contents("aldebaran_rlc"), 4), 0x9c);
    }

    #[test]
    fn every_part_is_where_the_header_says() {
        let check = |file: &[u8], at: usize, len: usize, kind: Kind| {
            let header = image::check(&file[at..at + len], Signatures::Ours).unwrap();
            assert_eq!(header.kind, kind, "{at:#x}");
        };
        let sos = contents("sos");
        for (entry, kind) in [
            (0x20, Kind::SECURE_OS),
            (0x38, Kind::KEY_DATABASE),
            (0x50, Kind::REGISTER_LIST),
            (0x5c, Kind::SYS_DRIVER),
            (0x68, Kind::SECURE_OS),
        ] {
            let (at, len) = (dword(&sos, entry + 4), dword(&sos, entry + 8));
            check(&sos, 0x100 + at, len, kind);
        }
        let sos_13_0_6 = contents("psp_13_0_6_sos");
        for n in 0..16 {
            let [at, len] = [8, 12].map(|field| dword(&sos_13_0_6, 0x28 + 16 * n + field));
            check(&sos_13_0_6, 0x200 + at, len, SOS_PARTS[n % 8].1);
        }
        // Of the pair for the processor's fabric the first part is the data before the second.
        check(&sos, 0x100, dword(&sos, 0x24), Kind::SYS_DRIVER);
        assert_eq!(sos.len(), 0x6_cee0);
        for name in ["aldebaran_mec", "gc_9_4_3_mec"] {
            let mec = contents(name);
            let (at, len) = (4 * dword(&mec, 0x24), 4 * dword(&mec, 0x28));
            check(&mec, 0x100, dword(&mec, 20) - len, Kind::MEC);
            check(&mec, 0x100 + at, len, Kind::MEC_JUMP_TABLE);
        }
        for name in ["aldebaran_rlc", "gc_9_4_3_rlc"] {
            let rlc = contents(name);
            check(&rlc, 0x100, dword(&rlc, 20), Kind::RLC);
            for (entry, kind) in [
                (0x6c, Kind::RLC_LIST_CNTL),
                (0x7c, Kind::RLC_LIST_GPM),
                (0x8c, Kind::RLC_LIST_SRM),
            ] {
                check(&rlc, dword(&rlc, entry + 12), dword(&rlc, entry + 8), kind);
            }
        }
        for (name, kind) in [
            ("aldebaran_sdma", Kind::SDMA),
            ("sdma_4_4_2", Kind::SDMA),
            ("smc", Kind::SMU),
        ] {
            let file = contents(name);
            check(&file, 0x100, dword(&file, 20), kind);
        }
    }
}
