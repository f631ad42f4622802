// SPDX-License-Identifier: GPL-2.0
//! The HDP as far as page tables are concerned: stores of the host to VRAM reach a walk of the
//! tables for certain only after a flush (amdgpu flushes at the end of each change of tables by the
//! CPU, `amdgpu_vm_cpu_commit`).
//!
//! The host's stores go to memory that it has mapped, so the model does not see them. In place of
//! holding them back, a walk reads a page of tables that was walked before as it was at the last
//! flush. Stores of the device itself are seen at once. A page that is walked for the first time is
//! read as it is: hardware might still lack stores there.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Bytes that the host's processor combines to one store.
const LINE: usize = 64;
/// The most pages of tables that are kept; then the oldest is forgotten.
const MOST: usize = 128;

type Page = Box<[u8; PAGE as usize]>;

#[derive(Default)]
struct Walked {
    pages: HashMap<u64, Page>,
    order: VecDeque<u64>,
}

/// The last pages of tables that were walked, as of the last flush.
pub struct Hdp {
    walked: Mutex<Walked>,
    /// A bit for each page of VRAM: whether it is one of them.
    kept: Box<[AtomicU64]>,
}

impl Hdp {
    /// For `vram` bytes of VRAM.
    pub fn new(vram: u64) -> Hdp {
        let words = vram.div_ceil(PAGE).div_ceil(64);
        Hdp {
            walked: Mutex::default(),
            kept: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn walked(&self) -> MutexGuard<'_, Walked> {
        self.walked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bit(&self, page: u64) -> Option<(&AtomicU64, u64)> {
        let word = self.kept.get((page / 64) as usize)?;
        Some((word, 1 << (page % 64)))
    }

    /// The 64-bit word at byte `addr` of VRAM as a walk sees it; `read` reads a page of VRAM.
    pub fn load64<E>(
        &self,
        addr: u64,
        read: impl FnOnce(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<u64, E> {
        let page = addr / PAGE;
        let mut walked = self.walked();
        let at = (addr % PAGE & !7) as usize;
        let load = |bytes: &Page| u64::from_le_bytes(std::array::from_fn(|n| bytes[at + n]));
        if let Some(bytes) = walked.pages.get(&page) {
            return Ok(load(bytes));
        }
        if let Some((word, bit)) = self.bit(page) {
            // A store of the device that is not in the page that is read next finds the bit.
            word.fetch_or(bit, Ordering::SeqCst);
        }
        let mut bytes = Page::new([0; PAGE as usize]);
        read(page * PAGE, &mut bytes[..])?;
        if walked.order.len() == MOST {
            if let Some(oldest) = walked.order.pop_front() {
                self.remove(&mut walked, oldest);
            }
        }
        let loaded = load(&bytes);
        walked.order.push_back(page);
        walked.pages.insert(page, bytes);
        Ok(loaded)
    }

    /// The host's stores to the line of [`LINE`] bytes around byte `addr` are seen from now on;
    /// `read` reads VRAM.
    pub fn renew<E>(
        &self,
        addr: u64,
        read: impl FnOnce(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut walked = self.walked();
        let Some(bytes) = walked.pages.get_mut(&(addr / PAGE)) else {
            return Ok(());
        };
        let line = addr & !(LINE as u64 - 1);
        let at = (line % PAGE) as usize;
        read(line, &mut bytes[at..at + LINE])
    }

    fn remove(&self, walked: &mut Walked, page: u64) {
        walked.pages.remove(&page);
        if let Some((word, bit)) = self.bit(page) {
            word.fetch_and(!bit, Ordering::SeqCst);
        }
    }

    /// The host's stores so far are seen from now on; `read` reads a page of VRAM.
    pub fn flush(&self, read: impl Fn(u64, &mut [u8])) {
        for (page, bytes) in &mut self.walked().pages {
            read(page * PAGE, &mut bytes[..]);
        }
    }

    /// The device itself has written `len` bytes of VRAM at byte `addr`.
    pub fn device_wrote(&self, addr: u64, len: u64) {
        let (mut page, end) = (addr / PAGE, (addr + len).div_ceil(PAGE));
        while page < end {
            let Some((word, bit)) = self.bit(page) else {
                return;
            };
            let bits = word.load(Ordering::SeqCst);
            if bits == 0 {
                page = (page / 64 + 1) * 64;
                continue;
            }
            if bits & bit != 0 {
                let mut walked = self.walked();
                walked.order.retain(|kept| *kept != page);
                self.remove(&mut walked, page);
            }
            page += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(hdp: &Hdp, addr: u64, now: u8) -> u64 {
        let read = |_, bytes: &mut [u8]| {
            bytes.fill(now);
            Ok::<_, ()>(())
        };
        hdp.load64(addr, read).unwrap() & 0xff
    }

    #[test]
    fn stores_are_seen_after_a_flush() {
        let hdp = Hdp::new(1 << 20);
        assert_eq!(load(&hdp, 0x2008, 1), 1);
        assert_eq!(load(&hdp, 0x2ff8, 2), 1);
        assert_eq!(load(&hdp, 0x3000, 2), 2);
        hdp.flush(|_, bytes| bytes.fill(3));
        // As of the flush, also if it is walked later only.
        assert_eq!(load(&hdp, 0x2008, 4), 3);
    }

    #[test]
    fn a_line_may_be_seen_before_the_flush() {
        let hdp = Hdp::new(1 << 20);
        let renew = |addr| {
            let read = |_, bytes: &mut [u8]| {
                bytes.fill(9);
                Ok::<_, ()>(())
            };
            hdp.renew(addr, read).unwrap();
        };
        renew(0x2048);
        assert_eq!(load(&hdp, 0x2040, 1), 1);
        renew(0x2048);
        assert_eq!(load(&hdp, 0x2040, 2), 9);
        assert_eq!(load(&hdp, 0x2078, 2), 9);
        assert_eq!(load(&hdp, 0x2080, 2), 1);
        assert_eq!(load(&hdp, 0x2038, 2), 1);
    }

    #[test]
    fn stores_of_the_device_are_seen_at_once() {
        let hdp = Hdp::new(1 << 20);
        load(&hdp, 0x2000, 1);
        load(&hdp, 0x50000, 1);
        hdp.device_wrote(0x3000, 4096);
        assert_eq!(load(&hdp, 0x2000, 2), 1);
        hdp.device_wrote(0x2ffc, 8);
        assert_eq!(load(&hdp, 0x2000, 2), 2);
        hdp.device_wrote(0, 1 << 20);
        assert_eq!(load(&hdp, 0x50000, 2), 2);
    }

    #[test]
    fn the_oldest_page_is_forgotten() {
        let hdp = Hdp::new(4 << 20);
        for page in 0..=MOST as u64 {
            load(&hdp, page * PAGE, 1);
        }
        assert_eq!(load(&hdp, PAGE, 2), 1);
        assert_eq!(load(&hdp, 0, 2), 2);
    }
}
