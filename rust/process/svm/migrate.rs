// SPDX-License-Identifier: GPL-2.0
//! Where shared memory is to be, and how it gets there: VRAM of the GPU that it is prefetched to, if no other GPU has to reach it, or that comes to it,
//! or system memory.

use super::{Svm, SvmState};
use crate::kern::device_memory::{DeviceMemory, MigrationCause, MigrationObserver};
use crate::kern::{errno, task, user_range};
use crate::mem::queue_group::QuiesceGuard;
use crate::mem::vm::Vm;
use crate::smi::{MigrateTrigger, Smi, SmiEvent, SmiMigration, SmiProcess};
use core::ops::Range;
use hw::svm::{GpuIndex, MemoryLocation, SvmAttributes};
use hw::va::{VaRange, LARGE_PAGE_SIZE};
use kernel::prelude::*;
use kernel::sync::Arc;

/// How far a call has come that has memory moved.
#[derive(Default)]
pub(crate) struct MoveProgress {
    /// What lies before is where it is to be.
    at: u64,
    /// Watchers know of what moves there.
    told: bool,
}

/// Which way memory moves.
#[derive(Clone, Copy)]
enum MoveDirection {
    In,
    Out,
}

/// Keeps queues off the hardware while a part of memory moves, from when it begins to.
struct MoveQuiesce<'a> {
    state: &'a SvmState,
    part: VaRange,
    quiesced: Option<KVec<QuiesceGuard>>,
}

impl MoveQuiesce<'_> {
    /// All that have something of the part and would not find it again when they come there. ENOMEM.
    fn start(&mut self) -> Result {
        if self.quiesced.is_none() {
            self.quiesced = Some(self.state.quiesce(self.part)?);
        }
        Ok(())
    }
}

/// A part of memory on its way between system memory and the VRAM of a GPU.
struct RangeMove<'a> {
    svm: &'a Svm,
    vm: &'a Vm,
    part: VaRange,
    attributes: &'a SvmAttributes,
    way: MoveDirection,
    trigger: MigrateTrigger,
}

