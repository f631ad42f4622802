// SPDX-License-Identifier: GPL-2.0
//! The form of gpu_metrics v1.9: values one after another, each with its description (amdgpu:
//! kgd_pp_interface.h).

use crate::bits::Field;

/// The format and content of the table.
const GPU_METRICS_VERSION: [u8; 2] = [1, 9];

/// Numbers of values (amdgpu: amdgpu_metrics_attr_id).
#[derive(Clone, Copy)]
#[repr(u32)]
pub(super) enum MetricsId {
    TemperatureHotspot = 0,
    TemperatureMem = 1,
    TemperatureVrsoc = 2,
    CurrSocketPower = 3,
    AverageGfxActivity = 4,
    AverageUmcActivity = 5,
    MemMaxBandwidth = 6,
    EnergyAccumulator = 7,
    SystemClockCounter = 8,
    AccumulationCounter = 9,
    ProchotResidencyAcc = 10,
    PptResidencyAcc = 11,
    SocketThmResidencyAcc = 12,
    VrThmResidencyAcc = 13,
    HbmThmResidencyAcc = 14,
    GfxclkLockStatus = 15,
    PcieLinkWidth = 16,
    PcieLinkSpeed = 17,
    XgmiLinkWidth = 18,
    XgmiLinkSpeed = 19,
    GfxActivityAcc = 20,
    MemActivityAcc = 21,
    PcieBandwidthAcc = 22,
    PcieBandwidthInst = 23,
    PcieL0ToRecovCountAcc = 24,
    PcieReplayCountAcc = 25,
    PcieReplayRoverCountAcc = 26,
    PcieNakSentCountAcc = 27,
    PcieNakRcvdCountAcc = 28,
    XgmiReadDataAcc = 29,
    XgmiWriteDataAcc = 30,
    XgmiLinkStatus = 31,
    FirmwareTimestamp = 32,
    CurrentGfxclk = 33,
    CurrentSocclk = 34,
    CurrentVclk0 = 35,
    CurrentDclk0 = 36,
    CurrentUclk = 37,
    PcieLcPerfOtherEndRecovery = 39,
    GfxBusyInst = 40,
    JpegBusy = 41,
    VcnBusy = 42,
    GfxBusyAcc = 43,
    GfxBelowHostLimitPptAcc = 44,
    GfxBelowHostLimitThmAcc = 45,
    GfxLowUtilizationAcc = 46,
    GfxBelowHostLimitTotalAcc = 47,
    TemperatureHbm = 48,
    TemperatureAid = 50,
    TemperatureXcd = 51,
}

/// Units of values (amdgpu: amdgpu_metrics_attr_unit).
#[derive(Clone, Copy)]
#[repr(u32)]
pub(super) enum MetricsUnit {
    None = 0,
    Megahertz = 1,
    Degrees = 2,
    Watts = 3,
    Nanoseconds = 4,
    /// 10 ns.
    Ticks = 5,
    /// GT/s.
    Transfers = 6,
    TenthsOfTransfers = 7,
    /// GB/s.
    Bandwidth = 8,
    Kilobytes = 9,
    Percent = 10,
}

/// Types of values (amdgpu: amdgpu_metrics_attr_type): unsigned, of 16, 32 and 64 bits.
#[derive(Clone, Copy)]
#[repr(u32)]
enum MetricsType {
    Half = 2,
    Word = 4,
    Long = 6,
}

impl MetricsType {
    const fn bytes(self) -> usize {
        match self {
            Self::Half => 2,
            Self::Word => 4,
            Self::Long => 8,
        }
    }
}

/// Writes values one after another, each with its description (amdgpu: AMDGPU_METRICS_ENC_ATTR).
pub(super) struct AttributeWriter<'a> {
    bytes: &'a mut [u8],
    at: usize,
    count: u32,
}

impl<'a> AttributeWriter<'a> {
    const UNIT: Field = Field::new(31, 24);
    const TYPE: Field = Field::new(23, 20);
    const ID: Field = Field::new(19, 10);
    const COUNT: Field = Field::new(9, 0);
    /// Bytes of the header: size, version, number of values.
    const HEADER: usize = 8;

    pub(super) fn new(bytes: &'a mut [u8]) -> Self {
        Self {
            bytes,
            at: Self::HEADER,
            count: 0,
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        let end = self.at.saturating_add(bytes.len());
        if let Some(place) = self.bytes.get_mut(self.at..end) {
            place.copy_from_slice(bytes);
        }
        self.at = end;
    }

    /// A value of `places` parts, of which the first ones are known.
    fn put(&mut self, of: (MetricsId, MetricsUnit, MetricsType), places: usize, parts: &[u64]) {
        let (id, unit, kind) = of;
        let description = Self::UNIT.put(unit as u32)
            | Self::TYPE.put(kind as u32)
            | Self::ID.put(id as u32)
            | Self::COUNT.put(places as u32);
        self.write(&u64::from(description).to_le_bytes());
        let end = self.at.saturating_add(places * kind.bytes());
        for part in parts.iter().take(places) {
            let bytes = part.to_le_bytes();
            self.write(bytes.get(..kind.bytes()).unwrap_or(&[]));
        }
        self.at = end;
        self.count += 1;
    }

    pub(super) fn halves(
        &mut self,
        id: MetricsId,
        unit: MetricsUnit,
        places: usize,
        parts: &[u64],
    ) {
        self.put((id, unit, MetricsType::Half), places, parts);
    }

    pub(super) fn words(&mut self, id: MetricsId, unit: MetricsUnit, places: usize, parts: &[u64]) {
        self.put((id, unit, MetricsType::Word), places, parts);
    }

    pub(super) fn longs(&mut self, id: MetricsId, unit: MetricsUnit, places: usize, parts: &[u64]) {
        self.put((id, unit, MetricsType::Long), places, parts);
    }

    pub(super) fn long(&mut self, id: MetricsId, unit: MetricsUnit, value: u64) {
        self.longs(id, unit, 1, &[value]);
    }

    /// Writes the header.
    pub(super) fn end(mut self) {
        self.at = 0;
        self.write(&(self.bytes.len() as u16).to_le_bytes());
        self.write(&GPU_METRICS_VERSION);
        let count = self.count;
        self.write(&count.to_le_bytes());
    }
}
