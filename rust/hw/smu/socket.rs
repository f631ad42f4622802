// SPDX-License-Identifier: GPL-2.0
//! Measurements of the SMU of MI300: its table for drivers (amdgpu: smu_v13_0_6_pmfw.h,
//! MetricsTableV0_t), and the form that tools read, gpu_metrics v1.9, in which each value has a
//! description (amdgpu: kgd_pp_interface.h, smu_v13_0_6_ppt.h; the source of each value:
//! smu_v13_0_6_get_gpu_metrics).

use super::attributes::{AttributeWriter, MetricsId, MetricsUnit};
use super::readings::{microjoules, MetricsSurroundings, SmuReadings};
use super::SmuVersion;
use crate::bits::{join, Field, Field64};

/// Bytes of the SMU's table.
pub const TABLE_BYTES: usize = 2268;
/// Dwords of the table.
pub const TABLE_DWORDS: usize = TABLE_BYTES / 4;
/// Bytes of gpu_metrics v1.9.
pub const GPU_METRICS_BYTES: usize = 1258;

/// XCCs, AIDs, and links of XGMI that the table has.
const XCCS: usize = 8;
const AIDS: usize = 4;
const XGMI_LINKS: usize = 8;
/// Places of gpu_metrics for engines of JPEG, and for stacks of memory.
const JPEG: usize = 40;
const STACKS: usize = 8;

/// The first firmware that tells the link, another count of its errors, and the load of each XCC.
const TELLS_LINK: u32 = 0x0055_6300;
const TELLS_OTHER_END: u32 = 0x0055_7600;
const TELLS_EACH_XCC: u32 = 0x0055_6f00;
/// The first firmware that counts the time below the host's limits, and that knows
/// GetStaticMetricsTable: of program 0 and of program 7.
const COUNTS_LIMITS: [u32; 2] = [0x0055_7e00, 0x0755_0e00];
const TELLS_BOARD: [u32; 2] = [0x0055_7f01, 0x0755_1000];

/// 0.1 GT/s by the generation of PCI Express.
const SPEEDS: [u16; 7] = [25, 25, 50, 80, 160, 320, 640];

/// The counts of throttlers, and of errors of the link, in the order of the table.
const THROTTLERS: [MetricsId; 5] = [
    MetricsId::ProchotResidencyAcc,
    MetricsId::PptResidencyAcc,
    MetricsId::SocketThmResidencyAcc,
    MetricsId::VrThmResidencyAcc,
    MetricsId::HbmThmResidencyAcc,
];
const LINK_ERRORS: [MetricsId; 5] = [
    MetricsId::PcieL0ToRecovCountAcc,
    MetricsId::PcieReplayCountAcc,
    MetricsId::PcieReplayRoverCountAcc,
    MetricsId::PcieNakSentCountAcc,
    MetricsId::PcieNakRcvdCountAcc,
];

/// Offsets of fields, in bytes.
mod at {
    pub(super) const ACCUMULATION_COUNTER: usize = 0;
    pub(super) const MAX_SOCKET_TEMPERATURE: usize = 4;
    pub(super) const MAX_VR_TEMPERATURE: usize = 8;
    pub(super) const MAX_HBM_TEMPERATURE: usize = 12;
    pub(super) const SOCKET_POWER: usize = 48;
    pub(super) const TIMESTAMP: usize = 52;
    pub(super) const SOCKET_ENERGY_ACC: usize = 60;
    pub(super) const UCLK_FREQUENCY: usize = 112;
    pub(super) const SOCCLK_FREQUENCY: usize = 116;
    pub(super) const XGMI_WIDTH: usize = 1132;
    pub(super) const XGMI_BITRATE: usize = 1136;
    pub(super) const SOCKET_GFX_BUSY: usize = 1272;
    pub(super) const DRAM_BANDWIDTH_UTILIZATION: usize = 1276;
    pub(super) const SOCKET_GFX_BUSY_ACC: usize = 1288;
    pub(super) const MAX_DRAM_BANDWIDTH: usize = 1304;
    pub(super) const DRAM_BANDWIDTH_UTILIZATION_ACC: usize = 1308;
    pub(super) const PCIE_BANDWIDTH_ACC: usize = 1316;
    /// Five counts: the processor is hot, power, temperatures of socket, regulators and memory.
    pub(super) const PROCHOT_RESIDENCY_ACC: usize = 1348;
    pub(super) const GFX_LOCK_XCD_MASK: usize = 1368;
    pub(super) const GFXCLK_FREQUENCY: usize = 1372;
    pub(super) const PUBLIC_SERIAL_NUMBER_AID: usize = 1404;
    pub(super) const PCIE_BANDWIDTH: usize = 1724;
    /// Five counts: recoveries, replays, roll-overs of these, NAKs sent and received.
    pub(super) const PCIE_L0_TO_RECOVERY_COUNT_ACC: usize = 1740;
    pub(super) const PCIE_LINK_SPEED: usize = 1904;
    pub(super) const PCIE_LINK_WIDTH: usize = 1908;
    pub(super) const GFX_BUSY: usize = 1912;
    pub(super) const GFX_BUSY_ACC: usize = 1944;
    pub(super) const PCIE_OTHER_END_RECOVERY_ACC: usize = 2008;
    pub(super) const GFXCLK_BELOW_HOST_LIMIT_PPT_ACC: usize = 2012;
    pub(super) const GFXCLK_BELOW_HOST_LIMIT_THM_ACC: usize = 2076;
    pub(super) const GFXCLK_BELOW_HOST_LIMIT_TOTAL_ACC: usize = 2140;
    pub(super) const GFXCLK_LOW_UTILIZATION_ACC: usize = 2204;
}

