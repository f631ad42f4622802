// SPDX-License-Identifier: GPL-2.0
//! Every opcode of every encoding, with plain operands, and with each of the encoding's modifiers.

/// A piece of code that may be an instruction.
pub struct Form {
    /// Its encoding.
    pub format: &'static str,
    pub op: u32,
    /// What it has beside plain operands.
    pub with: String,
    pub code: Vec<u32>,
}

/// A literal, and the source code that announces one. Some operands have 16 bits.
const LITERAL: u32 = 0x2345;
const LITERAL_CODE: u32 = 255;
/// The source code of v0.
const V: u32 = 256;
const SDWA: u32 = 249;
const DPP: u32 = 250;

struct Forms(Vec<Form>);

impl Forms {
    fn add(&mut self, format: &'static str, op: u32, with: impl ToString, code: &[u32]) {
        self.0.push(Form {
            format,
            op,
            with: with.to_string(),
            code: code.to_vec(),
        });
    }
}

/// All of them.
pub fn all() -> Vec<Form> {
    let mut forms = Forms(Vec::new());
    scalar(&mut forms);
    scalar_memory(&mut forms);
    vector(&mut forms);
    compares(&mut forms);
    vop3(&mut forms);
    packed(&mut forms);
    matrices(&mut forms);
    lds(&mut forms);
    flat(&mut forms);
    buffers(&mut forms);
    others(&mut forms);
    forms.0
}

fn scalar(forms: &mut Forms) {
    for op in 0..256 {
        let word = 0x17d << 23 | op << 8;
        forms.add("SOP1", op, "", &[word | 8 << 16 | 4]);
        forms.add("SOP1", op, "no result", &[word | 4]);
        forms.add("SOP1", op, "no source", &[word | 8 << 16]);
        forms.add("SOP1", op, "nothing", &[word]);
        forms.add(
            "SOP1",
            op,
            "literal",
            &[word | 8 << 16 | LITERAL_CODE, LITERAL],
        );
    }
    for op in 0..0x60 {
        let word = 2 << 30 | op << 23 | 4 << 8;
        forms.add("SOP2", op, "", &[word | 8 << 16 | 6]);
        forms.add("SOP2", op, "no result", &[word | 6]);
        forms.add(
            "SOP2",
            op,
            "literal",
            &[word | 8 << 16 | LITERAL_CODE, LITERAL],
        );
    }
    for op in 0..0x80 {
        forms.add("SOPC", op, "", &[0x17e << 23 | op << 16 | 4 << 8 | 6]);
        let word = 0x17e << 23 | op << 16 | 4 << 8 | LITERAL_CODE;
        forms.add("SOPC", op, "literal", &[word, LITERAL]);
        forms.add("SOPP", op, "", &[0x17f << 23 | op << 16]);
        forms.add("SOPP", op, "constant", &[0x17f << 23 | op << 16 | 1]);
    }
    for op in 0..0x1d {
        let word = 0xb << 28 | op << 23;
        // The constant names a hardware register.
        forms.add("SOPK", op, "", &[word | 8 << 16 | 0x801]);
        forms.add("SOPK", op, "no result", &[word | 0x801]);
        forms.add("SOPK", op, "literal", &[word | 0x801, LITERAL]);
    }
}

fn scalar_memory(forms: &mut Forms) {
    for op in 0..256 {
        let word = 0x30 << 26 | op << 18;
        for base in [1, 2] {
            let word = word | base;
            forms.add("SMEM", op, "", &[word | 1 << 17 | 16 << 6, 8]);
            forms.add("SMEM", op, "no data", &[word | 1 << 17, 8]);
            forms.add("SMEM", op, "GLC", &[word | 1 << 17 | 1 << 16 | 16 << 6, 8]);
            forms.add("SMEM", op, "SGPR", &[word | 16 << 6, 8]);
            let both = [word | 1 << 17 | 1 << 14 | 16 << 6, 8 << 25 | 8];
            forms.add("SMEM", op, "SGPR and offset", &both);
        }
        forms.add("SMEM", op, "no address", &[word | 16 << 6, 0]);
        forms.add("SMEM", op, "nothing", &[word, 0]);
    }
}

