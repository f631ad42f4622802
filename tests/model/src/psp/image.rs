// SPDX-License-Identifier: GPL-2.0
//! A signed firmware image: a header of 256 bytes that begins each part of each firmware file, a
//! body, a signature.
//!
//! The header is laid out as in the vendor's own files. Their signatures cannot be made here; a
//! digest of the data before it takes the place of a signature, so that an image with any changed
//! byte is refused, as the hardware would refuse it.

/// Bytes of the header.
pub const HEADER: usize = 0x100;
const MAGIC: &[u8; 4] = b"$PS1";
const AT_MAGIC: usize = 0x10;
const AT_BODY: usize = 0x14;
const AT_SIGNED: usize = 0x30;
const AT_SIGNATURE: usize = 0x34;
const AT_KIND: usize = 0x58;
const AT_VERSION: usize = 0x60;
const AT_TOTAL: usize = 0x6c;
/// The value at 0x34 for a long signature, and bytes of either kind.
const LONG: u32 = 2;
const SIGNATURE_LONG: usize = 0x200;
const SIGNATURE_SHORT: usize = 0x100;

/// The kind of an image: the low byte at 0x58.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind(pub u8);

#[allow(missing_docs)]
impl Kind {
    pub const SMU: Kind = Kind(0x01);
    pub const MEC: Kind = Kind(0x04);
    pub const MEC_JUMP_TABLE: Kind = Kind(0x05);
    pub const SECURE_OS: Kind = Kind(0x09);
    /// The RLC's code has the secure OS's number.
    pub const RLC: Kind = Kind(0x09);
    pub const SYS_DRIVER: Kind = Kind(0x0a);
    pub const RLC_LIST_GPM: Kind = Kind(0x0b);
    pub const RLC_LIST_SRM: Kind = Kind(0x0c);
    pub const RLC_LIST_CNTL: Kind = Kind(0x0d);
    pub const SDMA: Kind = Kind(0x25);
    /// Made up: the vendor's is not known.
    pub const XGMI_TA: Kind = Kind(0x2b);
    pub const REGISTER_LIST: Kind = Kind(0x35);
    pub const SOC_DRIVER: Kind = Kind(0x4a);
    pub const DEBUG_DRIVER: Kind = Kind(0x4b);
    pub const INTERFACE_DRIVER: Kind = Kind(0x4c);
    pub const KEY_DATABASE: Kind = Kind(0x4f);
    pub const RAS_DRIVER: Kind = Kind(0x52);
    /// A table by which the PSP sets up the SMU.
    pub const SMU_TABLE: Kind = Kind(0xd2);
}

/// Contents of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// See [`Kind`].
    pub kind: Kind,
    /// Of the firmware.
    pub version: u32,
    /// Bytes of the whole image.
    pub total: usize,
}

/// The reason why an image is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bad {
    /// It does not begin with a header.
    Magic,
    /// Its sizes do not agree with one another, or with the size of the data.
    Size,
    /// Its content does not match the signature.
    Signature,
}

/// Which signatures are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Signatures {
    /// Those of [`make`].
    #[default]
    Ours,
    /// All, as those of the vendor's files cannot be checked.
    Any,
}

/// FNV-1a, 64 bits: it identifies images in traces, and is the signature here.
pub fn digest(data: &[u8]) -> u64 {
    data.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

fn dword(data: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([0, 1, 2, 3].map(|n| data[at + n]))
}

/// Bytes of the whole image, according to the header at the start of `data`.
pub fn total(data: &[u8]) -> Result<usize, Bad> {
    if data.len() < HEADER || &data[AT_MAGIC..AT_MAGIC + 4] != MAGIC {
        return Err(Bad::Magic);
    }
    Ok(dword(data, AT_TOTAL) as usize)
}

/// Checks the image `data`.
pub fn check(data: &[u8], signatures: Signatures) -> Result<Header, Bad> {
    let total = total(data)?;
    let signature = match dword(data, AT_SIGNATURE) {
        LONG => SIGNATURE_LONG,
        0 => SIGNATURE_SHORT,
        _ => return Err(Bad::Size),
    };
    let body = dword(data, AT_BODY) as usize;
    if total != data.len() || body.checked_add(HEADER + signature) != Some(total) {
        return Err(Bad::Size);
    }
    let (signed, signature) = data.split_at(total - signature);
    let (given, rest) = signature.split_at(8);
    let ours = given == digest(signed).to_le_bytes() && rest.iter().all(|&byte| byte == 0);
    if signatures == Signatures::Ours && !ours {
        return Err(Bad::Signature);
    }
    Ok(Header {
        kind: Kind(data[AT_KIND]),
        version: dword(data, AT_VERSION),
        total,
    })
}

/// Makes an image of `total` bytes (a multiple of four), whose body is counted dwords; with a
/// `long` signature or a short one.
pub fn make(kind: Kind, version: u32, total: usize, long: bool) -> Vec<u8> {
    let signature = if long {
        SIGNATURE_LONG
    } else {
        SIGNATURE_SHORT
    };
    let mut image = vec![0; total];
    let mut put = |at: usize, value: u32| {
        image[at..at + 4].copy_from_slice(&value.to_le_bytes());
    };
    put(AT_MAGIC, u32::from_le_bytes(*MAGIC));
    put(AT_BODY, (total - HEADER - signature) as u32);
    put(AT_SIGNED, 1);
    put(AT_SIGNATURE, if long { LONG } else { 0 });
    put(AT_KIND, kind.0.into());
    put(AT_VERSION, version);
    put(AT_TOTAL, total as u32);
    for at in (HEADER..total - signature).step_by(4) {
        put(at, ((at - HEADER) / 4) as u32);
    }
    let signed = total - signature;
    let hash = digest(&image[..signed]).to_le_bytes();
    image[signed..signed + 8].copy_from_slice(&hash);
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(data: &[u8]) -> Result<Header, Bad> {
        super::check(data, Signatures::Ours)
    }

    #[test]
    fn what_was_made_is_taken() {
        for (total, long) in [(0x1000, true), (0x15c0, false), (0x304, true)] {
            let image = make(Kind::SDMA, 7, total, long);
            let header = Header {
                kind: Kind::SDMA,
                version: 7,
                total,
            };
            assert_eq!(check(&image), Ok(header));
        }
    }

    #[test]
    fn any_byte_counts() {
        let image = make(Kind::RLC, 17, 0x480, true);
        for at in 0..image.len() {
            let mut bad = image.clone();
            bad[at] ^= 0x10;
            assert!(check(&bad).is_err(), "byte {at:#x}");
        }
    }

    #[test]
    fn signatures_of_others() {
        let mut image = make(Kind::RLC, 17, 0x480, true);
        image[0x47c] = 1;
        assert_eq!(check(&image), Err(Bad::Signature));
        assert!(super::check(&image, Signatures::Any).is_ok());
        image[AT_TOTAL] ^= 4;
        assert_eq!(super::check(&image, Signatures::Any), Err(Bad::Size));
    }

    #[test]
    fn sizes() {
        let image = make(Kind::RLC, 17, 0x480, true);
        assert_eq!(check(&image[..0x47c]), Err(Bad::Size));
        assert_eq!(check(&image[..0xfc]), Err(Bad::Magic));
        let mut long = image.clone();
        long.extend([0; 4]);
        assert_eq!(check(&long), Err(Bad::Size));
        assert_eq!(check(&[0; 0x480]), Err(Bad::Magic));
    }
}
