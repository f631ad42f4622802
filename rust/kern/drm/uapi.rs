// SPDX-License-Identifier: GPL-2.0
//! The structures of `drm/amdgpu_drm.h` that the render node answers with.

use kernel::{
    prelude::*,
    transmute::{AsBytes, FromBytes},
    uaccess::{UserPtr, UserSlice},
};

use crate::ffi;

pub(crate) use crate::ffi::{
    AMDGPU_FAMILY_AI as FAMILY_AI, AMDGPU_INFO_ACCEL_WORKING as ACCEL_WORKING,
    AMDGPU_INFO_DEV_INFO as DEV_INFO, AMDGPU_INFO_GTT_USAGE as GTT_USAGE,
    AMDGPU_INFO_MEMORY as MEMORY, AMDGPU_INFO_READ_MMR_REG as READ_MMR_REG,
    AMDGPU_INFO_VIS_VRAM_USAGE as VIS_VRAM_USAGE, AMDGPU_INFO_VRAM_GTT as VRAM_GTT,
    AMDGPU_INFO_VRAM_USAGE as VRAM_USAGE, AMDGPU_VRAM_TYPE_HBM as VRAM_TYPE_HBM,
    DRM_AMDGPU_INFO as INFO_NR, DRM_COMMAND_BASE as COMMAND_BASE,
};

/// INFO's answers: what is known of the device.
pub(crate) type DeviceInfo = ffi::drm_amdgpu_info_device;
/// INFO's answer: sizes of memory.
pub(crate) type VramGtt = ffi::drm_amdgpu_info_vram_gtt;
/// A kind of memory in [`MemoryInfo`].
pub(crate) type HeapInfo = ffi::drm_amdgpu_heap_info;
/// INFO's answer: sizes and use of memory.
pub(crate) type MemoryInfo = ffi::drm_amdgpu_memory_info;

/// The argument of INFO: what is asked, and where the answer goes.
#[repr(transparent)]
pub(crate) struct Info(ffi::drm_amdgpu_info);

const _: () = assert!(size_of::<Info>() == 32);
// SAFETY: Integers, and a union of structures of them: any bytes are a value.
unsafe impl FromBytes for Info {}

/// The register that READ_MMR_REG asks for.
pub(crate) struct RegisterQuery {
    /// The first, dwords in BAR5.
    pub(crate) dword: u32,
    /// How many from there on.
    pub(crate) count: u32,
}

impl Info {
    /// What is asked.
    pub(crate) fn query(&self) -> u32 {
        self.0.query
    }

    /// What READ_MMR_REG asks for.
    pub(crate) fn register(&self) -> RegisterQuery {
        // SAFETY: Any bytes are a value of each of the union's structures.
        let query = unsafe { self.0.__bindgen_anon_1.read_mmr_reg.as_ref() };
        RegisterQuery {
            dword: query.dword_offset,
            count: query.count,
        }
    }

    /// Gives the caller as much of the answer as it has room for. EINVAL without room, EFAULT for a bad pointer.
    pub(crate) fn answer(&self, answer: &impl AsBytes) -> Result {
        if self.0.return_size == 0 || self.0.return_pointer == 0 {
            return Err(EINVAL);
        }
        let bytes = answer.as_bytes();
        let bytes = bytes.get(..self.0.return_size as usize).unwrap_or(bytes);
        let to = UserPtr::from_addr(usize::try_from(self.0.return_pointer).map_err(|_| EFAULT)?);
        UserSlice::new(to, bytes.len()).writer().write_slice(bytes)
    }
}

/// Declares answers, with their sizes in bytes: the fields (the header names its padding) fill them.
macro_rules! answers {
    ($($name:ident, $size:literal;)+) => {
        $(
            const _: () = assert!(size_of::<$name>() == $size);
            // SAFETY: Integers without padding between them, see above.
            unsafe impl AsBytes for $name {}
        )+
    };
}

answers! {
    DeviceInfo, 440;
    VramGtt, 24;
    HeapInfo, 32;
    MemoryInfo, 96;
}
