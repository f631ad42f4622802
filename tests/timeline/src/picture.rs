// SPDX-License-Identifier: GPL-2.0
//! The timeline as a picture (SVG), of the parts of the run in which most tracks have events.

use crate::timeline::{Group, Kind, Slice, Timeline, Track};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::collections::BTreeSet;
use std::error::Error;

/// Pixels: the picture, the labels at its left, a track, a line of text.
const WIDTH: i32 = 1500;
const LABELS: i32 = 330;
const ROW: i32 = 17;
const TEXT: i32 = 12;
const HEAD: i32 = 60;
const GAP: i32 = 30;
/// Width of events without duration.
const MARK: i32 = 2;
const LEFT: Pos = Pos {
    h_pos: HPos::Left,
    v_pos: VPos::Center,
};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// A stretch of time, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its beginning.
    pub begin: u64,
    /// Its end, which is later.
    pub end: u64,
}

impl Window {
    fn has(&self, slice: &Slice) -> bool {
        slice.begin <= self.end && slice.end.unwrap_or(slice.begin) >= self.begin
    }

    /// Returns whether it begins or ends inside, and does not only last through it.
    fn sees(&self, slice: &Slice) -> bool {
        let within = |us| (self.begin..=self.end).contains(&us);
        within(slice.begin) || slice.end.is_some_and(within)
    }

    /// Returns whether it begins and ends inside.
    fn holds(&self, slice: &Slice) -> bool {
        slice.begin >= self.begin && slice.end.is_some_and(|end| end <= self.end)
    }

    fn x(&self, us: u64) -> i32 {
        let us = us.clamp(self.begin, self.end) - self.begin;
        let share = us as f64 / (self.end - self.begin) as f64;
        LABELS + (share * f64::from(WIDTH - LABELS - 40)) as i32
    }
}

/// Of the windows of `us` microseconds, the first in which most tracks have an event that begins or
/// ends.
pub fn busiest(timeline: &Timeline, us: u64) -> Window {
    let starts = timeline.tracks.iter().flat_map(|track| &track.slices);
    let mut starts: Vec<u64> = starts.map(|slice| slice.begin).collect();
    starts.sort_unstable();
    starts.dedup_by_key(|start| *start / (us / 4).max(1));
    let mut best = (0, timeline.begin);
    for start in starts {
        let window = Window {
            begin: start,
            end: start + us,
        };
        let sees = |track: &&Track| track.slices.iter().any(|slice| window.sees(slice));
        let count = timeline.tracks.iter().filter(sees).count();
        if count > best.0 {
            best = (count, start);
        }
    }
    Window {
        begin: best.1,
        end: best.1 + us,
    }
}

/// A window of `us` microseconds around one event, and the process that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scene {
    /// The window.
    pub window: Window,
    /// Tracks of other processes are left out.
    pub process: Group,
}

/// The quietest scene around a slice of a process's track whose name begins with `prefix`: of those
/// with a job that an engine of the name `engine` begins and ends there, the one with the fewest
/// slices; one without an interrupt only if none has one. `None` without any.
pub fn quietest(timeline: &Timeline, prefix: &str, engine: &str, us: u64) -> Option<Scene> {
    let of_process = |track: &&Track| matches!(track.group, Group::Process(_));
    let tracks = timeline.tracks.iter().filter(of_process);
    let tracks = tracks.filter(|track| track.name.starts_with(prefix));
    let scenes = tracks.flat_map(|track| {
        track.slices.iter().map(|slice| {
            let begin = slice.begin.saturating_sub(us / 5);
            let end = begin + us;
            Scene {
                window: Window { begin, end },
                process: track.group,
            }
        })
    });
    let works = |scene: &Scene| {
        let engines = timeline.tracks.iter();
        let engines = engines.filter(|t| t.group == Group::Engines && t.name.starts_with(engine));
        let mut jobs = engines.flat_map(|track| &track.slices);
        jobs.any(|job| scene.window.holds(job))
    };
    scenes.filter(works).min_by_key(|scene| {
        let groups: BTreeSet<_> = timeline.tracks.iter().map(|track| track.group).collect();
        let slices = groups.iter().map(|group| seen(timeline, scene, *group));
        let silent = seen(timeline, scene, Group::Interrupts) == 0;
        (silent, slices.sum::<usize>())
    })
}

/// How many slices of a group begin or end in a scene.
fn seen(timeline: &Timeline, scene: &Scene, group: Group) -> usize {
    let tracks = timeline.tracks.iter().filter(|track| track.group == group);
    let slices = tracks.flat_map(|track| &track.slices);
    slices.filter(|slice| scene.window.sees(slice)).count()
}

fn colour(kind: Kind) -> RGBColor {
    match kind {
        Kind::Job => RGBColor(46, 134, 193),
        Kind::Waiting => RGBColor(174, 214, 241),
        Kind::Queue => RGBColor(200, 205, 210),
        Kind::Doorbell => RGBColor(230, 126, 34),
        Kind::Interrupt => RGBColor(142, 68, 173),
        Kind::Eviction => RGBColor(203, 67, 53),
        Kind::Memory => RGBColor(39, 145, 96),
        Kind::Call => RGBColor(212, 172, 13),
        Kind::Failure => RGBColor(80, 0, 0),
    }
}

/// Tracks with events in the window, under the names of their groups. `process` leaves out those of
/// others.
fn rows<'a>(timeline: &'a Timeline, window: &Window, process: Option<Group>) -> Rows<'a> {
    let mut rows = Vec::new();
    let mut last = None;
    for track in &timeline.tracks {
        let of_other = matches!(track.group, Group::Process(_))
            && process.is_some_and(|process| track.group != process);
        if of_other || !track.slices.iter().any(|slice| window.has(slice)) {
            continue;
        }
        if last != Some(track.group) {
            last = Some(track.group);
            rows.push((last, None));
        }
        rows.push((None, Some(track)));
    }
    rows
}

