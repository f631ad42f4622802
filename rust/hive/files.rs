// SPDX-License-Identifier: GPL-2.0
//! The files `xgmi_*` in the PCI device's folder, under amdgpu's names (amdgpu_xgmi.c): the numbers
//! of the GPU, and how far the members of its hive are, in the order in which they joined.

use core::fmt;

use hw::xgmi::ta::{NodeId, XgmiWay};
use kernel::device::{Bound, Device};
use kernel::prelude::*;
use kernel::sync::Arc;

use super::{of_hive, HiveList, HiveMembership};
use crate::kern::kobject::{AddedFiles, SysfsFiles, SysfsFolder, SysfsName};

static DEVICE_ID: SysfsName = SysfsName::new(c"xgmi_device_id");
static PHYSICAL_ID: SysfsName = SysfsName::new(c"xgmi_physical_id");
static NUM_HOPS: SysfsName = SysfsName::new(c"xgmi_num_hops");
static NUM_LINKS: SysfsName = SysfsName::new(c"xgmi_num_links");
static HIVE_ID: SysfsName = SysfsName::new(c"xgmi_hive_id");

/// A number.
struct DecimalLine(u64);

impl fmt::Display for DecimalLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.0)
    }
}

/// A figure of the ways to all members of the GPU `node`'s hive, itself too.
struct WayFigures {
    list: Arc<HiveList>,
    node: NodeId,
    figure: fn(XgmiWay) -> u32,
}

impl fmt::Display for WayFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = self.list.members.lock();
        let own = members.iter().find(|member| member.node == self.node);
        if let Some(own) = own {
            for other in of_hive(&members, own.hive) {
                let way = own.ways.get(other.place().node as usize);
                let figure = way.map_or(0, |way| (self.figure)(*way));
                write!(f, "{figure:02x} ")?;
            }
        }
        writeln!(f)
    }
}

/// The files of a member. Dropped before the membership.
pub(crate) struct HiveFiles {
    _files: AddedFiles,
    _folder: SysfsFolder,
}

impl HiveFiles {
    /// Creates the files of `member` for `device`, its PCI device.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(member: &HiveMembership, device: &Device<Bound>) -> Result<Self> {
        let ways = |figure| {
            let (list, node) = (member.list.clone(), member.node);
            Arc::new(WayFigures { list, node, figure }, GFP_KERNEL)
        };
        let hive = SysfsFiles::new().with(&HIVE_ID, &DecimalLine(member.hw.hive.get()))?;
        let files = SysfsFiles::new()
            .with(&DEVICE_ID, &DecimalLine(member.node.get()))?
            .with(
                &PHYSICAL_ID,
                &DecimalLine(member.hw.gmc.place().node.into()),
            )?
            .with_live(&NUM_HOPS, ways(|way| way.hops)?)?
            .with_live(&NUM_LINKS, ways(|way| way.links)?)?;
        Ok(Self {
            _folder: SysfsFolder::under_bound(device, c"xgmi_hive_info", hive)?,
            _files: AddedFiles::of_device(device, files)?,
        })
    }
}
