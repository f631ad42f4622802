// SPDX-License-Identifier: GPL-2.0
//! Places that hardware has for queues, and where a queue is among them.
//!
//! An SDMA engine has slots, the CP has HQDs. Both have fewer places than there are queues, so
//! queues take turns. A queue is loaded into a place and leaves it again, and the hardware may take
//! its time with either, or never let go of a queue. [`Seat`] says how far that is for one queue,
//! and [`SlotTable`] which queue has which place. Which queue is next is not decided here: each
//! scheduler has a policy of its own.

/// Where a queue is.
///
/// `P` is its place: a number, or all that the hardware holds of it. `E` says how it enters the
/// place, `L` how it leaves: for instance which thread sees to that, or how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Seat<P, E = (), L = ()> {
    /// In no place.
    Out,
    /// Being loaded into the place.
    Loading(P, E),
    /// In the place.
    In(P),
    /// Being unloaded from the place.
    Leaving(P, L),
    /// In a place that it does not leave: the hardware does not let go of it.
    Stuck(P),
}

impl<P, E, L> Seat<P, E, L> {
    /// The place, unless the queue is out.
    #[inline]
    pub const fn place(&self) -> Option<&P> {
        match self {
            Self::Out => None,
            Self::Loading(place, _)
            | Self::In(place)
            | Self::Leaving(place, _)
            | Self::Stuck(place) => Some(place),
        }
    }

    /// The same, with the place itself.
    #[inline]
    pub fn into_place(self) -> Option<P> {
        match self {
            Self::Out => None,
            Self::Loading(place, _)
            | Self::In(place)
            | Self::Leaving(place, _)
            | Self::Stuck(place) => Some(place),
        }
    }

    /// Whether the hardware has nothing to do with the queue.
    #[inline]
    pub const fn is_out(&self) -> bool {
        matches!(self, Self::Out)
    }

    /// Whether the queue has a place that it was not asked to leave.
    #[inline]
    pub const fn is_in(&self) -> bool {
        matches!(self, Self::In(_))
    }

    /// Whether the queue was asked to leave its place and has not left it.
    #[inline]
    pub const fn is_leaving(&self) -> bool {
        matches!(self, Self::Leaving(..))
    }

    /// Whether the hardware does not let go of the queue.
    #[inline]
    pub const fn is_stuck(&self) -> bool {
        matches!(self, Self::Stuck(_))
    }

    /// The seat with `show` of its place alone: what a table of queues prints.
    #[inline]
    pub fn view<V>(&self, show: impl FnOnce(&P) -> V) -> Seat<V> {
        match self {
            Self::Out => Seat::Out,
            Self::Loading(place, _) => Seat::Loading(show(place), ()),
            Self::In(place) => Seat::In(show(place)),
            Self::Leaving(place, _) => Seat::Leaving(show(place), ()),
            Self::Stuck(place) => Seat::Stuck(show(place)),
        }
    }
}

/// The queues in `N` numbered places, at most 32. A place has one queue from [`SlotTable::claim`]
/// to [`SlotTable::release`]: while the queue enters, is in, leaves or is stuck there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SlotTable<Q, const N: usize> {
    queues: [Option<Q>; N],
}

impl<Q, const N: usize> SlotTable<Q, N> {
    /// No place is taken.
    #[inline]
    pub const fn new() -> Self {
        const {
            assert!(N <= u32::BITS as usize);
        }
        Self {
            queues: [const { None }; N],
        }
    }

    /// Gives `slot` to `queue`.
    ///
    /// # Errors
    ///
    /// `queue` itself if another one has the place, or there is no such place.
    #[inline]
    pub fn claim(&mut self, slot: u8, queue: Q) -> Result<(), Q> {
        match self.queues.get_mut(usize::from(slot)) {
            Some(place @ None) => {
                *place = Some(queue);
                Ok(())
            }
            _ => Err(queue),
        }
    }

    /// Takes `slot` from the queue that has it, which is returned.
    #[inline]
    pub fn release(&mut self, slot: u8) -> Option<Q> {
        self.queues.get_mut(usize::from(slot))?.take()
    }

    /// The queue that has `slot`.
    #[inline]
    pub fn get(&self, slot: u8) -> Option<&Q> {
        self.queues.get(usize::from(slot))?.as_ref()
    }

    /// The queues that have places.
    #[inline]
    pub fn queues(&self) -> impl Iterator<Item = &Q> {
        self.queues.iter().flatten()
    }

    /// The places that are taken, a bit each.
    #[inline]
    pub fn taken(&self) -> u32 {
        let places = self.queues.iter().zip(0..);
        let taken = places.filter(|(place, _)| place.is_some());
        taken.fold(0, |mask, (_, slot): (_, u32)| mask | 1 << slot)
    }

    /// The first place that is neither taken nor among `blocked`, a bit each.
    #[inline]
    pub fn first_free(&self, blocked: u32) -> Option<u8> {
        let taken = self.taken() | blocked;
        (0..N as u8).find(|slot| taken >> slot & 1 == 0)
    }
}

impl<Q, const N: usize> Default for SlotTable<Q, N> {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}
