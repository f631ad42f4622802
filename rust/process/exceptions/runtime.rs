// SPDX-License-Identifier: GPL-2.0
//! The runtime of a process, as its debugger knows it, and the calls of RUNTIME_ENABLE that wait
//! for the debugger.

use hw::exceptions::ExceptionSet;
use kernel::prelude::*;

use super::session::DebugSession;
use super::ProcessExceptions;

/// Whether the runtime has registered: `kfd_dbg_runtime_state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RuntimeState {
    /// It has not.
    #[default]
    Disabled,
    /// It has.
    Enabled,
}

impl RuntimeState {
    /// The number in the interface.
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Disabled => 0,
            Self::Enabled => 1,
        }
    }
}

/// What a debugger learns of the runtime.
#[derive(Clone, Copy, Default)]
pub(crate) struct RuntimeInfo {
    /// Where the runtime describes what it has loaded.
    pub(crate) r_debug: u64,
    /// Whether it has registered.
    pub(crate) state: RuntimeState,
    /// Whether it has asked for the place of each wave in TTMPs, which waves always have.
    pub(crate) ttmp_setup: bool,
}

/// The two calls of RUNTIME_ENABLE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuntimeCall {
    /// The runtime registers.
    Enable,
    /// It unregisters.
    Disable,
}

/// How calls and the debugger's answers stand.
#[derive(Default)]
pub(super) struct RuntimeWait {
    /// Answers that no call has had yet.
    answers: u32,
    /// The call whose wait was ended by a signal. When it is made again, it only waits.
    interrupted: Option<RuntimeCall>,
}

impl ProcessExceptions {
    /// What the debugger may know of the runtime.
    pub(crate) fn runtime(&self) -> RuntimeInfo {
        self.state.lock().runtime
    }

    /// Whether `call` was interrupted before, while it waited for the debugger.
    pub(crate) fn was_interrupted(&self, call: RuntimeCall) -> bool {
        let mut state = self.state.lock();
        let was = state.waits.interrupted == Some(call);
        state.waits.interrupted = None;
        was
    }

    /// Sets the state of the runtime. The caller holds `Process::creating`.
    pub(crate) fn set_runtime(&self, runtime: RuntimeInfo) {
        self.state.lock().runtime = runtime;
    }

    /// Notifies the debugger, if there is one, that the runtime has registered or unregistered.
    pub(crate) fn announce_runtime(&self) {
        let mut state = self.state.lock();
        if let Some(debugger) = &mut state.debugger {
            debugger.status |= ExceptionSet::RUNTIME;
            debugger.notify(ExceptionSet::RUNTIME);
        }
    }

    /// Waits until the debugger, if there is one, has answered `call` or has gone. Not for the
    /// process itself: ROCr debugs its own process for a core dump, and is still its debugger when
    /// it unregisters in the end, where nothing would answer.
    ///
    /// # Errors
    ///
    /// `EINTR` for a signal: then the same call, made again, continues the wait.
    pub(crate) fn wait_for_answer(&self, call: RuntimeCall) -> Result {
        let mut state = self.state.lock();
        let is_other = |session: &DebugSession| session.debugger.is_some();
        while state.debugger.as_ref().is_some_and(is_other) {
            if state.waits.answers > 0 {
                state.waits.answers -= 1;
                break;
            }
            if self.changed.wait_interruptible(&mut state) {
                state.waits.interrupted = Some(call);
                return Err(EINTR);
            }
        }
        Ok(())
    }

    /// The debugger answers a call, or one to come.
    pub(crate) fn answer_runtime(&self) {
        let mut state = self.state.lock();
        state.waits.answers = state.waits.answers.saturating_add(1);
        drop(state);
        self.changed.notify_all();
    }
}

impl RuntimeWait {
    /// The debugger has gone: nothing waits for it any more.
    pub(super) fn forget(&mut self) {
        self.answers = 0;
    }
}
