// SPDX-License-Identifier: GPL-2.0
//! A VM hub: GFXHUB of CP and shaders, MMHUB of SDMA. Both have the same translation registers.

mod hal;

use kernel::device::Device;
use kernel::prelude::*;
use kernel::sync::Arc;

use hw::bits::{hi, lo, Field};
use hw::ih::FaultStatus;
use hw::ip::{IpBlock, IpTable};
use hw::pte::{ContextBase, CONTEXT_BLOCK_SIZE, CONTEXT_DEPTH};
use hw::va::{LAST_PFN, PAGE_SHIFT};
use hw::xgmi::XgmiPlace;

use super::vmid::Vmid;
use crate::kern::mmio::Mmio;
use crate::regs::hub::{
    self as regs, mc_vm_fb_location_base, mc_vm_fb_location_top, mc_vm_mx_l1_tlb_cntl as l1,
    mc_vm_xgmi_lfb_cntl, mc_vm_xgmi_lfb_size, vm_context0_cntl as context,
    vm_invalidate_eng0_req as request, vm_l2_cntl, vm_l2_cntl2, vm_l2_cntl3, vm_l2_cntl4,
    vm_l2_protection_fault_cntl as fault_cntl, vm_l2_protection_fault_cntl2 as fault_cntl2,
};
use crate::regs::{bit, Register, RegisterWindow};
use hal::HubHal;

/// The invalidation engine of the CPU; the others are for rings.
const ENGINE: u32 = 17;

/// SYSTEM_ACCESS_MODE: VMID 0's apertures are physical, the rest goes through context 0.
const ACCESS_BY_APERTURE: u32 = 3;
/// MTYPE of the system aperture: uncached.
const MTYPE_UC: u32 = 3;
/// CONTEXT1_IDENTITY_ACCESS_MODE: no identity mapping.
const IDENTITY_OFF: u32 = 1;
/// VM_L2_CNTL3 out of reset.
const L2_CNTL3_RESET: u32 = 0x8010_0007;
/// VM_L2_CNTL4 out of reset.
const L2_CNTL4_RESET: u32 = 0xc1;
/// Log2 of the size in pages from which on the cache of big pages is used: 2 MiB.
const BIGK_FRAGMENT: u32 = 9;
/// L2 banks.
const BANK_SELECT: u32 = 12;
/// All kinds of fault that FAULT_CNTL can send on to the dummy page.
const ALL_DEFAULTS: u32 = u32::MAX;
/// The invalidation range that is all of the address space.
const WHOLE_RANGE: u64 = 0x1f_ffff_ffff;
/// Log2 of the bytes in which registers give VRAM's place.
const FB_UNIT_SHIFT: u32 = 24;
/// An aperture register of 24 bits that is above every address.
const AGP_OFF: u32 = 0xff_ffff;

/// How thoroughly an invalidation drops translations (FLUSH_TYPE). There is a third kind, 1, for
/// which amdgpu has no use on any GPU of this generation, so it is not known what it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum TlbFlush {
    /// Translations only: enough after mapping, and where no access is under way. amdgpu's rings
    /// use it when a VMID gets tables.
    Legacy = 0,
    /// Also waits for accesses under way: needed before pages are reused.
    Heavyweight = 2,
}

/// Where VRAM is in the GPU's MC address space. In a hive the aperture has the VRAM of all of its
/// GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FbLocation {
    /// MC address of the aperture's first byte.
    pub(crate) first: u64,
    /// MC address of the aperture's last byte.
    pub(crate) last: u64,
    /// MC address of the first byte of the GPU's own VRAM.
    pub(crate) base: u64,
    /// The value that page-table entries add to an offset in the GPU's own VRAM.
    pub(crate) offset: u64,
}

/// The GART: VMID 0's table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GartAperture {
    /// VRAM offset of the flat table.
    pub(crate) table: u64,
    /// First MC address.
    pub(crate) start: u64,
    /// Bytes.
    pub(crate) size: u64,
}

/// Pages for accesses that have no valid target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScratchPages {
    /// Bus address of a page of system memory.
    pub(crate) dummy: u64,
    /// VRAM offset of a page.
    pub(crate) vram: u64,
}

/// Registers of GC that tell a GPU's place in its hive.
pub(super) struct XgmiRegisters {
    control: Register,
    size: Register,
}

impl XgmiRegisters {
    /// Those of the GPU whose blocks are `ips`.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the hubs are of a version that the driver does not know.
    pub(super) fn new(dev: &Device, ips: IpTable<'_>) -> Result<Self> {
        let base = hal::choose(dev, ips)?.xgmi();
        Ok(Self {
            control: regs::MC_VM_XGMI_LFB_CNTL.within(base),
            size: regs::MC_VM_XGMI_LFB_SIZE.within(base),
        })
    }

