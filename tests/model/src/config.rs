// SPDX-License-Identifier: GPL-2.0
//! PCI configuration space: ids, BARs, power management, PCIe and MSI capabilities.

/// Bytes of configuration space.
pub const SIZE: usize = 4096;
/// BAR sizes other than BAR0's, which is that of VRAM or less.
pub const DOORBELL_SIZE: u64 = 2 << 20;
/// Size of BAR5, the registers.
pub const REGISTER_SIZE: u64 = 512 << 10;

const COMMAND: usize = 0x04;
const COMMAND_MEMORY: u8 = 1 << 1;
const COMMAND_MASTER: u8 = 1 << 2;
const BAR0: usize = 0x10;
const BAR_END: usize = BAR0 + 6 * 4;
const CAP_POWER: usize = 0x50;
const CAP_PCIE: usize = 0x64;
const CAP_MSI: usize = 0xa0;
/// The high byte of the PCI Express capability's device control, and in it Initiate Function Level
/// Reset.
const DEVICE_CONTROL_HIGH: usize = CAP_PCIE + 9;
const INITIATE_RESET: u8 = 1 << 7;
const PREFETCHABLE_64: u8 = 0x0c;
/// The low byte of the power management capability's control and status, and in it the power state:
/// 0 is D0, 3 D3hot.
const POWER_CONTROL: usize = CAP_POWER + 4;
const POWER_STATE: u8 = 0x03;

/// The 4 KiB of configuration space and which of its bits software may write.
pub struct Config {
    bytes: Box<[u8; SIZE]>,
    writeable: Box<[u8; SIZE]>,
}

impl Config {
    /// MI210 (1002:740f, revision 2) with `bar0` bytes (a power of two) of VRAM behind BAR0.
    pub fn new(bar0: u64) -> Config {
        let mut config = Config {
            bytes: Box::new([0; SIZE]),
            writeable: Box::new([0; SIZE]),
        };
        config.put16(0x00, 0x1002, 0);
        config.put16(0x02, 0x740f, 0);
        // Memory space, bus master, interrupt disable.
        config.put16(COMMAND, 0, 0x0406);
        config.put16(0x06, 0x0010, 0);
        config.put32(0x08, 0x0380_0002, 0);
        config.put32(0x0c, 0, 0x0000_00ff);
        config.bar(0, bar0, PREFETCHABLE_64);
        config.bar(2, DOORBELL_SIZE, PREFETCHABLE_64);
        config.bar(5, REGISTER_SIZE, 0);
        config.put16(0x2c, 0x1002, 0);
        config.put16(0x2e, 0x0c34, 0);
        config.put32(0x34, CAP_POWER as u32, 0);
        config.put32(0x3c, 0, 0x0000_00ff);
        config.power();
        config.pcie();
        config.msi();
        config
    }

