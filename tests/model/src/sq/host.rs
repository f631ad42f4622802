// SPDX-License-Identifier: GPL-2.0
//! The device as seen by the shader core: its queue's address space.

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering;

use rkfd_shader::env::{Fault, Host, Need};
use rkfd_shader::image::{Shape, Word};
use rkfd_shader::trap;
use rkfd_shader::wave::LANES;
use rkfd_shader::with_size;

use super::grid::Grid;
use super::watch::{WatchedAccess, Watches};
use crate::error::{ModelError, Result};
use crate::gpu::Gpu;
use crate::hub::HubId;
use crate::ih::Iv;
use crate::mapping::Span;
use crate::memory::Access;
use crate::regs::{gc, Field, Reg};
use crate::vm::{Client, Vm};
use crate::walk::PAGE_SHIFT;

/// FAULT_STATUS.CID of the shader engines' clients.
const CID_TCP: u32 = 8;
const CID_SQC_INST: u32 = 9;
const CID_SQC_DATA: u32 = 10;
/// Interrupts of waves: s_sendmsg's, and errors'.
const SQ_CLIENT: u8 = 0x0a;
const SQ_INTERRUPT: u8 = 239;
/// The wave's place in HW_ID.
const WAVE: Field = Field::new(3, 0);
const SIMD: Field = Field::new(5, 4);
const CU: Field = Field::new(11, 8);
const ENGINE: Field = Field::new(15, 13);
/// The same in context word 0, which has no room for the engine's bit 2.
mod context {
    use crate::regs::Field;

    pub const DATA: Field = Field::new(11, 0);
    pub const PRIV: Field = Field::new(13, 13);
    pub const WAVE: Field = Field::new(17, 14);
    pub const SIMD: Field = Field::new(19, 18);
    pub const CU: Field = Field::new(23, 20);
    pub const ENGINE: Field = Field::new(25, 24);
    pub const ENCODING: Field = Field::new(27, 26);
    pub const DATA_HI: Field = Field::new(31, 28);
    /// In context word 1.
    pub const DATA_TOP: Field = Field::new(7, 0);
}
/// Encodings, and the type of an error in data\[23:20\].
const FROM_WAVE: u32 = 1;
const ERROR: u32 = 2;
const ILLEGAL_INST: u32 = 1 << 20;
/// Engine clocks of s_memtime in a tick of the reference clock.
const CYCLES: u64 = 17;

/// The device, for the waves of one dispatch.
pub struct Device<'a> {
    gpu: &'a Gpu,
    grid: &'a Grid,
    data: Vm<'a>,
    scalar: Vm<'a>,
    code: Vm<'a>,
    retries: bool,
    watches: Watches,
    /// Bits of TRAPSTS of the watch points that were hit.
    hits: Cell<u32>,
    error: RefCell<Option<ModelError>>,
}

impl<'a> Device<'a> {
    /// Creates it for waves of a dispatch.
    pub fn new(gpu: &'a Gpu, grid: &'a Grid) -> Device<'a> {
        let space = |cid| Vm::new(gpu, HubId::Gfx, grid.origin.vmid, cid).retrying(grid, 0);
        let data = space(CID_TCP).keeping();
        Device {
            gpu,
            grid,
            retries: data.retries(),
            watches: Watches::of(gpu, grid.origin.vmid),
            hits: Cell::new(0),
            data,
            scalar: space(CID_SQC_DATA).keeping(),
            code: space(CID_SQC_INST),
            error: RefCell::new(None),
        }
    }

    /// The end of a turn. Returns the driver's error that an access met.
    pub fn check(&self) -> Result<()> {
        self.data.count_hits();
        self.scalar.count_hits();
        match self.error.borrow_mut().take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// The access' result for the core: `done` faulted if there are more faults than before.
    fn settle(
        &self,
        vm: &Vm<'_>,
        before: u64,
        address: u64,
        done: Result<()>,
    ) -> std::result::Result<(), Fault> {
        match done {
            Ok(()) if vm.faults() == before && !vm.is_lost() => Ok(()),
            Ok(()) => Err(Fault { address }),
            Err(error) => {
                self.error.borrow_mut().get_or_insert(error);
                Err(Fault { address })
            }
        }
    }
}

impl Client for Grid {
    /// Waves have no resets. An instruction begins when all of its memory is there
    /// ([`Host::is_ready`]), so this is about memory that goes at that moment, and about code.
    fn goes_on(&self, _gpu: &Gpu, _resets: u64) -> bool {
        !self.is_killed()
    }
}

