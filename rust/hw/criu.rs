// SPDX-License-Identifier: GPL-2.0
//! The private data of a checkpoint (`AMDKFD_IOC_CRIU_OP`): what the driver saves of a process, and
//! gets back from a file. CRIU does not look into it, so the format is the driver's own.
//!
//! The data are dwords in the order of the machine: [`MAGIC`], [`VERSION`], their number, records,
//! and a checksum. A record is a dword with its kind and length, and its fields. First comes the
//! process, then its GPUs, buffers, queues, events and ranges of shared virtual memory; a kind that
//! is out of order is refused. GPUs are named by their place among the records of GPUs.
//!
//! The checksum finds damage. It is no secret, so each field is checked as well.

mod queue;
mod words;

use crate::doorbell::DoorbellSlot;
use crate::topology::gpu_id::GpuId;
use crate::trap::SecondLevelTrap;
use crate::va::{VaRange, USER_VA_END};
pub use queue::{QueueRecord, QueueState};
use words::{FieldReader, FieldWriter};

/// The first dwords of the data.
pub const MAGIC: [u32; 2] = [u32::from_le_bytes(*b"rkfd"), u32::from_le_bytes(*b"CRIU")];
/// The version of the format.
pub const VERSION: u32 = 1;
/// The most GPUs of a process: a set of them is 64 bits.
pub const MOST_DEVICES: usize = 64;
/// Dwords before the records, the last of which is the number of all dwords; and behind them.
pub const HEADER: [u32; 4] = [MAGIC[0], MAGIC[1], VERSION, 0];
/// The place of the checksum, to be appended before [`seal`] fills it in.
pub const SEAL: [u32; 2] = [0; 2];

/// Data that are no checkpoint, or not one of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadCheckpoint;

/// The runtime of a process (`RUNTIME_ENABLE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuntimeRecord {
    /// Where the runtime describes what it has loaded.
    pub r_debug: u64,
    /// Whether it has asked for the place of each wave in TTMPs.
    pub ttmp_setup: bool,
}

/// The page of event slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventPageRecord {
    /// There is none.
    None,
    /// The driver's own, of which the process has mapped so many slots.
    Driver(u32),
    /// A buffer: the place of its GPU, and its number there.
    Buffer(u8, u32),
}

/// The process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessRecord {
    /// Whether page faults are retried (XNACK).
    pub retries: bool,
    /// The runtime, if it has registered.
    pub runtime: Option<RuntimeRecord>,
    /// The page of event slots.
    pub event_page: EventPageRecord,
}

/// A GPU of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRecord {
    /// The id by which the process knows it.
    pub id: GpuId,
    /// The process's own trap handler.
    pub trap: SecondLevelTrap,
}

/// A buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferRecord {
    /// The place of its GPU.
    pub device: u8,
    /// Its number there, from 1 on.
    pub number: u32,
    /// The flags of ALLOC_MEMORY_OF_GPU.
    pub flags: u32,
    /// Its address for GPUs, 0 if it has none.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// The process's address of user memory.
    pub user: u64,
    /// The places of the GPUs that it is mapped on, a bit each.
    pub mapped: u64,
}

/// What a waiter learns of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadRecord {
    /// Nothing.
    Nothing,
    /// A refused access: the place of the GPU, the page, and the reasons (not present, read only,
    /// not executable; a bit each).
    Memory(u8, u64, u8),
    /// A queue of the GPU at this place was stopped.
    Stopped(u8),
    /// The GPU at this place was reset.
    Reset(u8),
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// Its number.
    pub id: u32,
    /// Its type in CREATE_EVENT.
    pub kind: u32,
    /// Whether it resets itself.
    pub auto_reset: bool,
    /// Whether it is set.
    pub signaled: bool,
    /// How often it was set, plus one.
    pub age: u64,
    /// What its waiters learn.
    pub payload: PayloadRecord,
}

/// A range of shared virtual memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeRecord<'a> {
    /// The range.
    pub range: VaRange,
    /// Kind and value of each attribute, as in the ioctl.
    pub attributes: &'a [u32],
}

