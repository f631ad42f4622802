// SPDX-License-Identifier: GPL-2.0
//! The operations of the ATOMIC packet, done as real atomics on the shared memory.

use std::sync::atomic::Ordering;

use crate::mapping::Span;

/// Bit for 64-bit operands.
const WIDE: u32 = 0x20;
/// Bit for no return value, which the engine does not use anyway.
const NO_RETURN: u32 = 0x40;

/// The operation without width and return bits.
fn kind(op: u32) -> u32 {
    op & !(WIDE | NO_RETURN)
}

/// Bytes of the operand, if `op` is an operation of the engine.
pub fn size(op: u32) -> Option<u64> {
    matches!(kind(op), 0x07 | 0x08 | 0x0f..=0x19).then_some(if op & WIDE != 0 { 8 } else { 4 })
}

/// Applies `op` to the aligned word at the beginning of `span`. Returns false if it was a
/// compare-and-swap that did not swap.
pub fn apply(op: u32, span: Span<'_>, operand: u64, compare: u64) -> bool {
    if op & WIDE != 0 {
        let Some(word) = span.atomic64() else {
            return true;
        };
        if kind(op) == 0x08 {
            let result =
                word.compare_exchange(compare, operand, Ordering::AcqRel, Ordering::Acquire);
            return result.is_ok();
        }
        let _ = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| {
            let signed = (old as i64, operand as i64);
            Some(combine(op, old, operand, signed))
        });
    } else {
        let Some(word) = span.atomic32() else {
            return true;
        };
        if kind(op) == 0x08 {
            let (compare, operand) = (compare as u32, operand as u32);
            let result =
                word.compare_exchange(compare, operand, Ordering::AcqRel, Ordering::Acquire);
            return result.is_ok();
        }
        let operand = operand as u32;
        let _ = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| {
            let signed = (i64::from(old as i32), i64::from(operand as i32));
            Some(combine(op, old.into(), operand.into(), signed) as u32)
        });
    }
    true
}

/// The new value; arithmetic modulo 2^64, of which a 32-bit operation takes the low half.
fn combine(op: u32, old: u64, operand: u64, (old_signed, signed): (i64, i64)) -> u64 {
    match kind(op) {
        0x07 => operand,
        0x0f => old.wrapping_add(operand),
        0x10 => old.wrapping_sub(operand),
        0x11 => old_signed.min(signed) as u64,
        0x12 => old.min(operand),
        0x13 => old_signed.max(signed) as u64,
        0x14 => old.max(operand),
        0x15 => old & operand,
        0x16 => old | operand,
        0x17 => old ^ operand,
        0x18 if old >= operand => 0,
        0x18 => old + 1,
        _ if old == 0 || old > operand => operand,
        _ => old - 1,
    }
}

#[cfg(test)]
mod tests {
    use crate::memory::{Access, Bus, Phys, Space};

    use super::*;

    fn run(op: u32, old: u64, operand: u64, compare: u64) -> (u64, bool) {
        let bus = Bus::new(0x1000).unwrap();
        let view = bus.view();
        let phys = Phys {
            space: Space::Vram,
            addr: 8,
        };
        view.write(phys, &old.to_le_bytes()).unwrap();
        let span = view.span(phys, 8, Access::Atomic).unwrap();
        let swapped = apply(op, span, operand, compare);
        (view.load64(phys).unwrap(), swapped)
    }

    #[test]
    fn operations() {
        // (32-bit operation, old, operand, new)
        for (op, old, operand, new) in [
            (0x07, 5u32, 9, 9u32),
            (0x0f, 5, u32::MAX, 4),
            (0x10, 5, 6, u32::MAX),
            (0x11, 5, -3i32 as u32, -3i32 as u32),
            (0x12, 5, u32::MAX, 5),
            (0x13, 5, -3i32 as u32, 5),
            (0x14, 5, u32::MAX, u32::MAX),
            (0x15, 12, 10, 8),
            (0x16, 12, 10, 14),
            (0x17, 12, 10, 6),
            (0x18, 12, 13, 13),
            (0x18, 13, 13, 0),
            (0x19, 0, 13, 13),
            (0x19, 14, 13, 13),
            (0x19, 13, 13, 12),
        ] {
            let (got, _) = run(op, old.into(), operand.into(), 0);
            assert_eq!(got, u64::from(new), "{op:#x}");
            let wide = |v: u32| i64::from(v as i32) as u64;
            let (got, _) = run(op + WIDE + NO_RETURN, wide(old), wide(operand), 0);
            assert_eq!(got, wide(new), "{op:#x} 64-bit");
        }
    }

    #[test]
    fn compare_and_swap() {
        assert_eq!(run(0x28, 7, 9, 7), (9, true));
        assert_eq!(run(0x28, 7, 9, 8), (7, false));
        assert_eq!(run(0x08, 0xff_0000_0007, 9, 7), (0xff_0000_0009, true));
    }

    #[test]
    fn sizes() {
        assert_eq!(size(0x2f), Some(8));
        assert_eq!(size(0x4f), Some(4));
        assert_eq!(size(0x09), None);
    }
}
