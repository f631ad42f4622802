// SPDX-License-Identifier: GPL-2.0
//! Firmware files, damaged ones too; data written for PSP and SMU; and the states in which a GPU is
//! found. The numbers are those of the headers of Debian's files (20250410); the data behind the
//! headers is made up.

use hw::asic::gfx90a::MI210;
use hw::asic::KNOWN_ASICS;
use hw::firmware::file::{FirmwareFile, FirmwareFileError};
use hw::firmware::image::{FirmwareImage, MOST_BYTES};
use hw::firmware::part::{FirmwarePart, FirmwareSource};
use hw::firmware::state::{BootRefusal, BootState, ObservedState, RunningEngines};
use hw::psp::{frame, place, PspCommand, PspImageType};
use hw::smu::interface::SmuInterface;
use hw::smu::{
    megahertz, SmuAnswer, SmuClock, SmuFeatures, SmuMessage, SmuTable, SmuVersion, HIGHEST_LEVEL,
};
use hw::xgmi::XgmiPlace;
use proptest::prelude::*;

const SOURCES: [FirmwareSource; 6] = [
    FirmwareSource::Sos,
    FirmwareSource::Smc,
    FirmwareSource::Sdma,
    FirmwareSource::Mec,
    FirmwareSource::Rlc,
    FirmwareSource::Ta,
];

fn put(bytes: &mut [u8], at: usize, words: &[u32]) {
    for (n, word) in words.iter().enumerate() {
        bytes[at + 4 * n..][..4].copy_from_slice(&word.to_le_bytes());
    }
}

/// A file with the common header, and the images at `images`, bytes from its start.
fn file(bytes: usize, header: (u16, u16), ucode: (u32, u32), images: &[(usize, usize)]) -> Vec<u8> {
    let mut file = vec![0x5a; bytes];
    file[..0x100].fill(0);
    put(&mut file, 0, &[bytes as u32, 0x100]);
    put(
        &mut file,
        8,
        &[u32::from(header.0) | u32::from(header.1) << 16],
    );
    put(&mut file, 0x10, &[0x0044_4000, ucode.1, ucode.0]);
    for &(at, size) in images {
        put(&mut file, at + 0x10, &[0x3153_5024]);
        put(&mut file, at + 0x6c, &[size as u32]);
    }
    file
}

/// The files of a GPU: each with its true sizes and places.
fn whole(source: FirmwareSource) -> Vec<u8> {
    match source {
        FirmwareSource::Sos => {
            let parts = [
                (0x32de0, 0xe30),
                (0x33c10, 0x15c0),
                (0x351d0, 0x21890),
                (0x56a60, 0x16480),
            ];
            let mut file = file(0x6_cee0, (1, 3), (0x100, 0x6_cde0), &parts);
            let group = |(at, size): (usize, usize)| [0, at as u32 - 0x100, size as u32];
            put(&mut file, 0x20, &[0x270181, 0x1e890, 0x14450]);
            for (at, part) in [0x38, 0x50, 0x5c, 0x68].into_iter().zip(parts) {
                put(&mut file, at, &group(part));
            }
            file
        }
        FirmwareSource::Smc => file(0x3_b400, (2, 1), (0x100, 0x3_b300), &[(0x100, 0x3_b300)]),
        FirmwareSource::Sdma => file(0x8600, (1, 0), (0x100, 0x8500), &[(0x100, 0x8500)]),
        FirmwareSource::Mec => {
            let parts = [(0x100, 0x4_1440), (0x4_1540, 0x480)];
            let mut file = file(0x4_19c0, (1, 0), (0x100, 0x4_18c0), &parts);
            put(&mut file, 0x24, &[0x4_1440 / 4, 0x480 / 4]);
            file
        }
        FirmwareSource::Rlc => {
            let parts = [
                (0x100, 0x4300),
                (0x72ac, 0x360),
                (0x760c, 0x700),
                (0x7d0c, 0x36e0),
            ];
            let mut file = file(0xb3ec, (2, 1), (0x100, 0x4300), &parts);
            for (at, (offset, size)) in [0x6c, 0x7c, 0x8c].into_iter().zip(&parts[1..]) {
                put(&mut file, at, &[0, 0, *size as u32, *offset as u32]);
            }
            file
        }
        FirmwareSource::Ta => {
            let parts = [(0x100, 0x6200), (0x6300, 0x1_2000)];
            let mut file = file(0x1_8300, (2, 0), (0x100, 0x1_8200), &parts);
            // That for RAS is another one.
            let groups = [2, 3, 1, 0x6200, 0x1_2000, 2, 0x2000_000b, 0, 0x6200];
            put(&mut file, 0x20, &groups);
            file
        }
    }
}

