// SPDX-License-Identifier: GPL-2.0
//! The other GPUs of the hive, each a process of its own. They find one another in a folder, where
//! each leaves a file with its number in the hive for a name, and its process id and the descriptor
//! of its VRAM for contents.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::Hive;
use crate::mapping::{Mapping, Span};

/// The most members.
const MOST: usize = 16;

/// See the module.
pub struct Members {
    folder: PathBuf,
    segment: u64,
    /// By number, each from the first access to its memory on.
    vram: [OnceLock<Mapping>; MOST],
}

impl Members {
    /// Joins the others of `folder` at the place `hive`, with `bytes` of VRAM in `vram`.
    pub fn join(
        folder: &Path,
        hive: &Hive,
        vram: BorrowedFd<'_>,
        bytes: u64,
    ) -> std::io::Result<Members> {
        let (pid, fd) = (std::process::id(), vram.as_raw_fd());
        std::fs::write(
            folder.join(hive.node.to_string()),
            format!("{pid} {fd} {bytes}"),
        )?;
        Ok(Members {
            folder: folder.into(),
            segment: hive.segment,
            vram: Default::default(),
        })
    }

    fn open(&self, node: usize) -> Option<Mapping> {
        let text = std::fs::read_to_string(self.folder.join(node.to_string())).ok()?;
        let [pid, fd, bytes] = text.split_whitespace().collect::<Vec<_>>()[..] else {
            return None;
        };
        let file = File::options()
            .read(true)
            .write(true)
            .open(format!("/proc/{pid}/fd/{fd}"))
            .ok()?;
        Mapping::new(file.as_fd(), bytes.parse().ok()?).ok()
    }

    /// Memory of a member from physical address `address` on, at most `len` bytes of it. `None` if
    /// that member is not there, or has no memory there.
    pub fn span(&self, address: u64, len: u64) -> Option<Span<'_>> {
        let node = usize::try_from(address / self.segment).ok()?;
        let cell = self.vram.get(node)?;
        let vram = match cell.get() {
            Some(vram) => vram,
            None => {
                let found = self.open(node)?;
                cell.get_or_init(|| found)
            }
        };
        let offset = (address % self.segment) as usize;
        let len = vram.len().checked_sub(offset)?.min(len as usize);
        (len > 0).then(|| vram.span(offset, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::MemfdFlags;

    #[test]
    fn members_find_one_another() {
        let folder = std::env::temp_dir().join(format!("rkfd-hive-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let members = [0, 1].map(|node| {
            let vram = rustix::fs::memfd_create("vram", MemfdFlags::CLOEXEC).unwrap();
            rustix::fs::ftruncate(&vram, 0x2000).unwrap();
            let hive: Hive = format!("{node}/3:16").parse().unwrap();
            let joined = Members::join(&folder, &hive, vram.as_fd(), 0x2000).unwrap();
            (joined, vram)
        });
        let segment = 16 << 20;
        members[0]
            .0
            .span(segment + 0x1ff8, 64)
            .unwrap()
            .write(b"12345678");
        let span = members[1].0.span(segment + 0x1ff8, 64).unwrap();
        let mut found = [0; 8];
        span.read(&mut found);
        assert_eq!((span.len(), &found), (8, b"12345678"));
        // Behind its memory, of one that is not there, of none.
        for address in [segment + 0x2000, 2 * segment, 20 * segment] {
            assert!(members[1].0.span(address, 8).is_none());
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
