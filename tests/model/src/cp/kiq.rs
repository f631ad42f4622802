// SPDX-License-Identifier: GPL-2.0
//! The schedulers' queues: the kernel's (KIQ) and the one for runlists (HIQ), and the packets that
//! only they have.

use super::execute::{address_space, Executor, Outcome, Work};
use super::gang::Gang;
use super::interrupt::{self, Exception};
use super::pm4;
use super::runlist::{Engine, MapQueue, Resources, Runlist, Targets, Unmap};
use super::templates;
use super::Slot;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::hub::{Flush, HubId};
use crate::regs::athub::{self, atc_vmid0_pasid_mapping as mapping};
use crate::regs::gc::{self, rlc_cp_schedulers as schedulers};
use crate::regs::Field;
use crate::tlb::Scope;

const INVALIDATE_TLBS: u32 = 0x98;
const SET_RESOURCES: u32 = 0xa0;
const MAP_QUEUES: u32 = 0xa2;
const UNMAP_QUEUES: u32 = 0xa3;
const QUERY_STATUS: u32 = 0xa4;
pub(super) const RUN_LIST: u32 = 0xa5;

/// RLC_CP_SCHEDULERS: a scheduler's byte is in use.
const VALID: u32 = 0x80;

/// The role of a queue as a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// RLC_CP_SCHEDULERS.scheduler0.
    Kiq,
    /// scheduler1, or mapped by the KIQ with engine 1.
    Hiq,
}

/// A packet's name if it is one of the schedulers'.
pub fn name(opcode: u32) -> Option<&'static str> {
    Some(match opcode {
        INVALIDATE_TLBS => "INVALIDATE_TLBS",
        SET_RESOURCES => "SET_RESOURCES",
        MAP_QUEUES => "MAP_QUEUES",
        UNMAP_QUEUES => "UNMAP_QUEUES",
        QUERY_STATUS => "QUERY_STATUS",
        RUN_LIST => "RUN_LIST",
        _ => return None,
    })
}

/// The role of a queue according to RLC_CP_SCHEDULERS.
pub fn role(gpu: &Gpu, slot: Slot) -> Option<Role> {
    let value = gpu.regs.get(gc::RLC_CP_SCHEDULERS);
    let byte = VALID | slot.me() << 5 | slot.pipe() << 3 | slot.queue();
    if schedulers::SCHEDULER0.get(value) == byte {
        Some(Role::Kiq)
    } else {
        (schedulers::SCHEDULER1.get(value) == byte).then_some(Role::Hiq)
    }
}

fn wide(words: &[u32], at: usize) -> u64 {
    u64::from(words[at]) | u64::from(words[at + 1]) << 32
}

/// Decodes MAP_QUEUES for a chip with `engines` SDMA engines.
pub fn map_queue(
    words: &[u32],
    xcc: usize,
    engines: usize,
) -> std::result::Result<MapQueue, &'static str> {
    if words.len() != 7 {
        return Err("MAP_QUEUES has 7 dwords");
    }
    if let Some(reason) = templates::map_queues(words) {
        return Err(reason);
    }
    let control = words[1];
    // extended_engine_sel, engine_sel.
    let engine = match (
        Field::new(3, 2).get(control),
        Field::new(28, 26).get(control) as usize,
    ) {
        (0, 0) => Engine::Compute,
        (0, 1) => Engine::Hiq,
        (0, n @ 2..=3) => Engine::Sdma(n - 2),
        (1, n) if n < engines => Engine::Sdma(n),
        _ => return Err("MAP_QUEUES: there is no such engine"),
    };
    let given = Field::new(5, 4).get(control) == 0;
    let slot = Slot::new(
        xcc,
        Field::new(18, 18).get(control) + 1,
        Field::new(17, 16).get(control),
        Field::new(15, 13).get(control),
    );
    Ok(MapQueue {
        engine,
        slot: slot.filter(|_| given),
        is_static: Field::new(23, 21).get(control) == 2,
        vmid: Field::new(11, 8).get(control) as u8,
        doorbell: Field::new(27, 2).get(words[2]),
        mqd: wide(words, 3),
        wptr: wide(words, 5),
    })
}

fn wrong(reason: &'static str) -> Outcome {
    Ok(Err((Exception::Unsupported, reason)))
}

