// SPDX-License-Identifier: GPL-2.0
//! An SDMA engine (4.4): its kernel ring and its eight RLC queues.

use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::Delta;

use hw::asic::SdmaInfo;
use hw::bits::{hi, join, lo, Field};
use hw::doorbell::Doorbell;
use hw::ip::{IpBlock, IpTable};
use hw::mqd::sdma::{doorbell_offset, kernel_rb_cntl, RlcQueueImage};
use hw::sdma::ring::RingSize;

use crate::kern::mmio::Mmio;
use crate::regs::sdma::{
    self as regs, cntl, context_status, doorbell, f32_cntl, ib_cntl, minor_ptr_update,
    phase0_quantum, rb_cntl, status_reg, utcl1_timeout, EnginePlaces,
};
use crate::regs::{Register, RegisterWindow};

/// How long a ring may take to finish its current work.
pub(crate) const STOP_TIMEOUT: Delta = Delta::from_millis(hw::sdma::seat::UNLOAD_MS);
/// Between two polls of it.
const STOP_POLL: Delta = Delta::from_micros(500);
/// How long a ring may take to become idle once its engine is reset.
const RESET_TIMEOUT: Delta = Delta::from_millis(100);

/// Where an engine's kernel ring is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelRingConfig {
    /// MC address, 256-byte aligned.
    pub(crate) base: u64,
    /// Its size.
    pub(crate) size: RingSize,
    /// Read and write pointer to begin with, bytes.
    pub(crate) pointers: (u64, u64),
    /// MC address of the 64-bit word that the engine writes the read pointer to, in bytes.
    pub(crate) rptr_writeback: u64,
    /// Its doorbell.
    pub(crate) doorbell: Doorbell,
}

/// An engine. Calls for one ring are serialised by the ring's owner; different rings do not
/// interfere.
pub(crate) struct Sdma {
    regs: RegisterWindow,
    places: &'static EnginePlaces,
    info: &'static SdmaInfo,
}

impl Sdma {
    /// Engine `engine` of the GPU whose blocks are `ips` and whose engines are of the form `info`.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the GPU has no such engine; `ENOMEM`.
    pub(crate) fn new(
        mmio: &Arc<Mmio>,
        ips: IpTable<'_>,
        info: &'static SdmaInfo,
        engine: u8,
    ) -> Result<Arc<Self>> {
        let regs = RegisterWindow::new(mmio, ips, IpBlock::Sdma, engine.into())?;
        let places = EnginePlaces::of(regs.version());
        Ok(Arc::new(Self { regs, places, info }, GFP_KERNEL)?)
    }

    /// Whether the engine has nothing to do (STATUS_REG).
    pub(super) fn is_idle(&self) -> bool {
        status_reg::IDLE.get(self.regs.read(regs::STATUS_REG)) != 0
    }

    /// Sets the engine up and lets it run, with no ring.
    pub(crate) fn bring_up(&self) {
        // An error of the previous user's ring does not keep the engine from starting.
        let _ = self.stop();
        self.set_up();
        self.run();
    }

    fn set_up(&self) {
        let (r, golden) = (&self.regs, &self.info.golden);
        r.update(
            self.places.cntl,
            &[
                (cntl::TRAP_ENABLE, 1),
                (cntl::UTC_L1_ENABLE, 1),
                (cntl::AUTO_CTXSW_ENABLE, 1),
            ],
        );
        for reg in self.places.tiles {
            r.merge(reg, golden.tiles_mask, golden.tiles);
        }
        r.write(regs::SEM_WAIT_FAIL_TIMER_CNTL, 0);
        r.write(
            regs::UTCL1_TIMEOUT,
            utcl1_timeout::RD_XNACK_LIMIT.put(golden.xnack_limit)
                | utcl1_timeout::WR_XNACK_LIMIT.put(golden.xnack_limit),
        );
        for phase in [
            regs::PHASE0_QUANTUM,
            regs::PHASE1_QUANTUM,
            regs::PHASE2_QUANTUM,
        ] {
            r.write(
                phase,
                phase0_quantum::VALUE.put(golden.quantum) | phase0_quantum::UNIT.put(0),
            );
        }
    }

    /// Changes fields of F32_CNTL.
    fn control(&self, fields: &[(Field, u32)]) {
        self.regs.update(self.places.f32_cntl, fields);
    }

    /// Lets a halted engine run.
    pub(crate) fn run(&self) {
        self.control(&[(f32_cntl::RESET, 0), (f32_cntl::HALT, 0)]);
    }

    /// Halts the engine and disables its rings, whatever they are doing. A packet that is not
    /// complete is lost, and its queue's read pointer still points at it. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if the engine may still be at work.
    pub(crate) fn stop(&self) -> Result {
        self.control(&[(f32_cntl::HALT, 1)]);
        self.disable_rings();
        if self.is_at_rest() {
            return Ok(());
        }
        self.reset()
    }

