// SPDX-License-Identifier: GPL-2.0
//! VRAM of one GPU as another GPU of its hive accesses it: by XGMI, at the owner's physical
//! addresses. Nothing keeps the memory where it is. Before it moves, the queues that map it are
//! quiesced and the entries cleared, as for imported memory ([`super::import`]); they resume when
//! it is mapped at its new place, which may be system memory.

use super::{
    bo::Bo,
    import::ImportUsers,
    placement::{BoPlace, PlaceFollower, VramPlacement},
    vm::Vm,
    vram::VramBlocks,
};
use crate::kern::{dma_buf::DmaBufImporter, pages::SystemPages};
use kernel::{
    device::Device,
    new_spinlock,
    prelude::*,
    sync::{aref::ARef, Arc, SpinLock},
};

/// Where the memory is for the other GPU.
#[derive(Clone)]
pub(super) enum FollowedPlace {
    /// It moves, or has moved: the other GPU may not access it until it is validated.
    Moved,
    /// Its GPU is gone.
    Gone,
    /// In VRAM.
    Vram(Arc<VramBlocks>),
    /// In system memory, mapped for the other GPU.
    System(Arc<SystemPages>),
}

/// A view of a buffer, to be told of its moves.
#[pin_data]
pub(super) struct HiveFollower {
    #[pin]
    users: ImportUsers,
    /// An innermost lock.
    #[pin]
    place: SpinLock<FollowedPlace>,
}

impl PlaceFollower for HiveFollower {
    fn leave(&self, is_gone: bool) {
        let old = {
            let mut place = self.place.lock();
            let next = match *place {
                FollowedPlace::Gone => FollowedPlace::Gone,
                _ if is_gone => FollowedPlace::Gone,
                _ => FollowedPlace::Moved,
            };
            core::mem::replace(&mut *place, next)
        };
        self.users.invalidate();
        drop(old);
    }
}

/// A buffer in VRAM of another GPU of the hive.
pub(super) struct HiveView {
    follower: Arc<HiveFollower>,
    placement: Arc<VramPlacement>,
    owner: ARef<Bo>,
    /// The GPU that accesses it.
    dev: ARef<Device>,
}

impl HiveView {
    /// A view of `owner`, whose memory `placement` places, for `dev`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(
        owner: &Bo,
        placement: &Arc<VramPlacement>,
        dev: &ARef<Device>,
    ) -> Result<Self> {
        let follower = Arc::pin_init(
            pin_init!(HiveFollower {
                users <- ImportUsers::new(),
                place <- new_spinlock!(FollowedPlace::Moved, "HiveFollower::place"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        placement.follow(follower.clone())?;
        Ok(Self {
            follower,
            placement: placement.clone(),
            owner: owner.into(),
            dev: dev.clone(),
        })
    }

    /// The buffer itself.
    pub(super) fn owner(&self) -> &ARef<Bo> {
        &self.owner
    }

    /// Where it is, as far as the GPU may access it.
    pub(super) fn place(&self) -> FollowedPlace {
        self.follower.place.lock().clone()
    }

    /// What entries of page tables add to an offset in its VRAM.
    pub(super) fn base(&self) -> u64 {
        self.owner.gpu().hw.gmc.fb_offset()
    }

    /// Whether the GPU may be given its addresses.
    pub(super) fn is_mapped(&self) -> bool {
        match self.place() {
            FollowedPlace::Moved | FollowedPlace::Gone => false,
            FollowedPlace::Vram(_) => true,
            FollowedPlace::System(pages) => pages.is_mapped(),
        }
    }

    /// Unmaps system memory from the GPU, which is about to be removed. No address space maps the
    /// buffer any more.
    pub(super) fn close(&self) {
        self.follower.leave(true);
    }

    /// Those that map it.
    pub(super) fn users(&self) -> &ImportUsers {
        &self.follower.users
    }

    /// Finds where the memory is now, and calls `show` while it stays there. May sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` while it moves; `ENODEV` if its GPU is gone; `ENOMEM`; those of `show`.
    pub(super) fn validate(&self, show: impl FnOnce() -> Result) -> Result {
        let _pin = self.placement.try_pin().ok_or(EBUSY)?;
        if !self.is_mapped() {
            let found = match self.placement.place() {
                BoPlace::Vram(blocks) => FollowedPlace::Vram(blocks),
                BoPlace::System(copy) => {
                    let pages = copy.pages().also_for(&self.dev)?;
                    FollowedPlace::System(Arc::new(pages, GFP_KERNEL_ACCOUNT)?)
                }
            };
            let mut place = self.follower.place.lock();
            if matches!(*place, FollowedPlace::Gone) {
                return Err(ENODEV);
            }
            let old = core::mem::replace(&mut *place, found);
            drop(place);
            drop(old);
        }
        show()
    }

    /// Records that `vm` is about to map the buffer at address `buffer`, which is this view. If it
    /// moves, `vm` is notified.
    ///
    /// # Errors
    ///
    /// `ENODEV` if its GPU is gone; `ENOMEM`.
    pub(super) fn start_use(&self, vm: &Arc<Vm>, buffer: usize) -> Result {
        self.users().add(vm, buffer)?;
        match self.validate(|| Ok(())) {
            // The address space waits for the end of the move.
            Ok(()) | Err(EBUSY) => Ok(()),
            Err(error) => {
                self.users().remove(vm, buffer);
                Err(error)
            }
        }
    }
}

impl Drop for HiveView {
    fn drop(&mut self) {
        self.placement.unfollow(Arc::as_ptr(&self.follower).cast());
    }
}
