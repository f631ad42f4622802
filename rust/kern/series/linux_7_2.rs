// SPDX-License-Identifier: GPL-2.0
//! Linux 7.2.

use kernel::device::{Bound, Device};
use kernel::dma::Coherent;
use kernel::irq::{Flags, IrqReturn, ThreadedHandler, ThreadedRegistration};
use kernel::pci;
use kernel::prelude::*;

use super::{vector_types, IrqHandler};

pub(crate) use crate::THIS_MODULE;

/// `pci_table!(NAME, INFO, [(DeviceId, info), ...])`: the devices that a driver supports, with
/// `INFO` about each.
macro_rules! pci_table {
    ($name:ident, $info:ty, [$($entry:tt)*]) => {
        kernel::pci_device_table!($name, MODULE_PCI_TABLE, $info, [$($entry)*]);
    };
}
pub(crate) use pci_table;

/// The table information that `probe` gets: the entry's.
pub(crate) type IdInfo<'a, T> = &'a T;

/// The value of a parameter of the module.
pub(crate) fn number(value: &u8) -> u8 {
    *value
}

/// The bus address of the first dword.
pub(crate) fn dma_address(memory: &Coherent<[u32]>) -> u64 {
    memory.dma_handle()
}

/// An interrupt line of a device with its handler. Freed when this is dropped or the device is
/// unbound, whichever is first, after a running handler has returned.
pub(crate) struct IrqRegistration<H: IrqHandler> {
    _line: Pin<KBox<ThreadedRegistration<IrqThread<H>>>>,
}

impl<H: IrqHandler> IrqRegistration<H> {
    /// Registers `handler` for the first vector of `pdev`, of MSI-X if it has that, else of MSI.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the device or the kernel has neither; `ENOSPC` if no vector is left; `ENOMEM` if
    /// there is no memory; the errors of requesting the line.
    pub(crate) fn new(pdev: &pci::Device<Bound>, name: &'static CStr, handler: H) -> Result<Self> {
        // devres frees the vectors.
        let vector = *pdev.alloc_irq_vectors(1, 1, vector_types())?.start();
        let line = pdev.request_threaded_irq(vector, Flags::ONESHOT, name, Ok(IrqThread(handler)));
        Ok(Self {
            _line: KBox::pin_init(line, GFP_KERNEL)?,
        })
    }
}

/// The handler in the form that the kernel crate takes.
struct IrqThread<H>(H);

impl<H: IrqHandler> ThreadedHandler for IrqThread<H> {
    fn handle_threaded(&self, _dev: &Device<Bound>) -> IrqReturn {
        self.0.handle();
        IrqReturn::Handled
    }
}