/// Whether the firmware of `version` knows GetStaticMetricsTable.
pub const fn tells_board(version: SmuVersion) -> bool {
    version.is_since_of(TELLS_BOARD)
}

/// The voltage of the board's supply, mV: the first field of the table of what does not change
/// (amdgpu: StaticMetricsTable_t, InputTelemetryVoltageInmV).
pub fn board_millivolts(dwords: &[u32]) -> Option<u32> {
    dwords.first().copied()
}

/// The working XCCs by their numbers on the chip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XccSet([bool; XCCS]);

impl XccSet {
    /// Those of `numbers`.
    pub fn new(numbers: impl Iterator<Item = u8>) -> Self {
        let mut set = Self::default();
        for number in numbers {
            if let Some(works) = set.0.get_mut(usize::from(number)) {
                *works = true;
            }
        }
        set
    }

    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..XCCS).filter(|n| self.0.get(*n).is_some_and(|works| *works))
    }
}

/// A number with ten bits behind the point.
#[derive(Clone, Copy)]
struct Fixed(u64);

impl Fixed {
    const WHOLE: Field64 = Field64::new(63, 10);
    const REST: Field64 = Field64::new(9, 0);
    const HALF: u64 = 0x200;

    const fn rounded(self) -> u64 {
        Self::WHOLE.get(self.0) + (Self::REST.get(self.0) >= Self::HALF) as u64
    }

    /// Its thousandths; those of a number of 32 bits.
    const fn thousandths(self) -> u32 {
        (Self::WHOLE.get(self.0) * 1000 + Self::WHOLE.get(Self::REST.get(self.0) * 1000)) as u32
    }
}

/// The measurements: a table that was written.
#[derive(Clone, Copy, Debug)]
pub struct SocketMetrics<'a>(&'a [u32; TABLE_DWORDS]);

impl<'a> SocketMetrics<'a> {
    /// Reads the SMU's table. `None` if its counter is 0, because then nothing was measured.
    pub fn new(dwords: &'a [u32; TABLE_DWORDS]) -> Option<Self> {
        let table = Self(dwords);
        (table.word(at::ACCUMULATION_COUNTER) != 0).then_some(table)
    }

    fn word(&self, at: usize) -> u32 {
        self.0.get(at / 4).copied().unwrap_or(0)
    }

    fn long(&self, at: usize) -> u64 {
        join(self.word(at), self.word(at + 4))
    }

    fn fixed(&self, at: usize) -> Fixed {
        Fixed(self.word(at).into())
    }

    fn rounded(&self, at: usize) -> u64 {
        self.fixed(at).rounded()
    }

    fn rounded_long(&self, at: usize) -> u64 {
        Fixed(self.long(at)).rounded()
    }

    /// The serial number of the first AID, which is the board's.
    pub fn serial(&self) -> u64 {
        self.long(at::PUBLIC_SERIAL_NUMBER_AID)
    }

    /// Single values. The clock of graphics is the first XCC's.
    pub fn readings(&self) -> SmuReadings {
        let megahertz = |at| self.rounded(at) as u32;
        SmuReadings {
            edge: None,
            junction: self.fixed(at::MAX_SOCKET_TEMPERATURE).thousandths(),
            memory: self.fixed(at::MAX_HBM_TEMPERATURE).thousandths(),
            milliwatts: self.fixed(at::SOCKET_POWER).thousandths(),
            microjoules: microjoules(self.long(at::SOCKET_ENERGY_ACC)),
            clocks: [
                megahertz(at::GFXCLK_FREQUENCY),
                megahertz(at::UCLK_FREQUENCY),
            ],
        }
    }

