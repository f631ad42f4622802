// SPDX-License-Identifier: GPL-2.0
//! The number by which user space names a GPU.

use core::num::NonZeroU16;

/// `gpu_id`: 16 bits, since mmap offsets carry so many; 0 is the CPU's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GpuId(NonZeroU16);

/// What a GPU's id is made from, so that it is the same after each load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PciIdentity {
    /// PCI domain.
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Device in 7:3, function in 2:0.
    pub devfn: u8,
    /// Device id.
    pub device: u16,
    /// Subsystem vendor id.
    pub subsystem_vendor: u16,
    /// Subsystem id.
    pub subsystem: u16,
    /// Bytes of VRAM.
    pub vram: u64,
}

impl PciIdentity {
    /// `location_id` of the topology: bus, device and function.
    #[inline]
    pub const fn location(&self) -> u32 {
        (self.bus as u32) << 8 | self.devfn as u32
    }

    /// FNV-1a over the identity's bytes.
    fn hash(&self) -> u32 {
        const BASIS: u32 = 0x811c_9dc5;
        const PRIME: u32 = 0x0100_0193;
        let words = [
            u64::from(self.domain),
            u64::from(self.location()),
            u64::from(self.device) << 32
                | u64::from(self.subsystem_vendor) << 16
                | u64::from(self.subsystem),
            self.vram,
        ];
        words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .fold(BASIS, |hash, byte| {
                (hash ^ u32::from(byte)).wrapping_mul(PRIME)
            })
    }
}

impl GpuId {
    /// The id of the GPU `identity`. Two GPUs may get the same one; the driver refuses the second.
    #[inline]
    pub fn new(identity: &PciIdentity) -> Self {
        let hash = identity.hash();
        let folded = (hash >> 16) as u16 ^ hash as u16;
        Self(NonZeroU16::new(folded).unwrap_or(NonZeroU16::MIN))
    }

    /// The id that user space passed, if it can be one.
    #[inline]
    pub fn from_raw(raw: u32) -> Option<Self> {
        let id = u16::try_from(raw).ok()?;
        NonZeroU16::new(id).map(Self)
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}
