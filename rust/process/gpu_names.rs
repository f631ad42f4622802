// SPDX-License-Identifier: GPL-2.0
//! The ids by which a restored process knows GPUs: those of the GPUs on which it was saved.

use hw::topology::gpu_id::GpuId;
use kernel::prelude::*;
use kernel::sync::SetOnce;

use super::Process;

/// The id that a process uses for a GPU, and the GPU's own.
pub(crate) struct GpuName {
    /// The id that the process uses.
    pub(crate) name: GpuId,
    /// The GPU's own.
    pub(crate) id: GpuId,
}

/// The ids of a process, which are the GPUs' own until they are set once.
pub(super) struct GpuNames(SetOnce<KVec<GpuName>>);

impl GpuNames {
    /// The GPUs' own.
    pub(super) const fn new() -> Self {
        Self(SetOnce::new())
    }

    fn find(&self, which: impl Fn(&GpuName) -> bool) -> Option<&GpuName> {
        self.0.as_ref()?.iter().find(|name| which(name))
    }
}

impl Process {
    /// The id of the GPU that the process knows as `name`.
    pub(crate) fn gpu_named(&self, name: GpuId) -> GpuId {
        let found = self.gpu_names.find(|gpu| gpu.name == name);
        found.map_or(name, |gpu| gpu.id)
    }

    /// The id by which the process knows GPU `id`.
    pub(crate) fn name_of(&self, id: GpuId) -> GpuId {
        let found = self.gpu_names.find(|gpu| gpu.id == id);
        found.map_or(id, |gpu| gpu.name)
    }

    /// Sets the ids by which the process knows GPUs.
    ///
    /// # Errors
    ///
    /// `EINVAL` if they were set before, or one is there twice.
    pub(crate) fn name_gpus(&self, names: KVec<GpuName>) -> Result {
        for (n, one) in names.iter().enumerate() {
            let mut before = names.iter().take(n);
            if before.any(|other| other.name == one.name || other.id == one.id) {
                return Err(EINVAL);
            }
        }
        match self.gpu_names.0.populate(names) {
            true => Ok(()),
            false => Err(EINVAL),
        }
    }
}
