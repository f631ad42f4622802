// SPDX-License-Identifier: GPL-2.0
//! The interrupt handler block: vectors (IVs) into a ring in memory, then an MSI.
//!
//! One MSI announces a ring that was empty. Further entries send none until the driver writes the
//! read pointer: if it has not caught up and RPTR_REARM is set another MSI is sent at once,
//! otherwise the next entry sends one.

mod late;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::cam::{Cam, Key, Verdict};
use crate::error::{ModelError, Result};
use crate::fate::Site;
use crate::gpu::Gpu;
use crate::hub::HubId;
use crate::memory::{Phys, Space};
use crate::msi::Kind;
use crate::regs::osssys::{
    self, ih_chicken, ih_rb_cntl as cntl, ih_rb_wptr, ih_retry_int_cam_cntl as cam_cntl,
};
use crate::regs::{Field, Reg};
use crate::vm::Vm;
use late::Late;

/// Bytes of an entry.
pub const ENTRY: u32 = 32;
const MC_SPACE_BUS: u32 = 1;
const MC_SPACE_MC: u32 = 4;

/// Interrupt client ids of the SDMA engines.
pub const SDMA_CLIENT: [u8; 5] = [8, 9, 1, 4, 5];

/// In a fault's context words: the high part of the page in word 1, the place in the retry CAM in
/// word 2.
const FAULT_PAGE_HI: Field = Field::new(3, 0);
const CAM_PLACE: Field = Field::new(9, 0);
/// In dword 3 of an entry: the node that it comes from.
const NODE: Field = Field::new(23, 16);

/// An interrupt vector, without the fields that the IH adds (timestamp, PASID).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Iv {
    /// Interrupt client.
    pub client: u8,
    /// Source within the client.
    pub source: u8,
    /// Ring.
    pub ring: u8,
    /// Address space.
    pub vmid: u8,
    /// From a client of MMHUB, not GFXHUB.
    pub mmhub: bool,
    /// Context words 0..=3.
    pub data: [u32; 4],
    /// A fault that is raised again as long as its access is retried: the retry CAM filters these.
    pub retry: bool,
}

#[derive(Default)]
struct State {
    /// Byte offsets in the ring.
    rptr: u32,
    wptr: u32,
    overflow: bool,
    /// An MSI was sent and the read pointer not written since.
    announced: bool,
    /// Number of MSIs that a test wants lost.
    drop: u64,
    /// A test wants entries without a PASID.
    nameless: bool,
    cam: Cam,
    /// A test wants the CAM to let everything through.
    unfiltered: bool,
    /// A test wants entries to be late when the ring is next turned on.
    late: Option<Duration>,
    /// Entries wait until then.
    held_until: Option<Instant>,
    /// What the hardware is late with.
    slow: Late,
}

/// The block's state beside its plain registers.
#[derive(Default)]
pub struct Ih(Mutex<State>);

impl Ih {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resets everything except a test's settings.
    pub fn reset(&self) {
        let mut state = self.state();
        *state = State {
            drop: state.drop,
            nameless: state.nameless,
            unfiltered: state.unfiltered,
            late: state.late,
            ..State::default()
        };
    }

    /// The next `count` MSIs are not sent.
    pub fn drop_interrupts(&self, count: u64) {
        self.state().drop += count;
    }

    /// Sets whether entries have PAS_ID 0 from now on.
    pub fn omit_pasids(&self, omit: bool) {
        self.state().nameless = omit;
    }

    /// Sets whether the retry CAM lets everything through from now on.
    pub fn disable_cam(&self, disable: bool) {
        self.state().unfiltered = disable;
    }

    /// When the ring is next turned on, no entry comes for `time`.
    pub fn hold_entries(&self, time: Duration) {
        self.state().late = Some(time);
    }

    /// Keeps the calling client waiting as long as entries are held.
    fn wait_while_held(&self) {
        let until = self.state().held_until;
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if let Some(left) = left.filter(|left| !left.is_zero()) {
            std::thread::sleep(left);
        }
    }

    /// The driver has handled the fault of place `value` of the retry CAM.
    pub fn acknowledge(&self, gpu: &Gpu, value: u32) {
        gpu.summary.cam_acks.bump();
        if !self.state().cam.acknowledge(value) {
            gpu.summary.cam_idle_acks.bump();
        }
    }

    /// Returns whether any of its rings takes entries.
    pub fn is_on(&self, gpu: &Gpu) -> bool {
        let rings = [
            osssys::IH_RB_CNTL,
            osssys::IH_RB_CNTL_RING1,
            osssys::IH_RB_CNTL_RING2,
        ];
        let mut controls = rings.into_iter().map(|reg| gpu.regs.get(reg));
        controls.any(|control| cntl::RB_ENABLE.is_set(control))
    }

