// SPDX-License-Identifier: GPL-2.0
//! The ring that gives commands to the secure OS, one at a time, and the memory that the PSP is
//! given for itself (TMR).

use kernel::io::poll::read_poll_timeout;
use kernel::prelude::*;
use kernel::time::delay::fsleep;
use kernel::time::Delta;

use hw::bits::{hi, lo};
use hw::firmware::image::FirmwareImage;
use hw::psp::{
    frame, place, PspCommand, PspImageType, PspStatus, DESTROY_RINGS, MAKE_RING, RESPONSE_AT,
    RING_BYTES, RING_STATUS, SESSION_AT,
};
use hw::va::PAGE_SIZE;

use super::{Psp, PspMailbox};
use crate::kern::mmio::GONE;
use crate::regs::mp;

/// The mailbox for commands about rings.
const CONTROL: PspMailbox = PspMailbox {
    reg: mp::MP0_C2PMSG_64,
    name: "C2PMSG_64",
};
/// For so long after such a command the mailbox is not read.
const CONTROL_PAUSE: Delta = Delta::from_millis(20);
/// How long a command in the ring may take.
const COMMAND_TIMEOUT: Delta = Delta::from_millis(2000);
/// Between two polls.
const POLL: Delta = Delta::from_micros(100);

/// Offsets of ring, command page and fence page in the memory for them.
const RING: u64 = 0;
const COMMAND: u64 = PAGE_SIZE;
const FENCE: u64 = 2 * PAGE_SIZE;

/// The ring. It is destroyed on drop.
pub(crate) struct PspRing {
    psp: Psp,
    /// The fence value of the last command.
    last: u32,
}

impl Psp {
    /// Makes the ring. `is_used` says that a previous driver may have left one. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` without an answer; `EIO` if the PSP refuses the ring. The log says so.
    pub(crate) fn make_ring(self, is_used: bool) -> Result<PspRing> {
        // The status of a failed attempt of a previous driver stays in the register until the next
        // command.
        let status = self.control_status("before the ring")?;
        if is_used || status != 0 {
            // Without a ring the command has no effect.
            let _ = self.control(DESTROY_RINGS);
        }
        let pages = self.places.pages;
        self.vram
            .fill64(pages, 0, (super::PAGES_BYTES / 8) as usize)?;
        self.hdp.flush();
        let at = self.mc(pages + RING);
        self.regs.write(mp::MP0_C2PMSG_69, lo(at));
        self.regs.write(mp::MP0_C2PMSG_70, hi(at));
        self.regs.write(mp::MP0_C2PMSG_71, RING_BYTES);
        self.control(MAKE_RING)?;
        Ok(PspRing { psp: self, last: 0 })
    }

    fn control(&self, command: u32) -> Result {
        self.regs.write(mp::MP0_C2PMSG_64, command);
        fsleep(CONTROL_PAUSE);
        let step = match command {
            MAKE_RING => "making the ring",
            _ => "giving up the ring",
        };
        match self.control_status(step)? {
            0 => Ok(()),
            status => {
                dev_err!(self.dev, "PSP: {step}: status {status:#x}\n");
                Err(EIO)
            }
        }
    }

    /// Waits until the PSP has done the last command about rings. Returns its status, 0 for
    /// success.
    fn control_status(&self, step: &str) -> Result<u32> {
        let word = self.wait_ready(CONTROL, format_args!("PSP: {step}"))?;
        Ok(RING_STATUS.get(word))
    }
}

impl PspRing {
    /// Has the PSP load `image`, which is a `kind` to it. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` without an answer; `EIO` if the PSP refuses an image that is needed, so that no
    /// engine starts with firmware that the PSP refused. A refusal of any other image is only a
    /// warning.
    pub(crate) fn load(&mut self, image: &FirmwareImage<'_>, kind: PspImageType) -> Result {
        let command = PspCommand::LoadIpFw {
            mc: self.psp.stage(image)?,
            bytes: image.bytes.len() as u32,
            kind,
        };
        let (part, must) = (image.part.name(), image.part.is_needed());
        self.run(command, format_args!("{part} (type {})", kind as u32), must)
    }

    /// Tells the PSP that there is one partition. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` without an answer; `EIO` if the PSP refuses.
    pub(crate) fn unite(&mut self) -> Result {
        let command = PspCommand::Partition { count: 1 };
        self.run(command, format_args!("one partition"), true)
    }

