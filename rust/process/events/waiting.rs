// SPDX-License-Identifier: GPL-2.0
//! Waiting for events.

use core::ops::{Deref, DerefMut};
use core::slice;

use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::{msecs_to_jiffies, Instant, Monotonic};

use super::event::{EventPayload, Room};
use super::waiter::EventWaiter;
use super::{EventsState, ProcessEvents};
use crate::kern::task;

/// Milliseconds after which a waiter polls its events: an interrupt may have been lost.
const LOOK_AGAIN: u32 = 100;

/// Events that are polled before the lock is released for others.
const AT_ONCE: usize = 16;

/// An event that a caller waits for.
pub(crate) struct WaitItem {
    id: u32,
    /// The age that the caller has seen; 0 without ages.
    last_age: u64,
    activated: bool,
    /// The index under which the waiter is in the event's list for this item; items that name the
    /// same event share one.
    listed: Option<usize>,
    payload: EventPayload,
}

impl WaitItem {
    /// Event `id`, last seen at age `last_age`, which is 0 without ages.
    pub(crate) fn new(id: u32, last_age: u64) -> Self {
        Self {
            id,
            last_age,
            activated: false,
            listed: None,
            payload: EventPayload::Nothing,
        }
    }

    /// The payload after a wait.
    pub(crate) fn payload(&self) -> &EventPayload {
        &self.payload
    }
}

/// The events that a caller waits for. A single one, the usual case, needs no allocation.
pub(crate) enum WaitItems {
    /// One.
    One(WaitItem),
    /// Any number.
    Many(KVVec<WaitItem>),
}

impl Deref for WaitItems {
    type Target = [WaitItem];

    fn deref(&self) -> &[WaitItem] {
        match self {
            Self::One(item) => slice::from_ref(item),
            Self::Many(items) => items,
        }
    }
}

impl DerefMut for WaitItems {
    fn deref_mut(&mut self) -> &mut [WaitItem] {
        match self {
            Self::One(item) => slice::from_mut(item),
            Self::Many(items) => items,
        }
    }
}

/// The events that ended a wait. Dropping this without [`ConsumedEvents::commit`] makes the
/// consumed settings available to the next waiter.
pub(crate) struct ConsumedEvents {
    items: WaitItems,
    events: Arc<ProcessEvents>,
    kept: bool,
}

impl ConsumedEvents {
    /// All events of the wait.
    pub(crate) fn items(&self) -> &[WaitItem] {
        &self.items
    }

    /// The caller has got the result.
    pub(crate) fn commit(mut self) {
        self.kept = true;
    }
}

impl Drop for ConsumedEvents {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        for item in self.items.iter().filter(|item| item.activated) {
            // The lock is taken for each item, as in `enlist`. An event that was destroyed
            // meanwhile needs nothing.
            if let Some(event) = self.events.state.lock().get_mut(item.id) {
                event.restore();
            }
        }
    }
}

impl ProcessEvents {
    /// Waits for one of the events, or for `all`. `None` if they were not set within `timeout`
    /// milliseconds; without a `timeout` the wait lasts for ever. `poll` is called now and then,
    /// without locks, to handle interrupts that were lost.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown event; `EIO` if one was destroyed; `ERESTARTSYS` on a signal, with
    /// the rest of the time in `timeout` and the consumed settings restored; `EINTR` when the
    /// caller is killed; `ENOMEM`.
    pub(crate) fn wait(
        self: &Arc<Self>,
        mut items: WaitItems,
        all: bool,
        timeout: &mut Option<u32>,
        poll: impl Fn(),
    ) -> Result<Option<ConsumedEvents>> {
        // Not when all of several events are needed: some might have to be restored.
        let come = if (!all || items.len() == 1) && self.try_finish(&mut items)? {
            true
        } else {
            let missing = if all { items.len() } else { items.len().min(1) };
            let waiter = EventWaiter::new(missing)?;
            let result = self
                .enlist(&mut items, &waiter)
                .and_then(|()| self.wait_for(&items, &waiter, timeout, poll));
            self.finish(&mut items, &waiter, result);
            result?
        };
        Ok(come.then(|| ConsumedEvents {
            items,
            events: self.clone(),
            kept: false,
        }))
    }

