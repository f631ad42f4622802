// SPDX-License-Identifier: GPL-2.0
//! GC 9.4's command processor: the compute micro engines (MECs) and their hardware queue slots
//! (HQDs).

mod firmware;
mod golden;
mod hal;

use kernel::device::Device;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_mutex, Arc, Mutex, MutexGuard};
use kernel::time::delay::fsleep;
use kernel::time::Delta;

use hw::asic::{Asic, GfxInfo};
use hw::bits::{lo, Field};
use hw::cleaner::Cleaner;
use hw::debug::WatchPoint;
use hw::ip::{IpBlock, IpTable};
use hw::mqd::hqd::HqdImage;
use hw::queue::{Hqd, HqdLocation, MecInfo};
use hw::topology::cus::ComputeUnits;
use hw::trap::TrapHandler;
use hw::va::SH_MEM_BASES;
use hw::xnack_mix::XnackMix;

use hal::GcHal;

use super::shader_array::ShaderArray;
use super::vmid::Vmid;
use crate::kern::mmio::Mmio;
use crate::regs::gc::{
    self as regs, cc_gc_shader_array_config, cp_hqd_active, cp_hqd_dequeue_request, cp_mec_cntl,
    cp_mec_doorbell_range, cp_pq_status, cp_pq_wptr_poll_cntl, cpc_int_cntl, grbm_cntl,
    grbm_gfx_cntl, grbm_status, sh_mem_config, spi_compute_queue_reset, spi_gdbg_per_vmid_cntl,
    sq_config1,
};
use crate::regs::hub::VMIDS;
use crate::regs::smuio::DiePlace;
use crate::regs::{bit, with, RegisterWindow};

/// How long the MECs take to halt or to run.
const MEC_PAUSE: Delta = Delta::from_micros(50);
/// How long a pipe is held in reset.
const RESET_PAUSE: Delta = Delta::from_millis(1);
/// READ_TIMEOUT of the GRBM, its largest.
const READ_TIMEOUT: u32 = 0xff;
/// ALIGNMENT_MODE: any.
const UNALIGNED: u32 = 3;

/// DEQUEUE_REQ: after the packets that are under way, of a queue without waves.
const DRAIN: u32 = 1;
/// DEQUEUE_REQ: without its waves.
const RESET_WAVES: u32 = 2;
/// DEQUEUE_REQ: its waves are saved, the trap handler does that.
const SAVE: u32 = 3;

/// The banks of registers of which one at a time is accessed (GRBM_GFX_CNTL).
#[derive(Clone, Copy)]
struct GrbmSelect {
    me: u8,
    pipe: u8,
    queue: u8,
    vmid: u32,
}

impl GrbmSelect {
    /// The registers of an HQD.
    fn of_hqd(hqd: HqdLocation) -> Self {
        Self {
            me: hqd.me,
            pipe: hqd.pipe,
            queue: hqd.queue,
            vmid: 0,
        }
    }

    /// The registers that a VMID has one each of.
    fn of_vmid(vmid: u32) -> Self {
        Self {
            me: 0,
            pipe: 0,
            queue: 0,
            vmid,
        }
    }
}

/// The block.
#[pin_data]
pub(crate) struct Gfx {
    /// The registers of each XCC.
    xccs: KVec<RegisterWindow>,
    hal: &'static dyn GcHal,
    asic: &'static Asic,
    df: Option<RegisterWindow>,
    /// Which die of its package it is on.
    die: u32,
    /// The version of the MEC's firmware; 0 if it is not known.
    firmware: Atomic<u32>,
    /// How many queues have been made, see [`Gfx::next_first`].
    queues: Atomic<u32>,
    /// Held while a bank is selected. Nothing else is taken, waited for or allocated under it.
    #[pin]
    banks: Mutex<HqdBanks>,
    /// Held while MEC_CNTL changes, also while a pipe is in reset: so that a pipe that leaves its
    /// reset does not let MECs run that were halted meanwhile. Nothing is allocated under it.
    #[pin]
    control: Mutex<()>,
}

/// The contents of the registers of user HQDs without a queue, by XCC and the HQD's index, where
/// they are known.
struct HqdBanks {
    held: KVec<Option<HqdImage>>,
    /// HQDs of an XCC.
    hqds: usize,
}

impl HqdBanks {
    fn place(&mut self, xcc: usize, hqd: Hqd) -> Option<&mut Option<HqdImage>> {
        let first = xcc.saturating_mul(self.hqds);
        self.held.get_mut(first + usize::from(hqd.index()))
    }

    fn save(&mut self, xcc: usize, hqd: Hqd, image: Option<HqdImage>) {
        if let Some(held) = self.place(xcc, hqd) {
            *held = image;
        }
    }

