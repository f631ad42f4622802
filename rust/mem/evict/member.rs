// SPDX-License-Identifier: GPL-2.0
//! An address space whose buffers yield VRAM to others: which of them move next, and whether its queues run meanwhile.
//!
//! All of it is under the lock of the evictor's state.

use super::{transfer, Step, AGAIN_MS};
use crate::mem::{
    bo::Bo,
    group::{Quiesced, Trigger},
    placement::{Place, Placement},
    vm::Vm,
};
use hw::{
    turns::{turn_ms, Wait},
    va::PAGE_SIZE,
};
use kernel::{
    prelude::*,
    sync::{aref::ARef, Arc},
    time::{Instant, Monotonic},
};

/// How many buffers move together, at most.
const TOGETHER: usize = 256;
/// Buffers that a step looks at before it asks for the time.
const LOOKS: usize = 1024;
/// The most often that the time doubles until others are asked again for what they did not give back.
const REFUSALS: u32 = 5;

/// An address space that takes part.
pub(super) struct Member {
    pub(super) vm: Arc<Vm>,
    /// Not `None` while something of it is, or may be, away.
    pub(super) quiesced: Option<Quiesced>,
    /// Since when it is there, or away.
    pub(super) since: Instant<Monotonic>,
    /// What it took to bring it home the last time, and takes this time so far, milliseconds.
    took: i64,
    taking: i64,
    /// Where in the GPU's list to look for the next buffer to move out, and to bring home.
    next_out: usize,
    next_home: usize,
    /// Something could not come home, because others have work on it, and how often in a row that was so.
    refused: bool,
    refusals: u32,
}

/// Whether others must be asked before the buffer moves home.
fn is_others(bo: &Bo) -> bool {
    bo.placement()
        .is_some_and(|placement| placement.is_shared())
        || !bo.is_idle()
}

impl Member {
    /// All of it is there.
    pub(super) fn new(vm: &Arc<Vm>) -> Self {
        Self {
            vm: vm.clone(),
            quiesced: None,
            since: Instant::now(),
            took: 0,
            taking: 0,
            next_out: 0,
            next_home: 0,
            refused: false,
            refusals: 0,
        }
    }

    /// Whether something is left that could not come home, and is to be asked for again.
    pub(super) fn is_refused(&self) -> bool {
        self.refused
    }

    /// Whether it may leave for what can come home: not in its turn, nor soon after others did not give something back, each time less
    /// soon.
    pub(super) fn may_leave(&self) -> bool {
        let age = self.since.elapsed().as_millis();
        age >= turn_ms(self.took) && (self.refusals == 0 || age >= AGAIN_MS << self.refusals)
    }

    /// How long it waits, if it is away and has something to do.
    pub(super) fn waits(&self) -> Option<Wait> {
        let waits = self.quiesced.is_some() && self.vm.group().wants_to_run();
        waits.then(|| Wait::Home {
            away: self.since.elapsed().as_millis(),
            took: self.took,
        })
    }

    /// Whether it may be asked to yield, for how long not yet (milliseconds, not more than 0 if at once), and its rank:
    /// who has the lowest yields first.
    pub(super) fn rank(&self) -> (u8, i64, i64) {
        let age = self.since.elapsed().as_millis();
        if self.quiesced.is_some() {
            // The one that came last has its turn last.
            (0, age, 0)
        } else if !self.vm.group().wants_to_run() {
            (1, -age, 0)
        } else {
            (2, -age, turn_ms(self.took) - age)
        }
    }

    /// The next buffers that may move from where `from` says, from `next` on: as many as move together. Whether there may
    /// be more after them: so many are looked at in a step.
    fn some(
        &self,
        next: &mut usize,
        from: impl Fn(&Place) -> bool,
    ) -> Result<(KVVec<ARef<Bo>>, bool)> {
        let mut found = KVVec::new();
        let mut bytes = 0;
        let (bos, owner) = (&self.vm.gpu().bos, self.vm.client().number());
        for _ in 0..LOOKS {
            let Some((key, bo)) = bos.next_of(owner, *next) else {
                return Ok((found, false));
            };
            let is = |placement: &&Arc<Placement>| {
                Arc::ptr_eq(placement.client(), self.vm.client())
                    && placement.may_move()
                    && from(&placement.place())
            };
            if let Some(placement) = bo.placement().filter(is) {
                bytes += placement.bytes();
                // For one that is shared others must be asked.
                let apart = is_others(&bo);
                let many = bytes > transfer::WINDOW || found.len() == TOGETHER || apart;
                if many && !found.is_empty() {
                    break;
                }
                found.push(bo.clone(), GFP_KERNEL)?;
                *next = key + 1;
                if apart {
                    break;
                }
            }
            *next = key + 1;
        }
        Ok((found, true))
    }

