// SPDX-License-Identifier: GPL-2.0
//! Hostile silicon: the freedoms that hardware has and that the model does not take by itself, by
//! decisions that follow from a seed.
//!
//! A decision is a hash of the seed, the present test, the site, a key for *what* is done there
//! (not when, nor by which thread), and how often that was done in the test before. So one event
//! more elsewhere shifts nothing, and a test alone gets what it gets in its boot. Decisions are
//! reproduced thereby, runs are not: the guest's clock and processors are the host's.
//!
//! A delay is counted in the host's accesses to registers and doorbells, which mean the same to a
//! fast guest and to a slow one, and bound in time.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::hash::Hasher;
use std::str::FromStr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHasher};

use crate::gpu::Gpu;
use crate::summary::{Count, Summary};

/// Freedoms that are remembered.
const REMEMBERED: usize = 4096;
/// The most accesses that a delay counts, and the time that most delays last at most.
const ACCESSES: u64 = 32;
const MOSTLY: Duration = Duration::from_millis(2);
/// The pause between two looks at what is late.
const LOOK: Duration = Duration::from_micros(50);

/// What may be taken together, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Interrupt entries and MSIs.
    Ih,
    /// Invalidations, and what is cached.
    Hub,
    /// Stores of the host to page tables.
    Hdp,
    /// SDMA engines.
    Sdma,
    /// Registers and LDS of waves.
    Wave,
    /// The state at power-up.
    Start,
}

impl Class {
    const ALL: [(Class, &'static str); 6] = [
        (Class::Ih, "ih"),
        (Class::Hub, "hub"),
        (Class::Hdp, "hdp"),
        (Class::Sdma, "sdma"),
        (Class::Wave, "wave"),
        (Class::Start, "start"),
    ];
}

/// The classes that take freedoms as long as the model runs.
const AFTER_POWER_UP: [Class; 4] = [Class::Ih, Class::Hub, Class::Hdp, Class::Sdma];

/// A place in the model that takes a freedom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Site {
    /// An entry comes late to the interrupt ring, and with it those behind it.
    IhEntry,
    /// An MSI comes late after the write pointer that it announces.
    IhMsi,
    /// An MSI comes twice.
    IhTwice,
    /// An invalidation takes effect, and is acknowledged, late.
    HubLate,
    /// A walk fills the valid neighbours of its entry.
    HubNeighbours,
    /// What is cached of an address space is lost.
    HubLost,
    /// Some of the host's stores to a page table are seen before the flush of the HDP.
    HdpLine,
    /// An engine's trap comes late after its fence.
    SdmaTrap,
    /// An engine writes its read pointer back after some more packets.
    SdmaPointer,
    /// Registers and LDS are random at power-up.
    WavePower,
    /// The reference clock does not begin at 0.
    StartClock,
    /// VRAM is random at power-up.
    StartVram,
}

impl Site {
    /// All, with their classes and names.
    pub const ALL: [(Site, Class, &'static str); 12] = [
        (Site::IhEntry, Class::Ih, "ih_entry_late"),
        (Site::IhMsi, Class::Ih, "ih_msi_late"),
        (Site::IhTwice, Class::Ih, "ih_msi_twice"),
        (Site::HubLate, Class::Hub, "hub_late"),
        (Site::HubNeighbours, Class::Hub, "hub_neighbours"),
        (Site::HubLost, Class::Hub, "hub_lost"),
        (Site::HdpLine, Class::Hdp, "hdp_line"),
        (Site::SdmaTrap, Class::Sdma, "sdma_trap_late"),
        (Site::SdmaPointer, Class::Sdma, "sdma_rptr_late"),
        (Site::WavePower, Class::Wave, "wave_power_up"),
        (Site::StartClock, Class::Start, "start_clock"),
        (Site::StartVram, Class::Start, "start_vram"),
    ];

    fn class(self) -> Class {
        Site::ALL[self as usize].1
    }

    fn name(self) -> &'static str {
        Site::ALL[self as usize].2
    }
}

/// How often a class takes its freedoms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    /// A quarter as often as [`Level::Often`].
    Seldom,
    Often,
}

/// What is taken: `SEED[,CLASS[=LEVEL]...][,some][,only=SITE:KEY:N...]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    seed: u64,
    levels: [Option<Level>; Class::ALL.len()],
    /// If there are some, nothing else is taken.
    only: Vec<(Site, u64, u64)>,
}

