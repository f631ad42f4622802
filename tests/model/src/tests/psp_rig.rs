// SPDX-License-Identifier: GPL-2.0
//! A board whose firmware has not come far, and the steps that start it.

use std::time::Duration;

use super::rig::*;
use crate::asic::{Asic, GFX90A};
use crate::board::Board;
use crate::error::Result;
use crate::psp::image::{self, Kind};
use crate::psp::start::Start;
use crate::regs::mp0::*;

pub const READY: u32 = 1 << 31;
/// Commands of the bootloader.
pub const KDB: u32 = 0x8_0000;
pub const SYS: u32 = 0x1_0000;
pub const SOS: u32 = 0x2_0000;
pub const SOS_VERSION: u32 = 0x27_0085;

// Places in VRAM.
const PRIVATE: u64 = 32 * MIB;
const RING_AT: u64 = 33 * MIB;
const PAGE_AT: u64 = RING_AT + 0x1000;
const FENCE_AT: u64 = RING_AT + 0x2000;
/// A TMR that is well placed.
pub const TMR: u64 = 16 * MIB;
pub const TMR_SIZE: u32 = 8 << 20;
/// Bytes of the ring.
const RING_SIZE: u32 = 0x1000;

/// The answer to a command.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u32,
    pub address: u64,
    pub tmr_size: u32,
    pub fence: bool,
}

pub struct Psp {
    pub rig: Rig,
    wptr: u32,
    fence: u32,
}

pub fn sample(kind: Kind) -> Vec<u8> {
    image::make(kind, 0x11, 0x1000, true)
}

impl Psp {
    pub fn on(start: Start) -> Psp {
        Psp::of(&GFX90A, start)
    }

    /// Of a chip.
    pub fn of(asic: &'static Asic, start: Start) -> Psp {
        let board = Board {
            asic,
            start,
            ..Board::new(VRAM)
        };
        Psp {
            rig: Rig::on(board),
            wptr: 0,
            fence: 0,
        }
    }

    /// A card of a hive with a secure OS.
    pub fn in_hive(place: &str) -> Psp {
        let board = Board {
            hive: place.parse().unwrap(),
            ..Board::new(VRAM)
        };
        Psp {
            rig: Rig::on(board),
            wptr: 0,
            fence: 0,
        }
    }

    /// Adds a fault.
    pub fn fault(&self, fault: &str) {
        self.rig.gpu.psp.add_fault(&self.rig.gpu, fault).unwrap();
    }

    /// Where the session of the last command is.
    pub fn session_place(&self) -> crate::memory::Phys {
        vram(PAGE_AT + 0x364)
    }

    /// Creates it with a fault, which is there from the start.
    pub fn with(fault: &str, start: Start) -> Psp {
        let psp = Psp::on(start);
        psp.rig.gpu.psp.add_fault(&psp.rig.gpu, fault).unwrap();
        psp
    }

    pub fn step(&self) -> Result<bool> {
        self.rig.gpu.psp.step(&self.rig.gpu)
    }

    pub fn get(&self, reg: crate::regs::Reg) -> u32 {
        self.rig.get(reg)
    }

    /// Makes the bootloader take an image. Returns C2PMSG_35 after that.
    pub fn boot(&self, command: u32, image: &[u8]) -> Result<u32> {
        self.rig.poke(vram(PRIVATE), image);
        let gpu = &self.rig.gpu;
        gpu.write(MP0_SMN_C2PMSG_36, ((FB + PRIVATE) >> 20) as u32)?;
        gpu.write(MP0_SMN_C2PMSG_35, command)?;
        assert_eq!(self.get(MP0_SMN_C2PMSG_35) & READY, 0, "busy at once");
        self.step()?;
        Ok(self.get(MP0_SMN_C2PMSG_35))
    }

    /// From cold to a living secure OS.
    pub fn start_os(&self) {
        for (command, kind) in [(KDB, Kind::KEY_DATABASE), (SYS, Kind::SYS_DRIVER)] {
            assert_eq!(self.boot(command, &sample(kind)).unwrap(), READY);
        }
        let os = image::make(Kind::SECURE_OS, SOS_VERSION, 0x2000, true);
        assert_eq!(self.boot(SOS, &os).unwrap(), 0);
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(self.get(MP0_SMN_C2PMSG_81), 0, "the first look");
        assert_ne!(self.get(MP0_SMN_C2PMSG_81), 0);
    }

