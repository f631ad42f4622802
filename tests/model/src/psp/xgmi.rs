// SPDX-License-Identifier: GPL-2.0
//! The trusted application (TA) for XGMI, which the secure OS runs: it knows the hive, and how its
//! GPUs are linked. Driver and TA share a buffer, with a header, the input and the output of a
//! command. Source: amdgpu, ta_xgmi_if.h and psp_gfx_if.h.
//!
//! Where the specification leaves something open, this was chosen: a command before INITIALIZE,
//! and a question about hops before SET_TOPOLOGY_INFO, have a status; a node that the hive cannot
//! have, too. Records of the second set (INITIALIZE with its flag) have no links: there are fewer
//! than the first set takes.

use super::faults::TaFault;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::hive::links::{self, Way};
use crate::hub::HubId;
use crate::vm::Vm;

/// Bytes of the buffer that the TA uses at least: header, input, output.
pub const LEAST_BUFFER: u64 = 0x820;
/// Offsets in the buffer.
const COMMAND: u64 = 0x0;
const RESPONSE: u64 = 0x4;
const STATUS: u64 = 0x8;
const FLAG: usize = 0xc;
const CAPABILITIES: u64 = 0xd;
const INPUT: usize = 0x10;
const OUTPUT: usize = 0x418;
/// A list: its length, and its entries from there on.
const ENTRIES: usize = 8;
const ENTRY: usize = 16;
/// The most entries.
const MOST: u32 = 64;

const INITIALIZE: u32 = 0;
const GET_NODE_ID: u32 = 1;
const GET_HIVE_ID: u32 = 2;
const GET_TOPOLOGY_INFO: u32 = 3;
const SET_TOPOLOGY_INFO: u32 = 4;
const GET_PEER_LINKS: u32 = 0xb;
/// A response is the command with this.
const ANSWERED: u32 = 1 << 31;

/// Statuses.
const INVALID_PARAMETER: u32 = 3;
const NOT_INITIALIZED: u32 = 4;
const INVALID_NODE_NUM: u32 = 5;
const INVALID_NODE_ID: u32 = 6;
const INVALID_TOPOLOGY: u32 = 7;

/// The number of every hive, and of its first node. They say nothing.
const HIVE_ID: u64 = 0x0001_4b2c_9d07_55aa;
const FIRST_NODE_ID: u64 = 0x8c31_02f4_7700_0001;
const NEXT_NODE_ID: u64 = 0x100;
/// More links than a GPU has ports.
const TOO_MANY_LINKS: u8 = 9;

/// The TA, loaded.
#[derive(Debug, Clone)]
pub(super) struct Xgmi {
    /// The number that names it.
    pub(super) session: u32,
    buffer: u64,
    initialized: bool,
    /// The second set of records is asked for.
    second: bool,
    /// The nodes that the driver has set.
    nodes: Vec<u64>,
}

/// The number of a node.
fn node_id(node: u32) -> u64 {
    FIRST_NODE_ID + u64::from(node) * NEXT_NODE_ID
}

impl Xgmi {
    /// The TA with its buffer, at this address of VMID 0.
    pub(super) fn new(session: u32, buffer: u64) -> Xgmi {
        Xgmi {
            session,
            buffer,
            initialized: false,
            second: false,
            nodes: Vec::new(),
        }
    }

    /// Executes `command`. Returns its line for the trace.
    pub(super) fn invoke(
        &mut self,
        gpu: &Gpu,
        command: u32,
        fault: Option<TaFault>,
    ) -> Result<String> {
        let vm = Vm::kernel(gpu, HubId::Mm);
        let mut buffer = vec![0; LEAST_BUFFER as usize];
        vm.read(self.buffer, &mut buffer)?;
        let asked = dword(&buffer, COMMAND as usize);
        let result = match fault {
            Some(TaFault::Status(status)) => Err(status),
            _ if asked != command => Err(INVALID_PARAMETER),
            _ => self.execute(gpu, command, &mut buffer, fault),
        };
        let status = result.err().unwrap_or(0);
        if fault != Some(TaFault::Silent) {
            vm.write(self.buffer + OUTPUT as u64, &buffer[OUTPUT..])?;
            vm.write(self.buffer + CAPABILITIES, &[0])?;
            vm.store32(self.buffer + STATUS, status)?;
            vm.store32(self.buffer + RESPONSE, command | ANSWERED)?;
        }
        Ok(format!("xgmi {command:#x} {status:#x}"))
    }

