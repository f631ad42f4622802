// SPDX-License-Identifier: GPL-2.0
//! The private data of a checkpoint: what was written is read, and nothing else is.

use hw::asic::gfx90a::MI210;
use hw::criu::{
    seal, BadCheckpoint, BufferRecord, Checkpoint, DeviceRecord, EventPageRecord, EventRecord,
    PayloadRecord, ProcessRecord, QueueRecord, QueueState, RangeRecord, Record, RecordCounts,
    RuntimeRecord, HEADER, SEAL, VERSION,
};
use hw::doorbell::{DoorbellSlot, SliceIndex};
use hw::mqd::compute::{ComputeMqd, ComputeMqdConfig, ContextSaveArea, PacketFormat, XccShare};
use hw::mqd::saved::{SavedXccs, SAVED};
use hw::queue::{QueuePercentage, QueuePriority, QueueType};
use hw::sdma::ring::RingSize;
use hw::topology::gpu_id::GpuId;
use hw::trap::SecondLevelTrap;
use hw::va::VaRange;
use proptest::prelude::*;

/// Dwords of the saved descriptor with meanings.
const STACK_OFFSET: usize = 174;
const STACK_SIZE: usize = 175;
const WAVES: usize = 176;
const READ: usize = 138;
const STACK: u32 = 0x8000;
const AREA: u32 = 0x20000;

fn collect(records: &[Record<'_>]) -> (Vec<u32>, RecordCounts) {
    let mut words = HEADER.to_vec();
    let mut counts = RecordCounts::default();
    for record in records {
        let mut sink = |dwords: &[u32]| -> Result<(), ()> {
            words.extend_from_slice(dwords);
            Ok(())
        };
        record.write(&mut sink).unwrap();
        counts.add(record);
    }
    words.extend_from_slice(&SEAL);
    seal(&mut words).unwrap();
    (words, counts)
}

fn process() -> ProcessRecord {
    ProcessRecord {
        retries: true,
        runtime: Some(RuntimeRecord {
            r_debug: 0x1234_5678_9abc,
            ttmp_setup: true,
        }),
        event_page: EventPageRecord::Buffer(1, 7),
    }
}

fn device(id: u32) -> Record<'static> {
    Record::Device(DeviceRecord {
        id: GpuId::from_raw(id).unwrap(),
        trap: SecondLevelTrap {
            code: 0x1_0000,
            memory: 0x2_0000,
        },
    })
}

fn buffer() -> BufferRecord {
    BufferRecord {
        device: 1,
        number: 3,
        flags: 0xd000_0001,
        address: 0x7f00_0000_0000,
        size: 4096,
        user: 0,
        mapped: 3,
    }
}

fn queue(progress: &[u32], kind: QueueType) -> QueueRecord<'_> {
    QueueRecord {
        device: 0,
        id: 2,
        doorbell: DoorbellSlot::new(4).unwrap(),
        kind,
        ring: 0x7f00_0001_0000,
        size: RingSize::new(65536).unwrap(),
        read_pointer: 0x7f00_0002_0080,
        write_pointer: 0x7f00_0002_0038,
        percentage: QueuePercentage::new(100).unwrap(),
        priority: QueuePriority::new(7).unwrap(),
        engine: 0,
        eop: 0x7f00_0003_0000,
        eop_size: 4096,
        save: 0x7f00_0004_0000,
        save_size: AREA,
        control_stack: STACK,
        progress,
    }
}

fn event() -> EventRecord {
    EventRecord {
        id: 5,
        kind: 0,
        auto_reset: true,
        signaled: false,
        age: 9,
        payload: PayloadRecord::Memory(1, 0x7f00_0000_0000, 5),
    }
}

/// A saved descriptor with `used` dwords of control stack.
fn saved(used: u32) -> Vec<u32> {
    let mut words: Vec<u32> = (0..SAVED as u32).map(|place| place | 0x5a00_0000).collect();
    words[STACK_SIZE] = STACK;
    words[STACK_OFFSET] = STACK - used * 4;
    words[WAVES] = STACK + 0x100;
    words[READ] = 17;
    words.extend((0..used).map(|n| n | 0xc000_0000));
    words
}