    /// Makes a ring. Returns C2PMSG_64 without its command.
    pub fn make_ring(&mut self, at: u64, size: u32) -> Result<u32> {
        let gpu = &self.rig.gpu;
        gpu.write(MP0_SMN_C2PMSG_69, lo(at))?;
        gpu.write(MP0_SMN_C2PMSG_70, hi(at))?;
        gpu.write(MP0_SMN_C2PMSG_71, size)?;
        gpu.write(MP0_SMN_C2PMSG_64, 2 << 16)?;
        assert_eq!(self.get(MP0_SMN_C2PMSG_64), 2 << 16, "busy");
        self.step()?;
        self.wptr = 0;
        let answer = self.get(MP0_SMN_C2PMSG_64);
        assert_eq!(answer & 0xffff_0000, 0x8002_0000);
        Ok(answer & 0xffff)
    }

    pub fn good_ring(&mut self) {
        assert_eq!(self.make_ring(FB + RING_AT, RING_SIZE), Ok(0));
    }

    /// A board with a secure OS and its ring.
    pub fn with_ring(start: Start) -> Psp {
        let mut psp = Psp::on(start);
        if start == Start::Cold {
            psp.start_os();
        }
        psp.good_ring();
        psp
    }

    /// And a TMR.
    pub fn with_tmr(start: Start) -> Psp {
        let mut psp = Psp::with_ring(start);
        assert_eq!(psp.set_up_tmr().unwrap(), 0);
        psp
    }

    /// Sends the command `id`; the rest is as in the driver's structures.
    pub fn command(&mut self, id: u32, arguments: &[u32]) -> Result<Answer> {
        let mut page = vec![0u32; 256];
        page[2] = id;
        page[7..7 + arguments.len()].copy_from_slice(arguments);
        self.fence += 1;
        let frame = [
            lo(FB + PAGE_AT),
            hi(FB + PAGE_AT),
            0,
            lo(FB + FENCE_AT),
            hi(FB + FENCE_AT),
            self.fence,
        ];
        self.raw(&page, &frame)
    }

    /// Sends a page and a frame unchanged.
    pub fn raw(&mut self, page: &[u32], frame: &[u32]) -> Result<Answer> {
        let bytes = |words: &[u32]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_le_bytes()).collect()
        };
        self.rig.poke(vram(PAGE_AT), &bytes(page));
        let mut whole = [0; 16];
        whole[..frame.len()].copy_from_slice(frame);
        let at = RING_AT + 4 * u64::from(self.wptr);
        self.rig.poke(vram(at), &bytes(&whole));
        self.wptr = (self.wptr + 16) % (RING_SIZE / 4);
        self.rig.gpu.write(MP0_SMN_C2PMSG_67, self.wptr)?;
        self.step()?;
        assert_eq!(self.get(MP0_SMN_C2PMSG_68), self.wptr);
        let word = |n: u64| self.rig.peek32(vram(PAGE_AT + 0x360 + 4 * n));
        Ok(Answer {
            status: word(0),
            address: u64::from(word(2)) | u64::from(word(3)) << 32,
            tmr_size: word(4),
            fence: self.rig.peek32(vram(FENCE_AT)) == self.fence,
        })
    }

    /// LOAD_IP_FW of an image in VRAM.
    pub fn load(&mut self, number: u32, image: &[u8]) -> Result<Answer> {
        self.rig.poke(vram(PRIVATE), image);
        self.load_at(number, FB + PRIVATE, image.len() as u32)
    }

    pub fn load_at(&mut self, number: u32, at: u64, bytes: u32) -> Result<Answer> {
        self.command(6, &[lo(at), hi(at), bytes, number])
    }

    /// SETUP_TMR with any values. Returns its status.
    pub fn tmr(&mut self, at: u64, size: u32, flags: u32, physical: u64) -> Result<u32> {
        let arguments = [lo(at), hi(at), size, flags, lo(physical), hi(physical)];
        Ok(self.command(5, &arguments)?.status)
    }

    pub fn set_up_tmr(&mut self) -> Result<u32> {
        self.tmr(FB + TMR, TMR_SIZE, 2, TMR)
    }

    pub fn trace(&self) -> Vec<String> {
        let json = self.rig.gpu.psp.json();
        let lines = json["trace"].as_array().unwrap();
        lines
            .iter()
            .map(|line| line.as_str().unwrap().to_string())
            .collect()
    }
}
