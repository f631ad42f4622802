// SPDX-License-Identifier: GPL-2.0
//! The callbacks of DRM, PRIME and the fault handler for a buffer.

use super::{Bo, BoBacking, BoData, BoUsage, DrmDevice};
use crate::{
    kern::{
        dma_buf::DmaBuf,
        drm::{
            gem::{FaultPage, GemDriverObject},
            in_place::InPlaceShare,
            objects::ObjectList,
        },
        pages::PageList,
    },
    mem::{
        import::ImportedMemory,
        placement::{BoPlace, StayState},
        GpuMemory,
    },
};
use hw::pte::{Coherence, PageAccess};
use kernel::{
    device::Device,
    page::PAGE_SHIFT,
    prelude::*,
    sync::{aref::ARef, Arc, MutexGuard},
};

impl GemDriverObject for BoData {
    type Data = Arc<GpuMemory>;

    type Steady<'a> = Option<MutexGuard<'a, StayState>>;

    fn steady(bo: &Bo) -> Option<Option<MutexGuard<'_, StayState>>> {
        match bo.placement() {
            None => Some(None),
            Some(placement) => placement.steady().map(Some),
        }
    }

    fn is_moving(bo: &Bo) -> bool {
        bo.placement()
            .is_some_and(|placement| placement.is_moving())
    }

    fn is_explicit(bo: &Bo) -> bool {
        BoData::is_explicit(bo)
    }

    fn fault(bo: &Bo, page: usize) -> FaultPage {
        let ram = |pages: &PageList| pages.pfn(page).ok().map(|pfn| FaultPage::Ram { pfn });
        let pfn = match &bo.backing {
            BoBacking::Vram(placement) => match placement.place() {
                BoPlace::System(copy) => ram(copy.pages()),
                BoPlace::Vram(blocks) => blocks
                    .locate((page as u64) << PAGE_SHIFT)
                    .and_then(|(offset, _)| bo.gpu.hw.vram_map.pfn(offset).ok())
                    .map(|pfn| FaultPage::Io { pfn, wc: true }),
            },
            BoBacking::Gtt(pages) => ram(pages),
            // The exporter maps imported memory.
            BoBacking::User(_)
            | BoBacking::Imported(_)
            | BoBacking::Registers(_)
            | BoBacking::Peer(_) => None,
        };
        pfn.unwrap_or(FaultPage::Sigbus)
    }

    fn owner(&self) -> usize {
        self.placement()
            .map_or(0, |placement| placement.client().number())
    }

    fn objects(gpu: &Arc<GpuMemory>) -> &ObjectList<Self> {
        &gpu.bos
    }

    fn check_export(bo: &Bo) -> Result {
        match &bo.backing {
            BoBacking::Vram(_) | BoBacking::Gtt(_) => Ok(()),
            // It belongs to the process, which may unmap it at any time.
            BoBacking::User(_) => Err(EPERM),
            BoBacking::Imported(_) | BoBacking::Registers(_) | BoBacking::Peer(_) => Err(EINVAL),
        }
    }

    fn attach(bo: &Bo, reaches: bool) -> Result {
        match &bo.backing {
            BoBacking::Gtt(_) => Ok(()),
            BoBacking::Vram(placement) if reaches || placement.may_be_shared() => Ok(()),
            _ => Err(EBUSY),
        }
    }

    fn share(bo: &Bo, stays: bool) -> Result {
        match bo.placement() {
            Some(_) => bo.gpu.evictor.share(bo, stays),
            None => Ok(()),
        }
    }

    fn unshare(bo: &Bo, stays: bool) {
        if let Some(placement) = bo.placement() {
            bo.gpu.evictor.unshare(placement, stays);
        }
    }

    fn share_in_place(bo: &Bo, dev: &ARef<Device>) -> Result<Option<InPlaceShare>> {
        match bo.placement() {
            Some(placement) => bo.in_place(placement, dev),
            None => Ok(None),
        }
    }

    fn is_shared_in_place(bo: &Bo) -> bool {
        bo.placement()
            .is_some_and(|placement| placement.is_shared_in_vram())
    }

    fn with_pages<R>(bo: &Bo, f: impl FnOnce(&PageList) -> R) -> Option<R> {
        match &bo.backing {
            BoBacking::Gtt(pages) => Some(f(pages)),
            BoBacking::Vram(placement) => match placement.place() {
                BoPlace::System(copy) => Some(f(copy.pages())),
                BoPlace::Vram(_) => None,
            },
            _ => None,
        }
    }

    fn cpu_access(bo: &Bo) {
        if let BoBacking::Vram(_) = &bo.backing {
            bo.gpu.hw.hdp.flush();
        }
    }

    fn import(drm: &ARef<DrmDevice>, buf: &DmaBuf) -> Result<ARef<Bo>> {
        let usage = BoUsage {
            access: PageAccess {
                write: buf.is_writable(),
                ..PageAccess::READ_WRITE.executable()
            },
            coherence: Coherence {
                coherent: true,
                ..Coherence::default()
            },
            ..BoUsage::default()
        };
        let attachment = ImportedMemory::attach(&drm.hw.dev, buf)?;
        Bo::imported(drm, attachment, |attachment| {
            BoData::new(
                drm,
                BoBacking::Imported(ImportedMemory::new(attachment)),
                usage,
            )
        })
    }
}
