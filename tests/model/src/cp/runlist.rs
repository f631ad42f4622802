// SPDX-License-Identifier: GPL-2.0
//! Runlists: processes and their queues, which take turns on the VMIDs and HQDs.

use std::time::{Duration, Instant};

use super::gang::Gang;
use super::hqd::Hqd;
use super::kiq::{self, RUN_LIST};
use super::pm4;
use super::templates;
use super::Slot;
use crate::gpu::Gpu;
use crate::regs::Field;

mod place;
mod turns;

pub use super::process::Process;
use place::Place;

const MAP_PROCESS: u32 = 0xa1;
const MAP_QUEUES: u32 = 0xa2;

/// The part of a time slice that queues without progress get when others want one.
const SHORT_TURN: Duration = Duration::from_millis(1);

/// Waves that need longer find no place beside those of other queues.
const LONGEST_RESTORE: Duration = Duration::from_secs(2);

/// The HIQ's resources from SET_RESOURCES.
#[derive(Debug, Clone, Copy, Default)]
pub struct Resources {
    /// Bit n: VMID n.
    pub vmids: u16,
    /// Bit n: slot n.
    pub queues: u64,
    /// The time that a queue may take to leave before it is abandoned, in units of 100 ms.
    pub latency: u32,
    /// Processes with XNACK on and such with it off may be chained in one list.
    pub chains: bool,
}

impl Resources {
    /// The time that a queue may take to leave. The units are ticks, and one has begun when a queue
    /// gets the request: half a unit is subtracted.
    pub fn patience(&self) -> Duration {
        Duration::from_millis(100) * self.latency.max(1) - Duration::from_millis(50)
    }
}

/// The engine of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// The MECs.
    Compute,
    /// The same, and it becomes the HIQ.
    Hiq,
    /// An SDMA engine.
    Sdma(usize),
}

/// MAP_QUEUES.
#[derive(Debug, Clone, Copy)]
pub struct MapQueue {
    /// Engine.
    pub engine: Engine,
    /// Its place, if the driver chooses it.
    pub slot: Option<Slot>,
    /// Stays when dynamic queues go.
    pub is_static: bool,
    /// Address space, if the driver chooses the place.
    pub vmid: u8,
    /// Dword index.
    pub doorbell: u32,
    /// Address of the MQD.
    pub mqd: u64,
    /// Address of the write pointer, in the queue's address space.
    pub wptr: u64,
}

/// The queues of UNMAP_QUEUES.
#[derive(Debug, Clone)]
pub enum Targets {
    /// Those with these doorbells.
    Doorbells(Vec<u32>),
    /// Those of a process.
    Pasid(u16),
    /// All of the runlist.
    All,
    /// All except static ones.
    Dynamic,
}

/// UNMAP_QUEUES.
#[derive(Debug, Clone)]
pub struct Unmap {
    /// The queues.
    pub targets: Targets,
    /// Also those that hang.
    pub reset: bool,
    /// The scheduler's queue.
    pub by: Slot,
    /// Its XCCs.
    pub gang: Gang,
}

/// A queue of a runlist.
pub struct Entry {
    process: usize,
    map: MapQueue,
    /// Its place.
    place: Option<Place>,
    /// When it got there the last time.
    came: Instant,
    /// Since when it has wanted a time slice.
    wants: Option<Instant>,
    /// The driver took it off by register.
    lost: bool,
    /// It has a time slice, or gets one as soon as a place is free.
    turn: bool,
    /// The driver wants it off, and it has not left.
    unwanted: bool,
    /// Its time slice is over since then; it leaves when its waves have ended.
    leaving: Option<Instant>,
    /// Packets done in its time slices. The number of the least served queue when it came to want
    /// one, if that is more, and when it left in the middle of a kernel.
    served: u64,
}

/// A runlist.
pub struct Runlist {
    /// The XCCs that serve its queues.
    pub(super) gang: Gang,
    processes: Vec<Process>,
    entries: Vec<Entry>,
    /// Ends in a jump to its start: queues that do not fit take turns.
    repeats: bool,
    /// Processes at once; 0: as many as there are VMIDs.
    at_once: usize,
    turn_begin: Option<Instant>,
    /// The last turn went to no new queue.
    stuck: bool,
    /// The number of packets of the least served queue that wants a time slice.
    floor: u64,
}

