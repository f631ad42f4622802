// SPDX-License-Identifier: GPL-2.0
//! The places of this checkout, as `scripts/lib.sh` has them, and programs of the sysroot.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;

use anyhow::{Context, Result};

/// How many runs of guests leave their logs.
const RUNS: usize = 48;

const MOUNT_PROC: &str = r#"mount -t proc proc "$0/proc" 2>/dev/null; exec chroot "$0" "$@""#;

/// Where things are.
#[derive(Debug, Default)]
pub struct Sysroot {
    /// The checkout.
    pub top: PathBuf,
    /// The cache that all checkouts share.
    pub cache: PathBuf,
    /// The sysroot.
    pub root: PathBuf,
    /// The build products of this checkout, as the sysroot's programs see the path.
    pub out: String,
    /// The name of this checkout's places.
    pub checkout: String,
    /// The sysroot's Debian release.
    pub base: String,
    /// Other Debian suites whose kernels the module is tried on.
    pub suites: Vec<String>,
}

impl Sysroot {
    /// Converts a path of this machine to the form that the sysroot's programs see.
    pub fn inside(&self, path: &Path) -> String {
        let path = path.to_string_lossy();
        let root = self.root.to_string_lossy();
        path.strip_prefix(&*root).unwrap_or(&path).into()
    }

    /// Converts a path of the sysroot's programs to one of this machine.
    pub fn outside(&self, inside: &str) -> PathBuf {
        self.root.join(inside.trim_start_matches('/'))
    }

    /// One of the scripts of this checkout.
    pub fn script(&self, name: &str) -> Command {
        let mut command = Command::new(self.script_path(name));
        command.stdin(Stdio::null());
        command
    }

    fn script_path(&self, name: &str) -> PathBuf {
        self.top.join("scripts").join(name)
    }

    /// One of the scripts of this checkout, with a lower priority than guests have.
    pub fn patient_script(&self, name: &str) -> Command {
        let mut command = Command::new("nice");
        command.args(["-n", "5"]).arg(self.script_path(name));
        command.stdin(Stdio::null());
        command
    }

    /// A program of the sysroot.
    pub fn program(&self, program: &str) -> Command {
        let mut command = Command::new("env");
        self.enter(&mut command, program);
        command
    }

    /// A program of the sysroot with a higher priority than others.
    pub fn urgent_program(&self, program: &str) -> Command {
        let mut command = Command::new("nice");
        command.args(["-n", "-10", "env"]);
        self.enter(&mut command, program);
        command
    }

    /// Adds arguments of `env` that run a program in the sysroot: chroot, with /proc where the
    /// machine allows it. The mount lives and dies in a mount namespace of its own, so that the
    /// cache never holds a mount. Each link of the chain is an exec: the process stays the same.
    fn enter(&self, command: &mut Command, program: &str) {
        let terminal = std::env::var("TERM").unwrap_or_else(|_| "dumb".into());
        command
            .args(["-i", "HOME=/root", "LANG=C.UTF-8"])
            .arg("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .arg(format!("TERM={terminal}"));
        if can_unshare() {
            command
                .args(["unshare", "-m", "--propagation", "private"])
                .args(["/bin/sh", "-c", MOUNT_PROC]);
        } else {
            command.arg("chroot");
        }
        command.arg(&self.root).arg(program).stdin(Stdio::null());
    }

    /// Makes a folder in the sysroot for a run of a guest. The newest few of this checkout are
    /// kept, and those of guests that run.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub fn run_dir(&self) -> Result<PathBuf> {
        let runs = self.root.join("vm");
        fs::create_dir_all(&runs)?;
        let prefix = format!("{}.", self.checkout);
        let mut old: Vec<(SystemTime, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&runs)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                // Another run may have removed it just now.
                if let Ok(time) = entry.metadata().and_then(|data| data.modified()) {
                    old.push((time, entry.path()));
                }
            }
        }
        old.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
        for (_, dir) in old.iter().skip(RUNS) {
            if !dir.join("initrd").exists() {
                let _ = fs::remove_dir_all(dir);
            }
        }
        let dir = runs.join(format!("{prefix}{}", &random_word()?[..8]));
        fs::create_dir(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(dir)
    }
}

/// Whether this machine allows mount namespaces.
fn can_unshare() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| {
        let mut command = Command::new("unshare");
        command.args(["-m", "true"]).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    })
}

/// A word that no other run has.
///
/// # Errors
///
/// The kernel gives none.
pub fn random_word() -> Result<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/uuid")?;
    Ok(text.trim().replace('-', ""))
}

/// The contents of a file as text, lossily; empty if the file does not exist.
pub fn text_of(path: impl AsRef<OsStr>) -> String {
    let bytes = fs::read(Path::new(path.as_ref())).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_inside_and_outside() {
        let places = Sysroot {
            root: "/cache/sysroot-1".into(),
            ..Sysroot::default()
        };
        let outside = Path::new("/cache/sysroot-1/vm/x.1");
        assert_eq!("/vm/x.1", places.inside(outside));
        assert_eq!(outside, places.outside("/vm/x.1"));
    }
}
