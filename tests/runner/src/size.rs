// SPDX-License-Identifier: GPL-2.0
//! An amount of memory, as QEMU and the model take it.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

const GIB: u64 = 1 << 30;

/// An amount of memory, in bytes, and the text that it was given as: `512M`, `4G`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Size {
    text: String,
    bytes: u64,
}

impl Size {
    /// So many GiB.
    pub fn gib(n: u64) -> Self {
        Self {
            text: format!("{n}G"),
            bytes: n * GIB,
        }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The memory that a guest gets on a host with `available` bytes: above 4 GiB at most two
    /// thirds of these.
    #[must_use]
    pub fn within(&self, available: u64) -> Self {
        let most = (available / 3 * 2 / GIB).max(4);
        if self.bytes > most * GIB {
            Self::gib(most)
        } else {
            self.clone()
        }
    }
}

/// The memory that the host has to give, in bytes, by the text of `/proc/meminfo`.
pub fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|l| l.starts_with("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no size: a number with K, M or G, as 512M");
        let shift = match text.as_bytes().last() {
            Some(b'K' | b'k') => 10,
            Some(b'M' | b'm') => 20,
            Some(b'G' | b'g') => 30,
            _ => return Err(wrong()),
        };
        let digits = &text[..text.len() - 1];
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        let bytes = number.checked_mul(1 << shift).filter(|n| *n > 0);
        Ok(Self {
            text: text.into(),
            bytes: bytes.ok_or_else(wrong)?,
        })
    }
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit() {
        assert_eq!(512 << 20, "512M".parse::<Size>().unwrap().bytes());
        assert_eq!("4G", Size::gib(4).to_string());
        for wrong in ["", "G", "4", "4T", "-1G", "0M", "99999999999G"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_large_guest_gets_two_thirds_of_the_host() {
        let wants = Size::gib(13);
        assert_eq!(Size::gib(13), wants.within(32 * GIB));
        assert_eq!(Size::gib(10), wants.within(16 * GIB));
        assert_eq!(Size::gib(4), wants.within(2 * GIB));
        assert_eq!(Size::gib(4), Size::gib(4).within(2 * GIB));
    }

    #[test]
    fn meminfo_is_in_kib() {
        let text = "MemTotal: 9 kB\nMemAvailable:    2048 kB\n";
        assert_eq!(Some(2 << 20), available(text));
        assert_eq!(None, available("MemTotal: 9 kB\n"));
    }
}
