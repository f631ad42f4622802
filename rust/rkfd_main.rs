// SPDX-License-Identifier: GPL-2.0
//! rkfd: AMD's KFD ABI for ROCm, in Rust. This file is the table of contents.

use kernel::prelude::*;

mod ffi;
mod kern;
mod kfd;
mod process;
mod topology;

module! {
    type: Rkfd,
    name: "rkfd",
    authors: ["rkfd maintainers"],
    description: "KFD compute driver for AMD GPUs",
    license: "GPL",
    params: {
        sdma_sched: u8 {
            default: 1,
            description: "1: user SDMA queues go through drm_sched; 0: straight to the hardware",
        },
    },
}

/// The loaded module.
struct Rkfd {
    _kfd: kfd::Registration,
}

impl kernel::Module for Rkfd {
    fn init(module: &'static ThisModule) -> Result<Self> {
        Ok(Rkfd {
            _kfd: kfd::Registration::new(module)?,
        })
    }
}
