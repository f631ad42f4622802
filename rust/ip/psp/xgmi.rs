// SPDX-License-Identifier: GPL-2.0
//! The PSP's trusted application (TA) for XGMI, and the ring through which all users of a running
//! PSP reach it.

use core::fmt;

use kernel::prelude::*;
use kernel::sync::{Arc, Mutex};

use hw::firmware::image::FirmwareImage;
use hw::psp::{PspCommand, PspStatus};
use hw::xgmi::ta::{
    self, HiveId, NodeId, NodeList, TaCommand, TaError, XgmiWay, BUFFER_BYTES, HEADER_AT,
    HEADER_DWORDS, LIST_DWORDS, MOST_NODES, USED_BYTES,
};

use super::ring::{PspRing, Tmr};
use crate::ip::Hardware;

/// Why the TA gave no answer that can be used.
pub(crate) enum XgmiFailure {
    /// The PSP does not answer, or the device is gone.
    Psp(Error),
    /// The PSP refuses a command, with this status.
    Refused(&'static str, u32),
    /// The answer is wrong.
    Answer(TaError),
    /// No TA is loaded.
    NoTa,
}

impl From<Error> for XgmiFailure {
    fn from(error: Error) -> Self {
        Self::Psp(error)
    }
}

impl From<TaError> for XgmiFailure {
    fn from(error: TaError) -> Self {
        Self::Answer(error)
    }
}

impl fmt::Display for XgmiFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Psp(error) => write!(f, "the PSP does not answer: {error:?}"),
            Self::Refused(what, status) => write!(f, "the PSP refuses {what}: status {status:#x}"),
            Self::Answer(error) => write!(f, "{error}"),
            Self::NoTa => f.write_str("the PSP's application for XGMI is not loaded"),
        }
    }
}

/// Logs that the GPU works alone, without the others of its hive.
pub(crate) fn log_without_xgmi(hw: &Hardware, failure: &XgmiFailure) {
    // A device that is gone needs no such line.
    if hw.is_present() {
        dev_warn!(
            &*hw.dev,
            "XGMI is not used: {}\n",
            format_args!("{failure}")
        );
    }
}

/// A loaded TA.
struct TaSession {
    number: u32,
    /// VRAM offset of the buffer.
    buffer: u64,
    /// It tells the number of links.
    tells_links: bool,
}

/// A PSP with memory of its own, and its TA.
struct RunningPsp {
    ta: Option<TaSession>,
    tmr: Tmr,
}

impl Drop for RunningPsp {
    fn drop(&mut self) {
        if let Some(ta) = self.ta.take() {
            self.tmr.ring().unload_ta(ta.number);
        }
    }
}

/// The PSP of a GPU while its firmware is loaded. Its lock, a mutex, is held while the PSP executes
/// commands: two seconds if it does not answer.
#[pin_data]
pub(crate) struct SharedPsp {
    #[pin]
    state: Mutex<PspState>,
}

struct PspState {
    running: Option<RunningPsp>,
    /// The GPUs of the hive, as the TA was told last.
    nodes: NodeList,
}

