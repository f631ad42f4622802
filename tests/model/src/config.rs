// SPDX-License-Identifier: GPL-2.0
//! PCI configuration space: ids, BARs, capabilities.

mod capabilities;

use crate::asic::Asic;
use crate::function::Function;
use crate::layout::Layout;
pub use capabilities::{is_msix, MSIX_VECTORS};

/// Bytes of configuration space.
pub const SIZE: usize = 4096;
/// Size of BAR2, the doorbells. That of BAR0 is the power of two that VRAM fits in, or less.
pub const DOORBELL_SIZE: u64 = 2 << 20;
/// Size of BAR4, the first registers in I/O space.
pub const IO_SIZE: u64 = 256;
/// Size of the expansion ROM.
pub const ROM_SIZE: u64 = 128 << 10;

const COMMAND: usize = 0x04;
const COMMAND_IO: u16 = 1 << 0;
const COMMAND_MEMORY: u8 = 1 << 1;
const COMMAND_MASTER: u8 = 1 << 2;
const BAR0: usize = 0x10;
const BAR_END: usize = BAR0 + 6 * 4;
const ROM: usize = 0x30;
/// The high byte of the PCI Express capability's device control, and in it Initiate Function Level
/// Reset.
const DEVICE_CONTROL_HIGH: usize = capabilities::PCIE + 9;
const INITIATE_RESET: u8 = 1 << 7;
const PREFETCHABLE_64: u8 = 0x0c;
const IO: u8 = 0x01;
/// The kind of each BAR.
const BAR_KINDS: [u8; 6] = [PREFETCHABLE_64, 0, PREFETCHABLE_64, 0, IO, 0];
/// The low byte of the power management capability's control and status, and in it the power state:
/// 0 is D0, 3 D3hot.
const POWER_CONTROL: usize = capabilities::POWER + 4;
const POWER_STATE: u8 = 0x03;

/// The 4 KiB of configuration space and which of its bits software may write.
pub struct Config {
    bytes: Box<[u8; SIZE]>,
    writeable: Box<[u8; SIZE]>,
    asic: &'static Asic,
    bar0: u64,
    layout: Layout,
    function: Function,
}

impl Config {
    /// A chip's function with `bar0` bytes (a power of two) behind BAR0.
    pub fn new(asic: &'static Asic, bar0: u64, layout: Layout, function: Function) -> Config {
        let mut config = Config {
            asic,
            layout,
            bytes: Box::new([0; SIZE]),
            writeable: Box::new([0; SIZE]),
            bar0,
            function,
        };
        config.put16(0x00, 0x1002, 0);
        config.put16(0x02, function.device.unwrap_or(asic.device), 0);
        // Memory space, bus master, interrupt disable.
        let io = if function.io { COMMAND_IO } else { 0 };
        config.put16(COMMAND, 0, 0x0406 | io);
        config.put16(0x06, 0x0010, 0);
        config.put32(0x08, asic.class, 0);
        config.put32(0x0c, 0, 0x0000_00ff);
        for (index, size) in [(0, bar0), (2, DOORBELL_SIZE), (5, layout.register_size())] {
            config.bar(BAR0 + 4 * index, size, BAR_KINDS[index]);
        }
        if function.io {
            config.bar(BAR0 + 4 * 4, IO_SIZE, IO);
        }
        config.put16(0x2c, 0x1002, 0);
        config.put16(0x2e, asic.subsystem, 0);
        if function.rom {
            // An address above the size, and the enable bit.
            config.put32(ROM, 0, !(ROM_SIZE as u32 - 1) | 1);
        }
        config.put32(0x3c, 0, 0x0000_00ff);
        config.capabilities(&function);
        config.extended(&function);
        config
    }

    /// As [`Config::new`], except the BARs: their client (QEMU) shows the guest its own values, so
    /// the guest would not notice that they have to be written.
    pub fn cleared(&self) -> Config {
        let mut config = Config::new(self.asic, self.bar0, self.layout, self.function);
        config.bytes[BAR0..BAR_END].copy_from_slice(&self.bytes[BAR0..BAR_END]);
        config
    }

    fn put16(&mut self, at: usize, value: u16, writeable: u16) {
        self.bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
        self.writeable[at..at + 2].copy_from_slice(&writeable.to_le_bytes());
    }

    fn put32(&mut self, at: usize, value: u32, writeable: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        self.writeable[at..at + 4].copy_from_slice(&writeable.to_le_bytes());
    }

    /// A BAR's register at `at`: its type bits are fixed, its address bits above the size
    /// writeable.
    fn bar(&mut self, at: usize, size: u64, kind: u8) {
        let address = !(size - 1);
        let fixed = if kind == IO { 0x3 } else { 0xf };
        self.put32(at, u32::from(kind), address as u32 & !fixed);
        if kind == PREFETCHABLE_64 {
            self.put32(at + 4, 0, (address >> 32) as u32);
        }
    }

