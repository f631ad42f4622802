// SPDX-License-Identifier: GPL-2.0
//! The saved waves of a queue: a stack of words in the kernel's memory, and of records in the
//! user's.

use rkfd_shader::image::{Shape, Word};

/// The command processor's header of the words: a NOP of two dwords.
const HEADER: [u32; 2] = [0xc000_1000, 0];
const DWORD: u64 = 4;

/// The save area of waves, in which offsets count from `base`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Area {
    /// CTX_SAVE_BASE_ADDR, in the queue's address space.
    pub base: u64,
    /// CTX_SAVE_SIZE, bytes.
    pub size: u64,
    /// CNTL_STACK_SIZE, bytes: the words are below, the records above.
    pub stack: u64,
}

/// A group that was saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// The part of their registers that its waves have in common.
    pub shape: Shape,
    /// The waves, the first one first.
    pub waves: Vec<Word>,
}

/// Saved waves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    area: Area,
    /// In the order in which they were pushed.
    words: Vec<u32>,
    /// WG_STATE_OFFSET: behind the newest record.
    end: u64,
}

impl Image {
    /// Creates an empty one.
    pub fn new(area: Area) -> Image {
        Image {
            area,
            words: Vec::new(),
            end: area.stack,
        }
    }

    /// Creates it from the dwords in memory, lowest address first, and WG_STATE_OFFSET.
    pub fn of(area: Area, dwords: &[u32], end: u64) -> Result<Image, &'static str> {
        let words = dwords.get(HEADER.len()..).unwrap_or_default();
        let image = Image {
            area,
            words: words.iter().rev().copied().collect(),
            end,
        };
        let mut rest = image.clone();
        while !rest.words.is_empty() {
            let group = rest.group().ok_or("a word that is not one of a group")?;
            rest.pop(&group).ok_or("a record outside of the area")?;
        }
        if rest.end != area.stack {
            return Err("the records do not end where the stack does");
        }
        Ok(image)
    }

    /// Returns whether nothing is saved.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// CNTL_STACK_OFFSET, WG_STATE_OFFSET, and the dwords from the former on.
    pub fn memory(&self) -> (u64, u64, Vec<u32>) {
        if self.words.is_empty() {
            return (self.area.stack, self.area.stack, Vec::new());
        }
        let dwords: Vec<u32> = HEADER
            .into_iter()
            .chain(self.words.iter().rev().copied())
            .collect();
        (
            self.area.stack - dwords.len() as u64 * DWORD,
            self.end,
            dwords,
        )
    }

    /// The waves' slots of scratch: engine and scoreboard.
    pub fn slots(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.words
            .iter()
            .filter_map(|&word| Word::of(word))
            .filter(|word| word.scratch)
            .map(|word| (word.engine, word.scoreboard))
    }

    /// Allocates records for a group's waves, the first one first, and their words. Returns the
    /// address of each record. None: there is no room.
    pub fn push(&mut self, shape: Shape, waves: &[Word]) -> Option<Vec<u64>> {
        let bytes: u64 = waves.iter().map(|wave| shape.record(wave.first)).sum();
        let dwords = HEADER.len() + self.words.len() + waves.len() + 1;
        if self.end + bytes > self.area.size || dwords as u64 * DWORD > self.area.stack {
            return None;
        }
        let mut records: Vec<u64> = Vec::with_capacity(waves.len());
        for wave in waves.iter().rev() {
            self.words.push(wave.word());
            records.push(self.area.base + self.end);
            self.end += shape.record(wave.first);
        }
        self.words.push(shape.word());
        records.reverse();
        Some(records)
    }

    /// The group that was saved last.
    pub fn group(&self) -> Option<Saved> {
        let mut words = self.words.iter().rev();
        let shape = Shape::of(*words.next()?)?;
        let mut waves = Vec::new();
        for &word in words {
            let wave = Word::of(word)?;
            if wave.first != waves.is_empty() {
                return None;
            }
            waves.push(wave);
            if wave.last {
                return Some(Saved { shape, waves });
            }
        }
        None
    }

    /// Removes the words of the group from [`Image::group`]. Returns the address of each wave's
    /// record.
    pub fn pop(&mut self, group: &Saved) -> Option<Vec<u64>> {
        let mut records = Vec::with_capacity(group.waves.len());
        for wave in &group.waves {
            self.end = self.end.checked_sub(group.shape.record(wave.first))?;
            records.push(self.area.base.wrapping_add(self.end));
        }
        let left = self.words.len().checked_sub(group.waves.len() + 1)?;
        self.words.truncate(left);
        (self.end >= self.area.stack).then_some(records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AREA: Area = Area {
        base: 0x10_0000,
        size: 0x2_0000,
        stack: 0x1000,
    };
    const SHAPE: Shape = Shape {
        arch: 8,
        acc: 0,
        lds: 512,
    };

    fn waves(count: u32) -> Vec<Word> {
        (0..count)
            .map(|n| Word {
                scoreboard: n,
                engine: 3,
                scratch: true,
                first: n == 0,
                last: n + 1 == count,
            })
            .collect()
    }

    #[test]
    fn last_in_first_out() {
        let mut image = Image::new(AREA);
        let stride = 8 * 256 + 640;
        // The last wave is the lowest, the first one has the LDS.
        let group = [AREA.base + 0x1000 + stride, AREA.base + 0x1000];
        assert_eq!(image.push(SHAPE, &waves(2)), Some(group.to_vec()));
        let next = AREA.base + 0x1000 + 2 * stride + 512;
        assert_eq!(image.push(SHAPE, &waves(1)), Some(vec![next]));
        let (offset, end, dwords) = image.memory();
        assert_eq!((offset, end), (0x1000 - 7 * 4, 0x1000 + 3 * stride + 1024));
        // State, then the only wave; state, first, last.
        let state = 1 << 31 | 7 << 6 | 1 << 9 | 1 << 24;
        let first = 3 << 9 | 1 << 15 | 1 << 17;
        let last = 1 << 16;
        assert_eq!(
            dwords[2..],
            [
                state,
                first | last,
                state,
                first,
                first & !(1 << 17) | 1 | last
            ]
        );
        let mut image = Image::of(AREA, &dwords, end).unwrap();
        assert_eq!(image.slots().count(), 3);
        for records in [vec![next], group.to_vec()] {
            let saved = image.group().unwrap();
            assert_eq!(image.pop(&saved), Some(records));
        }
        assert!(image.is_empty());
        assert_eq!(image.memory(), (0x1000, 0x1000, Vec::new()));
    }

    #[test]
    fn what_is_no_image() {
        let mut image = Image::new(AREA);
        image.push(SHAPE, &waves(2)).unwrap();
        let (_, end, dwords) = image.memory();
        assert!(Image::of(AREA, &dwords, end + 4).is_err());
        assert!(Image::of(AREA, &dwords[..4], end).is_err());
        let small = Area {
            size: 0x2000,
            ..AREA
        };
        assert_eq!(Image::new(small).push(SHAPE, &waves(2)), None);
    }
}
