// SPDX-License-Identifier: GPL-2.0
//! Interrupt vectors and fault status.

use hw::asic::gfx90a::MI210;
use hw::ih::{
    CamEntry, CpError, FaultDetails, FaultStatus, HubKind, IhClient, IvEntry, IvEvent,
    SdmaErrorKind, SdmaErrorOrigin, ShaderCause, ShaderMessage,
};
use proptest::prelude::*;

/// An entry as hardware builds it.
#[derive(Clone, Copy, Debug)]
struct Fields {
    client: u8,
    source: u8,
    ring: u8,
    vmid: u8,
    mm: bool,
    timestamp: u64,
    pasid: u16,
    node: u8,
    data: [u32; 4],
}

impl Fields {
    fn dwords(self) -> [u32; 8] {
        let [a, b, c, d] = self.data;
        [
            u32::from(self.client)
                | u32::from(self.source) << 8
                | u32::from(self.ring) << 16
                | u32::from(self.vmid) << 24
                | u32::from(self.mm) << 31,
            self.timestamp as u32,
            (self.timestamp >> 32) as u32,
            u32::from(self.pasid) | u32::from(self.node) << 16,
            a,
            b,
            c,
            d,
        ]
    }

    fn event(self) -> IvEvent {
        IvEntry::decode(&self.dwords(), &MI210.interrupts).event()
    }
}

const BASE: Fields = Fields {
    client: 0,
    source: 0,
    ring: 0,
    vmid: 3,
    mm: true,
    timestamp: 0,
    pasid: 0x8001,
    node: 0,
    data: [0; 4],
};

proptest! {
    #[test]
    fn every_field_is_found(
        (client, source, ring, node) in any::<(u8, u8, u8, u8)>(),
        vmid in 0u8..16, mm: bool, timestamp in 0u64..1 << 48, pasid: u16, data: [u32; 4],
    ) {
        let fields = Fields { client, source, ring, vmid, mm, timestamp, pasid, node, data };
        let entry = IvEntry::decode(&fields.dwords(), &MI210.interrupts);
        prop_assert_eq!(entry.client, MI210.interrupts.client(client, node));
        prop_assert_eq!(entry.client_id, client);
        prop_assert_eq!(entry.source, source);
        prop_assert_eq!(entry.ring, ring);
        prop_assert_eq!(entry.vmid, vmid);
        prop_assert_eq!(entry.hub, if mm { HubKind::Mm } else { HubKind::Gfx });
        prop_assert_eq!(entry.timestamp, timestamp);
        prop_assert_eq!(entry.pasid, pasid);
        prop_assert_eq!(entry.node, node);
        prop_assert_eq!(entry.data, data);
    }

    #[test]
    fn any_entry_decodes(dwords: [u32; 8]) {
        let entry = IvEntry::decode(&dwords, &MI210.interrupts);
        prop_assert!(entry.vmid < 16);
        prop_assert!(entry.timestamp < 1 << 48);
        if let IvEvent::VmFault(fault) = entry.event() {
            prop_assert!(fault.address() < 1 << 48);
        }
    }

    #[test]
    fn a_fault_s_page_is_put_together(va in 0u64..1 << 36, bits in 0u32..16, ring: u8, place: u32) {
        let fields = Fields {
            client: 0x12,
            ring,
            data: [va as u32, (va >> 32) as u32 | bits << 4, place, 0],
            ..BASE
        };
        let IvEvent::VmFault(fault) = fields.event() else {
            return Err(TestCaseError::fail("no fault"));
        };
        prop_assert_eq!((fault.page, fault.address()), (va, va << 12));
        prop_assert_eq!(fault.execute, bits & 1 != 0);
        prop_assert_eq!(fault.write, bits & 2 != 0);
        prop_assert_eq!(fault.read, bits & 4 != 0);
        let place = (bits & 8 != 0).then_some(place & 0x3ff);
        prop_assert_eq!(fault.retry.map(CamEntry::acknowledgement), place);
        prop_assert_eq!((fault.present, fault.unwritable), (ring & 8 == 0, ring & 0x20 != 0));
    }
}

#[test]
fn sdma_clients_are_numbered_by_engine() {
    for (engine, client) in [8, 9, 1, 4, 5].into_iter().enumerate() {
        let fields = Fields {
            client,
            source: 224,
            ring: 2,
            data: [0xf123_4567, 1, 2, 3],
            ..BASE
        };
        let IvEvent::SdmaTrap(trap) = fields.event() else {
            panic!("client {client} raised no trap");
        };
        assert_eq!(usize::from(trap.engine), engine);
        assert_eq!((trap.ring, trap.vmid, trap.pasid), (2, 3, 0x8001));
        assert_eq!(trap.context, 0x0123_4567);
    }
}

