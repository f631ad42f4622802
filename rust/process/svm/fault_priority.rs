// SPDX-License-Identifier: GPL-2.0
//! Priority at the shared virtual memory of a process: its page faults have priority over
//! operations on the attributes of its ranges.

use super::{Svm, SvmState};
use crate::kern::{errno, host, killable::KillableGuard, task};
use crate::mem::vm::Vm;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::time::{delay::fsleep, Delta, Instant, Monotonic};

/// How long page faults wait for an operation that maps memory on GPUs: much less than the time for
/// which an SDMA queue may stand still at a page fault, and long enough for such operations to make
/// progress under an endless stream of faults.
const FAULTS_WAIT_MS: u64 = 200;
/// How long an operation waits while page faults are urgent: the rest of the time that an SDMA
/// queue may stand still belongs to the faults.
const URGENT_WAIT: Delta = Delta::from_millis(2000);
/// The pause between two checks of whether they are still urgent.
const URGENT_POLL: Delta = Delta::from_millis(2);

impl Svm {
    /// Decides whether the caller, which is at the memory of `vm`, may continue.
    ///
    /// # Errors
    ///
    /// [`errno::in_progress`] if a waiter for `state` must not wait for long; or if page faults
    /// have waited for [`FAULTS_WAIT_MS`], or wait at all and those on the GPU of `vm` are urgent.
    pub(super) fn check_precedence(&self, vm: &Vm) -> Result {
        let have_waited = match self.faults_wait_since.load(Relaxed) {
            0 => false,
            since => host::boot_ms() >= since + FAULTS_WAIT_MS || self.is_urgent(vm),
        };
        if have_waited || self.priority_waiters.load(Relaxed) != 0 {
            Err(errno::in_progress())
        } else {
            Ok(())
        }
    }

    /// Whether retried page faults on the GPU of `vm` have priority over everything else.
    pub(super) fn is_urgent(&self, vm: &Vm) -> bool {
        self.retries() && vm.gpu().hw.faults.are_urgent(self.pasid)
    }

    /// Decides whether a move that has already begun may continue. A move that stops is repeated
    /// from the start, so only urgent page faults stop it.
    ///
    /// # Errors
    ///
    /// [`errno::in_progress`] if page faults on the GPU of `vm` are urgent.
    pub(super) fn yield_to_faults(&self, vm: &Vm) -> Result {
        if self.is_urgent(vm) {
            Err(errno::in_progress())
        } else {
            Ok(())
        }
    }

    /// Takes the lock for an operation on attributes. Urgent page faults have priority, for up to
    /// [`URGENT_WAIT`].
    ///
    /// # Errors
    ///
    /// `EINTR` if the caller is killed.
    pub(super) fn lock_when_calm(&self) -> Result<KillableGuard<'_, SvmState>> {
        let began = Instant::<Monotonic>::now();
        loop {
            let state = self.state.lock_killable()?;
            let is_urgent = state.vms.iter().any(|(_, vm)| self.is_urgent(vm));
            if !is_urgent || began.elapsed() >= URGENT_WAIT {
                return Ok(state);
            }
            drop(state);
            if task::is_killed() {
                return Err(EINTR);
            }
            fsleep(URGENT_POLL);
        }
    }
}
