// SPDX-License-Identifier: GPL-2.0
//! Memory that driver and SMU share: a page of VRAM for tables, and more for what it notes for tools.

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

/// That memory. The SMU has it until it is told to unload: who has made this keeps it until then.
pub(super) struct SmuTables {
    page: VramBlocks,
    trace: VramBlocks,
    /// MC address of VRAM.
    base: u64,
    vram: Arc<VramMap>,
    hdp: Arc<Hdp>,
}

impl SmuTables {
    /// In VRAM of the GPU of `memory`. ENOMEM.
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

    /// Tells `smu` where tables go. Errors of [`Smu::ask`].
    pub(super) fn set_address(&self, smu: &mut Smu) -> Result<(), SmuFailure> {
        smu.set_table_page(self.base + self.page.start())
    }

    /// Tells `smu` where what tools look at goes. Errors of [`Smu::ask`].
    pub(super) fn set_tools_address(&self, smu: &mut Smu) -> Result<(), SmuFailure> {
        smu.set_trace_memory(self.base + self.trace.start())
    }

    /// Gives `smu` its table of limits. Errors of [`Smu::ask`].
    pub(super) fn upload(&self, smu: &mut Smu, limits: &SmuLimits) -> Result<(), SmuFailure> {
        let message = SmuMessage::TransferTableDram2Smu(SmuTable::Limits);
        self.vram
            .write_bytes(self.page.start(), limits.bytes())
            .map_err(|error| SmuFailure::unsent(message, error))?;
        self.hdp.flush();
        smu.ask(message).map(drop)
    }

    /// Has `smu` measure. ETIMEDOUT, EIO and ENODEV as for [`Smu::send`]; ENODATA if it has written nothing.
    pub(super) fn measure(&self, smu: &mut Smu) -> Result<SmuMetrics> {
        let at = self.page.start();
        // What is there is not taken for what it writes now.
        self.vram.fill64(at, 0, TABLE_BYTES / 8)?;
        self.hdp.flush();
        smu.send(SmuMessage::TransferTableSmu2Dram(SmuTable::Metrics))?;
        let mut table = [0; TABLE_DWORDS];
        self.hdp.flush();
        self.vram.read32s(at, &mut table)?;
        SmuMetrics::new(&table).ok_or_else(errno::no_data)
    }
}
