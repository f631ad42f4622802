// SPDX-License-Identifier: GPL-2.0
//! Queue descriptors, and the numbers of CREATE_QUEUE.

use hw::asic::gfx90a::MI210;
use hw::doorbell::{DoorbellSlot, SliceIndex};
use hw::mqd::compute::{ComputeMqd, ComputeMqdConfig, ContextSaveArea, PacketFormat, XccShare};
use hw::mqd::cu_mask;
use hw::mqd::hqd::HqdImage;
use hw::mqd::sdma::{kernel_rb_cntl, register_of, SdmaMqd, SdmaMqdConfig};
use hw::queue::{QueuePercentage, QueuePriority, QueueType};
use hw::sdma::ring::RingSize;
use hw::topology::cus::ComputeUnits;
use proptest::prelude::*;

const BAR: u64 = 2 << 20;

fn sdma_queue() -> SdmaMqdConfig {
    SdmaMqdConfig {
        ring_base: 0x7f12_3456_7800,
        ring_size: RingSize::new(1 << 20).unwrap(),
        read_pointer: 0x7f00_0000_1010,
        doorbell: SliceIndex::new(2, BAR)
            .unwrap()
            .doorbell(MI210.doorbells.sdma(1, 3).unwrap()),
        vmid: 9,
        engine: 1,
        queue: 3,
    }
}

#[test]
fn an_sdma_descriptor_has_the_dwords_of_the_specification() {
    let mqd = SdmaMqd::new(&sdma_queue());
    let d = mqd.dwords();
    let doorbell = 2 * (2 * 1024 + 0x10a + 512 + 1);
    let mut expected = [0u32; 128];
    expected[0] = 18 << 1 | 1 << 12 | 6 << 16 | 9 << 24;
    expected[1] = 0x1234_5678;
    expected[2] = 0x7f;
    expected[8] = 0x7f00;
    expected[9] = 0x1010;
    expected[10] = 1 << 8;
    expected[22] = doorbell << 2;
    expected[27] = 0xf;
    expected[126] = 1;
    expected[127] = 3;
    assert_eq!(d, &expected);
    let rlc = mqd.rlc();
    assert_eq!(rlc.rb_cntl_enabled(), expected[0] | 1);
    assert_eq!(rlc.rb_cntl & 1, 0);
    assert_eq!(rlc.doorbell, 1 << 28);
    assert_eq!(rlc.doorbell_offset, doorbell << 2);
    assert_eq!(rlc.ib_cntl, 1 << 8 | 1);
    assert_eq!((rlc.rb_base, rlc.rb_base_hi), (0x1234_5678, 0x7f));
    assert_eq!((rlc.rptr_addr_lo, rlc.rptr_addr_hi), (0x1010, 0x7f00));
}

#[test]
fn descriptor_dwords_are_the_image_of_registers() {
    // Offsets from RLC0's first register, +0x130 of the engine.
    let at = |dword| register_of(dword).map(|offset| offset + 0x130);
    assert_eq!(at(0), Some(0x130));
    assert_eq!(at(18), Some(0x142));
    assert_eq!(at(19), Some(0x158));
    assert_eq!(at(22), Some(0x15b));
    assert_eq!(at(24), Some(0x15d));
    assert_eq!(at(25), Some(0x15f));
    assert_eq!(at(31), Some(0x165));
    assert_eq!(at(32), None);
    assert_eq!(at(126), None);
}

#[test]
fn a_kernel_ring_is_privileged() {
    let size = RingSize::new(1 << 16).unwrap();
    assert_eq!(kernel_rb_cntl(size), 14 << 1 | 1 << 12 | 6 << 16 | 1 << 23);
}

proptest! {
    #[test]
    fn numbers_of_create_queue_are_judged(value: u32) {
        let percent = value & 0xff;
        prop_assert_eq!(QueuePercentage::new(value).is_some(), percent <= 100);
        if let Some(p) = QueuePercentage::new(value) {
            let read = (u32::from(p.percent), u32::from(p.pm4_xcc));
            prop_assert_eq!(read, (percent, value >> 8 & 0xff));
            prop_assert_eq!(p.is_active(), percent > 0);
        }
        prop_assert_eq!(QueuePriority::new(value).is_some(), value < 16);
        prop_assert_eq!(QueueType::new(value).is_some(), value < 5);
    }
}

