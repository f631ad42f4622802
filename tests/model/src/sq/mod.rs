// SPDX-License-Identifier: GPL-2.0
//! The shader engines: dispatches, and the threads that execute their groups.
//!
//! What a driver's author has to know of it:
//!
//! - *A dispatch* has all its groups before it is over; one queue has one at a time. Groups of different queues
//!   take turns on each worker thread, and a group that began goes on to be scheduled.
//! - *Placement*: groups go round the CUs that the masks in the queue's MQD leave (dwords 23, 24, 26, 27, 39 to 42;
//!   13 CUs of 8 engines); HW_ID says which. How much of a CU is taken is not looked at.
//! - *Memory faults* are the hub's, with CID 8 (vector), 9 (instructions) or 10 (scalar data). After its first fault
//!   a dispatch launches no further groups and is never completed: the queue halts with HQD_ERROR.TC_UTCL1_ERROR
//!   when the waves that run have ended.
//! - *What a wave cannot do* (an unknown encoding, LDS beyond its group's) ends the run with a message.
//! - *There are no trap handlers and no saved waves yet*: TRAP_EN is 0, and a queue with waves leaves when these
//!   have ended, or at once when they are killed (dequeue request 2, a reset, ACTIVE = 0).

pub mod grid;
mod host;
pub mod pool;

pub use grid::Grid;
pub use pool::Pool;
