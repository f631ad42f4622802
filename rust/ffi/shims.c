// SPDX-License-Identifier: GPL-2.0
/* The shims of include/rkfd_shims.h. */
#include <linux/backing-dev.h>
#include <linux/compat.h>
#include <linux/cpufreq.h>
#include <linux/cpumask.h>
#include <linux/devcoredump.h>
#include <linux/device_cgroup.h>
#include <linux/dmi.h>
#include <linux/hmm.h>
#include <linux/hwmon.h>
#include <linux/magic.h>
#include <linux/nodemask.h>
#include <linux/suspend.h>
#include <linux/sync_file.h>
#include <linux/topology.h>
#include <linux/unaligned.h>
#include <linux/userfaultfd_k.h>

#include <asm/processor.h>

#include <drm/drm_file.h>
#include <drm/drm_ioctl.h>

#include "rkfd_shims.h"

/* I/O */

u64 rkfd_readq(const void __iomem *addr)
{
	return readq(addr);
}

void rkfd_wmb(void)
{
	/* For kern/barrier.rs, whose callers say what it pairs with. */
	wmb();
}

void rkfd_rmb(void)
{
	/* As above. */
	rmb();
}

/* Devices */

void rkfd_device_lock(struct device *dev)
{
	device_lock(dev);
}

void rkfd_device_unlock(struct device *dev)
{
	device_unlock(dev);
}

/* 0 if the caller's cgroups let it read and write the render node of this minor number. */
int rkfd_devcgroup_check_render_node(unsigned int minor)
{
	return devcgroup_check_permission(DEVCG_DEV_CHAR, DRM_MAJOR, minor,
					  DEVCG_ACC_READ | DEVCG_ACC_WRITE);
}

/* Core dumps */

void rkfd_dev_coredumpv(struct device *dev, void *data, size_t size)
{
	dev_coredumpv(dev, data, size, GFP_KERNEL);
}

void rkfd_dev_coredump_put(struct device *dev)
{
	dev_coredump_put(dev);
}

/* Power */

bool rkfd_is_shutting_down(void)
{
	return system_state >= SYSTEM_HALT && system_state <= SYSTEM_RESTART;
}

/* Does nothing in a kernel without support for sleep. */
int rkfd_register_pm_notifier(struct notifier_block *block)
{
	return register_pm_notifier(block);
}

void rkfd_unregister_pm_notifier(struct notifier_block *block)
{
	unregister_pm_notifier(block);
}

int rkfd_notifier_from_errno(int err)
{
	return notifier_from_errno(err);
}

/* Sensors */

/* NULL in a kernel without hwmon. */
struct device *rkfd_hwmon_device_register(struct device *parent, const char *name,
					  const struct attribute_group **groups)
{
#if IS_ENABLED(CONFIG_HWMON)
	/* hwmon has no sensor type for clocks, so all sensors are attributes, as in amdgpu. */
	return hwmon_device_register_with_groups(parent, name, NULL, groups);
#else
	return NULL;
#endif
}

void rkfd_hwmon_device_unregister(struct device *dev)
{
#if IS_ENABLED(CONFIG_HWMON)
	hwmon_device_unregister(dev);
#endif
}

/* Device memory */

bool rkfd_gpu_buddy_block_is_clear(struct gpu_buddy_block *block)
{
	return gpu_buddy_block_is_clear(block);
}

/* Pages */

unsigned long rkfd_totalram_pages(void)
{
	return totalram_pages();
}

unsigned long rkfd_mem_available(void)
{
	return max(si_mem_available(), 0l);
}

void *rkfd_page_address(const struct page *page)
{
	return page_address(page);
}

unsigned long rkfd_page_to_pfn(const struct page *page)
{
	return page_to_pfn(page);
}

unsigned long rkfd_virt_to_pfn(const void *address)
{
	return page_to_pfn(virt_to_page(address));
}

void *rkfd_pfn_address(unsigned long pfn)
{
	return page_address(pfn_to_page(pfn));
}

/* Locks */

