// SPDX-License-Identifier: GPL-2.0
//! GPU address spaces: their mappings, page tables and VMIDs.

mod backoff;
mod fault_counter;
mod gone_pages;
mod import_moves;
mod kernel_mapping;
mod last_fault;
mod mapping;
mod moving;
mod pending_ranges;
mod shared_chunks;
mod surroundings;
mod table;
mod userptr;
mod vmid;

pub(crate) use self::{
    backoff::RetryBackoff,
    kernel_mapping::KernelMapping,
    last_fault::LastFault,
    mapping::{HeldMapping, MapRequest, MappedPart},
    shared_chunks::{MappedAt, SharedChunk},
    vmid::{ListedUse, VmidUse},
};

use self::{
    import_moves::ImportMoves,
    mapping::{BoMapping, Key},
    surroundings::FreedList,
    table::{IdleTables, PageTableTree},
    userptr::{EvictedUserptrs, Userptr},
    vmid::{BoundVmid, ListedProcess},
};
use crate::{
    ip::hub::TlbFlush,
    kern::{addresses::AddressAllocator, ratelimit::dev_err_ratelimited, trace},
    ledger::{LedgerHold, LedgerKind},
    mem::{
        account::{MappingShare, MemoryClient},
        bo::DrmDevice,
        import::ImportUse,
        queue_group::QueueGroup,
        user_memory::UserMemoryTime,
        GpuMemory,
    },
};
use hw::{
    pte::{ContextBase, MemoryResidence},
    va::{VaRange, PAGE_SIZE},
};
use kernel::{
    new_mutex, new_spinlock,
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    sync::{
        aref::ARef,
        atomic::{Acquire, AtomicFlag, Relaxed, Release},
        Arc, Mutex, MutexGuard, SpinLock,
    },
    workqueue::{impl_has_delayed_work, new_delayed_work, DelayedWork},
};

/// The data that the lock of a VM guards.
struct VmState {
    /// User space's mappings by their last address.
    mappings: RBTree<u64, Arc<BoMapping>>,
    /// The same mappings by buffer, see [`BoMapping::key`].
    by_buffer: RBTree<Key, Arc<BoMapping>>,
    /// The driver's own mappings, above user space's half.
    upper: AddressAllocator,
    tree: PageTableTree,
    /// What user space has unmapped last.
    freed: FreedList,
    /// The device is gone, and no mapping is accepted any more.
    closed: bool,
}

impl VmState {
    /// Returns the mapping that contains `va`, or else the next one above.
    fn at_or_above(&self, va: u64) -> Option<Arc<BoMapping>> {
        let cursor = self.mappings.cursor_lower_bound(&va)?;
        Some(cursor.current().1.clone())
    }

    /// Returns the mapping that covers all of `range`.
    fn covering(&self, range: VaRange) -> Option<Arc<BoMapping>> {
        self.at_or_above(range.start())
            .filter(|mapping| mapping.range().covers(range))
    }

    /// Inserts a mapping; its range is free.
    fn insert(&mut self, nodes: MappingNodes) {
        self.mappings.insert(nodes.by_address);
        self.by_buffer.insert(nodes.by_buffer);
    }

    /// Removes a mapping of which the GPU does not access the memory any more. The returned value
    /// is to be dropped without the lock.
    fn remove(&mut self, mapping: &BoMapping) -> impl Sized {
        // This is done before the addresses may belong to another mapping.
        let removed = mapping.userptr().map(|userptr| userptr.detach());
        let by_buffer = self.by_buffer.remove_node(&mapping.key());
        let by_address = self.mappings.remove_node(&(mapping.range().end() - 1));
        (removed, by_buffer, by_address)
    }

    /// Whether a mapping refers to this address space.
    fn is_tied(&self) -> bool {
        self.mappings.values().any(|mapping| mapping.is_tied())
    }

    /// Returns a mapping that refers to this address space and is not about to be removed.
    fn staying_tie(&self) -> Option<Arc<BoMapping>> {
        let mut mappings = self.mappings.values();
        let found = mappings.find(|mapping| mapping.is_tied() && !mapping.is_leaving());
        found.cloned()
    }

