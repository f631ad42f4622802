// SPDX-License-Identifier: GPL-2.0
//! The discovery table of a card, damaged ones too. The tables are made here, after the kernel's
//! headers.

use hw::asic::gfx90a::MI210;
use hw::asic::gfx942::{MI300X, MI325X};
use hw::discovery::{Discovery, DiscoveryError, DiscoveryPart, GcFigures};
use hw::ip::{IpBlock, IpInstance, IpTable, IpVersion};
use proptest::prelude::*;

/// Hardware ids.
const GC: u16 = 11;
const MMHUB: u16 = 34;
const SDMA: u16 = 42;
const NBIF: u16 = 108;
/// One of a block that the driver does not know.
const UMC: u16 = 150;

/// An entry: id, instance, version, bases.
type Entry = (u16, u8, [u8; 3], Vec<u64>);

/// A table that is to be made.
#[derive(Clone)]
struct Recipe {
    major: u16,
    list_version: u16,
    is_wide: bool,
    dies: Vec<Vec<Entry>>,
    /// The last byte of each entry.
    last: u8,
    harvest: Option<Vec<(u16, u8)>>,
    /// Version and words of the GC table.
    gc: Option<((u16, u16), Vec<u32>)>,
}

fn entry(id: u16, number: u8, version: [u8; 3], bases: &[u64]) -> Entry {
    (id, number, version, bases.to_vec())
}

/// What a chip with two XCCs says, of which the first is fused off.
fn usual() -> Recipe {
    let mut gc = vec![4, 10, 1];
    gc.extend([0; 8]);
    gc.extend([64, 8, 32, 64, 1, 1, 16, 32, 16, 2, 64, 16, 4096]);
    Recipe {
        major: 1,
        list_version: 3,
        is_wide: false,
        dies: vec![vec![
            entry(SDMA, 1, [4, 4, 2], &[0x1860]),
            entry(SDMA, 0, [4, 4, 2], &[0x1260]),
            entry(GC, 0, [9, 4, 3], &[0x2000, 0xa000]),
            entry(GC, 1, [9, 4, 3], &[0x1_2000, 0x1_a000]),
            entry(UMC, 200, [12, 0, 0], &[]),
            entry(MMHUB, 0, [1, 8, 0], &[0x1_8000]),
            entry(
                NBIF,
                0,
                [7, 9, 0],
                &[0, 0x14, 0xd20, 0x1_0400, 4, 5, 6, 7, 8, 9],
            ),
        ]],
        last: 0x10,
        harvest: Some(vec![(UMC, 3), (GC, 0)]),
        gc: Some(((2, 1), gc)),
    }
}

fn half(bytes: &mut Vec<u8>, value: usize) {
    bytes.extend(u16::try_from(value).unwrap().to_le_bytes());
}

fn put(bytes: &mut [u8], at: usize, value: usize) {
    bytes[at..at + 2].copy_from_slice(&u16::try_from(value).unwrap().to_le_bytes());
}

fn sum(bytes: &[u8]) -> usize {
    bytes.iter().map(|&byte| usize::from(byte)).sum::<usize>() & 0xffff
}

impl Recipe {
    fn parts_at(&self) -> usize {
        if self.major == 1 {
            12
        } else {
            16
        }
    }

    fn blocks(&self, place: usize) -> Vec<u8> {
        let mut list = b"IPDS".to_vec();
        half(&mut list, self.list_version.into());
        half(&mut list, 0);
        list.extend([0; 4]);
        half(&mut list, self.dies.len());
        list.resize(78, 0);
        half(&mut list, self.is_wide.into());
        for (n, die) in self.dies.iter().enumerate() {
            let at = place + list.len();
            put(&mut list, 14 + 4 * n, n);
            put(&mut list, 16 + 4 * n, at);
            half(&mut list, n);
            half(&mut list, die.len());
            for (id, number, version, bases) in die {
                half(&mut list, (*id).into());
                list.extend([*number, bases.len() as u8]);
                list.extend(version);
                list.push(self.last);
                for base in bases {
                    let width = if self.is_wide { 8 } else { 4 };
                    list.extend(&base.to_le_bytes()[..width]);
                }
            }
        }
        let size = list.len();
        put(&mut list, 6, size);
        list
    }

