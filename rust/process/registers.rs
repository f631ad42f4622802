// SPDX-License-Identifier: GPL-2.0
//! The page of HDP flush registers in a process: MEM flush at 0, REG flush at 4.

use hw::doorbell::{MmapKind, MmapOffset};
use hw::va::PAGE_SIZE;
use kernel::mm::virt::VmaNew;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{Arc, ArcBorrow, SetOnce};

use crate::gpu::Gpu;
use crate::kern::vma::{self, Mappable, VmaPage, VmaZapper};

/// The page, as mapped by one process.
pub(super) struct RegisterPage {
    gpu: Arc<Gpu>,
    pasid: u16,
    zapper: SetOnce<VmaZapper>,
    closed: Atomic<bool>,
}

impl RegisterPage {
    /// The page of `gpu` for the process `pasid`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(gpu: &Arc<Gpu>, pasid: u16) -> Result<Arc<Self>> {
        let registers = Self {
            gpu: gpu.clone(),
            pasid,
            zapper: SetOnce::new(),
            closed: Atomic::new(false),
        };
        Ok(Arc::new(registers, GFP_KERNEL_ACCOUNT)?)
    }

    /// The page's offset in the file's address space, in pages: each process has one of its own.
    fn pgoff(&self) -> usize {
        let offset = MmapOffset {
            kind: MmapKind::Mmio,
            gpu_id: self.gpu.hw.id.get(),
        };
        (offset.encode() / PAGE_SIZE) as usize + usize::from(self.pasid)
    }

    /// The page's offset in the file's address space, in bytes.
    pub(super) fn mmap_offset(&self) -> u64 {
        self.pgoff() as u64 * PAGE_SIZE
    }

    /// Maps the page at `vma`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a mapping that is not shared, or not one page; `ENODEV` at the end.
    pub(super) fn mmap(self: &Arc<Self>, vma: &VmaNew) -> Result {
        if self.closed.load(Relaxed) {
            return Err(ENODEV);
        }
        VmaZapper::claim(&self.zapper, vma, self.pgoff())?;
        vma::map(vma, self.clone(), 1, self.pgoff())
    }

    /// Unmaps the page: every further access gives SIGBUS. May sleep.
    pub(super) fn close(&self) {
        self.closed.store(true, Relaxed);
        if let Some(zapper) = self.zapper.as_ref() {
            zapper.zap(0, 1);
        }
    }
}

impl Mappable for RegisterPage {
    fn page(&self, _index: usize) -> VmaPage {
        match self.gpu.hw.hdp.remap_pfn() {
            Ok(pfn) if !self.closed.load(Relaxed) => VmaPage::Io { pfn },
            _ => VmaPage::Nothing,
        }
    }

    fn mapped(this: ArcBorrow<'_, Self>, _index: usize, _offset: usize) {
        // `close` may have run after `page` was asked, too early to see this mapping.
        if this.closed.load(Relaxed) {
            this.close();
        }
    }
}
