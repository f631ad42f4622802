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
use crate::regs::with;

/// How long KIQ may take to leave its HQD.
const LEAVE_TIMEOUT: Delta = Delta::from_millis(100);
/// QUE_SLEEP: about as long as a read of memory takes, rather than the reset value.
const QUE_SLEEP: u32 = 1;

impl Gfx {
    fn kernel_bank(&self, queue: KernelQueue) -> SelectedBank<'_> {
        self.select(GrbmSelect::of_hqd(queue.location(self.mec())))
    }

    /// Says which queue is KIQ and starts it with `image`, an empty ring.
    pub(crate) fn start_kiq(&self, image: &HqdImage) {
        let kiq = KernelQueue::Kiq;
        self.regs.update(
            regs::RLC_CP_SCHEDULERS,
            &[(
                rlc_cp_schedulers::SCHEDULER0,
                scheduler(kiq.location(self.mec())),
            )],
        );
        let bank = self.kernel_bank(kiq);
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

    /// Takes KIQ off the hardware, and clears its HQD: otherwise the next driver's KIQ would not
    /// start (amdgpu: gfx_v9_0_kiq_fini_register). Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if it does not leave.
    pub(crate) fn stop_kiq(&self) -> Result {
        let kiq = KernelQueue::Kiq;
        self.kernel_bank(kiq).regs.write(
            regs::CP_HQD_DEQUEUE_REQUEST,
            cp_hqd_dequeue_request::DEQUEUE_REQ.put(DRAIN),
        );
        let left = kernel::io::poll::read_poll_timeout(
            || Ok(self.kernel_bank(kiq).regs.read(regs::CP_HQD_ACTIVE)),
            |&active| !cp_hqd_active::ACTIVE.is_set(active) || active == GONE,
            Delta::from_micros(50),
            LEAVE_TIMEOUT,
        );
        self.clear(kiq, left.is_ok());
        self.regs.update(
            regs::RLC_CP_SCHEDULERS,
            &[(rlc_cp_schedulers::SCHEDULER0, 0)],
        );
        left.map(|_| ())
    }

    fn clear(&self, queue: KernelQueue, has_left: bool) {
        let bank = self.kernel_bank(queue);
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

    /// The dword of CP_IQ_WAIT_TIME2 in BAR5, and its value for a scheduler that connects many
    /// queues.
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is no such register.
    pub(crate) fn wait_time(&self) -> Result<(u32, u32)> {
        let reg = regs::CP_IQ_WAIT_TIME2;
        let value = with(self.regs.read(reg), cp_iq_wait_time2::QUE_SLEEP, QUE_SLEEP);
        Ok((self.regs.dword(reg).ok_or(ENODEV)?, value))
    }

    /// The doorbell, a dword of BAR2, of the queue in `hqd`; `None` if there is no queue.
    pub(crate) fn active_doorbell(&self, hqd: Hqd) -> Option<u32> {
        let bank = self.bank(hqd);
        let active = bank.regs.read(regs::CP_HQD_ACTIVE);
        let control = bank.regs.read(regs::CP_HQD_PQ_DOORBELL_CONTROL);
        let there = cp_hqd_active::ACTIVE.is_set(active) && bank.regs.is_present();
        there.then(|| cp_hqd_pq_doorbell_control::DOORBELL_OFFSET.get(control))
    }

    /// Kills the work of the queue in `hqd`. The firmware has asked the queue to leave before;
    /// after this call it does.
    pub(crate) fn reset_queue(&self, hqd: Hqd) {
        self.bank(hqd).regs.write(
            regs::SPI_COMPUTE_QUEUE_RESET,
            spi_compute_queue_reset::RESET.flag(true),
        );
    }

    /// Whether the device is present, as far as the driver was notified.
    pub(crate) fn is_present(&self) -> bool {
        self.regs.is_present()
    }

    /// Whether the device answers register reads at all.
    pub(crate) fn answers(&self) -> bool {
        self.regs.read(regs::CP_MEC_CNTL) != GONE
    }
}
