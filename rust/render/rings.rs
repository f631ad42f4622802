// SPDX-License-Identifier: GPL-2.0
//! The rings of a context: jobs by number, each with its fence.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{aref::ARef, Arc, Mutex},
};

use crate::{
    kern::fence::Fence,
    mem::job_engine::{JobLine, JobWork},
};

/// The jobs whose fences are kept, and the most that are not done: amdgpu's default.
const JOBS: usize = 32;

/// A ring of a context.
#[pin_data]
pub(super) struct ContextRing {
    /// Held while a job is submitted, so that numbers are in the order of jobs.
    #[pin]
    jobs: Mutex<RingJobs>,
    line: Arc<dyn JobLine>,
}

/// The last jobs.
struct RingJobs {
    /// The number of the last job; 0 if there is none.
    last: u64,
    /// Their fences, by the rest of their numbers.
    fences: [Option<ARef<Fence>>; JOBS],
}

impl RingJobs {
    fn place(&mut self, number: u64) -> &mut Option<ARef<Fence>> {
        // The rest is less than the number of places.
        &mut self.fences[(number % JOBS as u64) as usize]
    }
}

/// What becomes of a job that is to be submitted.
pub(super) enum Submitted {
    /// It has this number, and this fence.
    As {
        /// The number.
        number: u64,
        /// The fence.
        fence: ARef<Fence>,
    },
    /// It has to wait for a job before it, whose fence this is.
    After(ARef<Fence>),
}

impl ContextRing {
    /// A ring without jobs, which are to run in `line`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(line: Arc<dyn JobLine>) -> Result<Arc<Self>> {
        let jobs = RingJobs {
            last: 0,
            fences: [const { None }; JOBS],
        };
        Arc::pin_init(
            pin_init!(Self {
                jobs <- new_mutex!(jobs, "ContextRing::jobs"),
                line,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Submits the job that `make` returns for its number, unless too many jobs before it are not
    /// done.
    ///
    /// # Errors
    ///
    /// That of a job that has failed; those of `make`; those of [`JobLine::submit`].
    pub(super) fn submit(&self, make: impl FnOnce(u64) -> Result<JobWork>) -> Result<Submitted> {
        self.check()?;
        let mut jobs = self.jobs.lock();
        let number = jobs.last + 1;
        if let Some(before) = jobs.place(number) {
            if before.status().is_none() {
                return Ok(Submitted::After(before.clone()));
            }
        }
        let fence = self.line.submit(make(number)?)?;
        let before = jobs.place(number).replace(fence.clone());
        jobs.last = number;
        drop(jobs);
        drop(before);
        Ok(Submitted::As { number, fence })
    }

    /// The fence of job `number`, or of the last one for `u64::MAX`; `None` if it was done long
    /// ago, or for the last one of none.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a job that is still to come; that of a job that has failed.
    pub(super) fn fence(&self, number: u64) -> Result<Option<ARef<Fence>>> {
        self.check()?;
        let mut jobs = self.jobs.lock();
        let last = jobs.last;
        let number = if number == u64::MAX { last } else { number };
        if number > last {
            return Err(EINVAL);
        }
        if number + JOBS as u64 <= last {
            return Ok(None);
        }
        Ok(jobs.place(number).clone())
    }

    /// The fence of the last job, if that is not done.
    pub(super) fn busy(&self) -> Option<ARef<Fence>> {
        let mut jobs = self.jobs.lock();
        let last = jobs.last;
        let fence = jobs.place(last).clone();
        fence.filter(|fence| fence.status().is_none())
    }

    /// The error of a job, after which no job is executed any more.
    pub(super) fn error(&self) -> Option<Error> {
        self.line.error()
    }

    /// Lets all jobs fail that are not done.
    pub(super) fn cancel(&self) {
        self.line.cancel();
    }

    fn check(&self) -> Result {
        self.error().map_or(Ok(()), Err)
    }
}
