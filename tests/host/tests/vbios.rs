// SPDX-License-Identifier: GPL-2.0
//! A card's BIOS, damaged ones too, and the SMU's table of limits in it. The image is made up; its
//! layout is that of the kernel's headers.

use hw::smu::interface::SmuInterface;
use hw::smu::limits::{SmuLimits, BYTES};
use hw::vbios::{length, TableRevision, Vbios, VbiosError, VbiosTableKind, HEADER_BYTES};
use proptest::prelude::*;

const IMAGE: usize = 8 * 512;
/// Places in it.
const HEADER: usize = 0x100;
const LIST: usize = 0x200;
const FIRMWARE: usize = 0x300;
const BOARD: usize = 0x500;
const POWER: usize = 0x600;
const LIMITS: usize = POWER + 482;
/// Bytes of tables.
const FIRMWARE_BYTES: usize = 0x54;
const BOARD_BYTES: usize = 172;
const POWER_BYTES: usize = 482 + BYTES;
/// The board's part of the limits.
const OF_BOARD: std::ops::Range<usize> = 0x250..0x2f8;

fn half(image: &mut [u8], at: usize, value: usize) {
    image[at..at + 2].copy_from_slice(&u16::try_from(value).unwrap().to_le_bytes());
}

fn table(image: &mut [u8], at: usize, bytes: usize, format: u8, content: u8) {
    half(image, at, bytes);
    image[at + 2..at + 4].copy_from_slice(&[format, content]);
}

fn list(image: &mut [u8], number: usize, at: usize) {
    half(image, LIST + 4 + 2 * number, at);
}

/// An image with sane limits.
fn whole() -> Vec<u8> {
    let mut image = vec![0; IMAGE];
    image[..3].copy_from_slice(&[0x55, 0xaa, 8]);
    image[0x30..0x3a].copy_from_slice(b" 761295520");
    half(&mut image, 0x48, HEADER);
    table(&mut image, HEADER, 40, 2, 2);
    image[HEADER + 4..HEADER + 8].copy_from_slice(b"ATOM");
    half(&mut image, HEADER + 0x20, LIST);
    table(&mut image, LIST, 4 + 2 * 35, 2, 1);
    list(&mut image, 2, BOARD);
    list(&mut image, 4, FIRMWARE);
    list(&mut image, 15, POWER);
    table(&mut image, FIRMWARE, FIRMWARE_BYTES, 3, 4);
    table(&mut image, BOARD, BOARD_BYTES, 4, 10);
    for n in 4..BOARD_BYTES {
        image[BOARD + n] = n as u8;
    }
    table(&mut image, POWER, POWER_BYTES, 15, 0);
    for n in 0..BYTES {
        image[LIMITS + n] = (n % 251) as u8;
    }
    for (at, value) in [
        (0x4, 0x3f),
        (0x6, 0x33),
        (0x8, 1),
        (0xa, 0),
        (0xc, 300),
        (0x14, 105),
        (0x16, 95),
        (0x144, 1700),
        (0x146, 500),
    ] {
        half(&mut image, LIMITS + at, value);
    }
    image
}

fn read(image: &[u8]) -> Result<SmuLimits, VbiosError> {
    SmuLimits::new(&Vbios::new(image)?)
}

/// The damage after `change`.
fn after(change: impl FnOnce(&mut Vec<u8>)) -> VbiosError {
    let mut image = whole();
    change(&mut image);
    read(&image).unwrap_err()
}

#[test]
fn limits_of_two_tables() {
    let image = whole();
    assert_eq!(length(&image[..HEADER_BYTES]), Ok(IMAGE));
    let limits = read(&image).unwrap();
    let bytes = limits.bytes();
    for (n, byte) in bytes.iter().enumerate() {
        let from = match OF_BOARD.contains(&n) {
            true => BOARD + 4 + n - OF_BOARD.start,
            false => LIMITS + n,
        };
        assert_eq!(*byte, image[from], "{n:#x}");
    }
    assert_eq!(limits.features().0, 1 << 32 | 0x33_003f);
    assert!(SmuInterface::V13_0_2.sets_graphics_clock(limits.features()));
    assert_eq!(limits.power(), 300);
    assert_eq!(limits.graphics(), [500, 1700]);
}

