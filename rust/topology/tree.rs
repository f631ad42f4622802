// SPDX-License-Identifier: GPL-2.0
//! The folders and files of one generation of the topology.

use core::fmt;

use hw::topology::record::{NumberFile, SystemProperties};
use kernel::prelude::*;
use kernel::str::CString;

use super::node::{Machine, TopologyNode};
use super::GpuFacts;
use crate::kern::class::ClassDevice;
use crate::kern::kobject::{SysfsFiles, SysfsFolder, SysfsName};

static GENERATION_ID: SysfsName = SysfsName::new(c"generation_id");
static SYSTEM_PROPERTIES: SysfsName = SysfsName::new(c"system_properties");
static GPU_ID: SysfsName = SysfsName::new(c"gpu_id");
static NAME: SysfsName = SysfsName::new(c"name");
static PROPERTIES: SysfsName = SysfsName::new(c"properties");

/// The folders, each after its parent.
pub(super) struct TopologyTree(KVec<SysfsFolder>);

/// A line of text.
struct TextLine<'a>(&'a str);

impl fmt::Display for TextLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.0)
    }
}

impl TopologyTree {
    /// Creates the files for a machine with `gpus`.
    pub(super) fn new(device: &ClassDevice, generation: u32, gpus: &[GpuFacts]) -> Result<Self> {
        let files = SysfsFiles::new()
            .with(&GENERATION_ID, &NumberFile(generation))?
            .with(&SYSTEM_PROPERTIES, &SystemProperties::default())?;
        let mut tree = Self(KVec::new());
        tree.0.push(
            SysfsFolder::under_device(device, c"topology", files)?,
            GFP_KERNEL,
        )?;
        let nodes = tree.add(0, c"nodes", SysfsFiles::new())?;
        let machine = Machine::new(gpus)?;
        for number in 0..machine.nodes() {
            tree.add_node(nodes, number, &machine.node(number)?)?;
        }
        Ok(tree)
    }

    /// Adds a folder to folder `parent` and returns its index.
    fn add(&mut self, parent: usize, name: &CStr, files: SysfsFiles) -> Result<usize> {
        let folder = self.0.get(parent).ok_or(EINVAL)?.folder(name, files)?;
        let index = self.0.len();
        self.0.push(folder, GFP_KERNEL)?;
        Ok(index)
    }

    fn add_node(&mut self, nodes: usize, number: usize, node: &TopologyNode<'_>) -> Result {
        let files = || SysfsFiles::of_node(node.render_node);
        let own = files()
            .with(&GPU_ID, &NumberFile(node.gpu_id))?
            .with(&NAME, &TextLine(node.name))?
            .with(&PROPERTIES, &*node.properties)?;
        let name = CString::try_from_fmt(fmt!("{number}"))?;
        let folder = self.add(nodes, &name, own)?;
        self.add_list(folder, c"mem_banks", files, &node.banks)?;
        self.add_list(folder, c"caches", files, &node.caches)?;
        self.add_list(folder, c"io_links", files, &node.links.direct)?;
        self.add_list(folder, c"p2p_links", files, &node.links.indirect)
    }

    /// Adds a folder of numbered folders with the properties of `records`; `files` makes the empty
    /// list of the files of one.
    fn add_list<T: fmt::Display>(
        &mut self,
        node: usize,
        name: &CStr,
        files: impl Fn() -> SysfsFiles,
        records: &[T],
    ) -> Result {
        let list = self.add(node, name, SysfsFiles::new())?;
        for (index, record) in records.iter().enumerate() {
            let name = CString::try_from_fmt(fmt!("{index}"))?;
            self.add(list, &name, files().with(&PROPERTIES, record)?)?;
        }
        Ok(())
    }
}

impl Drop for TopologyTree {
    fn drop(&mut self) {
        // Children are dropped before their parents.
        while self.0.pop().is_some() {}
    }
}
