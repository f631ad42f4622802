// SPDX-License-Identifier: GPL-2.0
//! An event: its state and its waiters. The lock of the process's events guards each.

use core::mem::swap;

use hw::topology::gpu_id::GpuId;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNodeReservation};
use kernel::sync::Arc;

use super::waiter::EventWaiter;
use crate::kern::uapi::event_type;

/// The age of an event that was never set. 0 in a wait means that the caller does not use ages.
const FIRST_AGE: u64 = 1;

/// The kind of an event: `KFD_IOC_EVENT_*`.
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
    /// Never set by the driver: node change, device state, system, profile, queue.
    Silent,
}

impl EventKind {
    /// A number by which user space calls the kind.
    pub(crate) fn raw(self) -> u32 {
        match self {
            Self::Signal => event_type::SIGNAL,
            Self::Debug => event_type::DEBUG_EVENT,
            Self::Memory => event_type::MEMORY,
            Self::Hardware => event_type::HW_EXCEPTION,
            Self::Silent => event_type::NODECHANGE,
        }
    }

    /// The kind that user space calls `raw`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown kind.
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

/// What a waiter learns of an event, apart from the fact that it was set.
#[derive(Clone, Copy)]
pub(crate) enum EventPayload {
    /// Nothing.
    Nothing,
    /// How often it was set, plus one.
    Age(u64),
    /// The access.
    Memory(MemoryFault),
    /// A queue of the process on this GPU hung or failed, and was stopped.
    Stopped(GpuId),
    /// The GPU is reset, and all of the process's state on it is lost.
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
    /// It was a store to a read-only page.
    pub(crate) read_only: bool,
    /// It was an instruction fetch from a page that is not executable.
    pub(crate) no_execute: bool,
}

/// An event without its waiters, to be saved or restored.
#[derive(Clone, Copy)]
pub(crate) struct EventState {
    /// What it is about.
    pub(crate) kind: EventKind,
    /// Whether it resets itself.
    pub(crate) auto_reset: bool,
    /// Whether it is set.
    pub(crate) signaled: bool,
    /// How often it was set, plus one.
    pub(crate) age: u64,
    /// What its waiters learn of the last time.
    pub(crate) payload: EventPayload,
}

/// A waiter in an event's list: its address, and which of its events this is. Of one waiter, the
/// last entry comes first.
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

/// An event's entry of a waiter. A waiter is listed once, however often it names the event, unless
/// the event was set while the wait began.
pub(super) struct ListedWaiter {
    waiter: Arc<EventWaiter>,
    /// Which of the waiter's events this is; the first one if it names the event several times.
    index: usize,
    /// How often the waiter names the event.
    count: usize,
}

/// Memory for one more entry in an event's list, allocated outside the lock.
pub(super) type Room = RBTreeNodeReservation<WaiterKey, ListedWaiter>;

/// An event.
pub(super) struct KfdEvent {
    kind: EventKind,
    auto_reset: bool,
    signaled: bool,
    age: u64,
    payload: EventPayload,
    /// The waiters. A tree, since there may be many and each leaves by itself.
    waiting: RBTree<WaiterKey, ListedWaiter>,
    /// Waiters that were activated and have not left: they may still wait for other events.
    activated: RBTree<WaiterKey, ListedWaiter>,
}

impl KfdEvent {
    /// An event that was not set. With `auto_reset` each setting is for the waiters of that moment
    /// or, if there are none, for the next one.
    pub(super) fn new(kind: EventKind, auto_reset: bool) -> Self {
        Self::restored(&EventState {
            kind,
            auto_reset,
            signaled: false,
            age: FIRST_AGE,
            payload: EventPayload::Nothing,
        })
    }

    /// An event in this state.
    pub(super) fn restored(state: &EventState) -> Self {
        Self {
            kind: state.kind,
            auto_reset: state.auto_reset,
            signaled: state.signaled,
            age: state.age,
            payload: state.payload,
            waiting: RBTree::new(),
            activated: RBTree::new(),
        }
    }

    /// Its state.
    pub(super) fn state(&self) -> EventState {
        EventState {
            kind: self.kind,
            auto_reset: self.auto_reset,
            signaled: self.signaled,
            age: self.age,
            payload: self.payload,
        }
    }

    /// What it is about.
    pub(super) fn kind(&self) -> EventKind {
        self.kind
    }

    /// Sets the event and activates its waiters. The cost depends on these waiters alone.
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
            // There is no other entry with this key.
            let _ = self.activated.insert(node);
            cursor = next;
        }
        self.signaled = !(self.auto_reset && taken);
        self.age = self.age.checked_add(1).unwrap_or(FIRST_AGE + 1);
    }

    /// Sets the event, with `payload`.
    pub(super) fn set_for(&mut self, payload: EventPayload) {
        self.payload = payload;
        self.set();
    }

    /// Takes the setting back, if no waiter has seen it yet.
    pub(super) fn reset(&mut self) {
        self.signaled = false;
    }

    /// The latest entry of `waiter`, which waits for the event.
    fn latest(&mut self, waiter: &Arc<EventWaiter>) -> Option<&mut ListedWaiter> {
        let from = WaiterKey::new(waiter, usize::MAX);
        let key = *self.waiting.cursor_lower_bound(&from)?.current().0;
        let listed = self.waiting.get_mut(&key)?;
        Arc::ptr_eq(&listed.waiter, waiter).then_some(listed)
    }

    /// Whether a waiter that has seen age `last_age` (0 without ages) need not wait. If so, the
    /// setting is consumed.
    pub(super) fn try_consume(&mut self, last_age: u64) -> bool {
        let missed = self.kind == EventKind::Signal && last_age != 0 && last_age != self.age;
        let taken = self.signaled || missed;
        self.signaled = self.signaled && !self.auto_reset;
        taken
    }

    /// Begins a wait of `waiter`, which has seen age `last_age` (0 without ages). `None` if it need
    /// not wait. Otherwise it is listed, or already is for the same event; the index of the entry
    /// is returned. `room` is used if it is needed.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if `room` is needed and there is none.
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
        // There is no other entry with this key.
        let _ = self
            .waiting
            .insert(node.into_node(WaiterKey::new(waiter, index), listed));
        Ok(Some(index))
    }

    /// Ends the wait of `waiter`, which is listed under `index`. True if the event has activated
    /// it.
    pub(super) fn finish(&mut self, waiter: &Arc<EventWaiter>, index: usize) -> bool {
        let key = WaiterKey::new(waiter, index);
        self.waiting.remove(&key).is_none() && self.activated.remove(&key).is_some()
    }

    /// Undoes the consumption by a wait that will be made again.
    pub(super) fn restore(&mut self) {
        if self.auto_reset {
            self.set();
        }
    }

    /// The payload for a waiter that has seen age `last_age`.
    pub(super) fn payload(&self, last_age: u64) -> EventPayload {
        match self.kind {
            EventKind::Signal if last_age != 0 => EventPayload::Age(self.age),
            EventKind::Memory | EventKind::Hardware => self.payload,
            _ => EventPayload::Nothing,
        }
    }

    /// The event is being destroyed: its waiters fail.
    pub(super) fn set_destroyed(&self) {
        let lists = [&self.waiting, &self.activated];
        for listed in lists.into_iter().flat_map(RBTree::values) {
            listed.waiter.event_destroyed();
        }
    }
}
