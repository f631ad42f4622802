// SPDX-License-Identifier: GPL-2.0
//! Tests of the whole device below the vfio-user interface: registers and doorbells in, memory and
//! interrupts out.

mod aql;
mod assembly;
mod bandwidth;
mod compute;
mod dispatches;
mod faults;
mod fuzz;
mod gfx942;
mod hostile;
mod interrupts;
mod left;
mod own;
mod packets;
mod pm4;
mod pm4_dispatches;
mod power;
mod psp;
mod psp_13_0_6;
mod psp_commands;
mod psp_rig;
mod psp_xgmi;
mod queues;
mod registers;
mod retries;
mod rig;
mod runlists;
mod smu;
mod tables;
mod templates;
mod timing;
mod wave_retries;
mod wave_translations;
mod waves;
mod windows;
mod xccs;