fn all() -> (Vec<u32>, RecordCounts) {
    let compute = saved(6);
    let sdma = QueueRecord::sdma_progress(0x1_0000_0040);
    collect(&[
        Record::Process(process()),
        device(0x8001),
        device(0x8002),
        Record::Buffer(buffer()),
        Record::Queue(queue(&compute, QueueType::ComputeAql)),
        Record::Queue(queue(&sdma, QueueType::Sdma)),
        Record::Event(event()),
        Record::Range(RangeRecord {
            range: VaRange::new(0x10_0000, 0x2000).unwrap(),
            attributes: &[2, 0x8001, 5, 1],
        }),
    ])
}

#[test]
fn all_kinds_are_read_as_they_were_written() {
    let (words, counts) = all();
    assert_eq!((counts.devices, counts.buffers, counts.objects), (2, 1, 4));
    let checkpoint = Checkpoint::new(&words, counts).unwrap();
    assert_eq!(checkpoint.process(), &process());
    let records: Vec<Record<'_>> = checkpoint.records().collect();
    assert_eq!(records.len(), 7);
    assert_eq!(records[0], device(0x8001));
    assert_eq!(records[2], Record::Buffer(buffer()));
    let Record::Queue(compute) = records[3] else {
        panic!("{:?}", records[3]);
    };
    let Some(QueueState::Compute(xccs)) = compute.state() else {
        panic!("{compute:?}");
    };
    let stacks: Vec<_> = xccs.iter().map(|xcc| xcc.stack().len()).collect();
    assert_eq!(stacks, [6]);
    let Record::Queue(sdma) = records[4] else {
        panic!("{:?}", records[4]);
    };
    assert_eq!(sdma.state(), Some(QueueState::Sdma(0x1_0000_0040)));
    assert_eq!(records[5], Record::Event(event()));
    // Written again, it is the same.
    let mut again = vec![Record::Process(*checkpoint.process())];
    again.extend(checkpoint.records());
    assert_eq!(collect(&again).0, words);
}

#[test]
fn other_counts_are_refused() {
    let (words, counts) = all();
    for wrong in [
        RecordCounts {
            devices: 1,
            ..counts
        },
        RecordCounts {
            buffers: 0,
            ..counts
        },
        RecordCounts {
            objects: 5,
            ..counts
        },
    ] {
        assert!(Checkpoint::new(&words, wrong).is_err());
    }
}

#[test]
fn each_flipped_bit_is_found() {
    let (words, counts) = all();
    for bit in 0..words.len() * 32 {
        let mut flipped = words.clone();
        flipped[bit / 32] ^= 1 << (bit % 32);
        assert!(Checkpoint::new(&flipped, counts).is_err(), "bit {bit}");
    }
}

#[test]
fn what_is_cut_or_lengthened_is_refused() {
    let (words, counts) = all();
    for length in 0..words.len() {
        assert!(Checkpoint::new(&words[..length], counts).is_err());
        // With a checksum of its own.
        let mut cut = words[..length].to_vec();
        if seal(&mut cut).is_ok() {
            assert!(Checkpoint::new(&cut, counts).is_err(), "{length} dwords");
        }
    }
    for more in [0, 1, u32::MAX] {
        let mut longer = words.clone();
        longer.push(more);
        assert!(Checkpoint::new(&longer, counts).is_err());
        seal(&mut longer).unwrap();
        assert!(Checkpoint::new(&longer, counts).is_err());
    }
}

#[test]
fn another_version_is_refused() {
    let (mut words, counts) = all();
    words[2] = VERSION + 1;
    seal(&mut words).unwrap();
    assert!(Checkpoint::new(&words, counts).is_err());
}

