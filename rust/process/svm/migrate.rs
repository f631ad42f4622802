// SPDX-License-Identifier: GPL-2.0
//! The placement of shared memory, and the moves there. Memory that is prefetched to a GPU moves to
//! the VRAM of that GPU, unless another GPU has to reach it. Memory that a GPU accesses moves to
//! the VRAM of that GPU, or to system memory.

use super::{Svm, SvmState};
use crate::kern::device_memory::{DeviceMemory, MigrationCause, MigrationObserver};
use crate::kern::mm_exit::AddressSpace;
use crate::kern::{errno, task, user_range};
use crate::mem::queue_group::QuiesceGuard;
use crate::mem::vm::Vm;
use crate::smi::{MigrateTrigger, Smi, SmiEvent, SmiMigration, SmiProcess};
use core::ops::Range;
use hw::svm::{GpuIndex, MemoryLocation, SvmAttributes};
use hw::va::{VaRange, LARGE_PAGE_SIZE};
use kernel::prelude::*;
use kernel::sync::Arc;

/// The progress of a call that moves memory.
#[derive(Default)]
pub(crate) struct MoveProgress {
    /// Memory before this address is where it is to be.
    at: u64,
    /// Whether watchers have been notified of the move that is going on there.
    notified: bool,
}

/// The direction of a move.
#[derive(Clone, Copy)]
enum MoveDirection {
    In,
    Out,
}

/// Keeps queues off the hardware while a part of memory moves, from the beginning of the move.
struct MoveQuiesce<'a> {
    state: &'a SvmState,
    part: VaRange,
    quiesced: Option<KVec<QuiesceGuard>>,
}

impl MoveQuiesce<'_> {
    /// Quiesces all queues that have mappings in the part and could not recover them by a page
    /// fault.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    fn start(&mut self) -> Result {
        if self.quiesced.is_none() {
            self.quiesced = Some(self.state.quiesce(self.part)?);
        }
        Ok(())
    }
}

/// A part of memory that moves between system memory and the VRAM of a GPU.
struct RangeMove<'a> {
    svm: &'a Svm,
    vm: &'a Vm,
    part: VaRange,
    attributes: &'a SvmAttributes,
    direction: MoveDirection,
    trigger: MigrateTrigger,
}