    /// The place that they tell.
    pub(super) fn read(&self, gc: &RegisterWindow) -> XgmiPlace {
        let control = gc.read(self.control);
        let size = mc_vm_xgmi_lfb_size::PF_LFB_SIZE.get(gc.read(self.size));
        XgmiPlace {
            node: mc_vm_xgmi_lfb_cntl::PF_LFB_REGION.get(control),
            others: mc_vm_xgmi_lfb_cntl::PF_MAX_REGION.get(control),
            segment: u64::from(size) << FB_UNIT_SHIFT,
        }
    }
}

/// A hub. Its caller serialises changes and invalidations.
pub(crate) struct Hub {
    which: hw::ih::HubKind,
    hal: &'static dyn HubHal,
    /// VM_L2_CNTL.
    first: Register,
    /// The register from which offsets of MC_VM_* registers count.
    apertures: Register,
    regs: RegisterWindow,
}

impl Hub {
    /// The hubs `which` of the GPU whose blocks are `ips`: one of each XCC or die.
    ///
    /// # Errors
    ///
    /// `ENODEV` for a version that the driver does not know; `ENOMEM`.
    pub(crate) fn each(
        dev: &Device,
        mmio: &Arc<Mmio>,
        ips: IpTable<'_>,
        which: hw::ih::HubKind,
    ) -> Result<KVec<Self>> {
        let hal = hal::choose(dev, ips)?;
        let block = match which {
            hw::ih::HubKind::Gfx => IpBlock::Gc,
            hw::ih::HubKind::Mm => IpBlock::Mmhub,
        };
        let windows = RegisterWindow::each(mmio, ips, block)?;
        let mut hubs = KVec::with_capacity(windows.len(), GFP_KERNEL)?;
        for regs in windows {
            let hub = Self {
                which,
                hal,
                first: hal.first(which),
                apertures: hal.apertures(which),
                regs,
            };
            hubs.push(hub, GFP_KERNEL)?;
        }
        Ok(hubs)
    }

    fn read(&self, reg: Register) -> u32 {
        self.regs.read(reg.within(self.first))
    }

    fn write(&self, reg: Register, value: u32) {
        self.regs.write(reg.within(self.first), value);
    }

    fn read_aperture(&self, reg: Register) -> u32 {
        self.regs.read(reg.within(self.apertures))
    }

    fn write_aperture(&self, reg: Register, value: u32) {
        self.regs.write(reg.within(self.apertures), value);
    }

    fn write_pair(&self, low: Register, value: u64) {
        self.write(low, lo(value));
        self.write(regs::high_of(low), hi(value));
    }

    /// The place of VRAM, as firmware has set it, of a GPU at this place in its hive (amdgpu:
    /// gmc_v9_0_vram_gtt_location).
    pub(crate) fn fb_location(&self, place: XgmiPlace) -> FbLocation {
        let address = |register, field: Field| {
            u64::from(field.get(self.read_aperture(register))) << FB_UNIT_SHIFT
        };
        let first = address(
            regs::MC_VM_FB_LOCATION_BASE,
            mc_vm_fb_location_base::FB_BASE,
        );
        let top = address(regs::MC_VM_FB_LOCATION_TOP, mc_vm_fb_location_top::FB_TOP);
        let offset = address(regs::MC_VM_FB_OFFSET, mc_vm_fb_location_base::FB_BASE);
        FbLocation {
            first,
            last: top | ((1 << FB_UNIT_SHIFT) - 1),
            base: first + place.vram_start(),
            offset: offset + place.vram_start(),
        }
    }

    /// Sets up apertures, TLBs, caches and contexts 1 to 15, which have no tables yet; context 0 is
    /// off.
    pub(crate) fn bring_up(&self, fb: FbLocation, scratch: ScratchPages) {
        self.apertures(fb, scratch);
        self.caches();
        self.regs.update(
            regs::VM_CONTEXT0_CNTL.within(self.first),
            &[(context::ENABLE_CONTEXT, 0)],
        );
        self.identity_off();
        self.user_contexts();
        for engine in 0..regs::ENGINES {
            self.write_pair(
                regs::pair_of(regs::VM_INVALIDATE_ENG0_ADDR_RANGE_LO32, engine),
                WHOLE_RANGE,
            );
        }
        if self.which == hw::ih::HubKind::Mm {
            self.hal.snoop_sdma(&self.regs);
        }
        self.clear_fault();
    }

