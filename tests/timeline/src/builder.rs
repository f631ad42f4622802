// SPDX-License-Identifier: GPL-2.0
//! From events to tracks.

use crate::event::{Error, Event, Fence, Record};
use crate::hip::{Of, Told};
use crate::timeline::{Group, Kind, Slice, Timeline, Track};
use std::collections::BTreeMap;

/// A job between its push and its end.
struct Job {
    ring: Ring,
    queued: u64,
    run: Option<(u64, u64)>, // when, and its number
}

/// The parts of the name of a scheduler's ring: `sdma1`, or `sdma1.PID.QUEUE`.
#[derive(Clone)]
struct Ring {
    name: String,
    engine: String,
    queue: Option<(u32, u32)>,
}

impl Ring {
    fn new(name: &str) -> Result<Self, Error> {
        let bad = || {
            Error::Order(
                "a ring that is neither ENGINE nor ENGINE.PID.QUEUE",
                name.into(),
            )
        };
        let mut parts = name.split('.');
        let engine = parts.next().unwrap_or_default().to_owned();
        let queue = match (parts.next(), parts.next(), parts.next()) {
            (None, None, None) => None,
            (Some(pid), Some(queue), None) => {
                let pid = pid.parse().map_err(|_| bad())?;
                Some((pid, queue.parse().map_err(|_| bad())?))
            }
            _ => return Err(bad()),
        };
        Ok(Self {
            name: name.into(),
            engine,
            queue,
        })
    }
}

/// State after some of the events.
#[derive(Default)]
pub(crate) struct Builder {
    tracks: BTreeMap<(Group, String), Vec<Slice>>,
    processes: BTreeMap<u32, String>,
    queues: BTreeMap<(u32, u32), (String, Slice)>,
    evicted: BTreeMap<(u32, u32), Slice>,
    jobs: BTreeMap<Fence, Job>,
    /// The job that a ring's scheduler is about to give to the hardware.
    running: BTreeMap<String, Fence>,
    irqs: BTreeMap<(u32, u32), (String, u64)>,
}

impl Builder {
    fn push(&mut self, group: Group, track: impl Into<String>, slice: Slice) {
        self.tracks
            .entry((group, track.into()))
            .or_default()
            .push(slice);
    }

    /// An event by the process's first thread has its name: events that others cause have theirs.
    fn name(&mut self, record: &Record, pid: u32) {
        if record.tid == pid && record.comm != "<...>" {
            self.processes
                .entry(pid)
                .or_insert_with(|| record.comm.clone());
        }
    }

    pub(crate) fn add(&mut self, record: &Record) -> Result<(), Error> {
        let us = record.us;
        match &record.event {
            Event::Ioctl { pid, nr, error } => {
                self.name(record, *pid);
                let slice = Slice::at(us, Kind::Failure, format!("ioctl 0x{nr:02x}: {error}"));
                self.push(Group::Process(*pid), "ioctls with errors", slice);
            }
            Event::QueueCreate {
                pid,
                queue,
                engine,
                ring,
                size,
            } => {
                self.name(record, *pid);
                let engine = match engine {
                    &u32::MAX => "compute".to_owned(),
                    engine => format!("sdma{engine}"),
                };
                let slice = Slice::at(us, Kind::Queue, format!("queue {queue}"))
                    .with("engine", &engine)
                    .with("ring", format!("{ring:#x}"))
                    .with("bytes", size);
                let track = format!("queue {queue}: {engine}");
                if self.queues.insert((*pid, *queue), (track, slice)).is_some() {
                    return Err(Error::Order("a queue is made twice", format!("{record:?}")));
                }
            }
            Event::QueueDestroy { pid, queue } => {
                let (track, slice) = self.queues.remove(&(*pid, *queue)).ok_or_else(|| {
                    Error::Order("a queue ends that is not there", format!("{record:?}"))
                })?;
                self.push(Group::Process(*pid), track, slice.until(us));
            }
            Event::Doorbell { pid, queue, wptr } => {
                let slice = Slice::at(us, Kind::Doorbell, format!("{wptr:#x}"));
                self.push(
                    Group::Process(*pid),
                    format!("doorbell of queue {queue}"),
                    slice,
                );
            }
            Event::SdmaSpan {
                pid,
                queue,
                from,
                to,
                within_ns,
            } => {
                let slice = Slice::at(
                    us.saturating_sub(within_ns / 1000),
                    Kind::Job,
                    format!("{to:#x}"),
                )
                .until(us)
                .with("bytes", to.saturating_sub(*from));
                let track = format!("executed of queue {queue}, at some time within");
                self.push(Group::Process(*pid), track, slice);
            }
            Event::JobQueue { .. }
            | Event::JobRun { .. }
            | Event::RunJob { .. }
            | Event::JobDone { .. }
            | Event::JobWaits { .. } => self.job(record)?,
            Event::Interrupt { .. } | Event::ShaderInterrupt { .. } => self.interrupt(record),
            Event::IrqEntry { irq, name } => {
                self.irqs.insert((record.cpu, *irq), (name.clone(), us));
            }
            Event::IrqExit { irq } => {
                if let Some((name, begin)) = self.irqs.remove(&(record.cpu, *irq)) {
                    let slice = Slice::at(begin, Kind::Interrupt, format!("irq {irq}"));
                    let slice = slice.with("cpu", record.cpu).until(us);
                    self.push(Group::Interrupts, format!("irq {irq}: {name}"), slice);
                }
            }
            _ => self.memory(record)?,
        }
        Ok(())
    }