/// The names of SDWA dwords for one and for two sources, and these.
const SDWA_WORDS: [(&str, u32); 10] = [
    ("SDWA", 6 << 8 | 6 << 16 | 6 << 24),
    ("SDWA and clamp", 1 << 13 | 6 << 8 | 6 << 16 | 6 << 24),
    ("SDWA and omod", 1 << 14 | 6 << 8 | 6 << 16 | 6 << 24),
    ("SDWA of bytes", 6 << 8 | 1 << 16 | 2 << 24),
    // gfx942's conversions say nothing of a second source.
    ("SDWA of one byte", 6 << 8 | 1 << 16),
    ("SDWA and neg", 6 << 8 | 5 << 16 | 6 << 24 | 1 << 20),
    ("SDWA and neg1", 6 << 8 | 5 << 16 | 4 << 24 | 1 << 28),
    ("SDWA and abs", 6 << 8 | 5 << 16 | 6 << 24 | 1 << 21),
    ("SDWA and sext", 6 << 8 | 5 << 16 | 6 << 24 | 1 << 19),
    ("SDWA to a word", 5 << 8 | 6 << 16 | 6 << 24),
];

/// See above.
const DPP_WORDS: [(&str, u32); 5] = [
    ("DPP", 0xff << 24 | 0x111 << 8),
    ("DPP for 64 bits", 0xff << 24 | 0x152 << 8),
    ("DPP and neg", 0xff << 24 | 0x111 << 8 | 1 << 20),
    ("DPP and abs", 0xff << 24 | 0x111 << 8 | 1 << 21),
    ("DPP and neg1", 0xff << 24 | 0x111 << 8 | 1 << 22),
];

fn vector(forms: &mut Forms) {
    for op in 0..0x80 {
        let word = 0x3f << 25 | 4 << 17 | op << 9;
        forms.add("VOP1", op, "", &[word | V | 2]);
        forms.add("VOP1", op, "SGPR", &[word | 2]);
        forms.add("VOP1", op, "literal", &[word | LITERAL_CODE, LITERAL]);
        forms.add("VOP1", op, "nothing", &[0x3f << 25 | op << 9]);
        extended(forms, "VOP1", op, word);
    }
    for op in 0..0x3e {
        let word = op << 25 | 4 << 17 | 2 << 9;
        forms.add("VOP2", op, "", &[word | V | 6]);
        forms.add("VOP2", op, "constant", &[word | V | 6, LITERAL]);
        forms.add("VOP2", op, "literal", &[word | LITERAL_CODE, LITERAL]);
        extended(forms, "VOP2", op, word);
    }
}

/// The forms of VOP1 and VOP2 with a second dword.
fn extended(forms: &mut Forms, format: &'static str, op: u32, word: u32) {
    // Parts of the result that are not written stay, or become zero.
    for unused in [0, 2] {
        for (name, second) in SDWA_WORDS {
            forms.add(format, op, name, &[word | SDWA, second | unused << 11 | 2]);
        }
    }
    for (name, second) in DPP_WORDS {
        forms.add(format, op, name, &[word | DPP, second | 2]);
    }
}

fn compares(forms: &mut Forms) {
    const DWORDS: u32 = 6 << 16 | 6 << 24 | 2;
    for op in 0..0x100 {
        let word = 0x3e << 25 | op << 17 | 2 << 9;
        forms.add("VOPC", op, "", &[word | V | 6]);
        forms.add("VOPC", op, "literal", &[word | LITERAL_CODE, LITERAL]);
        forms.add("VOPC", op, "SDWA", &[word | SDWA, DWORDS]);
        forms.add(
            "VOPC",
            op,
            "SDWA to SGPRs",
            &[word | SDWA, DWORDS | 1 << 15 | 20 << 8],
        );
        forms.add("VOPC", op, "SDWA and neg", &[word | SDWA, DWORDS | 1 << 20]);
        forms.add("VOPC", op, "SDWA and abs", &[word | SDWA, DWORDS | 1 << 21]);
        forms.add(
            "VOPC",
            op,
            "SDWA of bytes",
            &[word | SDWA, 1 << 16 | 2 << 24 | 1 << 19 | 2],
        );
        forms.add(
            "VOPC",
            op,
            "DPP",
            &[word | DPP, 0xff << 24 | 0x111 << 8 | 2],
        );
    }
}

