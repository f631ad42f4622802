// SPDX-License-Identifier: GPL-2.0
//! `ip_discovery` in the PCI device's folder: the entries of the GPU's discovery table, as amdgpu
//! shows them. `die/N/ID/INSTANCE` has the files of an entry, and links beside the ids have the
//! names of blocks. User space that drives the GPU itself reads versions and bases there.

use core::fmt;

use hw::discovery::{DiscoveredIp, Discovery};
use kernel::device::{Bound, Device};
use kernel::prelude::*;
use kernel::str::CString;

use crate::kern::kobject::{SysfsFiles, SysfsFolder, SysfsLink, SysfsName};

static NUM_IPS: SysfsName = SysfsName::new(c"num_ips");
static HW_ID: SysfsName = SysfsName::new(c"hw_id");
static NUM_INSTANCE: SysfsName = SysfsName::new(c"num_instance");
static MAJOR: SysfsName = SysfsName::new(c"major");
static MINOR: SysfsName = SysfsName::new(c"minor");
static REVISION: SysfsName = SysfsName::new(c"revision");
static HARVEST: SysfsName = SysfsName::new(c"harvest");
static NUM_BASE_ADDRESSES: SysfsName = SysfsName::new(c"num_base_addresses");
static BASE_ADDR: SysfsName = SysfsName::new(c"base_addr");

/// The folders and links of a table.
pub(crate) struct BlockTree {
    /// Dropped before the folders that they are in and point to.
    links: KVec<SysfsLink>,
    /// Each after its parent.
    folders: KVec<SysfsFolder>,
}

/// A number as a line.
struct Line(usize);

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.0)
    }
}

/// Whether an entry is fused off. amdgpu always prints 0 here: it does not know yet.
struct Harvested(bool);

impl fmt::Display for Harvested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:#x}", u8::from(self.0))
    }
}

/// The bases of an entry, a line each.
struct Bases<'a>(DiscoveredIp<'a>);

impl fmt::Display for Bases<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for base in self.0.bases() {
            writeln!(f, "0x{base:08X}")?;
        }
        Ok(())
    }
}

impl BlockTree {
    /// Creates the folders of `table` in that of `device`. They have to be dropped before the
    /// unbind ends.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn new(device: &Device<Bound>, table: &Discovery<'_>) -> Result<Self> {
        let mut tree = Self {
            links: KVec::new(),
            folders: KVec::new(),
        };
        let root = SysfsFolder::under_bound(device, c"ip_discovery", SysfsFiles::new())?;
        tree.folders.push(root, GFP_KERNEL)?;
        let dies = tree.add(0, c"die", SysfsFiles::new())?;
        let mut die = 0;
        while table.entries().any(|ip| ip.die >= die) {
            tree.add_die(dies, table, die)?;
            die += 1;
        }
        Ok(tree)
    }

    /// Adds a folder to folder `parent` and returns its index.
    fn add(&mut self, parent: usize, name: &CStr, files: SysfsFiles) -> Result<usize> {
        let folder = self
            .folders
            .get(parent)
            .ok_or(EINVAL)?
            .folder(name, files)?;
        let index = self.folders.len();
        self.folders.push(folder, GFP_KERNEL)?;
        Ok(index)
    }

    /// Adds the folder of a die to folder `dies`.
    fn add_die(&mut self, dies: usize, table: &Discovery<'_>, die: u16) -> Result {
        let entries = || table.entries().filter(move |ip| ip.die == die);
        let files = SysfsFiles::new().with(&NUM_IPS, &Line(entries().count()))?;
        let name = CString::try_from_fmt(fmt!("{die}"))?;
        let folder = self.add(dies, &name, files)?;
        for (n, first) in entries().enumerate() {
            if entries().take(n).any(|ip| ip.id == first.id) {
                continue;
            }
            let name = CString::try_from_fmt(fmt!("{}", first.id))?;
            let block = self.add(folder, &name, SysfsFiles::new())?;
            for (n, ip) in entries().enumerate().filter(|(_, ip)| ip.id == first.id) {
                // Of two entries with the same number the first counts, as for the driver.
                let before = entries().take(n);
                if !before
                    .clone()
                    .any(|other| (other.id, other.number) == (ip.id, ip.number))
                {
                    self.add_entry(block, &ip, table.is_harvested(&ip))?;
                }
            }
            if let (Some(name), Some(die), Some(block)) = (
                first.name(),
                self.folders.get(folder),
                self.folders.get(block),
            ) {
                self.links.push(die.link_folder(block, name)?, GFP_KERNEL)?;
            }
        }
        Ok(())
    }

    /// Adds the folder of an entry to that of its block.
    fn add_entry(&mut self, block: usize, ip: &DiscoveredIp<'_>, is_harvested: bool) -> Result {
        let version = ip.version;
        let files = SysfsFiles::new()
            .with(&HW_ID, &Line(ip.id.into()))?
            .with(&NUM_INSTANCE, &Line(ip.number.into()))?
            .with(&MAJOR, &Line(version.major.into()))?
            .with(&MINOR, &Line(version.minor.into()))?
            .with(&REVISION, &Line(version.rev.into()))?
            .with(&HARVEST, &Harvested(is_harvested))?
            .with(&NUM_BASE_ADDRESSES, &Line(ip.bases().count()))?
            .with(&BASE_ADDR, &Bases(*ip))?;
        let name = CString::try_from_fmt(fmt!("{}", ip.number))?;
        self.add(block, &name, files)?;
        Ok(())
    }
}

impl Drop for BlockTree {
    fn drop(&mut self) {
        while self.links.pop().is_some() {}
        // Children are dropped before their parents.
        while self.folders.pop().is_some() {}
    }
}