    fn job(&mut self, record: &Record) -> Result<(), Error> {
        let us = record.us;
        let stray = || Error::Order("a job that was not there", format!("{record:?}"));
        match &record.event {
            Event::JobQueue { fence, ring } => {
                let job = Job {
                    ring: Ring::new(ring)?,
                    queued: us,
                    run: None,
                };
                self.jobs.insert(*fence, job);
            }
            Event::JobRun { fence, ring } => {
                self.jobs
                    .get(fence)
                    .filter(|job| &job.ring.name == ring)
                    .ok_or_else(stray)?;
                self.running.insert(ring.clone(), *fence);
            }
            Event::RunJob { id, ring } => {
                let fence = self.running.remove(ring).ok_or_else(stray)?;
                let job = self.jobs.get_mut(&fence).ok_or_else(stray)?;
                job.run = Some((us, *id));
                let slice = Slice::at(job.queued, Kind::Waiting, format!("job {id}")).until(us);
                let (group, track) = match job.ring.queue {
                    Some((pid, queue)) => (
                        Group::Process(pid),
                        format!("jobs waiting of queue {queue}"),
                    ),
                    None => (Group::Engines, format!("jobs waiting of {ring}")),
                };
                self.push(group, track, slice);
            }
            Event::JobDone { fence } => {
                let job = self.jobs.remove(fence).ok_or_else(stray)?;
                self.ran(&job, us);
            }
            _ => {}
        }
        Ok(())
    }

    /// A job has ended, or the recording has.
    fn ran(&mut self, job: &Job, us: u64) {
        let ring = &job.ring;
        let Some((begin, id)) = job.run else {
            let slice = Slice::at(us, Kind::Failure, "ended before it ran");
            self.push(Group::Jobs, ring.name.clone(), slice);
            return;
        };
        let whose = match ring.queue {
            Some((pid, queue)) => format!("{pid}, queue {queue}"),
            None => "kernel".into(),
        };
        let slice = |name| {
            Slice::at(begin, Kind::Job, name)
                .until(us)
                .with("job", id)
                .with("ring", &ring.name)
        };
        self.push(Group::Jobs, ring.name.clone(), slice(format!("job {id}")));
        self.push(Group::Engines, ring.engine.clone(), slice(whose));
    }

    fn interrupt(&mut self, record: &Record) {
        match &record.event {
            Event::Interrupt {
                client,
                source,
                ring,
                vmid,
                pasid,
                data,
            } => {
                let slice = Slice::at(record.us, Kind::Interrupt, source_name(*client, *source))
                    .with("ring", ring)
                    .with("vmid", vmid)
                    .with("pasid", pasid)
                    .with("data", format!("{data:#x}"));
                self.push(Group::Interrupts, slice.name.clone(), slice);
            }
            Event::ShaderInterrupt {
                pasid,
                vmid,
                error,
                data,
                place,
            } => {
                let what = if *error { "wave error" } else { "wave message" };
                let slice = Slice::at(record.us, Kind::Interrupt, format!("{what} {data:#x}"))
                    .with("vmid", vmid)
                    .with("pasid", pasid)
                    .with("place", place);
                self.push(Group::Interrupts, what, slice);
            }
            _ => {}
        }
    }

