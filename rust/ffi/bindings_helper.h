/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The input of bindgen for the driver: the kernel's headers that the kernel crate's bindings leave
 * out, our shims, and constants that bindgen cannot see because they are macros (RKFD_CONST_X
 * becomes X).
 */
#include <linux/anon_inodes.h>
#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/hmm.h>
#include <linux/io.h>
#include <linux/ioport.h>
#include <linux/kthread.h>
#include <linux/memremap.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/pci.h>
#include <linux/suspend.h>
#include <drm/drm_auth.h>
#include <drm/drm_device.h>
#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <drm/drm_ioctl.h>
#include <drm/drm_print.h>
#include <drm/drm_syncobj.h>
#include <drm/drm_vma_manager.h>
#include <drm/gpu_scheduler.h>
#include <uapi/drm/amdgpu_drm.h>
#include <uapi/linux/kfd_ioctl.h>
#include "rkfd_shims.h"

/* Pages */
const gfp_t RKFD_CONST___GFP_ACCOUNT = __GFP_ACCOUNT;
const gfp_t RKFD_CONST___GFP_NORETRY = __GFP_NORETRY;
const gfp_t RKFD_CONST___GFP_RETRY_MAYFAIL = __GFP_RETRY_MAYFAIL;
const gfp_t RKFD_CONST_GFP_HIGHUSER_MOVABLE = GFP_HIGHUSER_MOVABLE;

/* Devices that have hung */
const unsigned long RKFD_CONST_DRM_WEDGE_RECOVERY_NONE = DRM_WEDGE_RECOVERY_NONE;
const unsigned long RKFD_CONST_DRM_WEDGE_RECOVERY_REBIND = DRM_WEDGE_RECOVERY_REBIND;

/* Announced transitions of the machine */
const unsigned long RKFD_CONST_PM_HIBERNATION_PREPARE = PM_HIBERNATION_PREPARE;
const unsigned long RKFD_CONST_PM_RESTORE_PREPARE = PM_RESTORE_PREPARE;
const unsigned long RKFD_CONST_PM_SUSPEND_PREPARE = PM_SUSPEND_PREPARE;

/* Sizes that the generated structures must have: some of their types are opaque to bindgen. */
const size_t RKFD_CONST_SIZEOF_DRM_GPU_SCHEDULER = sizeof(struct drm_gpu_scheduler);
const size_t RKFD_CONST_SIZEOF_DRM_SCHED_ENTITY = sizeof(struct drm_sched_entity);
const size_t RKFD_CONST_SIZEOF_DRM_SCHED_FENCE = sizeof(struct drm_sched_fence);
const size_t RKFD_CONST_SIZEOF_DRM_SCHED_JOB = sizeof(struct drm_sched_job);

/* Commands: macros of macros */
#ifndef AMDKFD_IOC_CREATE_PROCESS
#define AMDKFD_IOC_CREATE_PROCESS AMDKFD_IO(0x27)
#endif
#ifndef AMDKFD_IOC_PROFILER
#define AMDKFD_IOC_PROFILER AMDKFD_IO(0x28)
#endif
const unsigned int RKFD_CONST_AMDKFD_IOC_GET_VERSION = AMDKFD_IOC_GET_VERSION;
const unsigned int RKFD_CONST_AMDKFD_IOC_CREATE_QUEUE = AMDKFD_IOC_CREATE_QUEUE;
const unsigned int RKFD_CONST_AMDKFD_IOC_DESTROY_QUEUE = AMDKFD_IOC_DESTROY_QUEUE;
const unsigned int RKFD_CONST_AMDKFD_IOC_SET_MEMORY_POLICY = AMDKFD_IOC_SET_MEMORY_POLICY;
const unsigned int RKFD_CONST_AMDKFD_IOC_GET_CLOCK_COUNTERS = AMDKFD_IOC_GET_CLOCK_COUNTERS;
const unsigned int RKFD_CONST_AMDKFD_IOC_GET_PROCESS_APERTURES = AMDKFD_IOC_GET_PROCESS_APERTURES;
const unsigned int RKFD_CONST_AMDKFD_IOC_UPDATE_QUEUE = AMDKFD_IOC_UPDATE_QUEUE;
const unsigned int RKFD_CONST_AMDKFD_IOC_CREATE_EVENT = AMDKFD_IOC_CREATE_EVENT;
const unsigned int RKFD_CONST_AMDKFD_IOC_DESTROY_EVENT = AMDKFD_IOC_DESTROY_EVENT;
const unsigned int RKFD_CONST_AMDKFD_IOC_SET_EVENT = AMDKFD_IOC_SET_EVENT;
const unsigned int RKFD_CONST_AMDKFD_IOC_RESET_EVENT = AMDKFD_IOC_RESET_EVENT;
const unsigned int RKFD_CONST_AMDKFD_IOC_WAIT_EVENTS = AMDKFD_IOC_WAIT_EVENTS;
const unsigned int RKFD_CONST_AMDKFD_IOC_DBG_REGISTER_DEPRECATED =
	AMDKFD_IOC_DBG_REGISTER_DEPRECATED;