impl RangeMove<'_> {
    /// How the watchers are told of it.
    fn migration(&self) -> SmiMigration {
        let gpu = self.vm.gpu().hw.id.get().into();
        let (from, to) = match self.way {
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

    /// Whether all of `window`, as far as that is known, is where it is to be.
    fn is_in_place(&self, window: VaRange) -> bool {
        let wanted = match self.way {
            MoveDirection::In => window.size(),
            MoveDirection::Out => 0,
        };
        self.vm.vram_of(window) == Some(wanted)
    }

    /// Moves it, from where `progress` says, with queues `quiescing`; how many pages have moved. [`errno::in_progress`] when somebody keeps the mmap lock, or waits for the process's: some of it is
    /// left. EINTR when the caller is killed, ESRCH at the process's end; what [`user_range::migrate_to_device`] fails with.
    fn run(
        &self,
        memory: &DeviceMemory,
        quiescing: &mut MoveQuiesce<'_>,
        progress: &mut MoveProgress,
    ) -> Result<usize> {
        let mut at = self.part.start().max(progress.at);
        let result = self.run_from(&mut at, memory, quiescing, progress);
        if result == Err(errno::in_progress()) && self.trigger == MigrateTrigger::Prefetch {
            // It comes again, with the same progress.
            progress.at = at;
        } else if core::mem::take(&mut progress.told) {
            let error = result.err().map_or(0, Error::to_errno);
            let end = SmiEvent::Migrated(self.migration(), error);
            self.vm.gpu().hw.smi.notify(&end);
        }
        result
    }

    /// The same from `at` on, which is how far it has come then. Nobody is told of the end.
    fn run_from(
        &self,
        at: &mut u64,
        memory: &DeviceMemory,
        quiescing: &mut MoveQuiesce<'_>,
        progress: &mut MoveProgress,
    ) -> Result<usize> {
        let mut all = 0;
        // One for all of it, from when it is needed.
        let mut witness = None;
        while let Some(left) = VaRange::between(*at, self.part.end()) {
            if task::is_killed() {
                return Err(EINTR);
            }
            self.svm.check_precedence(self.vm)?;
            let end = left
                .end()
                .min((*at / LARGE_PAGE_SIZE + 1) * LARGE_PAGE_SIZE);
            let window = VaRange::between(*at, end).ok_or(EINVAL)?;
            if self.is_in_place(window) {
                *at = end;
                continue;
            }
            let (from, to) = (*at as usize, self.part.end() as usize);
            let space = &self.svm.space;
            // Watchers hear of it before they hear that queues wait for it.
            if let MoveDirection::In = self.way {
                self.notify_start(progress);
            }
            quiescing.start()?;
            let moved = match self.way {
                MoveDirection::In => {
                    let witness = match &mut witness {
                        Some(witness) => witness,
                        none => none.insert(self.witness()?),
                    };
                    let give_way = || self.svm.yield_to_faults(self.vm);
                    user_range::migrate_to_device(memory, space, from, to, witness, &give_way)
                }
                MoveDirection::Out => user_range::migrate_to_system(memory, space, from, to),
            };
            let (next, moved) = moved?;
            *at = next as u64;
            all += moved;
            if moved != 0 {
                self.notify_start(progress);
            }
        }
        Ok(all)
    }

    /// Who tells watchers when what it has moved comes back by itself.
    fn witness(&self) -> Result<Arc<dyn MigrationObserver>> {
        let way = MoveDirection::Out;
        let back = MoveBack {
            smi: self.vm.gpu().hw.smi.clone(),
            migration: Self { way, ..*self }.migration(),
        };
        Ok(Arc::new(back, GFP_KERNEL_ACCOUNT)?)
    }

    fn notify_start(&self, progress: &mut MoveProgress) {
        if !core::mem::replace(&mut progress.told, true) {
            let start = SmiEvent::Migrating(self.migration());
            self.vm.gpu().hw.smi.notify(&start);
        }
    }
}

/// Tells watchers of memory that comes back from VRAM because the CPU touches it or somebody else wants that.
struct MoveBack {
    smi: Arc<Smi>,
    /// Of all of it.
    migration: SmiMigration,
}

impl MoveBack {
    /// The part of it at `addresses`, which may be others by now.
    fn migration(&self, addresses: &Range<usize>, why: MigrationCause) -> SmiMigration {
        SmiMigration {
            part: VaRange::of_process(addresses).unwrap_or(self.migration.part),
            trigger: match why {
                MigrationCause::Touched => MigrateTrigger::CpuFault,
                MigrationCause::Asked | MigrationCause::Gone => MigrateTrigger::Eviction,
            },
            ..self.migration
        }
    }
}

impl MigrationObserver for MoveBack {
    fn notify_leaving(&self, addresses: &Range<usize>, why: MigrationCause) {
        let migration = self.migration(addresses, why);
        self.smi.notify(&SmiEvent::Migrating(migration));
    }

    fn notify_left(&self, addresses: &Range<usize>, why: MigrationCause, result: Result) {
        let migration = self.migration(addresses, why);
        let error = result.err().map_or(0, Error::to_errno);
        self.smi.notify(&SmiEvent::Migrated(migration, error));
    }
}

impl SvmState {
    /// Has `range` come to where it is to be, as far as somebody has said that, from where `progress` says. What cannot go to VRAM stays, which is
    /// no error. [`errno::in_progress`]: as [`SvmState::bring`], and when somebody keeps the mmap lock; EINTR when the caller is killed, ESRCH at the process's end,
    /// ENOMEM, errors of the engines.
    pub(super) fn place(&self, svm: &Svm, range: VaRange, progress: &mut MoveProgress) -> Result {
        let Some(left) = VaRange::between(range.start().max(progress.at), range.end()) else {
            return Ok(());
        };
        for (part, attributes) in self.map.parts(left) {
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

    /// Has `part`, of these attributes, come to the VRAM of `to`, or to system memory; how many pages have moved. As [`SvmState::place`].
    pub(super) fn place_part(
        &self,
        svm: &Svm,
        part: VaRange,
        attributes: &SvmAttributes,
        to: Option<&Arc<Vm>>,
        trigger: MigrateTrigger,
        progress: &mut MoveProgress,
    ) -> Result<usize> {
        let there = match to {
            Some(vm) => vm.gpu().shared_vram.open(vm.gpu()),
            None => None,
        };
        // For all of it: between two pieces they would only run to be quiesced again.
        let mut quiescing = MoveQuiesce {
            state: self,
            part,
            quiesced: None,
        };
        let journey = |vm, way| RangeMove {
            svm,
            vm,
            part,
            attributes,
            way,
            trigger,
        };
        let mut moved = 0;
        let others = self.vms.iter().map(|(_, vm)| vm);
        for vm in others.filter(|vm| to.is_none_or(|to| !Arc::ptr_eq(vm, to))) {
            match vm.gpu().shared_vram.get() {
                Some(memory) if !memory.is_empty() => {
                    moved +=
                        journey(vm, MoveDirection::Out).run(&memory, &mut quiescing, progress)?;
                }
                _ => {}
            }
        }
        let (Some(vm), Some(memory)) = (to, there) else {
            return Ok(moved);
        };
        match journey(vm, MoveDirection::In).run(&memory, &mut quiescing, progress) {
            Ok(more) => Ok(moved + more),
            Err(error) if [errno::in_progress(), EINTR, ESRCH].contains(&error) => Err(error),
            // It stays in system memory.
            Err(_) => Ok(moved),
        }
    }

    /// Keeps all queues off the hardware that have something of `part` and would not find it again when they come there. ENOMEM.
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
