// SPDX-License-Identifier: GPL-2.0
//! The world of a wave: memory, clocks and messages of the device, and the LDS of its group.

use crate::image::{Shape, Word};
use crate::lds::Lds;
use crate::wave::{Wave, LANES};

/// An access that no mapping allows. The implementation of [`Host`] has reported it to the device
/// already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The address that faulted, in bytes.
    pub address: u64,
}

/// Kind of an instruction's next access to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// [`Host::load`].
    Load,
    /// [`Host::store`].
    Store,
    /// [`Host::atomic32`] or [`Host::atomic64`].
    Atomic,
    /// [`Host::load_scalar`].
    LoadScalar,
    /// [`Host::store_scalar`].
    StoreScalar,
}

/// The device around the shader core, as one queue's address space. Addresses are virtual and in
/// bytes; accesses need no alignment unless said otherwise, and each aligned dword of one is read
/// or written whole.
pub trait Host {
    /// Returns whether accesses may have to be retried: then [`Host::is_ready`] is called before
    /// each.
    fn retries(&self) -> bool {
        false
    }
    /// Returns whether an access of `len` bytes of one page can be done now, or fails for good. If
    /// not, the device has been notified, and the wave must repeat the instruction, of which
    /// nothing may have been done.
    fn is_ready(&self, _address: u64, _len: u64, _need: Need) -> bool {
        true
    }
    /// Whether memory of the address space is watched: then [`Host::take_hits`] is called after
    /// each instruction.
    fn is_watched(&self) -> bool {
        false
    }
    /// The bits of TRAPSTS of the watch points that were hit since the last call.
    fn take_hits(&self) -> u32 {
        0
    }
    /// Reads memory. After a fault the content of `out` does not count.
    fn load(&self, address: u64, out: &mut [u8]) -> Result<(), Fault>;
    /// Writes memory. Bytes before a fault may have been written.
    fn store(&self, address: u64, data: &[u8]) -> Result<(), Fault>;
    /// Reads `size` bytes for lanes of `lanes` (a bit each) at their addresses `at`, to each lane's
    /// place in `out`. Returns the lanes for which it did nothing: the caller must use
    /// [`Host::load`] for them.
    fn load_lanes(&self, _at: &[u64; LANES], lanes: u64, _size: usize, _out: &mut [u8]) -> u64 {
        lanes
    }
    /// As [`Host::load_lanes`]; stores in the order of lanes. None of the lanes that it leaves is
    /// before one that it did.
    fn store_lanes(&self, _at: &[u64; LANES], lanes: u64, _size: usize, _data: &[u8]) -> u64 {
        lanes
    }
    /// Replaces the aligned dword at `address` by the result of `change`, which may be called more
    /// than once. Returns the old value.
    fn atomic32(&self, address: u64, change: &mut dyn FnMut(u32) -> u32) -> Result<u32, Fault>;
    /// See [`Host::atomic32`]; for eight bytes.
    fn atomic64(&self, address: u64, change: &mut dyn FnMut(u64) -> u64) -> Result<u64, Fault>;
    /// [`Host::atomic32`] of lanes of `lanes` in their order, at their addresses `at`; `change`
    /// gets the lane. Old values go to their places in `old`. Returns the lanes for which it did
    /// nothing, as [`Host::store_lanes`].
    fn atomic32_lanes(
        &self,
        _at: &[u64; LANES],
        lanes: u64,
        _change: &mut dyn FnMut(usize, u32) -> u32,
        _old: &mut [u32; LANES],
    ) -> u64 {
        lanes
    }
    /// See [`Host::atomic32_lanes`]; for eight bytes.
    fn atomic64_lanes(
        &self,
        _at: &[u64; LANES],
        lanes: u64,
        _change: &mut dyn FnMut(usize, u64) -> u64,
        _old: &mut [u64; LANES],
    ) -> u64 {
        lanes
    }
    /// As [`Host::load`], of scalar instructions.
    fn load_scalar(&self, address: u64, out: &mut [u8]) -> Result<(), Fault>;
    /// As [`Host::store`], of scalar instructions.
    fn store_scalar(&self, address: u64, data: &[u8]) -> Result<(), Fault>;
    /// Reads code.
    fn fetch(&self, address: u64, out: &mut [u8]) -> Result<(), Fault>;
    /// The 100 MHz clock of s_memrealtime.
    fn realtime(&self) -> u64;
    /// The engine clock of s_memtime.
    fn cycles(&self) -> u64;
    /// s_sendmsg of MSG_INTERRUPT with M0\[23:0\], from a wave with this HW_ID, and whether it is
    /// in the trap handler.
    fn interrupt(&self, hw_id: u32, data: u32, privileged: bool);
    /// Reports an instruction that the generation does not have, in a wave with this HW_ID,
    /// without a trap handler that would see it.
    fn illegal(&self, hw_id: u32);
    /// The number of the XCC, of a device with more than one.
    fn xcc(&self) -> u32 {
        0
    }
    /// The queue's doorbell id, for MSG_GET_DOORBELL.
    fn doorbell(&self) -> u32;
    /// SQ_SHADER_TBA of the address space, sign-extended.
    fn trap_handler(&self) -> u64;
    /// SQ_SHADER_TMA of the address space, sign-extended.
    fn trap_memory(&self) -> u64;
    /// Reserves records for the waves of a group, all of which have sent MSG_SAVEWAVE. Returns the
    /// address of each one's record. None: not now, or never.
    fn reserve(&self, shape: Shape, waves: &[Word]) -> Option<Vec<u64>>;
}

/// The registers and the LDS that a group gets: they hold what earlier groups have left there.
pub trait Leftovers {
    /// Fills the VGPRs and SGPRs of `wave`, the group's number `n`, which are zero.
    fn registers(&self, n: usize, wave: &mut Wave);
    /// Fills the group's LDS, which is zero.
    fn lds(&self, lds: &mut Lds);
}

/// Nothing was there before.
impl Leftovers for () {
    fn registers(&self, _n: usize, _wave: &mut Wave) {}
    fn lds(&self, _lds: &mut Lds) {}
}

/// Calls the method `$call::<N>($args)`, where the constant `N` is `$size`, the bytes of one lane's
/// access. For a size that no instruction has, it gives `$lanes`: the lanes that are left undone.
#[macro_export]
macro_rules! with_size {
    ($size:expr, $host:ident.$call:ident($($args:expr),*), $lanes:expr) => {
        match $size {
            1 => $host.$call::<1>($($args),*),
            2 => $host.$call::<2>($($args),*),
            4 => $host.$call::<4>($($args),*),
            8 => $host.$call::<8>($($args),*),
            12 => $host.$call::<12>($($args),*),
            16 => $host.$call::<16>($($args),*),
            _ => $lanes,
        }
    };
}

/// A wave's surroundings while it runs.
pub struct Env<'a> {
    /// The device.
    pub host: &'a dyn Host,
    /// The group's.
    pub lds: &'a mut Lds,
}