    /// Reads; bytes past the end are zero.
    pub fn read(&self, offset: u64, data: &mut [u8]) {
        for (n, byte) in data.iter_mut().enumerate() {
            let at = (offset as usize).saturating_add(n);
            *byte = self.bytes.get(at).copied().unwrap_or(0);
        }
    }

    /// Writes the writable bits. Returns whether a function level reset is requested, which no bit
    /// remembers.
    #[must_use]
    pub fn write(&mut self, offset: u64, data: &[u8]) -> bool {
        let mut resets = false;
        for (n, byte) in data.iter().enumerate() {
            let at = (offset as usize).saturating_add(n);
            if at < SIZE {
                let mask = self.writeable[at];
                self.bytes[at] = self.bytes[at] & !mask | byte & mask;
                resets |=
                    self.function.flr && at == DEVICE_CONTROL_HIGH && byte & INITIATE_RESET != 0;
            }
        }
        resets
    }

    /// The address in a BAR of 32 bits, or of 64.
    pub fn bar_address(&self, index: usize) -> u64 {
        let at = BAR0 + 4 * index;
        let dword = |at: usize| {
            let bytes = [0, 1, 2, 3].map(|n| self.bytes[at + n]);
            u64::from(u32::from_le_bytes(bytes))
        };
        let low = dword(at);
        let high = match low & 0xf {
            kind if kind == u64::from(PREFETCHABLE_64) => dword(at + 4),
            _ => 0,
        };
        (low & !0xf) | high << 32
    }

    /// Returns whether the device decodes its BARs: PCI_COMMAND memory space enable, in D0.
    pub fn decodes(&self) -> bool {
        self.bytes[COMMAND] & COMMAND_MEMORY != 0 && self.is_awake()
    }

    /// Returns whether it is bus master: PCI_COMMAND bus master enable, in D0.
    pub fn is_master(&self) -> bool {
        self.bytes[COMMAND] & COMMAND_MASTER != 0 && self.is_awake()
    }

    /// Returns whether it is in D0.
    pub fn is_awake(&self) -> bool {
        self.bytes[POWER_CONTROL] & POWER_STATE == 0
    }
}

#[cfg(test)]
mod tests {
    use super::capabilities::{PCIE, POWER};
    use super::*;
    use crate::asic::{GFX90A, GFX942};

    fn read32(config: &Config, at: usize) -> u32 {
        let mut data = [0; 4];
        config.read(at as u64, &mut data);
        u32::from_le_bytes(data)
    }

    fn card() -> Config {
        Config::new(&GFX90A, 4 << 30, Layout::default(), Function::default())
    }

    /// The function without anything that it may lack, with a function level reset.
    fn plain() -> Config {
        let mut function = Function::default();
        for name in Function::NAMES.split(", ") {
            function.change(&format!("no-{name}")).unwrap();
        }
        function.change("msi").unwrap();
        function.change("flr").unwrap();
        Config::new(&GFX90A, 4 << 30, Layout::default(), function)
    }

    #[test]
    fn bars_size_themselves() {
        let mut config = card();
        for bar in 0..6 {
            assert!(!config.write((BAR0 + 4 * bar) as u64, &[0xff; 4]));
        }
        let bars: Vec<u32> = (0..6).map(|n| read32(&config, BAR0 + 4 * n)).collect();
        assert_eq!(
            bars,
            [
                0xc,
                0xffff_ffff,
                0xffe0_000c,
                0xffff_ffff,
                0xffff_ff01,
                0xfff8_0000
            ]
        );
        assert!(!config.write(ROM as u64, &[0xff; 4]));
        assert_eq!(read32(&config, ROM), 0xfffe_0001);
        let mut config = plain();
        for at in [ROM, BAR0 + 16] {
            assert!(!config.write(at as u64, &[0xff; 4]));
            assert_eq!(read32(&config, at), 0);
        }
    }

    #[test]
    fn ids_cannot_be_written() {
        let mut config = card();
        assert!(!config.write(0, &[0; 4]));
        assert_eq!(read32(&config, 0), 0x740f_1002);
        assert!(!config.is_master());
        assert!(!config.write(4, &[0xff; 2]));
        assert!(config.is_master());
    }

    #[test]
    fn each_chip_has_its_ids() {
        let config = Config::new(&GFX942, 4 << 30, Layout::default(), Function::default());
        assert_eq!(read32(&config, 0), 0x74a1_1002);
        assert_eq!(read32(&config, 0x08), 0x1200_0000);
        assert_eq!(read32(&config, 0x2c), 0x74a1_1002);
        assert_eq!(read32(&config, 0x348) >> 16, 0x74b5);
    }

    #[test]
    fn a_function_level_reset_where_there_is_one() {
        let mut config = card();
        assert_eq!(read32(&config, PCIE + 4) >> 28 & 1, 0);
        let at = PCIE as u64 + 8;
        assert!(!config.write(at, &[0x10, 0xa8]));
        let mut config = plain();
        assert_eq!(read32(&config, PCIE + 4) >> 28 & 1, 1);
        assert!(!config.write(at, &[0xff, 0x7f]));
        assert!(config.write(at, &[0x10, 0xa8]));
        assert_eq!(read32(&config, PCIE + 8) & 0xffff, 0x2810);
    }