int rkfd_mutex_lock_killable(struct mutex *lock)
{
	return mutex_lock_killable(lock);
}

/* Memory of processes */

void rkfd_mmu_interval_set_seq(struct mmu_interval_notifier *notifier,
			       unsigned long seq)
{
	mmu_interval_set_seq(notifier, seq);
}

bool rkfd_mmu_interval_read_retry(struct mmu_interval_notifier *notifier,
				  unsigned long seq)
{
	return mmu_interval_read_retry(notifier, seq);
}

struct page *rkfd_hmm_pfn_to_page(unsigned long hmm_pfn)
{
	return hmm_pfn_to_page(hmm_pfn);
}

/*
 * The number of contiguous pages, from this one on, that one page-table entry of the process maps.
 * The low bits of @hmm_pfn are the number of the page's frame.
 */
unsigned long rkfd_hmm_pfn_pages(unsigned long hmm_pfn)
{
	const unsigned long pages = 1ul << hmm_pfn_to_map_order(hmm_pfn);

	return pages - (hmm_pfn & (pages - 1));
}

/* Whether a scatter list may have the page in one segment with the @count pages from @first on. */
bool rkfd_page_follows(const struct page *page, const struct page *first, unsigned long count)
{
	return page_to_pfn(page) == page_to_pfn(first) + count &&
	       zone_device_pages_have_same_pgmap(page, first);
}

/*
 * Whether a page fault in the area may have to wait for a program. Pages that are neither on a disk
 * nor in memory may come from a program: those of a file system without a disk of its own, and of
 * FUSE with one. So may pages whose faults are handled in user space.
 */
bool rkfd_vma_may_wait(struct vm_area_struct *vma)
{
	const struct super_block *sb;

	if (userfaultfd_armed(vma))
		return true;
	if (!vma->vm_file)
		return false;
	sb = file_inode(vma->vm_file)->i_sb;
	return sb->s_magic == FUSE_SUPER_MAGIC ||
	       (!sb->s_bdev && sb->s_bdi->capabilities & BDI_CAP_WRITEBACK);
}

/* Whether the area contains a part of the process's initial heap or stack. */
bool rkfd_vma_is_heap_or_stack(const struct vm_area_struct *vma)
{
	return vma_is_initial_heap(vma) || vma_is_initial_stack(vma);
}

/*
 * Marks pages of anonymous and shared memory dirty; for these, marking only sets a flag
 * (noop_dirty_folio). The flag applies to a folio as a whole. Most folios are dirty already, and
 * testing the flag is cheaper than setting it again.
 */
void rkfd_swapbacked_pages_mark_dirty(struct page *page, unsigned long count)
{
	while (count) {
		struct folio *folio = page_folio(page);
		unsigned long rest = folio_nr_pages(folio) - folio_page_idx(folio, page);

		if ((folio_test_anon(folio) || folio_test_swapbacked(folio)) &&
		    !folio_test_dirty(folio))
			folio_mark_dirty(folio);
		rest = min(rest, count);
		page += rest;
		count -= rest;
	}
}

void rkfd_get_pages(struct page *page, unsigned long count)
{
	while (count--)
		get_page(page++);
}

struct page *rkfd_sg_page(struct scatterlist *sg)
{
	return sg_page(sg);
}

void rkfd_sg_set_page(struct scatterlist *sg, struct page *page, unsigned int length)
{
	sg_set_page(sg, page, length, 0);
}

bool rkfd_sg_has_page(struct scatterlist *sg)
{
	return sg_page(sg);
}

void rkfd_sg_set_dma(struct scatterlist *sg, dma_addr_t address, unsigned int length)
{
	sg_dma_address(sg) = address;
	sg_dma_len(sg) = length;
}

/* Mappings of user space */

vm_flags_t rkfd_vma_flags(const struct vm_area_struct *vma)
{
	return vma->vm_flags;
}

void rkfd_vm_flags_set(struct vm_area_struct *vma, vm_flags_t flags)
{
	vm_flags_set(vma, flags);
}

