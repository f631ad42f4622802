// SPDX-License-Identifier: GPL-2.0
//! Which GPU has which place, for as long as it is there.

use super::GpuIndex;

/// The places of GPUs, each known by an `I`.
#[derive(Debug)]
pub struct GpuPlaces<I>([Option<I>; GpuIndex::COUNT]);

impl<I: Copy + PartialEq> Default for GpuPlaces<I> {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

impl<I: Copy + PartialEq> GpuPlaces<I> {
    /// None taken.
    #[inline]
    pub const fn new() -> Self {
        Self([const { None }; GpuIndex::COUNT])
    }

    fn find(&self, what: Option<I>) -> Option<GpuIndex> {
        let place = self.0.iter().position(|taken| *taken == what)?;
        GpuIndex::new(place)
    }

    /// The place of `gpu`: the one that it has, or a free one. `None` when all are others'.
    #[inline]
    pub fn acquire(&mut self, gpu: I) -> Option<GpuIndex> {
        let index = self.find(Some(gpu)).or_else(|| self.find(None))?;
        *self.0.get_mut(index.get())? = Some(gpu);
        Some(index)
    }

    /// `gpu` is gone: the place that it had may be another's from now on. What was said by it is to be forgotten, see
    /// [`AttributeMap::remove_gpu`](super::AttributeMap::remove_gpu).
    #[inline]
    pub fn release(&mut self, gpu: I) -> Option<GpuIndex> {
        let index = self.find(Some(gpu))?;
        *self.0.get_mut(index.get())? = None;
        Some(index)
    }
}