#[test]
fn an_order_that_cannot_be_is_refused() {
    let refused = |records: &[Record<'_>]| {
        let (words, counts) = collect(records);
        Checkpoint::new(&words, counts).is_err()
    };
    let plain = Record::Process(ProcessRecord {
        event_page: EventPageRecord::None,
        ..process()
    });
    assert!(!refused(&[plain, device(1)]));
    assert!(refused(&[]));
    assert!(refused(&[device(1)]));
    assert!(refused(&[device(1), plain]));
    assert!(refused(&[plain, plain, device(1)]));
    assert!(refused(&[plain, device(1), Record::Event(event())]));
    let here = BufferRecord {
        device: 0,
        mapped: 1,
        ..buffer()
    };
    assert!(!refused(&[plain, device(1), Record::Buffer(here)]));
    assert!(refused(&[plain, Record::Buffer(here), device(1)]));
    // GPUs that there are not.
    assert!(refused(&[plain, device(1), Record::Buffer(buffer())]));
    assert!(refused(&[Record::Process(process()), device(1)]));
    assert!(refused(&[
        plain,
        device(1),
        Record::Buffer(BufferRecord { mapped: 2, ..here })
    ]));
    assert!(refused(&[
        plain,
        device(1),
        Record::Buffer(BufferRecord { number: 0, ..here })
    ]));
    assert!(refused(&[
        plain,
        device(1),
        Record::Buffer(BufferRecord { size: 0, ..here })
    ]));
    let beyond = BufferRecord {
        address: 1 << 47,
        ..here
    };
    assert!(refused(&[plain, device(1), Record::Buffer(beyond)]));
    // Progress of the wrong kind of queue.
    let sdma = QueueRecord::sdma_progress(64);
    assert!(refused(&[
        plain,
        device(1),
        Record::Queue(queue(&sdma, QueueType::Compute))
    ]));
    let compute = saved(0);
    assert!(refused(&[
        plain,
        device(1),
        Record::Queue(queue(&compute, QueueType::Sdma))
    ]));
    assert!(!refused(&[
        plain,
        device(1),
        Record::Queue(queue(&compute, QueueType::Compute))
    ]));
    assert!(refused(&[
        plain,
        device(1),
        Record::Queue(queue(&compute[1..], QueueType::Compute))
    ]));
}

/// A new descriptor of the queue that [`saved`] is of.
fn fresh() -> ComputeMqd {
    let config = ComputeMqdConfig {
        mqd_address: 0xff_0000_1000,
        ring_base: 0x7f00_0001_0000,
        ring_size: RingSize::new(65536).unwrap(),
        read_pointer: 0x7f00_0002_0080,
        write_pointer: 0x7f00_0002_0038,
        eop_base: 0x7f00_0003_0000,
        eop_bytes: 4096,
        doorbell: SliceIndex::new(2, 2 << 20)
            .unwrap()
            .doorbell(DoorbellSlot::new(4).unwrap()),
        vmid: 0,
        format: PacketFormat::Pm4,
        priority: QueuePriority::NORMAL,
        context_save: Some(ContextSaveArea {
            base: 0x7f00_0004_0000,
            size: AREA,
            control_stack: STACK,
            trap_handler: true,
        }),
        share: XccShare::ALONE,
    };
    ComputeMqd::new(&MI210.mqd, &config)
}

fn resume(words: &[u32]) -> Option<ComputeMqd> {
    let size = RingSize::new(65536).unwrap();
    let saved = SavedXccs::new(words)?.iter().next()?;
    fresh().resumed(&MI210.mqd, size, &saved)
}

/// Addresses, privileges and sizes are never those of the file.
#[test]
fn a_queue_goes_on_with_a_descriptor_of_its_own() {
    let (fresh, words) = (fresh(), saved(2));
    let resumed = resume(&words).unwrap();
    let (own, resumed) = (fresh.dwords(), resumed.dwords());
    for place in [
        0, 11, 12, 15, 16, 17, 18, 21, 106, 120, 124, 127, 128, 129, 130, 131, 133, 135, 136, 137,
        139, 140, 141, 142, 143, 145, 152, 162, 165, 166, 167, 171, 172, 173, 175, 177, 181, 184,
        225, 240, 511,
    ] {
        assert_eq!(resumed[place], own[place], "dword {place}");
    }
    for place in [
        1, 13, 19, 28, 36, 44, 65, 80, 96, 138, 146, 148, 168, 174, 176, 182,
    ] {
        assert_eq!(resumed[place], words[place], "dword {place}");
    }
    // PRELOAD_SIZE and QSWITCH_MODE, of the driver; DISP_ACTIVE, of the CP.
    let mut busy = words.clone();
    busy[132] = 1 << 31;
    let state = resume(&busy).unwrap().dwords()[132];
    assert_eq!(state, own[132] | 1 << 31);
}

