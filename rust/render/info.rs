// SPDX-License-Identifier: GPL-2.0
//! `AMDGPU_INFO`: queries about the device. The driver answers the queries of libdrm's
//! initialization, which depends on them, and of the others those about memory and sensors.

use hw::ih::HubKind;
use hw::ip::IpBlock;
use hw::va::{LARGE_PAGE_SIZE, PAGE_SIZE, USER_VA_END};
use kernel::{prelude::*, sync::Arc};

use super::{contexts::DMA_RINGS, file::RenderFile};
use crate::{
    ip::sensor::SensorKind,
    kern::drm::{
        file::OpenDrmFile,
        ioctl::{DrmIoctl, IoctlReply},
        uapi::{
            self, hw_ip, vmhub, DeviceInfo, GpuvmFault, HeapInfo, HwIpInfo, InfoArgs, MemoryInfo,
            VramGtt,
        },
        DrmDriver,
    },
    mem::{account, vm::Vm, GpuMemory},
};

// The table of chips uses the header's numbers.
const _: () = assert!(
    uapi::FAMILY_AI == hw::asic::DRM_FAMILY_AI && uapi::VRAM_TYPE_HBM == hw::asic::DRM_VRAM_HBM
);

/// The most registers of one query.
const MAX_REGISTERS: u32 = 128;
/// The first GPU address that user space should use.
const FIRST_ADDRESS: u64 = 0x20_0000;

/// Alignment of indirect buffers that amdgpu asks for, bytes.
const IB_START_ALIGNMENT: u32 = 256;

/// The ioctl.
pub(super) struct InfoQuery;

impl<D: DrmDriver<Data = Arc<GpuMemory>, File = RenderFile>> DrmIoctl<D> for InfoQuery {
    type Args = InfoArgs;
    type Input = ();
    type Answer = IoctlReply;

    const COMMAND: u32 = uapi::write::<InfoArgs>(uapi::INFO_NR);

    const NAME: &'static CStr = c"AMDGPU_INFO";

    fn call(file: &OpenDrmFile<'_, D>, info: &mut InfoArgs, (): &()) -> Result<IoctlReply> {
        let gpu = file.device();
        match info.query() {
            uapi::ACCEL_WORKING => info.answer(&1u32),
            uapi::HW_IP_INFO => info.answer(&engines(gpu, info.hw_ip())?),
            uapi::HW_IP_COUNT => info.answer(&engine_count(gpu, info.hw_ip())?),
            uapi::READ_MMR_REG => info.answer(&register(gpu, info)?),
            uapi::DEV_INFO => info.answer(&device(gpu)),
            uapi::VRAM_USAGE => info.answer(&gpu.vram.used()),
            // The CPU can access all of VRAM.
            uapi::VIS_VRAM_USAGE => info.answer(&gpu.vram.used()),
            uapi::GTT_USAGE => info.answer(&gpu.system_used()),
            uapi::VRAM_GTT => info.answer(&VramGtt {
                vram_size: gpu.vram.total(),
                vram_cpu_accessible_size: gpu.vram.total(),
                gtt_size: account::system_limit(),
            }),
            uapi::MEMORY => info.answer(&memory(gpu)),
            uapi::GPUVM_FAULT => info.answer(&fault(file.data().vm())),
            uapi::SENSOR => info.answer(&sensor(gpu, info.sensor())?),
            _ => Err(EINVAL),
        }
    }
}

/// The answer to `HW_IP_INFO` for engines of a kind and instance: there are those of SDMA. Others
/// have no rings.
///
/// # Errors
///
/// `EINVAL` for an unknown kind or instance.
fn engines(gpu: &GpuMemory, (ip, instance): (u32, u32)) -> Result<HwIpInfo> {
    if ip >= hw_ip::NUM || instance != 0 {
        return Err(EINVAL);
    }
    if ip != hw_ip::DMA {
        return Ok(HwIpInfo::default());
    }
    let known = gpu.hw.ips().version(IpBlock::Sdma).ok_or(ENODEV)?;
    Ok(HwIpInfo {
        version: gpu.hw.asic.sdma.code_version,
        ib_start_alignment: IB_START_ALIGNMENT,
        ib_size_alignment: 4,
        available_rings: (1 << DMA_RINGS) - 1,
        discovery_version: known.packed(),
        ..HwIpInfo::default()
    })
}

/// The answer to `HW_IP_COUNT`: all engines of SDMA.
///
/// # Errors
///
/// `EINVAL` for other kinds.
fn engine_count(gpu: &GpuMemory, (ip, _): (u32, u32)) -> Result<u32> {
    if ip != hw_ip::DMA {
        return Err(EINVAL);
    }
    Ok(gpu.hw.asic.sdma.engines().into())
}

