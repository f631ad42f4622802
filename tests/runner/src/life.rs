// SPDX-License-Identifier: GPL-2.0
//! The watch over a guest's signs of life. How long a command may take is the guest's own affair.

use std::ffi::OsStr;

use anyhow::{bail, Result};

/// Seconds between two looks at a guest.
pub const NAP: u64 = 2;
/// Seconds without a sign of life after which a guest is given up, if `RKFD_SILENCE` does not say.
const SILENCE: u64 = 300;

/// The seconds without a sign of life that `RKFD_SILENCE` allows, or the default.
///
/// # Errors
///
/// It is no number of seconds.
pub fn silence(text: Option<&OsStr>) -> Result<u64> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(SILENCE);
    };
    let seconds: Option<u32> = text.to_str().and_then(|text| text.parse().ok());
    match seconds {
        Some(seconds) => Ok(seconds.into()),
        None => bail!(
            "RKFD_SILENCE={} is no number of seconds",
            text.to_string_lossy()
        ),
    }
}

/// The signs of life of a guest: in its boot the kernel's log, then its status port, on which it
/// says now and then that it lives. Seconds are counted in naps, of which a busy host takes fewer.
#[derive(Debug)]
pub struct Life {
    most: u64,
    silent: u64,
    before: Option<u64>,
}

impl Life {
    /// Watches a guest that is given up after `silence` seconds.
    pub fn new(silence: u64, is_debug: bool, is_icount: bool) -> Self {
        let mut most = silence;
        if is_debug {
            most *= 3;
        }
        // A second of that clock is a thousand million instructions, which take half a minute and
        // more.
        if is_icount {
            most *= 12;
        }
        Self {
            most,
            silent: 0,
            before: None,
        }
    }

    /// A look after a nap, at the sizes of the status port's and the console's output. Returns the
    /// seconds without a sign of life when they are too many.
    pub fn look(&mut self, status: u64, console: u64, before_init: bool) -> Option<u64> {
        let mut most = self.most;
        let mut now = status;
        if status == 0 {
            now = console;
            // The kernel is never so long silent before its first program, which may hang because
            // of its work.
            if before_init {
                most = most * 2 / 5;
            }
        }
        self.silent += NAP;
        if self.before != Some(now) {
            self.silent = 0;
        }
        self.before = Some(now);
        (self.silent >= most).then_some(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many naps a guest in this state gets.
    fn naps(life: &mut Life, status: u64, console: u64, before_init: bool) -> (u64, u64) {
        for nap in 0.. {
            if let Some(most) = life.look(status, console, before_init) {
                return (nap, most);
            }
        }
        unreachable!()
    }

    #[test]
    fn a_silent_guest_is_given_up() {
        let mut life = Life::new(300, false, false);
        assert_eq!((150, 300), naps(&mut life, 10, 500, false));
        // Output restarts the count.
        assert_eq!((150, 300), naps(&mut life, 11, 500, false));
        // The console counts no more.
        assert_eq!(Some(300), life.look(11, 600, false));
    }

    #[test]
    fn a_kernel_that_boots_has_less_time() {
        let mut life = Life::new(300, false, false);
        assert_eq!((60, 120), naps(&mut life, 0, 500, true));
        assert_eq!(None, life.look(0, 501, true));
        // A first program that has said nothing yet has all of it.
        assert_eq!((149, 300), naps(&mut life, 0, 501, false));
    }

    #[test]
    fn a_silence_is_a_number_of_seconds() {
        let silence = |text: &str| silence(Some(text.as_ref()));
        assert_eq!(SILENCE, super::silence(None).unwrap());
        assert_eq!(
            (SILENCE, 150),
            (silence("").unwrap(), silence("150").unwrap())
        );
        for text in ["5m", "-1", "1.5", "99999999999"] {
            let error = silence(text).unwrap_err().to_string();
            assert_eq!(
                format!("RKFD_SILENCE={text} is no number of seconds"),
                error
            );
        }
    }

    #[test]
    fn slow_guests_have_more_time() {
        assert_eq!(900, naps(&mut Life::new(300, true, false), 1, 1, false).1);
        assert_eq!(3600, naps(&mut Life::new(300, false, true), 1, 1, false).1);
    }
}
