// SPDX-License-Identifier: GPL-2.0
//! The measurements of MI300's SMU, and the described values for tools.

use hw::smu::interface::SmuInterface;
use hw::smu::link::PcieLink;
use hw::smu::readings::{MetricsSurroundings, SmuMeasurement};
use hw::smu::socket::{
    board_millivolts, tells_board, XccSet, GPU_METRICS_BYTES, TABLE_BYTES, TABLE_DWORDS,
};
use hw::smu::{SmuFeatures, SmuVersion};
use proptest::prelude::*;

const INTERFACE: SmuInterface = SmuInterface::V13_0_6;
const VERSION: SmuVersion = SmuVersion(0x0055_7f01);

/// A table that was written, with dwords at places in bytes.
fn table(values: &[(usize, u32)]) -> Vec<u32> {
    let mut dwords = vec![0; TABLE_DWORDS];
    dwords[0] = 1;
    for &(at, value) in values {
        dwords[at / 4] = value;
    }
    dwords
}

fn around(version: SmuVersion, xccs: &[u8]) -> MetricsSurroundings {
    MetricsSurroundings {
        link: PcieLink::UNKNOWN,
        version,
        xccs: XccSet::new(xccs.iter().copied()),
        now: 0x1122_3344_5566,
    }
}

fn described(dwords: &[u32], around: &MetricsSurroundings) -> Vec<u8> {
    let mut data = vec![0; INTERFACE.gpu_metrics_bytes()];
    let measured = SmuMeasurement::new(INTERFACE, dwords).unwrap();
    measured.gpu_metrics(around, &mut data);
    data
}

/// A value: its number, its unit, bytes of a part, and the parts.
struct Value {
    id: u32,
    unit: u32,
    bytes: usize,
    parts: Vec<u64>,
}

/// Reads the values as tools do, from their descriptions alone.
fn values(data: &[u8]) -> Vec<Value> {
    let long = |at: usize, bytes: usize| {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&data[at..at + bytes]);
        u64::from_le_bytes(word)
    };
    assert_eq!(long(0, 2) as usize, data.len());
    assert_eq!(data[2..4], [1, 9]);
    let mut at = 8;
    let mut values = Vec::new();
    for _ in 0..long(4, 4) {
        let word = long(at, 8);
        let bytes = match word >> 20 & 0xf {
            2 => 2,
            4 => 4,
            6 => 8,
            other => panic!("type {other}"),
        };
        at += 8;
        let count = (word & 0x3ff) as usize;
        values.push(Value {
            id: (word >> 10 & 0x3ff) as u32,
            unit: (word >> 24) as u32,
            bytes,
            parts: (0..count).map(|n| long(at + n * bytes, bytes)).collect(),
        });
        at += count * bytes;
    }
    assert_eq!(at, data.len());
    values
}

fn value(data: &[u8], id: u32) -> Value {
    let mut values = values(data).into_iter().filter(|value| value.id == id);
    let found = values.next().unwrap();
    assert!(values.next().is_none());
    found
}

#[test]
fn a_table_that_was_not_measured() {
    let mut dwords = table(&[(48, 300 << 10)]);
    assert!(SmuMeasurement::new(INTERFACE, &dwords).is_some());
    dwords[0] = 0;
    assert!(SmuMeasurement::new(INTERFACE, &dwords).is_none());
    assert!(SmuMeasurement::new(INTERFACE, &dwords[1..]).is_none());
    assert_eq!(INTERFACE.table_dwords() * 4, TABLE_BYTES);
}

#[test]
fn single_values() {
    let dwords = table(&[
        (4, (63 << 10) + 0x100),
        (12, (70 << 10) + 0x200),
        (48, (287 << 10) + 0x3ff),
        (60, 0x2_0000),
        (64, 1),
        (112, (1600 << 10) + 0x200),
        (1372, (1650 << 10) + 0x1ff),
        (1404, 0xabcd_ef01),
        (1408, 0x2345_6789),
    ]);
    let measured = SmuMeasurement::new(INTERFACE, &dwords).unwrap();
    assert_eq!(measured.serial(), 0x2345_6789_abcd_ef01);
    let readings = measured.readings(SmuFeatures::default());
    assert_eq!(readings.edge, None);
    assert_eq!([readings.junction, readings.memory], [63_250, 70_500]);
    assert_eq!(readings.milliwatts, 287_999);
    assert_eq!(readings.microjoules, 0x1_0002_0000 * 15_259 / 1000);
    assert_eq!(readings.clocks, [1650, 1601]);
    // It has no part that only the first die measures.
    let same = measured.without_board().readings(SmuFeatures::default());
    assert_eq!(same, readings);
}

