// SPDX-License-Identifier: GPL-2.0
//! A run of a guest: QEMU with the device models at its side, from the start to its end.

use std::fs::{self, File};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{bail, Context, Result};
use rustix::fs::{mkfifoat, Mode, CWD};

use crate::initrd::Content;
use crate::life::{silence, Life, NAP};
use crate::machine::{Machine, Model};
use crate::model::{Board, Running, HIVE_FOLDER, PATIENCE};
use crate::monitor::{stands_at, Monitor, NO_ANSWER};
use crate::notes::Notes;
use crate::process::{check_interrupted, code, Process, POLL};
use crate::qemu::{accel, suffix, Accel, CommandLine, Output};
use crate::selection::Step;
use crate::status::{at_work, Status};
use crate::sysroot::{text_of, Sysroot};

/// The signature that the kernel writes to a disk that it hibernated to, and its place.
const HIBERNATED: &[u8] = b"S1SUSPEND";
const HIBERNATED_AT: u64 = 4086;

/// How long QEMU may outlive a model that ended well.
const AFTER_MODEL: Duration = Duration::from_secs(2);

/// The kernel of a guest.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// As the scripts call it.
    pub name: String,
    /// Its path in the sysroot.
    pub vmlinuz: String,
}

/// The work of a guest.
#[derive(Clone, Copy, Debug)]
pub enum Work<'a> {
    /// It runs commands and powers off. A mark ends the output of each command.
    Plan {
        steps: &'a [Step],
        mark: Option<&'a str>,
    },
    /// It gives a shell, with the module loaded with these parameters.
    Shell { params: &'a str },
}

/// A guest to run.
pub struct Setup<'a> {
    pub places: &'a Sysroot,
    pub kernel: &'a Kernel,
    pub machine: &'a Machine,
    /// The folder of the run, inside the sysroot, for logs and results.
    pub dir: &'a Path,
    pub work: Work<'a>,
    pub output: Output,
    pub notes: &'a Notes,
}

/// How a guest ended.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Why it did not come to its end.
    pub why: Option<String>,
    /// Why it was started again before its first program.
    pub again: Option<String>,
}

/// Runs a guest, and waits for it. `tick` is called each time it is looked at.
///
/// A failure of emulation before the module, or any program, has run is no failure of the tests.
/// The guest is then started again, once.
///
/// # Errors
///
/// It cannot be started, or a signal ends the runner.
pub fn run(setup: &Setup<'_>, tick: &mut dyn FnMut()) -> Result<Outcome> {
    let mut why = Attempt::new(setup)?.run(tick)?;
    let again = why.as_ref().and_then(|why| why.before_init(setup));
    let again = match again {
        None => None,
        Some(what) => {
            let console = setup.dir.join("console");
            let kept = setup.dir.join("console.again");
            fs::rename(console, &kept)?;
            let kept = kept.display();
            let text = format!("{what} before /init: booting again (log: {kept})");
            setup.notes.note(&text);
            why = Attempt::new(setup)?.run(tick)?;
            Some(text)
        }
    };
    keep_coverage(setup)?;
    let why = why.map(|why| why.text);
    if let Some(why) = &why {
        fs::write(setup.dir.join("why"), format!("{why}\n"))?;
        setup.notes.note(why);
    }
    Ok(Outcome { why, again })
}

/// Keeps what an instrumented module has counted: the logs of later runs displace those of this
/// one.
fn keep_coverage(setup: &Setup<'_>) -> Result<()> {
    let Setup { places, dir, .. } = setup;
    let status = Status::parse(&text_of(dir.join("status")));
    let (Some((module, counters)), Some(run)) = (status.coverage(), dir.extension()) else {
        return Ok(());
    };
    let folder = places.outside(&format!("{}/coverage/{module}", places.out));
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(run), counters)?;
    Ok(())
}

/// Why a guest did not come to its end.
struct Why {
    text: String,
    /// It gave no sign of life, and its processors were there.
    silent: Option<String>,
}

