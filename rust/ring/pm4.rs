// SPDX-License-Identifier: GPL-2.0
//! A PM4 ring of the driver itself: that of KIQ of an XCC, or of HIQ, which all XCCs read.

use core::hint::spin_loop;

use crate::kern::doorbell_map::DoorbellMap;
use crate::kern::pages::SystemPages;
use crate::mem::gart::GartBuffer;
use crate::mem::GpuMemory;
use hw::doorbell::{Doorbell, SliceIndex};
use hw::kernel_queue::KernelQueue;
use hw::mqd::compute::{ComputeMqd, ComputeMqdConfig, MqdInfo, PacketFormat, XccShare};
use hw::mqd::hqd::HqdImage;
use hw::pm4::schedule::{self, HqdSelect};
use hw::queue::{HqdLocation, QueuePriority};
use hw::sdma::ring::RingSize;
use hw::va::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::delay::fsleep;
use kernel::time::{Delta, Instant, Monotonic};

/// Bytes of the ring. A submitter waits for a fence at least once a ring, see [`Pm4Ring::submit`].
const RING_BYTES: u64 = PAGE_SIZE;
/// Where the end-of-pipe buffer is, behind the ring.
const EOP: u64 = RING_BYTES;
/// Where the CP writes its read pointer.
const RPTR: u64 = EOP + PAGE_SIZE;
/// Where the write pointer is kept for the CP.
const WPTR: u64 = RPTR + 64;
/// Where fences are written.
const FENCE: u64 = RPTR + 128;
/// Where the descriptors are, one of each XCC that reads the ring, and bytes of each.
const MQD: u64 = RPTR + PAGE_SIZE;
const STRIDE: u64 = PAGE_SIZE;

/// How long a fence is looked at without a pause, microseconds: the CP answers most packets within
/// this, and a sleep takes longer.
const POLL_US: i64 = 20;
/// The pauses between polls after that, microseconds: the first and the longest.
const PAUSE_US: (i64, i64) = (20, 1000);

/// Writes a descriptor of the ring to its place in `memory`. Not inlined: it is two KiB, which
/// [`Pm4Ring::new`] would have on its stack while it binds the memory.
#[inline(never)]
fn write_descriptor(
    memory: &GartBuffer,
    at: u64,
    info: &MqdInfo,
    config: &ComputeMqdConfig,
) -> Result {
    let mut mqd = ComputeMqd::zeroed();
    mqd.set(info, config);
    memory.write32s(at, mqd.dwords())
}

/// The ring with its descriptor, pointers and fence.
pub(crate) struct Pm4Ring {
    hqd: HqdLocation,
    /// How many XCCs read it.
    readers: u32,
    /// Where HIQ's descriptors name queues that have not left: in the first one.
    abandoned: u64,
    size: RingSize,
    doorbell: Doorbell,
    /// How far the ring is written, bytes; never wraps.
    written: u64,
    /// The last number given to a fence.
    fence: u64,
    memory: GartBuffer,
    doorbells: Arc<DoorbellMap>,
}

impl Pm4Ring {
    /// An empty ring, which nothing reads yet: KIQ's of XCC `xcc`, or HIQ's.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENOSPC` without room in the GART.
    pub(crate) fn new(gpu: &GpuMemory, which: KernelQueue, xcc: u8) -> Result<Self> {
        let size = RingSize::new(RING_BYTES).map_err(|_| EINVAL)?;
        let asic = gpu.hw.asic;
        let slot = which.doorbell(&asic.doorbells, xcc).ok_or(ENODEV)?;
        let readers = match which {
            KernelQueue::Kiq => 1,
            KernelQueue::Hiq => asic.gfx.xccs,
        };
        let doorbell = SliceIndex::KERNEL.doorbell(slot);
        let pages = SystemPages::alloc(&gpu.hw.dev, (MQD + STRIDE * u64::from(readers)) as usize)?;
        let memory = gpu.gart.bind(pages)?;
        let base = memory.mc_addr();
        let mut config = ComputeMqdConfig {
            mqd_address: base + MQD,
            ring_base: base,
            ring_size: size,
            read_pointer: base + RPTR,
            write_pointer: base + WPTR,
            eop_base: base + EOP,
            eop_bytes: PAGE_SIZE as u32,
            doorbell,
            vmid: 0,
            format: PacketFormat::Kernel,
            priority: QueuePriority::NORMAL,
            context_save: None,
            share: XccShare {
                count: readers,
                stride: STRIDE as u32,
                ..XccShare::ALONE
            },
        };
        for place in 0..readers {
            let at = MQD + STRIDE * u64::from(place);
            config.share.place = place;
            config.mqd_address = base + at;
            write_descriptor(&memory, at, &asic.mqd, &config)?;
        }
        Ok(Self {
            hqd: which.location(&asic.mec),
            readers,
            abandoned: MQD + asic.mqd.abandoned_byte(),
            size,
            doorbell,
            written: 0,
            fence: 0,
            memory,
            doorbells: gpu.hw.doorbells.clone(),
        })
    }

