// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <drm/drm.h>
#include <drm/amdgpu_drm.h>

#include "kfd_event.h"
#include "scenes.h"

#define BYTES	(16u * KFD_PAGE)

static int result(int ret)
{
	return ret < 0 ? errno : 0;
}

static bool nothing(struct stage *s)
{
	(void)s;
	return true;
}

static bool files(struct stage *s)
{
	return kfd_open_files(&s->dev) == 0;
}

static bool ready(struct stage *s)
{
	return kfd_open(&s->dev) == 0;
}

/* And a place for a buffer. */
static bool has_place(struct stage *s)
{
	s->address = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return s->address != MAP_FAILED && ready(s);
}

/* Files. */

static int open_kfd(struct stage *s)
{
	s->fd = open(KFD_PATH, O_RDWR | O_CLOEXEC);
	return result(s->fd);
}

static bool find(struct stage *s)
{
	return kfd_find_gpu(&s->dev) == 0;
}

static int open_render(struct stage *s)
{
	return kfd_open_render(&s->dev, &s->fd);
}

static bool close_fd(struct stage *s)
{
	return close(s->fd) == 0;
}

static int acquire(struct stage *s)
{
	return kfd_acquire_vm(s->dev.fd, s->dev.drm_fd, s->dev.gpu_id);
}

/* Memory. */

static int alloc(struct stage *s, uint32_t flags, size_t size)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.size = size,
		.gpu_id = s->dev.gpu_id,
		.flags = flags,
	};
	int err;

	args.va_addr = (uintptr_t)s->address;
	args.mmap_offset = (uintptr_t)s->address;
	err = kfd_alloc(s->dev.fd, &args);
	s->handle = args.handle;
	return err;
}

static int alloc_vram(struct stage *s)
{
	return alloc(s, KFD_ALLOC_VRAM, BYTES);
}

static int alloc_gtt(struct stage *s)
{
	return alloc(s, KFD_ALLOC_GTT, BYTES);
}

static int alloc_user(struct stage *s)
{
	return alloc(s, KFD_ALLOC_USERPTR, BYTES);
}

static int alloc_doorbells(struct stage *s)
{
	return alloc(s, KFD_ALLOC_RW | KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL, KFD_DOORBELL_SLICE);
}

static int alloc_remap(struct stage *s)
{
	return alloc(s, KFD_ALLOC_RW | KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP, KFD_PAGE);
}

static int free_buffer(struct stage *s)
{
	return kfd_free(s->dev.fd, s->handle);
}

static bool freed(struct stage *s)
{
	return free_buffer(s) == 0;
}

static int map(struct stage *s)
{
	return kfd_map(s->dev.fd, s->handle, s->dev.gpu_id);
}

static int unmap(struct stage *s)
{
	return kfd_unmap(s->dev.fd, s->handle, s->dev.gpu_id);
}

static bool unmapped(struct stage *s)
{
	return unmap(s) == 0;
}

#define ALLOCATED(kind)							\
	static bool kind##_allocated(struct stage *s)			\
	{								\
		return has_place(s) && alloc_##kind(s) == 0;		\
	}								\
	static bool kind##_mapped(struct stage *s)			\
	{								\
		return kind##_allocated(s) && map(s) == 0;		\
	}

ALLOCATED(vram)
ALLOCATED(gtt)
ALLOCATED(user)

static int available(struct stage *s)
{
	struct kfd_ioctl_get_available_memory_args args = { .gpu_id = s->dev.gpu_id };

	return kfd_ioctl(s->dev.fd, AMDKFD_IOC_AVAILABLE_MEMORY, &args);
}

/* Sharing. */

static int export(struct stage *s)
{
	struct kfd_ioctl_export_dmabuf_args args = {
		.handle = s->handle,
		.flags = O_CLOEXEC | O_RDWR,
	};
	const int err = kfd_ioctl(s->dev.fd, AMDKFD_IOC_EXPORT_DMABUF, &args);

	s->fd = (int)args.dmabuf_fd;
	return err;
}

static bool exported(struct stage *s)
{
	return gtt_allocated(s) && export(s) == 0;
}

static int dmabuf_info(struct stage *s)
{
	char metadata[64];
	struct kfd_ioctl_get_dmabuf_info_args args = {
		.metadata_ptr = (uintptr_t)metadata,
		.metadata_size = sizeof(metadata),
		.dmabuf_fd = (uint32_t)s->fd,
	};

	return kfd_ioctl(s->dev.fd, AMDKFD_IOC_GET_DMABUF_INFO, &args);
}

