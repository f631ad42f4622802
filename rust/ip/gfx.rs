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
use crate::regs::{bit, with, Register, RegisterWindow};

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
    regs: RegisterWindow,
    hal: &'static dyn GcHal,
    asic: &'static Asic,
    df: Option<RegisterWindow>,
    /// Which die of its package it is on.
    die: u32,
    /// The version of the MEC's firmware; 0 if it is not known.
    firmware: Atomic<u32>,
    /// Held while a bank is selected. Nothing else is taken, waited for or allocated under it.
    #[pin]
    banks: Mutex<HqdBanks>,
    /// Held while MEC_CNTL changes, also while a pipe is in reset: so that a pipe that leaves its
    /// reset does not let MECs run that were halted meanwhile. Nothing is allocated under it.
    #[pin]
    control: Mutex<()>,
}

/// The contents of the registers of user HQDs without a queue, by the HQD's index, where they are
/// known.
struct HqdBanks {
    held: KVec<Option<HqdImage>>,
}

impl HqdBanks {
    fn save(&mut self, hqd: Hqd, image: Option<HqdImage>) {
        if let Some(held) = self.held.get_mut(usize::from(hqd.index())) {
            *held = image;
        }
    }

    fn load(&mut self, hqd: Hqd) -> Option<HqdImage> {
        self.held.get_mut(usize::from(hqd.index()))?.take()
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
        let regs = RegisterWindow::new(mmio, ips, IpBlock::Gc, 0)?;
        let df = RegisterWindow::new(mmio, ips, IpBlock::Df, 0).ok();
        let smuio = RegisterWindow::new(mmio, ips, IpBlock::Smuio, 0)?;
        let die = DiePlace::read(&smuio).die;
        let banks = HqdBanks {
            held: KVec::from_elem(None, asic.mec.user_hqds().into(), GFP_KERNEL)?,
        };
        Arc::pin_init(
            pin_init!(Self {
                regs,
                hal,
                asic,
                df,
                die,
                firmware: Atomic::new(0),
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
        ComputeUnits::new(self.asic, |_, engine, array| {
            let _selected = ShaderArray::select(&self.regs, engine, array);
            let fused_off = self.regs.read(regs::CC_GC_SHADER_ARRAY_CONFIG);
            let switched_off = self.regs.read(regs::GC_USER_SHADER_ARRAY_CONFIG);
            cc_gc_shader_array_config::INACTIVE_CUS.get(fused_off | switched_off)
        })
    }

    fn select(&self, select: GrbmSelect) -> SelectedBank<'_> {
        let bank = SelectedBank {
            banks: self.banks.lock(),
            regs: &self.regs,
        };
        bank.set(select);
        bank
    }

    fn bank(&self, hqd: Hqd) -> SelectedBank<'_> {
        self.select(GrbmSelect::of_hqd(hqd.location()))
    }

    /// Whether neither the command processor nor any compute unit is at work (GRBM_STATUS).
    pub(super) fn is_idle(&self) -> bool {
        grbm_status::GUI_ACTIVE.get(self.regs.read(regs::GRBM_STATUS)) == 0
    }

    /// Sets up the registers that shaders and queues need, and leaves the MECs halted; `doorbells`
    /// bytes of the doorbell BAR may be theirs. Context: may sleep.
    pub(crate) fn set_up(&self, doorbells: u64) {
        let r = &self.regs;
        self.halt(true);
        self.banks.lock().held.fill(None);
        self.hal
            .apply_golden(r, self.df.as_ref(), &self.asic.golden, self.die);
        self.hal.work_alone(r);
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
            let bank = self.select(GrbmSelect::of_vmid(vmid));
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
            let _bank = self.select(GrbmSelect::of_hqd(HqdLocation {
                me: mec.user,
                pipe,
                queue: 0,
            }));
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
        self.hal.heed_power_brake(&self.regs);
    }

    /// The trap handler that waves of `vmid` run from the next trap on.
    pub(crate) fn set_trap_handler(&self, vmid: Vmid, handler: TrapHandler) {
        let vmid = vmid.get().into();
        self.select(GrbmSelect::of_vmid(vmid))
            .set_trap_handler(handler);
    }

    /// Whether waves of `vmid`, of which there are none, wait for pages that are not there.
    pub(crate) fn set_retries(&self, vmid: Vmid, retries: bool) {
        let bank = self.select(GrbmSelect::of_vmid(vmid.get().into()));
        bank.regs
            .write(regs::SH_MEM_CONFIG, sh_mem_config(&self.asic.gfx, retries));
    }

    /// Halts the MECs, whatever they are doing, and selects the bank that is selected out of reset.
    /// Context: may sleep.
    pub(crate) fn stop(&self) {
        self.regs
            .update(regs::CP_PQ_STATUS, &[(cp_pq_status::DOORBELL_ENABLE, 0)]);
        self.halt(true);
        drop(self.select(GrbmSelect::of_vmid(0)));
    }

    /// Empties the HQDs of both MECs, which are halted, of any owner's queues (amdgpu:
    /// gfx_v9_0_kiq_fini_register, for a queue that does not leave by itself).
    pub(super) fn drop_queues(&self) {
        for place in self.mec().all_hqds() {
            let bank = self.select(GrbmSelect::of_hqd(place));
            if cp_hqd_active::ACTIVE.is_set(bank.regs.read(regs::CP_HQD_ACTIVE)) {
                bank.regs.write(regs::CP_HQD_ACTIVE, 0);
                bank.regs.write(regs::CP_HQD_PQ_DOORBELL_CONTROL, 0);
            }
        }
        drop(self.select(GrbmSelect::of_vmid(0)));
    }

    /// Halts the MECs or lets them run. Halted MECs begin anew when they run again: no pipe has any
    /// work left, and cached code is forgotten.
    fn halt(&self, halt: bool) {
        let all = |field: Field| field.put(if halt { field.max() } else { 0 });
        let _control = self.control.lock();
        self.regs.write(
            regs::CP_MEC_CNTL,
            [
                cp_mec_cntl::MEC_ME1_HALT,
                cp_mec_cntl::MEC_ME2_HALT,
                cp_mec_cntl::MEC_ME1_PIPE_RESET,
                cp_mec_cntl::MEC_ME2_PIPE_RESET,
                cp_mec_cntl::MEC_INVALIDATE_ICACHE,
            ]
            .into_iter()
            .fold(0, |word, field| word | all(field)),
        );
        fsleep(MEC_PAUSE);
    }

    /// Loads a queue into `hqd`, which is free, and has it go on where it was. A doorbell that
    /// rings from now on finds it, and one that has rung before is found by polling the write
    /// pointer once.
    pub(crate) fn load(self: &Arc<Self>, hqd: Hqd, image: &HqdImage) -> HqdGuard {
        let mut bank = self.bank(hqd);
        let r = bank.regs;
        // With the doorbell enabled before the write pointer is polled: none falls in between.
        let held = bank.banks.load(hqd);
        for (n, value) in image.started().writes(held.as_ref()) {
            r.write(regs::HQD.nth(n, 1), value);
        }
        r.write(regs::CP_PQ_WPTR_POLL_CNTL1, bit(hqd.poll_bit()));
        r.write(regs::CP_HQD_EOP_RPTR, image.eop_started());
        r.write(regs::CP_HQD_ACTIVE, cp_hqd_active::ACTIVE.flag(true));
        HqdGuard {
            gfx: self.clone(),
            hqd,
            has_left: false,
        }
    }

    /// Sets the address of watch point `number`, which no process uses at the moment.
    pub(crate) fn set_watch_address(&self, number: usize, point: WatchPoint) {
        /// Registers from one point to the next.
        const STRIDE: u32 = 3;
        let first = number as u32 * STRIDE;
        for (n, value) in (0..).zip(point.address_registers()) {
            self.regs
                .write(regs::TCP_WATCH0_ADDR_H.nth(first + n, 1), value);
        }
    }

    fn read(&self, hqd: Hqd, reg: Register) -> u32 {
        self.bank(hqd).regs.read(reg)
    }

    /// Resets a pipe of the users' micro engine: the queues on it are lost. Context: may sleep;
    /// banks can be selected meanwhile.
    pub(crate) fn reset_pipe(&self, pipe: u8) {
        let _control = self.control.lock();
        let pipes = cp_mec_cntl::MEC_ME1_PIPE_RESET;
        let control = self.regs.read(regs::CP_MEC_CNTL);
        self.regs.write(
            regs::CP_MEC_CNTL,
            with(control, pipes, bit(u32::from(pipe))),
        );
        fsleep(RESET_PAUSE);
        self.regs.write(regs::CP_MEC_CNTL, with(control, pipes, 0));
        let mut banks = self.banks.lock();
        for hqd in self.mec().hqds() {
            if hqd.pipe() == pipe {
                banks.save(hqd, None);
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
        self.dequeue(&self.gfx.bank(self.hqd), SAVE);
    }

    /// Kills what the queue is at, after it has not answered [`HqdGuard::save`].
    pub(crate) fn reset(&self) {
        let bank = self.gfx.bank(self.hqd);
        self.dequeue(&bank, RESET_WAVES);
        bank.regs.write(
            regs::SPI_COMPUTE_QUEUE_RESET,
            spi_compute_queue_reset::RESET.flag(true),
        );
    }

    /// The HQD is not active any more. The CP has saved its registers in `image`, unless it was
    /// reset.
    pub(crate) fn left(mut self, image: Option<HqdImage>) {
        self.has_left = true;
        self.gfx.banks.lock().save(self.hqd, image);
    }

    fn dequeue(&self, bank: &SelectedBank<'_>, how: u32) {
        bank.regs.write(
            regs::CP_HQD_DEQUEUE_REQUEST,
            cp_hqd_dequeue_request::DEQUEUE_REQ.put(how),
        );
    }

    /// Whether the queue is still on the hardware. Never on a device that is gone.
    pub(crate) fn is_active(&self) -> bool {
        let active = self.gfx.read(self.hqd, regs::CP_HQD_ACTIVE);
        cp_hqd_active::ACTIVE.is_set(active) && self.gfx.regs.is_present()
    }
}

impl Drop for HqdGuard {
    fn drop(&mut self) {
        if !self.has_left && self.is_active() {
            self.reset();
        }
    }
}