    fn load(&mut self, xcc: usize, hqd: Hqd) -> Option<HqdImage> {
        self.place(xcc, hqd)?.take()
    }
}

/// A selected bank, until this is dropped. It then stays selected, as every access to registers of
/// a bank selects one first.
struct SelectedBank<'a> {
    regs: &'a RegisterWindow,
    banks: MutexGuard<'a, HqdBanks>,
}

impl SelectedBank<'_> {
    fn set(&self, select: GrbmSelect) {
        self.regs.write(
            regs::GRBM_GFX_CNTL,
            grbm_gfx_cntl::MEID.put(select.me.into())
                | grbm_gfx_cntl::PIPEID.put(select.pipe.into())
                | grbm_gfx_cntl::QUEUEID.put(select.queue.into())
                | grbm_gfx_cntl::VMID.put(select.vmid),
        );
    }

    /// Of the selected VMID.
    fn set_trap_handler(&self, handler: TrapHandler) {
        for (n, value) in (0..).zip(handler.registers()) {
            self.regs.write(regs::SQ_SHADER_TBA_LO.nth(n, 1), value);
        }
    }
}

/// SH_MEM_CONFIG of a VMID of a chip with the CUs `gfx`, whose waves wait for pages that are not
/// there (XNACK), or do not.
pub(crate) fn sh_mem_config(gfx: &GfxInfo, retries: bool) -> u32 {
    sh_mem_config::ALIGNMENT_MODE.put(UNALIGNED)
        | sh_mem_config::F8_MODE.flag(gfx.has_f8_mode)
        | sh_mem_config::RETRY_DISABLE.flag(!retries)
        | sh_mem_config::ADDRESS_MODE.put(0)
}

impl Gfx {
    /// The block of the GPU whose blocks are `ips`.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the GPU has none, or one of a version that the driver does not know; `ENOMEM`.
    pub(crate) fn new(
        dev: &Device,
        mmio: &Arc<Mmio>,
        ips: IpTable<'_>,
        asic: &'static Asic,
    ) -> Result<Arc<Self>> {
        let hal = hal::choose(dev, ips)?;
        let xccs = RegisterWindow::each(mmio, ips, IpBlock::Gc)?;
        let df = RegisterWindow::new(mmio, ips, IpBlock::Df, 0).ok();
        let smuio = RegisterWindow::new(mmio, ips, IpBlock::Smuio, 0)?;
        let die = DiePlace::read(&smuio).die;
        let hqds = usize::from(asic.mec.user_hqds());
        let banks = HqdBanks {
            held: KVec::from_elem(None, hqds * xccs.len(), GFP_KERNEL)?,
            hqds,
        };
        Arc::pin_init(
            pin_init!(Self {
                xccs,
                hal,
                asic,
                df,
                die,
                firmware: Atomic::new(0),
                queues: Atomic::new(0),
                banks <- new_mutex!(banks, "Gfx::banks"),
                control <- new_mutex!((), "Gfx::control"),
            }),
            GFP_KERNEL,
        )
    }

