// SPDX-License-Identifier: GPL-2.0
//! The kernel that guests run, and the part of the plan that it gets.

use serde::Deserialize;

/// A set of boots that `make test` does not run, or not always.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Set {
    /// Those that `make test` has no time for.
    Long,
    /// Those that take turns: `make test` has time for some of them, `make test-long` runs all.
    Rotated,
    /// Those for the kernels of other Debian suites.
    Suites,
}

/// The kernel that a run of tests is for, by the word that `scripts/test` was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The kernel as the scripts call it: `stock`, `debug`, or a Debian suite.
    pub kernel: String,
    /// The first part of the names in the tally.
    pub label: String,
    /// The boots that run without being named; `None` for those of no set.
    pub set: Option<Set>,
}

impl Target {
    /// The target that a word stands for. `base` is the sysroot's suite, whose backports are where
    /// the stock kernel comes from.
    pub fn new(word: &str, base: &str) -> Self {
        let (kernel, label, set) = match word {
            "stock" => ("stock", "guest", None),
            "debug" => ("debug", "debug", None),
            "long" => ("stock", "guest", Some(Set::Long)),
            _ if word.strip_suffix("-backports") == Some(base) => {
                ("stock", word, Some(Set::Suites))
            }
            _ => (word, word, Some(Set::Suites)),
        };
        Self {
            kernel: kernel.into(),
            label: label.into(),
            set,
        }
    }

    /// Whether a boot of this set runs without being named, at this turn if it takes turns.
    pub fn runs(&self, set: Option<Set>, is_its_turn: bool) -> bool {
        match set {
            Some(Set::Rotated) => match self.set {
                None => is_its_turn,
                Some(of) => of == Set::Long,
            },
            set => set == self.set,
        }
    }

    /// Whether it runs the plan as `make test` does: other kernels lack more.
    pub fn has_known_skips(&self) -> bool {
        self.label == "guest"
    }

    pub fn is_debug(&self) -> bool {
        self.kernel == "debug"
    }

    /// The name by which the plan excludes tests from this kernel.
    pub fn exclusion(&self) -> &str {
        if self.label == "guest" {
            "stock"
        } else {
            &self.label
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boots_that_take_turns() {
        let runs = |word, is_its_turn| {
            let target = Target::new(word, "trixie");
            target.runs(Some(Set::Rotated), is_its_turn)
        };
        assert_eq!([false, true], [false, true].map(|its| runs("stock", its)));
        assert!(runs("long", false));
        assert!(!runs("forky", true));
    }

    #[test]
    fn backports_are_the_stock_kernel() {
        let target = Target::new("trixie-backports", "trixie");
        assert_eq!("stock", target.kernel);
        assert_eq!("trixie-backports", target.label);
        assert_eq!(Some(Set::Suites), target.set);
        assert_eq!("forky", Target::new("forky", "trixie").kernel);
        assert_eq!("stock", Target::new("long", "trixie").exclusion());
    }
}
