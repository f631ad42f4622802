// SPDX-License-Identifier: GPL-2.0
//! How many XCCs and AIDs a chip has, and which of the XCCs work. Each AID carries two XCCs, an
//! MMHUB, and SDMA engines.

/// Most XCCs and AIDs.
pub const XCCS: usize = 8;
/// XCCs of an AID.
const PER_AID: usize = 2;
/// Bytes of the registers of an AID and its XCCs.
const REGISTERS: u64 = 512 << 10;

/// See above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// XCCs, those that do not work included.
    pub xccs: usize,
    /// XCCs that are fused off, a bit each.
    pub harvested: u32,
}

impl Default for Layout {
    fn default() -> Layout {
        Layout {
            xccs: 1,
            harvested: 0,
        }
    }
}

impl Layout {
    /// The number of AIDs.
    pub fn aids(self) -> usize {
        self.xccs.div_ceil(PER_AID)
    }

    /// The AID that carries an XCC.
    pub fn aid_of(self, xcc: usize) -> usize {
        xcc / PER_AID
    }

    /// The first XCC of an AID.
    pub fn first_xcc(self, aid: usize) -> usize {
        aid * PER_AID
    }

    /// The XCCs that work, a bit each.
    pub fn mask(self) -> u32 {
        ((1 << self.xccs) - 1) & !self.harvested
    }

    /// The XCCs that work.
    pub fn working(self) -> impl Iterator<Item = usize> {
        let mask = self.mask();
        (0..self.xccs).filter(move |&xcc| mask >> xcc & 1 == 1)
    }

    /// Bytes of BAR5.
    pub fn register_size(self) -> u64 {
        REGISTERS * self.aids() as u64
    }

    /// Interrupt entries' number of the node that an AID is, or one of its XCCs.
    pub fn node(self, xcc: usize, aid: usize, is_aid: bool) -> u32 {
        let first = 4 * aid as u32;
        match is_aid {
            true => first,
            false => first + 1 + (xcc % PER_AID) as u32,
        }
    }

    /// The number of XCCs, in words.
    pub fn parse(text: &str) -> Result<usize, String> {
        match text {
            "1" | "2" | "4" | "8" => Ok(usize::from(text.as_bytes()[0] - b'0')),
            _ => Err(format!("{text}: none of 1, 2, 4, 8")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_with_so_many_xccs() {
        let sizes = [1, 2, 4, 8].map(|xccs| {
            let layout = Layout { xccs, harvested: 0 };
            (layout.aids(), layout.register_size() >> 10, layout.mask())
        });
        assert_eq!(
            sizes,
            [(1, 512, 1), (1, 512, 3), (2, 1024, 0xf), (4, 2048, 0xff)]
        );
        let half = Layout {
            xccs: 2,
            harvested: 1,
        };
        assert_eq!(half.working().collect::<Vec<_>>(), [1]);
        // AID 1, and the second of its XCCs.
        assert_eq!(half.node(3, 1, true), 4);
        assert_eq!(half.node(3, 1, false), 6);
        assert!(Layout::parse("3").is_err());
    }
}