    fn apertures(&self, fb: FbLocation, scratch: ScratchPages) {
        self.write_aperture(regs::MC_VM_AGP_BASE, 0);
        self.write_aperture(regs::MC_VM_AGP_BOT, AGP_OFF);
        self.write_aperture(regs::MC_VM_AGP_TOP, 0);
        self.write_aperture(regs::MC_VM_SYSTEM_APERTURE_LOW_ADDR, lo(fb.first >> 18));
        self.write_aperture(regs::MC_VM_SYSTEM_APERTURE_HIGH_ADDR, lo(fb.last >> 18));
        let page = (scratch.vram + fb.offset) >> PAGE_SHIFT;
        self.write_aperture(regs::MC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_LSB, lo(page));
        self.write_aperture(regs::MC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_MSB, hi(page));
        self.write_pair(
            regs::VM_L2_PROTECTION_FAULT_DEFAULT_ADDR_LO32,
            scratch.dummy >> PAGE_SHIFT,
        );
        self.regs.update(
            regs::VM_L2_PROTECTION_FAULT_CNTL2.within(self.first),
            &[(fault_cntl2::ACTIVE_PAGE_MIGRATION_PTE_READ_RETRY, 1)],
        );
    }

    fn caches(&self) {
        self.regs.update(
            regs::MC_VM_MX_L1_TLB_CNTL.within(self.apertures),
            &[
                (l1::ENABLE_L1_TLB, 1),
                (l1::SYSTEM_ACCESS_MODE, ACCESS_BY_APERTURE),
                (l1::SYSTEM_APERTURE_UNMAPPED_ACCESS, 0),
                (l1::ENABLE_ADVANCED_DRIVER_MODEL, 1),
                (l1::MTYPE, MTYPE_UC),
                (l1::ATC_EN, 1),
            ],
        );
        self.regs.update(
            regs::VM_L2_CNTL.within(self.first),
            &[
                (vm_l2_cntl::ENABLE_L2_CACHE, 1),
                (vm_l2_cntl::ENABLE_L2_FRAGMENT_PROCESSING, 1),
                (vm_l2_cntl::L2_PDE0_CACHE_TAG_GENERATION_MODE, 0),
                (vm_l2_cntl::PDE_FAULT_CLASSIFICATION, 0),
                (vm_l2_cntl::CONTEXT1_IDENTITY_ACCESS_MODE, IDENTITY_OFF),
                (vm_l2_cntl::IDENTITY_MODE_FRAGMENT_SIZE, 0),
            ],
        );
        self.write(
            regs::VM_L2_CNTL2,
            vm_l2_cntl2::INVALIDATE_ALL_L1_TLBS.flag(true)
                | vm_l2_cntl2::INVALIDATE_L2_CACHE.flag(true),
        );
        let cntl3 = crate::regs::with(L2_CNTL3_RESET, vm_l2_cntl3::BANK_SELECT, BANK_SELECT);
        self.write(
            regs::VM_L2_CNTL3,
            crate::regs::with(
                cntl3,
                vm_l2_cntl3::L2_CACHE_BIGK_FRAGMENT_SIZE,
                BIGK_FRAGMENT,
            ),
        );
        let cntl4 = crate::regs::with(L2_CNTL4_RESET, vm_l2_cntl4::VMC_TAP_PDE_REQUEST_PHYSICAL, 0);
        self.write(
            regs::VM_L2_CNTL4,
            crate::regs::with(cntl4, vm_l2_cntl4::VMC_TAP_PTE_REQUEST_PHYSICAL, 0),
        );
    }

    /// An aperture whose low end is above its high end.
    fn identity_off(&self) {
        self.write_pair(
            regs::VM_L2_CONTEXT1_IDENTITY_APERTURE_LOW_ADDR_LO32,
            0xf_ffff_ffff,
        );
        self.write_pair(regs::VM_L2_CONTEXT1_IDENTITY_APERTURE_HIGH_ADDR_LO32, 0);
        self.write_pair(regs::VM_L2_CONTEXT_IDENTITY_PHYSICAL_OFFSET_LO32, 0);
    }

