// SPDX-License-Identifier: GPL-2.0
//! A user queue as an engine sees it: what is loaded into an RLC slot.

use super::direct::DirectQueue;
use super::feed::RingFeed;
use super::follow::FollowedQueue;
use super::job_feed::JobFeed;
use super::ring_memory::RingMemory;
use crate::ip::sdma::Sdma;
use crate::ip::vmid::Vmid;
use crate::ledger::LedgerHold;
use crate::mem::vm::Vm;
use crate::queue::doorbell::SCHEDULED_SLICE;
use crate::queue::gpu::QueueGpu;
use crate::queue::quota::CountedQueue;
use crate::queue::request::QueueOwner;
use crate::queue::resources::QueueResources;
use hw::doorbell::{Doorbell, SliceIndex};
use hw::mqd::sdma::{RlcQueueImage, SdmaMqd, SdmaMqdConfig};
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Release};
use kernel::sync::{Arc, SetOnce};

/// A user queue of SDMA. A reference to it keeps its memory mapped.
pub(super) struct SdmaHwQueue {
    pub(super) owner: QueueOwner,
    pub(super) engine: u8,
    pub(super) source: PacketSource,
    /// Which of the doorbells that its engine has for a process is the queue's, if the process
    /// rings the hardware's. Set once the engine knows the queue.
    own_doorbell: SetOnce<u8>,
    /// The process wants it to run.
    active: Atomic<bool>,
    /// Its group is quiesced.
    quiesced: Atomic<bool>,
    /// The debugger of its process keeps it off its engine.
    suspended: Atomic<bool>,
    /// It has failed, or is about to go.
    failed: Atomic<bool>,
    resources: Arc<QueueResources>,
    vm: Arc<Vm>,
    pub(super) gpu: Arc<QueueGpu>,
    _hold: LedgerHold,
    _counted: CountedQueue,
    // Last: everything above is released by then.
    gone: DropNotice,
}

/// A notice of its own drop.
struct DropNotice(Arc<Atomic<bool>>);

impl Drop for DropNotice {
    fn drop(&mut self) {
        self.0.store(true, Release);
    }
}

/// The source of the packets that the engine executes.
pub(super) enum PacketSource {
    /// The process's ring itself.
    Direct(DirectQueue),
    /// The same, with jobs made after the fact.
    Followed(Pin<KBox<FollowedQueue>>),
    /// A ring of the kernel's, fed by jobs.
    Feed(Arc<RingFeed>),
    /// The same, whose jobs a client of the render node submits.
    Jobs(Arc<JobFeed>),
}

