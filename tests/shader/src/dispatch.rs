// SPDX-License-Identifier: GPL-2.0
//! A dispatch: from the COMPUTE_* state to the first registers of each wave.

use crate::decode::bits;
use crate::env::Leftovers;
use crate::group::Group;
use crate::hwreg::{check_mode, status, DEBUG_EN};
use crate::image::{Shape, LDS_UNIT};
use crate::isa::Isa;
use crate::lds::Lds;
use crate::wave::{sgpr, Apertures, Reason, Wave, LANES};

/// The initial state of waves.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The generation, which decides what registers hold.
    pub isa: Isa,
    /// Address of the first instruction.
    pub pc: u64,
    /// COMPUTE_PGM_RSRC1, 2, 3.
    pub rsrc1: u32,
    /// See above.
    pub rsrc2: u32,
    /// See above.
    pub rsrc3: u32,
    /// COMPUTE_USER_DATA; only as many count as RSRC2 asks for.
    pub user: [u32; 16],
    /// Items of a group.
    pub size: [u32; 3],
    /// Groups.
    pub groups: [u32; 3],
    /// Items of the last group in each direction.
    pub last: [u32; 3],
    /// Number of the first group in each direction.
    pub start: [u32; 3],
    /// Bytes of LDS of a group.
    pub lds: u32,
    /// Apertures of generic addresses.
    pub apertures: Apertures,
    /// Bytes from address 0 to the scratch of the first slot, on gfx942
    /// (COMPUTE_DISPATCH_SCRATCH_BASE).
    pub scratch: u64,
    /// Index of the packet in the ring if TTMPs are set up.
    pub ttmps: Option<u32>,
    /// What a debugger wants of new waves.
    pub debug: Debug,
}

/// What a debugger wants of new waves: SPI_GDBG_PER_VMID_CNTL.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Debug {
    /// They are halted before their first instruction (LAUNCH_MODE 1).
    pub halted: bool,
    /// They trap after each instruction (LAUNCH_MODE 3).
    pub stepped: bool,
    /// EXCP_EN: bits for MODE\[20:12\].
    pub exceptions: u32,
    /// These are all (EXCP_REPLACE), instead of those of the kernel, too.
    pub replaces: bool,
}

impl Debug {
    /// MODE of a wave whose kernel wants `mode`.
    fn mode(self, mode: u32) -> u32 {
        let enabled = if self.replaces {
            mode & !MODE_EXCEPTIONS
        } else {
            mode
        };
        let stepped = if self.stepped { DEBUG_EN } else { 0 };
        enabled | self.exceptions << 12 & MODE_EXCEPTIONS | stepped
    }
}

/// MODE.EXCP_EN, with the enable bits of address watches and memory violations.
const MODE_EXCEPTIONS: u32 = 0x1ff << 12;

/// The place of a wave.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seat {
    /// HW_ID.
    pub hw_id: u32,
    /// Its slot of scratch in its engine.
    pub scoreboard: u32,
    /// The slot's offset, bytes.
    pub scratch: u32,
}

impl Launch {
    /// VGPRs: arch and accumulation.
    pub fn vgprs(&self) -> (u16, u16) {
        let all = (bits(self.rsrc1, 5, 0) as u16 + 1) * 8;
        let arch = ((bits(self.rsrc3, 5, 0) as u16 + 1) * 4).min(all);
        (arch, all - arch)
    }

    /// The part of their registers that all waves have in common.
    pub fn shape(&self) -> Shape {
        let (arch, acc) = self.vgprs();
        Shape {
            arch,
            acc,
            lds: self.lds.next_multiple_of(LDS_UNIT),
        }
    }

    /// Items of the group with number `index`.
    fn items(&self, index: u64) -> ([u32; 3], [u32; 3]) {
        let [x, y, _] = self.groups.map(u64::from);
        let id = [index % x, index / x % y, index / (x * y)].map(|n| n as u32);
        let size = [0, 1, 2].map(|n| {
            if id[n] + 1 == self.groups[n] {
                self.last[n]
            } else {
                self.size[n]
            }
        });
        (id, size)
    }

    /// Waves of the group with number `index`.
    pub fn waves_of(&self, index: u64) -> u32 {
        let (_, size) = self.items(index);
        size.iter().product::<u32>().div_ceil(LANES as u32)
    }

    /// Waves of a whole group.
    pub fn waves(&self) -> u32 {
        self.size.iter().product::<u32>().div_ceil(LANES as u32)
    }

    /// The number of groups.
    pub fn count(&self) -> u64 {
        let groups = self.groups.map(u64::from);
        groups.iter().fold(1, |all, &n| all.saturating_mul(n))
    }

    /// Returns whether waves have scratch.
    pub fn has_scratch(&self) -> bool {
        bits(self.rsrc2, 0, 0) == 1
    }

