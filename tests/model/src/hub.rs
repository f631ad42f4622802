// SPDX-License-Identifier: GPL-2.0
//! The two VM hubs, MMHUB (SDMA, IH) and GFXHUB (CP, shaders): contexts, translation, invalidation,
//! faults.
//!
//! Both have the same registers at a fixed distance; the names used here are GFXHUB's.

mod faults;
mod late;
mod way;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use crate::error::{ModelError, Result};
use crate::fate::{Class, Site};
use crate::gpu::Gpu;
use crate::hive::Hive;
use crate::memory::{Access, Own, Phys, Space as Memory, View};
use crate::regs::gc::{
    self, mc_vm_mx_l1_tlb_cntl as l1_tlb_cntl, vm_context0_cntl as context_cntl,
    vm_invalidate_eng0_req as req, vm_l2_cntl2, vm_l2_protection_fault_cntl as fault_cntl,
};
use crate::regs::{Reg, Store, MMHUB_DELTA};
use crate::tlb::{Scope, Space, VMIDS};
use crate::walk::{Context, Entry, Leaf, Miss, Outcome, WalkError, PAGE_SHIFT};
pub use faults::Fault;
use late::{Late, Request};

/// Invalidation engines of a hub.
const ENGINES: u32 = 18;
/// ADDR_RANGE_LO/HI that mean the whole address space.
const WHOLE_RANGE: u64 = 0x1f_ffff_ffff;
/// SYSTEM_ACCESS_MODE: in the system aperture addresses are physical, elsewhere VMID 0's tables
/// translate them.
const BY_APERTURE: u32 = 3;

/// How thorough an invalidation is (FLUSH_TYPE of registers and packets). Type 1, lightweight, is
/// refused: no driver uses it on this hardware, so its result is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// Legacy: a client that has a translation already goes on with it.
    Light,
    /// Heavyweight: no client does.
    Heavy,
}

impl Flush {
    /// Decodes the field; None for an undefined type.
    pub const fn new(raw: u32) -> Option<Flush> {
        match raw {
            0 => Some(Flush::Light),
            2 => Some(Flush::Heavy),
            _ => None,
        }
    }
}

/// Which hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HubId {
    /// GFXHUB.
    Gfx,
    /// MMHUB.
    Mm,
}

impl HubId {
    /// Both.
    pub const ALL: [HubId; 2] = [HubId::Gfx, HubId::Mm];

    /// For messages.
    pub const fn name(self) -> &'static str {
        match self {
            HubId::Gfx => "GFXHUB",
            HubId::Mm => "MMHUB",
        }
    }

    /// This hub's copy of GFXHUB register `reg`.
    pub const fn reg(self, reg: Reg) -> Reg {
        match self {
            HubId::Gfx => reg,
            HubId::Mm => Reg(reg.0 + MMHUB_DELTA),
        }
    }

    /// GFXHUB's name for a register of this hub.
    const fn plain(self, reg: Reg) -> Reg {
        match self {
            HubId::Gfx => reg,
            HubId::Mm => Reg(reg.0 - MMHUB_DELTA),
        }
    }

    /// The hub that `reg` belongs to.
    pub fn owner(reg: Reg) -> Option<HubId> {
        let first = gc::VM_L2_CNTL.0;
        let len = gc::MC_VM_MX_L1_TLB_CNTL.0 - first + 1;
        if (first..first + len).contains(&reg.0) {
            Some(HubId::Gfx)
        } else if (first + MMHUB_DELTA..first + MMHUB_DELTA + len).contains(&reg.0) {
            Some(HubId::Mm)
        } else {
            None
        }
    }
}

/// A stretch of an address space with a uniform result of translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Bytes, at least one.
    pub len: u64,
    /// Its location.
    pub target: Target,
}

impl Run {
    /// The same, with an offset in the GPU's own VRAM in place of a physical address.
    fn owned(self, hive: &Hive) -> Result<Run> {
        let target = match self.target {
            Target::Memory(phys) => Target::Memory(hive.own(phys)?),
            other => other,
        };
        Ok(Run { target, ..self })
    }
}

