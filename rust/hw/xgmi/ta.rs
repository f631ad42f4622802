// SPDX-License-Identifier: GPL-2.0
//! Messages between a driver and the trusted application (TA) for XGMI that the PSP runs. Both
//! share a buffer, with a header, the input and the output of a command (amdgpu: ta_xgmi_if.h).
//! Every answer is checked before it is used.

use core::fmt;
use core::num::NonZeroU64;

/// Bytes of the buffer (amdgpu: PSP_XGMI_SHARED_MEM_SIZE).
pub const BUFFER_BYTES: u64 = 16 << 10;
/// Bytes of it that are used: header, input, output.
pub const USED_BYTES: u64 = 0x820;
/// The most GPUs of a hive: MC_VM_XGMI_LFB_CNTL has four bits for their number.
pub const MOST_NODES: usize = 16;
/// Ports for XGMI of a GPU (amdgpu: TA_XGMI__MAX_PORT_NUM).
pub const PORTS: u32 = 8;
/// The first version of the TA of PSP 13.0.2 that tells the number of links (amdgpu: psp_xgmi.c).
pub const LINKS_VERSION: u32 = 0x2000_000b;

/// Where the header, the input and the output are in the buffer, bytes.
pub const HEADER_AT: u64 = 0;
const INPUT_AT: u64 = 0x10;
const OUTPUT_AT: u64 = 0x418;
/// Dwords of the header.
pub const HEADER_DWORDS: usize = 4;
/// Dwords of a list: its length, nothing, and four for each node.
pub const LIST_DWORDS: usize = 2 + 4 * MOST_NODES;
/// A response is the command with this bit.
const ANSWERED: u32 = 1 << 31;
/// Bits of the hops; those above tell of what kind the link is.
const HOPS: u32 = 7;

/// The number of a GPU, by which TAs tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeId(NonZeroU64);

impl NodeId {
    /// The number.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

/// The number of a hive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HiveId(NonZeroU64);

impl HiveId {
    /// The number.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum TaCommand {
    /// Begins.
    Initialize = 0,
    /// Asks for the GPU's own number.
    GetNodeId = 1,
    /// Asks for the hive's number.
    GetHiveId = 2,
    /// Asks how far the nodes of a list are.
    GetTopology = 3,
    /// Tells the nodes of the hive.
    SetTopology = 4,
    /// Asks how many links lead to the nodes of a list.
    GetPeerLinks = 0xb,
}

impl TaCommand {
    /// The header that asks for it.
    #[inline]
    pub const fn header(self) -> [u32; HEADER_DWORDS] {
        [self as u32, 0, 0, 0]
    }

    /// Where its list is in the buffer, bytes: the question about links is where the answer will
    /// be.
    #[inline]
    pub const fn list_at(self) -> u64 {
        match self {
            Self::GetPeerLinks => OUTPUT_AT,
            _ => INPUT_AT,
        }
    }

    /// Where its answer is in the buffer, bytes.
    #[inline]
    pub const fn answer_at(self) -> u64 {
        OUTPUT_AT
    }

    /// Checks the header after the command.
    ///
    /// # Errors
    ///
    /// [`TaError::Silent`], [`TaError::Status`].
    #[inline]
    pub const fn check(self, header: [u32; HEADER_DWORDS]) -> Result<(), TaError> {
        let [_, response, status, _] = header;
        if response != self as u32 | ANSWERED {
            return Err(TaError::Silent(self));
        }
        if status != 0 {
            return Err(TaError::Status {
                command: self,
                status,
            });
        }
        Ok(())
    }
}

/// What is wrong with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaError {
    /// A command has no answer.
    Silent(TaCommand),
    /// A command failed.
    Status {
        /// The command.
        command: TaCommand,
        /// Its status.
        status: u32,
    },
    /// The hive has the number 0.
    NoHive,
    /// The GPU has the number 0.
    NoNode,
    /// Two GPUs have this number.
    Twice(NodeId),
    /// The answer about nodes is about others than the question.
    OtherNodes,
    /// That many hops lead to another GPU.
    Hops {
        /// The other one.
        node: NodeId,
        /// The hops.
        hops: u32,
    },
    /// Links lead to more ports than a GPU has.
    Links(u32),
    /// One GPU says that another is so far, and that one says otherwise.
    Asymmetric {
        /// The one of them.
        node: NodeId,
        /// Hops to it, and from it.
        hops: [u32; 2],
    },
}

impl fmt::Display for TaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Silent(command) => write!(f, "command {:#x} has no answer", command as u32),
            Self::Status { command, status } => {
                write!(f, "command {:#x}: status {status:#x}", command as u32)
            }
            Self::NoHive => f.write_str("the hive has the number 0"),
            Self::NoNode => f.write_str("the GPU has the number 0"),
            Self::Twice(node) => write!(f, "two GPUs have the number {:#x}", node.get()),
            Self::OtherNodes => f.write_str("the answer is not about the GPUs of the question"),
            Self::Hops { node, hops } => {
                write!(f, "{hops} hops lead to GPU {:#x}", node.get())
            }
            Self::Links(links) => {
                write!(f, "{links} links leave a GPU, which has {PORTS} ports")
            }
            Self::Asymmetric { node, hops: [a, b] } => {
                write!(f, "GPU {:#x} is {a} hops away, and says {b}", node.get())
            }
        }
    }
}

