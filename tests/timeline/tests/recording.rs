// SPDX-License-Identifier: GPL-2.0
//! A recorded snippet becomes the right tracks; unreadable lines are an error.

use rkfd_timeline::event::{self, Error, Event};
use rkfd_timeline::timeline::{Group, Kind, Timeline, Track};
use rkfd_timeline::{chrome, hip, picture};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// From a run of `make timeline`: lines of its trace, and of the log of one of its processes.
const TRACE: &str = include_str!("recording.trace");
const HIP: &str = include_str!("recording.log");
const HEADER: &str = include_str!("../../../include/rkfd_trace.h");

fn timeline() -> Timeline {
    Timeline::new(&event::read(TRACE).unwrap(), &hip::read(HIP)).unwrap()
}

fn track<'a>(timeline: &'a Timeline, group: Group, name: &str) -> &'a Track {
    let all = || timeline.tracks.iter();
    let found = all().find(|track| track.group == group && track.name == name);
    let names: Vec<_> = all().map(|track| (track.group, &track.name)).collect();
    found.unwrap_or_else(|| panic!("no {name} of {group:?}: {names:?}"))
}

fn line(event: &str) -> String {
    format!("   a [b] c-12   [001] d..2.    58.001002: {event}")
}

#[test]
fn a_span_is_read() {
    let line = line("rkfd_sdma_span: pid=7 queue=2 from=0x0 to=0x40 within_ns=4000000");
    let expected = Event::SdmaSpan {
        pid: 7,
        queue: 2,
        from: 0,
        to: 0x40,
        within_ns: 4_000_000,
    };
    assert_eq!(event::line(&line).unwrap().event, expected);
}

#[test]
fn a_line_is_read() {
    let record = event::line(&line("rkfd_doorbell: pid=7 queue=2 wptr=0x40")).unwrap();
    assert_eq!(record.us, 58_001_002);
    assert_eq!(record.comm, "a [b] c");
    assert_eq!((record.tid, record.cpu), (12, 1));
    let expected = Event::Doorbell {
        pid: 7,
        queue: 2,
        wptr: 0x40,
    };
    assert_eq!(record.event, expected);
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let error = |event: &str| event::line(&line(event)).unwrap_err();
    assert!(matches!(error("rkfd_news: pid=7"), Error::Unknown(_)));
    assert!(matches!(error("sched_switch: prev=a"), Error::Unknown(_)));
    for fields in [
        "pid=7 queue=2",
        "pid=7 queue=2 wptr=x",
        "pid=7 queue=2 wptr=0x40 more=1",
        "queue=2 pid=7 wptr=0x40",
        "pid=4294967296 queue=2 wptr=0x40",
        "",
    ] {
        let event = format!("rkfd_doorbell: {fields}");
        assert!(matches!(error(&event), Error::Fields(..)), "{fields}");
    }
    let lost = event::read("CPU:0 [LOST 12 EVENTS]\n").unwrap_err();
    assert!(matches!(lost, Error::Lost(_)));
    assert!(matches!(
        event::line("nonsense").unwrap_err(),
        Error::Form(_)
    ));
}

#[test]
fn what_does_not_follow_is_an_error() {
    for events in [
        &["rkfd_queue_destroy: pid=7 queue=2"][..],
        &["rkfd_queue_restore: pid=7 pasid=1 gpu=9 reason=eviction"],
        &["drm_sched_job_done: fence=3:1 signaled"],
        &[
            "drm_run_job: entity=00000000a, id=1, fence=00000000b, ring=sdma0, \
           job count:0, hw job count:1",
        ],
        &["rkfd_queue_evict: pid=7 pasid=1 gpu=9 reason=eviction"; 2],
        &["drm_sched_job_queue: dev=0, fence=3:1, ring=a.b.c, \
           job count:0, hw job count:0, client_id:0"],
    ] {
        let text: String = events.iter().map(|event| line(event) + "\n").collect();
        let records = event::read(&text).unwrap();
        let error = Timeline::new(&records, &[]).unwrap_err();
        assert!(matches!(error, Error::Order(..)), "{events:?}: {error}");
    }
}

