// SPDX-License-Identifier: GPL-2.0
//! Copies and fills of any length, as sequences of packets that each respect the engine's limit.

use super::packet::{const_fill, copy_linear, CopyBytes, FillBytes, MAX_BYTES};

/// The packets of one copy, lowest addresses first.
#[derive(Clone, Debug)]
pub struct CopyPackets {
    source: u64,
    destination: u64,
    remaining: u64,
}

impl CopyPackets {
    /// The packets that copy `bytes` from `source` to `destination`; none for 0 bytes. `None` when
    /// either end would wrap.
    #[inline]
    pub const fn new(source: u64, destination: u64, bytes: u64) -> Option<Self> {
        if source.checked_add(bytes).is_none() || destination.checked_add(bytes).is_none() {
            return None;
        }
        Some(Self {
            source,
            destination,
            remaining: bytes,
        })
    }
}

impl Iterator for CopyPackets {
    type Item = [u32; 7];

    #[inline]
    fn next(&mut self) -> Option<[u32; 7]> {
        let bytes = CopyBytes::new(self.remaining.min(MAX_BYTES.into()))?;
        let packet = copy_linear(self.source, self.destination, bytes);
        let step = u64::from(bytes.get());
        self.source += step;
        self.destination += step;
        self.remaining -= step;
        Some(packet)
    }
}

/// The packets of one fill, lowest addresses first.
#[derive(Clone, Debug)]
pub struct FillPackets {
    destination: u64,
    value: u32,
    remaining: u64,
}

impl FillPackets {
    /// The packets that fill `bytes` from `destination` on with `value`; none for 0 bytes. `None`
    /// when the end would wrap, or when address or length is not a multiple of 4.
    #[inline]
    pub const fn new(destination: u64, value: u32, bytes: u64) -> Option<Self> {
        if destination.checked_add(bytes).is_none() || destination % 4 != 0 || bytes % 4 != 0 {
            return None;
        }
        Some(Self {
            destination,
            value,
            remaining: bytes,
        })
    }
}

impl Iterator for FillPackets {
    type Item = [u32; 5];

    #[inline]
    fn next(&mut self) -> Option<[u32; 5]> {
        let bytes = FillBytes::new(self.remaining.min(MAX_BYTES.into()))?;
        let packet = const_fill(self.destination, self.value, bytes);
        let step = u64::from(bytes.get());
        self.destination += step;
        self.remaining -= step;
        Some(packet)
    }
}
