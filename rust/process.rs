// SPDX-License-Identifier: GPL-2.0
//! Processes: what one address space has of each GPU, from the first open of /dev/kfd to the last close or the end
//! of the address space, whichever is first.

pub(crate) mod pasid;
pub(crate) mod table;

use kernel::prelude::*;
use kernel::sync::{Arc, Mutex};

use crate::kern::mm_exit::{AddressSpace, Subscription};
use pasid::Pasid;
use table::Table;

/// A process.
#[pin_data]
pub(crate) struct Process {
    space: AddressSpace,
    pid: i32,
    pasid: Pasid,
    #[pin]
    subscription: Mutex<Option<Subscription<Table>>>,
}

impl Process {
    /// The calling process, of address space `space`, with nothing of any GPU. ENOMEM.
    fn new(space: AddressSpace, pasid: Pasid) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                space,
                pid: kernel::current!().group_leader().pid(),
                pasid,
                subscription <- kernel::new_mutex!(None, "Process::subscription"),
            }),
            GFP_KERNEL,
        )
    }

    /// Keeps the subscription to the end of the address space until the process's end.
    fn watch(&self, subscription: Subscription<Table>) {
        *self.subscription.lock() = Some(subscription);
    }

    /// Whether it is the process of the address space with this id.
    fn is(&self, id: usize) -> bool {
        self.space.id() == id
    }

    /// Whether the caller is in the process; a forked child is not.
    pub(crate) fn is_current(&self) -> bool {
        self.space.is_current()
    }

    /// Process id of the opener.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// The number by which GPUs know it.
    pub(crate) fn pasid(&self) -> u16 {
        self.pasid.get()
    }

    /// Takes everything from the process. Called once, by who took it out of the table.
    fn end(&self) {
        let subscription = self.subscription.lock().take();
        drop(subscription);
    }
}
