// SPDX-License-Identifier: GPL-2.0
//! Lines of tracefs's `trace`: rkfd's own events, those of the GPU scheduler, and of the
//! interrupt's handler.
//!
//! Every event of the groups `rkfd` and `gpu_scheduler` must be known here with all of its fields,
//! in their order: another one is an error, so that a picture never leaves out an event of the
//! driver.

use thiserror::Error;

/// The reason why a recording cannot be read.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Error {
    /// A line that does not have the form `task-tid [cpu] flags seconds: event: fields`.
    #[error("no line of a trace: {0}")]
    Form(String),
    /// The kernel's buffer was full.
    #[error("events were lost: {0}")]
    Lost(String),
    /// An event that this crate does not know.
    #[error("unknown event: {0}")]
    Unknown(String),
    /// An event that has other fields than this crate knows.
    #[error("event with other fields than {0}: {1}")]
    Fields(String, String),
    /// An event that does not follow from those before it.
    #[error("{0}: {1}")]
    Order(&'static str, String),
}

/// An event. Fields are those of `include/rkfd_trace.h`, `include/rkfd_drm_run_job.h` and the
/// kernel's own events.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Event {
    Ioctl {
        pid: u32,
        nr: u32,
        error: i64,
    },
    QueueCreate {
        pid: u32,
        queue: u32,
        engine: u32,
        ring: u64,
        size: u64,
    },
    QueueDestroy {
        pid: u32,
        queue: u32,
    },
    QueueEvict {
        pid: u32,
        gpu: u32,
        reason: String,
    },
    QueueRestore {
        pid: u32,
        gpu: u32,
        reason: String,
    },
    Evict {
        pid: u32,
        size: u64,
    },
    Restore {
        pid: u32,
        size: u64,
    },
    Doorbell {
        pid: u32,
        queue: u32,
        wptr: u64,
    },
    SdmaSpan {
        pid: u32,
        queue: u32,
        from: u64,
        to: u64,
        within_ns: u64,
    },
    Map {
        pid: u32,
        va: u64,
        size: u64,
        entries: u64,
    },
    Unmap {
        pid: u32,
        va: u64,
        size: u64,
        entries: u64,
    },
    TlbFlush {
        vmid: u32,
        kind: String,
    },
    Interrupt {
        client: u32,
        source: u32,
        ring: u32,
        vmid: u32,
        pasid: u32,
        data: u32,
    },
    ShaderInterrupt {
        pasid: u32,
        vmid: u32,
        error: bool,
        data: u32,
        place: String,
    },
    WaveSave {
        pid: u32,
        queue: u32,
        waves: u32,
        stack: u32,
    },
    WaveRestore {
        pid: u32,
        queue: u32,
        waves: u32,
        stack: u32,
    },
    VmFault {
        pasid: u32,
        pid: u32,
        addr: u64,
        status: u32,
    },
    /// `drm_sched_job_queue`: a job is pushed.
    JobQueue {
        fence: Fence,
        ring: String,
    },
    /// `drm_sched_job_run`: the scheduler takes it, and will call the driver.
    JobRun {
        fence: Fence,
        ring: String,
    },
    /// `drm_run_job`: the driver gives it to the hardware.
    RunJob {
        id: u64,
        ring: String,
    },
    /// `drm_sched_job_done`: it is done.
    JobDone {
        fence: Fence,
    },
    /// A job waits for another's fence.
    JobWaits {
        fence: Fence,
    },
    /// The interrupt's handler is called.
    IrqEntry {
        irq: u32,
        name: String,
    },
    /// It returns.
    IrqExit {
        irq: u32,
    },
}

/// A job's fence: context and number.
pub type Fence = (u64, u64);

/// An event, its time and the running thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Microseconds of the trace's clock.
    pub us: u64,
    /// Name of the thread that ran.
    pub comm: String,
    /// Its number.
    pub tid: u32,
    /// The processor.
    pub cpu: u32,
    /// The event.
    pub event: Event,
}

/// Reads a whole `trace`. The first line that cannot be read ends it.
pub fn read(text: &str) -> Result<Vec<Record>, Error> {
    let lines = text
        .lines()
        .filter(|l| !l.starts_with('#') && !l.trim().is_empty());
    lines.map(line).collect()
}

/// Reads a line of `trace`.
pub fn line(text: &str) -> Result<Record, Error> {
    if text.starts_with("CPU:") && text.contains("LOST") {
        return Err(Error::Lost(text.into()));
    }
    let (head, (us, name, fields)) = split(text).ok_or_else(|| Error::Form(text.into()))?;
    let (comm, tid, cpu) = head;
    let event = event(name, fields, text)?;
    Ok(Record {
        us,
        comm: comm.into(),
        tid,
        cpu,
        event,
    })
}

