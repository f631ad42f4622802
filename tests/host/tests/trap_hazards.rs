// SPDX-License-Identifier: GPL-2.0
//! Wait states and counters in the trap handler: what the hardware leaves to code, and the model of
//! the shader core, which executes one instruction after the other, does not show. The rules are
//! those of LLVM's GCNHazardRecognizer and SIInsertWaitcnts for gfx90a, as far as they speak of
//! instructions that such a handler may have. A load of scalars may overwrite its own address here,
//! which LLVM avoids with XNACK: the memory that the handler reads is always mapped.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};

use hw::asic::gfx90a::MI210;
use hw::asic::gfx942::MI300X;

/// The handlers, each with the processor that runs it.
const HANDLERS: [(&str, &[u32]); 2] = [("gfx90a", MI210.trap), ("gfx942", MI300X.trap)];

/// One instruction.
struct Inst {
    name: String,
    operands: Vec<String>,
    /// Its first dword, and the number of its dwords.
    at: usize,
    len: usize,
}

/// Runs llvm-mc for `processor` on `input` and gives the instructions that it prints.
fn instructions(processor: &str, arguments: &[&str], input: &str) -> Vec<Inst> {
    let mut child = Command::new("llvm-mc-19")
        .args(["-arch=amdgcn", "-mcpu", processor, "-show-encoding"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("llvm-mc-19 is there");
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let mut at = 0;
    let lines = text
        .lines()
        .filter_map(|line| line.split_once("; encoding:"));
    lines
        .map(|(text, encoding)| {
            let text = text.trim();
            let (name, operands) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
            let len = encoding.matches("0x").count() / 4;
            let inst = Inst {
                name: name.to_owned(),
                operands: operands
                    .split(',')
                    .map(|part| part.trim().to_owned())
                    .collect(),
                at,
                len,
            };
            at += len;
            inst
        })
        .collect()
}

fn disassembled(processor: &str, words: &[u32]) -> Vec<Inst> {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    let text: Vec<String> = bytes.map(|byte| format!("{byte:#04x}")).collect();
    let all = instructions(processor, &["-disassemble"], &text.join(" "));
    let len: usize = all.iter().map(|inst| inst.len).sum();
    assert_eq!(len, words.len(), "words that are no instructions");
    all
}

/// The registers that an operand names.
fn registers(operand: &str) -> Vec<String> {
    let operand = operand.split_whitespace().next().unwrap_or("");
    match operand {
        "exec" | "vcc" => return vec![format!("{operand}_lo"), format!("{operand}_hi")],
        "m0" | "exec_lo" | "exec_hi" | "vcc_lo" | "vcc_hi" => return vec![operand.to_owned()],
        _ => {}
    }
    let Some(kind) = ["ttmp", "s", "v", "a"]
        .into_iter()
        .find(|kind| operand.starts_with(kind))
    else {
        return Vec::new();
    };
    let number = &operand[kind.len()..];
    if let Ok(number) = number.parse::<u32>() {
        return vec![format!("{kind}{number}")];
    }
    let range = number
        .strip_prefix('[')
        .and_then(|range| range.strip_suffix(']'));
    let Some((first, last)) = range.and_then(|range| range.split_once(':')) else {
        return Vec::new();
    };
    let [first, last] = [first, last].map(|number| number.parse::<u32>().unwrap());
    (first..=last)
        .map(|number| format!("{kind}{number}"))
        .collect()
}

impl Inst {
    fn is(&self, prefixes: &[&str]) -> bool {
        prefixes.iter().any(|prefix| self.name.starts_with(prefix))
    }

    fn is_valu(&self) -> bool {
        self.name.starts_with("v_")
    }

    fn is_vmem(&self) -> bool {
        self.is(&["buffer_", "global_", "flat_", "scratch_"])
    }

    /// Its first operand is a source as well as the others.
    fn has_no_result(&self) -> bool {
        const NONE: [&str; 19] = [
            "s_store",
            "s_cmp",
            "s_bitcmp",
            "s_setreg",
            "s_cbranch",
            "s_branch",
            "s_setpc",
            "s_rfe",
            "s_endpgm",
            "s_nop",
            "s_waitcnt",
            "s_set",
            "s_sendmsg",
            "s_sleep",
            "s_barrier",
            "ds_write",
            "s_sethalt",
            "s_trap",
            "s_dcache",
        ];
        self.is(&NONE) || self.is_vmem() && self.name.contains("_store")
    }

    fn written(&self) -> BTreeSet<String> {
        let some = !self.has_no_result();
        self.operands
            .iter()
            .take(usize::from(some))
            .flat_map(|part| registers(part))
            .collect()
    }

    fn read(&self) -> BTreeSet<String> {
        let skipped = usize::from(!self.has_no_result());
        self.operands
            .iter()
            .skip(skipped)
            .flat_map(|part| registers(part))
            .collect()
    }

    /// The hardware register of s_getreg and s_setreg.
    fn hardware_register(&self) -> Option<String> {
        let text = self.operands.join(",");
        let name = text.split_once("hwreg(")?.1;
        Some(name.split([',', ')']).next()?.to_owned())
    }

    fn wait_states(&self) -> u32 {
        match self.name.as_str() {
            "s_nop" => self.operands[0].parse::<u32>().unwrap() + 1,
            _ => 1,
        }
    }
}

/// What there was before an instruction on some way to it.
#[derive(Clone, Default, PartialEq, Eq)]
struct State {
    /// Wait states since an event, up to some that satisfy any rule.
    since: BTreeMap<(&'static str, String), u32>,
    /// Registers whose loads may be under way, and the counter that waits for them.
    loading: BTreeMap<String, &'static str>,
}

/// More than any rule asks for.
const ENOUGH: u32 = 8;

impl State {
    /// Adds what there was on another way. Returns whether that changed something.
    fn join(&mut self, other: &State) -> bool {
        let before = self.clone();
        for (event, &since) in &other.since {
            let mine = self.since.entry(event.clone()).or_insert(since);
            *mine = since.min(*mine);
        }
        self.loading.extend(other.loading.clone());
        *self != before
    }

    /// Notes the rule if the event was less than so many wait states ago.
    fn want(&self, found: &mut Vec<String>, inst: &Inst, event: (&'static str, &str), least: u32) {
        let since = self.since.get(&(event.0, event.1.to_owned()));
        if since.is_some_and(|&since| since < least) {
            found.push(format!(
                "dword {}: {} after {} {}",
                inst.at, inst.name, event.0, event.1
            ));
        }
    }

    fn check(&self, inst: &Inst) -> Vec<String> {
        let mut found = Vec::new();
        let mut want = |event, register: &str, least| {
            self.want(&mut found, inst, (event, register), least);
        };
        if inst.is(&["s_getreg", "s_setreg"]) {
            want("setreg", &inst.hardware_register().unwrap(), 2);
        }
        if inst.is(&["s_rfe"]) {
            want("setreg", "HW_REG_TRAPSTS", 1);
        }
        let to_lds = inst.is_vmem() && inst.operands.iter().any(|part| part.ends_with(" lds"));
        if to_lds || inst.is(&["s_movrel", "s_sendmsg", "s_ttracedata", "ds_gws"]) {
            want("SALU writes", "m0", 1);
        }
        if inst.name.contains("addtid") {
            want("SALU writes", "m0", 1);
        }
        for register in inst.read() {
            let of_lanes = register.starts_with(['v', 'a']) && !register.starts_with("vcc");
            if inst.is_vmem() && !of_lanes {
                want("VALU writes", &register, 5);
            }
        }
        if inst.is(&["v_readlane", "v_writelane"]) {
            for register in inst
                .operands
                .get(2)
                .into_iter()
                .flat_map(|part| registers(part))
            {
                want("VALU writes", &register, 4);
            }
        }
        if inst.is(&["v_div_fmas"]) {
            want("VALU writes", "vcc_lo", 4);
        }
        if inst.name.ends_with("_dpp") {
            want("VALU writes", "exec_lo", 5);
            for register in registers(&inst.operands[1]) {
                want("VALU writes", &register, 2);
            }
        }
        if inst.is_valu() {
            for register in inst.written() {
                want("large store of", &register, 1);
            }
        }
        let ends = inst.is(&["s_rfe", "s_endpgm", "s_setpc"]);
        for (register, counter) in &self.loading {
            if ends || inst.read().contains(register) || inst.written().contains(register) {
                found.push(format!(
                    "dword {}: {} without {counter}",
                    inst.at, inst.name
                ));
            }
        }
        found
    }

    fn step(&mut self, inst: &Inst) {
        for since in self.since.values_mut() {
            *since = (*since + inst.wait_states()).min(ENOUGH);
        }
        // It ends where the next one begins.
        let mut note = |event, register: String| self.since.insert((event, register), 0);
        if inst.is(&["s_setreg"]) {
            note("setreg", inst.hardware_register().unwrap());
        }
        for register in inst.written() {
            if inst.is_valu() {
                note("VALU writes", register);
            } else if inst.name.starts_with("s_") {
                note("SALU writes", register);
            }
        }
        if inst.is_vmem() && inst.is(&["buffer_store_dwordx3", "buffer_store_dwordx4"]) {
            registers(&inst.operands[0])
                .into_iter()
                .for_each(|register| {
                    note("large store of", register);
                });
        }
        let counter = match inst.name.as_str() {
            name if name.starts_with("s_load") || name.starts_with("ds_read") => Some("lgkmcnt"),
            _ if inst.is_vmem() && inst.name.contains("_load") => Some("vmcnt"),
            _ => None,
        };
        if let Some(counter) = counter {
            let written = inst.written().into_iter();
            self.loading
                .extend(written.map(|register| (register, counter)));
        }
        if inst.name == "s_waitcnt" {
            for counter in ["lgkmcnt", "vmcnt"] {
                if inst.operands.join(" ").contains(&format!("{counter}(0)")) {
                    self.loading.retain(|_, waits| *waits != counter);
                }
            }
        }
    }
}

/// What breaks a rule on some way from one of the entries, which are dwords.
fn hazards(code: &[Inst], entries: &[usize]) -> BTreeSet<String> {
    let by_dword: BTreeMap<usize, usize> = (0..).zip(code).map(|(n, inst)| (inst.at, n)).collect();
    let mut states: Vec<Option<State>> = code.iter().map(|_| None).collect();
    let mut found = BTreeSet::new();
    let mut left: Vec<usize> = Vec::new();
    for at in entries {
        states[by_dword[at]] = Some(State::default());
        left.push(by_dword[at]);
    }
    while let Some(n) = left.pop() {
        let (inst, mut state) = (&code[n], states[n].clone().unwrap());
        found.extend(state.check(inst));
        state.step(inst);
        let mut next = Vec::new();
        if inst.is(&["s_branch", "s_cbranch"]) {
            let distance = inst.operands[0].parse::<u16>().unwrap() as i16;
            let to = (inst.at + inst.len)
                .checked_add_signed(distance.into())
                .unwrap();
            next.push(by_dword[&to]);
        }
        if !inst.is(&["s_branch", "s_rfe", "s_endpgm", "s_setpc"]) && n + 1 < code.len() {
            next.push(n + 1);
        }
        for n in next {
            let changed = match &mut states[n] {
                Some(there) => there.join(&state),
                there => {
                    *there = Some(state.clone());
                    true
                }
            };
            if changed {
                left.push(n);
            }
        }
    }
    found
}

#[test]
fn the_handler_waits_where_it_has_to() {
    for (processor, handler) in HANDLERS {
        let found = hazards(&disassembled(processor, handler), &[0, 1]);
        assert_eq!(found, BTreeSet::new(), "{processor}");
    }
}

/// The words of s_waitcnt that wait for loads: without any of them something is read too early.
#[test]
fn each_wait_for_loads_is_needed() {
    for (processor, handler) in HANDLERS {
        let code = disassembled(processor, handler);
        let loads = ["s_load", "ds_read", "buffer_load"];
        let mut waits = 0;
        for (n, inst) in code
            .iter()
            .enumerate()
            .filter(|(_, inst)| inst.name == "s_waitcnt")
        {
            // One that another load with its own wait follows may be left out.
            if !code[n - 1].is(&loads) || code[n + 1].is(&loads) {
                continue;
            }
            waits += 1;
            let mut words = handler.to_vec();
            words[inst.at] = 0xbf80_0000;
            assert_ne!(
                hazards(&disassembled(processor, &words), &[0, 1]),
                BTreeSet::new(),
                "{}",
                inst.at
            );
        }
        assert!(waits > 10, "{waits}");
    }
}

/// Each rule: code that breaks it, and as many s_nop's wait states as mend it, or none.
#[test]
fn rules_are_noticed() {
    for (first, second, states) in [
        (
            "s_setreg_b32 hwreg(HW_REG_MODE), s0",
            "s_getreg_b32 s1, hwreg(HW_REG_MODE, 0, 4)",
            2,
        ),
        (
            "s_setreg_b32 hwreg(HW_REG_MODE), s0",
            "s_setreg_b32 hwreg(HW_REG_MODE, 4, 4), s1",
            2,
        ),
        (
            "s_setreg_b32 hwreg(HW_REG_TRAPSTS), s0",
            "s_rfe_b64 s[2:3]",
            1,
        ),
        ("s_mov_b32 m0, s0", "s_movrels_b32 s1, s2", 1),
        ("s_add_u32 m0, m0, 4", "s_sendmsg sendmsg(MSG_INTERRUPT)", 1),
        (
            "v_readlane_b32 s4, v0, 1",
            "buffer_store_dword v0, off, s[8:11], s4",
            5,
        ),
        ("v_readfirstlane_b32 s4, v0", "v_readlane_b32 s5, v1, s4", 4),
        (
            "v_cmp_lt_u32 vcc, v0, v1",
            "v_div_fmas_f32 v0, v1, v2, v3",
            4,
        ),
        (
            "v_mov_b32 v1, v2",
            "v_mov_b32_dpp v0, v1 row_shl:1 row_mask:0xf bank_mask:0xf",
            2,
        ),
        (
            "v_cmpx_lt_u32 exec, v0, v1",
            "v_mov_b32_dpp v0, v2 row_shl:1 row_mask:0xf bank_mask:0xf",
            5,
        ),
        (
            "buffer_store_dwordx4 v[0:3], off, s[8:11], s4",
            "v_mov_b32 v3, 0",
            1,
        ),
    ] {
        for between in 0..=states {
            let nop = match between {
                0 => String::new(),
                n => format!("s_nop {}\n", n - 1),
            };
            let code = instructions("gfx90a", &[], &format!("{first}\n{nop}{second}\n"));
            let breaks = !hazards(&code, &[0]).is_empty();
            assert_eq!(breaks, between < states, "{first}; {second}; {between}");
        }
    }
    for (load, wait) in [
        ("s_load_dword s0, s[2:3], 0", "lgkmcnt(0)"),
        ("ds_read_b32 v0, v1", "lgkmcnt(0)"),
        ("buffer_load_dword v0, off, s[8:11], 0", "vmcnt(0)"),
    ] {
        let register = if load.starts_with("s_") {
            "s_mov_b32 s1, s0"
        } else {
            "v_mov_b32 v2, v0"
        };
        let code = instructions("gfx90a", &[], &format!("{load}\n{register}\n"));
        assert_ne!(hazards(&code, &[0]), BTreeSet::new(), "{load}");
        let code = instructions(
            "gfx90a",
            &[],
            &format!("{load}\ns_waitcnt {wait}\n{register}\n"),
        );
        assert_eq!(hazards(&code, &[0]), BTreeSet::new(), "{load}");
    }
}
