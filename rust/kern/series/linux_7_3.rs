// SPDX-License-Identifier: GPL-2.0
//! Linux 7.3.

use kernel::device::Bound;
use kernel::devres::Devres;
use kernel::dma::Coherent;
use kernel::irq::{Flags, IrqReturn, ThreadedHandler, ThreadedRegistration};
use kernel::module::ModuleMetadata;
use kernel::pci::{self, IrqVectorRegistration};
use kernel::prelude::*;

use super::{vector_types, IrqHandler};

/// This module.
pub(crate) static THIS_MODULE: ThisModule = <crate::LocalModule as ModuleMetadata>::THIS_MODULE;

/// `pci_table!(NAME, INFO, [(DeviceId, info), ...])`: the devices that a driver supports, with
/// `INFO` about each.
macro_rules! pci_table {
    ($name:ident, $info:ty, [$($entry:tt)*]) => {
        kernel::pci_device_table!($name, $info, [$($entry)*]);
    };
}
pub(crate) use pci_table;

/// The table information that `probe` gets: the entry's, or none if an administrator assigned the
/// device to the driver by name.
pub(crate) type IdInfo<'a, T> = Option<&'a T>;

/// The value of a parameter of the module.
pub(crate) fn number(value: u8) -> u8 {
    value
}

/// The bus address of the first dword.
pub(crate) fn dma_address(memory: &Coherent<[u32]>) -> u64 {
    memory.dma_address()
}

/// An interrupt line of a device with its handler. Freed when this is dropped or the device is
/// unbound, whichever is first, after a running handler has returned.
pub(crate) struct IrqRegistration<H: IrqHandler> {
    _line: Devres<IrqVectors<H>>,
}

/// A line, and the vectors that it borrows. Dropped in this order.
struct IrqVectors<H: IrqHandler> {
    _registration: Pin<KBox<ThreadedRegistration<'static, IrqThread<H>>>>,
    _vectors: KBox<IrqVectorRegistration<'static>>,
}

impl<H: IrqHandler> IrqRegistration<H> {
    /// Registers `handler` for the first vector of `pdev`, of MSI-X if it has that, else of MSI.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the device or the kernel has neither; `ENOSPC` if no vector is left; `ENOMEM` if
    /// there is no memory; the errors of requesting the line.
    pub(crate) fn new(pdev: &pci::Device<Bound>, name: &'static CStr, handler: H) -> Result<Self> {
        // SAFETY: Everything that borrows the device is dropped while it is bound: on an error
        // below before this returns, else by devres, which `line` is handed to, at the latest when
        // the device is unbound. The borrow does not leave these objects.
        let bound: &'static pci::Device<Bound> = unsafe { &*core::ptr::from_ref(pdev) };
        let vectors = KBox::new(bound.alloc_irq_vectors(1, 1, vector_types())?, GFP_KERNEL)?;
        // SAFETY: The vectors stay in place when their box is moved, and do not change. They are
        // dropped after the line that borrows them: on an error below since they were made first,
        // else by the order of `IrqVectors`.
        let borrowed: &'static IrqVectorRegistration<'static> =
            unsafe { &*core::ptr::from_ref(&*vectors) };
        let request = borrowed.index(0)?.into();
        // SAFETY: The registration is dropped in any case: on an error below with `registration`,
        // else by devres, which does so even if its handle is leaked.
        let registration = unsafe {
            ThreadedRegistration::new(request, Flags::ONESHOT, name, Ok(IrqThread(handler)))
        };
        let line = IrqVectors {
            _registration: KBox::pin_init(registration, GFP_KERNEL)?,
            _vectors: vectors,
        };
        Ok(Self {
            _line: Devres::new(pdev.as_ref(), line)?,
        })
    }
}

/// The handler in the form that the kernel crate takes.
struct IrqThread<H>(H);

impl<H: IrqHandler> ThreadedHandler for IrqThread<H> {
    fn handle_threaded(&self) -> IrqReturn {
        self.0.handle();
        IrqReturn::Handled
    }
}