/// What a checkpoint has of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// The process: exactly one, the first.
    Process(ProcessRecord),
    /// A GPU, at least one.
    Device(DeviceRecord),
    /// A buffer.
    Buffer(BufferRecord),
    /// A queue.
    Queue(QueueRecord<'a>),
    /// An event.
    Event(EventRecord),
    /// A range of shared virtual memory.
    Range(RangeRecord<'a>),
}

/// The numbers of records, as the ioctl tells them beside the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordCounts {
    /// GPUs.
    pub devices: u32,
    /// Buffers.
    pub buffers: u32,
    /// Queues, events and ranges.
    pub objects: u32,
}

impl RecordCounts {
    /// Counts `record` too.
    #[inline]
    pub fn add(&mut self, record: &Record<'_>) {
        let count = match record {
            Record::Process(_) => return,
            Record::Device(_) => &mut self.devices,
            Record::Buffer(_) => &mut self.buffers,
            Record::Queue(_) | Record::Event(_) | Record::Range(_) => &mut self.objects,
        };
        *count = count.saturating_add(1);
    }
}

impl Record<'_> {
    /// The number of the kind, in the order of the kinds.
    const fn kind(&self) -> u32 {
        match self {
            Self::Process(_) => 1,
            Self::Device(_) => 2,
            Self::Buffer(_) => 3,
            Self::Queue(_) => 4,
            Self::Event(_) => 5,
            Self::Range(_) => 6,
        }
    }

    /// Has `sink` append the record's dwords.
    ///
    /// # Errors
    ///
    /// Those of `sink`.
    pub fn write<E>(&self, sink: &mut impl FnMut(&[u32]) -> Result<(), E>) -> Result<(), E> {
        let mut fields = FieldWriter::new();
        let tail: &[u32] = match self {
            Self::Process(process) => {
                process.write(&mut fields);
                &[]
            }
            Self::Device(device) => {
                fields.u32(device.id.get().into());
                fields.u64(device.trap.code);
                fields.u64(device.trap.memory);
                &[]
            }
            Self::Buffer(buffer) => {
                buffer.write(&mut fields);
                &[]
            }
            Self::Queue(queue) => queue.write(&mut fields),
            Self::Event(event) => {
                event.write(&mut fields);
                &[]
            }
            Self::Range(range) => {
                fields.u64(range.range.start());
                fields.u64(range.range.size());
                range.attributes
            }
        };
        let length = fields.dwords().len() + tail.len();
        sink(&[self.kind(), u32::try_from(length).unwrap_or(u32::MAX)])?;
        sink(fields.dwords())?;
        sink(tail)
    }
}

impl<'a> Record<'a> {
    /// The first record of `words`, and the words behind it.
    fn read(words: &'a [u32]) -> Option<(Self, &'a [u32])> {
        let (&kind, words) = words.split_first()?;
        let (&length, words) = words.split_first()?;
        let (body, rest) = words.split_at_checked(usize::try_from(length).ok()?)?;
        let mut fields = FieldReader::new(body);
        let record = match kind {
            1 => Self::Process(ProcessRecord::read(&mut fields)?),
            2 => Self::Device(DeviceRecord {
                id: GpuId::from_raw(fields.u32()?)?,
                trap: SecondLevelTrap {
                    code: fields.address()?,
                    memory: fields.address()?,
                },
            }),
            3 => Self::Buffer(BufferRecord::read(&mut fields)?),
            4 => Self::Queue(QueueRecord::read(&mut fields)?),
            5 => Self::Event(EventRecord::read(&mut fields)?),
            6 => Self::Range(RangeRecord {
                range: VaRange::new(fields.u64()?, fields.u64()?).ok()?,
                attributes: fields.rest(),
            }),
            _ => return None,
        };
        let is_whole = match record {
            Self::Range(range) => range.attributes.len() % 2 == 0,
            _ => fields.is_at_end(),
        };
        is_whole.then_some((record, rest))
    }
}