/// Draws `timeline`: a panel for each of `windows`. `title` describes the run.
pub fn draw(timeline: &Timeline, windows: &[Window], title: &str) -> Result<String> {
    let panels = windows
        .iter()
        .map(|window| (window, rows(timeline, window, None)));
    drawn(timeline, &panels.collect::<Vec<_>>(), title)
}

/// Draws a scene: one panel.
pub fn draw_scene(timeline: &Timeline, scene: &Scene, title: &str) -> Result<String> {
    let rows = rows(timeline, &scene.window, Some(scene.process));
    drawn(timeline, &[(&scene.window, rows)], title)
}

type Rows<'a> = Vec<(Option<Group>, Option<&'a Track>)>;

fn drawn(timeline: &Timeline, panels: &[(&Window, Rows<'_>)], title: &str) -> Result<String> {
    let height = |rows: usize| HEAD + rows as i32 * ROW + GAP;
    let total: i32 = panels.iter().map(|(_, rows)| height(rows.len())).sum();
    let mut text = String::new();
    {
        let size = (WIDTH as u32, (total + GAP) as u32);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE)?;
        write(&root, title, (10, 12), TEXT + 4, LEFT)?;
        legend(&root)?;
        let mut top = GAP;
        for (window, rows) in panels {
            panel(&root, timeline, window, rows, top)?;
            top += height(rows.len());
        }
        root.present()?;
    }
    Ok(text)
}

fn write(area: &Area<'_>, text: &str, at: (i32, i32), size: i32, pos: Pos) -> Result {
    let style = ("sans-serif", size).into_text_style(area).pos(pos);
    area.draw(&Text::new(text.to_owned(), at, style))?;
    Ok(())
}

fn legend(area: &Area<'_>) -> Result {
    let kinds = [
        Kind::Queue,
        Kind::Doorbell,
        Kind::Waiting,
        Kind::Job,
        Kind::Interrupt,
        Kind::Eviction,
        Kind::Memory,
        Kind::Call,
        Kind::Failure,
    ];
    for (n, kind) in kinds.into_iter().enumerate() {
        let x = WIDTH - 95 * (kinds.len() - n) as i32;
        area.draw(&Rectangle::new(
            [(x, 7), (x + 12, 17)],
            colour(kind).filled(),
        ))?;
        write(area, kind.name(), (x + 16, 12), TEXT, LEFT)?;
    }
    Ok(())
}

fn panel(
    area: &Area<'_>,
    timeline: &Timeline,
    window: &Window,
    rows: &[(Option<Group>, Option<&Track>)],
    top: i32,
) -> Result {
    let span = window.end - window.begin;
    let after = window.begin.saturating_sub(timeline.begin) as f64 / 1000.0;
    let head = format!(
        "{:.1} ms, from {after:.1} ms after the beginning of the recording on",
        span as f64 / 1000.0
    );
    write(area, &head, (10, top + 14), TEXT + 1, LEFT)?;
    let bottom = top + HEAD + rows.len() as i32 * ROW;
    for tenth in 0..=10 {
        let us = window.begin + span * tenth / 10;
        let x = window.x(us);
        let line = [(x, top + HEAD - 4), (x, bottom)];
        area.draw(&PathElement::new(line, RGBColor(225, 225, 225)))?;
        let label = format!("{:.1} ms", (us - window.begin) as f64 / 1000.0);
        write(
            area,
            &label,
            (x, top + HEAD - 14),
            TEXT - 2,
            Pos::new(HPos::Center, VPos::Center),
        )?;
    }
    for (n, (group, track)) in rows.iter().enumerate() {
        let y = top + HEAD + n as i32 * ROW;
        let middle = y + ROW / 2;
        if let Some(group) = group {
            let band = [(0, y), (WIDTH, y + ROW - 1)];
            area.draw(&Rectangle::new(band, RGBColor(240, 243, 246).filled()))?;
            write(area, &timeline.name(*group), (10, middle), TEXT, LEFT)?;
        }
        if let Some(track) = track {
            write(area, &track.name, (24, middle), TEXT - 1, LEFT)?;
            fill(area, window, track, y)?;
        }
    }
    Ok(())
}

/// The slices of a track. Those that fall upon the same pixels are one stroke: a picture has no
/// room for each of thousands.
fn fill(area: &Area<'_>, window: &Window, track: &Track, y: i32) -> Result {
    let mut strokes: Vec<(i32, i32, Kind, Option<&str>)> = Vec::new();
    for slice in track.slices.iter().filter(|slice| window.has(slice)) {
        let from = window.x(slice.begin);
        let to = window.x(slice.end.unwrap_or(slice.begin)).max(from + MARK);
        match strokes.last_mut() {
            Some(last) if from <= last.1 && last.2 == slice.kind => {
                // Names of overlapping slices would be unreadable.
                last.1 = last.1.max(to);
                last.3 = None;
            }
            _ => strokes.push((from, to, slice.kind, Some(&slice.name))),
        }
    }
    for (from, to, kind, name) in strokes {
        let bar = [(from, y + 2), (to, y + ROW - 3)];
        area.draw(&Rectangle::new(bar, colour(kind).filled()))?;
        if let Some(name) = name.filter(|name| (to - from) as usize > name.len() * 7 + 4) {
            let place = (from + 3, y + ROW / 2);
            write(area, name, place, TEXT - 2, LEFT)?;
        }
    }
    Ok(())
}
