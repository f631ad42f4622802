// SPDX-License-Identifier: GPL-2.0
//! The commands that the secure OS takes by its ring: a page of 1024 bytes, of which the last 160
//! are for the answer.

use super::engines::Firmware;
use super::faults::TaFault;
use super::image::{self, Kind, Signatures};
use super::ring::Frame;
use super::tmr::{self, Tmr};
use super::xgmi::{self, Xgmi};
use super::{Psp, State};
use crate::error::{ModelError, Result};
use crate::gpu::Gpu;
use crate::hub::HubId;
use crate::regs::gc::{self, cp_hyp_xcp_ctl as xcp};
use crate::vm::Vm;

const PAGE: usize = 1024;
const DWORDS: usize = PAGE / 4;
/// Dword index of the command, of the fields for user rings, of the arguments, of the answer.
const COMMAND: usize = 2;
const USER: std::ops::Range<usize> = 3..7;
const ARGUMENTS: usize = 7;
const ANSWER: u64 = 0x360;

const LOAD_TA: u32 = 0x01;
const UNLOAD_TA: u32 = 0x02;
const INVOKE_CMD: u32 = 0x03;
const SETUP_TMR: u32 = 0x05;
const LOAD_IP_FW: u32 = 0x06;
const DESTROY_TMR: u32 = 0x07;
const LOAD_TOC: u32 = 0x20;
const PARTITIONS: u32 = 0x27;

/// SETUP_TMR's flags: a virtual function's, and that the physical address follows.
const SR_IOV: u32 = 1 << 0;
const PHYSICAL: u32 = 1 << 1;

/// Status: no such command.
pub const UNKNOWN_COMMAND: u32 = 0x100;
/// Status: the requested state is the present one.
pub const CANCEL: u32 = 0xffff_0002;
/// Status. From here on they are GlobalPlatform's numbers; it is not documented which commands
/// return which.
pub const BAD_PARAMETERS: u32 = 0xffff_0006;
/// Status: not now.
pub const BAD_STATE: u32 = 0xffff_0007;
/// Status: no image that it may load.
pub const SECURITY: u32 = 0xffff_000f;

/// LOAD_IP_FW's types, of all versions: number, kind of image, the engine's firmware.
const TYPES: &[(u32, Kind, Firmware)] = &[
    (4, Kind::MEC, Firmware::Mec),
    (5, Kind::MEC_JUMP_TABLE, Firmware::MecJumpTable),
    (8, Kind::RLC, Firmware::Rlc),
    (9, Kind::SDMA, Firmware::Sdma(0)),
    (10, Kind::SDMA, Firmware::Sdma(1)),
    (SMU, Kind::SMU, Firmware::Other),
    (20, Kind::RLC_LIST_GPM, Firmware::Other),
    (21, Kind::RLC_LIST_SRM, Firmware::Other),
    (22, Kind::RLC_LIST_CNTL, Firmware::Other),
    (52, Kind::SDMA, Firmware::Sdma(2)),
    (53, Kind::SDMA, Firmware::Sdma(3)),
    (54, Kind::SDMA, Firmware::Sdma(4)),
    (REGISTER_LIST, Kind::REGISTER_LIST, Firmware::Other),
    (129, Kind::SMU_TABLE, Firmware::Other),
];
const SMU: u32 = 18;
const REGISTER_LIST: u32 = 67;
/// The largest image is the SMU's, with a quarter of a MiB.
const MOST: u32 = 1 << 20;

/// What is written back.
#[derive(Default)]
struct Answer {
    status: u32,
    /// The number of a trusted application that was loaded.
    session: u32,
    /// Where an image was placed.
    address: u64,
    tmr_size: u32,
}

impl Answer {
    fn refused(status: u32) -> Answer {
        Answer {
            status,
            ..Answer::default()
        }
    }
}

/// A command page.
struct Page([u32; DWORDS]);

impl Page {
    fn argument(&self, n: usize) -> u32 {
        self.0[ARGUMENTS + n]
    }

    fn wide(&self, n: usize) -> u64 {
        u64::from(self.argument(n)) | u64::from(self.argument(n + 1)) << 32
    }
}

/// The compute engines become so many partitions. Returns the status.
fn partition(gpu: &Gpu, count: u32) -> u32 {
    let layout = gpu.layout();
    let working = layout.working().count() as u32;
    if count == 0 || working % count != 0 {
        return BAD_PARAMETERS;
    }
    let size = working / count;
    for (n, xcc) in (0..).zip(layout.working()) {
        let control = xcp::NUM_XCC_IN_XCP.of(size) | xcp::VIRTUAL_XCC_ID.of(n % size);
        gpu.xcc(xcc).regs.set(gc::CP_HYP_XCP_CTL, control);
    }
    0
}