    /// The micro engines and their HQDs.
    pub(crate) fn mec(&self) -> &'static MecInfo {
        &self.asic.mec
    }

    /// Sets the version of the MEC's firmware, before [`Gfx::set_up`]; 0 if it is not known.
    pub(crate) fn set_firmware_version(&self, version: u32) {
        self.firmware.store(version, Relaxed);
    }

    /// How that firmware takes processes with XNACK on beside such with it off.
    pub(crate) fn xnack_mix(&self) -> XnackMix {
        XnackMix::of(&self.asic.mec, self.firmware.load(Relaxed))
    }

    /// The words of the cleaner, if that firmware runs one.
    pub(crate) fn cleaner(&self) -> Option<&'static [u32]> {
        Cleaner::of(self.asic.cleaner.as_ref(), self.firmware.load(Relaxed))
    }

    /// The compute units of this block that work, by its fuses; `None` where none does. Called
    /// before the block has any other user.
    pub(crate) fn compute_units(&self) -> Option<ComputeUnits> {
        ComputeUnits::new(self.asic, |xcc, engine, array| {
            let Some(r) = self.xccs.get(xcc as usize) else {
                return u32::MAX;
            };
            let _selected = ShaderArray::select(r, engine, array);
            let fused_off = r.read(regs::CC_GC_SHADER_ARRAY_CONFIG);
            let switched_off = r.read(regs::GC_USER_SHADER_ARRAY_CONFIG);
            cc_gc_shader_array_config::INACTIVE_CUS.get(fused_off | switched_off)
        })
    }

    /// How many XCCs there are.
    pub(crate) fn xccs(&self) -> usize {
        self.xccs.len()
    }

    /// The place of the XCC that gets the first workgroups of the next queue: another one each
    /// time, so that small dispatches of many queues are spread (amdgpu: init_mqd_v9_4_3).
    pub(crate) fn next_first(&self) -> u32 {
        self.queues.fetch_add(1, Relaxed)
    }

    fn select<'a>(&'a self, regs: &'a RegisterWindow, select: GrbmSelect) -> SelectedBank<'a> {
        let bank = SelectedBank {
            banks: self.banks.lock(),
            regs,
        };
        bank.set(select);
        bank
    }

    /// An HQD of the XCC with the registers `regs`.
    fn bank<'a>(&'a self, regs: &'a RegisterWindow, hqd: Hqd) -> SelectedBank<'a> {
        self.select(regs, GrbmSelect::of_hqd(hqd.location()))
    }

    /// The registers of a VMID in the XCC with the registers `regs`.
    fn vmid_bank<'a>(&'a self, regs: &'a RegisterWindow, vmid: u32) -> SelectedBank<'a> {
        self.select(regs, GrbmSelect::of_vmid(vmid))
    }

    /// Whether neither the command processor nor any compute unit is at work (GRBM_STATUS).
    pub(super) fn is_idle(&self) -> bool {
        let is_idle =
            |r: &RegisterWindow| grbm_status::GUI_ACTIVE.get(r.read(regs::GRBM_STATUS)) == 0;
        self.xccs.iter().all(is_idle)
    }

    /// Sets up the registers that shaders and queues need, and leaves the MECs halted; `doorbells`
    /// bytes of the doorbell BAR may be theirs. Context: may sleep.
    pub(crate) fn set_up(&self, doorbells: u64) {
        self.halt(true);
        self.banks.lock().held.fill(None);
        for (place, xcc) in (0..).zip(&self.xccs) {
            self.set_up_xcc(place, xcc, doorbells);
        }
    }

    /// The XCC with the registers `r`, at this place among all of them.
    fn set_up_xcc(&self, place: u32, r: &RegisterWindow, doorbells: u64) {
        self.hal
            .apply_golden(r, self.df.as_ref(), &self.asic.golden, self.die);
        self.hal.work_together(r, place, self.asic.gfx.xccs);
        r.update(regs::GRBM_CNTL, &[(grbm_cntl::READ_TIMEOUT, READ_TIMEOUT)]);
        self.hal.clear_trap_data(r);
        if self.xnack_mix() == XnackMix::Chained {
            // amdgpu: gfx_v9_4_2_init_sq.
            r.update(
                regs::SQ_CONFIG1,
                &[(sq_config1::DISABLE_XNACK_CHECK_IN_RETRY_DISABLE, 1)],
            );
        }
        for vmid in 0..VMIDS {
            let bank = self.vmid_bank(r, vmid);
            r.write(regs::SH_MEM_CONFIG, sh_mem_config(&self.asic.gfx, false));
            // The driver's own VMID has no waves, and no apertures.
            let bases = if vmid == 0 { 0 } else { SH_MEM_BASES };
            r.write(regs::SH_MEM_BASES, bases);
            bank.set_trap_handler(TrapHandler::default());
            if vmid != 0 {
                r.write(
                    regs::SPI_GDBG_PER_VMID_CNTL,
                    spi_gdbg_per_vmid_cntl::TRAP_EN.flag(true),
                );
            }
            drop(bank);
            if vmid == 0 {
                continue;
            }
            // No process has any of the global data share. VMID 0 keeps it all, as it is out of
            // reset: the firmware saves and restores with it (gfx_v9_0_init_gds_vmid).
            r.write(regs::GDS_VMID0_BASE.nth(vmid, 2), 0);
            r.write(regs::GDS_VMID0_BASE.nth(1, 1).nth(vmid, 2), 0);
            r.write(regs::GDS_GWS_VMID0.nth(vmid, 1), 0);
            r.write(regs::GDS_OA_VMID0.nth(vmid, 1), 0);
        }
        r.update(regs::CP_PQ_WPTR_POLL_CNTL, &[(cp_pq_wptr_poll_cntl::EN, 0)]);
        r.write(
            regs::CP_MEC_DOORBELL_RANGE_LOWER,
            cp_mec_doorbell_range::DWORD.put(0),
        );
        r.write(
            regs::CP_MEC_DOORBELL_RANGE_UPPER,
            cp_mec_doorbell_range::DWORD.put(lo(doorbells / 4).saturating_sub(1)),
        );
        r.update(regs::CP_PQ_STATUS, &[(cp_pq_status::DOORBELL_ENABLE, 1)]);
        let mec = self.mec();
        for pipe in 0..mec.pipes {
            let first = HqdLocation {
                me: mec.user,
                pipe,
                queue: 0,
            };
            let _bank = self.select(r, GrbmSelect::of_hqd(first));
            r.write(
                regs::CPC_INT_CNTL,
                cpc_int_cntl::TIME_STAMP_INT_ENABLE.flag(true)
                    | cpc_int_cntl::OPCODE_ERROR_INT_ENABLE.flag(true)
                    | cpc_int_cntl::PRIV_REG_INT_ENABLE.flag(true)
                    | cpc_int_cntl::RESERVED_BIT_ERROR_INT_ENABLE.flag(true),
            );
        }
    }

    /// Lets the MECs run, with no queue. Context: may sleep.
    pub(crate) fn run(&self) {
        self.halt(false);
        for xcc in &self.xccs {
            self.hal.heed_power_brake(xcc);
        }
    }

    /// The trap handler that waves of `vmid` run from the next trap on.
    pub(crate) fn set_trap_handler(&self, vmid: Vmid, handler: TrapHandler) {
        for xcc in &self.xccs {
            self.vmid_bank(xcc, vmid.get().into())
                .set_trap_handler(handler);
        }
    }

    /// Whether waves of `vmid`, of which there are none, wait for pages that are not there.
    pub(crate) fn set_retries(&self, vmid: Vmid, retries: bool) {
        for xcc in &self.xccs {
            let bank = self.vmid_bank(xcc, vmid.get().into());
            bank.regs
                .write(regs::SH_MEM_CONFIG, sh_mem_config(&self.asic.gfx, retries));
        }
    }

    /// Halts the MECs, whatever they are doing, and selects the bank that is selected out of reset.
    /// Context: may sleep.
    pub(crate) fn stop(&self) {
        for xcc in &self.xccs {
            xcc.update(regs::CP_PQ_STATUS, &[(cp_pq_status::DOORBELL_ENABLE, 0)]);
        }
        self.halt(true);
        for xcc in &self.xccs {
            drop(self.vmid_bank(xcc, 0));
        }
    }

    /// Empties the HQDs of both MECs, which are halted, of any owner's queues (amdgpu:
    /// gfx_v9_0_kiq_fini_register, for a queue that does not leave by itself).
    pub(super) fn drop_queues(&self) {
        for xcc in &self.xccs {
            for place in self.mec().all_hqds() {
                let bank = self.select(xcc, GrbmSelect::of_hqd(place));
                if cp_hqd_active::ACTIVE.is_set(bank.regs.read(regs::CP_HQD_ACTIVE)) {
                    bank.regs.write(regs::CP_HQD_ACTIVE, 0);
                    bank.regs.write(regs::CP_HQD_PQ_DOORBELL_CONTROL, 0);
                }
            }
            drop(self.vmid_bank(xcc, 0));
        }
    }

    /// Halts the MECs or lets them run. Halted MECs begin anew when they run again: no pipe has any
    /// work left, and cached code is forgotten.
    fn halt(&self, halt: bool) {
        let all = |field: Field| field.put(if halt { field.max() } else { 0 });
        let control = [
            cp_mec_cntl::MEC_ME1_HALT,
            cp_mec_cntl::MEC_ME2_HALT,
            cp_mec_cntl::MEC_ME1_PIPE_RESET,
            cp_mec_cntl::MEC_ME2_PIPE_RESET,
            cp_mec_cntl::MEC_INVALIDATE_ICACHE,
        ]
        .into_iter()
        .fold(0, |word, field| word | all(field));
        let _control = self.control.lock();
        for xcc in &self.xccs {
            xcc.write(regs::CP_MEC_CNTL, control);
        }
        fsleep(MEC_PAUSE);
    }

    /// Loads a queue into `hqd`, which is free, of each XCC, for which `image` returns the image,
    /// and has it go on where it was. A doorbell that rings from now on finds it, and one that has
    /// rung before is found by polling the write pointer once.
    ///
    /// # Errors
    ///
    /// Errors of `image`; the queue is not on the hardware then.
    pub(crate) fn load(
        self: &Arc<Self>,
        hqd: Hqd,
        image: &dyn Fn(usize) -> Result<HqdImage>,
    ) -> Result<HqdGuard> {
        let guard = HqdGuard {
            gfx: self.clone(),
            hqd,
            has_left: false,
        };
        for (xcc, r) in self.xccs.iter().enumerate() {
            self.load_xcc(xcc, r, hqd, &image(xcc)?);
        }
        Ok(guard)
    }

    fn load_xcc(&self, xcc: usize, r: &RegisterWindow, hqd: Hqd, image: &HqdImage) {
        let mut bank = self.bank(r, hqd);
        // With the doorbell enabled before the write pointer is polled: none falls in between.
        let held = bank.banks.load(xcc, hqd);
        for (n, value) in image.started().writes(held.as_ref()) {
            r.write(regs::HQD.nth(n, 1), value);
        }
        r.write(regs::CP_PQ_WPTR_POLL_CNTL1, bit(hqd.poll_bit()));
        r.write(regs::CP_HQD_EOP_RPTR, image.eop_started());
        r.write(regs::CP_HQD_ACTIVE, cp_hqd_active::ACTIVE.flag(true));
    }

    /// Sets the address of watch point `number`, which no process uses at the moment.
    pub(crate) fn set_watch_address(&self, number: usize, point: WatchPoint) {
        /// Registers from one point to the next.
        const STRIDE: u32 = 3;
        let first = number as u32 * STRIDE;
        for xcc in &self.xccs {
            for (n, value) in (0..).zip(point.address_registers()) {
                xcc.write(regs::TCP_WATCH0_ADDR_H.nth(first + n, 1), value);
            }
        }
    }

    /// Resets a pipe of the users' micro engine, of all XCCs: the queues on it are lost. Context:
    /// may sleep; banks can be selected meanwhile.
    pub(crate) fn reset_pipe(&self, pipe: u8) {
        let _control = self.control.lock();
        let pipes = cp_mec_cntl::MEC_ME1_PIPE_RESET;
        let set = |value: u32| {
            for xcc in &self.xccs {
                let control = xcc.read(regs::CP_MEC_CNTL);
                xcc.write(regs::CP_MEC_CNTL, with(control, pipes, value));
            }
        };
        set(bit(u32::from(pipe)));
        fsleep(RESET_PAUSE);
        set(0);
        let mut banks = self.banks.lock();
        for hqd in self.mec().hqds().filter(|hqd| hqd.pipe() == pipe) {
            for xcc in 0..self.xccs.len() {
                banks.save(xcc, hqd, None);
            }
        }
    }
}

