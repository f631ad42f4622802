// SPDX-License-Identifier: GPL-2.0
//! The CP's firmware as a scheduler: KIQ of each XCC maps HIQ there, HIQ takes runlists.

use super::runlist::{Runlist, LIST_DWORDS};
use crate::ip::gfx::Gfx;
use crate::ip::vmid::Vmid;
use crate::kern::pages::SystemPages;
use crate::mem::gart::GartBuffer;
use crate::mem::GpuMemory;
use crate::ring::Pm4Ring;
use hw::asic::Asic;
use hw::kernel_queue::KernelQueue;
use hw::pm4::memory::{release, write_register};
use hw::pm4::schedule::{
    map_queue, query_status, run_list, set_kernel_resources, set_resources, unmap_queues,
    RunlistIb, SetResources, UnmapQueues, RUN_LIST_DWORDS,
};
use hw::runlist_steps::RunlistAnswer;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::{Instant, Monotonic};

/// How long the firmware may take for work that does not need a queue to leave, milliseconds.
const ANSWER_MS: i64 = 1000;
/// How long queues may take to save their waves, milliseconds. After that the firmware gives up
/// waiting for them, and names one, see [`Pm4Ring::has_abandoned`].
const SAVE_MS: i64 = 2000;
/// How long queues may take after their reset, and after the reset of their pipes, milliseconds.
const RESET_MS: i64 = 500;

/// The firmware with its queues and the memory for a list. Dropping it takes the queues off.
pub(super) struct HwsFirmware {
    /// One of each XCC.
    kiqs: KVec<Pm4Ring>,
    hiq: Pm4Ring,
    /// The list that runs, or the next one if none runs.
    list: GartBuffer,
    /// The cleaner, if the firmware runs one.
    cleaner: Option<GartBuffer>,
    gfx: Arc<Gfx>,
    asic: &'static Asic,
}

impl HwsFirmware {
    /// Starts KIQ and HIQ, and tells the firmware which resources it may use.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENOSPC` in the GART; `ETIMEDOUT` if the firmware does not answer; `ENODEV` if the
    /// device is gone.
    pub(super) fn start(gpu: &GpuMemory) -> Result<Self> {
        let pages = SystemPages::alloc(&gpu.hw.dev, LIST_DWORDS * 4)?;
        let cleaner = match gpu.hw.gfx.cleaner() {
            Some(code) => {
                let pages = SystemPages::alloc(&gpu.hw.dev, size_of_val(code))?;
                pages.write32s(0, code)?;
                Some(gpu.gart.bind(pages)?)
            }
            None => None,
        };
        let xccs = gpu.hw.gfx.xccs();
        let mut kiqs = KVec::with_capacity(xccs, GFP_KERNEL)?;
        for xcc in 0..xccs {
            let kiq = Pm4Ring::new(gpu, KernelQueue::Kiq, xcc as u8)?;
            kiqs.push(kiq, GFP_KERNEL)?;
        }
        let mut firmware = Self {
            kiqs,
            hiq: Pm4Ring::new(gpu, KernelQueue::Hiq, 0)?,
            list: gpu.gart.bind(pages)?,
            cleaner,
            gfx: gpu.hw.gfx.clone(),
            asic: gpu.hw.asic,
        };
        for (xcc, kiq) in firmware.kiqs.iter().enumerate() {
            firmware.gfx.start_kiq(xcc, &kiq.image()?);
        }
        firmware.set_up().map_err(|error| {
            if !gpu.hw.is_present() {
                return ENODEV;
            }
            dev_err!(
                &*gpu.hw.dev,
                "the CP's firmware does not start its scheduler\n"
            );
            error
        })?;
        Ok(firmware)
    }

