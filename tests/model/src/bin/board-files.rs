// SPDX-License-Identifier: GPL-2.0
//! Makes what a board and its vendor give to the stock driver, which does not start without: an ATOM BIOS image for the
//! flash chip, and firmware files. All of it is made up: the tables hold what the driver reads of them, the firmware
//! consists of counted dwords behind valid headers. The model executes none of it.

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
board-files DIR

Writes DIR/vbios.rom and DIR/amdgpu/aldebaran_{rlc,mec,sdma}.bin.";

/// Bytes of the BIOS image: the unit of its length byte is 512.
const IMAGE: usize = 2048;
/// Where the parts of the image are.
const ROM_HEADER: usize = 0x100;
const COMMAND_TABLE: usize = 0x180;
const DATA_TABLE: usize = 0x200;
const FIRMWARE_INFO: usize = 0x300;
const GFX_INFO: usize = 0x380;
const SMU_INFO: usize = 0x400;
const VRAM_INFO: usize = 0x480;
/// Entries of the list of data tables.
const DATA_TABLES: usize = 35;
const FIRMWARE_INFO_INDEX: usize = 4;
const SMU_INFO_INDEX: usize = 8;
const GFX_INFO_INDEX: usize = 14;
const VRAM_INFO_INDEX: usize = 28;
/// First of the BIOS_SCRATCH registers, a dword index.
const SCRATCH: u32 = 0x4c;

/// Dwords of a firmware's code.
const CODE: u32 = 64;

/// A block of little-endian data that is filled in by offset.
struct Block(Vec<u8>);

impl Block {
    fn new(len: usize) -> Block {
        Block(vec![0; len])
    }

    fn bytes(&mut self, at: usize, data: &[u8]) {
        self.0[at..at + data.len()].copy_from_slice(data);
    }

    fn byte(&mut self, at: usize, value: u8) {
        self.bytes(at, &[value]);
    }

    fn word(&mut self, at: usize, value: usize) {
        self.bytes(at, &(value as u16).to_le_bytes());
    }

    fn dword(&mut self, at: usize, value: u32) {
        self.bytes(at, &value.to_le_bytes());
    }

    /// The header that all ATOM tables have.
    fn table(&mut self, at: usize, len: usize, format: u8, content: u8) {
        self.word(at, len);
        self.bytes(at + 2, &[format, content]);
    }
}

/// The BIOS image. Layouts are those of the kernel's atomfirmware.h.
fn vbios() -> Vec<u8> {
    let mut rom = Block::new(IMAGE);
    rom.bytes(0, &[0x55, 0xaa, (IMAGE / 512) as u8]);
    // A return, should somebody execute it. What follows must not be 1, which would be an IIO program.
    rom.byte(3, 0xcb);
    rom.bytes(0x30, b" 761295520");
    rom.word(0x48, ROM_HEADER);
    rom.bytes(0x50, b"01/01/26 00:00");
    // The part number has to be there: the driver looks for it behind a null pointer otherwise.
    rom.bytes(0x80, b"113-MODEL90A-001\0");
    rom.bytes(0xa0, b"ATOMBIOSBK-AMD VER017.016.000.MODEL\0");

    rom.table(ROM_HEADER, 40, 2, 2);
    rom.bytes(ROM_HEADER + 4, b"ATOM");
    // The name of the build is what lies between this offset and the header: nothing.
    rom.word(ROM_HEADER + 0xc, ROM_HEADER);
    rom.word(ROM_HEADER + 0x1e, COMMAND_TABLE);
    rom.word(ROM_HEADER + 0x20, DATA_TABLE);
    rom.table(COMMAND_TABLE, 4, 2, 1);
    rom.table(DATA_TABLE, 4 + 2 * DATA_TABLES, 2, 1);
    for (index, at) in [
        (FIRMWARE_INFO_INDEX, FIRMWARE_INFO),
        (SMU_INFO_INDEX, SMU_INFO),
        (GFX_INFO_INDEX, GFX_INFO),
        (VRAM_INFO_INDEX, VRAM_INFO),
    ] {
        rom.word(DATA_TABLE + 4 + 2 * index, at);
    }

    // Clocks in 10 kHz. Capability 0: neither ECC nor memory training.
    rom.table(FIRMWARE_INFO, 72, 3, 1);
    rom.dword(FIRMWARE_INFO + 8, 100_000);
    rom.dword(FIRMWARE_INFO + 0xc, 160_000);
    rom.dword(FIRMWARE_INFO + 0x18, SCRATCH);
    rom.table(SMU_INFO, 28, 3, 1);
    rom.dword(SMU_INFO + 0x10, 10_000);

    rom.table(GFX_INFO, 72, 2, 4);
    for (at, value) in [(6, 8), (8, 14), (9, 1), (0xb, 16), (0x3f, 32)] {
        // Shader engines, CUs of an array, arrays of an engine, TCCs; scratch slots of a CU.
        rom.byte(GFX_INFO + at, value);
    }
    for (at, value) in [(0x30, 512), (0x36, 64), (0x38, 8), (0x3a, 64)] {
        // GPRs, lanes of a wave, waves of a SIMD, KiB of LDS.
        rom.word(GFX_INFO + at, value);
    }

    // One module of 32 channels of 128 bits, HBM2E.
    let module = VRAM_INFO + 0x18;
    rom.table(VRAM_INFO, 0x18 + 0x40, 2, 4);
    rom.byte(VRAM_INFO + 0x14, 1);
    rom.word(module + 0x14, 0x40);
    for (at, value) in [(0x17, 0x61), (0x18, 32), (0x19, 7)] {
        rom.byte(module + at, value);
    }
    rom.0
}

