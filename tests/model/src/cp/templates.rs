// SPDX-License-Identifier: GPL-2.0
//! The forms of compute queues' descriptors and of the schedulers' packets. Sources: amdgpu,
//! kfd_mqd_manager_v9.c, gfx_v9_0_mqd_init, kfd_packet_manager_v9.c, gfx_v9_0_kiq_*,
//! kgd_gfx_v9_hiq_mqd_load.

use super::kiq::Role;
use crate::template::{misfits, Form, Row};

/// The first of an MQD's dwords that is the image of a register, CP_MQD_BASE_ADDR.
const IMAGE: usize = 128;
/// The first dword of an MQD. Those behind it are the state of COMPUTE_* registers, which programs
/// set and the processor saves.
const HEADER: Row = (0, 0, 0xc031_0800, "the header of an MQD");

/// A user's queue. What the processor saves is free.
const USER: Form = Form {
    free: &[
        128, 129, 136, 137, 138, 139, 140, 141, 142, 145, 146, 147, 148, 165, 166, 168, 169, 171,
        172, 174, 175, 176, 177, 179, 182, 183,
    ],
    rows: &[
        (130, 1, 0, "CP_HQD_ACTIVE has more than ACTIVE"),
        (131, 0xf, 0, "CP_HQD_VMID has more than a VMID"),
        (
            132,
            0xe000_0000,
            0x53 << 8 | 1,
            "CP_HQD_PERSISTENT_STATE has not PRELOAD_REQ and PRELOAD_SIZE 0x53",
        ),
        (133, 3, 0, "CP_HQD_PIPE_PRIORITY is more than 3"),
        (135, 0, 0x111, "CP_HQD_QUANTUM is not 1 in the long scale"),
        (
            143,
            0xcfff_fffe,
            0,
            "CP_HQD_PQ_DOORBELL_CONTROL has more than the doorbell and DOORBELL_BIF_DROP",
        ),
        (
            149,
            0x800f_ffff,
            3 << 20 | 1 << 23,
            "CP_HQD_IB_CONTROL has not MIN_IB_AVAIL_SIZE 3 and IB_EXE_DISABLE",
        ),
        // QUEUE_IDLE is the processor's.
        (160, 1, 1 << 14, "CP_HQD_HQ_STATUS0 has not DISPATCH_PTR"),
        (162, 0, 1 << 8, "CP_MQD_CONTROL has not PRIV_STATE alone"),
        (
            167,
            0xf,
            0,
            "CP_HQD_EOP_CONTROL has more than EOP_SIZE, or a size that no driver uses",
        ),
        (181, 1, 0, "CP_HQD_AQL_CONTROL has more than CONTROL0"),
    ],
    zero: "a register that is always 0 is not",
};

/// CP_HQD_PQ_CONTROL of a user's queue: of PM4, of AQL, and of AQL that has its read pointer
/// reported.
const PM4: Row = (
    145,
    0x3f,
    5 << 8 | 1 << 28,
    "CP_HQD_PQ_CONTROL is not that of PM4: RPTR_BLOCK_SIZE 5, UNORD_DISPATCH",
);
const AQL: Row = (
    145,
    0x3f,
    PM4.2 | 1 << 14 | 1 << 16 | 2 << 25 | 1 << 27,
    "CP_HQD_PQ_CONTROL is not that of AQL: RPTR_BLOCK_SIZE 5, UNORD_DISPATCH, QUEUE_FULL_EN, \
     WPP_CLAMP_EN, SLOT_BASED_WPTR 2, NO_UPDATE_RPTR",
);
const REPORTED_AQL: Row = (
    145,
    0x3f,
    AQL.2 & !(1 << 27),
    "CP_HQD_PQ_CONTROL is not that of AQL on a first XCC: RPTR_BLOCK_SIZE 5, UNORD_DISPATCH, \
     QUEUE_FULL_EN, WPP_CLAMP_EN, SLOT_BASED_WPTR 2",
);

/// EOP_SIZE at most: there are 255 end-of-pipe entries.
const MOST_EOP: u32 = 0xa;

/// A queue of the kernel's. amdgpu leaves the other registers of its KIQ as they are.
const KERNEL: &[Row] = &[
    (
        132,
        !(0x3ff << 8),
        0x53 << 8,
        "CP_HQD_PERSISTENT_STATE has not PRELOAD_SIZE 0x53",
    ),
    (
        145,
        0x1800_3f3f,
        3 << 30,
        "CP_HQD_PQ_CONTROL has more than sizes, UNORD_DISPATCH, NO_UPDATE_RPTR, PRIV_STATE and \
         KMD_QUEUE",
    ),
    (162, 1 << 8, 0, "CP_MQD_CONTROL has more than PRIV_STATE"),
];

/// The message for registers, from CP_MQD_BASE_ADDR on, that are not of a driver's queue. Of AQL,
/// `aql` says whether its read pointer is reported.
pub fn hqd(words: &[u32], vmid: u8, aql: Option<bool>) -> Option<&'static str> {
    let misfits = |row: &Row| misfits(words[row.0 - IMAGE], row);
    if vmid == 0 {
        return KERNEL.iter().find_map(misfits);
    }
    if words[167 - IMAGE] & 0x3f > MOST_EOP {
        return Some("CP_HQD_EOP_CONTROL has an EOP_SIZE above 0xa");
    }
    let control = match aql {
        None => &PM4,
        Some(false) => &AQL,
        Some(true) => &REPORTED_AQL,
    };
    misfits(control).or_else(|| USER.misfit(IMAGE, words))
}

/// The message for the first dword of an MQD.
pub fn header(word: u32) -> Option<&'static str> {
    misfits(word, &HEADER)
}