#[test]
fn progress_that_cannot_be_is_refused() {
    let with = |place: usize, value: u32| {
        let mut words = saved(0);
        words[place] = value;
        resume(&words).is_some()
    };
    assert!(with(READ, 65536 / 4 - 1));
    assert!(!with(READ, 65536 / 4));
    assert!(with(WAVES, STACK));
    assert!(!with(WAVES, STACK - 4));
    assert!(!with(WAVES, STACK + 2));
    assert!(with(WAVES, AREA));
    assert!(!with(WAVES, AREA + 4));
    assert!(!with(STACK_OFFSET, STACK + 4));
    assert!(!with(STACK_SIZE, STACK - 4));
    let mut words = saved(0);
    for &engine in MI210.mqd.cu_masks {
        words[engine] = 0;
    }
    assert!(resume(&words).is_none());
}

prop_compose! {
    fn any_event()(
        id in any::<u32>(),
        kind in any::<u32>(),
        (auto_reset, signaled) in any::<(bool, bool)>(),
        age in 1u64..,
        payload in prop_oneof![
            Just(PayloadRecord::Nothing),
            (0u8..2, any::<u64>(), 0u8..8)
                .prop_map(|(gpu, at, why)| PayloadRecord::Memory(gpu, at, why)),
            (0u8..2).prop_map(PayloadRecord::Stopped),
            (0u8..2).prop_map(PayloadRecord::Reset),
        ],
    ) -> EventRecord {
        EventRecord { id, kind, auto_reset, signaled, age, payload }
    }
}

prop_compose! {
    fn any_buffer()(
        device in 0u8..2,
        number in 1u32..,
        flags in any::<u32>(),
        address in 0u64..1 << 47,
        size in 1u64..,
        user in 0u64..1 << 47,
        mapped in 0u64..4,
    ) -> BufferRecord {
        BufferRecord { device, number, flags, address, size, user, mapped }
    }
}

proptest! {
    #[test]
    fn any_records_come_back(
        buffers in prop::collection::vec(any_buffer(), 0..20),
        events in prop::collection::vec(any_event(), 0..20),
        attributes in prop::collection::vec(any::<u32>(), 0..8),
    ) {
        let mut records = vec![Record::Process(process()), device(1), device(2)];
        records.extend(buffers.iter().copied().map(Record::Buffer));
        records.extend(events.iter().copied().map(Record::Event));
        records.push(Record::Range(RangeRecord {
            range: VaRange::new(0x10_0000, 0x2000).unwrap(),
            attributes: &attributes[..attributes.len() & !1],
        }));
        let (words, counts) = collect(&records);
        let checkpoint = Checkpoint::new(&words, counts).unwrap();
        prop_assert_eq!(checkpoint.records().collect::<Vec<_>>(), &records[1..]);
    }

    /// Random data, and data that were damaged and have a checksum that fits.
    #[test]
    fn damage_never_panics(
        random in prop::collection::vec(any::<u32>(), 0..100),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u32>()), 1..5),
    ) {
        let counts = RecordCounts { devices: 2, buffers: 1, objects: 4 };
        prop_assert_eq!(Checkpoint::new(&random, counts).err(), Some(BadCheckpoint));
        let (mut words, counts) = all();
        for (place, value) in damage {
            let place = place.index(words.len());
            words[place] = value;
        }
        seal(&mut words).unwrap();
        if let Ok(checkpoint) = Checkpoint::new(&words, counts) {
            for record in checkpoint.records() {
                if let Record::Queue(queue) = record {
                    if let Some(QueueState::Compute(xccs)) = queue.state() {
                        let size = queue.size;
                        for saved in xccs.iter() {
                            let _ = fresh().resumed(&MI210.mqd, size, &saved);
                        }
                    }
                }
            }
        }
    }
}
