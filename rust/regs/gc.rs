// SPDX-License-Identifier: GPL-2.0
//! GC 9.4.2. Its hub's registers are in [`super::hub`].

use super::{registers, Register};

/// The first of the HQD's registers, CP_MQD_BASE_ADDR. Dword 128 of an MQD is its image, and the
/// others follow.
pub(crate) const HQD: Register = Register::new(0, 0x1245);

registers! {
    /// Register accesses of the GRBM.
    GRBM_CNTL @ 0, 0x0 as grbm_cntl {
        /// Clocks after which a read times out.
        READ_TIMEOUT[7:0]
    };
    /// Activity of the block.
    GRBM_STATUS @ 0, 0x4 as grbm_status {
        /// Any part is busy.
        GUI_ACTIVE[31:31]
    };
    /// Selects the bank for accesses to banked registers.
    GRBM_GFX_CNTL @ 0, 0x22 as grbm_gfx_cntl {
        /// Pipe.
        PIPEID[1:0]
        /// Micro engine: 0 ME, 1 and 2 the MECs.
        MEID[3:2]
        /// Address space.
        VMID[7:4]
        /// Queue.
        QUEUEID[10:8]
    };
    /// The compute micro engines.
    CP_MEC_CNTL @ 0, 0x8d as cp_mec_cntl {
        /// Invalidates the instruction cache.
        MEC_INVALIDATE_ICACHE[4:4]
        /// Pipes of MEC1 that are held in reset, a bit each.
        MEC_ME1_PIPE_RESET[19:16]
        /// The same for MEC2.
        MEC_ME2_PIPE_RESET[21:20]
        /// MEC2 is halted.
        MEC_ME2_HALT[28:28]
        /// MEC1 is halted.
        MEC_ME1_HALT[30:30]
    };
    /// The fused-off compute units of a shader array.
    CC_GC_SHADER_ARRAY_CONFIG @ 0, 0x26f as cc_gc_shader_array_config {
        /// A bit for each.
        INACTIVE_CUS[31:16]
    };
    /// Compute units that are disabled in addition, with the same fields.
    GC_USER_SHADER_ARRAY_CONFIG @ 0, 0x270;
    /// The LDS and scratch apertures of a VMID: bits 63:48 in 31:16 and 15:0. Banked by VMID.
    SH_MEM_BASES @ 0, 0x30a;
    /// The access of a VMID's shaders to memory. Banked by VMID.
    SH_MEM_CONFIG @ 0, 0x30d as sh_mem_config {
        /// 0: 64-bit addresses.
        ADDRESS_MODE[0:0]
        /// 3: any alignment.
        ALIGNMENT_MODE[4:3]
        /// The formats of 8-bit floats, of gfx 9.4.3.
        F8_MODE[8:8]
        /// Faults are not retried.
        RETRY_DISABLE[12:12]
    };
    /// How the sequencers treat XNACK.
    SQ_CONFIG1 @ 0, 0x37a as sq_config1 {
        /// The scheduler's firmware checks SH_MEM_CONFIG.RETRY_DISABLE instead.
        DISABLE_XNACK_CHECK_IN_RETRY_DISABLE[12:12]
    };
    /// The trap handler's code, bits 39:8; the next register has bits 47:40, and the two after that
    /// its memory. Banked by VMID.
    SQ_SHADER_TBA_LO @ 0, 0x31c;
    /// First byte of the doorbells that the MECs get.
    CP_MEC_DOORBELL_RANGE_LOWER @ 0, 0x105c as cp_mec_doorbell_range {
        /// Dword.
        DWORD[27:2]
    };
    /// Last dword's first byte of the doorbells that the MECs get.
    CP_MEC_DOORBELL_RANGE_UPPER @ 0, 0x105d;
    /// Interrupts of the ring for graphics; some of them also tell the RLC that the CP is idle.
    CP_INT_CNTL_RING0 @ 0, 0x106a as cp_int_cntl_ring0 {
        /// The compute micro engines are busy.
        CMP_BUSY_INT_ENABLE[18:18]
        /// A context is busy.
        CNTX_BUSY_INT_ENABLE[19:19]
        /// No context is busy.
        CNTX_EMPTY_INT_ENABLE[20:20]
    };
    /// Polling of write pointers.
    CP_PQ_WPTR_POLL_CNTL @ 0, 0x1083 as cp_pq_wptr_poll_cntl {
        /// Continuously.
        EN[31:31]
    };
    /// Polls the write pointers of the queues of MEC1 whose bit is set, once.
    CP_PQ_WPTR_POLL_CNTL1 @ 0, 0x1084;
    /// Interrupts of a pipe of the MECs. Banked by ME and pipe.
    CPC_INT_CNTL @ 0, 0x10b4 as cpc_int_cntl {
        /// Access to a privileged register.
        PRIV_REG_INT_ENABLE[23:23]
        /// A packet that does not exist.
        OPCODE_ERROR_INT_ENABLE[24:24]
        /// End of pipe.
        TIME_STAMP_INT_ENABLE[26:26]
        /// A packet with bits that must be 0.
        RESERVED_BIT_ERROR_INT_ENABLE[27:27]
    };
    /// The CP's wait between attempts.
    CP_IQ_WAIT_TIME2 @ 0, 0x10b0 as cp_iq_wait_time2 {
        /// When a queue is connected or dequeued.
        QUE_SLEEP[7:0]
    };
    /// Doorbells of the CP.
    CP_PQ_STATUS @ 0, 0x10b8 as cp_pq_status {
        /// They are enabled.
        DOORBELL_ENABLE[1:1]
    };
    /// Kills the waves of a queue and all its other work. Banked by ME, pipe and queue.
    SPI_COMPUTE_QUEUE_RESET @ 0, 0x11db as spi_compute_queue_reset {
        /// Now.
        RESET[0:0]
    };
    /// The queue is active. Banked by ME, pipe and queue, like the following ones.
    CP_HQD_ACTIVE @ 0, 0x1247 as cp_hqd_active {
        /// It is active.
        ACTIVE[0:0]
    };
    /// The state of the queue that is preserved when it is removed.
    CP_HQD_PERSISTENT_STATE @ 0, 0x1249;
    /// Read pointer, dwords.
    CP_HQD_PQ_RPTR @ 0, 0x124f;
    /// The queue's doorbell.
    CP_HQD_PQ_DOORBELL_CONTROL @ 0, 0x1254 as cp_hqd_pq_doorbell_control {
        /// Its dword in BAR2.
        DOORBELL_OFFSET[27:2]
        /// It is enabled.
        DOORBELL_EN[30:30]
    };
    /// The queue's indirect buffer.
    CP_HQD_IB_CONTROL @ 0, 0x125a;
    /// Its interrupt queue.
    CP_HQD_IQ_TIMER @ 0, 0x125b;
    /// Requests the removal of the queue.
    CP_HQD_DEQUEUE_REQUEST @ 0, 0x125d as cp_hqd_dequeue_request {
        /// 1 drain, 2 reset, 3 save.
        DEQUEUE_REQ[2:0]
    };
    /// End-of-pipe buffer: read pointer.
    CP_HQD_EOP_RPTR @ 0, 0x126d;
    /// Write pointer, dwords.
    CP_HQD_PQ_WPTR_LO @ 0, 0x127b;
    /// The same, high part.
    CP_HQD_PQ_WPTR_HI @ 0, 0x127c;
    /// Global data share of VMID 0: base, and after it size; those of the others follow.
    GDS_VMID0_BASE @ 0, 0x1300;
    /// Global wave sync of VMID 0; those of the others follow.
    GDS_GWS_VMID0 @ 0, 0x1320;
    /// Ordered append of VMID 0; those of the others follow.
    GDS_OA_VMID0 @ 0, 0x1330;
    /// The beginning of GFXHUB's registers: VM_L2_CNTL.
    VM_L2_CNTL @ 0, 0x840;
    /// The same of gfx 9.4.3.
    VM_L2_CNTL_9_4_3 @ 0, 0x820;
    /// Address swizzle.
    GB_ADDR_CONFIG @ 0, 0x63e;
    /// The texture addresser.
    TA_CNTL_AUX @ 0, 0x542;
    /// The assignment of channels of the L2 cache, for the caches of the compute units: six
    /// registers, not consecutive.
    TCP_CHAN_STEER_0 @ 0, 0xb03;
    /// See [`TCP_CHAN_STEER_0`].
    TCP_CHAN_STEER_1 @ 0, 0xb04;
    /// See [`TCP_CHAN_STEER_0`].
    TCP_CHAN_STEER_2 @ 0, 0xb09;
    /// See [`TCP_CHAN_STEER_0`].
    TCP_CHAN_STEER_3 @ 0, 0xb0a;
    /// See [`TCP_CHAN_STEER_0`].
    TCP_CHAN_STEER_4 @ 0, 0xb0b;
    /// See [`TCP_CHAN_STEER_0`].
    TCP_CHAN_STEER_5 @ 0, 0xb0c;
    /// The hashing of memory channels in the caches of the compute units: the same as in the
    /// fabric.
    TCP_ADDR_CONFIG @ 0, 0xb05 as tcp_addr_config {
        /// By the bits above 64 KiB.
        ENABLE64KHASH[11:11]
        /// By those above 2 MiB.
        ENABLE2MHASH[12:12]
        /// By those above 1 GiB.
        ENABLE1GHASH[13:13]
    };
    /// The path between the caches of the compute units and L2.
    TCI_CNTL_3 @ 0, 0xb5d;
    /// Traps of a VMID's waves. Banked by VMID.
    SPI_GDBG_PER_VMID_CNTL @ 0, 0x11d3 as spi_gdbg_per_vmid_cntl {
        /// Trap handlers find the wave's place and owner in the TTMPs.
        TRAP_EN[3:3]
    };
    /// Bits 47:32 of the address of watch point 0 of vector memory; the next register has the lower
    /// ones. Those of the next points are three registers further on each.
    TCP_WATCH0_ADDR_H @ 0, 0x12a0;
    /// The data of traps by the SPI; one more follows.
    SPI_GDBG_TRAP_DATA0 @ 0, 0x11d8;
    /// The causes of throttling of graphics: requests of the board.
    GC_THROTTLE_CTRL1 @ 0, 0x1292 as gc_throttle_ctrl1 {
        /// The power brake.
        PWRBRK_STALL_EN[20:20]
    };
    /// The method of throttling.
    GC_THROTTLE_CTRL @ 0, 0x129b as gc_throttle_ctrl {
        /// By patterns.
        PATTERN_MODE[3:3]
    };
    /// Selects the register behind the next one.
    GC_CAC_IND_INDEX @ 0, 0x129c;
    /// The selected register's value.
    GC_CAC_IND_DATA @ 0, 0x129d;
    /// L1 TLBs of the caches of the compute units.
    TCP_UTCL1_CNTL1 @ 0, 0x12b5;
    /// The same block, of gfx 9.4.3.
    TCP_UTCL1_CNTL2 @ 0, 0x12b6;
    /// The XCC's place among those that work together, of gfx 9.4.3.
    CP_HYP_XCP_CTL @ 1, 0x5828 as cp_hyp_xcp_ctl {
        /// Its number among them.
        VIRTUAL_XCC_ID[2:0]
        /// How many there are.
        NUM_XCC_IN_XCP[6:3]
    };
    /// The microcode's next dword when MEC1's is loaded. A driver that loads it by registers leaves
    /// its version here.
    CP_MEC_ME1_UCODE_ADDR @ 1, 0x581a;
    /// Selects the shader engine and the shader array for accesses to registers that each has.
    GRBM_GFX_INDEX @ 1, 0x2200 as grbm_gfx_index {
        /// Shader array of the engine.
        SH_INDEX[15:8]
        /// Shader engine.
        SE_INDEX[23:16]
        /// Writes go to all arrays.
        SH_BROADCAST_WRITES[29:29]
        /// Writes go to all instances.
        INSTANCE_BROADCAST_WRITES[30:30]
        /// Writes go to all engines.
        SE_BROADCAST_WRITES[31:31]
    };
    /// The RLC, which among other things keeps the clocks of graphics running.
    RLC_CNTL @ 1, 0x4c00 as rlc_cntl {
        /// It is running.
        RLC_ENABLE_F32[0:0]
    };
    /// Clock gating of graphics.
    RLC_CGCG_CGLS_CTRL @ 1, 0x4c49;
    /// Activity behind the serial bus to the compute units. Banked by shader engine.
    RLC_SERDES_CU_MASTER_BUSY @ 1, 0x4c61;
    /// The same for all but compute units.
    RLC_SERDES_NONCU_MASTER_BUSY @ 1, 0x4c62 as rlc_serdes_noncu_master_busy {
        /// Shader engines, and the part that they share.
        SE_AND_GC[16:0]
        /// The first texture cache.
        TC0[18:18]
        /// The second one.
        TC1[19:19]
    };
    /// Performance samples.
    RLC_SPM_MC_CNTL @ 1, 0x4c71 as rlc_spm_mc_cntl {
        /// The VMID of the memory that they go to.
        RLC_SPM_VMID[3:0]
    };
    /// Saving and restoring registers when graphics is powered down.
    RLC_SRM_CNTL @ 1, 0x4c80 as rlc_srm_cntl {
        /// It is enabled.
        SRM_ENABLE[0:0]
    };
    /// The queues that are schedulers.
    RLC_CP_SCHEDULERS @ 1, 0x4caa as rlc_cp_schedulers {
        /// KIQ.
        SCHEDULER0[7:0]
    };
    /// The latched clock.
    RLC_GPU_CLOCK_COUNT_LSB @ 1, 0x4c24;
    /// Its high part.
    RLC_GPU_CLOCK_COUNT_MSB @ 1, 0x4c25;
    /// Writing it latches the GPU's clock.
    RLC_CAPTURE_GPU_CLOCK_COUNT @ 1, 0x4c26 as rlc_capture_gpu_clock_count {
        /// Latch.
        CAPTURE[0:0]
    };
}
