// SPDX-License-Identifier: GPL-2.0
//! Sets of SDMA engines, whose number differs from chip to chip.

/// A set of SDMA engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SdmaMask(u32);

impl SdmaMask {
    /// The most engines of a GPU. Engines of larger numbers are in no set.
    pub const MAX_ENGINES: u8 = u32::BITS as u8;

    /// No engine.
    pub const EMPTY: Self = Self(0);

    #[inline]
    const fn bit(engine: u8) -> u32 {
        if engine < Self::MAX_ENGINES {
            1 << engine
        } else {
            0
        }
    }

    /// Adds `engine`. Returns whether it is in the set now, which a number beyond the last engine
    /// is not.
    #[inline]
    pub fn insert(&mut self, engine: u8) -> bool {
        self.0 |= Self::bit(engine);
        self.contains(engine)
    }

    /// Whether `engine` is in the set.
    #[inline]
    pub const fn contains(self, engine: u8) -> bool {
        self.0 & Self::bit(engine) != 0
    }

    /// Whether the set is empty.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The engines in ascending order.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..Self::MAX_ENGINES).filter(move |&engine| self.contains(engine))
    }
}

impl FromIterator<u8> for SdmaMask {
    fn from_iter<I: IntoIterator<Item = u8>>(engines: I) -> Self {
        let mut mask = Self::EMPTY;
        for engine in engines {
            mask.insert(engine);
        }
        mask
    }
}

/// The engines that have sent TRAPs since the set was created, once and more than once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SdmaTrapSet {
    once: SdmaMask,
    again: SdmaMask,
}

impl SdmaTrapSet {
    /// Records a TRAP of `engine`. Returns whether to handle it now: it is the engine's first one,
    /// or there is no room to record it. The others are in [`SdmaTrapSet::repeated`].
    #[inline]
    pub fn is_first(&mut self, engine: u8) -> bool {
        let first = !self.once.contains(engine);
        self.once.insert(engine);
        if !first {
            self.again.insert(engine);
        }
        first
    }

    /// The engines that have sent more than one TRAP.
    #[inline]
    pub fn repeated(&self) -> impl Iterator<Item = u8> {
        self.again.iter()
    }
}
