/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The expected answer to each kind of bad input: one table for all ioctl tests. Where amdkfd's
 * answer differs from rkfd's, the second column has it, so that the tests also pass on a GPU
 * host. That column holds the answers of Linux 7.3 on the device model. A test of a feature
 * that amdkfd lacks, or implements differently as a whole, begins with SKIP_ON_AMDKFD.
 */
#ifndef RKFD_TEST_EXPECT_H
#define RKFD_TEST_EXPECT_H

#include <errno.h>

#include "kfd.h"

/* The kernel's internal "not supported", which amdkfd returns to user space. */
#define KFD_ENOTSUPP	524

struct kfd_expect {
	int rkfd;
	int amdkfd;
};

#define SAME(e)			{ (e), (e) }
#define DIFFERS(ours, theirs)	{ (ours), (theirs) }

/* Commands. */
static const struct kfd_expect answer_unknown_command = SAME(ENOTTY);
static const struct kfd_expect answer_bad_argument_pointer = SAME(EFAULT);
static const struct kfd_expect answer_file_of_other_process = SAME(EBADF);

/* Devices and VMs. */
static const struct kfd_expect answer_unknown_gpu = SAME(EINVAL);
static const struct kfd_expect answer_vm_not_acquired = SAME(ENODEV);
static const struct kfd_expect answer_vm_bad_fd = SAME(EINVAL);
static const struct kfd_expect answer_vm_foreign_file = SAME(EINVAL);
static const struct kfd_expect answer_vm_other_file = SAME(EBUSY);
static const struct kfd_expect answer_vm_of_other_process = DIFFERS(EBUSY, EINVAL);
/* amdkfd's process lives as long as its address space. */
static const struct kfd_expect answer_vm_after_close = DIFFERS(0, EBUSY);
static const struct kfd_expect answer_too_many_nodes = SAME(EINVAL);
static const struct kfd_expect answer_bad_policy = SAME(EINVAL);

/* Memory. */
static const struct kfd_expect answer_size_zero = SAME(EINVAL);
static const struct kfd_expect answer_size_wrong = SAME(EINVAL);
static const struct kfd_expect answer_address_overflow = SAME(EINVAL);
static const struct kfd_expect answer_no_memory_type = SAME(EINVAL);
static const struct kfd_expect answer_two_memory_types = DIFFERS(EINVAL, 0);
/* A ring mapped twice, which gfx9 does not need. */
static const struct kfd_expect answer_ring_twice = DIFFERS(EINVAL, 0);
static const struct kfd_expect answer_more_than_vram = SAME(ENOMEM);
static const struct kfd_expect answer_userptr_nothing_there = SAME(EFAULT);
/* amdkfd needs write access whatever the flags say, and its MAP succeeds without the pages. */
static const struct kfd_expect answer_userptr_not_writable = DIFFERS(EFAULT, EPERM);
static const struct kfd_expect answer_userptr_gone = DIFFERS(EFAULT, 0);
static const struct kfd_expect answer_unknown_handle_free = SAME(EINVAL);
static const struct kfd_expect answer_unknown_handle_map = DIFFERS(EINVAL, ENOMEM);
static const struct kfd_expect answer_free_while_mapped = SAME(EBUSY);
static const struct kfd_expect answer_ring_in_use = SAME(EBUSY);
static const struct kfd_expect answer_map_no_devices = SAME(EINVAL);
static const struct kfd_expect answer_map_success_beyond = SAME(EINVAL);
static const struct kfd_expect answer_map_bad_array = SAME(EFAULT);
static const struct kfd_expect answer_map_huge_array = DIFFERS(EINVAL, ENOMEM);

/* Queues. */
static const struct kfd_expect answer_queue_type_unknown = DIFFERS(EOPNOTSUPP, KFD_ENOTSUPP);
static const struct kfd_expect answer_queue_percentage = SAME(EINVAL);
static const struct kfd_expect answer_queue_priority = SAME(EINVAL);
static const struct kfd_expect answer_ring_not_power_of_two = SAME(EINVAL);
static const struct kfd_expect answer_ring_unmapped = SAME(EINVAL);
static const struct kfd_expect answer_ring_inside_buffer = SAME(EINVAL);
static const struct kfd_expect answer_ring_other_size = SAME(EINVAL);
static const struct kfd_expect answer_pointer_unmapped = SAME(EINVAL);
static const struct kfd_expect answer_pointer_in_kernel = SAME(EFAULT);
/* amdkfd checks the page only. */
static const struct kfd_expect answer_pointer_unaligned = DIFFERS(EINVAL, 0);
static const struct kfd_expect answer_update_ring_unmapped = DIFFERS(EINVAL, EFAULT);
static const struct kfd_expect answer_queue_unknown_destroy = SAME(EINVAL);
static const struct kfd_expect answer_queue_unknown_update = DIFFERS(EINVAL, EFAULT);