    /// Gives the PSP memory at `place`, a VRAM offset and bytes, or has it use what it has set
    /// apart. Nothing else accesses that memory until the returned value is dropped. Context: may
    /// sleep.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` without an answer; `EIO` if the PSP refuses the memory.
    pub(crate) fn set_up_tmr(mut self, place: Option<(u64, u64)>) -> Result<Tmr> {
        let fb = self.psp.fb;
        let command = match place {
            Some((offset, bytes)) => PspCommand::SetupTmr {
                mc: self.psp.mc(offset),
                physical: fb.offset + offset,
                bytes: u32::try_from(bytes).map_err(|_| EINVAL)?,
            },
            None => PspCommand::UseOwnTmr,
        };
        let result = self.run(command, format_args!("its own memory"), true);
        // Without an answer the PSP may have taken the memory.
        let tmr = match result {
            Ok(()) | Err(ETIMEDOUT) => Tmr { ring: self },
            Err(error) => return Err(error),
        };
        result.map(|()| tmr)
    }

    /// Runs `command`, whose purpose for the log is `what`.
    ///
    /// # Errors
    ///
    /// `EIO` for a status other than done, if the command `must` succeed.
    fn run(&mut self, command: PspCommand, what: core::fmt::Arguments<'_>, must: bool) -> Result {
        let status = self.submit(command).inspect_err(|&error| {
            // That a removed device does not answer is not worth a message.
            if error != ENODEV {
                dev_err!(
                    self.psp.dev,
                    "PSP: command {:#x}, {what}: no answer: {error:?}\n",
                    command.id()
                );
            }
        })?;
        if [PspStatus::OK, PspStatus::CANCELLED].contains(&status) {
            return Ok(());
        }
        let (id, status) = (command.id(), status.0);
        self.refused(
            format_args!("command {id:#x}, {what}: status {status:#010x}"),
            must,
        )
    }

    /// Logs that the PSP has not done `what`.
    ///
    /// # Errors
    ///
    /// `EIO` if it `must` be done.
    fn refused(&self, what: core::fmt::Arguments<'_>, must: bool) -> Result {
        let dev = &self.psp.dev;
        if must {
            dev_err!(dev, "PSP: {what}\n");
            return Err(EIO);
        }
        dev_warn!(dev, "PSP: {what}\n");
        Ok(())
    }

    /// The PSP.
    pub(super) fn psp(&self) -> &Psp {
        &self.psp
    }

    /// The number of the session that the last command began.
    ///
    /// # Errors
    ///
    /// `ENODEV` when the device is gone.
    pub(super) fn session(&self) -> Result<u32> {
        let mut word = [0];
        let at = self.psp.places.pages + COMMAND + SESSION_AT;
        self.psp.vram.read32s(at, &mut word)?;
        let [session] = word;
        Ok(session)
    }

    /// Hands `command` to the PSP and returns its status.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` without an answer; `ENODEV` when the device is gone.
    pub(super) fn submit(&mut self, command: PspCommand) -> Result<PspStatus> {
        let Psp {
            regs, vram, places, ..
        } = &self.psp;
        let (command_at, fence_at) = (places.pages + COMMAND, places.pages + FENCE);
        let wptr = regs.read(mp::MP0_C2PMSG_67);
        let (at, next) = place(wptr).ok_or(if wptr == GONE { ENODEV } else { EIO })?;
        let value = self.last.wrapping_add(1);
        vram.write32s(command_at, &command.dwords())?;
        let frame = frame(self.psp.mc(command_at), self.psp.mc(fence_at), value);
        vram.write32s(places.pages + RING + at, &frame)?;
        self.psp.hdp.flush();
        regs.write(mp::MP0_C2PMSG_67, next);
        self.last = value;
        let mut word = [0];
        let is_gone = || regs.read(mp::MP0_C2PMSG_67) == GONE;
        let fence = read_poll_timeout(
            || vram.read32s(fence_at, &mut word).map(|()| word[0]),
            |fence| *fence == value || is_gone(),
            POLL,
            COMMAND_TIMEOUT,
        )?;
        if fence != value {
            return Err(ENODEV);
        }
        vram.read32s(command_at + RESPONSE_AT, &mut word)?;
        Ok(PspStatus(word[0]))
    }
}

impl Drop for PspRing {
    fn drop(&mut self) {
        // A failure is in the log already.
        let _ = self.psp.control(DESTROY_RINGS);
    }
}

/// The PSP with memory of its own, and the ring. Dropping it takes both from the PSP; after that
/// the memory may be used again.
pub(crate) struct Tmr {
    ring: PspRing,
}

impl Tmr {
    /// The ring.
    pub(crate) fn ring(&mut self) -> &mut PspRing {
        &mut self.ring
    }
}

impl Drop for Tmr {
    fn drop(&mut self) {
        let _ = self.ring.run(
            PspCommand::DestroyTmr,
            format_args!("giving up its memory"),
            false,
        );
    }
}