    fn bytes(&self) -> Vec<u8> {
        let parts = self.parts_at();
        let mut bytes = vec![0; parts + 6 * 8];
        bytes[..4].copy_from_slice(&0x2821_1407u32.to_le_bytes());
        put(&mut bytes, 4, self.major.into());
        put(&mut bytes, 6, 3);
        if self.major == 2 {
            put(&mut bytes, 12, 6);
        }
        let add = |bytes: &mut Vec<u8>, n: usize, part: Vec<u8>| {
            let at = bytes.len();
            put(bytes, parts + 8 * n, at);
            put(bytes, parts + 8 * n + 2, sum(&part));
            put(bytes, parts + 8 * n + 4, part.len());
            bytes.extend(part);
        };
        let list = self.blocks(bytes.len());
        add(&mut bytes, 0, list);
        if let Some((version, words)) = &self.gc {
            let mut part = 0x4347u32.to_le_bytes().to_vec();
            half(&mut part, version.0.into());
            half(&mut part, version.1.into());
            part.extend(u32::to_le_bytes(12 + 4 * words.len() as u32));
            part.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            add(&mut bytes, 1, part);
        }
        if let Some(harvest) = &self.harvest {
            let mut part = b"HARV\0\0\0\0".to_vec();
            for (id, number) in harvest {
                half(&mut part, (*id).into());
                part.extend([*number, 0]);
            }
            part.resize(136, 0);
            add(&mut bytes, 2, part);
        }
        finished(bytes)
    }
}

/// `bytes` with their size and sum.
fn finished(mut bytes: Vec<u8>) -> Vec<u8> {
    let size = bytes.len();
    put(&mut bytes, 10, size);
    let all = sum(&bytes[10..]);
    put(&mut bytes, 8, all);
    bytes
}

/// The same with right sums of all parts, however they were changed.
fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    for n in 0..3 {
        let part = 12 + 8 * n;
        let half = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let (at, size) = (half(part), half(part + 4));
        let own = sum(&bytes[at..at + size]);
        put(&mut bytes, part + 2, own);
    }
    let size = usize::from(u16::from_le_bytes([bytes[10], bytes[11]]));
    let all = sum(&bytes[10..size]);
    put(&mut bytes, 8, all);
    bytes
}

/// The defect of the table that is made after `change`.
fn without(change: impl FnOnce(&mut Recipe)) -> DiscoveryError {
    let mut recipe = usual();
    change(&mut recipe);
    Discovery::new(&recipe.bytes()).unwrap_err()
}

/// The defect after `change` of the finished table.
fn after(change: impl FnOnce(&mut Vec<u8>)) -> DiscoveryError {
    let mut bytes = usual().bytes();
    change(&mut bytes);
    Discovery::new(&bytes).unwrap_err()
}

fn instances(recipe: &Recipe) -> Vec<IpInstance> {
    let bytes = recipe.bytes();
    Discovery::new(&bytes).unwrap().instances().collect()
}

/// Place of the list of blocks in the usual table, and of its parts.
const LIST: usize = 12 + 6 * 8;
const LIST_SIZE: usize = LIST + 6;
const DIE_COUNT: usize = LIST + 12;
const DIE_PLACE: usize = LIST + 16;
const FIRST_DIE: usize = LIST + 80;

#[test]
fn blocks_are_in_order_and_fused_off_ones_are_left_out() {
    let bytes = usual().bytes();
    let table = Discovery::new(&bytes).unwrap();
    let found: Vec<_> = table.instances().map(|ip| (ip.block, ip.number)).collect();
    assert_eq!(
        found,
        [
            (IpBlock::Nbio, 0),
            (IpBlock::Gc, 1),
            (IpBlock::Mmhub, 0),
            (IpBlock::Sdma, 0),
            (IpBlock::Sdma, 1),
        ]
    );
    assert_eq!(table.count(IpBlock::Gc), 1);
    assert_eq!(table.count(IpBlock::Sdma), 2);
    assert_eq!(table.count(IpBlock::Df), 0);
    let instances = instances(&usual());
    let ips = IpTable::new(&instances);
    let register = |block, n, segment, offset| ips.find(block, n)?.bases.register(segment, offset);
    // The first XCC that works is number 1.
    assert_eq!(register(IpBlock::Gc, 0, 1, 0x10), Some(0x1_a010));
    assert_eq!(register(IpBlock::Gc, 0, 2, 0), None);
    assert_eq!(register(IpBlock::Sdma, 1, 0, 2), Some(0x1862));
    assert_eq!(register(IpBlock::Nbio, 0, 8, 0), Some(8));
    // No register is in the tenth segment.
    assert_eq!(register(IpBlock::Nbio, 0, 9, 0), None);
    assert_eq!(ips.version(IpBlock::Gc), Some(IpVersion::new(9, 4, 3)));
}

