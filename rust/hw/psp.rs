// SPDX-License-Identifier: GPL-2.0
//! Data that the PSP (MP0, 13.0) and a driver exchange: commands in a page, frames in a ring, words
//! in mailboxes (amdgpu: psp_gfx_if.h, psp_v13_0.c).

use crate::bits::{hi, lo, Field};

/// C2PMSG_35 and _64: the PSP has finished the last command; the other bits are its result.
pub const READY: u32 = 1 << 31;
/// C2PMSG_35: the bootloader's result for the last image, 0 if there is no error.
pub const BOOTLOADER_CODE: Field = Field::new(15, 0);
/// C2PMSG_64: the result of the last command, 0 for success.
pub const RING_STATUS: Field = Field::new(15, 0);
/// C2PMSG_36: unit of the image's MC address, log2 of bytes.
pub const BOOTLOADER_ADDRESS_SHIFT: u32 = 20;
/// C2PMSG_64: make a ring for kernels (GFX_CTRL_CMD_ID_INIT_GPCOM_RING).
pub const MAKE_RING: u32 = 2 << 16;
/// C2PMSG_64: destroy the rings (GFX_CTRL_CMD_ID_DESTROY_RINGS).
pub const DESTROY_RINGS: u32 = 3 << 16;

/// C2PMSG_35: the bootloader takes an image, which is this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum BootloaderCommand {
    /// PSP_BL__LOAD_SYSDRV.
    SystemDriver = 0x1_0000,
    /// PSP_BL__LOAD_SOSDRV.
    SecureOs = 0x2_0000,
    /// PSP_BL__LOAD_KEY_DATABASE.
    KeyDatabase = 0x8_0000,
    /// PSP_BL__LOAD_SOCDRV.
    SocDriver = 0xb_0000,
    /// PSP_BL__LOAD_DBGDRV.
    DebugDriver = 0xc_0000,
    /// PSP_BL__LOAD_INTFDRV.
    InterfaceDriver = 0xd_0000,
    /// PSP_BL__LOAD_RASDRV.
    RasDriver = 0xe_0000,
}

/// What an image of LOAD_IP_FW is (`psp_gfx_fw_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum PspImageType {
    /// GFX_FW_TYPE_CP_MEC.
    Mec = 4,
    /// GFX_FW_TYPE_CP_MEC_ME1.
    MecJumpTable = 5,
    /// GFX_FW_TYPE_RLC_G.
    Rlc = 8,
    /// GFX_FW_TYPE_SDMA0.
    Sdma0 = 9,
    /// GFX_FW_TYPE_SDMA1.
    Sdma1 = 10,
    /// GFX_FW_TYPE_SMU.
    Smu = 18,
    /// GFX_FW_TYPE_RLC_RESTORE_LIST_GPM_MEM.
    RestoreGpm = 20,
    /// GFX_FW_TYPE_RLC_RESTORE_LIST_SRM_MEM.
    RestoreSrm = 21,
    /// GFX_FW_TYPE_RLC_RESTORE_LIST_CNTL.
    RestoreControl = 22,
    /// GFX_FW_TYPE_SDMA2.
    Sdma2 = 52,
    /// GFX_FW_TYPE_SDMA3.
    Sdma3 = 53,
    /// GFX_FW_TYPE_SDMA4.
    Sdma4 = 54,
    /// GFX_FW_TYPE_REG_LIST.
    RegisterList = 67,
    /// GFX_FW_TYPE_P2S_TABLE.
    SmuTable = 129,
}

/// Bytes of the ring.
pub const RING_BYTES: u32 = 0x1000;
/// Dwords of it, by which the write pointer wraps.
const RING_DWORDS: u32 = RING_BYTES / 4;
/// Dwords of a frame.
const FRAME_DWORDS: usize = 16;
/// Bytes of the command page that a command has.
const COMMAND_BYTES: usize = 1024;
/// Dwords of that.
const COMMAND_DWORDS: usize = COMMAND_BYTES / 4;
/// Where in it the response is: bytes.
pub const RESPONSE_AT: u64 = 0x360;
/// Where the number of a TA's session is, in the response to its load: bytes.
pub const SESSION_AT: u64 = RESPONSE_AT + 4;

/// The status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PspStatus(pub u32);

