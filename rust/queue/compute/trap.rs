// SPDX-License-Identifier: GPL-2.0
//! The trap handler of a process on a GPU: a page of the driver in the address space of the
//! process, above all user addresses.

use crate::kern::pages::SystemPages;
use crate::mem::account::{MemoryRegion, SystemShare};
use crate::mem::vm::{KernelMapping, Vm};
use hw::pte::PageAccess;
use hw::trap::{self, SecondLevelTrap, TrapHandler};
use kernel::prelude::*;
use kernel::sync::Arc;

/// The page, mapped for shaders to read and execute as long as this exists. Every compute queue of
/// the process holds it, because waves may run it or may have been saved by it.
pub(crate) struct TrapPage {
    mapping: KernelMapping,
    pages: Arc<SystemPages>,
    _share: SystemShare,
}

impl TrapPage {
    /// Creates the page in `vm`, without a second level. Its memory counts as memory of `vm`.
    ///
    /// # Errors
    ///
    /// `EEXIST` if an earlier page is still in use, by a queue that the hardware did not release;
    /// `ENOMEM`; `ENODEV` if the device is gone.
    pub(crate) fn new(vm: &Arc<Vm>) -> Result<Arc<Self>> {
        let share = SystemShare::charge(vm.client(), MemoryRegion::Gtt, trap::BYTES as u64)?;
        let pages = Arc::new(
            SystemPages::alloc(&vm.gpu().hw.dev, trap::BYTES)?,
            GFP_KERNEL_ACCOUNT,
        )?;
        pages.write32s(0, vm.gpu().hw.asic.trap)?;
        let page = Self {
            mapping: vm.kernel_map_at(trap::PAGE, pages.clone(), PageAccess::READ.executable())?,
            pages,
            _share: share,
        };
        page.set_second_level(SecondLevelTrap::default())?;
        Ok(Arc::new(page, GFP_KERNEL_ACCOUNT)?)
    }

    /// The addresses where shaders find it.
    pub(super) fn handler(&self) -> TrapHandler {
        TrapHandler::in_page(self.mapping.va())
    }

    /// Sets the process's own handler for waves that trap from now on. A wave that traps at the
    /// same moment may enter the new handler with the memory address of the old one. The caller
    /// makes sure that calls do not overlap.
    pub(crate) fn set_second_level(&self, second: SecondLevelTrap) -> Result {
        // The code address is written last: a wave that enters a handler where there was none
        // before finds the handler's memory.
        let words = second.block();
        let mut words = words.iter().enumerate().rev();
        words.try_for_each(|(n, &word)| self.pages.write64((trap::MEMORY + n * 8) as u64, word))
    }
}
