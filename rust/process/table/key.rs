// SPDX-License-Identifier: GPL-2.0
//! What tells KFD processes apart.

use hw::context_id::ContextId;

use crate::kern::mm_exit::AddressSpace;

/// A KFD process by its address space and its number there. Those of one address space are
/// neighbours in this order, the primary one last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::process) struct ProcessKey {
    /// The address space's id.
    pub(super) space: usize,
    /// The number among its processes.
    pub(in crate::process) context: ContextId,
}

impl ProcessKey {
    /// The primary process of `space`.
    pub(super) fn primary(space: &AddressSpace) -> Self {
        Self {
            space: space.id(),
            context: ContextId::PRIMARY,
        }
    }

    /// The process `context` of the same address space.
    pub(super) fn beside(self, context: ContextId) -> Self {
        Self { context, ..self }
    }

    /// Whether it is the primary process of its address space.
    pub(in crate::process) fn is_primary(self) -> bool {
        self.context == ContextId::PRIMARY
    }
}
