// SPDX-License-Identifier: GPL-2.0
//! Memory that the CPU and a GPU want in turns: it would move to and fro, and neither might ever get on with it.

/// How many windows are known.
const KNOWN: usize = 64;
/// How often one goes to VRAM in a row.
const MOST: u8 = 3;
/// What is a row, and how long it stays in system memory after one, milliseconds.
const ROW_MS: u64 = 1000;

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    start: u64,
    /// How often it went to VRAM, and when it last did. Never: nothing is known here.
    moves: u8,
    last_ms: u64,
}

/// What is known of windows, by their first address, that have lately gone to VRAM because a GPU came to them. Those that went there last are
/// kept.
#[derive(Debug)]
pub struct PingPong([Window; KNOWN]);

impl PingPong {
    /// Nothing.
    #[inline]
    pub fn new() -> Self {
        Self([Window::default(); KNOWN])
    }

    /// Whether the window at `start`, which is not in VRAM at `now_ms` and wanted there, had better stay where it is: it has
    /// come back from there too often.
    pub fn is_on(&self, start: u64, now_ms: u64) -> bool {
        let mut its = self.0.iter().filter(|known| known.start == start);
        its.any(|known| known.moves >= MOST && known.is_in_a_row(now_ms))
    }

    /// The window at `start` has gone to VRAM.
    pub fn moved(&mut self, start: u64, now_ms: u64) {
        let place = self.0.iter().position(|known| known.start == start);
        let oldest = || {
            let times = self.0.iter().enumerate();
            times.min_by_key(|(_, known)| known.last_ms).map(|(n, _)| n)
        };
        let Some(known) = place.or_else(oldest).and_then(|n| self.0.get_mut(n)) else {
            return;
        };
        let before = match known.start == start && known.is_in_a_row(now_ms) {
            true => known.moves,
            false => 0,
        };
        *known = Window {
            start,
            moves: before.saturating_add(1),
            last_ms: now_ms,
        };
    }
}

impl Default for PingPong {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

impl Window {
    fn is_in_a_row(&self, now_ms: u64) -> bool {
        self.moves > 0 && now_ms.saturating_sub(self.last_ms) < ROW_MS
    }
}
