// SPDX-License-Identifier: GPL-2.0
//! The status port of a guest (`tests/guest/init`): the commands that began, and how they ended.

/// The lines of the status port.
#[derive(Debug, Default)]
pub struct Status {
    lines: Vec<String>,
}

/// How a command of the guest ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this exit status, after so many seconds.
    Exit(i32, u64),
    /// It did not begin: the module did not load.
    NotLoaded,
}

impl Status {
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().map(|line| line.replace('\r', ""));
        Self {
            lines: lines.collect(),
        }
    }

    /// The words of lines that begin with this one, without it.
    fn of<'a>(&'a self, verb: &'a str) -> impl DoubleEndedIterator<Item = Vec<&'a str>> {
        self.lines.iter().filter_map(move |line| {
            let mut words = line.split(' ');
            (words.next() == Some(verb)).then(|| words.collect())
        })
    }

    /// Whether a command was begun.
    pub fn began(&self, name: &str) -> bool {
        self.of("begin").any(|words| words == [name])
    }

    /// How a command ended, or `None` if it did not.
    pub fn end(&self, name: &str) -> Option<End> {
        let words = self.of("end").find(|words| words.first() == Some(&name))?;
        let status = *words.get(1)?;
        if status == "load" {
            return Some(End::NotLoaded);
        }
        let seconds = words.get(2).and_then(|word| word.parse().ok());
        Some(End::Exit(status.parse().ok()?, seconds.unwrap_or(0)))
    }

    /// Why the guest ended a command, if it did.
    pub fn ended(&self, name: &str) -> Option<String> {
        let words = self
            .of("ended")
            .find(|words| words.first() == Some(&name))?;
        let [_, silent, all] = words[..] else {
            return None;
        };
        Some(format!("ended: silent for {silent} s, {all} s in all"))
    }

    /// The error of the last module that did not load or unload.
    pub fn load_error(&self) -> Option<String> {
        self.of("load").next_back().map(|words| words.join(" "))
    }

    /// Whether the module did not unload at the end.
    pub fn unload_failed(&self) -> bool {
        self.lines.iter().any(|line| line == "end unload 1")
    }

    /// Whether the guest went through its plan.
    pub fn is_complete(&self) -> bool {
        self.lines.iter().any(|line| line.starts_with("@@end"))
    }

    /// The kernel's taint flags at the end.
    pub fn taint(&self) -> Option<u64> {
        self.of("taint").next_back()?.first()?.parse().ok()
    }

    /// The instrumented module, and what it has counted, as `scripts/coverage-lines` reads it.
    pub fn coverage(&self) -> Option<(&str, &str)> {
        match self.of("coverage").next_back()?[..] {
            [module, counters] => Some((module, counters)),
            _ => None,
        }
    }

    /// The command that runs.
    pub fn current(&self) -> Option<&str> {
        let mut current = None;
        for line in &self.lines {
            let mut words = line.split(' ');
            match words.next() {
                Some("begin") => current = words.next(),
                Some("end") => current = None,
                _ => {}
            }
        }
        current
    }

    /// The kernel's log with levels, from each line `log` on to the end of the plan. There are
    /// several when a kernel gave its log before another one took over.
    pub fn log(&self) -> impl Iterator<Item = &str> {
        let mut inside = false;
        self.lines.iter().map(String::as_str).filter(move |line| {
            inside |= *line == "log";
            let is_log = inside;
            if line.starts_with("@@end") {
                inside = false;
            }
            is_log
        })
    }
}

/// The progress of a guest, by its status port and its output: the current command, and the last
/// line of output.
pub fn at_work(status: &str, output: &str) -> String {
    let status = Status::parse(status);
    let is_said = |line: &String| !line.is_empty() && !line.starts_with("@@ ");
    let lines = output.lines().map(|line| line.replace(['\r', '\0'], ""));
    let line = lines.rev().find(is_said);
    let line: String = line.unwrap_or_default().chars().take(100).collect();
    format!("{}: {line}", status.current().unwrap_or("boot or shutdown"))
}

/// The output of each command, which ends with a line of the mark and its name, and the output
/// behind the last mark, of a command that did not end.
pub fn split_output(output: &str, mark: &str) -> (Vec<(String, String)>, String) {
    let mut commands = Vec::new();
    let mut text = String::new();
    for line in output.lines() {
        let line = line.replace('\r', "");
        let mut words = line.split_whitespace();
        if words.next() == Some("@@") && words.next() == Some(mark) {
            // A line break is before the mark in any case.
            let text = std::mem::take(&mut text);
            let text = text.strip_suffix('\n').unwrap_or(&text);
            commands.push((words.next().unwrap_or_default().into(), text.into()));
        } else {
            text.push_str(&line);
            text.push('\n');
        }
    }
    (commands, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "up 1.5\nbegin a\nend a 0 3\nbegin bb\nended bb 300 420\nend bb 137 425\n\
                        begin c\nload no such device \nend c load 0\nalive\nbegin d\n";

    #[test]
    fn commands_begin_and_end() {
        let status = Status::parse(TEXT);
        assert!(status.began("a") && !status.began("b"));
        assert_eq!(Some(End::Exit(0, 3)), status.end("a"));
        assert_eq!(Some(End::Exit(137, 425)), status.end("bb"));
        assert_eq!(None, status.end("b"));
        assert_eq!(Some(End::NotLoaded), status.end("c"));
        assert_eq!(None, status.end("d"));
        assert_eq!(Some("no such device ".into()), status.load_error());
        let why = "ended: silent for 300 s, 420 s in all";
        assert_eq!(Some(why.into()), status.ended("bb"));
        assert_eq!(None, status.ended("a"));
        assert!(!status.is_complete() && !status.unload_failed());
    }

    #[test]
    fn the_end_of_a_plan() {
        let text = "end unload 1\r\ntaint 12288\nlog\n<6>[ 1.0] x\n@@end\nmore\n";
        let status = Status::parse(text);
        assert!(status.is_complete() && status.unload_failed());
        assert_eq!(Some(0x3000), status.taint());
        assert_eq!(
            vec!["log", "<6>[ 1.0] x", "@@end"],
            Vec::from_iter(status.log())
        );
    }

    #[test]
    fn what_a_guest_is_at() {
        assert_eq!("d: two", at_work(TEXT, "one\n\ntwo\r\n@@ mark c\n\n"));
        assert_eq!("boot or shutdown: ", at_work("begin a\nend a 0 1\n", ""));
        let long = "x".repeat(200);
        assert_eq!(
            format!("a: {}", "x".repeat(100)),
            at_work("begin a\n", &long)
        );
    }

    #[test]
    fn marks_separate_outputs() {
        let output = "one\n\n@@ M a\nno line break\n@@ M b\n@@ other c\nrest";
        let (commands, rest) = split_output(output, "M");
        assert_eq!(("a".into(), "one\n".into()), commands[0]);
        assert_eq!(("b".into(), "no line break".into()), commands[1]);
        assert_eq!("@@ other c\nrest\n", rest);
    }
}
