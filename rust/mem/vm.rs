// SPDX-License-Identifier: GPL-2.0
//! GPU address spaces: what is mapped where, by which page tables, and in which VMID.

mod backoff;
mod fault_counter;
mod gone_pages;
mod import_moves;
mod kernel_mapping;
mod mapping;
mod moving;
mod pending_ranges;
mod shared_chunks;
mod table;
mod userptr;
mod vmid;

pub(crate) use self::{
    backoff::RetryBackoff,
    kernel_mapping::KernelMapping,
    mapping::{HeldMapping, MappedPart},
    shared_chunks::{MappedAt, SharedChunk},
    vmid::{ListedUse, VmidUse},
};

use self::{
    import_moves::ImportMoves,
    mapping::{BoMapping, Key},
    table::PageTableTree,
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
        GpuMemory,
    },
};
use hw::{
    pte::{ContextBase, MemoryResidence, PteFlags},
    va::{VaRange, PAGE_SIZE},
};
use kernel::{
    new_mutex,
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    sync::{
        aref::ARef,
        atomic::{Acquire, AtomicFlag, Relaxed, Release},
        Arc, Mutex, MutexGuard,
    },
    workqueue::{impl_has_delayed_work, new_delayed_work, DelayedWork},
};

/// What the lock of a VM guards.
struct VmState {
    /// User space's mappings by their last address.
    mappings: RBTree<u64, Arc<BoMapping>>,
    /// The same by buffer, see [`BoMapping::key`].
    by_buffer: RBTree<Key, Arc<BoMapping>>,
    /// The driver's own mappings, above user space's half.
    upper: AddressAllocator,
    tree: PageTableTree,
    /// Nothing is mapped any more: the device is gone.
    closed: bool,
}

impl VmState {
    /// The mapping that has `va` in it, or else the next one above.
    fn at_or_above(&self, va: u64) -> Option<Arc<BoMapping>> {
        let cursor = self.mappings.cursor_lower_bound(&va)?;
        Some(cursor.current().1.clone())
    }

    /// The mapping that covers all of `range`.
    fn covering(&self, range: VaRange) -> Option<Arc<BoMapping>> {
        self.at_or_above(range.start())
            .filter(|mapping| mapping.range().covers(range))
    }

    /// Puts a mapping in where nothing is mapped.
    fn insert(&mut self, nodes: MappingNodes) {
        self.mappings.insert(nodes.by_address);
        self.by_buffer.insert(nodes.by_buffer);
    }

    /// Takes out a mapping whose memory the GPU does not reach any more. What is returned is dropped without the lock.
    fn remove(&mut self, mapping: &BoMapping) -> impl Sized {
        // Before the addresses may be another mapping's.
        let gone = mapping.userptr().map(|userptr| userptr.detach());
        let by_buffer = self.by_buffer.remove_node(&mapping.key());
        let by_address = self.mappings.remove_node(&(mapping.range().end() - 1));
        (gone, by_buffer, by_address)
    }

    /// Whether something that is mapped leads here.
    fn is_tied(&self) -> bool {
        self.mappings.values().any(|mapping| mapping.is_tied())
    }

    /// Something that leads here and is not about to go.
    fn staying_tie(&self) -> Option<Arc<BoMapping>> {
        let mut mappings = self.mappings.values();
        let found = mappings.find(|mapping| mapping.is_tied() && !mapping.is_leaving());
        found.cloned()
    }

    /// Whether `mapping` is still in the address space.
    fn has(&self, mapping: &Arc<BoMapping>) -> bool {
        let there = self.at_or_above(mapping.range().start());
        there.is_some_and(|there| Arc::ptr_eq(&there, mapping))
    }
}

/// The places of a mapping in a [`VmState`].
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