fn number(text: &str) -> Result<u64, String> {
    let number = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    number.map_err(|_| format!("hostile: {text} is no number"))
}

impl FromStr for Spec {
    type Err = String;

    fn from_str(text: &str) -> Result<Spec, String> {
        let mut parts = text.split(',');
        let mut spec = Spec {
            seed: number(parts.next().unwrap_or_default())?,
            levels: Default::default(),
            only: Vec::new(),
        };
        for part in parts {
            if let Some(which) = part.strip_prefix("only=") {
                spec.only.push(freedom(which)?);
                continue;
            }
            if part == "some" {
                spec.choose();
                continue;
            }
            let (name, level) = match part.split_once('=') {
                None | Some((_, "2")) => (part.split('=').next().unwrap_or(part), Level::Often),
                Some((name, "1")) => (name, Level::Seldom),
                Some(_) => return Err(format!("hostile: {part}: the level is 1 or 2")),
            };
            let class = Class::ALL.iter().find(|class| class.1 == name);
            let &(class, _) = class.ok_or_else(|| format!("hostile: there is no class {name}"))?;
            spec.levels[class as usize] = Some(level);
        }
        if spec.levels == [None; Class::ALL.len()] {
            spec.levels = [Some(Level::Often); Class::ALL.len()];
        }
        Ok(spec)
    }
}

impl Spec {
    /// Turns each class on with a chance of one half, as the seed has it, and one at least that
    /// goes on after power-up: loud freedoms hide quiet ones.
    fn choose(&mut self) {
        let bits = mix(self.seed);
        for (n, level) in self.levels.iter_mut().enumerate() {
            *level = (bits >> n & 1 == 1).then_some(Level::Often);
        }
        let first = mix(bits) as usize % AFTER_POWER_UP.len();
        self.levels[AFTER_POWER_UP[first] as usize] = Some(Level::Often);
    }
}

/// `SITE:KEY:N`, as a trace has it.
fn freedom(text: &str) -> Result<(Site, u64, u64), String> {
    let [name, key, n] = text.split(':').collect::<Vec<_>>()[..] else {
        return Err(format!("hostile: {text} is not SITE:KEY:N"));
    };
    let site = Site::ALL.iter().find(|site| site.2 == name);
    let site = site
        .ok_or_else(|| format!("hostile: there is no site {name}"))?
        .0;
    Ok((site, number(key)?, number(n)?))
}

/// When something late comes: after some accesses of the host, or at a time.
#[derive(Debug, Clone, Copy)]
pub struct Delay {
    accesses: u64,
    until: Instant,
}

impl Delay {
    /// None at all.
    pub fn none() -> Delay {
        Delay {
            accesses: 0,
            until: Instant::now(),
        }
    }

    /// Returns whether it is over.
    pub fn is_over(&self, summary: &Summary) -> bool {
        summary.accesses() >= self.accesses || Instant::now() >= self.until
    }
}

/// A freedom that was taken.
struct Taken {
    at: Duration,
    test: String,
    site: Site,
    key: u64,
    n: u64,
    value: u64,
}

struct State {
    test: String,
    begun: Instant,
    /// How often each site was asked for a key.
    counts: FxHashMap<(Site, u64), u64>,
    trace: VecDeque<Taken>,
}

/// Decides.
pub struct Fate {
    spec: Option<Spec>,
    state: Mutex<State>,
    taken: [Count; Site::ALL.len()],
    /// Something is late.
    late: Mutex<bool>,
    wake: Condvar,
}