/// `   task-tid   [cpu] flags seconds.micros: event: fields`; names of tasks may hold anything.
#[allow(clippy::type_complexity)]
fn split(text: &str) -> Option<((&str, u32, u32), (u64, &str, &str))> {
    let at = text.match_indices(" [").map(|(at, _)| at).find(|&at| {
        let cpu = text[at + 2..].split(']').next().unwrap_or_default();
        cpu.len() == 3 && cpu.bytes().all(|b| b.is_ascii_digit())
    })?;
    let (comm, tid) = text[..at].trim().rsplit_once('-')?;
    let (cpu, rest) = text[at + 2..].split_once("] ")?;
    let (_flags, rest) = rest.trim_start().split_once(' ')?;
    let (time, rest) = rest.trim_start().split_once(": ")?;
    let (seconds, micros) = time.split_once('.')?;
    let us = seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?;
    let (name, fields) = rest.split_once(':')?;
    Some((
        (comm, tid.parse().ok()?, cpu.parse().ok()?),
        (us, name, fields.trim()),
    ))
}

fn number<T: TryFrom<u64>>(text: &str) -> Option<T> {
    let value = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => text.parse().ok()?,
    };
    T::try_from(value).ok()
}

/// The values of `key=value`, parted by blanks; nothing else may be there.
fn values<'a, const N: usize>(fields: &'a str, keys: [&str; N]) -> Option<[&'a str; N]> {
    let mut parts = fields.split_whitespace();
    let mut out = [""; N];
    for (key, out) in keys.iter().zip(&mut out) {
        *out = parts.next()?.strip_prefix(key)?.strip_prefix('=')?;
    }
    parts.next().is_none().then_some(out)
}

/// The value behind `key` of a list that is parted by commas.
fn value<'a>(fields: &'a str, key: &str) -> Option<&'a str> {
    fields.split(", ").find_map(|part| part.strip_prefix(key))
}

fn fence(text: &str) -> Option<Fence> {
    let text = text.split_whitespace().next()?;
    let (context, seqno) = text.split_once(':')?;
    Some((context.parse().ok()?, seqno.parse().ok()?))
}

/// The keys that an event has, for messages.
fn keys_of(name: &str) -> &'static str {
    match name {
        "rkfd_ioctl" => "pid nr error",
        "rkfd_queue_create" => "pid queue engine ring size",
        "rkfd_queue_destroy" => "pid queue",
        "rkfd_queue_evict" | "rkfd_queue_restore" => "pid pasid gpu reason",
        "rkfd_evict" | "rkfd_restore" => "pid size",
        "rkfd_doorbell" => "pid queue wptr",
        "rkfd_sdma_span" => "pid queue from to within_ns",
        "rkfd_map" | "rkfd_unmap" => "pid va size entries",
        "rkfd_tlb_flush" => "vmid kind",
        "rkfd_interrupt" => "client source ring vmid pasid data0",
        "rkfd_shader_interrupt" => "pasid vmid message priv se cu simd wave",
        "rkfd_wave_save" | "rkfd_wave_restore" => "pid queue waves stack",
        "rkfd_vm_fault" => "pasid pid addr status",
        "drm_run_job" => "id ring",
        "drm_sched_job_queue" | "drm_sched_job_run" => "fence ring",
        "drm_sched_job_done" | "drm_sched_job_add_dep" | "drm_sched_job_unschedulable" => "fence",
        "irq_handler_entry" => "irq name",
        "irq_handler_exit" => "irq ret",
        _ => "",
    }
}

fn event(name: &str, fields: &str, text: &str) -> Result<Event, Error> {
    let keys = keys_of(name);
    if keys.is_empty() {
        return Err(Error::Unknown(text.into()));
    }
    let read = match name.starts_with("rkfd_") {
        true => own(name, fields),
        false => kernels(name, fields),
    };
    read.ok_or_else(|| Error::Fields(keys.into(), text.into()))
}

