// SPDX-License-Identifier: GPL-2.0
//! The events of a process: by number, with the page of slots by which the GPU sets them.

mod event;
mod numbers;
mod page;
mod saved;
mod waiter;
mod waiting;

use hw::doorbell::{MmapKind, MmapOffset};
use hw::va::PAGE_SIZE;
use kernel::mm::virt::VmaNew;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::{Arc, Mutex, SpinLock};

use crate::kern::uapi;
use crate::kern::vma;
use crate::mem::bo::Bo;
use event::KfdEvent;
use numbers::EventIds;
use page::{EventPage, OwnEventPage};

pub(crate) use event::{EventKind, EventPayload, EventState, MemoryFault};
pub(crate) use saved::SavedEventPage;
pub(crate) use waiting::{ConsumedEvents, WaitItem, WaitItems};

/// Slots in the event page: `KFD_SIGNAL_EVENT_LIMIT`. Slot 0 belongs to no event: firmware sends
/// interrupts of context 0 that mean nothing.
pub(crate) const SLOTS: usize = uapi::KFD_SIGNAL_EVENT_LIMIT as usize;
/// Slots that are used before the process maps the driver's page: the size that the first clients
/// mapped.
const UNMAPPED_SLOTS: usize = 256;
/// Slots that are polled before the lock is released for others.
const SLOTS_AT_ONCE: usize = 256;
/// Number of the first event without a slot.
const FIRST_OTHER: u32 = 0x4000_0000;
/// Events without a slot.
const OTHERS: usize = 1024;

/// The events of a process. `changing` is outside the spinlock and inside the mmap lock; code that
/// adds events holds it over allocations. Everything else takes only the spinlock.
#[pin_data]
pub(crate) struct ProcessEvents {
    #[pin]
    changing: Mutex<()>,
    #[pin]
    state: SpinLock<EventsState>,
}

struct EventsState {
    /// Events with a slot, by slot.
    signals: EventIds,
    /// The other events, from [`FIRST_OTHER`] on.
    others: EventIds,
    page: Option<EventPage>,
    /// Slots that the process has mapped.
    slots: usize,
    ended: bool,
}

impl ProcessEvents {
    /// No events.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                changing <- kernel::new_mutex!((), "ProcessEvents::changing"),
                state <- kernel::new_spinlock!(
                    EventsState {
                        signals: EventIds::none(),
                        others: EventIds::none(),
                        page: None,
                        slots: 0,
                        ended: false,
                    },
                    "ProcessEvents::state"
                ),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Takes a buffer of the process for the event page: system memory of the driver's with room
    /// for all slots, which are cleared.
    ///
    /// # Errors
    ///
    /// `EINVAL` for another kind of buffer, or if there is a page; `ENODEV` at the process's end.
    pub(crate) fn set_page(&self, bo: ARef<Bo>, handle: u64) -> Result {
        if !bo.is_gtt() || bo.size() < SLOTS * page::SLOT_BYTES {
            return Err(EINVAL);
        }
        let _changing = self.changing.lock();
        {
            let state = self.state.lock();
            if state.ended {
                return Err(ENODEV);
            }
            if state.page.is_some() {
                return Err(EINVAL);
            }
        }
        let page = EventPage::Buffer { bo, handle };
        (0..SLOTS).for_each(|slot| page.clear(slot));
        let mut state = self.state.lock();
        state.page = Some(page);
        state.slots = SLOTS;
        Ok(())
    }

    /// Whether `bo`, the buffer of this handle, is the event page. The process may free the buffer
    /// by another handle, and after the page's GPU has gone and come back the handle belongs to
    /// another buffer.
    pub(crate) fn is_page(&self, bo: &Bo, handle: u64) -> bool {
        let is = |page: &EventPage| match page {
            EventPage::Buffer { bo: of, handle: by } => {
                of.address() == bo.address() && *by == handle
            }
            EventPage::Own(_) => false,
        };
        self.state.lock().page.as_ref().is_some_and(is)
    }