    /// The speed of the link, 0 for an unknown one.
    fn speed(&self) -> u16 {
        let generation = self.word(at::PCIE_LINK_SPEED) as usize;
        SPEEDS.get(generation).copied().unwrap_or(0)
    }

    /// Writes the table for tools. Unknown values have all bits set: those of video, which the
    /// driver does not use, of XGMI's links, and of XCCs that the GPU does not have.
    pub fn gpu_metrics(&self, around: &MetricsSurroundings, to: &mut [u8; GPU_METRICS_BYTES]) {
        use MetricsId as Id;
        use MetricsUnit as Unit;
        to.fill(u8::MAX);
        let mut to = AttributeWriter::new(to);
        let version = around.version;
        for (id, unit, at) in [
            (
                Id::TemperatureHotspot,
                Unit::Degrees,
                at::MAX_SOCKET_TEMPERATURE,
            ),
            (Id::TemperatureMem, Unit::Degrees, at::MAX_HBM_TEMPERATURE),
            (Id::TemperatureVrsoc, Unit::Degrees, at::MAX_VR_TEMPERATURE),
            (Id::CurrSocketPower, Unit::Watts, at::SOCKET_POWER),
            (Id::AverageGfxActivity, Unit::Percent, at::SOCKET_GFX_BUSY),
            (
                Id::AverageUmcActivity,
                Unit::Percent,
                at::DRAM_BANDWIDTH_UTILIZATION,
            ),
        ] {
            to.halves(id, unit, 1, &[self.rounded(at)]);
        }
        to.long(
            Id::MemMaxBandwidth,
            Unit::Bandwidth,
            self.rounded(at::MAX_DRAM_BANDWIDTH),
        );
        to.long(
            Id::EnergyAccumulator,
            Unit::None,
            self.long(at::SOCKET_ENERGY_ACC),
        );
        to.long(Id::SystemClockCounter, Unit::Nanoseconds, around.now);
        to.long(
            Id::AccumulationCounter,
            Unit::None,
            self.word(at::ACCUMULATION_COUNTER).into(),
        );
        self.counts(&mut to, &THROTTLERS, at::PROCHOT_RESIDENCY_ACC);
        self.put_lock(&mut to, &around.xccs);
        self.put_links(&mut to, version);
        for (id, at) in [
            (Id::GfxActivityAcc, at::SOCKET_GFX_BUSY_ACC),
            (Id::MemActivityAcc, at::DRAM_BANDWIDTH_UTILIZATION_ACC),
            (Id::PcieBandwidthAcc, at::PCIE_BANDWIDTH_ACC),
        ] {
            to.long(id, Unit::None, self.rounded_long(at));
        }
        to.long(
            Id::PcieBandwidthInst,
            Unit::Bandwidth,
            self.rounded(at::PCIE_BANDWIDTH),
        );
        self.counts(&mut to, &LINK_ERRORS, at::PCIE_L0_TO_RECOVERY_COUNT_ACC);
        to.longs(Id::XgmiReadDataAcc, Unit::Kilobytes, XGMI_LINKS, &[]);
        to.longs(Id::XgmiWriteDataAcc, Unit::Kilobytes, XGMI_LINKS, &[]);
        to.halves(Id::XgmiLinkStatus, Unit::None, XGMI_LINKS, &[]);
        to.long(Id::FirmwareTimestamp, Unit::Ticks, self.long(at::TIMESTAMP));
        self.put_clocks(&mut to, &around.xccs);
        self.put_each_xcc(&mut to, version, &around.xccs);
        to.halves(Id::TemperatureHbm, Unit::Degrees, STACKS, &[]);
        to.halves(Id::TemperatureAid, Unit::Degrees, AIDS, &[]);
        to.halves(Id::TemperatureXcd, Unit::Degrees, XCCS, &[]);
        to.end();
    }

    /// Five counts from `at` on.
    fn counts(&self, to: &mut AttributeWriter<'_>, ids: &[MetricsId; 5], at: usize) {
        for (n, id) in ids.iter().enumerate() {
            to.long(*id, MetricsUnit::None, self.word(at + 4 * n).into());
        }
    }

    /// The XCCs whose clock is locked, from the first working one on.
    fn put_lock(&self, to: &mut AttributeWriter<'_>, xccs: &XccSet) {
        let first = xccs.iter().next().unwrap_or(0) as u32;
        let locked = Field::new(31, first).get(self.word(at::GFX_LOCK_XCD_MASK));
        to.words(
            MetricsId::GfxclkLockStatus,
            MetricsUnit::None,
            1,
            &[locked.into()],
        );
    }