/* Settings. */
static const struct kfd_expect answer_vm_not_acquired_trap = DIFFERS(ENODEV, ESRCH);
static const struct kfd_expect answer_trap_handler_in_kernel = DIFFERS(EFAULT, 0);
/* amdkfd allows it where the GPU can retry, rkfd where there is shared virtual memory. */
static const struct kfd_expect answer_xnack_on = SAME(0);
static const struct kfd_expect answer_xnack_with_queues = SAME(EBUSY);
static const struct kfd_expect answer_runtime_twice = SAME(EBUSY);
static const struct kfd_expect answer_runtime_with_queues = SAME(EEXIST);
static const struct kfd_expect answer_eop_size = SAME(EINVAL);
static const struct kfd_expect answer_eop_unmapped = SAME(EINVAL);
static const struct kfd_expect answer_eop_inside_page = DIFFERS(EINVAL, 0);
static const struct kfd_expect answer_save_size = SAME(EINVAL);
static const struct kfd_expect answer_save_unmapped = SAME(EINVAL);
static const struct kfd_expect answer_cu_mask_size = SAME(EINVAL);
/* amdkfd lets the waves wait for ever. */
static const struct kfd_expect answer_cu_mask_empty = DIFFERS(EINVAL, 0);
static const struct kfd_expect answer_cu_mask_unknown_queue = DIFFERS(EINVAL, EFAULT);
static const struct kfd_expect answer_wave_state_active = SAME(EINVAL);
static const struct kfd_expect answer_wave_state_unknown_queue = DIFFERS(EINVAL, EFAULT);
/* amdkfd provides it where firmware schedules. */
static const struct kfd_expect answer_gws_none = DIFFERS(ENODEV, 0);
static const struct kfd_expect answer_gws_unknown_queue = SAME(EINVAL);
static const struct kfd_expect answer_queues_too_many = SAME(ENOSPC);

/* Events. */
static const struct kfd_expect answer_event_type_unknown = DIFFERS(EINVAL, 0);
static const struct kfd_expect answer_event_not_settable = SAME(EINVAL);
static const struct kfd_expect answer_event_unknown = SAME(EINVAL);
static const struct kfd_expect answer_events_too_many = SAME(ENOSPC);
static const struct kfd_expect answer_wait_too_many = DIFFERS(EINVAL, ENOMEM);
static const struct kfd_expect answer_wait_event_gone = SAME(EIO);
static const struct kfd_expect answer_event_page_free = SAME(EPERM);
static const struct kfd_expect answer_event_page_again = SAME(EINVAL);
static const struct kfd_expect answer_event_page_bad = SAME(EINVAL);
static const struct kfd_expect answer_event_page_in_vram = DIFFERS(EINVAL, 0);

/* Sharing. */
static const struct kfd_expect answer_export_unknown = SAME(EINVAL);
static const struct kfd_expect answer_export_userptr = SAME(EPERM);
/* amdkfd checks close-on-exec only. */
static const struct kfd_expect answer_export_flags = DIFFERS(EINVAL, 0);
static const struct kfd_expect answer_dmabuf_bad_fd = SAME(EBADF);
static const struct kfd_expect answer_dmabuf_other_file = SAME(EINVAL);
static const struct kfd_expect answer_dmabuf_foreign_info = SAME(EINVAL);
static const struct kfd_expect answer_gem_va_overlap = DIFFERS(EEXIST, EINVAL);

static const struct kfd_expect answer_gem_size_zero = DIFFERS(EINVAL, ENOSPC);
static const struct kfd_expect answer_gem_no_domain = DIFFERS(EINVAL, 0);
static const struct kfd_expect answer_gem_gds = DIFFERS(EINVAL, 0);
static const struct kfd_expect answer_gem_unmap_ring = DIFFERS(EBUSY, 0);

/* mmap. */
static const struct kfd_expect answer_mmap_length = SAME(EINVAL);
static const struct kfd_expect answer_mmap_unknown_gpu = SAME(ENODEV);
static const struct kfd_expect answer_mmap_reserved_type = SAME(EINVAL);
static const struct kfd_expect answer_mmap_no_event_page = SAME(EINVAL);
static const struct kfd_expect answer_mmap_no_such_buffer = SAME(EINVAL);
static const struct kfd_expect answer_mmap_foreign_buffer = SAME(EACCES);

/* Render node. */
/* Shared virtual memory. */
static const struct kfd_expect answer_svm_wraps = SAME(EOVERFLOW);

static const struct kfd_expect answer_drm_unknown_query = SAME(EINVAL);
/* amdgpu takes note of it, and has nothing to set without an SMU. */
static const struct kfd_expect answer_stable_pstate = DIFFERS(EOPNOTSUPP, 0);
static const struct kfd_expect answer_sensor_without_smu = SAME(ENOENT);
static const struct kfd_expect answer_drm_unknown_command = DIFFERS(EINVAL, EINVAL);

static inline int kfd_expected(struct kfd_expect e)
{
	return kfd_is_rkfd() ? e.rkfd : e.amdkfd;
}

/* amdgpu does not report CPU access to VRAM where the CPU can access all of it. */
static inline uint32_t kfd_info_flags(uint32_t flags)
{
	return kfd_is_rkfd() ? flags : flags & ~(uint32_t)KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC;
}

/* Expects @call to return the answer that the table has for @what. */
#define EXPECT_ANSWER(what, call)	EXPECT_EQ(kfd_expected(answer_##what), (call))

#endif /* RKFD_TEST_EXPECT_H */
