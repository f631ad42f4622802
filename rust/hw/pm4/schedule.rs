// SPDX-License-Identifier: GPL-2.0
//! Packets for the hardware scheduler (HWS): its resources, and the processes and queues that it
//! runs.

use super::{header, op};
use crate::bits::{hi, lo, Field};
use crate::cleaner::Cleaner;
use crate::debug::DebugControls;
use crate::doorbell::Doorbell;
use crate::pte::ContextBase;
use crate::trap::TrapHandler;
use crate::xnack_mix::XnackMix;

const VMID_MASK: Field = Field::new(15, 0);
const UNMAP_LATENCY: Field = Field::new(23, 16);
/// Milliseconds of one step of UNMAP_LATENCY.
const UNMAP_LATENCY_STEP: u32 = 100;
/// enb_xnack_retry_disable_check.
const CHECK_XNACK: Field = Field::bit(28);
const RESOURCES_QUEUE_TYPE: Field = Field::new(31, 29);
const RESOURCES_OF_KIQ: u32 = 0;
const RESOURCES_OF_HIQ: u32 = 1;

const PASID: Field = Field::new(15, 0);
/// single_memops.
const PRECISE_MEMORY: Field = Field::bit(16);
/// exec_cleaner_shader.
const CLEAN: Field = Field::bit(17);
const PROCESS_QUANTUM: Field = Field::new(31, 25);
const SDMA_ENABLE: Field = Field::bit(7);
const NUM_QUEUES: Field = Field::new(31, 22);

const QUEUE_SEL: Field = Field::new(5, 4);
const GIVEN_SLOT: u32 = 0;
const ANY_SLOT: u32 = 1;
const MAP_QUEUE: Field = Field::new(15, 13);
const MAP_PIPE: Field = Field::new(17, 16);
const MAP_ME: Field = Field::bit(18);
const ENGINE_SEL: Field = Field::new(28, 26);
const COMPUTE: u32 = 0;
const HIQ: u32 = 1;
const NUM: Field = Field::new(31, 29);
const DOORBELL: Field = Field::new(27, 2);

const ACTION: Field = Field::new(1, 0);
const PREEMPT: u32 = 0;
const RESET: u32 = 1;
const BY_DOORBELL: u32 = 0;
const ALL_DYNAMIC: u32 = 3;

const COMMAND: Field = Field::new(31, 30);
const FENCE_AFTER_WRITES: u32 = 2;

const IB_SIZE: Field = Field::new(19, 0);
const CHAIN: Field = Field::bit(20);
const CHAIN_IDLE_DISABLE: Field = Field::bit(22);
const VALID: Field = Field::bit(23);
const PROCESS_COUNT: Field = Field::new(27, 24);

/// Dwords of [`map_process`].
pub const MAP_PROCESS_DWORDS: usize = 21;
/// Dwords of [`map_queue`].
pub const MAP_QUEUES_DWORDS: usize = 7;
/// Dwords of [`run_list`].
pub const RUN_LIST_DWORDS: usize = 4;
/// The longest list that [`run_list`] takes, dwords.
pub const MAX_LIST_DWORDS: usize = IB_SIZE.max() as usize;

/// The resources of the hardware scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetResources {
    /// VMIDs that it gives to processes, a bit each.
    pub vmids: u16,
    /// HQDs that it gives to queues: bit MEC * 32 + pipe * 8 + queue.
    pub queues: u64,
    /// How long it waits for a queue to leave before it gives up, milliseconds.
    pub unmap_latency: u32,
    /// How its firmware takes processes with XNACK on beside such with it off.
    pub xnack: XnackMix,
}