impl Why {
    fn new(text: String) -> Self {
        Self { text, silent: None }
    }

    /// The failure of emulation before the first program, if it was one. TCG now and then runs an
    /// `int3` that the kernel has already patched away on the other processor, and rarely a kernel
    /// stands still, in a QEMU that answers. (One that does not may wait for a device model.)
    fn before_init(&self, setup: &Setup<'_>) -> Option<String> {
        if matches!(setup.work, Work::Shell { .. }) || !before_init(setup.dir) {
            return None;
        }
        if text_of(setup.dir.join("console")).contains("Oops: int3") {
            return Some("the kernel ran into a patched int3".into());
        }
        let place = self.silent.as_ref()?;
        (place != NO_ANSWER).then(|| format!("the kernel stood still ({place})"))
    }
}

/// Whether nothing but the kernel and QEMU has run so far: the module is loaded by /init.
fn before_init(dir: &Path) -> bool {
    size_of(&dir.join("status")) == 0 && !text_of(dir.join("console")).contains("Run /init")
}

fn size_of(path: &Path) -> u64 {
    path.metadata().map_or(0, |data| data.len())
}

/// The first of a guest's parts to end.
enum Ended {
    Qemu(ExitStatus),
    Model(Running, ExitStatus),
    Silent(u64),
}

/// One boot of a guest. Dropping it ends its programs and removes the files that only they need.
struct Attempt<'a> {
    setup: &'a Setup<'a>,
    arguments: Vec<String>,
    board: Option<Board>,
    qemu: Option<Process>,
    models: Vec<Running>,
    monitor: Option<Monitor>,
    life: Option<Life>,
}

impl<'a> Attempt<'a> {
    fn new(setup: &'a Setup<'a>) -> Result<Self> {
        let mut attempt = Self {
            setup,
            arguments: Vec::new(),
            board: None,
            qemu: None,
            models: Vec::new(),
            monitor: None,
            life: None,
        };
        attempt.prepare()?;
        Ok(attempt)
    }

    fn prepare(&mut self) -> Result<()> {
        let Setup {
            places,
            kernel,
            machine,
            dir,
            output,
            notes,
            ..
        } = *self.setup;
        let content = Content::new(self.setup)?;
        let inside = places.inside(dir);
        let mut options = content.board;
        if machine.switch {
            fs::create_dir_all(dir.join("switch"))?;
            options.extend(["--switch".into(), format!("{inside}/switch")]);
        }
        if machine.hive.is_some() {
            fs::create_dir_all(dir.join(HIVE_FOLDER))?;
        }
        let own = format!("{}/target/release/rkfd-model", places.out);
        self.board = match &machine.model {
            Model::None => None,
            Model::Own => Some(own),
            Model::Other(path) => Some(path.clone()),
        }
        .map(|program| Board {
            program,
            options,
            firmware: content.firmware.map(|path| places.inside(&path).into()),
        });
        if let Some(Board { program, .. }) = &self.board {
            let path = places.outside(program);
            if !path.is_file() {
                bail!("no device model at {}", path.display());
            }
        }
        let accel = if machine.icount {
            Accel::Emulation
        } else {
            accel(places, &kernel.vmlinuz, notes)?
        };
        self.arguments = CommandLine {
            machine,
            accel,
            output,
            dir: &inside,
            vmlinuz: &kernel.vmlinuz,
            disks: &content.disks,
        }
        .arguments();
        fs::write(
            dir.join("qemu.cmd"),
            format!("qemu-system-x86_64 {}\n", self.arguments.join(" ")),
        )?;
        fs::write(dir.join("status"), "")?;
        for name in ["monitor.in", "monitor.out"] {
            mkfifoat(CWD, dir.join(name), Mode::from(0o600)).context("cannot make a pipe")?;
        }
        self.monitor = Some(Monitor::open(dir)?);
        Ok(())
    }