    /// As [`Config::new`], except the BARs: their client (QEMU) shows the guest its own values, so
    /// the guest would not notice that they have to be written.
    pub fn cleared(&self, bar0: u64) -> Config {
        let mut config = Config::new(bar0);
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

    /// A BAR's type bits are fixed, its address bits above the size writeable.
    fn bar(&mut self, index: usize, size: u64, kind: u8) {
        let at = BAR0 + 4 * index;
        let address = !(size - 1);
        self.put32(at, u32::from(kind), address as u32 & !0xf);
        if kind == PREFETCHABLE_64 {
            self.put32(at + 4, 0, (address >> 32) as u32);
        }
    }

    /// Power management capability, version 3: D0 and D3hot, from which it comes back with all of
    /// its state (No_Soft_Reset).
    fn power(&mut self) {
        let at = CAP_POWER;
        self.put16(at, 0x01 | (CAP_PCIE as u16) << 8, 0);
        self.put16(at + 2, 0x0003, 0);
        self.put16(at + 4, 0x0008, POWER_STATE.into());
    }

    /// PCI Express capability: an endpoint, x16 at 16 GT/s, completer of 32 and 64-bit AtomicOps.
    fn pcie(&mut self) {
        let at = CAP_PCIE;
        self.put16(at, 0x10 | (CAP_MSI as u16) << 8, 0);
        self.put16(at + 2, 0x0002, 0);
        // DevCap: payload 256, extended tags, role based error reporting, function level reset.
        self.put32(at + 0x04, 0x1000_8021, 0);
        self.put16(at + 0x08, 0x2810, 0x7fff);
        self.put32(at + 0x0c, 0x0000_0d04, 0);
        self.put16(at + 0x10, 0, 0x01fb);
        self.put16(at + 0x12, 0x0104, 0);
        // DevCap2: AtomicOp completer, 32 and 64 bit. DevCtl2: AtomicOp requester enable and
        // others. It is enabled from the start: that is how a hypervisor tells a guest without a
        // visible root port that atomics reach memory.
        self.put32(at + 0x24, 0x0000_0180, 0);
        self.put16(at + 0x28, 0x0040, 0x745f);
        self.put32(at + 0x2c, 0x0000_001e, 0);
        self.put16(at + 0x30, 0x0004, 0x000f);
    }

    /// MSI capability: one vector, 64-bit address.
    fn msi(&mut self) {
        let at = CAP_MSI;
        self.put16(at, 0x05, 0);
        self.put16(at + 2, 0x0080, 0x0071);
        self.put32(at + 4, 0, !3);
        self.put32(at + 8, 0, !0);
        self.put16(at + 0x0c, 0, !0);
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
                resets |= at == DEVICE_CONTROL_HIGH && byte & INITIATE_RESET != 0;
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
    use super::*;

    fn read32(config: &Config, at: usize) -> u32 {
        let mut data = [0; 4];
        config.read(at as u64, &mut data);
        u32::from_le_bytes(data)
    }

    #[test]
    fn bars_size_themselves() {
        let mut config = Config::new(4 << 30);
        for bar in 0..6 {
            assert!(!config.write((BAR0 + 4 * bar) as u64, &[0xff; 4]));
        }
        let bars: Vec<u32> = (0..6).map(|n| read32(&config, BAR0 + 4 * n)).collect();
        assert_eq!(
            bars,
            [0xc, 0xffff_ffff, 0xffe0_000c, 0xffff_ffff, 0, 0xfff8_0000]
        );
    }

    #[test]
    fn ids_cannot_be_written() {
        let mut config = Config::new(4 << 30);
        assert!(!config.write(0, &[0; 4]));
        assert_eq!(read32(&config, 0), 0x740f_1002);
        assert!(!config.is_master());
        assert!(!config.write(4, &[0xff; 2]));
        assert!(config.is_master());
    }

    #[test]
    fn a_function_level_reset_is_offered() {
        let mut config = Config::new(4 << 30);
        assert_eq!(read32(&config, CAP_PCIE + 4) >> 28 & 1, 1);
        let at = CAP_PCIE as u64 + 8;
        assert!(!config.write(at, &[0xff, 0x7f]));
        assert!(config.write(at, &[0x10, 0xa8]));
        assert_eq!(read32(&config, CAP_PCIE + 8) & 0xffff, 0x2810);
    }

    #[test]
    fn asleep_it_does_not_answer() {
        let mut config = Config::new(4 << 30);
        assert!(!config.write(COMMAND as u64, &[6]));
        assert!(config.decodes() && config.is_master() && config.is_awake());
        assert!(!config.write(POWER_CONTROL as u64, &[0xff]));
        assert_eq!(read32(&config, POWER_CONTROL), 0x000b);
        assert!(!config.decodes() && !config.is_master() && !config.is_awake());
        assert!(!config.write(POWER_CONTROL as u64, &[0]));
        assert!(config.decodes() && config.is_master());
    }

    #[test]
    fn capabilities_are_a_list() {
        let config = Config::new(4 << 30);
        let mut at = read32(&config, 0x34) as usize & 0xff;
        let mut ids = Vec::new();
        while at != 0 {
            let head = read32(&config, at);
            ids.push(head & 0xff);
            at = (head >> 8 & 0xff) as usize;
        }
        assert_eq!(ids, [0x01, 0x10, 0x05]);
        assert_eq!(read32(&config, CAP_PCIE + 0x24) >> 7 & 3, 3);
    }
}
