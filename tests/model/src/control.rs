// SPDX-License-Identifier: GPL-2.0
//! The control socket: one command a line, one line of answer to each.
//!
//! - `summary`: all counters, as JSON.
//! - `state`: all registers that are not zero, see [`state`].
//! - `firmware`: the driver's commands to the PSP, as JSON, see [`crate::psp`].
//! - `power START`: the board's power goes off and on, see [`crate::psp::start`]; a board that was
//!   pulled out is in again.
//! - `remove [N [LINE]]`: the board is pulled out, after N more accesses to its registers, counted
//!   from the next line of `firmware` that begins with LINE; see [`crate::removal`].
//! - `psp-fault FAULT`: see [`crate::psp::faults::Faults::add`].
//! - `sensors [NAME=VALUE ...]`: new values of the board's sensors; the answer has all values. With
//!   `default` the initial ones. See [`crate::smu::sensors`].
//! - `hostile test NAME`: a test begins, see [`crate::fate`].
//! - `flash blank`, `flash whole`, `flash AT=BYTE`: the contents of the board's flash chip, see
//!   [`crate::board::Rom::change`].
//! - `crash ENGINE`: the firmware of `mec`, or of `sdma0` to `sdma4`, stops for good, see
//!   [`crate::psp::Psp::crash`].
//! - `pause N`, `resume N`: SDMA engine N; with `mec` the user queues of the command processor.
//! - `linger MS`: SDMA queues report that they are idle only so long after they were disabled.
//!   `linger packet`: only while their engine executes no packet, until the next `linger MS`.
//! - `drop-interrupt [COUNT]`: the next interrupts' MSIs are not sent.
//! - `hold-entries MS`: when the interrupt ring is next turned on, no entry comes for MS.
//! - `omit-pasid on`, `omit-pasid off`: whether interrupt entries lack the PASID, as is known of
//!   gfx9 without HWS.
//! - `retry-cam off`, `retry-cam on`: whether the IH's retry CAM lets through the entries that it
//!   should keep out, or not.
//! - `hubs silent`, `hubs answer`: neither hub acknowledges invalidations, or both do again, as
//!   after a reset. `hubs silent gfx`, `hubs silent mm`: only that hub is silent.
//! - `fail-copy [N]`: the next copy, of engine N, is refused; one of the kernel's ring has an
//!   uncorrectable error of memory.
//! - `ecc N`: SDMA engine N reports such an error of the kernel's ring, and goes on.
//! - `hang-queue [COUNT]`: the next user compute queues with a packet to execute hang in it.
//!   `hang-queue waves`: one, of which only the waves hang.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::cp::Hang;
use crate::gpu::Gpu;
use crate::hub::HubId;
use crate::psp::engines as psp;
use crate::state;

/// Listens at `path`; every client gets a thread.
pub fn listen(gpu: &Arc<Gpu>, path: &Path) -> std::io::Result<()> {
    let listener = UnixListener::bind(path)?;
    let gpu = gpu.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let gpu = gpu.clone();
            std::thread::spawn(move || {
                // A client that goes away in the middle of a line is no error.
                let _ = talk(&gpu, stream);
            });
        }
    });
    Ok(())
}

fn talk(gpu: &Gpu, stream: UnixStream) -> std::io::Result<()> {
    let mut answers = stream.try_clone()?;
    for line in BufReader::new(stream).lines() {
        let line = line?;
        // A terminal line on the way may send carriage returns and empty lines.
        if line.trim().is_empty() {
            continue;
        }
        let answer = match command(gpu, &line) {
            Ok(text) if text.is_empty() => "ok".into(),
            Ok(text) => format!("ok {text}"),
            Err(text) => format!("error: {text}"),
        };
        answers.write_all(format!("{answer}\n").as_bytes())?;
    }
    Ok(())
}

/// The counter `GROUP.KEY` of `summary`; for `GROUP.PREFIX*`, the sum of those of the group that
/// begin so, of which there may be none.
fn count(summary: &serde_json::Value, what: &str) -> Result<u64, String> {
    let unknown = || format!("no counter {what}");
    let (group, key) = what.split_once('.').ok_or_else(unknown)?;
    let group = summary[group].as_object().ok_or_else(unknown)?;
    match key.strip_suffix('*') {
        Some(prefix) => {
            let counters = group.iter().filter(|(name, _)| name.starts_with(prefix));
            counters
                .map(|(_, value)| value.as_u64().ok_or_else(unknown))
                .sum()
        }
        None => group
            .get(key)
            .and_then(|value| value.as_u64())
            .ok_or_else(unknown),
    }
}

