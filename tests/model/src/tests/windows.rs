// SPDX-License-Identifier: GPL-2.0
//! COPY_LINEAR_SUBWIN against a byte-wise reference.

use proptest::prelude::*;

use super::rig::*;

const VA: u64 = 0x1_0000_0000;
const FROM: u64 = 0x10_0000;
const TO: u64 = 0x40_0000;
/// Bytes compared around each side.
const SPAN: u64 = 0x10_0000;

#[derive(Debug, Clone)]
struct Box3 {
    element: u32,
    from: [u64; 3],
    to: [u64; 3],
    size: [u64; 3],
    /// Pitch and slice of source and destination.
    from_strides: [u64; 2],
    to_strides: [u64; 2],
    from_base: u64,
    to_base: u64,
}

impl Box3 {
    fn words(&self) -> [u32; 13] {
        let xy = |at: [u64; 3]| (at[0] | at[1] << 16) as u32;
        let z_pitch = |z: u64, pitch: u64| (z | (pitch - 1) << 13) as u32;
        let from = VA + FROM + self.from_base;
        let to = VA + TO + self.to_base;
        [
            1 | 4 << 8 | self.element << 29,
            lo(from),
            hi(from),
            xy(self.from),
            z_pitch(self.from[2], self.from_strides[0]),
            (self.from_strides[1] - 1) as u32,
            lo(to),
            hi(to),
            xy(self.to),
            z_pitch(self.to[2], self.to_strides[0]),
            (self.to_strides[1] - 1) as u32,
            ((self.size[0] - 1) | (self.size[1] - 1) << 16) as u32,
            (self.size[2] - 1) as u32,
        ]
    }

    fn reference(&self, source: &[u8], sink: &mut [u8]) {
        let bytes = 1u64 << self.element;
        for z in 0..self.size[2] {
            for y in 0..self.size[1] {
                for x in 0..self.size[0] {
                    for byte in 0..bytes {
                        let offset = |at: [u64; 3], strides: [u64; 2], base: u64| {
                            let index =
                                (at[2] + z) * strides[1] + (at[1] + y) * strides[0] + at[0] + x;
                            (base + index * bytes + byte) as usize
                        };
                        sink[offset(self.to, self.to_strides, self.to_base)] =
                            source[offset(self.from, self.from_strides, self.from_base)];
                    }
                }
            }
        }
    }
}

/// Boxes whose pitch and slice are legal and that fit in SPAN.
fn boxes() -> impl Strategy<Value = Box3> {
    let three = |max: u64| [0..max, 0..max, 0..max];
    (
        0u32..5,
        three(8),
        three(8),
        [1u64..20, 1u64..10, 1u64..6],
        [0u64..8, 0u64..8, 0u64..8, 0u64..8],
        [0u64..16, 0u64..16],
    )
        .prop_map(|(element, from, to, size, slack, bases)| {
            let even = |n: u64| n.next_multiple_of(4);
            let strides = |at: [u64; 3], slack: &[u64]| {
                let pitch = even(at[0] + size[0] + slack[0]);
                [pitch, pitch * (at[1] + size[1]) + even(slack[1])]
            };
            Box3 {
                element,
                from,
                to,
                size,
                from_strides: strides(from, &slack[..2]),
                to_strides: strides(to, &slack[2..]),
                from_base: bases[0] * 4,
                to_base: bases[1] * 4,
            }
        })
}

fn check(case: &Box3) {
    let mut rig = Rig::new();
    let mut ring = rig.ring(0, 1, 8);
    for n in 0..4 {
        rig.map_large(8, VA + n * 2 * MIB, n * 2 * MIB, RW);
    }
    let source: Vec<u8> = (0..SPAN as u32)
        .map(|n| (n.wrapping_mul(0x9e37_79b1) >> 24) as u8)
        .collect();
    rig.poke(vram(FROM), &source);
    let mut expected = vec![0; SPAN as usize];
    case.reference(&source, &mut expected);
    rig.run(&mut ring, &case.words());
    assert!(rig.peek(vram(TO), SPAN) == expected, "{case:?}");
    let bytes = case.size.iter().product::<u64>() << case.element;
    assert_eq!(rig.gpu.summary.bytes_copied.get(), bytes);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96,
        failure_persistence: None,
        ..Default::default()
    })]
    #[test]
    fn random_boxes(case in boxes()) {
        check(&case);
    }
}

fn whole(element: u32, size: [u64; 3]) -> Box3 {
    Box3 {
        element,
        from: [0; 3],
        to: [0; 3],
        size,
        from_strides: [size[0], size[0] * size[1]],
        to_strides: [size[0], size[0] * size[1]],
        from_base: 0,
        to_base: 0,
    }
}

#[test]
fn rows_and_slices_that_follow_each_other() {
    for element in 0..5 {
        check(&whole(element, [16, 8, 4]));
    }
}

#[test]
fn widest_row() {
    check(&whole(0, [16384, 3, 1]));
}

#[test]
fn odd_pitch_of_a_single_row() {
    check(&whole(0, [7, 1, 1]));
}

#[test]
fn odd_pitch_is_refused() {
    let mut rig = Rig::new();
    let mut ring = rig.ring(0, 1, 8);
    rig.map_large(8, VA, 0, RW);
    rig.submit(&mut ring, &whole(0, [7, 2, 1]).words());
    rig.drain(0).unwrap();
    assert_eq!(rig.iv_head(0)[1], 247);
}
