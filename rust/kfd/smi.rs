// SPDX-License-Identifier: GPL-2.0
//! SMI_EVENTS: a file that reports the events of a GPU. Its reader first writes a mask of the
//! events that it wants.

use kernel::prelude::*;
use kernel::sync::poll::PollCondVar;
use kernel::sync::{Arc, ArcBorrow};
use kernel::uaccess::{UserSliceReader, UserSliceWriter};

use super::caller::Caller;
use crate::kern::anon_file::{self, AnonFile};
use crate::kern::new_fd::NewFd;
use crate::kern::{series, task, uapi};
use crate::smi::{Smi, SmiWatcher};

/// The most bytes that one read returns.
const MOST: usize = 1024;

/// SMI_EVENTS.
///
/// # Errors
///
/// `EINVAL` for a GPU that does not exist, or that the process's cgroups deny; `EMFILE`; `ENFILE`;
/// `ENOMEM`.
pub(super) fn open(caller: &Caller<'_>, args: &mut uapi::SmiEvents) -> Result<NewFd> {
    let id = caller.gpu_id(args.gpuid)?;
    let smi = caller
        .kfd
        .with_granted(caller.process, id, |node| Ok(node.gpu.hw.smi.clone()))
        .map_err(|_| EINVAL)?;
    let watcher = SmiWatcher::new(caller.process.space().clone(), task::is_admin())?;
    smi.join(&watcher)?;
    let file = SmiFile { smi, watcher };
    let file = Arc::new(file, GFP_KERNEL_ACCOUNT)?;
    let fd = NewFd::new(anon_file::open::<SmiFile>(c"kfd_smi_ev", file)?, true)?;
    args.anon_fd = fd.number();
    Ok(fd)
}

/// The data of such a file. It does not hold the GPU, which may be removed.
struct SmiFile {
    smi: Arc<Smi>,
    watcher: Arc<SmiWatcher>,
}

impl Drop for SmiFile {
    fn drop(&mut self) {
        self.smi.unsubscribe(&self.watcher);
    }
}

impl AnonFile for SmiFile {
    type Data = Arc<Self>;
    const MODULE: &'static ThisModule = &series::THIS_MODULE;

    /// Returns the events as text.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if there are none, even for a file that may block. Clients expect this: they poll.
    fn read(file: ArcBorrow<'_, Self>, to: &mut UserSliceWriter) -> Result<usize> {
        let mut lines = KVec::from_elem(0, to.len().min(MOST), GFP_KERNEL_ACCOUNT)?;
        let count = file.watcher.read(&mut lines);
        if count == 0 {
            return Err(EAGAIN);
        }
        to.write_slice(lines.get(..count).unwrap_or(&[]))?;
        Ok(count)
    }

    /// Sets the mask.
    ///
    /// # Errors
    ///
    /// `EFAULT` for fewer bytes than a mask has.
    fn write(file: ArcBorrow<'_, Self>, from: &mut UserSliceReader) -> Result<usize> {
        file.watcher.set_mask(from.read::<u64>()?);
        Ok(size_of::<u64>())
    }

    fn poll(file: ArcBorrow<'_, Self>, wait: impl FnOnce(&PollCondVar)) -> bool {
        wait(file.watcher.ready());
        file.watcher.is_ready()
    }
}
