// SPDX-License-Identifier: GPL-2.0
//! Compiles kernels. Only for tests: cargo gives an example no place for its output.

use std::path::Path;
use std::process::Command;

use crate::common::{load, CodeObject};

/// Compiles tests/NAME.hip for a part, a code object version and an optimisation level.
pub fn compile(part: &str, name: &str, version: u32, level: u32) -> CodeObject {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/{name}.hip"));
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("{name}.{part}.v{version}.O{level}.co"));
    let status = Command::new("clang-19")
        .args(["-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output"])
        .arg(format!("--offload-arch={part}:sramecc+:xnack-"))
        .args(["-nogpuinc", "-nogpulib"])
        .args(["-std=c++17", "-munsafe-fp-atomics", "-ffp-contract=off"])
        .arg(format!("-mcode-object-version={version}"))
        .arg(format!("-O{level}"))
        .arg(&source)
        .arg("-o")
        .arg(&out)
        .status()
        .expect("clang-19 is there");
    assert!(status.success());
    load(&std::fs::read(&out).unwrap(), version)
}
