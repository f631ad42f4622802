// SPDX-License-Identifier: GPL-2.0
//! The one vector that is used, of MSI-X or MSI: an eventfd of the client.

use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One of the two ways to send an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// MSI.
    Msi,
    /// MSI-X, which is used if both are enabled.
    MsiX,
}

#[derive(Default)]
struct Eventfds {
    msi: Option<File>,
    msix: Option<File>,
}

/// The destination of interrupts.
#[derive(Default)]
pub struct Msi(Mutex<Eventfds>);

impl Msi {
    fn eventfds(&self) -> MutexGuard<'_, Eventfds> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the eventfd of `kind`; None while the guest has it disabled.
    pub fn set(&self, kind: Kind, eventfd: Option<File>) {
        let mut eventfds = self.eventfds();
        match kind {
            Kind::Msi => eventfds.msi = eventfd,
            Kind::MsiX => eventfds.msix = eventfd,
        }
    }

    /// Sends an interrupt. Returns how, and None if the guest has nothing enabled.
    pub fn send(&self) -> Option<Kind> {
        let eventfds = self.eventfds();
        let (kind, mut file) = match (&eventfds.msix, &eventfds.msi) {
            (Some(file), _) => (Kind::MsiX, file),
            (None, Some(file)) => (Kind::Msi, file),
            (None, None) => return None,
        };
        // An eventfd only refuses a write when its counter is full, and then the interrupt is
        // pending anyway.
        file.write_all(&1u64.to_ne_bytes()).ok().map(|()| kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::MemfdFlags;

    fn eventfd() -> File {
        File::from(rustix::fs::memfd_create("eventfd", MemfdFlags::CLOEXEC).unwrap())
    }

    #[test]
    fn msix_comes_first() {
        let msi = Msi::default();
        assert_eq!(msi.send(), None);
        msi.set(Kind::Msi, Some(eventfd()));
        assert_eq!(msi.send(), Some(Kind::Msi));
        msi.set(Kind::MsiX, Some(eventfd()));
        assert_eq!(msi.send(), Some(Kind::MsiX));
        msi.set(Kind::MsiX, None);
        assert_eq!(msi.send(), Some(Kind::Msi));
    }
}
