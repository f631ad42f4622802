// SPDX-License-Identifier: GPL-2.0
//! Programs that the runner starts. Each has a process group of its own, so that it ends as a whole
//! when it is dropped, and when a signal ends the runner.

use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use rustix::fs::{memfd_create, MemfdFlags};
use rustix::process::{kill_process, kill_process_group, Pid, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// How often a program is looked at that is waited for.
pub const POLL: Duration = Duration::from_millis(50);

static SIGNAL: AtomicU8 = AtomicU8::new(0);
static GROUPS: LazyLock<Mutex<HashSet<Pid>>> = LazyLock::new(Mutex::default);

/// The signal that ends the runner, once there was one.
pub fn interrupted() -> Option<u8> {
    let signal = SIGNAL.load(Ordering::Relaxed);
    (signal != 0).then_some(signal)
}

/// # Errors
///
/// A signal came that ends the runner.
pub fn check_interrupted() -> Result<()> {
    if interrupted().is_some() {
        bail!("interrupted");
    }
    Ok(())
}

/// Makes signals that end the runner end its programs first. The functions that wait for these
/// programs clean up files.
///
/// # Errors
///
/// There can be no handler.
pub fn catch_signals() -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    thread::spawn(move || {
        for signal in &mut signals {
            SIGNAL.store(u8::try_from(signal).unwrap_or(1), Ordering::Relaxed);
            let groups = GROUPS.lock().unwrap_or_else(PoisonError::into_inner);
            for group in groups.iter() {
                let _ = kill_process_group(*group, Signal::TERM);
            }
        }
    });
    Ok(())
}

/// A program that runs. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    group: Option<Pid>,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts a program in a process group of its own.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    pub fn start(command: &mut Command) -> Result<Self> {
        command.process_group(0);
        let mut process = Self::start_in_foreground(command)?;
        let group = process.pid();
        process.group = Some(group);
        // A signal that came meanwhile has not reached it.
        let mut groups = GROUPS.lock().unwrap_or_else(PoisonError::into_inner);
        groups.insert(group);
        drop(groups);
        check_interrupted()?;
        Ok(process)
    }

    /// Starts a program that the terminal's keys reach.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    pub fn start_in_foreground(command: &mut Command) -> Result<Self> {
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", name(command)))?;
        Ok(Self {
            child,
            group: None,
            ended: None,
        })
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Its status, if it has ended.
    ///
    /// # Errors
    ///
    /// It cannot be waited for.
    pub fn status(&mut self) -> Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait()?;
            if self.ended.is_some() {
                self.forget();
            }
        }
        Ok(self.ended)
    }

    /// Waits until it has ended, for so long.
    ///
    /// # Errors
    ///
    /// It cannot be waited for, or a signal ends the runner.
    pub fn wait_for(&mut self, time: Duration) -> Result<Option<ExitStatus>> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.status()? {
                return Ok(Some(status));
            }
            check_interrupted()?;
            if start.elapsed() >= time {
                return Ok(None);
            }
            thread::sleep(POLL);
        }
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    ///
    /// As of [`Process::wait_for`].
    pub fn wait(&mut self) -> Result<ExitStatus> {
        loop {
            if let Some(status) = self.wait_for(Duration::from_secs(3600))? {
                return Ok(status);
            }
        }
    }

    fn forget(&mut self) {
        if let Some(group) = self.group.take() {
            let mut groups = GROUPS.lock().unwrap_or_else(PoisonError::into_inner);
            groups.remove(&group);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended.is_none() {
            match self.group {
                Some(group) => _ = kill_process_group(group, Signal::KILL),
                None => _ = kill_process(self.pid(), Signal::KILL),
            }
            let _ = self.child.wait();
        }
        self.forget();
    }
}

/// The exit status as a shell has it: 128 and the signal for a program that one has ended.
pub fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    let signal = status.signal().map_or(1, |signal| 128 + signal);
    status.code().unwrap_or(signal)
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

/// A program failed and has printed the reason itself.
#[derive(Debug)]
pub struct HasSaid;

impl fmt::Display for HasSaid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a program failed")
    }
}

impl Error for HasSaid {}

/// Runs a program to its end.
///
/// # Errors
///
/// It cannot be started, fails, or a signal ends the runner.
pub fn run(command: &mut Command) -> Result<()> {
    let status = Process::start(command)?.wait()?;
    if !status.success() {
        bail!("{} failed (status {})", name(command), code(status));
    }
    Ok(())
}

/// Runs a program to its end and returns its output.
///
/// # Errors
///
/// As of [`run`]; the output is no text.
pub fn output(command: &mut Command) -> Result<String> {
    command.stdout(Stdio::piped());
    let mut process = Process::start(command)?;
    let mut text = String::new();
    if let Some(mut stdout) = process.child.stdout.take() {
        io::Read::read_to_string(&mut stdout, &mut text)?;
    }
    let status = process.wait()?;
    if !status.success() {
        bail!("{} failed (status {})", name(command), code(status));
    }
    Ok(text)
}

/// Runs a program, and returns its exit status and all that it printed.
///
/// # Errors
///
/// As of [`run`].
pub fn run_to_end(command: &mut Command) -> Result<(i32, String)> {
    let mut file = File::from(memfd_create("output", MemfdFlags::CLOEXEC)?);
    command.stdout(file.try_clone()?).stderr(file.try_clone()?);
    let status = Process::start(command)?.wait()?;
    let mut bytes = Vec::new();
    io::Seek::rewind(&mut file)?;
    io::Read::read_to_end(&mut file, &mut bytes)?;
    Ok((code(status), String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        command
    }

    #[test]
    fn output_and_status() {
        assert_eq!("a\n", output(&mut shell("echo a")).unwrap());
        let error = output(&mut shell("exit 3")).unwrap_err();
        assert_eq!("sh failed (status 3)", error.to_string());
        assert!(run(&mut Command::new("/nowhere")).is_err());
    }

    #[test]
    fn both_outputs_in_their_order() {
        let mut command = shell("echo a; echo b >&2; echo c; exit 4");
        assert_eq!((4, "a\nb\nc\n".into()), run_to_end(&mut command).unwrap());
    }

    #[test]
    fn a_signal_is_a_status() {
        let mut process = Process::start(&mut shell("kill -TERM $$")).unwrap();
        assert_eq!(143, code(process.wait().unwrap()));
    }

    #[test]
    fn a_dropped_program_ends_with_its_children() {
        let mut command = shell("sleep 100 & echo $!; wait");
        command.stdout(Stdio::piped());
        let mut process = Process::start(&mut command).unwrap();
        let mut text = [0; 16];
        let stdout = process.child.stdout.as_mut().unwrap();
        let length = io::Read::read(stdout, &mut text).unwrap();
        let child = std::str::from_utf8(&text[..length])
            .unwrap()
            .trim()
            .to_owned();
        assert_eq!(None, process.wait_for(Duration::ZERO).unwrap());
        drop(process);
        // It is gone, or waits for init to notice that.
        let is_gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat"));
            stat.map_or(true, |stat| stat.contains(") Z "))
        };
        let start = Instant::now();
        while !is_gone() {
            assert!(start.elapsed() < Duration::from_secs(60), "it lives on");
            thread::sleep(POLL);
        }
    }
}