/// SET_RESOURCES for HIQ. No process has any of the global data share.
#[inline]
pub const fn set_resources(resources: SetResources) -> [u32; 8] {
    [
        header::<8>(op::SET_RESOURCES),
        VMID_MASK.put(resources.vmids as u32)
            | UNMAP_LATENCY.put(resources.unmap_latency / UNMAP_LATENCY_STEP)
            | CHECK_XNACK.flag(matches!(resources.xnack, XnackMix::Chained))
            | RESOURCES_QUEUE_TYPE.put(RESOURCES_OF_HIQ),
        lo(resources.queues),
        hi(resources.queues),
        0,
        0,
        0,
        0,
    ]
}

/// SET_RESOURCES for KIQ: the firmware finds the cleaner at `cleaner` in VMID 0, a multiple of
/// [`Cleaner::ALIGN`]. KIQ may give the HQDs of `queues` to queues of the driver, bits as in
/// [`SetResources`]. Source: amdgpu, gfx_v9_0_kiq_set_resources.
///
/// [`Cleaner::ALIGN`]: crate::cleaner::Cleaner::ALIGN
#[inline]
pub const fn set_kernel_resources(queues: u64, cleaner: u64) -> [u32; 8] {
    let cleaner = cleaner / Cleaner::ALIGN;
    [
        header::<8>(op::SET_RESOURCES),
        RESOURCES_QUEUE_TYPE.put(RESOURCES_OF_KIQ),
        lo(queues),
        hi(queues),
        lo(cleaner),
        hi(cleaner),
        0,
        0,
    ]
}

/// A process of a runlist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapProcess {
    /// Its PASID.
    pub pasid: u16,
    /// Its page tables.
    pub root: ContextBase,
    /// SH_MEM_BASES: where LDS and scratch apertures are.
    pub sh_mem_bases: u32,
    /// SH_MEM_CONFIG: how shaders reach memory.
    pub sh_mem_config: u32,
    /// Its trap handler.
    pub trap: TrapHandler,
    /// What its debugger has set.
    pub debug: DebugControls,
    /// Quantum: how long it has the hardware while others wait, milliseconds, at most 127.
    pub quantum: u32,
    /// Number of its queues that follow, at most 1023.
    pub queues: u32,
    /// The firmware runs the cleaner before the process gets the hardware. The list must have one
    /// process at a time.
    pub clean: bool,
}

/// MAP_PROCESS in the form of gfx 9.4.2 and 9.4.3, of 21 dwords. Dword 14 is
/// SPI_GDBG_PER_VMID_CNTL: also without a debugger, a reader of saved waves finds the packet, group
/// and place of each in its TTMPs. The next ones are TCP_WATCHn_CNTL.
#[inline]
pub const fn map_process(process: MapProcess) -> [u32; MAP_PROCESS_DWORDS] {
    let mut packet = [0; MAP_PROCESS_DWORDS];
    packet[0] = header::<MAP_PROCESS_DWORDS>(op::MAP_PROCESS);
    packet[1] = PASID.put(process.pasid as u32)
        | PRECISE_MEMORY.flag(process.debug.waves.precise_memory)
        | CLEAN.flag(process.clean)
        | PROCESS_QUANTUM.put(process.quantum);
    packet[2] = process.root.lo();
    packet[3] = process.root.hi();
    packet[4] = process.sh_mem_bases;
    packet[5] = process.sh_mem_config;
    let [code_lo, code_hi, memory_lo, memory_hi] = process.trap.registers();
    packet[6] = code_lo;
    packet[7] = code_hi;
    packet[8] = memory_lo;
    packet[9] = memory_hi;
    packet[13] = SDMA_ENABLE.flag(true) | NUM_QUEUES.put(process.queues);
    packet[14] = process.debug.waves.register();
    let [first, second, third, fourth] = process.debug.watches;
    packet[15] = first;
    packet[16] = second;
    packet[17] = third;
    packet[18] = fourth;
    packet
}

/// Which HQD a queue gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HqdSelect {
    /// An HQD that the scheduler chooses.
    Any,
    /// This HQD, for HIQ.
    Hiq {
        /// The micro engine, 1 or 2.
        me: u8,
        /// Its pipe.
        pipe: u8,
        /// The queue of the pipe.
        queue: u8,
    },
}

