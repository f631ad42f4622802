// SPDX-License-Identifier: GPL-2.0
//! Other devices behind the same PCI Express switch, which routes accesses from one to the other:
//! the device that decodes the address answers, as far as its VRAM goes. Registers and doorbells of
//! another device are not modelled.
//!
//! Each device is a process of its own. They find one another in a folder, where each leaves a file
//! with its process id and the descriptors of its VRAM and of a page with the present address of
//! BAR0.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::OnceLock;

use rustix::fs::MemfdFlags;

use crate::mapping::{Mapping, Span};

/// Bytes of the page with BAR0's address.
const WINDOW_BYTES: usize = 4096;

/// The addresses at which a device decodes BAR0, for others to read: the first two words of a page,
/// address and bytes; no bytes while it does not decode it.
struct Window(Mapping);

impl Window {
    fn set(&self, address: u64, size: u64) {
        for (at, value) in [(8, 0), (0, address), (8, size)] {
            if let Some(word) = self.0.span(at, 8).atomic64() {
                word.store(value, Ordering::SeqCst);
            }
        }
    }

    /// The offset of `address` in it.
    fn offset(&self, address: u64) -> Option<u64> {
        let word = |at| Some(self.0.span(at, 8).atomic64()?.load(Ordering::SeqCst));
        let offset = address.checked_sub(word(0)?)?;
        (offset < word(8)?).then_some(offset)
    }
}

/// Another device.
struct Peer {
    vram: Mapping,
    window: Window,
}

/// The devices behind one switch.
pub struct Switch {
    folder: PathBuf,
    window: Window,
    _window_file: OwnedFd,
    /// All others, from the first search for them on: by then they are there.
    others: OnceLock<Vec<Peer>>,
}

impl Switch {
    /// Joins the devices of `folder`, with VRAM in `vram`.
    pub fn join(folder: &Path, vram: BorrowedFd<'_>) -> std::io::Result<Switch> {
        let file = rustix::fs::memfd_create("window", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, WINDOW_BYTES as u64)?;
        let window = Window(Mapping::new(file.as_fd(), WINDOW_BYTES)?);
        let (vram, own) = (vram.as_raw_fd(), file.as_raw_fd());
        std::fs::write(
            folder.join(std::process::id().to_string()),
            format!("{vram} {own}"),
        )?;
        Ok(Switch {
            folder: folder.into(),
            window,
            _window_file: file,
            others: OnceLock::new(),
        })
    }

    /// Sets the `size` bytes of BAR0 at `address` that the device decodes from now on.
    pub fn set_window(&self, address: u64, size: u64) {
        self.window.set(address, size);
    }

    fn find_others(&self) -> std::io::Result<Vec<Peer>> {
        let mut others = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let pid = name.to_string_lossy();
            if pid == std::process::id().to_string() {
                continue;
            }
            let text = std::fs::read_to_string(entry.path())?;
            let mapped = |fd: Option<&str>| {
                let fd = fd.ok_or(std::io::ErrorKind::InvalidData)?;
                let file = File::options()
                    .read(true)
                    .write(true)
                    .open(format!("/proc/{pid}/fd/{fd}"))?;
                let bytes = file.metadata()?.len() as usize;
                Mapping::new(file.as_fd(), bytes)
            };
            let mut fds = text.split_whitespace();
            others.push(Peer {
                vram: mapped(fds.next())?,
                window: Window(mapped(fds.next())?),
            });
        }
        Ok(others)
    }

    /// VRAM of another device from bus address `address` on, at most `len` bytes of it; `None` when
    /// none of them decodes that.
    pub fn span(&self, address: u64, len: u64) -> Option<Span<'_>> {
        let others = self.others.get_or_init(|| {
            self.find_others().unwrap_or_else(|error| {
                panic!("devices behind the switch: {error}");
            })
        });
        others.iter().find_map(|peer| {
            let offset = peer.window.offset(address)? as usize;
            let len = (peer.vram.len().checked_sub(offset)?).min(len as usize);
            Some(peer.vram.span(offset, len))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_opens_and_closes() {
        let file = rustix::fs::memfd_create("window", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, WINDOW_BYTES as u64).unwrap();
        let window = Window(Mapping::new(file.as_fd(), WINDOW_BYTES).unwrap());
        assert_eq!(window.offset(0), None);
        window.set(0x10_0000, 0x1000);
        assert_eq!(window.offset(0x10_0fff), Some(0xfff));
        assert_eq!(window.offset(0x10_1000), None);
        assert_eq!(window.offset(0xf_ffff), None);
        window.set(0x10_0000, 0);
        assert_eq!(window.offset(0x10_0000), None);
    }

    #[test]
    fn alone_behind_the_switch() {
        let folder = std::env::temp_dir().join(format!("rkfd-switch-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let vram = rustix::fs::memfd_create("vram", MemfdFlags::CLOEXEC).unwrap();
        let switch = Switch::join(&folder, vram.as_fd()).unwrap();
        switch.set_window(0x1000, 0x1000);
        assert!(switch.span(0x1000, 8).is_none());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
