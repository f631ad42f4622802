// SPDX-License-Identifier: GPL-2.0
//! What `probe_only` does instead of binding a GPU. 1 reports its state and whether its firmware
//! files exist; it changes nothing on the GPU, apart from enabling its BARs meanwhile. 2 also loads
//! the firmware, and unloads it again.

use kernel::device::{Bound, Core, Device};
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::Arc;

use hw::asic::Asic;
use hw::firmware::state::ObservedState;
use hw::ip::IpTable;

use super::bars;
use crate::firmware;
use crate::firmware::files::{FirmwareFiles, MissingFile};
use crate::ip::discovery::ChipBlocks;
use crate::ip::state::BootObserver;
use crate::ip::Hardware;
use crate::kern::mmio::Mmio;
use crate::kern::pci_ext::EnabledDevice;
use crate::mem::GpuMemory;

/// Writes the report to the log. May sleep, for three seconds if the firmware makes no progress.
///
/// # Errors
///
/// `ENODEV` for a device that the driver does not know; errors of its BARs.
pub(super) fn report(pdev: &pci::Device<Core<'_>>) -> Result {
    let asic = Asic::find(pdev.device_id()).ok_or(ENODEV)?;
    bars::check(pdev)?;
    let _enabled = EnabledDevice::new(pdev)?;
    let mmio = Arc::new(Mmio::new(pdev)?, GFP_KERNEL)?;
    let dev: &Device<Bound> = pdev.as_ref();
    let blocks = ChipBlocks::find(dev, &mmio, asic)?;
    let seen = BootObserver::new(dev, &mmio, IpTable::new(&blocks.instances))?.wait();
    registers(dev, &seen);
    match seen.state() {
        Ok(state) => dev_info!(dev, "probe_only: {}\n", format_args!("{state}")),
        Err(refusal) => dev_info!(
            dev,
            "probe_only: it would be left alone: {}\n",
            format_args!("{refusal}")
        ),
    }
    match FirmwareFiles::request(dev, blocks.asic.firmware, false) {
        Ok(files) => {
            if files.check(dev).is_ok() {
                dev_info!(dev, "probe_only: all firmware files are there and whole\n");
            }
        }
        Err(MissingFile(name, error)) => {
            dev_info!(dev, "probe_only: no firmware file {name}: {error:?}\n");
        }
    }
    Ok(())
}

/// Loads the firmware, starts the RLC, and undoes both. May sleep.
///
/// # Errors
///
/// Those of the steps, which are logged.
pub(super) fn load(pdev: &pci::Device<Core<'_>>) -> Result {
    let _enabled = EnabledDevice::new(pdev)?;
    let hw = Hardware::new(pdev)?;
    let memory = GpuMemory::new(&hw).inspect_err(|_| hw.close())?;
    let loaded = firmware::load(&memory).and_then(|loaded| {
        hw.rlc.start();
        loaded.check_clock()?;
        Ok(loaded)
    });
    let outcome = match &loaded {
        Ok(loaded) if loaded.is_own() => "firmware was loaded and is given back",
        Ok(_) => "no firmware was loaded",
        Err(_) => "firmware could not be loaded",
    };
    dev_info!(pdev, "probe_only: {outcome}\n");
    let result = loaded.map(drop);
    hw.close();
    result
}

fn registers(dev: &Device, seen: &ObservedState) {
    if !seen.is_present() {
        return;
    }
    dev_info!(
        dev,
        "probe_only: {} MiB of VRAM, die {}, {}posted, XGMI: {}\n",
        seen.memory,
        seen.die,
        if seen.is_posted { "" } else { "not " },
        format_args!("{}", seen.xgmi)
    );
    dev_info!(
        dev,
        "probe_only: PSP: flash {}ready, bootloader {:#010x}, secure OS {:#x} of \
         version {:#x}; runs: {}\n",
        if seen.is_flash_ready { "" } else { "not " },
        seen.bootloader,
        seen.secure_os,
        seen.secure_os_version,
        format_args!("{}", seen.running)
    );
}
