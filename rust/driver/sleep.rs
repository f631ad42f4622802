// SPDX-License-Identifier: GPL-2.0
//! The machine stays awake while a GPU is bound: memory, queues and firmware would be lost, and nobody puts them back.

use kernel::device::Device;
use kernel::prelude::*;
use kernel::sync::aref::ARef;

use crate::kern::power::{Listener, Sleep, Subscription};

/// Keeps the machine awake until it is dropped, which sleeps.
pub(super) type Awake = Subscription<For>;

/// The device for which it stays awake.
pub(super) struct For(ARef<Device>);

/// Keeps the machine awake for `device`: who wants it to sleep is told EBUSY, and the log why. ENOMEM.
pub(super) fn keep_awake(device: &Device) -> Result<Awake> {
    Subscription::new(For(device.into()))
}

impl Listener for For {
    fn announced(&self, sleep: Sleep) -> Result {
        refuse(&self.0, sleep)
    }
}

/// Says why there is no sleep. EBUSY.
pub(super) fn refuse(device: &Device, sleep: Sleep) -> Result {
    dev_warn!(
        device,
        "no {} while the GPU is bound, which would lose all it has: first rmmod rkfd, or echo {} >/sys/bus/pci/drivers/rkfd/unbind\n",
        format_args!("{sleep}"),
        device.name()
    );
    Err(EBUSY)
}
