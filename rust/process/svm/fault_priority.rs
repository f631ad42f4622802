// SPDX-License-Identifier: GPL-2.0
//! Priority at the shared virtual memory of a process: its page faults come before threads that set
//! or query attributes of its ranges.

use super::{Svm, SvmState};
use crate::kern::{errno, host, killable::KillableGuard, task};
use crate::mem::vm::Vm;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::time::{delay::fsleep, Delta, Instant, Monotonic};

/// How long page faults wait for a thread that maps memory for GPUs: much less than an SDMA queue
/// may stall with one, and long enough that the thread gets on where faults never end.
const FAULTS_WAIT_MS: u64 = 200;
/// How long such a thread waits while faults are urgent: the rest of the time that an SDMA queue
/// has is theirs.
const URGENT_WAIT: Delta = Delta::from_millis(2000);
/// Between two looks whether they still are.
const URGENT_POLL: Delta = Delta::from_millis(2);

impl Svm {
    /// Checks that the caller, which works on the memory of `vm`, may keep `state` locked.
    ///
    /// # Errors
    ///
    /// [`errno::in_progress`] when a thread waits for `state` that is not to wait for long, or page
    /// faults have waited for it; urgent ones on the GPU of `vm` do not wait.
    pub(super) fn check_precedence(&self, vm: &Vm) -> Result {
        let have_waited = match self.faults_wait_since.load(Relaxed) {
            0 => false,
            since => host::boot_ms() >= since + FAULTS_WAIT_MS || self.is_urgent(vm),
        };
        if have_waited || self.awaited.load(Relaxed) != 0 {
            Err(errno::in_progress())
        } else {
            Ok(())
        }
    }

    /// Whether page faults on the GPU of `vm` that are retried are to be served before all else.
    pub(super) fn is_urgent(&self, vm: &Vm) -> bool {
        self.retries() && vm.gpu().hw.faults.are_urgent(self.pasid)
    }

    /// The same for work that has begun already: it is done again from the start, so that it does
    /// not stop for less.
    ///
    /// # Errors
    ///
    /// [`errno::in_progress`] when page faults on the GPU of `vm` are urgent.
    pub(super) fn yield_to_faults(&self, vm: &Vm) -> Result {
        if self.is_urgent(vm) {
            Err(errno::in_progress())
        } else {
            Ok(())
        }
    }

    /// Locks `state` for a thread that sets or queries attributes: while page faults are urgent
    /// they come first, for a time.
    ///
    /// # Errors
    ///
    /// `EINTR` when the caller is killed.
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