    /// Whether `mapping` is still in the address space.
    fn has(&self, mapping: &Arc<BoMapping>) -> bool {
        let found = self.at_or_above(mapping.range().start());
        found.is_some_and(|found| Arc::ptr_eq(&found, mapping))
    }
}

/// The tree nodes of a mapping in a [`VmState`].
struct MappingNodes {
    by_address: RBTreeNode<u64, Arc<BoMapping>>,
    by_buffer: RBTreeNode<Key, Arc<BoMapping>>,
}

impl MappingNodes {
    fn new(mapping: &Arc<BoMapping>) -> Result<Self> {
        let last = mapping.range().end() - 1;
        Ok(Self {
            by_address: RBTreeNode::new(last, mapping.clone(), GFP_KERNEL_ACCOUNT)?,
            by_buffer: RBTreeNode::new(mapping.key(), mapping.clone(), GFP_KERNEL_ACCOUNT)?,
        })
    }
}

/// The address space of a process on one GPU. Memory is allocated under its lock, a mutex, which is
/// taken before the locks of the allocators and of the GMC.
#[pin_data]
pub(crate) struct Vm {
    #[pin]
    state: Mutex<VmState>,
    /// The VMID, while queues run in the VM. It has a lock of its own, inside `state`: queues get
    /// and lose their VMID in paths that may not wait for memory.
    #[pin]
    bound: Mutex<Option<BoundVmid>>,
    /// The process, while the firmware may give it a VMID, or has given it one that is not flushed
    /// yet. Locked like `bound`.
    #[pin]
    listed: Mutex<Option<ListedProcess>>,
    /// The root of the page tables.
    root: ContextBase,
    /// Its lock is inside a USERPTR range's lock and outside the group's. No memory is allocated
    /// under it.
    #[pin]
    evicted: Mutex<EvictedUserptrs>,
    /// Locked like `evicted`.
    #[pin]
    moved: Mutex<ImportMoves>,
    /// The last holder of a mapping that is to be removed has released it.
    has_released: AtomicFlag,
    /// The owner has released the address space.
    retired: AtomicFlag,
    /// The last page fault. An innermost lock.
    #[pin]
    last_fault: SpinLock<Option<LastFault>>,
    /// Page faults are retried (XNACK): a page that is not mapped is mapped when the GPU accesses
    /// it. Changes only while no queue runs.
    retries: AtomicFlag,
    #[pin]
    restore: DelayedWork<Self>,
    client: Arc<MemoryClient>,
    group: Arc<QueueGroup>,
    gpu: Arc<GpuMemory>,
    _hold: LedgerHold,
    // A reference, so that the device outlives the objects that user space has of it.
    drm: ARef<DrmDevice>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Vm { self.restore }
}