/// The address space of a process on one GPU. Memory is allocated under its lock, a mutex; it
/// is taken before the locks of the allocators and of the GMC.
#[pin_data]
pub(crate) struct Vm {
    #[pin]
    state: Mutex<VmState>,
    /// The VMID, while anything runs in the VM. A lock of its own, inside `state`: queues get and lose their VMID where
    /// nothing may wait for memory.
    #[pin]
    bound: Mutex<Option<BoundVmid>>,
    /// The process, while the firmware may give it a VMID, or has and that is not flushed yet. As `bound`.
    #[pin]
    listed: Mutex<Option<ListedProcess>>,
    /// Where the page tables begin.
    root: ContextBase,
    /// Inside a USERPTR range's lock and outside the group's. Nothing is allocated under it.
    #[pin]
    evicted: Mutex<EvictedUserptrs>,
    /// As `evicted`.
    #[pin]
    moved: Mutex<ImportMoves>,
    /// Something that is to go is held no more.
    left: AtomicFlag,
    /// Nobody has it any more.
    retired: AtomicFlag,
    /// Page faults are retried (XNACK): what is not there is mapped when the GPU comes to it. Changes while nothing runs.
    retries: AtomicFlag,
    #[pin]
    restore: DelayedWork<Self>,
    client: Arc<MemoryClient>,
    group: Arc<QueueGroup>,
    gpu: Arc<GpuMemory>,
    _hold: LedgerHold,
    // The device outlives what user space has of it.
    drm: ARef<DrmDevice>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Vm { self.restore }
}

