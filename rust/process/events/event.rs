// SPDX-License-Identifier: GPL-2.0
//! An event: what happened, and who waits for it. The lock of the process's events guards each.

use core::mem::swap;

use hw::topology::gpu_id::GpuId;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNodeReservation};
use kernel::sync::Arc;

use super::waiter::EventWaiter;
use crate::kern::uapi::event_type;

/// The age of an event that was never set. 0 in a wait says that the caller does not know of ages.
const FIRST_AGE: u64 = 1;

/// What an event is about: `KFD_IOC_EVENT_*`.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum EventKind {
    /// Set by the GPU or by the process; it has a slot in the event page.
    Signal,
    /// Set by the GPU for a debugger; it has a slot in the event page.
    Debug,
    /// A GPU access had no mapping.
    Memory,
    /// A queue or the GPU had to be stopped.
    Hardware,
    /// One that nothing here sets: node change, device state, system, profile, queue.
    Silent,
}

impl EventKind {
    /// The kind that user space calls `raw`. EINVAL.
    pub(crate) fn new(raw: u32) -> Result<Self> {
        Ok(match raw {
            event_type::SIGNAL => Self::Signal,
            event_type::DEBUG_EVENT => Self::Debug,
            event_type::MEMORY => Self::Memory,
            event_type::HW_EXCEPTION => Self::Hardware,
            event_type::NODECHANGE
            | event_type::DEVICESTATECHANGE
            | event_type::SYSTEM_EVENT
            | event_type::PROFILE_EVENT
            | event_type::QUEUE_EVENT => Self::Silent,
            _ => return Err(EINVAL),
        })
    }

    /// Whether it has a slot in the event page, by which the GPU sets it.
    pub(crate) fn has_slot(self) -> bool {
        matches!(self, Self::Signal | Self::Debug)
    }
}

/// What a waiter is told of an event beside that it was set.
#[derive(Clone, Copy)]
pub(crate) enum EventPayload {
    /// Nothing.
    Nothing,
    /// How often it was set, plus one.
    Age(u64),
    /// The access.
    Memory(MemoryFault),
    /// A queue of the process on this GPU hung or did what it must not, and was stopped.
    Stopped(GpuId),
    /// The GPU is reset, and all that the process had on it is lost.
    Reset(GpuId),
}

/// A GPU access that was refused.
#[derive(Clone, Copy)]
pub(crate) struct MemoryFault {
    /// The GPU.
    pub(crate) gpu: GpuId,
    /// The first address of the page.
    pub(crate) address: u64,
    /// Nothing is mapped there.
    pub(crate) not_present: bool,
    /// It was a store to a page that may only be read.
    pub(crate) read_only: bool,
    /// It was an instruction fetch from a page that may not be executed.
    pub(crate) no_execute: bool,
}

/// A waiter in an event's list: which, and as which of its events. Of one waiter, the last is first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WaiterKey {
    waiter: usize,
    last: usize,
}

impl WaiterKey {
    fn new(waiter: &Arc<EventWaiter>, index: usize) -> Self {
        Self {
            waiter: core::ptr::from_ref(&**waiter) as usize,
            last: usize::MAX - index,
        }
    }
}

/// What an event has of a waiter, which is in its list once, however often it names the event: unless the event was set
/// while the wait began.
pub(super) struct ListedWaiter {
    waiter: Arc<EventWaiter>,
    /// Which of the waiter's events this is to it, the first if it is several.
    index: usize,
    /// How many it is.
    count: usize,
}

/// Room for one more in an event's list, made without the lock.
pub(super) type Room = RBTreeNodeReservation<WaiterKey, ListedWaiter>;

/// An event.
pub(super) struct KfdEvent {
    kind: EventKind,
    auto_reset: bool,
    signaled: bool,
    age: u64,
    payload: EventPayload,
    /// Who waits for it. A tree, as there may be many and each leaves by itself.
    waiting: RBTree<WaiterKey, ListedWaiter>,
    /// Who has it, and has not left: it may still wait for others.
    activated: RBTree<WaiterKey, ListedWaiter>,
}

impl KfdEvent {
    /// One that was not set. With `auto_reset` each setting is for those that wait at that moment or, if there are
    /// none, for the next.
    pub(super) fn new(kind: EventKind, auto_reset: bool) -> Self {
        Self {
            kind,
            auto_reset,
            signaled: false,
            age: FIRST_AGE,
            payload: EventPayload::Nothing,
            waiting: RBTree::new(),
            activated: RBTree::new(),
        }
    }

