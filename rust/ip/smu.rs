// SPDX-License-Identifier: GPL-2.0
//! The SMU (MP1 13.0), which controls clocks, voltages and temperatures: messages to its firmware,
//! one at a time.

use kernel::device;
use kernel::fmt;
use kernel::io::poll::read_poll_timeout;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;
use kernel::time::Delta;

use hw::bits::{hi, join, lo};
use hw::ip::{IpBlock, IpTable};
use hw::smu::interface::SmuInterface;
use hw::smu::link::{self, PcieLink};
use hw::smu::{megahertz, ShownMessage, SmuAnswer, SmuClock, SmuFeatures, SmuMessage};
use hw::smu::{SmuVersion, HIGHEST_LEVEL};

use crate::kern::mmio::{Mmio, GONE};
use crate::regs::{mp, nbio, RegisterWindow};

/// How long the firmware may take to start, and to answer.
const START_TIMEOUT: Delta = Delta::from_millis(1000);
const ANSWER_TIMEOUT: Delta = Delta::from_millis(2000);
/// Between two polls.
const POLL: Delta = Delta::from_micros(100);
/// The firmware runs (MP1_FIRMWARE_FLAGS.INTERRUPTS_ENABLED).
const RUNS: u32 = 1;

/// A message that the firmware has not carried out.
#[derive(Clone, Copy)]
pub(crate) struct SmuFailure {
    message: ShownMessage,
    /// The answer, an error code; `None` without an answer.
    answer: Option<SmuAnswer>,
    /// `ETIMEDOUT` without an answer; `EIO` if the message was not carried out; `ENODEV` if the
    /// device is gone.
    pub(crate) error: Error,
    /// Whether it is worth a log message: the previous message did not fail in the same way, and
    /// the device is not gone.
    pub(crate) is_news: bool,
}

impl SmuFailure {
    /// The failure of `message` to be sent at all. It is news unless the device is gone.
    pub(crate) fn unsent(message: ShownMessage, error: Error) -> Self {
        Self {
            message,
            answer: None,
            error,
            is_news: error != ENODEV,
        }
    }
}

impl fmt::Display for SmuFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { message, error, .. } = self;
        match self.answer {
            Some(answer) => write!(f, "{message}: {answer}"),
            None => write!(f, "{message}: no answer: {error:?}"),
        }
    }
}

/// What the registers of messages (MP1_C2PMSG_66, 82 and 90) hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mailbox {
    /// No message of this driver: the answer there is none to it.
    Fresh,
    /// The last message, and its answer.
    Answered,
    /// The last message. There was no answer in time, and no other is sent before it comes.
    Unanswered,
}

/// The SMU with firmware that runs.
pub(crate) struct Smu {
    mp: RegisterWindow,
    nbio: RegisterWindow,
    mailbox: Mailbox,
    interface: SmuInterface,
    /// The last message, if it failed, and the error: the log has that already.
    failed: Option<(SmuMessage, Error)>,
    version: SmuVersion,
    dev: ARef<device::Device>,
}

impl Smu {
    /// The SMU of the ASIC whose blocks are `ips`, whose firmware has just been loaded, or runs
    /// from power-up on, and has `interface`. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EIO` if the firmware does not run; `ENODEV` if there is no SMU.
    pub(crate) fn start(
        dev: &ARef<device::Device>,
        mmio: &Arc<Mmio>,
        ips: IpTable<'_>,
        interface: SmuInterface,
    ) -> Result<Self> {
        let nbio = RegisterWindow::new(mmio, ips, IpBlock::Nbio, 0)?;
        let flags = || Ok(fabric(&nbio, interface.firmware_flags()));
        let runs = read_poll_timeout(flags, |flags| flags & RUNS != 0, POLL, START_TIMEOUT);
        if !runs.is_ok_and(|flags| flags != GONE) {
            dev_err!(
                dev,
                "SMU: its firmware was loaded, and does not run (MP1_FIRMWARE_FLAGS)\n"
            );
            return Err(EIO);
        }
        let mut smu = Self {
            mp: RegisterWindow::new(mmio, ips, IpBlock::Mp, 0)?,
            nbio,
            mailbox: Mailbox::Fresh,
            interface,
            failed: None,
            version: SmuVersion(0),
            dev: dev.clone(),
        };
        let number = smu.send(SmuMessage::GetDriverIfVersion)?;
        smu.version = SmuVersion(smu.send(SmuMessage::GetSmuVersion)?);
        dev_info!(
            dev,
            "SMU: firmware {}, interface {number}\n",
            format_args!("{}", smu.version)
        );
        Ok(smu)
    }

    /// The interface of its firmware.
    pub(crate) fn interface(&self) -> SmuInterface {
        self.interface
    }

    /// Version of its firmware.
    pub(crate) fn version(&self) -> SmuVersion {
        self.version
    }

    /// The features that are enabled.
    ///
    /// # Errors
    ///
    /// As [`Self::ask`].
    pub(crate) fn features(&mut self) -> Result<SmuFeatures, SmuFailure> {
        let high = self.ask(SmuMessage::GetEnabledSmuFeaturesHigh)?;
        let low = self.ask(SmuMessage::GetEnabledSmuFeaturesLow)?;
        Ok(SmuFeatures(join(low, high)))
    }