/// See [`Run`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Contiguous physical memory.
    Memory(Phys),
    /// The device itself. Translations never give it: [`crate::vm`] distinguishes it from memory.
    Own(Own),
    /// Partially resident: zero to read, writes are dropped.
    Nothing,
    /// A fault.
    Fault(Miss),
}

/// One hub's caches.
pub struct Hub {
    id: HubId,
    spaces: Mutex<[Space; VMIDS]>,
    /// The number of removals from each.
    generations: [AtomicU64; VMIDS],
    /// Held shared while a translation is used; a heavyweight invalidation waits for the users of
    /// older ones.
    in_use: RwLock<()>,
    /// Invalidations are not acknowledged.
    silent: AtomicBool,
    /// Requests that have not taken effect, in their order.
    late: Mutex<VecDeque<Late>>,
}

impl Hub {
    /// Empty caches.
    pub fn new(id: HubId) -> Hub {
        Hub {
            id,
            spaces: Mutex::default(),
            generations: Default::default(),
            in_use: RwLock::default(),
            silent: AtomicBool::new(false),
            late: Mutex::default(),
        }
    }

    /// Which one it is.
    pub fn id(&self) -> HubId {
        self.id
    }

    /// Returns whether a context is enabled.
    pub fn has_tables(&self, regs: &Store) -> bool {
        (0..VMIDS as u32).any(|n| {
            let control = regs.get(self.id.reg(gc::VM_CONTEXT0_CNTL.nth(n, 1)));
            context_cntl::ENABLE_CONTEXT.is_set(control)
        })
    }

    /// Sets whether invalidations stay unacknowledged, for tests.
    pub fn set_silent(&self, silent: bool) {
        self.silent.store(silent, Ordering::Release);
    }

    /// Keeps translations usable while the guard is held. Hold it for a short time.
    pub fn hold(&self) -> RwLockReadGuard<'_, ()> {
        self.in_use.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the translation that a retried access to `va` of `vmid` finds: the next try walks
    /// the tables.
    pub fn forget(&self, vmid: u8, va: u64) {
        let mut spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        spaces[usize::from(vmid)].forget(va & ((1 << 48) - 1));
        self.has_removed(vmid);
    }

    /// Notes a removal from an address space: from now on clients' copies of it do not count.
    fn has_removed(&self, vmid: u8) {
        self.generations[usize::from(vmid)].fetch_add(1, Ordering::Release);
    }

    /// Caches the leaf at `va`, for which another one may have to go.
    fn cache(&self, space: &mut Space, vmid: u8, va: u64, leaf: Leaf) {
        if space.insert(va, leaf) {
            self.has_removed(vmid);
        }
    }

    /// The generation of an address space. It changes when something was removed from the space's
    /// caches. One that was read while [`Hub::hold`] is held stays until that ends, except for
    /// flushes that are not heavyweight.
    pub fn generation(&self, vmid: u8) -> u64 {
        self.generations[usize::from(vmid)].load(Ordering::Acquire)
    }

    /// The translation of `va` (48 bits) that is cached, for a client to keep.
    pub fn cached(&self, vmid: u8, va: u64) -> Option<Leaf> {
        let spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        spaces[usize::from(vmid)].lookup(va)
    }

    /// Removes `scope` of the address spaces in the mask `vmids`. A thorough flush waits for the
    /// users of the removed translations.
    pub fn flush(&self, gpu: &Gpu, vmids: u32, scope: Scope, flush: Flush) {
        let _users = (flush == Flush::Heavy)
            .then(|| self.in_use.write().unwrap_or_else(PoisonError::into_inner));
        let mut spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        for (vmid, space) in spaces.iter_mut().enumerate() {
            if vmids >> vmid & 1 == 1 {
                space.flush(scope);
                self.has_removed(vmid as u8);
                gpu.summary.tlb_flushes.bump();
            }
        }
    }

