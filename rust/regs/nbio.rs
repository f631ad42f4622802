// SPDX-License-Identifier: GPL-2.0
//! NBIO 7: the PCI side.

use super::registers;

registers! {
    /// The place that [`MM_DATA`] accesses.
    MM_INDEX @ 0, 0x0 as mm_index {
        /// The byte, bits 30:0.
        MM_OFFSET[30:0]
        /// It is in VRAM.
        MM_APER[31:31]
    };
    /// The dword there.
    MM_DATA @ 0, 0x1;
    /// The byte, from bit 31 on.
    MM_INDEX_HI @ 0, 0x6;
    /// The address on the chip's own network (SMN) that the next register accesses.
    PCIE_INDEX2 @ 0, 0xe;
    /// NBIO 7.9: bits of that address beyond 32.
    PCIE_INDEX2_HI @ 0, 0x11;
    /// The register at that address.
    PCIE_DATA2 @ 0, 0xf;
    /// Information from the card's own firmware for drivers.
    BIOS_SCRATCH_7 @ 1, 0x3f as bios_scratch_7 {
        /// It has initialized the card.
        ASIC_INIT_COMPLETE[9:9]
    };
    /// The kind of function.
    RCC_IOV_FUNC_IDENTIFIER @ 2, 0xc5 as rcc_iov_func_identifier {
        /// It is a virtual function.
        FUNC_IDENTIFIER[0:0]
    };
    /// Enables the doorbell BAR.
    RCC_DOORBELL_APER_EN @ 2, 0xc0 as rcc_doorbell_aper_en {
        /// Doorbells reach their blocks.
        BIF_DOORBELL_APER_EN[0:0]
    };
    /// Straps of function 0.
    RCC_DEV0_EPF0_STRAP0 @ 2, 0x15 as rcc_dev0_epf0_strap0 {
        /// Revision of the silicon.
        ATI_REV_ID[27:24]
    };
    /// The same of NBIO 7.9.
    RCC_DEV0_EPF0_STRAP0_7_9 @ 2, 0x16;
    /// VRAM in MiB.
    RCC_CONFIG_MEMSIZE @ 2, 0xc3;
    /// Interrupts on the bus.
    INTERRUPT_CNTL @ 2, 0xf1 as interrupt_cntl {
        /// A dummy read precedes an interrupt.
        IH_DUMMY_RD_OVERRIDE[0:0]
        /// The IH's requests do not snoop.
        IH_REQ_NONSNOOP_EN[3:3]
    };
    /// The target of the dummy read: bus address in units of 256 bytes.
    INTERRUPT_CNTL2 @ 2, 0xf2;
    /// The address of the doorbells for the GPU itself: bus address, high half.
    DOORBELL_SELFRING_GPA_APER_BASE_HIGH @ 2, 0xf3;
    /// Low half.
    DOORBELL_SELFRING_GPA_APER_BASE_LOW @ 2, 0xf4;
    /// The aperture's enable.
    DOORBELL_SELFRING_GPA_APER_CNTL @ 2, 0xf5 as doorbell_selfring_gpa_aper_cntl {
        /// The GPU's own stores to the doorbell BAR ring doorbells.
        EN[0:0]
        /// Must be set together with EN.
        MODE[1:1]
    };
    /// Bus active, chip off.
    BACO_CNTL @ 2, 0x10b as baco_cntl {
        /// The chip is off.
        BACO_EN[0:0]
        /// As above, without the effect.
        BACO_DUMMY_EN[2:2]
    };
    /// Byte in BAR5 whose write flushes the HDP's memory writes.
    REMAP_HDP_MEM_FLUSH_CNTL @ 2, 0x12d;
    /// Byte in BAR5 whose write flushes the HDP's register writes.
    REMAP_HDP_REG_FLUSH_CNTL @ 2, 0x12e;
    /// Doorbells of SDMA engine 0.
    BIF_SDMA0_DOORBELL_RANGE @ 2, 0x1d0;
    /// Doorbells of SDMA engine 1.
    BIF_SDMA1_DOORBELL_RANGE @ 2, 0x1d1;
    /// Doorbells of the IH.
    BIF_IH_DOORBELL_RANGE @ 2, 0x1d2;
    /// Doorbells of SDMA engine 2.
    BIF_SDMA2_DOORBELL_RANGE @ 2, 0x1d6;
    /// Doorbells of SDMA engine 3.
    BIF_SDMA3_DOORBELL_RANGE @ 2, 0x1d7;
    /// Doorbells of SDMA engine 4.
    BIF_SDMA4_DOORBELL_RANGE @ 2, 0x1d9;
    /// NBIO 7.9: the partitions of compute.
    PARTITION_COMPUTE_STATUS @ 2, 0x163 as partition_compute_status {
        /// 0: one (SPX).
        PARTITION_MODE[7:4]
    };
    /// NBIO 7.9: the partitions of memory.
    PARTITION_MEM_STATUS @ 2, 0x164 as partition_mem_status {
        /// A bit for each number of them; bit 0: one (NPS1).
        NPS_MODE[11:4]
    };
    /// NBIO 7.9: XCCs whose doorbells are held back, a bit each.
    XCC_DOORBELL_FENCE @ 5, 0x740c as xcc_doorbell_fence {
        /// The XCCs.
        XCCS[7:0]
        /// The die gets its doorbells from the first one.
        SHUB_SLV_MODE[16:16]
    };
    /// NBIO 7.9: the first port of doorbells; the others follow.
    S2A_DOORBELL_ENTRY_1_CTRL @ 5, 0x7a81;
    /// NBIO 7.9: the slots of the IH; those of the SDMA engines follow.
    DOORBELL0_CTRL_ENTRY_0 @ 8, 0xcd00;
    /// NBIO 7.9: blocks to which doorbells may go.
    BIFC_DOORBELL_ACCESS_EN_PF @ 8, 0xcf6e;
    /// NBIO 7.9: interrupts of graphics that are watched.
    BIFC_GFX_INT_MONITOR_MASK @ 8, 0xe8ad;
}
