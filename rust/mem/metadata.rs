// SPDX-License-Identifier: GPL-2.0
//! Metadata of a buffer (GEM_METADATA): what user space writes for those that it shares it with. The driver does not look at it.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex, SetOnce},
};

/// Dwords of `data`.
pub(crate) const DWORDS: usize = 64;

/// The metadata of a buffer.
#[derive(Clone, Copy)]
pub(crate) struct BoMetadata {
    /// Flags, of which none is defined.
    pub(crate) flags: u64,
    /// How an image lies in the buffer.
    pub(crate) tiling: u64,
    /// Bytes in `data`.
    pub(crate) size: u32,
    /// Whatever user space likes.
    pub(crate) data: [u32; DWORDS],
}

impl BoMetadata {
    const EMPTY: Self = Self {
        flags: 0,
        tiling: 0,
        size: 0,
        data: [0; DWORDS],
    };
}

#[pin_data]
struct WrittenMetadata {
    #[pin]
    metadata: Mutex<BoMetadata>,
}

/// Where a buffer has its metadata, which takes memory once there is some. It has its own lock.
pub(crate) struct MetadataCell(SetOnce<Arc<WrittenMetadata>>);

impl MetadataCell {
    /// Empty.
    pub(super) fn new() -> Self {
        Self(SetOnce::new())
    }

    /// The metadata, empty if none was written.
    pub(crate) fn get(&self) -> BoMetadata {
        self.0
            .as_ref()
            .map_or(BoMetadata::EMPTY, |written| *written.metadata.lock())
    }

    /// Writes `metadata` over what is there. EINVAL if it says that it is longer than it is, ENOMEM.
    pub(crate) fn set(&self, metadata: BoMetadata) -> Result {
        if metadata.size as usize > size_of_val(&metadata.data) {
            return Err(EINVAL);
        }
        if let Some(written) = self.0.as_ref() {
            *written.metadata.lock() = metadata;
            return Ok(());
        }
        let written = Arc::pin_init(
            pin_init!(WrittenMetadata {
                metadata <- new_mutex!(metadata, "MetadataCell"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        if !self.0.populate(written) {
            // Somebody was first. It may be about to be there only.
            let written = self.0.as_ref().ok_or(EBUSY)?;
            *written.metadata.lock() = metadata;
        }
        Ok(())
    }
}
