// SPDX-License-Identifier: GPL-2.0
//! Small numbers for objects of a process or of an open file.

use kernel::prelude::*;

/// Objects by number. Numbers start at 1, and free ones are reused first. There may be more objects
/// than contiguous pages can be had for.
pub(crate) struct HandleTable<T> {
    places: KVVec<Option<T>>,
    free: KVVec<u32>,
}

impl<T> HandleTable<T> {
    /// An empty table.
    pub(crate) const fn new() -> Self {
        Self {
            places: KVVec::new(),
            free: KVVec::new(),
        }
    }

    /// The number that [`HandleTable::insert`] will give to the next object. That insertion cannot
    /// fail.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOSPC`.
    pub(crate) fn next(&mut self) -> Result<u32> {
        if self.free.is_empty() {
            let number = u32::try_from(self.places.len() + 1).map_err(|_| ENOSPC)?;
            // Reserves room for every number, so that giving one back cannot fail.
            self.free
                .reserve(self.places.len() + 1, GFP_KERNEL_ACCOUNT)?;
            self.places.push(None, GFP_KERNEL_ACCOUNT)?;
            self.free.push(number, GFP_KERNEL_ACCOUNT)?;
        }
        self.free.last().copied().ok_or(ENOSPC)
    }

    /// Inserts an object and returns its number.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOSPC`.
    pub(crate) fn insert(&mut self, object: T) -> Result<u32> {
        let number = self.reserve()?;
        self.fill(number, object);
        Ok(number)
    }

    /// Reserves a number for an object that follows by [`HandleTable::fill`], or does not:
    /// [`HandleTable::release`]. Meanwhile the number finds no object.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOSPC`.
    pub(crate) fn reserve(&mut self) -> Result<u32> {
        let number = self.next()?;
        self.free.pop();
        Ok(number)
    }

    /// Reserves the number `number`, which may be beyond all that were given so far.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if it is taken, or no number; `ENOMEM`.
    pub(crate) fn reserve_at(&mut self, number: u32) -> Result {
        if number == 0 {
            return Err(ENOSPC);
        }
        let wanted = usize::try_from(number).map_err(|_| ENOSPC)?;
        if wanted > self.places.len() {
            let more = wanted - self.places.len();
            // As in `next`: room for every number.
            self.free.reserve(wanted, GFP_KERNEL_ACCOUNT)?;
            self.places.reserve(more, GFP_KERNEL_ACCOUNT)?;
            while self.places.len() < wanted {
                self.places.push(None, GFP_KERNEL_ACCOUNT)?;
                let number = u32::try_from(self.places.len()).map_err(|_| ENOSPC)?;
                self.free.push(number, GFP_KERNEL_ACCOUNT)?;
            }
        }
        let free = self.free.iter().position(|&free| free == number);
        self.free.remove(free.ok_or(ENOSPC)?).map_err(|_| ENOSPC)?;
        Ok(())
    }

    /// Inserts the object for which `number` was reserved.
    pub(crate) fn fill(&mut self, number: u32, object: T) {
        if let Some(place) = self.place(number) {
            *place = Some(object);
        }
    }

    /// Frees `number`: its object does not follow, or was removed by
    /// [`HandleTable::remove_reserved`].
    pub(crate) fn release(&mut self, number: u32) {
        // Cannot fail: see `next`.
        let _ = self.free.push_within_capacity(number);
    }

    /// How many numbers are used, or reserved.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Whether the table is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.places.iter().all(Option::is_none)
    }

    fn place(&mut self, number: u32) -> Option<&mut Option<T>> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        self.places.get_mut(index)
    }

    /// The object of a number.
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        self.places.get(index)?.as_ref()
    }

    /// The object of a number.
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.place(number)?.as_mut()
    }

    /// All objects, in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().flatten()
    }

    /// All objects with their numbers, in their order.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (u32, &T)> {
        let places = (1u32..).zip(self.places.iter());
        places.filter_map(|(number, place)| Some((number, place.as_ref()?)))
    }

    /// All objects, in the order of their numbers.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().flatten()
    }

    /// Removes the object of a number.
    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let object = self.remove_reserved(number)?;
        self.release(number);
        Some(object)
    }

    /// Removes the object of a number, which stays reserved until [`HandleTable::release`].
    pub(crate) fn remove_reserved(&mut self, number: u32) -> Option<T> {
        self.place(number)?.take()
    }

    /// Removes all objects, in the order of their numbers.
    pub(crate) fn remove_all(&mut self) -> impl Iterator<Item = T> {
        core::mem::replace(self, Self::new())
            .places
            .into_iter()
            .flatten()
    }

    /// The number of an object that `which` selects. Looks at all of them.
    pub(crate) fn find(&self, which: impl Fn(&T) -> bool) -> Option<u32> {
        let found = self
            .places
            .iter()
            .position(|place| place.as_ref().is_some_and(&which))?;
        u32::try_from(found + 1).ok()
    }
}
