// SPDX-License-Identifier: GPL-2.0
//! OSSSYS 4.4: the interrupt handler.

use hw::ip::IpVersion;

use super::{registers, Register};

/// Controls of the rings that the driver has no use for: rings 1 and 2, of which version 4.4.2 has
/// the first alone.
pub(crate) fn other_rings(version: IpVersion) -> &'static [Register] {
    match (version.major, version.minor, version.rev) {
        (4, 4, 2) => &[IH_RB_CNTL_RING1],
        _ => &[IH_RB_CNTL_RING1, IH_RB_CNTL_RING2],
    }
}

registers! {
    /// VMID 0's PASID in entries of GFXHUB's clients; the others follow.
    IH_VMID_0_LUT @ 0, 0x0;
    /// The same for MMHUB's clients.
    IH_VMID_0_LUT_MM @ 0, 0x10;
    /// The node whose PASIDs the two are, of version 4.4.2.
    IH_VMID_LUT_INDEX @ 0, 0xec;
    /// Control of ring 0.
    IH_RB_CNTL @ 0, 0x80 as ih_rb_cntl {
        /// The ring is enabled.
        RB_ENABLE[0:0]
        /// Log2 of the dwords.
        RB_SIZE[5:1]
        /// Timestamps are the GPU's clock.
        RB_GPU_TS_ENABLE[7:7]
        /// The write pointer is written to memory.
        WPTR_WRITEBACK_ENABLE[8:8]
        /// Overflows are reported.
        WPTR_OVERFLOW_ENABLE[16:16]
        /// Interrupts are sent.
        ENABLE_INTR[17:17]
        /// Writes snoop.
        MC_SNOOP[20:20]
        /// Writing the read pointer sends the interrupt again if there are more entries.
        RPTR_REARM[21:21]
        /// The ring's VMID.
        MC_VMID[27:24]
        /// The address space of the addresses: 1 bus, 4 MC.
        MC_SPACE[30:28]
        /// A rising edge clears the overflow.
        WPTR_OVERFLOW_CLEAR[31:31]
    };
    /// The ring's address in units of 256 bytes.
    IH_RB_BASE @ 0, 0x81;
    /// Its high part.
    IH_RB_BASE_HI @ 0, 0x82 as ih_rb_base_hi {
        /// Bits 47:40 of the address.
        ADDR[7:0]
    };
    /// Read pointer, bytes.
    IH_RB_RPTR @ 0, 0x83;
    /// Write pointer, bytes.
    IH_RB_WPTR @ 0, 0x84 as ih_rb_wptr {
        /// The ring has overwritten unread entries.
        RB_OVERFLOW[0:0]
        /// The pointer in dwords.
        OFFSET[17:2]
    };
    /// The address that the write pointer is written to.
    IH_RB_WPTR_ADDR_HI @ 0, 0x85 as ih_rb_wptr_addr_hi {
        /// Bits 47:32.
        ADDR[15:0]
    };
    /// The same, low part.
    IH_RB_WPTR_ADDR_LO @ 0, 0x86;
    /// The read pointer's doorbell.
    IH_DOORBELL_RPTR @ 0, 0x87 as ih_doorbell_rptr {
        /// Its dword in the doorbell BAR.
        OFFSET[25:0]
        /// It is enabled.
        ENABLE[28:28]
    };
    /// Control of ring 1, with ring 0's fields as far as it has them.
    IH_RB_CNTL_RING1 @ 0, 0x8c;
    /// The same for ring 2.
    IH_RB_CNTL_RING2 @ 0, 0x98;
    /// The retry CAM's doorbell, with the layout of the read pointer's.
    IH_DOORBELL_RETRY_CAM @ 0, 0x88;
    /// The retry CAM on Aldebaran.
    IH_RETRY_INT_CAM_CNTL @ 0, 0xea as ih_retry_int_cam_cntl {
        /// It is enabled.
        ENABLE[16:16]
    };
    /// Miscellaneous overrides.
    IH_CHICKEN @ 0, 0x18d as ih_chicken {
        /// MC_SPACE 1 is a bus address.
        MC_SPACE_GPA_ENABLE[4:4]
    };
}