impl Fate {
    /// Without a specification nothing is taken.
    pub fn new(spec: Option<Spec>) -> Fate {
        Fate {
            spec,
            state: Mutex::new(State {
                test: String::new(),
                begun: Instant::now(),
                counts: FxHashMap::default(),
                trace: VecDeque::new(),
            }),
            taken: Default::default(),
            late: Mutex::new(false),
            wake: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether freedoms are taken.
    pub fn is_on(&self) -> bool {
        self.spec.is_some()
    }

    /// Returns whether those of a class are.
    pub fn has(&self, class: Class) -> bool {
        let level = |spec: &Spec| spec.levels[class as usize];
        self.spec.as_ref().and_then(level).is_some()
    }

    /// A test begins: all counts begin anew.
    pub fn begin(&self, test: &str) {
        let mut state = self.state();
        state.test = test.into();
        state.counts.clear();
    }

    /// The random number of a freedom, which is taken once in `one_in` times; None if it is not
    /// taken. The decision is a hash of its parts, in their order.
    pub fn value(&self, site: Site, key: u64, one_in: u64) -> Option<u64> {
        let spec = self.spec.as_ref()?;
        let one_in = match spec.levels[site.class() as usize]? {
            Level::Often => one_in,
            Level::Seldom => one_in * 4,
        };
        let mut state = self.state();
        let count = state.counts.entry((site, key)).or_default();
        let n = *count;
        *count += 1;
        let mut hasher = FxHasher::default();
        hasher.write(state.test.as_bytes());
        let parts = [spec.seed, hasher.finish(), site as u64, key, n];
        let hash = parts.into_iter().fold(0, |hash, part| mix(hash ^ part));
        let is_chosen = match spec.only[..] {
            [] => hash % one_in == 0,
            _ => spec.only.contains(&(site, key, n)),
        };
        if !is_chosen {
            return None;
        }
        self.taken[site as usize].bump();
        let value = mix(hash);
        if state.trace.len() == REMEMBERED {
            state.trace.pop_front();
        }
        let taken = Taken {
            at: state.begun.elapsed(),
            test: state.test.clone(),
            site,
            key,
            n,
            value,
        };
        state.trace.push_back(taken);
        Some(value)
    }

    /// Whether a freedom is taken that is taken once in `one_in` times.
    pub fn chance(&self, site: Site, key: u64, one_in: u64) -> bool {
        self.value(site, key, one_in).is_some()
    }

    /// How late something is, once in five times: one in ten of these until a time of at most
    /// `most`, the others until the host has made some accesses, but not much longer.
    pub fn delay(&self, summary: &Summary, site: Site, key: u64, most: Duration) -> Option<Delay> {
        let value = self.value(site, key, 5)?;
        let (now, part) = (Instant::now(), mix(value));
        Some(if value % 10 == 0 {
            let micros = most.as_micros() as u64;
            Delay {
                accesses: u64::MAX,
                until: now + Duration::from_micros(part % micros.max(1)),
            }
        } else {
            Delay {
                accesses: summary.accesses() + 1 + part % ACCESSES,
                until: now + MOSTLY.min(most),
            }
        })
    }

    /// Something is late, and has to be looked at.
    pub fn note_late(&self) {
        *self.late.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wake.notify_one();
    }

    /// Brings what is late, for ever.
    pub fn run(&self, gpu: &Gpu) -> crate::error::Result<()> {
        loop {
            let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
            while !*late {
                late = self.wake.wait(late).unwrap_or_else(PoisonError::into_inner);
            }
            *late = false;
            drop(late);
            if gpu.bring_late()? {
                self.note_late();
                std::thread::sleep(LOOK);
            }
        }
    }

    /// The number of freedoms taken, by site; those of which none was are left out.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        let counts = Site::ALL.iter().zip(&self.taken);
        counts
            .map(|(site, count)| (site.2, count.get()))
            .filter(|&(_, count)| count > 0)
            .collect()
    }

    /// Returns whether nothing but what there is at power-up was taken, though other classes are
    /// on.
    pub fn is_idle(&self) -> bool {
        let sites = || {
            let sites = Site::ALL.iter().zip(&self.taken);
            sites.filter(|(site, _)| AFTER_POWER_UP.contains(&site.1) && self.has(site.1))
        };
        sites().next().is_some() && sites().all(|(_, count)| count.get() == 0)
    }

    /// The last freedoms, the oldest first, a line each: time, test, `SITE:KEY:N`, random number.
    pub fn trace(&self) -> String {
        let mut text = String::new();
        for taken in &self.state().trace {
            let ms = taken.at.as_millis();
            let (site, test) = (taken.site.name(), &taken.test);
            let (key, n, value) = (taken.key, taken.n, taken.value);
            let _ = writeln!(text, "{ms} ms {test} {site}:{key:#x}:{n} {value:#x}");
        }
        text
    }
}

/// Spreads the bits of `value` over all (the finalizer of SplitMix64).
pub fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fate(spec: &str) -> Fate {
        Fate::new(Some(spec.parse().unwrap()))
    }

    fn asked(fate: &Fate, key: u64) -> Vec<bool> {
        let ask = |_| fate.chance(Site::HubLost, key, 2);
        (0..64).map(ask).collect()
    }