    /// What it is about.
    pub(super) fn kind(&self) -> EventKind {
        self.kind
    }

    /// Sets it: activates who waits. Costs what those are, however many others have it.
    pub(super) fn set(&mut self) {
        let taken = !self.waiting.is_empty();
        for listed in self.waiting.values() {
            listed.waiter.activate(listed.count);
        }
        if self.activated.is_empty() {
            swap(&mut self.waiting, &mut self.activated);
        }
        let mut cursor = self.waiting.cursor_front_mut();
        while let Some(at) = cursor {
            let (next, node) = at.remove_current();
            // There is no other with this key.
            let _ = self.activated.insert(node);
            cursor = next;
        }
        self.signaled = !(self.auto_reset && taken);
        self.age = self.age.checked_add(1).unwrap_or(FIRST_AGE + 1);
    }

    /// Sets it, for `payload`.
    pub(super) fn set_for(&mut self, payload: EventPayload) {
        self.payload = payload;
        self.set();
    }

    /// Takes the setting back, if nobody has seen it yet.
    pub(super) fn reset(&mut self) {
        self.signaled = false;
    }

    /// What it has of `waiter`, which waits for it.
    fn latest(&mut self, waiter: &Arc<EventWaiter>) -> Option<&mut ListedWaiter> {
        let from = WaiterKey::new(waiter, usize::MAX);
        let key = *self.waiting.cursor_lower_bound(&from)?.current().0;
        let listed = self.waiting.get_mut(&key)?;
        Arc::ptr_eq(&listed.waiter, waiter).then_some(listed)
    }

    /// Whether somebody who has seen age `last_age` (0 if it does not know) need not wait for it, who has it then.
    pub(super) fn try_consume(&mut self, last_age: u64) -> bool {
        let missed = self.kind == EventKind::Signal && last_age != 0 && last_age != self.age;
        let taken = self.signaled || missed;
        self.signaled = self.signaled && !self.auto_reset;
        taken
    }

    /// Begins a wait: whether `waiter` need not wait for it, which has seen age `last_age` (0 if it does not know).
    /// Otherwise it is listed as its event `index`, or has been for the same event; as which is returned. `room` is there, and left
    /// if it is not needed. ENOMEM without room.
    pub(super) fn start_wait(
        &mut self,
        waiter: &Arc<EventWaiter>,
        index: usize,
        last_age: u64,
        room: &mut Option<Room>,
    ) -> Result<Option<usize>> {
        if self.try_consume(last_age) {
            waiter.activate(1);
            return Ok(None);
        }
        if let Some(latest) = self.latest(waiter) {
            latest.count += 1;
            return Ok(Some(latest.index));
        }
        let listed = ListedWaiter {
            waiter: waiter.clone(),
            index,
            count: 1,
        };
        let node = room.take().ok_or(ENOMEM)?;
        // There is no other with this key.
        let _ = self
            .waiting
            .insert(node.into_node(WaiterKey::new(waiter, index), listed));
        Ok(Some(index))
    }

    /// Ends the wait of `waiter` for it, listed as its event `index`: whether it was activated as that.
    pub(super) fn finish(&mut self, waiter: &Arc<EventWaiter>, index: usize) -> bool {
        let key = WaiterKey::new(waiter, index);
        self.waiting.remove(&key).is_none() && self.activated.remove(&key).is_some()
    }

    /// A wait that it has ended will be made again: what that consumed is there again.
    pub(super) fn restore(&mut self) {
        if self.auto_reset {
            self.set();
        }
    }

    /// What a waiter is told that has seen age `last_age`.
    pub(super) fn payload(&self, last_age: u64) -> EventPayload {
        match self.kind {
            EventKind::Signal if last_age != 0 => EventPayload::Age(self.age),
            EventKind::Memory | EventKind::Hardware => self.payload,
            _ => EventPayload::Nothing,
        }
    }

    /// It is being destroyed: those that wait for it have waited in vain.
    pub(super) fn set_destroyed(&self) {
        let lists = [&self.waiting, &self.activated];
        for listed in lists.into_iter().flat_map(RBTree::values) {
            listed.waiter.event_destroyed();
        }
    }
}
