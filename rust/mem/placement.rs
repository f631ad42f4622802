// SPDX-License-Identifier: GPL-2.0
//! Where the memory of a VRAM buffer is: in VRAM, or in system memory while others have its VRAM.
//!
//! The buffer is *at home* in VRAM. [`super::evict`] alone moves it, between [`VramPlacement::begin`] and [`BoMove::settle`];
//! meanwhile the CPU's faults wait, and page tables do not lead to it. Whoever relies on its place holds a [`PinnedBuffer`]: it
//! stays then, wherever it is.

use crate::{
    kern::pages::SystemPages,
    ledger::{LedgerHold, LedgerKind},
    mem::{
        account::{MemoryClient, MemoryRegion},
        budget::{AwayCharge, VramCharge},
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

/// System memory that a buffer is in while it is not in VRAM.
pub(crate) struct SystemCopy {
    pages: Arc<SystemPages>,
    bytes: u64,
    /// No VRAM is there for it.
    counted: AtomicFlag,
    client: Arc<MemoryClient>,
    _paid: AwayCharge,
    _hold: LedgerHold,
}

impl SystemCopy {
    /// `pages`, for which is `paid`; not counted yet. `ENOMEM`.
    pub(super) fn new(
        gpu: &GpuMemory,
        client: &Arc<MemoryClient>,
        pages: Arc<SystemPages>,
        paid: AwayCharge,
    ) -> Result<Arc<Self>> {
        let bytes = pages.size();
        let away = Self {
            pages,
            bytes,
            counted: AtomicFlag::new(false),
            client: client.clone(),
            _paid: paid,
            _hold: gpu.hw.ledger.hold(LedgerKind::EvictedBytes, bytes),
        };
        Ok(Arc::new(away, GFP_KERNEL_ACCOUNT)?)
    }

    /// The pages.
    pub(crate) fn pages(&self) -> &Arc<SystemPages> {
        &self.pages
    }

    /// Whether there is no VRAM for it: neither what it leaves, nor what it is on its way to.
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

/// A place; the memory stays as long as somebody has this, but the buffer may have gone elsewhere.
#[derive(Clone)]
pub(crate) enum BoPlace {
    /// At home.
    Vram(Arc<VramBlocks>),
    /// In system memory.
    System(Arc<SystemCopy>),
}

/// Whether a buffer may move, and as what it is counted.
pub(crate) struct StayState {
    of: pin_state::PinState,
    /// Of what has to stay.
    counted: PinnedAs,
}

/// Of what has to stay where it is.
#[derive(Clone, Copy, PartialEq)]
enum PinnedAs {
    No,
    InVram,
    InSystem,
}

impl StayState {
    /// Counts it as what it is after a change.
    fn count(&mut self, charge: &VramCharge, home: bool) {
        let now = match (self.of.is_stuck(), home) {
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

/// The placement of a VRAM buffer. Its mutex `stay` is held while the CPU's page tables are filled; `place` is a
/// spinlock, for who may not sleep.
#[pin_data(PinnedDrop)]
pub(crate) struct VramPlacement {
    #[pin]
    place: SpinLock<BoPlace>,
    #[pin]
    stay: Mutex<StayState>,
    /// A move has ended.
    #[pin]
    settled: CondVar,
    contiguous: bool,
    charge: VramCharge,
}

impl VramPlacement {
    /// A buffer in `blocks`, which `charge` allows. `ENOMEM`.
    pub(super) fn new(
        blocks: Arc<VramBlocks>,
        charge: VramCharge,
        contiguous: bool,
    ) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                place <- new_spinlock!(BoPlace::Vram(blocks), "Placement::place"),
                stay <- new_mutex!(
                    StayState { of: pin_state::PinState::new(), counted: PinnedAs::No },
                    "Placement::stay"
                ),
                settled <- new_condvar!("Placement::settled"),
                contiguous,
                charge,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Where it is now. Any context.
    pub(crate) fn place(&self) -> BoPlace {
        self.place.lock().clone()
    }

    /// Whose it is.
    pub(super) fn client(&self) -> &Arc<MemoryClient> {
        self.charge.client()
    }

    /// The bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.charge.bytes()
    }

    /// Whether its VRAM is to be in one run, where there is one.
    pub(super) fn is_contiguous(&self) -> bool {
        self.contiguous
    }

    /// Keeps it where it is while a fault is handled, once it is anywhere. `None` when a signal came first.
    pub(super) fn steady(&self) -> Option<MutexGuard<'_, StayState>> {
        let mut stay = self.stay.lock();
        while stay.of.is_moving() {
            if self.settled.wait_interruptible(&mut stay) {
                return None;
            }
        }
        Some(stay)
    }

    /// Whether it is being moved.
    pub(super) fn is_moving(&self) -> bool {
        self.stay.lock().of.is_moving()
    }

    /// Waits until it is not being moved. Bounded by what the engines may take; sleeps.
    pub(super) fn wait(&self) {
        let mut stay = self.stay.lock();
        while stay.of.is_moving() {
            self.settled.wait(&mut stay);
        }
    }

    /// Keeps it where it is. `None` while it is being moved.
    pub(super) fn try_pin(self: &Arc<Self>) -> Option<PinnedBuffer> {
        let mut stay = self.stay.lock();
        if !stay.of.pin() {
            return None;
        }
        stay.count(&self.charge, self.is_home());
        Some(PinnedBuffer(self.clone()))
    }

    /// Keeps it where it is, once it is anywhere. Sleeps.
    pub(super) fn pin(self: &Arc<Self>) -> PinnedBuffer {
        loop {
            match self.try_pin() {
                Some(pin) => return pin,
                None => self.wait(),
            }
        }
    }

    /// Whether what has to stay in VRAM leaves half of it to others.
    pub(super) fn leaves_room(&self) -> bool {
        self.charge.leaves_room()
    }

    /// Whether it may be moved, as far as can be seen now.
    pub(super) fn may_move(&self) -> bool {
        self.stay.lock().of.may_move()
    }

    /// Whether page tables may lead to it now. While that is not so, whoever moves it sees to it that they do later:
    /// see [`super::vm::Vm::show`].
    pub(super) fn is_mappable(&self) -> bool {
        let stay = self.stay.lock();
        stay.of.is_mappable(self.is_home(), self.client().is_away())
    }

    /// Whether it is in VRAM.
    fn is_home(&self) -> bool {
        matches!(*self.place.lock(), BoPlace::Vram(_))
    }

    /// Whether it may be brought to where other devices reach it, as far as can be seen now.
    pub(super) fn may_be_shared(&self) -> bool {
        let stay = self.stay.lock();
        stay.of.may_be_shared(self.is_home())
    }

    /// Shares it with another device; it `stays` then, until [`VramPlacement::unshare`]. False unless it is in system memory.
    pub(super) fn share(&self, stays: bool) -> bool {
        let mut stay = self.stay.lock();
        if !stay.of.share(stays, self.is_home()) {
            return false;
        }
        stay.count(&self.charge, false);
        true
    }

    /// Takes a [`VramPlacement::share`] back; whether it is to be brought home now.
    pub(super) fn unshare(&self, stays: bool) -> bool {
        let mut stay = self.stay.lock();
        let may_come = stay.of.unshare(stays);
        stay.count(&self.charge, self.is_home());
        may_come
    }

    /// Shares it with another device that reaches it in VRAM, and gives it back when asked. `None` unless it is there.
    pub(super) fn share_in_vram(self: &Arc<Self>) -> Option<SharedInVram> {
        let mut stay = self.stay.lock();
        if !stay.of.share_in_vram(self.is_home()) {
            return None;
        }
        stay.count(&self.charge, true);
        Some(SharedInVram(self.clone()))
    }

    /// Whether other devices reach it in VRAM that give it back when asked.
    pub(super) fn is_shared_in_vram(&self) -> bool {
        self.stay.lock().of.is_shared_in_vram()
    }

    /// Whoever brings it home asks other devices for it, or does not any more: when they give it back he knows.
    pub(super) fn ask_back(&self, on: bool) {
        self.stay.lock().of.ask_back(on);
    }

    /// Whether its client is gone.
    pub(super) fn is_orphan(&self) -> bool {
        self.stay.lock().of.is_orphan()
    }

    /// Whether other devices have it that give it back when asked.
    pub(super) fn is_shared(&self) -> bool {
        self.stay.lock().of.is_shared()
    }

    /// Its client goes: it stays where it is from now on.
    pub(super) fn orphan(&self) {
        let mut stay = self.stay.lock();
        while stay.of.is_moving() {
            self.settled.wait(&mut stay);
        }
        if stay.of.orphan() {
            self.charge.close(true);
        }
        stay.count(&self.charge, self.is_home());
    }

    /// Takes its system memory, now or later, away from the device, which is about to go. No VM maps it any more.
    pub(super) fn detach(&self) {
        self.stay.lock().of.detach();
        if let BoPlace::System(away) = self.place() {
            away.pages.unmap_dma();
        }
    }

    /// Begins to move it away from where it is. `None` if it has to stay, is shared, or is being moved: see [`stay::PinState::begin`].
    pub(super) fn start(self: &Arc<Self>, to_be_shared: bool) -> Option<BoMove> {
        let begun = self.stay.lock().of.start_move(to_be_shared);
        begun.then(|| BoMove(self.clone()))
    }
}

#[pinned_drop]
impl PinnedDrop for VramPlacement {
    fn drop(self: Pin<&mut Self>) {
        // Pins hold the placement.
        let mut stay = self.stay.lock();
        if stay.of.is_orphan() {
            self.charge.close(false);
        }
        // As what nobody relies on.
        stay.of = pin_state::PinState::new();
        stay.count(&self.charge, true);
    }
}

/// A buffer stays where it is as long as this exists. Dropped where sleeping is allowed.
pub(crate) struct PinnedBuffer(Arc<VramPlacement>);

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        let mut stay = self.0.stay.lock();
        stay.of.unpin();
        stay.count(&self.0.charge, self.0.is_home());
    }
}

/// Another device reaches a buffer in VRAM, which stays there as long as this exists. Dropped where sleeping is allowed.
pub(super) struct SharedInVram(Arc<VramPlacement>);

impl Drop for SharedInVram {
    fn drop(&mut self) {
        let mut stay = self.0.stay.lock();
        stay.of.unshare_in_vram();
        stay.count(&self.0.charge, self.0.is_home());
    }
}

/// A buffer that is being moved: the CPU's faults wait. When it is dropped the buffer is where it was.
pub(super) struct BoMove(Arc<VramPlacement>);

impl BoMove {
    /// The buffer is at `place` now, and so is its content.
    pub(super) fn finish(self, place: BoPlace) {
        let old = core::mem::replace(&mut *self.0.place.lock(), place.clone());
        let home = matches!(place, BoPlace::Vram(_));
        self.0.stay.lock().count(&self.0.charge, home);
        if let BoPlace::System(away) = place {
            away.count(true);
            if self.0.stay.lock().of.is_detached() {
                away.pages.unmap_dma();
            }
        }
        drop(self);
        // Freed, when nobody looks at it any more.
        drop(old);
    }
}

impl Drop for BoMove {
    fn drop(&mut self) {
        self.0.stay.lock().of.end_move();
        self.0.settled.notify_all();
    }
}