    /// Resets the engine, which forgets its work, and sets it up again. It stays halted, with no
    /// ring enabled, and with the read pointers where they were, until [`Sdma::run`]. Context: may
    /// sleep.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if the engine may still be at work.
    pub(crate) fn reset(&self) -> Result {
        self.control(&[(f32_cntl::HALT, 1), (f32_cntl::RESET, 1)]);
        self.disable_rings();
        let stopped = kernel::io::poll::read_poll_timeout(
            || Ok(self.is_at_rest()),
            |rests| *rests,
            STOP_POLL,
            RESET_TIMEOUT,
        );
        self.control(&[(f32_cntl::RESET, 0)]);
        self.set_up();
        stopped.map(|_| ())
    }

    /// Its RLC slots.
    fn queues(&self) -> core::ops::Range<u8> {
        0..self.info.queues_per_engine
    }

    /// Where the registers of RLC slot `queue` begin; `EINVAL` if there is no such slot.
    fn slot(&self, queue: u8) -> Result<Register> {
        match self.queues().contains(&queue) {
            true => Ok(rlc(queue)),
            false => Err(EINVAL),
        }
    }

    /// Whether no ring has a packet under way.
    fn is_at_rest(&self) -> bool {
        let is_idle = |ring| context_status::IDLE.is_set(self.read(ring, regs::CONTEXT_STATUS));
        is_idle(regs::GFX) && self.queues().map(rlc).all(is_idle)
    }

    fn disable_rings(&self) {
        self.disable(regs::GFX);
        self.queues().for_each(|queue| self.disable(rlc(queue)));
    }

    fn disable(&self, ring: Register) {
        self.enable(ring, false);
        self.write(ring, regs::DOORBELL, 0);
    }

    fn read(&self, ring: Register, reg: Register) -> u32 {
        self.regs.read(reg.within(ring))
    }

    fn write(&self, ring: Register, reg: Register, value: u32) {
        self.regs.write(reg.within(ring), value);
    }

    fn write_pair(&self, ring: Register, low: Register, high: Register, value: u64) {
        self.write(ring, low, lo(value));
        self.write(ring, high, hi(value));
    }

    fn enable(&self, ring: Register, on: bool) {
        self.regs.update(
            regs::RB_CNTL.within(ring),
            &[(rb_cntl::RB_ENABLE, on.into())],
        );
    }

    /// Starts the kernel's ring.
    pub(crate) fn start_kernel_ring(&self, config: KernelRingConfig) {
        let ring = regs::GFX;
        let control = kernel_rb_cntl(config.size);
        self.write(ring, regs::RB_CNTL, control);
        let (rptr, wptr) = config.pointers;
        self.write_pair(ring, regs::RB_RPTR, regs::RB_RPTR_HI, rptr);
        self.write_pair(
            ring,
            regs::RB_RPTR_ADDR_LO,
            regs::RB_RPTR_ADDR_HI,
            config.rptr_writeback,
        );
        self.write_pair(ring, regs::RB_BASE, regs::RB_BASE_HI, config.base >> 8);
        self.set_write_pointer(ring, wptr);
        self.write(ring, regs::RB_WPTR_POLL_CNTL, 0);
        self.write(
            ring,
            regs::DOORBELL_OFFSET,
            doorbell_offset(config.doorbell),
        );
        self.write(ring, regs::DOORBELL, doorbell::ENABLE.flag(true));
        self.write(ring, regs::IB_CNTL, ib_cntl::IB_ENABLE.flag(true));
        self.write(ring, regs::RB_CNTL, control | rb_cntl::RB_ENABLE.flag(true));
    }

    /// Stops the kernel's ring and waits for its current packet. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` after two seconds.
    pub(crate) fn stop_kernel_ring(&self) -> Result {
        self.halt(regs::GFX)
    }

    /// The read pointer of the kernel's ring, bytes.
    pub(crate) fn kernel_rptr(&self) -> u64 {
        self.read_pointer(regs::GFX)
    }