    /// Translates up to `len` bytes (not zero) at `va` for `access`. The caller holds
    /// [`Hub::hold`].
    pub fn translate(
        &self,
        gpu: &Gpu,
        view: &View<'_>,
        vmid: u8,
        va: u64,
        len: u64,
        access: Access,
    ) -> Result<Run> {
        if vmid == 0 {
            if let Some(run) = self.aperture(&gpu.regs, va, len) {
                return run.owned(&gpu.hive);
            }
        }
        let mut spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        let space = &mut spaces[usize::from(vmid)];
        let (target, mut done) = self.page(gpu, view, space, vmid, va, access)?;
        while done < len {
            let Some(next_va) = va.checked_add(done) else {
                break;
            };
            let (next, more) = self.page(gpu, view, space, vmid, next_va, access)?;
            let joined = match (target, next) {
                (Target::Memory(first), Target::Memory(next)) => first.plus(done) == next,
                (first, next) => first == next,
            };
            if !joined {
                break;
            }
            done += more;
        }
        Ok(Run {
            len: done.min(len),
            target,
        })
    }

    /// VMID 0: the frame buffer and AGP apertures come before the GART, as far as the system
    /// aperture goes.
    fn aperture(&self, regs: &Store, va: u64, len: u64) -> Option<Run> {
        let control = regs.get(self.id.reg(gc::MC_VM_MX_L1_TLB_CNTL));
        let mut len = len;
        if l1_tlb_cntl::SYSTEM_ACCESS_MODE.get(control) == BY_APERTURE {
            let bound = |reg| u64::from(regs.get(self.id.reg(reg))) << 18;
            let low = bound(gc::MC_VM_SYSTEM_APERTURE_LOW_ADDR);
            let high = bound(gc::MC_VM_SYSTEM_APERTURE_HIGH_ADDR) | 0x3_ffff;
            if !(low..=high).contains(&va) {
                return None;
            }
            len = len.min(high - va + 1);
        }
        let get = |reg| u64::from(regs.get(self.id.reg(reg))) << 24;
        let within = |base: u64, top: u64, memory: Memory, to: u64| {
            (base..=top).contains(&va).then(|| Run {
                len: len.min(top - va + 1),
                target: Target::Memory(Phys {
                    space: memory,
                    addr: va - base + to,
                }),
            })
        };
        let fb = within(
            get(gc::MC_VM_FB_LOCATION_BASE),
            get(gc::MC_VM_FB_LOCATION_TOP) | 0xff_ffff,
            Memory::Vram,
            0,
        );
        fb.or_else(|| {
            within(
                get(gc::MC_VM_AGP_BOT),
                get(gc::MC_VM_AGP_TOP) | 0xff_ffff,
                Memory::System,
                get(gc::MC_VM_AGP_BASE),
            )
        })
    }

    /// The location of `va`, and the bytes from there to the end of its page (or fragment).
    fn page(
        &self,
        gpu: &Gpu,
        view: &View<'_>,
        space: &mut Space,
        vmid: u8,
        va: u64,
        access: Access,
    ) -> Result<(Target, u64)> {
        let small = (1 << PAGE_SHIFT) - (va & ((1 << PAGE_SHIFT) - 1));
        let high = va >> 47;
        if high != 0 && high != u64::MAX >> 47 {
            return Ok((Target::Fault(Miss::Hole), small));
        }
        let va = va & ((1 << 48) - 1);
        let leaf = match space.lookup(va) {
            Some(leaf) => {
                gpu.summary.tlb_hits.bump();
                leaf
            }
            None => {
                gpu.summary.tlb_walks.bump();
                match self.walk(gpu, view, space, vmid, va)? {
                    Outcome::Leaf(leaf) => {
                        self.cache(space, vmid, va, leaf);
                        if gpu.fate.has(Class::Hub) {
                            self.take_freedoms(gpu, view, space, vmid, va)?;
                        }
                        leaf
                    }
                    Outcome::Prt => return Ok((Target::Nothing, small)),
                    Outcome::Miss(miss) => return Ok((Target::Fault(miss), small)),
                }
            }
        };
        let size = 1u64 << leaf.log2;
        let offset = va & (size - 1);
        if !leaf.allows(access) {
            return Ok((Target::Fault(Miss::Permission), small));
        }
        Ok((Target::Memory(leaf.base.plus(offset)), size - offset))
    }

