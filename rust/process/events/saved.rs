// SPDX-License-Identifier: GPL-2.0
//! Events of a process that is saved or restored.

use hw::topology::gpu_id::GpuId;
use kernel::prelude::*;

use super::event::{EventState, KfdEvent};
use super::page::{EventPage, OwnEventPage};
use super::{ProcessEvents, FIRST_OTHER, OTHERS, SLOTS};

/// The event page of a process that is saved or restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SavedEventPage {
    /// There is none.
    None,
    /// The driver's, of which the process has mapped so many slots.
    Own(u32),
    /// A buffer: its GPU, and its number there.
    Buffer(GpuId, u32),
}

impl ProcessEvents {
    /// The event page.
    pub(crate) fn saved_page(&self) -> SavedEventPage {
        let state = self.state.lock();
        match &state.page {
            None => SavedEventPage::None,
            Some(EventPage::Own(_)) => SavedEventPage::Own(state.slots as u32),
            Some(EventPage::Buffer { bo, handle }) => {
                SavedEventPage::Buffer(bo.gpu().hw.id, *handle as u32)
            }
        }
    }

    /// The first event whose number is `from` or more, and its number. What the GPU has written to
    /// its slot is part of its state.
    pub(crate) fn saved_from(&self, from: u32) -> Option<(u32, EventState)> {
        let mut state = self.state.lock();
        let signal = match from < FIRST_OTHER {
            true => state.signals.next(from as usize),
            false => None,
        };
        if let Some(slot) = signal {
            let is_set = state.is_signaled(slot);
            let mut saved = state.signals.get_mut(slot)?.state();
            saved.signaled |= is_set;
            return Some((slot as u32, saved));
        }
        let number = state
            .others
            .next(from.saturating_sub(FIRST_OTHER) as usize)?;
        let saved = state.others.get_mut(number)?.state();
        Some((number as u32 + FIRST_OTHER, saved))
    }

    /// Makes the driver's event page, of which the process had mapped `slots` slots.
    ///
    /// # Errors
    ///
    /// `EINVAL` for more slots than there are, or if there is a page; `ENOMEM`; `ENODEV` at the
    /// process's end.
    pub(crate) fn restore_own_page(&self, slots: u32) -> Result {
        let slots = slots as usize;
        if slots > SLOTS {
            return Err(EINVAL);
        }
        let _changing = self.changing.lock();
        let page = OwnEventPage::new()?;
        let mut state = self.state.lock();
        if state.ended {
            return Err(ENODEV);
        }
        if state.page.is_some() {
            return Err(EINVAL);
        }
        state.page = Some(EventPage::Own(page));
        state.slots = slots;
        Ok(())
    }

    /// Creates event `id` in the state `saved`.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if the number is taken, or not one of such an event; `ENOMEM`, also for an event
    /// with a slot without an event page; `ENODEV` at the process's end.
    pub(crate) fn restore(&self, id: u32, saved: &EventState) -> Result {
        let _changing = self.changing.lock();
        let event = KBox::new(KfdEvent::restored(saved), GFP_KERNEL_ACCOUNT)?;
        let has_slot = saved.kind.has_slot();
        if has_slot && self.state.lock().page.is_none() {
            return Err(ENOMEM);
        }
        self.prepare(saved.kind)?;
        let mut state = self.state.lock();
        if state.ended {
            return Err(ENODEV);
        }
        let (number, numbers) = match (has_slot, id.checked_sub(FIRST_OTHER)) {
            (true, None) if id != 0 && (id as usize) < state.slots => {
                (id as usize, &mut state.signals)
            }
            (false, Some(number)) if (number as usize) < OTHERS => {
                (number as usize, &mut state.others)
            }
            _ => return Err(ENOSPC),
        };
        let inserted = numbers.insert(number..number + 1, event);
        drop(state);
        // Freed outside the lock.
        inserted.map(|_| ()).map_err(|_| ENOSPC)
    }
}
