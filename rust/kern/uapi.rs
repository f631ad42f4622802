// SPDX-License-Identifier: GPL-2.0
//! The commands of `linux/kfd_ioctl.h`, and its structures as ioctl arguments.

use core::mem::size_of;

use kernel::ioctl::{_IOC_DIR, _IOC_NR};
use kernel::transmute::{AsBytes, FromBytes};
use kernel::uapi::{_IOC_READ, _IOC_WRITE};

use crate::ffi;

/// Names a structure of the header, with its size in bytes.
macro_rules! arguments {
    ($($(#[$meta:meta])* $name:ident = $raw:ident, $size:literal;)+) => {
        $(
            $(#[$meta])*
            pub(crate) type $name = ffi::$raw;

            // The size shows that the fields leave no gaps: the header declares its padding.
            const _: () = assert!(size_of::<$name>() == $size);
            // SAFETY: Integers and arrays of them: any bytes are a value.
            unsafe impl FromBytes for $name {}
            // SAFETY: No padding, see above.
            unsafe impl AsBytes for $name {}
        )+
    };
}

arguments! {
    /// GET_VERSION.
    GetVersion = kfd_ioctl_get_version_args, 8;
    /// CREATE_QUEUE.
    CreateQueue = kfd_ioctl_create_queue_args, 96;
    /// DESTROY_QUEUE.
    DestroyQueue = kfd_ioctl_destroy_queue_args, 8;
    /// SET_MEMORY_POLICY.
    SetMemoryPolicy = kfd_ioctl_set_memory_policy_args, 32;
    /// GET_CLOCK_COUNTERS.
    GetClockCounters = kfd_ioctl_get_clock_counters_args, 40;
    /// One GPU's apertures.
    Apertures = kfd_process_device_apertures, 56;
    /// GET_PROCESS_APERTURES.
    GetProcessApertures = kfd_ioctl_get_process_apertures_args, 400;
    /// GET_PROCESS_APERTURES_NEW.
    GetProcessAperturesNew = kfd_ioctl_get_process_apertures_new_args, 16;
    /// CREATE_EVENT.
    CreateEvent = kfd_ioctl_create_event_args, 32;
    /// DESTROY_EVENT.
    DestroyEvent = kfd_ioctl_destroy_event_args, 8;
    /// SET_EVENT.
    SetEvent = kfd_ioctl_set_event_args, 8;
    /// RESET_EVENT.
    ResetEvent = kfd_ioctl_reset_event_args, 8;
    /// WAIT_EVENTS.
    WaitEvents = kfd_ioctl_wait_events_args, 24;
    /// An event of WAIT_EVENTS; the data about the event are at its beginning.
    EventData = kfd_event_data, 48;
    /// The data about a GPU memory access.
    MemoryException = kfd_hsa_memory_exception_data, 32;
    /// The data about a queue or GPU that was stopped.
    HwException = kfd_hsa_hw_exception_data, 16;
    /// SET_CU_MASK.
    SetCuMask = kfd_ioctl_set_cu_mask_args, 16;
    /// GET_QUEUE_WAVE_STATE.
    GetQueueWaveState = kfd_ioctl_get_queue_wave_state_args, 24;
    /// ALLOC_QUEUE_GWS.
    AllocQueueGws = kfd_ioctl_alloc_queue_gws_args, 16;
    /// SMI_EVENTS.
    SmiEvents = kfd_ioctl_smi_events_args, 8;
    /// UPDATE_QUEUE.
    UpdateQueue = kfd_ioctl_update_queue_args, 24;
    /// ACQUIRE_VM.
    AcquireVm = kfd_ioctl_acquire_vm_args, 8;
    /// ALLOC_MEMORY_OF_GPU.
    AllocMemory = kfd_ioctl_alloc_memory_of_gpu_args, 40;
    /// FREE_MEMORY_OF_GPU.
    FreeMemory = kfd_ioctl_free_memory_of_gpu_args, 8;
    /// MAP_MEMORY_TO_GPU.
    MapMemory = kfd_ioctl_map_memory_to_gpu_args, 24;
    /// UNMAP_MEMORY_FROM_GPU.
    UnmapMemory = kfd_ioctl_unmap_memory_from_gpu_args, 24;
    /// SET_SCRATCH_BACKING_VA.
    SetScratchBackingVa = kfd_ioctl_set_scratch_backing_va_args, 16;
    /// GET_TILE_CONFIG.
    GetTileConfig = kfd_ioctl_get_tile_config_args, 40;
    /// SET_TRAP_HANDLER.
    SetTrapHandler = kfd_ioctl_set_trap_handler_args, 24;
    /// SET_XNACK_MODE.
    SetXnackMode = kfd_ioctl_set_xnack_mode_args, 4;
    /// SVM, without the attributes behind it.
    SvmArgs = kfd_ioctl_svm_args, 24;
    /// An attribute of SVM.
    SvmAttribute = kfd_ioctl_svm_attribute, 8;
    /// RUNTIME_ENABLE.
    RuntimeEnable = kfd_ioctl_runtime_enable_args, 16;
    /// The beginning of a compute queue's save area.
    SaveAreaHeader = kfd_context_save_area_header, 40;
    /// GET_DMABUF_INFO.
    GetDmabufInfo = kfd_ioctl_get_dmabuf_info_args, 32;
    /// IMPORT_DMABUF.
    ImportDmabuf = kfd_ioctl_import_dmabuf_args, 24;
    /// EXPORT_DMABUF.
    ExportDmabuf = kfd_ioctl_export_dmabuf_args, 16;
    /// What a debugger learns of a process's runtime.
    RuntimeInfo = kfd_runtime_info, 16;
    /// A queue in the answer to GET_QUEUE_SNAPSHOT.
    QueueSnapshotEntry = kfd_queue_snapshot_entry, 64;
    /// A GPU in the answer to GET_DEVICE_SNAPSHOT.
    DeviceSnapshotEntry = kfd_dbg_device_info_entry, 128;
    /// DBG_TRAP: ENABLE.
    DbgEnable = kfd_ioctl_dbg_trap_enable_args, 24;
    /// DBG_TRAP: SEND_RUNTIME_EVENT.
    DbgSendRuntimeEvent = kfd_ioctl_dbg_trap_send_runtime_event_args, 16;
    /// DBG_TRAP: SET_EXCEPTIONS_ENABLED.
    DbgSetExceptionsEnabled = kfd_ioctl_dbg_trap_set_exceptions_enabled_args, 8;
    /// DBG_TRAP: SET_WAVE_LAUNCH_OVERRIDE.
    DbgLaunchOverride = kfd_ioctl_dbg_trap_set_wave_launch_override_args, 16;
    /// DBG_TRAP: SET_WAVE_LAUNCH_MODE.
    DbgLaunchMode = kfd_ioctl_dbg_trap_set_wave_launch_mode_args, 8;
    /// DBG_TRAP: SUSPEND_QUEUES.
    DbgSuspendQueues = kfd_ioctl_dbg_trap_suspend_queues_args, 24;
    /// DBG_TRAP: RESUME_QUEUES.
    DbgResumeQueues = kfd_ioctl_dbg_trap_resume_queues_args, 16;
    /// DBG_TRAP: SET_NODE_ADDRESS_WATCH.
    DbgSetWatch = kfd_ioctl_dbg_trap_set_node_address_watch_args, 24;
    /// DBG_TRAP: CLEAR_NODE_ADDRESS_WATCH.
    DbgClearWatch = kfd_ioctl_dbg_trap_clear_node_address_watch_args, 8;
    /// DBG_TRAP: SET_FLAGS.
    DbgSetFlags = kfd_ioctl_dbg_trap_set_flags_args, 8;
    /// DBG_TRAP: QUERY_DEBUG_EVENT.
    DbgQueryEvent = kfd_ioctl_dbg_trap_query_debug_event_args, 16;
    /// DBG_TRAP: QUERY_EXCEPTION_INFO.
    DbgQueryInfo = kfd_ioctl_dbg_trap_query_exception_info_args, 24;
    /// DBG_TRAP: GET_QUEUE_SNAPSHOT.
    DbgQueueSnapshot = kfd_ioctl_dbg_trap_queue_snapshot_args, 24;
    /// DBG_TRAP: GET_DEVICE_SNAPSHOT.
    DbgDeviceSnapshot = kfd_ioctl_dbg_trap_device_snapshot_args, 24;
    /// A GPU of CRIU_OP.
    CriuDevice = kfd_criu_device_bucket, 16;
    /// A buffer of CRIU_OP.
    CriuBuffer = kfd_criu_bo_bucket, 48;
    /// AVAILABLE_MEMORY.
    AvailableMemory = kfd_ioctl_get_available_memory_args, 16;
}

/// DBG_TRAP: an operation of a debugger on a process. The operation has arguments of its own.
#[repr(C)]
#[derive(pin_init::Zeroable)]
pub(crate) struct DbgTrap {
    /// The number of the process, or of one of its threads, in the caller's namespace.
    pub(crate) pid: u32,
    /// The operation, one of [`dbg_op`].
    pub(crate) op: u32,
    operation: [u64; 3],
}

const _: () = assert!(size_of::<DbgTrap>() == size_of::<ffi::kfd_ioctl_dbg_trap_args>());
// SAFETY: Integers and arrays of them: any bytes are a value.
unsafe impl FromBytes for DbgTrap {}
// SAFETY: No padding: two words of 32 bits before those of 64.
unsafe impl AsBytes for DbgTrap {}

impl DbgTrap {
    /// The arguments of the operation.
    pub(crate) fn operation<T: FromBytes + AsBytes + pin_init::Zeroable>(&self) -> T {
        let mut operation: T = pin_init::zeroed();
        let from = AsBytes::as_bytes(&self.operation);
        for (to, from) in operation.as_bytes_mut().iter_mut().zip(from) {
            *to = *from;
        }
        operation
    }

    /// Sets the arguments of the operation, which its caller gets.
    pub(crate) fn set_operation<T: AsBytes>(&mut self, operation: &T) {
        let to = AsBytes::as_bytes_mut(&mut self.operation);
        for (to, from) in to.iter_mut().zip(operation.as_bytes()) {
            *to = *from;
        }
    }
}

/// CRIU_OP. The header's structure ends in four bytes of padding.
#[repr(C)]
#[derive(pin_init::Zeroable)]
pub(crate) struct CriuArgs {
    /// The caller's array of [`CriuDevice`].
    pub(crate) devices: u64,
    /// The caller's array of [`CriuBuffer`].
    pub(crate) bos: u64,
    /// The caller's room for the private data.
    pub(crate) priv_data: u64,
    /// Bytes of the private data.
    pub(crate) priv_data_size: u64,
    /// The number of GPUs.
    pub(crate) num_devices: u32,
    /// The number of buffers.
    pub(crate) num_bos: u32,
    /// The number of other objects.
    pub(crate) num_objects: u32,
    /// The number of the process.
    pub(crate) pid: u32,
    /// The operation, one of [`criu_op`].
    pub(crate) op: u32,
    padding: u32,
}

const _: () = assert!(size_of::<CriuArgs>() == size_of::<ffi::kfd_ioctl_criu_args>());
// SAFETY: Integers: any bytes are a value.
unsafe impl FromBytes for CriuArgs {}
// SAFETY: No padding: its place is a field.
unsafe impl AsBytes for CriuArgs {}

/// The operations of CRIU_OP.
pub(crate) mod criu_op {
    pub(crate) use crate::ffi::{
        kfd_criu_op_KFD_CRIU_OP_CHECKPOINT as CHECKPOINT,
        kfd_criu_op_KFD_CRIU_OP_PROCESS_INFO as PROCESS_INFO,
        kfd_criu_op_KFD_CRIU_OP_RESTORE as RESTORE, kfd_criu_op_KFD_CRIU_OP_RESUME as RESUME,
        kfd_criu_op_KFD_CRIU_OP_UNPAUSE as UNPAUSE,
    };
}

/// The operations of DBG_TRAP.
pub(crate) mod dbg_op {
    pub(crate) use crate::ffi::{
        kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_CLEAR_NODE_ADDRESS_WATCH as CLEAR_WATCH,
        kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_DISABLE as DISABLE,
        kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_ENABLE as ENABLE,
        kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT as DEVICE_SNAPSHOT,
        kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT as QUEUE_SNAPSHOT,
        kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_QUERY_DEBUG_EVENT as QUERY_EVENT,
        kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_QUERY_EXCEPTION_INFO as QUERY_INFO,
        kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_RESUME_QUEUES as RESUME_QUEUES,
        kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_SEND_RUNTIME_EVENT as SEND_RUNTIME_EVENT,
        kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_SET_EXCEPTIONS_ENABLED as SET_EXCEPTIONS,
        kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_SET_FLAGS as SET_FLAGS,
        kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH as SET_WATCH,
        kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_MODE as LAUNCH_MODE,
        kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_OVERRIDE as LAUNCH_OVERRIDE,
        kfd_dbg_trap_operations_KFD_IOC_DBG_TRAP_SUSPEND_QUEUES as SUSPEND_QUEUES,
    };
}

/// The way of an ioctl's arguments, as the command's number implies, whatever the caller's command
/// says.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum IoctlDirection {
    /// From the caller.
    In,
    /// To the caller.
    Out,
    /// Both.
    InOut,
}

/// An ioctl of the interface.
pub(crate) struct IoctlInfo {
    /// Its number.
    nr: u32,
    /// Its name in the header, without `AMDKFD_IOC_`.
    pub(crate) name: &'static str,
    /// The way of its arguments.
    pub(crate) direction: IoctlDirection,
}

impl IoctlInfo {
    const fn new(command: u32, name: &'static str) -> Self {
        let direction = match _IOC_DIR(command) {
            _IOC_READ => IoctlDirection::Out,
            _IOC_WRITE => IoctlDirection::In,
            _ => IoctlDirection::InOut,
        };
        Self {
            nr: _IOC_NR(command),
            name,
            direction,
        }
    }

    /// Its number, one of [`nr`].
    pub(crate) fn nr(&self) -> u32 {
        self.nr
    }
}

/// Names the commands of the header: their numbers in [`nr`], and the table of all.
macro_rules! commands {
    ($($name:ident = $raw:ident;)+) => {
        /// The numbers of the ioctls, `AMDKFD_IOC_*`.
        pub(crate) mod nr {
            use kernel::ioctl::_IOC_NR;
            $(pub(crate) const $name: u32 = _IOC_NR(crate::ffi::$raw);)+
        }

        /// All ioctls, in the order of their numbers, from 1 on.
        const IOCTLS: &[IoctlInfo] = &[
            $(IoctlInfo::new(ffi::$raw, stringify!($name)),)+
        ];
    };
}

commands! {
    GET_VERSION = AMDKFD_IOC_GET_VERSION;
    CREATE_QUEUE = AMDKFD_IOC_CREATE_QUEUE;
    DESTROY_QUEUE = AMDKFD_IOC_DESTROY_QUEUE;
    SET_MEMORY_POLICY = AMDKFD_IOC_SET_MEMORY_POLICY;
    GET_CLOCK_COUNTERS = AMDKFD_IOC_GET_CLOCK_COUNTERS;
    GET_PROCESS_APERTURES = AMDKFD_IOC_GET_PROCESS_APERTURES;
    UPDATE_QUEUE = AMDKFD_IOC_UPDATE_QUEUE;
    CREATE_EVENT = AMDKFD_IOC_CREATE_EVENT;
    DESTROY_EVENT = AMDKFD_IOC_DESTROY_EVENT;
    SET_EVENT = AMDKFD_IOC_SET_EVENT;
    RESET_EVENT = AMDKFD_IOC_RESET_EVENT;
    WAIT_EVENTS = AMDKFD_IOC_WAIT_EVENTS;
    DBG_REGISTER = AMDKFD_IOC_DBG_REGISTER_DEPRECATED;
    DBG_UNREGISTER = AMDKFD_IOC_DBG_UNREGISTER_DEPRECATED;
    DBG_ADDRESS_WATCH = AMDKFD_IOC_DBG_ADDRESS_WATCH_DEPRECATED;
    DBG_WAVE_CONTROL = AMDKFD_IOC_DBG_WAVE_CONTROL_DEPRECATED;
    SET_SCRATCH_BACKING_VA = AMDKFD_IOC_SET_SCRATCH_BACKING_VA;
    GET_TILE_CONFIG = AMDKFD_IOC_GET_TILE_CONFIG;
    SET_TRAP_HANDLER = AMDKFD_IOC_SET_TRAP_HANDLER;
    GET_PROCESS_APERTURES_NEW = AMDKFD_IOC_GET_PROCESS_APERTURES_NEW;
    ACQUIRE_VM = AMDKFD_IOC_ACQUIRE_VM;
    ALLOC_MEMORY_OF_GPU = AMDKFD_IOC_ALLOC_MEMORY_OF_GPU;
    FREE_MEMORY_OF_GPU = AMDKFD_IOC_FREE_MEMORY_OF_GPU;
    MAP_MEMORY_TO_GPU = AMDKFD_IOC_MAP_MEMORY_TO_GPU;
    UNMAP_MEMORY_FROM_GPU = AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU;
    SET_CU_MASK = AMDKFD_IOC_SET_CU_MASK;
    GET_QUEUE_WAVE_STATE = AMDKFD_IOC_GET_QUEUE_WAVE_STATE;
    GET_DMABUF_INFO = AMDKFD_IOC_GET_DMABUF_INFO;
    IMPORT_DMABUF = AMDKFD_IOC_IMPORT_DMABUF;
    ALLOC_QUEUE_GWS = AMDKFD_IOC_ALLOC_QUEUE_GWS;
    SMI_EVENTS = AMDKFD_IOC_SMI_EVENTS;
    SVM = AMDKFD_IOC_SVM;
    SET_XNACK_MODE = AMDKFD_IOC_SET_XNACK_MODE;
    CRIU_OP = AMDKFD_IOC_CRIU_OP;
    AVAILABLE_MEMORY = AMDKFD_IOC_AVAILABLE_MEMORY;
    EXPORT_DMABUF = AMDKFD_IOC_EXPORT_DMABUF;
    RUNTIME_ENABLE = AMDKFD_IOC_RUNTIME_ENABLE;
    DBG_TRAP = AMDKFD_IOC_DBG_TRAP;
    CREATE_PROCESS = AMDKFD_IOC_CREATE_PROCESS;
    PROFILER = AMDKFD_IOC_PROFILER;
}

const _: () = {
    let mut index = 0;
    while index < IOCTLS.len() {
        assert!(IOCTLS[index].nr == index as u32 + 1);
        index += 1;
    }
};

/// The ioctl of number `nr`, if there is one.
pub(crate) fn ioctl(nr: u32) -> Option<&'static IoctlInfo> {
    IOCTLS.get(nr.checked_sub(1)? as usize)
}

/// `flags` of ALLOC_MEMORY_OF_GPU: the kind of memory (one of them), and its use.
pub(crate) mod alloc_flag {
    pub(crate) use crate::ffi::{
        KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM as AQL_QUEUE_MEM,
        KFD_IOC_ALLOC_MEM_FLAGS_COHERENT as COHERENT,
        KFD_IOC_ALLOC_MEM_FLAGS_CONTIGUOUS as CONTIGUOUS,
        KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL as DOORBELL,
        KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE as EXECUTABLE,
        KFD_IOC_ALLOC_MEM_FLAGS_EXT_COHERENT as EXT_COHERENT, KFD_IOC_ALLOC_MEM_FLAGS_GTT as GTT,
        KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP as MMIO_REMAP, KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC as PUBLIC,
        KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED as UNCACHED, KFD_IOC_ALLOC_MEM_FLAGS_USERPTR as USERPTR,
        KFD_IOC_ALLOC_MEM_FLAGS_VRAM as VRAM, KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE as WRITABLE,
    };
}

/// The age of an event as the caller last saw it.
pub(crate) fn last_event_age(data: &EventData) -> u64 {
    // The first word of the union.
    data.__bindgen_anon_1.bindgen_union_field[0]
}

/// Events of the files of SMI_EVENTS.
pub(crate) mod smi_event {
    pub(crate) use crate::ffi::{
        kfd_smi_event_KFD_SMI_EVENT_GPU_POST_RESET as GPU_POST_RESET,
        kfd_smi_event_KFD_SMI_EVENT_GPU_PRE_RESET as GPU_PRE_RESET,
        kfd_smi_event_KFD_SMI_EVENT_MIGRATE_END as MIGRATE_END,
        kfd_smi_event_KFD_SMI_EVENT_MIGRATE_START as MIGRATE_START,
        kfd_smi_event_KFD_SMI_EVENT_PAGE_FAULT_END as PAGE_FAULT_END,
        kfd_smi_event_KFD_SMI_EVENT_PAGE_FAULT_START as PAGE_FAULT_START,
        kfd_smi_event_KFD_SMI_EVENT_QUEUE_EVICTION as QUEUE_EVICTION,
        kfd_smi_event_KFD_SMI_EVENT_QUEUE_RESTORE as QUEUE_RESTORE,
        kfd_smi_event_KFD_SMI_EVENT_UNMAP_FROM_GPU as UNMAP_FROM_GPU,
        kfd_smi_event_KFD_SMI_EVENT_VMFAULT as VMFAULT,
    };
}

/// The causes of migrations: `KFD_MIGRATE_TRIGGERS`.
pub(crate) mod migrate_trigger {
    pub(crate) use crate::ffi::{
        KFD_MIGRATE_TRIGGERS_KFD_MIGRATE_TRIGGER_PAGEFAULT_CPU as PAGEFAULT_CPU,
        KFD_MIGRATE_TRIGGERS_KFD_MIGRATE_TRIGGER_PAGEFAULT_GPU as PAGEFAULT_GPU,
        KFD_MIGRATE_TRIGGERS_KFD_MIGRATE_TRIGGER_PREFETCH as PREFETCH,
        KFD_MIGRATE_TRIGGERS_KFD_MIGRATE_TRIGGER_TTM_EVICTION as EVICTION,
    };
}

/// The causes of a GPU losing memory of a process: `KFD_SVM_UNMAP_TRIGGERS`.
pub(crate) mod unmap_trigger {
    pub(crate) use crate::ffi::{
        KFD_SVM_UNMAP_TRIGGERS_KFD_SVM_UNMAP_TRIGGER_MMU_NOTIFY as MMU_NOTIFY,
        KFD_SVM_UNMAP_TRIGGERS_KFD_SVM_UNMAP_TRIGGER_MMU_NOTIFY_MIGRATE as MMU_NOTIFY_MIGRATE,
        KFD_SVM_UNMAP_TRIGGERS_KFD_SVM_UNMAP_TRIGGER_UNMAP_FROM_CPU as UNMAP_FROM_CPU,
    };
}

/// `event_type` of CREATE_EVENT.
pub(crate) mod event_type {
    pub(crate) use crate::ffi::{
        KFD_IOC_EVENT_DEBUG_EVENT as DEBUG_EVENT,
        KFD_IOC_EVENT_DEVICESTATECHANGE as DEVICESTATECHANGE,
        KFD_IOC_EVENT_HW_EXCEPTION as HW_EXCEPTION, KFD_IOC_EVENT_MEMORY as MEMORY,
        KFD_IOC_EVENT_NODECHANGE as NODECHANGE, KFD_IOC_EVENT_PROFILE_EVENT as PROFILE_EVENT,
        KFD_IOC_EVENT_QUEUE_EVENT as QUEUE_EVENT, KFD_IOC_EVENT_SIGNAL as SIGNAL,
        KFD_IOC_EVENT_SYSTEM_EVENT as SYSTEM_EVENT,
    };
}

pub(crate) use ffi::{
    KFD_DBG_QUEUE_ERROR_BIT, KFD_DBG_QUEUE_INVALID_BIT, KFD_IOC_QUEUE_TYPE_COMPUTE,
    KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, KFD_IOC_QUEUE_TYPE_SDMA, KFD_IOC_QUEUE_TYPE_SDMA_XGMI,
};
pub(crate) use ffi::{
    KFD_HW_EXCEPTION_GPU_HANG, KFD_HW_EXCEPTION_PER_ENGINE_RESET, KFD_HW_EXCEPTION_WHOLE_GPU_RESET,
    KFD_IOC_CACHE_POLICY_COHERENT, KFD_IOC_CACHE_POLICY_NONCOHERENT, KFD_IOC_WAIT_RESULT_COMPLETE,
    KFD_IOC_WAIT_RESULT_FAIL, KFD_IOC_WAIT_RESULT_TIMEOUT, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK,
    KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK, KFD_SIGNAL_EVENT_LIMIT,
};

/// `flags` of EXPORT_DMABUF: those of `open`.
pub(crate) mod open_flag {
    pub(crate) use crate::ffi::{O_ACCMODE as ACCESS, O_CLOEXEC as CLOEXEC};
}