fn parts() -> impl Iterator<Item = FirmwarePart> {
    MI210.firmware.parts().chain([FirmwarePart::XgmiTa])
}

#[test]
fn every_part_is_where_it_is() {
    for (part, at, bytes) in [
        (FirmwarePart::KeyDatabase, 0x32de0, 0xe30),
        (FirmwarePart::RegisterList, 0x33c10, 0x15c0),
        (FirmwarePart::SystemDriver, 0x351d0, 0x21890),
        (FirmwarePart::SecureOs, 0x56a60, 0x16480),
        (FirmwarePart::Smu, 0x100, 0x3_b300),
        (FirmwarePart::Sdma, 0x100, 0x8500),
        (FirmwarePart::Mec, 0x100, 0x4_1440),
        (FirmwarePart::MecJumpTable, 0x4_1540, 0x480),
        (FirmwarePart::Rlc, 0x100, 0x4300),
        (FirmwarePart::RestoreControl, 0x72ac, 0x360),
        (FirmwarePart::RestoreGpm, 0x760c, 0x700),
        (FirmwarePart::RestoreSrm, 0x7d0c, 0x36e0),
        (FirmwarePart::XgmiTa, 0x100, 0x6200),
    ] {
        let file = whole(part.source());
        let image = part.find(&FirmwareFile::new(&file).unwrap()).unwrap();
        assert_eq!(image.bytes.as_ptr(), file[at..].as_ptr(), "{part}");
        assert_eq!(image.bytes.len(), bytes, "{part}");
    }
}

#[test]
fn the_second_layout_of_the_psps_file() {
    for minor in 0..2 {
        let (first, images) = (
            0x24 + 4 * usize::from(minor),
            [(0x100, 0x200), (0x300, 0x180)],
        );
        let mut file = file(0x480, (2, minor), (0x100, 0x380), &images);
        put(&mut file, 0x20, &[2]);
        put(
            &mut file,
            first,
            &[3, 0, 0, 0x200, 1, 0x270085, 0x200, 0x180],
        );
        let file = FirmwareFile::new(&file).unwrap();
        assert_eq!(
            FirmwarePart::KeyDatabase.find(&file).unwrap().bytes.len(),
            0x200
        );
        let secure_os = FirmwarePart::SecureOs.find(&file).unwrap();
        assert_eq!(
            (secure_os.version, secure_os.bytes.len()),
            (0x270085, 0x180)
        );
        let none = FirmwarePart::SystemDriver.find(&file).unwrap_err();
        assert_eq!(none, FirmwareFileError::Missing(FirmwarePart::SystemDriver));
    }
}

#[test]
fn both_layouts_of_the_file_of_applications() {
    let second = whole(FirmwareSource::Ta);
    let mut first = file(0x6300, (1, 0), (0x100, 0x6200), &[(0x100, 0x6200)]);
    put(&mut first, 0x20, &[0x2000_000b, 0, 0x6200]);
    let mut none = second.clone();
    for file in [&first, &second] {
        let image = FirmwarePart::XgmiTa.find(&FirmwareFile::new(file).unwrap());
        let image = image.unwrap();
        assert_eq!((image.version, image.bytes.len()), (0x2000_000b, 0x6200));
    }
    put(&mut none, 0x20, &[1]);
    let error = FirmwarePart::XgmiTa.find(&FirmwareFile::new(&none).unwrap());
    let missing = FirmwareFileError::Missing(FirmwarePart::XgmiTa);
    assert_eq!(error.unwrap_err(), missing);
}