    /// The links of PCI Express and XGMI.
    fn put_links(&self, to: &mut AttributeWriter<'_>, version: SmuVersion) {
        use MetricsUnit as Unit;
        let link = [self.word(at::PCIE_LINK_WIDTH).into(), self.speed().into()];
        let [width, speed] = match version.is_since(TELLS_LINK) {
            true => link.map(Some),
            false => [None; 2],
        };
        to.halves(MetricsId::PcieLinkWidth, Unit::None, 1, width.as_slice());
        to.halves(
            MetricsId::PcieLinkSpeed,
            Unit::TenthsOfTransfers,
            1,
            speed.as_slice(),
        );
        let [width, rate] = [at::XGMI_WIDTH, at::XGMI_BITRATE].map(|at| self.word(at).into());
        to.halves(MetricsId::XgmiLinkWidth, Unit::None, 1, &[width]);
        to.halves(MetricsId::XgmiLinkSpeed, Unit::Transfers, 1, &[rate]);
    }

    /// Clocks of graphics, SOC, video and memory.
    fn put_clocks(&self, to: &mut AttributeWriter<'_>, xccs: &XccSet) {
        use MetricsId as Id;
        let unit = MetricsUnit::Megahertz;
        let (graphics, count) = each(xccs, |n| self.rounded(at::GFXCLK_FREQUENCY + 4 * n));
        to.halves(Id::CurrentGfxclk, unit, XCCS, known(&graphics, count));
        let soc: [u64; AIDS] = core::array::from_fn(|n| self.rounded(at::SOCCLK_FREQUENCY + 4 * n));
        to.halves(Id::CurrentSocclk, unit, AIDS, &soc);
        to.halves(Id::CurrentVclk0, unit, AIDS, &[]);
        to.halves(Id::CurrentDclk0, unit, AIDS, &[]);
        let memory = self.rounded(at::UCLK_FREQUENCY);
        to.halves(Id::CurrentUclk, unit, 1, &[memory]);
    }

    /// What newer firmware tells of the link and of each XCC.
    fn put_each_xcc(&self, to: &mut AttributeWriter<'_>, version: SmuVersion, xccs: &XccSet) {
        use MetricsId as Id;
        use MetricsUnit as Unit;
        let other = version.is_since(TELLS_OTHER_END);
        let other = other.then(|| self.word(at::PCIE_OTHER_END_RECOVERY_ACC).into());
        to.longs(
            Id::PcieLcPerfOtherEndRecovery,
            Unit::None,
            1,
            other.as_slice(),
        );
        let tells = version.is_since(TELLS_EACH_XCC);
        let (busy, count) = each(xccs, |n| self.rounded(at::GFX_BUSY + 4 * n));
        let busy = if tells { known(&busy, count) } else { &[] };
        to.words(Id::GfxBusyInst, Unit::Percent, XCCS, busy);
        to.halves(Id::JpegBusy, Unit::Percent, JPEG, &[]);
        to.halves(Id::VcnBusy, Unit::Percent, AIDS, &[]);
        let counts = tells && version.is_since_of(COUNTS_LIMITS);
        for (id, at, tells) in [
            (Id::GfxBusyAcc, at::GFX_BUSY_ACC, tells),
            (
                Id::GfxBelowHostLimitPptAcc,
                at::GFXCLK_BELOW_HOST_LIMIT_PPT_ACC,
                counts,
            ),
            (
                Id::GfxBelowHostLimitThmAcc,
                at::GFXCLK_BELOW_HOST_LIMIT_THM_ACC,
                counts,
            ),
            (
                Id::GfxLowUtilizationAcc,
                at::GFXCLK_LOW_UTILIZATION_ACC,
                counts,
            ),
            (
                Id::GfxBelowHostLimitTotalAcc,
                at::GFXCLK_BELOW_HOST_LIMIT_TOTAL_ACC,
                counts,
            ),
        ] {
            let (values, count) = each(xccs, |n| self.rounded_long(at + 8 * n));
            let values = if tells { known(&values, count) } else { &[] };
            to.longs(id, Unit::None, XCCS, values);
        }
    }
}

/// The values of `xccs`, without gaps, and how many there are.
fn each(xccs: &XccSet, value: impl Fn(usize) -> u64) -> ([u64; XCCS], usize) {
    let mut values = [0; XCCS];
    let mut count = 0;
    for (place, n) in values.iter_mut().zip(xccs.iter()) {
        *place = value(n);
        count += 1;
    }
    (values, count)
}

fn known(values: &[u64; XCCS], count: usize) -> &[u64] {
    values.get(..count).unwrap_or(&[])
}
