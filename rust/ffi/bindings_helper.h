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
#include <linux/memremap.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/pci.h>
#include <linux/suspend.h>
#include <drm/drm_device.h>
#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <drm/drm_ioctl.h>
#include <drm/drm_print.h>
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