/// A queue in an HQD. Unless it has left when this is dropped it is reset, and the success of that
/// is not checked.
pub(crate) struct HqdGuard {
    gfx: Arc<Gfx>,
    hqd: Hqd,
    has_left: bool,
}

impl HqdGuard {
    /// The HQD.
    pub(crate) fn hqd(&self) -> Hqd {
        self.hqd
    }

    /// Asks the CP to take the queue off between two packets, with its waves saved. The CP writes
    /// its progress and the places of the saved waves to the descriptor.
    pub(crate) fn save(&self) {
        for xcc in &self.gfx.xccs {
            self.dequeue(&self.gfx.bank(xcc, self.hqd), SAVE);
        }
    }

    /// Kills what the queue is at, after it has not answered [`HqdGuard::save`].
    pub(crate) fn reset(&self) {
        for xcc in &self.gfx.xccs {
            let bank = self.gfx.bank(xcc, self.hqd);
            self.dequeue(&bank, RESET_WAVES);
            bank.regs.write(
                regs::SPI_COMPUTE_QUEUE_RESET,
                spi_compute_queue_reset::RESET.flag(true),
            );
        }
    }

    /// The HQD is not active any more. The CP has saved its registers in the image of each XCC,
    /// which `image` returns, unless it was reset.
    pub(crate) fn left(mut self, image: &dyn Fn(usize) -> Option<HqdImage>) {
        self.has_left = true;
        for xcc in 0..self.gfx.xccs.len() {
            let image = image(xcc);
            self.gfx.banks.lock().save(xcc, self.hqd, image);
        }
    }

    fn dequeue(&self, bank: &SelectedBank<'_>, how: u32) {
        bank.regs.write(
            regs::CP_HQD_DEQUEUE_REQUEST,
            cp_hqd_dequeue_request::DEQUEUE_REQ.put(how),
        );
    }

    /// Whether the queue is still on the hardware. Never on a device that is gone.
    pub(crate) fn is_active(&self) -> bool {
        self.gfx.xccs.iter().any(|xcc| {
            let active = self.gfx.bank(xcc, self.hqd).regs.read(regs::CP_HQD_ACTIVE);
            cp_hqd_active::ACTIVE.is_set(active) && xcc.is_present()
        })
    }
}

impl Drop for HqdGuard {
    fn drop(&mut self) {
        if !self.has_left && self.is_active() {
            self.reset();
        }
    }
}
