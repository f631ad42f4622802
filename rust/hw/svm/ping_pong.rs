// SPDX-License-Identifier: GPL-2.0
//! Memory that the CPU and a GPU want in turns: it would move to and fro, and neither might ever get on with it.

use crate::va::VaRange;

/// How many pieces are known.
const KNOWN: usize = 64;
/// How often one goes to VRAM in a row.
const MOST: u8 = 3;
/// What is a row, and how long it stays in system memory after one, milliseconds.
const ROW_MS: u64 = 1000;
/// The same as a multiple of what a move took, where that is longer: on a machine that is busy it may never be a row otherwise.
const ROW_MOVES: u64 = 8;

#[derive(Clone, Copy, Debug)]
struct RecentMove {
    range: VaRange,
    /// How often it went to VRAM in a row, when it last did, and for how long after that it is one row.
    moves: u8,
    moved_ms: u64,
    row_ms: u64,
}

/// What is known of memory that has lately gone to VRAM because a GPU came to it. What went there last is kept.
#[derive(Debug)]
pub struct PingPong([Option<RecentMove>; KNOWN]);

impl PingPong {
    /// Nothing.
    #[inline]
    pub fn new() -> Self {
        Self([None; KNOWN])
    }

    /// Whether `range`, which is not in VRAM at `now_ms` and wanted there, had better stay where it is: something of it has
    /// come back from there too often.
    pub fn is_on(&self, range: VaRange, now_ms: u64) -> bool {
        let mut its = self.0.iter().flatten();
        its.any(|piece| piece.moves >= MOST && piece.continues_with(range, now_ms))
    }

    /// `range`, or something of it, has gone to VRAM between `began_ms` and `now_ms`.
    pub fn moved(&mut self, range: VaRange, began_ms: u64, now_ms: u64) {
        let row_ms = ROW_MS.max(now_ms.saturating_sub(began_ms).saturating_mul(ROW_MOVES));
        let mut piece = RecentMove {
            range,
            moves: 1,
            moved_ms: now_ms,
            row_ms,
        };
        // Where the process's memory begins and ends may have changed since: all that has something of it is one piece now.
        for place in &mut self.0 {
            if let Some(before) = place.take_if(|before| before.continues_with(range, now_ms)) {
                piece.range = piece.range.hull(before.range);
                piece.moves = piece.moves.max(before.moves.saturating_add(1));
            }
        }
        let last = |place: &Option<RecentMove>| place.map(|piece| piece.moved_ms);
        if let Some(oldest) = self.0.iter_mut().min_by_key(|place| last(place)) {
            *oldest = Some(piece);
        }
    }
}

impl Default for PingPong {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

impl RecentMove {
    /// Whether it is a row of this if something of `range` goes to VRAM at `now_ms`.
    fn continues_with(&self, range: VaRange, now_ms: u64) -> bool {
        self.range.overlaps(range) && now_ms.saturating_sub(self.moved_ms) < self.row_ms
    }
}