#[test]
fn entries_are_as_in_the_table() {
    let bytes = usual().bytes();
    let table = Discovery::new(&bytes).unwrap();
    let found: Vec<_> = table.entries().collect();
    assert_eq!(found.len(), 7);
    assert!(found.iter().map(|ip| (ip.id, ip.number)).eq([
        (SDMA, 1),
        (SDMA, 0),
        (GC, 0),
        (GC, 1),
        (UMC, 200),
        (MMHUB, 0),
        (NBIF, 0)
    ]));
    assert_eq!(found[4].block(), None);
    assert_eq!(found[4].bases().count(), 0);
    assert_eq!(found[6].bases().count(), 10);
    let off: Vec<_> = found.iter().filter(|ip| table.is_harvested(ip)).collect();
    assert!(off.iter().map(|ip| (ip.id, ip.number)).eq([(GC, 0)]));
}

#[test]
fn gc_has_the_figures_of_an_xcc() {
    let bytes = usual().bytes();
    let gc = *Discovery::new(&bytes).unwrap().gc();
    assert_eq!(
        gc,
        GcFigures {
            shader_engines: 4,
            arrays_per_engine: 1,
            cus_per_array: 10,
            wave_size: 64,
        }
    );
}

#[test]
fn dies_follow_each_other() {
    let mut recipe = usual();
    let mut rest = recipe.dies[0].split_off(3);
    rest.push(entry(SDMA, 4, [4, 4, 2], &[0x2_1260]));
    recipe.dies.extend([vec![], rest]);
    let bytes = recipe.bytes();
    let table = Discovery::new(&bytes).unwrap();
    assert!(table
        .entries()
        .map(|ip| ip.die)
        .eq([0, 0, 0, 2, 2, 2, 2, 2]));
    assert_eq!(table.count(IpBlock::Sdma), 3);
}

#[test]
fn older_and_newer_versions_are_read() {
    let mut newer = usual();
    (newer.major, newer.list_version, newer.is_wide) = (2, 4, true);
    // Bits above 29 are no part of a base.
    newer.dies[0][5].3 = vec![0x0123_4567_c001_8000];
    assert_eq!(instances(&newer), instances(&usual()));
    // The flag has no meaning before version 4.
    let mut plain = usual();
    plain.list_version = 4;
    assert_eq!(instances(&plain), instances(&usual()));
    let mut older = usual();
    (older.list_version, older.harvest) = (2, None);
    assert_eq!(instances(&older).len(), 6);
    older.last = 1;
    assert_eq!(instances(&older).len(), 0);
    // From version 3 on those bits are something else.
    let mut same = usual();
    same.last = 0xff;
    assert_eq!(instances(&same), instances(&usual()));
}

#[test]
fn parts_may_be_missing_only_where_that_says_something() {
    let mut all = usual();
    all.harvest = None;
    assert_eq!(instances(&all).len(), 6);
    assert_eq!(
        without(|recipe| recipe.gc = None),
        DiscoveryError::Missing(DiscoveryPart::Gc)
    );
    assert_eq!(
        after(|bytes| {
            put(bytes, 12, 0);
            *bytes = finished(bytes.clone());
        }),
        DiscoveryError::Missing(DiscoveryPart::Blocks)
    );
    // A list of parts that ends before GC.
    let mut short = usual();
    short.major = 2;
    let mut bytes = short.bytes();
    put(&mut bytes, 12, 1);
    let bytes = finished(bytes);
    assert_eq!(
        Discovery::new(&bytes).unwrap_err(),
        DiscoveryError::Missing(DiscoveryPart::Gc)
    );
}

#[test]
fn the_harvest_list_ends_at_the_first_zero() {
    let mut recipe = usual();
    recipe.harvest = Some(vec![(SDMA, 7), (0, 0), (GC, 1)]);
    assert_eq!(instances(&recipe).len(), 6);
    recipe.harvest = Some(vec![(SDMA, 1); 32]);
    assert_eq!(instances(&recipe).len(), 5);
}

