// SPDX-License-Identifier: GPL-2.0
//! The life of a retried page fault: its decisions row by row, and every order in which threads can
//! move the faults of two places.

use std::cell::Cell;
use std::collections::HashSet;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use hw::faults::{
    FaultArrival, FaultHistory, FaultMove, FaultPolicy, FaultReport, FaultStage, PendingFault,
    PendingFaults, ServedFault, StaleFault, MOST_KEPT, MOST_KEPT_OF_ONE,
};
use hw::ih::{CamEntry, HubKind, VmFault};

fn place(number: usize) -> CamEntry {
    CamEntry::all().nth(number).unwrap()
}

fn fault(hub: HubKind, pasid: u16, number: usize) -> VmFault {
    VmFault {
        hub,
        node: 0,
        vmid: 3,
        pasid,
        ring: 24,
        present: false,
        unwritable: false,
        page: number as u64,
        read: true,
        write: false,
        execute: false,
        retry: Some(place(number)),
    }
}

#[test]
fn arrival() {
    use {FaultArrival as A, FaultPolicy as P};
    for cut_off in [false, true] {
        for policy in [P::Error, P::Map, P::End] {
            assert_eq!(A::new(false, policy, cut_off), A::Refuse);
        }
        assert_eq!(A::new(true, P::Error, cut_off), A::Refuse);
        assert_eq!(A::new(true, P::End, cut_off), A::End);
    }
    assert_eq!(A::new(true, P::Map, false), A::Wait);
    // What a process that has failed comes to is not mapped any more.
    assert_eq!(A::new(true, P::Map, true), A::Refuse);
}

#[test]
fn report() {
    use FaultReport as R;
    for cut_off in [false, true] {
        for retried in [false, true] {
            for hub in [HubKind::Gfx, HubKind::Mm] {
                assert_eq!(R::new(hub, false, retried, cut_off), R::Report);
            }
            assert_eq!(R::new(HubKind::Gfx, true, retried, cut_off), R::Report);
        }
    }
    assert_eq!(R::new(HubKind::Mm, true, false, false), R::Report);
    assert_eq!(R::new(HubKind::Mm, true, true, false), R::CutOff);
    assert_eq!(R::new(HubKind::Mm, true, false, true), R::Follows);
    assert_eq!(R::new(HubKind::Mm, true, true, true), R::Follows);
}

#[test]
fn stages() {
    use {FaultMove as M, FaultStage as S};
    let over = S::Over { at_ms: 7 };
    let table = [
        (S::Raised, M::Serve, Some(S::Served)),
        (S::Raised, M::PutBack { awaits: false }, None),
        (S::Raised, M::PutBack { awaits: true }, None),
        (S::Raised, M::End { at_ms: 7 }, None),
        (S::Served, M::Serve, None),
        (S::Served, M::PutBack { awaits: false }, Some(S::Raised)),
        (S::Served, M::PutBack { awaits: true }, Some(S::Awaits)),
        (S::Served, M::End { at_ms: 7 }, Some(over)),
        (S::Awaits, M::Serve, Some(S::Served)),
        (S::Awaits, M::PutBack { awaits: false }, None),
        (S::Awaits, M::PutBack { awaits: true }, None),
        (S::Awaits, M::End { at_ms: 7 }, None),
        (over, M::Serve, None),
        (over, M::PutBack { awaits: false }, None),
        (over, M::PutBack { awaits: true }, None),
        (over, M::End { at_ms: 8 }, None),
    ];
    for (stage, event, after) in table {
        assert_eq!(stage.after(event), after, "{stage:?} {event:?}");
    }
}

#[test]
fn history() {
    let (gfx, mm) = (HubKind::Gfx, HubKind::Mm);
    let mut history = FaultHistory::new();
    history.set_unmapped(100);
    assert_eq!(history.check(gfx, 99, 1), Some(StaleFault::Unmapped));
    // The first of waves is news, and no other until the process has other queues.
    assert_eq!(history.check(gfx, 100, 1), None);
    assert_eq!(history.check(gfx, 101, 1), Some(StaleFault::Reported));
    assert_eq!(history.check(gfx, 102, 2), None);
    // SDMA's engine stands at its first.
    for position in 103..106 {
        assert_eq!(history.check(mm, position, 2), None);
    }
}

type Faults = PendingFaults<Vec<Option<PendingFault>>>;

fn empty(places: usize) -> Faults {
    PendingFaults::new(vec![None; places])
}

