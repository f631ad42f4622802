// SPDX-License-Identifier: GPL-2.0
//! COPY_LINEAR_SUBWIN: a box of elements from one pitched volume to another.

use super::packet::Refusal;
use crate::error::Result;
use crate::regs::Field;
use crate::vm::Vm;

/// One side of the copy; all but the base in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Volume {
    /// Address of element 0,0,0.
    pub base: u64,
    /// First element of the box.
    pub at: [u64; 3],
    /// Elements from one row to the next.
    pub pitch: u64,
    /// Elements from one slice to the next.
    pub slice: u64,
}

/// The packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubWindow {
    /// log2 of the bytes of an element.
    pub element: u32,
    /// The source.
    pub from: Volume,
    /// The destination.
    pub to: Volume,
    /// Size of the box in elements.
    pub size: [u64; 3],
}

/// Names by the bytes of an element, for the summary.
const NAMES: [&str; 5] = [
    "COPY_SUBWIN_1B",
    "COPY_SUBWIN_2B",
    "COPY_SUBWIN_4B",
    "COPY_SUBWIN_8B",
    "COPY_SUBWIN_16B",
];

impl SubWindow {
    /// For the summary.
    pub fn name(&self) -> &'static str {
        NAMES[self.element as usize]
    }

    /// Decodes the 13 dwords of the packet.
    pub fn decode(words: &[u32]) -> std::result::Result<SubWindow, Refusal> {
        let [header, words @ ..] = words else {
            return Err("the packet is too short");
        };
        if words.len() < 12 {
            return Err("the packet is too short");
        }
        let element = Field::new(31, 29).get(*header);
        if element > 4 {
            return Err("the element size is unknown");
        }
        let volume = |at: usize| Volume {
            base: u64::from(words[at]) | u64::from(words[at + 1]) << 32,
            at: [
                Field::new(13, 0).get(words[at + 2]).into(),
                Field::new(29, 16).get(words[at + 2]).into(),
                Field::new(10, 0).get(words[at + 3]).into(),
            ],
            pitch: u64::from(Field::new(31, 13).get(words[at + 3])) + 1,
            slice: u64::from(Field::new(27, 0).get(words[at + 4])) + 1,
        };
        let window = SubWindow {
            element,
            from: volume(0),
            to: volume(5),
            size: [
                u64::from(Field::new(13, 0).get(words[10])) + 1,
                u64::from(Field::new(29, 16).get(words[10])) + 1,
                u64::from(Field::new(10, 0).get(words[11])) + 1,
            ],
        };
        if Field::new(17, 16).is_set(words[11]) || Field::new(25, 24).is_set(words[11]) {
            return Err("endian swap is not supported");
        }
        for volume in [window.from, window.to] {
            if volume.base % 4 != 0 {
                return Err("the base address is not aligned");
            }
            let uneven = |elements: u64| (elements << element) % 4 != 0;
            // A pitch or slice that is never stepped over need not be even.
            let rows = window.size[1] > 1 || volume.at[1] > 0;
            let slices = window.size[2] > 1 || volume.at[2] > 0;
            if rows && uneven(volume.pitch) || slices && uneven(volume.slice) {
                return Err("the pitch or slice is not a multiple of 4 bytes");
            }
        }
        Ok(window)
    }

    /// Bytes copied.
    pub fn bytes(&self) -> u64 {
        self.size.iter().product::<u64>() << self.element
    }

    /// Copies row by row, or more at once where rows follow each other on both sides. Calls `go_on`
    /// between rows; returns false if that ended it.
    pub fn copy(&self, vm: &Vm<'_>, go_on: impl Fn() -> bool) -> Result<bool> {
        let [width, mut height, mut depth] = self.size;
        let mut run = width;
        if self.from.pitch == run && self.to.pitch == run {
            run *= height;
            height = 1;
            if self.from.slice == run && self.to.slice == run {
                run *= depth;
                depth = 1;
            }
        }
        for z in 0..depth {
            for y in 0..height {
                if !go_on() {
                    return Ok(false);
                }
                let to = self.to.address(self.element, y, z);
                let from = self.from.address(self.element, y, z);
                vm.copy(to, from, run << self.element)?;
            }
        }
        Ok(true)
    }
}

impl Volume {
    /// Address of row `y` of slice `z` of the box.
    fn address(&self, element: u32, y: u64, z: u64) -> u64 {
        let index = (self.at[2] + z) * self.slice + (self.at[1] + y) * self.pitch + self.at[0];
        self.base.wrapping_add(index << element)
    }
}
