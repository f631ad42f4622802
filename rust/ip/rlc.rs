// SPDX-License-Identifier: GPL-2.0
//! The RLC of GC 9.4: it keeps the GPU's clock and those of graphics, and helps the CP to schedule
//! (amdgpu: gfx_v9_0_rlc_resume). Its firmware has been loaded before.

use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::delay::fsleep;
use kernel::time::Delta;

use hw::bits::Field;
use hw::ip::{IpBlock, IpTable};

use super::shader_array::ShaderArray;
use crate::kern::mmio::{Mmio, GONE};
use crate::regs::gc::{
    self as regs, cp_int_cntl_ring0 as int, rlc_cntl, rlc_serdes_noncu_master_busy as noncu,
    rlc_spm_mc_cntl, rlc_srm_cntl,
};
use crate::regs::RegisterWindow;

/// How long it takes to start.
const PAUSE: Delta = Delta::from_micros(50);
/// How long the units behind the serial bus may be busy.
const IDLE_TIMEOUT: Delta = Delta::from_millis(100);
const IDLE_POLL: Delta = Delta::from_micros(50);
/// RLC_SPM_VMID: none.
const NO_VMID: u32 = 0xf;
/// The events of which the CP notifies the RLC.
const SLEEP: [Field; 3] = [
    int::CMP_BUSY_INT_ENABLE,
    int::CNTX_BUSY_INT_ENABLE,
    int::CNTX_EMPTY_INT_ENABLE,
];

/// The blocks: each XCC has one.
pub(crate) struct Rlc {
    xccs: KVec<RegisterWindow>,
    engines: u32,
}

impl Rlc {
    /// Those of the GPU whose blocks are `ips`, with so many shader `engines` in an XCC.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(mmio: &Arc<Mmio>, ips: IpTable<'_>, engines: u32) -> Result<Self> {
        let xccs = RegisterWindow::each(mmio, ips, IpBlock::Gc)?;
        Ok(Self { xccs, engines })
    }

    /// Starts them. Context: may sleep.
    pub(crate) fn start(&self) {
        self.xccs.iter().for_each(|xcc| self.start_one(xcc));
    }

    /// Stops them, and waits for their current work. A timeout of that is ignored: it makes no
    /// difference any more. Context: may sleep.
    pub(crate) fn stop(&self) {
        self.xccs.iter().for_each(|xcc| self.stop_one(xcc));
    }

    fn start_one(&self, r: &RegisterWindow) {
        self.stop_one(r);
        r.write(regs::RLC_CGCG_CGLS_CTRL, 0);
        r.update(regs::RLC_SRM_CNTL, &[(rlc_srm_cntl::SRM_ENABLE, 1)]);
        r.update(
            regs::RLC_SPM_MC_CNTL,
            &[(rlc_spm_mc_cntl::RLC_SPM_VMID, NO_VMID)],
        );
        r.update(regs::RLC_CNTL, &[(rlc_cntl::RLC_ENABLE_F32, 1)]);
        fsleep(PAUSE);
        set_sleep(r, true);
        fsleep(PAUSE);
    }

    fn stop_one(&self, r: &RegisterWindow) {
        r.update(regs::RLC_CNTL, &[(rlc_cntl::RLC_ENABLE_F32, 0)]);
        set_sleep(r, false);
        for engine in 0..self.engines {
            let _selected = ShaderArray::select(r, engine, 0);
            wait_idle(r, || r.read(regs::RLC_SERDES_CU_MASTER_BUSY) == 0);
        }
        wait_idle(r, || {
            let busy = r.read(regs::RLC_SERDES_NONCU_MASTER_BUSY);
            ![noncu::SE_AND_GC, noncu::TC0, noncu::TC1]
                .iter()
                .any(|field| field.is_set(busy))
        });
    }
}

fn set_sleep(r: &RegisterWindow, on: bool) {
    let fields = SLEEP.map(|field| (field, on.into()));
    r.update(regs::CP_INT_CNTL_RING0, &fields);
}

/// Waits until `is_idle`. Gives up at once if the device does not answer.
fn wait_idle(r: &RegisterWindow, is_idle: impl Fn() -> bool) {
    let _ = kernel::io::poll::read_poll_timeout(
        || Ok(is_idle() || r.read(regs::RLC_CNTL) == GONE),
        |idle| *idle,
        IDLE_POLL,
        IDLE_TIMEOUT,
    );
}