#[test]
fn unknown_versions_are_refused() {
    let version = |error| match error {
        DiscoveryError::Version(part, version) => (part, version),
        other => panic!("{other}"),
    };
    assert_eq!(
        version(without(|recipe| recipe.major = 3)),
        (DiscoveryPart::Whole, (3, 3))
    );
    for list_version in [0, 5] {
        assert_eq!(
            version(without(|recipe| recipe.list_version = list_version)),
            (DiscoveryPart::Blocks, (list_version, 0))
        );
    }
    assert_eq!(
        version(without(|recipe| recipe.gc.as_mut().unwrap().0 = (1, 3))),
        (DiscoveryPart::Gc, (1, 3))
    );
}

#[test]
fn lists_that_contradict_themselves_are_refused() {
    let twice = |recipe: &mut Recipe| recipe.dies[0].push(entry(GC, 1, [9, 4, 3], &[1]));
    assert_eq!(
        without(twice),
        DiscoveryError::Instance { id: GC, number: 1 }
    );
    let high = |recipe: &mut Recipe| recipe.dies[0].push(entry(SDMA, 64, [4, 4, 2], &[1]));
    assert_eq!(
        without(high),
        DiscoveryError::Instance {
            id: SDMA,
            number: 64
        }
    );
    assert_eq!(
        without(|recipe| recipe.dies.clear()),
        DiscoveryError::Dies(0)
    );
    let with_sums = |change: &dyn Fn(&mut Vec<u8>)| {
        after(|bytes| {
            change(bytes);
            *bytes = summed(bytes.clone());
        })
    };
    assert_eq!(
        with_sums(&|bytes| put(bytes, DIE_COUNT, 17)),
        DiscoveryError::Dies(17)
    );
    assert_eq!(
        with_sums(&|bytes| put(bytes, FIRST_DIE, 5)),
        DiscoveryError::Die { index: 0, id: 5 }
    );
    let outside = DiscoveryError::Outside(DiscoveryPart::Blocks);
    // More entries than there are.
    assert_eq!(with_sums(&|bytes| put(bytes, FIRST_DIE + 2, 8)), outside);
    assert_eq!(
        with_sums(&|bytes| put(bytes, FIRST_DIE + 2, 0xffff)),
        outside
    );
    // A die that is not in the list, although it is in the table.
    assert_eq!(with_sums(&|bytes| put(bytes, DIE_PLACE, 0xfff0)), outside);
}

#[test]
fn parts_that_are_not_all_there_are_refused() {
    let whole = DiscoveryError::Outside(DiscoveryPart::Whole);
    let bytes = usual().bytes();
    for length in 0..bytes.len() {
        assert_eq!(Discovery::new(&bytes[..length]).unwrap_err(), whole);
    }
    let moved = |n: usize, part| {
        for place in [bytes.len() - 1, bytes.len(), 0xffff] {
            let found = after(|bytes| {
                put(bytes, 12 + 8 * n, place);
                *bytes = finished(bytes.clone());
            });
            assert_eq!(found, DiscoveryError::Outside(part), "{place:#x}");
        }
    };
    moved(0, DiscoveryPart::Blocks);
    moved(1, DiscoveryPart::Gc);
    moved(2, DiscoveryPart::Harvest);
    // A list that is shorter than its header, and one that is longer than the table.
    for size in [79, 0xffff] {
        let found = after(|bytes| {
            put(bytes, LIST_SIZE, size);
            *bytes = finished(bytes.clone());
        });
        assert_eq!(found, DiscoveryError::Outside(DiscoveryPart::Blocks));
    }
    // A GC table whose size does not cover its figures.
    let found = without(|recipe| recipe.gc.as_mut().unwrap().1.truncate(11));
    assert_eq!(found, DiscoveryError::Outside(DiscoveryPart::Gc));
}

#[test]
fn defects_are_told() {
    let told = |error: DiscoveryError| error.to_string();
    assert_eq!(
        told(after(|bytes| bytes[0] = 0)),
        "it begins with 0x28211400"
    );
    assert_eq!(
        told(after(|bytes| bytes[0..4].fill(0xff))),
        "it begins with 0xffffffff"
    );
    assert_eq!(
        told(without(|recipe| recipe.major = 7)),
        "it is of unknown version 7.3"
    );
    assert!(told(after(|bytes| bytes[200] ^= 1)).starts_with("it is damaged: its bytes sum up to "));
    assert_eq!(
        told(without(|recipe| recipe.gc = None)),
        "its GC table is missing"
    );
    assert!(told(after(|bytes| {
        bytes[LIST + 8] ^= 1;
        *bytes = finished(bytes.clone());
    }))
    .starts_with("its list of blocks is damaged: "));
    assert_eq!(
        told(after(|bytes| bytes.truncate(100))),
        "it is not all there"
    );
}

