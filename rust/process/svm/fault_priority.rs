// SPDX-License-Identifier: GPL-2.0
//! Who comes first at the shared virtual memory of a process: its page faults, before who says something of its ranges.

use super::{Svm, SvmState};
use crate::kern::{errno, host, killable::KillableGuard, task};
use crate::mem::vm::Vm;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::time::{delay::fsleep, Delta, Instant, Monotonic};

/// How long page faults wait for who gives GPUs memory: much less than an SDMA queue may stand still with one. And long enough that he gets on where
/// they never end.
const FAULTS_WAIT_MS: u64 = 200;
/// How long he waits where they are urgent: what is left of the time that an SDMA queue has is theirs.
const URGENT_WAIT: Delta = Delta::from_millis(2000);
/// Between two looks whether they still are.
const URGENT_POLL: Delta = Delta::from_millis(2);

impl Svm {
    /// Fails when somebody waits for `state` who is not to wait for long, or page faults have, which do not if those on the GPU of `vm`, at
    /// whose memory the caller is, are urgent: [`errno::in_progress`].
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

    /// Fails when page faults on the GPU of `vm` are urgent: [`errno::in_progress`]. For what has begun already: it is done again from the start, so that it
    /// does not stop for less.
    pub(super) fn yield_to_faults(&self, vm: &Vm) -> Result {
        if self.is_urgent(vm) {
            Err(errno::in_progress())
        } else {
            Ok(())
        }
    }

    /// The lock, for who says or asks something: while page faults are urgent they come first, for a time. EINTR when the caller is killed.
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
