// SPDX-License-Identifier: GPL-2.0
//! Memory that driver and SMU share: a page of VRAM for tables, and more for the records that tools
//! read.

use kernel::prelude::*;
use kernel::sync::Arc;

use hw::smu::limits::SmuLimits;
use hw::smu::metrics::{SmuMetrics, TABLE_BYTES, TABLE_DWORDS};
use hw::smu::{SmuMessage, SmuTable, TRACE_BYTES};
use hw::va::PAGE_SIZE;

use crate::ip::hdp::Hdp;
use crate::ip::smu::{Smu, SmuFailure};
use crate::kern::errno;
use crate::kern::vram_map::VramMap;
use crate::mem::vram::VramBlocks;
use crate::mem::GpuMemory;

/// The shared memory. The SMU uses it until it has got the message to unload; the owner keeps this
/// until then.
pub(super) struct SmuTables {
    page: VramBlocks,
    trace: VramBlocks,
    /// MC address of VRAM.
    base: u64,
    vram: Arc<VramMap>,
    hdp: Arc<Hdp>,
}

impl SmuTables {
    /// Allocates it in VRAM of the GPU of `memory`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(memory: &GpuMemory) -> Result<Self> {
        let hw = &memory.hw;
        Ok(Self {
            page: memory.vram.alloc_own(PAGE_SIZE, PAGE_SIZE)?,
            trace: memory.vram.alloc_own(TRACE_BYTES, PAGE_SIZE)?,
            base: hw.gmc.fb().base,
            vram: hw.vram_map.clone(),
            hdp: hw.hdp.clone(),
        })
    }

    /// Sets the address of the tables in `smu`.
    ///
    /// # Errors
    ///
    /// Those of [`Smu::ask`].
    pub(super) fn set_address(&self, smu: &mut Smu) -> Result<(), SmuFailure> {
        smu.set_table_page(self.base + self.page.start())
    }

    /// Sets the address of the tools' records in `smu`.
    ///
    /// # Errors
    ///
    /// Those of [`Smu::ask`].
    pub(super) fn set_tools_address(&self, smu: &mut Smu) -> Result<(), SmuFailure> {
        smu.set_trace_memory(self.base + self.trace.start())
    }

    /// Uploads the table of limits to `smu`.
    ///
    /// # Errors
    ///
    /// Those of [`Smu::ask`].
    pub(super) fn upload(&self, smu: &mut Smu, limits: &SmuLimits) -> Result<(), SmuFailure> {
        let message = SmuMessage::TransferTableDram2Smu(SmuTable::Limits);
        self.vram
            .write_bytes(self.page.start(), limits.bytes())
            .map_err(|error| SmuFailure::unsent(message, error))?;
        self.hdp.flush();
        smu.ask(message).map(drop)
    }

    /// Lets `smu` write its measurements and reads them.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT`, `EIO` and `ENODEV` as for [`Smu::send`]; `ENODATA` if it has written nothing.
    pub(super) fn measure(&self, smu: &mut Smu) -> Result<SmuMetrics> {
        let at = self.page.start();
        // Cleared first, so that old contents are not taken for new measurements.
        self.vram.fill64(at, 0, TABLE_BYTES / 8)?;
        self.hdp.flush();
        smu.send(SmuMessage::TransferTableSmu2Dram(SmuTable::Metrics))?;
        let mut table = [0; TABLE_DWORDS];
        self.hdp.flush();
        self.vram.read32s(at, &mut table)?;
        SmuMetrics::new(&table).ok_or_else(errno::no_data)
    }
}