impl RangeMove<'_> {
    /// The description of the move for watchers.
    fn migration(&self) -> SmiMigration {
        let gpu = self.vm.gpu().hw.id.get().into();
        let (from, to) = match self.direction {
            MoveDirection::In => (0, gpu),
            MoveDirection::Out => (gpu, 0),
        };
        SmiMigration {
            whose: SmiProcess {
                pid: self.vm.group().pid() as i32,
                space: self.svm.space.id(),
            },
            part: self.part,
            from,
            to,
            prefetch: self.attributes.prefetch().raw(),
            preferred: self.attributes.preferred().raw(),
            trigger: self.trigger,
        }
    }

    /// Whether all of `window` is known to be where it is to be.
    fn is_in_place(&self, window: VaRange) -> bool {
        let wanted = match self.direction {
            MoveDirection::In => window.size(),
            MoveDirection::Out => 0,
        };
        self.vm.vram_of(window) == Some(wanted)
    }

    /// Moves the part, from the position in `progress` on, with queues quiesced by `quiescing`.
    /// Returns the number of pages that have moved.
    ///
    /// # Errors
    ///
    /// [`errno::in_progress`] if the mmap lock is held by another task, or a waiter for the lock of
    /// the process has priority: a part of the memory has not moved yet. `EINTR` if the caller is
    /// killed; `ESRCH` if the process is at its end; those of [`user_range::migrate_to_device`].
    fn run(
        &self,
        memory: &DeviceMemory,
        quiescing: &mut MoveQuiesce<'_>,
        progress: &mut MoveProgress,
    ) -> Result<usize> {
        let mut at = self.part.start().max(progress.at);
        let result = self.run_from(&mut at, memory, quiescing, progress);
        if result == Err(errno::in_progress()) && self.trigger == MigrateTrigger::Prefetch {
            // The caller repeats the operation, with the same progress.
            progress.at = at;
        } else if core::mem::take(&mut progress.notified) {
            let error = result.err().map_or(0, Error::to_errno);
            let end = SmiEvent::Migrated(self.migration(), error);
            self.vm.gpu().hw.smi.notify(&end);
        }
        result
    }

    /// Does the same from `at` on, and keeps the position reached there. Does not notify watchers
    /// of the end.
    fn run_from(
        &self,
        at: &mut u64,
        memory: &DeviceMemory,
        quiescing: &mut MoveQuiesce<'_>,
        progress: &mut MoveProgress,
    ) -> Result<usize> {
        let mut total = 0;
        // One observer for the whole move, created when it is needed.
        let mut observer = None;
        while let Some(rest) = VaRange::between(*at, self.part.end()) {
            if task::is_killed() {
                return Err(EINTR);
            }
            self.svm.check_precedence(self.vm)?;
            let end = rest
                .end()
                .min((*at / LARGE_PAGE_SIZE + 1) * LARGE_PAGE_SIZE);
            let window = VaRange::between(*at, end).ok_or(EINVAL)?;
            if self.is_in_place(window) {
                *at = end;
                continue;
            }
            let (from, to) = (*at as usize, self.part.end() as usize);
            let space = &self.svm.space;
            // Watchers are notified of the move before they are notified of the queues that wait
            // for it.
            if let MoveDirection::In = self.direction {
                self.notify_start(progress);
            }
            quiescing.start()?;
            let moved = match self.direction {
                MoveDirection::In => {
                    let observer = match &mut observer {
                        Some(observer) => observer,
                        none => none.insert(self.observer()?),
                    };
                    let go_on = || self.svm.yield_to_faults(self.vm);
                    user_range::migrate_to_device(memory, space, from, to, observer, &go_on)
                }
                MoveDirection::Out => user_range::migrate_to_system(memory, space, from, to),
            };
            let (next, moved) = moved?;
            *at = next as u64;
            total += moved;
            if moved != 0 {
                self.notify_start(progress);
            }
        }
        Ok(total)
    }

    /// An observer that notifies watchers when the memory that has moved comes back without a
    /// request.
    fn observer(&self) -> Result<Arc<dyn MigrationObserver>> {
        let direction = MoveDirection::Out;
        let back = MoveBack {
            smi: self.vm.gpu().hw.smi.clone(),
            _space: self.svm.space.clone(),
            migration: Self { direction, ..*self }.migration(),
        };
        Ok(Arc::new(back, GFP_KERNEL_ACCOUNT)?)
    }

    fn notify_start(&self, progress: &mut MoveProgress) {
        if !core::mem::replace(&mut progress.notified, true) {
            let start = SmiEvent::Migrating(self.migration());
            self.vm.gpu().hw.smi.notify(&start);
        }
    }
}

/// Notifies watchers of memory that moves back from VRAM because the CPU touches it, or because it
/// has to leave VRAM.
struct MoveBack {
    smi: Arc<Smi>,
    /// The address space of the description, which may end before the memory comes back: a child
    /// has the memory too. No later address space has the same identity while this exists, so no
    /// watcher of another process is notified.
    _space: AddressSpace,
    /// The description of the whole move.
    migration: SmiMigration,
}

impl MoveBack {
    /// The description of the part at `addresses`. The memory may be at other addresses by now.
    fn migration(&self, addresses: &Range<usize>, cause: MigrationCause) -> SmiMigration {
        SmiMigration {
            part: VaRange::of_process(addresses).unwrap_or(self.migration.part),
            trigger: match cause {
                MigrationCause::Touched => MigrateTrigger::CpuFault,
                MigrationCause::Asked | MigrationCause::Gone => MigrateTrigger::Eviction,
            },
            ..self.migration
        }
    }
}

impl MigrationObserver for MoveBack {
    fn notify_leaving(&self, addresses: &Range<usize>, cause: MigrationCause) {
        let migration = self.migration(addresses, cause);
        self.smi.notify(&SmiEvent::Migrating(migration));
    }

    fn notify_left(&self, addresses: &Range<usize>, cause: MigrationCause, result: Result) {
        let migration = self.migration(addresses, cause);
        let error = result.err().map_or(0, Error::to_errno);
        self.smi.notify(&SmiEvent::Migrated(migration, error));
    }
}

