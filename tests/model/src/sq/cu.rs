// SPDX-License-Identifier: GPL-2.0
//! The compute units: their used wave slots, registers and LDS.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rkfd_shader::env::Leftovers;
use rkfd_shader::group::Group;
use rkfd_shader::image::{Shape, LDS_UNIT};

use super::contents::{At, Contents, Found};
use super::{CUS, ENGINES};
use crate::fate::mix;

/// SIMDs of a CU, waves of a SIMD, VGPRs of a lane of it, SGPRs of it.
pub(super) const SIMDS: usize = 4;
pub(super) const SLOTS: u32 = 8;
pub(super) const VGPRS: u16 = 512;
pub(super) const SGPRS: usize = 800;
/// LDS of a CU in bytes, and groups of more than one wave.
pub(super) const LDS: u32 = 64 << 10;
const GROUPS: u32 = 16;
/// VGPRs come in units of this many.
const VGPR_UNIT: u16 = 8;
/// SGPRs that a slot has.
const SLOT_SGPRS: usize = SGPRS / SLOTS as usize;

/// Which of the first `TOTAL` units of something are used, a bit each.
#[derive(Debug, Clone, Copy, Default)]
struct Units<const TOTAL: u32>(u128);

impl<const TOTAL: u32> Units<TOTAL> {
    fn mask(first: u32, count: u32) -> u128 {
        let ones = 1u128.checked_shl(count).map_or(!0, |bit| bit - 1);
        ones << first
    }

    /// The first of `count` free units in a row.
    fn find(self, count: u32) -> Option<u32> {
        if count == 0 {
            return Some(0);
        }
        let mut first = 0;
        while first + count <= TOTAL {
            let taken = self.0 & Self::mask(first, count);
            if taken == 0 {
                return Some(first);
            }
            first = 128 - taken.leading_zeros();
        }
        None
    }

    fn take(&mut self, first: u32, count: u32) {
        if count > 0 {
            self.0 |= Self::mask(first, count);
        }
    }

    fn give(&mut self, first: u32, count: u32) {
        if count > 0 {
            self.0 &= !Self::mask(first, count);
        }
    }
}

/// Used resources of a CU. VGPRs of a wave and LDS of a group are in one piece.
#[derive(Debug, Clone, Copy, Default)]
struct Cu {
    /// Wave slots of each SIMD.
    slots: [u8; SIMDS],
    vgprs: [Units<{ (VGPRS / VGPR_UNIT) as u32 }>; SIMDS],
    lds: Units<{ LDS / LDS_UNIT }>,
    /// Numbers of groups that have barriers.
    groups: u16,
}

/// The place of a wave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WavePlace {
    simd: u8,
    slot: u8,
    /// The first of its VGPRs.
    vgpr: u16,
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
    waves: Vec<WavePlace>,
    /// VGPRs of each wave.
    vgprs: u16,
    /// Where its LDS begins, and its size.
    lds: (u32, u32),
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
            .map(move |wave| common | u32::from(wave.slot) | u32::from(wave.simd) << 4)
    }

    /// Where its registers and its LDS are.
    fn at(&self) -> At {
        let sgprs = |slot: u8| {
            let first = usize::from(slot) * SLOT_SGPRS;
            first..first + SLOT_SGPRS
        };
        let waves = self.waves.iter();
        At {
            waves: waves
                .map(|wave| (wave.simd.into(), wave.vgpr.into(), sgprs(wave.slot)))
                .collect(),
            lds: self.lds.0 as usize,
        }
    }

    /// The number of waves.
    pub fn waves(&self) -> u32 {
        self.waves.len() as u32
    }
}

impl Cu {
    /// The SIMD with room that has the fewest waves, and its first free slot.
    fn seat(&self, vgprs: u16, simds: u8) -> Option<WavePlace> {
        let units = u32::from(vgprs.div_ceil(VGPR_UNIT));
        (0..SIMDS)
            .filter(|&n| simds >> n & 1 == 1 && self.slots[n].count_ones() < SLOTS)
            .filter_map(|n| Some((n, self.vgprs[n].find(units)?)))
            .min_by_key(|&(n, _)| self.slots[n].count_ones())
            .map(|(n, unit)| WavePlace {
                simd: n as u8,
                slot: self.slots[n].trailing_ones() as u8,
                vgpr: unit as u16 * VGPR_UNIT,
            })
    }

    /// Whether no wave is there.
    fn is_empty(&self) -> bool {
        self.slots == [0; SIMDS]
    }

    /// Room for a group on this CU, which is number `cu`.
    fn place(&mut self, cu: (u32, u32), need: &Need) -> Option<Place> {
        let lds_units = need.shape.lds.div_ceil(LDS_UNIT);
        let lds = self.lds.find(lds_units)?;
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
            let wave = next.seat(vgprs, need.simds)?;
            let simd = usize::from(wave.simd);
            next.slots[simd] |= 1 << wave.slot;
            next.vgprs[simd].take(
                (wave.vgpr / VGPR_UNIT).into(),
                vgprs.div_ceil(VGPR_UNIT).into(),
            );
            waves.push(wave);
        }
        next.lds.take(lds, lds_units);
        *self = next;
        Some(Place {
            cu,
            waves,
            vgprs,
            lds: (lds * LDS_UNIT, need.shape.lds),
            group,
        })
    }
}

