// SPDX-License-Identifier: GPL-2.0
//! Attributes of shared virtual memory against a model page by page.

use std::collections::BTreeMap;

use hw::svm::{
    AttributeChange, AttributeMap, AttributeQuery, AttributeSummary, BadAttribute,
    FaultDestination, GpuIndex, GpuPlaces, GpuReach, MemoryLocation, PingPong, RangeStore,
    SvmAttributes,
};
use hw::va::{VaRange, LARGE_PAGE_SIZE, PAGE_SIZE};
use proptest::prelude::*;

const PAGES: u64 = 48;
const FIRST: u64 = 0x7000_0000_0000;

/// A container that gets no more room than was requested.
#[derive(Default)]
struct Tree {
    by_end: BTreeMap<u64, (VaRange, SvmAttributes)>,
    room: usize,
}

impl RangeStore for Tree {
    fn ending_after(&self, address: u64) -> Option<(VaRange, SvmAttributes)> {
        let (_, found) = self.by_end.range(address + 1..).next()?;
        Some(*found)
    }

    fn insert(&mut self, range: VaRange, attributes: SvmAttributes) {
        self.room = self.room.checked_sub(1).expect("more room is needed");
        let clash = self.ending_after(range.start());
        assert!(clash.is_none_or(|(other, _)| !other.overlaps(range)));
        assert!(self
            .by_end
            .insert(range.end(), (range, attributes))
            .is_none());
    }

    fn remove(&mut self, range: VaRange) {
        let (was, _) = self.by_end.remove(&range.end()).expect("nothing is there");
        assert_eq!(was, range);
        self.room += 1;
    }

    fn change_all(&mut self, change: impl Fn(SvmAttributes) -> SvmAttributes) {
        for (_, attributes) in self.by_end.values_mut() {
            *attributes = change(*attributes);
        }
    }
}

fn range(first: u64, pages: u64) -> VaRange {
    VaRange::new(FIRST + first * PAGE_SIZE, pages * PAGE_SIZE).unwrap()
}

/// One step of a process.
#[derive(Clone, Debug)]
enum Step {
    Set(VaRange, Vec<AttributeChange>),
    Forget(VaRange),
    /// There may be no more ranges.
    ForgetMore(VaRange),
    /// A GPU goes.
    Leave(GpuIndex),
}

fn ranges() -> impl Strategy<Value = VaRange> {
    (0..PAGES).prop_flat_map(|first| (1..=PAGES - first).prop_map(move |pages| range(first, pages)))
}

fn locations() -> impl Strategy<Value = MemoryLocation> {
    prop_oneof![
        Just(MemoryLocation::System),
        (1u32..4).prop_map(MemoryLocation::Gpu),
    ]
}

fn gpus() -> impl Strategy<Value = GpuIndex> {
    prop_oneof![Just(0usize), Just(1), Just(63)].prop_map(|index| GpuIndex::new(index).unwrap())
}

fn changes() -> impl Strategy<Value = AttributeChange> {
    let reach = prop_oneof![
        Just(GpuReach::Access),
        Just(GpuReach::InPlace),
        Just(GpuReach::None)
    ];
    prop_oneof![
        locations().prop_map(AttributeChange::Preferred),
        Just(AttributeChange::Preferred(MemoryLocation::Undefined)),
        locations().prop_map(AttributeChange::Prefetch),
        (gpus(), reach).prop_map(|(gpu, reach)| AttributeChange::Reach(gpu, reach)),
        (0u32..8).prop_map(|bit| AttributeChange::Set(1 << bit)),
        (0u32..8).prop_map(|bit| AttributeChange::Clear(1 << bit)),
        (0u8..4).prop_map(AttributeChange::Granularity),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (ranges(), prop::collection::vec(changes(), 0..4))
            .prop_map(|(range, changes)| Step::Set(range, changes)),
        1 => ranges().prop_map(Step::Forget),
        1 => ranges().prop_map(Step::ForgetMore),
        1 => gpus().prop_map(Step::Leave),
    ]
}

