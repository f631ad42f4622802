// SPDX-License-Identifier: GPL-2.0
//! The SMU (MP1 13.0), which has clocks, voltages and temperatures: messages to its firmware, one at a time.

use kernel::device;
use kernel::io::poll::read_poll_timeout;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;
use kernel::time::Delta;

use hw::bits::{hi, lo};
use hw::ip::{Block, Ip};
use hw::smu::link::{self, Link};
use hw::smu::{Answer, Features, Message, Table, Version, FIRMWARE_FLAGS};

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
    nbio: Window,
    /// Nobody has sent a message to this firmware.
    is_fresh: bool,
    /// It has not answered the last message, and is not asked again before it has.
    is_lost: bool,
    /// The last message, if it was not done, and why: the log has that.
    failed: Option<(Message, Error)>,
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
        let flags = || Ok(fabric(&nbio, FIRMWARE_FLAGS));
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
            nbio,
            is_fresh: true,
            is_lost: false,
            failed: None,
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

    /// What it does by itself. As [`Self::send`].
    pub(crate) fn features(&mut self) -> Result<Features> {
        self.send(Message::GetEnabledSmuFeaturesLow).map(Features)
    }

    /// Tables go to MC address `at`, a page, from now on. As [`Self::send`].
    pub(crate) fn set_table_page(&mut self, at: u64) -> Result {
        self.send(Message::SetDriverDramAddrHigh(hi(at)))?;
        self.send(Message::SetDriverDramAddrLow(lo(at))).map(drop)
    }

    /// Has it write `table` to the page for tables. As [`Self::send`].
    pub(crate) fn give(&mut self, table: Table) -> Result {
        self.send(Message::TransferTableSmu2Dram(table)).map(drop)
    }

    /// The GPU's PCI Express link. The windows on the fabric are used by who has the SMU alone.
    pub(crate) fn link(&mut self) -> Link {
        let [width, speed, extended] =
            [link::WIDTH, link::SPEED, link::EXTENDED].map(|at| fabric(&self.nbio, at));
        Link::new(width, speed, extended)
    }

    /// Sends `message`; what is answered. ETIMEDOUT without an answer, EIO when it is not done: the log says so, the first time in a row.
    /// ENODEV when the device is gone. Sleeps, for two seconds at most where there is no answer, and then not before the answer has come.
    /// The reset of the GPU is sent nevertheless, after two seconds more: it is the last that can be done.
    pub(crate) fn send(&mut self, message: Message) -> Result<u32> {
        let is_last = message == Message::GfxDriverReset;
        if self.is_lost && !is_last && self.mp.read(mp::MP1_C2PMSG_90) == 0 {
            return Err(ETIMEDOUT);
        }
        self.is_lost = false;
        let before = match self.is_fresh {
            // Whatever is there, it is no answer to a message of somebody's.
            true => Ok(()),
            false => self.answer().map(drop),
        };
        let before = match before {
            Err(error) if error == ETIMEDOUT && is_last => Ok(()),
            before => before,
        };
        let answer = before.and_then(|()| {
            self.is_fresh = false;
            self.mp.write(mp::MP1_C2PMSG_90, 0);
            self.mp.write(mp::MP1_C2PMSG_82, message.argument());
            self.mp.write(mp::MP1_C2PMSG_66, message.number());
            self.answer()
        });
        match answer {
            Ok(Answer::Ok) => {
                self.failed = None;
                Ok(self.mp.read(mp::MP1_C2PMSG_82))
            }
            Ok(answer) => {
                if self.is_news(message, EIO) {
                    dev_err!(self.dev, "SMU: {}\n", format_args!("{message}: {answer}"));
                }
                Err(EIO)
            }
            Err(error) => {
                self.is_lost = true;
                // Of a device that is gone nobody wants to hear what it does not answer.
                if error != ENODEV && self.is_news(message, error) {
                    dev_err!(
                        self.dev,
                        "SMU: {}: no answer: {error:?}\n",
                        format_args!("{message}")
                    );
                }
                Err(error)
            }
        }
    }

    /// Whether that is not how it went the last time.
    fn is_news(&mut self, message: Message, error: Error) -> bool {
        self.failed.replace((message, error)) != Some((message, error))
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

/// What is at SMN address `at`, seen through the window of `nbio`.
fn fabric(nbio: &Window, at: u32) -> u32 {
    nbio.write(nbio::PCIE_INDEX2, at);
    nbio.read(nbio::PCIE_DATA2)
}