/// The hive's number in the answer to [`TaCommand::GetHiveId`].
///
/// # Errors
///
/// [`TaError::NoHive`].
#[inline]
pub fn hive_id(answer: [u32; 2]) -> Result<HiveId, TaError> {
    let id = NonZeroU64::new(wide(answer));
    id.map(HiveId).ok_or(TaError::NoHive)
}

/// The GPU's number in the answer to [`TaCommand::GetNodeId`].
///
/// # Errors
///
/// [`TaError::NoNode`].
#[inline]
pub fn node_id(answer: [u32; 2]) -> Result<NodeId, TaError> {
    let id = NonZeroU64::new(wide(answer));
    id.map(NodeId).ok_or(TaError::NoNode)
}

const fn wide([low, high]: [u32; 2]) -> u64 {
    low as u64 | (high as u64) << 32
}

/// How a GPU reaches another one of its hive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XgmiWay {
    /// Links on the way, at least one; 0 to itself.
    pub hops: u32,
    /// Links that join the two directly; 0 if there is none, or if their number is not known.
    pub links: u32,
}

/// GPUs of one hive, each once, at most [`MOST_NODES`], as TAs are told of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeList {
    nodes: [Option<NodeId>; MOST_NODES],
    count: usize,
}

impl NodeList {
    /// No GPU.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `node`. Returns false if the list is full.
    ///
    /// # Errors
    ///
    /// [`TaError::Twice`] if it is in the list.
    pub fn add(&mut self, node: NodeId) -> Result<bool, TaError> {
        if self.iter().any(|other| other == node) {
            return Err(TaError::Twice(node));
        }
        match self.nodes.get_mut(self.count) {
            Some(place) => *place = Some(node),
            None => return Ok(false),
        }
        self.count += 1;
        Ok(true)
    }

    /// The GPUs, in their order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes.iter().copied().flatten()
    }

    /// The place of `node` in the list.
    #[inline]
    pub fn position(&self, node: NodeId) -> Option<usize> {
        self.iter().position(|other| other == node)
    }

    /// The number of GPUs.
    #[inline]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The list in the buffer: of a question, or to tell the nodes of the hive. All may share their
    /// memory, and no SDMA engine is assigned.
    pub fn dwords(&self) -> [u32; LIST_DWORDS] {
        /// `is_sharing_enabled`, in the dword of the hops.
        const SHARES: u32 = 1 << 8;
        /// No SDMA engine.
        const NO_ENGINE: u32 = u32::MAX;
        let mut dwords = [0; LIST_DWORDS];
        if let Some(count) = dwords.first_mut() {
            *count = self.count as u32;
        }
        let entries = dwords.get_mut(2..).unwrap_or_default();
        for (entry, node) in entries.chunks_exact_mut(4).zip(self.iter()) {
            let id = node.get();
            entry.copy_from_slice(&[id as u32, (id >> 32) as u32, SHARES, NO_ENGINE]);
        }
        dwords
    }

    /// The values of the nodes in an answer about this list: the byte behind each number.
    fn values(&self, answer: &[u32; LIST_DWORDS]) -> Result<[u32; MOST_NODES], TaError> {
        let mut values = [0; MOST_NODES];
        let [count, _, entries @ ..] = answer;
        let mut entries = entries.chunks_exact(4);
        if usize::try_from(*count) != Ok(self.count) {
            return Err(TaError::OtherNodes);
        }
        for (value, node) in values.iter_mut().zip(self.iter()) {
            let Some(&[low, high, word, _]) = entries.next() else {
                return Err(TaError::OtherNodes);
            };
            if wide([low, high]) != node.get() {
                return Err(TaError::OtherNodes);
            }
            *value = word & 0xff;
        }
        Ok(values)
    }

    /// How `own`, one of the list, reaches each of the others, in their order: by the answers to
    /// [`TaCommand::GetTopology`] and, where that is supported, [`TaCommand::GetPeerLinks`].
    ///
    /// # Errors
    ///
    /// [`TaError::OtherNodes`], [`TaError::Hops`], [`TaError::Links`].
    pub fn ways(
        &self,
        own: NodeId,
        hops: &[u32; LIST_DWORDS],
        links: Option<&[u32; LIST_DWORDS]>,
    ) -> Result<[XgmiWay; MOST_NODES], TaError> {
        let hops = self.values(hops)?;
        let links = match links {
            Some(answer) => self.values(answer)?,
            None => [0; MOST_NODES],
        };
        let mut ways = [XgmiWay::default(); MOST_NODES];
        let mut ports = 0u32;
        let told = hops.into_iter().zip(links);
        for ((way, node), (hops, links)) in ways.iter_mut().zip(self.iter()).zip(told) {
            if node == own {
                continue;
            }
            let hops = hops & HOPS;
            if hops == 0 {
                return Err(TaError::Hops { node, hops });
            }
            ports = ports.saturating_add(links);
            *way = XgmiWay { hops, links };
        }
        if ports > PORTS {
            return Err(TaError::Links(ports));
        }
        Ok(ways)
    }
}
