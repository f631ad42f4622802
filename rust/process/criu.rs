// SPDX-License-Identifier: GPL-2.0
//! A process that is saved (`AMDKFD_IOC_CRIU_OP`): its queues are kept off the hardware meanwhile,
//! and what it has is written in the form of [`hw::criu`].

mod restore;

use hw::criu::{
    seal, BufferRecord, DeviceRecord, EventPageRecord, EventRecord, PayloadRecord, ProcessRecord,
    QueueRecord, RangeRecord, Record, RecordCounts, RuntimeRecord, HEADER, SEAL,
};
use hw::topology::gpu_id::GpuId;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;

use super::context::GpuContext;
use super::events::{EventPayload, SavedEventPage};
use super::exceptions::RuntimeState;
use super::memory::ListedBuffer;
use super::Process;
use crate::kern::uapi::alloc_flag as flag;
use crate::mem::bo::Bo;
use crate::mem::queue_group::{EvictTrigger, PauseGuard};
use restore::PendingRestore;
pub(crate) use restore::{LateParts, SavedRange};

/// Why the queues of a process are kept off the hardware.
pub(super) enum ProcessPause {
    /// They are not, for any of these reasons.
    None,
    /// The process is being saved.
    Checkpoint {
        /// Keep them off.
        _guards: KVec<PauseGuard>,
    },
    /// The process is being restored.
    Restore(PendingRestore),
}

/// A buffer of a process that is saved, for the code that copies its contents.
pub(crate) struct SavedBuffer {
    /// Its GPU.
    pub(crate) gpu: GpuId,
    /// Its address for GPUs, 0 if it has none.
    pub(crate) address: u64,
    /// Bytes.
    pub(crate) size: u64,
    /// The flags of ALLOC_MEMORY_OF_GPU.
    pub(crate) flags: u32,
    /// The offset for mapping it.
    pub(crate) offset: u64,
    /// The buffer, if it has contents that are not memory of the process.
    pub(crate) contents: Option<ARef<Bo>>,
}

/// What a process has.
pub(crate) struct Snapshot {
    /// The private data.
    pub(crate) words: KVVec<u32>,
    /// The number of objects in them.
    pub(crate) counts: RecordCounts,
    /// The buffers, in their order.
    pub(crate) buffers: KVVec<SavedBuffer>,
}

impl Snapshot {
    fn new() -> Result<Self> {
        let mut words = KVVec::new();
        words.extend_from_slice(&HEADER, GFP_KERNEL_ACCOUNT)?;
        Ok(Self {
            words,
            counts: RecordCounts::default(),
            buffers: KVVec::new(),
        })
    }

    fn add(&mut self, record: &Record<'_>) -> Result {
        self.counts.add(record);
        record.write(&mut |dwords: &[u32]| {
            Ok(self.words.extend_from_slice(dwords, GFP_KERNEL_ACCOUNT)?)
        })
    }

    fn finish(mut self) -> Result<Self> {
        self.words.extend_from_slice(&SEAL, GFP_KERNEL_ACCOUNT)?;
        seal(&mut self.words).map_err(|_| EINVAL)?;
        Ok(self)
    }
}

/// The GPUs of a process that is saved, which records name by their places.
struct SavedGpus<'a>(&'a [GpuId]);

impl SavedGpus<'_> {
    /// The place of GPU `id`.
    ///
    /// # Errors
    ///
    /// `ENODEV` if it is none of them.
    fn place(&self, id: GpuId) -> Result<u8> {
        let place = self.0.iter().position(|&gpu| gpu == id).ok_or(ENODEV)?;
        Ok(u8::try_from(place)?)
    }

    /// What a waiter learns of an event.
    fn payload(&self, payload: EventPayload) -> Result<PayloadRecord> {
        Ok(match payload {
            EventPayload::Nothing | EventPayload::Age(_) => PayloadRecord::Nothing,
            EventPayload::Memory(fault) => {
                let reasons = [fault.not_present, fault.read_only, fault.no_execute];
                let bits = (0..).zip(reasons);
                let bits = bits.fold(0, |bits, (n, reason)| bits | u8::from(reason) << n);
                PayloadRecord::Memory(self.place(fault.gpu)?, fault.address, bits)
            }
            EventPayload::Stopped(gpu) => PayloadRecord::Stopped(self.place(gpu)?),
            EventPayload::Reset(gpu) => PayloadRecord::Reset(self.place(gpu)?),
        })
    }
}