#[test]
fn values_are_described() {
    let xccs: [u8; 8] = core::array::from_fn(|n| n as u8);
    let dwords: Vec<u32> = (0..TABLE_DWORDS as u32).map(|n| (n + 1) << 10).collect();
    let data = described(&dwords, &around(VERSION, &xccs));
    assert_eq!(data.len(), GPU_METRICS_BYTES);
    let ids: Vec<u32> = values(&data).iter().map(|value| value.id).collect();
    // All that there are, in order, but for the number of partitions and the temperature of MIDs.
    let wanted: Vec<u32> = (0..52).filter(|id| ![38, 49].contains(id)).collect();
    assert_eq!(ids, wanted);
    // The place of each value's first part in the SMU's table, in bytes, and its unit.
    for (id, place, unit, bytes) in [
        (0, 4, 2, 2),
        (1, 12, 2, 2),
        (2, 8, 2, 2),
        (3, 48, 3, 2),
        (4, 1272, 10, 2),
        (5, 1276, 10, 2),
        (6, 1304, 8, 8),
        (23, 1724, 8, 8),
        (33, 1372, 1, 2),
        (34, 116, 1, 2),
        (37, 112, 1, 2),
        (40, 1912, 10, 4),
    ] {
        let value = value(&data, id);
        assert_eq!(value.parts[0], place / 4 + 1, "value {id}");
        assert_eq!((value.unit, value.bytes), (unit, bytes), "value {id}");
    }
    // Those that have no bits behind the point, and those of eight bytes that have.
    for (id, place) in [
        (9, 0),
        (10, 1348),
        (14, 1364),
        (24, 1740),
        (28, 1756),
        (39, 2008),
    ] {
        assert_eq!(
            value(&data, id).parts,
            [(place / 4 + 1) << 10],
            "value {id}"
        );
    }
    let long = |place: u64| (place / 4 + 1) << 10 | (place / 4 + 2) << 42;
    for (id, place) in [(7, 60), (32, 52)] {
        assert_eq!(value(&data, id).parts, [long(place)], "value {id}");
    }
    for (id, place) in [
        (20, 1288),
        (21, 1308),
        (22, 1316),
        (43, 1944),
        (44, 2012),
        (45, 2076),
        (46, 2204),
        (47, 2140),
    ] {
        assert_eq!(value(&data, id).parts[0], long(place) >> 10, "value {id}");
    }
    assert_eq!(value(&data, 8).parts, [0x1122_3344_5566]);
    // What the driver does not have: links of XGMI, video, other temperatures.
    for id in [29, 30, 31, 35, 36, 41, 42, 48, 50, 51] {
        let value = value(&data, id);
        let ones = u64::MAX >> (64 - 8 * value.bytes);
        assert!(value.parts.iter().all(|part| *part == ones), "value {id}");
    }
}

#[test]
fn xccs_that_work() {
    let clocks: Vec<(usize, u32)> = (0..8).map(|n| (1372 + 4 * n, (n as u32) << 10)).collect();
    let dwords = table(&[clocks, vec![(1368, 0b1011_0100)]].concat());
    let data = described(&dwords, &around(VERSION, &[2, 3, 7, 200]));
    let none = u64::from(u16::MAX);
    assert_eq!(
        value(&data, 33).parts,
        [2, 3, 7, none, none, none, none, none]
    );
    // From the first working one on.
    assert_eq!(value(&data, 15).parts, [0b10_1101]);
}

#[test]
fn links() {
    let speed = |generation| {
        let dwords = table(&[(1904, generation), (1908, 16), (1132, 16), (1136, 32)]);
        let data = described(&dwords, &around(VERSION, &[0]));
        assert_eq!(value(&data, 16).parts, [16]);
        assert_eq!([18, 19].map(|id| value(&data, id).parts[0]), [16, 32]);
        value(&data, 17).parts[0]
    };
    assert_eq!([0, 1, 4, 5, 6, 7].map(speed), [25, 25, 160, 320, 640, 0]);
}

#[test]
fn older_firmware_tells_less() {
    let dwords = table(&[(1904, 5), (1912, 7 << 10), (2008, 9)]);
    let first = |version, id| {
        let value = value(&described(&dwords, &around(SmuVersion(version), &[0])), id);
        value.parts[0] != u64::MAX >> (64 - 8 * value.bytes)
    };
    for (id, since) in [
        (17, 0x0055_6300),
        (39, 0x0055_7600),
        (40, 0x0055_6f00),
        (43, 0x0055_6f00),
        (44, 0x0055_7e00),
        (47, 0x0055_7e00),
    ] {
        assert!(first(since, id) && !first(since - 1, id), "value {id}");
    }
    // Another program has versions of its own.
    assert!(first(0x0755_0e00, 44) && !first(0x0755_0dff, 44) && !first(0x0455_7e00, 44));
    let tells = |version| tells_board(SmuVersion(version));
    assert!(tells(0x0055_7f01) && !tells(0x0055_7f00) && !tells(0x0455_7f01));
    assert!(tells(0x0755_1000) && !tells(0x0755_0fff));
    assert_eq!(board_millivolts(&[48_000, 1, 2]), Some(48_000));
}

proptest! {
    #[test]
    fn any_table_is_taken(
        dwords in prop::collection::vec(any::<u32>(), TABLE_DWORDS),
        version: u32,
        xccs in prop::collection::vec(any::<u8>(), 0..12),
    ) {
        if let Some(measured) = SmuMeasurement::new(INTERFACE, &dwords) {
            let _ = measured.readings(SmuFeatures(0));
            let data = described(&dwords, &around(SmuVersion(version), &xccs));
            prop_assert_eq!(values(&data).len(), 50);
        }
    }
}