impl Executor<'_> {
    /// A scheduler's packet.
    pub(super) fn control(&mut self, role: Role, words: &[u32]) -> Outcome {
        let dwords = match pm4::opcode(words[0]) {
            INVALIDATE_TLBS => 2,
            SET_RESOURCES => 8,
            RUN_LIST => 4,
            UNMAP_QUEUES => 6,
            _ => 7,
        };
        if words.len() != dwords {
            return wrong("the packet's count is wrong");
        }
        let misfit = match pm4::opcode(words[0]) {
            SET_RESOURCES => templates::resources(words, role),
            RUN_LIST => templates::run_list(words),
            UNMAP_QUEUES => templates::unmap_queues(words),
            QUERY_STATUS => templates::query_status(words),
            _ => None,
        };
        if let Some(reason) = misfit {
            return wrong(reason);
        }
        let own = self.job.slot.xcc();
        let gang = match role {
            Role::Kiq => Gang::alone(own),
            Role::Hiq => Gang::of(self.gpu, own)?,
        };
        if own != gang.lead() {
            // The first XCC does it for all.
            return Ok(Ok(Work::Done));
        }
        if gang.size() > 1 && !self.gpu.cp.have_followed(gang, self.job.rptr) {
            return Ok(Ok(Work::Blocked));
        }
        match pm4::opcode(words[0]) {
            INVALIDATE_TLBS => {
                if let Err(reason) = self.invalidate(words[1]) {
                    return wrong(reason);
                }
            }
            SET_RESOURCES => {
                let resources = Resources {
                    vmids: Field::new(15, 0).get(words[1]) as u16,
                    latency: Field::new(23, 16).get(words[1]),
                    queues: wide(words, 2),
                    chains: Field::new(28, 28).is_set(words[1]),
                };
                let retry_check = gc::sq_config1::DISABLE_XNACK_CHECK_IN_RETRY_DISABLE;
                if resources.chains && !retry_check.is_set(self.gpu.regs.get(gc::SQ_CONFIG1)) {
                    return wrong(
                        "SET_RESOURCES: XNACK is chained, but SQ_CONFIG1 does not say so",
                    );
                }
                // The KIQ's are about the kernel's own queues, which it maps to given slots, and
                // name the cleaner shader in units of 256 bytes.
                match role {
                    Role::Hiq => self.gpu.cp.set_resources(resources),
                    Role::Kiq => self.gpu.cp.set_cleaner(wide(words, 4) << 8),
                }
            }
            MAP_QUEUES => {
                let map = match map_queue(words, self.job.slot.xcc(), self.gpu.sdma.len()) {
                    Ok(map) => map,
                    Err(reason) => return wrong(reason),
                };
                if let Err(reason) = self.gpu.cp.map_queue(self.gpu, &map)? {
                    return wrong(reason);
                }
            }
            UNMAP_QUEUES => return self.unmap(role, gang, words),
            QUERY_STATUS => self.query(words)?,
            _ if role != Role::Hiq => return wrong("RUN_LIST is for the HIQ"),
            _ => return self.run_list(gang, words),
        }
        Ok(Ok(Work::Done))
    }

    /// Flushes the address spaces of a PASID.
    fn invalidate(&self, control: u32) -> std::result::Result<(), &'static str> {
        let flush = Flush::new(Field::new(31, 29).get(control));
        let flush = flush.ok_or("INVALIDATE_TLBS: a FLUSH_TYPE that means nothing here")?;
        let pasid = Field::new(20, 5).get(control);
        let vmids = (0..16u32).filter(|&vmid| {
            let value = self
                .gpu
                .regs
                .get(athub::ATC_VMID0_PASID_MAPPING.nth(vmid, 1));
            mapping::VALID.is_set(value) && mapping::PASID.get(value) == pasid
        });
        let mask = vmids.fold(0, |mask, vmid| mask | 1 << vmid);
        let all = Field::new(4, 4).is_set(control);
        for hub in HubId::ALL {
            if hub == HubId::Gfx || all {
                let hub = self.gpu.hub(hub);
                hub.flush(self.gpu, mask, Scope::ALL, flush);
            }
        }
        Ok(())
    }

    fn unmap(&self, role: Role, gang: Gang, words: &[u32]) -> Outcome {
        let control = words[1];
        if Field::new(28, 26).get(control) > 1 {
            return wrong("UNMAP_QUEUES: the engine is not the compute engine");
        }
        let doorbell = |at: usize| Field::new(27, 2).get(words[at]);
        let targets = match Field::new(5, 4).get(control) {
            0 => {
                let count = Field::new(31, 29).get(control).clamp(1, 4) as usize;
                Targets::Doorbells((2..2 + count).map(doorbell).collect())
            }
            1 => Targets::Pasid(Field::new(15, 0).get(words[2]) as u16),
            2 => Targets::All,
            _ => Targets::Dynamic,
        };
        if role == Role::Kiq && !matches!(targets, Targets::Doorbells(_)) {
            return wrong("UNMAP_QUEUES: the KIQ names doorbells");
        }
        let unmap = Unmap {
            targets,
            reset: Field::new(1, 0).get(control) == 1,
            by: self.job.slot,
            gang,
        };
        Ok(Ok(self.gpu.cp.unmap(self.gpu, &unmap, self.job.waited)?))
    }

    fn query(&self, words: &[u32]) -> Result<()> {
        self.vm.store64s(wide(words, 3) & !7, &[wide(words, 5)])?;
        if Field::new(29, 28).is_set(words[1]) {
            let context = Field::new(27, 0).get(words[1]);
            interrupt::end_of_pipe(self.gpu, self.job, context)?;
        }
        Ok(())
    }

    fn run_list(&self, gang: Gang, words: &[u32]) -> Outcome {
        let base = wide(words, 1) & !3;
        let dwords = Field::new(19, 0).get(words[3]);
        let mut bytes = vec![0; dwords as usize * 4];
        address_space(self.gpu, 0).read(base, &mut bytes)?;
        let list: Vec<u32> = bytes
            .chunks_exact(4)
            .map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            .collect();
        let at_once = Field::new(27, 24).get(words[3]);
        let chains = self.gpu.cp.chains_xnack(self.gpu);
        let parsed = Runlist::parse(&list, base, at_once, gang, self.gpu.sdma.len())
            .and_then(|list| list.check_mix(chains).map(|()| list));
        match parsed {
            Ok(list) => self
                .gpu
                .cp
                .run_list(self.gpu, self.job.slot, list, self.job.waited),
            Err(reason) => wrong(reason),
        }
    }
}
