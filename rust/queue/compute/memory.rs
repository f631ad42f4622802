// SPDX-License-Identifier: GPL-2.0
//! The parts of a compute queue in the memory of its process, held so that they stay mapped as long
//! as the queue exists.

use super::super::pointers::{hold, range, UserWord};
use crate::mem::bo::Bo;
use crate::mem::vm::{HeldMapping, Vm};
use crate::queue::request::PreparedQueue;
use hw::mqd::compute::PacketFormat;
use hw::sdma::ring::RingSize;
use hw::topology::cus::ComputeUnits;
use hw::va::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::{new_spinlock, Arc, SpinLock};

/// A queue's memory.
#[pin_data]
pub(super) struct QueueBuffers {
    format: PacketFormat,
    /// Replaced by UPDATE_QUEUE.
    #[pin]
    ring: SpinLock<RingBuffer>,
    read: UserWord,
    write: UserWord,
    _eop: Option<HeldMapping>,
    /// The save area. `None` in shared virtual memory, which the process may take back at any time:
    /// that damages only its own waves.
    _save: Option<HeldMapping>,
}

/// A ring, which is one whole buffer.
pub(crate) struct RingBuffer {
    held: HeldMapping,
    pub(super) size: RingSize,
}

impl RingBuffer {
    /// Holds the ring at `address`.
    ///
    /// # Errors
    ///
    /// `EFAULT` if the address does not belong to the user; `EINVAL` if it is not one buffer from
    /// start to end.
    pub(super) fn new(vm: &Arc<Vm>, address: u64, size: RingSize) -> Result<Self> {
        let bytes = size.bytes().next_multiple_of(PAGE_SIZE);
        let held = hold(vm, address, bytes)?;
        if held.offset() != 0 || held.bo().size() as u64 != bytes {
            return Err(EINVAL);
        }
        Ok(Self { held, size })
    }
}

/// Holds the save area, unless it is in shared virtual memory.
///
/// # Errors
///
/// As [`QueueBuffers::new`].
fn hold_save(vm: &Arc<Vm>, address: u64, size: u64) -> Result<Option<HeldMapping>> {
    match hold(vm, address, size) {
        Ok(held) if held.is_writable() => Ok(Some(held)),
        Ok(_) => Err(EINVAL),
        Err(EINVAL) if vm.is_shared(range(address, size)?) => Ok(None),
        Err(error) => Err(error),
    }
}

impl QueueBuffers {
    /// Holds the memory that `create` names. The save area must be large enough for the waves of
    /// `cus`.
    ///
    /// # Errors
    ///
    /// `EFAULT` for addresses that do not belong to the user; `EINVAL` for memory that is not
    /// mapped, not aligned or not of the right size, and for a read pointer or a save area that may
    /// not be written.
    pub(super) fn new(
        vm: &Arc<Vm>,
        create: &PreparedQueue,
        format: PacketFormat,
        cus: &ComputeUnits,
    ) -> Result<impl PinInit<Self>> {
        let compute = &create.compute;
        let (asic, sizes) = (cus.asic(), cus.context_save());
        let has_eop = !asic.mqd.is_eop_optional || (compute.eop, compute.eop_size) != (0, 0);
        if has_eop && (compute.eop_size < asic.mqd.eop_bytes || !compute.eop_size.is_power_of_two())
        {
            return Err(EINVAL);
        }
        if compute.control_stack != sizes.control_stack || compute.save_size < sizes.area {
            return Err(EINVAL);
        }
        let ring = RingBuffer::new(vm, create.ring, create.size)?;
        let eop = match has_eop {
            true => Some(hold(vm, compute.eop, compute.eop_size.into())?),
            false => None,
        };
        let save = sizes.total(compute.save_size, asic.gfx.xccs);
        let save = hold_save(vm, compute.save, save.next_multiple_of(PAGE_SIZE))?;
        let read = UserWord::written(vm, create.pins(), create.read_pointer)?;
        let write = UserWord::new(vm, create.pins(), create.write_pointer)?;
        Ok(pin_init!(Self {
            format,
            ring <- new_spinlock!(ring, "QueueBuffers::ring"),
            read,
            write,
            _eop: eop,
            _save: save,
        }))
    }

    /// The format of the packets in the ring.
    pub(super) fn format(&self) -> PacketFormat {
        self.format
    }

    /// Returns the buffer of the ring, and its size.
    pub(super) fn ring(&self) -> (ARef<Bo>, RingSize) {
        let ring = self.ring.lock();
        (ring.held.bo().clone(), ring.size)
    }

    /// Exchanges the ring of a queue that is not on the hardware; `ring` holds the old one
    /// afterwards.
    pub(super) fn swap_ring(&self, ring: &mut RingBuffer) {
        core::mem::swap(&mut *self.ring.lock(), ring);
    }

    /// Read and write pointer as the process sees them: packets for AQL, dwords for PM4, whose read
    /// pointer starts at 0 again with every round of the ring. They may have any value.
    pub(super) fn pointers(&self) -> (u64, u64) {
        let read = self.read.read();
        let write = self.write.read();
        match self.format {
            PacketFormat::Aql => (read, write),
            // The CP reports 32 bits.
            PacketFormat::Pm4 | PacketFormat::Kernel => (u64::from(read as u32), write),
        }
    }

    /// Whether the pointers show packets that were not read. An odd value may look like one; the CP
    /// checks by itself.
    pub(super) fn has_work(&self) -> bool {
        let (read, write) = self.pointers();
        match self.format {
            PacketFormat::Aql => read != write,
            PacketFormat::Pm4 | PacketFormat::Kernel => {
                !self.ring.lock().size.is_same_dword(read, write)
            }
        }
    }
}
