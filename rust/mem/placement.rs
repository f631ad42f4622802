// SPDX-License-Identifier: GPL-2.0
//! Where the memory of a VRAM buffer is: in VRAM, or in system memory while others use the VRAM.
//!
//! The code calls a buffer *home* while it is in VRAM, and *away* while it is not. Only
//! [`super::evict`] moves it, between [`VramPlacement::start`] and [`BoMove::finish`]. Meanwhile
//! the CPU's faults wait, and page tables do not lead to it. Code that relies on its place holds a
//! [`PinnedBuffer`]: then it stays, wherever it is.

use crate::{
    kern::pages::SystemPages,
    ledger::{LedgerHold, LedgerKind},
    mem::{
        account::{MemoryClient, MemoryRegion},
        budget::{AwayCharge, VramCharge},
        table_pool::{SplitBuffer, SplitQuota},
        vram::VramBlocks,
        GpuMemory,
    },
};
use hw::pin_state;
use kernel::{
    new_condvar, new_mutex, new_spinlock,
    prelude::*,
    sync::{
        atomic::{AtomicFlag, Relaxed},
        Arc, CondVar, Mutex, MutexGuard, SpinLock,
    },
};

/// System memory that holds a buffer while it is not in VRAM.
pub(crate) struct SystemCopy {
    pages: Arc<SystemPages>,
    bytes: u64,
    /// The buffer has no VRAM, so its bytes are counted as evicted.
    counted: AtomicFlag,
    client: Arc<MemoryClient>,
    _paid: AwayCharge,
    _hold: LedgerHold,
}

impl SystemCopy {
    /// Creates a copy in `pages`, for which `paid` is the charge; it is not counted yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(
        gpu: &GpuMemory,
        client: &Arc<MemoryClient>,
        pages: Arc<SystemPages>,
        paid: AwayCharge,
    ) -> Result<Arc<Self>> {
        let bytes = pages.size();
        let copy = Self {
            pages,
            bytes,
            counted: AtomicFlag::new(false),
            client: client.clone(),
            _paid: paid,
            _hold: gpu.hw.ledger.hold(LedgerKind::EvictedBytes, bytes),
        };
        Ok(Arc::new(copy, GFP_KERNEL_ACCOUNT)?)
    }

    /// Returns the pages.
    pub(crate) fn pages(&self) -> &Arc<SystemPages> {
        &self.pages
    }

    /// Sets whether the bytes are counted as evicted: they are while the buffer has no VRAM,
    /// neither to be moved out of nor to be moved into.
    pub(super) fn count(&self, on: bool) {
        if self.counted.xchg(on, Relaxed) != on {
            let bytes = self.bytes as i64;
            self.client
                .add(MemoryRegion::Evicted, if on { bytes } else { -bytes });
        }
    }
}

impl Drop for SystemCopy {
    fn drop(&mut self) {
        self.count(false);
    }
}

/// The place of a buffer. The memory stays as long as this exists, but the buffer may have moved
/// elsewhere.
#[derive(Clone)]
pub(crate) enum BoPlace {
    /// In VRAM.
    Vram(Arc<VramBlocks>),
    /// In system memory.
    System(Arc<SystemCopy>),
}

/// Whether a buffer may move, and how it is counted.
pub(crate) struct StayState {
    pins: pin_state::PinState,
    /// How the buffer is counted among those that have to stay.
    counted: PinnedAs,
}

/// How a buffer is counted among those that have to stay where they are.
#[derive(Clone, Copy, PartialEq)]
enum PinnedAs {
    No,
    InVram,
    InSystem,
}