fn compute_queue(format: PacketFormat) -> ComputeMqdConfig {
    ComputeMqdConfig {
        mqd_address: 0x1_0000_2000,
        ring_base: 0x7f12_3456_7800,
        ring_size: RingSize::new(4096).unwrap(),
        read_pointer: 0x7f00_0000_1080,
        write_pointer: 0x7f00_0000_1038,
        eop_base: 0x7f00_0001_0000,
        eop_bytes: 4096,
        doorbell: SliceIndex::new(1, BAR)
            .unwrap()
            .doorbell(DoorbellSlot::new(5).unwrap()),
        vmid: 8,
        format,
        priority: QueuePriority::new(11).unwrap(),
        context_save: Some(ContextSaveArea {
            base: 0x7e00_0000_0000,
            size: 0x3c9_1000,
            control_stack: 0x9000,
            trap_handler: true,
        }),
        share: XccShare::ALONE,
    }
}

#[test]
fn a_compute_descriptor_has_the_dwords_of_the_specification() {
    let mqd = ComputeMqd::new(&MI210.mqd, &compute_queue(PacketFormat::Aql));
    let d = mqd.dwords();
    let doorbell = 2 * (1024 + 5);
    for (dword, value) in [
        (0, 0xc031_0800),
        (11, 1),
        (20, 1 << 6),
        (128, 0x2000),
        (129, 1),
        (130, 0),
        (131, 8),
        (132, 1 | 0x53 << 8 | 1 << 30),
        (133, 2),
        (135, 1 | 1 << 4 | 1 << 8),
        (136, 0x1234_5678),
        (137, 0x7f),
        (139, 0x1080),
        (140, 0x7f00),
        (141, 0x1038),
        (142, 0x7f00),
        (143, doorbell << 2 | 2),
        (
            145,
            9 | 5 << 8 | 1 << 28 | 1 << 27 | 2 << 25 | 1 << 14 | 1 << 16,
        ),
        (149, 3 << 20 | 1 << 23),
        (160, 1 << 14),
        (162, 1 << 8),
        (165, 0x0000_0100),
        (166, 0x7f),
        (167, 9),
        (171, 0),
        (172, 0x7e00),
        (174, 0x9000),
        (175, 0x9000),
        (176, 0x9000),
        (177, 0x3c9_1000),
        (181, 1),
    ] {
        assert_eq!(d[dword], value, "dword {dword}");
    }
    for dword in [23, 24, 26, 27, 39, 40, 41, 42] {
        assert_eq!(d[dword], u32::MAX);
    }
    let image = mqd.hqd();
    assert_eq!(image.dwords()[..], d[128..184]);
    assert_eq!(image.doorbell_enabled(), d[143] | 1 << 30);
    assert_eq!(image.eop_started(), 1 << 31);
    assert_eq!(image.write_pointer_address(), 0x7f00_0000_1038);
}

#[test]
fn waves_are_not_switched_without_a_handler() {
    let mut queue = compute_queue(PacketFormat::Aql);
    if let Some(save) = &mut queue.context_save {
        save.trap_handler = false;
    }
    let mqd = ComputeMqd::new(&MI210.mqd, &queue);
    assert_eq!(mqd.dwords()[132], 1 | 0x53 << 8);
    assert_eq!(mqd.dwords()[20], 0);
    assert_eq!(mqd.dwords()[177], 0x3c9_1000);
}

/// An image that the CP has saved at those pointers.
fn saved(read: u32, write: u64) -> HqdImage {
    let mut dwords = *ComputeMqd::new(&MI210.mqd, &compute_queue(PacketFormat::Pm4))
        .hqd()
        .dwords();
    dwords[2] = 1;
    dwords[10] = read;
    dwords[24] = 1;
    dwords[54] = write as u32;
    dwords[55] = (write >> 32) as u32;
    HqdImage::new(dwords)
}