    /// Creates an event; returns its number, which is the slot's for an event with a slot.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if all numbers are taken; `ENOMEM`; `ENODEV` at the process's end.
    pub(crate) fn create(&self, kind: EventKind, auto_reset: bool) -> Result<u32> {
        let _changing = self.changing.lock();
        let event = KBox::new(KfdEvent::new(kind, auto_reset), GFP_KERNEL_ACCOUNT)?;
        self.prepare(kind)?;
        let mut state = self.state.lock();
        if state.ended {
            return Err(ENODEV);
        }
        let number = if kind.has_slot() {
            let range = 1..state.slots;
            let number = state.signals.insert(range, event).map_err(|_| ENOSPC)?;
            if let Some(page) = &state.page {
                page.clear(number);
            }
            number
        } else {
            let number = state.others.insert(0..OTHERS, event).map_err(|_| ENOSPC)?;
            number + FIRST_OTHER as usize
        };
        Ok(u32::try_from(number)?)
    }

    /// Ensures that there is a table entry for an event of `kind`, and its slot if it has one. The
    /// caller holds `changing`.
    fn prepare(&self, kind: EventKind) -> Result {
        match kind.has_slot() {
            true => self.prepare_slots(),
            false => self.prepare_unslotted(),
        }
    }

    /// Ensures that there are table entries and slots for events. The caller holds `changing`.
    fn prepare_slots(&self) -> Result {
        let (places, page) = {
            let state = self.state.lock();
            (state.signals.is_none(), state.page.is_none())
        };
        if places {
            let signals = EventIds::new(SLOTS)?;
            let none = core::mem::replace(&mut self.state.lock().signals, signals);
            drop(none);
        }
        if page {
            let page = OwnEventPage::new()?;
            let mut state = self.state.lock();
            state.page = Some(EventPage::Own(page));
            state.slots = UNMAPPED_SLOTS;
        }
        Ok(())
    }

    /// Ensures that there are table entries for events without slots. The caller holds `changing`.
    fn prepare_unslotted(&self) -> Result {
        if self.state.lock().others.is_none() {
            let others = EventIds::new(OTHERS)?;
            let none = core::mem::replace(&mut self.state.lock().others, others);
            drop(none);
        }
        Ok(())
    }

    /// Destroys event `id`; its waiters get `EIO`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown event.
    pub(crate) fn destroy(&self, id: u32) -> Result {
        let event = self.state.lock().remove(id).ok_or(EINVAL)?;
        // Freed outside the lock.
        drop(event);
        Ok(())
    }

    /// Sets event `id` for the process.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown event, or one that the process may not set.
    pub(crate) fn set(&self, id: u32) -> Result {
        self.on_signal(id, KfdEvent::set)
    }

    /// Resets event `id` for the process.
    ///
    /// # Errors
    ///
    /// `EINVAL` as for [`ProcessEvents::set`].
    pub(crate) fn reset(&self, id: u32) -> Result {
        self.on_signal(id, KfdEvent::reset)
    }

    fn on_signal(&self, id: u32, act: impl FnOnce(&mut KfdEvent)) -> Result {
        let mut state = self.state.lock();
        let event = state.get_mut(id).ok_or(EINVAL)?;
        if event.kind() != EventKind::Signal {
            return Err(EINVAL);
        }
        act(event);
        Ok(())
    }

    /// Maps the driver's event page at `vma`; events may then have as many slots as are mapped.
    ///
    /// # Errors
    ///
    /// `EINVAL` without such a page, or for a mapping that is larger than it or not shared.
    pub(crate) fn mmap(&self, vma: &VmaNew) -> Result {
        let own = match &self.state.lock().page {
            Some(EventPage::Own(page)) => page.clone(),
            _ => return Err(EINVAL),
        };
        let pages = (vma.end() - vma.start()) / PAGE_SIZE as usize;
        if pages > page::PAGES {
            return Err(EINVAL);
        }
        let offset = MmapOffset {
            kind: MmapKind::Events,
            gpu_id: 0,
        };
        vma::map(vma, own, pages, (offset.encode() / PAGE_SIZE) as usize)?;
        self.state.lock().slots = pages * PAGE_SIZE as usize / page::SLOT_BYTES;
        Ok(())
    }

