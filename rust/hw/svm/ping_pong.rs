// SPDX-License-Identifier: GPL-2.0
//! Memory that the CPU and a GPU access in turns: it would move to and fro, and neither might ever
//! make progress.

use crate::va::VaRange;

/// Number of ranges that are remembered.
const KNOWN: usize = 64;
/// How often a range goes to VRAM in a row.
const MOST: u8 = 3;
/// The time in which moves count as a row, and for which a range stays in system memory after one,
/// milliseconds.
const ROW_MS: u64 = 1000;
/// The same as a multiple of the duration of a move, if that is longer: on a busy machine moves
/// might never count as a row otherwise.
const ROW_MOVES: u64 = 8;

#[derive(Clone, Copy, Debug)]
struct RecentMove {
    range: VaRange,
    /// How often it went to VRAM in a row, when it last did, and for how long after that the row
    /// continues.
    moves: u8,
    moved_ms: u64,
    row_ms: u64,
}

/// Memory that has recently moved to VRAM because a GPU accessed it. The most recent ranges are
/// kept.
#[derive(Debug)]
pub struct PingPong([Option<RecentMove>; KNOWN]);

impl PingPong {
    /// Nothing remembered.
    #[inline]
    pub fn new() -> Self {
        Self([None; KNOWN])
    }

    /// Whether `range`, which is not in VRAM at `now_ms` and wanted there, should stay where it is,
    /// because a part of it has come back from there too often.
    pub fn is_on(&self, range: VaRange, now_ms: u64) -> bool {
        let mut pieces = self.0.iter().flatten();
        pieces.any(|piece| piece.moves >= MOST && piece.continues_with(range, now_ms))
    }

    /// Records that `range`, or a part of it, has moved to VRAM between `began_ms` and `now_ms`.
    pub fn moved(&mut self, range: VaRange, began_ms: u64, now_ms: u64) {
        let row_ms = ROW_MS.max(now_ms.saturating_sub(began_ms).saturating_mul(ROW_MOVES));
        let mut piece = RecentMove {
            range,
            moves: 1,
            moved_ms: now_ms,
            row_ms,
        };
        // The limits of the process's memory may have changed since: all ranges that overlap are
        // one range now.
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
    /// Whether a move of a part of `range` to VRAM at `now_ms` continues this row.
    fn continues_with(&self, range: VaRange, now_ms: u64) -> bool {
        self.range.overlaps(range) && now_ms.saturating_sub(self.moved_ms) < self.row_ms
    }
}
