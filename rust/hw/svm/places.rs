// SPDX-License-Identifier: GPL-2.0
//! The index of each GPU, for as long as the GPU exists.

use super::GpuIndex;

/// The indices of GPUs, each identified by an `I`.
#[derive(Debug)]
pub struct GpuPlaces<I>([Option<I>; GpuIndex::COUNT]);

impl<I: Copy + PartialEq> Default for GpuPlaces<I> {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

impl<I: Copy + PartialEq> GpuPlaces<I> {
    /// All indices free.
    #[inline]
    pub const fn new() -> Self {
        Self([const { None }; GpuIndex::COUNT])
    }

    fn find(&self, what: Option<I>) -> Option<GpuIndex> {
        let place = self.0.iter().position(|taken| *taken == what)?;
        GpuIndex::new(place)
    }

    /// The index of `gpu`: its current one, or a free one. `None` if other GPUs have all of them.
    #[inline]
    pub fn acquire(&mut self, gpu: I) -> Option<GpuIndex> {
        let index = self.find(Some(gpu)).or_else(|| self.find(None))?;
        *self.0.get_mut(index.get())? = Some(gpu);
        Some(index)
    }

    /// The index of `gpu`, if it has one.
    #[inline]
    pub fn index(&self, gpu: I) -> Option<GpuIndex> {
        self.find(Some(gpu))
    }

    /// Frees the index of `gpu`, which is gone, and returns it; another GPU may get it from now on.
    /// The caller removes the attributes of that index, see
    /// [`AttributeMap::remove_gpu`](super::AttributeMap::remove_gpu).
    #[inline]
    pub fn release(&mut self, gpu: I) -> Option<GpuIndex> {
        let index = self.find(Some(gpu))?;
        *self.0.get_mut(index.get())? = None;
        Some(index)
    }
}