/// A firmware file: header version, what follows the common header, its code.
fn firmware(major: u16, minor: u16, version: u32, more: &[u32]) -> Vec<u8> {
    const COMMON: usize = 32;
    let header = COMMON + 4 * more.len();
    // The code begins where the kernel's own files have it.
    let code = header.next_multiple_of(256);
    let mut file = Block::new(code + 4 * CODE as usize);
    file.dword(0, file.0.len() as u32);
    file.dword(4, header as u32);
    file.word(8, major.into());
    file.word(10, minor.into());
    file.word(12, 9);
    file.word(14, 4);
    file.dword(16, version);
    file.dword(20, 4 * CODE);
    file.dword(24, code as u32);
    for (n, &value) in more.iter().enumerate() {
        file.dword(COMMON + 4 * n, value);
    }
    for n in 0..CODE {
        file.dword(code + 4 * n as usize, n);
    }
    file.0
}

/// Name and contents of each file.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    // Feature version, and jump table: the last dwords of the code.
    let jump_table = [CODE - 4, 4];
    // With empty lists of registers to restore.
    let rlc = firmware(2, 0, 1, &[0; 18]);
    // From version 88 on the driver wants a shader to clean up with.
    let mec = firmware(1, 0, 60, &[1, jump_table[0], jump_table[1]]);
    let sdma = firmware(1, 0, 8, &[1, 0, jump_table[0], jump_table[1]]);
    vec![
        ("vbios.rom", vbios()),
        ("amdgpu/aldebaran_rlc.bin", rlc),
        ("amdgpu/aldebaran_mec.bin", mec),
        ("amdgpu/aldebaran_sdma.bin", sdma),
    ]
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

#[cfg(test)]
mod tests {
    use super::*;

    fn word(data: &[u8], at: usize) -> usize {
        usize::from(u16::from_le_bytes([data[at], data[at + 1]]))
    }

    fn dword(data: &[u8], at: usize) -> usize {
        word(data, at) | word(data, at + 2) << 16
    }

    #[test]
    fn the_image_is_found_by_its_signatures() {
        let rom = vbios();
        assert_eq!(rom[..2], [0x55, 0xaa]);
        assert_eq!(usize::from(rom[2]) * 512, rom.len());
        assert_ne!(rom[4], 1);
        assert_eq!(&rom[0x30..0x3a], b" 761295520");
        let header = word(&rom, 0x48);
        assert_eq!(&rom[header + 4..header + 8], b"ATOM");
    }

    #[test]
    fn what_would_crash_the_driver_is_not_there() {
        let rom = vbios();
        let header = word(&rom, 0x48);
        // A part number, and a build name of no length.
        assert!(rom[0x80].is_ascii_graphic());
        assert_eq!(word(&rom, header + 0xc), header);
    }

    #[test]
    fn tables_do_not_overlap() {
        let rom = vbios();
        let header = word(&rom, 0x48);
        let list = word(&rom, header + 0x20);
        let tables = (0..DATA_TABLES).map(|n| word(&rom, list + 4 + 2 * n));
        let mut used: Vec<_> = tables
            .filter(|&at| at != 0)
            .chain([header, list, word(&rom, header + 0x1e)])
            .map(|at| at..at + word(&rom, at))
            .collect();
        used.sort_by_key(|range| range.start);
        assert!(used.windows(2).all(|pair| pair[0].end <= pair[1].start));
        assert!(used.last().is_some_and(|last| last.end <= rom.len()));
        assert_eq!(used.len(), 7);
    }

    #[test]
    fn firmware_headers() {
        for (name, file) in files() {
            if !name.ends_with(".bin") {
                continue;
            }
            assert_eq!(dword(&file, 0), file.len(), "{name}");
            let (len, code) = (dword(&file, 20), dword(&file, 24));
            assert!(dword(&file, 4) <= code && code % 256 == 0, "{name}");
            assert_eq!(code + len, file.len(), "{name}");
            assert_eq!(dword(&file, code + 8), 2, "{name}");
        }
        let major = |n: usize| word(&files()[n].1, 8);
        assert_eq!([major(1), major(2), major(3)], [2, 1, 1]);
    }
}
