// SPDX-License-Identifier: GPL-2.0
//! The other GPUs of the hive, each a process of its own. They find one another in a folder, where
//! each leaves a file with its number in the hive for a name, and its process id and the descriptors
//! of its VRAM and of a page for contents. The page has the time of its last reset: the links of all
//! members are negotiated together, so a link works only if both ends were reset at about the same
//! time.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::MemfdFlags;

use super::Hive;
use crate::mapping::{Mapping, Span};

/// The most members.
const MOST: usize = 16;
/// Bytes of the page with the time of the last reset.
const PAGE_BYTES: usize = 4096;
/// How far apart the resets of two members may be, milliseconds. On a card it is about a second
/// (amdgpu: amdgpu_device_xgmi_reset_func); the processors here are emulated.
const WINDOW_MS: u64 = 10_000;

/// Another member.
struct Member {
    vram: Mapping,
    page: Mapping,
}

/// The time of the last reset, milliseconds since 1970; 0 for none.
fn last_reset(page: &Mapping) -> u64 {
    let word = page.span(0, 8).atomic64();
    word.map_or(0, |word| word.load(Ordering::Acquire))
}

/// See the module.
pub struct Members {
    folder: PathBuf,
    segment: u64,
    /// By number, each from the first access to its memory on.
    others: [OnceLock<Member>; MOST],
    page: Mapping,
    _page_file: OwnedFd,
}

impl Members {
    /// Joins the others of `folder` at the place `hive`, with `bytes` of VRAM in `vram`.
    pub fn join(
        folder: &Path,
        hive: &Hive,
        vram: BorrowedFd<'_>,
        bytes: u64,
    ) -> std::io::Result<Members> {
        let file = rustix::fs::memfd_create("resets", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, PAGE_BYTES as u64)?;
        let (pid, fd, page) = (std::process::id(), vram.as_raw_fd(), file.as_raw_fd());
        std::fs::write(
            folder.join(hive.node.to_string()),
            format!("{pid} {fd} {bytes} {page}"),
        )?;
        Ok(Members {
            folder: folder.into(),
            segment: hive.segment,
            others: Default::default(),
            page: Mapping::new(file.as_fd(), PAGE_BYTES)?,
            _page_file: file,
        })
    }

    /// The GPU is reset now.
    pub fn note_reset(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |time| time.as_millis() as u64);
        if let Some(word) = self.page.span(0, 8).atomic64() {
            word.store(now, Ordering::Release);
        }
    }

    fn open(&self, node: usize) -> Option<Member> {
        let text = std::fs::read_to_string(self.folder.join(node.to_string())).ok()?;
        let [pid, fd, bytes, page] = text.split_whitespace().collect::<Vec<_>>()[..] else {
            return None;
        };
        let mapped = |fd: &str, bytes| {
            let file = File::options()
                .read(true)
                .write(true)
                .open(format!("/proc/{pid}/fd/{fd}"));
            Mapping::new(file.ok()?.as_fd(), bytes).ok()
        };
        Some(Member {
            vram: mapped(fd, bytes.parse().ok()?)?,
            page: mapped(page, PAGE_BYTES)?,
        })
    }

    fn member(&self, node: usize) -> Option<&Member> {
        let cell = self.others.get(node)?;
        match cell.get() {
            Some(member) => Some(member),
            None => {
                let found = self.open(node)?;
                Some(cell.get_or_init(|| found))
            }
        }
    }

    /// Memory of a member from physical address `address` on, at most `len` bytes of it.
    ///
    /// # Errors
    ///
    /// Why there is none: that member is not there, has no memory there, or the link to it does not
    /// work.
    pub fn span(&self, address: u64, len: u64) -> Result<Span<'_>, &'static str> {
        let node = usize::try_from(address / self.segment).unwrap_or(usize::MAX);
        let member = self.member(node).ok_or("where no GPU is")?;
        let resets = [&self.page, &member.page].map(last_reset);
        if resets[0].abs_diff(resets[1]) > WINDOW_MS {
            return Err("to a GPU that was not reset together with this one");
        }
        let offset = (address % self.segment) as usize;
        let left = member.vram.len().saturating_sub(offset);
        match left.min(len as usize) {
            0 => Err("where the GPU has no memory"),
            len => Ok(member.vram.span(offset, len)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert!(members[1].0.span(address, 8).is_err());
        }
        // The link fails between one that was reset and one that was not.
        members[0].0.note_reset();
        assert!(members[1].0.span(0, 8).is_err());
        members[1].0.note_reset();
        assert!(members[1].0.span(0, 8).is_ok());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
