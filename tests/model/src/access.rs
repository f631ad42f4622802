// SPDX-License-Identifier: GPL-2.0
//! Accesses of the host to the device, and the blocks that handle them: registers (BAR5),
//! configuration space, doorbells (BAR2). BAR0 is [`crate::bar0`].

use std::sync::PoisonError;

use crate::error::{ModelError, Result};
use crate::gpu::Gpu;
use crate::grbm::Grbm;
use crate::hub::HubId;
use crate::memory::Access;
use crate::nbio::{self as bif, Window};
use crate::regs::gc::{self, rlc_safe_mode};
use crate::regs::{athub, df, mp0, nbio, osssys, smuio};
use crate::regs::{Part, Reg, SDMA_BASE, SDMA_QUEUE_STRIDE, SDMA_RLC0};
use crate::sdma::Engine;
use crate::smn;

/// Dwords of an SDMA engine's registers.
const SDMA_SPAN: u32 = SDMA_RLC0 + 8 * SDMA_QUEUE_STRIDE;

/// Registers that only the device writes, besides those of single blocks.
const READ_ONLY: &[Reg] = &[
    nbio::RCC_CONFIG_MEMSIZE,
    nbio::RCC_DEV0_EPF0_STRAP0,
    nbio::GPU_HDP_FLUSH_DONE,
    nbio::PARTITION_MEM_CAP,
    nbio::PARTITION_MEM_STATUS,
    nbio::PARTITION_COMPUTE_STATUS,
    gc::GRBM_STATUS,
    gc::GRBM_STATUS2,
    gc::CP_STAT,
    gc::CP_CPC_STATUS,
    gc::RLC_STAT,
    gc::RLC_GPU_CLOCK_COUNT_LSB,
    gc::RLC_GPU_CLOCK_COUNT_MSB,
    gc::SPI_CSQ_WF_ACTIVE_STATUS,
    gc::RLC_SERDES_CU_MASTER_BUSY,
    gc::RLC_SERDES_NONCU_MASTER_BUSY,
    nbio::RCC_IOV_FUNC_IDENTIFIER,
    nbio::UNASSIGNED_7,
    smuio::SMUIO_MCM_CONFIG,
    smuio::SMUSVI0_TEL_PLANE0,
    smuio::IP_DISCOVERY_VERSION,
    df::GCM_AON0_DRAM_MEGA_BASE_ADDRESS0,
    mp0::MP0_SMN_C2PMSG_33,
    mp0::MP0_SMN_C2PMSG_58,
    mp0::MP0_SMN_C2PMSG_68,
    mp0::MP0_SMN_C2PMSG_81,
    mp0::MP0_SMN_C2PMSG_92,
    mp0::MP0_SMN_C2PMSG_127,
];

impl Gpu {
    /// A 32-bit read of BAR5, at register `reg`.
    pub fn read(&self, reg: Reg) -> Result<u32> {
        self.read_at(self.regs.dword(reg))
    }

    /// A 32-bit read of BAR5, at a dword.
    pub fn read_at(&self, dword: u32) -> Result<u32> {
        if self.is_gone() || self.smu.is_away(self) {
            return Ok(!0);
        }
        if bif::flush(&self.regs, dword) != bif::Flush::Neither {
            return Ok(0);
        }
        let (part, local) = self.regs.part(dword);
        self.on(part, |gpu| gpu.read_own(local))
    }

    /// Calls `step` with the view of the part that an access goes to.
    fn on<T>(&self, part: Part, step: impl FnOnce(&Gpu) -> T) -> T {
        match part {
            Part::Xcc(n) if n != self.regs.xcc => step(&self.xcc(n)),
            Part::Aid(n) if n != self.regs.aid => step(&self.aid(n)),
            _ => step(self),
        }
    }