impl SvmState {
    /// Moves `range` to the location that the attributes give, if they do, from the position in
    /// `progress` on. Memory that cannot move to VRAM stays, which is no error.
    ///
    /// # Errors
    ///
    /// [`errno::in_progress`] as for [`SvmState::update_gpu`], and if the mmap lock is held by
    /// another task; `EINTR` if the caller is killed; `ESRCH` if the process is at its end;
    /// `ENOMEM` if there is no memory; errors of the engines.
    pub(super) fn place(&self, svm: &Svm, range: VaRange, progress: &mut MoveProgress) -> Result {
        let Some(rest) = VaRange::between(range.start().max(progress.at), range.end()) else {
            return Ok(());
        };
        for (part, attributes) in self.map.parts(rest) {
            let to = match attributes.prefetch() {
                MemoryLocation::Undefined => continue,
                MemoryLocation::System => None,
                MemoryLocation::Gpu(id) => {
                    let is_it =
                        |(_, vm): &&(GpuIndex, Arc<Vm>)| u32::from(vm.gpu().hw.id.get()) == id;
                    let Some((index, vm)) = self.vms.iter().find(is_it) else {
                        continue;
                    };
                    let mut others = self.vms.iter().filter(|(other, _)| other != index);
                    let is_kept = others
                        .any(|(other, vm)| attributes.must_stay_in_system(*other, vm.retries()));
                    (!is_kept).then_some(vm)
                }
            };
            let trigger = MigrateTrigger::Prefetch;
            self.place_part(svm, part, &attributes, to, trigger, progress)?;
            progress.at = part.end();
        }
        Ok(())
    }

    /// Moves `part`, which has these attributes, to the VRAM of `to`, or to system memory. Returns
    /// the number of pages that have moved.
    ///
    /// # Errors
    ///
    /// Those of [`SvmState::place`].
    pub(super) fn place_part(
        &self,
        svm: &Svm,
        part: VaRange,
        attributes: &SvmAttributes,
        to: Option<&Arc<Vm>>,
        trigger: MigrateTrigger,
        progress: &mut MoveProgress,
    ) -> Result<usize> {
        let destination = match to {
            Some(vm) => vm.gpu().shared_vram.open(vm.gpu()),
            None => None,
        };
        // One guard for the whole move: between two pieces, the queues would only run to be
        // quiesced again.
        let mut quiescing = MoveQuiesce {
            state: self,
            part,
            quiesced: None,
        };
        let range_move = |vm, direction| RangeMove {
            svm,
            vm,
            part,
            attributes,
            direction,
            trigger,
        };
        let mut moved = 0;
        let others = self.vms.iter().map(|(_, vm)| vm);
        for vm in others.filter(|vm| to.is_none_or(|to| !Arc::ptr_eq(vm, to))) {
            match vm.gpu().shared_vram.get() {
                Some(memory) if !memory.is_empty() => {
                    moved += range_move(vm, MoveDirection::Out).run(
                        &memory,
                        &mut quiescing,
                        progress,
                    )?;
                }
                _ => {}
            }
        }
        let (Some(vm), Some(memory)) = (to, destination) else {
            return Ok(moved);
        };
        match range_move(vm, MoveDirection::In).run(&memory, &mut quiescing, progress) {
            Ok(more) => Ok(moved + more),
            Err(error) if [errno::in_progress(), EINTR, ESRCH].contains(&error) => Err(error),
            // The memory stays in system memory.
            Err(_) => Ok(moved),
        }
    }

    /// Keeps all queues off the hardware that have mappings in `part` and could not recover them by
    /// a page fault.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    fn quiesce(&self, part: VaRange) -> Result<KVec<QuiesceGuard>> {
        let mut quiesced = KVec::new();
        for (_, vm) in &self.vms {
            if vm.is_needed(part) {
                quiesced.reserve(1, GFP_KERNEL)?;
                quiesced.push(vm.quiesce_for_svm(), GFP_KERNEL)?;
            }
        }
        Ok(quiesced)
    }
}