/// Executes a command line. Returns the answer's text or the error.
pub fn command(gpu: &Gpu, line: &str) -> Result<String, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let engine = |word: &str| {
        word.parse()
            .ok()
            .and_then(|n: usize| gpu.sdma.get(n))
            .ok_or_else(|| format!("no SDMA engine {word}"))
    };
    match words[..] {
        ["summary"] => return Ok(gpu.json().to_string()),
        ["count", first, ref more @ ..] => {
            let summary = gpu.json();
            let wanted = [first].into_iter().chain(more.iter().copied());
            let counts: Result<Vec<_>, _> = wanted.map(|what| count(&summary, what)).collect();
            let counts = counts?.into_iter().map(|count| count.to_string());
            return Ok(counts.collect::<Vec<_>>().join(" "));
        }
        ["firmware"] => return Ok(gpu.psp.json().to_string()),
        ["power", start] => {
            gpu.power_cycle(start.parse()?);
            gpu.removal.end();
        }
        ["remove"] => gpu.remove(0, None),
        ["remove", count, ref line @ ..] => {
            let count = count.parse().map_err(|_| format!("bad count {count}"))?;
            gpu.remove(count, (!line.is_empty()).then(|| line.join(" ")));
        }
        ["psp-fault", fault] => gpu.psp.add_fault(gpu, fault)?,
        ["sensors", ref values @ ..] => return gpu.smu.set_sensors(gpu, values),
        ["hostile", "test", name] => gpu.fate.begin(name),
        ["flash", how] => gpu.rom.change(how)?,
        ["state"] => return Ok(state::dump(gpu).to_string()),
        ["crash", name] => {
            let engine = psp::Engine::named(name).filter(|engine| match engine {
                psp::Engine::Sdma(n) => *n < gpu.sdma.len(),
                psp::Engine::Mec => true,
                psp::Engine::Rlc => false,
            });
            gpu.psp
                .crash(engine.ok_or_else(|| format!("no engine {name}"))?);
        }
        ["pause", "mec"] => gpu.cp.pause(),
        ["resume", "mec"] => gpu.cp.resume(),
        ["hang-queue"] => gpu.cp.hang_queues(1, Hang::Whole),
        ["hang-queue", "waves"] => gpu.cp.hang_queues(1, Hang::Waves),
        ["hang-queue", count] => {
            // Queues, whose number is small.
            let count: u8 = count.parse().map_err(|_| format!("bad count {count}"))?;
            gpu.cp.hang_queues(count.into(), Hang::Whole);
        }
        ["pause", n] => engine(n)?.pause(),
        ["resume", n] => engine(n)?.resume(),
        ["linger", "packet"] => gpu.sdma.iter().for_each(|engine| engine.linger_behind()),
        ["linger", ms] => {
            let ms = ms.parse().map_err(|_| format!("bad time {ms}"))?;
            let time = Duration::from_millis(ms);
            gpu.sdma.iter().for_each(|engine| engine.linger(time));
        }
        ["drop-interrupt"] => gpu.ih.drop_interrupts(1),
        ["drop-interrupt", count] => {
            let count = count.parse().map_err(|_| format!("bad count {count}"))?;
            gpu.ih.drop_interrupts(count);
        }
        ["hold-entries", ms] => {
            let ms = ms.parse().map_err(|_| format!("bad time {ms}"))?;
            gpu.ih.hold_entries(Duration::from_millis(ms));
        }
        ["omit-pasid", "on"] => gpu.ih.omit_pasids(true),
        ["omit-pasid", "off"] => gpu.ih.omit_pasids(false),
        ["retry-cam", how @ ("off" | "on")] => gpu.ih.disable_cam(how == "off"),
        ["hubs", "answer"] => gpu.silence_hubs(&[]),
        ["hubs", "silent"] => gpu.silence_hubs(&[HubId::Gfx, HubId::Mm]),
        ["hubs", "silent", "gfx"] => gpu.silence_hubs(&[HubId::Gfx]),
        ["hubs", "silent", "mm"] => gpu.silence_hubs(&[HubId::Mm]),
        ["ecc", n] => {
            let reported = engine(n)?.report_ecc(gpu);
            reported.map_err(|error| error.to_string())?;
        }
        ["fail-copy"] => gpu.fail_next_copy(),
        ["fail-copy", n] => engine(n)?.fail_next_copy(),
        _ => return Err(format!("unknown command {line:?}")),
    }
    Ok(String::new())
}
