// SPDX-License-Identifier: GPL-2.0
//! Runs kernels, one for each line of standard input: a file with memory, a code object, the
//! kernel, three sizes each of grid and group, bytes of dynamic LDS, the addresses of arguments and
//! packet, and the address and value of a store after the kernel has run for a while (or 0). The
//! file has the memory afterwards; a line says "ok", or the error.

#[path = "../tests/common/mod.rs"]
mod common;

use std::io::BufRead;

use common::{load, Start};

fn run(line: &str) -> Result<(), String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [file, object, kernel, rest @ ..] = &words[..] else {
        return Err(format!("what is {line:?}?"));
    };
    let numbers: Vec<u64> = rest
        .iter()
        .map(|word| word.parse().map_err(|_| format!("{word} is no number")))
        .collect::<Result<_, _>>()?;
    let &[x, y, z, width, height, depth, lds, kernarg, packet, poked, value] = &numbers[..] else {
        return Err(format!("{} numbers", numbers.len()));
    };
    let object = std::fs::read(object).map_err(|error| error.to_string())?;
    let object = load(&object, 5);
    let memory = std::fs::read(file).map_err(|error| error.to_string())?;
    let start = Start {
        grid: [x, y, z].map(|n| n as u32),
        size: [width, height, depth].map(|n| n as u32),
        lds: lds as u32,
        kernarg,
        packet,
        poke: (poked != 0).then_some((poked, value)),
    };
    let ran = object.start(kernel, &memory, &start)?;
    std::fs::write(file, ran.data).map_err(|error| error.to_string())
}

fn main() {
    for line in std::io::stdin().lock().lines() {
        match run(&line.unwrap()) {
            Ok(()) => println!("ok"),
            Err(error) => println!("{}", error.replace('\n', " ")),
        }
    }
}