/// A chip with so many XCCs and SDMA engines of the usual size.
fn chip(xccs: u8, engines: u8) -> Recipe {
    let mut recipe = usual();
    recipe.harvest = None;
    let xccs = (0..xccs).map(|n| entry(GC, n, [9, 4, 3], &[0x1_0000 * u64::from(n)]));
    let engines = (0..engines).map(|n| entry(SDMA, n, [4, 4, 2], &[]));
    recipe.dies = vec![xccs.chain(engines).collect()];
    recipe
}

#[test]
fn a_chip_is_chosen_by_what_it_has() {
    let found = |asic: &'static hw::asic::Asic, recipe: &Recipe| {
        let bytes = recipe.bytes();
        let asic = asic.of_discovery(&Discovery::new(&bytes).unwrap())?;
        Some((asic.ids.device, asic.gfx.xccs, asic.sdma.engines()))
    };
    assert!(MI300X.is_discovered() && !MI210.is_discovered());
    assert_eq!(found(&MI300X, &chip(8, 16)), Some((0x74a1, 8, 16)));
    assert_eq!(found(&MI300X, &chip(1, 4)), Some((0x74a1, 1, 4)));
    assert_eq!(found(&MI325X, &chip(1, 4)), Some((0x74a5, 1, 4)));
    for (xccs, engines) in [(2, 4), (4, 8), (7, 16)] {
        let wanted = Some((0x74a1, xccs.into(), engines));
        assert_eq!(found(&MI300X, &chip(xccs, engines)), wanted);
    }
    for (xccs, engines) in [(1, 16), (8, 4), (2, 8), (1, 5), (0, 4), (1, 0)] {
        assert_eq!(
            found(&MI300X, &chip(xccs, engines)),
            None,
            "{xccs}, {engines}"
        );
    }
    // The numbers of working instances count.
    let mut harvested = chip(9, 18);
    harvested.harvest = Some(vec![(GC, 0), (SDMA, 3), (SDMA, 17)]);
    assert_eq!(found(&MI300X, &harvested), Some((0x74a1, 8, 16)));
    // An XCC of another size.
    for word in [0, 1, 2, 11] {
        let mut other = chip(1, 4);
        other.gc.as_mut().unwrap().1[word] += 1;
        assert_eq!(found(&MI300X, &other), None, "{word}");
    }
}

/// What a driver uses of a table.
fn used(bytes: &[u8]) -> Option<(Vec<IpInstance>, GcFigures)> {
    let table = Discovery::new(bytes).ok()?;
    // Every read of a checked table works.
    let entries: Vec<_> = table.entries().collect();
    for ip in &entries {
        let _ = (ip.block(), ip.bases().count(), table.is_harvested(ip));
    }
    Some((table.instances().collect(), *table.gc()))
}

#[test]
fn a_damaged_byte_is_refused_or_harmless() {
    for recipe in [usual(), {
        let mut wide = usual();
        (wide.major, wide.list_version, wide.is_wide) = (2, 4, true);
        wide
    }] {
        let mut bytes = recipe.bytes();
        let right = used(&bytes);
        let size = bytes.len();
        bytes.resize(size + 4, 0);
        let mut refused = 0;
        for at in 0..bytes.len() {
            for flip in 1..=255 {
                bytes[at] ^= flip;
                match used(&bytes) {
                    None => refused += 1,
                    other => assert_eq!(other, right, "byte {at:#x} with {flip:#x}"),
                }
                bytes[at] ^= flip;
            }
        }
        // Only the minor version and what follows the table are not looked at.
        assert_eq!(refused, (size - 2) * 255);
    }
}

proptest! {
    #[test]
    fn no_bytes_are_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = used(&bytes);
        // The same behind a header that is right.
        let mut with_header = usual().bytes();
        with_header.splice(12.., bytes);
        let _ = used(&finished(with_header));
    }

    /// Changes that keep all sums right, so that every check behind those is reached.
    #[test]
    fn no_change_is_a_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = usual().bytes();
        for (at, value) in changes {
            // The list of parts stays, by which the sums are found.
            let at = LIST + at.index(bytes.len() - LIST);
            bytes[at] = value;
        }
        let bytes = summed(bytes);
        if let Ok(table) = Discovery::new(&bytes) {
            let known = table.entries().filter(|ip| {
                ip.block().is_some() && !table.is_harvested(ip)
            });
            prop_assert_eq!(known.count(), table.instances().count());
        }
    }
}
