// SPDX-License-Identifier: GPL-2.0
//! Whether a buffer that has its place in VRAM may move away from where it is, and who relies on its place.

/// Who relies on the place of one buffer. No locks: its owner has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PinState {
    moving: bool,
    pins: usize,
    shared: usize,
    in_vram: usize,
    asked_back: bool,
    orphan: bool,
    detached: bool,
}

impl PinState {
    /// Nobody does.
    pub const fn new() -> Self {
        Self {
            moving: false,
            pins: 0,
            shared: 0,
            in_vram: 0,
            asked_back: false,
            orphan: false,
            detached: false,
        }
    }

    /// Whether it is being moved.
    pub const fn is_moving(&self) -> bool {
        self.moving
    }

    /// Whether it has to stay where it is for now.
    pub const fn is_stuck(&self) -> bool {
        self.orphan || self.pins != 0 || self.in_vram != 0
    }

    /// Whether other devices have it in VRAM that give it back when asked.
    pub const fn is_shared_in_vram(&self) -> bool {
        self.in_vram != 0
    }

    /// Whether other devices have it in system memory that give it back when asked.
    pub const fn is_shared(&self) -> bool {
        self.shared != 0
    }

    /// Whether its client is gone: nobody will ever move it but for other devices.
    pub const fn is_orphan(&self) -> bool {
        self.orphan
    }

    /// Whether the device must not reach its system memory any more.
    pub const fn is_detached(&self) -> bool {
        self.detached
    }

    /// Whether it may be moved when those that give it back when asked have done so.
    pub const fn may_move(&self) -> bool {
        !self.moving && !self.is_stuck() && !self.detached
    }

    /// Whether page tables may lead to it. `home`: it is in VRAM; `away`: its client does not run until it is.
    pub const fn is_mappable(&self, home: bool, away: bool) -> bool {
        let used_here = home || self.is_stuck() || self.is_shared();
        !self.moving && (used_here || !away)
    }

    /// Whether it may be brought to where other devices reach it. `home`: it is in VRAM.
    pub const fn may_be_shared(&self, home: bool) -> bool {
        !self.detached && (self.pins == 0 || !home)
    }

    /// Keeps it where it is until [`PinState::unpin`]. False while it is being moved.
    pub fn pin(&mut self) -> bool {
        self.pins += usize::from(!self.moving);
        !self.moving
    }

    /// Takes a [`PinState::pin`] back.
    pub fn unpin(&mut self) {
        self.pins = self.pins.saturating_sub(1);
    }

    /// Another device has it until [`PinState::unshare`], and does not give it back when asked if it `stays`. False unless it is in
    /// system memory, and not `home`, in VRAM.
    pub fn share(&mut self, stays: bool, home: bool) -> bool {
        if self.moving || home {
            return false;
        }
        *self.shared_as(stays) += 1;
        true
    }

    /// Takes a [`PinState::share`] back; whether it may come home now, and nobody is just seeing to that.
    pub fn unshare(&mut self, stays: bool) -> bool {
        let count = self.shared_as(stays);
        *count = count.saturating_sub(1);
        !self.is_shared() && !self.is_stuck() && !self.asked_back
    }

    /// Another device has it in VRAM until [`PinState::unshare_in_vram`], where it stays so long. False unless it is there, and so `home`.
    pub fn share_in_vram(&mut self, home: bool) -> bool {
        let there = home && !self.moving && !self.detached;
        self.in_vram += usize::from(there);
        there
    }

    /// Takes a [`PinState::share_in_vram`] back.
    pub fn unshare_in_vram(&mut self) {
        self.in_vram = self.in_vram.saturating_sub(1);
    }

    /// Somebody asks for it back, to bring it home, or does not any more.
    pub fn ask_back(&mut self, on: bool) {
        self.asked_back = on;
    }

    /// Begins to move it away from where it is, until [`PinState::end_move`]. False if somebody relies on its place: whoever moves one that is shared
    /// has it given back before. One that is nobody's any more only moves `to_be_shared`.
    pub fn start_move(&mut self, to_be_shared: bool) -> bool {
        let stuck = self.pins != 0 || (self.orphan && !to_be_shared);
        let shared = self.is_shared() || self.is_shared_in_vram();
        if self.moving || stuck || shared || self.detached {
            return false;
        }
        self.moving = true;
        true
    }

    /// It is not being moved any more.
    pub fn end_move(&mut self) {
        self.moving = false;
    }

    /// Its client goes; whether it was there so far.
    pub fn orphan(&mut self) -> bool {
        !core::mem::replace(&mut self.orphan, true)
    }

    /// The device must not reach its system memory any more.
    pub fn detach(&mut self) {
        self.detached = true;
    }

    /// The count of those that have it so.
    fn shared_as(&mut self, stays: bool) -> &mut usize {
        if stays {
            &mut self.pins
        } else {
            &mut self.shared
        }
    }
}
