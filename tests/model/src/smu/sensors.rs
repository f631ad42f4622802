// SPDX-License-Identifier: GPL-2.0
//! The values of the board's sensors: actual ones, or a test's.

use std::fmt;

use crate::activity::Activity;

/// 10 nJ in one unit of the energy count, which is 15.259 uJ: the ratio.
const ENERGY: (u128, u128) = (10, 15_259);

/// The values. Each has a name, by which a test sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sensors {
    /// Temperatures, C.
    pub edge: u16,
    /// The hottest place.
    pub junction: u16,
    /// The hottest of the four stacks of memory; each other is a degree below the one before.
    pub mem: u16,
    /// Voltage regulators.
    pub vrgfx: u16,
    /// See above.
    pub vrsoc: u16,
    /// See above.
    pub vrmem: u16,
    /// W.
    pub power: u16,
    /// Clocks, MHz. That of graphics is the table's lowest once the SMU sets it, unless a test sets
    /// it.
    pub sclk: u16,
    /// SOC.
    pub socclk: u16,
    /// Memory.
    pub mclk: u16,
    /// Reasons for throttled clocks, as bits.
    pub throttle: u32,
}

impl Default for Sensors {
    fn default() -> Self {
        Sensors {
            edge: 35,
            junction: 41,
            mem: 44,
            vrgfx: 33,
            vrsoc: 32,
            vrmem: 34,
            power: 42,
            sclk: 0,
            socclk: 600,
            mclk: 400,
            throttle: 0,
        }
    }
}

impl Sensors {
    /// Sets a value by `NAME=VALUE`.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        let wrong = || format!("{text}: no sensor and its value");
        let (name, value) = text.split_once('=').ok_or_else(wrong)?;
        let place = match name {
            "edge" => &mut self.edge,
            "junction" => &mut self.junction,
            "mem" => &mut self.mem,
            "vrgfx" => &mut self.vrgfx,
            "vrsoc" => &mut self.vrsoc,
            "vrmem" => &mut self.vrmem,
            "power" => &mut self.power,
            "sclk" => &mut self.sclk,
            "socclk" => &mut self.socclk,
            "mclk" => &mut self.mclk,
            "throttle" => {
                self.throttle = value.parse().map_err(|_| wrong())?;
                return Ok(());
            }
            _ => return Err(wrong()),
        };
        *place = value.parse().map_err(|_| wrong())?;
        Ok(())
    }

    /// The temperature of the hottest voltage regulator.
    pub fn hottest_regulator(&self) -> u16 {
        self.vrgfx.max(self.vrsoc).max(self.vrmem)
    }

    /// Temperatures of the stacks of memory.
    pub fn stacks(&self) -> [u16; 4] {
        std::array::from_fn(|n| self.mem.saturating_sub(n as u16))
    }
}

impl fmt::Display for Sensors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sensors {
            edge,
            junction,
            mem,
            vrgfx,
            vrsoc,
            vrmem,
            power,
            sclk,
            socclk,
            mclk,
            throttle,
        } = self;
        write!(
            f,
            "edge={edge} junction={junction} mem={mem} vrgfx={vrgfx} vrsoc={vrsoc} vrmem={vrmem} \
             power={power} sclk={sclk} socclk={socclk} mclk={mclk} throttle={throttle}"
        )
    }
}

/// What the SMU of either chip has measured.
pub struct Readings<'a> {
    /// Ticks of 10 ns.
    pub now: u64,
    /// The board's sensors.
    pub sensors: Sensors,
    /// Units of 15.259 uJ.
    pub energy: u64,
    /// Load of the engines.
    pub activity: &'a Activity,
    /// The board's number.
    pub serial: u64,
}

/// The energy that the board has used in total.
#[derive(Debug, Clone, Copy, Default)]
pub struct Energy {
    /// Time up to which it is counted, ticks of 10 ns.
    until: u64,
    /// W times ticks: 10 nJ.
    taken: u64,
}

impl Energy {
    /// Adds `power` W up to `now`, ticks of 10 ns.
    pub fn count(&mut self, now: u64, power: u16) {
        self.taken += now.saturating_sub(self.until) * u64::from(power);
        self.until = now;
    }

    /// Units of 15.259 uJ.
    pub fn units(&self) -> u64 {
        (u128::from(self.taken) * ENERGY.0 / ENERGY.1) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_name() {
        let mut sensors = Sensors::default();
        for text in ["edge=51", "mclk=1600", "throttle=66"] {
            sensors.set(text).unwrap();
        }
        assert_eq!(
            (sensors.edge, sensors.mclk, sensors.throttle),
            (51, 1600, 66)
        );
        for text in ["edge", "edge=", "edge=65536", "fan=3", "throttle=-1"] {
            assert!(sensors.set(text).is_err(), "{text}");
        }
        let mut again = Sensors::default();
        for text in sensors.to_string().split_whitespace() {
            again.set(text).unwrap();
        }
        assert_eq!(again, sensors);
    }

    #[test]
    fn energy_goes_with_power() {
        let mut energy = Energy::default();
        energy.count(100_000_000, 42);
        energy.count(200_000_000, 300);
        let joules = energy.units() * 15_259 / 1_000_000_000;
        assert!(joules.abs_diff(342) <= 1, "{joules} J");
    }
}