#[test]
fn registers_that_hold_what_they_are_to_hold_are_not_written() {
    let mut before = *ComputeMqd::new(&MI210.mqd, &compute_queue(PacketFormat::Aql))
        .hqd()
        .dwords();
    let all = HqdImage::new(before);
    assert_eq!(all.writes(None).count(), before.len());
    for (n, value) in all.writes(None) {
        assert_eq!(before[n as usize], value);
    }
    // It has left in an indirect buffer.
    before[146 - 128] = 0x1000;
    let mut queue = compute_queue(PacketFormat::Pm4);
    queue.mqd_address += 0x1000;
    let after = ComputeMqd::new(&MI210.mqd, &queue).hqd();
    let writes: Vec<_> = after.writes(Some(&HqdImage::new(before))).collect();
    let is_written = |dword: u32| writes.iter().any(|&(n, _)| n == dword - 128);
    for (n, value) in &writes {
        assert_eq!(after.dwords()[*n as usize], *value);
    }
    // The differences.
    for dword in [128, 146, 181] {
        assert!(is_written(dword), "{dword}");
    }
    // Values with an effect: states, pointers, the doorbell.
    for dword in [132, 135, 138, 143, 145, 160, 162, 167, 168, 169, 182, 183] {
        assert!(is_written(dword), "{dword}");
    }
    // The rest is the same.
    assert_eq!(writes.len(), 15);
}

#[test]
fn a_saved_image_can_be_loaded_elsewhere() {
    let mut image = saved(0, 0);
    image.prepare(12);
    assert_eq!(image.dwords()[2], 0);
    assert_eq!(image.dwords()[3], 12);
    assert_eq!(image.dwords()[24], 0);
    image.set_ring(0x7f00_0010_0000, RingSize::new(8192).unwrap());
    assert_eq!(image.dwords()[8..10], [0x0000_1000, 0x7f]);
    assert_eq!(image.dwords()[17], 10 | 5 << 8 | 1 << 28);
    image.set_priority(QueuePriority::new(0).unwrap());
    assert_eq!(image.dwords()[5], 0);
}

#[test]
fn the_saved_waves_are_what_is_below_the_stacks_end() {
    let mut dwords = *saved(0, 0).dwords();
    dwords[46] = 0x8ff0;
    dwords[48] = 0xa000;
    let state = HqdImage::new(dwords).wave_state();
    assert_eq!(
        (state.control_stack_offset, state.control_stack_used),
        (0x8ff0, 0x10)
    );
    assert_eq!((state.waves_offset, state.waves_used), (0xa000, 0x1000));
    assert!(HqdImage::new(dwords).is_midway());
    dwords[46] = u32::MAX;
    dwords[48] = 0;
    let state = HqdImage::new(dwords).wave_state();
    assert_eq!((state.control_stack_used, state.waves_used), (0, 0));
}

#[test]
fn a_queue_is_midway_with_waves_a_cut_launch_or_an_indirect_buffer() {
    let idle = *saved(5, 5).dwords();
    let with = |dword: usize, value| {
        let mut dwords = idle;
        dwords[dword - 128] = value;
        HqdImage::new(dwords).is_midway()
    };
    assert!(!HqdImage::new(idle).is_midway());
    assert!(with(132, idle[4] | 1 << 31));
    assert!(with(149, idle[21] | 1 << 31));
    assert!(with(174, 0x8ff8));
    assert!(!with(174, 0x9000));
}