impl Vm {
    /// An empty address space. `ENOMEM`; `ENODEV` when the device is gone.
    pub(crate) fn new(gpu: &Arc<GpuMemory>, drm: ARef<DrmDevice>) -> Result<Arc<Self>> {
        let client = MemoryClient::new()?;
        let state = VmState {
            mappings: RBTree::new(),
            by_buffer: RBTree::new(),
            upper: kernel_mapping::addresses()?,
            tree: PageTableTree::new(gpu, &client)?,
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
                left: AtomicFlag::new(false),
                retired: AtomicFlag::new(false),
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

    /// The GPU.
    pub(crate) fn gpu(&self) -> &Arc<GpuMemory> {
        &self.gpu
    }

    /// The GPU's DRM device.
    pub(crate) fn drm(&self) -> &ARef<DrmDevice> {
        &self.drm
    }

    /// Whose memory is counted together.
    pub(crate) fn client(&self) -> &Arc<MemoryClient> {
        &self.client
    }

    /// The queues that run in it.
    pub(crate) fn group(&self) -> &Arc<QueueGroup> {
        &self.group
    }

    /// Whether page faults are retried, until somebody has mapped what is not there.
    pub(crate) fn retries(&self) -> bool {
        self.retries.load(Relaxed)
    }

    /// Says whether they are, from now on. No queue runs.
    pub(crate) fn set_retries(&self, on: bool) {
        self.retries.store(on, Relaxed);
    }

    /// Where the page tables begin.
    pub(crate) fn root(&self) -> ContextBase {
        self.root
    }

    /// Makes changed page tables known to the GPU. Without the VM's lock, too: either the VMID is seen here, or it is
    /// bound later, and the tables are read after that.
    fn flush(&self, kind: TlbFlush) -> Result {
        // Nothing is cached without a VMID, or without queues on a runlist: that was flushed when the last one went.
        if let Some(bound) = &*self.bound.lock() {
            self.gpu.hw.gmc.flush(bound.vmid(), kind)?;
        }
        match &*self.listed.lock() {
            Some(listed) => self.gpu.hw.gmc.flush_process(listed.pasid(), kind),
            None => Ok(()),
        }
    }

    /// Maps `part` of a buffer at `range`, with the coherence that the buffer was made for.
    /// When it returns `Ok` the GPU sees it.
    ///
    /// `EEXIST` when something in the range is mapped, `EINVAL` when it is larger than what there is of the buffer from
    /// there on, or the buffer is another GPU's, `EFAULT` when the process no longer has its user memory, `ENOMEM`,
    /// `ENODEV` when the device is gone, `ETIMEDOUT` when it does not answer a flush. Nothing is mapped then.
    pub(crate) fn map(self: &Arc<Self>, range: VaRange, part: MappedPart) -> Result {
        self.map_while(range, part, &|| Ok(()))
    }

    /// As [`Vm::map`], as long as `go_on` does not fail, which is asked while pages of a process are found: what it says then.
    pub(crate) fn map_while(
        self: &Arc<Self>,
        range: VaRange,
        part: MappedPart,
        go_on: &dyn Fn() -> Result,
    ) -> Result {
        let end = part.offset.checked_add(range.size()).ok_or(EINVAL)?;
        // Addresses of one GPU mean nothing to another.
        if end > part.bo.size() as u64
            || part.offset % PAGE_SIZE != 0
            || !Arc::ptr_eq(part.bo.gpu(), &self.gpu)
        {
            return Err(EINVAL);
        }
        // What another address space moves must not move under this one.
        let pinned = part.bo.pin_for(&self.client);
        let userptr = match part.bo.user() {
            Some(memory) => Some(Userptr::watch(self, range, memory)?),
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
            return self.map_userptr(&mapping, go_on).inspect_err(|_| {
                // Whatever there is of it, the GPU has not used it.
                let _ = self.unmap(range);
            });
        }
        let mut written = 0;
        // A buffer that is away is mapped when it comes home, before any queue runs here.
        let shown = mapping.bo().is_mappable();
        mapping.set_shown(shown);
        let done = if shown {
            write(&mut state.tree, &mapping, &mut written)
                .and_then(|()| self.flush(TlbFlush::Legacy))
        } else {
            Ok(())
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
            // It has just moved.
            self.wait_for_moved();
        }
        Ok(())
    }

    /// Takes out the mapping of exactly `range`. When it returns `Ok` the GPU no longer reaches the buffer
    /// there.
    ///
    /// `EINVAL` when there is none, `EBUSY` while it is held, `ETIMEDOUT` when the device does not answer a
    /// flush; the buffer is then kept, and another try may succeed.
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

    /// As [`Vm::unmap`], but what is held goes when nothing holds it any more: that is not waited for.
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

    /// Takes out a mapping that nothing holds. Its notifier is in effect until the GPU has lost the pages.
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
        let gone = state.remove(mapping);
        // The notifier has no use for the tables any more.
        let idle = state.tree.recycle(idle);
        let is_last = self.retired.load(Acquire) && !state.is_tied();
        drop(state);
        // Frees the buffer, maybe.
        drop((gone, idle));
        if is_last {
            self.gpu.vms.remove(self);
        }
        Ok(())
    }

    /// Nobody has the address space any more. What ties it to others goes, at once or when nothing holds it any more, and
    /// then it goes itself. Sleeps.
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
                // After an error it stays until the device goes.
                let _ = self.remove_unheld(state, &mapping);
            }
        }
        self.gpu.vms.remove(self);
    }

    /// Everything is taken out, whatever holds it: the device is stopped, and about to go. Nothing comes in any more.
    /// Sleeps.
    pub(super) fn close(self: &Arc<Self>) {
        loop {
            let mut state = self.state.lock();
            state.closed = true;
            let Some(mapping) = state.mappings.values().next().cloned() else {
                break;
            };
            let gone = state.remove(&mapping);
            drop(state);
            drop((gone, mapping));
        }
        self.stop_restoring();
        self.clear_moved();
        if self.retired.load(Acquire) {
            self.gpu.vms.remove(self);
        }
    }

    /// Keeps what the GPU may still reach, which has not answered a flush, until it is taken down.
    fn leak<T: Send + Sync + 'static>(&self, what: T) {
        dev_err_ratelimited!(
            self.gpu.hw.dev,
            "memory is lost: the GPU does not answer a flush\n"
        );
        self.gpu.lost.keep(what);
    }

    /// Keeps the mapping that covers `range` in place until what is returned is dropped. The buffer may move, while the queues
    /// that run here are quiesced. `EFAULT` when no single mapping covers it.
    pub(crate) fn hold(self: &Arc<Self>, range: VaRange) -> Result<HeldMapping> {
        let state = self.state.lock();
        let mapping = state
            .covering(range)
            .filter(|mapping| mapping.may_be_held())
            .ok_or(EFAULT)?;
        Ok(HeldMapping::new(self, &mapping, range, None))
    }

    /// As [`Vm::hold`], and keeps the buffer where it is, for accesses of the driver's own. `ENOMEM` when too much of the client's
    /// VRAM has to stay already.
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
            // Who moves it needs the lock.
            mapping.bo().wait();
        }
    }
}

/// Writes the entries of a mapping.
fn write(tree: &mut PageTableTree, mapping: &BoMapping, written: &mut u64) -> Result {
    let (range, bo) = (mapping.range(), mapping.bo());
    let residence = bo.residence();
    if !bo.is_reachable() {
        // Imported memory that is about to move: who is told takes the mapping out again.
        return bo.import().map(|_| ()).ok_or(ENODEV);
    }
    let flags = PteFlags::gfx90a(residence, mapping.part().access, bo.coherence());
    let base = match residence {
        MemoryResidence::LocalVram => bo.gpu().hw.gmc.fb_offset(),
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
        tree.map(part, address, flags, written)?;
        at += size;
    }
    Ok(())
}
