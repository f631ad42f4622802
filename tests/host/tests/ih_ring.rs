// SPDX-License-Identifier: GPL-2.0
//! The driver's place in an IH ring that hardware overwrites, against a ring whose entries are
//! numbered.

use hw::ih::{IhRing, IhWritePointer, ENTRY_BYTES};
use proptest::prelude::*;

const ENTRIES: u32 = 64;
const BATCH: u32 = 8;
const RING: IhRing = IhRing::new(ENTRIES * ENTRY_BYTES, BATCH);

/// The hardware: the entry in each place, and its registers.
struct Hardware {
    places: [Option<u64>; ENTRIES as usize],
    next: u64,
    wptr: u32,
    rptr: u32,
    overflow: bool,
    overflows: u32,
}

impl Hardware {
    fn push(&mut self) {
        let next = (self.wptr + ENTRY_BYTES) % (ENTRIES * ENTRY_BYTES);
        if next == self.rptr && !self.overflow {
            self.overflow = true;
            self.overflows += 1;
        }
        self.places[(self.wptr / ENTRY_BYTES) as usize] = Some(self.next);
        self.next += 1;
        self.wptr = next;
    }

    fn wptr(&self) -> IhWritePointer {
        IhWritePointer {
            offset: self.wptr,
            overflow: self.overflow,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Entries come.
    Push(u32),
    /// The driver handles so many of its batch, one step of it after the other.
    Drive(u32),
    /// A caller asks for the position at which all present entries are handled.
    Ask,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..BATCH).prop_map(Step::Push),
        1 => (0..3 * ENTRIES).prop_map(Step::Push),
        6 => (0..2 * BATCH).prop_map(Step::Drive),
        2 => Just(Step::Ask),
    ];
    prop::collection::vec(step, 1..200)
}

/// The driver's next step.
#[derive(Clone, Copy)]
enum Next {
    /// Read the write pointer.
    Begin,
    /// Note the position after the overflow that it has read, before it handles the entries from
    /// then.
    Pass(u32),
    /// Handle the rest of a batch, up to the write pointer that it has read: its count, the
    /// pointer, entries.
    Handle(u64, u32, u32),
}

/// The driver, which does one step at a time.
struct Driver {
    /// Its count, when it is not in a batch.
    handled: u64,
    next: Next,
}

impl Driver {
    /// Does the next step. Returns the entry that it handles, if any.
    fn step(&mut self, hardware: &mut Hardware) -> Option<u64> {
        match &mut self.next {
            Next::Begin => {
                let wptr = hardware.wptr();
                self.handled += u64::from(RING.lost(self.handled, wptr));
                self.next = match wptr.overflow {
                    true => Next::Pass(wptr.offset),
                    false => Next::Handle(self.handled, wptr.offset, BATCH),
                };
                None
            }
            Next::Pass(wptr) => {
                hardware.rptr = RING.offset(self.handled);
                hardware.overflow = false;
                self.next = Next::Handle(self.handled, *wptr, BATCH);
                None
            }
            Next::Handle(at, wptr, left) if *left > 0 && RING.offset(*at) != *wptr => {
                let place = RING.offset(*at) / ENTRY_BYTES;
                *at += u64::from(ENTRY_BYTES);
                *left -= 1;
                hardware.places[place as usize]
            }
            Next::Handle(at, ..) => {
                self.handled = *at;
                hardware.rptr = RING.offset(self.handled);
                self.next = Next::Begin;
                None
            }
        }
    }

    /// The number of entries that may come before the next step.
    fn room(&self) -> u32 {
        match self.next {
            Next::Pass(_) => ENTRIES / 4 - 1,
            _ => u32::MAX,
        }
    }
}

/// Returns whether there was a question, and its answer has come true: the driver's count is there,
/// or between two batches it is where the hardware is.
fn is_settled(asked: u64, driver: &Driver, hardware: &Hardware) -> bool {
    let between = matches!(driver.next, Next::Begin);
    between && (driver.handled >= asked || RING.is_empty(driver.handled, hardware.wptr()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Entries that were there at a question are not handled any more when the driver is at the
    /// position in the answer; without an overflow each entry is handled once, in its order.
    #[test]
    fn what_is_settled_stays_so(steps in steps()) {
        let mut hardware = Hardware {
            places: [None; ENTRIES as usize],
            next: 0,
            wptr: 0,
            rptr: 0,
            overflow: false,
            overflows: 0,
        };
        let mut driver = Driver { handled: 0, next: Next::Begin };
        // The driver's future count, and the first entry that is not meant.
        let mut asked: Vec<(u64, u64)> = Vec::new();
        let (mut settled, mut expected, mut room) = (0, 0, u32::MAX);
        for step in steps {
            match step {
                Step::Push(count) => {
                    let count = count.min(room);
                    room -= count;
                    (0..count).for_each(|_| hardware.push());
                }
                Step::Ask => {
                    let end = RING.end(driver.handled, hardware.wptr());
                    prop_assert!(end >= driver.handled);
                    asked.push((end, hardware.next));
                }
                Step::Drive(count) => {
                    for _ in 0..count {
                        let entry = driver.step(&mut hardware);
                        room = driver.room();
                        if let Some(entry) = entry {
                            prop_assert!(
                                entry >= settled,
                                "{entry} again, after all before {settled}"
                            );
                            if hardware.overflows == 0 {
                                prop_assert_eq!(entry, expected);
                                expected += 1;
                            }
                        }
                        asked.retain(|&(end, next)| {
                            let done = is_settled(end, &driver, &hardware);
                            if done {
                                settled = settled.max(next);
                            }
                            !done
                        });
                    }
                }
            }
        }
        // And it comes true once nothing is added.
        for _ in 0..4 * ENTRIES * BATCH {
            driver.step(&mut hardware);
        }
        while !matches!(driver.next, Next::Begin) {
            driver.step(&mut hardware);
        }
        prop_assert!(asked.iter().all(|&(end, _)| is_settled(end, &driver, &hardware)));
    }
}

/// The driver has gone on by a batch that the hardware does not know of yet, and reaches the
/// hardware's position by it.
#[test]
fn nothing_is_found_again_that_is_handled() {
    let (bytes, batch) = (ENTRIES * ENTRY_BYTES, BATCH * ENTRY_BYTES);
    let wptr = IhWritePointer {
        offset: bytes - ENTRY_BYTES,
        overflow: true,
    };
    assert_eq!(RING.lost(batch.into(), wptr), bytes / 4);
    let past = IhWritePointer {
        offset: batch,
        ..wptr
    };
    assert_eq!(RING.lost(batch.into(), past), bytes / 4 + ENTRY_BYTES);
    assert_eq!(RING.end(batch.into(), past), u64::from(batch + bytes));
}
