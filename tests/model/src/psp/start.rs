// SPDX-License-Identifier: GPL-2.0
//! Progress of a board's firmware at the time that the driver finds it.

use std::str::FromStr;

/// The history of the board: it depends on the board and on the previous user of the GPU, not on
/// the present driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// Another party has started the secure OS, loaded all engines and halted them.
    #[default]
    Warm,
    /// Fresh from power-up: posted by its own flash, the bootloader waits, no engine has firmware.
    Cold,
    /// A driver has crashed: the secure OS has its ring and its TMR, and all engines run.
    Dirty,
    /// The flash has not posted the board.
    Unposted,
    /// The bootloader has failed before the driver came.
    Stuck,
    /// As cold, on a board whose engines also take firmware by their UCODE registers, which sold
    /// boards refuse.
    Open,
}

/// Names on the command line and the control socket.
const NAMES: [(&str, Start); 6] = [
    ("warm", Start::Warm),
    ("cold", Start::Cold),
    ("dirty", Start::Dirty),
    ("unposted", Start::Unposted),
    ("stuck", Start::Stuck),
    ("open", Start::Open),
];

impl Start {
    /// Returns whether BIOS_SCRATCH_7 says that the board is posted.
    pub fn is_posted(self) -> bool {
        self != Start::Unposted
    }

    /// Returns whether the secure OS runs, and engines have the firmware that it loaded.
    pub fn has_secure_os(self) -> bool {
        matches!(self, Start::Warm | Start::Dirty)
    }

    /// Returns whether the bootloader takes commands.
    pub fn takes_commands(self) -> bool {
        matches!(self, Start::Cold | Start::Open)
    }

    /// For messages.
    pub fn name(self) -> &'static str {
        let entry = NAMES.iter().find(|entry| entry.1 == self);
        entry.map_or("", |entry| entry.0)
    }
}

impl FromStr for Start {
    type Err = String;

    fn from_str(text: &str) -> Result<Start, String> {
        let entry = NAMES.iter().find(|entry| entry.0 == text);
        entry
            .map(|entry| entry.1)
            .ok_or_else(|| format!("{text}: no state of the firmware"))
    }
}
