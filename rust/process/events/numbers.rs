// SPDX-License-Identifier: GPL-2.0
//! Events by number. The lowest free number is given out. Only the creation of the table allocates.

use kernel::bitmap::BitmapVec;
use kernel::prelude::*;

use super::event::KfdEvent;

/// A table of events.
pub(super) struct EventIds {
    used: BitmapVec,
    places: KVVec<Option<KBox<KfdEvent>>>,
}

impl EventIds {
    /// A table without entries.
    pub(super) fn none() -> Self {
        Self {
            used: BitmapVec::new_inline(),
            places: KVVec::new(),
        }
    }

    /// A table of `count` entries.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(count: usize) -> Result<Self> {
        let mut places = KVVec::with_capacity(count, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..count {
            places.push(None, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(Self {
            used: BitmapVec::new(count, GFP_KERNEL_ACCOUNT)?,
            places,
        })
    }

    /// Whether it has no entries.
    pub(super) fn is_none(&self) -> bool {
        self.places.is_empty()
    }

    /// Inserts an event at the lowest free number of `range`; returns the event if there is none.
    pub(super) fn insert(
        &mut self,
        range: core::ops::Range<usize>,
        event: KBox<KfdEvent>,
    ) -> Result<usize, KBox<KfdEvent>> {
        let end = range.end.min(self.places.len());
        let free = if range.start < end {
            self.used.next_zero_bit(range.start)
        } else {
            None
        };
        let Some(number) = free.filter(|&number| number < end) else {
            return Err(event);
        };
        self.used.set_bit(number);
        if let Some(place) = self.places.get_mut(number) {
            *place = Some(event);
        }
        Ok(number)
    }

    /// The event `number`.
    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut KfdEvent> {
        self.places.get_mut(number)?.as_deref_mut()
    }

    /// Removes the event `number`.
    pub(super) fn remove(&mut self, number: usize) -> Option<KBox<KfdEvent>> {
        let event = self.places.get_mut(number)?.take()?;
        self.used.clear_bit(number);
        Some(event)
    }

    /// The first number from `from` on that has an event.
    pub(super) fn next(&self, from: usize) -> Option<usize> {
        if from < self.places.len() {
            self.used.next_bit(from)
        } else {
            None
        }
    }
}