    fn user_contexts(&self) {
        let faults = [
            context::RANGE_PROTECTION_FAULT_ENABLE_INTERRUPT,
            context::RANGE_PROTECTION_FAULT_ENABLE_DEFAULT,
            context::DUMMY_PAGE_PROTECTION_FAULT_ENABLE_INTERRUPT,
            context::DUMMY_PAGE_PROTECTION_FAULT_ENABLE_DEFAULT,
            context::PDE0_PROTECTION_FAULT_ENABLE_INTERRUPT,
            context::PDE0_PROTECTION_FAULT_ENABLE_DEFAULT,
            context::VALID_PROTECTION_FAULT_ENABLE_INTERRUPT,
            context::VALID_PROTECTION_FAULT_ENABLE_DEFAULT,
            context::READ_PROTECTION_FAULT_ENABLE_INTERRUPT,
            context::READ_PROTECTION_FAULT_ENABLE_DEFAULT,
            context::WRITE_PROTECTION_FAULT_ENABLE_INTERRUPT,
            context::WRITE_PROTECTION_FAULT_ENABLE_DEFAULT,
            context::EXECUTE_PROTECTION_FAULT_ENABLE_INTERRUPT,
            context::EXECUTE_PROTECTION_FAULT_ENABLE_DEFAULT,
        ];
        let control = faults
            .into_iter()
            .fold(0, |word, field| word | field.flag(true))
            | context::ENABLE_CONTEXT.flag(true)
            | context::PAGE_TABLE_DEPTH.put(CONTEXT_DEPTH)
            | context::PAGE_TABLE_BLOCK_SIZE.put(CONTEXT_BLOCK_SIZE)
            // Whether or not the process retries (XNACK).
            | context::RETRY_PERMISSION_OR_INVALID_PAGE_FAULT.flag(true);
        for n in 1..regs::VMIDS {
            self.write_pair(
                regs::pair_of(regs::VM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32, n),
                ContextBase::NONE.raw(),
            );
            self.write_pair(
                regs::pair_of(regs::VM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32, n),
                0,
            );
            self.write_pair(
                regs::pair_of(regs::VM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32, n),
                LAST_PFN,
            );
            self.write(regs::of_context(regs::VM_CONTEXT0_CNTL, n), control);
        }
    }

    /// Turns context 0 on with the GART's table. An invalidation has to follow.
    pub(crate) fn enable_gart(&self, gart: GartAperture, fb: FbLocation) {
        self.set_base(Vmid::KERNEL, ContextBase::new(gart.table + fb.offset));
        self.write_pair(
            regs::VM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32,
            gart.start >> PAGE_SHIFT,
        );
        let last = gart.start.saturating_add(gart.size).saturating_sub(1);
        self.write_pair(
            regs::VM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32,
            last >> PAGE_SHIFT,
        );
        // The handling of faults stays as it is out of reset.
        self.regs.update(
            regs::VM_CONTEXT0_CNTL.within(self.first),
            &[
                (context::ENABLE_CONTEXT, 1),
                (context::PAGE_TABLE_DEPTH, 0),
                (context::PAGE_TABLE_BLOCK_SIZE, 0),
                (context::RETRY_PERMISSION_OR_INVALID_PAGE_FAULT, 0),
            ],
        );
    }

    /// Gives context `vmid` the tables at `root`. An invalidation has to follow.
    pub(crate) fn set_base(&self, vmid: Vmid, root: ContextBase) {
        self.write_pair(
            regs::pair_of(
                regs::VM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32,
                vmid.get().into(),
            ),
            root.raw(),
        );
    }

    /// Requests that all cached translations of `vmid` are dropped. No other request is under way.
    pub(crate) fn request_flush(&self, vmid: Vmid, kind: TlbFlush) {
        self.write(
            regs::VM_INVALIDATE_ENG0_REQ.nth(ENGINE, 1),
            request::PER_VMID_INVALIDATE_REQ.put(bit(vmid.get().into()))
                | request::FLUSH_TYPE.put(kind as u32)
                | request::INVALIDATE_L2_PTES.flag(true)
                | request::INVALIDATE_L2_PDE0.flag(true)
                | request::INVALIDATE_L2_PDE1.flag(true)
                | request::INVALIDATE_L2_PDE2.flag(true)
                | request::INVALIDATE_L1_PTES.flag(true),
        );
    }

    /// Whether the last request, which was for `vmid`, is acknowledged.
    pub(crate) fn has_flushed(&self, vmid: u8) -> bool {
        let acknowledged = self.read(regs::VM_INVALIDATE_ENG0_ACK.nth(ENGINE, 1));
        acknowledged & bit(vmid.into()) != 0
    }

    /// The first fault since the last call. The hub forgets it.
    pub(crate) fn take_fault(&self) -> Option<FaultStatus> {
        if !self.regs.is_present() {
            return None;
        }
        let status = FaultStatus::decode(self.read(regs::VM_L2_PROTECTION_FAULT_STATUS));
        self.clear_fault();
        status
    }

    /// Lets faults go on with the dummy page; the register holds no fault afterwards. The clients
    /// whose faults interrupt stay those of the reset value: all.
    fn clear_fault(&self) {
        self.regs.update(
            regs::VM_L2_PROTECTION_FAULT_CNTL.within(self.first),
            &[
                (fault_cntl::ENABLE_DEFAULT, ALL_DEFAULTS),
                (fault_cntl::CLEAR_PROTECTION_FAULT_STATUS_ADDR, 1),
            ],
        );
    }

    /// Turns all contexts off.
    pub(crate) fn stop(&self) {
        for n in 0..regs::VMIDS {
            self.write(regs::of_context(regs::VM_CONTEXT0_CNTL, n), 0);
        }
    }
}
