// SPDX-License-Identifier: GPL-2.0
//! Memory of one GPU as another one reaches it, for the same process: a buffer of the other one's that leads to the same memory by
//! DMA addresses of its own.

use super::{Backing, Bo, Buffer, DrmDevice};
use crate::{
    kern::errno,
    mem::{account::Client, Memory},
};
use kernel::{
    prelude::*,
    sync::{aref::ARef, Arc},
};

impl Bo {
    /// The memory as the GPU of `drm`, another one than its own and bound, reaches it, for `client`: a buffer for that
    /// one's page tables alone, which nobody else is given. It keeps the memory; what a process lends, and what is imported, each
    /// GPU watches for itself.
    ///
    /// `EREMOTEIO` when it does not reach it, `ENOMEM`; see [`Bo::import`] for what is imported.
    pub(crate) fn for_peer(
        &self,
        drm: &ARef<DrmDevice>,
        client: &Arc<Client>,
    ) -> Result<ARef<Self>> {
        let gpu: &Arc<Memory> = drm;
        let backing = match &self.backing {
            Backing::Gtt(pages) => Backing::Gtt(pages.also_for(&gpu.hw.dev)?),
            Backing::User(memory) => Backing::User(memory.clone()),
            // Maybe its own memory, which comes home by this.
            Backing::Imported(_) => return Self::import(drm, &*self.dma_buf(false)?),
            Backing::Vram(_) | Backing::Registers(_) => return Err(errno::remote_io()),
        };
        let buffer = Buffer::new(gpu, backing, self.usage);
        Self::new(drm, self.size(), buffer.paid_by(client))
    }
}