/// The value of a register that user space may read.
///
/// # Errors
///
/// `EFAULT` for other registers; `EINVAL` if there are too many.
fn register(gpu: &GpuMemory, info: &InfoArgs) -> Result<u32> {
    let query = info.register();
    if query.count > MAX_REGISTERS {
        return Err(EINVAL);
    }
    if query.count != 1 {
        return Err(EFAULT);
    }
    gpu.hw.user_register(query.dword)
}

/// The reading of the sensor `number`.
///
/// # Errors
///
/// `ENOENT` if no SMU provides readings; `EINVAL` for an unknown sensor and, as in amdgpu, for any
/// failure of the SMU.
fn sensor(gpu: &GpuMemory, number: u32) -> Result<u32> {
    // The load includes copies, which the SMU does not see.
    if number == uapi::SENSOR_GPU_LOAD {
        return Ok(gpu.hw.busy_percent());
    }
    let sensors = gpu.hw.sensors.as_ref().ok_or(ENOENT)?;
    let sensor = match number {
        uapi::SENSOR_GFX_SCLK => SensorKind::GraphicsClock,
        uapi::SENSOR_GFX_MCLK => SensorKind::MemoryClock,
        uapi::SENSOR_GPU_TEMP => SensorKind::Edge,
        uapi::SENSOR_GPU_AVG_POWER => SensorKind::Power,
        uapi::SENSOR_GPU_INPUT_POWER => SensorKind::InputPower,
        uapi::SENSOR_VDDGFX => SensorKind::GraphicsVoltage,
        // The "standard" state of amdgpu has the lowest clocks if graphics has no steps between two
        // clocks.
        uapi::SENSOR_STABLE_PSTATE_GFX_SCLK => SensorKind::LowestGraphicsClock,
        uapi::SENSOR_STABLE_PSTATE_GFX_MCLK => SensorKind::LowestMemoryClock,
        uapi::SENSOR_PEAK_PSTATE_GFX_SCLK => SensorKind::HighestGraphicsClock,
        uapi::SENSOR_PEAK_PSTATE_GFX_MCLK => SensorKind::HighestMemoryClock,
        _ => return Err(EINVAL),
    };
    sensors.sense(sensor).map_err(|_| EINVAL)
}

/// The answer to `DEV_INFO`.
fn device(gpu: &GpuMemory) -> DeviceInfo {
    let asic = gpu.hw.asic;
    DeviceInfo {
        device_id: asic.ids.device.into(),
        chip_rev: gpu.hw.revision,
        external_rev: gpu.hw.revision.saturating_add(asic.ids.external_revision),
        pci_rev: gpu.hw.pci_revision.into(),
        family: asic.ids.drm_family,
        num_shader_engines: asic.gfx.shader_engines,
        num_shader_arrays_per_engine: asic.gfx.arrays_per_engine,
        gpu_counter_freq: asic.gfx.reference_khz,
        // In kHz, from MHz.
        max_engine_clock: u64::from(asic.gfx.max_mhz) * 1000,
        max_memory_clock: u64::from(asic.vram.max_mhz) * 1000,
        cu_active_number: gpu.hw.cus.count(),
        cu_bitmap: gpu.hw.cus.bitmap(),
        num_hw_gfx_contexts: asic.gfx.graphics_contexts,
        virtual_address_offset: FIRST_ADDRESS,
        // The half above it belongs to the driver, so there are no high addresses.
        virtual_address_max: USER_VA_END,
        virtual_address_alignment: PAGE_SIZE as u32,
        pte_fragment_size: LARGE_PAGE_SIZE as u32,
        gart_page_size: PAGE_SIZE as u32,
        vram_type: asic.vram.drm_type,
        vram_bit_width: asic.vram.width,
        wave_front_size: asic.gfx.wave_size,
        num_cu_per_sh: asic.gfx.cus_per_array,
        ..pin_init::zeroed()
    }
}

/// The answer to `GPUVM_FAULT`: zeros if there was none.
fn fault(vm: &Vm) -> GpuvmFault {
    vm.last_fault()
        .map_or(pin_init::zeroed(), |fault| GpuvmFault {
            addr: fault.address,
            status: fault.status,
            vmhub: match fault.hub {
                HubKind::Gfx => vmhub::GFX,
                HubKind::Mm => vmhub::MM,
            },
        })
}

/// The answer to `MEMORY`.
fn memory(gpu: &GpuMemory) -> MemoryInfo {
    let heap = |total: u64, used: u64| HeapInfo {
        total_heap_size: total,
        usable_heap_size: total,
        heap_usage: used.min(total),
        max_allocation: total / 4 * 3,
    };
    let (total, used) = (gpu.vram.total(), gpu.vram.used());
    MemoryInfo {
        vram: heap(total, used),
        cpu_accessible_vram: heap(total, used),
        gtt: heap(account::system_limit(), gpu.system_used()),
    }
}
