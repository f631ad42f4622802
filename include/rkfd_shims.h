/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One-line wrappers of kernel interfaces that Rust cannot call: inline functions, macros, variadic
 * functions. A shim is named rkfd_<name of the interface>, grouped by subsystem, and has no logic.
 * bindgen reads this header.
 */
#ifndef RKFD_SHIMS_H
#define RKFD_SHIMS_H

#include <linux/gpu_buddy.h>
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/pci.h>
#include <linux/sched/signal.h>
#include <linux/types.h>
#include <drm/drm_gem.h>
#include <drm/drm_syncobj.h>
#include <drm/drm_vma_manager.h>
#include <drm/gpu_scheduler.h>
#include <linux/dma-buf.h>
#include <linux/dma-fence.h>
#include <linux/dma-fence-chain.h>
#include <linux/dma-resv.h>
#include <linux/workqueue.h>

/* Parameters */
unsigned int rkfd_param_sched(void);

/* I/O */
u64 rkfd_readq(const void __iomem *addr);
void rkfd_wmb(void);
void rkfd_rmb(void);

/* Devices */
void rkfd_device_lock(struct device *dev);
void rkfd_device_unlock(struct device *dev);
int rkfd_devcgroup_check_render_node(unsigned int minor);

/* PCI */
int rkfd_pci_domain_nr(struct pci_dev *pdev);
u32 rkfd_pci_link_mbs(struct pci_dev *pdev);
bool rkfd_pci_completes_atomics(struct pci_dev *pdev);
bool rkfd_pci_reaches(struct device *client, struct device *provider);
bool rkfd_pci_is_switched(struct device *client, struct device *provider);
u64 rkfd_pci_bus_address(struct device *provider, u64 start);
u64 rkfd_dma_get_mask(struct device *dev);

/* Core dumps */
void rkfd_dev_coredumpv(struct device *dev, void *data, size_t size);
void rkfd_dev_coredump_put(struct device *dev);

/* Power */
bool rkfd_is_shutting_down(void);
int rkfd_register_pm_notifier(struct notifier_block *block);
void rkfd_unregister_pm_notifier(struct notifier_block *block);
int rkfd_notifier_from_errno(int err);

/* Sensors */
struct device *rkfd_hwmon_device_register(struct device *parent, const char *name,
					  const struct attribute_group **groups);
void rkfd_hwmon_device_unregister(struct device *dev);

/* Device memory */
bool rkfd_gpu_buddy_block_is_clear(struct gpu_buddy_block *block);

/* Pages */
unsigned long rkfd_totalram_pages(void);
unsigned long rkfd_mem_available(void);
void *rkfd_page_address(const struct page *page);
unsigned long rkfd_page_to_pfn(const struct page *page);
unsigned long rkfd_virt_to_pfn(const void *address);
void *rkfd_pfn_address(unsigned long pfn);

/* Locks */
int rkfd_mutex_lock_killable(struct mutex *lock);

/* Memory of processes */
void rkfd_mmu_interval_set_seq(struct mmu_interval_notifier *notifier, unsigned long seq);
bool rkfd_mmu_interval_read_retry(struct mmu_interval_notifier *notifier, unsigned long seq);
struct page *rkfd_hmm_pfn_to_page(unsigned long hmm_pfn);
unsigned long rkfd_hmm_pfn_pages(unsigned long hmm_pfn);
bool rkfd_page_follows(const struct page *page, const struct page *first, unsigned long count);
bool rkfd_vma_may_wait(struct vm_area_struct *vma);
bool rkfd_vma_is_heap_or_stack(const struct vm_area_struct *vma);
bool rkfd_mmap_read_lock_within(struct mm_struct *mm, unsigned long jiffies_at_most);
void rkfd_mmap_read_unlock(struct mm_struct *mm);
int rkfd_mmap_await_killable(struct mm_struct *mm);
bool rkfd_mmap_is_free(struct mm_struct *mm);
long rkfd_fault_in_killable(struct mm_struct *mm, unsigned long start, unsigned long pages,
			    bool write);