    /// Ends a wait for one of the events without listing it, because one of them is set. Returns
    /// whether one is. Not tried for more than [`AT_ONCE`] events.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown event.
    fn try_finish(&self, items: &mut [WaitItem]) -> Result<bool> {
        if items.len() > AT_ONCE {
            return Ok(false);
        }
        let mut state = self.state.lock();
        if items.iter().any(|item| state.get_mut(item.id).is_none()) {
            return Err(EINVAL);
        }
        let mut any = false;
        for item in items {
            state.poll(item);
            let event = state.get_mut(item.id).ok_or(EINVAL)?;
            item.activated = event.try_consume(item.last_age);
            if item.activated {
                item.payload = event.payload(item.last_age);
                any = true;
            }
        }
        Ok(any)
    }

    /// Lists the waiter with its events. On an error the entries made so far stay.
    fn enlist(&self, items: &mut [WaitItem], waiter: &Arc<EventWaiter>) -> Result {
        {
            let mut state = self.state.lock();
            if items.iter().any(|item| state.get_mut(item.id).is_none()) {
                return Err(EINVAL);
            }
        }
        let mut room = None;
        for (index, item) in items.iter_mut().enumerate() {
            if room.is_none() {
                room = Some(Room::new(GFP_KERNEL_ACCOUNT)?);
            }
            // The lock is taken for each item: there may be more events than it should be held for.
            let mut state = self.state.lock();
            state.poll(item);
            // An event that was destroyed just now counts as destroyed before the wait.
            let event = state.get_mut(item.id).ok_or(EINVAL)?;
            item.listed = event.start_wait(waiter, index, item.last_age, &mut room)?;
            item.activated = item.listed.is_none();
        }
        Ok(())
    }

    fn wait_for(
        &self,
        items: &[WaitItem],
        waiter: &EventWaiter,
        timeout: &mut Option<u32>,
        poll: impl Fn(),
    ) -> Result<bool> {
        let started = Instant::<Monotonic>::now();
        let total = *timeout;
        let mut state = self.state.lock();
        loop {
            if waiter.is_done()? {
                return Ok(true);
            }
            let elapsed = u32::try_from(started.elapsed().as_millis()).unwrap_or(u32::MAX);
            let left = total.map(|total| total.saturating_sub(elapsed));
            if task::is_killed() {
                return Err(EINTR);
            }
            if kernel::current!().signal_pending() {
                *timeout = left;
                return Err(ERESTARTSYS);
            }
            if left == Some(0) {
                return Ok(false);
            }
            let most = left.map_or(LOOK_AGAIN, |left| left.min(LOOK_AGAIN));
            // One more, since the first jiffy may be nearly over.
            if waiter.sleep(&mut state, msecs_to_jiffies(most) + 1) {
                drop(state);
                poll();
                self.poll_listed(items);
                state = self.state.lock();
            }
        }
    }

    /// Sets those of the events whose slots the GPU has written to. It polls all slots where that
    /// is less work.
    fn poll_listed(&self, items: &[WaitItem]) {
        if items.len() > AT_ONCE {
            return self.poll_slots();
        }
        let mut state = self.state.lock();
        items.iter().for_each(|item| state.poll(item));
    }

    /// Removes the waiter from its events' lists, and notes the payloads.
    fn finish(&self, items: &mut [WaitItem], waiter: &Arc<EventWaiter>, result: Result<bool>) {
        for at in 0..items.len() {
            // The lock is taken for each item, as in `enlist`.
            let mut state = self.state.lock();
            let Some(event) = items.get(at).and_then(|item| state.get_mut(item.id)) else {
                continue;
            };
            match items.get(at).and_then(|item| item.listed) {
                Some(first) if first == at => {
                    let activated = event.finish(waiter, at);
                    if let Some(item) = items.get_mut(at) {
                        item.activated |= activated;
                    }
                }
                // An earlier item of the same event, which was processed by now.
                Some(first) => {
                    let activated = items.get(first).is_some_and(|item| item.activated);
                    if let Some(item) = items.get_mut(at) {
                        item.activated |= activated;
                    }
                }
                None => {}
            }
            let Some(item) = items.get_mut(at).filter(|item| item.activated) else {
                continue;
            };
            match result {
                Ok(true) => item.payload = event.payload(item.last_age),
                Ok(false) => {}
                Err(_) => event.restore(),
            }
        }
    }
}

impl EventsState {
    /// Sets an event whose slot the GPU has written to, whether or not the interrupt came.
    fn poll(&mut self, item: &WaitItem) {
        let slot = item.id as usize;
        if self.signals.get_mut(slot).is_some() && self.is_signaled(slot) {
            self.set_slot(slot);
        }
    }
}
