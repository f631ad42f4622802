// SPDX-License-Identifier: GPL-2.0
//! Tables that driver and SMU exchange.

use super::sensors::Readings;

/// Bytes of the table of limits that a driver takes from the BIOS.
pub const PPTABLE_BYTES: usize = 760;
/// Offsets in it: the features to turn on; limits of power (W), of the hottest spot and of memory
/// (C); the highest clock of graphics and the lowest (MHz).
const FEATURES: usize = 4;
const POWER: usize = 0xc;
const HOTSPOT: usize = 0x14;
const MEMORY: usize = 0x16;
const HIGHEST: usize = 0x144;
const LOWEST: usize = 0x146;
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
/// Graphics clock that the board's own firmware leaves, MHz.
const BOOT_CLOCK: u16 = 800;
/// Features that set clocks: graphics, memory, SOC.
const DPM_GFX: u64 = 1 << 1;
const DPM_MEMORY: u64 = 1 << 2;
const DPM_SOC: u64 = 1 << 3;

/// The table of limits, as far as it is used.
pub struct PpTable(Vec<u8>);

impl PpTable {
    /// Creates it from its bytes, of which there are [`PPTABLE_BYTES`].
    pub fn new(bytes: Vec<u8>) -> PpTable {
        assert_eq!(bytes.len(), PPTABLE_BYTES);
        PpTable(bytes)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The table of a previous driver, which is none of the board's.
    pub fn left() -> PpTable {
        let mut bytes = vec![0; PPTABLE_BYTES];
        for (at, value) in [
            (FEATURES, 0x3f_u16),
            (FEATURES + 2, 0x33),
            (POWER, 290),
            (HOTSPOT, 100),
            (MEMORY, 95),
            (HIGHEST, 1600),
            (LOWEST, 600),
        ] {
            bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        PpTable(bytes)
    }

    /// The first of its values that no board accepts.
    pub fn insane(&self) -> Option<&'static str> {
        let [lowest, highest] = [LOWEST, HIGHEST].map(|at| self.word(at));
        [
            ("limit of power", (100..=600).contains(&self.word(POWER))),
            ("hottest spot", (80..=120).contains(&self.word(HOTSPOT))),
            ("hottest memory", (80..=120).contains(&self.word(MEMORY))),
            ("range of clocks", lowest < highest && highest <= 2000),
        ]
        .iter()
        .find(|(_, is_sane)| !is_sane)
        .map(|(name, _)| *name)
    }

    fn word(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }

    /// FeaturesToRun.
    pub fn features(&self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|n| self.0[FEATURES + n]))
    }

    /// PptLimit, W.
    pub fn power_limit(&self) -> u16 {
        self.word(POWER)
    }

    /// GfxclkFmin and GfxclkFmax, MHz.
    pub fn gfx_range(&self) -> Vec<u32> {
        vec![self.word(LOWEST).into(), self.word(HIGHEST).into()]
    }
}

/// The measurements.
pub struct Measured<'a> {
    /// What both chips' SMUs measure.
    pub readings: Readings<'a>,
    /// The driver's table.
    pub table: Option<&'a PpTable>,
    /// Its active features.
    pub features: u64,
}

