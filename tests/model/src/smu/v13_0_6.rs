// SPDX-License-Identifier: GPL-2.0
//! The SMU of MI300X (13.0.6). Its firmware is in the flash chip and runs from power-up on,
//! whatever a driver loads or unloads. It takes no table of limits: it gives its own with its
//! measurements, whose numbers have ten bits behind the point (amdgpu: smu_v13_0_6_pmfw.h,
//! MetricsTableV0_t). The first measurements after power-up are not ready when they are asked for.

use super::sensors::{Readings, Sensors};
use super::{level, FAILED, OK, PAGE, PREREQUISITE, UNKNOWN};

/// Version of the firmware, 85.127.1, which it also has at a place of the fabric; of the interface
/// between drivers and it, and of the table of measurements.
pub const VERSION: u32 = 0x0055_7f01;
const INTERFACE: u32 = 8;
const METRICS_VERSION: u32 = 0x11;

/// Its automatic features: those of clocks, power, current, and temperature.
const FEATURES: u64 = 0x3f | 1 << 6 | 1 << 23 | 1 << 24 | 1 << 25 | 1 << 35;
/// Those of the clocks of graphics, SOC and memory.
const DPM_GFX: u64 = 1 << 3;
/// The most power of the socket, W.
const POWER: u32 = 750;
/// The range of the graphics clock, MHz.
const GRAPHICS: [u32; 2] = [132, 2100];
/// Levels of each clock in MHz, by its number: V, D, SOC, memory, fabric, link.
const CLOCKS: [&[u32]; 6] = [
    &[914, 1143],
    &[711, 889],
    &[600, 800, 1000, 1143],
    &[900, 1000, 1200, 1300],
    &[1200, 1600, 1800, 2100],
    &[400, 600, 800, 1000],
];
const VIDEO: usize = 0;
const DECODER: usize = 1;
const SOC: usize = 2;
const MEMORY: usize = 3;
const FABRIC: usize = 4;
const LINK: usize = 5;
/// Places of a package: XCDs, AIDs, CCDs, cores of them; stacks of an AID's links.
const XCDS: usize = 8;
const AIDS: usize = 4;
const CORES: usize = 96;
const CCDS: usize = 12;
/// The link: GT/s times ten by index, lanes.
const LINK_SPEED: u32 = 5;
const LINK_WIDTH: u32 = 16;
/// The voltage of the board's supply, mV.
const SUPPLY: u32 = 48_000;

/// What a message does.
pub enum Effect {
    /// Nothing else than its answer, with a result.
    Answer(u32, Option<u32>),
    /// It writes these bytes to the table's page.
    Give(Vec<u8>),
    /// It resets the GPU.
    Reset,
}

impl Effect {
    const DONE: Effect = Effect::Answer(OK, None);

    const fn result(value: u32) -> Effect {
        Effect::Answer(OK, Some(value))
    }
}

/// Its state, beside that which it shares with others.
#[derive(Debug, Default, Clone, Copy)]
pub struct Firmware {
    /// How often it has measured.
    measurements: u32,
    features: u64,
    /// W, if a driver has set it.
    limit: Option<u32>,
}

impl Firmware {
    /// Executes a message; `at` is the address of the table's page, `xccs` how many XCCs there are.
    pub fn perform(
        &mut self,
        message: u32,
        argument: u32,
        at: Option<u64>,
        readings: &Readings<'_>,
        xccs: usize,
    ) -> Effect {
        match message {
            0x1 => Effect::result(argument.wrapping_add(1)),
            0x2 => Effect::result(VERSION),
            0x3 if argument & 0xffff == 1 => Effect::Reset,
            0x4 => Effect::result(INTERFACE),
            0x5 => {
                self.features = FEATURES;
                Effect::DONE
            }
            0x6 => {
                self.features = 0;
                Effect::DONE
            }
            // No EEPROM answers on the board's I2C bus.
            0x7 => Effect::Answer(FAILED, None),
            0x8 => Effect::result(METRICS_VERSION),
            0x9 | 0x59 => match at {
                None => Effect::Answer(PREREQUISITE, None),
                Some(at) if at % PAGE != 0 => Effect::Answer(FAILED, None),
                Some(_) if message == 0x59 => Effect::Give(supply()),
                Some(_) => Effect::Give(self.metrics(readings, xccs)),
            },
            0xb => Effect::result(self.features as u32),
            0xc => Effect::result((self.features >> 32) as u32),
            // Memory for tools and logs; bounds of clocks; fabric states; retired pages; the
            // driver goes.
            0xf..=0x14 | 0x1a..=0x1c | 0x1f | 0x20 | 0x26 | 0x27 | 0x30 | 0x31 | 0x34 => {
                Effect::DONE
            }
            // Faults of memory are not modelled: there are none.
            0x36 | 0x3a => Effect::result(0),
            0x39 | 0x40 | 0x44 => Effect::DONE,
            0x15..=0x17 => {
                let levels = CLOCKS.get((argument >> 16) as usize);
                match levels.and_then(|levels| level(levels, message - 0x15, argument)) {
                    Some(clock) => Effect::result(clock),
                    None => Effect::Answer(FAILED, None),
                }
            }
            0x18 => {
                self.limit = Some(argument);
                Effect::DONE
            }
            0x19 => Effect::result(self.limit.unwrap_or(POWER)),
            0x32 => Effect::result(GRAPHICS[0]),
            0x33 => Effect::result(GRAPHICS[1]),
            // The temperatures at which it throttles, and at which the board goes off.
            0x35 => Effect::result(100),
            0x38 => Effect::result(110),
            0x3 => Effect::Answer(FAILED, None),
            _ => Effect::Answer(UNKNOWN, None),
        }
    }