impl Psp {
    /// Executes a frame's command: the answer first, then the fence.
    pub(super) fn command(&self, gpu: &Gpu, state: &mut State, frame: &Frame) -> Result<()> {
        gpu.check_bar0()?;
        let vm = Vm::kernel(gpu, HubId::Mm);
        let mut bytes = [0; PAGE];
        vm.read(frame.page, &mut bytes)?;
        let page = Page(std::array::from_fn(|n| {
            u32::from_le_bytes([0, 1, 2, 3].map(|k| bytes[4 * n + k]))
        }));
        if page.0[USER].iter().any(|&dword| dword != 0) {
            return Err(ModelError::Other(
                "the PSP's ring: a command has what only user rings have".into(),
            ));
        }
        let number = state.ring.as_mut().map_or(0, |ring| {
            ring.commands += 1;
            ring.commands
        });
        if let Some(tmr) = &state.tmr {
            tmr.look(gpu)?;
        }
        let forced = state.faults.status.filter(|fault| fault.0 == number);
        let answer = self.execute(gpu, state, &page, forced.map(|fault| fault.1))?;
        let words = [
            answer.status,
            answer.session,
            answer.address as u32,
            (answer.address >> 32) as u32,
            answer.tmr_size,
        ];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        vm.write(frame.page + ANSWER, &bytes)?;
        if state.faults.no_fence != Some(number) {
            vm.store32(frame.fence, frame.value)?;
        }
        Ok(())
    }

    /// With a status `forced` nothing is done.
    fn execute(
        &self,
        gpu: &Gpu,
        state: &mut State,
        page: &Page,
        forced: Option<u32>,
    ) -> Result<Answer> {
        let (line, answer) = match page.0[COMMAND] {
            LOAD_IP_FW => return self.load(gpu, state, page, forced),
            LOAD_TA => (
                "LOAD_TA",
                match forced {
                    Some(status) => Answer::refused(status),
                    None => self.load_ta(gpu, state, page)?,
                },
            ),
            UNLOAD_TA => (
                "UNLOAD_TA",
                Answer::refused(match (forced, &state.xgmi) {
                    (Some(status), _) => status,
                    (None, Some(ta)) if ta.session == page.argument(0) => {
                        state.xgmi = None;
                        0
                    }
                    (None, _) => BAD_PARAMETERS,
                }),
            ),
            INVOKE_CMD => (
                "INVOKE_CMD",
                Answer::refused(match (forced, &mut state.xgmi) {
                    (Some(status), _) => status,
                    (None, Some(ta)) if ta.session == page.argument(0) => {
                        let line = ta.invoke(gpu, page.argument(1), state.faults.ta)?;
                        self.trace.add(line);
                        0
                    }
                    (None, _) => BAD_PARAMETERS,
                }),
            ),
            SETUP_TMR => (
                "SETUP_TMR",
                match forced {
                    Some(status) => Answer::refused(status),
                    None => Answer::refused(self.set_up_tmr(gpu, state, page)?),
                },
            ),
            DESTROY_TMR => (
                "DESTROY_TMR",
                Answer::refused(match (forced, state.tmr) {
                    (Some(status), _) => status,
                    (None, None) => BAD_STATE,
                    (None, Some(_)) if gpu.regs.asic.psp.has_memory => {
                        state.fresh = true;
                        state.xgmi = None;
                        0
                    }
                    (None, Some(tmr)) => {
                        tmr.give_back(gpu);
                        state.tmr = None;
                        state.xgmi = None;
                        0
                    }
                }),
            ),
            LOAD_TOC => (
                "LOAD_TOC",
                Answer {
                    status: forced.unwrap_or(0),
                    tmr_size: tmr::LEAST as u32,
                    ..Answer::default()
                },
            ),
            PARTITIONS if gpu.regs.asic.psp.partitions => (
                "PARTITIONS",
                Answer::refused(forced.unwrap_or_else(|| partition(gpu, page.argument(0)))),
            ),
            command => {
                let status = forced.unwrap_or(UNKNOWN_COMMAND);
                self.trace.add(format!("psp {command:#x} {status:#x}"));
                return Ok(Answer::refused(status));
            }
        };
        self.trace.add(format!("psp {line} {:#x}", answer.status));
        Ok(answer)
    }

