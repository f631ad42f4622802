// SPDX-License-Identifier: GPL-2.0
//! The members that share VRAM, and the choice of the next one to restore.

use super::{member::EvictMember, mover::BufferMover, AGAIN_MS, LOOK_MS};
use crate::mem::{account::MemoryClient, vm::Vm, GpuMemory};
use hw::vram_fairness::VramWait;
use kernel::{prelude::*, sync::Arc};

/// The data that the lock of the evictor's state guards. Holders of the lock do not wait.
pub(super) struct EvictorState {
    /// The address spaces that have asked for VRAM: at most as many as there are open files.
    pub(super) members: KVVec<EvictMember>,
    /// How many threads move buffers.
    pub(super) moving: usize,
    pub(super) closed: bool,
}

impl EvictorState {
    /// Returns the member with address space `vm`.
    pub(super) fn member(&mut self, vm: &Arc<Vm>) -> Option<&mut EvictMember> {
        let mut members = self.members.iter_mut();
        members.find(|member| Arc::ptr_eq(&member.vm, vm))
    }

    /// Lets the caller move buffers of `vm`, until [`EvictorState::end_moving`]. `None` while
    /// another thread does.
    pub(super) fn start_moving(&mut self, vm: &Arc<Vm>) -> Option<BufferMover> {
        let mover = self.member(vm)?.start_moving()?;
        vm.client().set_moving(true);
        self.moving += 1;
        Some(mover)
    }

    /// Undoes an [`EvictorState::start_moving`].
    pub(super) fn end_moving(&mut self, mover: BufferMover) {
        self.moving -= 1;
        let vm = mover.vm.clone();
        vm.client().set_moving(false);
        // The member exists: a thread removes a member only while it has its mover.
        if let Some(member) = self.member(&vm) {
            member.end_moving(mover);
        }
    }

    /// Whether an evicted process has priority over `client`, which has looked for room as `wait`
    /// says. Processes for which there can be no room do not count. Looks at each member once.
    pub(super) fn is_overtaken(
        &self,
        gpu: &GpuMemory,
        client: &Arc<MemoryClient>,
        wait: VramWait,
    ) -> bool {
        let all = self.members.iter().map(|member| member.vm.client());
        // The most that a process could get: free VRAM, and VRAM of others after their time slices.
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

    /// Returns the evicted member to restore next: of those that want to run, the one that has been
    /// due for longest. If none wants to run, the one that has been evicted for longest.
    pub(super) fn next(&self) -> Option<(&EvictMember, Option<VramWait>)> {
        let waits = self.members.iter().filter_map(|m| Some((m, m.waits()?)));
        if let Some((member, wait)) = waits.max_by_key(|(_, wait)| wait.due()) {
            return Some((member, Some(wait)));
        }
        let away = self.members.iter().filter(|member| member.turn.away);
        let next = away.max_by_key(|member| member.turn.since.elapsed().as_nanos());
        next.map(|member| (member, None))
    }

    /// Returns the bytes that are reserved for the member that is due to be restored.
    pub(super) fn kept(&self) -> u64 {
        let due = |(member, wait): (&EvictMember, Option<VramWait>)| {
            (wait?.due() > 0).then(|| member.vm.client().waiting_to_return())
        };
        self.next().and_then(due).unwrap_or(0)
    }

    /// Returns the member to restore next, and whether there is room for it. If there is none, but
    /// a member is evicted, the error is after how many milliseconds to look again. `asking`
    /// returns how long the allocations of other clients than the given one have looked for room:
    /// those with priority get it.
    pub(super) fn turn(
        &self,
        asking: impl Fn(&Arc<MemoryClient>) -> Option<VramWait>,
    ) -> core::result::Result<(Arc<Vm>, bool), Option<i64>> {
        let (member, wait) = self.next().ok_or(None)?;
        let (gpu, client) = (member.vm.gpu(), member.vm.client());
        if let Some(room) = asking(client) {
            if !wait.is_some_and(|home| home.precedes(room)) {
                return Err(Some(LOOK_MS));
            }
        }
        let need = client.waiting_to_return();
        let fits = gpu.vram.free() >= need;
        if !fits {
            if wait.is_none() {
                return Err(Some(LOOK_MS));
            }
            // No process is asked to yield unless the sum is enough.
            let (mut room, mut wait) = (gpu.vram.free(), AGAIN_MS);
            for other in &self.members {
                if Arc::ptr_eq(other.vm.client(), client) {
                    continue;
                }
                match other.rank() {
                    Some((_, _, left)) if left <= 0 => room += other.vm.client().movable_home(),
                    Some((_, _, left)) => wait = wait.min(left),
                    None => wait = wait.min(LOOK_MS),
                }
            }
            if room < need {
                return Err(Some(wait));
            }
        }
        Ok((member.vm.clone(), fits))
    }
}
