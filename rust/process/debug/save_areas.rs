// SPDX-License-Identifier: GPL-2.0
//! How the waves of suspended queues are saved, for the debugger: the control stack of each XCC and
//! its description, which the hardware leaves in the driver's memory, at their places in the save
//! area.

use kernel::prelude::*;

use crate::kern::named_task::NamedTask;
use crate::process::Process;

/// Dwords for a save area, in runs of adjacent ones.
struct SavedDwords {
    /// Of each run the place of its first dword in the area, and that of its first byte in `bytes`.
    runs: KVec<(u32, usize)>,
    bytes: KVVec<u8>,
    /// The place behind the last dword.
    next: Option<u32>,
}

impl SavedDwords {
    /// None yet.
    fn new() -> Self {
        Self {
            runs: KVec::new(),
            bytes: KVVec::new(),
            next: None,
        }
    }

    /// Adds `dword`, for place `index` of the area.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn add(&mut self, index: u32, dword: u32) -> Result {
        if self.next != Some(index) {
            let run = (index, self.bytes.len());
            self.runs.push(run, GFP_KERNEL_ACCOUNT)?;
        }
        self.next = index.checked_add(1);
        self.bytes
            .extend_from_slice(&dword.to_ne_bytes(), GFP_KERNEL_ACCOUNT)?;
        Ok(())
    }

    /// Writes all of them to the area at `save` in the memory of `task`.
    ///
    /// # Errors
    ///
    /// `EFAULT` for memory that cannot be written; what is behind it is left out.
    fn write(mut self, task: &NamedTask, save: u64) -> Result {
        let starts = self.runs.iter().skip(1).map(|&(_, start)| start);
        let ends = Iterator::chain(starts, [self.bytes.len()]);
        for (&(index, start), end) in self.runs.iter().zip(ends) {
            let place = save.checked_add(u64::from(index) * 4).ok_or(EFAULT)?;
            task.write(place, self.bytes.get_mut(start..end).ok_or(EINVAL)?)?;
        }
        Ok(())
    }
}

impl Process {
    /// Writes how the waves of suspended queues are saved to their save areas, in the memory of
    /// `task`, which is of this process. What cannot be read or written is left out, as by amdkfd.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn write_save_areas(&self, task: &NamedTask) -> Result {
        let mut id = 0;
        while let Some((next, save)) = self.exceptions.suspended_after(id) {
            id = next;
            let found = self.queues.lock().get(id);
            let Ok((queue, _)) = found else { continue };
            let mut saved = SavedDwords::new();
            let state = queue.saved_waves(&mut |index, dword| saved.add(index, dword));
            let state = match state {
                Err(error) if error == ENOMEM => return Err(error),
                Err(_) => continue,
                Ok(state) => state,
            };
            for (index, dword) in (0..).zip(state.header()) {
                saved.add(index, dword)?;
            }
            let _ = saved.write(task, save);
        }
        Ok(())
    }
}
