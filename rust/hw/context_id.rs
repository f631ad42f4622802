// SPDX-License-Identifier: GPL-2.0
//! The numbers of the KFD processes of one address space (CREATE_PROCESS): the primary one, which
//! the first open of /dev/kfd makes, and secondary ones.

/// The number of a KFD process among those of its address space: `context_id` of amdkfd. The
/// primary process is the last in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContextId(u16);

impl ContextId {
    /// The primary process: `KFD_CONTEXT_ID_PRIMARY`.
    pub const PRIMARY: Self = Self(u16::MAX);

    /// The number of secondary processes that an address space may have at a time. Each may have a
    /// slice of the doorbell BAR, of which a GPU has 254.
    pub const MOST: u16 = 32;

    /// The lowest number that is not in `taken`, which are in ascending order; `None` if an address
    /// space cannot have a further secondary process.
    pub fn free(taken: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut lowest = 0;
        for id in taken {
            if id.0 != lowest {
                break;
            }
            lowest += 1;
        }
        (lowest < Self::MOST).then_some(Self(lowest))
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u16 {
        self.0
    }
}
