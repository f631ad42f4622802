// SPDX-License-Identifier: GPL-2.0
//! Which buffers of an address space move next, and whether its queues run meanwhile.
//!
//! The holder of a [`BufferMover`] has exclusive access to all of this without the lock of the
//! evictor's state: moves wait for hardware.

use super::{residency::Residency, transfer, EvictStep};
use crate::mem::{
    bo::Bo,
    placement::{BoPlace, VramPlacement},
    queue_group::{EvictTrigger, QuiesceGuard},
    vm::Vm,
};
use hw::va::PAGE_SIZE;
use kernel::{
    prelude::*,
    sync::{aref::ARef, Arc},
    time::{Instant, Monotonic},
};

/// The limit of buffers that move together.
const TOGETHER: usize = 256;
/// The number of buffers that a step looks at before it checks the time.
const LOOKS: usize = 1024;

/// Moves the buffers of one address space.
pub(super) struct BufferMover {
    pub(super) vm: Arc<Vm>,
    pub(super) turn: Residency,
    /// Not `None` while a buffer is, or may be, moved out.
    quiesced: Option<QuiesceGuard>,
    /// How long the current restore has taken so far, milliseconds.
    taking: i64,
    /// Where in the GPU's list to look for the next buffer to move out, and to move in.
    next_out: usize,
    next_home: usize,
}

/// Buffers that may move together.
struct MovableBuffers {
    bos: KVVec<ARef<Bo>>,
    /// There may be more after them: a step looks at a limited number.
    more: bool,
}

/// Whether other users of the buffer must be asked before it is moved in.
fn is_others(bo: &Bo) -> bool {
    bo.placement()
        .is_some_and(|placement| placement.is_shared())
        || !bo.is_idle()
}

impl BufferMover {
    /// Creates a mover with all buffers in VRAM.
    pub(super) fn new(vm: &Arc<Vm>, turn: Residency) -> Self {
        Self {
            vm: vm.clone(),
            turn,
            quiesced: None,
            taking: 0,
            next_out: 0,
            next_home: 0,
        }
    }

    /// Finds the next buffers that may move and of which the place satisfies `from`, from `next`
    /// on: as many as move together.
    fn some(&self, next: &mut usize, from: impl Fn(&BoPlace) -> bool) -> Result<MovableBuffers> {
        let mut found = KVVec::new();
        let mut bytes = 0;
        let (bos, owner) = (&self.vm.gpu().bos, self.vm.client().number());
        for _ in 0..LOOKS {
            let Some((key, bo)) = bos.next_of(owner, *next) else {
                return Ok(MovableBuffers {
                    bos: found,
                    more: false,
                });
            };
            let is = |placement: &&Arc<VramPlacement>| {
                Arc::ptr_eq(placement.client(), self.vm.client())
                    && placement.may_move()
                    && from(&placement.place())
            };
            if let Some(placement) = bo.placement().filter(is) {
                bytes += placement.bytes();
                // For a shared buffer, the other devices must be asked.
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
        Ok(MovableBuffers {
            bos: found,
            more: true,
        })
    }

    /// Moves buffers out until `enough` or the end of the step. Returns whether VRAM has become
    /// free, or there may be more buffers that can move.
    pub(super) fn yield_vram(
        &mut self,
        step: &EvictStep,
        enough: &impl Fn() -> bool,
    ) -> Result<bool> {
        let mut freed = 0;
        // The remaining buffers may be before the place where the last search ended.
        let mut again = self.next_out != 0;
        while freed == 0 || !(step.is_over() || enough()) {
            if self.vm.client().movable_home() == 0 {
                break;
            }
            let mut next = self.next_out;
            let MovableBuffers { bos, more } =
                self.some(&mut next, |place| matches!(place, BoPlace::Vram(_)))?;
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
            self.start_away();
            freed += transfer::out(self.vm.gpu(), &self.vm, &bos)?;
        }
        Ok(freed != 0)
    }

    /// Marks the address space as away, if it is not, and quiesces its queues until all buffers are
    /// in VRAM: a buffer in system memory is not used there. Moves no buffer itself. The next
    /// search for buffers to move in starts from the first one.
    pub(super) fn start_away(&mut self) {
        if self.quiesced.is_none() {
            self.quiesced = Some(self.vm.group().quiesce(EvictTrigger::Eviction));
            self.vm.client().set_away(true);
            self.turn.moved_out();
        }
        self.next_home = 0;
    }

    /// Moves a buffer to where other devices can access it. The process continues to run with the
    /// buffer there.
    pub(super) fn share(&mut self, bo: &Bo) -> Result {
        let quiesced = match self.quiesced {
            None => Some(self.vm.group().quiesce(EvictTrigger::Eviction)),
            Some(_) => None,
        };
        let moved = transfer::share(self.vm.gpu(), Some(&self.vm), bo);
        // Whatever the outcome, the buffer is mapped where it is.
        let shown = self.vm.reveal(bo).and(self.vm.show());
        if shown.is_err() {
            // The process does not run before all of the buffer is mapped.
            self.start_away();
        }
        drop(quiesced);
        moved.and(shown)
    }

    /// Moves buffers in, for which there is room. Returns whether these were all, so that the
    /// queues run. Reports through `taken` how many bytes of VRAM have been allocated for them.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no room after all.
    pub(super) fn restore(&mut self, step: &EvictStep, taken: &dyn Fn(u64)) -> Result<bool> {
        let begun = Instant::<Monotonic>::now();
        let gpu = self.vm.gpu().clone();
        if self.next_home == 0 {
            self.taking = 0;
            self.turn.refused = false;
            // A buffer that is recalled from here on may be before the place where the next step
            // continues.
            self.vm.client().recall(false);
        }
        loop {
            let mut next = self.next_home;
            let MovableBuffers { bos, more } =
                self.some(&mut next, |place| matches!(place, BoPlace::System(_)))?;
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
                taken(size);
                homes.push((bo, Arc::new(blocks, GFP_KERNEL)?), GFP_KERNEL)?;
            }
            let mut moved = Ok(false);
            let mut go = || moved = transfer::home(&gpu, &self.vm, &homes);
            match homes.as_slice() {
                // If other devices do not give it back, it stays where it is.
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
                // A buffer that other devices have taken since it was found stays, too.
                _ => go(),
            }
            self.turn.refused |= !moved?;
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
        if self
            .turn
            .moved_in(self.taking + begun.elapsed().as_millis())
        {
            self.vm.client().recall(true);
        }
        (self.next_out, self.next_home) = (0, 0);
        Ok(true)
    }
}