impl Device<'_> {
    fn read(&self, vm: &Vm<'_>, address: u64, out: &mut [u8]) -> std::result::Result<(), Fault> {
        let before = vm.faults();
        let done = vm.read(address, out);
        self.settle(vm, before, address, done)
    }

    fn write(&self, vm: &Vm<'_>, address: u64, data: &[u8]) -> std::result::Result<(), Fault> {
        let before = vm.faults();
        let done = match *data {
            // Whole, as a CPU may look at it.
            [a, b, c, d] if address % 4 == 0 => {
                vm.store32(address, u32::from_le_bytes([a, b, c, d]))
            }
            [a, b, c, d, e, f, g, h] if address % 8 == 0 => {
                let value = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
                vm.store64s(address, &[value])
            }
            _ => vm.write(address, data),
        };
        self.settle(vm, before, address, done)
    }

    /// Loads of a size that is known at compile time, so that each is a move and not a call.
    fn load_sized<const N: usize>(&self, at: &[u64; LANES], lanes: u64, out: &mut [u8]) -> u64 {
        self.data
            .each_lane(at, lanes, N, Access::Read, |lane, span| {
                let mut bytes = [0; N];
                span.read(&mut bytes);
                out[lane * N..(lane + 1) * N].copy_from_slice(&bytes);
            })
    }

    /// See above.
    fn store_sized<const N: usize>(&self, at: &[u64; LANES], lanes: u64, data: &[u8]) -> u64 {
        self.data
            .each_lane(at, lanes, N, Access::Write, |lane, span| {
                let mut bytes = [0; N];
                bytes.copy_from_slice(&data[lane * N..(lane + 1) * N]);
                // Whole, as a CPU may look at it.
                match (&bytes[..], span.atomic32(), span.atomic64()) {
                    (&[a, b, c, d], Some(word), _) => {
                        word.store(u32::from_le_bytes([a, b, c, d]), Ordering::Release);
                    }
                    (&[a, b, c, d, e, f, g, h], _, Some(word)) => {
                        let value = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
                        word.store(value, Ordering::Release);
                    }
                    _ => span.write(&bytes),
                }
            })
    }

    /// Notes which watch points an access of `len` bytes hits.
    fn note(&self, address: u64, len: usize, access: WatchedAccess) {
        if !self.watches.is_empty() {
            let hits = self.watches.hits(address, len as u64, access);
            self.hits.set(self.hits.get() | hits);
        }
    }

    /// See above, for lanes of `lanes`.
    fn note_lanes(&self, at: &[u64; LANES], lanes: u64, len: usize, access: WatchedAccess) {
        if !self.watches.is_empty() {
            let active = (0..LANES).filter(|lane| lanes >> lane & 1 == 1);
            active.for_each(|lane| self.note(at[lane], len, access));
        }
    }

    /// Sends SQ's interrupt, with 24 bits of data.
    fn send(&self, hw_id: u32, encoding: u32, data: u32, privileged: bool) {
        let engine = ENGINE.get(hw_id);
        let word = context::DATA.of(data)
            | context::PRIV.of(privileged.into())
            | context::WAVE.of(WAVE.get(hw_id))
            | context::SIMD.of(SIMD.get(hw_id))
            | context::CU.of(CU.get(hw_id))
            | context::ENGINE.of(engine)
            | context::ENCODING.of(encoding)
            | context::DATA_HI.of(data >> 12);
        let iv = Iv {
            client: SQ_CLIENT + (engine & 3) as u8,
            source: SQ_INTERRUPT,
            ring: 0,
            vmid: self.grid.origin.vmid,
            mmhub: false,
            data: [word, context::DATA_TOP.of(data >> 16), 0, 0],
            retry: false,
        };
        self.gpu.summary.sq_interrupts.bump();
        if let Err(error) = self.gpu.ih.push(self.gpu, iv) {
            self.error.borrow_mut().get_or_insert(error);
        }
    }

    /// An address from SQ_SHADER_TBA or TMA, which hold it in units of 256 bytes.
    fn handler(&self, lo: Reg) -> u64 {
        let of_vmid = |reg| {
            let vmid = u32::from(self.grid.origin.vmid);
            u64::from(self.gpu.grbm.of_bank(reg, vmid))
        };
        trap::extend(of_vmid(lo) << 8 | (of_vmid(lo.nth(1, 1)) & 0xff) << 40)
    }
}

/// Defines an atomic change of the word at the beginning of a span. It returns the old value; where
/// atomics are not completed, the value that the requester gets.
macro_rules! change {
    ($name:ident, $atomic:ident, $word:ty) => {
        fn $name(span: Span<'_>, mut change: impl FnMut($word) -> $word) -> $word {
            let Some(word) = span.$atomic() else {
                return !0;
            };
            let order = (Ordering::AcqRel, Ordering::Acquire);
            word.fetch_update(order.0, order.1, |value| Some(change(value)))
                .unwrap_or_else(|value| value)
        }
    };
}
change!(change32, atomic32, u32);
change!(change64, atomic64, u64);

/// Whether the words of `lanes` are at multiples of their size.
fn are_aligned(at: &[u64; LANES], lanes: u64, size: u64) -> bool {
    (0..LANES).all(|lane| lanes >> lane & 1 == 0 || at[lane] % size == 0)
}