/// Attributes of pages, from those set for each.
fn told(
    pages: &[Option<SvmAttributes>],
    initial: SvmAttributes,
    question: AttributeQuery,
) -> (u32, Option<u32>) {
    let all: Vec<_> = pages
        .iter()
        .flatten()
        .map(|page| AttributeSummary::of_one(*page).answer(question))
        .collect();
    let Some(&(kind, first)) = all.first() else {
        return AttributeSummary::of_one(initial).answer(question);
    };
    let values = || all.iter().map(|(_, value)| value.unwrap_or(0));
    match question {
        AttributeQuery::Preferred | AttributeQuery::Prefetch => {
            let same = values().all(|value| Some(value) == first);
            (kind, Some(if same { first.unwrap() } else { u32::MAX }))
        }
        AttributeQuery::Reach(_) => {
            let same = all.iter().all(|(other, _)| *other == kind);
            (if same { kind } else { 4 }, None)
        }
        AttributeQuery::Set | AttributeQuery::Clear => (kind, values().reduce(|a, b| a & b)),
        AttributeQuery::Granularity => (kind, values().min()),
    }
}

proptest! {
    #[test]
    fn as_page_by_page(
        steps in prop::collection::vec(steps(), 1..40),
        asked in prop::collection::vec(ranges(), 8),
        gpu in gpus(),
        retries: bool,
    ) {
        let initial = SvmAttributes::initial(retries);
        let mut map = AttributeMap::new(Tree::default(), initial);
        let mut pages = vec![None::<SvmAttributes>; PAGES as usize];
        let index = |range: VaRange| {
            let first = ((range.start() - FIRST) / PAGE_SIZE) as usize;
            first..first + range.pages() as usize
        };
        for step in &steps {
            match step {
                Step::Set(range, changes) => {
                    let room = map.room(*range);
                    map.ranges().room = room;
                    map.set(*range, changes);
                    for page in &mut pages[index(*range)] {
                        *page = Some(page.unwrap_or(initial).after(changes));
                    }
                }
                Step::Forget(range) => {
                    map.ranges().room = 1;
                    map.remove(*range);
                    pages[index(*range)].fill(None);
                }
                Step::ForgetMore(range) => {
                    let more = map.with_smaller_rest(*range);
                    prop_assert!(more.covers(*range));
                    map.ranges().room = 0;
                    map.remove(more);
                    pages[index(more)].fill(None);
                }
                Step::Leave(gpu) => {
                    map.ranges().room = 0;
                    map.remove_gpu(*gpu);
                    for page in pages.iter_mut().flatten() {
                        *page = page.after(&[AttributeChange::Reach(*gpu, GpuReach::None)]);
                    }
                }
            }
            let mut count = 0;
            for (part, attributes) in map.parts(range(0, PAGES)) {
                for page in &pages[index(part)] {
                    prop_assert_eq!(*page, Some(attributes));
                }
                count += part.pages() as usize;
            }
            prop_assert_eq!(count, pages.iter().flatten().count());
            for (n, page) in (0..).zip(&pages) {
                let (part, attributes) = map.at(FIRST + n * PAGE_SIZE + 5, range(0, PAGES));
                prop_assert_eq!(attributes, page.unwrap_or(initial));
                let part = index(part);
                prop_assert!(part.contains(&(n as usize)));
                prop_assert!(pages[part].iter().all(|other| other == page));
            }
            for &range in &asked {
                let own = &pages[index(range)];
                prop_assert_eq!(map.overlaps(range), own.iter().any(Option::is_some));
                let summary = map.summary(range);
                for question in [
                    AttributeQuery::Preferred,
                    AttributeQuery::Prefetch,
                    AttributeQuery::Reach(gpu),
                    AttributeQuery::Set,
                    AttributeQuery::Clear,
                    AttributeQuery::Granularity,
                ] {
                    prop_assert_eq!(summary.answer(question), told(own, initial, question));
                }
            }
        }
    }

    /// Equal neighbours are one range once they were set as one, however they came about.
    #[test]
    fn set_as_one(steps in prop::collection::vec(steps(), 1..20)) {
        let mut map = AttributeMap::new(Tree::default(), SvmAttributes::default());
        for step in &steps {
            if let Step::Set(range, changes) = step {
                let room = map.room(*range);
                map.ranges().room = room;
                map.set(*range, changes);
            }
        }
        let all = range(0, PAGES);
        let gpu = |index| GpuIndex::new(index).unwrap();
        let same = [
            AttributeChange::Preferred(MemoryLocation::System),
            AttributeChange::Prefetch(MemoryLocation::System),
            AttributeChange::Reach(gpu(0), GpuReach::None),
            AttributeChange::Reach(gpu(1), GpuReach::Access),
            AttributeChange::Reach(gpu(63), GpuReach::InPlace),
            AttributeChange::Set(u32::MAX),
            AttributeChange::Granularity(1),
        ];
        let room = map.room(all);
        map.ranges().room = room;
        map.set(all, &same);
        prop_assert_eq!(map.parts(all).count(), 1);
    }

    #[test]
    fn any_attribute(kind: u32, value: u32, small in 0u32..10, known: bool) {
        for kind in [kind, small] {
            let gpu = |_| known.then(|| GpuIndex::new(3).unwrap());
            let change = AttributeChange::new(kind, value, gpu);
            let names_gpu =
                (2..=4).contains(&kind) || (kind < 2 && value != 0 && value != u32::MAX);
            let bad = kind > 7 || (names_gpu && !known) || (kind == 1 && value == u32::MAX);
            prop_assert_eq!(change.is_err(), bad);
            let question = AttributeQuery::new(kind, value, gpu);
            let bad = kind > 7 || kind == 3 || kind == 4 || (kind == 2 && !known);
            prop_assert_eq!(question.is_err(), bad);
        }
    }
}

