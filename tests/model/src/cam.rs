// SPDX-License-Identifier: GPL-2.0
//! The IH's retry CAM. A retried access raises its entry again and again; the CAM lets one of these
//! into the ring until the driver has acknowledged it.

/// Number of places: entries have bits for so many.
pub const PLACES: usize = 1 << 10;

/// The identity of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Virtual page.
    pub page: u64,
    /// The owner of the access.
    pub pasid: u32,
}

/// The result for an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It goes into the ring, with the number of its place.
    New(u32),
    /// An equal one has not been acknowledged yet.
    Known,
    /// There is no place.
    Full,
}

/// The places in use.
#[derive(Default)]
pub struct Cam(Vec<Option<Key>>);

impl Cam {
    /// Decides whether an entry of `key` goes into the ring; if so, it occupies a place from now
    /// on.
    pub fn admit(&mut self, key: Key) -> Verdict {
        if self.0.contains(&Some(key)) {
            return Verdict::Known;
        }
        let free = self.0.iter().position(Option::is_none);
        let place = free.unwrap_or(self.0.len());
        if place >= PLACES {
            return Verdict::Full;
        }
        if place == self.0.len() {
            self.0.push(None);
        }
        self.0[place] = Some(key);
        Verdict::New(place as u32)
    }

    /// The driver acknowledges place `value`. Returns whether it was in use.
    pub fn acknowledge(&mut self, value: u32) -> bool {
        let place = self.0.get_mut(value as usize % PLACES);
        place.is_some_and(|place| place.take().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_each_until_it_is_acknowledged() {
        let key = |page| Key { page, pasid: 1 };
        let mut cam = Cam::default();
        assert_eq!(cam.admit(key(5)), Verdict::New(0));
        assert_eq!(cam.admit(key(5)), Verdict::Known);
        assert_eq!(cam.admit(Key { page: 5, pasid: 2 }), Verdict::New(1));
        assert!(!cam.acknowledge(7));
        assert!(cam.acknowledge(0));
        assert!(!cam.acknowledge(0));
        assert_eq!(cam.admit(key(5)), Verdict::New(0));
        for page in 6..6 + PLACES as u64 - 2 {
            assert!(matches!(cam.admit(key(page)), Verdict::New(_)));
        }
        assert_eq!(cam.admit(key(1)), Verdict::Full);
        assert_eq!(cam.admit(key(6)), Verdict::Known);
        assert!(cam.acknowledge(100));
        assert_eq!(cam.admit(key(1)), Verdict::New(100));
    }
}