#[test]
fn sdma_errors_are_told_from_traps_and_notices() {
    let kind = |source| match (Fields {
        client: 9,
        source,
        ..BASE
    })
    .event()
    {
        IvEvent::SdmaError(error) => {
            assert_eq!((error.engine, error.vmid, error.pasid), (1, 3, 0x8001));
            Some(error.kind)
        }
        _ => None,
    };
    assert_eq!(kind(220), Some(SdmaErrorKind::Ecc));
    assert_eq!(kind(242), Some(SdmaErrorKind::VmHole));
    assert_eq!(kind(246), Some(SdmaErrorKind::PollTimeout));
    assert_eq!(kind(247), Some(SdmaErrorKind::SrbmWrite));
    // Preemption and an empty context are no errors.
    assert_eq!(kind(240), None);
    assert_eq!(kind(243), None);
    assert_eq!(kind(224), None);
}

#[test]
fn a_part_of_a_doorbell_is_no_error() {
    for vmid in [0, 3] {
        let fields = Fields {
            client: 9,
            source: 244,
            vmid,
            ..BASE
        };
        assert_eq!(fields.event(), IvEvent::SdmaPartialDoorbell(1));
    }
}

#[test]
fn only_the_kernels_own_packets_fail_its_ring() {
    let origin = |source, ring, vmid| match (Fields {
        client: 8,
        source,
        ring,
        vmid,
        ..BASE
    })
    .event()
    {
        IvEvent::SdmaError(error) => error.origin(),
        other => panic!("{other:?}"),
    };
    for source in [220, 221, 222, 228, 242] {
        assert_eq!(origin(source, 0, 0), SdmaErrorOrigin::KernelRing);
        assert_eq!(origin(source, 2, 0), SdmaErrorOrigin::Unknown);
        assert_eq!(origin(source, 0, 3), SdmaErrorOrigin::Process);
    }
    for source in [218, 246, 247] {
        assert_eq!(origin(source, 0, 0), SdmaErrorOrigin::Unknown);
        assert_eq!(origin(source, 2, 3), SdmaErrorOrigin::Process);
    }
}

#[test]
fn faults_name_their_hub() {
    let hub = |client| match (Fields { client, ..BASE }).event() {
        IvEvent::VmFault(fault) => Some(fault.hub),
        _ => None,
    };
    assert_eq!(hub(0x12), Some(HubKind::Mm));
    assert_eq!(hub(0x1b), Some(HubKind::Gfx));
    assert_eq!(hub(0x14), None);
}

#[test]
fn end_of_pipe_names_its_queue() {
    let fields = Fields {
        client: 0x14,
        source: 181,
        ring: 5 << 4 | 1 << 2 | 2,
        data: [0xffff_ffff, 0, 0, 0],
        mm: false,
        ..BASE
    };
    let IvEvent::CpEop(eop) = fields.event() else {
        panic!("no end of pipe");
    };
    assert_eq!((eop.me, eop.pipe, eop.queue), (1, 2, 5));
    assert_eq!(eop.context, u32::MAX);
}

#[test]
fn exceptions_of_packets() {
    let error = |source, code: u32| CpError {
        source,
        vmid: 8,
        pasid: 3,
        data: code << 10 | 0x123,
    };
    for code in 16..=23 {
        let exceptions = error(183, code).exceptions().expect("a code of packets");
        assert_eq!(exceptions.doorbell.index(), 0x123);
        assert_eq!(exceptions.raised.bits(), 1 << (code - 1));
        assert_eq!(error(184, code).exceptions(), None);
    }
    for code in [0, 1, 15, 24, 0xffff] {
        assert_eq!(error(183, code).exceptions(), None, "code {code}");
    }
}

#[test]
fn cp_errors_and_shader_messages() {
    for source in [183, 184, 185, 200] {
        let event = (Fields {
            client: 0x14,
            source,
            ..BASE
        })
        .event();
        assert!(matches!(event, IvEvent::CpError(error) if error.source == source));
    }
    let fields = Fields {
        client: 0x0c,
        source: 239,
        // Wave 5 of SIMD 2 of CU 12, array 0 of engine 2, in a trap handler.
        data: [
            0x9000_0abc | 1 << 26 | 2 << 24 | 12 << 20 | 2 << 18 | 5 << 14 | 1 << 13,
            0x12,
            0,
            0,
        ],
        ..BASE
    };
    let IvEvent::ShaderMessage(message) = fields.event() else {
        panic!("no message");
    };
    assert_eq!((message.engine, message.data), (2, 0x12_9abc));
    assert_eq!(message.cause, ShaderCause::Message);
    assert!(message.privileged);
    assert_eq!(message.place, 2 | 12 << 8 | 2 << 12 | 5 << 16);
    let exceptions = message.exceptions().expect("code 3 and others");
    assert_eq!(exceptions.doorbell.index(), 0x2bc);
    assert_eq!(exceptions.raised.bits(), 0x12_9abc >> 10 & 0x1ff);
    let messages = [
        // Not from a trap handler, or no code of waves.
        (false, 1 << 10, None),
        (true, 0x23, None),
        (true, 1 << 16, None),
        (true, 0xf8_0000, None),
        (true, 1 << 10 | 0x23, Some((0x23, 1))),
        (true, 1 << 15 | 1 << 18, Some((0, 1 << 5 | 1 << 8))),
    ];
    for (privileged, data, expected) in messages {
        let message = ShaderMessage {
            privileged,
            data,
            ..message
        };
        let found = message.exceptions();
        let found = found.map(|found| (found.doorbell.index(), found.raised.bits()));
        assert_eq!(found, expected, "{data:#x}");
    }
    let error = ShaderMessage {
        cause: ShaderCause::IllegalInstruction,
        ..message
    };
    assert_eq!(error.exceptions(), None);
    assert_eq!(
        (Fields {
            client: 0x1f,
            ..BASE
        })
        .event(),
        IvEvent::Unknown
    );
}

