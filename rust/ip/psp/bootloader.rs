// SPDX-License-Identifier: GPL-2.0
//! The PSP's bootloader: it takes image after image, and the last one, the secure OS, takes over from it.

use kernel::io::poll::read_poll_timeout;
use kernel::prelude::*;
use kernel::time::delay::fsleep;
use kernel::time::Delta;

use hw::bits::lo;
use hw::firmware::image::FirmwareImage;
use hw::psp::{BOOTLOADER_ADDRESS_SHIFT, BOOTLOADER_CODE, READY};

use super::{Psp, PspMailbox, POLL};
use crate::kern::mmio::GONE;
use crate::regs::mp;

/// What tells it of images.
const BOOTLOADER: PspMailbox = PspMailbox {
    reg: mp::MP0_C2PMSG_35,
    name: "C2PMSG_35",
};
/// How long the secure OS may take to live.
const SECURE_OS_TIMEOUT: Delta = Delta::from_millis(5000);
/// For so long nobody looks after the last image.
const HAND_OVER: Delta = Delta::from_millis(20);

/// Whether C2PMSG_35 says what is wrong with an image.
fn is_refusal(answer: u32) -> bool {
    answer & READY != 0 && BOOTLOADER_CODE.get(answer) != 0
}

impl Psp {
    /// Has the bootloader take `image` with its `command`. ETIMEDOUT without an answer, EIO if it refuses the image: the log says so. Sleeps.
    pub(crate) fn boot(&self, image: &FirmwareImage<'_>, command: u32) -> Result {
        self.give(image, command)?;
        self.wait(image)
    }

    /// The same for the last image: the secure OS lives after that.
    pub(crate) fn boot_secure_os(&self, image: &FirmwareImage<'_>, command: u32) -> Result {
        self.give(image, command)?;
        fsleep(HAND_OVER);
        // What the bootloader says when it is through is not written down, but for a code.
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

    /// Tells that `image` was, with that `answer`.
    fn refused(&self, image: &FirmwareImage<'_>, answer: u32) -> Error {
        dev_err!(
            self.dev,
            "PSP bootloader: it refuses {}: code {:#x}\n",
            image.part.name(),
            BOOTLOADER_CODE.get(answer)
        );
        EIO
    }

    fn give(&self, image: &FirmwareImage<'_>, command: u32) -> Result {
        self.wait(image)?;
        let at = self.stage(image)?;
        self.regs
            .write(mp::MP0_C2PMSG_36, lo(at >> BOOTLOADER_ADDRESS_SHIFT));
        self.regs.write(mp::MP0_C2PMSG_35, command);
        Ok(())
    }

    /// Waits until the bootloader is done with what it was given.
    fn wait(&self, image: &FirmwareImage<'_>) -> Result {
        let part = image.part.name();
        match self.wait_ready(BOOTLOADER, format_args!("PSP bootloader: {part}"))? {
            READY => Ok(()),
            word => Err(self.refused(image, word)),
        }
    }
}
