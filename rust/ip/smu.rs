// SPDX-License-Identifier: GPL-2.0
//! The SMU (MP1 13.0), which has clocks, voltages and temperatures: messages to its firmware, one at a time.

use kernel::device;
use kernel::io::poll::read_poll_timeout;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;
use kernel::time::Delta;

use hw::ip::{Block, Ip};
use hw::smu::{Answer, Message, Version, FIRMWARE_FLAGS};

use crate::kern::mmio::{Mmio, GONE};
use crate::regs::{mp, nbio, Window};

/// How long its firmware may take to begin, and to answer.
const START_TIMEOUT: Delta = Delta::from_millis(1000);
const ANSWER_TIMEOUT: Delta = Delta::from_millis(2000);
/// Between two looks.
const POLL: Delta = Delta::from_micros(100);
/// Firmware runs (MP1_FIRMWARE_FLAGS.INTERRUPTS_ENABLED).
const RUNS: u32 = 1;

/// The SMU with firmware that runs.
pub(crate) struct Smu {
    mp: Window,
    /// Nobody has sent a message to this firmware.
    is_fresh: bool,
    /// It has not answered, and is not asked again.
    is_lost: bool,
    dev: ARef<device::Device>,
}

impl Smu {
    /// The SMU of the ASIC whose blocks are `ips`, whose firmware has just been loaded. EIO if that does not run; ENODEV if there is none.
    /// Sleeps.
    pub(crate) fn start(
        dev: &ARef<device::Device>,
        mmio: &Arc<Mmio>,
        ips: &'static [Ip],
    ) -> Result<Self> {
        let nbio = Window::new(mmio, ips, Block::Nbio, 0)?;
        let flags = || {
            nbio.write(nbio::PCIE_INDEX2, FIRMWARE_FLAGS);
            Ok(nbio.read(nbio::PCIE_DATA2))
        };
        let runs = read_poll_timeout(flags, |flags| flags & RUNS != 0, POLL, START_TIMEOUT);
        if !runs.is_ok_and(|flags| flags != GONE) {
            dev_err!(
                dev,
                "SMU: its firmware was loaded, and does not run (MP1_FIRMWARE_FLAGS)\n"
            );
            return Err(EIO);
        }
        let mut smu = Self {
            mp: Window::new(mmio, ips, Block::Mp, 0)?,
            is_fresh: true,
            is_lost: false,
            dev: dev.clone(),
        };
        let interface = smu.send(Message::GetDriverIfVersion)?;
        let version = Version(smu.send(Message::GetSmuVersion)?);
        dev_info!(
            dev,
            "SMU: firmware {}, interface {interface}\n",
            format_args!("{version}")
        );
        Ok(smu)
    }

    /// Sends `message`, with 0 where it takes an argument; what is answered. ETIMEDOUT without an answer, EIO when it is not done: the log
    /// says so, the first time. Sleeps.
    pub(crate) fn send(&mut self, message: Message) -> Result<u32> {
        if self.is_lost {
            return Err(ETIMEDOUT);
        }
        let before = match self.is_fresh {
            // Whatever is there, it is no answer to a message of somebody's.
            true => Ok(Answer::Ok),
            false => self.answer(),
        };
        let answer = before.and_then(|_| {
            self.is_fresh = false;
            self.mp.write(mp::MP1_C2PMSG_90, 0);
            self.mp.write(mp::MP1_C2PMSG_82, 0);
            self.mp.write(mp::MP1_C2PMSG_66, message.number());
            self.answer()
        });
        match answer {
            Ok(Answer::Ok) => Ok(self.mp.read(mp::MP1_C2PMSG_82)),
            Ok(answer) => {
                dev_err!(self.dev, "SMU: {}\n", format_args!("{message}: {answer}"));
                Err(EIO)
            }
            Err(error) => {
                self.is_lost = true;
                dev_err!(
                    self.dev,
                    "SMU: {}: no answer: {error:?}\n",
                    format_args!("{message}")
                );
                Err(error)
            }
        }
    }

    /// The answer to the last message, once there is one.
    fn answer(&self) -> Result<Answer> {
        let word = read_poll_timeout(
            || Ok(self.mp.read(mp::MP1_C2PMSG_90)),
            |word| *word != 0,
            POLL,
            ANSWER_TIMEOUT,
        )?;
        match word {
            GONE => Err(ENODEV),
            word => Ok(Answer::from(word)),
        }
    }
}