    fn graphics_clock(&self, sensors: &Sensors) -> u32 {
        match sensors.sclk {
            0 if self.features & DPM_GFX != 0 => GRAPHICS[0],
            0 => GRAPHICS[1] / 2,
            set => set.into(),
        }
    }

    /// The table of measurements, in the order of its fields.
    fn metrics(&mut self, readings: &Readings<'_>, xccs: usize) -> Vec<u8> {
        let sensors = &readings.sensors;
        let mut to = Writer::default();
        to.words(&[self.measurements]);
        self.measurements = self.measurements.wrapping_add(1);
        // Temperatures: socket, regulators, memory; the same added up.
        to.above(&[sensors.junction, sensors.hottest_regulator(), sensors.mem]);
        to.skip_longs(3);
        // Power: limit, highest limit, now.
        let limit = self.limit.unwrap_or(POWER);
        to.rounded(&[limit, POWER, sensors.power.into()]);
        // Energy: time; socket; cores, XCDs, AIDs, memory.
        to.longs(&[readings.now, readings.energy]);
        to.skip_longs(4);
        // Clocks: limits of cores and graphics; fabric, memory; SOC, V, D, link of each AID.
        to.rounded(&[0, GRAPHICS[1], CLOCKS[FABRIC][0], sensors.mclk.into()]);
        for clock in [
            sensors.socclk.into(),
            CLOCKS[VIDEO][0],
            CLOCKS[DECODER][0],
            CLOCKS[LINK][0],
        ] {
            to.rounded(&[clock; AIDS]);
        }
        to.skip_longs(XCDS + CORES);
        // Ranges: cores, graphics; the levels of each clock.
        to.rounded(&[0, 0, GRAPHICS[1], GRAPHICS[0]]);
        for clock in [FABRIC, MEMORY, SOC, VIDEO, DECODER, LINK] {
            let levels = CLOCKS[clock];
            let level = |n| levels.get(n).copied().unwrap_or(0);
            to.rounded(&std::array::from_fn::<u32, 4, _>(level));
        }
        to.words(&[0, 0]);
        // XGMI: width, rate; traffic of each link.
        to.words(&[16, 32]);
        to.skip_longs(16);
        // Activity: cores, graphics, memory; the same added up, and traffic.
        let [gfx, memory] = [&readings.activity.gfx, &readings.activity.memory];
        to.rounded(&[0, gfx.percent().into(), memory.percent().into()]);
        to.longs(&[0, gfx.count(), 0]);
        to.rounded(&[5300]);
        to.longs(&[memory.count()]);
        to.skip_longs(4);
        // Throttlers: how long each was at work; a mask of locked XCDs.
        to.words(&[0, sensors.throttle, 0, 0, 0, 0]);
        to.rounded(&of_each(xccs, self.graphics_clock(sensors)));
        // Serial numbers: AIDs, XCDs, CCDs.
        let number = |n: usize| readings.serial.wrapping_add(n as u64);
        to.longs(&std::array::from_fn::<u64, AIDS, _>(number));
        to.longs(&std::array::from_fn::<u64, XCDS, _>(|n| number(0x100 + n)));
        to.skip_longs(CCDS);
        // Traffic of XGMI; of the link, and its errors; load of VCN and JPEG.
        to.skip_longs(16);
        to.words(&[0; 9]);
        to.words(&[0; 4 + 32]);
        to.words(&[LINK_SPEED, LINK_WIDTH]);
        to.rounded(&of_each(xccs, gfx.percent().into()));
        to.longs(&of_each(xccs, gfx.count()));
        to.words(&[0]);
        // How long clocks were below the host's limit, and for which reason.
        to.skip_longs(4 * XCDS);
        to.0
    }
}

