// SPDX-License-Identifier: GPL-2.0
//! Jobs that run some at a time. While one waits, another may use the processors: most tests are of
//! one thread, and many sleep.

use std::sync::mpsc;
use std::thread;

use crate::report::Report;
use crate::tally::Counts;

/// A job, with its name.
pub struct Job<'a> {
    name: String,
    run: Box<dyn FnOnce() -> Report + Send + 'a>,
}

impl<'a> Job<'a> {
    pub fn new(name: &str, run: impl FnOnce() -> Report + Send + 'a) -> Self {
        Self {
            name: name.into(),
            run: Box::new(run),
        }
    }
}

/// Runs jobs in their order, so many at a time, and passes the report of each on when it has ended.
pub fn run(jobs: Vec<Job<'_>>, at_once: usize, mut ended: impl FnMut(Report)) {
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let mut running = 0;
        for Job { name, run } in jobs {
            if running == at_once {
                ended(receiver.recv().expect("a job runs"));
                running -= 1;
            }
            let sender = sender.clone();
            running += 1;
            scope.spawn(move || {
                let run = std::panic::AssertUnwindSafe(run);
                let report = std::panic::catch_unwind(run).unwrap_or_else(|_| {
                    let mut report = Report::default();
                    let why = "the job panicked".into();
                    report.tally(&name, Counts::FAILED, 0, &[why]);
                    report
                });
                // It is received below in any case.
                let _ = sender.send(report);
            });
        }
        drop(sender);
        for report in receiver {
            ended(report);
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::Barrier;

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
    fn a_job_that_panics_has_failed() {
        let mut report = Report::default();
        let job = Job::new("bad", || panic!("on purpose"));
        run(vec![job], 2, |job| _ = report.absorb(job));
        assert!(report.summary().starts_with("bad: 1 failed: "));
    }
}