    fn load_ta(&self, gpu: &Gpu, state: &mut State, page: &Page) -> Result<Answer> {
        let (address, bytes) = (page.wide(0), page.argument(2));
        let (buffer, size) = (page.wide(3), page.argument(5));
        let fits = u64::from(size) >= xgmi::LEAST_BUFFER && size % 4096 == 0;
        if address % 4096 != 0 || buffer % 4096 != 0 || !fits || bytes > MOST {
            return Ok(Answer::refused(BAD_PARAMETERS));
        }
        let mut image = vec![0; bytes as usize];
        Vm::kernel(gpu, HubId::Mm).read(address, &mut image)?;
        let is_any = self.signatures == Signatures::Any;
        let header = image::check(&image, self.signatures);
        let is_ta = header.is_ok_and(|header| is_any || header.kind == Kind::XGMI_TA);
        if !is_ta || state.faults.ta == Some(TaFault::Unloaded) {
            return Ok(Answer::refused(SECURITY));
        }
        let is_set_up = !gpu.regs.asic.psp.has_memory || !state.fresh;
        if state.tmr.is_none() || !is_set_up || state.xgmi.is_some() {
            return Ok(Answer::refused(BAD_STATE));
        }
        state.sessions += 1;
        state.xgmi = Some(Xgmi::new(state.sessions, buffer));
        Ok(Answer {
            session: state.sessions,
            ..Answer::default()
        })
    }

    fn set_up_tmr(&self, gpu: &Gpu, state: &mut State, page: &Page) -> Result<u32> {
        let (address, size, flags) = (page.wide(0), page.argument(2), page.argument(3));
        // A driver that has made its ring anew does not know about an earlier region.
        if state.tmr.is_some() && !state.fresh {
            return Ok(BAD_STATE);
        }
        if gpu.regs.asic.psp.has_memory {
            if (address, size, page.wide(4)) != (0, 0, 0) {
                return Ok(BAD_PARAMETERS);
            }
            state.fresh = false;
            return Ok(0);
        }
        if flags & (SR_IOV | PHYSICAL) != PHYSICAL {
            return Ok(BAD_PARAMETERS);
        }
        if let Some(old) = state.tmr.take() {
            old.give_back(gpu);
        }
        let Some(tmr) = Tmr::set_up(gpu, address, size.into(), page.wide(4))? else {
            return Ok(BAD_PARAMETERS);
        };
        self.trace.add(format!(
            "tmr {size:#x} {:#x}",
            1u64 << address.trailing_zeros()
        ));
        state.tmr = Some(tmr);
        state.fresh = false;
        Ok(0)
    }

    fn load(
        &self,
        gpu: &Gpu,
        state: &mut State,
        page: &Page,
        forced: Option<u32>,
    ) -> Result<Answer> {
        let (address, bytes, kind) = (page.wide(0), page.argument(2), page.argument(3));
        let mut image = vec![0; bytes.min(MOST) as usize];
        Vm::kernel(gpu, HubId::Mm).read(address, &mut image)?;
        let answer = match forced {
            Some(status) => Answer::refused(status),
            None => self.load_image(gpu, state, address, &image, kind)?,
        };
        let hash = image::digest(&image);
        self.trace.add(format!(
            "psp LOAD_IP_FW {kind} {bytes:#x} {hash:016x} {:#x}",
            answer.status
        ));
        Ok(answer)
    }

    fn load_image(
        &self,
        gpu: &Gpu,
        state: &mut State,
        address: u64,
        image: &[u8],
        number: u32,
    ) -> Result<Answer> {
        let version = gpu.regs.asic.psp;
        let mut types = TYPES.iter().filter(|row| version.types.contains(&row.0));
        let Some(&(_, kind, firmware)) = types.find(|row| row.0 == number) else {
            return Ok(Answer::refused(BAD_PARAMETERS));
        };
        if address % 4096 != 0 {
            return Ok(Answer::refused(BAD_PARAMETERS));
        }
        if !image::check(image, self.signatures).is_ok_and(|header| header.kind == kind) {
            return Ok(Answer::refused(SECURITY));
        }
        if number == SMU {
            // It comes before there is a region, and has memory of its own.
            gpu.smu.start();
            return Ok(Answer::default());
        }
        let is_set_up = !version.has_memory || !state.fresh;
        let Some(tmr) = state.tmr.as_mut().filter(|_| is_set_up) else {
            return Ok(Answer::refused(BAD_STATE));
        };
        if number == REGISTER_LIST && std::mem::replace(&mut state.register_list, true) {
            return Ok(Answer::refused(CANCEL));
        }
        let place = tmr.place(image.len());
        self.load_engine(gpu, state, firmware)?;
        if version.starts_engines {
            firmware.start(gpu);
        }
        Ok(Answer {
            address: gpu.vram_base() + place,
            ..Answer::default()
        })
    }
}