#[test]
fn order_of_service() {
    let mut faults = empty(4);
    faults.raise(place(0), fault(HubKind::Gfx, 1, 0), 32);
    faults.raise(place(1), fault(HubKind::Mm, 1, 1), 64);
    faults.raise(place(2), fault(HubKind::Gfx, 2, 2), 0);
    let mut oldest = faults.clone();
    let mut seen = oldest.cursor(1);
    let mut order = || oldest.serve(1, &mut seen).map(|served| served.position);
    assert_eq!([order(), order(), order()], [Some(32), Some(64), None]);
    // A fault that is put back is not served again by the thread that has seen it.
    assert!(oldest.put_back(place(0), 32, true));
    assert_eq!(oldest.serve(1, &mut seen), None);
    let mut seen = oldest.cursor(1);
    // Nor is one that comes later.
    oldest.raise(place(3), fault(HubKind::Gfx, 1, 3), 96);
    assert_eq!(
        oldest.serve(1, &mut seen).map(|served| served.position),
        Some(32)
    );
    assert_eq!(oldest.serve(1, &mut seen), None);

    let key = faults.set_urgent(1).unwrap();
    assert!(faults.is_urgent(1) && !faults.is_urgent(2));
    let mut urgent = faults.clone();
    let mut seen = urgent.cursor(1);
    let mut order = || urgent.serve(1, &mut seen).map(|served| served.position);
    assert_eq!([order(), order(), order()], [Some(64), Some(32), None]);
    faults.clear_urgent(key);
    assert!(!faults.is_urgent(1));
    // A process has one place, until the last call is taken back.
    let keys = [faults.set_urgent(2).unwrap(), faults.set_urgent(2).unwrap()];
    assert_eq!(keys[0], keys[1]);
    faults.clear_urgent(keys[0]);
    assert!(faults.is_urgent(2));
    let others: Vec<_> = (3..=18).map(|pasid| faults.set_urgent(pasid)).collect();
    assert!(others[..15].iter().all(Option::is_some) && others[15].is_none());
    faults.clear_urgent(keys[1]);
    assert!(!faults.is_urgent(2) && faults.is_urgent(17));
}

#[test]
fn over_counts_since() {
    let mut faults = empty(1);
    faults.raise(place(0), fault(HubKind::Mm, 1, 0), 0);
    let mut seen = faults.cursor(1);
    faults.serve(1, &mut seen).unwrap();
    faults.end(place(0), 0, 50);
    assert!(faults.are_under_way(1, 50) && !faults.are_under_way(1, 51));
    assert!(!faults.are_under_way(2, 0));
}

/// Raises `count` faults of process `pasid` at places from `first` on, and has them served and put
/// back; the number that keeps its place. The others end together.
fn keep(faults: &mut Faults, pasid: u16, first: usize, count: usize) -> usize {
    for number in first..first + count {
        let position = number as u64;
        faults.raise(place(number), fault(HubKind::Gfx, pasid, number), position);
    }
    look(faults, pasid)
}

/// Serves each fault of process `pasid` that there is, and puts it back; the number of those that
/// may stay.
fn look(faults: &mut Faults, pasid: u16) -> usize {
    let mut seen = faults.cursor(pasid);
    let (mut kept, mut put_off) = (0, 0);
    while let Some(served) = faults.serve(pasid, &mut seen) {
        if faults.put_back(served.place, served.position, true) {
            kept += 1;
        } else {
            put_off += 1;
        }
    }
    let mut all = CamEntry::all();
    assert!(all.all(|place| !faults.release(place, pasid + 1, 0)));
    let released = CamEntry::all().filter(|place| faults.release(*place, pasid, 0));
    assert_eq!(released.count(), put_off);
    kept
}