#[test]
fn what_is_behind_the_image_does_not_count() {
    let mut image = whole();
    image.resize(IMAGE + 100, 0x5a);
    assert!(read(&image).is_ok());
    list(&mut image, 15, IMAGE - 4);
    table(&mut image, IMAGE - 4, POWER_BYTES, 15, 0);
    image.resize(2 * IMAGE, 1);
    assert_eq!(
        read(&image).unwrap_err(),
        VbiosError::Outside(VbiosTableKind::Power)
    );
}

#[test]
fn no_image() {
    assert_eq!(length(&[]), Err(VbiosError::NoImage([0, 0])));
    assert_eq!(length(&[0xff; 60]), Err(VbiosError::NoImage([0xff, 0xff])));
    // Another vendor's, and one of no length.
    for (at, value) in [(0x31, b'8'), (2, 0), (0, 0x54)] {
        assert!(matches!(
            after(|image| image[at] = value),
            VbiosError::NoImage(_)
        ));
    }
    assert_eq!(
        after(|image| image.truncate(IMAGE - 1)),
        VbiosError::NoTables
    );
    assert_eq!(
        after(|image| image[HEADER + 5] = b'X'),
        VbiosError::NoTables
    );
    assert_eq!(
        after(|image| half(image, 0x48, IMAGE - 8)),
        VbiosError::NoTables
    );
    assert_eq!(
        after(|image| half(image, HEADER + 0x20, 0)),
        VbiosError::NoTables
    );
    assert_eq!(
        after(|image| half(image, HEADER + 0x20, IMAGE)),
        VbiosError::NoTables
    );
}

#[test]
fn tables_that_are_not_there() {
    for (number, kind) in [
        (2, VbiosTableKind::Board),
        (4, VbiosTableKind::Firmware),
        (15, VbiosTableKind::Power),
    ] {
        let missing = after(|image| list(image, number, 0));
        assert_eq!(missing, VbiosError::Missing(kind));
        // A list that ends before.
        let short = after(|image| half(image, LIST, 4 + 2 * number));
        if kind == VbiosTableKind::Board {
            // Others are searched first.
            assert!(matches!(short, VbiosError::Missing(_)));
        } else {
            assert_eq!(short, VbiosError::Missing(kind));
        }
        let outside = after(|image| list(image, number, IMAGE - 3));
        assert_eq!(outside, VbiosError::Outside(kind));
        assert!(missing.to_string().starts_with(&format!("{kind}")));
    }
    let long = after(|image| half(image, POWER, IMAGE - POWER + 1));
    assert_eq!(long, VbiosError::Outside(VbiosTableKind::Power));
}

#[test]
fn tables_that_are_others() {
    let revision = |format, content| TableRevision { format, content };
    assert_eq!(
        after(|image| image[BOARD + 3] = 9),
        VbiosError::Revision(VbiosTableKind::Board, revision(4, 9))
    );
    assert_eq!(
        after(|image| image[FIRMWARE + 2] = 4),
        VbiosError::Revision(VbiosTableKind::Firmware, revision(4, 4))
    );
    for (at, kind, least) in [
        (POWER, VbiosTableKind::Power, POWER_BYTES),
        (BOARD, VbiosTableKind::Board, BOARD_BYTES),
        (FIRMWARE, VbiosTableKind::Firmware, 0x40),
    ] {
        let short = after(|image| half(image, at, least - 1));
        let bytes = least - 1;
        assert_eq!(short, VbiosError::Short { kind, bytes, least });
    }
    assert_eq!(
        after(|image| image[FIRMWARE + 0x3c] = 7),
        VbiosError::Elsewhere(7)
    );
    // Older ones do not have that field.
    let mut image = whole();
    image[FIRMWARE + 3] = 2;
    image[FIRMWARE + 0x3c] = 7;
    assert!(read(&image).is_ok());
}