    /// The chip.
    pub(super) fn asic(&self) -> &'static Asic {
        self.asic
    }

    /// Tells the firmware where the cleaner is, which lists that isolate processes need. It knows
    /// that once [`HwsFirmware::knows_cleaner`]. Does not sleep.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if it runs none; `ENODEV` if the device is gone.
    pub(super) fn set_cleaner(&mut self) -> Result {
        let cleaner = self.cleaner.as_ref().ok_or(EOPNOTSUPP)?;
        let mec = &self.asic.mec;
        // amdgpu names HQDs here that have no queue yet.
        let resources = set_kernel_resources(mec.mask_of(mec.unused()), cleaner.mc_addr());
        for kiq in self.kiqs.iter_mut() {
            let (address, number) = kiq.next_fence();
            kiq.submit(&[&resources, &release(address, number)])?;
        }
        Ok(())
    }

    /// Whether the KIQs have processed the packet of [`HwsFirmware::set_cleaner`]. Takes some 20 us
    /// if not, and does not sleep.
    pub(super) fn knows_cleaner(&self) -> bool {
        self.kiqs.iter().all(Pm4Ring::is_done_soon)
    }

    fn set_up(&mut self) -> Result {
        for place in 0..self.kiqs.len() {
            let map = map_queue(self.hiq.map(place as u32));
            self.ask_kiq(place, &map)?;
        }
        let resources = set_resources(SetResources {
            vmids: Vmid::of_firmware(&self.asic.vmids).fold(0, |mask, vmid| mask | 1 << vmid.get()),
            queues: self.asic.mec.user_mask(),
            unmap_latency: SAVE_MS as u32,
            xnack: self.gfx.xnack_mix(),
        });
        let (register, value) = self.gfx.wait_time()?;
        let wait = write_register(register, value);
        let (address, number) = self.hiq.next_fence();
        let fence = query_status(address, number);
        self.hiq.submit(&[&resources, &wait, &fence])?;
        self.hiq.wait(ANSWER_MS)
    }

    /// Makes KIQ of the XCC at `place` process `packet`.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if it does not.
    fn ask_kiq(&mut self, place: usize, packet: &[u32]) -> Result {
        let kiq = self.kiqs.get_mut(place).ok_or(EINVAL)?;
        let (address, number) = kiq.next_fence();
        kiq.submit(&[packet, &release(address, number)])?;
        kiq.wait(ANSWER_MS)
    }

    /// Writes `packet` at dword `at` of the next list, while none runs.
    ///
    /// # Errors
    ///
    /// `EINVAL` beyond the end of the list.
    pub(super) fn write(&self, at: usize, packet: &[u32]) -> Result {
        self.list.write32s(at as u64 * 4, packet)
    }

    /// Runs the list that was written. Does not sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is gone.
    pub(super) fn run(&mut self, list: &Runlist) -> Result {
        let mut dwords = list.dwords;
        if list.again {
            dwords += RUN_LIST_DWORDS;
        }
        let whole = RunlistIb {
            address: self.list.mc_addr(),
            dwords: dwords as u32,
            processes: list.processes,
        };
        if list.again {
            self.write(list.dwords, &run_list(whole, true))?;
        }
        self.hiq.submit(&[&run_list(whole, false)])
    }

    /// Asks all queues of the running list to leave the hardware, which saves their waves. Does not
    /// sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is gone.
    pub(super) fn ask(&mut self) -> Result {
        let (address, number) = self.hiq.next_fence();
        let fence = query_status(address, number);
        self.hiq.clear_abandoned()?;
        self.hiq.submit(&[&unmap_queues(UnmapQueues::All), &fence])
    }

    /// Whether the queues that were asked to leave `since` then have left. Takes some 20 us if they
    /// have not, and does not sleep.
    pub(super) fn answer(&self, since: Instant<Monotonic>) -> RunlistAnswer {
        // Looked at after the clock: a late thread still finds a fence that was written in time.
        let waited = since.elapsed();
        match self.hiq.is_done_soon() {
            true if self.hiq.has_abandoned() => RunlistAnswer::Late,
            true => RunlistAnswer::Left,
            false if waited.as_millis() >= SAVE_MS + ANSWER_MS => RunlistAnswer::Late,
            false => RunlistAnswer::Outstanding,
        }
    }

    /// Resets the queues that have not left; `hangs` is called with the doorbell of each, a dword
    /// of the BAR, once or more. Bounded; may sleep.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if the reset does not help; `ENODEV` if the device is gone.
    pub(super) fn force(&mut self, hangs: &mut dyn FnMut(u32)) -> Result {
        if !self.gfx.answers() {
            return Err(ENODEV);
        }
        // The firmware has asked all of them, and may have given up: a queue that is still on the
        // hardware has not answered.
        let stays = |hangs: &mut dyn FnMut(u32), hqd| {
            let doorbell = self.gfx.active_doorbell(hqd);
            doorbell.inspect(|&doorbell| hangs(doorbell)).is_some()
        };
        for hqd in self.asic.mec.hqds() {
            if stays(hangs, hqd) {
                self.gfx.reset_queue(hqd);
            }
        }
        if self.wait_empty().is_ok() {
            return Ok(());
        }
        for hqd in self.asic.mec.hqds() {
            if stays(hangs, hqd) {
                self.gfx.reset_pipe(hqd.pipe());
            }
        }
        self.wait_empty()
    }

    /// Waits until no queue is on the hardware and the firmware has confirmed that it goes on.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` after [`RESET_MS`].
    fn wait_empty(&self) -> Result {
        let is_empty = || {
            self.asic
                .mec
                .hqds()
                .all(|hqd| self.gfx.active_doorbell(hqd).is_none())
        };
        self.hiq.wait_and(RESET_MS, &mut || is_empty())
    }
}

impl Drop for HwsFirmware {
    fn drop(&mut self) {
        if !self.gfx.answers() {
            return;
        }
        // The MECs are halted next, or never started to work.
        let unmap = unmap_queues(UnmapQueues::Reset(self.hiq.doorbell()));
        for place in 0..self.kiqs.len() {
            let _ = self.ask_kiq(place, &unmap);
        }
        let _ = self.gfx.stop_kiqs();
    }
}