    fn execute(
        &mut self,
        gpu: &Gpu,
        command: u32,
        buffer: &mut [u8],
        fault: Option<TaFault>,
    ) -> std::result::Result<(), u32> {
        if command == INITIALIZE {
            self.initialized = true;
            self.second = buffer[FLAG] != 0;
            put(buffer, OUTPUT, &0u32.to_le_bytes());
            return Ok(());
        }
        if !self.initialized {
            return Err(NOT_INITIALIZED);
        }
        let nodes = gpu.hive.others + 1;
        let own = gpu.hive.node;
        match command {
            GET_NODE_ID => {
                let node = match fault {
                    Some(TaFault::Twice) => own ^ 1,
                    _ => own,
                };
                put(buffer, OUTPUT, &node_id(node).to_le_bytes());
            }
            GET_HIVE_ID => {
                let id = match fault {
                    Some(TaFault::NoHive) => 0,
                    _ => HIVE_ID,
                };
                put(buffer, OUTPUT, &id.to_le_bytes());
            }
            SET_TOPOLOGY_INFO => {
                let ids = list(buffer, INPUT, nodes)?;
                if !ids.contains(&node_id(own)) && fault != Some(TaFault::Twice) {
                    return Err(INVALID_NODE_ID);
                }
                self.nodes = ids;
            }
            GET_TOPOLOGY_INFO => {
                let ids = list(buffer, INPUT, nodes)?;
                if self.nodes != ids {
                    return Err(INVALID_TOPOLOGY);
                }
                put(buffer, OUTPUT, &(ids.len() as u32).to_le_bytes());
                for (n, id) in ids.into_iter().enumerate() {
                    let mut hops = self.way(gpu, id).hops as u8;
                    if fault == Some(TaFault::NoHops) {
                        hops = 0;
                    }
                    let at = OUTPUT + ENTRIES + n * ENTRY;
                    put(buffer, at, &id.to_le_bytes());
                    // Hops, sharing; no SDMA engine is assigned.
                    put(buffer, at + 8, &[hops, 1, 0, 0, 0xff, 0xff, 0xff, 0xff]);
                }
            }
            GET_PEER_LINKS => {
                // The question is where the answer will be.
                let ids = list(buffer, OUTPUT, nodes)?;
                for (n, id) in ids.into_iter().enumerate() {
                    let way = self.way(gpu, id);
                    let links = match fault {
                        Some(TaFault::ManyLinks) if way.hops != 0 => TOO_MANY_LINKS,
                        _ if self.second => 0,
                        _ => way.links as u8,
                    };
                    let at = OUTPUT + ENTRIES + n * ENTRY;
                    put(buffer, at + 8, &[links, 0, 0, 0, 0, 0, 0, 0]);
                }
            }
            _ => return Err(INVALID_PARAMETER),
        }
        Ok(())
    }

    /// The way to the node `id`, which is one of the hive.
    fn way(&self, gpu: &Gpu, id: u64) -> Way {
        let node = ((id - FIRST_NODE_ID) / NEXT_NODE_ID) as u32;
        let is_card = gpu.function.device.is_none();
        let nodes = gpu.hive.others + 1;
        links::way(gpu.regs.asic, is_card, nodes, gpu.hive.node, node)
    }
}

/// The nodes of a list, all of a hive of `nodes`, each once.
fn list(buffer: &[u8], at: usize, nodes: u32) -> std::result::Result<Vec<u64>, u32> {
    let count = dword(buffer, at);
    if count == 0 || count > MOST.min(nodes) {
        return Err(INVALID_NODE_NUM);
    }
    let mut ids = Vec::new();
    for n in 0..count as usize {
        let at = at + ENTRIES + n * ENTRY;
        let id = u64::from(dword(buffer, at)) | u64::from(dword(buffer, at + 4)) << 32;
        let is_known = (0..nodes).any(|node| node_id(node) == id);
        if !is_known || ids.contains(&id) {
            return Err(INVALID_NODE_ID);
        }
        ids.push(id);
    }
    Ok(ids)
}

fn dword(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([0, 1, 2, 3].map(|n| bytes[at + n]))
}

fn put(buffer: &mut [u8], at: usize, bytes: &[u8]) {
    buffer[at..at + bytes.len()].copy_from_slice(bytes);
}