    #[test]
    fn specifications() {
        let all: Spec = "0x2a".parse().unwrap();
        assert_eq!(all.seed, 42);
        assert_eq!(all.levels, [Some(Level::Often); Class::ALL.len()]);
        let some = fate("1,ih,hub=1,only=hub_late:0x3:7");
        assert!(some.has(Class::Ih) && some.has(Class::Hub) && !some.has(Class::Sdma));
        for text in ["", "x", "1,cp", "1,ih=3", "1,only=hub_late", "1,only=x:1:1"] {
            assert!(text.parse::<Spec>().is_err(), "{text}");
        }
        for (n, (site, ..)) in Site::ALL.iter().enumerate() {
            assert_eq!(*site as usize, n);
        }
        for (n, (class, _)) in Class::ALL.iter().enumerate() {
            assert_eq!(*class as usize, n);
        }
    }

    #[test]
    fn some_classes_follow_from_the_seed() {
        let of = |seed: u64| -> Spec { format!("{seed},some").parse().unwrap() };
        assert_eq!(of(7), of(7));
        for (class, name) in Class::ALL {
            let count = (0..200).filter(|&seed| of(seed).levels[class as usize].is_some());
            let count = count.count();
            assert!(count > 70 && count < 180, "{name}: {count}");
        }
        let goes_on = |spec: &Spec| {
            AFTER_POWER_UP
                .iter()
                .any(|&c| spec.levels[c as usize].is_some())
        };
        assert!((0..200).all(|seed| goes_on(&of(seed))));
    }

    #[test]
    fn decisions_follow_from_the_seed_and_the_test() {
        let (one, other) = (fate("7"), fate("8"));
        let first = asked(&one, 1);
        assert!(first.contains(&true) && first.contains(&false));
        assert_ne!(first, asked(&one, 1));
        assert_ne!(first, asked(&other, 1));
        // A test begins anew, whatever came before, and whatever else there is.
        one.begin("");
        asked(&one, 2);
        assert_eq!(first, asked(&one, 1));
        one.begin("queue");
        assert_ne!(first, asked(&one, 1));
    }

    #[test]
    fn a_class_that_is_off_takes_nothing() {
        let fate = fate("7,ih");
        assert!(!asked(&fate, 1).contains(&true));
        assert!(fate.counts().is_empty() && fate.is_idle());
        assert!(fate.value(Site::IhMsi, 0, 1).is_some() && !fate.is_idle());
        assert!(!self::fate("7,start").is_idle());
        let off = Fate::new(None);
        assert!(!asked(&off, 1).contains(&true) && !off.is_idle());
    }

    #[test]
    fn what_was_taken_can_be_played_alone() {
        let all = fate("7");
        asked(&all, 1);
        let trace = all.trace();
        let words: Vec<&str> = trace.lines().last().unwrap().split(' ').collect();
        let site = words[words.len() - 2];
        let alone = fate(&format!("7,only={site}"));
        let again = asked(&alone, 1);
        assert_eq!(again.iter().filter(|&&taken| taken).count(), 1);
        assert_eq!(alone.counts()["hub_lost"], 1);
        assert!(alone.trace().contains(site));
    }

    #[test]
    fn delays_are_counted_and_bound() {
        let (fate, summary) = (fate("7"), Summary::default());
        let most = Duration::from_millis(1);
        let delays = (0..1000).filter_map(|n| fate.delay(&summary, Site::HubLate, n, most));
        let delays: Vec<Delay> = delays.collect();
        assert!((100..300).contains(&delays.len()), "{}", delays.len());
        let now = Instant::now();
        assert!(delays.iter().all(|delay| delay.until < now + most));
        summary.register_reads.add(ACCESSES);
        let over = delays.iter().filter(|delay| delay.accesses <= ACCESSES);
        assert!(over.clone().all(|delay| delay.is_over(&summary)));
        assert!(over.count() > delays.len() / 2);
    }

    #[test]
    fn the_trace_has_an_end() {
        let fate = fate("7");
        for key in 0..3 * REMEMBERED as u64 {
            fate.chance(Site::HubLost, key, 1);
        }
        assert_eq!(fate.trace().lines().count(), REMEMBERED);
        assert_eq!(fate.counts()["hub_lost"], 3 * REMEMBERED as u64);
    }
}