#[test]
fn the_order_is_amdgpus() {
    let types: Vec<_> = MI210
        .firmware
        .after_tmr
        .iter()
        .map(|step| step.1 as u32)
        .collect();
    assert_eq!(types, [9, 10, 52, 53, 54, 4, 5, 22, 20, 21, 8, 67]);
    assert_eq!(
        MI210.firmware.before_tmr,
        [(FirmwarePart::Smu, PspImageType::Smu)]
    );
    let commands: Vec<_> = MI210
        .firmware
        .bootloader
        .iter()
        .map(|step| step.1 as u32)
        .collect();
    assert_eq!(commands, [0x8_0000, 0x1_0000, 0x2_0000]);
    assert!(SOURCES
        .iter()
        .all(|source| MI210.firmware.file(*source).is_some()));
}

/// `module!` takes literals only, so `modinfo` has a list of its own.
#[test]
fn the_module_names_the_files_of_every_plan() {
    let main = include_str!("../../../rust/rkfd_main.rs");
    let list = main.split_once("firmware: [").unwrap().1;
    let list = list.split_once(']').unwrap().0;
    let named: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    let mut planned: Vec<&str> = Vec::new();
    for asic in KNOWN_ASICS {
        let plan = asic.firmware;
        let files = plan.files.iter().map(|(_, name)| *name);
        for name in files.chain([plan.applications]) {
            let name = name.to_str().unwrap();
            if !planned.contains(&name) {
                planned.push(name);
            }
        }
    }
    assert_eq!(named, planned);
}

#[test]
fn damage_is_named() {
    let mut file = whole(FirmwareSource::Smc);
    assert_eq!(
        FirmwareFile::new(&file[..file.len() - 1]).unwrap_err(),
        FirmwareFileError::Length {
            says: 0x3_b400,
            bytes: 0x3_b3ff
        }
    );
    assert!(matches!(
        FirmwareFile::new(&file[..31]),
        Err(FirmwareFileError::Cut { .. })
    ));
    file[0x110] ^= 1;
    let unsigned = FirmwarePart::Smu
        .find(&FirmwareFile::new(&file).unwrap())
        .unwrap_err();
    assert_eq!(unsigned, FirmwareFileError::Unsigned(FirmwarePart::Smu));
    file[0x110] ^= 1;
    file[0x16c] ^= 4;
    let length = FirmwarePart::Smu
        .find(&FirmwareFile::new(&file).unwrap())
        .unwrap_err();
    assert!(matches!(length, FirmwareFileError::ImageLength { .. }));
    let mut large = vec![0; MOST_BYTES + 4];
    put(&mut large, 0x10, &[0x3153_5024]);
    put(&mut large, 0x6c, &[MOST_BYTES as u32 + 4]);
    let error = FirmwareImage::new(FirmwarePart::Smu, 0, &large).unwrap_err();
    assert!(matches!(error, FirmwareFileError::Large { .. }));
    for damage in [unsigned, length, error] {
        assert!(damage.to_string().starts_with("SMU firmware"));
    }
}

/// Searches all parts in `file`, whichever it is: found parts are inside of it.
fn search(file: &[u8]) {
    let Ok(parsed) = FirmwareFile::new(file) else {
        return;
    };
    for part in parts() {
        if let Ok(image) = part.find(&parsed) {
            let range = file.as_ptr_range();
            assert!(range.start <= image.bytes.as_ptr());
            assert!(image.bytes.as_ptr_range().end <= range.end);
            assert!(!image.bytes.is_empty() && image.bytes.len() <= MOST_BYTES);
        }
    }
}

fn source() -> impl Strategy<Value = FirmwareSource> {
    prop::sample::select(&SOURCES[..])
}

