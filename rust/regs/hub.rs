// SPDX-License-Identifier: GPL-2.0
//! A VM hub's registers, the same in GFXHUB and MMHUB; offsets are from the hub's VM_L2_CNTL.

use super::{registers, Register};

/// VMIDs of a hub.
pub(crate) const VMIDS: u32 = 16;
/// Invalidation engines of a hub.
pub(crate) const ENGINES: u32 = 18;

/// A register of context `vmid` in a run of one dword each.
pub(crate) const fn of_context(first: Register, vmid: u32) -> Register {
    first.nth(vmid, 1)
}

/// The low half of context `vmid`'s pair in a run of pairs.
pub(crate) const fn pair_of(first: Register, n: u32) -> Register {
    first.nth(n, 2)
}

/// The high half beside the low half `low`.
pub(crate) const fn high_of(low: Register) -> Register {
    low.nth(1, 1)
}

registers! {
    /// L2 cache control.
    VM_L2_CNTL @ 0, 0x0 as vm_l2_cntl {
        /// The cache is enabled.
        ENABLE_L2_CACHE[0:0]
        /// Fragments are used.
        ENABLE_L2_FRAGMENT_PROCESSING[1:1]
        /// The generation of PDE0 tags.
        L2_PDE0_CACHE_TAG_GENERATION_MODE[8:8]
        /// The fault that an invalid PDE is reported as.
        PDE_FAULT_CLASSIFICATION[18:18]
        /// The mode of context 1's identity aperture.
        CONTEXT1_IDENTITY_ACCESS_MODE[20:19]
        /// Fragment size of the identity aperture.
        IDENTITY_MODE_FRAGMENT_SIZE[25:21]
    };
    /// Invalidation of everything.
    VM_L2_CNTL2 @ 0, 0x1 as vm_l2_cntl2 {
        /// L1 TLBs.
        INVALIDATE_ALL_L1_TLBS[0:0]
        /// L2.
        INVALIDATE_L2_CACHE[1:1]
    };
    /// L2 cache sizes.
    VM_L2_CNTL3 @ 0, 0x2 as vm_l2_cntl3 {
        /// Bank selection.
        BANK_SELECT[5:0]
        /// Smallest fragment that the cache of big pages takes.
        L2_CACHE_BIGK_FRAGMENT_SIZE[19:15]
    };
    /// The effects of faults.
    VM_L2_PROTECTION_FAULT_CNTL @ 0, 0x7 as vm_l2_protection_fault_cntl {
        /// Clears status and address.
        CLEAR_PROTECTION_FAULT_STATUS_ADDR[0:0]
        /// The kinds of fault that continue with the dummy page.
        ENABLE_DEFAULT[12:2]
    };
    /// More effects of faults.
    VM_L2_PROTECTION_FAULT_CNTL2 @ 0, 0x8 as vm_l2_protection_fault_cntl2 {
        /// A PTE being migrated is read again.
        ACTIVE_PAGE_MIGRATION_PTE_READ_RETRY[18:18]
    };
    /// The first fault since the last clear.
    VM_L2_PROTECTION_FAULT_STATUS @ 0, 0xb;
    /// Dummy page: bus address in pages.
    VM_L2_PROTECTION_FAULT_DEFAULT_ADDR_LO32 @ 0, 0xe;
    /// Identity aperture: low end.
    VM_L2_CONTEXT1_IDENTITY_APERTURE_LOW_ADDR_LO32 @ 0, 0x11;
    /// Identity aperture: high end.
    VM_L2_CONTEXT1_IDENTITY_APERTURE_HIGH_ADDR_LO32 @ 0, 0x13;
    /// Identity aperture: offset.
    VM_L2_CONTEXT_IDENTITY_PHYSICAL_OFFSET_LO32 @ 0, 0x15;
    /// L2's requests.
    VM_L2_CNTL4 @ 0, 0x17 as vm_l2_cntl4 {
        /// PDE requests are physical.
        VMC_TAP_PDE_REQUEST_PHYSICAL[6:6]
        /// PTE requests are physical.
        VMC_TAP_PTE_REQUEST_PHYSICAL[7:7]
    };
    /// Context 0's control; the others follow, one dword each.
    VM_CONTEXT0_CNTL @ 0, 0x40 as vm_context0_cntl {
        /// The context translates.
        ENABLE_CONTEXT[0:0]
        /// Levels above the block.
        PAGE_TABLE_DEPTH[2:1]
        /// Log2 of the pages in a block.
        PAGE_TABLE_BLOCK_SIZE[6:3]
        /// Accesses that miss are retried.
        RETRY_PERMISSION_OR_INVALID_PAGE_FAULT[7:7]
        /// Outside START..END: interrupt.
        RANGE_PROTECTION_FAULT_ENABLE_INTERRUPT[9:9]
        /// Outside START..END: dummy page.
        RANGE_PROTECTION_FAULT_ENABLE_DEFAULT[10:10]
        /// Dummy page: interrupt.
        DUMMY_PAGE_PROTECTION_FAULT_ENABLE_INTERRUPT[11:11]
        /// Dummy page: dummy page.
        DUMMY_PAGE_PROTECTION_FAULT_ENABLE_DEFAULT[12:12]
        /// Invalid PDE: interrupt.
        PDE0_PROTECTION_FAULT_ENABLE_INTERRUPT[13:13]
        /// Invalid PDE: dummy page.
        PDE0_PROTECTION_FAULT_ENABLE_DEFAULT[14:14]
        /// Invalid PTE: interrupt.
        VALID_PROTECTION_FAULT_ENABLE_INTERRUPT[15:15]
        /// Invalid PTE: dummy page.
        VALID_PROTECTION_FAULT_ENABLE_DEFAULT[16:16]
        /// Not readable: interrupt.
        READ_PROTECTION_FAULT_ENABLE_INTERRUPT[17:17]
        /// Not readable: dummy page.
        READ_PROTECTION_FAULT_ENABLE_DEFAULT[18:18]
        /// Not writeable: interrupt.
        WRITE_PROTECTION_FAULT_ENABLE_INTERRUPT[19:19]
        /// Not writeable: dummy page.
        WRITE_PROTECTION_FAULT_ENABLE_DEFAULT[20:20]
        /// Not executable: interrupt.
        EXECUTE_PROTECTION_FAULT_ENABLE_INTERRUPT[21:21]
        /// Not executable: dummy page.
        EXECUTE_PROTECTION_FAULT_ENABLE_DEFAULT[22:22]
    };
    /// Invalidation requests of engine 0; the others follow, one dword each.
    VM_INVALIDATE_ENG0_REQ @ 0, 0x63 as vm_invalidate_eng0_req {
        /// A bit for each VMID.
        PER_VMID_INVALIDATE_REQ[15:0]
        /// 0 legacy, 2 heavyweight; 1, lightweight, is not used.
        FLUSH_TYPE[17:16]
        /// L2's PTEs.
        INVALIDATE_L2_PTES[18:18]
        /// L2's PDE0s.
        INVALIDATE_L2_PDE0[19:19]
        /// L2's PDE1s.
        INVALIDATE_L2_PDE1[20:20]
        /// L2's PDE2s.
        INVALIDATE_L2_PDE2[21:21]
        /// L1's PTEs.
        INVALIDATE_L1_PTES[22:22]
    };
    /// Acknowledgements, a bit for each VMID.
    VM_INVALIDATE_ENG0_ACK @ 0, 0x75;
    /// The range that an engine invalidates; pairs.
    VM_INVALIDATE_ENG0_ADDR_RANGE_LO32 @ 0, 0x87;
    /// Context 0's root table; pairs.
    VM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32 @ 0, 0xab;
    /// Context 0's first page; pairs.
    VM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32 @ 0, 0xcb;
    /// Context 0's last page; pairs.
    VM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32 @ 0, 0xeb;
    /// The beginning of VRAM's physical addresses, in units of 16 MiB.
    MC_VM_FB_OFFSET @ 0, 0x12b;
    /// The target of accesses to unmapped addresses: a page of VRAM.
    MC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_LSB @ 0, 0x12c;
    /// The same, high part.
    MC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_MSB @ 0, 0x12d;
    /// The place of this GPU among those that XGMI joins. In the hub of graphics only.
    MC_VM_XGMI_LFB_CNTL @ 0, 0x138 as mc_vm_xgmi_lfb_cntl {
        /// Its number.
        PF_LFB_REGION[3:0]
        /// Their number minus one.
        PF_MAX_REGION[7:4]
    };
    /// The distance of two such GPUs' VRAM. In the hub of graphics only.
    MC_VM_XGMI_LFB_SIZE @ 0, 0x139 as mc_vm_xgmi_lfb_size {
        /// The distance, in units of 16 MiB.
        PF_LFB_SIZE[16:0]
    };
    /// MC address of VRAM's first byte, in units of 16 MiB.
    MC_VM_FB_LOCATION_BASE @ 0, 0x140 as mc_vm_fb_location_base {
        /// The address.
        FB_BASE[23:0]
    };
    /// MC address of VRAM's last 16 MiB.
    MC_VM_FB_LOCATION_TOP @ 0, 0x141 as mc_vm_fb_location_top {
        /// The address.
        FB_TOP[23:0]
    };
    /// AGP aperture: last 16 MiB.
    MC_VM_AGP_TOP @ 0, 0x142;
    /// AGP aperture: first 16 MiB.
    MC_VM_AGP_BOT @ 0, 0x143;
    /// AGP aperture: bus address.
    MC_VM_AGP_BASE @ 0, 0x144;
    /// System aperture: first 256 KiB.
    MC_VM_SYSTEM_APERTURE_LOW_ADDR @ 0, 0x145;
    /// System aperture: last 256 KiB.
    MC_VM_SYSTEM_APERTURE_HIGH_ADDR @ 0, 0x146;
    /// L1 TLB control.
    MC_VM_MX_L1_TLB_CNTL @ 0, 0x147 as mc_vm_mx_l1_tlb_cntl {
        /// It is enabled.
        ENABLE_L1_TLB[0:0]
        /// The translation of VMID 0: 3 by the apertures.
        SYSTEM_ACCESS_MODE[4:3]
        /// The effect of an access outside the aperture.
        SYSTEM_APERTURE_UNMAPPED_ACCESS[5:5]
        /// Advanced driver model.
        ENABLE_ADVANCED_DRIVER_MODEL[6:6]
        /// Memory type of the system aperture.
        MTYPE[12:11]
        /// Address translation cache.
        ATC_EN[13:13]
    };
}