impl StayState {
    /// Updates the count after a change.
    fn count(&mut self, charge: &VramCharge, home: bool) {
        let now = match (self.pins.is_stuck(), home) {
            (false, _) => PinnedAs::No,
            (true, true) => PinnedAs::InVram,
            (true, false) => PinnedAs::InSystem,
        };
        let was = core::mem::replace(&mut self.counted, now);
        if was == now {
            return;
        }
        for (counted, on) in [(was, false), (now, true)] {
            match counted {
                PinnedAs::No => (),
                PinnedAs::InVram => charge.set_kept_in_vram(on),
                PinnedAs::InSystem => charge.set_kept_in_system(on),
            }
        }
    }
}

/// A view that another GPU has of a buffer, wherever it is.
pub(super) trait PlaceFollower: Send + Sync {
    /// From the return on the GPU does not access the buffer: it is about to move, or with
    /// `is_gone` its own GPU is. Takes a bounded time; may sleep.
    fn leave(&self, is_gone: bool);
}

/// The placement of a VRAM buffer. Its mutex `stay` is held while the CPU's page tables are filled.
/// `place` is a spinlock, for callers that may not sleep.
#[pin_data(PinnedDrop)]
pub(crate) struct VramPlacement {
    #[pin]
    place: SpinLock<BoPlace>,
    #[pin]
    stay: Mutex<StayState>,
    /// Signals that a move has ended.
    #[pin]
    move_ended: CondVar,
    /// The views of other GPUs. Its lock is inside the reservation's lock, and outside those of
    /// address spaces.
    #[pin]
    followers: Mutex<KVec<Arc<dyn PlaceFollower>>>,
    contiguous: bool,
    charge: VramCharge,
    tables: SplitQuota,
}

