// SPDX-License-Identifier: GPL-2.0
//! What firmware reads has the form that amdgpu gives it, and lies in memory of the right type.

use super::compute::*;
use super::rig::*;
use crate::regs::gc;

/// MTYPE_NC, in place of the rig's MTYPE_UC.
const NOT_COHERENT: u64 = VALID | SYSTEM | SNOOPED | RW;

/// The error of starting `queue` by registers with dword `dword` of its MQD changed to `value`.
pub fn started_with(rig: &Rig, queue: &Compute, dword: u64, value: u32) -> String {
    let before = rig.mqd_dword(queue, dword);
    rig.set_mqd(queue, dword, value);
    rig.load_registers(queue);
    rig.select(queue.at);
    let error = rig.gpu.write(gc::CP_HQD_ACTIVE, 1).unwrap_err();
    rig.set_mqd(queue, dword, before);
    error.to_string()
}

#[test]
fn a_kernel_queue_has_its_doorbell_in_the_range() {
    let mut rig = Rig::new();
    rig.start_mecs();
    let queue = rig.compute([2, 1, 0], 0, false);
    let byte = queue.doorbell * 4;
    for (lower, upper) in [(byte + 4, byte + 8), (0, byte - 4)] {
        rig.set(gc::CP_MEC_DOORBELL_RANGE_LOWER, lower);
        rig.set(gc::CP_MEC_DOORBELL_RANGE_UPPER, upper);
        let control = rig.mqd_dword(&queue, 143) | 1 << 30;
        let error = started_with(&rig, &queue, 143, control);
        assert!(error.contains("CP_MEC_DOORBELL_RANGE"), "{error}");
    }
    rig.set(gc::CP_MEC_DOORBELL_RANGE_LOWER, byte);
    rig.set(gc::CP_MEC_DOORBELL_RANGE_UPPER, byte);
    rig.load(&queue);
    assert!(rig.is_active(&queue));
    // A user's may be anywhere.
    let other = rig.compute([1, 1, 0], 8, false);
    rig.load(&other);
    assert!(rig.is_active(&other));
}

#[test]
fn a_kernel_queue_has_the_form_of_one() {
    let mut rig = Rig::new();
    rig.start_mecs();
    let queue = rig.compute([2, 1, 0], 0, false);
    for (dword, value, why) in [
        (132, 0, "PRELOAD_SIZE"),
        (145, 3 << 30 | 1 << 23 | 9, "CP_HQD_PQ_CONTROL"),
        (162, 1 << 23, "CP_MQD_CONTROL"),
    ] {
        let error = started_with(&rig, &queue, dword, value);
        assert!(error.contains(why), "{error}");
    }
    // What amdgpu leaves as it was may be anything.
    rig.set_mqd(&queue, 135, 0);
    rig.set_mqd(&queue, 149, 0);
    rig.load(&queue);
    assert!(rig.is_active(&queue));
}

/// Starts a queue with a save area whose MQD and control stack are in host memory, with these
/// attributes of their pages.
fn start_in_gart(mqd: u64, stack: u64) -> Result<(), String> {
    const AT: u64 = 0x1000;
    let mut rig = Rig::new();
    rig.start_mecs();
    let mut queue = rig.compute([1, 0, 0], 8, false);
    let table = u64::from(rig.get(gc::VM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32)) & !0xfff;
    for (page, attributes) in [(1, mqd), (2, stack), (3, stack)] {
        rig.poke64(vram(table + page * 8), (RAM + (page << 12)) | attributes);
    }
    for (dword, value) in [
        (128, AT as u32),
        (129, 0),
        (174, 0x2000),
        (175, 0x2000),
        (176, 0x2000),
        (177, 0x8000),
    ] {
        rig.set_mqd(&queue, dword, value);
    }
    let image = rig.peek(vram(queue.mqd), 0x800);
    rig.poke(system(RAM + AT), &image);
    rig.load(&queue);
    let words = write(queue.data(), 3);
    rig.put(&mut queue, &words);
    rig.knock(&queue);
    rig.settle().map_err(|error| error.to_string())?;
    assert_eq!(rig.peek32(vram(queue.memory())), 3);
    Ok(())
}

#[test]
fn descriptors_are_uncached_and_control_stacks_are_not() {
    let uncached = NOT_COHERENT | UNCACHED;
    assert_eq!(start_in_gart(uncached, NOT_COHERENT), Ok(()));
    for (mqd, stack, why) in [
        (
            NOT_COHERENT,
            NOT_COHERENT,
            "MQD at 0x1000 is in memory of type Nc",
        ),
        (
            uncached,
            uncached,
            "control stack at 0x2000 is in memory of type Uc",
        ),
    ] {
        let error = start_in_gart(mqd, stack).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_queue_that_makes_no_sense_does_not_start() {
    let mut rig = Rig::new();
    rig.start_mecs();
    let queue = rig.compute([1, 0, 0], 8, false);
    for (dword, value, why) in [
        (131, 0, "VMID is 0 without"),
        (145, 1 << 31 | 9, "with a user's VMID"),
        (145, 9, "CP_HQD_PQ_CONTROL is not that of PM4"),
        (132, 1, "PRELOAD_SIZE"),
        (135, 0x101, "CP_HQD_QUANTUM"),
        (144, 1, "always 0"),
        (149, 0, "MIN_IB_AVAIL_SIZE"),
        (160, 0, "DISPATCH_PTR"),
        (162, 0, "CP_MQD_CONTROL"),
        (167, 0xb, "EOP_SIZE"),
        (136, 0, "CP_HQD_PQ_BASE is 0"),
        (128, 0, "CP_MQD_BASE_ADDR is 0"),
        (181, 1, "SLOT_BASED_WPTR 2"),
    ] {
        let before = [
            rig.mqd_dword(&queue, dword),
            rig.mqd_dword(&queue, dword + 1),
        ];
        rig.set_mqd(&queue, dword, value);
        if value == 0 && dword != 131 {
            rig.set_mqd(&queue, dword + 1, 0);
        }
        rig.load_registers(&queue);
        rig.select(queue.at);
        let error = rig.gpu.write(gc::CP_HQD_ACTIVE, 1).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        rig.set_mqd(&queue, dword, before[0]);
        rig.set_mqd(&queue, dword + 1, before[1]);
    }
    rig.load(&queue);
    rig.select(queue.at);
    assert!(rig.gpu.write(gc::CP_HQD_PQ_BASE, 1).is_err());
    rig.set(gc::CP_HQD_ACTIVE, 0);
    rig.set(gc::CP_HQD_PQ_BASE, 1);
}