    /// Puts a queue into RLC slot `queue`, which is empty. The queue continues from the read
    /// pointer `rptr` (bytes) to the write pointer, which `wptr` returns. It is asked once the
    /// engine has the doorbell: of two pointers that are announced meanwhile either the doorbell
    /// has an effect, or `wptr` can know. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such slot; `ETIMEDOUT` if the slot does not become idle.
    pub(crate) fn load(
        &self,
        queue: u8,
        image: &RlcQueueImage,
        rptr: u64,
        wptr: impl FnOnce() -> u64,
    ) -> Result {
        let ring = self.slot(queue)?;
        self.write(ring, regs::RB_CNTL, image.rb_cntl);
        self.wait_idle(ring)?;
        self.write(ring, regs::DOORBELL_OFFSET, image.doorbell_offset);
        self.write_pair(ring, regs::RB_RPTR, regs::RB_RPTR_HI, rptr);
        // A doorbell that rings from now on is latched until the write pointer is complete.
        self.write(
            ring,
            regs::MINOR_PTR_UPDATE,
            minor_ptr_update::ENABLE.flag(true),
        );
        self.write(ring, regs::DOORBELL, image.doorbell);
        // The write has arrived when this has been read.
        let _ = self.read(ring, regs::DOORBELL);
        self.write_pair(ring, regs::RB_WPTR, regs::RB_WPTR_HI, wptr());
        self.write(ring, regs::MINOR_PTR_UPDATE, 0);
        self.write(ring, regs::RB_BASE, image.rb_base);
        self.write(ring, regs::RB_BASE_HI, image.rb_base_hi);
        self.write(ring, regs::RB_RPTR_ADDR_HI, image.rptr_addr_hi);
        self.write(ring, regs::RB_RPTR_ADDR_LO, image.rptr_addr_lo);
        self.write(ring, regs::RB_WPTR_POLL_ADDR_HI, image.wptr_poll_addr_hi);
        self.write(ring, regs::RB_WPTR_POLL_ADDR_LO, image.wptr_poll_addr_lo);
        self.write(ring, regs::DUMMY_REG, image.dummy_reg);
        self.write(ring, regs::IB_CNTL, image.ib_cntl);
        self.write(ring, regs::RB_CNTL, image.rb_cntl_enabled());
        Ok(())
    }

    /// Turns the ring in RLC slot `queue` off: the packet under way is its last. Two accesses.
    /// Context: any.
    pub(crate) fn turn_off(&self, queue: u8) {
        if let Ok(ring) = self.slot(queue) {
            self.enable(ring, false);
        }
    }

    /// Takes the queue out of RLC slot `queue`, which was turned off, and returns its read pointer,
    /// bytes; `None` if its packet is still under way. At most five accesses. Context: any.
    pub(crate) fn unload(&self, queue: u8) -> Option<u64> {
        let ring = self.slot(queue).ok()?;
        if !context_status::IDLE.is_set(self.read(ring, regs::CONTEXT_STATUS)) {
            return None;
        }
        self.write(ring, regs::DOORBELL, 0);
        Some(self.read_pointer(ring))
    }

    /// The RLC slot whose packet the engine is executing, if any (CONTEXT_STATUS.SELECTED). One
    /// access for each slot. Context: any.
    pub(crate) fn selected(&self) -> Option<u8> {
        self.queues().find(|&queue| {
            let status = self.read(rlc(queue), regs::CONTEXT_STATUS);
            context_status::SELECTED.is_set(status)
        })
    }

    /// The read pointer of the queue in RLC slot `queue`, bytes; 0 if there is no such slot.
    pub(crate) fn rptr(&self, queue: u8) -> u64 {
        self.slot(queue).map_or(0, |ring| self.read_pointer(ring))
    }

    fn halt(&self, ring: Register) -> Result {
        self.enable(ring, false);
        let stopped = self.wait_idle(ring);
        self.write(ring, regs::DOORBELL, 0);
        stopped
    }

    fn wait_idle(&self, ring: Register) -> Result {
        kernel::io::poll::read_poll_timeout(
            || Ok(self.read(ring, regs::CONTEXT_STATUS)),
            |status| context_status::IDLE.is_set(*status),
            STOP_POLL,
            STOP_TIMEOUT,
        )?;
        Ok(())
    }

    fn set_write_pointer(&self, ring: Register, wptr: u64) {
        self.write(
            ring,
            regs::MINOR_PTR_UPDATE,
            minor_ptr_update::ENABLE.flag(true),
        );
        self.write_pair(ring, regs::RB_WPTR, regs::RB_WPTR_HI, wptr);
        self.write(ring, regs::MINOR_PTR_UPDATE, 0);
    }

    /// The read pointer of `ring`. It moves while it is read: a carry into the high half between
    /// the two reads is detected.
    fn read_pointer(&self, ring: Register) -> u64 {
        let high = self.read(ring, regs::RB_RPTR_HI);
        let low = self.read(ring, regs::RB_RPTR);
        let again = self.read(ring, regs::RB_RPTR_HI);
        if high == again {
            join(low, high)
        } else {
            join(0, again)
        }
    }
}

/// Where RLC queue `queue`'s registers begin.
const fn rlc(queue: u8) -> Register {
    regs::RLC0.nth(queue as u32, regs::RLC_STRIDE)
}