    /// Moves buffers out until `enough` or the end of the step: whether VRAM has become free, or there may be more that can.
    pub(super) fn yield_vram(&mut self, step: &Step, enough: &impl Fn() -> bool) -> Result<bool> {
        let mut freed = 0;
        // What is left may be before the place where it was last looked.
        let mut again = self.next_out != 0;
        while freed == 0 || !(step.is_over() || enough()) {
            if self.vm.client().movable_home() == 0 {
                break;
            }
            let mut next = self.next_out;
            let (bos, more) = self.some(&mut next, |place| matches!(place, Place::Vram(_)))?;
            self.next_out = next;
            if bos.is_empty() {
                if more && !step.is_over() {
                    continue;
                } else if more {
                    return Ok(true);
                }
                self.next_out = 0;
                if core::mem::replace(&mut again, false) {
                    continue;
                }
                break;
            }
            self.leave();
            freed += transfer::out(self.vm.gpu(), &self.vm, &bos)?;
        }
        Ok(freed != 0)
    }

    /// Its queues are quiesced until all of it is home. What is in system memory is not used there.
    /// What comes home is looked for from the first buffer on.
    pub(super) fn leave(&mut self) {
        if self.quiesced.is_none() {
            self.quiesced = Some(self.vm.group().quiesce(Trigger::Eviction));
            self.vm.client().set_away(true);
            self.since = Instant::now();
        }
        self.next_home = 0;
    }

    /// Moves a buffer of it to where other devices reach it; it runs on with it there.
    pub(super) fn share(&mut self, bo: &Bo) -> Result {
        let quiesced = match self.quiesced {
            None => Some(self.vm.group().quiesce(Trigger::Eviction)),
            Some(_) => None,
        };
        let moved = transfer::share(self.vm.gpu(), Some(&self.vm), bo);
        // Whatever became of it, it is mapped where it is.
        let shown = self.vm.reveal(bo).and(self.vm.show());
        if shown.is_err() {
            // It does not run before all of it is mapped.
            self.leave();
        }
        drop(quiesced);
        moved.and(shown)
    }

    /// Brings something home, for which there is room; whether that was all, and the queues run. `ENOMEM` if there is no
    /// room after all.
    pub(super) fn restore(&mut self, step: &Step) -> Result<bool> {
        let begun = Instant::<Monotonic>::now();
        let gpu = self.vm.gpu().clone();
        if self.next_home == 0 {
            self.taking = 0;
            self.refused = false;
        }
        self.vm.client().recall(false);
        loop {
            let mut next = self.next_home;
            let (bos, more) = self.some(&mut next, |place| matches!(place, Place::System(_)))?;
            if bos.is_empty() {
                if !more {
                    break;
                }
                self.next_home = next;
                if step.is_over() {
                    self.taking += begun.elapsed().as_millis();
                    return Ok(false);
                }
                continue;
            }
            let mut homes = KVVec::with_capacity(bos.len(), GFP_KERNEL)?;
            for bo in bos {
                let contiguous = bo.placement().is_some_and(|p| p.is_contiguous());
                let size = bo.size() as u64;
                let blocks = gpu.vram.alloc(size, PAGE_SIZE, contiguous, false)?;
                homes.push((bo, Arc::new(blocks, GFP_KERNEL)?), GFP_KERNEL)?;
            }
            let mut moved = Ok(false);
            let mut go = || moved = transfer::home(&gpu, &self.vm, &homes);
            match homes.as_slice() {
                // When it is not given back it stays where it is.
                [(bo, _)] if is_others(bo) => {
                    if let Some(placement) = bo.placement() {
                        placement.ask_back(true);
                        bo.reclaim(|| {
                            if !placement.is_shared() {
                                go();
                            }
                        });
                        placement.ask_back(false);
                    }
                }
                // What other devices have taken since it was found stays, too.
                _ => go(),
            }
            self.refused |= !moved?;
            self.next_home = next;
            if step.is_over() {
                self.taking += begun.elapsed().as_millis();
                return Ok(false);
            }
        }
        self.vm.client().set_away(false);
        if let Err(error) = self.vm.show() {
            self.vm.client().set_away(true);
            return Err(error);
        }
        self.quiesced = None;
        self.since = Instant::now();
        self.refusals = match self.refused {
            true => REFUSALS.min(self.refusals + 1),
            false => 0,
        };
        if self.refused {
            self.vm.client().recall(true);
        }
        self.took = self.taking + begun.elapsed().as_millis();
        (self.next_out, self.next_home) = (0, 0);
        Ok(true)
    }
}