/* Beside the exported buffer. */
static int import(struct stage *s)
{
	struct kfd_ioctl_import_dmabuf_args args = {
		.va_addr = (uintptr_t)s->address + BYTES,
		.gpu_id = s->dev.gpu_id,
		.dmabuf_fd = (uint32_t)s->fd,
	};
	const int err = kfd_ioctl(s->dev.fd, AMDKFD_IOC_IMPORT_DMABUF, &args);

	if (!err)
		s->handle = args.handle;
	return err;
}

/* Queues. */

static bool has_ring(struct stage *s)
{
	struct kfd_bo pointers;

	if (!ready(s) || kfd_bo_create(&s->dev, &s->bo, KFD_PAGE, KFD_ALLOC_GTT) ||
	    kfd_bo_create(&s->dev, &pointers, KFD_PAGE, KFD_ALLOC_GTT))
		return false;
	kfd_queue_args(&s->dev, &s->bo, &pointers, &s->create);
	return true;
}

static bool has_compute_ring(struct stage *s)
{
	return ready(s) && kfd_save_create(&s->dev, &s->save) == 0 &&
	       kfd_compute_prepare(&s->dev, &s->compute, &s->save, true, KFD_PAGE, &s->create) == 0;
}

static int create_queue(struct stage *s)
{
	const int err = kfd_ioctl(s->dev.fd, AMDKFD_IOC_CREATE_QUEUE, &s->create);

	s->number = s->create.queue_id;
	return err;
}

static int destroy_queue(struct stage *s)
{
	return kfd_destroy_queue(s->dev.fd, s->number);
}

static bool destroyed(struct stage *s)
{
	return destroy_queue(s) == 0;
}

static bool has_queue(struct stage *s)
{
	return has_ring(s) && create_queue(s) == 0;
}

static bool has_compute_queue(struct stage *s)
{
	return has_compute_ring(s) && create_queue(s) == 0;
}

static int update_queue(struct stage *s)
{
	struct kfd_ioctl_update_queue_args args = {
		.ring_base_address = s->create.ring_base_address,
		.ring_size = s->create.ring_size,
		.queue_id = s->number,
		.queue_percentage = 100,
		.queue_priority = 7,
	};

	return kfd_ioctl(s->dev.fd, AMDKFD_IOC_UPDATE_QUEUE, &args);
}

static int cu_mask(struct stage *s)
{
	const uint32_t mask[] = { 0xff };
	struct kfd_ioctl_set_cu_mask_args args = {
		.queue_id = s->number,
		.num_cu_mask = 32,
		.cu_mask_ptr = (uintptr_t)mask,
	};

	return kfd_ioctl(s->dev.fd, AMDKFD_IOC_SET_CU_MASK, &args);
}

static int doorbells(struct stage *s)
{
	return kfd_mmap(s->dev.fd, KFD_DOORBELL_SLICE,
			KFD_OFFSET_DOORBELL | KFD_OFFSET_GPU(s->dev.gpu_id), &s->address);
}

static bool doorbells_gone(struct stage *s)
{
	return munmap(s->address, KFD_DOORBELL_SLICE) == 0;
}

/* Events. */

static int create_event(struct stage *s)
{
	return event_create(&s->dev, KFD_IOC_EVENT_SIGNAL, true, &s->number);
}

static bool event_gone(struct stage *s)
{
	return event_destroy(&s->dev, s->number) == 0;
}

static bool has_event(struct stage *s)
{
	return ready(s) && create_event(s) == 0;
}

static int set_event(struct stage *s)
{
	return event_set(&s->dev, s->number);
}

static bool has_set_event(struct stage *s)
{
	return has_event(s) && set_event(s) == 0;
}

/*
 * An event that was set stays set when the call that waits for it fails, unless the call had
 * completed.
 */
static int wait_event(struct stage *s)
{
	return event_wait(&s->dev, s->number, 1000);
}

static int wait_in_vain(struct stage *s)
{
	const int err = event_wait(&s->dev, s->number, 1);

	return err == ETIMEDOUT ? 0 : err;
}

static int event_page(struct stage *s)
{
	return kfd_mmap(s->dev.fd, EVENT_PAGE_SIZE, KFD_OFFSET_EVENTS, &s->address);
}

/* Other calls of /dev/kfd. */

static int smi(struct stage *s)
{
	struct kfd_ioctl_smi_events_args args = { .gpuid = s->dev.gpu_id };
	const int err = kfd_ioctl(s->dev.fd, AMDKFD_IOC_SMI_EVENTS, &args);

	s->fd = (int)args.anon_fd;
	return err;
}

