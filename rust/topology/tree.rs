// SPDX-License-Identifier: GPL-2.0
//! The folders and files of one generation of the topology.

use core::fmt;

use hw::topology::record::{Number, System};
use kernel::prelude::*;
use kernel::str::CString;

use super::node::{Machine, Node};
use super::GpuFacts;
use crate::kern::class::ClassDevice;
use crate::kern::kobject::{FileName, Files, Folder};

static GENERATION_ID: FileName = FileName::new(c"generation_id");
static SYSTEM_PROPERTIES: FileName = FileName::new(c"system_properties");
static GPU_ID: FileName = FileName::new(c"gpu_id");
static NAME: FileName = FileName::new(c"name");
static PROPERTIES: FileName = FileName::new(c"properties");

/// The folders, each after the one that it is in.
pub(super) struct Tree(KVec<Folder>);

/// A line of text.
struct Line<'a>(&'a str);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.0)
    }
}

impl Tree {
    /// Makes the files for a machine with `gpus`.
    pub(super) fn new(device: &ClassDevice, generation: u32, gpus: &[GpuFacts]) -> Result<Self> {
        let files = Files::new()
            .with(&GENERATION_ID, &Number(generation))?
            .with(&SYSTEM_PROPERTIES, &System::default())?;
        let mut tree = Self(KVec::new());
        tree.0.push(
            Folder::under_device(device, c"topology", files)?,
            GFP_KERNEL,
        )?;
        let nodes = tree.add(0, c"nodes", Files::new())?;
        let machine = Machine::new(gpus)?;
        for number in 0..machine.nodes() {
            tree.add_node(nodes, number, &machine.node(number)?)?;
        }
        Ok(tree)
    }

    /// Adds a folder to folder `parent` and gives its index.
    fn add(&mut self, parent: usize, name: &CStr, files: Files) -> Result<usize> {
        let folder = self.0.get(parent).ok_or(EINVAL)?.folder(name, files)?;
        let index = self.0.len();
        self.0.push(folder, GFP_KERNEL)?;
        Ok(index)
    }

    fn add_node(&mut self, nodes: usize, number: usize, node: &Node) -> Result {
        let files = Files::new()
            .with(&GPU_ID, &Number(node.gpu_id))?
            .with(&NAME, &Line(node.name))?
            .with(&PROPERTIES, &*node.properties)?;
        let name = CString::try_from_fmt(fmt!("{number}"))?;
        let folder = self.add(nodes, &name, files)?;
        self.add_list(folder, c"mem_banks", &node.banks)?;
        self.add_list(folder, c"caches", &node.caches)?;
        self.add_list(folder, c"io_links", &node.links.direct)?;
        self.add_list(folder, c"p2p_links", &node.links.indirect)
    }

    /// Adds a folder of numbered folders with the properties of `records`.
    fn add_list<T: fmt::Display>(&mut self, node: usize, name: &CStr, records: &[T]) -> Result {
        let list = self.add(node, name, Files::new())?;
        for (index, record) in records.iter().enumerate() {
            let name = CString::try_from_fmt(fmt!("{index}"))?;
            self.add(list, &name, Files::new().with(&PROPERTIES, record)?)?;
        }
        Ok(())
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // What is inside goes before what it is in.
        while self.0.pop().is_some() {}
    }
}