#[test]
fn defaults() {
    let gpu = GpuIndex::new(0).unwrap();
    for (retries, reach) in [(false, 4), (true, 2)] {
        let map = AttributeMap::new(Tree::default(), SvmAttributes::initial(retries));
        let summary = map.summary(range(0, PAGES));
        assert_eq!(summary.answer(AttributeQuery::Reach(gpu)), (reach, None));
    }
    let summary = AttributeSummary::of_one(SvmAttributes::default());
    assert_eq!(
        summary.answer(AttributeQuery::Preferred),
        (0, Some(u32::MAX))
    );
    assert_eq!(
        summary.answer(AttributeQuery::Prefetch),
        (1, Some(u32::MAX))
    );
    assert_eq!(summary.answer(AttributeQuery::Reach(gpu)), (4, None));
    assert_eq!(summary.answer(AttributeQuery::Set), (5, Some(3)));
    assert_eq!(summary.answer(AttributeQuery::Clear), (6, Some(!3)));
    assert_eq!(summary.answer(AttributeQuery::Granularity), (7, Some(9)));
}

#[test]
fn granularity_is_bounded() {
    for (said, kept) in [
        (0, 0),
        (0x3f, 0x3f),
        (0x40, 0x3f),
        (0xff, 0x3f),
        (u32::MAX, 0x3f),
    ] {
        let change = AttributeChange::new(7, said, |_| None);
        assert_eq!(change, Ok(AttributeChange::Granularity(kept)));
    }
}

#[test]
fn prefetch_has_a_place() {
    assert_eq!(
        AttributeChange::new(1, u32::MAX, |_| None),
        Err(BadAttribute)
    );
    assert_eq!(
        AttributeChange::new(1, 0, |_| None),
        Ok(AttributeChange::Prefetch(MemoryLocation::System))
    );
    assert_eq!(GpuIndex::new(GpuIndex::COUNT), None);
}

#[test]
fn use_by_a_gpu() {
    let is = SvmAttributes::default();
    assert!(is.access().read && is.access().write && !is.access().execute);
    assert!(is.coherence().coherent && !is.coherence().uncached);
    let is = is.after(&[AttributeChange::Set(0x18), AttributeChange::Clear(2)]);
    assert!(is.access().read && !is.access().write && is.access().execute);
    assert!(!is.coherence().coherent);
}

#[test]
fn destination_of_a_fault() {
    let (gpu, other) = (GpuIndex::new(1).unwrap(), GpuIndex::new(2).unwrap());
    let all = SvmAttributes::initial(true);
    let at = |attributes: SvmAttributes| attributes.destination(gpu, 77);
    let preferred = |raw| AttributeChange::new(0, raw, |_| Some(gpu)).unwrap();
    assert_eq!(at(all), FaultDestination::Vram);
    assert_eq!(at(all.after(&[preferred(0)])), FaultDestination::System);
    assert_eq!(at(all.after(&[preferred(78)])), FaultDestination::Vram);
    let in_place = all.after(&[AttributeChange::Reach(gpu, GpuReach::InPlace)]);
    assert_eq!(at(in_place), FaultDestination::Stays);
    assert_eq!(at(in_place.after(&[preferred(77)])), FaultDestination::Vram);
    assert_eq!(
        at(in_place.after(&[preferred(78)])),
        FaultDestination::Stays
    );
    assert_eq!(
        at(in_place.after(&[preferred(0)])),
        FaultDestination::System
    );
    let other_in_place = all.after(&[AttributeChange::Reach(other, GpuReach::InPlace)]);
    assert_eq!(at(other_in_place), FaultDestination::Vram);
}

