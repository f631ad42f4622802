// SPDX-License-Identifier: GPL-2.0
//! The PSP's bootloader. It takes one image after another; the last one, the secure OS, replaces
//! it.

use kernel::io::poll::read_poll_timeout;
use kernel::prelude::*;
use kernel::time::delay::fsleep;
use kernel::time::Delta;

use hw::bits::lo;
use hw::firmware::image::FirmwareImage;
use hw::psp::{BootloaderCommand, BOOTLOADER_ADDRESS_SHIFT, BOOTLOADER_CODE, READY};

use super::{Psp, PspMailbox, POLL};
use crate::kern::mmio::GONE;
use crate::regs::mp;

/// The mailbox for images.
const BOOTLOADER: PspMailbox = PspMailbox {
    reg: mp::MP0_C2PMSG_35,
    name: "C2PMSG_35",
};
/// How long the secure OS may take to start.
const SECURE_OS_TIMEOUT: Delta = Delta::from_millis(5000);
/// For so long after the last image the mailbox is not read.
const HAND_OVER: Delta = Delta::from_millis(20);

/// Whether `answer`, a value of C2PMSG_35, is an error code for an image.
fn is_refusal(answer: u32) -> bool {
    answer & READY != 0 && BOOTLOADER_CODE.get(answer) != 0
}

impl Psp {
    /// Has the bootloader take `image` with `command`. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` without an answer; `EIO` if the bootloader refuses the image. The log says so.
    pub(crate) fn boot(&self, image: &FirmwareImage<'_>, command: BootloaderCommand) -> Result {
        self.give(image, command)?;
        self.wait(image)
    }

    /// As [`Psp::boot`], for the last image: returns when the secure OS has started.
    pub(crate) fn boot_secure_os(
        &self,
        image: &FirmwareImage<'_>,
        command: BootloaderCommand,
    ) -> Result {
        self.give(image, command)?;
        fsleep(HAND_OVER);
        // The answer of a bootloader that has finished is not documented, except for an error code.
        let lives = read_poll_timeout(
            || {
                let alive = self.regs.read(mp::MP0_C2PMSG_81);
                Ok((alive, self.regs.read(mp::MP0_C2PMSG_35)))
            },
            |&(alive, answer)| alive != 0 || is_refusal(answer),
            POLL,
            SECURE_OS_TIMEOUT,
        );
        match lives {
            Ok((GONE, _)) => Err(ENODEV),
            Ok((0, answer)) => Err(self.refused(image, answer)),
            Ok(_) => Ok(()),
            Err(error) => {
                dev_err!(
                    self.dev,
                    "PSP bootloader: {} does not begin (C2PMSG_35 = {:#010x})\n",
                    image.part.name(),
                    self.regs.read(mp::MP0_C2PMSG_35)
                );
                Err(error)
            }
        }
    }

    /// Logs that the bootloader refused `image` with `answer`, and returns the error for that.
    fn refused(&self, image: &FirmwareImage<'_>, answer: u32) -> Error {
        dev_err!(
            self.dev,
            "PSP bootloader: it refuses {}: code {:#x}\n",
            image.part.name(),
            BOOTLOADER_CODE.get(answer)
        );
        EIO
    }

    fn give(&self, image: &FirmwareImage<'_>, command: BootloaderCommand) -> Result {
        self.wait(image)?;
        let at = self.stage(image)?;
        self.regs
            .write(mp::MP0_C2PMSG_36, lo(at >> BOOTLOADER_ADDRESS_SHIFT));
        self.regs.write(mp::MP0_C2PMSG_35, command as u32);
        Ok(())
    }

    /// Waits until the bootloader has handled its last command.
    fn wait(&self, image: &FirmwareImage<'_>) -> Result {
        let part = image.part.name();
        match self.wait_ready(BOOTLOADER, format_args!("PSP bootloader: {part}"))? {
            READY => Ok(()),
            word => Err(self.refused(image, word)),
        }
    }
}
