// SPDX-License-Identifier: GPL-2.0
//! The processes that are found for entries without a PASID, against a ring that knows them. VMIDs
//! change hands while entries wait, and the hardware overwrites the ring.

use hw::ih::{IhRing, IhWritePointer, VmidBinding, VmidOwners, ENTRY_BYTES, VMID_BINDINGS};
use proptest::prelude::*;

const ENTRIES: u32 = 64;
const BATCH: u32 = 8;
const RING: IhRing = IhRing::new(ENTRIES * ENTRY_BYTES, BATCH);
const VMIDS: u8 = 3;
/// More than a flood of a full ring.
const FLOOD: u32 = 3 * ENTRIES;

/// An entry, and the process that raised it.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    vmid: u8,
    raiser: u16,
}

struct Hardware {
    places: [Entry; ENTRIES as usize],
    wptr: u32,
    rptr: u32,
    overflow: bool,
    overflows: u32,
}

impl Hardware {
    fn push(&mut self, entry: Entry) {
        let next = (self.wptr + ENTRY_BYTES) % (ENTRIES * ENTRY_BYTES);
        if next == self.rptr && !self.overflow {
            self.overflow = true;
            self.overflows += 1;
        }
        self.places[(self.wptr / ENTRY_BYTES) as usize] = entry;
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
    /// The owner of a VMID, or the last one it had, raises entries.
    Raise(u8, u32),
    /// A VMID changes hands.
    Bind(u8, u16),
    /// The interrupt thread does so many of its steps.
    Drive(u32),
}

fn steps(flood: u32) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..VMIDS, 0..BATCH).prop_map(|(vmid, count)| Step::Raise(vmid, count)),
        1 => (0..VMIDS, 0..flood).prop_map(|(vmid, count)| Step::Raise(vmid, count)),
        4 => (0..VMIDS, 1..5u16).prop_map(|(vmid, pasid)| Step::Bind(vmid, pasid)),
        5 => (0..2 * BATCH).prop_map(Step::Drive),
    ];
    prop::collection::vec(step, 1..300)
}

/// The interrupt thread, which does one step at a time.
struct Driver {
    owners: VmidOwners<Vec<VmidBinding>>,
    /// What other threads see.
    handled: u64,
    /// The position in a batch, its write pointer, entries that it may still have.
    batch: Option<(u64, u32, u32)>,
}

impl Driver {
    fn new() -> Self {
        let places = usize::from(VMIDS) * VMID_BINDINGS;
        Self {
            owners: VmidOwners::new(vec![VmidBinding::default(); places]),
            handled: 0,
            batch: None,
        }
    }

    fn bind(&mut self, hardware: &Hardware, vmid: u8, pasid: u16) {
        let position = RING.end(self.handled, hardware.wptr());
        self.owners.bind(vmid, pasid, position);
    }

    /// As the driver does with its lock held.
    fn skip_lost(&mut self, hardware: &mut Hardware) {
        let wptr = hardware.wptr();
        self.handled += u64::from(RING.lost(self.handled, wptr));
        hardware.rptr = RING.offset(self.handled);
        hardware.overflow = false;
        let remaining = IhWritePointer {
            overflow: false,
            ..wptr
        };
        let end = RING.end(self.handled, remaining);
        self.owners.forget_before(end);
    }

    /// Does the next step. Returns the entry that it handles, if any, and the name it finds.
    fn step(&mut self, hardware: &mut Hardware) -> Option<(Entry, u16)> {
        let Some((at, wptr, left)) = self.batch else {
            if hardware.overflow {
                self.skip_lost(hardware);
            }
            self.batch = Some((self.handled, hardware.wptr, BATCH));
            return None;
        };
        if left == 0 || RING.offset(at) == wptr {
            self.handled = at;
            hardware.rptr = RING.offset(at);
            self.batch = None;
            return None;
        }
        self.batch = Some((at + u64::from(ENTRY_BYTES), wptr, left - 1));
        let entry = hardware.places[(RING.offset(at) / ENTRY_BYTES) as usize];
        let owner = self.owners.owner(entry.vmid, at);
        let name = if hardware.overflow { 0 } else { owner };
        Some((entry, name))
    }
}

/// Does the steps. Calls `check` with each entry that is handled, the name that was found, and
/// whether there was an overflow.
fn run(
    steps: Vec<Step>,
    mut check: impl FnMut(Entry, u16, bool) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let mut hardware = Hardware {
        places: [Entry::default(); ENTRIES as usize],
        wptr: 0,
        rptr: 0,
        overflow: false,
        overflows: 0,
    };
    let mut driver = Driver::new();
    let mut owners = [0; VMIDS as usize];
    for step in steps {
        match step {
            Step::Raise(vmid, count) => {
                let raiser = owners[usize::from(vmid)];
                (0..count).for_each(|_| hardware.push(Entry { vmid, raiser }));
            }
            Step::Bind(vmid, pasid) => {
                driver.bind(&hardware, vmid, pasid);
                owners[usize::from(vmid)] = pasid;
            }
            Step::Drive(count) => {
                for _ in 0..count {
                    if let Some((entry, name)) = driver.step(&mut hardware) {
                        check(entry, name, hardware.overflows > 0)?;
                    }
                }
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// No process has the entry of another, whatever the flood.
    #[test]
    fn no_entry_is_of_another_process(steps in steps(FLOOD)) {
        run(steps, |entry, name, _| {
            prop_assert!(name == 0 || name == entry.raiser, "{entry:?} has the name {name}");
            Ok(())
        })?;
    }

    /// Without an overflow each entry has its process.
    #[test]
    fn each_entry_has_its_process(steps in steps(BATCH)) {
        run(steps, |entry, name, overflowed| {
            prop_assert!(overflowed || name == entry.raiser, "{entry:?} has the name {name}");
            Ok(())
        })?;
    }
}

/// Bindings beyond the memory: the oldest entries have no owner.
#[test]
fn too_many_bindings_leave_entries_without_owners() {
    let mut driver = Driver::new();
    let entry = u64::from(ENTRY_BYTES);
    let bindings = 2 * VMID_BINDINGS as u16;
    for pasid in 1..=bindings {
        driver.owners.bind(1, pasid, u64::from(pasid) * entry);
    }
    for pasid in 1..=bindings {
        let kept = pasid > bindings - VMID_BINDINGS as u16;
        let expected = if kept { pasid } else { 0 };
        assert_eq!(driver.owners.owner(1, u64::from(pasid) * entry), expected);
    }
    assert_eq!(driver.owners.owner(0, entry), 0);
    assert_eq!(driver.owners.owner(VMIDS, entry), 0);
    driver.owners.bind(VMIDS, 7, 0);
    assert_eq!(driver.owners.owner(VMIDS, entry), 0);
}