    fn walk(
        &self,
        gpu: &Gpu,
        view: &View<'_>,
        space: &mut Space,
        vmid: u8,
        va: u64,
    ) -> Result<Outcome> {
        let nonsense = |reason: String| ModelError::Context {
            hub: self.id.name(),
            vmid,
            va,
            reason,
        };
        let regs = &gpu.regs;
        let n = u32::from(vmid);
        let control = regs.get(self.id.reg(gc::VM_CONTEXT0_CNTL.nth(n, 1)));
        if !context_cntl::ENABLE_CONTEXT.is_set(control) {
            return Err(nonsense(format!("VM_CONTEXT{n} is not enabled")));
        }
        let wide = |reg: Reg| regs.get64(self.id.reg(reg.nth(n, 2)));
        let context = Context {
            depth: context_cntl::PAGE_TABLE_DEPTH.get(control) as u8,
            block: context_cntl::PAGE_TABLE_BLOCK_SIZE.get(control) as u8,
            root: Entry(wide(gc::VM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32)),
            pages: (
                wide(gc::VM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32),
                wide(gc::VM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32),
            ),
            write_combined: vmid == 0 && gpu.write_combined,
            unaligned_leaves: gpu.unaligned_leaves,
            vram_snoops: regs.asic.vram_snoops,
            own_vram: gpu.hive.own_range(),
        };
        let early = || gpu.fate.chance(Site::HdpLine, self.key(vmid), 4);
        context
            .walk(va, space, |phys| {
                view.load_entry(gpu.hive.own(phys)?, early())
            })
            .map_err(|error| match error {
                WalkError::Nonsense(reason) => nonsense(reason),
                WalkError::Read(error) => nonsense(format!("page table entry: {error}")),
            })
            .and_then(|outcome| match outcome {
                Outcome::Leaf(leaf) => {
                    let own = gpu.hive.own(leaf.base);
                    let base = own.map_err(|error| nonsense(format!("leaf: {error}")))?;
                    Ok(Outcome::Leaf(Leaf { base, ..leaf }))
                }
                other => Ok(other),
            })
    }

    /// A write to one of the hub's registers.
    pub fn write(&self, gpu: &Gpu, reg: Reg, value: u32) -> Result<()> {
        let regs = &gpu.regs;
        let plain = self.id.plain(reg);
        let engines = |first: Reg| (first.0..first.0 + ENGINES).contains(&plain.0);
        if let Some(reason) = way::refusal(gpu, self.id, plain, regs.get(reg), value) {
            return Err(regs.refuse(reg, value, reason));
        }
        match plain {
            gc::VM_L2_PROTECTION_FAULT_CNTL => {
                if fault_cntl::CLEAR_PROTECTION_FAULT_STATUS_ADDR.is_set(value) {
                    self.clear_fault(regs);
                }
                if fault_cntl::CRASH_ON_NO_RETRY_FAULT.is_set(value)
                    || fault_cntl::CRASH_ON_RETRY_FAULT.is_set(value)
                {
                    return Err(regs.refuse(reg, value, "a fault would crash the GPU"));
                }
                let clear = fault_cntl::CLEAR_PROTECTION_FAULT_STATUS_ADDR;
                regs.set(reg, clear.put(value, 0));
            }
            gc::VM_L2_CNTL2 => {
                if vm_l2_cntl2::INVALIDATE_ALL_L1_TLBS.is_set(value)
                    && vm_l2_cntl2::INVALIDATE_L2_CACHE.is_set(value)
                {
                    self.flush(gpu, 0xffff, Scope::ALL, Flush::Heavy);
                }
                regs.set(reg, value);
            }
            gc::VM_L2_PROTECTION_FAULT_STATUS
            | gc::VM_L2_PROTECTION_FAULT_ADDR_LO32
            | gc::VM_L2_PROTECTION_FAULT_ADDR_HI32 => {
                return Err(regs.refuse(reg, value, "the register is read-only"));
            }
            gc::MC_VM_FB_OFFSET if value != 0 => {
                return Err(regs.refuse(reg, value, "VRAM is at offset 0"));
            }
            // The tables are in VRAM, and the driver writes them through BAR0.
            _ if (gc::VM_CONTEXT0_CNTL.0..gc::VM_CONTEXT0_CNTL.0 + VMIDS as u32)
                .contains(&plain.0)
                && context_cntl::ENABLE_CONTEXT.is_set(value)
                && !gpu.bar0_is_vram() =>
            {
                return Err(regs.refuse(
                    reg,
                    value,
                    "HDP_NONSURFACE_BASE does not lead BAR0 to VRAM, where the tables are",
                ));
            }
            _ if engines(gc::VM_INVALIDATE_ENG0_REQ) => {
                self.invalidate(gpu, plain.0 - gc::VM_INVALIDATE_ENG0_REQ.0, value)?;
                regs.set(reg, value);
            }
            _ if engines(gc::VM_INVALIDATE_ENG0_ACK) => {
                return Err(regs.refuse(reg, value, "the register is read-only"));
            }
            _ => regs.set(reg, value),
        }
        Ok(())
    }

