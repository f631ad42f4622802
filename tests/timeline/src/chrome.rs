// SPDX-License-Identifier: GPL-2.0
//! The timeline as JSON of the Trace Event Format, which Perfetto's viewer and chrome://tracing
//! open.

use crate::timeline::{Group, Slice, Timeline};
use serde_json::{json, Map, Value};

/// Groups that are no processes get numbers above all that Linux gives to processes
/// (PID_MAX_LIMIT).
const NO_PROCESS: u32 = 4 << 20;

fn pid(group: Group) -> u32 {
    match group {
        Group::Engines => NO_PROCESS + 1,
        Group::Jobs => NO_PROCESS + 2,
        Group::Interrupts => NO_PROCESS + 3,
        Group::Process(pid) => pid,
    }
}

/// The whole document. Each group is a process of it and each track a thread, or several where its
/// slices overlap.
pub fn document(timeline: &Timeline) -> Value {
    let mut events = Vec::new();
    let mut named: Vec<Group> = Vec::new();
    let mut tid = 0;
    for track in &timeline.tracks {
        let pid = pid(track.group);
        if !named.contains(&track.group) {
            let order = named.len();
            named.push(track.group);
            events.push(metadata(
                "process_name",
                pid,
                0,
                "name",
                json!(timeline.name(track.group)),
            ));
            events.push(metadata(
                "process_sort_index",
                pid,
                0,
                "sort_index",
                json!(order),
            ));
        }
        for (lane, slices) in track.lanes().into_iter().enumerate() {
            tid += 1;
            let name = match lane {
                0 => track.name.clone(),
                lane => format!("{} ({})", track.name, lane + 1),
            };
            events.push(metadata("thread_name", pid, tid, "name", json!(name)));
            events.push(metadata(
                "thread_sort_index",
                pid,
                tid,
                "sort_index",
                json!(tid),
            ));
            events.extend(slices.into_iter().map(|slice| event(slice, pid, tid)));
        }
    }
    json!({ "traceEvents": events, "displayTimeUnit": "ns" })
}

fn metadata(what: &str, pid: u32, tid: u32, key: &str, value: Value) -> Value {
    json!({ "ph": "M", "name": what, "pid": pid, "tid": tid, "args": { key: value } })
}

/// Times are microseconds of the trace's clock.
fn event(slice: &Slice, pid: u32, tid: u32) -> Value {
    let args: Map<String, Value> = slice
        .args
        .iter()
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect();
    let (name, kind, begin) = (&slice.name, slice.kind.name(), slice.begin);
    match slice.end {
        Some(end) => json!({
            "ph": "X", "name": name, "cat": kind, "ts": begin, "dur": end - begin,
            "pid": pid, "tid": tid, "args": args
        }),
        None => json!({
            "ph": "i", "s": "t", "name": name, "cat": kind, "ts": begin,
            "pid": pid, "tid": tid, "args": args
        }),
    }
}
