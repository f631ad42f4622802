// SPDX-License-Identifier: GPL-2.0
//! Memory that driver and SMU share: a page of VRAM for tables, and more for the records that tools
//! read.

use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::{delay::fsleep, Delta};

use hw::smu::limits::SmuLimits;
use hw::smu::readings::SmuMeasurement;
use hw::smu::{SmuMessage, SmuTable, TRACE_BYTES};
use hw::va::PAGE_SIZE;

use crate::ip::hdp::Hdp;
use crate::ip::smu::{Smu, SmuFailure};
use crate::kern::errno;
use crate::kern::vram_map::VramMap;
use crate::mem::vram::VramBlocks;
use crate::mem::GpuMemory;

/// Between two measurements of which the first one was not ready.
const UNTIL_READY: Delta = Delta::from_millis(1);

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
            .map_err(|error| SmuFailure::unsent(message.shown(smu.interface()), error))?;
        self.hdp.flush();
        smu.ask(message).map(drop)
    }

    /// Lets `smu` write its measurements, and reads them into `table`, which has the interface's
    /// dwords. May sleep, for a tenth of a second if the SMU has not measured yet.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT`, `EIO` and `ENODEV` as for [`Smu::send`]; `ENODATA` if it has written nothing.
    pub(super) fn measure(&self, smu: &mut Smu, table: &mut [u32]) -> Result {
        let interface = smu.interface();
        for attempt in 0..interface.attempts() {
            if attempt != 0 {
                fsleep(UNTIL_READY);
            }
            self.receive(smu, interface.measure(), table)?;
            if SmuMeasurement::new(interface, table).is_some() {
                return Ok(());
            }
        }
        Err(errno::no_data())
    }

    /// Has `smu` write the table of `message`, and reads it into `table`.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT`, `EIO` and `ENODEV` as for [`Smu::send`].
    pub(super) fn receive(&self, smu: &mut Smu, message: SmuMessage, table: &mut [u32]) -> Result {
        let at = self.page.start();
        // Cleared first, so that old contents are not taken for new measurements.
        self.vram.fill64(at, 0, table.len().div_ceil(2))?;
        self.hdp.flush();
        smu.send(message)?;
        self.hdp.flush();
        self.vram.read32s(at, table)
    }
}