void rkfd_vm_flags_clear(struct vm_area_struct *vma, vm_flags_t flags)
{
	vm_flags_clear(vma, flags);
}

pgprot_t rkfd_pgprot_writecombine(pgprot_t prot)
{
	return pgprot_decrypted(pgprot_writecombine(prot));
}

pgprot_t rkfd_pgprot_noncached(pgprot_t prot)
{
	return pgprot_decrypted(pgprot_noncached(prot));
}

/* Whether the handler may release the lock and return, so that the fault is retried. */
bool rkfd_fault_may_be_left(const struct vm_fault *vmf)
{
	return fault_flag_allow_retry_first(vmf->flags) &&
	       !(vmf->flags & FAULT_FLAG_RETRY_NOWAIT);
}

void rkfd_release_fault_lock(struct vm_fault *vmf)
{
	release_fault_lock(vmf);
}

/* DRM */

void rkfd_drm_gem_object_get(struct drm_gem_object *obj)
{
	drm_gem_object_get(obj);
}

void rkfd_drm_gem_object_put(struct drm_gem_object *obj)
{
	drm_gem_object_put(obj);
}

bool rkfd_drm_gem_object_get_unless_zero(struct drm_gem_object *obj)
{
	return kref_get_unless_zero(&obj->refcount);
}

/* Copies as many of the file's handles as there is room for; returns how many the file has. */
u32 rkfd_drm_file_handles(struct drm_file *file, u32 *handles, u32 room)
{
	struct drm_gem_object *obj;
	u32 count = 0;
	int handle;

	spin_lock(&file->table_lock);
	idr_for_each_entry(&file->object_idr, obj, handle) {
		if (count < room)
			handles[count] = handle;
		count++;
	}
	spin_unlock(&file->table_lock);
	return count;
}

u64 rkfd_drm_vma_node_offset_addr(struct drm_vma_offset_node *node)
{
	return drm_vma_node_offset_addr(node);
}

void rkfd_drm_vma_node_unmap(struct drm_vma_offset_node *node, struct address_space *mapping)
{
	drm_vma_node_unmap(node, mapping);
}

/* DMA */

u64 rkfd_dma_get_mask(struct device *dev)
{
	return dma_get_mask(dev);
}

bool rkfd_dma_mapping_error(struct device *dev, dma_addr_t address)
{
	return dma_mapping_error(dev, address);
}

/* dma-buf */

void rkfd_get_dma_buf(struct dma_buf *buf)
{
	get_dma_buf(buf);
}

void rkfd_dma_resv_lock(struct dma_resv *resv)
{
	dma_resv_lock(resv, NULL);
}

bool rkfd_dma_resv_trylock(struct dma_resv *resv)
{
	return dma_resv_trylock(resv);
}

void rkfd_dma_resv_unlock(struct dma_resv *resv)
{
	dma_resv_unlock(resv);
}

bool rkfd_dma_buf_writable(const struct dma_buf *buf)
{
	return buf->file->f_mode & FMODE_WRITE;
}

/* Fences */

struct dma_fence *rkfd_dma_fence_get(struct dma_fence *fence)
{
	return dma_fence_get(fence);
}

void rkfd_dma_fence_put(struct dma_fence *fence)
{
	dma_fence_put(fence);
}

bool rkfd_dma_fence_test_signaled_flag(struct dma_fence *fence)
{
	return dma_fence_test_signaled_flag(fence);
}

void rkfd_dma_fence_set_error(struct dma_fence *fence, int error)
{
	dma_fence_set_error(fence, error);
}

unsigned long rkfd_dma_fence_lock_irqsave(struct dma_fence *fence)
{
	unsigned long flags;

	dma_fence_lock_irqsave(fence, flags);
	return flags;
}

void rkfd_dma_fence_unlock_irqrestore(struct dma_fence *fence, unsigned long flags)
{
	dma_fence_unlock_irqrestore(fence, flags);
}

struct dma_fence_chain *rkfd_dma_fence_chain_alloc(void)
{
	return dma_fence_chain_alloc();
}