/// Each event of the driver as it would print it, by the formats in its header.
#[test]
fn the_drivers_events_are_known() {
    let mut formats = BTreeMap::new();
    let mut known = 0;
    for part in HEADER.split("\n\n") {
        let Some((what, rest)) = part.split_once('(') else {
            continue;
        };
        let what = what.lines().last().unwrap_or_default();
        let mut names = rest.split([',', '(']).map(str::trim);
        let name = names.next().unwrap();
        let format = part
            .split("TP_printk(\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        let (name, format) = match what {
            "DECLARE_EVENT_CLASS" => {
                formats.insert(name, format.unwrap());
                continue;
            }
            "TRACE_EVENT" => (name, format.unwrap()),
            "DEFINE_EVENT" => (names.next().unwrap(), formats[name]),
            _ => continue,
        };
        let mut fields = format.replacen("%s=", "message=", 1);
        for (directive, value) in [
            ("%s", "word"),
            ("%02x", "1"),
            ("%llx", "1"),
            ("%llu", "1"),
            ("%x", "1"),
            ("%u", "1"),
            ("%d", "1"),
        ] {
            fields = fields.replace(directive, value);
        }
        event::line(&line(&format!("{name}: {fields}"))).unwrap();
        known += 1;
    }
    assert_eq!(
        known,
        HEADER.matches("\nTRACE_EVENT(").count() + HEADER.matches("\nDEFINE_EVENT(").count()
    );
    assert!(known >= 16);
}

#[test]
fn queues_and_doorbells() {
    let timeline = timeline();
    assert_eq!(timeline.missing(), None);
    assert_eq!(timeline.processes[&150], "hip_turns.forky");
    let process = Group::Process(150);
    assert_eq!(timeline.name(process), "process 150 (hip_turns.forky)");
    let queue = &track(&timeline, process, "queue 3: sdma0").slices;
    assert_eq!(queue.len(), 1);
    assert_eq!(queue[0].kind, Kind::Queue);
    assert_eq!(
        (queue[0].begin, queue[0].end),
        (301_941_958, Some(337_380_379))
    );
    track(&timeline, process, "queue 1: compute");
    let doorbells = &track(&timeline, process, "doorbell of queue 4").slices;
    let values: Vec<_> = doorbells
        .iter()
        .map(|d| (d.begin, d.end, d.name.as_str()))
        .collect();
    assert_eq!(
        values,
        [(314_319_421, None, "0x6c"), (314_582_946, None, "0xc0")]
    );
}

#[test]
fn jobs_and_engines() {
    let timeline = timeline();
    let jobs = &track(&timeline, Group::Jobs, "sdma1.150.4").slices;
    let times: Vec<_> = jobs
        .iter()
        .map(|job| (job.name.as_str(), job.begin, job.end))
        .collect();
    let expected = [
        ("job 173", 314_324_012, Some(314_485_920)),
        ("job 174", 314_583_755, Some(314_601_275)),
    ];
    assert_eq!(times, expected);
    let waited = &track(&timeline, Group::Process(150), "jobs waiting of queue 3").slices;
    assert_eq!(
        (waited[0].begin, waited[0].end),
        (314_306_572, Some(314_319_866))
    );
    let engine = &track(&timeline, Group::Engines, "sdma1").slices;
    let whose: Vec<_> = engine.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(whose, ["150, queue 4", "150, queue 4", "kernel"]);
    let compute = track(&timeline, Group::Engines, "compute, HIP's queue 1 of 150");
    let kernels: Vec<_> = compute
        .slices
        .iter()
        .map(|k| (k.name.as_str(), k.begin, k.end))
        .collect();
    assert_eq!(kernels, [("scale", 314_439_637, Some(314_445_125))]);
}

#[test]
fn interrupts_and_evictions() {
    let timeline = timeline();
    for name in [
        "SDMA0: trap",
        "SDMA4: trap",
        "CP: end of pipe",
        "irq 24: rkfd",
    ] {
        assert_eq!(
            track(&timeline, Group::Interrupts, name).slices.len(),
            2,
            "{name}"
        );
    }
    let irq = &track(&timeline, Group::Interrupts, "irq 24: rkfd").slices[1];
    assert_eq!((irq.begin, irq.end), (79_855_754, Some(79_855_788)));
    let process = Group::Process(150);
    let evicted = &track(&timeline, process, "queues evicted").slices;
    assert_eq!(evicted.len(), 1);
    assert_eq!(
        (evicted[0].begin, evicted[0].end),
        (301_698_047, Some(314_270_724))
    );
    let buffers = &track(&timeline, process, "buffers evicted").slices;
    assert_eq!(buffers.len(), 6);
    assert_eq!(buffers[2].name, "out: 322961408 bytes");
}