#[test]
fn who_keeps_memory_out_of_anothers_vram() {
    let gpu = GpuIndex::new(2).unwrap();
    for (reach, retries, keeps) in [
        (GpuReach::Access, false, true),
        (GpuReach::Access, true, false),
        (GpuReach::InPlace, false, true),
        (GpuReach::InPlace, true, true),
        (GpuReach::None, false, false),
        (GpuReach::None, true, false),
    ] {
        let attributes =
            SvmAttributes::initial(retries).after(&[AttributeChange::Reach(gpu, reach)]);
        assert_eq!(attributes.must_stay_in_system(gpu, retries), keeps);
    }
}

#[test]
fn what_may_go_to_vram_is_mapped_in_large_pages() {
    let gpu = GpuIndex::new(1).unwrap();
    let said = |kind, raw| {
        let change = AttributeChange::new(kind, raw, |_| Some(gpu)).unwrap();
        SvmAttributes::initial(false).after(&[change])
    };
    let (preferred, prefetch, set_flags, always) = (0, 1, 5, 0x40);
    let large = SvmAttributes::initial(false).together(false);
    assert!(large > LARGE_PAGE_SIZE && large % LARGE_PAGE_SIZE == 0);
    for kind in [preferred, prefetch] {
        assert_eq!(said(kind, 77).together(false), LARGE_PAGE_SIZE);
        assert_eq!(said(kind, 0).together(false), large);
    }
    assert_eq!(SvmAttributes::initial(true).together(true), LARGE_PAGE_SIZE);
    assert_eq!(said(set_flags, always).together(true), large);
}

#[test]
fn ping_pong_ends_and_begins_again() {
    let mut known = PingPong::new();
    let piece = range(0, 1);
    for round in 0..3 {
        for n in 0..3 {
            let now = round * 5000 + n * 900;
            assert!(!known.is_on(piece, now));
            known.moved(piece, now, now);
        }
        let now = round * 5000 + 1800;
        assert!(known.is_on(piece, now));
        assert!(known.is_on(piece, now + 999));
        assert!(!known.is_on(piece, now + 1000));
        assert!(!known.is_on(range(1, 1), now));
    }
    // An occasional move there does not matter.
    for n in 0..10 {
        let now = 100_000 + n * 1000;
        known.moved(range(1, 1), now, now);
        assert!(!known.is_on(range(1, 1), now));
    }
}

/// Ping-pong moves other pieces each time, where the process changes memory beside it.
#[test]
fn ping_pong_of_other_pieces() {
    let mut known = PingPong::new();
    for n in 0..3 {
        let piece = range(8 - n, 8 + n);
        assert!(!known.is_on(piece, n));
        known.moved(piece, n, n);
    }
    assert!(known.is_on(range(2, 20), 3));
    assert!(known.is_on(range(15, 1), 3));
    assert!(!known.is_on(range(16, 1), 3));
}

/// Where each move takes seconds, it is a series all the same.
#[test]
fn ping_pong_of_a_busy_machine() {
    let mut known = PingPong::new();
    let piece = range(0, 1);
    for n in 0..3 {
        let now = n * 4000;
        assert!(!known.is_on(piece, now));
        known.moved(piece, now, now + 1000);
    }
    assert!(known.is_on(piece, 9000 + 7999));
    assert!(!known.is_on(piece, 9000 + 8000));
}

proptest! {
    /// With any moves in between, of two that are wanted all the time neither goes there more than
    /// three times a second.
    #[test]
    fn ping_pong_is_bounded(steps in prop::collection::vec((0u64..40, 0u64..50), 1..400)) {
        let mut known = PingPong::new();
        let mut now = 1;
        let mut times = BTreeMap::<u64, Vec<u64>>::new();
        for (window, later) in steps {
            now += later;
            let piece = range(window, 1);
            if !known.is_on(piece, now) {
                known.moved(piece, now, now);
                let times = times.entry(window).or_default();
                times.push(now);
                if let [.., first, _, _, last] = times[..] {
                    prop_assert!(last - first >= 1000);
                }
            }
        }
    }
}

#[test]
fn places_are_given_back() {
    let mut places = GpuPlaces::default();
    for gpu in 0..GpuIndex::COUNT {
        assert_eq!(places.acquire(gpu).map(GpuIndex::get), Some(gpu));
        assert_eq!(places.acquire(gpu).map(GpuIndex::get), Some(gpu));
    }
    assert_eq!(places.acquire(100), None);
    assert_eq!(places.release(100), None);
    // One GPU that comes and goes as another one each time.
    for round in 100..300 {
        let last = if round == 100 { 7 } else { round - 1 };
        assert_eq!(places.release(last).map(GpuIndex::get), Some(7));
        assert_eq!(places.acquire(round).map(GpuIndex::get), Some(7));
    }
}
