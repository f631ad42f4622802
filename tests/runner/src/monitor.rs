// SPDX-License-Identifier: GPL-2.0
//! QEMU's monitor, over two pipes: it tells the state of a guest's processors, and wakes a guest.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::fs::OFlags;

/// How long QEMU may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The monitor of a guest, whose pipes are `monitor.in` and `monitor.out`.
#[derive(Debug)]
pub struct Monitor {
    to: File,
    from: File,
}

impl Monitor {
    /// Opens the pipes, without waiting for their other ends.
    ///
    /// # Errors
    ///
    /// They are not there.
    pub fn open(dir: &Path) -> Result<Self> {
        let open = |name: &str| {
            let mut options = OpenOptions::new();
            options.read(true).write(true);
            options.custom_flags(OFlags::NONBLOCK.bits() as i32);
            options.open(dir.join(name))
        };
        Ok(Self {
            to: open("monitor.in")?,
            from: open("monitor.out")?,
        })
    }

    /// Reads the output of QEMU since the last call.
    fn read(&mut self) -> String {
        let mut bytes = Vec::new();
        // It ends with the error that there is no more at present.
        let _ = self.from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).replace('\r', "")
    }

    /// Asks for the state of a guest, and wakes the guest if it sleeps by the last answer.
    pub fn wake(&mut self) {
        if self.read().contains("(suspended)") {
            let _ = self.to.write_all(b"system_wakeup\n");
        }
        let _ = self.to.write_all(b"info status\n");
    }

    /// Registers, stacks and timers of the guest's processors, in QEMU's words.
    pub fn registers(&mut self, cpus: u32) -> String {
        let mut commands = String::from("info registers -a\n");
        for n in 0..cpus {
            commands += &format!("cpu {n}\nx /96gx $rsp\ninfo lapic\n");
        }
        let _ = self.to.write_all(commands.as_bytes());
        let start = Instant::now();
        let mut text = String::new();
        while start.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(100));
            text += &self.read();
        }
        text
    }
}

/// In one line, where processors are by their registers.
pub fn stands_at(registers: &str) -> String {
    let mut places = Vec::new();
    let mut cpu = "";
    for line in registers.lines() {
        let first = line.split_whitespace().next().unwrap_or_default();
        if line.starts_with("CPU#") {
            cpu = first;
        } else if line.starts_with("RIP=") || line.starts_with("EIP=") {
            let halted = if line.contains("HLT=1") {
                " halted"
            } else {
                ""
            };
            places.push(format!("{cpu} {first}{halted}"));
        }
    }
    if places.is_empty() {
        return NO_ANSWER.into();
    }
    places.join(", ")
}

/// The result of [`stands_at`] when QEMU says nothing.
pub const NO_ANSWER: &str = "QEMU does not answer";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_stand_somewhere() {
        let text = "(qemu) info registers -a\n\nCPU#0\nRAX=0\nRIP=ffffffff81000000 RFL=1 HLT=1\n\n\
                    CPU#1\nEIP=0000fff0 EFL=2 HLT=0\n";
        assert_eq!(
            "CPU#0 RIP=ffffffff81000000 halted, CPU#1 EIP=0000fff0",
            stands_at(text)
        );
        assert_eq!(NO_ANSWER, stands_at(""));
    }
}