impl VramPlacement {
    /// Creates the placement of a buffer in `blocks`, to which `charge` entitles it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(
        blocks: Arc<VramBlocks>,
        charge: VramCharge,
        contiguous: bool,
    ) -> Result<Arc<Self>> {
        let tables = SplitQuota::new(charge.bytes());
        Arc::pin_init(
            pin_init!(Self {
                place <- new_spinlock!(BoPlace::Vram(blocks), "VramPlacement::place"),
                stay <- new_mutex!(
                    StayState { pins: pin_state::PinState::new(), counted: PinnedAs::No },
                    "VramPlacement::stay"
                ),
                move_ended <- new_condvar!("VramPlacement::move_ended"),
                followers <- new_mutex!(KVec::new(), "VramPlacement::followers"),
                contiguous,
                charge,
                tables,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Returns where the buffer is now. Context: any.
    pub(crate) fn place(&self) -> BoPlace {
        self.place.lock().clone()
    }

    /// Returns the client that owns the buffer.
    pub(super) fn client(&self) -> &Arc<MemoryClient> {
        self.charge.client()
    }

    /// Returns the bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.charge.bytes()
    }

    /// Whether the buffer's VRAM is to be in one run, if there is one.
    pub(super) fn is_contiguous(&self) -> bool {
        self.contiguous
    }

    /// Waits until the buffer is not being moved, and keeps it where it is while a fault is
    /// handled. `None` if a signal came first.
    pub(super) fn steady(&self) -> Option<MutexGuard<'_, StayState>> {
        let mut stay = self.stay.lock();
        while stay.pins.is_moving() {
            if self.move_ended.wait_interruptible(&mut stay) {
                return None;
            }
        }
        Some(stay)
    }

    /// Whether the buffer is being moved.
    pub(super) fn is_moving(&self) -> bool {
        self.stay.lock().pins.is_moving()
    }

    /// Waits until the buffer is not being moved, for as long as the engines may take. May sleep.
    pub(super) fn wait(&self) {
        let mut stay = self.stay.lock();
        while stay.pins.is_moving() {
            self.move_ended.wait(&mut stay);
        }
    }

    /// Pins the buffer where it is. `None` while it is being moved.
    pub(super) fn try_pin(self: &Arc<Self>) -> Option<PinnedBuffer> {
        let mut stay = self.stay.lock();
        if !stay.pins.pin() {
            return None;
        }
        stay.count(&self.charge, self.is_in_vram());
        Some(PinnedBuffer(self.clone()))
    }

    /// Waits until the buffer is not being moved, and pins it where it is. May sleep.
    pub(super) fn pin(self: &Arc<Self>) -> PinnedBuffer {
        loop {
            match self.try_pin() {
                Some(pin) => return pin,
                None => self.wait(),
            }
        }
    }

    /// Whether the memory that has to stay in VRAM leaves half of VRAM to other buffers.
    pub(super) fn leaves_room(&self) -> bool {
        self.charge.leaves_room()
    }

    /// Whether the buffer may be moved, as far as can be seen now.
    pub(super) fn may_move(&self) -> bool {
        self.stay.lock().pins.may_move()
    }

    /// Whether page tables may lead to the buffer now. While they may not, the thread that moves it
    /// is responsible for mapping it later: see [`super::vm::Vm::show`].
    pub(super) fn is_mappable(&self) -> bool {
        let stay = self.stay.lock();
        stay.pins
            .is_mappable(self.is_in_vram(), self.client().is_away())
    }

    /// Whether the buffer may be moved to where other devices can access it, as far as can be seen
    /// now.
    pub(super) fn may_be_shared(&self) -> bool {
        let stay = self.stay.lock();
        stay.pins.may_be_shared(self.is_in_vram())
    }

    /// Shares the buffer with another device. If it `stays`, it does so until
    /// [`VramPlacement::unshare`]. Returns false unless the buffer is in system memory.
    pub(super) fn share(&self, stays: bool) -> bool {
        let mut stay = self.stay.lock();
        if !stay.pins.share(stays, self.is_in_vram()) {
            return false;
        }
        stay.count(&self.charge, false);
        true
    }

    /// Undoes a [`VramPlacement::share`]. Returns whether the buffer is to be moved in now.
    pub(super) fn unshare(&self, stays: bool) -> bool {
        let mut stay = self.stay.lock();
        let may_move_in = stay.pins.unshare(stays);
        stay.count(&self.charge, self.is_in_vram());
        may_move_in
    }

    /// Shares the buffer with another device that accesses it in VRAM, and gives it back on
    /// request. `None` unless the buffer is in VRAM.
    pub(super) fn share_in_vram(self: &Arc<Self>) -> Option<SharedInVram> {
        let mut stay = self.stay.lock();
        if !stay.pins.share_in_vram(self.is_in_vram()) {
            return None;
        }
        stay.count(&self.charge, true);
        Some(SharedInVram(self.clone()))
    }

    /// Whether other devices that give the buffer back on request access it in VRAM.
    pub(super) fn is_shared_in_vram(&self) -> bool {
        self.stay.lock().pins.is_shared_in_vram()
    }

    /// Sets whether the thread that moves the buffer in is asking other devices for it. That thread
    /// learns by itself when they give it back.
    pub(super) fn ask_back(&self, on: bool) {
        self.stay.lock().pins.ask_back(on);
    }

    /// Whether the buffer's client is gone.
    pub(super) fn is_orphan(&self) -> bool {
        self.stay.lock().pins.is_orphan()
    }

    /// Whether other devices that give the buffer back on request have it.
    pub(super) fn is_shared(&self) -> bool {
        self.stay.lock().pins.is_shared()
    }

    /// Records that the buffer's client is being closed: the buffer stays where it is from now on.
    pub(super) fn orphan(&self) {
        let mut stay = self.stay.lock();
        while stay.pins.is_moving() {
            self.move_ended.wait(&mut stay);
        }
        if stay.pins.orphan() {
            self.charge.close(true);
        }
        stay.count(&self.charge, self.is_in_vram());
    }

    /// Unmaps the buffer's system memory, now or later, from the device, which is about to be
    /// removed. No VM maps the buffer any more.
    pub(super) fn detach(&self) {
        self.stay.lock().pins.detach();
        if let BoPlace::System(copy) = self.place() {
            copy.pages.unmap_dma();
        }
    }

    /// Starts to move the buffer away from where it is. `None` if it has to stay, is shared, or is
    /// being moved: see [`pin_state::PinState::start_move`].
    pub(super) fn start(self: &Arc<Self>, to_be_shared: bool) -> Option<BoMove> {
        let begun = self.stay.lock().pins.start_move(to_be_shared);
        let moving = begun.then(|| BoMove(self.clone()));
        if moving.is_some() {
            self.tell_followers(false);
        }
        moving
    }

    /// Tells `follower` of moves, until [`VramPlacement::unfollow`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn follow(&self, follower: Arc<dyn PlaceFollower>) -> Result {
        Ok(self.followers.lock().push(follower, GFP_KERNEL_ACCOUNT)?)
    }

    /// Undoes a [`VramPlacement::follow`]. May sleep.
    pub(super) fn unfollow(&self, follower: *const ()) {
        let mut followers = self.followers.lock();
        let is = |other: &Arc<dyn PlaceFollower>| Arc::as_ptr(other).cast::<()>() == follower;
        let place = followers.iter().position(is);
        let removed = place.and_then(|place| followers.remove(place).ok());
        drop(followers);
        drop(removed);
    }

    /// No other GPU accesses the buffer from the return on: it is about to move, or with `is_gone`
    /// its GPU is. May sleep.
    pub(super) fn tell_followers(&self, is_gone: bool) {
        for follower in self.followers.lock().iter() {
            follower.leave(is_gone);
        }
    }
}

