// SPDX-License-Identifier: GPL-2.0
//! The form of what firmware reads: the bits of each dword that a driver chooses, and the value of
//! all others.
//!
//! What firmware does with other values is written nowhere: amdgpu writes these, and nothing else
//! was ever seen to work.

/// A dword that is not all free: its place, its free bits, the value of the others, and a message
/// for another value.
pub type Row = (usize, u32, u32, &'static str);

/// The form of a packet or descriptor. Dwords that are not named are 0.
pub struct Form {
    /// Dwords that are all free.
    pub free: &'static [usize],
    /// Dwords with fixed bits.
    pub rows: &'static [Row],
    /// The message for a dword that is not named, and not 0.
    pub zero: &'static str,
}

/// The message for a dword that has not the form of `row`.
pub fn misfits(word: u32, row: &Row) -> Option<&'static str> {
    let &(_, free, value, message) = row;
    ((word ^ value) & !free != 0).then_some(message)
}

impl Form {
    /// The message for the first of `words`, which begin with dword `first`, that has not its form.
    pub fn misfit(&self, first: usize, words: &[u32]) -> Option<&'static str> {
        (first..).zip(words).find_map(|(at, &word)| {
            if self.free.contains(&at) {
                return None;
            }
            let row = self.rows.iter().find(|row| row.0 == at);
            misfits(word, row.unwrap_or(&(at, 0, 0, self.zero)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_bits_are_compared() {
        let form = Form {
            free: &[2],
            rows: &[(0, 0xff, 0x100, "zeroth")],
            zero: "zero",
        };
        let misfit = |words: &[u32]| form.misfit(0, words);
        assert_eq!(misfit(&[0x100, 0, 77]), None);
        assert_eq!(misfit(&[0x1ff]), None);
        assert_eq!(misfit(&[0xff, 0]), Some("zeroth"));
        assert_eq!(misfit(&[0x300, 0]), Some("zeroth"));
        assert_eq!(misfit(&[0x100, 1]), Some("zero"));
        assert_eq!(form.misfit(2, &[77]), None);
        assert_eq!(form.misfit(2, &[77, 1]), Some("zero"));
    }
}