#[test]
fn kept_places() {
    let mut faults = empty(CamEntry::COUNT);
    let (most, of_one) = (MOST_KEPT as usize, MOST_KEPT_OF_ONE as usize);
    // One process keeps so many, and each look is at all of its faults.
    assert_eq!(keep(&mut faults, 1, 0, 2 * of_one), of_one);
    assert_eq!(look(&mut faults, 1), of_one);
    // Half of what may be kept is for processes that keep few.
    assert_eq!(keep(&mut faults, 2, 200, 2 * of_one), most / 2 - of_one);
    assert_eq!(keep(&mut faults, 3, 400, 10), 2);
    let few = (4..100).map(|pasid| keep(&mut faults, pasid, 400 + 4 * usize::from(pasid), 4));
    assert_eq!(few.sum::<usize>(), most / 2 - 2);
    assert_eq!(keep(&mut faults, 100, 1000, 4), 0);
    // A place that is free again may be kept.
    let mut seen = faults.cursor(3);
    let served = faults.serve(3, &mut seen).unwrap();
    faults.end(served.place, served.position, 0);
    assert_eq!(keep(&mut faults, 100, 1010, 4), 1);
    // Another fault at the place stands for the one that was served.
    let mut seen = faults.cursor(100);
    let served = faults.serve(100, &mut seen).unwrap();
    faults.raise(served.place, fault(HubKind::Gfx, 100, 0), 5000);
    assert!(faults.put_back(served.place, served.position, true));
    assert_eq!(look(&mut faults, 100), 1);
}

#[test]
fn suspended() {
    let mut faults = empty(2);
    faults.raise(place(0), fault(HubKind::Mm, 1, 0), 0);
    let mut seen = faults.cursor(1);
    let served = faults.serve(1, &mut seen).unwrap();
    faults.set_suspended(true);
    assert!(faults.is_suspended() && faults.is_any_served());
    faults.raise(place(1), fault(HubKind::Mm, 1, 1), 32);
    let mut seen = faults.cursor(1);
    assert_eq!(faults.serve(1, &mut seen), None);
    assert_eq!(faults.waiting_at(served.place), None);
    assert!(faults.put_back(served.place, served.position, false));
    assert!(!faults.is_any_served());
    assert_eq!(faults.waiting_at(place(0)).map(|fault| fault.page), Some(0));
    assert_eq!(faults.waiting_at(place(1)).map(|fault| fault.page), Some(1));
    faults.set_suspended(false);
    assert!(faults.serve(1, &mut seen).is_some());
}

/// Places that count the looks at them.
struct WatchedPlaces {
    places: Vec<Option<PendingFault>>,
    looks: Rc<Cell<usize>>,
}

impl Deref for WatchedPlaces {
    type Target = [Option<PendingFault>];

    fn deref(&self) -> &Self::Target {
        self.looks.set(self.looks.get() + 1);
        &self.places
    }
}

impl DerefMut for WatchedPlaces {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.looks.set(self.looks.get() + 1);
        &mut self.places
    }
}

/// DESTROY_QUEUE ends the faults of its process: the thousand places cost more than all the rest.
#[test]
fn no_look_without_faults() {
    let looks = Rc::new(Cell::new(0));
    let places = WatchedPlaces {
        places: vec![None; 3],
        looks: looks.clone(),
    };
    let mut faults = PendingFaults::new(places);
    let cancel = |faults: &mut PendingFaults<WatchedPlaces>| {
        let before = looks.get();
        let mut seen = faults.cursor(1);
        while let Some(served) = faults.serve(1, &mut seen) {
            faults.end(served.place, served.position, 0);
        }
        looks.get() - before
    };
    assert_eq!(cancel(&mut faults), 0);
    // Over for good, and one that is raised at a place that has one.
    for position in [0, 32, 64] {
        faults.raise(place(0), fault(HubKind::Gfx, 1, 0), position);
        assert_ne!(cancel(&mut faults), 0);
        assert_eq!(cancel(&mut faults), 0);
    }
    faults.raise(place(1), fault(HubKind::Gfx, 1, 1), 96);
    faults.raise(place(1), fault(HubKind::Gfx, 1, 1), 128);
    assert_ne!(cancel(&mut faults), 0);
    assert_eq!(cancel(&mut faults), 0);
    // Of another process: one look finds that there is none of this one.
    faults.raise(place(2), fault(HubKind::Gfx, 2, 2), 160);
    assert_eq!(cancel(&mut faults), 1);
}

/// Places of the CAM, and entries that come in all.
const PLACES: usize = 2;
const ENTRIES: u64 = 4;
/// The process whose faults they are.
const PASID: u16 = 1;

/// What a thread is at that serves a fault.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Thread {
    Idle,
    Serves(ServedFault),
    Acknowledges(ServedFault),
}

/// The CAM, the interrupt ring, the faults and two threads that serve them.
#[derive(Clone, Debug)]
struct World {
    /// Whether the place is taken, until it is acknowledged.
    taken: [bool; PLACES],
    /// The position of the last entry at each.
    last: [u64; PLACES],
    entries: u64,
    overflowed: bool,
    faults: Faults,
    threads: [Thread; 2],
}

