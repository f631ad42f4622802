// SPDX-License-Identifier: GPL-2.0
//! What user space writes on a buffer for those that it shares it with. The driver does not look at it.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex, SetOnce},
};

/// Dwords of a note.
pub(crate) const DWORDS: usize = 64;

/// A note (GEM_METADATA).
#[derive(Clone, Copy)]
pub(crate) struct Note {
    /// Flags, of which none is defined.
    pub(crate) flags: u64,
    /// How an image lies in the buffer.
    pub(crate) tiling: u64,
    /// Bytes in `data`.
    pub(crate) size: u32,
    /// Whatever user space likes.
    pub(crate) data: [u32; DWORDS],
}

impl Note {
    const EMPTY: Self = Self {
        flags: 0,
        tiling: 0,
        size: 0,
        data: [0; DWORDS],
    };
}

#[pin_data]
struct Sheet {
    #[pin]
    note: Mutex<Note>,
}

/// The place of a buffer's note. It has its own lock.
pub(crate) struct NotePlace(SetOnce<Arc<Sheet>>);

impl NotePlace {
    /// Empty.
    pub(super) fn new() -> Self {
        Self(SetOnce::new())
    }

    /// The note, empty if none was written.
    pub(crate) fn get(&self) -> Note {
        self.0
            .as_ref()
            .map_or(Note::EMPTY, |sheet| *sheet.note.lock())
    }

    /// Writes `note` over what is there. EINVAL if it says that it is longer than it is, ENOMEM.
    pub(crate) fn set(&self, note: Note) -> Result {
        if note.size as usize > size_of_val(&note.data) {
            return Err(EINVAL);
        }
        if let Some(sheet) = self.0.as_ref() {
            *sheet.note.lock() = note;
            return Ok(());
        }
        let sheet = Arc::pin_init(
            pin_init!(Sheet {
                note <- new_mutex!(note, "NotePlace"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        if !self.0.populate(sheet) {
            // Somebody was first. It may be about to be there only.
            let sheet = self.0.as_ref().ok_or(EBUSY)?;
            *sheet.note.lock() = note;
        }
        Ok(())
    }
}
