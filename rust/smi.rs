// SPDX-License-Identifier: GPL-2.0
//! Events of a GPU for its watchers: lines of text in the files that SMI_EVENTS opens, in the
//! formats of `linux/kfd_ioctl.h`. Notifying watchers allocates nothing and does not wait.

use core::fmt::{self, Write};

use hw::va::{VaRange, PAGE_SIZE};
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::poll::PollCondVar;
use kernel::sync::{Arc, SpinLock};

use crate::kern::host;
use crate::kern::mm_exit::AddressSpace;
use crate::kern::task::TaskIdentity;
use crate::kern::uapi::{migrate_trigger, smi_event, unmap_trigger};

/// Bytes of the longest line: `KFD_SMI_EVENT_MSG_SIZE`.
const LINE: usize = 96;
/// Most files of one process that watch a GPU at a time: each of them costs the source of an event.
const MOST: usize = 64;
/// Bytes that wait to be read from one file; further lines are lost.
const BACKLOG: usize = 8192;

/// A process that an event concerns.
#[derive(Clone, Copy)]
pub(crate) struct SmiProcess {
    /// Its number in the initial PID namespace. It is for the text only, since a later process may
    /// get the same number.
    pub(crate) pid: i32,
    /// Its address space, see [`AddressSpace::id`]; 0 while it is not known.
    pub(crate) space: usize,
}

/// Why memory of a process moves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum MigrateTrigger {
    /// The process set the location.
    Prefetch,
    /// A GPU accessed it.
    GpuFault,
    /// The CPU accessed it.
    CpuFault,
    /// The VRAM is needed elsewhere.
    Eviction,
}

impl MigrateTrigger {
    /// Its number: `KFD_MIGRATE_TRIGGER_*`.
    const fn number(self) -> u32 {
        match self {
            Self::Prefetch => migrate_trigger::PREFETCH,
            Self::GpuFault => migrate_trigger::PAGEFAULT_GPU,
            Self::CpuFault => migrate_trigger::PAGEFAULT_CPU,
            Self::Eviction => migrate_trigger::EVICTION,
        }
    }
}

/// Why a GPU loses its mappings of a process's memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnmapTrigger {
    /// The pages change.
    Changed,
    /// The pages move.
    Moves,
    /// The process unmapped the memory.
    Unmapped,
}

impl UnmapTrigger {
    /// Its number: `KFD_SVM_UNMAP_TRIGGER_*`.
    const fn number(self) -> u32 {
        match self {
            Self::Changed => unmap_trigger::MMU_NOTIFY,
            Self::Moves => unmap_trigger::MMU_NOTIFY_MIGRATE,
            Self::Unmapped => unmap_trigger::UNMAP_FROM_CPU,
        }
    }
}

/// A migration of a process's memory between system memory and VRAM. Locations are GPU ids, or 0
/// for system memory.
#[derive(Clone, Copy)]
pub(crate) struct SmiMigration {
    /// The process.
    pub(crate) whose: SmiProcess,
    /// The range: all that was requested at once.
    pub(crate) part: VaRange,
    /// The source.
    pub(crate) from: u32,
    /// The destination.
    pub(crate) to: u32,
    /// The last prefetch location, as in the attributes.
    pub(crate) prefetch: u32,
    /// The preferred location, as in the attributes.
    pub(crate) preferred: u32,
    /// The reason.
    pub(crate) trigger: MigrateTrigger,
}

impl fmt::Display for SmiMigration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, pages) = (self.part.start() / PAGE_SIZE, self.part.pages());
        let (pid, from, to) = (self.whose.pid, self.from, self.to);
        write!(f, "-{pid} @{first:x}({pages:x}) {from:x}->{to:x}")
    }
}

