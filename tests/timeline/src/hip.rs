// SPDX-License-Identifier: GPL-2.0
//! HIP's log with `AMD_LOG_LEVEL=4`: its calls, the packets that it puts into compute queues, and
//! the GPU's times of those for which they were requested. Doorbells of compute queues and the CP's
//! work are between the process and the hardware: the kernel sees neither.
//!
//! The log is meant for humans, and has many other lines: unknown ones are left out.

use std::collections::BTreeMap;

/// An entry of HIP's log; times are microseconds of CLOCK_MONOTONIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The process.
    pub pid: u32,
    /// Its origin.
    pub of: Of,
    /// A call, a packet, or a kernel.
    pub name: String,
    /// The time of its begin, or its only time.
    pub begin: u64,
    /// The time of its end, if it has a duration.
    pub end: Option<u64>,
}

/// The origins of entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Of {
    /// A call by a thread, by HIP's name of that.
    Call(String),
    /// A packet that was put into a compute queue, by HIP's number of it.
    Packet(u32),
    /// The GPU's times for a packet in that queue.
    Execution(u32),
}

/// A packet whose signal will have its times.
struct Pending {
    queue: u32,
    name: String,
}

/// Reads the log of a program, with the program's other output.
pub fn read(text: &str) -> Vec<Told> {
    let mut told = Vec::new();
    let mut calls: BTreeMap<(u32, String), (String, u64)> = BTreeMap::new();
    let mut shaders: BTreeMap<(u32, String), String> = BTreeMap::new();
    let mut signals: BTreeMap<(u32, String), Pending> = BTreeMap::new();
    for line in text.lines() {
        let Some((us, pid, tid, rest)) = split(line) else {
            continue;
        };
        let thread = (pid, tid.to_owned());
        if let Some(name) = called(rest) {
            calls.insert(thread, (name.into(), us));
        } else if let Some((name, _)) = rest.split_once(": Returned ") {
            if let Some((called, begin)) =
                calls.remove(&thread).filter(|(called, _)| called == name)
            {
                told.push(Told {
                    pid,
                    of: Of::Call(tid.into()),
                    name: called,
                    begin,
                    end: Some(us),
                });
            }
        } else if let Some(name) = rest.strip_prefix("ShaderName : ") {
            shaders.insert(thread, name.trim().into());
        } else if let Some((queue, what, signal)) = packet(rest) {
            let name = match what {
                "Dispatch" => shaders.remove(&thread).unwrap_or_else(|| "a kernel".into()),
                what => what.into(),
            };
            if let Some(signal) = signal {
                let name = name.clone();
                signals.insert((pid, signal.into()), Pending { queue, name });
            }
            told.push(Told {
                pid,
                of: Of::Packet(queue),
                name,
                begin: us,
                end: None,
            });
        } else if let Some((signal, begin, end)) = times(rest) {
            if let Some(pending) = signals.remove(&(pid, signal.to_owned())) {
                told.push(Told {
                    pid,
                    of: Of::Execution(pending.queue),
                    name: pending.name,
                    begin: begin / 1000,
                    end: Some(end / 1000),
                });
            }
        }
    }
    told
}

/// `:LEVEL:FILE :LINE: MICROSECONDS us: [pid:PID tid: TID] TEXT`
fn split(line: &str) -> Option<(u64, u32, &str, &str)> {
    let (head, rest) = line.split_once(" us: [pid:")?;
    let us = head.rsplit(' ').next()?.parse().ok()?;
    let (who, text) = rest.split_once("] ")?;
    let (pid, tid) = who.split_once(" tid: ")?;
    Some((us, pid.trim().parse().ok()?, tid.trim(), text.trim()))
}

/// The name of a call that begins: `NAME ( ARGUMENTS )`, in a colour.
fn called(text: &str) -> Option<&str> {
    let text = text.strip_prefix("\x1b[32m")?.trim_start();
    let (name, _) = text.split_once(" (")?;
    name.starts_with("hip").then_some(name)
}

/// `SWq=.., HWq=.., id=QUEUE, WHAT Header = .., completion_signal=SIGNAL..`; a signal of 0 is none.
fn packet(text: &str) -> Option<(u32, &str, Option<&str>)> {
    let text = text.strip_prefix("SWq=")?;
    let (_, text) = text.split_once(", id=")?;
    let (queue, text) = text.split_once(", ")?;
    let (what, text) = text.split_once(" Header = ")?;
    let (_, signal) = text.split_once("completion_signal=")?;
    let signal = signal
        .split([',', ' '])
        .next()
        .filter(|signal| *signal != "0x0");
    Some((queue.parse().ok()?, what, signal))
}

/// `Signal = (SIGNAL), Translated start/end = NANOSECONDS / NANOSECONDS, ..`
fn times(text: &str) -> Option<(&str, u64, u64)> {
    let (signal, text) = text
        .strip_prefix("Signal = (")?
        .split_once("), Translated start/end = ")?;
    let (times, _) = text.split_once(',')?;
    let (begin, end) = times.split_once(" / ")?;
    Some((signal, begin.parse().ok()?, end.parse().ok()?))
}