fn own(name: &str, fields: &str) -> Option<Event> {
    Some(match name {
        "rkfd_ioctl" => {
            let [pid, nr, error] = values(fields, ["pid", "nr", "error"])?;
            Event::Ioctl {
                pid: number(pid)?,
                nr: number(nr)?,
                error: error.parse().ok()?,
            }
        }
        "rkfd_queue_create" => {
            let [pid, queue, engine, ring, size] =
                values(fields, ["pid", "queue", "engine", "ring", "size"])?;
            Event::QueueCreate {
                pid: number(pid)?,
                queue: number(queue)?,
                engine: number(engine)?,
                ring: number(ring)?,
                size: number(size)?,
            }
        }
        "rkfd_queue_destroy" => {
            let [pid, queue] = values(fields, ["pid", "queue"])?;
            Event::QueueDestroy {
                pid: number(pid)?,
                queue: number(queue)?,
            }
        }
        "rkfd_queue_evict" | "rkfd_queue_restore" => {
            let [pid, pasid, gpu, reason] = values(fields, ["pid", "pasid", "gpu", "reason"])?;
            number::<u32>(pasid)?;
            let (pid, gpu, reason) = (number(pid)?, number(gpu)?, reason.to_owned());
            match name {
                "rkfd_queue_evict" => Event::QueueEvict { pid, gpu, reason },
                _ => Event::QueueRestore { pid, gpu, reason },
            }
        }
        "rkfd_evict" | "rkfd_restore" => {
            let [pid, size] = values(fields, ["pid", "size"])?;
            let (pid, size) = (number(pid)?, number(size)?);
            match name {
                "rkfd_evict" => Event::Evict { pid, size },
                _ => Event::Restore { pid, size },
            }
        }
        "rkfd_doorbell" => {
            let [pid, queue, wptr] = values(fields, ["pid", "queue", "wptr"])?;
            Event::Doorbell {
                pid: number(pid)?,
                queue: number(queue)?,
                wptr: number(wptr)?,
            }
        }
        "rkfd_sdma_span" => {
            let names = ["pid", "queue", "from", "to", "within_ns"];
            let [pid, queue, from, to, within_ns] = values(fields, names)?;
            Event::SdmaSpan {
                pid: number(pid)?,
                queue: number(queue)?,
                from: number(from)?,
                to: number(to)?,
                within_ns: number(within_ns)?,
            }
        }
        "rkfd_map" | "rkfd_unmap" => {
            let [pid, va, size, entries] = values(fields, ["pid", "va", "size", "entries"])?;
            let (pid, va, size) = (number(pid)?, number(va)?, number(size)?);
            let entries = number(entries)?;
            match name {
                "rkfd_map" => Event::Map {
                    pid,
                    va,
                    size,
                    entries,
                },
                _ => Event::Unmap {
                    pid,
                    va,
                    size,
                    entries,
                },
            }
        }
        "rkfd_tlb_flush" => {
            let [vmid, kind] = values(fields, ["vmid", "kind"])?;
            Event::TlbFlush {
                vmid: number(vmid)?,
                kind: kind.into(),
            }
        }
        "rkfd_interrupt" => {
            let [client, source, ring, vmid, pasid, data] = values(
                fields,
                ["client", "source", "ring", "vmid", "pasid", "data0"],
            )?;
            Event::Interrupt {
                client: number(client)?,
                source: number(source)?,
                ring: number(ring)?,
                vmid: number(vmid)?,
                pasid: number(pasid)?,
                data: number(data)?,
            }
        }
        "rkfd_shader_interrupt" => shader(fields)?,
        "rkfd_wave_save" | "rkfd_wave_restore" => {
            let [pid, queue, waves, stack] = values(fields, ["pid", "queue", "waves", "stack"])?;
            let (pid, queue) = (number(pid)?, number(queue)?);
            let (waves, stack) = (number(waves)?, number(stack)?);
            match name {
                "rkfd_wave_save" => Event::WaveSave {
                    pid,
                    queue,
                    waves,
                    stack,
                },
                _ => Event::WaveRestore {
                    pid,
                    queue,
                    waves,
                    stack,
                },
            }
        }
        "rkfd_vm_fault" => {
            let [pasid, pid, addr, status] = values(fields, ["pasid", "pid", "addr", "status"])?;
            Event::VmFault {
                pasid: number(pasid)?,
                pid: number(pid)?,
                addr: number(addr)?,
                status: number(status)?,
            }
        }
        _ => return None,
    })
}

/// A wave's message or error, and its place.
fn shader(fields: &str) -> Option<Event> {
    let error = fields.contains(" error=");
    let what = if error { "error" } else { "message" };
    let [pasid, vmid, data, privileged, se, cu, simd, wave] = values(
        fields,
        ["pasid", "vmid", what, "priv", "se", "cu", "simd", "wave"],
    )?;
    number::<u32>(privileged)?;
    Some(Event::ShaderInterrupt {
        pasid: number(pasid)?,
        vmid: number(vmid)?,
        error,
        data: number(data)?,
        place: format!("se {se}, cu {cu}, simd {simd}, wave {wave}"),
    })
}

fn kernels(name: &str, fields: &str) -> Option<Event> {
    Some(match name {
        "drm_run_job" => Event::RunJob {
            id: number(value(fields, "id=")?)?,
            ring: value(fields, "ring=")?.into(),
        },
        "drm_sched_job_queue" | "drm_sched_job_run" => {
            let fence = fence(value(fields, "fence=")?)?;
            let ring = value(fields, "ring=")?.to_owned();
            match name {
                "drm_sched_job_queue" => Event::JobQueue { fence, ring },
                _ => Event::JobRun { fence, ring },
            }
        }
        "drm_sched_job_done" => Event::JobDone {
            fence: fence(value(fields, "fence=")?)?,
        },
        "drm_sched_job_add_dep" | "drm_sched_job_unschedulable" => Event::JobWaits {
            fence: fence(value(fields, "fence=")?)?,
        },
        "irq_handler_entry" => {
            let [irq, name] = values(fields, ["irq", "name"])?;
            Event::IrqEntry {
                irq: number(irq)?,
                name: name.into(),
            }
        }
        "irq_handler_exit" => {
            let [irq, _ret] = values(fields, ["irq", "ret"])?;
            Event::IrqExit { irq: number(irq)? }
        }
        _ => return None,
    })
}