impl Measured<'_> {
    fn graphics_clock(&self) -> u16 {
        let set = self.features & DPM_GFX != 0;
        match (self.readings.sensors.sclk, self.table) {
            (0, Some(table)) if set => table.gfx_range()[0] as u16,
            (0, _) => BOOT_CLOCK,
            (set, _) => set,
        }
    }

    /// The actual clocks. The SMU knows those that it sets; of the others it knows averages.
    fn clocks(&self) -> [u16; CLOCKS.len()] {
        let mut clocks = CLOCKS.map(|levels| levels.first().map_or(0, |&level| level as u16));
        let known = |feature, clock| {
            if self.features & feature != 0 {
                clock
            } else {
                0
            }
        };
        clocks[0] = known(DPM_GFX, self.graphics_clock());
        clocks[3] = known(DPM_SOC, self.readings.sensors.socclk);
        clocks[4] = known(DPM_MEMORY, self.readings.sensors.mclk);
        clocks
    }

    /// Their table.
    pub fn table(&self) -> Vec<u8> {
        let mut data = vec![0; METRICS_BYTES];
        let mut put = |at: usize, bytes: &[u8]| data[at..at + bytes.len()].copy_from_slice(bytes);
        for (n, clock) in self.clocks().iter().enumerate() {
            put(2 * n, &clock.to_le_bytes());
        }
        let sensors = &self.readings.sensors;
        for (at, value) in [
            (0x10, self.graphics_clock()),
            (0x12, sensors.socclk),
            (0x14, sensors.mclk),
            (0x16, self.readings.activity.gfx.percent()),
            (0x18, self.readings.activity.memory.percent()),
            (0x1e, sensors.power),
            (0x20, sensors.edge),
            (0x22, sensors.junction),
            (0x24, sensors.mem),
            (0x26, sensors.vrgfx),
            (0x28, sensors.vrsoc),
            (0x2a, sensors.vrmem),
        ] {
            put(at, &value.to_le_bytes());
        }
        put(0x2c, &sensors.throttle.to_le_bytes());
        put(0x30, &self.readings.serial.to_le_bytes());
        for (n, stack) in sensors.stacks().iter().enumerate() {
            put(0x38 + 2 * n, &stack.to_le_bytes());
        }
        let activity = self.readings.activity;
        for (at, meter) in [(0x40, &activity.gfx), (0x44, &activity.memory)] {
            put(at, &(meter.count() as u32).to_le_bytes());
        }
        put(0x48, &self.readings.energy.to_le_bytes());
        put(0x50, &self.readings.now.to_le_bytes());
        data
    }
}

#[cfg(test)]
mod tests {
    use super::super::sensors::Sensors;
    use super::*;
    use crate::activity::Activity;

    #[test]
    fn limits_that_no_board_takes() {
        assert_eq!(PpTable::left().insane(), None);
        for (at, value, what) in [
            (POWER, 99, "limit of power"),
            (POWER, 601, "limit of power"),
            (HOTSPOT, 121, "hottest spot"),
            (MEMORY, 0, "hottest memory"),
            (HIGHEST, 2001, "range of clocks"),
            (HIGHEST, 600, "range of clocks"),
        ] {
            let mut table = PpTable::left();
            table.0[at..at + 2].copy_from_slice(&u16::to_le_bytes(value));
            assert_eq!(table.insane(), Some(what));
        }
    }

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
        let (sensors, activity) = (Sensors::default(), Activity::default());
        let mut measured = Measured {
            readings: Readings {
                now: 100_000_000,
                sensors,
                energy: 0x1_2345_6789,
                activity: &activity,
                serial: 0x2345_6789_abcd_ef01,
            },
            table: Some(&table),
            features: DPM_GFX | DPM_MEMORY | DPM_SOC,
        };
        let data = measured.table();
        let word = |data: &[u8], at: usize| u16::from_le_bytes([data[at], data[at + 1]]);
        assert_eq!([0, 6, 8].map(|at| word(&data, at)), [500, 600, 400]);
        let shown = [sensors.power, sensors.edge, sensors.junction, sensors.mem];
        assert_eq!([0x1e, 0x20, 0x22, 0x24].map(|at| word(&data, at)), shown);
        assert_eq!(data[0x30..0x38], 0x2345_6789_abcd_ef01u64.to_le_bytes());
        assert_eq!(data[0x48..0x50], 0x1_2345_6789u64.to_le_bytes());
        assert_eq!(data[0x50..0x58], 100_000_000u64.to_le_bytes());
        measured.features = 0;
        let data = measured.table();
        assert_eq!([0, 6, 8].map(|at| word(&data, at)), [0; 3], "not known");
        assert_eq!(
            [0x10, 0x12, 0x14].map(|at| word(&data, at)),
            [800, 600, 400]
        );
        let busy = Sensors {
            sclk: 1700,
            ..sensors
        };
        measured.readings.sensors = busy;
        assert_eq!(word(&measured.table(), 0x10), 1700);
    }
}
