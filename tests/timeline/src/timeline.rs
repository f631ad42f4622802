// SPDX-License-Identifier: GPL-2.0
//! Tracks of events, made from a recording: one for each engine, ring of the scheduler, kind of
//! interrupt, process, queue, doorbell and eviction.

use crate::builder::Builder;
use crate::event::{Error, Record};
use crate::hip::Told;
use std::collections::BTreeMap;

/// Groups of tracks, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// The GPU's engines: their jobs that are not done.
    Engines,
    /// `drm_run_job`, by the ring of the scheduler.
    Jobs,
    /// Interrupts: the CPU's, and the GPU's by source.
    Interrupts,
    /// All events of one process, by its process id.
    Process(u32),
}

/// The kind of a slice: its category, and its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A job that the hardware has.
    Job,
    /// A job that waits for the hardware.
    Waiting,
    /// A queue's life.
    Queue,
    /// A store to a doorbell.
    Doorbell,
    /// An interrupt.
    Interrupt,
    /// Queues off the hardware, or a buffer out of VRAM.
    Eviction,
    /// Page tables and TLBs.
    Memory,
    /// A call of HIP.
    Call,
    /// Something refused or failed.
    Failure,
}

impl Kind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Waiting => "waiting",
            Self::Queue => "queue",
            Self::Doorbell => "doorbell",
            Self::Interrupt => "interrupt",
            Self::Eviction => "eviction",
            Self::Memory => "memory",
            Self::Call => "call",
            Self::Failure => "failure",
        }
    }
}

/// An event with or without duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Microseconds of the trace's clock.
    pub begin: u64,
    /// The same, of its end; `None` for an event without duration.
    pub end: Option<u64>,
    /// Details: names and values.
    pub args: Vec<(&'static str, String)>,
}

impl Slice {
    pub(crate) fn at(us: u64, kind: Kind, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind,
            begin: us,
            end: None,
            args: Vec::new(),
        }
    }

    pub(crate) fn until(mut self, us: u64) -> Self {
        self.end = Some(us);
        self
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.args.push((name, value.to_string()));
        self
    }
}

/// A line of the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// Its group.
    pub group: Group,
    /// Its name.
    pub name: String,
    /// In the order of their beginnings.
    pub slices: Vec<Slice>,
}

impl Track {
    /// The slices, in as many lines as needed so that none overlap.
    pub fn lanes(&self) -> Vec<Vec<&Slice>> {
        let mut lanes: Vec<(u64, Vec<&Slice>)> = vec![(0, Vec::new())];
        for slice in &self.slices {
            let Some(end) = slice.end else {
                lanes[0].1.push(slice);
                continue;
            };
            match lanes.iter_mut().find(|(free, _)| *free <= slice.begin) {
                Some((free, lane)) => {
                    *free = end;
                    lane.push(slice);
                }
                None => lanes.push((end, vec![slice])),
            }
        }
        lanes.into_iter().map(|(_, lane)| lane).collect()
    }
}

/// A run.
#[derive(Debug)]
pub struct Timeline {
    /// When it began, in microseconds of the trace's clock.
    pub begin: u64,
    /// When it ended.
    pub end: u64,
    /// Names of processes.
    pub processes: BTreeMap<u32, String>,
    /// By group; those of a group in the order of their names.
    pub tracks: Vec<Track>,
}

impl Timeline {
    /// Creates it from a recording, in its order, and HIP's log of the same time. Errors for events
    /// that do not fit together.
    pub fn new(records: &[Record], told: &[Told]) -> Result<Self, Error> {
        let mut builder = Builder::default();
        for record in records {
            builder.add(record)?;
        }
        for told in told {
            builder.tell(told);
        }
        Ok(builder.finish(records))
    }

    /// The first kind of track that a run of copies, kernels and evictions must have, and this one
    /// lacks.
    pub fn missing(&self) -> Option<&'static str> {
        let has = |group: &dyn Fn(&Group) -> bool, kind| {
            let mut tracks = self.tracks.iter().filter(|track| group(&track.group));
            tracks.any(|track| track.slices.iter().any(|slice| slice.kind == kind))
        };
        let process = |group: &Group| matches!(group, Group::Process(_));
        let wanted: [(&str, bool); 7] = [
            ("queues", has(&process, Kind::Queue)),
            ("doorbells", has(&process, Kind::Doorbell)),
            ("engines", has(&|group| *group == Group::Engines, Kind::Job)),
            (
                "drm_run_job",
                has(&|group| *group == Group::Jobs, Kind::Job),
            ),
            (
                "interrupts",
                has(&|group| *group == Group::Interrupts, Kind::Interrupt),
            ),
            ("evictions", has(&process, Kind::Eviction)),
            ("page tables", has(&process, Kind::Memory)),
        ];
        wanted
            .iter()
            .find(|(_, there)| !there)
            .map(|(name, _)| *name)
    }

    /// The name of a group.
    pub fn name(&self, group: Group) -> String {
        match group {
            Group::Engines => "GPU engines".into(),
            Group::Jobs => "drm_run_job".into(),
            Group::Interrupts => "interrupts".into(),
            Group::Process(pid) => match self.processes.get(&pid) {
                Some(comm) => format!("process {pid} ({comm})"),
                None => format!("process {pid}"),
            },
        }
    }
}