/// All compute units.
pub struct Cus {
    used: Mutex<Vec<Cu>>,
    /// What is in their registers and LDS.
    contents: Vec<Mutex<Contents>>,
}

impl Default for Cus {
    /// All free, as at power-on.
    fn default() -> Cus {
        let count = (CUS * ENGINES) as usize;
        Cus {
            used: Mutex::new(vec![Cu::default(); count]),
            contents: (0..count).map(|_| Mutex::default()).collect(),
        }
    }
}

impl Cus {
    fn all(&self) -> MutexGuard<'_, Vec<Cu>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers and LDS have random contents, from `seed`.
    pub fn scramble(&self, seed: u64) {
        for (n, contents) in (0..).zip(&self.contents) {
            let mut contents = contents.lock().unwrap_or_else(PoisonError::into_inner);
            contents.scramble(mix(seed ^ n));
        }
    }

    /// Room for a group on the first of `cus` that has it.
    pub fn place(&self, need: &Need, mut cus: impl Iterator<Item = (u32, u32)>) -> Option<Place> {
        let mut all = self.all();
        cus.find_map(|cu| all[number(cu)].place(cu, need))
    }

    /// What earlier groups have left in the place of a new one.
    pub fn found(&self, place: &Place) -> impl Leftovers + '_ {
        self.found_at(place.cu, place.at())
    }

    /// See [`Cus::found`].
    pub(super) fn found_at(&self, cu: (u32, u32), at: At) -> Found<'_> {
        Found::new(&self.contents[number(cu)], at)
    }

    /// What a group has in its registers and LDS at its end stays there.
    pub fn keep(&self, place: &Place, group: &Group) {
        self.found_at(place.cu, place.at()).keep(group);
    }

    /// Frees the place of a group that has ended.
    pub fn free(&self, place: &Place) {
        let mut all = self.all();
        let cu = &mut all[number(place.cu)];
        for wave in &place.waves {
            let simd = usize::from(wave.simd);
            cu.slots[simd] &= !(1 << wave.slot);
            cu.vgprs[simd].give(
                (wave.vgpr / VGPR_UNIT).into(),
                place.vgprs.div_ceil(VGPR_UNIT).into(),
            );
        }
        let (at, bytes) = place.lds;
        cu.lds.give(at / LDS_UNIT, bytes.div_ceil(LDS_UNIT));
        if let Some(group) = place.group {
            cu.groups &= !(1 << group);
        }
    }

    /// The CUs where a group has been since [`Cus::clean`]; None: waves are on one.
    pub(super) fn used(&self) -> Option<Vec<(u32, u32)>> {
        if !self.all().iter().all(Cu::is_empty) {
            return None;
        }
        let cus = (0..ENGINES).flat_map(|engine| (0..CUS).map(move |cu| (engine, cu)));
        Some(cus.filter(|&cu| self.contents(cu).is_used()).collect())
    }

    /// Notes that the cleaner has been on a CU.
    pub(super) fn clean(&self, cu: (u32, u32)) {
        self.contents(cu).set_clean();
    }

    fn contents(&self, cu: (u32, u32)) -> MutexGuard<'_, Contents> {
        let contents = self.contents[number(cu)].lock();
        contents.unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of a CU among all.
pub fn number((engine, cu): (u32, u32)) -> usize {
    (engine * CUS + cu) as usize
}

#[cfg(test)]
mod tests {
    use rkfd_shader::lds::Lds;
    use rkfd_shader::wave::Wave;

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

    #[test]
    fn random_contents_at_power_up() {
        let cus = Cus::default();
        let place = |cus: &Cus| cus.place(&need(1, 8, 512), [(0, 0)].into_iter()).unwrap();
        let found = |cus: &Cus, place: &Place| {
            let mut wave = Wave::new(8, 0, 0);
            let mut lds = Lds::new(512);
            cus.found(place).registers(0, &mut wave);
            cus.found(place).lds(&mut lds);
            let rows = wave.vgprs().iter().flat_map(|row| row.0);
            let words: Vec<u32> = rows.collect();
            (words, lds.bytes().to_vec())
        };
        let before = place(&cus);
        assert!(found(&cus, &before).0.iter().all(|&word| word == 0));
        let cus = Cus::default();
        cus.scramble(1);
        let after = place(&cus);
        let (words, lds) = found(&cus, &after);
        assert!(words.iter().all(|&word| word != 0) && words[0] != words[1]);
        assert!(lds.iter().any(|&byte| byte != lds[0]));
    }
}
