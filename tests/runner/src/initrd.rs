// SPDX-License-Identifier: GPL-2.0
//! The initramfs of a guest, and its disks: the base image, and the additions of one run.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{ensure, Context, Result};

use crate::guest::{Setup, Work};
use crate::machine::{Driver, Files};
use crate::process;
use crate::qemu::Disk;

/// The additions to the base image.
#[derive(Debug, Default)]
pub struct Content {
    pub disks: Vec<Disk>,
    /// Archives that go into the initramfs.
    archives: Vec<PathBuf>,
    /// Options of the device model about the board.
    pub board: Vec<String>,
    /// The archive of firmware files, if there is one.
    pub firmware: Option<PathBuf>,
}

impl Content {
    /// Makes the initramfs of a guest, `initrd` in the folder of the run.
    ///
    /// # Errors
    ///
    /// A part of it cannot be made.
    pub fn new(setup: &Setup<'_>) -> Result<Self> {
        let mut content = Self::default();
        content.swap(setup)?;
        let driver = content.driver(setup)?;
        content.firmware = content.firmware(setup)?;
        content
            .overlay(setup)
            .context("the overlay of the guest's image")?;
        content.archives.extend(driver);
        content.archives.extend(content.firmware.clone());
        content.pack(setup).context("the guest's image")?;
        Ok(content)
    }

    /// A path of this machine as QEMU's disk.
    fn disk(&mut self, setup: &Setup<'_>, name: &str, file: &Path, is_writable: bool) {
        self.disks.push(Disk {
            name: name.into(),
            file: setup.places.inside(file),
            is_writable,
        });
    }

    fn swap(&mut self, setup: &Setup<'_>) -> Result<()> {
        let Some(size) = &setup.machine.swap else {
            return Ok(());
        };
        let path = setup.dir.join("swap");
        File::create(&path)?.set_len(size.bytes())?;
        let mut mkswap = setup.places.program("mkswap");
        mkswap.arg(setup.places.inside(&path)).stdout(Stdio::null());
        process::run(mkswap.stderr(setup.notes.stdio()))?;
        self.disk(setup, "swap", &path, true);
        Ok(())
    }

    /// The archive of Debian's driver.
    fn driver(&mut self, setup: &Setup<'_>) -> Result<Option<PathBuf>> {
        if setup.machine.driver == Driver::Rkfd {
            return Ok(None);
        }
        let kernel = &setup.kernel.name;
        ensure!(
            kernel == "stock",
            "amdgpu is there with the stock kernel alone"
        );
        Ok(Some(path_from(setup, &mut setup.places.script("amdgpu"))?))
    }

    /// The archive of firmware files; the board has a BIOS then.
    fn firmware(&mut self, setup: &Setup<'_>) -> Result<Option<PathBuf>> {
        let Some(firmware) = setup.machine.firmware() else {
            return Ok(None);
        };
        let files = setup.machine.files;
        let archive = path_from(setup, setup.places.script("firmware").arg(files.name()))?;
        let options = ["--firmware", firmware.name()];
        self.board.extend(options.map(String::from));
        if files == Files::Vendor {
            self.board.push("--any-signature".into());
        }
        Ok(Some(archive))
    }

    fn overlay(&mut self, setup: &Setup<'_>) -> Result<()> {
        let Setup {
            places, machine, ..
        } = *setup;
        let root = setup.dir.join("overlay");
        let rkfd = root.join("rkfd");
        let make = |name: &str| -> Result<PathBuf> {
            let path = root.join(name);
            fs::create_dir_all(&path)?;
            Ok(path)
        };
        let run = make("rkfd/run")?;
        make("rkfd/add")?;
        // As in the base image, whose contents a folder of these names would hide.
        for name in ["lib", "lib64"] {
            make(&format!("usr/{name}"))?;
            symlink(format!("usr/{name}"), root.join(name))?;
        }
        match &setup.work {
            Work::Plan { steps, mark } => {
                let lines: String = steps.iter().map(|step| step.line()).collect();
                fs::write(run.join("plan"), lines)?;
                if let Some(mark) = mark {
                    fs::write(run.join("mark"), format!("{mark}\n"))?;
                }
            }
            Work::Shell { params } => {
                fs::write(run.join("shell"), terminal_size())?;
                fs::write(run.join("parameters"), format!("{params}\n"))?;
            }
        }
        if machine.hostile.is_some() {
            fs::write(run.join("hostile"), "")?;
        }
        if !machine.add.is_empty() {
            let mut copy = Command::new("cp");
            copy.arg("-rL").args(&machine.add).arg(rkfd.join("add"));
            process::run(copy.stderr(setup.notes.stdio()))?;
            libraries(setup, &root, "rkfd/add")?;
        }
        if machine.kfdtest {
            let to = make("rkfd/kfdtest")?;
            let program = path_from(setup, &mut places.script("kfdtest"))?;
            let tests = places.top.join("tests/kfdtest");
            copy_to(&to, &[program, tests.join("run.sh"), tests.join("list")])?;
            libraries(setup, &root, "rkfd/kfdtest")?;
        }
        if machine.criu {
            let made = path_from(setup, &mut places.script("criu"))?;
            let mut copy = Command::new("cp");
            copy.arg("-rL").arg(made).arg(rkfd.join("criu"));
            process::run(copy.stderr(setup.notes.stdio()))?;
            libraries(setup, &root, "rkfd/criu")?;
        }
        if machine.kexec {
            let vmlinuz = places.outside(&setup.kernel.vmlinuz);
            fs::copy(vmlinuz, make("rkfd/kexec")?.join("vmlinuz"))?;
        }
        if machine.packages {
            let mut files = Vec::new();
            for entry in fs::read_dir(places.outside(&format!("{}/deb", places.out)))? {
                files.push(entry?.path());
            }
            files.retain(|file| file.extension().is_some_and(|e| e == "deb"));
            let own = [
                "tests/packages/run.sh",
                "tests/packages/page.sh",
                "Documentation/silicon.md",
            ];
            files.extend(own.map(|file| places.top.join(file)));
            copy_to(&make("rkfd/packages")?, &files)?;
            let disk = path_from(setup, places.script("deb-root").arg("guest"))?;
            self.disk(setup, "packages", &disk, false);
        }
        self.suites(setup, &rkfd)?;
        if machine.python {
            let archive = path_from(setup, &mut places.script("python"))?;
            self.archives.push(archive);
        }
        if machine.driver != Driver::Rkfd {
            let name = match machine.driver {
                Driver::Amdgpu => "amdgpu",
                Driver::Rkfd | Driver::Both => "rkfd",
            };
            fs::write(run.join("driver"), format!("{name}\n"))?;
            // For the check of the log.
            fs::write(setup.dir.join("amdgpu"), "")?;
        }
        Ok(())
    }