void rkfd_dma_fence_chain_free(struct dma_fence_chain *chain)
{
	dma_fence_chain_free(chain);
}

/* A new file that refers to the fence; NULL without memory. */
struct file *rkfd_sync_file_create(struct dma_fence *fence)
{
	struct sync_file *sync = sync_file_create(fence);

	return sync ? sync->file : NULL;
}

void rkfd_drm_syncobj_put(struct drm_syncobj *syncobj)
{
	drm_syncobj_put(syncobj);
}

/* Workqueues, RCU */

struct workqueue_struct *rkfd_alloc_ordered_workqueue(const char *name)
{
	return alloc_ordered_workqueue("%s", WQ_MEM_RECLAIM | WQ_HIGHPRI, name);
}

void rkfd_kfree_rcu_mightsleep(void *ptr)
{
	kfree_rcu_mightsleep(ptr);
}

/* Machine */

bool rkfd_fatal_signal_pending(void)
{
	return fatal_signal_pending(current);
}

bool rkfd_current_is_reclaiming(void)
{
	return current->flags & PF_MEMALLOC;
}

/* A kernel thread receives only the signals that it allows. */
void rkfd_allow_kill(void)
{
	allow_kernel_signal(SIGKILL);
}

void rkfd_disallow_kill(void)
{
	disallow_signal(SIGKILL);
	flush_signals(current);
}

struct task_struct *rkfd_current(void)
{
	return current;
}

void rkfd_kill(struct task_struct *task)
{
	send_sig(SIGKILL, task, 1);
}

void rkfd_get_process_name(char *name, size_t size)
{
	strscpy_pad(name, current->group_leader->comm, size);
}

unsigned int rkfd_cpufreq_quick_get_max(unsigned int cpu)
{
	return cpufreq_quick_get_max(cpu);
}

unsigned int rkfd_first_apic_id(int node)
{
	unsigned int cpu = cpumask_first(cpumask_of_node(node));

	return cpu < nr_cpu_ids ? cpu_data(cpu).topo.apicid : 0;
}

bool rkfd_in_compat_syscall(void)
{
	return in_compat_syscall();
}

unsigned int rkfd_num_cpus(int node)
{
	return cpumask_weight(cpumask_of_node(node));
}

bool rkfd_cpu_is_amd(void)
{
	return boot_cpu_data.x86_vendor == X86_VENDOR_AMD;
}

/* NUMA */

/* The first node from @node on that has memory and processors, or -1. */
int rkfd_next_numa_node(int node)
{
	for (; node < MAX_NUMNODES; node++)
		if (node_state(node, N_MEMORY) && !cpumask_empty(cpumask_of_node(node)))
			return node;
	return -1;
}

u64 rkfd_numa_node_pages(int node)
{
	u64 pages = 0;
	int zone;

	/* The sum of si_meminfo_node(), which is not exported. */
	for (zone = 0; zone < MAX_NR_ZONES; zone++)
		pages += zone_managed_pages(&NODE_DATA(node)->node_zones[zone]);
	return pages;
}

int rkfd_numa_distance(int from, int to)
{
	return node_distance(from, to);
}

int rkfd_dev_to_numa_node(struct device *dev)
{
	return dev_to_node(dev);
}

/* Memory device (SMBIOS, type 17): the place of Speed, in MT/s; 0 is unknown. */
#define MEMORY_DEVICE_SPEED 0x15

static void find_speed(const struct dmi_header *entry, void *speed)
{
	const u8 *at = (const u8 *)entry + MEMORY_DEVICE_SPEED;

	if (entry->type == DMI_ENTRY_MEM_DEVICE &&
	    entry->length >= MEMORY_DEVICE_SPEED + sizeof(u16) && get_unaligned_le16(at))
		*(u32 *)speed = get_unaligned_le16(at);
}

/* MT/s of the memory modules, as the last of them has it; 0 if the firmware does not tell. */
u32 rkfd_memory_speed(void)
{
	u32 speed = 0;

	dmi_walk(find_speed, &speed);
	return speed;
}
