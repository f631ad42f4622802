// SPDX-License-Identifier: GPL-2.0
//! Work that the driver does by registers if the CP's firmware schedules queues: KIQ, and queues
//! that hang.

use kernel::prelude::*;
use kernel::time::Delta;

use hw::bits::{hi, lo};
use hw::kernel_queue::{scheduler, KernelQueue};
use hw::mqd::hqd::HqdImage;
use hw::queue::Hqd;

use super::{Gfx, GrbmSelect, SelectedBank, DRAIN};
use crate::kern::mmio::GONE;
use crate::regs::gc::{
    self as regs, cp_hqd_active, cp_hqd_dequeue_request, cp_hqd_pq_doorbell_control,
    cp_iq_wait_time2, rlc_cp_schedulers, spi_compute_queue_reset,
};
use crate::regs::{with, RegisterWindow};

/// How long KIQ may take to leave its HQD.
const LEAVE_TIMEOUT: Delta = Delta::from_millis(100);
/// QUE_SLEEP: about as long as a read of memory takes, rather than the reset value.
const QUE_SLEEP: u32 = 1;

/// The number that a packet has for the register at `dword` of BAR5 of an XCC: that of the first
/// one, which an XCC takes for its own (amdgpu: gfx_v9_4_3_normalize_xcc_reg_offset).
const fn own_register(dword: u32) -> u32 {
    dword & 0xffff
}

impl Gfx {
    fn kernel_bank<'a>(&'a self, xcc: &'a RegisterWindow, queue: KernelQueue) -> SelectedBank<'a> {
        self.select(xcc, GrbmSelect::of_hqd(queue.location(self.mec())))
    }

    /// Says which queue is KIQ of XCC `xcc` and starts it with `image`, an empty ring.
    pub(crate) fn start_kiq(&self, xcc: usize, image: &HqdImage) {
        let kiq = KernelQueue::Kiq;
        let Some(xcc) = self.xccs.get(xcc) else {
            return;
        };
        xcc.update(
            regs::RLC_CP_SCHEDULERS,
            &[(
                rlc_cp_schedulers::SCHEDULER0,
                scheduler(kiq.location(self.mec())),
            )],
        );
        let bank = self.kernel_bank(xcc, kiq);
        let r = bank.regs;
        for (n, dword) in (0..).zip(image.dwords()) {
            r.write(regs::HQD.nth(n, 1), *dword);
        }
        r.write(regs::CP_HQD_PQ_DOORBELL_CONTROL, image.doorbell_enabled());
        let pointer = image.resume_write_pointer();
        r.write(regs::CP_HQD_PQ_WPTR_LO, lo(pointer));
        r.write(regs::CP_HQD_PQ_WPTR_HI, hi(pointer));
        r.write(regs::CP_HQD_EOP_RPTR, image.eop_started());
        r.write(regs::CP_HQD_ACTIVE, cp_hqd_active::ACTIVE.flag(true));
    }

    /// Takes the KIQs off the hardware, and clears their HQDs: the next driver's would not start
    /// otherwise (amdgpu: gfx_v9_0_kiq_fini_register). Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if one does not leave.
    pub(crate) fn stop_kiqs(&self) -> Result {
        let stopped = self.xccs.iter().map(|xcc| self.stop_kiq(xcc));
        stopped.fold(Ok(()), Result::and)
    }

    fn stop_kiq(&self, xcc: &RegisterWindow) -> Result {
        let kiq = KernelQueue::Kiq;
        self.kernel_bank(xcc, kiq).regs.write(
            regs::CP_HQD_DEQUEUE_REQUEST,
            cp_hqd_dequeue_request::DEQUEUE_REQ.put(DRAIN),
        );
        let left = kernel::io::poll::read_poll_timeout(
            || Ok(self.kernel_bank(xcc, kiq).regs.read(regs::CP_HQD_ACTIVE)),
            |&active| !cp_hqd_active::ACTIVE.is_set(active) || active == GONE,
            Delta::from_micros(50),
            LEAVE_TIMEOUT,
        );
        self.clear(xcc, kiq, left.is_ok());
        xcc.update(
            regs::RLC_CP_SCHEDULERS,
            &[(rlc_cp_schedulers::SCHEDULER0, 0)],
        );
        left.map(|_| ())
    }

    fn clear(&self, xcc: &RegisterWindow, queue: KernelQueue, has_left: bool) {
        let bank = self.kernel_bank(xcc, queue);
        let r = bank.regs;
        if !has_left {
            r.write(regs::CP_HQD_ACTIVE, 0);
        }
        let doorbell = regs::CP_HQD_PQ_DOORBELL_CONTROL;
        for (reg, value) in [
            (regs::CP_HQD_DEQUEUE_REQUEST, 0),
            (regs::CP_HQD_IQ_TIMER, 0),
            (regs::CP_HQD_IB_CONTROL, 0),
            (regs::CP_HQD_PERSISTENT_STATE, 0),
            // The doorbell's offset first, then its enable bit.
            (doorbell, cp_hqd_pq_doorbell_control::DOORBELL_EN.flag(true)),
            (doorbell, 0),
            (regs::CP_HQD_PQ_RPTR, 0),
            (regs::CP_HQD_PQ_WPTR_HI, 0),
            (regs::CP_HQD_PQ_WPTR_LO, 0),
        ] {
            r.write(reg, value);
        }
    }

    /// The number of CP_IQ_WAIT_TIME2 in packets, and its value for a scheduler that connects many
    /// queues. It is the register of the XCC that executes the packet.
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is no such register.
    pub(crate) fn wait_time(&self) -> Result<(u32, u32)> {
        let reg = regs::CP_IQ_WAIT_TIME2;
        let first = self.xccs.first().ok_or(ENODEV)?;
        let value = with(first.read(reg), cp_iq_wait_time2::QUE_SLEEP, QUE_SLEEP);
        Ok((own_register(first.dword(reg).ok_or(ENODEV)?), value))
    }

    /// The doorbell, a dword of BAR2, of the queue in `hqd` of any XCC; `None`: there is no queue.
    pub(crate) fn active_doorbell(&self, hqd: Hqd) -> Option<u32> {
        self.xccs.iter().find_map(|xcc| {
            let bank = self.bank(xcc, hqd);
            let active = bank.regs.read(regs::CP_HQD_ACTIVE);
            let control = bank.regs.read(regs::CP_HQD_PQ_DOORBELL_CONTROL);
            let there = cp_hqd_active::ACTIVE.is_set(active) && bank.regs.is_present();
            there.then(|| cp_hqd_pq_doorbell_control::DOORBELL_OFFSET.get(control))
        })
    }

    /// Kills the work of the queue in `hqd`. The firmware has asked the queue to leave before;
    /// after this call it does.
    pub(crate) fn reset_queue(&self, hqd: Hqd) {
        for xcc in &self.xccs {
            self.bank(xcc, hqd).regs.write(
                regs::SPI_COMPUTE_QUEUE_RESET,
                spi_compute_queue_reset::RESET.flag(true),
            );
        }
    }

    /// Whether the device is present, as far as the driver was notified.
    pub(crate) fn is_present(&self) -> bool {
        self.xccs.iter().all(RegisterWindow::is_present)
    }

    /// Whether the device answers register reads at all.
    pub(crate) fn answers(&self) -> bool {
        let answers = |xcc: &RegisterWindow| xcc.read(regs::CP_MEC_CNTL) != GONE;
        self.xccs.iter().all(answers)
    }
}
