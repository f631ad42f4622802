// SPDX-License-Identifier: GPL-2.0
//! ATOM BIOS images: their tables hold the fields that the stock driver reads. Layouts are those of
//! the kernel's atomfirmware.h.

use crate::block::Block;

/// Bytes of the BIOS image: the unit of its length byte is 512.
const IMAGE: usize = 4096;
/// Where the parts of the image are.
const PCI_DATA: usize = 0xd0;
const ROM_HEADER: usize = 0x100;
const COMMAND_TABLE: usize = 0x180;
const DATA_TABLE: usize = 0x200;
const FIRMWARE_INFO: usize = 0x300;
const GFX_INFO: usize = 0x380;
const SMU_INFO: usize = 0x400;
const VRAM_INFO: usize = 0x480;
const SMC_DPM_INFO: usize = 0x500;
const UMC_INFO: usize = 0x580;
const POWERPLAY_INFO: usize = 0x600;
/// Entries of the list of data tables.
const DATA_TABLES: usize = 35;
const SMC_DPM_INFO_INDEX: usize = 2;
const FIRMWARE_INFO_INDEX: usize = 4;
const SMU_INFO_INDEX: usize = 8;
const GFX_INFO_INDEX: usize = 14;
const POWERPLAY_INFO_INDEX: usize = 15;
const UMC_INFO_INDEX: usize = 24;
const VRAM_INFO_INDEX: usize = 28;
/// The SMU's own table in that of power management: offset, and bytes.
const PPTABLE: usize = POWERPLAY_INFO + 482;
const PPTABLE_BYTES: usize = 760;
/// The board's part of that table.
const BOARD: usize = 0x250;
const BOARD_BYTES: usize = 168;
/// First of the BIOS_SCRATCH registers, a dword index.
const SCRATCH: u32 = 0x4c;

/// A data table: its place in the list, its offset in the image, and what writes it.
type Table = (usize, usize, fn(&mut Block));

/// A board's BIOS.
pub struct Bios {
    /// The chip's name.
    pub chip: &'static str,
    /// PCI device id.
    device: usize,
    /// The board's part number.
    part: &'static str,
    tables: &'static [Table],
}

/// Those of both boards.
pub static ALL: [Bios; 2] = [
    Bios {
        chip: "gfx90a",
        device: 0x740f,
        part: "113-MODEL90A-001",
        tables: &[
            (FIRMWARE_INFO_INDEX, FIRMWARE_INFO, firmware_info),
            (SMU_INFO_INDEX, SMU_INFO, smu_info),
            (GFX_INFO_INDEX, GFX_INFO, gfx_info),
            (VRAM_INFO_INDEX, VRAM_INFO, vram_info),
            (SMC_DPM_INFO_INDEX, SMC_DPM_INFO, smc_dpm_info),
            (POWERPLAY_INFO_INDEX, POWERPLAY_INFO, powerplay_info),
        ],
    },
    // Its compute units are in the IP discovery table, and clocks and limits are the SMU's own.
    Bios {
        chip: "gfx942",
        device: 0x74a1,
        part: "113-MODEL942-001",
        tables: &[
            (FIRMWARE_INFO_INDEX, FIRMWARE_INFO, firmware_info_3_4),
            (SMU_INFO_INDEX, SMU_INFO, smu_info),
            (UMC_INFO_INDEX, UMC_INFO, umc_info),
        ],
    },
];

/// The structure by which the kernel finds the length of an image in an expansion ROM (PCI Firmware
/// Specification): the device, its class, and that this is the only image. The checksum of the
/// image is wrong, so that the guest's BIOS leaves it alone.
fn pci_data(rom: &mut Block, device: usize) {
    const BYTES: usize = 0x18;
    rom.word(0x18, PCI_DATA);
    rom.bytes(PCI_DATA, b"PCIR");
    rom.word(PCI_DATA + 4, 0x1002);
    rom.word(PCI_DATA + 6, device);
    rom.word(PCI_DATA + 0xa, BYTES);
    rom.byte(PCI_DATA + 0xe, 0x80);
    rom.byte(PCI_DATA + 0xf, 0x03);
    rom.word(PCI_DATA + 0x10, IMAGE / 512);
    rom.byte(PCI_DATA + 0x15, 0x80);
}

/// Clocks in 10 kHz. Capability 0: neither ECC nor memory training.
fn firmware_info(rom: &mut Block) {
    rom.table(FIRMWARE_INFO, 72, 3, 1);
    rom.dword(FIRMWARE_INFO + 8, 100_000);
    rom.dword(FIRMWARE_INFO + 0xc, 160_000);
    rom.dword(FIRMWARE_INFO + 0x18, SCRATCH);
}

/// With the size of the firmware's own memory at the end of VRAM, KiB: 280 MiB, as of an MI300X.
fn firmware_info_3_4(rom: &mut Block) {
    firmware_info(rom);
    rom.table(FIRMWARE_INFO, 108, 3, 4);
    rom.dword(FIRMWARE_INFO + 0x54, 280 << 10);
}

fn smu_info(rom: &mut Block) {
    rom.table(SMU_INFO, 28, 3, 1);
    rom.dword(SMU_INFO + 0x10, 10_000);
}