impl World {
    /// All states after one step of a thread.
    fn steps(&self) -> Vec<Self> {
        let mut next = Vec::new();
        for number in 0..PLACES {
            if !self.taken[number] && self.entries < ENTRIES {
                let mut world = self.clone();
                world.taken[number] = true;
                world.last[number] = self.entries;
                let entry = fault(HubKind::Mm, PASID, number);
                world.faults.raise(place(number), entry, self.entries);
                world.entries += 1;
                next.push(world);
            }
        }
        if !self.overflowed {
            let mut world = self.clone();
            world.overflowed = true;
            world.taken = [false; PLACES];
            next.push(world);
        }
        for (n, thread) in self.threads.iter().enumerate() {
            match *thread {
                Thread::Idle => {
                    let mut world = self.clone();
                    let mut seen = world.faults.cursor(PASID);
                    let served = world.faults.serve(PASID, &mut seen);
                    if let Some(served) = served {
                        world.threads[n] = Thread::Serves(served);
                        next.push(world);
                    }
                }
                Thread::Serves(served) => {
                    for awaits in [false, true] {
                        let mut world = self.clone();
                        let (place, position) = (served.place, served.position);
                        assert!(world.faults.put_back(place, position, awaits));
                        world.threads[n] = Thread::Idle;
                        next.push(world);
                    }
                    let mut world = self.clone();
                    world.faults.end(served.place, served.position, 0);
                    world.threads[n] = Thread::Acknowledges(served);
                    next.push(world);
                }
                Thread::Acknowledges(served) => {
                    let mut world = self.clone();
                    world.taken[served.place.index()] = false;
                    world.threads[n] = Thread::Idle;
                    next.push(world);
                }
            }
        }
        next
    }

    /// The faults that a thread could serve: place and position.
    fn waiting(&self) -> Vec<(usize, u64)> {
        let mut faults = self.faults.clone();
        let mut seen = faults.cursor(PASID);
        core::iter::from_fn(|| faults.serve(PASID, &mut seen))
            .map(|served| (served.place.index(), served.position))
            .collect()
    }

    fn check(&self) {
        let served = self.threads.iter().filter_map(|thread| match thread {
            Thread::Idle => None,
            Thread::Serves(served) | Thread::Acknowledges(served) => {
                Some((served.place.index(), served.position))
            }
        });
        let served: Vec<_> = served.collect();
        let waiting = self.waiting();
        assert!(served.len() < 2 || served[0] != served[1], "{self:?}");
        assert!(waiting.iter().all(|one| !served.contains(one)), "{self:?}");
        for number in 0..PLACES {
            // A place that raises nothing more has a fault that is served, now or later.
            let current = (number, self.last[number]);
            let is_seen = waiting.contains(&current) || served.contains(&current);
            assert!(!self.taken[number] || is_seen, "{self:?}");
        }
        // The places are looked at if, and only if, a fault is not over.
        let is_current = |served: &ServedFault| {
            let place = served.place.index();
            self.last[place] == served.position
        };
        let mut threads = self.threads.iter();
        let is_any_served =
            threads.any(|thread| matches!(thread, Thread::Serves(served) if is_current(served)));
        let are_over = waiting.is_empty() && !is_any_served;
        assert_eq!(self.faults.are_over(), are_over, "{self:?}");
        // A queue that has to leave is given time for each fault that a thread is at, ...
        for thread in &self.threads {
            if let Thread::Serves(served) = thread {
                let is_current = self.last[served.place.index()] == served.position;
                assert!(
                    !is_current || self.faults.are_under_way(PASID, 1),
                    "{self:?}"
                );
            }
        }
        // ... and not for ever.
        if served.is_empty() && waiting.is_empty() {
            assert!(!self.faults.are_under_way(PASID, 1), "{self:?}");
        }
    }
}

#[test]
fn every_order_of_threads() {
    let mut worlds = vec![World {
        taken: [false; PLACES],
        last: [0; PLACES],
        entries: 0,
        overflowed: false,
        faults: empty(PLACES),
        threads: [Thread::Idle; 2],
    }];
    let mut known = HashSet::new();
    while let Some(world) = worlds.pop() {
        if known.insert(format!("{world:?}")) {
            world.check();
            worlds.extend(world.steps());
        }
    }
    assert!(known.len() > 1000, "{}", known.len());
}
