// SPDX-License-Identifier: GPL-2.0
//! The SMU's measurements, and the values for tools.

use hw::smu::graphics_millivolts;
use hw::smu::link::{PcieLink, UNKNOWN};
use hw::smu::metrics::{SmuMetrics, GPU_METRICS_BYTES, TABLE_BYTES, TABLE_DWORDS};
use hw::smu::SmuFeatures;
use proptest::prelude::*;

/// A table with `values` of two bytes at places.
fn table(values: &[(usize, u16)]) -> [u32; TABLE_DWORDS] {
    let mut bytes = [0; TABLE_BYTES];
    for &(at, value) in values {
        bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    from_bytes(&bytes)
}

fn from_bytes(bytes: &[u8]) -> [u32; TABLE_DWORDS] {
    std::array::from_fn(|n| u32::from_le_bytes(bytes[4 * n..4 * n + 4].try_into().unwrap()))
}

const LINK: PcieLink = PcieLink {
    width: 16,
    speed: 160,
};

fn half(data: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(data[at..at + 2].try_into().unwrap())
}

fn long(data: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(data[at..at + 8].try_into().unwrap())
}

#[test]
fn a_table_that_was_not_written() {
    assert_eq!(SmuMetrics::new(&[0; TABLE_DWORDS]), None);
    assert!(SmuMetrics::new(&table(&[(0x20, 1)])).is_some());
}

#[test]
fn fields_of_the_table() {
    // Each place has its own number, so that none is taken for another.
    let values: Vec<(usize, u16)> = (0..TABLE_BYTES / 2).map(|n| (2 * n, n as u16)).collect();
    let metrics = SmuMetrics::new(&table(&values)).unwrap();
    let at = |at: usize| (at / 2) as u16;
    let wide = |place| u32::from(at(place)) | u32::from(at(place + 2)) << 16;
    let long = |place| u64::from(wide(place)) | u64::from(wide(place + 4)) << 32;
    assert_eq!(metrics.current.graphics, at(0));
    assert_eq!(metrics.current.video, [at(2), at(4)]);
    assert_eq!(
        [metrics.current.soc, metrics.current.memory],
        [at(6), at(8)]
    );
    assert_eq!(metrics.average.graphics, at(0x10));
    assert_eq!(
        [metrics.average.soc, metrics.average.memory],
        [at(0x12), at(0x14)]
    );
    assert_eq!(metrics.busy, [at(0x16), at(0x18)]);
    assert_eq!(metrics.power, at(0x1e));
    assert_eq!(metrics.temperatures, [at(0x20), at(0x22), at(0x24)]);
    assert_eq!(metrics.regulators, [at(0x26), at(0x28), at(0x2a)]);
    assert_eq!(metrics.throttlers, wide(0x2c));
    assert_eq!(metrics.serial, long(0x30));
    assert_eq!(metrics.stacks, [at(0x38), at(0x3a), at(0x3c), at(0x3e)]);
    assert_eq!(metrics.busy_count, [wide(0x40), wide(0x44)]);
    assert_eq!(metrics.energy, long(0x48));
    assert_eq!(metrics.time, long(0x50));
}

#[test]
fn single_values() {
    let values: Vec<(usize, u16)> = (0..TABLE_BYTES / 2).map(|n| (2 * n, n as u16)).collect();
    let metrics = SmuMetrics::new(&table(&values)).unwrap();
    let readings = metrics.readings(SmuFeatures::default());
    let at = |at: u32| at / 2;
    assert_eq!(readings.edge, Some(at(0x20) * 1000));
    assert_eq!(
        [readings.junction, readings.memory, readings.milliwatts],
        [0x22, 0x24, 0x1e].map(|place| at(place) * 1000)
    );
    // Averages, unless a feature sets the clock.
    assert_eq!(readings.clocks, [at(0x10), at(0x14)]);
    let clocks = |features| metrics.readings(SmuFeatures(features)).clocks;
    assert_eq!(clocks(1 << 1), [at(0), at(0x14)]);
    assert_eq!(clocks(1 << 2), [at(0x10), at(8)]);
    let readings = metrics.without_board().readings(SmuFeatures::default());
    assert_eq!([readings.milliwatts, readings.microjoules as u32], [0; 2]);
}

#[test]
fn what_tools_read() {
    let values: Vec<(usize, u16)> = (0..TABLE_BYTES / 2).map(|n| (2 * n, n as u16)).collect();
    let metrics = SmuMetrics::new(&table(&values)).unwrap();
    let data = metrics.gpu_metrics(LINK, 0x1122_3344_5566);
    assert_eq!(half(&data, 0), 120);
    assert_eq!(data[2..4], [1, 3]);
    // Places of the same fields here and in the SMU's table.
    for (ours, theirs) in [
        (0x04, 0x20),
        (0x06, 0x22),
        (0x08, 0x24),
        (0x0a, 0x26),
        (0x0c, 0x28),
        (0x0e, 0x2a),
        (0x10, 0x16),
        (0x12, 0x18),
        (0x16, 0x1e),
        (0x28, 0x10),
        (0x2a, 0x12),
        (0x2c, 0x14),
        (0x36, 0x00),
        (0x38, 0x06),
        (0x3a, 0x08),
        (0x3c, 0x02),
        (0x3e, 0x04),
        (0x58, 0x38),
        (0x5a, 0x3a),
        (0x5c, 0x3c),
        (0x5e, 0x3e),
    ] {
        assert_eq!(usize::from(half(&data, ours)), theirs / 2, "{ours:#x}");
    }
    assert_eq!(long(&data, 0x18), metrics.energy);
    assert_eq!(long(&data, 0x20), 0x1122_3344_5566);
    assert_eq!(long(&data, 0x44) as u32, metrics.throttlers);
    assert_eq!(
        [half(&data, 0x48), half(&data, 0x4a), half(&data, 0x4c)],
        [0, 16, 160]
    );
    assert_eq!(long(&data, 0x50) as u32, metrics.busy_count[0]);
    assert_eq!(long(&data, 0x54) as u32, metrics.busy_count[1]);
    assert_eq!(long(&data, 0x60), metrics.time);
    // Not known: load of video, a second one's clocks, voltages; and the gaps between fields.
    for at in [0x14, 0x32, 0x34, 0x40, 0x42, 0x4e, 0x68, 0x6a, 0x6c, 0x6e] {
        assert_eq!(half(&data, at), u16::MAX, "{at:#x}");
    }
    // Averages of video's clocks: amdgpu has zero.
    assert_eq!([half(&data, 0x2e), half(&data, 0x30)], [0; 2]);
}

#[test]
fn what_holds_clocks_down() {
    let common = |throttlers: u32| {
        let metrics = SmuMetrics {
            throttlers,
            ..SmuMetrics::default()
        };
        long(&metrics.gpu_metrics(LINK, 0), 0x70)
    };
    assert_eq!(common(0), 0);
    assert_eq!(common(1 | 1 << 6 | 1 << 19), 1 | 1 << 32 | 1 << 23);
    assert_eq!(common(1 << 13), 1 << 40);
    assert_eq!(common(1 << 5 | 1 << 31), 0, "nobody knows what these are");
}

#[test]
fn links() {
    let x16 = 6 << 4;
    let gen4 = 3 << 5;
    assert_eq!(PcieLink::new(x16, gen4, 0), LINK);
    assert_eq!(PcieLink::new(x16, gen4, 1 << 15 | 72 << 8).speed, 200);
    let none = PcieLink::new(7 << 4, 7 << 5, 0);
    assert_eq!([none.width, none.speed], [UNKNOWN; 2]);
}

proptest! {
    #[test]
    fn any_table_is_taken(
        bytes in prop::collection::vec(any::<u8>(), TABLE_BYTES),
        registers: [u32; 3],
        now: u64,
    ) {
        if let Some(metrics) = SmuMetrics::new(&from_bytes(&bytes)) {
            let [width, speed, extended] = registers;
            let data = metrics.gpu_metrics(PcieLink::new(width, speed, extended), now);
            prop_assert_eq!(data.len(), GPU_METRICS_BYTES);
            let exact = u128::from(metrics.energy) * 15_259 / 1000;
            let shown = u128::from(metrics.readings(SmuFeatures::default()).microjoules);
            let most = u128::from(u64::MAX);
            prop_assert!(shown == exact || shown >= most - 15_259 || exact > most);
        }
    }
}

#[test]
fn voltage_of_a_code() {
    assert_eq!([0, 112, 247].map(graphics_millivolts), [1550, 850, 6]);
    // Those that mean off, and a bit that does not belong to the code.
    assert_eq!([248, 255].map(graphics_millivolts), [0, 0]);
    assert_eq!(graphics_millivolts(0x100 | 112), 850);
}