impl ProcessRecord {
    fn write(&self, fields: &mut FieldWriter) {
        fields.flag(self.retries);
        fields.flag(self.runtime.is_some());
        fields.u64(self.runtime.map_or(0, |runtime| runtime.r_debug));
        fields.flag(self.runtime.is_some_and(|runtime| runtime.ttmp_setup));
        let (kind, device, number) = match self.event_page {
            EventPageRecord::None => (0, 0, 0),
            EventPageRecord::Driver(slots) => (1, 0, slots),
            EventPageRecord::Buffer(device, number) => (2, device, number),
        };
        fields.u32(kind);
        fields.u32(device.into());
        fields.u32(number);
    }

    fn read(fields: &mut FieldReader<'_>) -> Option<Self> {
        let retries = fields.flag()?;
        let has_runtime = fields.flag()?;
        let (r_debug, ttmp_setup) = (fields.u64()?, fields.flag()?);
        let (kind, device, number) = (fields.u32()?, fields.device()?, fields.u32()?);
        let event_page = match kind {
            0 => EventPageRecord::None,
            1 => EventPageRecord::Driver(number),
            2 => EventPageRecord::Buffer(device, number),
            _ => return None,
        };
        let runtime = RuntimeRecord {
            r_debug,
            ttmp_setup,
        };
        Some(Self {
            retries,
            runtime: has_runtime.then_some(runtime),
            event_page,
        })
    }
}

impl BufferRecord {
    fn write(&self, fields: &mut FieldWriter) {
        fields.u32(self.device.into());
        fields.u32(self.number);
        fields.u32(self.flags);
        fields.u64(self.address);
        fields.u64(self.size);
        fields.u64(self.user);
        fields.u64(self.mapped);
    }

    fn read(fields: &mut FieldReader<'_>) -> Option<Self> {
        let buffer = Self {
            device: fields.device()?,
            number: fields.u32()?,
            flags: fields.u32()?,
            address: fields.address()?,
            size: fields.u64()?,
            user: fields.address()?,
            mapped: fields.u64()?,
        };
        (buffer.number != 0 && buffer.size != 0).then_some(buffer)
    }
}

impl EventRecord {
    fn write(&self, fields: &mut FieldWriter) {
        fields.u32(self.id);
        fields.u32(self.kind);
        fields.flag(self.auto_reset);
        fields.flag(self.signaled);
        fields.u64(self.age);
        let (kind, device, address, reasons) = match self.payload {
            PayloadRecord::Nothing => (0, 0, 0, 0),
            PayloadRecord::Memory(device, address, reasons) => (1, device, address, reasons),
            PayloadRecord::Stopped(device) => (2, device, 0, 0),
            PayloadRecord::Reset(device) => (3, device, 0, 0),
        };
        fields.u32(kind);
        fields.u32(device.into());
        fields.u64(address);
        fields.u32(reasons.into());
    }

    fn read(fields: &mut FieldReader<'_>) -> Option<Self> {
        let (id, kind) = (fields.u32()?, fields.u32()?);
        let (auto_reset, signaled) = (fields.flag()?, fields.flag()?);
        let age = fields.u64()?;
        let (payload, device) = (fields.u32()?, fields.device()?);
        let (address, reasons) = (fields.u64()?, u8::try_from(fields.u32()?).ok()?);
        let payload = match payload {
            0 => PayloadRecord::Nothing,
            1 if reasons < 8 => PayloadRecord::Memory(device, address, reasons),
            2 => PayloadRecord::Stopped(device),
            3 => PayloadRecord::Reset(device),
            _ => return None,
        };
        (age != 0).then_some(Self {
            id,
            kind,
            auto_reset,
            signaled,
            age,
            payload,
        })
    }
}

/// FNV-1a over dwords: a change of one dword changes it for certain.
fn checksum(words: &[u32]) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    words.iter().fold(BASIS, |hash, &word| {
        (hash ^ u64::from(word)).wrapping_mul(PRIME)
    })
}

