// SPDX-License-Identifier: GPL-2.0
//! MP 13.0: mailboxes of the PSP (MP0) and of the SMU (MP1). Their contents are described in
//! [`hw::psp`] and [`hw::smu`].

use super::registers;

registers! {
    /// PSP: the status of the flash chip's firmware.
    MP0_C2PMSG_33 @ 0, 0x61 as mp0_c2pmsg_33 {
        /// It has run.
        READY[31:31]
    };
    /// PSP: command to the bootloader, and its response.
    MP0_C2PMSG_35 @ 0, 0x63;
    /// PSP: the address of the bootloader's image.
    MP0_C2PMSG_36 @ 0, 0x64;
    /// PSP: version of the secure OS.
    MP0_C2PMSG_58 @ 0, 0x7a;
    /// PSP: command about rings, and its response.
    MP0_C2PMSG_64 @ 0, 0x80;
    /// PSP: the ring's write pointer, dwords.
    MP0_C2PMSG_67 @ 0, 0x83;
    /// PSP: the ring's MC address, low half.
    MP0_C2PMSG_69 @ 0, 0x85;
    /// PSP: its high half.
    MP0_C2PMSG_70 @ 0, 0x86;
    /// PSP: the ring's size in bytes.
    MP0_C2PMSG_71 @ 0, 0x87;
    /// PSP: the secure OS is running.
    MP0_C2PMSG_81 @ 0, 0x91;
    /// SMU: message.
    MP1_C2PMSG_66 @ 0, 0x282;
    /// SMU: argument, and result.
    MP1_C2PMSG_82 @ 0, 0x292;
    /// SMU: response.
    MP1_C2PMSG_90 @ 0, 0x29a;
}
