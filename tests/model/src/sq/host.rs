// SPDX-License-Identifier: GPL-2.0
//! What the shader core sees of the device: its queue's address space.

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use rkfd_shader::env::{Fault, Host};

use super::grid::Origin;
use crate::error::{ModelError, Result};
use crate::gpu::Gpu;
use crate::hub::HubId;
use crate::ih::Iv;
use crate::vm::Vm;

/// FAULT_STATUS.CID of the shader engines' clients.
const CID_TCP: u32 = 8;
const CID_SQC_INST: u32 = 9;
/// SQ_INTERRUPT of s_sendmsg.
const SQ_CLIENT: u8 = 0x0a;
const SQ_INTERRUPT: u8 = 239;
const FROM_WAVE: u32 = 1;
/// Engine clocks of s_memtime in a tick of the reference clock.
const CYCLES: u64 = 17;

/// The device, for the waves of one dispatch.
pub struct Device<'a> {
    gpu: &'a Gpu,
    origin: &'a Origin,
    data: Vm<'a>,
    code: Vm<'a>,
    error: RefCell<Option<ModelError>>,
}

impl<'a> Device<'a> {
    /// For waves of a dispatch from `origin`.
    pub fn new(gpu: &'a Gpu, origin: &'a Origin) -> Device<'a> {
        Device {
            gpu,
            origin,
            data: Vm::new(gpu, HubId::Gfx, origin.vmid, CID_TCP),
            code: Vm::new(gpu, HubId::Gfx, origin.vmid, CID_SQC_INST),
            error: RefCell::new(None),
        }
    }

    /// The driver's error that an access met.
    pub fn check(&self) -> Result<()> {
        match self.error.borrow_mut().take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// The access' result for the core: what was `done` faulted if there are more faults than before.
    fn settle(
        &self,
        vm: &Vm<'_>,
        before: u64,
        address: u64,
        done: Result<()>,
    ) -> std::result::Result<(), Fault> {
        match done {
            Ok(()) if vm.faults() == before => Ok(()),
            Ok(()) => Err(Fault { address }),
            Err(error) => {
                self.error.borrow_mut().get_or_insert(error);
                Err(Fault { address })
            }
        }
    }
}

impl Host for Device<'_> {
    fn load(&self, address: u64, out: &mut [u8]) -> std::result::Result<(), Fault> {
        let before = self.data.faults();
        let done = self.data.read(address, out);
        self.settle(&self.data, before, address, done)
    }

    fn store(&self, address: u64, data: &[u8]) -> std::result::Result<(), Fault> {
        let before = self.data.faults();
        let done = match *data {
            // Whole, as a CPU may look at it.
            [a, b, c, d] if address % 4 == 0 => {
                self.data.store32(address, u32::from_le_bytes([a, b, c, d]))
            }
            [a, b, c, d, e, f, g, h] if address % 8 == 0 => {
                let value = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
                self.data.store64s(address, &[value])
            }
            _ => self.data.write(address, data),
        };
        self.settle(&self.data, before, address, done)
    }

    fn atomic32(
        &self,
        address: u64,
        change: &mut dyn FnMut(u32) -> u32,
    ) -> std::result::Result<u32, Fault> {
        if address % 4 != 0 {
            return Err(Fault { address });
        }
        let before = self.data.faults();
        // What is heard where no atomics are done.
        let mut old = !0;
        let done = self.data.atomic(address, 4, |span| {
            if let Some(word) = span.atomic32() {
                let order = (Ordering::AcqRel, Ordering::Acquire);
                old = word
                    .fetch_update(order.0, order.1, |value| Some(change(value)))
                    .unwrap_or_else(|value| value);
            }
        });
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
        let before = self.data.faults();
        // What is heard where no atomics are done.
        let mut old = !0;
        let done = self.data.atomic(address, 8, |span| {
            if let Some(word) = span.atomic64() {
                let order = (Ordering::AcqRel, Ordering::Acquire);
                old = word
                    .fetch_update(order.0, order.1, |value| Some(change(value)))
                    .unwrap_or_else(|value| value);
            }
        });
        self.settle(&self.data, before, address, done).map(|()| old)
    }

    fn fetch(&self, address: u64, out: &mut [u8]) -> std::result::Result<(), Fault> {
        let before = self.code.faults();
        let done = self.code.read(address, out);
        self.settle(&self.code, before, address, done)
    }

    fn realtime(&self) -> u64 {
        self.gpu.clock.now()
    }

    fn cycles(&self) -> u64 {
        self.gpu.clock.now() * CYCLES
    }

    fn interrupt(&self, hw_id: u32, data: u32) {
        let field = |hi: u32, lo: u32| hw_id >> lo & (!0 >> (31 - (hi - lo)));
        let engine = field(15, 13);
        let word = data & 0xfff
            | field(3, 0) << 14
            | field(5, 4) << 18
            | field(11, 8) << 20
            | (engine & 3) << 24
            | FROM_WAVE << 26
            | (data >> 12 & 0xf) << 28;
        let iv = Iv {
            client: SQ_CLIENT + (engine & 3) as u8,
            source: SQ_INTERRUPT,
            ring: 0,
            vmid: self.origin.vmid,
            mmhub: false,
            data: [word, data >> 16 & 0xff, 0, 0],
        };
        if let Err(error) = self.gpu.ih.push(self.gpu, iv) {
            self.error.borrow_mut().get_or_insert(error);
        }
    }

    fn doorbell(&self) -> u32 {
        self.origin.doorbell
    }
}