static int apertures(struct stage *s)
{
	struct kfd_process_device_apertures list[1];
	struct kfd_ioctl_get_process_apertures_new_args args = {
		.kfd_process_device_apertures_ptr = (uintptr_t)list,
		.num_of_nodes = 1,
	};

	return kfd_ioctl(s->dev.fd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &args);
}

static int tile_config(struct stage *s)
{
	uint32_t tiles[32], macro_tiles[16];
	struct kfd_ioctl_get_tile_config_args args = {
		.tile_config_ptr = (uintptr_t)tiles,
		.macro_tile_config_ptr = (uintptr_t)macro_tiles,
		.num_tile_configs = 32,
		.num_macro_tile_configs = 16,
		.gpu_id = s->dev.gpu_id,
	};

	return kfd_ioctl(s->dev.fd, AMDKFD_IOC_GET_TILE_CONFIG, &args);
}

static int clocks(struct stage *s)
{
	struct kfd_ioctl_get_clock_counters_args args = { .gpu_id = s->dev.gpu_id };

	return kfd_ioctl(s->dev.fd, AMDKFD_IOC_GET_CLOCK_COUNTERS, &args);
}

static int runtime_enable(struct stage *s)
{
	struct kfd_ioctl_runtime_enable_args args = {
		.mode_mask = KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK,
	};

	return kfd_ioctl(s->dev.fd, AMDKFD_IOC_RUNTIME_ENABLE, &args);
}

/* The render node. */

static int gem_create(struct stage *s)
{
	union drm_amdgpu_gem_create args = { .in = {
		.bo_size = BYTES,
		.alignment = KFD_PAGE,
		.domains = AMDGPU_GEM_DOMAIN_VRAM,
	} };
	const int err = kfd_ioctl(s->dev.drm_fd, DRM_IOCTL_AMDGPU_GEM_CREATE, &args);

	s->number = args.out.handle;
	return err;
}

static bool gem_closed(struct stage *s)
{
	struct drm_gem_close args = { .handle = s->number };

	return kfd_ioctl(s->dev.drm_fd, DRM_IOCTL_GEM_CLOSE, &args) == 0;
}

static bool has_gem(struct stage *s)
{
	return files(s) && gem_create(s) == 0;
}

static int gem_offset(struct stage *s)
{
	union drm_amdgpu_gem_mmap args = { .in.handle = s->number };

	return kfd_ioctl(s->dev.drm_fd, DRM_IOCTL_AMDGPU_GEM_MMAP, &args);
}

static int gem_va(struct stage *s, uint32_t operation)
{
	struct drm_amdgpu_gem_va args = {
		.handle = s->number,
		.operation = operation,
		.flags = AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE,
		.va_address = 1ull << 32,
		.map_size = BYTES,
	};

	return kfd_ioctl(s->dev.drm_fd, DRM_IOCTL_AMDGPU_GEM_VA, &args);
}

static int gem_map(struct stage *s)
{
	return gem_va(s, AMDGPU_VA_OP_MAP);
}

static int gem_unmap(struct stage *s)
{
	return gem_va(s, AMDGPU_VA_OP_UNMAP);
}

static bool gem_unmapped(struct stage *s)
{
	return gem_unmap(s) == 0;
}

static bool has_mapped_gem(struct stage *s)
{
	return has_gem(s) && gem_map(s) == 0;
}

static int prime_export(struct stage *s)
{
	struct drm_prime_handle args = { .handle = s->number, .flags = DRM_CLOEXEC | DRM_RDWR };
	const int err = kfd_ioctl(s->dev.drm_fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &args);

	s->fd = args.fd;
	return err;
}

/* The other file's buffer, which has no handle for it yet. */
static bool has_foreign_file(struct stage *s)
{
	struct stage other = { 0 };

	if (!has_gem(&other) || prime_export(&other) || !files(s))
		return false;
	s->fd = other.fd;
	return true;
}

static int prime_import(struct stage *s)
{
	struct drm_prime_handle args = { .fd = s->fd };
	const int err = kfd_ioctl(s->dev.drm_fd, DRM_IOCTL_PRIME_FD_TO_HANDLE, &args);

	s->number = args.handle;
	return err;
}

static int metadata(struct stage *s)
{
	struct drm_amdgpu_gem_metadata args = {
		.handle = s->number,
		.op = AMDGPU_GEM_METADATA_OP_SET_METADATA,
		.data.data_size_bytes = 16,
	};

	return kfd_ioctl(s->dev.drm_fd, DRM_IOCTL_AMDGPU_GEM_METADATA, &args);
}

