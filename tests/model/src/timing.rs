// SPDX-License-Identifier: GPL-2.0
//! The times that a card's engines take, in place of those that the host needs.
//!
//! The host needs less time than a card for a small copy, and more for a large one. With these
//! times an engine is never faster than a card, so that overlap, batching and polling of a driver
//! show as they do there. A guest whose processor is emulated is slower than a real machine: the
//! factor slows the engines down alike.

use std::time::{Duration, Instant};

/// A copy or fill by an SDMA engine, without its bytes: one after the other of a byte each, on
/// cards of gfx942 (to system memory 7.5 us).
const SDMA_PACKET: Duration = Duration::from_nanos(8200);
/// Bytes in a microsecond: copies of 64 MiB on MI300X.
const SDMA_BYTES_US: u64 = 55_000;
/// The launch of an empty dispatch: between 1.3 and 3.7 us on MI250X.
const LAUNCH: Duration = Duration::from_micros(3);

/// The longest sleep before a look whether the work still goes on.
const LOOK: Duration = Duration::from_millis(1);
/// A sleep may last this much longer than it should: so the rest of the time is not slept.
const OVERSHOOT: Duration = Duration::from_micros(100);

/// A card's times, multiplied by a factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    factor: u32,
}

impl std::str::FromStr for Timing {
    type Err = String;

    /// `card`, or `card=FACTOR`.
    fn from_str(text: &str) -> Result<Timing, String> {
        let factor = match text.split_once('=') {
            None if text == "card" => Some(1),
            Some(("card", factor)) => factor.parse().ok().filter(|factor| *factor > 0),
            _ => None,
        };
        let factor = factor.ok_or_else(|| format!("{text}: neither card nor card=FACTOR"))?;
        Ok(Timing { factor })
    }
}

impl Timing {
    /// A copy or fill of `bytes` by an SDMA engine.
    pub fn sdma(self, bytes: u64) -> Duration {
        let bytes = Duration::from_nanos(bytes.saturating_mul(1000) / SDMA_BYTES_US);
        (SDMA_PACKET + bytes).saturating_mul(self.factor)
    }

    /// The launch of a dispatch.
    pub fn launch(self) -> Duration {
        LAUNCH.saturating_mul(self.factor)
    }
}

/// Waits until `end`. Returns false if the work does not go on until then.
pub fn wait(end: Instant, goes_on: impl Fn() -> bool) -> bool {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        if !goes_on() {
            return false;
        }
        match left.checked_sub(OVERSHOOT) {
            Some(sleep) if !sleep.is_zero() => std::thread::sleep(sleep.min(LOOK)),
            _ => std::hint::spin_loop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_card() {
        let card: Timing = "card".parse().unwrap();
        assert_eq!(card.sdma(1), Duration::from_nanos(8200));
        assert_eq!(card.sdma(55_000_000), Duration::from_nanos(1_008_200));
        let slow: Timing = "card=16".parse().unwrap();
        assert_eq!(slow.launch(), Duration::from_micros(48));
        for text in ["", "cards", "card=0", "card=x", "host"] {
            assert!(text.parse::<Timing>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_wait_ends_with_the_work() {
        let end = Instant::now() + Duration::from_secs(60);
        assert!(!wait(end, || false));
        let end = Instant::now() + Duration::from_micros(200);
        assert!(wait(end, || true));
        assert!(Instant::now() >= end);
    }
}