fn vop3(forms: &mut Forms) {
    const RESULT: u32 = 4;
    const SOURCES: u32 = V + 2;
    // From 0x380 on the encoding is VOP3P.
    for op in 0..0x380 {
        let word = 0x34 << 26 | op << 16 | RESULT;
        // One to three VGPRs; scalars in the places where there must be one; an SGPR pair for the
        // mask that is a result; no operand.
        let plain = [
            (word, SOURCES),
            (word, SOURCES | (V + 8) << 9),
            (word, SOURCES | (V + 8) << 9 | (V + 6) << 18),
            (word, SOURCES | 4 << 9),
            (word, 2 | 4 << 9),
            (word, SOURCES | (V + 8) << 9 | 4 << 18),
            (word | 20 << 8, SOURCES | (V + 8) << 9),
            (word | 20 << 8, SOURCES | (V + 8) << 9 | 4 << 18),
            (word | 20 << 8, SOURCES | (V + 8) << 9 | (V + 6) << 18),
            (word & !0xff, 0),
        ];
        for (first, second) in plain {
            let mut add = |with: &str, changes: [u32; 2]| {
                forms.add("VOP3", op, with, &[first | changes[0], second | changes[1]]);
            };
            add("", [0, 0]);
            add("clamp", [1 << 15, 0]);
            add("omod", [0, 1 << 27]);
            for n in 0..3 {
                add(&format!("neg{n}"), [0, 1 << (29 + n)]);
            }
            if first & 20 << 8 == 0 {
                for n in 0..3 {
                    add(&format!("abs{n}"), [1 << (8 + n), 0]);
                }
                for n in 0..4 {
                    add(&format!("op_sel{n}"), [1 << (11 + n), 0]);
                }
            }
        }
    }
}

/// The first opcode of VOP3P that is one of matrices.
const MATRICES: u32 = 0x3e;

fn packed(forms: &mut Forms) {
    for op in 0..MATRICES {
        let word = 0x1a7 << 23 | op << 16 | 4;
        for sources in [
            V + 2,
            V + 2 | (V + 8) << 9,
            V + 2 | (V + 8) << 9 | (V + 6) << 18,
        ] {
            // All bits of op_sel_hi that the sources have.
            for high in [[0, 0], [0, 1 << 27], [0, 3 << 27], [1 << 14, 3 << 27]] {
                let mut add = |with: &str, changes: [u32; 2]| {
                    let code = [word | high[0] | changes[0], sources | high[1] | changes[1]];
                    forms.add("VOP3P", op, with, &code);
                };
                add("", [0, 0]);
                add("clamp", [1 << 15, 0]);
                for n in 0..3 {
                    add(&format!("op_sel{n}"), [1 << (11 + n), 0]);
                    add(&format!("neg_lo{n}"), [0, 1 << (29 + n)]);
                    add(&format!("neg_hi{n}"), [1 << (8 + n), 0]);
                }
            }
        }
    }
}

fn matrices(forms: &mut Forms) {
    const FACTORS: u32 = V + 2 | (V + 8) << 9;
    for op in MATRICES..0x80 {
        let word = 0x1a7 << 23 | op << 16 | 4;
        for (with, first, second) in [
            ("", 0, FACTORS | (V + 40) << 18),
            ("constant", 0, FACTORS | 128 << 18),
            ("one source", 0, V + 2),
            ("from acc", 1 << 14, V + 2 | 3 << 27),
            ("to acc", 1 << 14, 2 | 3 << 27),
            ("acc", 1 << 15, FACTORS | (V + 40) << 18 | 3 << 27),
        ] {
            let mut add = |with: &str, changes: [u32; 2]| {
                let code = [word | first | changes[0], second | changes[1]];
                forms.add("MFMA", op, with, &code);
            };
            add(with, [0, 0]);
            if with.is_empty() {
                for n in 1..8 {
                    add(&format!("cbsz{n}"), [n << 8, 0]);
                    add(&format!("blgp{n}"), [0, n << 29]);
                }
                for n in 1..16 {
                    add(&format!("abid{n}"), [2 << 8 | n << 11, 0]);
                }
            }
        }
    }
}