/// The table of what does not change: voltage of the supply, version of the board's description.
fn supply() -> Vec<u8> {
    let mut to = Writer::default();
    to.words(&[SUPPLY, 0, 0]);
    to.0
}

/// The value of each of the first `xccs` XCDs; 0 for those that are not there.
fn of_each<T: Copy + Default>(xccs: usize, value: T) -> [T; XCDS] {
    std::array::from_fn(|n| if n < xccs { value } else { T::default() })
}

/// Writes fields one after another, without gaps.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn words(&mut self, words: &[u32]) {
        self.0
            .extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }

    fn longs(&mut self, longs: &[u64]) {
        self.0
            .extend(longs.iter().flat_map(|long| long.to_le_bytes()));
    }

    fn skip_longs(&mut self, count: usize) {
        self.0.extend(std::iter::repeat_n(0, 8 * count));
    }

    /// Numbers with ten bits behind the point, which are 0.
    fn rounded(&mut self, numbers: &[u32]) {
        for number in numbers {
            self.words(&[number << 10]);
        }
    }

    /// The same of sensors, a quarter above what they say: readers have to round.
    fn above(&mut self, numbers: &[u16]) {
        for &number in numbers {
            self.words(&[(u32::from(number) << 10) + 0x100]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::Activity;

    fn readings(activity: &Activity) -> Readings<'_> {
        Readings {
            now: 100,
            sensors: Sensors::default(),
            energy: 0x1_2345_6789,
            activity,
            serial: 0x2345_6789_abcd_ef01,
        }
    }

    fn word(table: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(table[at..at + 4].try_into().unwrap())
    }

    #[test]
    fn fields_of_the_measurements() {
        let activity = Activity::default();
        let readings = readings(&activity);
        let mut firmware = Firmware::default();
        let first = firmware.metrics(&readings, 2);
        // The size of amdgpu's structure.
        assert_eq!(first.len(), 2268);
        assert_eq!(word(&first, 0), 0);
        let table = firmware.metrics(&readings, 2);
        assert_eq!(word(&table, 0), 1);
        assert_eq!(word(&table, 4) >> 10, 41);
        assert_eq!(word(&table, 12) >> 10, 44);
        assert_eq!(
            [40, 44, 48].map(|at| word(&table, at) >> 10),
            [750, 750, 42]
        );
        assert_eq!(table[60..68], 0x1_2345_6789u64.to_le_bytes());
        assert_eq!([112, 116].map(|at| word(&table, at) >> 10), [400, 600]);
        assert_eq!([1020, 1024].map(|at| word(&table, at) >> 10), [2100, 132]);
        assert_eq!([1028, 1044].map(|at| word(&table, at) >> 10), [1200, 900]);
        assert_eq!(
            [1372, 1376, 1380].map(|at| word(&table, at) >> 10),
            [1050, 1050, 0]
        );
        assert_eq!(table[1404..1412], readings.serial.to_le_bytes());
        assert_eq!([1904, 1908].map(|at| word(&table, at)), [5, 16]);
    }

    #[test]
    fn messages() {
        let activity = Activity::default();
        let readings = readings(&activity);
        let mut firmware = Firmware::default();
        let mut ask =
            |message, argument, at| match firmware.perform(message, argument, at, &readings, 1) {
                Effect::Answer(answer, result) => (answer, result),
                Effect::Give(table) => (OK, Some(table.len() as u32)),
                Effect::Reset => (OK, None),
            };
        assert_eq!(ask(2, 0, None), (OK, Some(0x55_7f01)));
        assert_eq!(ask(9, 0, None), (PREREQUISITE, None));
        assert_eq!(ask(9, 0, Some(12)), (FAILED, None));
        assert_eq!(ask(9, 0, Some(4096)), (OK, Some(2268)));
        assert_eq!(ask(0xb, 0, None), (OK, Some(0)));
        assert_eq!(ask(5, 0, None), (OK, None));
        assert_eq!(ask(0xb, 0, None), (OK, Some(0x0380_007f)));
        assert_eq!(ask(0xc, 0, None), (OK, Some(8)));
        assert_eq!(ask(0x17, 3 << 16 | 0xff, None), (OK, Some(3)));
        assert_eq!(ask(0x17, 3 << 16 | 3, None), (OK, Some(1300)));
        assert_eq!(ask(0x17, 9 << 16, None), (FAILED, None));
        assert_eq!(ask(3, 2, None), (FAILED, None));
        assert_eq!(ask(0x13, 0, None), (OK, None));
        assert_eq!(ask(0x24, 0, None), (UNKNOWN, None));
    }
}
