// SPDX-License-Identifier: GPL-2.0
//! A line of processes that wait, in which each is found by its PASID without a search.
//!
//! All is in memory of a fixed size, as the line is changed under a spinlock: one entry for each
//! place in the line, doubly linked in its order, and one index for each PASID.

use core::ops::DerefMut;

/// The PASIDs that there are: 16 bits.
pub const PASIDS: usize = 1 << 16;

/// The index of an entry, plus one; 0 for none.
type Link = u16;

/// An entry of the line, or a free one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineEntry<T> {
    pasid: u16,
    before: Link,
    behind: Link,
    /// `None`: the entry is free.
    value: Option<T>,
}

impl<T> LineEntry<T> {
    /// A free entry.
    pub const FREE: Self = Self {
        pasid: 0,
        before: 0,
        behind: 0,
        value: None,
    };
}

/// The line. `T` is kept for each process, `I` has a 0 for each of the [`PASIDS`], and `E` a
/// [`LineEntry::FREE`] for each place.
#[derive(Clone, Debug)]
pub struct WaitLine<I, E> {
    by_pasid: I,
    entries: E,
    first: Link,
    last: Link,
    /// The first free entry; free entries are linked by `behind`, those that were never used follow
    /// `used`.
    free: Link,
    used: u16,
    length: usize,
}

impl<T, I, E> WaitLine<I, E>
where
    I: DerefMut<Target = [u16]>,
    E: DerefMut<Target = [LineEntry<T>]>,
{
    /// An empty line. More entries than 65,535 are not used.
    #[inline]
    pub const fn new(by_pasid: I, entries: E) -> Self {
        Self {
            by_pasid,
            entries,
            first: 0,
            last: 0,
            free: 0,
            used: 0,
            length: 0,
        }
    }

    /// How many wait.
    #[inline]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether none waits.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    fn entry(&mut self, link: Link) -> Option<&mut LineEntry<T>> {
        let index = usize::from(link).checked_sub(1)?;
        self.entries.get_mut(index)
    }

    fn link_of(&self, pasid: u16) -> Option<Link> {
        let link = *self.by_pasid.get(usize::from(pasid))?;
        (link != 0).then_some(link)
    }

    /// The value of process `pasid`, if it waits.
    #[inline]
    pub fn get_mut(&mut self, pasid: u16) -> Option<&mut T> {
        let link = self.link_of(pasid)?;
        self.entry(link)?.value.as_mut()
    }

    /// Whether process `pasid` waits.
    #[inline]
    pub fn has(&self, pasid: u16) -> bool {
        self.link_of(pasid).is_some()
    }

    /// The PASIDs, in the order of the line.
    #[inline]
    pub fn pasids(&self) -> impl Iterator<Item = u16> + '_ {
        let mut next = self.first;
        // The order has no circle.
        core::iter::from_fn(move || {
            let entry = self.entries.get(usize::from(next).checked_sub(1)?)?;
            next = entry.behind;
            Some(entry.pasid)
        })
    }

    /// How many wait before process `pasid`, if it waits; `most` stands for all greater numbers.
    #[inline]
    pub fn place(&self, pasid: u16, most: usize) -> Option<usize> {
        self.link_of(pasid)?;
        let before = self.pasids().take(most);
        Some(before.take_while(|&other| other != pasid).count())
    }

    /// Adds process `pasid`, which does not wait yet, at the end. Returns whether there was room.
    #[inline]
    pub fn push(&mut self, pasid: u16, value: T) -> bool {
        let (link, next_free) = match self.free {
            0 if usize::from(self.used) < self.entries.len() && self.used < u16::MAX => {
                (self.used + 1, 0)
            }
            0 => return false,
            free => {
                let next = self.entry(free).map_or(0, |entry| entry.behind);
                (free, next)
            }
        };
        let last = self.last;
        let (Some(place), Some(entry)) = (
            self.by_pasid.get_mut(usize::from(pasid)),
            self.entries.get_mut(usize::from(link) - 1),
        ) else {
            return false;
        };
        *place = link;
        *entry = LineEntry {
            pasid,
            before: last,
            behind: 0,
            value: Some(value),
        };
        self.free = next_free;
        self.used = self.used.max(link);
        match self.entry(last) {
            Some(last) => last.behind = link,
            None => self.first = link,
        }
        self.last = link;
        self.length += 1;
        true
    }

    /// Removes process `pasid`, if it waits.
    #[inline]
    pub fn remove(&mut self, pasid: u16) {
        if let Some(link) = self.link_of(pasid) {
            self.unlink(link);
        }
    }

    fn unlink(&mut self, link: Link) {
        let free = self.free;
        let Some(entry) = self.entry(link) else {
            return;
        };
        let (pasid, before, behind) = (entry.pasid, entry.before, entry.behind);
        *entry = LineEntry {
            behind: free,
            ..LineEntry::FREE
        };
        self.free = link;
        match self.entry(before) {
            Some(before) => before.behind = behind,
            None => self.first = behind,
        }
        match self.entry(behind) {
            Some(behind) => behind.before = before,
            None => self.last = before,
        }
        if let Some(place) = self.by_pasid.get_mut(usize::from(pasid)) {
            *place = 0;
        }
        self.length = self.length.saturating_sub(1);
    }

    /// Removes the processes whose value `stays` does not hold for. Looks at all.
    #[inline]
    pub fn retain(&mut self, stays: impl Fn(&T) -> bool) {
        let mut next = self.first;
        while let Some(entry) = self.entry(next) {
            let (link, goes) = (next, !entry.value.as_ref().is_some_and(&stays));
            next = entry.behind;
            if goes {
                self.unlink(link);
            }
        }
    }
}
