// SPDX-License-Identifier: GPL-2.0
//! The structures of `drm/amdgpu_drm.h` that the render node uses.

use kernel::{
    prelude::*,
    transmute::{AsBytes, FromBytes},
};

use crate::{ffi, kern::drm::ioctl::IoctlReply};

pub(crate) use crate::ffi::{
    AMDGPU_FAMILY_AI as FAMILY_AI, AMDGPU_INFO_ACCEL_WORKING as ACCEL_WORKING,
    AMDGPU_INFO_DEV_INFO as DEV_INFO, AMDGPU_INFO_GPUVM_FAULT as GPUVM_FAULT,
    AMDGPU_INFO_GTT_USAGE as GTT_USAGE, AMDGPU_INFO_HW_IP_COUNT as HW_IP_COUNT,
    AMDGPU_INFO_HW_IP_INFO as HW_IP_INFO, AMDGPU_INFO_MEMORY as MEMORY,
    AMDGPU_INFO_READ_MMR_REG as READ_MMR_REG, AMDGPU_INFO_SENSOR as SENSOR,
    AMDGPU_INFO_SENSOR_GFX_MCLK as SENSOR_GFX_MCLK, AMDGPU_INFO_SENSOR_GFX_SCLK as SENSOR_GFX_SCLK,
    AMDGPU_INFO_SENSOR_GPU_AVG_POWER as SENSOR_GPU_AVG_POWER,
    AMDGPU_INFO_SENSOR_GPU_INPUT_POWER as SENSOR_GPU_INPUT_POWER,
    AMDGPU_INFO_SENSOR_GPU_LOAD as SENSOR_GPU_LOAD, AMDGPU_INFO_SENSOR_GPU_TEMP as SENSOR_GPU_TEMP,
    AMDGPU_INFO_SENSOR_PEAK_PSTATE_GFX_MCLK as SENSOR_PEAK_PSTATE_GFX_MCLK,
    AMDGPU_INFO_SENSOR_PEAK_PSTATE_GFX_SCLK as SENSOR_PEAK_PSTATE_GFX_SCLK,
    AMDGPU_INFO_SENSOR_STABLE_PSTATE_GFX_MCLK as SENSOR_STABLE_PSTATE_GFX_MCLK,
    AMDGPU_INFO_SENSOR_STABLE_PSTATE_GFX_SCLK as SENSOR_STABLE_PSTATE_GFX_SCLK,
    AMDGPU_INFO_SENSOR_VDDGFX as SENSOR_VDDGFX, AMDGPU_INFO_VIS_VRAM_USAGE as VIS_VRAM_USAGE,
    AMDGPU_INFO_VRAM_GTT as VRAM_GTT, AMDGPU_INFO_VRAM_USAGE as VRAM_USAGE,
    AMDGPU_VRAM_TYPE_HBM as VRAM_TYPE_HBM, DRM_AMDGPU_BO_LIST as BO_LIST_NR,
    DRM_AMDGPU_CS as CS_NR, DRM_AMDGPU_CTX as CTX_NR,
    DRM_AMDGPU_FENCE_TO_HANDLE as FENCE_TO_HANDLE_NR, DRM_AMDGPU_GEM_CREATE as GEM_CREATE_NR,
    DRM_AMDGPU_GEM_LIST_HANDLES as GEM_LIST_HANDLES_NR, DRM_AMDGPU_GEM_METADATA as GEM_METADATA_NR,
    DRM_AMDGPU_GEM_MMAP as GEM_MMAP_NR, DRM_AMDGPU_GEM_OP as GEM_OP_NR,
    DRM_AMDGPU_GEM_USERPTR as GEM_USERPTR_NR, DRM_AMDGPU_GEM_VA as GEM_VA_NR,
    DRM_AMDGPU_GEM_WAIT_IDLE as GEM_WAIT_IDLE_NR, DRM_AMDGPU_INFO as INFO_NR,
    DRM_AMDGPU_VM as VM_NR, DRM_AMDGPU_WAIT_CS as WAIT_CS_NR,
    DRM_AMDGPU_WAIT_FENCES as WAIT_FENCES_NR,
};
pub(crate) use crate::ffi::{
    AMDGPU_GEM_METADATA_OP_GET_METADATA as METADATA_GET,
    AMDGPU_GEM_METADATA_OP_SET_METADATA as METADATA_SET,
    AMDGPU_GEM_OP_GET_GEM_CREATE_INFO as OP_GET_CREATE_INFO,
    AMDGPU_GEM_OP_GET_MAPPING_INFO as OP_GET_MAPPING_INFO,
    AMDGPU_GEM_OP_SET_PLACEMENT as OP_SET_PLACEMENT, AMDGPU_VA_OP_CLEAR as VA_CLEAR,
    AMDGPU_VA_OP_MAP as VA_MAP, AMDGPU_VA_OP_REPLACE as VA_REPLACE, AMDGPU_VA_OP_UNMAP as VA_UNMAP,
};