fn lds(forms: &mut Forms) {
    for op in 0..256 {
        for (with, bits) in [("", 0), ("gds", 1 << 16), ("acc", 1 << 25)] {
            let word = 0x36 << 26 | op << 17 | bits;
            for used in 0..16 {
                let operand =
                    |n: u32, place: u32, register: u32| (used >> n & 1) * register << place;
                let second =
                    operand(0, 0, 2) | operand(1, 8, 8) | operand(2, 16, 10) | operand(3, 24, 12);
                forms.add("DS", op, with, &[word, second]);
                forms.add("DS", op, with, &[word | 4, second]);
            }
        }
    }
}

fn flat(forms: &mut Forms) {
    const NONE: u32 = 0x7f;
    for op in 0..0x80 {
        for (n, format) in ["FLAT", "SCRATCH", "GLOBAL"].into_iter().enumerate() {
            for (with, first, second) in [
                ("", 0, 0),
                ("GLC", 1 << 16, 0),
                ("acc", 0, 1 << 23),
                ("LDS", 1 << 13, 0),
            ] {
                for address in [NONE << 16 | 2, 4 << 16 | 2, 4 << 16, NONE << 16, 2] {
                    for data in [8 << 8 | 12 << 24, 8 << 8, 12 << 24, 0] {
                        let word = 0x37 << 26 | op << 18 | (n as u32) << 14 | first;
                        forms.add(format, op, with, &[word, second | address | data]);
                    }
                }
            }
        }
    }
}

fn buffers(forms: &mut Forms) {
    const SCALARS: u32 = 2 << 16 | 4 << 24;
    for op in 0..0x80 {
        let word = 0x38 << 26 | op << 18;
        for (with, first, second) in [
            ("", 0, 0),
            ("GLC", 1 << 14, 0),
            ("acc", 0, 1 << 23),
            ("LDS", 1 << 16, 0),
            ("idxen", 1 << 13, 2),
            ("offen", 1 << 12, 2),
            ("idxen and offen", 3 << 12, 2),
        ] {
            forms.add(
                "MUBUF",
                op,
                with,
                &[word | first, SCALARS | second | 8 << 8],
            );
            forms.add("MUBUF", op, with, &[word | first, SCALARS | second]);
            forms.add("MUBUF", op, with, &[word | first, 0]);
        }
    }
}

fn others(forms: &mut Forms) {
    for op in 0..0x80 {
        let sources = 2 | 8 << 8 | 2 << 16;
        forms.add("MIMG", op, "", &[0x3c << 26 | op << 18 | 15 << 8, sources]);
        forms.add("MIMG", op, "", &[0x3c << 26 | op << 18 | 1 << 8, sources]);
        forms.add(
            "MIMG",
            op,
            "",
            &[0x3c << 26 | op << 18 | 1 << 8 | 1 << 13, sources],
        );
        forms.add(
            "MIMG",
            op,
            "",
            &[0x3c << 26 | op << 18 | 1 << 8, sources | 4 << 21],
        );
    }
    for op in 0..0x10 {
        let word = 0x3a << 26 | op << 15 | 1 << 23;
        forms.add("MTBUF", op, "", &[word, 8 << 8 | 2 << 16 | 4 << 24]);
    }
    for op in 0..4 {
        forms.add("VINTRP", op, "", &[0x35 << 26 | op << 16, 0]);
    }
    forms.add("EXP", 0, "", &[0x31 << 26, 0]);
}