const unsigned int RKFD_CONST_AMDKFD_IOC_DBG_UNREGISTER_DEPRECATED =
	AMDKFD_IOC_DBG_UNREGISTER_DEPRECATED;
const unsigned int RKFD_CONST_AMDKFD_IOC_DBG_ADDRESS_WATCH_DEPRECATED =
	AMDKFD_IOC_DBG_ADDRESS_WATCH_DEPRECATED;
const unsigned int RKFD_CONST_AMDKFD_IOC_DBG_WAVE_CONTROL_DEPRECATED =
	AMDKFD_IOC_DBG_WAVE_CONTROL_DEPRECATED;
const unsigned int RKFD_CONST_AMDKFD_IOC_SET_SCRATCH_BACKING_VA = AMDKFD_IOC_SET_SCRATCH_BACKING_VA;
const unsigned int RKFD_CONST_AMDKFD_IOC_GET_TILE_CONFIG = AMDKFD_IOC_GET_TILE_CONFIG;
const unsigned int RKFD_CONST_AMDKFD_IOC_SET_TRAP_HANDLER = AMDKFD_IOC_SET_TRAP_HANDLER;
const unsigned int RKFD_CONST_AMDKFD_IOC_GET_PROCESS_APERTURES_NEW =
	AMDKFD_IOC_GET_PROCESS_APERTURES_NEW;
const unsigned int RKFD_CONST_AMDKFD_IOC_ACQUIRE_VM = AMDKFD_IOC_ACQUIRE_VM;
const unsigned int RKFD_CONST_AMDKFD_IOC_ALLOC_MEMORY_OF_GPU = AMDKFD_IOC_ALLOC_MEMORY_OF_GPU;
const unsigned int RKFD_CONST_AMDKFD_IOC_FREE_MEMORY_OF_GPU = AMDKFD_IOC_FREE_MEMORY_OF_GPU;
const unsigned int RKFD_CONST_AMDKFD_IOC_MAP_MEMORY_TO_GPU = AMDKFD_IOC_MAP_MEMORY_TO_GPU;
const unsigned int RKFD_CONST_AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU = AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU;
const unsigned int RKFD_CONST_AMDKFD_IOC_SET_CU_MASK = AMDKFD_IOC_SET_CU_MASK;
const unsigned int RKFD_CONST_AMDKFD_IOC_GET_QUEUE_WAVE_STATE = AMDKFD_IOC_GET_QUEUE_WAVE_STATE;
const unsigned int RKFD_CONST_AMDKFD_IOC_GET_DMABUF_INFO = AMDKFD_IOC_GET_DMABUF_INFO;
const unsigned int RKFD_CONST_AMDKFD_IOC_IMPORT_DMABUF = AMDKFD_IOC_IMPORT_DMABUF;
const unsigned int RKFD_CONST_AMDKFD_IOC_ALLOC_QUEUE_GWS = AMDKFD_IOC_ALLOC_QUEUE_GWS;
const unsigned int RKFD_CONST_AMDKFD_IOC_SMI_EVENTS = AMDKFD_IOC_SMI_EVENTS;
const unsigned int RKFD_CONST_AMDKFD_IOC_SVM = AMDKFD_IOC_SVM;
const unsigned int RKFD_CONST_AMDKFD_IOC_SET_XNACK_MODE = AMDKFD_IOC_SET_XNACK_MODE;
const unsigned int RKFD_CONST_AMDKFD_IOC_CRIU_OP = AMDKFD_IOC_CRIU_OP;
const unsigned int RKFD_CONST_AMDKFD_IOC_AVAILABLE_MEMORY = AMDKFD_IOC_AVAILABLE_MEMORY;
const unsigned int RKFD_CONST_AMDKFD_IOC_EXPORT_DMABUF = AMDKFD_IOC_EXPORT_DMABUF;
const unsigned int RKFD_CONST_AMDKFD_IOC_RUNTIME_ENABLE = AMDKFD_IOC_RUNTIME_ENABLE;
const unsigned int RKFD_CONST_AMDKFD_IOC_DBG_TRAP = AMDKFD_IOC_DBG_TRAP;
const unsigned int RKFD_CONST_AMDKFD_IOC_CREATE_PROCESS = AMDKFD_IOC_CREATE_PROCESS;
const unsigned int RKFD_CONST_AMDKFD_IOC_PROFILER = AMDKFD_IOC_PROFILER;
