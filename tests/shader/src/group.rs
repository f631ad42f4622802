// SPDX-License-Identifier: GPL-2.0
//! A work-group: its waves, its LDS and its barriers.

use std::fmt;

use crate::code::{Code, Turn};
use crate::env::{Env, Fault, Host};
use crate::lds::Lds;
use crate::wave::{Reason, State, Wave};

/// Instructions that a wave executes before it is another one's turn.
const TURN: u64 = 4096;

/// A group that runs on one CU.
pub struct Group {
    /// Its waves, in order.
    pub waves: Vec<Wave>,
    /// Its LDS.
    pub lds: Lds,
    /// Its place in the grid.
    pub id: [u32; 3],
}

/// A wave that cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// Its place in its group.
    pub wave: usize,
    /// The group's place in the grid.
    pub group: [u32; 3],
    /// Where it stands.
    pub pc: u64,
    /// The eight bytes there, if they can be read.
    pub bytes: Option<[u8; 8]>,
    /// Why.
    pub reason: Reason,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.group;
        write!(
            f,
            "wave {} of group ({x}, {y}, {z}) at {:#x}: {}",
            self.wave, self.pc, self.reason
        )?;
        if let Some(bytes) = self.bytes {
            let word = |n: usize| u32::from_le_bytes([0, 1, 2, 3].map(|k| bytes[n + k]));
            write!(f, " ({:08x} {:08x})", word(0), word(4))?;
        }
        Ok(())
    }
}

/// How far a group is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// All waves have ended.
    Done,
    /// There is more to do.
    Spent,
    /// There is, but all that could run sleep.
    Idle,
}

impl Group {
    /// Executes about `fuel` instructions, the waves in turns. A wave that stops counts as ended.
    pub fn run(
        &mut self,
        code: &mut Code,
        host: &dyn Host,
        fuel: u64,
    ) -> Result<Progress, Box<Stop>> {
        let mut left = fuel;
        loop {
            let (mut ran, mut slept) = (false, false);
            for n in 0..self.waves.len() {
                let wave = &mut self.waves[n];
                if wave.state != State::Running {
                    continue;
                }
                let mut env = Env {
                    host,
                    lds: &mut self.lds,
                };
                let before = wave.executed;
                match code.run(wave, &mut env, TURN.min(left.max(1))) {
                    Turn::Spent => ran = true,
                    Turn::Slept => slept = true,
                    Turn::Barrier => {
                        wave.state = State::Barrier;
                        ran = true;
                    }
                    Turn::Ended => wave.state = State::Ended,
                    Turn::Stopped(reason) => {
                        wave.state = State::Ended;
                        return Err(Box::new(self.stop(n, host, reason)));
                    }
                }
                left = left.saturating_sub(self.waves[n].executed - before);
            }
            if self.waves.iter().all(|wave| wave.state != State::Running) {
                if self.waves.iter().all(|wave| wave.state == State::Ended) {
                    return Ok(Progress::Done);
                }
                // Ended waves no longer count.
                for wave in &mut self.waves {
                    if wave.state == State::Barrier {
                        wave.state = State::Running;
                    }
                }
            }
            if slept && !ran {
                return Ok(Progress::Idle);
            }
            if left == 0 {
                return Ok(Progress::Spent);
            }
        }
    }

    fn stop(&self, wave: usize, host: &dyn Host, reason: Reason) -> Stop {
        let pc = self.waves[wave].pc;
        let mut bytes = [0; 8];
        let read = match reason {
            Reason::Fetch(_) => false,
            _ => host.fetch(pc, &mut bytes).is_ok(),
        };
        Stop {
            wave,
            group: self.id,
            pc,
            bytes: read.then_some(bytes),
            reason,
        }
    }

    /// Instructions that its waves have executed.
    pub fn executed(&self) -> u64 {
        self.waves.iter().map(|wave| wave.executed).sum()
    }

    /// The first memory fault of its waves.
    pub fn fault(&self) -> Option<Fault> {
        self.waves.iter().find_map(|wave| wave.fault)
    }
}
