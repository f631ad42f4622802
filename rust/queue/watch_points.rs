// SPDX-License-Identifier: GPL-2.0
//! The watch points of a GPU, which debuggers of its processes share.

use hw::debug::WATCH_POINTS;
use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Full, Release};
use kernel::sync::Arc;

/// Which of them are taken.
pub(crate) struct WatchPoints(Arc<[AtomicFlag; WATCH_POINTS]>);

impl WatchPoints {
    /// All are free.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        let free = [const { AtomicFlag::new(false) }; WATCH_POINTS];
        Ok(Self(Arc::new(free, GFP_KERNEL)?))
    }

    /// Takes one.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if all are taken, as in amdkfd.
    pub(crate) fn take(&self) -> Result<WatchPointHold> {
        let free = |(_, point): &(usize, &AtomicFlag)| !point.xchg(true, Full);
        let (number, _) = self.0.iter().enumerate().find(free).ok_or(ENOMEM)?;
        Ok(WatchPointHold {
            points: self.0.clone(),
            number,
        })
    }
}

/// A watch point of a process, until this is dropped. No wave compares with it by then.
pub(crate) struct WatchPointHold {
    points: Arc<[AtomicFlag; WATCH_POINTS]>,
    number: usize,
}

impl WatchPointHold {
    /// Which one it is.
    pub(crate) fn number(&self) -> usize {
        self.number
    }
}

impl Drop for WatchPointHold {
    fn drop(&mut self) {
        if let Some(point) = self.points.get(self.number) {
            point.store(false, Release);
        }
    }
}
