// SPDX-License-Identifier: GPL-2.0
//! The cases that tests are expected to skip, by boot: `tests/guest/skips.toml`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{bail, Context, Result};
use serde::Deserialize;

use crate::kernel::Target;
use crate::plan::Boot;

/// Where the list is, below the checkout.
const FILE: &str = "tests/guest/skips.toml";

/// Cases of a test that are skipped, each with the reason that the test gives.
pub type Cases = BTreeMap<String, String>;

/// The checked list.
#[derive(Debug, Default)]
pub struct Skips(Vec<Skip>);

/// Cases that a test skips in these boots.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Skip {
    boots: Vec<String>,
    test: String,
    cases: Cases,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    skip: Vec<Skip>,
}

impl Skips {
    /// The list of a checkout.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or [`Skips::parse`] refuses it.
    pub fn read(top: &Path, boots: &[Boot]) -> Result<Self> {
        let path = top.join(FILE);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text, boots).with_context(|| format!("{FILE} is wrong"))
    }

    /// The list that a text is.
    ///
    /// # Errors
    ///
    /// The text is no TOML, has an unknown key, or names a boot, or a test of a boot, that is not
    /// there.
    pub fn parse(text: &str, boots: &[Boot]) -> Result<Self> {
        let file: File = toml::from_str(text)?;
        for Skip {
            boots: of,
            test,
            cases,
            ..
        } in &file.skip
        {
            if of.is_empty() || cases.is_empty() {
                bail!("skip of {test}: it has no boots or no cases");
            }
            for name in of {
                let Some(boot) = boots.iter().find(|boot| &boot.name == name) else {
                    bail!("skip of {test}: there is no boot {name}");
                };
                if !boot.tests.iter().any(|of| &of.name == test) {
                    bail!("boot {name} has no test {test}");
                }
            }
        }
        Ok(Self(file.skip))
    }

    /// Whether nothing is expected to be skipped.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The cases that a test skips in a boot. `None` with a kernel for which there is no list.
    pub fn of(&self, boot: &str, test: &str, target: &Target) -> Option<Cases> {
        if !target.has_known_skips() {
            return None;
        }
        let of_it = self
            .0
            .iter()
            .filter(|skip| skip.test == test && skip.boots.iter().any(|name| name == boot));
        Some(of_it.flat_map(|skip| skip.cases.clone()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    fn boots() -> Vec<Boot> {
        let text = "[[boot]]\nname = \"one\"\ntests = [{ name = \"a\", run = \"a\" }]\n\
                    [[boot]]\nname = \"two\"\nextends = \"one\"\n";
        Plan::parse(text, &[]).unwrap().boots
    }

    const TEXT: &str = r#"
        [[skip]]
        boots = ["one", "two"]
        test = "a"
        cases = { "a.x" = "no x" }
        [[skip]]
        boots = ["two"]
        test = "a"
        cases = { "a.y" = "slow" }
    "#;

    fn cases(boot: &str, kernel: &str) -> Option<Vec<String>> {
        let skips = Skips::parse(TEXT, &boots()).unwrap();
        let cases = skips.of(boot, "a", &Target::new(kernel, "trixie"))?;
        Some(cases.into_keys().collect())
    }

    #[test]
    fn cases_are_of_a_boot() {
        assert_eq!(vec!["a.x"], cases("one", "stock").unwrap());
        assert_eq!(vec!["a.x", "a.y"], cases("two", "long").unwrap());
    }

    #[test]
    fn other_kernels_have_no_list() {
        assert!(cases("one", "debug").is_none());
        assert!(cases("one", "forky").is_none());
        assert!(cases("one", "trixie-backports").is_none());
    }

    #[test]
    fn entries_that_expect_nothing_are_refused() {
        for (boots_of, test, cases, what) in [
            ("", "a", "\"x\" = \"y\"", "no boots or no cases"),
            ("\"one\"", "a", "", "no boots or no cases"),
            ("\"three\"", "a", "\"x\" = \"y\"", "there is no boot three"),
            ("\"one\"", "b", "\"x\" = \"y\"", "boot one has no test b"),
        ] {
            let text =
                format!("[[skip]]\nboots = [{boots_of}]\ntest = \"{test}\"\ncases = {{ {cases} }}");
            let error = format!("{:#}", Skips::parse(&text, &boots()).unwrap_err());
            assert!(error.contains(what), "{error}");
        }
    }
}