/// `_IOWR` of the driver's ioctl `nr`, whose structure is `T`.
pub(crate) const fn read_write<T>(nr: u32) -> u32 {
    kernel::ioctl::_IOWR::<T>(b'd' as u32, ffi::DRM_COMMAND_BASE + nr)
}

/// `_IOW` of the driver's ioctl `nr`, whose structure is `T`.
pub(crate) const fn write<T>(nr: u32) -> u32 {
    kernel::ioctl::_IOW::<T>(b'd' as u32, ffi::DRM_COMMAND_BASE + nr)
}

/// `operation` of BO_LIST.
pub(crate) mod bo_list_op {
    pub(crate) use crate::ffi::{
        AMDGPU_BO_LIST_OP_CREATE as CREATE, AMDGPU_BO_LIST_OP_DESTROY as DESTROY,
        AMDGPU_BO_LIST_OP_UPDATE as UPDATE,
    };
}

/// `chunk_id` of CS.
pub(crate) mod chunk_id {
    pub(crate) use crate::ffi::{
        AMDGPU_CHUNK_ID_BO_HANDLES as BO_HANDLES, AMDGPU_CHUNK_ID_DEPENDENCIES as DEPENDENCIES,
        AMDGPU_CHUNK_ID_FENCE as FENCE, AMDGPU_CHUNK_ID_IB as IB,
        AMDGPU_CHUNK_ID_SCHEDULED_DEPENDENCIES as SCHEDULED_DEPENDENCIES,
        AMDGPU_CHUNK_ID_SYNCOBJ_IN as SYNCOBJ_IN, AMDGPU_CHUNK_ID_SYNCOBJ_OUT as SYNCOBJ_OUT,
        AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL as SYNCOBJ_TIMELINE_SIGNAL,
        AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT as SYNCOBJ_TIMELINE_WAIT,
    };
}

/// `what` of FENCE_TO_HANDLE.
pub(crate) mod fence_as {
    pub(crate) use crate::ffi::{
        AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ as SYNCOBJ,
        AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ_FD as SYNCOBJ_FD,
        AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD as SYNC_FILE_FD,
    };
}

/// Kinds of engines.
pub(crate) mod hw_ip {
    pub(crate) use crate::ffi::{AMDGPU_HW_IP_DMA as DMA, AMDGPU_HW_IP_NUM as NUM};
}

/// The flag of an IB for an engine that no chip of today has.
pub(crate) use crate::ffi::AMDGPU_IB_FLAG_CE as IB_FLAG_CE;

/// `op` of CTX.
pub(crate) mod ctx_op {
    pub(crate) use crate::ffi::{
        AMDGPU_CTX_OP_ALLOC_CTX as ALLOC, AMDGPU_CTX_OP_FREE_CTX as FREE,
        AMDGPU_CTX_OP_GET_STABLE_PSTATE as GET_STABLE_PSTATE,
        AMDGPU_CTX_OP_QUERY_STATE as QUERY_STATE, AMDGPU_CTX_OP_QUERY_STATE2 as QUERY_STATE2,
        AMDGPU_CTX_OP_SET_STABLE_PSTATE as SET_STABLE_PSTATE,
    };
}

/// A flag of QUERY_STATE2: a job of the context has hung.
pub(crate) use crate::ffi::AMDGPU_CTX_QUERY2_FLAGS_GUILTY as CTX_GUILTY;

/// `priority` of CTX.
pub(crate) mod ctx_priority {
    use crate::ffi;