    #[test]
    fn asleep_it_does_not_answer() {
        let mut config = card();
        assert!(!config.write(COMMAND as u64, &[6]));
        assert!(config.decodes() && config.is_master() && config.is_awake());
        assert!(!config.write(POWER_CONTROL as u64, &[0xff]));
        assert_eq!(read32(&config, POWER_CONTROL), 0x000b);
        assert!(!config.decodes() && !config.is_master() && !config.is_awake());
        assert!(!config.write(POWER_CONTROL as u64, &[0]));
        assert!(config.decodes() && config.is_master());
    }

    fn capabilities(config: &Config) -> Vec<(u32, usize)> {
        let mut at = read32(config, 0x34) as usize & 0xff;
        let mut found = Vec::new();
        while at != 0 {
            let head = read32(config, at);
            found.push((head & 0xff, at));
            at = (head >> 8 & 0xff) as usize;
        }
        found
    }

    fn extended(config: &Config) -> Vec<(u32, usize)> {
        let mut at = 0x100;
        let mut found = Vec::new();
        while at != 0 {
            let head = read32(config, at);
            if head & 0xffff != 0 {
                assert_eq!(head >> 16 & 0xf, 1);
                found.push((head & 0xffff, at));
            }
            at = (head >> 20) as usize;
        }
        found
    }

    #[test]
    fn capabilities_are_a_list() {
        let config = card();
        let all = [(0x01, 0x50), (0x10, 0x64), (0x05, 0xa0), (0x11, 0xc0)];
        assert_eq!(capabilities(&config), all);
        assert_eq!(read32(&config, PCIE + 0x24) >> 7 & 3, 3);
        assert_eq!(capabilities(&plain()), all[..3]);
        let all = [(0x0b, 0x100), (0x15, 0x200), (0x0f, 0x2b0), (0x10, 0x330)];
        assert_eq!(extended(&config), all);
        assert_eq!(extended(&plain()), []);
    }

    #[test]
    fn a_list_begins_with_what_is_there() {
        let mut function = Function::default();
        for part in ["no-vendor", "no-rebar", "no-sriov", "no-msi"] {
            function.change(part).unwrap();
        }
        let config = Config::new(&GFX90A, 4 << 30, Layout::default(), function);
        assert_eq!(extended(&config), [(0x0f, 0x2b0)]);
        assert_eq!(capabilities(&config)[2..], [(0x11, 0xc0)]);
    }

    #[test]
    fn the_link_and_power_management() {
        let config = card();
        // x16 at 16 GT/s.
        assert_eq!(read32(&config, PCIE + 0xc) & 0x3ff, 0x104);
        assert_eq!(read32(&config, PCIE + 0x10) >> 16 & 0x3ff, 0x104);
        assert_eq!(read32(&config, POWER) >> 16, 0xf603);
        assert_eq!(read32(&plain(), POWER) >> 16, 0x0003);
    }

    #[test]
    fn msix_has_its_table_in_bar5() {
        let mut config = card();
        assert!(!config.write(0xc2, &[0xff; 2]));
        assert_eq!(read32(&config, 0xc0) >> 16, 0xc003);
        assert_eq!(read32(&config, 0xc4), 0x4_2005);
        assert_eq!(read32(&config, 0xc8), 0x4_3005);
        assert!([0x4_2000, 0x4_203c, 0x4_3000, 0x4_3004]
            .into_iter()
            .all(is_msix));
        assert!(![0x4_1ffc, 0x4_2040, 0x4_3008].into_iter().any(is_msix));
    }

    #[test]
    fn one_virtual_function() {
        let mut config = Config::new(&GFX90A, 64 << 30, Layout::default(), Function::default());
        assert_eq!(read32(&config, 0x33c), 1 << 16 | 1);
        assert_eq!(read32(&config, 0x348) >> 16, 0x7410);
        assert!(!config.write(0x338, &[0xff; 4]));
        assert_eq!(read32(&config, 0x338), 0);
        for bar in 0..6 {
            assert!(!config.write(0x354 + 4 * bar, &[0xff; 4]));
        }
        let bars: Vec<u32> = (0..6).map(|n| read32(&config, 0x354 + 4 * n)).collect();
        let (bar0, doorbells) = ([0xc, 0xffff_fff0], [0xffe0_000c, 0xffff_ffff]);
        assert_eq!(bars, [&bar0[..], &doorbells, &[0, 0xfff8_0000]].concat());
    }

    #[test]
    fn the_resizable_bar_has_the_size_of_bar0() {
        let config = Config::new(&GFX90A, 64 << 30, Layout::default(), Function::default());
        // 256 MiB to 64 GiB, and it has 64 GiB.
        assert_eq!(read32(&config, 0x204), 0x1f_f000);
        assert_eq!(read32(&config, 0x208), 16 << 8 | 1 << 5);
    }
}
