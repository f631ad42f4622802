// SPDX-License-Identifier: GPL-2.0
//! Decodes the instructions of a disassembly by llvm-objdump (`-d`, on standard input), and lists
//! those that the core does not know, or whose length it takes for another one. The only argument
//! is the part, gfx90a or gfx942. Ends with status 1 if there are some.

use std::collections::BTreeMap;
use std::io::{stdin, BufRead};
use std::process::ExitCode;

use rkfd_shader::decode::{decode, Words};
use rkfd_shader::isa::Isa;

/// The instruction of a line and its words: `\tv_nop    // 000000001900: 7E000000`.
fn instruction(line: &str) -> Option<(&str, Vec<u32>)> {
    let (text, comment) = line.strip_prefix('\t')?.split_once("// ")?;
    let (_, words) = comment.split_once(": ")?;
    let words = words.split_whitespace();
    let words: Result<Vec<u32>, _> = words.map_while(word_of).collect();
    Some((text.split_whitespace().next()?, words.ok()?))
}

/// A word of eight digits; what follows the words is a comment.
fn word_of(text: &str) -> Option<Result<u32, std::num::ParseIntError>> {
    (text.len() == 8).then(|| u32::from_str_radix(text, 16))
}

fn main() -> ExitCode {
    let isa = match std::env::args().nth(1).as_deref() {
        Some("gfx942") => Isa::Gfx942,
        _ => Isa::Gfx90a,
    };
    let mut count = 0u64;
    // What the core says, how often, and the first line.
    let mut unknown: BTreeMap<String, (u64, String)> = BTreeMap::new();
    let mut names: BTreeMap<String, u64> = BTreeMap::new();
    for line in stdin().lock().lines() {
        let Ok(line) = line else { break };
        let Some((name, words)) = instruction(&line) else {
            continue;
        };
        // Data and padding between kernels.
        if words.is_empty() || name.starts_with('.') {
            continue;
        }
        count += 1;
        match names.get_mut(name) {
            Some(count) => *count += 1,
            None => _ = names.insert(name.into(), 1),
        }
        let word = |n: usize| words.get(n).copied().unwrap_or(0);
        let what = match decode(isa, Words([word(0), word(1), word(2)])) {
            Ok(inst) if usize::from(inst.len) == words.len() * 4 => continue,
            Ok(inst) => format!("{name}: {} bytes", inst.len),
            Err(lack) => format!("{name}: {lack:?}"),
        };
        unknown.entry(what).or_insert((0, line)).0 += 1;
    }
    println!("{count} instructions of {} names", names.len());
    for (what, (count, line)) in &unknown {
        println!("{what}, {count} times: {}", line.trim());
    }
    ExitCode::from(u8::from(!unknown.is_empty()))
}
