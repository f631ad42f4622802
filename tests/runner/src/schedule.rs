// SPDX-License-Identifier: GPL-2.0
//! Jobs that run some at a time. While one waits, another may use the processors: most tests are of
//! one thread, and many sleep.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::thread;

use crate::report::Report;
use crate::tally::Counts;

/// A job, with its name.
pub struct Job<'a> {
    name: String,
    after: Option<String>,
    run: Box<dyn FnOnce() -> Report + Send + 'a>,
}

impl<'a> Job<'a> {
    pub fn new(name: &str, run: impl FnOnce() -> Report + Send + 'a) -> Self {
        Self {
            name: name.into(),
            after: None,
            run: Box::new(run),
        }
    }

    /// The job begins when the one of this name, which stands before it, has ended. It fails
    /// without a run if that has failed.
    pub fn after(mut self, name: &str) -> Self {
        self.after = Some(name.into());
        self
    }

    fn run(self) -> Report {
        let run = std::panic::AssertUnwindSafe(self.run);
        std::panic::catch_unwind(run).unwrap_or_else(|_| failed(&self.name, "the job panicked"))
    }
}

fn failed(name: &str, why: &str) -> Report {
    let mut report = Report::default();
    report.tally(name, Counts::FAILED, 0, &[why.into()]);
    report
}

/// Runs jobs, so many at a time, and passes the report of each on when it has ended. The next one
/// is always the first that may begin.
pub fn run(mut jobs: Vec<Job<'_>>, at_once: usize, mut ended: impl FnMut(Report)) {
    let mut has_failed = BTreeMap::new();
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let mut running = 0;
        loop {
            let may_begin = |job: &Job<'_>| match &job.after {
                Some(before) => has_failed.contains_key(before),
                None => true,
            };
            let next = jobs.iter().position(may_begin);
            if let Some(next) = next.filter(|_| running < at_once) {
                let mut job = jobs.remove(next);
                if let Some(before) = job.after.take().filter(|before| has_failed[before]) {
                    let report = failed(&job.name, &format!("{before} failed"));
                    job.run = Box::new(|| report);
                }
                let sender = sender.clone();
                running += 1;
                scope.spawn(move || {
                    let name = job.name.clone();
                    // It is received below in any case.
                    let _ = sender.send((name, job.run()));
                });
            } else if running > 0 {
                let (name, report) = receiver.recv().expect("a job runs");
                running -= 1;
                has_failed.insert(name, report.has_failures());
                ended(report);
            } else {
                break;
            }
        }
    });
    assert!(jobs.is_empty(), "a job comes after one that there is not");
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Barrier, Mutex};

    use super::*;

    #[test]
    fn so_many_and_never_more() {
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        // None passes before three have come.
        let three = Barrier::new(3);
        let jobs = (0..9).map(|_| {
            Job::new("job", || {
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                three.wait();
                running.fetch_sub(1, Ordering::SeqCst);
                Report::default()
            })
        });
        let mut ended = 0;
        run(jobs.collect(), 3, |_| ended += 1);
        assert_eq!((9, 3), (ended, most.into_inner()));
    }

    #[test]
    fn what_comes_after_another_waits_for_it_alone() {
        let order = Mutex::new(Vec::new());
        let job = |name: &'static str| {
            let order = &order;
            Job::new(name, move || {
                order.lock().unwrap().push(name);
                Report::default()
            })
        };
        // It ends when another one has come that it stands before.
        let free = Barrier::new(2);
        let builder = Job::new("builder", || {
            free.wait();
            job("builder").run()
        });
        let other = Job::new("other", || {
            let report = job("other").run();
            free.wait();
            report
        });
        run(
            vec![builder, job("user").after("builder"), other],
            2,
            |_| (),
        );
        assert_eq!(
            vec!["other", "builder", "user"],
            order.into_inner().unwrap()
        );
    }

    #[test]
    fn what_comes_after_a_failed_job_has_failed() {
        let mut report = Report::default();
        let jobs = vec![
            Job::new("bad", || panic!("on purpose")),
            Job::new("vain", || unreachable!("it must not run")).after("bad"),
            Job::new("last", || unreachable!("it must not run")).after("vain"),
        ];
        run(jobs, 2, |job| _ = report.absorb(job));
        assert!(report.summary().contains("vain: 1 failed: bad failed\n"));
        assert!(report.summary().contains("last: 1 failed: vain failed\n"));
    }

    #[test]
    fn a_job_that_panics_has_failed() {
        let mut report = Report::default();
        let job = Job::new("bad", || panic!("on purpose"));
        run(vec![job], 2, |job| _ = report.absorb(job));
        assert!(report.summary().starts_with("bad: 1 failed: "));
    }
}