long rkfd_pin_killable(struct mm_struct *mm, unsigned long start, unsigned long pages,
		       unsigned int flags, struct page **list);
void rkfd_swapbacked_pages_mark_dirty(struct page *page, unsigned long count);
void rkfd_get_pages(struct page *page, unsigned long count);
struct page *rkfd_pfn_to_page(unsigned long pfn);
struct page *rkfd_page_alloc_locked(gfp_t gfp);
void rkfd_page_unlock_put(struct page *page);
void rkfd_page_clear(struct page *page);
struct dev_pagemap *rkfd_page_pgmap(const struct page *page);
void rkfd_device_page_init(struct page *page, struct dev_pagemap *pagemap, void *data);
void *rkfd_device_page_data(const struct page *page);
void *rkfd_device_folio_data(const struct folio *folio);
struct page *rkfd_sg_page(struct scatterlist *sg);
void rkfd_sg_set_page(struct scatterlist *sg, struct page *page, unsigned int length);
bool rkfd_sg_has_page(struct scatterlist *sg);
void rkfd_sg_set_dma(struct scatterlist *sg, dma_addr_t address, unsigned int length);

/* Mappings of user space */
vm_flags_t rkfd_vma_flags(const struct vm_area_struct *vma);
void rkfd_vm_flags_set(struct vm_area_struct *vma, vm_flags_t flags);
void rkfd_vm_flags_clear(struct vm_area_struct *vma, vm_flags_t flags);
pgprot_t rkfd_pgprot_writecombine(pgprot_t prot);
pgprot_t rkfd_pgprot_noncached(pgprot_t prot);
bool rkfd_fault_may_be_left(const struct vm_fault *vmf);
void rkfd_release_fault_lock(struct vm_fault *vmf);

/* DRM */
void rkfd_drm_gem_object_get(struct drm_gem_object *obj);
void rkfd_drm_gem_object_put(struct drm_gem_object *obj);
bool rkfd_drm_gem_object_get_unless_zero(struct drm_gem_object *obj);
u32 rkfd_drm_file_handles(struct drm_file *file, u32 *handles, u32 room);
u64 rkfd_drm_vma_node_offset_addr(struct drm_vma_offset_node *node);
void rkfd_drm_vma_node_unmap(struct drm_vma_offset_node *node, struct address_space *mapping);

/* DMA */

bool rkfd_dma_mapping_error(struct device *dev, dma_addr_t address);

/* dma-buf */
void rkfd_get_dma_buf(struct dma_buf *buf);
void rkfd_gem_sort(struct drm_gem_object **objects, size_t count);
void rkfd_dma_resv_lock(struct dma_resv *resv);
bool rkfd_dma_resv_trylock(struct dma_resv *resv);
void rkfd_dma_resv_unlock(struct dma_resv *resv);
bool rkfd_dma_resv_is_idle(struct dma_resv *resv, const struct device *dev);
long rkfd_dma_resv_wait_others(struct dma_resv *resv, const struct device *dev, long timeout);
long rkfd_dma_resv_wait_jobs(struct dma_resv *resv, const struct device *dev, long timeout);
int rkfd_sched_job_add_users(struct drm_sched_job *job, struct dma_resv *resv, void *owner,
			     bool explicit_sync);
bool rkfd_dma_buf_writable(const struct dma_buf *buf);

/* Fences */
struct dma_fence *rkfd_dma_fence_get(struct dma_fence *fence);
void rkfd_dma_fence_put(struct dma_fence *fence);
bool rkfd_dma_fence_test_signaled_flag(struct dma_fence *fence);
void rkfd_dma_fence_set_error(struct dma_fence *fence, int error);
unsigned long rkfd_dma_fence_lock_irqsave(struct dma_fence *fence);
void rkfd_dma_fence_unlock_irqrestore(struct dma_fence *fence, unsigned long flags);
struct dma_fence_chain *rkfd_dma_fence_chain_alloc(void);
void rkfd_dma_fence_chain_free(struct dma_fence_chain *chain);
struct file *rkfd_sync_file_create(struct dma_fence *fence);
void rkfd_drm_syncobj_put(struct drm_syncobj *syncobj);