    /// MODE at the start.
    fn mode(&self) -> u32 {
        bits(self.rsrc1, 19, 12)
            | bits(self.rsrc1, 21, 21) << 8
            | bits(self.rsrc1, 23, 23) << 9
            | bits(self.rsrc2, 30, 24) << 12
            | bits(self.rsrc2, 14, 13) << 19
            | bits(self.rsrc1, 26, 26) << 23
    }

    /// Checks that all settings are supported. The error is the first one that is not.
    pub fn check(&self) -> Result<(), Reason> {
        if bits(self.rsrc3, 16, 16) == 1 {
            return Err(Reason::Unsupported("TG_SPLIT"));
        }
        check_mode(self.mode())
    }

    /// The group with number `index` (x fastest), with its waves at `seats`, of which there are as
    /// many. It begins with what is `left` there.
    pub fn group(&self, index: u64, seats: &[Seat], left: &dyn Leftovers) -> Group {
        let (id, size) = self.items(index);
        let count = size.iter().product::<u32>().div_ceil(LANES as u32);
        let id = [0, 1, 2].map(|n| id[n].wrapping_add(self.start[n]));
        let waves = (0..count).zip(seats);
        let waves = waves
            .map(|(n, seat)| {
                let mut wave = Wave::new(self.shape().arch, self.shape().acc, self.pc);
                left.registers(n as usize, &mut wave);
                self.launch(&mut wave, id, size, (n, count), seat);
                wave
            })
            .collect();
        let mut lds = Lds::new(self.shape().lds);
        left.lds(&mut lds);
        Group::new(waves, lds, id)
    }

    /// Gives a wave its initial state, except for registers that a launch does not set.
    fn launch(
        &self,
        wave: &mut Wave,
        id: [u32; 3],
        size: [u32; 3],
        (n, count): (u32, u32),
        seat: &Seat,
    ) {
        let shape = self.shape();
        wave.mode = self.debug.mode(self.mode());
        wave.apertures = self.apertures;
        wave.status = status::VALID
            | status::IN_TG
            | bits(self.rsrc1, 11, 10) << 1
            | bits(self.rsrc2, 6, 6) * status::TRAP_EN
            | u32::from(self.debug.halted) * status::HALT;
        wave.hw_id = seat.hw_id;
        wave.scoreboard = seat.scoreboard;
        wave.has_scratch = self.has_scratch();
        wave.gpr_alloc = shape.gpr_alloc();
        wave.lds_alloc = shape.lds_alloc();
        self.scalars(wave, id, (n, count), seat);
        self.lanes(wave, size, n);
    }

    fn scalars(&self, wave: &mut Wave, id: [u32; 3], (n, count): (u32, u32), seat: &Seat) {
        let mut next = bits(self.rsrc2, 5, 1).min(16) as usize;
        wave.sgpr[..next].copy_from_slice(&self.user[..next]);
        let mut push = |enabled: bool, value: u32| {
            if enabled {
                wave.sgpr[next] = value;
                next += 1;
            }
        };
        for (axis, &number) in id.iter().enumerate() {
            push(self.rsrc2 >> (7 + axis) & 1 == 1, number);
        }
        push(
            bits(self.rsrc2, 10, 10) == 1,
            u32::from(n == 0) << 31 | count,
        );
        match self.isa {
            Isa::Gfx90a => push(self.has_scratch(), seat.scratch),
            // The hardware adds the slot's offset (LLVM's architected flat scratch).
            Isa::Gfx942 if self.has_scratch() => {
                let scratch = self.scratch.wrapping_add(seat.scratch.into());
                wave.set_pair(sgpr::FLAT_SCRATCH, scratch);
            }
            Isa::Gfx942 => {}
        }
        if let Some(packet) = self.ttmps {
            let packet = bits(packet, 24, 0);
            wave.sgpr[sgpr::TTMP + 8..][..3].copy_from_slice(&id);
            // ROCr's trap handler for each of them reads it so.
            let eleventh = match self.isa {
                Isa::Gfx90a => {
                    wave.sgpr[sgpr::TTMP + 6] = packet;
                    u32::from(!self.has_scratch()) << 6
                }
                Isa::Gfx942 => packet << 6,
            };
            wave.sgpr[sgpr::TTMP + 11] = n | eleventh;
        }
    }

    /// v0 and EXEC.
    fn lanes(&self, wave: &mut Wave, size: [u32; 3], n: u32) {
        let items = size.iter().product::<u32>();
        let asked = bits(self.rsrc2, 12, 11);
        let mut exec = 0;
        for lane in 0..LANES as u32 {
            let item = n * LANES as u32 + lane;
            if item >= items {
                break;
            }
            exec |= 1 << lane;
            let x = item % size[0];
            let y = item / size[0] % size[1];
            let z = item / (size[0] * size[1]);
            let mut packed = x;
            if asked >= 1 {
                packed |= y << 10;
            }
            if asked >= 2 {
                packed |= z << 20;
            }
            wave.v_mut(0)[lane as usize] = packed;
        }
        wave.set_exec(exec);
    }
}
