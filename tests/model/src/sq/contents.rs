// SPDX-License-Identifier: GPL-2.0
//! What is in the registers and in the LDS of a CU. Nothing clears it but code: the next group
//! there finds what the last one has left.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rkfd_shader::env::Leftovers;
use rkfd_shader::group::Group;
use rkfd_shader::lds::Lds;
use rkfd_shader::wave::{Row, Wave};

use super::cu;
use crate::fate::mix;

/// Registers of a SIMD.
struct Simd {
    vgprs: Vec<Row>,
    sgprs: Vec<u32>,
}

/// Contents of a CU.
#[derive(Default)]
pub struct Contents {
    /// Its SIMDs, none before its first group.
    simds: Vec<Simd>,
    lds: Vec<u8>,
    /// A group has ended there since it was cleaned.
    used: bool,
    /// Registers and LDS are random before their first use, from this seed, and not 0.
    seed: Option<u64>,
}

impl Contents {
    /// Returns whether a group has ended there since [`Contents::set_clean`].
    pub fn is_used(&self) -> bool {
        self.used
    }

    /// Notes that the cleaner has been there.
    pub fn set_clean(&mut self) {
        self.used = false;
    }

    /// Registers and LDS are random until something is written there.
    pub fn scramble(&mut self, seed: u64) {
        self.seed = Some(seed);
    }

    /// Makes room for contents.
    fn fill(&mut self) {
        if !self.simds.is_empty() {
            return;
        }
        self.simds.resize_with(cu::SIMDS, || Simd {
            vgprs: vec![Row::ZERO; cu::VGPRS.into()],
            sgprs: vec![0; cu::SGPRS],
        });
        self.lds.resize(cu::LDS as usize, 0);
        let Some(seed) = self.seed else {
            return;
        };
        let mut words = (0..).map(|n| mix(seed ^ n) as u32);
        for simd in &mut self.simds {
            let lanes = simd.vgprs.iter_mut().flat_map(|row| row.0.iter_mut());
            for (word, random) in lanes.chain(&mut simd.sgprs).zip(&mut words) {
                *word = random;
            }
        }
        for (bytes, random) in self.lds.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&random.to_le_bytes());
        }
    }

    /// Makes room for a group that is to find something else than zeros.
    fn fill_if_random(&mut self) {
        if self.seed.is_some() {
            self.fill();
        }
    }
}

/// Where the registers and the LDS of a group are in its CU.
pub struct At {
    /// SIMD, first VGPR and SGPRs of each wave.
    pub waves: Vec<(usize, usize, Range<usize>)>,
    /// The first byte of its LDS.
    pub lds: usize,
}

/// The contents of a CU for a group.
pub struct Found<'a> {
    contents: &'a Mutex<Contents>,
    at: At,
}

impl<'a> Found<'a> {
    /// Those of a group whose registers and LDS are at `at`.
    pub fn new(contents: &'a Mutex<Contents>, at: At) -> Found<'a> {
        Found { contents, at }
    }

    fn contents(&self) -> MutexGuard<'a, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what a group has at its end.
    pub fn keep(&self, group: &Group) {
        let mut contents = self.contents();
        contents.fill();
        contents.used = true;
        for (wave, (simd, first, sgprs)) in group.waves.iter().zip(&self.at.waves) {
            let simd = &mut contents.simds[*simd];
            let rows = wave.vgprs();
            simd.vgprs[*first..first + rows.len()].copy_from_slice(rows);
            wave.scalars_to(&mut simd.sgprs[sgprs.clone()]);
        }
        let place = &mut contents.lds[self.at.lds..];
        let count = place.len().min(group.lds.bytes().len());
        place[..count].copy_from_slice(&group.lds.bytes()[..count]);
    }
}

impl Leftovers for Found<'_> {
    fn registers(&self, n: usize, wave: &mut Wave) {
        let mut contents = self.contents();
        contents.fill_if_random();
        let (simd, first, sgprs) = &self.at.waves[n];
        let Some(simd) = contents.simds.get(*simd) else {
            return;
        };
        let rows = wave.vgprs_mut();
        rows.copy_from_slice(&simd.vgprs[*first..first + rows.len()]);
        wave.scalars_from(&simd.sgprs[sgprs.clone()]);
    }

    fn lds(&self, lds: &mut Lds) {
        let mut contents = self.contents();
        contents.fill_if_random();
        let found = contents.lds.get(self.at.lds..).unwrap_or(&[]);
        let count = found.len().min(lds.bytes().len());
        lds.bytes_mut()[..count].copy_from_slice(&found[..count]);
    }
}
