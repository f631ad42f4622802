// SPDX-License-Identifier: GPL-2.0
//! How many lines of the log of one cause are written: the window of a second, in one word that is
//! changed as a whole. It depends on nothing, so that the host tests it.

/// The most lines of one cause in a second, for all processes.
pub(crate) const MOST: u64 = 20;
/// The most of them for one process. Several of these fit in [`MOST`]: one process does not hide
/// the lines of another one.
pub(crate) const MOST_OF_PROCESS: u64 = 5;
/// The number of places that processes share by their numbers.
pub(crate) const PLACES: usize = 16;

/// Units of the word: a line that was left out, one that was written, and a second.
const LEFT_OUT: u64 = 1;
const WRITTEN: u64 = 0x100_0000;
const SECOND: u64 = 0x1_0000_0000;
const _: () = assert!(MOST < SECOND / WRITTEN && MOST_OF_PROCESS < MOST);

/// Whether a line may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogVerdict {
    /// It may; so many were left out in the last second in which there were any.
    Write {
        /// Lines.
        left_out: u64,
    },
    /// It is left out.
    LeaveOut,
}

/// The lines of one second: the second, the lines written in it, and those left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogWindow(u64);

impl LogWindow {
    /// No lines yet.
    pub(crate) const EMPTY: Self = Self(0);

    /// The window that is kept as `word`.
    pub(crate) const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// The word to keep.
    pub(crate) const fn word(self) -> u64 {
        self.0
    }

    /// The window after one more line in `second`, of which it writes `most` at most, and whether
    /// the line is one of them.
    pub(crate) const fn next(self, second: u32, most: u64) -> (Self, LogVerdict) {
        let counts = self.0 % SECOND;
        let (written, left_out) = (counts / WRITTEN, counts % WRITTEN);
        if self.0 / SECOND != second as u64 || counts == 0 {
            let window = Self(second as u64 * SECOND + WRITTEN);
            return (window, LogVerdict::Write { left_out });
        }
        if written < most {
            return (Self(self.0 + WRITTEN), LogVerdict::Write { left_out: 0 });
        }
        let more = if left_out < WRITTEN - 1 { LEFT_OUT } else { 0 };
        (Self(self.0 + more), LogVerdict::LeaveOut)
    }
}

/// The place of process `number`, or of a PASID.
pub(crate) const fn place(number: i64) -> usize {
    number.rem_euclid(PLACES as i64) as usize
}