impl Process {
    /// Keeps the process's queues off the hardware from now on, to save it. Returns whether they
    /// were not before.
    ///
    /// # Errors
    ///
    /// `EINVAL` while it is being restored; `EINTR` when the caller is killed; `ENOMEM`.
    pub(crate) fn pause(&self) -> Result<bool> {
        let mut pause = self.pause.lock_killable()?;
        match &*pause {
            ProcessPause::Checkpoint { .. } => return Ok(false),
            ProcessPause::Restore(_) => return Err(EINVAL),
            ProcessPause::None => (),
        }
        *pause = ProcessPause::Checkpoint {
            _guards: self.pause_all(EvictTrigger::Checkpoint)?,
        };
        Ok(true)
    }

    /// Takes the queues off the hardware, as long as the result exists.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn pause_all(&self, why: EvictTrigger) -> Result<KVec<PauseGuard>> {
        let (mut guards, mut result) = (KVec::new(), Ok(()));
        self.for_each_context(|context| {
            if let (Ok(vm), Ok(())) = (context.vm(), result) {
                let guard = vm.group().pause(why);
                result = guards.push(guard, GFP_KERNEL_ACCOUNT).map_err(Error::from);
            }
        });
        result.map(|()| guards)
    }

    /// Ends [`Process::pause`].
    ///
    /// # Errors
    ///
    /// `EINVAL` without it; `EINTR` when the caller is killed.
    pub(crate) fn unpause(&self) -> Result {
        let mut pause = self.pause.lock_killable()?;
        match &*pause {
            ProcessPause::Checkpoint { .. } => *pause = ProcessPause::None,
            ProcessPause::None | ProcessPause::Restore(_) => return Err(EINVAL),
        }
        Ok(())
    }

    /// All that the process has on `gpus`, which are all that it may use. Its queues are paused.
    ///
    /// # Errors
    ///
    /// `EINVAL` if they are not, or a queue has failed; `ENODEV` for a GPU that goes; `EINTR` when
    /// the caller is killed; `ENOMEM`.
    pub(crate) fn snapshot(&self, gpus: &[GpuId]) -> Result<Snapshot> {
        let pause = self.pause.lock_killable()?;
        if !matches!(&*pause, ProcessPause::Checkpoint { .. }) {
            return Err(EINVAL);
        }
        let mut snapshot = Snapshot::new()?;
        let saved = SavedGpus(gpus);
        snapshot.add(&Record::Process(self.process_record(&saved)?))?;
        for &id in gpus {
            let context = self.context(id);
            let trap = context.map(|context| context.trap_handler());
            let trap = trap.transpose()?.unwrap_or_default();
            let id = self.name_of(id);
            snapshot.add(&Record::Device(DeviceRecord { id, trap }))?;
        }
        for &id in gpus {
            if let Some(context) = self.context(id) {
                for buffer in &context.with_memory(|memory| memory.list())? {
                    self.save_buffer(&context, buffer, &saved, &mut snapshot)?;
                }
            }
        }
        let queues = self.queues.lock().list()?;
        for queue in &queues {
            let mut progress = KVVec::new();
            queue.queue.save(&mut progress)?;
            let create = &queue.create;
            snapshot.add(&Record::Queue(QueueRecord {
                device: saved.place(queue.context.gpu().hw.id)?,
                id: queue.id,
                doorbell: queue.queue.doorbell(),
                kind: create.kind,
                ring: create.ring,
                size: create.size,
                read_pointer: create.read_pointer,
                write_pointer: create.write_pointer,
                percentage: create.percentage,
                priority: create.priority,
                engine: create.engine,
                eop: create.compute.eop,
                eop_size: create.compute.eop_size,
                save: create.compute.save,
                save_size: create.compute.save_size,
                control_stack: create.compute.control_stack,
                progress: &progress,
            }))?;
        }
        self.save_events(&saved, &mut snapshot)?;
        self.svm.save(
            gpus,
            |gpu| self.name_of(gpu),
            |range, attributes| snapshot.add(&Record::Range(RangeRecord { range, attributes })),
        )?;
        snapshot.finish()
    }

    fn process_record(&self, saved: &SavedGpus<'_>) -> Result<ProcessRecord> {
        let runtime = self.exceptions.runtime();
        let is_enabled = runtime.state == RuntimeState::Enabled;
        Ok(ProcessRecord {
            retries: self.retries(),
            runtime: is_enabled.then_some(RuntimeRecord {
                r_debug: runtime.r_debug,
                ttmp_setup: runtime.ttmp_setup,
            }),
            event_page: match self.events.saved_page() {
                SavedEventPage::None => EventPageRecord::None,
                SavedEventPage::Own(slots) => EventPageRecord::Driver(slots),
                SavedEventPage::Buffer(gpu, number) => {
                    EventPageRecord::Buffer(saved.place(gpu)?, number)
                }
            },
        })
    }

    fn save_buffer(
        &self,
        context: &Arc<GpuContext>,
        buffer: &ListedBuffer,
        saved: &SavedGpus<'_>,
        snapshot: &mut Snapshot,
    ) -> Result {
        let gpu = context.gpu().hw.id;
        let device = saved.place(gpu)?;
        let mut mapped = u64::from(buffer.mapped) << device;
        let mut result = Ok(());
        self.for_each_context(|other| {
            let is_peer = |vm: &Arc<_>| other.vm().is_ok_and(|own| Arc::ptr_eq(vm, &own));
            if buffer.peers.iter().any(is_peer) {
                match saved.place(other.gpu().hw.id) {
                    Ok(place) => mapped |= 1 << place,
                    Err(error) => result = Err(error),
                }
            }
        });
        result?;
        let (flags, size) = (buffer.flags, buffer.bo.size() as u64);
        let address = buffer.range.map_or(0, |range| range.start());
        snapshot.add(&Record::Buffer(BufferRecord {
            device,
            number: buffer.number,
            flags,
            address,
            size,
            user: buffer.bo.user_start().unwrap_or(0),
            mapped,
        }))?;
        let offset = if flags & flag::DOORBELL != 0 {
            context.queue_resources()?.mmap_offset()
        } else if flags & flag::MMIO_REMAP != 0 {
            context.registers_offset()
        } else {
            buffer.mmap_offset
        };
        let has_contents = flags & (flag::VRAM | flag::GTT) != 0;
        let own = buffer.bo.original().unwrap_or(&buffer.bo);
        let buffer = SavedBuffer {
            gpu,
            address,
            size,
            flags,
            offset,
            contents: has_contents.then(|| own.clone()),
        };
        Ok(snapshot.buffers.push(buffer, GFP_KERNEL_ACCOUNT)?)
    }

    fn save_events(&self, saved: &SavedGpus<'_>, snapshot: &mut Snapshot) -> Result {
        let mut from = 0;
        while let Some((id, event)) = self.events.saved_from(from) {
            snapshot.add(&Record::Event(EventRecord {
                id,
                kind: event.kind.raw(),
                auto_reset: event.auto_reset,
                signaled: event.signaled,
                age: event.age,
                payload: saved.payload(event.payload)?,
            }))?;
            let Some(next) = id.checked_add(1) else { break };
            from = next;
        }
        Ok(())
    }
}
