// SPDX-License-Identifier: GPL-2.0
//! The one MSI vector: an eventfd of the client.

use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// The destination of MSIs.
#[derive(Default)]
pub struct Msi(Mutex<Option<File>>);

impl Msi {
    /// Replaces the eventfd; None while the guest has MSI disabled.
    pub fn set(&self, eventfd: Option<File>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = eventfd;
    }

    /// Sends one MSI. False if the guest has none enabled.
    pub fn send(&self) -> bool {
        let eventfd = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match eventfd.as_ref() {
            // An eventfd only refuses a write when its counter is full, and then the MSI is pending
            // anyway.
            Some(mut file) => file.write_all(&1u64.to_ne_bytes()).is_ok(),
            None => false,
        }
    }
}