impl Vm {
    /// Creates an empty address space.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENODEV` if the device is gone.
    pub(crate) fn new(gpu: &Arc<GpuMemory>, drm: ARef<DrmDevice>) -> Result<Arc<Self>> {
        let client = MemoryClient::new()?;
        let state = VmState {
            mappings: RBTree::new(),
            by_buffer: RBTree::new(),
            upper: kernel_mapping::addresses()?,
            tree: PageTableTree::new(gpu, &client)?,
            freed: surroundings::freed_list()?,
            closed: false,
        };
        let root = state.tree.base();
        Arc::pin_init(
            try_pin_init!(Self {
                state <- new_mutex!(state, "Vm::state"),
                bound <- new_mutex!(None, "Vm::bound"),
                listed <- new_mutex!(None, "Vm::listed"),
                root,
                evicted <- new_mutex!(EvictedUserptrs::default(), "Vm::evicted"),
                moved <- new_mutex!(ImportMoves::default(), "Vm::moved"),
                has_released: AtomicFlag::new(false),
                retired: AtomicFlag::new(false),
                last_fault <- new_spinlock!(None, "Vm::last_fault"),
                retries: AtomicFlag::new(false),
                restore <- new_delayed_work!("Vm::restore"),
                client,
                group: QueueGroup::new(gpu.hw.id.get().into(), &gpu.hw.smi)?,
                gpu: gpu.clone(),
                _hold: gpu.hw.ledger.hold(LedgerKind::Vms, 1),
                drm,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Returns the GPU's memory.
    pub(crate) fn gpu(&self) -> &Arc<GpuMemory> {
        &self.gpu
    }

    /// Returns the GPU's DRM device.
    pub(crate) fn drm(&self) -> &ARef<DrmDevice> {
        &self.drm
    }

    /// Returns the client to which the memory is charged.
    pub(crate) fn client(&self) -> &Arc<MemoryClient> {
        &self.client
    }

    /// Returns the queues that run in the address space.
    pub(crate) fn group(&self) -> &Arc<QueueGroup> {
        &self.group
    }

    /// Whether page faults are retried until the driver has mapped the missing page.
    pub(crate) fn retries(&self) -> bool {
        self.retries.load(Relaxed)
    }

    /// Sets whether page faults are retried from now on. No queue runs.
    pub(crate) fn set_retries(&self, on: bool) {
        self.retries.store(on, Relaxed);
    }

    /// Returns the root of the page tables.
    pub(crate) fn root(&self) -> ContextBase {
        self.root
    }

    /// Makes changed page tables visible to the GPU. It works without the VM's lock, too: either
    /// the VMID is seen here, or it is bound later, and the tables are read after that.
    fn flush(&self, kind: TlbFlush) -> Result {
        // The TLBs cache no entry without a VMID, or without queues on a runlist: they were flushed
        // when the last queue was removed. Stores to the tables reach VRAM when the next VMID is
        // bound ([`Gmc::bind`]), or the next queue is listed ([`Vm::list`]).
        let mut bound = self.bound.lock();
        match &*bound {
            Some(used) if used.is_used() => self.gpu.hw.gmc.flush(used.vmid(), kind)?,
            // That last flush has failed.
            Some(_) => self.unbind(&mut bound)?,
            None => {}
        }
        drop(bound);
        match &*self.listed.lock() {
            Some(listed) => self.gpu.hw.gmc.flush_process(listed.pasid(), kind),
            None => Ok(()),
        }
    }

    /// Maps `part` of a buffer at `range`, with the coherence that the buffer was created for. When
    /// this returns `Ok`, the GPU sees the mapping.
    ///
    /// # Errors
    ///
    /// Nothing is mapped after an error. `EEXIST` if a part of the range is mapped; `EINVAL` if the
    /// range is larger than the rest of the buffer, or the buffer belongs to another GPU; `EFAULT`
    /// if the process no longer has its user memory; `ENOMEM`; `ENODEV` if the device is gone;
    /// `ETIMEDOUT` if it does not answer a flush.
    pub(crate) fn map(self: &Arc<Self>, range: VaRange, part: MappedPart) -> Result {
        let request = MapRequest {
            time: UserMemoryTime::Now,
            go_on: &|| Ok(()),
        };
        self.map_as(range, part, &request)
    }

    /// Like [`Vm::map`], in the way of `request`.
    pub(crate) fn map_as(
        self: &Arc<Self>,
        range: VaRange,
        part: MappedPart,
        request: &MapRequest<'_>,
    ) -> Result {
        let end = part.offset.checked_add(range.size()).ok_or(EINVAL)?;
        // Addresses of one GPU have no meaning for another.
        if end > part.bo.size() as u64
            || part.offset % PAGE_SIZE != 0
            || !Arc::ptr_eq(part.bo.gpu(), &self.gpu)
        {
            return Err(EINVAL);
        }
        // A buffer that another address space moves must not move under this one.
        let pinned = part.bo.pin_for(&self.client);
        let userptr = match part.bo.user() {
            Some(memory) => Some(Userptr::watch(self, range, memory, request.time)?),
            None => None,
        };
        let import = ImportUse::new(self, &part.bo)?;
        let is_import = import.is_some();
        let share = MappingShare::charge(&self.client)?;
        let mapping = BoMapping::new(range, part, userptr, pinned, import, share);
        let mapping = Arc::new(mapping, GFP_KERNEL_ACCOUNT)?;
        let nodes = MappingNodes::new(&mapping)?;
        let mut state = self.state.lock();
        if state.closed {
            return Err(ENODEV);
        }
        let next = state.at_or_above(range.start());
        if next.is_some_and(|next| next.range().overlaps(range)) {
            return Err(EEXIST);
        }
        if mapping.userptr().is_some() {
            state.insert(nodes);
            drop(state);
            if request.time == UserMemoryTime::AtResume {
                return Ok(());
            }
            return self.map_userptr(&mapping, request.go_on).inspect_err(|_| {
                // The GPU has not used any part of the mapping.
                let _ = self.unmap(range);
            });
        }
        let mut written = 0;
        // A buffer that is moved out is mapped when it is moved in, before any queue runs here. It
        // has its page tables from now on: the lack of them is this call's error.
        let shown = mapping.bo().is_mappable();
        mapping.set_shown(shown);
        let done = if shown {
            write(&mut state.tree, &mapping, &mut written)
                .and_then(|()| self.flush(TlbFlush::Legacy))
        } else {
            state.tree.keep_places(range, &mut written)
        };
        if let Err(error) = done {
            let idle = state.tree.clear(range, &mut written);
            match self.flush(TlbFlush::Heavyweight) {
                Ok(()) => drop(idle),
                Err(_) => self.leak((idle, mapping)),
            }
            return Err(error);
        }
        state.insert(nodes);
        drop(state);
        trace::map(self.group.pid(), range.start(), range.size(), written);
        if is_import && !shown {
            // The memory has just moved.
            self.wait_for_moved();
        }
        Ok(())
    }

    /// Removes the mapping of exactly `range`. When this returns `Ok`, the GPU no longer accesses
    /// the buffer there.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is none; `EBUSY` while it is held; `ETIMEDOUT` if the device does not
    /// answer a flush. Then the buffer is kept, and another try may succeed.
    pub(crate) fn unmap(&self, range: VaRange) -> Result {
        let state = self.state.lock();
        let mapping = state
            .covering(range)
            .filter(|mapping| mapping.range() == range)
            .ok_or(EINVAL)?;
        if mapping.is_held() {
            return Err(EBUSY);
        }
        self.remove_unheld(state, &mapping)
    }

    /// Like [`Vm::unmap`], but a mapping that is held is removed when its last holder releases it.
    /// The caller does not wait for that.
    pub(crate) fn abandon(&self, range: VaRange) -> Result {
        let state = self.state.lock();
        let mapping = state
            .covering(range)
            .filter(|mapping| mapping.range() == range && !mapping.is_leaving())
            .ok_or(EINVAL)?;
        if !mapping.start_leaving() {
            return Ok(());
        }
        self.remove_unheld(state, &mapping)
    }

    /// Removes a mapping that is not held. Its notifier is in effect until the GPU has lost the
    /// pages.
    fn remove_unheld(
        &self,
        mut state: MutexGuard<'_, VmState>,
        mapping: &Arc<BoMapping>,
    ) -> Result {
        let (range, mut written) = (mapping.range(), 0);
        let idle = state.tree.clear(range, &mut written);
        let flushed = self.flush(TlbFlush::Heavyweight);
        trace::unmap(self.group.pid(), range.start(), range.size(), written);
        if let Err(error) = flushed {
            drop(state);
            self.leak(idle);
            return Err(error);
        }
        let removed = state.remove(mapping);
        state.note_freed(mapping.placed());
        // The notifier does not need the tables any more.
        let idle = self.recycle(&mut state, idle);
        let is_last = self.retired.load(Acquire) && !state.is_tied();
        drop(state);
        // This may free the buffer.
        drop((removed, idle));
        if is_last {
            self.gpu.vms.remove(self);
        }
        Ok(())
    }

    /// Takes back tables that have become empty, see [`PageTableTree::keep`]. Those that the
    /// process does not need are freed when the returned value is dropped. While user memory waits
    /// to be mapped again all are kept: it may need them, and others would take them.
    fn recycle(&self, state: &mut VmState, idle: IdleTables) -> IdleTables {
        let mut rest = state.tree.keep(idle);
        if state.tree.keeps_many() && !self.evicted.lock().is_waiting() {
            state.tree.trim(&mut rest);
        }
        rest
    }

    /// Retires the address space after its owner has released it. The mappings by which other
    /// objects refer to it are removed, at once or when their last holder releases them. The
    /// address space is freed after that, with all memory that is still mapped in it; if the GPU
    /// does not answer a flush, when the GPU is torn down. May sleep.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Release);
        loop {
            let state = self.state.lock();
            let Some(mapping) = state.staying_tie() else {
                if state.is_tied() {
                    return;
                }
                break;
            };
            if mapping.start_leaving() {
                // After an error it stays until the device is removed.
                let _ = self.remove_unheld(state, &mapping);
            }
        }
        // A mapping that could not be removed is still there: no flush of it was answered.
        if self.flush(TlbFlush::Heavyweight).is_ok() {
            self.gpu.vms.remove(self);
        }
    }

    /// Removes all mappings, also those that are held: the device is stopped, and about to be
    /// removed. No mapping is added any more. May sleep.
    pub(super) fn close(self: &Arc<Self>) {
        loop {
            let mut state = self.state.lock();
            state.closed = true;
            let Some(mapping) = state.mappings.values().next().cloned() else {
                break;
            };
            let removed = state.remove(&mapping);
            drop(state);
            drop((removed, mapping));
        }
        self.stop_restoring();
        self.clear_moved();
        if self.retired.load(Acquire) {
            self.gpu.vms.remove(self);
        }
    }

    /// Keeps memory that the GPU may still access, because it has not answered a flush, until the
    /// GPU is torn down.
    fn leak<T: Send + Sync + 'static>(&self, item: T) {
        dev_err_ratelimited!(
            process self.group.pid(),
            self.gpu.hw.dev,
            "the GPU does not answer a flush: memory of process {} is kept until the GPU is \
             unbound\n",
            self.group.pid()
        );
        self.gpu.lost.keep(item);
    }

    /// Keeps the mapping that covers `range` in place until the returned value is dropped. The
    /// buffer may move while the queues that run here are quiesced.
    ///
    /// # Errors
    ///
    /// `EFAULT` if no single mapping covers it.
    pub(crate) fn hold(self: &Arc<Self>, range: VaRange) -> Result<HeldMapping> {
        let state = self.state.lock();
        let mapping = state
            .covering(range)
            .filter(|mapping| mapping.may_be_held())
            .ok_or(EFAULT)?;
        Ok(HeldMapping::new(self, &mapping, range, None))
    }

    /// Like [`Vm::hold`], and pins the buffer where it is, for accesses by the driver itself.
    ///
    /// # Errors
    ///
    /// Also `ENOMEM` if too much of the client's VRAM has to stay already.
    pub(crate) fn hold_still(self: &Arc<Self>, range: VaRange) -> Result<HeldMapping> {
        loop {
            let mapping = {
                let state = self.state.lock();
                let mapping = state
                    .covering(range)
                    .filter(|mapping| mapping.may_be_held())
                    .ok_or(EFAULT)?;
                mapping.bo().may_be_pinned(&self.client)?;
                if let Ok(pinned) = mapping.bo().try_pin() {
                    return Ok(HeldMapping::new(self, &mapping, range, pinned));
                }
                mapping
            };
            // The thread that moves the buffer needs the lock.
            mapping.bo().wait();
        }
    }
}

/// Writes the entries of a mapping.
fn write(tree: &mut PageTableTree, mapping: &BoMapping, written: &mut u64) -> Result {
    let (range, bo) = (mapping.range(), mapping.bo());
    let residence = bo.residence();
    if !bo.is_reachable() {
        // Imported memory that is about to move: the move notification removes the entries again.
        return bo.moving().map(|_| ()).ok_or(ENODEV);
    }
    let flags = bo
        .gpu()
        .hw
        .asic
        .pte
        .flags(residence, mapping.part().access, bo.coherence());
    let base = match residence {
        MemoryResidence::LocalVram => bo.gpu().hw.gmc.fb_offset(),
        MemoryResidence::Hive => bo.hive_base(),
        MemoryResidence::Host => 0,
    };
    let mut skip = mapping.part().offset;
    let mut at = 0;
    for (address, size) in bo.runs() {
        let skipped = skip.min(size);
        skip -= skipped;
        let address = address.checked_add(base + skipped).ok_or(EINVAL)?;
        let size = (size - skipped).min(range.size() - at);
        if size == 0 {
            continue;
        }
        let part = range.slice(at, size).map_err(|_| EINVAL)?;
        tree.map(part, address, flags, bo.placement(), written)?;
        at += size;
    }
    Ok(())
}