#[test]
fn hip_tells_its_calls_and_packets() {
    let timeline = timeline();
    let process = Group::Process(150);
    let calls = &track(&timeline, process, "HIP's calls, 0x7f93847ec8c0").slices;
    assert_eq!(calls[0].name, "hipMemcpyAsync");
    assert_eq!(
        (calls[0].begin, calls[0].end),
        (301_727_372, Some(301_997_157))
    );
    let packets = &track(&timeline, process, "packets of HIP's queue 1").slices;
    assert!(packets
        .iter()
        .all(|packet| packet.name == "scale" && packet.end.is_none()));
    assert_eq!(packets.len(), 2);
}

/// Viewers show slices of one thread only if they lie beside or within each other.
#[test]
fn the_document_has_each_slice_once_and_none_upon_another() {
    let timeline = timeline();
    let document = chrome::document(&timeline);
    let events = document["traceEvents"].as_array().unwrap();
    let mut ends = BTreeMap::new();
    let mut shown = 0;
    for event in events {
        let (pid, tid) = (
            event["pid"].as_u64().unwrap(),
            event["tid"].as_u64().unwrap(),
        );
        match event["ph"].as_str().unwrap() {
            "M" => continue,
            "X" => {
                let begin = event["ts"].as_u64().unwrap();
                let free = ends.insert((pid, tid), begin + event["dur"].as_u64().unwrap());
                assert!(free.unwrap_or(0) <= begin, "{event}");
            }
            other => assert_eq!(other, "i"),
        }
        shown += 1;
    }
    let slices: usize = timeline.tracks.iter().map(|track| track.slices.len()).sum();
    assert_eq!(shown, slices);
    let named = events
        .iter()
        .filter(|event| event["name"] == "process_name")
        .count();
    assert_eq!(named, 4);
}

/// Rules of the Trace Event Format for the three kinds of events that there are, and for the whole:
/// Perfetto silently drops an event that breaks them.
#[test]
fn the_document_is_in_the_trace_event_format() {
    // In its read form, not in its original one.
    let text = chrome::document(&timeline()).to_string();
    let document: Value = serde_json::from_str(&text).unwrap();
    let keys = |value: &Value| -> Vec<String> {
        let mut keys: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    };
    assert_eq!(keys(&document), ["displayTimeUnit", "traceEvents"]);
    assert!(["ms", "ns"].contains(&document["displayTimeUnit"].as_str().unwrap()));
    let mut named = BTreeSet::new();
    let mut used = BTreeSet::new();
    for event in document["traceEvents"].as_array().unwrap() {
        // Perfetto keeps both in 32 bits, and takes tid 0 of a process for none.
        let pid = u32::try_from(event["pid"].as_u64().unwrap()).unwrap();
        let tid = u32::try_from(event["tid"].as_u64().unwrap()).unwrap();
        assert!(event["name"].is_string() && event["args"].is_object());
        match event["ph"].as_str().unwrap() {
            "M" => {
                assert_eq!(keys(event), ["args", "name", "ph", "pid", "tid"]);
                let args = &event["args"];
                match event["name"].as_str().unwrap() {
                    "process_name" => {
                        assert!(args["name"].is_string());
                        assert!(named.insert((pid, 0)), "{event}: twice");
                    }
                    "thread_name" => {
                        assert!(args["name"].is_string() && tid != 0);
                        assert!(named.insert((pid, tid)), "{event}: twice");
                    }
                    "process_sort_index" | "thread_sort_index" => {
                        assert!(i32::try_from(args["sort_index"].as_u64().unwrap()).is_ok());
                    }
                    other => panic!("no metadata of that name: {other}"),
                }
            }
            "X" => {
                assert_eq!(
                    keys(event),
                    ["args", "cat", "dur", "name", "ph", "pid", "tid", "ts"]
                );
                assert!(event["ts"].is_u64() && event["dur"].is_u64() && event["cat"].is_string());
                used.insert((pid, tid));
            }
            "i" => {
                assert_eq!(
                    keys(event),
                    ["args", "cat", "name", "ph", "pid", "s", "tid", "ts"]
                );
                assert!(event["ts"].is_u64() && event["cat"].is_string());
                assert_eq!(event["s"], "t");
                used.insert((pid, tid));
            }
            other => panic!("no event of that kind: {other}"),
        }
        if event["ph"] != "M" {
            for value in event["args"].as_object().unwrap().values() {
                assert!(value.is_string() || value.is_number(), "{event}");
            }
        }
    }
    // Every track with events has a name, and so has its process.
    for (pid, tid) in used {
        assert!(named.contains(&(pid, tid)) && named.contains(&(pid, 0)));
    }
}

