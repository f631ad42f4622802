// SPDX-License-Identifier: GPL-2.0
//! The client's DMA mappings from bus addresses to memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use crate::mapping::Mapping;

/// One DMA mapping of the client.
pub struct DmaRegion {
    /// Bytes.
    pub len: u64,
    /// None: memory for which no descriptor was given, so it cannot be reached.
    pub memory: Option<(Arc<Mapping>, u64)>,
    /// The device may read.
    pub readable: bool,
    /// The device may write.
    pub writeable: bool,
}

/// All of them.
#[derive(Default)]
pub struct DmaMap {
    regions: BTreeMap<u64, DmaRegion>,
    /// Each file of guest RAM is mapped once and whole, and stays: a vIOMMU maps single pages at a
    /// high rate.
    files: Vec<(u64, u64, Arc<Mapping>)>,
}

impl DmaMap {
    /// Adds a mapping, in place of older ones.
    pub fn insert(&mut self, address: u64, region: DmaRegion) {
        self.remove(address, region.len);
        self.regions.insert(address, region);
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.regions.clear();
    }

    /// The mapping of `file`, which has to have `end` bytes.
    pub fn file(&mut self, file: &File, end: u64) -> std::io::Result<Arc<Mapping>> {
        let meta = file.metadata()?;
        let key = (meta.dev(), meta.ino());
        let known = self
            .files
            .iter()
            .find(|(dev, ino, mapping)| (*dev, *ino) == key && mapping.len() as u64 >= end);
        if let Some((_, _, mapping)) = known {
            return Ok(mapping.clone());
        }
        if meta.len() < end {
            return Err(std::io::ErrorKind::InvalidInput.into());
        }
        let mapping = Arc::new(Mapping::new(file.as_fd(), meta.len() as usize)?);
        self.files.push((key.0, key.1, mapping.clone()));
        Ok(mapping)
    }

    /// The region that covers `address`, with its start.
    pub fn find(&self, address: u64) -> Option<(u64, &DmaRegion)> {
        let (&start, region) = self.regions.range(..=address).next_back()?;
        (address - start < region.len).then_some((start, region))
    }

    /// Removes the range; a mapping that it splits keeps its ends.
    pub fn remove(&mut self, address: u64, size: u64) {
        let end = address.saturating_add(size);
        let touched: Vec<u64> = self
            .regions
            .range(..end)
            .filter(|(start, region)| *start + region.len > address)
            .map(|(start, _)| *start)
            .collect();
        for start in touched {
            let Some(region) = self.regions.remove(&start) else {
                continue;
            };
            let piece = |from: u64, to: u64| DmaRegion {
                len: to - from,
                memory: region
                    .memory
                    .as_ref()
                    .map(|(file, offset)| (file.clone(), offset + (from - start))),
                readable: region.readable,
                writeable: region.writeable,
            };
            let old_end = start + region.len;
            if start < address {
                self.regions.insert(start, piece(start, address));
            }
            if old_end > end {
                self.regions.insert(end, piece(end, old_end));
            }
        }
    }
}