#[test]
fn limits_that_are_not_sane() {
    for (at, value, name) in [
        (0xc, 99, "PptLimit"),
        (0xc, 601, "PptLimit"),
        (0x14, 79, "ThotspotLimit"),
        (0x14, 121, "ThotspotLimit"),
        (0x16, 79, "TmemLimit"),
        (0x16, 121, "TmemLimit"),
        (0x144, 2001, "GfxclkFmax"),
        (0x144, 0, "GfxclkFmax"),
        (0x144, 500, "GfxclkFmin"),
        (0x146, 0, "GfxclkFmin"),
        (0x146, 1700, "GfxclkFmin"),
    ] {
        let damage = after(|image| half(image, LIMITS + at, value));
        let VbiosError::Limit { name: wrong, .. } = damage else {
            panic!("{damage}");
        };
        assert_eq!(wrong, name, "{value}");
    }
    for (at, value) in [
        (0xc, 100),
        (0xc, 600),
        (0x14, 80),
        (0x16, 120),
        (0x144, 2000),
    ] {
        let mut image = whole();
        half(&mut image, LIMITS + at, value);
        assert!(read(&image).is_ok(), "{at:#x} {value}");
    }
}

/// All data that is found in `image` is inside of it, and sane.
fn search(image: &[u8]) {
    let _ = length(image);
    let Ok(bios) = Vbios::new(image) else {
        return;
    };
    for kind in [
        VbiosTableKind::Board,
        VbiosTableKind::Firmware,
        VbiosTableKind::Power,
    ] {
        if let Ok(table) = bios.table(kind) {
            let bytes = table.with(0).unwrap();
            let range = image.as_ptr_range();
            assert!(range.start <= bytes.as_ptr() && bytes.as_ptr_range().end <= range.end);
            assert!(table.with(bytes.len() + 1).is_err());
            assert!(table.bytes::<4>(usize::MAX).is_err());
        }
    }
    if let Ok(limits) = SmuLimits::new(&bios) {
        assert!((100..=600).contains(&limits.power()));
        let [low, high] = limits.graphics();
        assert!(low < high && high <= 2000);
    }
}

proptest! {
    #[test]
    fn other_lengths(length in 0usize..2 * IMAGE, says: u8) {
        let mut image = whole();
        image.resize(length, 0x5a);
        search(&image);
        prop_assert_eq!(read(&image).is_ok(), length >= IMAGE);
        if length > 2 {
            image[2] = says;
            search(&image);
        }
    }

    #[test]
    fn flipped_bits(flips in prop::collection::vec(0usize..IMAGE * 8, 1..8)) {
        let mut image = whole();
        for bit in flips {
            image[bit / 8] ^= 1 << (bit % 8);
        }
        search(&image);
    }

    #[test]
    fn flipped_bits_of_headers(
        place in prop::sample::select(
            &[0, 0x48, HEADER, LIST, FIRMWARE, BOARD, POWER, LIMITS][..],
        ),
        flips in prop::collection::vec(0usize..0x24 * 8, 1..4),
    ) {
        let mut image = whole();
        for bit in flips {
            image[place + bit / 8] ^= 1 << (bit % 8);
        }
        search(&image);
    }

    #[test]
    fn any_places(list_at: u16, tables: [u16; 3], lengths: [u16; 3]) {
        let mut image = whole();
        for ((number, at), bytes) in [2, 4, 15].into_iter().zip(tables).zip(lengths) {
            let at = usize::from(at) % (IMAGE + 8);
            list(&mut image, number, at);
            if at + 2 <= IMAGE {
                half(&mut image, at, bytes.into());
            }
        }
        search(&image);
        half(&mut image, HEADER + 0x20, list_at.into());
        search(&image);
    }

    #[test]
    fn any_image(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
        search(&bytes);
        let mut image = whole();
        let end = bytes.len().min(IMAGE - 0x4a);
        image[0x4a..0x4a + end].copy_from_slice(&bytes[..end]);
        search(&image);
    }
}