impl Runlist {
    /// Decodes the buffer at `base`, for a chip with `engines` SDMA engines.
    pub fn parse(
        words: &[u32],
        base: u64,
        at_once: u32,
        gang: Gang,
        engines: usize,
    ) -> std::result::Result<Runlist, &'static str> {
        let mut list = Runlist {
            gang,
            processes: Vec::new(),
            entries: Vec::new(),
            repeats: false,
            at_once: at_once as usize,
            turn_begin: None,
            stuck: false,
            floor: 0,
        };
        let now = Instant::now();
        let mut rest = words;
        while let Some(&header) = rest.first() {
            if header == 0 {
                break;
            }
            let length = pm4::length(header).map_err(|(_, reason)| reason)? as usize;
            if length > rest.len() {
                return Err("runlist: a packet is longer than the list");
            }
            let packet = &rest[..length];
            match pm4::opcode(header) {
                MAP_PROCESS => {
                    let process = Process::decode(packet)?;
                    let twice = |other: &Process| other.pasid == process.pasid;
                    if list.processes.iter().any(twice) {
                        return Err("runlist: a PASID is there twice");
                    }
                    list.processes.push(process);
                }
                MAP_QUEUES => {
                    let map = kiq::map_queue(packet, gang.lead(), engines)?;
                    if list.processes.is_empty() {
                        return Err("runlist: MAP_QUEUES before MAP_PROCESS");
                    }
                    if map.engine == Engine::Hiq || map.slot.is_some() {
                        return Err("runlist: MAP_QUEUES is of the HIQ, or of a given slot");
                    }
                    list.entries.push(Entry {
                        process: list.processes.len() - 1,
                        map,
                        place: None,
                        came: now,
                        wants: Some(now),
                        lost: false,
                        turn: false,
                        unwanted: false,
                        leaving: None,
                        served: 0,
                    });
                }
                RUN_LIST => {
                    if packet.len() != 4 {
                        return Err("RUN_LIST has 4 dwords");
                    }
                    if let Some(reason) = templates::run_list(packet) {
                        return Err(reason);
                    }
                    let to = u64::from(packet[1]) | u64::from(packet[2]) << 32;
                    if to & !3 != base || !Field::new(20, 20).is_set(packet[3]) {
                        return Err("runlist: RUN_LIST is not chained to its start");
                    }
                    list.repeats = true;
                }
                _ => return Err("runlist: the opcode is unknown"),
            }
            rest = &rest[length..];
        }
        Ok(list)
    }

    /// Checks that processes which retry page faults are not on the list together with such that do
    /// not, or that firmware which can do so (`chains`) finds them one kind after the other and the
    /// list run over and over (amdgpu: `pm_create_runlist_ib`).
    pub fn check_mix(&self, chains: bool) -> std::result::Result<(), &'static str> {
        let mut kinds: Vec<bool> = self.processes.iter().map(Process::retries).collect();
        kinds.dedup();
        match kinds.len() {
            0 | 1 => Ok(()),
            _ if !chains => Err("runlist: XNACK on and off in one list; the firmware is too old"),
            2 if self.repeats => Ok(()),
            2 => Err("runlist: XNACK on and off in a list that is not chained"),
            _ => Err("runlist: XNACK on and off in turns"),
        }
    }

    /// The end of the turn, if there is one. The time slice counts from when saved waves are back:
    /// silicon restores them in microseconds, here it may take longer than a time slice.
    fn turn_end(&self, hqds: &[Hqd], now: Instant) -> Option<Instant> {
        let begin = self.turn_begin?;
        let there = self.entries.iter().filter(|entry| entry.leaving.is_none());
        let restored = there
            .filter_map(|entry| entry.place?.restored_at(hqds, now))
            .max();
        let restored = restored.map_or(begin, |at| at.clamp(begin, begin + LONGEST_RESTORE));
        Some(restored + self.quantum())
    }

    fn quantum(&self) -> Duration {
        let quantum = self.processes.iter().map(|process| process.quantum).min();
        Duration::from_millis(quantum.unwrap_or(0).max(1).into())
    }

    /// A doorbell at `index` of a queue that is not on the hardware now. Returns false if there is
    /// none.
    pub fn ring(&mut self, index: u32) -> bool {
        let owner = self
            .entries
            .iter_mut()
            .find(|entry| entry.map.doorbell == index && entry.place.is_none() && !entry.lost);
        let Some(entry) = owner else {
            return false;
        };
        if entry.wants.is_none() {
            entry.wants = Some(Instant::now());
            entry.served = entry.served.max(self.floor);
        }
        true
    }

    /// Returns whether a queue has left whose time slice was over before its waves ended.
    fn has_vacancy(&self, gpu: &Gpu, hqds: &[Hqd]) -> bool {
        let gone = |place: Place| !place.is_loaded(gpu, hqds);
        let mut leaving = self.entries.iter().filter(|entry| entry.leaving.is_some());
        leaving.any(|entry| entry.place.is_some_and(gone))
    }

    /// The time of the next turn, if a queue wants one.
    pub fn due(&self, gpu: &Gpu, hqds: &[Hqd], now: Instant) -> Option<Instant> {
        if self.has_vacancy(gpu, hqds) {
            return Some(now);
        }
        let waits = |entry: &Entry| entry.place.is_none() && entry.wants.is_some() && !entry.lost;
        if !self.entries.iter().any(waits) {
            return None;
        }
        let end = self.turn_end(hqds, now).unwrap_or(now);
        let mapped = || self.entries.iter().filter_map(|entry| entry.place);
        if self.stuck || mapped().any(|place| place.is_busy(gpu, hqds)) {
            return Some(end);
        }
        let short = self.turn_begin.map_or(now, |begin| begin + SHORT_TURN);
        if mapped().any(|place| place.has_work(gpu, hqds)) {
            return Some(end.min(short));
        }
        Some(now)
    }
}