impl SplitBuffer for VramPlacement {
    fn is_in_vram(&self) -> bool {
        matches!(*self.place.lock(), BoPlace::Vram(_))
    }

    fn split_quota(&self) -> &SplitQuota {
        &self.tables
    }
}

#[pinned_drop]
impl PinnedDrop for VramPlacement {
    fn drop(self: Pin<&mut Self>) {
        // There are no pins: a pin holds a reference to the placement.
        let mut stay = self.stay.lock();
        if stay.pins.is_orphan() {
            self.charge.close(false);
        }
        // Nothing relies on the place any more, so the buffer is not counted.
        stay.pins = pin_state::PinState::new();
        stay.count(&self.charge, true);
    }
}

/// Keeps a buffer where it is, as long as this exists. Dropped where sleeping is allowed.
pub(crate) struct PinnedBuffer(Arc<VramPlacement>);

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        let mut stay = self.0.stay.lock();
        stay.pins.unpin();
        stay.count(&self.0.charge, self.0.is_in_vram());
    }
}

/// The access of another device to a buffer in VRAM, which stays there as long as this exists.
/// Dropped where sleeping is allowed.
pub(super) struct SharedInVram(Arc<VramPlacement>);

impl Drop for SharedInVram {
    fn drop(&mut self) {
        let mut stay = self.0.stay.lock();
        stay.pins.unshare_in_vram();
        stay.count(&self.0.charge, self.0.is_in_vram());
    }
}

/// A buffer that is being moved: the CPU's faults wait. If this is dropped without
/// [`BoMove::finish`], the buffer is where it was.
pub(super) struct BoMove(Arc<VramPlacement>);

impl BoMove {
    /// Records that the buffer, with its content, is at `place` now.
    pub(super) fn finish(self, place: BoPlace) {
        let old = core::mem::replace(&mut *self.0.place.lock(), place.clone());
        let home = matches!(place, BoPlace::Vram(_));
        self.0.stay.lock().count(&self.0.charge, home);
        if let BoPlace::System(copy) = place {
            copy.count(true);
            if self.0.stay.lock().pins.is_detached() {
                copy.pages.unmap_dma();
            }
        }
        drop(self);
        // It is freed when its last reader drops it.
        drop(old);
    }
}

impl Drop for BoMove {
    fn drop(&mut self) {
        self.0.stay.lock().pins.end_move();
        self.0.move_ended.notify_all();
    }
}
