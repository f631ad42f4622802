// SPDX-License-Identifier: GPL-2.0
//! Every opcode that compilers and ROCm's own shaders were seen to use is supported.

use rkfd_shader::decode::{decode, Words};

fn known(format: &str, ops: &[u32], encode: impl Fn(u32) -> [u32; 2]) {
    for &op in ops {
        let [first, second] = encode(op);
        let decoded = decode(Words([first, second, 0]));
        assert!(decoded.is_ok(), "{format} {op}: {first:#x} {second:#x}");
    }
}

#[test]
fn scalar() {
    let sop2 = [
        0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 21, 28, 29, 30, 31, 32,
        36, 37, 39, 44, 45,
    ];
    known("SOP2", &sop2, |op| [2 << 30 | op << 23, 0]);
    let sop1 = [
        0, 1, 8, 13, 16, 17, 24, 26, 28, 29, 30, 31, 32, 33, 34, 35, 48, 50,
    ];
    known("SOP1", &sop1, |op| [0x17d << 23 | op << 8, 0]);
    let sopc = [2, 3, 4, 6, 7, 8, 9, 10, 12, 13, 18, 19];
    known("SOPC", &sopc, |op| [0x17e << 23 | op << 16, 0]);
    let sopk = [0, 2, 3, 4, 14, 15, 17, 18];
    known("SOPK", &sopk, |op| [0xb << 28 | op << 23, 0]);
    let sopp = [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18];
    known("SOPP", &sopp, |op| [0x17f << 23 | op << 16, 0]);
    let smem = [0, 1, 2, 3, 4, 16, 17, 33, 36, 37, 130, 162];
    known("SMEM", &smem, |op| [0x30 << 26 | op << 18 | 1 << 17, 0]);
}

#[test]
fn vector() {
    const V0: u32 = 256;
    let vop1 = (1..9)
        .chain([10, 11, 16, 17, 18, 19, 21, 22, 23, 25, 26])
        .chain(28..40)
        .chain(43..49)
        .chain(50..53);
    known("VOP1", &vop1.collect::<Vec<_>>(), |op| {
        [0x3f << 25 | op << 9 | V0, 0]
    });
    let vop2 = [0, 1, 2, 4, 5, 8]
        .into_iter()
        .chain(11..24)
        .chain(25..31)
        .chain([38, 42, 44, 45, 52, 53, 54, 57, 59]);
    known("VOP2", &vop2.collect::<Vec<_>>(), |op| [op << 25 | V0, 0]);
    let vopc = [
        16, 18, 65, 66, 67, 68, 70, 71, 72, 75, 77, 78, 98, 99, 100, 110, 193, 195, 196, 198, 201,
        202, 203, 204, 205, 206, 228, 233, 234, 235, 236, 237, 238,
    ];
    known("VOPC", &vopc, |op| [0x3e << 25 | op << 17 | V0, 0]);
    let vop3 = [
        16, 18, 43, 65, 66, 67, 68, 69, 70, 71, 72, 75, 77, 78, 97, 98, 100, 101, 102, 104, 107,
        109, 110, 169, 170, 173, 193, 195, 196, 198, 201, 202, 203, 204, 205, 206, 225, 228, 233,
        234, 235, 236, 237, 256, 257, 258, 260, 261, 266, 267, 270, 272, 273, 274, 275, 276, 277,
        278, 281, 282, 283, 284, 285, 286, 294, 308, 309, 315, 323, 324, 325, 326, 327, 328, 330,
        331, 336, 341, 342, 343, 345, 346, 348, 349, 350, 351, 352, 353, 354, 356, 357, 358, 359,
        364, 365, 366, 367, 368, 371, 372, 449, 451, 456, 457, 458, 459, 460, 462, 471, 476, 478,
        479, 480, 481, 482, 483, 488, 489, 491, 493, 499, 509, 510, 511, 512, 513, 514, 518, 640,
        641, 642, 643, 644, 645, 646, 647, 648, 649, 650, 651, 652, 653, 655, 656, 657, 658, 662,
        672,
    ];
    let sources = V0 | V0 << 9 | V0 << 18;
    known("VOP3", &vop3, |op| [0x34 << 26 | op << 16, sources]);
    let vop3p = [14, 18, 32, 41, 48, 49, 50, 51, 68, 69, 77, 88, 89, 110];
    known("VOP3P", &vop3p, |op| [0x1a7 << 23 | op << 16, sources]);
}

#[test]
fn memory() {
    let ds = [
        0, 5, 6, 9, 10, 11, 13, 14, 15, 21, 30, 31, 32, 45, 48, 53, 54, 55, 56, 57, 58, 59, 61, 63,
        64, 77, 118, 119, 120, 223, 255,
    ];
    known("DS", &ds, |op| [0x36 << 26 | op << 17, 0]);
    let flat: Vec<u32> = (16..32)
        .filter(|&op| op != 25)
        .chain(64..78)
        .chain([79])
        .chain(96..107)
        .collect();
    known("FLAT", &flat, |op| [0x37 << 26 | op << 18, 0]);
    known("GLOBAL", &flat, |op| {
        [0x37 << 26 | op << 18 | 2 << 14, 0x7f << 16]
    });
    known("MUBUF", &[20, 28, 40, 41, 63], |op| {
        [0x38 << 26 | op << 18, 0]
    });
}

/// Reserved encodings are not taken for others.
#[test]
fn reserved() {
    for (first, second) in [
        // SOP2 60, SOPP 100, VOP1 100, VOP2 62, VOPC 1, VOP3 800, an operand code, DS 200, FLAT 50,
        // EXP.
        (2 << 30 | 60 << 23, 0),
        (0x17f << 23 | 100 << 16, 0),
        (0x3f << 25 | 100 << 9 | 256, 0),
        (0x3e << 25 | 1 << 17, 0),
        (0x34 << 26 | 800 << 16, 0),
        (2 << 30 | 125, 0),
        (0x36 << 26 | 200 << 17, 0),
        (0x37 << 26 | 50 << 18, 0),
        (0x31 << 26, 0),
    ] {
        assert!(decode(Words([first, second, 0])).is_err(), "{first:#x}");
    }
}