    /// Reads RPTR or WPTR; None for other registers.
    pub fn read(&self, reg: Reg) -> Option<u32> {
        let state = self.state();
        match reg {
            osssys::IH_RB_RPTR => Some(state.rptr),
            osssys::IH_RB_WPTR => Some(wptr_value(&state)),
            _ => None,
        }
    }

    /// A write to one of the block's registers.
    pub fn write(&self, gpu: &Gpu, reg: Reg, value: u32) -> Result<()> {
        match reg {
            osssys::IH_RB_CNTL => {
                if !cntl::RB_ENABLE.is_set(value) {
                    self.state().slow = Late::default();
                }
                if cntl::WPTR_OVERFLOW_CLEAR.is_set(value) {
                    self.state().overflow = false;
                }
                if cntl::RB_ENABLE.is_set(value) && !cntl::RB_ENABLE.is_set(gpu.regs.get(reg)) {
                    let mut state = self.state();
                    let late = state.late.take();
                    state.held_until = late.map(|time| Instant::now() + time);
                }
                gpu.regs.set(reg, value);
            }
            osssys::IH_RB_WPTR => {
                let mut state = self.state();
                state.wptr = ih_rb_wptr::OFFSET.get(value) << 2;
                state.overflow = false;
            }
            osssys::IH_RB_RPTR => self.set_rptr(gpu, value)?,
            osssys::IH_RETRY_INT_CAM_CNTL => {
                if !cam_cntl::ENABLE.is_set(value) {
                    self.state().cam = Cam::default();
                }
                gpu.regs.set(reg, value);
            }
            osssys::IH_RB_CNTL_RING1 | osssys::IH_RB_CNTL_RING2 => gpu.regs.set(reg, value),
            _ => gpu.regs.set(reg, value),
        }
        Ok(())
    }

    /// The driver has read up to byte `value`: by register or doorbell.
    pub fn set_rptr(&self, gpu: &Gpu, value: u32) -> Result<()> {
        let control = gpu.regs.get(osssys::IH_RB_CNTL);
        let mut state = self.state();
        state.rptr = ih_rb_wptr::OFFSET.get(value) << 2;
        if state.rptr >= ring_size(control) && cntl::RB_ENABLE.is_set(control) {
            return Err(gpu.regs.refuse(
                osssys::IH_RB_RPTR,
                value,
                "the offset is outside the ring",
            ));
        }
        state.announced = false;
        if state.rptr != state.wptr && cntl::RPTR_REARM.is_set(control) {
            gpu.summary.msis_rearmed.bump();
            announce(gpu, &mut state, control)?;
        }
        Ok(())
    }

    /// Puts an entry into the ring and announces it.
    pub fn push(&self, gpu: &Gpu, mut iv: Iv) -> Result<()> {
        let control = gpu.regs.get(osssys::IH_RB_CNTL);
        if !cntl::RB_ENABLE.is_set(control) {
            gpu.summary.ih_lost.bump();
            return Ok(());
        }
        self.wait_while_held();
        let mut state = self.state();
        let cam = cam_cntl::ENABLE.is_set(gpu.regs.get(osssys::IH_RETRY_INT_CAM_CNTL));
        if iv.retry && cam && !state.unfiltered {
            let key = Key {
                page: u64::from(iv.data[0]) | u64::from(FAULT_PAGE_HI.get(iv.data[1])) << 32,
                pasid: pasid(gpu, &iv),
            };
            match state.cam.admit(key) {
                Verdict::New(place) => iv.data[2] = CAM_PLACE.put(iv.data[2], place),
                Verdict::Known | Verdict::Full => {
                    gpu.summary.cam_hits.bump();
                    return Ok(());
                }
            }
        }
        let mut entry = [0; ENTRY as usize];
        let pasid = if state.nameless { 0 } else { pasid(gpu, &iv) };
        for (bytes, dword) in entry.chunks_exact_mut(4).zip(encode(gpu, iv, pasid)) {
            bytes.copy_from_slice(&dword.to_le_bytes());
        }
        if state.keep_back(gpu, &iv, &entry) {
            return Ok(());
        }
        deliver(gpu, &mut state, control, &entry)
    }
}

/// Writes an entry into the ring and announces it.
fn deliver(gpu: &Gpu, state: &mut State, control: u32, entry: &[u8]) -> Result<()> {
    let size = ring_size(control);
    let next = (state.wptr + ENTRY) % size;
    if next == state.rptr || state.overflow {
        if !cntl::WPTR_OVERFLOW_ENABLE.is_set(control) {
            gpu.summary.ih_lost.bump();
            return Ok(());
        }
        // The ring overwrites its oldest entries and flags that.
        if !std::mem::replace(&mut state.overflow, true) {
            gpu.summary.ih_overflows.bump();
        }
    }
    let base = u64::from(gpu.regs.get(osssys::IH_RB_BASE)) << 8
        | u64::from(gpu.regs.get(osssys::IH_RB_BASE_HI)) << 40;
    write(gpu, control, base + u64::from(state.wptr), entry)?;
    state.wptr = next;
    if cntl::WPTR_WRITEBACK_ENABLE.is_set(control) {
        let target = u64::from(gpu.regs.get(osssys::IH_RB_WPTR_ADDR_LO))
            | u64::from(gpu.regs.get(osssys::IH_RB_WPTR_ADDR_HI)) << 32;
        write(gpu, control, target, &wptr_value(state).to_le_bytes())?;
    }
    gpu.summary.ivs.bump();
    if !state.announced {
        announce(gpu, state, control)?;
    }
    Ok(())
}

