// SPDX-License-Identifier: GPL-2.0
//! `rkfd-timeline --trace FILE [--hip FILE]... --json FILE --svg FILE [--title TEXT] --window
//! MILLISECONDS... [--copy FILE] [--dispatch FILE] [--scene MILLISECONDS]`: a trace for Perfetto, and
//! pictures, from a recording: of the busiest windows, of one copy, and of one dispatch. It fails when
//! an event cannot be read, or a kind of track is missing.

use lexopt::Arg::Long;
use lexopt::ValueExt;
use rkfd_timeline::{chrome, event, hip, picture, timeline::Timeline};
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Default)]
struct Settings {
    trace: PathBuf,
    hip: Vec<PathBuf>,
    json: PathBuf,
    svg: PathBuf,
    title: String,
    windows: Vec<u64>,
    copy: Option<PathBuf>,
    dispatch: Option<PathBuf>,
    scene: u64,
}

fn settings() -> Result<Settings, lexopt::Error> {
    let mut settings = Settings::default();
    let mut parser = lexopt::Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Long("trace") => settings.trace = parser.value()?.into(),
            Long("hip") => settings.hip.push(parser.value()?.into()),
            Long("json") => settings.json = parser.value()?.into(),
            Long("svg") => settings.svg = parser.value()?.into(),
            Long("title") => settings.title = parser.value()?.string()?,
            Long("window") => settings.windows.push(parser.value()?.parse()?),
            Long("copy") => settings.copy = Some(parser.value()?.into()),
            Long("dispatch") => settings.dispatch = Some(parser.value()?.into()),
            Long("scene") => settings.scene = parser.value()?.parse()?,
            other => return Err(other.unexpected()),
        }
    }
    Ok(settings)
}

fn run() -> Result<(), Box<dyn Error>> {
    let settings = settings()?;
    let records = event::read(&fs::read_to_string(&settings.trace)?)?;
    let mut told = Vec::new();
    for log in &settings.hip {
        // Programs print any output beside it.
        told.extend(hip::read(&String::from_utf8_lossy(&fs::read(log)?)));
    }
    let timeline = Timeline::new(&records, &told)?;
    if let Some(missing) = timeline.missing() {
        return Err(format!("the recording has nothing of: {missing}").into());
    }
    fs::write(
        &settings.json,
        serde_json::to_vec(&chrome::document(&timeline))?,
    )?;
    let windows = settings.windows.iter();
    let windows: Vec<_> = windows
        .map(|ms| picture::busiest(&timeline, ms * 1000))
        .collect();
    let svg = picture::draw(&timeline, &windows, &settings.title)?;
    fs::write(&settings.svg, svg)?;
    // The names of tracks are those that the builder gives them.
    for (file, track, engine) in [
        (&settings.copy, "doorbell of queue", "sdma"),
        (&settings.dispatch, "packets of HIP's queue", "compute"),
    ] {
        let Some(file) = file else { continue };
        let us = settings.scene * 1000;
        let scene = picture::quietest(&timeline, track, engine, us)
            .ok_or_else(|| format!("the recording has no scene of a {track}"))?;
        fs::write(
            file,
            picture::draw_scene(&timeline, &scene, &settings.title)?,
        )?;
    }
    println!(
        "{} events and {} lines of HIP in {} tracks",
        records.len(),
        told.len(),
        timeline.tracks.len()
    );
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rkfd-timeline: {error}");
            ExitCode::FAILURE
        }
    }
}