/// A queue to be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapQueue {
    /// The HQD.
    pub place: HqdSelect,
    /// Its doorbell.
    pub doorbell: Doorbell,
    /// Address of its descriptor in VMID 0.
    pub mqd: u64,
    /// Address of its write pointer, in its own address space.
    pub write_pointer: u64,
}

/// MAP_QUEUES of one compute queue.
#[inline]
pub const fn map_queue(queue: MapQueue) -> [u32; MAP_QUEUES_DWORDS] {
    let place = match queue.place {
        HqdSelect::Any => QUEUE_SEL.put(ANY_SLOT) | ENGINE_SEL.put(COMPUTE),
        HqdSelect::Hiq {
            me,
            pipe,
            queue: number,
        } => {
            QUEUE_SEL.put(GIVEN_SLOT)
                | ENGINE_SEL.put(HIQ)
                | MAP_ME.flag(me == 2)
                | MAP_PIPE.put(pipe as u32)
                | MAP_QUEUE.put(number as u32)
        }
    };
    [
        header::<MAP_QUEUES_DWORDS>(op::MAP_QUEUES),
        place | NUM.put(1),
        DOORBELL.put(queue.doorbell.dword()),
        lo(queue.mqd),
        hi(queue.mqd),
        lo(queue.write_pointer),
        hi(queue.write_pointer),
    ]
}

/// The queues to unmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnmapQueues {
    /// All that runlists have mapped. Their waves are saved where there is a trap handler
    /// (QSWITCH_MODE), and end otherwise.
    All,
    /// The queue with this doorbell, with its waves killed.
    Reset(Doorbell),
}

/// UNMAP_QUEUES of compute queues.
#[inline]
pub const fn unmap_queues(which: UnmapQueues) -> [u32; 6] {
    let (how, doorbell) = match which {
        UnmapQueues::All => (ACTION.put(PREEMPT) | QUEUE_SEL.put(ALL_DYNAMIC), 0),
        UnmapQueues::Reset(doorbell) => (
            ACTION.put(RESET) | QUEUE_SEL.put(BY_DOORBELL) | NUM.put(1),
            DOORBELL.put(doorbell.dword()),
        ),
    };
    [
        header::<6>(op::UNMAP_QUEUES),
        how | ENGINE_SEL.put(COMPUTE),
        doorbell,
        0,
        0,
        0,
    ]
}

/// QUERY_STATUS: writes the 64-bit `value` to `address`, a multiple of 8, once all earlier packets
/// are done.
#[inline]
pub const fn query_status(address: u64, value: u64) -> [u32; 7] {
    [
        header::<7>(op::QUERY_STATUS),
        COMMAND.put(FENCE_AFTER_WRITES),
        0,
        lo(address),
        hi(address),
        lo(value),
        hi(value),
    ]
}

/// A list of [`map_process`] and [`map_queue`] packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunlistIb {
    /// Its address in VMID 0; a multiple of 4.
    pub address: u64,
    /// Dwords, at most [`MAX_LIST_DWORDS`].
    pub dwords: u32,
    /// How many of its processes run at the same time, at most 15.
    pub processes: u32,
}

/// RUN_LIST: runs `list`. With `again`, at the list's own end, the list is run over and over: thus
/// processes and queues for which there is no room at the same time take turns.
#[inline]
pub const fn run_list(list: RunlistIb, again: bool) -> [u32; RUN_LIST_DWORDS] {
    [
        header::<RUN_LIST_DWORDS>(op::RUN_LIST),
        lo(list.address),
        hi(list.address),
        IB_SIZE.put(list.dwords)
            | CHAIN.flag(again)
            | CHAIN_IDLE_DISABLE.flag(again)
            | VALID.flag(true)
            | PROCESS_COUNT.put(list.processes),
    ]
}