/* Workqueues, RCU */
struct workqueue_struct *rkfd_alloc_ordered_workqueue(const char *name);
void rkfd_kfree_rcu_mightsleep(void *ptr);

/* Trace events (trace.c) */
void rkfd_trace_drm_run_job(struct drm_sched_job *job, struct drm_sched_entity *entity, u64 id);
void rkfd_trace_ioctl(u32 pid, u32 nr, int error);
void rkfd_trace_queue_create(u32 pid, u32 queue, u32 engine, u64 ring, u64 size);
void rkfd_trace_queue_destroy(u32 pid, u32 queue);
void rkfd_trace_queue_evict(u32 pid, u32 pasid, u32 gpu, u32 reason);
void rkfd_trace_queue_restore(u32 pid, u32 pasid, u32 gpu, u32 reason);
void rkfd_trace_evict(u32 pid, u64 size);
void rkfd_trace_restore(u32 pid, u64 size);
void rkfd_trace_doorbell(u32 pid, u32 queue, u64 wptr);
void rkfd_trace_sdma_span(u32 pid, u32 queue, u64 from, u64 to, u64 within_ns);
void rkfd_trace_map(u32 pid, u64 va, u64 size, u64 entries);
void rkfd_trace_unmap(u32 pid, u64 va, u64 size, u64 entries);
void rkfd_trace_tlb_flush(u32 vmid, u32 kind);
void rkfd_trace_interrupt(u32 client, u32 source, u32 ring, u32 vmid, u32 pasid, u32 data0);
void rkfd_trace_shader_interrupt(u32 pasid, u32 vmid, u32 data, bool priv, bool error, u32 place);
bool rkfd_trace_wave_save_enabled(void);
void rkfd_trace_wave_save(u32 pid, u32 queue, u32 waves, u32 stack);
void rkfd_trace_wave_restore(u32 pid, u32 queue, u32 waves, u32 stack);
void rkfd_trace_vm_fault(u32 pasid, u32 pid, u64 addr, u32 status);

/* Machine */
bool rkfd_fatal_signal_pending(void);
bool rkfd_current_is_reclaiming(void);
void rkfd_allow_kill(void);
void rkfd_disallow_kill(void);
struct task_struct *rkfd_current(void);
void rkfd_kill(struct task_struct *task);
void rkfd_get_process_name(char *name, size_t size);

/* Tasks that debuggers name */
struct task_struct *rkfd_find_get_task(pid_t nr);
struct task_struct *rkfd_find_get_process(pid_t nr);
pid_t rkfd_task_own_nr(struct task_struct *task);
struct mm_struct *rkfd_get_task_mm(struct task_struct *task);
void rkfd_get_task_name(struct task_struct *task, char *name, size_t size);
bool rkfd_is_ptraced_by_current(struct task_struct *task);
bool rkfd_is_leader_ptraced_by_current(struct task_struct *task);
int rkfd_write_process_vm(struct task_struct *task, unsigned long address, void *from, int size);

/* Files that debuggers name */
void rkfd_pipe_write_byte(struct file *file, char byte);

/* The machine, and its processors */
unsigned int rkfd_cpufreq_quick_get_max(unsigned int cpu);
unsigned int rkfd_first_apic_id(int node);
bool rkfd_in_compat_syscall(void);
unsigned int rkfd_num_cpus(int node);
bool rkfd_cpu_is_amd(void);

/* NUMA */
int rkfd_next_numa_node(int node);
u64 rkfd_numa_node_pages(int node);
int rkfd_numa_distance(int from, int to);
int rkfd_dev_to_numa_node(struct device *dev);
u32 rkfd_memory_speed(void);

#endif /* RKFD_SHIMS_H */