    /// The first one that not everyone may have.
    pub(crate) const HIGH: i32 = ffi::AMDGPU_CTX_PRIORITY_HIGH as i32;
    /// The highest.
    pub(crate) const VERY_HIGH: i32 = ffi::AMDGPU_CTX_PRIORITY_VERY_HIGH as i32;
}

/// `flags` of CTX: a state of the clocks for profilers.
pub(crate) mod stable_pstate {
    pub(crate) use crate::ffi::{
        AMDGPU_CTX_STABLE_PSTATE_FLAGS_MASK as MASK, AMDGPU_CTX_STABLE_PSTATE_NONE as NONE,
        AMDGPU_CTX_STABLE_PSTATE_PEAK as PEAK,
    };
}

/// The memory domains of a buffer.
pub(crate) mod domain {
    use crate::ffi;

    /// System memory that the GPU need not reach.
    pub(crate) const CPU: u64 = ffi::AMDGPU_GEM_DOMAIN_CPU as u64;
    /// System memory.
    pub(crate) const GTT: u64 = ffi::AMDGPU_GEM_DOMAIN_GTT as u64;
    /// VRAM.
    pub(crate) const VRAM: u64 = ffi::AMDGPU_GEM_DOMAIN_VRAM as u64;
}

/// `domain_flags` of GEM_CREATE.
pub(crate) mod create_flag {
    use crate::ffi;

