// SPDX-License-Identifier: GPL-2.0
//! Tables that driver and SMU give each other, and what the made-up SMU measures.

/// Bytes of the table of limits that a driver takes from the BIOS.
pub const PPTABLE_BYTES: usize = 760;
/// Bytes of the measurements.
const METRICS_BYTES: usize = 120;

/// Levels of each clock in MHz: graphics (by the table), V, D, SOC, memory, fabric, link.
pub const CLOCKS: [&[u32]; 7] = [
    &[],
    &[1000],
    &[800],
    &[600, 800, 1090],
    &[400, 700, 1200, 1600],
    &[1400, 1800],
    &[600],
];
/// Temperatures, C; power, W; a voltage identifier's offset is zero.
const EDGE: u16 = 35;
const HOTSPOT: u16 = 41;
const MEMORY: u16 = 44;
const REGULATOR: u16 = 33;
const POWER: u16 = 42;
const SERIAL: [u32; 2] = [0x90a0_0210, 0x0001_0203];

/// The table of limits, as far as it is looked at.
pub struct PpTable(Vec<u8>);

impl PpTable {
    /// From its bytes, of which there are [`PPTABLE_BYTES`].
    pub fn new(bytes: Vec<u8>) -> PpTable {
        assert_eq!(bytes.len(), PPTABLE_BYTES);
        PpTable(bytes)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn word(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }

    /// FeaturesToRun.
    pub fn features(&self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|n| self.0[4 + n]))
    }

    /// PptLimit, W.
    pub fn power_limit(&self) -> u16 {
        self.word(0xc)
    }

    /// GfxclkFmin and GfxclkFmax, MHz.
    pub fn gfx_range(&self) -> Vec<u32> {
        vec![self.word(0x146).into(), self.word(0x144).into()]
    }
}

/// The measurements at `now`, ticks of 10 ns.
pub fn metrics(now: u64, table: Option<&PpTable>) -> Vec<u8> {
    let mut data = vec![0; METRICS_BYTES];
    let mut put = |at: usize, bytes: &[u8]| data[at..at + bytes.len()].copy_from_slice(bytes);
    let gfx = table.map_or(0, |table| table.gfx_range()[0]);
    for (n, levels) in CLOCKS.iter().enumerate() {
        let clock = levels.first().copied().unwrap_or(gfx) as u16;
        put(2 * n, &clock.to_le_bytes());
    }
    let clock = |n: usize| CLOCKS[n][0] as u16;
    for (at, value) in [
        (0x10, gfx as u16),
        (0x12, clock(3)),
        (0x14, clock(4)),
        (0x1e, POWER),
        (0x20, EDGE),
        (0x22, HOTSPOT),
        (0x24, MEMORY),
        (0x26, REGULATOR),
        (0x28, REGULATOR),
        (0x2a, REGULATOR),
    ] {
        put(at, &value.to_le_bytes());
    }
    for (n, serial) in SERIAL.iter().enumerate() {
        put(0x30 + 4 * n, &serial.to_le_bytes());
    }
    for stack in 0..4 {
        put(0x38 + 2 * stack, &(MEMORY - stack as u16).to_le_bytes());
    }
    // 15.259 uJ a unit.
    let energy = now / 100 * u64::from(POWER) * 1000 / 15_259;
    put(0x48, &energy.to_le_bytes());
    put(0x50, &now.to_le_bytes());
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_tables() {
        let mut bytes = vec![0; PPTABLE_BYTES];
        bytes[4] = 3;
        bytes[8] = 1;
        bytes[0xc..0xe].copy_from_slice(&300u16.to_le_bytes());
        bytes[0x144..0x148].copy_from_slice(&[0xa4, 0x06, 0xf4, 0x01]);
        let table = PpTable::new(bytes);
        assert_eq!(table.features(), 1 << 32 | 3);
        assert_eq!(table.power_limit(), 300);
        assert_eq!(table.gfx_range(), [500, 1700]);
        let data = metrics(100_000_000, Some(&table));
        let word = |at: usize| u16::from_le_bytes([data[at], data[at + 1]]);
        assert_eq!([word(0), word(6), word(8)], [500, 600, 400]);
        assert_eq!([word(0x1e), word(0x22)], [POWER, HOTSPOT]);
        assert_eq!(data[0x50..0x58], 100_000_000u64.to_le_bytes());
        // A second at that power.
        let energy = u64::from_le_bytes(std::array::from_fn(|n| data[0x48 + n]));
        let joules = energy * 15_259 / 1_000_000_000;
        assert!(joules.abs_diff(u64::from(POWER)) <= 1, "{joules} J");
    }
}
