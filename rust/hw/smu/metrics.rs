// SPDX-License-Identifier: GPL-2.0
//! Measurements of the SMU: its table for drivers (amdgpu: smu13_driver_if_aldebaran.h,
//! SmuMetrics_t), and the form that tools read, gpu_metrics v1.3 (amdgpu: kgd_pp_interface.h; the
//! source of each field: aldebaran_get_gpu_metrics).

use super::interface::SmuInterface;
use super::link::PcieLink;
use super::readings::{microjoules, SmuReadings};
use super::SmuFeatures;

/// Bytes of the SMU's table, with the meaningless ones at its end.
pub const TABLE_BYTES: usize = 120;
/// Dwords of the table.
pub const TABLE_DWORDS: usize = TABLE_BYTES / 4;
/// Bytes of gpu_metrics v1.3.
pub const GPU_METRICS_BYTES: usize = 120;
/// Its format and content.
const GPU_METRICS_VERSION: [u8; 2] = [1, 3];

/// Stacks of memory.
const STACKS: usize = 4;

/// Clock frequencies, MHz.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetricsClocks {
    /// Graphics.
    pub graphics: u16,
    /// SOC.
    pub soc: u16,
    /// Memory.
    pub memory: u16,
    /// Video: V and D. Their averages are not known.
    pub video: [u16; 2],
}

/// The measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmuMetrics {
    /// Current clocks. Valid only if a feature lets the SMU set them.
    pub current: MetricsClocks,
    /// Average clocks.
    pub average: MetricsClocks,
    /// How busy shaders and memory are, percent.
    pub busy: [u16; 2],
    /// The same accumulated, in undocumented units.
    pub busy_count: [u32; 2],
    /// Average power of the socket, W.
    pub power: u16,
    /// Energy used so far, units of 15.259 uJ.
    pub energy: u64,
    /// Temperatures at the edge of the die, at its hottest place, and of the hottest memory, C.
    pub temperatures: [u16; 3],
    /// Temperatures of the voltage regulators: graphics, SOC, memory.
    pub regulators: [u16; 3],
    /// Temperatures of the stacks of memory.
    pub stacks: [u16; STACKS],
    /// The reasons for reduced clocks, a bit each.
    pub throttlers: u32,
    /// Serial number of the board.
    pub serial: u64,
    /// Time of the measurement, ticks of 10 ns.
    pub time: u64,
}

/// Reads little-endian fields one after another.
struct FieldReader<'a>(&'a [u8]);

impl FieldReader<'_> {
    fn next<const N: usize>(&mut self) -> [u8; N] {
        match self.0.split_first_chunk() {
            Some((head, rest)) => {
                self.0 = rest;
                *head
            }
            None => [0; N],
        }
    }

    fn half(&mut self) -> u16 {
        u16::from_le_bytes(self.next())
    }

    fn halves<const N: usize>(&mut self) -> [u16; N] {
        let mut halves = [0; N];
        halves.fill_with(|| self.half());
        halves
    }

    fn word(&mut self) -> u32 {
        u32::from_le_bytes(self.next())
    }

    fn long(&mut self) -> u64 {
        u64::from_le_bytes(self.next())
    }
}

impl SmuMetrics {
    /// Reads the SMU's table. `None` if it has only zeros, because then it was not written.
    pub fn new(dwords: &[u32; TABLE_DWORDS]) -> Option<Self> {
        if dwords.iter().all(|dword| *dword == 0) {
            return None;
        }
        let mut bytes = [0; TABLE_BYTES];
        for (to, dword) in bytes.chunks_exact_mut(4).zip(dwords) {
            to.copy_from_slice(&dword.to_le_bytes());
        }
        let mut table = FieldReader(&bytes);
        // Fabric and link are of no interest, and neither is the gap between two fields.
        let [graphics, v, d, soc, memory, _, _, _] = table.halves();
        let current = MetricsClocks {
            graphics,
            soc,
            memory,
            video: [v, d],
        };
        let [graphics, soc, memory] = table.halves();
        let average = MetricsClocks {
            graphics,
            soc,
            memory,
            video: [0; 2],
        };
        let busy = table.halves();
        // Offsets of voltages.
        let [_, _] = table.halves::<2>();
        let power = table.half();
        let temperatures = table.halves();
        let regulators = table.halves();
        let throttlers = table.word();
        let serial = table.long();
        let stacks = table.halves();
        let busy_count = [table.word(), table.word()];
        Some(Self {
            current,
            average,
            busy,
            busy_count,
            power,
            energy: table.long(),
            temperatures,
            regulators,
            stacks,
            throttlers,
            serial,
            time: table.long(),
        })
    }