#[test]
fn slices_that_overlap_get_lanes() {
    let events = [
        "rkfd_queue_create: pid=7 queue=0 engine=0 ring=0x1000 size=4096",
        "drm_sched_job_queue: dev=0, fence=3:1, ring=sdma0, \
         job count:0, hw job count:0, client_id:0",
        "drm_sched_job_run: dev=0, fence=3:1, ring=sdma0, job count:0, hw job count:0, client_id:0",
        "drm_run_job: entity=1, id=1, fence=1, ring=sdma0, \
           job count:0, hw job count:1",
        "drm_sched_job_queue: dev=0, fence=4:1, ring=sdma0.7.0, \
         job count:0, hw job count:0, client_id:0",
        "drm_sched_job_run: dev=0, fence=4:1, ring=sdma0.7.0, \
         job count:0, hw job count:0, client_id:0",
        "drm_run_job: entity=1, id=2, fence=1, ring=sdma0.7.0, job count:0, hw job count:1",
        "drm_sched_job_done: fence=3:1 signaled",
    ];
    let mut text = String::new();
    for (n, event) in events.iter().enumerate() {
        writeln!(text, "a-7 [000] d..2. 58.00000{n}: {event}").unwrap();
    }
    let timeline = Timeline::new(&event::read(&text).unwrap(), &[]).unwrap();
    assert_eq!(track(&timeline, Group::Engines, "sdma0").lanes().len(), 2);
    // Slices without an end last to the end.
    assert_eq!(
        track(&timeline, Group::Jobs, "sdma0.7.0").slices[0].end,
        Some(timeline.end)
    );
    assert_eq!(
        track(&timeline, Group::Process(7), "queue 0: sdma0").slices[0].end,
        Some(timeline.end)
    );
    assert_eq!(timeline.missing(), Some("doorbells"));
}

#[test]
fn the_picture_has_what_is_in_its_windows() {
    let timeline = timeline();
    let window = picture::busiest(&timeline, 500_000);
    // There a job is queued, run and done on two engines.
    assert!(
        (314_000_000..314_400_000).contains(&window.begin),
        "{window:?}"
    );
    let svg = picture::draw(&timeline, &[window], "a title").unwrap();
    assert!(svg.starts_with("<svg"));
    for text in [
        "a title",
        "GPU engines",
        "sdma1.150.4",
        "doorbell of queue 4",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    // Ended long before.
    assert!(!svg.contains("SDMA4: trap"));
}

#[test]
fn a_scene_has_one_process_and_a_job_that_ends_there() {
    let timeline = timeline();
    let scene = picture::quietest(&timeline, "doorbell of queue", "sdma", 100_000).unwrap();
    assert_eq!(scene.process, Group::Process(150));
    // Around the second doorbell of queue 4: the first one's job takes longer.
    assert_eq!(scene.window.begin, 314_582_946 - 20_000);
    let svg = picture::draw_scene(&timeline, &scene, "a copy").unwrap();
    for text in ["a copy", "doorbell of queue 4", "process 150"] {
        assert!(svg.contains(text), "{text}");
    }
    let others = timeline.processes.keys().filter(|pid| **pid != 150);
    for pid in others {
        assert!(!svg.contains(&format!("process {pid} ")), "{pid}");
    }
    assert_eq!(
        picture::quietest(&timeline, "doorbell of queue", "vcn", 100_000),
        None
    );
}
