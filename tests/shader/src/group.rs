// SPDX-License-Identifier: GPL-2.0
//! A work-group: its waves, its LDS and its barriers.

use std::fmt;

use crate::code::{Code, Turn};
use crate::counts::Counts;
use crate::env::{Env, Fault, Host, Leftovers};
use crate::hwreg::status;
use crate::image::{self, Shape, Word};
use crate::lds::Lds;
use crate::trap::restore_entry;
use crate::wave::{Apertures, Reason, Saving, State, Wave};

/// Instructions that a wave executes before the next one's turn.
const TURN: u64 = 4096;

/// A group that runs on one CU.
pub struct Group {
    /// Its waves, in order.
    pub waves: Vec<Wave>,
    /// Its LDS.
    pub lds: Lds,
    /// Its place in the grid.
    pub id: [u32; 3],
    /// Its waves were asked to save themselves.
    saving: bool,
}

/// A wave that is to be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Absent {
    /// Its word on the control stack.
    pub word: Word,
    /// The place of its record.
    pub record: u64,
    /// HW_ID from now on.
    pub hw_id: u32,
}

/// A wave that cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// Its place in its group.
    pub wave: usize,
    /// The group's place in the grid.
    pub group: [u32; 3],
    /// Its PC.
    pub pc: u64,
    /// The eight bytes there, if they can be read.
    pub bytes: Option<[u8; 8]>,
    /// The reason.
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

/// Progress of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// All waves have ended.
    Done,
    /// All that had not ended are in memory.
    Saved,
    /// There is more to do.
    Spent,
    /// There is, but all waves that could run sleep.
    Idle,
}

impl Group {
    /// Creates a group with these waves.
    pub fn new(waves: Vec<Wave>, lds: Lds, id: [u32; 3]) -> Group {
        Group {
            waves,
            lds,
            id,
            saving: false,
        }
    }

    /// Creates a group that was saved: the trap handler restores the content of its waves. Its
    /// place in the grid is in there, and not known here.
    pub fn restored(
        shape: Shape,
        waves: &[Absent],
        apertures: Apertures,
        host: &dyn Host,
        left: &dyn Leftovers,
    ) -> Group {
        let wave = |(n, absent): (usize, &Absent)| {
            let mut wave = Wave::new(shape.arch, shape.acc, restore_entry(host.trap_handler()));
            left.registers(n, &mut wave);
            wave.apertures = apertures;
            wave.status = status::VALID | status::IN_TG | status::TRAP_EN | status::PRIV;
            wave.hw_id = absent.hw_id;
            wave.scoreboard = absent.word.scoreboard;
            wave.has_scratch = absent.word.scratch;
            wave.gpr_alloc = shape.gpr_alloc();
            wave.lds_alloc = shape.lds_alloc();
            wave.set_exec(image::exec(absent.record, absent.word.first));
            wave.restoring = true;
            wave
        };
        let mut lds = Lds::new(shape.lds);
        left.lds(&mut lds);
        Group::new(waves.iter().enumerate().map(wave).collect(), lds, [0; 3])
    }

    /// Asks its waves to save themselves, once.
    pub fn save(&mut self) {
        if !std::mem::replace(&mut self.saving, true) {
            let living = self.waves.iter_mut().filter(|wave| wave.state.lives());
            living.for_each(Wave::save);
        }
    }

    /// Gives the waves their records when all have asked for one.
    fn grant(&mut self, host: &dyn Host) {
        let living = || self.waves.iter().filter(|wave| wave.state.lives());
        if !self.saving || !living().all(|wave| wave.saving == Saving::Asked) {
            return;
        }
        let count = living().count();
        let words: Vec<Word> = living()
            .enumerate()
            .map(|(n, wave)| Word {
                scoreboard: wave.scoreboard,
                engine: wave.hw_id >> 13,
                scratch: wave.has_scratch,
                last: n + 1 == count,
                first: n == 0,
            })
            .collect();
        let Some(first) = living().next() else {
            return;
        };
        let shape = Shape {
            arch: first.arch,
            acc: first.acc,
            lds: self.lds.bytes().len() as u32,
        };
        let Some(records) = host.reserve(shape, &words) else {
            return;
        };
        let living = self.waves.iter_mut().filter(|wave| wave.state.lives());
        for ((wave, record), word) in living.zip(records).zip(words) {
            wave.set_exec(image::exec(record, word.first));
            wave.saving = Saving::Granted;
        }
    }

    /// Number of waves that the handler has not restored yet.
    pub fn restoring(&self) -> usize {
        self.waves.iter().filter(|wave| wave.restoring).count()
    }

    /// Number of waves that are in memory.
    pub fn saved(&self) -> usize {
        let saved = self.waves.iter().filter(|wave| wave.state == State::Saved);
        saved.count()
    }

    /// Returns whether a store to a record has faulted.
    pub fn has_failed(&self) -> bool {
        self.waves.iter().any(|wave| wave.saving == Saving::Failed)
    }

    /// Executes about `fuel` instructions, with the waves taking turns. A wave that stops counts as
    /// ended.
    pub fn run(
        &mut self,
        code: &mut Code,
        host: &dyn Host,
        fuel: u64,
    ) -> Result<Progress, Box<Stop>> {
        let mut left = fuel;
        loop {
            self.grant(host);
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
                let before = wave.counts.all();
                match take_turn(code, wave, &mut env, TURN.min(left.max(1))) {
                    Turn::Spent => ran = true,
                    Turn::Slept => slept = true,
                    Turn::Barrier => {
                        wave.state = State::Barrier;
                        ran = true;
                    }
                    Turn::Ended => wave.state = State::Ended,
                    Turn::Saved => wave.state = State::Saved,
                    Turn::Stopped(reason) => {
                        wave.state = State::Ended;
                        return Err(Box::new(self.stop(n, host, reason)));
                    }
                }
                left = left.saturating_sub(self.waves[n].counts.all() - before);
            }
            if self.waves.iter().all(|wave| wave.state != State::Running) {
                if !self.waves.iter().any(|wave| wave.state.lives()) {
                    let saved = self.waves.iter().any(|wave| wave.state == State::Saved);
                    return Ok(if saved {
                        Progress::Saved
                    } else {
                        Progress::Done
                    });
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

    /// Counts of its waves' instructions.
    pub fn counts(&self) -> Counts {
        let counts = self.waves.iter().map(|wave| &wave.counts);
        let of_lds = Counts {
            outside: self.lds.outside(),
            ..Counts::default()
        };
        counts.fold(of_lds, Counts::plus)
    }

    /// The first memory fault of its waves.
    pub fn fault(&self) -> Option<Fault> {
        self.waves.iter().find_map(|wave| wave.fault)
    }
}

/// Executes up to `fuel` instructions of a wave. While memory is watched, each is looked at alone:
/// a wave traps behind the access that has hit.
fn take_turn(code: &mut Code, wave: &mut Wave, env: &mut Env<'_>, fuel: u64) -> Turn {
    if !env.host.is_watched() {
        return code.run(wave, env, fuel);
    }
    for _ in 0..fuel {
        let turn = code.run(wave, env, 1);
        let hits = env.host.take_hits();
        wave.trapsts |= hits;
        wave.hit |= hits != 0;
        if !matches!(turn, Turn::Spent) {
            return turn;
        }
    }
    Turn::Spent
}