    /// The measurements of a die that is not the first of its package: what it tells about the
    /// board's power and energy means nothing (amdgpu: aldebaran_is_primary).
    pub const fn without_board(self) -> Self {
        Self {
            power: 0,
            energy: 0,
            ..self
        }
    }

    /// Single values, while `features` are on.
    pub fn readings(&self, features: SmuFeatures) -> SmuReadings {
        let [edge, junction, memory] = self.temperatures.map(|degrees| u32::from(degrees) * 1000);
        let of = |set, now, average| u32::from(if set { now } else { average });
        let (now, average) = (self.current, self.average);
        let interface = SmuInterface::V13_0_2;
        SmuReadings {
            edge: Some(edge),
            junction,
            memory,
            milliwatts: u32::from(self.power) * 1000,
            microjoules: microjoules(self.energy),
            clocks: [
                of(
                    interface.sets_graphics_clock(features),
                    now.graphics,
                    average.graphics,
                ),
                of(
                    interface.sets_memory_clock(features),
                    now.memory,
                    average.memory,
                ),
            ],
        }
    }

    /// The table for tools at `now`, ns since boot, suspend included. Unknown values have all bits
    /// set.
    pub fn gpu_metrics(&self, link: PcieLink, now: u64) -> [u8; GPU_METRICS_BYTES] {
        let mut to = FieldWriter {
            bytes: [u8::MAX; GPU_METRICS_BYTES],
            at: 0,
        };
        to.halves(&[GPU_METRICS_BYTES as u16]);
        to.put(&GPU_METRICS_VERSION);
        to.halves(&self.temperatures);
        to.halves(&self.regulators);
        to.halves(&self.busy);
        // Utilization of video.
        to.skip(2);
        to.halves(&[self.power]);
        to.longs(&[self.energy, now]);
        for clocks in [&self.average, &self.current] {
            let [v, d] = clocks.video;
            to.halves(&[clocks.graphics, clocks.soc, clocks.memory, v, d]);
            // The second V and D.
            to.skip(4);
        }
        to.put(&self.throttlers.to_le_bytes());
        // No fan.
        to.halves(&[0, link.width, link.speed]);
        to.skip(2);
        for count in self.busy_count {
            to.put(&count.to_le_bytes());
        }
        to.halves(&self.stacks);
        to.longs(&[self.time]);
        // Voltages.
        to.skip(8);
        to.longs(&[common_throttlers(self.throttlers)]);
        to.bytes
    }
}

/// Writes little-endian fields one after another.
struct FieldWriter {
    bytes: [u8; GPU_METRICS_BYTES],
    at: usize,
}

impl FieldWriter {
    fn put(&mut self, bytes: &[u8]) {
        let end = self.at.saturating_add(bytes.len());
        if let Some(place) = self.bytes.get_mut(self.at..end) {
            place.copy_from_slice(bytes);
        }
        self.at = end;
    }

    fn skip(&mut self, bytes: usize) {
        self.at = self.at.saturating_add(bytes);
    }

    fn halves(&mut self, values: &[u16]) {
        values
            .iter()
            .for_each(|value| self.put(&value.to_le_bytes()));
    }

    fn longs(&mut self, values: &[u64]) {
        values
            .iter()
            .for_each(|value| self.put(&value.to_le_bytes()));
    }
}

/// Bits of the table's throttlers, and the bits for the same reasons in the form that is common to
/// all GPUs (amdgpu: aldebaran_throttler_map, amdgpu_smu.h).
const THROTTLERS: [(u32, u32); 11] = [
    // Power.
    (0, 0),
    (1, 1),
    // Current: graphics, SOC, memory.
    (2, 16),
    (3, 17),
    (4, 18),
    // Temperature: GPU, memory, regulators of graphics, SOC, memory.
    (6, 32),
    (7, 34),
    (11, 38),
    (12, 39),
    (13, 40),
    // Current peaks.
    (19, 23),
];

/// The reasons for reduced clocks, in the form that is common to all GPUs.
fn common_throttlers(throttlers: u32) -> u64 {
    let set = |&&(own, _): &&(u32, u32)| throttlers & (1 << own) != 0;
    let mut common = 0;
    for (_, bit) in THROTTLERS.iter().filter(set) {
        common |= 1 << bit;
    }
    common
}