proptest! {
    /// The ring has 1,024 dwords.
    #[test]
    fn a_queue_goes_on_at_its_read_pointer(read: u32, ahead in 0u64..1024) {
        let read = u64::from(read);
        let image = saved((read % 1024) as u32, read + ahead);
        prop_assert_eq!(image.resume_write_pointer(), read);
    }

    /// Any saved values, also of the ring's size: 0 to 63 of its field.
    #[test]
    fn no_saved_image_is_too_bad(read: u32, write: u64, size in 0u32..64) {
        let mut dwords = *saved(read, write).dwords();
        dwords[145 - 128] = dwords[145 - 128] & !0x3f | size;
        let resumed = HqdImage::new(dwords).resume_write_pointer();
        let mask = (1u128 << (size + 1)) - 1;
        prop_assert_eq!(u128::from(resumed) & mask, u128::from(read) & mask);
        prop_assert_eq!(HqdImage::new(dwords).started().dwords()[54], resumed as u32);
    }

    #[test]
    fn hqds_are_numbered_across_the_pipes(index: u8) {
        let hqd = MI210.mec.hqd(index);
        prop_assert_eq!(hqd.is_some(), index < 32);
        if let Some(hqd) = hqd {
            prop_assert!(hqd.pipe() < 4 && hqd.queue() < 8);
            prop_assert_eq!(hqd.index(), hqd.queue() * 4 + hqd.pipe());
            prop_assert_eq!(hqd.poll_bit(), u32::from(hqd.pipe()) * 8 + u32::from(hqd.queue()));
        }
    }
}

#[test]
fn kernel_and_pm4_queues_differ_in_their_bits() {
    let mut queue = compute_queue(PacketFormat::Pm4);
    queue.context_save = None;
    queue.eop_bytes = 1 << 20;
    let pm4 = ComputeMqd::new(&MI210.mqd, &queue);
    assert_eq!(pm4.dwords()[145], 9 | 5 << 8 | 1 << 28);
    assert_eq!(pm4.dwords()[132], 1 | 0x53 << 8);
    assert_eq!(pm4.dwords()[143] & 2, 0);
    assert_eq!(pm4.dwords()[181], 0);
    assert_eq!(pm4.dwords()[167], 0xa);
    let kernel = ComputeMqd::new(&MI210.mqd, &compute_queue(PacketFormat::Kernel));
    assert_eq!(kernel.dwords()[145] >> 28, 0b1101);
}

/// An MI210 of which another CU of each engine is fused off, two more of engine 2, and none of
/// engines 6 and 7.
fn cus() -> ComputeUnits {
    const OFF: [u32; 8] = [
        1,
        1 << 1,
        1 << 2 | 1 << 7 | 1 << 13,
        1 << 3,
        1 << 13,
        1 << 8,
        0,
        0,
    ];
    ComputeUnits::new(&MI210, |_, engine, _| OFF[engine as usize]).unwrap()
}

/// The hardware numbers the working CUs, whichever those are.
#[test]
fn a_mask_of_all_cus_has_as_many_low_bits_as_work() {
    const ALL: [u32; 8] = [
        0x1fff, 0x1fff, 0x7ff, 0x1fff, 0x1fff, 0x1fff, 0x3fff, 0x3fff,
    ];
    assert_eq!(cu_mask::spread(&cus(), 0, |_| true), Some(ALL));
    assert_eq!(cus().count(), 104);
}

#[test]
fn neighbours_in_a_mask_are_in_different_engines() {
    assert_eq!(cu_mask::spread(&cus(), 0, |bit| bit < 8), Some([1; 8]));
    assert_eq!(
        cu_mask::spread(&cus(), 0, |bit| bit == 9),
        Some([0, 2, 0, 0, 0, 0, 0, 0])
    );
    // All engines have 11 CUs; then engine 2 is passed over.
    assert_eq!(
        cu_mask::spread(&cus(), 0, |bit| bit == 8 * 11 + 2),
        Some([0, 0, 0, 1 << 11, 0, 0, 0, 0])
    );
    assert_eq!(
        cu_mask::spread(&cus(), 0, |bit| bit == 103),
        Some([0, 0, 0, 0, 0, 0, 0, 1 << 13])
    );
    // Bits beyond the last CU have no meaning.
    assert_eq!(cu_mask::spread(&cus(), 0, |bit| bit >= 104), None);
    assert_eq!(cu_mask::spread(&cus(), 0, |_| false), None);
    assert_eq!(MI210.mqd.cu_masks, [23, 24, 26, 27, 39, 40, 41, 42]);
}

#[test]
fn priorities_map_to_three_of_the_pipe() {
    let pipe: Vec<u32> = (0..16)
        .map(|n| QueuePriority::new(n).unwrap().pipe())
        .collect();
    assert_eq!(pipe, [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2]);
}
