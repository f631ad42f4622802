// SPDX-License-Identifier: GPL-2.0
//! Counts of results.

use std::fmt;
use std::ops::AddAssign;

/// How many results passed, failed and were skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
}

impl Counts {
    pub const PASSED: Self = Self::new(1, 0, 0);
    pub const FAILED: Self = Self::new(0, 1, 0);
    pub const SKIPPED: Self = Self::new(0, 0, 1);

    pub const fn new(passed: u64, failed: u64, skipped: u64) -> Self {
        Self {
            passed,
            failed,
            skipped,
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// The last line of a run.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line() {
        let mut counts = Counts::new(2, 0, 0);
        assert_eq!("2 passed, 0 failed", counts.to_string());
        counts += Counts::SKIPPED;
        assert_eq!("2 passed, 0 failed, 1 skipped", counts.to_string());
    }
}