    /// A read of a register of this part, at the first part's dword.
    fn read_own(&self, dword: u32) -> Result<u32> {
        let reg = self.regs.at(dword);
        self.regs.check("read", reg)?;
        match bif::window(&self.regs, reg)? {
            Some(Window::Register(target)) => return self.read_at(target),
            Some(Window::Fabric(address)) => return smn::read(self, address),
            Some(Window::Memory(phys)) => {
                let mut data = [0; 4];
                self.bus.view().read(phys, &mut data)?;
                return Ok(u32::from_le_bytes(data));
            }
            None => {}
        }
        match reg {
            smuio::ROM_INDEX => return Ok(self.rom.index()),
            smuio::ROM_DATA => return Ok(self.rom.read()),
            _ => {}
        }
        if let Some(value) = self.psp.read(self, reg) {
            return Ok(value);
        }
        if let Some(value) = self.smu.read(self, reg)? {
            return Ok(value);
        }
        if let Some(value) = self.ih.read(reg) {
            return Ok(value);
        }
        if let Some(value) = self.cp.read(self, reg) {
            return Ok(value);
        }
        if let Some(value) = self.bank_of(reg).read(&self.regs, reg) {
            return Ok(value);
        }
        if let Some((engine, offset)) = sdma_owner(reg) {
            return Ok(self.engine(engine).read(self, reg, offset));
        }
        if let Some(hub) = HubId::owner(reg) {
            return Ok(self.hub(hub).read(self, reg));
        }
        Ok(self.regs.get(reg))
    }

    /// A 32-bit write of BAR5, at register `reg`.
    pub fn write(&self, reg: Reg, value: u32) -> Result<()> {
        self.write_at(self.regs.dword(reg), value)
    }

    /// A 32-bit write of BAR5, at a dword.
    pub fn write_at(&self, dword: u32, value: u32) -> Result<()> {
        if self.is_gone() || self.smu.is_away(self) {
            return Ok(());
        }
        match bif::flush(&self.regs, dword) {
            bif::Flush::Register => {
                self.bus.flush_hdp();
                return Ok(());
            }
            bif::Flush::Hole => return Ok(()),
            bif::Flush::Neither => {}
        }
        let (part, local) = self.regs.part(dword);
        self.on(part, |gpu| gpu.write_own(local, value))
    }

    /// A write of a register of this part, at the first part's dword.
    fn write_own(&self, dword: u32, value: u32) -> Result<()> {
        let reg = self.regs.at(dword);
        self.regs.check("write", reg)?;
        match bif::window(&self.regs, reg)? {
            Some(Window::Register(target)) => return self.write_at(target, value),
            Some(Window::Fabric(address)) => return smn::write(self, address, value),
            Some(Window::Memory(phys)) => {
                return self.bus.view().write(phys, &value.to_le_bytes());
            }
            None => {}
        }
        if READ_ONLY.contains(&reg) {
            return Err(self.regs.refuse(reg, value, "the register is read-only"));
        }
        self.psp.watch(self, reg, value)?;
        if let Some((engine, offset)) = sdma_owner(reg) {
            return self.engine(engine).write(self, reg, offset, value);
        }
        if let Some(hub) = HubId::owner(reg) {
            return self.hub(hub).write(self, reg, value);
        }
        if (osssys::IH_RB_CNTL.0..=osssys::IH_DOORBELL_RPTR_RING2.0).contains(&reg.0)
            || reg == osssys::IH_RETRY_INT_CAM_CNTL
        {
            return self.ih.write(self, reg, value);
        }
        if self.cp.write(self, reg, value)?
            || self.bank_of(reg).write(&self.regs, reg, value)?
            || self.psp.write(self, reg, value)?
            || self.smu.write(self, reg, value)?
        {
            return Ok(());
        }
        self.write_plain(reg, value)
    }

    /// The banks that a register is in, if it is banked.
    fn bank_of(&self, reg: Reg) -> &Grbm {
        match Grbm::is_of_nodes(reg) {
            true => self.banks(),
            false => &self.grbm,
        }
    }

    /// An SDMA engine of this AID.
    fn engine(&self, number: usize) -> &Engine {
        &self.sdma[self.regs.aid * self.regs.asic.sdma.len() + number]
    }