/// An event for watchers.
#[derive(Clone, Copy)]
pub(crate) enum SmiEvent<'a> {
    /// An access of a process had no mapping that allows it.
    VmFault(TaskIdentity),
    /// The queues of this process are being evicted, for a reason of `KFD_QUEUE_EVICTION_TRIGGERS`.
    Evicted(SmiProcess, u32),
    /// The queues of this process are restored.
    Restored(SmiProcess),
    /// Memory is about to migrate.
    Migrating(SmiMigration),
    /// The migration ended with this errno, which is negative, or with 0.
    Migrated(SmiMigration, i32),
    /// A page on which a queue of this process faulted is about to be mapped: its number, and
    /// whether the access writes.
    PageFault(SmiProcess, u64, bool),
    /// The page is mapped. True if it, or pages around it, migrated before.
    PageMapped(SmiProcess, u64, bool),
    /// The GPU loses this range of the process's memory, without an eviction of its queues.
    Unmapped(SmiProcess, VaRange, UnmapTrigger),
    /// A part that hangs, which the text names, is about to be reset.
    Resetting(&'a CStr),
    /// The part was reset.
    Reset(&'a CStr),
}

impl SmiEvent<'_> {
    /// Its number: `KFD_SMI_EVENT_*`.
    fn number(&self) -> u32 {
        match self {
            Self::VmFault(_) => smi_event::VMFAULT,
            Self::Evicted(..) => smi_event::QUEUE_EVICTION,
            Self::Restored(_) => smi_event::QUEUE_RESTORE,
            Self::Migrating(_) => smi_event::MIGRATE_START,
            Self::Migrated(..) => smi_event::MIGRATE_END,
            Self::PageFault(..) => smi_event::PAGE_FAULT_START,
            Self::PageMapped(..) => smi_event::PAGE_FAULT_END,
            Self::Unmapped(..) => smi_event::UNMAP_FROM_GPU,
            Self::Resetting(_) => smi_event::GPU_PRE_RESET,
            Self::Reset(_) => smi_event::GPU_POST_RESET,
        }
    }

    /// The address space of the only process that the event concerns; `None` for an event that all
    /// may see.
    fn space(&self) -> Option<usize> {
        match self {
            Self::Evicted(whose, _)
            | Self::Restored(whose)
            | Self::PageFault(whose, ..)
            | Self::PageMapped(whose, ..)
            | Self::Unmapped(whose, ..) => Some(whose.space),
            Self::Migrating(what) | Self::Migrated(what, _) => Some(what.whose.space),
            Self::VmFault(_) | Self::Resetting(_) | Self::Reset(_) => None,
        }
    }
}

/// A line under construction. Text that does not fit is cut off; there is always room for the
/// line's end.
struct SmiLine {
    bytes: [u8; LINE],
    len: usize,
}

impl SmiLine {
    /// Ends the line.
    fn end(mut self) -> Self {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = b'\n';
            self.len += 1;
        }
        self
    }
}

impl Write for SmiLine {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.iter_mut().take(LINE - 1).skip(self.len);
        for (place, byte) in room.zip(text.bytes()) {
            *place = byte;
            self.len += 1;
        }
        Ok(())
    }
}

/// The watchers of a GPU.
#[pin_data]
pub(crate) struct Smi {
    gpu: u16,
    /// How many resets of hanging parts there were.
    resets: Atomic<u32>,
    #[pin]
    watchers: SpinLock<KVVec<Arc<SmiWatcher>>>,
}

impl Smi {
    /// No watchers yet, of the GPU with id `gpu`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(gpu: u16) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                gpu,
                resets: Atomic::new(0),
                watchers <- kernel::new_spinlock!(KVVec::new(), "Smi::watchers"),
            }),
            GFP_KERNEL,
        )
    }

    /// Adds `watcher` until [`Smi::unsubscribe`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EMFILE` when its process already has [`MOST`] watchers here.
    pub(crate) fn join(&self, watcher: &Arc<SmiWatcher>) -> Result {
        let mut room = KVVec::new();
        loop {
            let mut watchers = self.watchers.lock();
            let space = watcher.space.id();
            let its = watchers.iter().filter(|other| other.space.id() == space);
            if its.count() >= MOST {
                return Err(EMFILE);
            }
            let count = watchers.len();
            if count < watchers.capacity() {
                return watchers
                    .push_within_capacity(watcher.clone())
                    .map_err(|_| ENOMEM);
            }
            if room.capacity() > count {
                core::mem::swap(&mut *watchers, &mut room);
                for other in room.drain_all() {
                    let _ = watchers.push_within_capacity(other);
                }
                drop(watchers);
                continue;
            }
            drop(watchers);
            // Memory is reserved without the lock; other watchers may be added meanwhile.
            let gfp = GFP_KERNEL | __GFP_NOWARN;
            room = KVVec::with_capacity(count.saturating_mul(2).max(8), gfp)?;
        }
    }

    /// Removes `watcher`. The caller has another reference to it.
    pub(crate) fn unsubscribe(&self, watcher: &Arc<SmiWatcher>) {
        self.watchers
            .lock()
            .retain(|other| !Arc::ptr_eq(other, watcher));
    }

    /// Notifies the watchers that subscribed to the event and may see it. Allocates nothing, does
    /// not wait.
    pub(crate) fn notify(&self, what: &SmiEvent<'_>) {
        if matches!(what, SmiEvent::Resetting(_)) {
            self.resets.add(1, Relaxed);
        }
        let watchers = self.watchers.lock();
        if watchers.is_empty() {
            return;
        }
        let line = self.line(what);
        let text = line.bytes.get(..line.len).unwrap_or(&[]);
        for watcher in watchers.iter() {
            watcher.receive(what, text);
        }
    }

    fn line(&self, what: &SmiEvent<'_>) -> SmiLine {
        let mut line = SmiLine {
            bytes: [0; LINE],
            len: 0,
        };
        let (number, gpu, now) = (what.number(), self.gpu, host::boot_ns());
        let resets = self.resets.load(Relaxed);
        // Writing to a line does not fail.
        let _ = match what {
            SmiEvent::VmFault(who) => {
                write!(line, "{number:x} {:x}:{}", who.pid, who.name)
            }
            SmiEvent::Evicted(SmiProcess { pid, .. }, why) => {
                write!(line, "{number:x} {now} -{pid} {gpu:x} {why}")
            }
            SmiEvent::Restored(SmiProcess { pid, .. }) => {
                write!(line, "{number:x} {now} -{pid} {gpu:x} 0")
            }
            SmiEvent::Migrating(what) => {
                let SmiMigration {
                    prefetch,
                    preferred,
                    trigger,
                    ..
                } = what;
                let trigger = trigger.number();
                write!(
                    line,
                    "{number:x} {now} {what} {prefetch:x}:{preferred:x} {trigger}"
                )
            }
            SmiEvent::Migrated(what, error) => {
                let trigger = what.trigger.number();
                write!(line, "{number:x} {now} {what} {trigger} {error}")
            }
            SmiEvent::PageFault(SmiProcess { pid, .. }, page, write) => {
                let access = if *write { 'W' } else { 'R' };
                write!(line, "{number:x} {now} -{pid} @{page:x}({gpu:x}) {access}")
            }
            SmiEvent::PageMapped(SmiProcess { pid, .. }, page, migrated) => {
                let how = if *migrated { 'M' } else { 'U' };
                write!(line, "{number:x} {now} -{pid} @{page:x}({gpu:x}) {how}")
            }
            SmiEvent::Unmapped(SmiProcess { pid, .. }, part, trigger) => {
                let (first, pages) = (part.start() / PAGE_SIZE, part.pages());
                let trigger = trigger.number();
                write!(
                    line,
                    "{number:x} {now} -{pid} @{first:x}({pages:x}) {gpu:x} {trigger}"
                )
            }
            SmiEvent::Resetting(cause) | SmiEvent::Reset(cause) => {
                let cause = cause.to_str().unwrap_or("");
                write!(line, "{number:x} {resets:x} {cause}")
            }
        };
        line.end()
    }
}

