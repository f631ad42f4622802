// SPDX-License-Identifier: GPL-2.0
//! LLVM's disassembler and assembler.

use std::collections::HashSet;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::thread;

/// Runs llvm-mc on `input`.
fn run(part: &str, arguments: &[&str], input: String) -> Output {
    let mut child = Command::new("llvm-mc-19")
        .args(["-arch=amdgcn", &format!("-mcpu={part}")])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("llvm-mc-19 is there");
    let mut stdin = child.stdin.take().unwrap();
    let writer = thread::spawn(move || stdin.write_all(input.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

/// The lines of its messages of that kind, counted from 1.
fn complaints(output: &Output, kind: &str) -> HashSet<usize> {
    let text = std::str::from_utf8(&output.stderr).unwrap();
    text.lines()
        .filter_map(|line| {
            let (line, message) = line.strip_prefix("<stdin>:")?.split_once(':')?;
            message.contains(kind).then(|| line.parse().unwrap())
        })
        .collect()
}

/// The text of each piece of code, if it is one instruction. Behind each there are two more, which
/// show where it ends.
fn disassemble(part: &str, codes: &[Vec<u32>]) -> Vec<Option<String>> {
    const BEHIND: [u32; 2] = [0xbf80_0007, 0xbf80_0006];
    let mut input = String::new();
    for code in codes {
        for word in code.iter().chain(&BEHIND) {
            for byte in word.to_le_bytes() {
                input += &format!("{byte:#04x} ");
            }
        }
        input.push('\n');
    }
    let output = run(part, &["-disassemble"], input);
    let invalid = complaints(&output, "invalid instruction encoding");
    let text = std::str::from_utf8(&output.stdout).unwrap();
    let mut texts = vec![Vec::new()];
    for line in text.lines().map(str::trim) {
        match line {
            "" | ".text" => {}
            "s_nop 6" => texts.push(Vec::new()),
            _ => texts.last_mut().unwrap().push(line.to_owned()),
        }
    }
    assert_eq!(texts.len(), codes.len() + 1);
    let one = |(n, lines): (usize, Vec<String>)| match &lines[..] {
        [text, end] if end == "s_nop 7" && !invalid.contains(&(n + 1)) => Some(text.clone()),
        _ => None,
    };
    texts.pop();
    texts.into_iter().enumerate().map(one).collect()
}

/// The code of each line, if it is an instruction.
fn assemble(part: &str, lines: &[String]) -> Vec<Option<Vec<u32>>> {
    let output = run(part, &["-show-encoding"], lines.join("\n") + "\n");
    let errors = complaints(&output, "error");
    let text = std::str::from_utf8(&output.stdout).unwrap();
    let mut encodings = text.lines().filter_map(|line| {
        let bytes = line.split_once("encoding: [")?.1.split(']').next()?;
        let byte = |text: &str| u8::from_str_radix(&text[2..], 16).unwrap();
        let bytes: Vec<u8> = bytes.split(',').map(byte).collect();
        let words = bytes.chunks_exact(4);
        Some(
            words
                .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
                .collect(),
        )
    });
    let codes: Vec<_> = (1..=lines.len())
        .map(|n| {
            if errors.contains(&n) {
                None
            } else {
                encodings.next()
            }
        })
        .collect();
    assert_eq!(encodings.next(), None);
    codes
}

/// The text of each piece of code that is one instruction of a part: the disassembler has a text
/// for it, of which the assembler makes the same again.
pub fn instructions(part: &str, codes: &[Vec<u32>]) -> Vec<Option<String>> {
    let mut texts = disassemble(part, codes);
    let lines: Vec<String> = texts.iter().flatten().cloned().collect();
    let mut again = assemble(part, &lines).into_iter();
    for (text, code) in texts.iter_mut().zip(codes) {
        if text.is_some() && again.next().unwrap().as_ref() != Some(code) {
            *text = None;
        }
    }
    texts
}