static int info(struct stage *s)
{
	struct drm_amdgpu_info_device device;
	struct drm_amdgpu_info args = {
		.return_pointer = (uintptr_t)&device,
		.return_size = sizeof(device),
		.query = AMDGPU_INFO_DEV_INFO,
	};

	return kfd_ioctl(s->dev.drm_fd, DRM_IOCTL_AMDGPU_INFO, &args);
}

const struct scene scenes[] = {
	{ "open of /dev/kfd", nothing, open_kfd, close_fd, 0 },
	{ "open of the render node", find, open_render, close_fd, 0 },
	{ "ACQUIRE_VM", files, acquire, NULL, 0 },
	{ "ALLOC of VRAM", has_place, alloc_vram, freed, 0 },
	{ "ALLOC of GTT", has_place, alloc_gtt, freed, 0 },
	{ "ALLOC of USERPTR", has_place, alloc_user, freed, 0 },
	{ "ALLOC of doorbells", has_place, alloc_doorbells, freed, 0 },
	{ "ALLOC of the remapped registers", has_place, alloc_remap, freed, 0 },
	{ "MAP of VRAM", vram_allocated, map, unmapped, 0 },
	{ "MAP of GTT", gtt_allocated, map, unmapped, 0 },
	{ "MAP of USERPTR", user_allocated, map, unmapped, 0 },
	{ "UNMAP of VRAM", vram_mapped, unmap, NULL, 0 },
	{ "UNMAP of GTT", gtt_mapped, unmap, NULL, 0 },
	{ "UNMAP of USERPTR", user_mapped, unmap, NULL, 0 },
	{ "FREE of VRAM", vram_allocated, free_buffer, NULL, 0 },
	{ "FREE of USERPTR", user_allocated, free_buffer, NULL, 0 },
	{ "AVAILABLE_MEMORY", ready, available, NULL, 0 },
	{ "EXPORT_DMABUF", gtt_allocated, export, close_fd, 0 },
	{ "GET_DMABUF_INFO", exported, dmabuf_info, NULL, 0 },
	{ "IMPORT_DMABUF", exported, import, freed, 0 },
	{ "CREATE_QUEUE of SDMA", has_ring, create_queue, destroyed, 0 },
	{ "CREATE_QUEUE of compute", has_compute_ring, create_queue, destroyed, 0 },
	{ "UPDATE_QUEUE of SDMA", has_queue, update_queue, NULL, 0 },
	{ "UPDATE_QUEUE of compute", has_compute_queue, update_queue, NULL, 0 },
	{ "SET_CU_MASK", has_compute_queue, cu_mask, NULL, 0 },
	{ "DESTROY_QUEUE of SDMA", has_queue, destroy_queue, NULL, EINVAL },
	{ "DESTROY_QUEUE of compute", has_compute_queue, destroy_queue, NULL, EINVAL },
	{ "mmap of doorbells", ready, doorbells, doorbells_gone, 0 },
	{ "CREATE_EVENT", ready, create_event, event_gone, 0 },
	{ "SET_EVENT", has_event, set_event, NULL, 0 },
	{ "WAIT_EVENTS of a set event", has_set_event, wait_event, NULL, ETIMEDOUT },
	{ "WAIT_EVENTS in vain", has_event, wait_in_vain, NULL, 0 },
	{ "mmap of the event page", has_event, event_page, NULL, 0 },
	{ "SMI_EVENTS", ready, smi, close_fd, 0 },
	{ "GET_PROCESS_APERTURES_NEW", ready, apertures, NULL, 0 },
	{ "GET_TILE_CONFIG", ready, tile_config, NULL, 0 },
	{ "GET_CLOCK_COUNTERS", ready, clocks, NULL, 0 },
	{ "RUNTIME_ENABLE", ready, runtime_enable, NULL, EBUSY },
	{ "GEM_CREATE", files, gem_create, gem_closed, 0 },
	{ "GEM_MMAP", has_gem, gem_offset, NULL, 0 },
	{ "GEM_VA, map", has_gem, gem_map, gem_unmapped, 0 },
	{ "GEM_VA, unmap", has_mapped_gem, gem_unmap, NULL, 0 },
	{ "PRIME_HANDLE_TO_FD", has_gem, prime_export, close_fd, 0 },
	{ "PRIME_FD_TO_HANDLE", has_foreign_file, prime_import, gem_closed, 0 },
	{ "GEM_METADATA", has_gem, metadata, NULL, 0 },
	{ "INFO", files, info, NULL, 0 },
};
const unsigned int scene_count = sizeof(scenes) / sizeof(scenes[0]);
