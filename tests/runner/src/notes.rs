// SPDX-License-Identifier: GPL-2.0
//! Messages of the runner beside results: a line with its name, on standard error or in a file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::process::Stdio;

/// Prints a message on standard error.
pub fn note(text: &str) {
    eprintln!("rkfd: {text}");
}

/// The place for the messages of a guest's run, and of the programs that it calls.
#[derive(Debug)]
pub struct Notes(Option<File>);

impl Notes {
    pub fn stderr() -> Self {
        Self(None)
    }

    /// # Errors
    ///
    /// The file cannot be opened.
    pub fn file(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self(Some(file)))
    }

    pub fn note(&self, text: &str) {
        match &self.0 {
            None => note(text),
            Some(file) => {
                let mut file = file;
                // There is no place to report that to.
                let _ = writeln!(file, "rkfd: {text}");
            }
        }
    }

    /// Standard error of a program.
    pub fn stdio(&self) -> Stdio {
        match self.0.as_ref().map(File::try_clone) {
            Some(Ok(file)) => file.into(),
            _ => Stdio::inherit(),
        }
    }
}
