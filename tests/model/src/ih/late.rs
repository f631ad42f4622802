// SPDX-License-Identifier: GPL-2.0
//! The freedoms of the interrupt handler: entries come late, in their order and with the time and
//! PASID of when they were raised; so do MSIs, after the write pointer that they announce, and some
//! twice.

use std::collections::VecDeque;
use std::time::Duration;

use super::{cntl, deliver, send, Ih, Iv, State, ENTRY};
use crate::error::Result;
use crate::fate::{Delay, Site};
use crate::gpu::Gpu;
use crate::regs::osssys;

/// The latest that entries, MSIs, and an engine's traps come.
const ENTRIES: Duration = Duration::from_millis(5);
const MSIS: Duration = Duration::from_millis(1);
const TRAPS: Duration = Duration::from_millis(5);

/// An entry that has been raised.
struct Raised {
    delay: Delay,
    vmid: u8,
    entry: [u8; ENTRY as usize],
}

/// What is late.
#[derive(Default)]
pub struct Late {
    entries: VecDeque<Raised>,
    msi: Option<Delay>,
    /// Entries that their clients have not raised yet.
    ivs: VecDeque<(Delay, Iv)>,
}

/// What an entry is about, for decisions.
fn key(iv: &Iv) -> u64 {
    u64::from(iv.client) << 16 | u64::from(iv.source) << 8 | u64::from(iv.ring)
}

impl State {
    /// Keeps an entry back if it is late, or one before it is.
    pub(super) fn keep_back(&mut self, gpu: &Gpu, iv: &Iv, entry: &[u8; ENTRY as usize]) -> bool {
        if !gpu.fate.is_on() {
            return false;
        }
        let fate = &gpu.fate;
        let delay = fate.delay(&gpu.summary, Site::IhEntry, key(iv), ENTRIES);
        if delay.is_none() && self.slow.entries.is_empty() {
            return false;
        }
        self.slow.entries.push_back(Raised {
            delay: delay.unwrap_or_else(Delay::none),
            vmid: iv.vmid,
            entry: *entry,
        });
        fate.note_late();
        true
    }

    /// Keeps an MSI back if it is late; another one need not be sent then.
    pub(super) fn keep_msi_back(&mut self, gpu: &Gpu) -> bool {
        if self.slow.msi.is_some() {
            return true;
        }
        self.slow.msi = gpu.fate.delay(&gpu.summary, Site::IhMsi, 0, MSIS);
        if self.slow.msi.is_some() {
            gpu.fate.note_late();
        }
        self.slow.msi.is_some()
    }
}

impl Ih {
    /// Puts an entry into the ring, some time after what it is about.
    pub fn push_later(&self, gpu: &Gpu, iv: Iv) -> Result<()> {
        let fate = &gpu.fate;
        if !fate.is_on() {
            return self.push(gpu, iv);
        }
        let delay = fate.delay(&gpu.summary, Site::SdmaTrap, key(&iv), TRAPS);
        let mut state = self.state();
        let is_before = |(_, other): &(Delay, Iv)| other.client == iv.client;
        if delay.is_none() && !state.slow.ivs.iter().any(is_before) {
            drop(state);
            return self.push(gpu, iv);
        }
        let delay = delay.unwrap_or_else(Delay::none);
        state.slow.ivs.push_back((delay, iv));
        fate.note_late();
        Ok(())
    }

    /// Returns whether entries about these address spaces, a bit each, are late.
    pub fn holds(&self, vmids: u32) -> bool {
        let state = self.state();
        let mut entries = state.slow.entries.iter();
        entries.any(|raised| vmids >> raised.vmid & 1 == 1)
    }

    /// The next entry that its client raises now; those of one client keep their order.
    fn raised(&self, gpu: &Gpu) -> Option<Iv> {
        let mut state = self.state();
        let mut waiting = 0u32;
        let place = state.slow.ivs.iter().position(|(delay, iv)| {
            let bit = 1 << (iv.client % 32);
            let is_first = waiting & bit == 0;
            waiting |= bit;
            is_first && delay.is_over(&gpu.summary)
        })?;
        state.slow.ivs.remove(place).map(|(_, iv)| iv)
    }

    /// Brings what has waited long enough. Returns whether something waits. It is lost if the
    /// driver has forbidden DMA and MSIs meanwhile.
    pub fn bring_late(&self, gpu: &Gpu) -> Result<bool> {
        if !gpu.bus.is_master() {
            self.state().slow = Late::default();
        }
        while let Some(iv) = self.raised(gpu) {
            self.push(gpu, iv)?;
        }
        let mut state = self.state();
        let is_over = |delay: &Delay| delay.is_over(&gpu.summary);
        if state.slow.msi.as_ref().is_some_and(is_over) {
            state.slow.msi = None;
            send(gpu, &mut state)?;
        }
        let control = gpu.regs.get(osssys::IH_RB_CNTL);
        while let Some(raised) = state.slow.entries.front() {
            if !is_over(&raised.delay) {
                break;
            }
            let entry = raised.entry;
            state.slow.entries.pop_front();
            if cntl::RB_ENABLE.is_set(control) {
                deliver(gpu, &mut state, control, &entry)?;
            }
        }
        let slow = &state.slow;
        Ok(slow.msi.is_some() || !slow.entries.is_empty() || !slow.ivs.is_empty())
    }
}