    /// The ROCm clients, and the programs for them.
    fn suites(&mut self, setup: &Setup<'_>, rkfd: &Path) -> Result<()> {
        let Setup {
            places, machine, ..
        } = *setup;
        if machine.suites.is_empty() {
            return Ok(());
        }
        // The debug kernel is built without disks.
        let is_disk = setup.kernel.name != "debug";
        let mut script = places.script("suite");
        script.arg(if is_disk { "disk" } else { "archive" });
        script.args(&machine.suites).stderr(setup.notes.stdio());
        let made = process::output(&mut script)?;
        let made: Vec<PathBuf> = made.lines().map(PathBuf::from).collect();
        ensure!(
            made.len() == machine.suites.len(),
            "scripts/suite made {made:?}"
        );
        for (name, file) in machine.suites.iter().zip(made) {
            if is_disk {
                self.disk(setup, name, &file, false);
            } else {
                self.archives.push(file);
            }
        }
        let mut copy = Command::new("cp");
        copy.arg("-r")
            .arg(places.outside(&format!("{}/rocr", places.out)));
        copy.arg(rkfd.join("rocr")).stderr(setup.notes.stdio());
        process::run(&mut copy)
    }

    fn pack(&self, setup: &Setup<'_>) -> Result<()> {
        let places = setup.places;
        let path = setup.dir.join("initrd");
        let base = places.outside(&format!("{}/base-{}.cpio", places.out, setup.kernel.name));
        let mut initrd = File::create(&path)?;
        for archive in std::iter::once(&base).chain(&self.archives) {
            let mut file = File::open(archive)
                .with_context(|| format!("cannot open {}", archive.display()))?;
            io::copy(&mut file, &mut initrd)?;
        }
        initrd.flush()?;
        let mut cpio = places.program("sh");
        let inside = places.inside(setup.dir);
        cpio.arg("-c").arg(format!(
            "cd {inside}/overlay && \
             find . -mindepth 1 | LC_ALL=C sort | cpio --quiet -o -H newc"
        ));
        cpio.stdout(OpenOptions::new().append(true).open(&path)?);
        process::run(cpio.stderr(setup.notes.stdio()))?;
        fs::remove_dir_all(setup.dir.join("overlay"))?;
        Ok(())
    }
}

/// The path that a script prints.
fn path_from(setup: &Setup<'_>, script: &mut Command) -> Result<PathBuf> {
    let text = process::output(script.stderr(setup.notes.stdio()))?;
    Ok(text.trim_end().into())
}

/// Adds the shared libraries that programs of the overlay need.
fn libraries(setup: &Setup<'_>, root: &Path, folder: &str) -> Result<()> {
    let mut script = setup.places.script("libraries");
    script.arg(root).arg(root.join(folder));
    script
        .stdout(setup.notes.stdio())
        .stderr(setup.notes.stdio());
    process::run(&mut script)
}

fn copy_to(folder: &Path, files: &[PathBuf]) -> Result<()> {
    for file in files {
        let name = file.file_name().context("a folder in place of a file")?;
        fs::copy(file, folder.join(name))
            .with_context(|| format!("cannot copy {}", file.display()))?;
    }
    Ok(())
}

/// The size of the terminal, as arguments of the guest's stty.
fn terminal_size() -> String {
    let mut stty = Command::new("stty");
    let output = stty.arg("size").stdin(Stdio::inherit()).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = text.unwrap_or_default();
    let mut words = text.split_whitespace();
    match (words.next(), words.next()) {
        (Some(rows), Some(columns)) => format!("rows {rows} cols {columns}\n"),
        _ => String::new(),
    }
}
