// SPDX-License-Identifier: GPL-2.0
//! The address spaces that share VRAM, and the order of their turns.

use super::{member::EvictMember, mover::BufferMover, AGAIN_MS, LOOK_MS};
use crate::mem::{account::MemoryClient, vm::Vm, GpuMemory};
use hw::vram_fairness::VramWait;
use kernel::{prelude::*, sync::Arc};

/// The member that moves in next.
pub(super) enum NextTurn {
    /// None: no member is away.
    Idle,
    /// None yet: to be asked again in so many milliseconds.
    Retry(i64),
    /// The member with this address space.
    Restore {
        /// Its address space.
        vm: Arc<Vm>,
        /// There is room for it; else others have to yield, which have enough.
        fits: bool,
    },
}

/// What the lock of the evictor's state guards. Nothing is waited for under it.
pub(super) struct EvictorState {
    /// All that have asked for VRAM: as many as there are open files.
    pub(super) members: KVVec<EvictMember>,
    /// How many threads move buffers.
    pub(super) moving: usize,
    pub(super) closed: bool,
}

impl EvictorState {
    /// The member with address space `vm`.
    pub(super) fn member(&mut self, vm: &Arc<Vm>) -> Option<&mut EvictMember> {
        let mut members = self.members.iter_mut();
        members.find(|member| Arc::ptr_eq(&member.vm, vm))
    }

    /// The caller moves buffers of `vm`, until [`EvictorState::end_moving`]. `None` while another
    /// thread does.
    pub(super) fn start_moving(&mut self, vm: &Arc<Vm>) -> Option<BufferMover> {
        let mover = self.member(vm)?.start_moving()?;
        vm.client().set_moving(true);
        self.moving += 1;
        Some(mover)
    }

    /// Takes a [`EvictorState::start_moving`] back.
    pub(super) fn end_moving(&mut self, mover: BufferMover) {
        self.moving -= 1;
        let vm = mover.vm.clone();
        vm.client().set_moving(false);
        // It is there: only a thread with the mover takes it out.
        if let Some(member) = self.member(&vm) {
            member.end_moving(mover);
        }
    }

    /// Whether a member that is away moves in before `client` gets room, for which it has looked as
    /// `wait` says: not one for which there can be no room. Looks at each once.
    pub(super) fn is_overtaken(
        &self,
        gpu: &GpuMemory,
        client: &Arc<MemoryClient>,
        wait: VramWait,
    ) -> bool {
        let all = self.members.iter().map(|member| member.vm.client());
        // The most that a member could have: free, or of others after their turns.
        let movable: u64 = all.map(|client| client.movable_home()).sum();
        let free = gpu.vram.free();
        let could_have = |other: &MemoryClient| free + movable.saturating_sub(other.movable_home());
        let others = self
            .members
            .iter()
            .map(|member| (member, member.vm.client()));
        let mut others = others.filter(|(_, other)| !Arc::ptr_eq(other, client));
        others.any(|(member, other)| {
            let first = member.waits().is_some_and(|home| home.precedes(wait));
            first && could_have(other) >= other.waiting_to_return()
        })
    }

    /// The member that is away, wants to run and is due for longest; else the one that is away for
    /// longest.
    pub(super) fn next(&self) -> Option<(&EvictMember, Option<VramWait>)> {
        let waits = self.members.iter().filter_map(|m| Some((m, m.waits()?)));
        if let Some((member, wait)) = waits.max_by_key(|(_, wait)| wait.due()) {
            return Some((member, Some(wait)));
        }
        let away = self.members.iter().filter(|member| member.turn.away);
        let next = away.max_by_key(|member| member.turn.since.elapsed().as_nanos());
        next.map(|member| (member, None))
    }

    /// The bytes that are kept for the member that is due to move in.
    pub(super) fn kept(&self) -> u64 {
        let due = |(member, wait): (&EvictMember, Option<VramWait>)| {
            (wait?.due() > 0).then(|| member.vm.client().waiting_to_return())
        };
        self.next().and_then(due).unwrap_or(0)
    }

    /// Returns the member to restore next. `asking` returns how long the allocations of other
    /// clients than the given one have looked for room: those with priority get it.
    pub(super) fn turn(&self, asking: impl Fn(&Arc<MemoryClient>) -> Option<VramWait>) -> NextTurn {
        let Some((member, wait)) = self.next() else {
            return NextTurn::Idle;
        };
        let (gpu, client) = (member.vm.gpu(), member.vm.client());
        if let Some(room) = asking(client) {
            if !wait.is_some_and(|home| home.precedes(room)) {
                return NextTurn::Retry(LOOK_MS);
            }
        }
        let need = client.waiting_to_return();
        let fits = gpu.vram.free() >= need;
        if !fits {
            if wait.is_none() {
                return NextTurn::Retry(LOOK_MS);
            }
            // No member yields unless it is enough.
            let (mut room, mut wait) = (gpu.vram.free(), AGAIN_MS);
            for other in &self.members {
                if Arc::ptr_eq(other.vm.client(), client) {
                    continue;
                }
                match other.yields() {
                    Some(state) if state.left_ms <= 0 => room += other.vm.client().movable_home(),
                    Some(state) => wait = wait.min(state.left_ms),
                    None => wait = wait.min(LOOK_MS),
                }
            }
            if room < need {
                return NextTurn::Retry(wait);
            }
        }
        NextTurn::Restore {
            vm: member.vm.clone(),
            fits,
        }
    }
}