    /// Registers that store the written value, some of them with an effect besides.
    fn write_plain(&self, reg: Reg, value: u32) -> Result<()> {
        let regs = &self.regs;
        let stored = match reg {
            nbio::GPU_HDP_FLUSH_REQ => {
                self.bus.flush_hdp();
                // Each client has a bit; one client's request does not clear the bit that another
                // waits for.
                regs.or(nbio::GPU_HDP_FLUSH_DONE, value);
                value
            }
            athub::ATC_VMID_PASID_MAPPING_UPDATE_STATUS => regs.get(reg) & !value,
            gc::RLC_CAPTURE_GPU_CLOCK_COUNT => {
                // The count stands still while the RLC does.
                if self.psp.clock_counts(self) {
                    let now = self.clock.now();
                    regs.set(gc::RLC_GPU_CLOCK_COUNT_LSB, now as u32);
                    regs.set(gc::RLC_GPU_CLOCK_COUNT_MSB, (now >> 32) as u32);
                }
                0
            }
            smuio::ROM_INDEX => {
                self.rom.set_index(value);
                0
            }
            smuio::ROM_DATA => {
                return Err(regs.refuse(reg, value, "the flash chip is not written"))
            }
            // The request is taken at once.
            gc::RLC_SAFE_MODE => rlc_safe_mode::CMD.put(value, 0),
            _ => {
                if let Some(vmid) = pasid_mapping(reg) {
                    regs.or(athub::ATC_VMID_PASID_MAPPING_UPDATE_STATUS, 1 << vmid);
                }
                value
            }
        };
        regs.set(reg, stored);
        self.check_lead(reg, value)
    }

    /// Configuration space write.
    pub fn write_config(&self, offset: u64, data: &[u8]) {
        if self.removal.is_gone() || self.smu.is_resetting(self) {
            return;
        }
        let mut config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        let was_awake = config.is_awake();
        if config.write(offset, data) {
            drop(config);
            return self.reset_function();
        }
        if was_awake && !config.is_awake() {
            if let Err(error) = self.fall_asleep() {
                self.fail(&error);
            }
        }
        if self.bus.is_master() && !config.is_master() {
            self.summary.without_master.clear();
        }
        self.bus.set_master(config.is_master());
        let size = if config.decodes() { self.bar0 } else { 0 };
        if config.decodes() {
            self.smu.host_is_back();
        }
        self.bus.set_window(config.bar_address(0), size);
        let size = self.layout().register_size();
        self.bus
            .set_bars(config.bar_address(2), config.bar_address(5), size);
    }

    /// Configuration space read.
    pub fn read_config(&self, offset: u64, data: &mut [u8]) {
        if self.removal.is_gone() {
            data.fill(0xff);
            return;
        }
        self.smu.is_resetting(self);
        let config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        config.read(offset, data);
    }

    /// A read of the expansion ROM.
    pub fn read_rom(&self, offset: u64, data: &mut [u8]) {
        if self.removal.is_gone() {
            return data.fill(0xff);
        }
        self.rom.copy(offset, data);
    }

    /// A store to the doorbell BAR.
    pub fn ring(&self, byte: u64, data: &[u8]) -> Result<()> {
        if self.removal.is_gone() {
            return Ok(());
        }
        self.nbio.doorbell(self, byte, data)
    }
}

/// The SDMA engine that `reg` belongs to, and the dwords from its base.
fn sdma_owner(reg: Reg) -> Option<(usize, u32)> {
    SDMA_BASE
        .into_iter()
        .position(|base| (base..base + SDMA_SPAN).contains(&reg.0))
        .map(|engine| (engine, reg.0 - SDMA_BASE[engine]))
}

/// The bit of UPDATE_STATUS for a PASID mapping register: 0..=15 graphics, 16..=31 MMHUB clients.
fn pasid_mapping(reg: Reg) -> Option<u32> {
    let graphics = athub::ATC_VMID0_PASID_MAPPING.0;
    let memory = athub::ATC_VMID16_PASID_MAPPING.0;
    match reg.0 {
        n if (graphics..graphics + 16).contains(&n) => Some(n - graphics),
        n if (memory..memory + 16).contains(&n) => Some(n - memory + 16),
        _ => None,
    }
}

/// The error for an access of a width that no register has.
pub fn bad_access(access: Access, region: &'static str, offset: u64, size: usize) -> ModelError {
    ModelError::Access {
        access: access.name(),
        region,
        offset,
        size,
    }
}