    /// Reads one of the hub's registers.
    pub fn read(&self, gpu: &Gpu, reg: Reg) -> u32 {
        let plain = self.id.plain(reg);
        let first = gc::VM_INVALIDATE_ENG0_SEM.0;
        if gpu.fate.is_on() {
            self.bring_late(gpu);
        }
        let value = gpu.regs.get(reg);
        if (first..first + ENGINES).contains(&plain.0) {
            // Reading takes the semaphore if it is free, and returns whether it did.
            gpu.regs.set(reg, 1);
            return u32::from(value == 0);
        }
        value
    }

    fn invalidate(&self, gpu: &Gpu, engine: u32, value: u32) -> Result<()> {
        let regs = &gpu.regs;
        let range = self
            .id
            .reg(gc::VM_INVALIDATE_ENG0_ADDR_RANGE_LO32.nth(engine, 2));
        let vmids = req::PER_VMID_INVALIDATE_REQ.get(value);
        let ack = self.id.reg(gc::VM_INVALIDATE_ENG0_ACK.nth(engine, 1));
        match regs.get64(range) & WHOLE_RANGE {
            WHOLE_RANGE => {}
            // Out of reset: it is acknowledged, but its effect is undefined.
            0 => {
                regs.or(ack, vmids);
                return Ok(());
            }
            _ => {
                return Err(regs.refuse(
                    self.id.reg(gc::VM_INVALIDATE_ENG0_REQ.nth(engine, 1)),
                    value,
                    "VM_INVALIDATE_ENG_ADDR_RANGE of the engine is not the whole address space",
                ));
            }
        }
        let Some(flush) = Flush::new(req::FLUSH_TYPE.get(value)) else {
            let reg = self.id.reg(gc::VM_INVALIDATE_ENG0_REQ.nth(engine, 1));
            return Err(regs.refuse(reg, value, "a FLUSH_TYPE that means nothing here"));
        };
        let clears = req::CLEAR_PROTECTION_FAULT_STATUS_ADDR.is_set(value);
        regs.clear(ack, vmids);
        let scope = Scope {
            leaves: req::INVALIDATE_L1_PTES.is_set(value) && req::INVALIDATE_L2_PTES.is_set(value),
            directories: [
                req::INVALIDATE_L2_PDE0.is_set(value),
                req::INVALIDATE_L2_PDE1.is_set(value),
                req::INVALIDATE_L2_PDE2.is_set(value),
            ],
        };
        let request = Request {
            vmids,
            scope,
            flush,
            clears,
            ack,
        };
        if gpu.fate.is_on() {
            self.request(gpu, request);
        } else {
            self.fulfil(gpu, &request);
        }
        Ok(())
    }

    /// A request takes effect, and is acknowledged.
    fn fulfil(&self, gpu: &Gpu, request: &Request) {
        self.flush(gpu, request.vmids, request.scope, request.flush);
        if request.clears {
            self.clear_fault(&gpu.regs);
        }
        if !self.silent.load(Ordering::Acquire) {
            gpu.regs.or(request.ack, request.vmids);
        }
    }
}