/// Bytes in ring 0.
fn ring_size(control: u32) -> u32 {
    4u32 << cntl::RB_SIZE.get(control).clamp(3, 16)
}

fn wptr_value(state: &State) -> u32 {
    ih_rb_wptr::OFFSET.of(state.wptr >> 2) | ih_rb_wptr::RB_OVERFLOW.of(u32::from(state.overflow))
}

fn announce(gpu: &Gpu, state: &mut State, control: u32) -> Result<()> {
    if !cntl::ENABLE_INTR.is_set(control) {
        return Ok(());
    }
    state.announced = true;
    if state.drop > 0 {
        state.drop -= 1;
        gpu.summary.msis_dropped.bump();
        return Ok(());
    }
    if state.keep_msi_back(gpu) {
        return Ok(());
    }
    send(gpu, state)
}

/// Sends an MSI.
fn send(gpu: &Gpu, state: &mut State) -> Result<()> {
    if !gpu.bus.is_master() {
        return Err(ModelError::NotMaster { what: "MSI" });
    }
    match gpu.msi.send() {
        Some(Kind::Msi) => gpu.summary.msis.bump(),
        Some(Kind::MsiX) => gpu.summary.msixs.bump(),
        None => {
            state.announced = false;
            return Ok(());
        }
    }
    if gpu.fate.chance(Site::IhTwice, 0, 16) {
        gpu.msi.send();
    }
    Ok(())
}

/// The node that an entry comes from: the AID, or the XCC.
fn node(gpu: &Gpu, iv: &Iv) -> u32 {
    let regs = &gpu.regs;
    regs.layout().node(regs.xcc, regs.aid, iv.mmhub)
}

/// The PASID of an entry, according to the tables.
fn pasid(gpu: &Gpu, iv: &Iv) -> u32 {
    let lut = if iv.mmhub {
        osssys::IH_VMID_0_LUT_MM
    } else {
        osssys::IH_VMID_0_LUT
    };
    let reg = lut.nth(u32::from(iv.vmid), 1);
    if gpu.regs.asic.has_nodes {
        gpu.banks().of_bank(reg, node(gpu, iv))
    } else {
        gpu.regs.get(reg)
    }
}

/// The eight dwords of an entry.
fn encode(gpu: &Gpu, iv: Iv, pasid: u32) -> [u32; 8] {
    use osssys::{ih_cookie_0 as d0, ih_cookie_2 as d2, ih_cookie_3 as d3};
    let time = gpu.clock.now();
    let has_nodes = gpu.regs.asic.has_nodes;
    let node = if has_nodes { node(gpu, &iv) } else { 0 };
    let [c0, c1, c2, c3] = iv.data;
    [
        d0::CLIENT_ID.of(iv.client.into())
            | d0::SOURCE_ID.of(iv.source.into())
            | d0::RING_ID.of(iv.ring.into())
            | d0::VM_ID.of(iv.vmid.into())
            | d0::VMID_TYPE.of(iv.mmhub.into()),
        time as u32,
        d2::TIMESTAMP_47_32.of((time >> 32) as u32),
        d3::PAS_ID.of(pasid) | NODE.of(node),
        c0,
        c1,
        c2,
        c3,
    ]
}

/// Writes to the ring's memory, which MC_SPACE selects.
fn write(gpu: &Gpu, control: u32, addr: u64, data: &[u8]) -> Result<()> {
    match cntl::MC_SPACE.get(control) {
        MC_SPACE_BUS => {
            let chicken = gpu.regs.get(osssys::IH_CHICKEN);
            if !ih_chicken::MC_SPACE_GPA_ENABLE.is_set(chicken) {
                return Err(gpu.regs.refuse(
                    osssys::IH_RB_CNTL,
                    control,
                    "MC_SPACE is a bus address but IH_CHICKEN.MC_SPACE_GPA_ENABLE is clear",
                ));
            }
            let phys = Phys {
                space: Space::System,
                addr,
            };
            gpu.bus.view().write(phys, data)
        }
        MC_SPACE_MC => Vm::kernel(&gpu.aid(0), HubId::Mm).write(addr, data),
        _ => Err(gpu.regs.refuse(
            osssys::IH_RB_CNTL,
            control,
            "MC_SPACE is neither 1 (bus address) nor 4 (MC address)",
        )),
    }
}
