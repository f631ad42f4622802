// SPDX-License-Identifier: GPL-2.0
//! The trap handler of a process on a GPU: a page of the driver in the address space of the
//! process, above all user addresses.

use crate::kern::pages::SystemPages;
use crate::mem::account::{MemoryRegion, SystemShare};
use crate::mem::vm::{KernelMapping, Vm};
use hw::debug::DebugControls;
use hw::pte::PageAccess;
use hw::trap::{self, SecondLevelTrap, TrapHandler};
use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};

/// The page, mapped for shaders to read and execute as long as this exists. Every compute queue of
/// the process holds it, because waves may run it or may have been saved by it.
#[pin_data]
pub(crate) struct TrapPage {
    /// What the debugger of the process has set; innermost.
    #[pin]
    controls: SpinLock<DebugControls>,
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
        let mapping = vm.kernel_map_at(trap::PAGE, pages.clone(), PageAccess::READ.executable())?;
        let page = Arc::pin_init(
            pin_init!(Self {
                controls <- new_spinlock!(DebugControls::default(), "TrapPage::controls"),
                mapping,
                pages,
                _share: share,
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        page.set_second_level(SecondLevelTrap::default())?;
        Ok(page)
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

    /// The process's own handler.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is gone.
    pub(crate) fn second_level(&self) -> Result<SecondLevelTrap> {
        Ok(SecondLevelTrap {
            code: self.pages.read64(trap::MEMORY as u64)?,
            memory: self.pages.read64(trap::MEMORY as u64 + 8)?,
        })
    }

    /// What the debugger of the process has set.
    pub(super) fn debug_controls(&self) -> DebugControls {
        *self.controls.lock()
    }

    /// Sets what the debugger of the process wants. It comes into force when the process's queues
    /// come to the hardware the next time.
    pub(crate) fn set_debug_controls(&self, controls: DebugControls) {
        *self.controls.lock() = controls;
    }

    /// Lets the handler know whether there is a debugger, from the next trap of a wave on.
    pub(crate) fn show_debugger(&self, on: bool) -> Result {
        let place = (trap::MEMORY + trap::DEBUGGER) as u64;
        self.pages.write64(place, on.into())
    }
}