/// A watcher of a GPU: an open file.
#[pin_data]
pub(crate) struct SmiWatcher {
    /// The address space of its process. No other process gets the same id while this exists.
    space: AddressSpace,
    sees_all: bool,
    /// The events that it subscribed to: bit N - 1 for event N.
    mask: Atomic<u64>,
    #[pin]
    backlog: SpinLock<KVec<u8>>,
    #[pin]
    ready: PollCondVar,
}

impl SmiWatcher {
    /// A watcher of the process of `space`, which sees the events that concern that process, or all
    /// events with `sees_all`. It gets no events until [`SmiWatcher::set_mask`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(space: AddressSpace, sees_all: bool) -> Result<Arc<Self>> {
        let backlog = KVec::with_capacity(BACKLOG, GFP_KERNEL_ACCOUNT)?;
        Arc::pin_init(
            pin_init!(Self {
                space,
                sees_all,
                mask: Atomic::new(0),
                backlog <- kernel::new_spinlock!(backlog, "SmiWatcher::backlog"),
                ready <- kernel::new_poll_condvar!("SmiWatcher::ready"),
            }),
            GFP_KERNEL,
        )
    }

    /// Sets the events that it subscribes to: bit N - 1 for event N.
    pub(crate) fn set_mask(&self, mask: u64) {
        self.mask.store(mask, Relaxed);
    }

    fn receive(&self, what: &SmiEvent<'_>, line: &[u8]) {
        let wanted = 1u64
            .checked_shl(what.number() - 1)
            .is_some_and(|bit| self.mask.load(Relaxed) & bit != 0);
        let may = self.sees_all || what.space().is_none_or(|space| space == self.space.id());
        if !wanted || !may {
            return;
        }
        let mut backlog = self.backlog.lock();
        // A line is added whole or not at all.
        if backlog.len() + line.len() > BACKLOG {
            return;
        }
        // Capacity was reserved: this allocates nothing.
        let _ = backlog.extend_from_slice(line, GFP_NOWAIT);
        drop(backlog);
        self.ready.notify_all();
    }

    /// Moves the pending text, as far as it fits, to `to`. Returns its bytes.
    pub(crate) fn read(&self, to: &mut [u8]) -> usize {
        let mut backlog = self.backlog.lock();
        let count = to.len().min(backlog.len());
        for (to, from) in to.iter_mut().zip(backlog.iter()) {
            *to = *from;
        }
        backlog.rotate_left(count);
        let left = backlog.len() - count;
        backlog.truncate(left);
        count
    }

    /// Whether text is pending.
    pub(crate) fn is_ready(&self) -> bool {
        !self.backlog.lock().is_empty()
    }

    /// Woken when text is pending.
    pub(crate) fn ready(&self) -> &PollCondVar {
        &self.ready
    }
}