    fn memory(&mut self, record: &Record) -> Result<(), Error> {
        let us = record.us;
        match &record.event {
            Event::QueueEvict { pid, gpu, reason } => {
                let slice =
                    Slice::at(us, Kind::Eviction, reason.clone()).with("gpu", format!("{gpu:#x}"));
                if self.evicted.insert((*pid, *gpu), slice).is_some() {
                    return Err(Error::Order(
                        "queues are evicted twice",
                        format!("{record:?}"),
                    ));
                }
            }
            Event::QueueRestore { pid, gpu, reason } => {
                let slice = self.evicted.remove(&(*pid, *gpu)).ok_or_else(|| {
                    Error::Order("queues come back that are there", format!("{record:?}"))
                })?;
                // The reason to come back differs from that to go, if there were several.
                let slice = slice.with("back for", reason).until(us);
                self.push(Group::Process(*pid), "queues evicted", slice);
            }
            Event::Evict { pid, size } => {
                let slice = Slice::at(us, Kind::Eviction, format!("out: {size} bytes"));
                self.push(Group::Process(*pid), "buffers evicted", slice);
            }
            Event::Restore { pid, size } => {
                let slice = Slice::at(us, Kind::Eviction, format!("back: {size} bytes"));
                self.push(Group::Process(*pid), "buffers evicted", slice);
            }
            Event::Map {
                pid,
                va,
                size,
                entries,
            }
            | Event::Unmap {
                pid,
                va,
                size,
                entries,
            } => {
                self.name(record, *pid);
                let what = match record.event {
                    Event::Map { .. } => "map",
                    _ => "unmap",
                };
                let slice = Slice::at(us, Kind::Memory, what)
                    .with("va", format!("{va:#x}"))
                    .with("bytes", size)
                    .with("entries", entries);
                self.push(Group::Process(*pid), "page tables", slice);
            }
            Event::TlbFlush { vmid, kind } => {
                let slice = Slice::at(us, Kind::Memory, format!("VMID {vmid}, {kind}"));
                self.push(Group::Engines, "TLB flushes", slice);
            }
            Event::WaveSave {
                pid,
                queue,
                waves,
                stack,
            }
            | Event::WaveRestore {
                pid,
                queue,
                waves,
                stack,
            } => {
                let what = match record.event {
                    Event::WaveSave { .. } => "save",
                    _ => "restore",
                };
                let slice = Slice::at(us, Kind::Eviction, what)
                    .with("waves", waves)
                    .with("stack", stack);
                self.push(
                    Group::Process(*pid),
                    format!("waves of queue {queue}"),
                    slice,
                );
            }
            Event::VmFault {
                pid,
                pasid,
                addr,
                status,
            } => {
                let slice = Slice::at(us, Kind::Failure, format!("{addr:#x}"))
                    .with("pasid", pasid)
                    .with("status", format!("{status:#x}"));
                self.push(Group::Process(*pid), "VM faults", slice);
            }
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn tell(&mut self, told: &Told) {
        let group = Group::Process(told.pid);
        let slice = |kind| Slice {
            end: told.end,
            ..Slice::at(told.begin, kind, told.name.clone())
        };
        match &told.of {
            Of::Call(thread) => {
                self.push(group, format!("HIP's calls, {thread}"), slice(Kind::Call))
            }
            Of::Packet(queue) => {
                self.push(
                    group,
                    format!("packets of HIP's queue {queue}"),
                    slice(Kind::Doorbell),
                );
            }
            Of::Execution(queue) => {
                self.push(
                    Group::Engines,
                    format!("compute, HIP's queue {queue} of {}", told.pid),
                    slice(Kind::Job),
                );
            }
        }
    }

    /// Slices without an end last to the end of the recording.
    pub(crate) fn finish(mut self, records: &[Record]) -> Timeline {
        let begin = records.first().map_or(0, |record| record.us);
        let end = records.last().map_or(0, |record| record.us);
        for ((pid, _), (track, slice)) in std::mem::take(&mut self.queues) {
            self.push(
                Group::Process(pid),
                track,
                slice.with("ends", "after the recording").until(end),
            );
        }
        for ((pid, ..), slice) in std::mem::take(&mut self.evicted) {
            let slice = slice.with("ends", "after the recording").until(end);
            self.push(Group::Process(pid), "queues evicted", slice);
        }
        for job in std::mem::take(&mut self.jobs).into_values() {
            self.ran(&job, end);
        }
        let tracks = self.tracks.into_iter().map(|((group, name), mut slices)| {
            // Of those that begin together the longest comes first.
            slices.sort_by_key(|slice| (slice.begin, std::cmp::Reverse(slice.end)));
            Track {
                group,
                name,
                slices,
            }
        });
        Timeline {
            begin,
            end,
            processes: self.processes,
            tracks: tracks.collect(),
        }
    }
}

/// The source of a GPU interrupt, by `client_id` and `source_id` of its vector (SOC15's numbers).
fn source_name(client: u32, source: u32) -> String {
    let who = match client {
        0x08 => "SDMA0".into(),
        0x09 => "SDMA1".into(),
        0x01 => "SDMA2".into(),
        0x04 => "SDMA3".into(),
        0x05 => "SDMA4".into(),
        0x0a..=0x0d => format!("shader engine {}", client - 0x0a),
        0x12 => "VMC".into(),
        0x14 => "CP".into(),
        0x1b => "UTCL2".into(),
        other => format!("client {other:#x}"),
    };
    let what = match (client, source) {
        (0x12 | 0x1b, 0) => "VM fault".into(),
        (0x14, 181) => "end of pipe".into(),
        (0x14, 183) => "bad opcode".into(),
        (0x0a..=0x0d, 239) => "message".into(),
        (_, 224) => "trap".into(),
        (_, 240) => "preempted".into(),
        (_, other) => format!("source {other}"),
    };
    format!("{who}: {what}")
}