/// Completes data that begin with [`HEADER`] and end with [`SEAL`].
///
/// # Errors
///
/// [`BadCheckpoint`] for more dwords than can be counted, or fewer than those.
pub fn seal(words: &mut [u32]) -> Result<(), BadCheckpoint> {
    let count = u32::try_from(words.len()).map_err(|_| BadCheckpoint)?;
    *words.get_mut(HEADER.len() - 1).ok_or(BadCheckpoint)? = count;
    let (body, seal) = words.split_last_chunk_mut().ok_or(BadCheckpoint)?;
    let sum = checksum(body);
    *seal = [crate::bits::lo(sum), crate::bits::hi(sum)];
    Ok(())
}

/// Data that were found to be a checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct Checkpoint<'a> {
    process: ProcessRecord,
    records: &'a [u32],
}

impl<'a> Checkpoint<'a> {
    /// Checks all of `words`, which are to have as many records as `counts` says.
    ///
    /// # Errors
    ///
    /// [`BadCheckpoint`].
    pub fn new(words: &'a [u32], counts: RecordCounts) -> Result<Self, BadCheckpoint> {
        Self::check(words, counts).ok_or(BadCheckpoint)
    }

    fn check(words: &'a [u32], counts: RecordCounts) -> Option<Self> {
        let (body, seal) = words.split_last_chunk::<{ SEAL.len() }>()?;
        let ([magic, more, version, count], records) =
            body.split_first_chunk::<{ HEADER.len() }>()?;
        if [*magic, *more] != MAGIC
            || *version != VERSION
            || usize::try_from(*count) != Ok(words.len())
        {
            return None;
        }
        let sum = checksum(body);
        if *seal != [crate::bits::lo(sum), crate::bits::hi(sum)] {
            return None;
        }
        let (Record::Process(process), records) = Record::read(records)? else {
            return None;
        };
        let (mut rest, mut kind, mut found) = (records, 2, RecordCounts::default());
        while !rest.is_empty() {
            let (record, behind) = Record::read(rest)?;
            if record.kind() < kind || !record.names_devices_below(counts.devices) {
                return None;
            }
            kind = record.kind();
            found.add(&record);
            rest = behind;
        }
        let is_page_there = match process.event_page {
            EventPageRecord::Buffer(device, _) => u32::from(device) < counts.devices,
            _ => true,
        };
        let is_right = found == counts && found.devices as usize <= MOST_DEVICES && is_page_there;
        is_right.then_some(Self { process, records })
    }

    /// The process.
    pub fn process(&self) -> &ProcessRecord {
        &self.process
    }

    /// The other records, in their order.
    pub fn records(&self) -> impl Iterator<Item = Record<'a>> + 'a {
        let mut rest = self.records;
        core::iter::from_fn(move || {
            let (record, behind) = Record::read(rest)?;
            rest = behind;
            Some(record)
        })
    }
}

impl Record<'_> {
    /// Whether each GPU that it names is one of the first `count`.
    fn names_devices_below(&self, count: u32) -> bool {
        let is_there = |device: u8| u32::from(device) < count;
        match self {
            Self::Process(_) => false,
            Self::Device(_) | Self::Range(_) => true,
            Self::Buffer(buffer) => {
                let beyond = buffer.mapped.checked_shr(count).unwrap_or(0);
                is_there(buffer.device) && beyond == 0
            }
            Self::Queue(queue) => is_there(queue.device),
            Self::Event(event) => match event.payload {
                PayloadRecord::Nothing => true,
                PayloadRecord::Memory(device, ..)
                | PayloadRecord::Stopped(device)
                | PayloadRecord::Reset(device) => is_there(device),
            },
        }
    }
}

/// A doorbell's place in its slice, if there is one of this number.
fn doorbell(number: u32) -> Option<DoorbellSlot> {
    DoorbellSlot::new(u16::try_from(number).ok()?)
}

/// Whether `address` can be one of user memory.
const fn is_user(address: u64) -> bool {
    address < USER_VA_END
}