    /// Handles an interrupt of the process whose context has `bits` valid bits: sets the event that
    /// it names. False if it names none, so that any event may be meant. Allocates nothing, does
    /// not wait.
    pub(crate) fn signal(&self, context: u32, bits: u32) -> bool {
        let mut state = self.state.lock();
        let slot = state.named(context, bits);
        if let Some(slot) = slot {
            state.set_slot(slot);
        }
        slot.is_some()
    }

    /// Sets every event whose slot the GPU has written to. Allocates nothing, does not wait.
    pub(crate) fn poll_slots(&self) {
        let mut at = 0;
        // The lock is released between groups of slots.
        while let Some(next) = self.state.lock().set_signaled(at, SLOTS_AT_ONCE) {
            at = next;
        }
    }

    /// Sets the events of `kind`, with `payload`. Allocates nothing, does not wait.
    pub(crate) fn raise(&self, kind: EventKind, payload: EventPayload) {
        let mut state = self.state.lock();
        let mut at = 0;
        while let Some(number) = state.others.next(at) {
            if let Some(event) = state.others.get_mut(number) {
                if event.kind() == kind {
                    event.set_for(payload);
                }
            }
            at = number + 1;
        }
    }

    /// Destroys all events and releases the page; no event is added afterwards.
    pub(super) fn end(&self) {
        let _changing = self.changing.lock();
        let left = {
            let mut state = self.state.lock();
            state.ended = true;
            state.destroy_all();
            let signals = core::mem::replace(&mut state.signals, EventIds::none());
            let others = core::mem::replace(&mut state.others, EventIds::none());
            (signals, others, state.page.take())
        };
        // Freed outside the lock.
        drop(left);
    }
}

impl EventsState {
    /// The event `id`.
    fn get_mut(&mut self, id: u32) -> Option<&mut KfdEvent> {
        match id.checked_sub(FIRST_OTHER) {
            Some(number) => self.others.get_mut(number as usize),
            None => self.signals.get_mut(id as usize),
        }
    }

    /// Removes the event `id`, and notifies its waiters.
    fn remove(&mut self, id: u32) -> Option<KBox<KfdEvent>> {
        let event = match id.checked_sub(FIRST_OTHER) {
            Some(number) => self.others.remove(number as usize)?,
            None => self.signals.remove(id as usize)?,
        };
        event.set_destroyed();
        Some(event)
    }

    fn destroy_all(&mut self) {
        for numbers in [&mut self.signals, &mut self.others] {
            let mut at = 0;
            while let Some(number) = numbers.next(at) {
                if let Some(event) = numbers.get_mut(number) {
                    event.set_destroyed();
                }
                at = number + 1;
            }
        }
    }

    /// Whether the GPU has written to the slot of an event.
    fn is_signaled(&self, slot: usize) -> bool {
        self.page
            .as_ref()
            .is_some_and(|page| page.is_signaled(slot))
    }

    /// The slot of the event that the low `bits` bits of a context name, if the GPU has written to
    /// it.
    fn named(&mut self, context: u32, bits: u32) -> Option<usize> {
        let first = usize::try_from(context).ok()?;
        let step = 1usize.checked_shl(bits).unwrap_or(SLOTS).min(SLOTS);
        (first..SLOTS)
            .step_by(step)
            .find(|&slot| self.signals.get_mut(slot).is_some() && self.is_signaled(slot))
    }

    /// Sets the event of a slot, and clears the slot.
    fn set_slot(&mut self, slot: usize) {
        if let Some(page) = &self.page {
            page.clear(slot);
        }
        if let Some(event) = self.signals.get_mut(slot) {
            event.set();
        }
    }

    /// Sets the events whose slots the GPU has written to, among `most` events from slot `at` on.
    /// Returns where to continue if there are more.
    fn set_signaled(&mut self, mut at: usize, most: usize) -> Option<usize> {
        for _ in 0..most {
            let slot = self.signals.next(at)?;
            if self.is_signaled(slot) {
                self.set_slot(slot);
            }
            at = slot + 1;
        }
        Some(at)
    }
}
