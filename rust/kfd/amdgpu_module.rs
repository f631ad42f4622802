// SPDX-License-Identifier: GPL-2.0
//! `/sys/module/amdgpu`, with the entries that clients look for there.

use core::fmt;

use kernel::device::Device;
use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Relaxed};
use kernel::sync::Arc;

use crate::kern::kobject::{SysfsFiles, SysfsFolder, SysfsLink, SysfsName};
use crate::kern::params::has_amdgpu_names;

static INITSTATE: SysfsName = SysfsName::new(c"initstate");
static CWSR_ENABLE: SysfsName = SysfsName::new(c"cwsr_enable");
static PCIE_P2P: SysfsName = SysfsName::new(c"pcie_p2p");

/// Whether a GPU reaches the memory of another one by PCI Express, in the form of the parameter
/// that RCCL reads.
struct PeerAccess(AtomicFlag);

impl fmt::Display for PeerAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.load(Relaxed) { "Y\n" } else { "N\n" })
    }
}

/// The folder. Its parts are dropped before it.
pub(super) struct AmdgpuModule {
    /// The folder of GPUs, which Kubernetes' device plugin reads.
    gpus: SysfsFolder,
    peers: Arc<PeerAccess>,
    _drivers: SysfsFolder,
    _parameters: SysfsFolder,
    _folder: SysfsFolder,
}

/// A GPU in the folder.
pub(super) struct GpuLink {
    _link: SysfsLink,
    _module: Arc<AmdgpuModule>,
}

impl AmdgpuModule {
    /// Creates the folder, beside that of `module`; `None` if the user wants none.
    ///
    /// # Errors
    ///
    /// `EBUSY` if amdgpu is loaded; `ENOMEM`.
    pub(super) fn new(module: &'static ThisModule) -> Result<Option<Arc<Self>>> {
        // Of `/dev/kfd` and its class there can only be one, too.
        if SysfsFolder::is_module(module, c"amdgpu")? {
            pr_err!("amdgpu is loaded: unload it first (modprobe -r amdgpu)\n");
            return Err(EBUSY);
        }
        if !has_amdgpu_names() {
            return Ok(None);
        }
        // ROCm takes this file for the sign that the driver is loaded.
        let files = SysfsFiles::new().with(&INITSTATE, &"live\n")?;
        let folder = SysfsFolder::under_module_set(module, c"amdgpu", files)?;
        let peers = Arc::new(PeerAccess(AtomicFlag::new(false)), GFP_KERNEL)?;
        // Clients look here for whether waves are saved, and for whether GPUs reach each other.
        let parameters = SysfsFiles::new()
            .with(&CWSR_ENABLE, &"1\n")?
            .with_live(&PCIE_P2P, peers.clone())?;
        let drivers = folder.folder(c"drivers", SysfsFiles::new())?;
        let module = Self {
            gpus: drivers.folder(c"pci:amdgpu", SysfsFiles::new())?,
            peers,
            _drivers: drivers,
            _parameters: folder.folder(c"parameters", parameters)?,
            _folder: folder,
        };
        Ok(Some(Arc::new(module, GFP_KERNEL)?))
    }

    /// Sets whether a GPU reaches the memory of another one.
    pub(super) fn set_peers(&self, reach: bool) {
        self.peers.0.store(reach, Relaxed);
    }

    /// Adds the GPU `device` until the returned value is dropped.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn show(self: &Arc<Self>, device: &Device) -> Result<GpuLink> {
        Ok(GpuLink {
            _link: self.gpus.link(device, device.name())?,
            _module: self.clone(),
        })
    }
}