/// The message for a packet's dword that is not named.
const ZERO: &str = "a dword of the packet that is always 0 is not";

const RESOURCES_OF_HIQ: Form = Form {
    free: &[2, 3, 4, 5],
    rows: &[
        (0, 0, 0xc006_a000, "SET_RESOURCES: the header"),
        (
            1,
            0x10ff_ffff,
            1 << 29,
            "SET_RESOURCES: the first dword is not that of a HIQ",
        ),
    ],
    zero: ZERO,
};
const RESOURCES_OF_KIQ: Form = Form {
    free: &[2, 3, 4, 5],
    rows: &[(0, 0, 0xc006_a000, "SET_RESOURCES: the header")],
    zero: ZERO,
};
const MAP_QUEUES: Form = Form {
    free: &[3, 4, 5, 6],
    rows: &[
        (0, 0, 0xc005_a200, "MAP_QUEUES: the header"),
        (
            1,
            0x1ce7_ff3c,
            1 << 29,
            "MAP_QUEUES: reserved bits, an allocation format, or not one queue",
        ),
        (2, 0x0fff_fffc, 0, "MAP_QUEUES: more than a doorbell"),
    ],
    zero: ZERO,
};
const UNMAP_QUEUES: Form = Form {
    free: &[3, 4, 5],
    rows: &[
        (0, 0, 0xc004_a300, "UNMAP_QUEUES: the header"),
        (1, 0xfc00_0033, 0, "UNMAP_QUEUES: reserved bits are set"),
        (
            2,
            0x0fff_ffff,
            0,
            "UNMAP_QUEUES: more than a doorbell or PASID",
        ),
    ],
    zero: ZERO,
};
const QUERY_STATUS: Form = Form {
    free: &[3, 4, 5, 6],
    rows: &[
        (0, 0, 0xc005_a400, "QUERY_STATUS: the header"),
        (
            1,
            0x3fff_ffff,
            2 << 30,
            "QUERY_STATUS: the command is not a fence after the acknowledge of writes",
        ),
        (
            2,
            0x1fff_fffc,
            0,
            "QUERY_STATUS: more than a doorbell and engine",
        ),
    ],
    zero: ZERO,
};
const RUN_LIST: Form = Form {
    free: &[2],
    rows: &[
        (0, 0, 0xc002_a500, "RUN_LIST: the header"),
        (1, !3, 0, "RUN_LIST: the list is not aligned"),
        (
            3,
            0x0f5f_ffff,
            1 << 23,
            "RUN_LIST: not valid, or offload_polling or reserved bits are set",
        ),
    ],
    zero: ZERO,
};
const MAP_PROCESS: Form = Form {
    free: &[2, 3, 4, 5, 6, 7, 8, 9],
    rows: &[
        (0, 0, 0xc013_a100, "MAP_PROCESS: the header"),
        (
            1,
            0xfe03_ffff,
            0,
            "MAP_PROCESS: more than PASID, single_memops, exec_cleaner_shader and quantum",
        ),
        (
            14,
            0x3ffe,
            0,
            "MAP_PROCESS: SPI_GDBG_PER_VMID_CNTL.STALL_VMID, or reserved bits",
        ),
        (
            15,
            WATCH,
            0,
            "MAP_PROCESS: VMID of TCP_WATCH0_CNTL, which is filled in",
        ),
        (
            16,
            WATCH,
            0,
            "MAP_PROCESS: VMID of TCP_WATCH1_CNTL, which is filled in",
        ),
        (
            17,
            WATCH,
            0,
            "MAP_PROCESS: VMID of TCP_WATCH2_CNTL, which is filled in",
        ),
        (
            18,
            WATCH,
            0,
            "MAP_PROCESS: VMID of TCP_WATCH3_CNTL, which is filled in",
        ),
        (
            13,
            0xffc0_007f,
            1 << 7,
            "MAP_PROCESS: not sdma_enable and num_queues, or GDS",
        ),
    ],
    zero: ZERO,
};
/// In MAP_PROCESS, TCP_WATCHn_CNTL: MASK, MODE and VALID.
const WATCH: u32 = 0xe0ff_ffff;
/// In RUN_LIST: chain, and chained_runlist_idle_disable.
const CHAIN: u32 = 1 << 20;
const IDLE_DISABLE: u32 = 1 << 22;

/// The message for SET_RESOURCES.
pub fn resources(words: &[u32], role: Role) -> Option<&'static str> {
    match role {
        Role::Hiq => RESOURCES_OF_HIQ.misfit(0, words),
        Role::Kiq => RESOURCES_OF_KIQ.misfit(0, words),
    }
}

/// The message for MAP_QUEUES.
pub fn map_queues(words: &[u32]) -> Option<&'static str> {
    MAP_QUEUES.misfit(0, words)
}

/// The message for UNMAP_QUEUES.
pub fn unmap_queues(words: &[u32]) -> Option<&'static str> {
    UNMAP_QUEUES.misfit(0, words)
}

/// The message for QUERY_STATUS.
pub fn query_status(words: &[u32]) -> Option<&'static str> {
    QUERY_STATUS.misfit(0, words)
}

/// The message for RUN_LIST, on the HIQ or at a list's end.
pub fn run_list(words: &[u32]) -> Option<&'static str> {
    let control = words.get(3).copied().unwrap_or(0);
    if (control & CHAIN == 0) != (control & IDLE_DISABLE == 0) {
        return Some("RUN_LIST: chain without chained_runlist_idle_disable, or the reverse");
    }
    RUN_LIST.misfit(0, words)
}

/// The message for MAP_PROCESS.
pub fn map_process(words: &[u32]) -> Option<&'static str> {
    MAP_PROCESS.misfit(0, words)
}