impl PspStatus {
    /// The command has been done.
    pub const OK: Self = Self(0);
    /// A register list was already loaded: harmless.
    pub const CANCELLED: Self = Self(0xffff_0002);
}

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PspCommand {
    /// Gives the PSP memory of its own, which from then on only the PSP can access.
    SetupTmr {
        /// MC address of its first byte.
        mc: u64,
        /// Physical address of the same.
        physical: u64,
        /// Bytes.
        bytes: u32,
    },
    /// Checks an image, and loads it to its destination.
    LoadIpFw {
        /// MC address of its first byte.
        mc: u64,
        /// Bytes.
        bytes: u32,
        /// What it is.
        kind: PspImageType,
    },
    /// Tells a PSP that has had memory of its own from the start to use it (SETUP_TMR without an
    /// address).
    UseOwnTmr,
    /// Takes the memory back.
    DestroyTmr,
    /// Loads a trusted application (TA), which shares a buffer with the driver.
    LoadTa {
        /// MC address of its image.
        mc: u64,
        /// Bytes of that.
        bytes: u32,
        /// MC address of the buffer.
        buffer: u64,
        /// Bytes of that.
        buffer_bytes: u32,
    },
    /// Unloads a TA.
    UnloadTa {
        /// Its session.
        session: u32,
    },
    /// Has a TA execute the command in the buffer.
    InvokeTa {
        /// Its session.
        session: u32,
        /// The command's number.
        command: u32,
    },
    /// Divides the XCCs into so many partitions (GFX_CMD_ID_SRIOV_SPATIAL_PART).
    Partition {
        /// The number of them.
        count: u32,
    },
}

/// SETUP_TMR: the physical address is valid, too.
const VIRTUAL_AND_PHYSICAL: u32 = 1 << 1;
/// Dword of a command's number, and of its first argument.
const ID_AT: usize = 2;
const ARGUMENTS_AT: usize = 7;

impl PspCommand {
    /// Its number.
    pub const fn id(self) -> u32 {
        match self {
            Self::LoadTa { .. } => 1,
            Self::UnloadTa { .. } => 2,
            Self::InvokeTa { .. } => 3,
            Self::SetupTmr { .. } | Self::UseOwnTmr => 5,
            Self::LoadIpFw { .. } => 6,
            Self::DestroyTmr => 7,
            Self::Partition { .. } => 0x27,
        }
    }

    /// The contents of the command page.
    pub fn dwords(self) -> [u32; COMMAND_DWORDS] {
        let arguments = match self {
            Self::SetupTmr {
                mc,
                physical,
                bytes,
            } => [
                lo(mc),
                hi(mc),
                bytes,
                VIRTUAL_AND_PHYSICAL,
                lo(physical),
                hi(physical),
            ],
            Self::LoadTa {
                mc,
                bytes,
                buffer,
                buffer_bytes,
            } => [lo(mc), hi(mc), bytes, lo(buffer), hi(buffer), buffer_bytes],
            Self::UnloadTa { session } => [session, 0, 0, 0, 0, 0],
            Self::InvokeTa { session, command } => [session, command, 0, 0, 0, 0],
            Self::LoadIpFw { mc, bytes, kind } => [lo(mc), hi(mc), bytes, kind as u32, 0, 0],
            Self::UseOwnTmr => [0, 0, 0, VIRTUAL_AND_PHYSICAL, 0, 0],
            Self::DestroyTmr => [0; 6],
            Self::Partition { count } => [count, 0, 0, 0, 0, 0],
        };
        let mut dwords = [0; COMMAND_DWORDS];
        dwords[ID_AT] = self.id();
        dwords[ARGUMENTS_AT..ARGUMENTS_AT + arguments.len()].copy_from_slice(&arguments);
        dwords
    }
}

/// A frame of the ring: the command page at MC address `command`, and `value` for the fence word at
/// `fence` when the command is done.
pub fn frame(command: u64, fence: u64, value: u32) -> [u32; FRAME_DWORDS] {
    let mut dwords = [0; FRAME_DWORDS];
    dwords[0] = lo(command);
    dwords[1] = hi(command);
    dwords[3] = lo(fence);
    dwords[4] = hi(fence);
    dwords[5] = value;
    dwords
}

/// The offset of the frame in the ring, bytes, and the write pointer after it, for the write
/// pointer `wptr`, dwords. `None` if no frame can begin there.
pub fn place(wptr: u32) -> Option<(u64, u32)> {
    let frame = FRAME_DWORDS as u32;
    if wptr >= RING_DWORDS || wptr % frame != 0 {
        return None;
    }
    Some((u64::from(wptr) * 4, (wptr + frame) % RING_DWORDS))
}
