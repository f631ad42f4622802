// SPDX-License-Identifier: GPL-2.0
//! A process of a runlist, and its settings for a VMID.

use super::gang::Gang;
use super::templates;
use crate::gpu::Gpu;
use crate::hub::{Flush, HubId};
use crate::regs::athub::{self, atc_vmid0_pasid_mapping as mapping};
use crate::regs::gc::{self, tcp_watch0_cntl as watch};
use crate::regs::osssys;
use crate::regs::{Field, Reg};
use crate::tlb::Scope;

/// Watch points, and the distance of their registers.
pub const WATCHES: u32 = 4;
/// See above.
pub const WATCH_STRIDE: u32 = 3;
/// MAP_PROCESS in gfx90a's form.
const DWORDS: usize = 21;

/// MAP_PROCESS.
#[derive(Debug, Clone)]
pub struct Process {
    /// PASID.
    pub pasid: u16,
    /// Length of a time slice, ms.
    pub quantum: u32,
    /// The cleaner shader runs before it (exec_cleaner_shader).
    pub cleans: bool,
    /// Page-table base, in the format of the context's register.
    root: u64,
    /// SH_MEM_BASES, SH_MEM_CONFIG.
    shared: [u32; 2],
    /// Trap handler and its memory: TBA and TMA, low and high.
    trap: [u32; 4],
    /// SPI_GDBG_PER_VMID_CNTL.
    debug: u32,
    /// TCP_WATCHn_CNTL, without the VMID.
    watches: [u32; 4],
    /// Its address space now.
    pub vmid: Option<u8>,
}

impl Process {
    /// Decodes the packet.
    pub fn decode(words: &[u32]) -> Result<Process, &'static str> {
        if words.len() != DWORDS {
            return Err("MAP_PROCESS has 21 dwords");
        }
        if let Some(reason) = templates::map_process(words) {
            return Err(reason);
        }
        let pasid = Field::new(15, 0).get(words[1]) as u16;
        if pasid == 0 {
            return Err("MAP_PROCESS: the PASID is 0");
        }
        Ok(Process {
            pasid,
            quantum: Field::new(31, 25).get(words[1]),
            cleans: Field::new(17, 17).is_set(words[1]),
            root: u64::from(words[2]) | u64::from(words[3]) << 32,
            shared: [words[4], words[5]],
            trap: [words[6], words[7], words[8], words[9]],
            debug: words[14],
            watches: [words[15], words[16], words[17], words[18]],
            vmid: None,
        })
    }

    /// Whether its waves retry page faults (XNACK): SH_MEM_CONFIG.RETRY_DISABLE is clear.
    pub fn retries(&self) -> bool {
        !Field::new(12, 12).is_set(self.shared[1])
    }

    /// Assigns `vmid` to the process, in these XCCs and the AIDs below them. Translations of its
    /// former use are flushed from the caches.
    pub fn assign(&mut self, gpu: &Gpu, gang: Gang, vmid: u8) {
        self.vmid = Some(vmid);
        gpu.summary.cp_vmids.bump();
        for xcc in gang.members() {
            self.assign_in(&gpu.xcc(xcc), vmid);
        }
    }

    fn assign_in(&self, gpu: &Gpu, vmid: u8) {
        let n = u32::from(vmid);
        let base = gc::VM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32.nth(n, 2);
        for hub in [HubId::Gfx, HubId::Mm] {
            gpu.regs.set(hub.reg(base), self.root as u32);
            let high = hub.reg(Reg(base.0 + 1));
            gpu.regs.set(high, (self.root >> 32) as u32);
            gpu.hub(hub).flush(gpu, 1 << vmid, Scope::ALL, Flush::Heavy);
        }
        let banked = [
            (gc::SH_MEM_BASES, self.shared[0]),
            (gc::SH_MEM_CONFIG, self.shared[1]),
            (gc::SQ_SHADER_TBA_LO, self.trap[0]),
            (gc::SQ_SHADER_TBA_HI, self.trap[1]),
            (gc::SQ_SHADER_TMA_LO, self.trap[2]),
            (gc::SQ_SHADER_TMA_HI, self.trap[3]),
            (gc::SPI_GDBG_PER_VMID_CNTL, self.debug),
        ];
        for (reg, value) in banked {
            gpu.grbm.set_of_bank(reg, n, value);
        }
        for (point, control) in (0..).zip(self.watches) {
            if watch::VALID.is_set(control) {
                let control = watch::VMID.put(control, n);
                gpu.regs
                    .set(gc::TCP_WATCH0_CNTL.nth(point, WATCH_STRIDE), control);
            }
        }
        let value = mapping::PASID.of(self.pasid.into()) | mapping::VALID.of(1);
        set_pasid(gpu, n, value, self.pasid.into());
    }
}

/// Frees `vmid`.
pub fn release(gpu: &Gpu, gang: Gang, vmid: u8) {
    for xcc in gang.members() {
        release_in(&gpu.xcc(xcc), vmid);
    }
}

fn release_in(gpu: &Gpu, vmid: u8) {
    for point in 0..WATCHES {
        let reg = gc::TCP_WATCH0_CNTL.nth(point, WATCH_STRIDE);
        let control = gpu.regs.get(reg);
        if watch::VALID.is_set(control) && watch::VMID.get(control) == u32::from(vmid) {
            gpu.regs.set(reg, 0);
        }
    }
    set_pasid(gpu, vmid.into(), 0, 0);
}

fn set_pasid(gpu: &Gpu, vmid: u32, mapping: u32, pasid: u32) {
    for first in [
        athub::ATC_VMID0_PASID_MAPPING,
        athub::ATC_VMID16_PASID_MAPPING,
    ] {
        gpu.regs.set(first.nth(vmid, 1), mapping);
    }
    // Of the XCC's node, and of the AID's.
    let node = |is_aid| gpu.layout().node(gpu.regs.xcc, gpu.regs.aid, is_aid);
    for (first, node) in [
        (osssys::IH_VMID_0_LUT, node(false)),
        (osssys::IH_VMID_0_LUT_MM, node(true)),
    ] {
        let reg = first.nth(vmid, 1);
        if gpu.regs.asic.has_nodes {
            gpu.banks().set_of_bank(reg, node, pasid);
        } else {
            gpu.regs.set(reg, pasid);
        }
    }
}