    /// The image that the HQD of its first reader is loaded with.
    pub(crate) fn image(&self) -> Result<HqdImage> {
        let mut dwords = [0; hw::mqd::hqd::DWORDS];
        let byte = MQD + hw::mqd::compute::HQD.start as u64 * 4;
        self.memory.read32s(byte, &mut dwords)?;
        Ok(HqdImage::new(dwords))
    }

    /// Clears the state of [`Pm4Ring::has_abandoned`] before the next packet that makes queues
    /// leave.
    pub(crate) fn clear_abandoned(&self) -> Result {
        self.each_abandoned()
            .try_for_each(|at| self.memory.write32s(at, &[0]))
    }

    /// Whether the firmware has given up waiting for a queue that a packet of this ring had leave:
    /// it writes the fence as if the queue had left.
    pub(crate) fn has_abandoned(&self) -> bool {
        self.each_abandoned().any(|at| {
            let mut doorbell = [0];
            // Memory of a device that is gone names no queue.
            self.memory.read32s(at, &mut doorbell).is_ok() && doorbell != [0]
        })
    }

    /// Where each of its readers names such a queue.
    fn each_abandoned(&self) -> impl Iterator<Item = u64> {
        let first = self.abandoned;
        (0..u64::from(self.readers)).map(move |place| first + STRIDE * place)
    }

    /// The parameters with which KIQ of the XCC at `place` maps it.
    pub(crate) fn map(&self, place: u32) -> schedule::MapQueue {
        let base = self.memory.mc_addr();
        schedule::MapQueue {
            place: HqdSelect::Hiq {
                me: self.hqd.me,
                pipe: self.hqd.pipe,
                queue: self.hqd.queue,
            },
            doorbell: self.doorbell,
            mqd: base + MQD + STRIDE * u64::from(place),
            write_pointer: base + WPTR,
        }
    }

    /// Its doorbell.
    pub(crate) fn doorbell(&self) -> Doorbell {
        self.doorbell
    }

    /// Address and number of the next fence, for a packet that the caller submits next.
    pub(crate) fn next_fence(&mut self) -> (u64, u64) {
        self.fence += 1;
        (self.memory.mc_addr() + FENCE, self.fence)
    }

    /// Puts `packets` into the ring and rings the doorbell. The caller puts no more than half a
    /// ring in between two fences that it waits for, so there is always room.
    ///
    /// # Errors
    ///
    /// `ENODEV` when the device is gone.
    pub(crate) fn submit(&mut self, packets: &[&[u32]]) -> Result {
        let mut at = self.written;
        for packet in packets {
            let bytes = packet.len() as u64 * 4;
            let split = self.size.split(at, bytes).ok_or(EINVAL)?;
            let (first, second) = packet.split_at(split.first.dwords);
            self.memory.write32s(split.first.start as u64 * 4, first)?;
            self.memory.write32s(0, second)?;
            at += bytes;
        }
        self.written = at;
        let dwords = at / 4;
        self.memory.write64(WPTR, dwords)?;
        self.doorbells.ring(self.doorbell.byte() as u32, dwords);
        Ok(())
    }

    /// Whether the last fence has been written.
    fn is_done(&self) -> bool {
        // Memory of a device that is gone has no reader.
        self.memory
            .read64(FENCE)
            .map_or(true, |value| value == self.fence)
    }

    /// Whether the last fence has been written, or is within [`POLL_US`]. Does not sleep.
    pub(crate) fn is_done_soon(&self) -> bool {
        let start = Instant::<Monotonic>::now();
        while !self.is_done() {
            if start.elapsed().as_micros_ceil() >= POLL_US {
                return self.is_done();
            }
            spin_loop();
        }
        true
    }

    /// Waits for the last fence. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` after `ms` milliseconds.
    pub(crate) fn wait(&self, ms: i64) -> Result {
        self.wait_and(ms, &mut || true)
    }

    /// As [`Pm4Ring::wait`], but also until `more` is true.
    pub(crate) fn wait_and(&self, ms: i64, more: &mut dyn FnMut() -> bool) -> Result {
        let start = Instant::<Monotonic>::now();
        let mut pause = PAUSE_US.0;
        loop {
            // Looked at after the clock: a late waiter still finds a fence that was written in
            // time.
            let waited = start.elapsed();
            if self.is_done() && more() {
                return Ok(());
            }
            if waited.as_millis() >= ms {
                return Err(ETIMEDOUT);
            }
            if waited.as_micros_ceil() < POLL_US {
                spin_loop();
                continue;
            }
            fsleep(Delta::from_micros(pause));
            pause = (pause * 2).min(PAUSE_US.1);
        }
    }
}