    /// Runs it to its end. Returns why it did not come to that, if so.
    fn run(mut self, tick: &mut dyn FnMut()) -> Result<Option<Why>> {
        self.start(None)?;
        if matches!(self.setup.work, Work::Plan { .. }) {
            let silence = silence(std::env::var_os("RKFD_SILENCE").as_deref())?;
            let is_debug = self.setup.kernel.name == "debug";
            let is_icount = self.setup.machine.icount;
            self.life = Some(Life::new(silence, is_debug, is_icount));
        }
        let mut why = self.wait_for_all(tick)?;
        let mut seen = None;
        while why.is_none() {
            let Some(time) = self.has_hibernated(seen)? else {
                break;
            };
            // The machine is off, with all that it had on the disk.
            seen = Some(time);
            self.remove_sockets();
            self.start(Some("rkfd_resume"))?;
            why = self.wait_for_all(tick)?;
        }
        if why.is_none() && matches!(self.setup.work, Work::Plan { .. }) && !self.is_complete() {
            why = Some(Why::new(
                "the guest stopped before the end of its plan".into(),
            ));
        }
        Ok(why)
    }

    fn is_complete(&self) -> bool {
        Status::parse(&text_of(self.setup.dir.join("status"))).is_complete()
    }

    /// Starts the models, and QEMU with one more word of the kernel's command line.
    fn start(&mut self, word: Option<&str>) -> Result<()> {
        let Setup {
            places,
            machine,
            dir,
            output,
            work,
            ..
        } = *self.setup;
        self.models.clear();
        if let Some(board) = &self.board {
            for gpu in 1..=machine.gpus {
                self.models.push(board.start(places, dir, machine, gpu)?);
            }
        }
        let mut arguments = self.arguments.clone();
        if let (Some(word), Some(last)) = (word, arguments.last_mut()) {
            *last += &format!(" {word}");
        }
        let mut command = places.program("qemu-system-x86_64");
        command.args(arguments);
        command.stderr(File::create(dir.join("qemu.err"))?);
        if output == Output::File {
            command.stdout(Stdio::null());
        }
        self.qemu = Some(match work {
            Work::Shell { .. } => {
                command.stdin(Stdio::inherit());
                Process::start_in_foreground(&mut command)?
            }
            Work::Plan { .. } => Process::start(&mut command)?,
        });
        Ok(())
    }

    /// Waits until one of QEMU and the models has ended, or the guest gives no sign of life, and
    /// then for all that end with it. Returns the failure.
    fn wait_for_all(&mut self, tick: &mut dyn FnMut()) -> Result<Option<Why>> {
        match self.wait_for_one(tick)? {
            Ended::Silent(most) => {
                let dir = self.setup.dir;
                let (status, output) = (text_of(dir.join("status")), text_of(dir.join("out")));
                let at = at_work(&status, &output);
                let cpus = self.setup.machine.cpus();
                let registers = self.monitor.as_mut().map(|m| m.registers(cpus));
                let registers = registers.unwrap_or_default();
                fs::write(dir.join("registers"), &registers)?;
                let place = stands_at(&registers);
                Ok(Some(Why {
                    text: format!("no sign of life for {most} s, at: {at}; {place}"),
                    silent: Some(place),
                }))
            }
            Ended::Qemu(status) => {
                let mut why = None;
                if !status.success() {
                    let text = text_of(self.setup.dir.join("qemu.err"));
                    let lines: Vec<&str> = text.lines().collect();
                    let end = lines[lines.len().saturating_sub(3)..].join("\n");
                    let status = code(status);
                    why = Some(Why::new(format!("QEMU stopped (status {status}): {end}")));
                }
                self.models_end(why)
            }
            Ended::Model(model, status) => {
                // It ends by itself when QEMU is gone, before that only with an error.
                let is_qemu_there = match &mut self.qemu {
                    Some(qemu) if status.success() => qemu.wait_for(AFTER_MODEL)?.is_none(),
                    _ => true,
                };
                if is_qemu_there {
                    Ok(Some(self.model_failed(model.gpu, status)))
                } else {
                    self.models_end(None)
                }
            }
        }
    }

