// SPDX-License-Identifier: GPL-2.0
//! Registers of the interrupt handler that more than one file writes: the switches of its rings and
//! of its retry CAM.

use hw::doorbell::Doorbell;

use crate::regs::osssys::{
    self as regs, ih_doorbell_rptr, ih_rb_cntl as cntl, ih_retry_int_cam_cntl,
};
use crate::regs::RegisterWindow;

/// Turns the rings of the block of `regs` off, also those that only another driver uses, and the
/// retry CAM.
pub(in crate::ip) fn turn_off(regs: &RegisterWindow) {
    regs.update(
        regs::IH_RB_CNTL,
        &[(cntl::RB_ENABLE, 0), (cntl::ENABLE_INTR, 0)],
    );
    for &ring in regs::other_rings(regs.version()) {
        regs.update(ring, &[(cntl::RB_ENABLE, 0)]);
    }
    regs.write(regs::IH_DOORBELL_RPTR, 0);
    enable_cam(regs, false);
    regs.write(regs::IH_DOORBELL_RETRY_CAM, 0);
}

/// Turns the retry CAM of the block of `regs` on. Its entries are acknowledged by `doorbell`.
pub(in crate::ip) fn start_cam(regs: &RegisterWindow, doorbell: Doorbell) {
    regs.write(
        regs::IH_DOORBELL_RETRY_CAM,
        ih_doorbell_rptr::OFFSET.put(doorbell.dword()) | ih_doorbell_rptr::ENABLE.flag(true),
    );
    enable_cam(regs, true);
}

fn enable_cam(regs: &RegisterWindow, on: bool) {
    regs.update(
        regs::IH_RETRY_INT_CAM_CNTL,
        &[(ih_retry_int_cam_cntl::ENABLE, on.into())],
    );
}