impl SdmaHwQueue {
    /// Returns a queue that no engine knows yet, inactive, of the process that
    /// has `resources` and has `counted` it as one of SDMA.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(
        gpu: &Arc<QueueGpu>,
        owner: QueueOwner,
        engine: u8,
        source: PacketSource,
        vm: &Arc<Vm>,
        resources: &Arc<QueueResources>,
        counted: CountedQueue,
    ) -> Result<Arc<Self>> {
        let hold = gpu.hw.ledger.hold(crate::ledger::LedgerKind::Queues, 1);
        let gone = DropNotice(Arc::new(Atomic::new(false), GFP_KERNEL_ACCOUNT)?);
        let rlc = Arc::new(
            Self {
                owner,
                engine,
                source,
                own_doorbell: SetOnce::new(),
                active: Atomic::new(false),
                quiesced: Atomic::new(false),
                suspended: Atomic::new(false),
                failed: Atomic::new(false),
                resources: resources.clone(),
                vm: vm.clone(),
                gpu: gpu.clone(),
                _hold: hold,
                _counted: counted,
                gone,
            },
            GFP_KERNEL_ACCOUNT,
        )?;
        Ok(rlc)
    }

    /// Returns a flag that becomes true when the last reference is gone and the queue's memory may
    /// be unmapped.
    pub(super) fn drop_notice(&self) -> Arc<Atomic<bool>> {
        self.gone.0.clone()
    }

    /// Returns the address space that it runs in.
    pub(super) fn vm(&self) -> &Arc<Vm> {
        &self.vm
    }

    /// Returns the followed queue that it is, if it is one.
    pub(super) fn followed(&self) -> Option<&FollowedQueue> {
        match &self.source {
            PacketSource::Followed(followed) => Some(followed),
            PacketSource::Direct(_) | PacketSource::Feed(_) | PacketSource::Jobs(_) => None,
        }
    }

    /// Returns whether it may be loaded.
    pub(super) fn is_runnable(&self) -> bool {
        self.active.load(Acquire)
            && !self.quiesced.load(Acquire)
            && !self.suspended.load(Acquire)
            && !self.has_failed()
    }

    /// Returns whether it has failed, for good.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Acquire)
    }

    /// Sets whether the process wants it to run, and returns the value before. The caller notifies
    /// the engine.
    pub(super) fn set_active(&self, on: bool) -> bool {
        self.active.xchg(on, Full)
    }

    /// Returns whether there are packets for an engine. `out` says that no engine has the queue:
    /// its position is known then. Else the process's memory tells.
    pub(super) fn has_work(&self, out: bool) -> bool {
        match &self.source {
            PacketSource::Direct(direct) => direct.has_work(out),
            PacketSource::Followed(followed) => followed.direct.has_work(out),
            PacketSource::Feed(feed) => feed.is_loaded(),
            PacketSource::Jobs(jobs) => jobs.is_loaded(),
        }
    }

    /// Returns whether jobs of it are in the hardware's ring whose ends were not seen.
    pub(super) fn has_jobs(&self) -> bool {
        match &self.source {
            PacketSource::Direct(_) => false,
            PacketSource::Followed(followed) => followed.has_jobs(),
            PacketSource::Feed(feed) => feed.is_loaded(),
            PacketSource::Jobs(jobs) => jobs.is_loaded(),
        }
    }

    /// Returns whether its process rings the hardware's doorbell, which finds the queue in any slot
    /// of its engine, and nothing while it is in none.
    pub(super) fn has_own_doorbell(&self) -> bool {
        !matches!(self.source, PacketSource::Feed(_) | PacketSource::Jobs(_))
    }

    /// Returns which of the engine's doorbells for its process is its own, if it has one.
    pub(super) fn own_doorbell(&self) -> Option<u8> {
        self.own_doorbell.copy()
    }

    /// Gives it doorbell `number` of those that its engine has for its process. The first one
    /// stays.
    pub(super) fn set_own_doorbell(&self, number: u8) {
        self.own_doorbell.populate(number);
    }

    /// Returns whether it gets work that the driver never hears of.
    pub(super) fn is_direct(&self) -> bool {
        matches!(self.source, PacketSource::Direct(_))
    }

    /// Returns the hardware doorbell that the queue listens to in RLC slot `queue` of the engine:
    /// the process's, or the kernel's for that slot. Any context.
    pub(super) fn doorbell(&self, queue: u8) -> Result<Doorbell> {
        let (slice, number) = match &self.source {
            // Leased when the queue was made.
            PacketSource::Direct(_) | PacketSource::Followed(_) => (
                self.resources.doorbells.leased_index()?,
                self.own_doorbell().ok_or(EINVAL)?,
            ),
            PacketSource::Feed(_) | PacketSource::Jobs(_) => {
                let bar = self.gpu.hw.doorbells.size();
                (SliceIndex::new(SCHEDULED_SLICE, bar).ok_or(ENODEV)?, queue)
            }
        };
        let layout = &self.gpu.hw.asic.doorbells;
        let slot = layout.sdma(self.engine, number).ok_or(EINVAL)?;
        Ok(slice.doorbell(slot))
    }

    /// Returns its engine's hardware.
    pub(super) fn sdma(&self) -> &Sdma {
        &self.gpu.hw.sdma[usize::from(self.engine)]
    }

    /// Returns the image that RLC slot `queue` is loaded with, for the VM's VMID, and the read
    /// pointer to go on from.
    pub(super) fn image(&self, queue: u8, vmid: Vmid) -> Result<(RlcQueueImage, u64)> {
        let of_own = |direct: &DirectQueue| {
            (
                direct.pointers.ring_address(),
                direct.pointers.size(),
                direct.pointers.read_address(),
                direct.position(),
            )
        };
        let of_ring = |ring: &RingMemory, position| {
            (
                ring.ring_address(),
                ring.size,
                ring.read_address(),
                position,
            )
        };
        let (ring_base, ring_size, read_pointer, (rptr, _)) = match &self.source {
            PacketSource::Direct(direct) => of_own(direct),
            PacketSource::Followed(followed) => of_own(&followed.direct),
            PacketSource::Feed(feed) => of_ring(feed.memory(), feed.position()),
            PacketSource::Jobs(jobs) => of_ring(jobs.memory(), jobs.position()),
        };
        let mqd = SdmaMqd::new(&SdmaMqdConfig {
            ring_base,
            ring_size,
            read_pointer,
            doorbell: self.doorbell(queue)?,
            vmid: vmid.get(),
            engine: self.engine,
            queue,
        });
        Ok((mqd.rlc(), rptr))
    }

    /// Returns the byte count of the process's ring that the hardware has come to, when it last
    /// gave the queue up.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a queue that is not a process's.
    pub(super) fn saved_position(&self) -> Result<u64> {
        match &self.source {
            PacketSource::Direct(direct) => Ok(direct.position().0),
            PacketSource::Followed(followed) => Ok(followed.direct.position().0),
            PacketSource::Feed(feed) => Ok(feed.saved_position()),
            PacketSource::Jobs(_) => Err(EINVAL),
        }
    }

    /// Returns the position up to which the hardware's ring is to be executed.
    pub(super) fn target(&self) -> u64 {
        match &self.source {
            PacketSource::Direct(direct) => direct.position().1,
            PacketSource::Followed(followed) => followed.direct.position().1,
            PacketSource::Feed(feed) => feed.position().1,
            PacketSource::Jobs(jobs) => jobs.position().1,
        }
    }

    /// Returns the turn of its engine at which its process was last given a slot there.
    pub(super) fn served(&self) -> u64 {
        self.resources.served(self.engine)
    }

    /// Notes that its process is given a slot at this turn.
    pub(super) fn set_served(&self, turn: u64) {
        self.resources.set_served(self.engine, turn);
    }

    /// Notes that the hardware has got the queue.
    pub(super) fn enter(&self) {
        match &self.source {
            PacketSource::Direct(_) => {}
            PacketSource::Followed(followed) => followed.enter(),
            PacketSource::Feed(feed) => feed.enter(),
            PacketSource::Jobs(jobs) => jobs.enter(),
        }
    }

    /// Notes that the hardware has given the queue up at `rptr`. Called with the engine's spinlock.
    pub(super) fn save(&self, rptr: u64) {
        match &self.source {
            PacketSource::Direct(direct) => direct.save(rptr),
            PacketSource::Followed(followed) => followed.save(rptr),
            PacketSource::Feed(feed) => feed.save(rptr),
            PacketSource::Jobs(jobs) => jobs.save(rptr),
        }
    }

    /// Ends the jobs that are done, and has the pump look for more if these came before the
    /// hardware got the packets. Allocates nothing.
    pub(super) fn check(&self) {
        match &self.source {
            PacketSource::Direct(_) => {}
            PacketSource::Followed(followed) => {
                followed.check((self.owner.pid, self.owner.queue));
            }
            PacketSource::Feed(feed) => {
                if feed.check() {
                    self.kick();
                }
            }
            PacketSource::Jobs(jobs) => jobs.check(),
        }
    }

    /// Has the pump of a followed queue that has left its slot take the page of doorbells away: the
    /// next store is to be noticed at once. Any context.
    pub(super) fn has_left(&self) {
        let pump = self.resources.pump.as_ref();
        if let Some(pump) = pump.filter(|_| self.followed().is_some()) {
            pump.has_left();
        }
    }

    /// Has the pump, if there is one, look for packets. Any context.
    pub(super) fn kick(&self) {
        if let Some(pump) = &self.resources.pump {
            pump.kick();
        }
    }

    /// Returns the process's resources.
    pub(super) fn resources(&self) -> &QueueResources {
        &self.resources
    }

    /// Stops the queue for good: its jobs fail. The caller notifies the engine.
    pub(super) fn fail(&self, error: Error) {
        self.failed.store(true, Release);
        match &self.source {
            PacketSource::Direct(_) => {}
            PacketSource::Followed(followed) => followed.fail(error),
            PacketSource::Feed(feed) => feed.fail(error),
            PacketSource::Jobs(jobs) => jobs.fail(error),
        }
    }

    /// Sets whether its group is quiesced. The caller notifies the engine.
    pub(super) fn set_quiesced(&self, quiesced: bool) {
        self.quiesced.store(quiesced, Release);
    }

    /// Returns whether its group is quiesced.
    pub(super) fn is_quiesced(&self) -> bool {
        self.quiesced.load(Acquire)
    }

    /// Sets whether its debugger keeps it off its engine. The caller notifies the engine.
    pub(super) fn set_suspended(&self, suspended: bool) {
        self.suspended.store(suspended, Release);
    }

    /// Returns whether it has something to do, as far as memory tells, and its process wants it to
    /// run.
    pub(super) fn wants_to_run(&self) -> bool {
        let more = || match &self.source {
            PacketSource::Direct(direct) => direct.has_work(false),
            PacketSource::Followed(followed) => followed.direct.has_work(false),
            PacketSource::Feed(feed) => feed.wants_to_run(),
            PacketSource::Jobs(jobs) => jobs.is_loaded(),
        };
        self.active.load(Acquire) && !self.has_failed() && more()
    }
}
