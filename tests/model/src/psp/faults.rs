// SPDX-License-Identifier: GPL-2.0
//! Faults of the PSP that tests request.

use super::bootloader::Part;
use super::engines::Engine;
use crate::smu::Faults as SmuFaults;

/// A fault of the trusted application for XGMI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaFault {
    /// It is not loaded.
    Unloaded,
    /// It does not answer.
    Silent,
    /// Each command has this status.
    Status(u32),
    /// The hive has the number 0.
    NoHive,
    /// The GPU has the number of its neighbour.
    Twice,
    /// All nodes are 0 hops away.
    NoHops,
    /// More links lead to each of the others than a GPU has ports.
    ManyLinks,
}

/// Faults, each of which stays until it is cleared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    /// C2PMSG_33 never says that the flash firmware is ready.
    pub no_flash: bool,
    /// C2PMSG_35 never says that the bootloader is ready.
    pub no_bootloader: bool,
    /// C2PMSG_81 stays zero.
    pub no_secure_os: bool,
    /// The board does not post itself after a reset by the SMU.
    pub no_post: bool,
    /// The bootloader's answer to a part, in place of checking it.
    pub bootloader: Option<(Part, u32)>,
    /// The part over which the bootloader hangs.
    pub bootloader_hangs: Option<Part>,
    /// The answer to the making of a ring.
    pub ring: Option<u32>,
    /// The secure OS hangs over a command in C2PMSG_64.
    pub ring_hangs: bool,
    /// The command of the ring, counted from 1 since the ring was made, and its status.
    pub status: Option<(u64, u32)>,
    /// The command after which no fence is written.
    pub no_fence: Option<u64>,
    /// A fault of the trusted application for XGMI.
    pub ta: Option<TaFault>,
    /// An engine that does nothing, whatever is loaded.
    pub dead: Option<Engine>,
    /// Faults of the SMU.
    pub smu: SmuFaults,
}

/// Parses a number of a command, in decimal or with 0x.
pub(crate) fn number<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let value = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    value
        .and_then(|value| value.try_into().ok())
        .ok_or_else(|| format!("bad number {text}"))
}

impl Faults {
    /// Adds one: `no-flash`, `no-bootloader`, `no-secure-os`, `no-post`, `bootloader=PART:CODE`,
    /// `bootloader-hangs=PART`, `ring=CODE`, `ring-hangs`, `status=N:CODE`, `no-fence=N`,
    /// `dead=ENGINE`, `ta=unloaded`, `ta=silent`,
    /// `ta=no-hive`, `ta=twice`, `ta=no-hops`, `ta=many-links`, `ta=STATUS`, `smu-off`, `smu=MESSAGE:ANSWER`, `smu-hangs=MESSAGE`, `smu-late=MESSAGE:MS`;
    /// `none` clears all.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let two = || {
            value
                .split_once(':')
                .ok_or_else(|| format!("{text}: two values"))
        };
        let part = |name| Part::named(name).ok_or_else(|| format!("{text}: no such part"));
        match name {
            "none" => *self = Faults::default(),
            "no-flash" => self.no_flash = true,
            "no-bootloader" => self.no_bootloader = true,
            "no-secure-os" => self.no_secure_os = true,
            "no-post" => self.no_post = true,
            "bootloader" => {
                let (name, code) = two()?;
                self.bootloader = Some((part(name)?, number(code)?));
            }
            "bootloader-hangs" => self.bootloader_hangs = Some(part(value)?),
            "ring-hangs" => self.ring_hangs = true,
            "dead" => {
                let engine = Engine::named(value);
                self.dead = Some(engine.ok_or_else(|| format!("{text}: no such engine"))?);
            }
            "ta" => {
                self.ta = Some(match value {
                    "unloaded" => TaFault::Unloaded,
                    "silent" => TaFault::Silent,
                    "no-hive" => TaFault::NoHive,
                    "twice" => TaFault::Twice,
                    "no-hops" => TaFault::NoHops,
                    "many-links" => TaFault::ManyLinks,
                    _ => TaFault::Status(number(value)?),
                });
            }
            "smu-off" => self.smu.off = true,
            "smu" => {
                let (message, answer) = two()?;
                self.smu.answer = Some((number(message)?, number(answer)?));
            }
            "smu-late" => {
                let (message, ms) = two()?;
                self.smu.late = Some((number(message)?, number(ms)?));
            }
            "smu-hangs" => self.smu.hangs = Some(number(value)?),
            "ring" => self.ring = Some(number(value)?),
            "status" => {
                let (command, status) = two()?;
                self.status = Some((number(command)?, number(status)?));
            }
            "no-fence" => self.no_fence = Some(number(value)?),
            _ => return Err(format!("{text}: no fault of the PSP")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_name() {
        let mut faults = Faults::default();
        for text in ["status=3:0xffff0006", "no-fence=4", "bootloader=sys:0x0f"] {
            faults.add(text).unwrap();
        }
        assert_eq!(faults.status, Some((3, 0xffff_0006)));
        assert_eq!(faults.no_fence, Some(4));
        assert_eq!(faults.bootloader, Some((Part::SysDriver, 0xf)));
        for text in [
            "dead=sdma4",
            "smu-hangs=0x4",
            "smu-late=0x13:4000",
            "bootloader-hangs=kdb",
            "ta=twice",
        ] {
            faults.add(text).unwrap();
        }
        assert_eq!(faults.dead, Some(Engine::Sdma(4)));
        assert_eq!(faults.smu.hangs, Some(4));
        assert_eq!(faults.ta, Some(TaFault::Twice));
        assert_eq!(faults.smu.late, Some((0x13, 4000)));
        assert_eq!(faults.bootloader_hangs, Some(Part::KeyDatabase));
        for text in [
            "status=3",
            "no-fence=x",
            "bootloader=toc:1",
            "dead=sdma16",
            "other",
        ] {
            assert!(faults.add(text).is_err(), "{text}");
        }
        faults.add("none").unwrap();
        assert_eq!(faults, Faults::default());
    }
}