impl Host for Device<'_> {
    fn retries(&self) -> bool {
        self.retries
    }

    fn is_ready(&self, address: u64, len: u64, need: Need) -> bool {
        let (vm, access) = match need {
            Need::Load => (&self.data, Access::Read),
            Need::Store => (&self.data, Access::Write),
            Need::Atomic => (&self.data, Access::Atomic),
            Need::LoadScalar => (&self.scalar, Access::Read),
            Need::StoreScalar => (&self.scalar, Access::Write),
        };
        let ready = vm.is_ready(address, len, access).unwrap_or_else(|error| {
            self.error.borrow_mut().get_or_insert(error);
            true
        });
        self.grid.looked(address >> PAGE_SHIFT, ready, self.gpu);
        ready
    }

    fn is_watched(&self) -> bool {
        !self.watches.is_empty()
    }

    fn take_hits(&self) -> u32 {
        self.hits.take()
    }

    fn load(&self, address: u64, out: &mut [u8]) -> std::result::Result<(), Fault> {
        self.note(address, out.len(), WatchedAccess::Load);
        self.read(&self.data, address, out)
    }

    fn store(&self, address: u64, data: &[u8]) -> std::result::Result<(), Fault> {
        self.note(address, data.len(), WatchedAccess::Store);
        self.write(&self.data, address, data)
    }

    fn load_lanes(&self, at: &[u64; LANES], lanes: u64, size: usize, out: &mut [u8]) -> u64 {
        self.note_lanes(at, lanes, size, WatchedAccess::Load);
        with_size!(size, self.load_sized(at, lanes, out), lanes)
    }

    fn store_lanes(&self, at: &[u64; LANES], lanes: u64, size: usize, data: &[u8]) -> u64 {
        self.note_lanes(at, lanes, size, WatchedAccess::Store);
        with_size!(size, self.store_sized(at, lanes, data), lanes)
    }

    fn load_scalar(&self, address: u64, out: &mut [u8]) -> std::result::Result<(), Fault> {
        self.read(&self.scalar, address, out)
    }

    fn store_scalar(&self, address: u64, data: &[u8]) -> std::result::Result<(), Fault> {
        self.write(&self.scalar, address, data)
    }

    fn atomic32(
        &self,
        address: u64,
        change: &mut dyn FnMut(u32) -> u32,
    ) -> std::result::Result<u32, Fault> {
        if address % 4 != 0 {
            return Err(Fault { address });
        }
        self.note(address, 4, WatchedAccess::Atomic);
        let before = self.data.faults();
        let mut old = !0;
        let done = self
            .data
            .atomic(address, 4, |span| old = change32(span, &mut *change));
        self.settle(&self.data, before, address, done).map(|()| old)
    }

    fn atomic64(
        &self,
        address: u64,
        change: &mut dyn FnMut(u64) -> u64,
    ) -> std::result::Result<u64, Fault> {
        if address % 8 != 0 {
            return Err(Fault { address });
        }
        self.note(address, 8, WatchedAccess::Atomic);
        let before = self.data.faults();
        let mut old = !0;
        let done = self
            .data
            .atomic(address, 8, |span| old = change64(span, &mut *change));
        self.settle(&self.data, before, address, done).map(|()| old)
    }

    fn atomic32_lanes(
        &self,
        at: &[u64; LANES],
        lanes: u64,
        change: &mut dyn FnMut(usize, u32) -> u32,
        old: &mut [u32; LANES],
    ) -> u64 {
        if !are_aligned(at, lanes, 4) {
            return lanes;
        }
        self.note_lanes(at, lanes, 4, WatchedAccess::Atomic);
        self.data
            .each_lane(at, lanes, 4, Access::Atomic, |lane, span| {
                old[lane] = change32(span, |value| change(lane, value));
            })
    }

    fn atomic64_lanes(
        &self,
        at: &[u64; LANES],
        lanes: u64,
        change: &mut dyn FnMut(usize, u64) -> u64,
        old: &mut [u64; LANES],
    ) -> u64 {
        if !are_aligned(at, lanes, 8) {
            return lanes;
        }
        self.note_lanes(at, lanes, 8, WatchedAccess::Atomic);
        self.data
            .each_lane(at, lanes, 8, Access::Atomic, |lane, span| {
                old[lane] = change64(span, |value| change(lane, value));
            })
    }

    fn fetch(&self, address: u64, out: &mut [u8]) -> std::result::Result<(), Fault> {
        let before = self.code.faults();
        let done = self.code.fetch(address, out);
        self.settle(&self.code, before, address, done)
    }

    fn realtime(&self) -> u64 {
        self.gpu.clock.now()
    }

    fn cycles(&self) -> u64 {
        self.gpu.clock.now() * CYCLES
    }

    fn interrupt(&self, hw_id: u32, data: u32, privileged: bool) {
        self.send(hw_id, FROM_WAVE, data, privileged);
    }

    fn illegal(&self, hw_id: u32) {
        self.send(hw_id, ERROR, ILLEGAL_INST, false);
    }

    fn xcc(&self) -> u32 {
        self.grid.origin.xcc as u32
    }

    fn doorbell(&self) -> u32 {
        self.grid.origin.doorbell
    }

    fn trap_handler(&self) -> u64 {
        self.handler(gc::SQ_SHADER_TBA_LO)
    }

    fn trap_memory(&self) -> u64 {
        self.handler(gc::SQ_SHADER_TMA_LO)
    }

    fn reserve(&self, shape: Shape, waves: &[Word]) -> Option<Vec<u64>> {
        self.grid.reserve(shape, waves)
    }
}
