// SPDX-License-Identifier: GPL-2.0
//! What DRM, PRIME and the fault handler ask of a buffer.

use super::{Backing, Bo, Buffer, DrmDevice, Usage};
use crate::{
    kern::{
        dma_buf::DmaBuf,
        drm::{
            gem::{DriverObject, FaultPage},
            in_place::InPlace,
            objects::Objects,
        },
        pages::PageList,
    },
    mem::{
        import::Import,
        placement::{Place, Stay},
        Memory,
    },
};
use hw::pte::{Access, Coherence};
use kernel::{
    device::Device,
    page::PAGE_SHIFT,
    prelude::*,
    sync::{aref::ARef, Arc, MutexGuard},
};

impl DriverObject for Buffer {
    type Data = Arc<Memory>;

    type Steady<'a> = Option<MutexGuard<'a, Stay>>;

    fn steady(bo: &Bo) -> Option<Option<MutexGuard<'_, Stay>>> {
        match bo.placement() {
            None => Some(None),
            Some(placement) => placement.steady().map(Some),
        }
    }

    fn is_moving(bo: &Bo) -> bool {
        bo.placement()
            .is_some_and(|placement| placement.is_moving())
    }

    fn fault(bo: &Bo, page: usize) -> FaultPage {
        let ram = |pages: &PageList| pages.pfn(page).ok().map(|pfn| FaultPage::Ram { pfn });
        let pfn = match &bo.backing {
            Backing::Vram(placement) => match placement.place() {
                Place::System(away) => ram(away.pages()),
                Place::Vram(blocks) => blocks
                    .locate((page as u64) << PAGE_SHIFT)
                    .and_then(|(offset, _)| bo.gpu.hw.vram_map.pfn(offset).ok())
                    .map(|pfn| FaultPage::Io { pfn, wc: true }),
            },
            Backing::Gtt(pages) => ram(pages),
            // What is imported is mapped by its exporter.
            Backing::User(_) | Backing::Imported(_) | Backing::Registers(_) | Backing::Peer(_) => {
                None
            }
        };
        pfn.unwrap_or(FaultPage::Sigbus)
    }

    fn owner(&self) -> usize {
        self.placement()
            .map_or(0, |placement| placement.client().number())
    }

    fn objects(gpu: &Arc<Memory>) -> &Objects<Self> {
        &gpu.bos
    }

    fn check_export(bo: &Bo) -> Result {
        match &bo.backing {
            Backing::Vram(_) | Backing::Gtt(_) => Ok(()),
            // It is the process's, which may take it away at any time.
            Backing::User(_) => Err(EPERM),
            Backing::Imported(_) | Backing::Registers(_) | Backing::Peer(_) => Err(EINVAL),
        }
    }

    fn attach(bo: &Bo, reaches: bool) -> Result {
        match &bo.backing {
            Backing::Gtt(_) => Ok(()),
            Backing::Vram(placement) if reaches || placement.may_be_shared() => Ok(()),
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

    fn share_in_place(bo: &Bo, dev: &ARef<Device>) -> Result<Option<InPlace>> {
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
            Backing::Gtt(pages) => Some(f(pages)),
            Backing::Vram(placement) => match placement.place() {
                Place::System(away) => Some(f(away.pages())),
                Place::Vram(_) => None,
            },
            _ => None,
        }
    }

    fn cpu_access(bo: &Bo) {
        if let Backing::Vram(_) = &bo.backing {
            bo.gpu.hw.hdp.flush();
        }
    }

    fn import(drm: &ARef<DrmDevice>, buf: &DmaBuf) -> Result<ARef<Bo>> {
        let usage = Usage {
            access: Access {
                write: buf.is_writable(),
                ..Access::READ_WRITE.executable()
            },
            coherence: Coherence {
                coherent: true,
                uncached: false,
            },
        };
        let attachment = Import::attach(&drm.hw.dev, buf)?;
        Bo::imported(drm, attachment, |attachment| {
            Buffer::new(drm, Backing::Imported(Import::new(attachment)), usage)
        })
    }
}
