// SPDX-License-Identifier: GPL-2.0
//! A comparison that ends a wait. WAIT_REG_MEM of PM4 and POLL_REGMEM of SDMA have the same
//! encoding.

/// A comparison: the function, the reference value and the mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition {
    func: u32,
    reference: u32,
    mask: u32,
}

impl Condition {
    /// The condition of a packet: its function field, of three bits, its reference value and its
    /// mask. None for function 7, which is undefined.
    pub fn new(func: u32, reference: u32, mask: u32) -> Option<Condition> {
        (func < 7).then_some(Condition {
            func,
            reference,
            mask,
        })
    }

    /// The same with the mask applied to the reference. It is for a wait that first writes its
    /// reference to a register, where the mask only selects the bits of the answer that count.
    pub fn masked(&self) -> Condition {
        Condition {
            reference: self.reference & self.mask,
            ..*self
        }
    }

    /// Returns whether `value` ends the wait.
    pub fn holds(&self, value: u32) -> bool {
        let value = value & self.mask;
        match self.func {
            0 => true,
            1 => value < self.reference,
            2 => value <= self.reference,
            3 => value == self.reference,
            4 => value != self.reference,
            5 => value >= self.reference,
            _ => value > self.reference,
        }
    }

    /// The reference value.
    pub fn reference(&self) -> u32 {
        self.reference
    }

    /// Returns whether it holds for any value.
    pub fn is_always(&self) -> bool {
        self.func == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions() {
        let holds = |func, value| Condition::new(func, 5, 0xff).unwrap().holds(value);
        let table: Vec<[bool; 3]> = (0..7)
            .map(|func| [holds(func, 0x104), holds(func, 0x105), holds(func, 0x106)])
            .collect();
        assert_eq!(
            table,
            [
                [true, true, true],
                [true, false, false],
                [true, true, false],
                [false, true, false],
                [true, false, true],
                [false, true, true],
                [false, false, true],
            ]
        );
        assert_eq!(Condition::new(7, 5, 0xff), None);
    }

    #[test]
    fn masked_references() {
        // A flush request and the bit of its acknowledge.
        let wait = Condition::new(3, 0x7c_0001, 1).unwrap();
        assert!(!wait.holds(1));
        assert!(wait.masked().holds(0xf1));
        assert!(!wait.masked().holds(0xf0));
        assert_eq!(wait.masked().masked(), wait.masked());
    }
}