    /// Names flags as the 64-bit numbers that the interface uses.
    macro_rules! flags {
        ($($(#[$meta:meta])* $name:ident = $raw:ident;)+) => {
            $($(#[$meta])* pub(crate) const $name: u64 = ffi::$raw as u64;)+
        };
    }

    flags! {
        /// The CPU will access it.
        CPU_ACCESS_REQUIRED = AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED;
        /// The CPU will not access it.
        NO_CPU_ACCESS = AMDGPU_GEM_CREATE_NO_CPU_ACCESS;
        /// The CPU will write it in large pieces.
        CPU_GTT_USWC = AMDGPU_GEM_CREATE_CPU_GTT_USWC;
        /// Its memory is cleared.
        VRAM_CLEARED = AMDGPU_GEM_CREATE_VRAM_CLEARED;
        /// Its memory is contiguous.
        VRAM_CONTIGUOUS = AMDGPU_GEM_CREATE_VRAM_CONTIGUOUS;
        /// Its users synchronize by themselves.
        EXPLICIT_SYNC = AMDGPU_GEM_CREATE_EXPLICIT_SYNC;
        /// Its content is wiped when it is freed.
        VRAM_WIPE_ON_RELEASE = AMDGPU_GEM_CREATE_VRAM_WIPE_ON_RELEASE;
        /// Its content may be discarded.
        DISCARDABLE = AMDGPU_GEM_CREATE_DISCARDABLE;
        /// Coherent between devices.
        COHERENT = AMDGPU_GEM_CREATE_COHERENT;
        /// Not cached by the GPU.
        UNCACHED = AMDGPU_GEM_CREATE_UNCACHED;
        /// Coherent for atomics between devices.
        EXT_COHERENT = AMDGPU_GEM_CREATE_EXT_COHERENT;
    }
}

/// `flags` of GEM_USERPTR.
pub(crate) mod userptr_flag {
    pub(crate) use crate::ffi::{
        AMDGPU_GEM_USERPTR_ANONONLY as ANONONLY, AMDGPU_GEM_USERPTR_READONLY as READONLY,
        AMDGPU_GEM_USERPTR_REGISTER as REGISTER, AMDGPU_GEM_USERPTR_VALIDATE as VALIDATE,
    };
}

/// `op` of VM.
pub(crate) mod vm_op {
    pub(crate) use crate::ffi::{
        AMDGPU_VM_OP_RESERVE_VMID as RESERVE_VMID, AMDGPU_VM_OP_UNRESERVE_VMID as UNRESERVE_VMID,
    };
}

/// A flag in the list of GEM_LIST_HANDLES: memory of another device.
pub(crate) use crate::ffi::AMDGPU_GEM_LIST_HANDLES_FLAG_IS_IMPORT as LIST_HANDLES_IMPORT;

/// `flags` of GEM_VA.
pub(crate) mod va_flag {
    pub(crate) use crate::ffi::{
        AMDGPU_VM_DELAY_UPDATE as DELAY_UPDATE, AMDGPU_VM_MTYPE_MASK as MTYPE,
        AMDGPU_VM_PAGE_EXECUTABLE as EXECUTABLE, AMDGPU_VM_PAGE_NOALLOC as NOALLOC,
        AMDGPU_VM_PAGE_PRT as PRT, AMDGPU_VM_PAGE_READABLE as READABLE,
        AMDGPU_VM_PAGE_WRITEABLE as WRITEABLE,
    };
}

/// The argument of GEM_METADATA.
pub(crate) type GemMetadata = ffi::drm_amdgpu_gem_metadata;
/// The argument of GEM_OP.
pub(crate) type GemOp = ffi::drm_amdgpu_gem_op;
/// A mapping in the answer of GEM_OP.
pub(crate) type VmEntry = ffi::drm_amdgpu_gem_vm_entry;
/// The argument of GEM_LIST_HANDLES.
pub(crate) type GemListHandles = ffi::drm_amdgpu_gem_list_handles;
/// A buffer in the answer of GEM_LIST_HANDLES.
pub(crate) type BoEntry = ffi::drm_amdgpu_gem_list_handles_entry;
/// The argument of GEM_USERPTR.
pub(crate) type GemUserptr = ffi::drm_amdgpu_gem_userptr;
/// The argument of GEM_VA.
pub(crate) type GemVa = ffi::drm_amdgpu_gem_va;
/// The input of BO_LIST.
pub(crate) type BoListIn = ffi::drm_amdgpu_bo_list_in;
/// A buffer in BO_LIST.
pub(crate) type BoListEntry = ffi::drm_amdgpu_bo_list_entry;
/// The input of CS.
pub(crate) type CsIn = ffi::drm_amdgpu_cs_in;
/// A chunk of CS: its kind, its length, and where it is.
pub(crate) type CsChunk = ffi::drm_amdgpu_cs_chunk;
/// A chunk of CS: an indirect buffer.
pub(crate) type CsIb = ffi::drm_amdgpu_cs_chunk_ib;
/// A chunk of CS: where the end of the job is written.
pub(crate) type CsFence = ffi::drm_amdgpu_cs_chunk_fence;
/// A part of a chunk of CS: a job to wait for.
pub(crate) type CsDependency = ffi::drm_amdgpu_cs_chunk_dep;
/// A part of a chunk of CS: a sync object.
pub(crate) type CsSemaphore = ffi::drm_amdgpu_cs_chunk_sem;
/// A part of a chunk of CS: a point of a sync object's timeline.
pub(crate) type CsPoint = ffi::drm_amdgpu_cs_chunk_syncobj;
/// The input of WAIT_CS.
pub(crate) type WaitCsIn = ffi::drm_amdgpu_wait_cs_in;
/// The input of WAIT_FENCES.
pub(crate) type WaitFencesIn = ffi::drm_amdgpu_wait_fences_in;
/// A job in WAIT_FENCES.
pub(crate) type JobFence = ffi::drm_amdgpu_fence;
/// The input of CTX.
pub(crate) type CtxIn = ffi::drm_amdgpu_ctx_in;
/// The input of GEM_CREATE.
pub(crate) type GemCreateIn = ffi::drm_amdgpu_gem_create_in;

// SAFETY: Integers: any bytes are a value.
unsafe impl FromBytes for BoListIn {}
// SAFETY: Integers: any bytes are a value.
unsafe impl FromBytes for CsChunk {}
// SAFETY: Integers: any bytes are a value.
unsafe impl FromBytes for CsIb {}
// SAFETY: Integers: any bytes are a value.
unsafe impl FromBytes for CsFence {}
// SAFETY: Integers: any bytes are a value.
unsafe impl FromBytes for CsDependency {}
// SAFETY: Integers: any bytes are a value.
unsafe impl FromBytes for CsSemaphore {}
// SAFETY: Integers: any bytes are a value.
unsafe impl FromBytes for CsPoint {}
// SAFETY: Integers: any bytes are a value.
unsafe impl FromBytes for JobFence {}
// SAFETY: Integers and arrays of them: any bytes are a value.
unsafe impl FromBytes for GemMetadata {}
// SAFETY: Integers: any bytes are a value.
unsafe impl FromBytes for GemOp {}
// SAFETY: Integers: any bytes are a value.
unsafe impl FromBytes for GemVa {}
// SAFETY: Integers: any bytes are a value.
unsafe impl FromBytes for GemUserptr {}
// SAFETY: Integers: any bytes are a value.
unsafe impl FromBytes for GemListHandles {}

/// Declares arguments whose output takes the place of the input, with their sizes in bytes.
macro_rules! exchanges {
    ($($(#[$meta:meta])* $name:ident = $raw:ident, $size:literal;)+) => {
        $(
            $(#[$meta])*
            #[repr(transparent)]
            pub(crate) struct $name(ffi::$raw);

            const _: () = assert!(size_of::<$name>() == $size);
            // SAFETY: Integers, in a union of structures: any bytes are a value.
            unsafe impl FromBytes for $name {}
        )+
    };
}

exchanges! {
    /// The argument of BO_LIST.
    BoList = drm_amdgpu_bo_list, 24;
    /// The argument of CS.
    Cs = drm_amdgpu_cs, 24;
    /// The argument of WAIT_CS.
    WaitCs = drm_amdgpu_wait_cs, 32;
    /// The argument of WAIT_FENCES.
    WaitFences = drm_amdgpu_wait_fences, 24;
    /// The argument of FENCE_TO_HANDLE.
    FenceToHandle = drm_amdgpu_fence_to_handle, 32;
    /// The argument of CTX.
    Ctx = drm_amdgpu_ctx, 16;
    /// The argument of GEM_CREATE.
    GemCreate = drm_amdgpu_gem_create, 32;
    /// The argument of GEM_MMAP.
    GemMmap = drm_amdgpu_gem_mmap, 8;
    /// The argument of VM.
    VmArgs = drm_amdgpu_vm, 8;
    /// The argument of GEM_WAIT_IDLE.
    GemWaitIdle = drm_amdgpu_gem_wait_idle, 16;
}

impl BoList {
    /// The input.
    pub(crate) fn wanted(&self) -> &BoListIn {
        // SAFETY: Any bytes are a value.
        unsafe { self.0.in_.as_ref() }
    }

    /// Writes the number of a list as the output, or 0 for none.
    pub(crate) fn answer(&mut self, handle: u32) {
        self.0 = Default::default();
        // SAFETY: Any bytes are a value.
        unsafe { self.0.out.as_mut() }.list_handle = handle;
    }
}

impl Cs {
    /// The input.
    pub(crate) fn wanted(&self) -> &CsIn {
        // SAFETY: Any bytes are a value.
        unsafe { self.0.in_.as_ref() }
    }

    /// Writes the number of a job as the output.
    pub(crate) fn answer(&mut self, handle: u64) {
        self.0 = Default::default();
        // SAFETY: Any bytes are a value.
        unsafe { self.0.out.as_mut() }.handle = handle;
    }
}

impl WaitCs {
    /// The input.
    pub(crate) fn wanted(&self) -> &WaitCsIn {
        // SAFETY: Any bytes are a value.
        unsafe { self.0.in_.as_ref() }
    }

    /// Writes as the output whether the job is still to be done.
    pub(crate) fn answer(&mut self, is_busy: bool) {
        self.0 = Default::default();
        // SAFETY: Any bytes are a value.
        unsafe { self.0.out.as_mut() }.status = is_busy.into();
    }
}

impl WaitFences {
    /// The input.
    pub(crate) fn wanted(&self) -> &WaitFencesIn {
        // SAFETY: Any bytes are a value.
        unsafe { self.0.in_.as_ref() }
    }

    /// Writes as the output whether what was waited for has come, and which job was first.
    pub(crate) fn answer(&mut self, is_done: bool, first: u32) {
        self.0 = Default::default();
        // SAFETY: Any bytes are a value.
        let out = unsafe { self.0.out.as_mut() };
        out.status = is_done.into();
        out.first_signaled = first;
    }
}

impl FenceToHandle {
    /// The job.
    pub(crate) fn job(&self) -> &JobFence {
        // SAFETY: Any bytes are a value.
        &unsafe { self.0.in_.as_ref() }.fence
    }

    /// As what its fence is wanted, one of [`fence_as`].
    pub(crate) fn wanted_as(&self) -> u32 {
        // SAFETY: Any bytes are a value.
        unsafe { self.0.in_.as_ref() }.what
    }

    /// Writes a handle or a descriptor as the output.
    pub(crate) fn answer(&mut self, handle: u32) {
        self.0 = Default::default();
        // SAFETY: Any bytes are a value.
        unsafe { self.0.out.as_mut() }.handle = handle;
    }
}

impl Ctx {
    /// The input.
    pub(crate) fn wanted(&self) -> &CtxIn {
        // SAFETY: Any bytes are a value.
        unsafe { self.0.in_.as_ref() }
    }

    /// Writes the number of a context as the output.
    pub(crate) fn answer_id(&mut self, id: u32) {
        self.0 = Default::default();
        // SAFETY: Any bytes are a value, of each of the union's structures.
        unsafe { self.0.out.as_mut().alloc.as_mut() }.ctx_id = id;
    }

    /// Writes the output of QUERY_STATE and QUERY_STATE2: `flags`, and that there was no reset.
    pub(crate) fn answer_state(&mut self, flags: u32) {
        self.0 = Default::default();
        // SAFETY: Any bytes are a value, of each of the union's structures.
        unsafe { self.0.out.as_mut().state.as_mut() }.flags = flags.into();
    }

    /// Writes a state of the clocks as the output.
    pub(crate) fn answer_pstate(&mut self, pstate: u32) {
        self.0 = Default::default();
        // SAFETY: Any bytes are a value, of each of the union's structures.
        unsafe { self.0.out.as_mut().pstate.as_mut() }.flags = pstate;
    }
}

impl GemCreate {
    /// The input.
    pub(crate) fn wanted(&self) -> &GemCreateIn {
        // SAFETY: Any bytes are a value.
        unsafe { self.0.in_.as_ref() }
    }

    /// Writes a handle as the output.
    pub(crate) fn answer(&mut self, handle: u32) {
        self.0 = Default::default();
        // SAFETY: Any bytes are a value.
        unsafe { self.0.out.as_mut() }.handle = handle;
    }
}

impl GemMmap {
    /// The buffer's handle.
    pub(crate) fn handle(&self) -> u32 {
        // SAFETY: Any bytes are a value.
        unsafe { self.0.in_.as_ref() }.handle
    }

    /// Writes a file offset as the output.
    pub(crate) fn answer(&mut self, offset: u64) {
        // SAFETY: Any bytes are a value.
        unsafe { self.0.out.as_mut() }.addr_ptr = offset;
    }
}

impl VmArgs {
    /// The operation, and the flags.
    pub(crate) fn wanted(&self) -> (u32, u32) {
        // SAFETY: Any bytes are a value.
        let wanted = unsafe { self.0.in_.as_ref() };
        (wanted.op, wanted.flags)
    }
}

impl GemWaitIdle {
    /// The buffer's handle.
    pub(crate) fn handle(&self) -> u32 {
        // SAFETY: Any bytes are a value.
        unsafe { self.0.in_.as_ref() }.handle
    }

    /// Until when it is waited for, nanoseconds; see WAIT_CS.
    pub(crate) fn until(&self) -> u64 {
        // SAFETY: Any bytes are a value.
        unsafe { self.0.in_.as_ref() }.timeout
    }

    /// Writes as the output whether the buffer is still used, and its domain.
    pub(crate) fn answer(&mut self, is_busy: bool, domain: u32) {
        self.0 = Default::default();
        // SAFETY: Any bytes are a value.
        let out = unsafe { self.0.out.as_mut() };
        out.status = is_busy.into();
        out.domain = domain;
    }
}

/// INFO's output about the device.
pub(crate) type DeviceInfo = ffi::drm_amdgpu_info_device;
/// INFO's output: sizes of memory.
pub(crate) type VramGtt = ffi::drm_amdgpu_info_vram_gtt;
/// A kind of memory in [`MemoryInfo`].
pub(crate) type HeapInfo = ffi::drm_amdgpu_heap_info;
/// INFO's output: sizes and use of memory.
pub(crate) type MemoryInfo = ffi::drm_amdgpu_memory_info;

/// INFO's output: a page fault.
pub(crate) type GpuvmFault = ffi::drm_amdgpu_info_gpuvm_fault;

/// The hub of a [`GpuvmFault`].
pub(crate) mod vmhub {
    use crate::ffi;

    /// That of CP and shaders.
    pub(crate) const GFX: u32 = ffi::AMDGPU_VMHUB_TYPE_GFX;
    /// That of SDMA.
    pub(crate) const MM: u32 = ffi::AMDGPU_VMHUB_TYPE_MM0;
}

/// INFO's output about the engines of a kind, as `struct drm_amdgpu_info_hw_ip` without gaps.
#[repr(C)]
#[derive(Default)]
pub(crate) struct HwIpInfo {
    /// Major and minor number of amdgpu's code for them.
    pub(crate) version: [u32; 2],
    /// No flags are defined.
    pub(crate) capabilities: [u32; 2],
    /// Alignment of an IB, bytes.
    pub(crate) ib_start_alignment: u32,
    /// Alignment of its size, bytes.
    pub(crate) ib_size_alignment: u32,
    /// The rings of a context, a bit each.
    pub(crate) available_rings: u32,
    /// Version in the discovery table: major, minor, revision, in bytes.
    pub(crate) discovery_version: u32,
    /// User queues by the firmware of later chips.
    pub(crate) userq_slots: u32,
    /// What C leaves unused.
    pub(crate) gap: u32,
}

const _: () = assert!(size_of::<HwIpInfo>() == size_of::<ffi::drm_amdgpu_info_hw_ip>());

/// The argument of INFO: the query, and the destination of the output.
#[repr(transparent)]
pub(crate) struct InfoArgs(ffi::drm_amdgpu_info);

const _: () = assert!(size_of::<InfoArgs>() == 32);
// SAFETY: Integers, and a union of structures of them: any bytes are a value.
unsafe impl FromBytes for InfoArgs {}

/// The registers that READ_MMR_REG reads.
pub(crate) struct RegisterQuery {
    /// The first register, in dwords from the start of BAR5.
    pub(crate) dword: u32,
    /// The number of registers from there on.
    pub(crate) count: u32,
}

impl InfoArgs {
    /// The kind of query.
    pub(crate) fn query(&self) -> u32 {
        self.0.query
    }

    /// The registers of a READ_MMR_REG query.
    pub(crate) fn register(&self) -> RegisterQuery {
        // SAFETY: Any bytes are a value of each of the union's structures.
        let query = unsafe { self.0.__bindgen_anon_1.read_mmr_reg.as_ref() };
        RegisterQuery {
            dword: query.dword_offset,
            count: query.count,
        }
    }

    /// Kind and instance of the engines of a HW_IP query.
    pub(crate) fn hw_ip(&self) -> (u32, u32) {
        // SAFETY: Any bytes are a value of each of the union's structures.
        let query = unsafe { self.0.__bindgen_anon_1.query_hw_ip.as_ref() };
        (query.type_, query.ip_instance)
    }

    /// The sensor of a SENSOR query.
    pub(crate) fn sensor(&self) -> u32 {
        // SAFETY: Any bytes are a value of each of the union's structures.
        unsafe { self.0.__bindgen_anon_1.sensor_info.as_ref() }.type_
    }

    /// The output, cut to the room that the caller has.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no room; `EFAULT` if there is no address; `ENOMEM` if there is no
    /// memory.
    pub(crate) fn answer(&self, answer: &impl AsBytes) -> Result<IoctlReply> {
        if self.0.return_size == 0 || self.0.return_pointer == 0 {
            return Err(EINVAL);
        }
        let most = self.0.return_size as usize;
        IoctlReply::new(self.0.return_pointer, most, answer)
    }
}

/// Declares outputs, with their sizes in bytes. Their fields leave no gaps: the header declares its
/// padding.
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
    GpuvmFault, 16;
    HwIpInfo, 40;
    GemCreateIn, 32;
    VmEntry, 32;
    BoEntry, 40;
}