impl SharedPsp {
    /// The PSP to which `tmr` belongs.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(tmr: Tmr) -> Result<Arc<Self>> {
        let state = PspState {
            running: Some(RunningPsp { ta: None, tmr }),
            nodes: NodeList::new(),
        };
        Arc::pin_init(
            pin_init!(Self {
                state <- kernel::new_mutex!(state, "SharedPsp::state"),
            }),
            GFP_KERNEL,
        )
    }

    /// The PSP has been started again, with `tmr`.
    pub(crate) fn restart(&self, tmr: Tmr) {
        let running = RunningPsp { ta: None, tmr };
        let old = self.state.lock().running.replace(running);
        drop(old);
    }

    /// Takes its memory from the PSP. Until [`SharedPsp::restart`] there is no TA.
    pub(crate) fn stop(&self) {
        let old = self.state.lock().running.take();
        drop(old);
    }

    /// The GPUs that the TA was told of last.
    pub(crate) fn nodes(&self) -> NodeList {
        self.state.lock().nodes
    }

    /// Loads the TA of `image`, which shares the buffer at VRAM offset `buffer`, and begins. Before
    /// `links_version` it does not tell the number of links. May sleep.
    ///
    /// # Errors
    ///
    /// Those of the PSP and of the TA.
    pub(crate) fn load_ta(
        &self,
        image: &FirmwareImage<'_>,
        buffer: u64,
        links_version: u32,
    ) -> Result<(), XgmiFailure> {
        self.with_ta(|psp| {
            let number = psp.tmr.ring().load_ta(image, buffer)?;
            psp.ta = Some(TaSession {
                number,
                buffer,
                tells_links: image.version >= links_version,
            });
            psp.command(TaCommand::Initialize, None)
        })
    }

    /// Calls `ask` with the TA, while no other thread uses it. May sleep.
    fn with_ta<R>(
        &self,
        ask: impl FnOnce(&mut RunningPsp) -> Result<R, XgmiFailure>,
    ) -> Result<R, XgmiFailure> {
        let mut state = self.state.lock();
        ask(state.running.as_mut().ok_or(XgmiFailure::NoTa)?)
    }

    /// The numbers of the hive and of the GPU. May sleep.
    ///
    /// # Errors
    ///
    /// Those of the PSP and of the TA.
    pub(crate) fn ids(&self) -> Result<(HiveId, NodeId), XgmiFailure> {
        self.with_ta(|psp| {
            psp.command(TaCommand::GetHiveId, None)?;
            let hive = ta::hive_id(psp.answer(TaCommand::GetHiveId)?)?;
            psp.command(TaCommand::GetNodeId, None)?;
            let node = ta::node_id(psp.answer(TaCommand::GetNodeId)?)?;
            Ok((hive, node))
        })
    }

    /// Tells the TA that `nodes` are the GPUs of the hive; after a restart it is told again. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// Those of the PSP and of the TA.
    pub(crate) fn set_nodes(&self, nodes: &NodeList) -> Result<(), XgmiFailure> {
        let mut state = self.state.lock();
        state.nodes = *nodes;
        let psp = state.running.as_mut().ok_or(XgmiFailure::NoTa)?;
        psp.command(TaCommand::SetTopology, Some(nodes))
    }

    /// How the GPU, which is `own`, reaches each of `nodes`, of which the TA was told. May sleep.
    ///
    /// # Errors
    ///
    /// Those of the PSP and of the TA.
    pub(crate) fn ways(
        &self,
        own: NodeId,
        nodes: &NodeList,
    ) -> Result<[XgmiWay; MOST_NODES], XgmiFailure> {
        self.with_ta(|psp| {
            psp.command(TaCommand::GetTopology, Some(nodes))?;
            let hops = psp.answer::<LIST_DWORDS>(TaCommand::GetTopology)?;
            if !psp.ta.as_ref().is_some_and(|ta| ta.tells_links) {
                return Ok(nodes.ways(own, &hops, None)?);
            }
            psp.command(TaCommand::GetPeerLinks, Some(nodes))?;
            let links = psp.answer(TaCommand::GetPeerLinks)?;
            Ok(nodes.ways(own, &hops, Some(&links))?)
        })
    }
}

impl RunningPsp {
    /// Has the TA execute `command`, with a list of `nodes` if it takes one, and checks the header
    /// of its answer.
    fn command(&mut self, command: TaCommand, nodes: Option<&NodeList>) -> Result<(), XgmiFailure> {
        let ta = self.ta.as_ref().ok_or(XgmiFailure::NoTa)?;
        let (buffer, number) = (ta.buffer, ta.number);
        let ring = self.tmr.ring();
        let vram = &ring.psp().vram;
        vram.fill64(buffer, 0, (USED_BYTES / 8) as usize)?;
        vram.write32s(buffer + HEADER_AT, &command.header())?;
        if let Some(nodes) = nodes {
            vram.write32s(buffer + command.list_at(), &nodes.dwords())?;
        }
        ring.invoke_ta(number, command as u32)?;
        let mut header = [0; HEADER_DWORDS];
        ring.psp().hdp.flush();
        ring.psp().vram.read32s(buffer + HEADER_AT, &mut header)?;
        Ok(command.check(header)?)
    }

    /// The first dwords of the answer to `command`.
    fn answer<const N: usize>(&mut self, command: TaCommand) -> Result<[u32; N], XgmiFailure> {
        let buffer = self.ta.as_ref().ok_or(XgmiFailure::NoTa)?.buffer;
        let mut answer = [0; N];
        let vram = &self.tmr.ring().psp().vram;
        vram.read32s(buffer + command.answer_at(), &mut answer)?;
        Ok(answer)
    }
}

impl PspRing {
    /// Loads the TA of `image`, which shares the buffer at VRAM offset `buffer`. Returns the number
    /// of its session. Context: may sleep.
    fn load_ta(&mut self, image: &FirmwareImage<'_>, buffer: u64) -> Result<u32, XgmiFailure> {
        let command = PspCommand::LoadTa {
            mc: self.psp().stage(image)?,
            bytes: image.bytes.len() as u32,
            buffer: self.psp().mc(buffer),
            buffer_bytes: BUFFER_BYTES as u32,
        };
        self.done(command, "to load its application for XGMI")?;
        Ok(self.session()?)
    }

    /// Has a TA execute the command in its buffer. Context: may sleep.
    fn invoke_ta(&mut self, session: u32, command: u32) -> Result<(), XgmiFailure> {
        let command = PspCommand::InvokeTa { session, command };
        self.done(command, "a command for its application for XGMI")
    }

    /// Unloads a TA. Context: may sleep.
    fn unload_ta(&mut self, session: u32) {
        // What follows takes all from the PSP, whatever the result.
        let _ = self.submit(PspCommand::UnloadTa { session });
    }

    fn done(&mut self, command: PspCommand, what: &'static str) -> Result<(), XgmiFailure> {
        match self.submit(command)? {
            PspStatus::OK => Ok(()),
            PspStatus(status) => Err(XgmiFailure::Refused(what, status)),
        }
    }
}
