// SPDX-License-Identifier: GPL-2.0
//! Makes the files of a board and its vendor that a driver needs to start: ATOM BIOS images for
//! the flash chip, and firmware files. All of it is made up: the tables hold the fields that the
//! stock driver reads, the firmware consists of counted dwords behind valid headers. The model
//! executes none of it.

use std::path::Path;
use std::process::ExitCode;

mod block;
mod firmware;
mod vbios;

const USAGE: &str = "\
board-files DIR

Writes DIR/{gfx90a,gfx942}.rom, DIR/amdgpu/aldebaran_{sos,ta,smc,sdma,mec,rlc}.bin,
DIR/amdgpu/psp_13_0_6_{sos,ta}.bin, DIR/amdgpu/smu_13_0_6.bin, DIR/amdgpu/gc_9_4_3_{mec,rlc}.bin and
DIR/amdgpu/sdma_4_4_2.bin.";

/// Name and contents of each file.
fn files() -> Vec<(String, Vec<u8>)> {
    let firmware = firmware::files().into_iter();
    let roms = vbios::ALL.iter();
    firmware
        .map(|(name, contents)| (name.to_owned(), contents))
        .chain(roms.map(|bios| (format!("{}.rom", bios.chip), bios.image())))
        .collect()
}

fn write(dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir.join("amdgpu"))?;
    for (name, contents) in files() {
        std::fs::write(dir.join(name), contents)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [dir] = &arguments[..] else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    match write(Path::new(dir)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("board-files: {}: {error}", Path::new(dir).display());
            ExitCode::FAILURE
        }
    }
}