fn gfx_info(rom: &mut Block) {
    rom.table(GFX_INFO, 72, 2, 4);
    for (at, value) in [(6, 8), (8, 14), (9, 1), (0xb, 16), (0x3f, 32)] {
        // Shader engines, CUs of an array, arrays of an engine, TCCs; scratch slots of a CU.
        rom.byte(GFX_INFO + at, value);
    }
    for (at, value) in [(0x30, 512), (0x36, 64), (0x38, 8), (0x3a, 64)] {
        // GPRs, lanes of a wave, waves of a SIMD, KiB of LDS.
        rom.word(GFX_INFO + at, value);
    }
}

/// One module of 32 channels of 128 bits, HBM2E.
fn vram_info(rom: &mut Block) {
    let module = VRAM_INFO + 0x18;
    rom.table(VRAM_INFO, 0x18 + 0x40, 2, 4);
    rom.byte(VRAM_INFO + 0x14, 1);
    rom.word(module + 0x14, 0x40);
    for (at, value) in [(0x17, 0x61), (0x18, 32), (0x19, 7)] {
        rom.byte(module + at, value);
    }
}

/// An AID's 32 channels of 64 bits, HBM3, which cannot have ECC. amdgpu multiplies by AIDs.
fn umc_info(rom: &mut Block) {
    rom.table(UMC_INFO, 84, 4, 0);
    for (at, value) in [(0x1a, 0x80), (0x40, 32), (0x41, 6)] {
        rom.byte(UMC_INFO + at, value);
    }
}

/// The board's values for the SMU's table, counted, in place of its own.
fn smc_dpm_info(rom: &mut Block) {
    rom.table(SMC_DPM_INFO, 4 + BOARD_BYTES, 4, 10);
    for n in 0..BOARD_BYTES {
        rom.byte(SMC_DPM_INFO + 4 + n, n as u8 + 1);
        rom.byte(PPTABLE + BOARD + n, 0xee);
    }
}

/// Limits: the temperature at which software shuts down.
fn powerplay_info(rom: &mut Block) {
    rom.table(
        POWERPLAY_INFO,
        PPTABLE + PPTABLE_BYTES - POWERPLAY_INFO,
        18,
        0,
    );
    rom.word(POWERPLAY_INFO + 32, 118);
    // Features: calculations, clocks (not XGMI's), power and current limits, thermal ones.
    rom.dword(PPTABLE + 4, 0x0033_003f);
    // Watts, degrees of the hottest spot and of memory, highest and lowest clock.
    for (at, value) in [
        (0xc, 300),
        (0x14, 105),
        (0x16, 105),
        (0x144, 1700),
        (0x146, 500),
    ] {
        rom.word(PPTABLE + at, value);
    }
}

impl Bios {
    /// The image.
    pub fn image(&self) -> Vec<u8> {
        let mut rom = Block::new(IMAGE);
        rom.bytes(0, &[0x55, 0xaa, (IMAGE / 512) as u8]);
        // A return, in case the image is executed. The next byte must not be 1, which would be an
        // IIO program.
        rom.byte(3, 0xcb);
        pci_data(&mut rom, self.device);
        rom.bytes(0x30, b" 761295520");
        rom.word(0x48, ROM_HEADER);
        rom.bytes(0x50, b"01/01/26 00:00");
        // It must be there: otherwise the driver looks for it behind a null pointer. A zero follows.
        rom.bytes(0x80, self.part.as_bytes());
        rom.bytes(0xa0, b"ATOMBIOSBK-AMD VER017.016.000.MODEL\0");

        rom.table(ROM_HEADER, 40, 2, 2);
        rom.bytes(ROM_HEADER + 4, b"ATOM");
        // The name of the build lies between this offset and the header: it is empty.
        rom.word(ROM_HEADER + 0xc, ROM_HEADER);
        rom.word(ROM_HEADER + 0x1e, COMMAND_TABLE);
        rom.word(ROM_HEADER + 0x20, DATA_TABLE);
        rom.table(COMMAND_TABLE, 4, 2, 1);
        rom.table(DATA_TABLE, 4 + 2 * DATA_TABLES, 2, 1);
        for &(index, at, write) in self.tables {
            rom.word(DATA_TABLE + 4 + 2 * index, at);
            write(&mut rom);
        }
        rom.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(data: &[u8], at: usize) -> usize {
        usize::from(u16::from_le_bytes([data[at], data[at + 1]]))
    }

    #[test]
    fn the_image_is_found_by_its_signatures() {
        for bios in &ALL {
            let rom = bios.image();
            assert_eq!(rom[..2], [0x55, 0xaa]);
            assert_eq!(usize::from(rom[2]) * 512, rom.len());
            assert_ne!(rom[4], 1);
            assert_eq!(word(&rom, PCI_DATA + 6), bios.device);
            assert_eq!(&rom[0x30..0x3a], b" 761295520");
            let header = word(&rom, 0x48);
            assert_eq!(&rom[header + 4..header + 8], b"ATOM");
        }
    }

    #[test]
    fn what_would_crash_the_driver_is_not_there() {
        for bios in &ALL {
            let rom = bios.image();
            let header = word(&rom, 0x48);
            // A part number, and an empty build name.
            assert!(rom[0x80].is_ascii_graphic());
            assert_eq!(rom[0x80 + bios.part.len()], 0);
            assert_eq!(word(&rom, header + 0xc), header);
        }
    }

    #[test]
    fn tables_do_not_overlap() {
        for bios in &ALL {
            let rom = bios.image();
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
            assert_eq!(used.len(), 3 + bios.tables.len());
        }
    }
}
