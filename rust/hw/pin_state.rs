// SPDX-License-Identifier: GPL-2.0
//! Whether a buffer with a place in VRAM may move, and the users that rely on its current place.

/// The users that rely on the place of one buffer. No locks: the owner has one.
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
    /// A state without users.
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

    /// Whether the buffer is being moved.
    pub const fn is_moving(&self) -> bool {
        self.moving
    }

    /// Whether the buffer has to stay where it is for now.
    pub const fn is_stuck(&self) -> bool {
        self.orphan || self.pins != 0 || self.in_vram != 0
    }

    /// Whether other devices use it in VRAM, and give it back when asked.
    pub const fn is_shared_in_vram(&self) -> bool {
        self.in_vram != 0
    }

    /// Whether other devices use it in system memory, and give it back when asked.
    pub const fn is_shared(&self) -> bool {
        self.shared != 0
    }

    /// Whether its client is gone: from then on it only moves for other devices.
    pub const fn is_orphan(&self) -> bool {
        self.orphan
    }

    /// Whether the device must not reach its system memory any more.
    pub const fn is_detached(&self) -> bool {
        self.detached
    }

    /// Whether it may be moved once the devices that give it back when asked have done so.
    pub const fn may_move(&self) -> bool {
        !self.moving && !self.is_stuck() && !self.detached
    }

    /// Whether page tables may point to it. `home`: it is in VRAM; `away`: its client does not run
    /// until it is.
    pub const fn is_mappable(&self, home: bool, away: bool) -> bool {
        let used_here = home || self.is_stuck() || self.is_shared();
        !self.moving && (used_here || !away)
    }

    /// Whether it may be moved to where other devices can reach it. `home`: it is in VRAM.
    pub const fn may_be_shared(&self, home: bool) -> bool {
        !self.detached && (self.pins == 0 || !home)
    }

    /// Keeps it where it is until [`PinState::unpin`]. Returns false if it is being moved.
    pub fn pin(&mut self) -> bool {
        self.pins += usize::from(!self.moving);
        !self.moving
    }

    /// Undoes one [`PinState::pin`].
    pub fn unpin(&mut self) {
        self.pins = self.pins.saturating_sub(1);
    }

    /// Records that another device uses it until [`PinState::unshare`]. With `stays` the device
    /// does not give it back when asked. Returns false unless it is in system memory, and not
    /// `home`, in VRAM.
    pub fn share(&mut self, stays: bool, home: bool) -> bool {
        if self.moving || home {
            return false;
        }
        *self.shared_as(stays) += 1;
        true
    }

    /// Undoes one [`PinState::share`]. Returns whether it may move in now, and no other thread is
    /// already taking care of that.
    pub fn unshare(&mut self, stays: bool) -> bool {
        let count = self.shared_as(stays);
        *count = count.saturating_sub(1);
        !self.is_shared() && !self.is_stuck() && !self.asked_back
    }

    /// Records that another device uses it in VRAM until [`PinState::unshare_in_vram`]; until then
    /// it stays there. Returns false unless it is in VRAM, `home`.
    pub fn share_in_vram(&mut self, home: bool) -> bool {
        let there = home && !self.moving && !self.detached;
        self.in_vram += usize::from(there);
        there
    }

    /// Undoes one [`PinState::share_in_vram`].
    pub fn unshare_in_vram(&mut self) {
        self.in_vram = self.in_vram.saturating_sub(1);
    }

    /// Records whether a thread is asking the devices for it, in order to move it in.
    pub fn ask_back(&mut self, on: bool) {
        self.asked_back = on;
    }

    /// Begins a move to another place, until [`PinState::end_move`]. Returns false if a user relies
    /// on its place: a shared buffer has to be given back before a move. A buffer without a client
    /// only moves `to_be_shared`.
    pub fn start_move(&mut self, to_be_shared: bool) -> bool {
        let stuck = self.pins != 0 || (self.orphan && !to_be_shared);
        let shared = self.is_shared() || self.is_shared_in_vram();
        if self.moving || stuck || shared || self.detached {
            return false;
        }
        self.moving = true;
        true
    }

    /// Ends the move.
    pub fn end_move(&mut self) {
        self.moving = false;
    }

    /// Records that its client is gone; returns whether it had one until now.
    pub fn orphan(&mut self) -> bool {
        !core::mem::replace(&mut self.orphan, true)
    }

    /// Records that the device must not access its system memory any more.
    pub fn detach(&mut self) {
        self.detached = true;
    }

    /// The count of the devices that share it in this way.
    fn shared_as(&mut self, stays: bool) -> &mut usize {
        if stays {
            &mut self.pins
        } else {
            &mut self.shared
        }
    }
}