#[test]
fn a_wave_has_an_error() {
    let cause = |low, high| {
        let fields = Fields {
            client: 0x0a,
            source: 239,
            data: [low, high, 0, 0],
            ..BASE
        };
        match fields.event() {
            IvEvent::ShaderMessage(message) => message.cause,
            _ => panic!("no message"),
        }
    };
    assert_eq!(cause(0, 0), ShaderCause::Sequencer);
    assert_eq!(cause(2 << 26, 0), ShaderCause::FetchUncorrectable);
    assert_eq!(cause(2 << 26, 1 << 4), ShaderCause::IllegalInstruction);
    assert_eq!(cause(2 << 26, 2 << 4), ShaderCause::MemoryViolation);
    assert_eq!(cause(2 << 26, 3 << 4), ShaderCause::DataUncorrectable);
    assert_eq!(cause(2 << 26, 4 << 4), ShaderCause::Other);
    assert_eq!(cause(3 << 26, 0), ShaderCause::Other);
    assert_eq!(ShaderCause::Message.error(), None);
    assert!(ShaderCause::IllegalInstruction.error().is_some());
}

#[test]
fn fault_status_has_its_fields() {
    assert_eq!(FaultStatus::decode(0), None);
    let status =
        FaultStatus::decode(1 | 5 << 1 | 9 << 4 | 1 << 8 | 0x155 << 9 | 1 << 18 | 11 << 20);
    assert_eq!(
        status,
        Some(FaultStatus {
            more: true,
            walker_error: 5,
            permission: 9,
            mapping_error: true,
            client: 0x155,
            write: true,
            atomic: false,
            vmid: 11,
        })
    );
}

#[test]
fn one_die_s_node_says_nothing() {
    for id in 0..=u8::MAX {
        let client = MI210.interrupts.client(id, 0);
        assert!((1..=u8::MAX).all(|node| MI210.interrupts.client(id, node) == client));
    }
    assert_eq!(MI210.interrupts.client(0x0d, 0), IhClient::Shader(3));
    assert_eq!(MI210.interrupts.client(0x40, 0), IhClient::Other(0x40));
}

#[test]
fn every_place_of_the_retry_cam_is_acknowledged() {
    let all: Vec<u32> = CamEntry::all().map(CamEntry::acknowledgement).collect();
    assert_eq!(all, (0..1024).collect::<Vec<u32>>());
}

/// Statuses that amdgpu logged on cards, with the fields that it printed: MI100 (ROCm/amdgpu issue
/// 172), MI300A and MI300X (ROCm issues 5259 and 4021). SDMA's clients are also those of MI210.
#[test]
fn details_of_faults_are_those_that_amdgpu_prints() {
    let text = |status, hub| {
        let details = FaultDetails {
            status: FaultStatus::decode(status),
            hub,
            interrupts: &MI210.interrupts,
        };
        details.to_string()
    };
    assert_eq!(
        text(0x0030_1031, HubKind::Gfx),
        ", VM_L2_PROTECTION_FAULT_STATUS:0x00301031, Faulty UTCL2 client ID: TCP (0x8), \
         MORE_FAULTS: 0x1, WALKER_ERROR: 0x0, PERMISSION_FAULTS: 0x3, MAPPING_ERROR: 0x0, RW: 0x0"
    );
    assert_eq!(
        text(0x0036_0251, HubKind::Mm),
        ", VM_L2_PROTECTION_FAULT_STATUS:0x00360251, Faulty UTCL2 client ID: SDMA1 (0x101), \
         MORE_FAULTS: 0x1, WALKER_ERROR: 0x0, PERMISSION_FAULTS: 0x5, MAPPING_ERROR: 0x0, RW: 0x1"
    );
    let second = text(0x0036_0341, HubKind::Mm);
    assert!(second.contains("SDMA1 (0x101)") && second.contains("MAPPING_ERROR: 0x1"));
    assert!(text(0x0030_0831, HubKind::Gfx).contains("CPF (0x4), MORE_FAULTS: 0x1"));
    assert!(text(0x0030_0031 | 0x1f0 << 9, HubKind::Mm).contains("unknown (0x1f0)"));
    // The register keeps the first fault: later ones find nothing.
    assert_eq!(text(0, HubKind::Gfx), "");
}
