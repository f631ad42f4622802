// SPDX-License-Identifier: GPL-2.0
//! The compute units: their used wave slots, registers and LDS.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rkfd_shader::image::Shape;

use super::{CUS, ENGINES};

/// SIMDs of a CU, waves of a SIMD, VGPRs of a lane of it.
const SIMDS: usize = 4;
const SLOTS: u32 = 8;
const VGPRS: u16 = 512;
/// LDS of a CU in bytes, and groups of more than one wave.
const LDS: u32 = 64 << 10;
const GROUPS: u32 = 16;

/// Used resources of a CU.
#[derive(Debug, Clone, Copy, Default)]
struct Cu {
    /// Wave slots of each SIMD.
    slots: [u8; SIMDS],
    vgprs: [u16; SIMDS],
    lds: u32,
    /// Numbers of groups that have barriers.
    groups: u16,
}

/// Resources that a group needs.
#[derive(Debug, Clone, Copy)]
pub struct Need {
    /// Waves.
    pub waves: u32,
    /// Registers of each, and LDS.
    pub shape: Shape,
    /// SIMDs that may be used, a bit each.
    pub simds: u8,
}

/// The place of a group, until it is given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Engine and number in it.
    pub cu: (u32, u32),
    /// SIMD and slot of each wave.
    waves: Vec<(u8, u8)>,
    vgprs: u16,
    lds: u32,
    group: Option<u8>,
}

impl Place {
    /// The part of HW_ID that locates each wave: WAVE, SIMD, CU, SE, TG.
    pub fn hw_ids(&self) -> impl Iterator<Item = u32> + '_ {
        let (engine, cu) = self.cu;
        let group = u32::from(self.group.unwrap_or(0));
        let common = cu << 8 | engine << 13 | group << 16;
        self.waves
            .iter()
            .map(move |&(simd, slot)| common | u32::from(slot) | u32::from(simd) << 4)
    }

    /// The number of waves.
    pub fn waves(&self) -> u32 {
        self.waves.len() as u32
    }
}

impl Cu {
    /// The SIMD with room that has the fewest waves, and its first free slot.
    fn seat(&self, vgprs: u16, simds: u8) -> Option<(u8, u8)> {
        (0..SIMDS)
            .filter(|&n| simds >> n & 1 == 1)
            .filter(|&n| self.slots[n].count_ones() < SLOTS && self.vgprs[n] + vgprs <= VGPRS)
            .min_by_key(|&n| self.slots[n].count_ones())
            .map(|n| (n as u8, self.slots[n].trailing_ones() as u8))
    }

    /// Room for a group on this CU, which is number `cu`.
    fn place(&mut self, cu: (u32, u32), need: &Need) -> Option<Place> {
        if self.lds + need.shape.lds > LDS {
            return None;
        }
        let mut next = *self;
        let group = if need.waves > 1 {
            let number = self.groups.trailing_ones();
            if number == GROUPS {
                return None;
            }
            next.groups |= 1 << number;
            Some(number as u8)
        } else {
            None
        };
        let vgprs = need.shape.arch + need.shape.acc;
        let mut waves = Vec::with_capacity(need.waves as usize);
        for _ in 0..need.waves {
            let (simd, slot) = next.seat(vgprs, need.simds)?;
            next.slots[usize::from(simd)] |= 1 << slot;
            next.vgprs[usize::from(simd)] += vgprs;
            waves.push((simd, slot));
        }
        next.lds += need.shape.lds;
        *self = next;
        Some(Place {
            cu,
            waves,
            vgprs,
            lds: need.shape.lds,
            group,
        })
    }
}

/// All compute units.
pub struct Cus(Mutex<Vec<Cu>>);

impl Default for Cus {
    /// All free.
    fn default() -> Cus {
        Cus(Mutex::new(vec![Cu::default(); (CUS * ENGINES) as usize]))
    }
}

impl Cus {
    fn all(&self) -> MutexGuard<'_, Vec<Cu>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for a group on the first of `cus` that has it.
    pub fn place(&self, need: &Need, mut cus: impl Iterator<Item = (u32, u32)>) -> Option<Place> {
        let mut all = self.all();
        cus.find_map(|cu| all[number(cu)].place(cu, need))
    }

    /// Frees the place of a group that has ended.
    pub fn free(&self, place: &Place) {
        let mut all = self.all();
        let cu = &mut all[number(place.cu)];
        for &(simd, slot) in &place.waves {
            cu.slots[usize::from(simd)] &= !(1 << slot);
            cu.vgprs[usize::from(simd)] -= place.vgprs;
        }
        cu.lds -= place.lds;
        if let Some(group) = place.group {
            cu.groups &= !(1 << group);
        }
    }
}

/// The number of a CU among all.
pub fn number((engine, cu): (u32, u32)) -> usize {
    (engine * CUS + cu) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(waves: u32, vgprs: u16, lds: u32) -> Need {
        let shape = Shape {
            arch: vgprs,
            acc: 0,
            lds,
        };
        Need {
            waves,
            shape,
            simds: 0xf,
        }
    }

    /// The number of such groups that fit on a CU.
    fn fits(need: &Need) -> usize {
        let cus = Cus::default();
        let one = || [(3, 5)].into_iter();
        let places: Vec<Place> = std::iter::from_fn(|| cus.place(need, one())).collect();
        for place in &places {
            cus.free(place);
        }
        assert!(cus.place(need, one()).is_some());
        places.len()
    }

    #[test]
    fn what_limits_a_cu() {
        assert_eq!(fits(&need(1, 64, 0)), 32);
        assert_eq!(fits(&need(1, 128, 0)), 16);
        assert_eq!(fits(&need(1, 512, 0)), 4);
        assert_eq!(fits(&need(1, 8, 20 << 10)), 3);
        assert_eq!(fits(&need(2, 8, 0)), 16);
        assert_eq!(fits(&need(16, 24, 0)), 2);
        let two = Need {
            simds: 0b0101,
            ..need(1, 8, 0)
        };
        assert_eq!(fits(&two), 16);
    }

    #[test]
    fn where_waves_are() {
        let cus = Cus::default();
        let place = cus.place(&need(6, 8, 0), [(7, 12)].into_iter()).unwrap();
        let ids: Vec<u32> = place.hw_ids().collect();
        assert_eq!(ids[0], 12 << 8 | 7 << 13);
        assert_eq!(ids[5], 12 << 8 | 7 << 13 | 1 << 4 | 1);
        let other = cus.place(&need(2, 8, 0), [(7, 12)].into_iter()).unwrap();
        assert_eq!(
            other.hw_ids().next(),
            Some(12 << 8 | 7 << 13 | 1 << 16 | 2 << 4 | 1)
        );
    }
}