    /// Sets the page at MC address `at` as the one that holds tables from now on.
    ///
    /// # Errors
    ///
    /// As [`Self::ask`].
    pub(crate) fn set_table_page(&mut self, at: u64) -> Result<(), SmuFailure> {
        self.ask(SmuMessage::SetDriverDramAddrHigh(hi(at)))?;
        self.ask(SmuMessage::SetDriverDramAddrLow(lo(at))).map(drop)
    }

    /// Sets MC address `at` as the memory for the firmware's trace for tools from now on.
    ///
    /// # Errors
    ///
    /// As [`Self::ask`].
    pub(crate) fn set_trace_memory(&mut self, at: u64) -> Result<(), SmuFailure> {
        self.ask(SmuMessage::SetToolsDramAddrHigh(hi(at)))?;
        self.ask(SmuMessage::SetToolsDramAddrLow(lo(at))).map(drop)
    }

    /// The lowest and the highest level of `clock`, MHz.
    ///
    /// # Errors
    ///
    /// As [`Self::ask`].
    pub(crate) fn range(&mut self, clock: SmuClock) -> Result<[u32; 2], SmuFailure> {
        let highest = self.ask(SmuMessage::GetDpmFreqByIndex(clock, HIGHEST_LEVEL))?;
        // There are fewer levels than this index: the answer is the number of the highest.
        let highest = u8::try_from(megahertz(highest)).unwrap_or(HIGHEST_LEVEL - 1);
        let mut level = |level| self.ask(SmuMessage::GetDpmFreqByIndex(clock, level));
        Ok([level(0)?, level(highest)?].map(megahertz))
    }

    /// The GPU's PCI Express link. Only the owner of the SMU uses the windows on the fabric,
    /// therefore `&mut`.
    pub(crate) fn link(&mut self) -> PcieLink {
        let [width, speed, extended] =
            [link::WIDTH, link::SPEED, link::EXTENDED].map(|at| fabric(&self.nbio, at));
        PcieLink::new(width, speed, extended)
    }

    /// Sends `message` and returns the answer's argument. The log has a failure, once in a row.
    /// Context: may sleep.
    ///
    /// Waits at most two seconds for an answer. After a timeout, no further message is sent before
    /// that answer has come. The reset of the GPU is an exception: it is sent nevertheless, after
    /// two more seconds, because it is the last resort.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` without an answer; `EIO` if the message was not carried out; `ENODEV` if the
    /// device is gone.
    pub(crate) fn send(&mut self, message: SmuMessage) -> Result<u32> {
        self.ask(message).map_err(|failure| {
            if failure.is_news {
                dev_err!(self.dev, "SMU: {failure}\n");
            }
            failure.error
        })
    }

    /// As [`Self::send`], without a log message.
    pub(crate) fn ask(&mut self, message: SmuMessage) -> Result<u32, SmuFailure> {
        let Some(number) = message.number(self.interface) else {
            return Err(self.failure(message, Some(SmuAnswer::Unknown), EIO));
        };
        let is_last = message == SmuMessage::GfxDriverReset;
        let before = match self.mailbox {
            Mailbox::Fresh => Ok(()),
            Mailbox::Unanswered if !is_last && self.mp.read(mp::MP1_C2PMSG_90) == 0 => {
                return Err(SmuFailure {
                    message: message.shown(self.interface),
                    answer: None,
                    error: ETIMEDOUT,
                    is_news: false,
                });
            }
            Mailbox::Answered | Mailbox::Unanswered => match self.answer() {
                Err(error) if error == ETIMEDOUT && is_last => Ok(()),
                before => before.map(drop),
            },
        };
        let answer = before.and_then(|()| {
            self.mp.write(mp::MP1_C2PMSG_90, 0);
            self.mp
                .write(mp::MP1_C2PMSG_82, message.argument(self.interface));
            self.mp.write(mp::MP1_C2PMSG_66, number);
            self.answer()
        });
        self.mailbox = match answer {
            Ok(_) => Mailbox::Answered,
            Err(_) => Mailbox::Unanswered,
        };
        match answer {
            Ok(SmuAnswer::Ok) => {
                self.failed = None;
                Ok(self.mp.read(mp::MP1_C2PMSG_82))
            }
            Ok(answer) => Err(self.failure(message, Some(answer), EIO)),
            Err(error) => Err(self.failure(message, None, error)),
        }
    }

    fn failure(
        &mut self,
        message: SmuMessage,
        answer: Option<SmuAnswer>,
        error: Error,
    ) -> SmuFailure {
        SmuFailure {
            message: message.shown(self.interface),
            answer,
            error,
            // That a removed device does not answer is not worth a message.
            is_news: error != ENODEV
                && self.failed.replace((message, error)) != Some((message, error)),
        }
    }

    /// Waits for the answer to the last message.
    fn answer(&self) -> Result<SmuAnswer> {
        let word = read_poll_timeout(
            || Ok(self.mp.read(mp::MP1_C2PMSG_90)),
            |word| *word != 0,
            POLL,
            ANSWER_TIMEOUT,
        )?;
        match word {
            GONE => Err(ENODEV),
            word => Ok(SmuAnswer::from(word)),
        }
    }
}

/// The value at SMN address `at`, read through the window of `nbio`.
fn fabric(nbio: &RegisterWindow, at: u32) -> u32 {
    nbio.write(nbio::PCIE_INDEX2, at);
    nbio.read(nbio::PCIE_DATA2)
}
