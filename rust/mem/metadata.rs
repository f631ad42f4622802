// SPDX-License-Identifier: GPL-2.0
//! Metadata of a buffer (GEM_METADATA), which user space writes for the processes that it shares
//! the buffer with. The driver does not look at it.

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
    /// The layout of an image in the buffer.
    pub(crate) tiling: u64,
    /// Bytes in `data`.
    pub(crate) size: u32,
    /// Data of user space, in any format.
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

/// The place of a buffer's metadata, which takes memory only once there is some. It has a lock of
/// its own.
pub(crate) struct MetadataCell(SetOnce<Arc<WrittenMetadata>>);

impl MetadataCell {
    /// Creates an empty cell.
    pub(super) fn new() -> Self {
        Self(SetOnce::new())
    }

    /// Returns the metadata, empty if none was written.
    pub(crate) fn get(&self) -> BoMetadata {
        self.0
            .as_ref()
            .map_or(BoMetadata::EMPTY, |written| *written.metadata.lock())
    }

    /// Replaces the metadata.
    ///
    /// # Errors
    ///
    /// `EINVAL` if its size is larger than its data; `ENOMEM`.
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
                metadata <- new_mutex!(metadata, "WrittenMetadata::metadata"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        if !self.0.populate(written) {
            // Another thread was first. Its value may not be visible yet.
            let written = self.0.as_ref().ok_or(EBUSY)?;
            *written.metadata.lock() = metadata;
        }
        Ok(())
    }
}