    fn wait_for_one(&mut self, tick: &mut dyn FnMut()) -> Result<Ended> {
        let dir = self.setup.dir;
        let mut nap = Instant::now();
        let mut wake = Instant::now();
        loop {
            if let Some(status) = self
                .qemu
                .as_mut()
                .map(Process::status)
                .transpose()?
                .flatten()
            {
                return Ok(Ended::Qemu(status));
            }
            for n in 0..self.models.len() {
                if let Some(status) = self.models[n].process.status()? {
                    return Ok(Ended::Model(self.models.remove(n), status));
                }
            }
            check_interrupted()?;
            if nap.elapsed() >= Duration::from_secs(NAP) {
                nap = Instant::now();
                if let Some(life) = &mut self.life {
                    let status = size_of(&dir.join("status"));
                    let console = size_of(&dir.join("console"));
                    let is_before_init = status == 0 && before_init(dir);
                    if let Some(most) = life.look(status, console, is_before_init) {
                        return Ok(Ended::Silent(most));
                    }
                }
            }
            if self.setup.machine.wakes && wake.elapsed() >= Duration::from_secs(1) {
                wake = Instant::now();
                if let Some(monitor) = &mut self.monitor {
                    monitor.wake();
                }
            }
            tick();
            thread::sleep(POLL);
        }
    }

    /// Waits for the models, which end when QEMU is gone. Their failures take precedence over that
    /// of QEMU.
    fn models_end(&mut self, mut why: Option<Why>) -> Result<Option<Why>> {
        for mut model in std::mem::take(&mut self.models) {
            match model.process.wait_for(PATIENCE)? {
                None => {
                    why.get_or_insert_with(|| {
                        let name = model_name(model.gpu);
                        Why::new(format!("{name} did not end with QEMU"))
                    });
                }
                Some(status) if status.success() => {}
                Some(status) => why = Some(self.model_failed(model.gpu, status)),
            }
        }
        Ok(why)
    }

    fn model_failed(&self, gpu: u32, status: ExitStatus) -> Why {
        let text = text_of(self.setup.dir.join(format!("model{}.err", suffix(gpu))));
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.is_empty())
            .take(3)
            .collect();
        let message = if lines.is_empty() {
            "no message".into()
        } else {
            lines.join("\n")
        };
        let (name, status) = (model_name(gpu), code(status));
        Why::new(format!("{name} failed (status {status}): {message}"))
    }

    /// When the machine hibernated, if that was after `seen`. A kernel that finds its disk takes
    /// the signature away at once; one that has not come so far has not written to the disk, and is
    /// not started for ever.
    fn has_hibernated(&self, seen: Option<SystemTime>) -> Result<Option<SystemTime>> {
        use std::os::unix::fs::FileExt;
        if self.setup.machine.swap.is_none() || self.is_complete() {
            return Ok(None);
        }
        let disk = File::open(self.setup.dir.join("swap"))?;
        let mut signature = [0; HIBERNATED.len()];
        disk.read_exact_at(&mut signature, HIBERNATED_AT)?;
        let time = disk.metadata()?.modified()?;
        Ok((signature == HIBERNATED && Some(time) != seen).then_some(time))
    }

    fn remove_sockets(&self) {
        for gpu in 1..=self.setup.machine.gpus {
            for name in ["vfio", "control"] {
                let name = format!("{name}{}.sock", suffix(gpu));
                let _ = fs::remove_file(self.setup.dir.join(name));
            }
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.qemu = None;
        self.models.clear();
        for name in ["initrd", "swap", "monitor.in", "monitor.out"] {
            let _ = fs::remove_file(self.setup.dir.join(name));
        }
        self.remove_sockets();
    }
}

fn model_name(gpu: u32) -> String {
    match gpu {
        1 => "the device model".into(),
        n => format!("the device model {n}"),
    }
}
