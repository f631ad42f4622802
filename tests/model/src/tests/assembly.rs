// SPDX-License-Identifier: GPL-2.0
//! Assembler for the code of the tests' waves.

use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};

fn run(tool: &str, arguments: &[&str]) {
    let status = Command::new(tool).args(arguments).status();
    let status = status.unwrap_or_else(|error| panic!("{tool}: {error}"));
    assert!(status.success(), "{tool}");
}

/// The machine code of `source`.
pub fn assemble(source: &str) -> Vec<u32> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let stem = format!("rkfd-model-{}-{number}", process::id());
    let file = |suffix: &str| {
        let path = std::env::temp_dir().join(format!("{stem}.{suffix}"));
        path.to_str().unwrap().to_owned()
    };
    let files = ["s", "o", "bin"].map(file);
    let [text, object, binary] = files.each_ref().map(String::as_str);
    std::fs::write(text, source).unwrap();
    let target = ["-target", "amdgcn-amd-amdhsa", "-mcpu=gfx90a", "-c"];
    run("clang-19", &[&target[..], &[text, "-o", object]].concat());
    let only = ["-O", "binary", "--only-section=.text"];
    run("llvm-objcopy-19", &[&only[..], &[object, binary]].concat());
    let bytes = std::fs::read(binary).unwrap();
    for file in &files {
        std::fs::remove_file(file).unwrap();
    }
    let words = bytes.chunks_exact(4);
    words
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect()
}