proptest! {
    #[test]
    fn other_lengths_are_refused(source in source(), length in 0usize..0x8_0000) {
        let mut file = whole(source);
        let before = file.len();
        file.resize(length, 0x5a);
        prop_assert_eq!(FirmwareFile::new(&file).is_ok(), length == before);
    }

    #[test]
    fn a_short_file_that_says_so_is_not_read_beyond(
        source in source(),
        length in 0usize..0x8_0000,
    ) {
        let mut file = whole(source);
        file.resize(length, 0x5a);
        if length >= 4 {
            put(&mut file, 0, &[length as u32]);
        }
        search(&file);
    }

    #[test]
    fn flipped_bits_of_the_header(
        source in source(),
        flips in prop::collection::vec(0usize..0x100 * 8, 1..4),
    ) {
        let mut file = whole(source);
        for bit in flips {
            file[bit / 8] ^= 1 << (bit % 8);
        }
        search(&file);
    }

    #[test]
    fn any_header(
        source in source(),
        at in 0usize..0x100,
        words in prop::collection::vec(any::<u32>(), 1..8),
    ) {
        let mut file = whole(source);
        put(&mut file, at, &words);
        search(&file);
    }

    #[test]
    fn a_flipped_bit_of_length_or_version(source in source(), bit in 0usize..32) {
        let mut file = whole(source);
        file[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(FirmwareFile::new(&file).is_err());
        let mut file = whole(source);
        file[8 + bit / 8 % 2] ^= 1 << (bit % 8);
        let file = FirmwareFile::new(&file).unwrap();
        let own = parts().filter(|part| part.source() == source);
        for part in own {
            let refused = matches!(part.find(&file), Err(FirmwareFileError::Header { .. }));
            // The two layouts of the PSP's file differ by two bits.
            prop_assert!(refused || source == FirmwareSource::Sos);
        }
    }

    #[test]
    fn frames_follow_one_another(wptr in 0u32..0x1000) {
        let placed = place(wptr);
        prop_assert_eq!(placed.is_some(), wptr < 0x400 && wptr % 16 == 0);
        if let Some((at, next)) = placed {
            prop_assert!(at % 64 == 0 && at + 64 <= 0x1000);
            prop_assert_eq!(next, if wptr == 0x3f0 { 0 } else { wptr + 16 });
        }
    }

    #[test]
    fn the_first_reason_counts(
        memory: u32,
        bits: [bool; 4],
        place in (0u32..16, 0u32..16, 0u64..1 << 17),
        bootloader: u32,
        secure_os: u32,
    ) {
        let (node, others, segment) = place;
        let xgmi = XgmiPlace { node, others, segment: segment << 24 };
        // Node 16 of 2, or 64 GiB of VRAM where there is a segment of 32.
        let is_impossible =
            others != 0 && (node > others || u64::from(memory) << 20 > segment << 24);
        let seen = ObservedState {
            memory,
            is_virtual: bits[0],
            is_posted: bits[1],
            is_on_cpu_link: bits[2],
            xgmi,
            bootloader,
            secure_os,
            running: RunningEngines { ih: bits[3], ..RunningEngines::default() },
            ..ObservedState::default()
        };
        let expected = match () {
            _ if memory == u32::MAX => Err(BootRefusal::Gone),
            _ if bits[0] => Err(BootRefusal::VirtualFunction),
            _ if memory == 0 || !bits[1] => Err(BootRefusal::Unposted),
            _ if bits[2] => Err(BootRefusal::OnCpuLink),
            _ if is_impossible => Err(BootRefusal::ImpossibleHive(xgmi)),
            _ if secure_os != 0 => Ok(if bits[3] { BootState::Dirty } else { BootState::Warm }),
            _ if bootloader == 0x8000_0000 => Ok(BootState::Cold),
            _ => Err(BootRefusal::StuckBootloader(bootloader)),
        };
        prop_assert_eq!(seen.state(), expected);
    }
}

#[test]
fn each_state_once() {
    let cold = ObservedState {
        memory: 65520,
        is_posted: true,
        bootloader: 0x8000_0000,
        ..ObservedState::default()
    };
    assert_eq!(cold.state(), Ok(BootState::Cold));
    let stuck = ObservedState {
        bootloader: 0x8000_0001,
        ..cold
    };
    assert_eq!(
        stuck.state(),
        Err(BootRefusal::StuckBootloader(0x8000_0001))
    );
    let warm = ObservedState {
        secure_os: 1,
        bootloader: 0,
        ..cold
    };
    assert_eq!(warm.state(), Ok(BootState::Warm));
    let mut dirty = warm;
    dirty.running.sdma.insert(3);
    assert_eq!(dirty.state(), Ok(BootState::Dirty));
    dirty.running.mec = true;
    assert_eq!(dirty.running.to_string(), "MEC, SDMA3");
    assert_eq!(warm.running.to_string(), "nothing");
    // The running firmware does not matter on a card whose bootloader waits.
    assert_eq!(
        ObservedState {
            running: dirty.running,
            ..cold
        }
        .state(),
        Ok(BootState::Cold)
    );
}

#[test]
fn commands_as_the_psp_reads_them() {
    let load = PspCommand::LoadIpFw {
        mc: 0x200_0123_4000,
        bytes: 0x8500,
        kind: PspImageType::Sdma0,
    }
    .dwords();
    assert_eq!(load[..7], [0, 0, 6, 0, 0, 0, 0]);
    assert_eq!(load[7..11], [0x0123_4000, 0x200, 0x8500, 9]);
    assert!(load[11..].iter().all(|word| *word == 0));
    let tmr = PspCommand::SetupTmr {
        mc: 0x200_0080_0000,
        physical: 0x80_0000,
        bytes: 8 << 20,
    }
    .dwords();
    assert_eq!(tmr[7..13], [0x0080_0000, 0x200, 8 << 20, 2, 0x80_0000, 0]);
    assert_eq!(PspCommand::DestroyTmr.dwords()[2], 7);
    let ta = PspCommand::LoadTa {
        mc: 0x200_0123_4000,
        bytes: 0x6200,
        buffer: 0x200_0001_0000,
        buffer_bytes: 0x4000,
    }
    .dwords();
    assert_eq!(ta[2], 1);
    assert_eq!(
        ta[7..13],
        [0x0123_4000, 0x200, 0x6200, 0x1_0000, 0x200, 0x4000]
    );
    let invoke = PspCommand::InvokeTa {
        session: 5,
        command: 0xb,
    };
    assert_eq!(invoke.dwords()[7..10], [5, 0xb, 0]);
    assert_eq!(PspCommand::UnloadTa { session: 5 }.dwords()[7..9], [5, 0]);
    assert_eq!(
        [invoke.id(), PspCommand::UnloadTa { session: 5 }.id()],
        [3, 2]
    );
    let frame = frame(0x200_0000_1000, 0x200_0000_2000, 3);
    assert_eq!(frame[..6], [0x1000, 0x200, 0, 0x2000, 0x200, 3]);
    assert!(frame[6..].iter().all(|word| *word == 0));
}

#[test]
fn what_the_smu_says() {
    assert_eq!(SmuVersion(0x0044_3f00).to_string(), "68.63.0");
    assert_eq!(SmuAnswer::from(1), SmuAnswer::Ok);
    assert_eq!(SmuAnswer::from(0xfd), SmuAnswer::Prerequisite);
    assert_eq!(SmuAnswer::from(7), SmuAnswer::Other(7));
    let numbers = [
        SmuMessage::GetDriverIfVersion,
        SmuMessage::GetSmuVersion,
        SmuMessage::DisableAllSmuFeatures,
        SmuMessage::PrepareMp1ForUnload,
        SmuMessage::GetEnabledSmuFeaturesLow,
        SmuMessage::SetDriverDramAddrHigh(0x80),
        SmuMessage::SetDriverDramAddrLow(0x1000),
        SmuMessage::TransferTableSmu2Dram(SmuTable::Metrics),
        SmuMessage::GfxDriverReset,
        SmuMessage::GetEnabledSmuFeaturesHigh,
        SmuMessage::SetToolsDramAddrHigh(0x80),
        SmuMessage::SetToolsDramAddrLow(0x2000),
        SmuMessage::TransferTableDram2Smu(SmuTable::Limits),
        SmuMessage::EnableAllSmuFeatures,
        SmuMessage::RunDcBtc,
        SmuMessage::BoardPowerCalibration,
        SmuMessage::GetDpmFreqByIndex(SmuClock::Memory, HIGHEST_LEVEL),
    ];
    let wanted = [
        4, 2, 8, 0x24, 0xd, 0xf, 0x10, 0x13, 3, 0xe, 0x11, 0x12, 0x14, 7, 0x27, 0x43, 0x1e,
    ];
    let old = SmuInterface::V13_0_2;
    assert_eq!(numbers.map(|message| message.number(old)), wanted.map(Some));
    let wanted = [
        0, 0, 0, 0, 0, 0x80, 0x1000, 4, 1, 0, 0x80, 0x2000, 0, 0, 0, 0, 0x4_00ff,
    ];
    assert_eq!(numbers.map(|message| message.argument(old)), wanted);
    let shown = old.measure().shown(old).to_string();
    assert_eq!(shown, "TransferTableSmu2Dram (0x13)");
    assert_eq!(old.measure().argument(old), 4);
    let clocks = [SmuClock::Soc, SmuClock::Memory, SmuClock::Fabric];
    assert_eq!(clocks.map(|clock| clock.number(old)), [3, 4, 5]);
    assert_eq!(megahertz(1 << 31 | 1600), 1600);
    let features = SmuFeatures(1 << 2);
    assert!(old.sets_memory_clock(features) && !old.sets_graphics_clock(features));
    assert!(features.are_any() && !SmuFeatures::default().are_any());
    let calibrates = |version| SmuVersion(version).calibrates_board();
    assert!(calibrates(0x0044_1d01) && !calibrates(0x0044_1d00));
}

#[test]
fn what_the_smu_of_mi300_says() {
    let new = SmuInterface::V13_0_6;
    let numbers = [
        SmuMessage::GetSmuVersion,
        SmuMessage::GfxDriverReset,
        SmuMessage::GetDriverIfVersion,
        SmuMessage::EnableAllSmuFeatures,
        SmuMessage::DisableAllSmuFeatures,
        SmuMessage::GetMetricsTable,
        SmuMessage::GetEnabledSmuFeaturesLow,
        SmuMessage::GetEnabledSmuFeaturesHigh,
        SmuMessage::SetDriverDramAddrHigh(0x80),
        SmuMessage::SetDriverDramAddrLow(0x1000),
        SmuMessage::SetToolsDramAddrHigh(0x80),
        SmuMessage::SetToolsDramAddrLow(0x2000),
        SmuMessage::GetDpmFreqByIndex(SmuClock::Memory, HIGHEST_LEVEL),
        SmuMessage::GetPptLimit,
        SmuMessage::GetMinGfxDpmFreq,
        SmuMessage::GetMaxGfxDpmFreq,
        SmuMessage::PrepareMp1ForUnload,
        SmuMessage::GetStaticMetricsTable,
    ];
    let wanted = [
        2, 3, 4, 5, 6, 9, 0xb, 0xc, 0xd, 0xe, 0xf, 0x10, 0x17, 0x19, 0x32, 0x33, 0x34, 0x59,
    ];
    assert_eq!(numbers.map(|message| message.number(new)), wanted.map(Some));
    let wanted = [
        0, 1, 0, 0, 0, 0, 0, 0, 0x80, 0x1000, 0x80, 0x2000, 0x3_00ff, 0, 0, 0, 0, 0,
    ];
    assert_eq!(numbers.map(|message| message.argument(new)), wanted);
    let clocks = [SmuClock::Soc, SmuClock::Memory, SmuClock::Fabric];
    assert_eq!(clocks.map(|clock| clock.number(new)), [2, 3, 4]);
    // It has no tables of a driver, and no calibrations; MI200's has no measurements of a socket.
    let table = SmuMessage::TransferTableDram2Smu(SmuTable::Limits);
    for message in [
        table,
        SmuMessage::RunDcBtc,
        SmuMessage::BoardPowerCalibration,
    ] {
        assert_eq!(message.number(new), None);
    }
    assert_eq!(table.shown(new).to_string(), "TransferTableDram2Smu");
    for message in [
        SmuMessage::GetMetricsTable,
        SmuMessage::GetStaticMetricsTable,
        SmuMessage::GetMinGfxDpmFreq,
    ] {
        assert_eq!(message.number(SmuInterface::V13_0_2), None);
    }
    assert_eq!(
        new.measure().shown(new).to_string(),
        "GetMetricsTable (0x9)"
    );
    let features = SmuFeatures(1 << 3);
    assert!(new.sets_graphics_clock(features) && !new.sets_memory_clock(features));
    assert!(new.sets_memory_clock(SmuFeatures(1 << 6)));
    // Nothing that they send on leaving is unknown to them, and the last one is the same.
    for interface in [SmuInterface::V13_0_2, new] {
        let farewell = interface.farewell();
        let last = farewell.after.unwrap_or(farewell.before);
        assert_eq!(last, SmuMessage::PrepareMp1ForUnload);
        assert!(farewell.before.number(interface).is_some());
    }
}
