// SPDX-License-Identifier: GPL-2.0
//! User queues of SDMA: direct ones, which the process's own doorbells ring; followed ones, which
//! are the same, and of whose packets a pump makes jobs after the fact; and scheduled ones, which a
//! pump feeds with jobs. Lines of jobs of the render node are queues too.

mod direct;
pub(super) mod feed;
mod follow;
mod followed;
pub(super) mod hw_queue;
mod job_feed;
pub(super) mod job_line;
mod member;
pub(super) mod pump;
mod queue_time;
pub(super) mod ring_memory;
pub(super) mod scheduled;
pub(crate) mod slots;
mod submit;
pub(super) mod suspect;
pub(super) mod user;
