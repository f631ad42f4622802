// SPDX-License-Identifier: GPL-2.0
//! Render nodes, which cgroups grant or deny.

use crate::ffi;

/// The render node of a GPU, `/dev/dri/renderD<minor>`.
#[derive(Clone, Copy)]
pub(crate) struct RenderNode {
    /// The minor number.
    pub(crate) minor: u32,
}

impl RenderNode {
    /// Whether the caller's cgroups let it read and write the node: a container often has
    /// `/dev/kfd`, which is one file for all GPUs, but the nodes of some GPUs alone. The mode of
    /// the node does not count here. Context: any, in a thread of the process that is judged.
    pub(crate) fn is_granted(self) -> bool {
        // SAFETY: The function only reads the current thread's cgroups.
        unsafe { ffi::rkfd_devcgroup_check_render_node(self.minor) == 0 }
    }
}
