// SPDX-License-Identifier: GPL-2.0
/* Calls of the render node. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <drm/drm.h>
#include <drm/amdgpu_drm.h>

#include "call.h"
#include "keep.h"
#include "pool.h"

/* Buffers of a list, and chunks of a job. */
#define FEW		8u
#define CHUNKS		4u
/* Handles of sync objects that are guessed. */
#define OBJECTS		8u

static _Thread_local union {
	unsigned char bytes[1u << _IOC_SIZEBITS];
	union drm_amdgpu_ctx ctx;
	union drm_amdgpu_bo_list list;
	union drm_amdgpu_cs cs;
	union drm_amdgpu_wait_cs wait;
	union drm_amdgpu_fence_to_handle fence;
	union drm_amdgpu_vm vm;
	struct drm_amdgpu_gem_userptr userptr;
	struct drm_syncobj_create object;
	struct drm_syncobj_destroy gone;
	struct drm_syncobj_handle object_file;
	struct drm_syncobj_timeline_array points;
	struct drm_syncobj_timeline_wait wait_points;
	struct drm_syncobj_transfer transfer;
	union drm_amdgpu_gem_create create;
	union drm_amdgpu_gem_mmap mmap;
	union drm_amdgpu_gem_wait_idle idle;
	struct drm_amdgpu_gem_metadata metadata;
	struct drm_amdgpu_gem_va va;
	struct drm_amdgpu_gem_op op;
	struct drm_amdgpu_info info;
	struct drm_prime_handle prime;
	struct drm_gem_close close;
	struct drm_version version;
	struct drm_get_cap cap;
} args;

static _Thread_local unsigned char room[4096];

static bool call(unsigned int number, size_t size)
{
	return fuzz_call((int)pool_guess(RENDER_FILE), 'd', number, &args, size);
}

#define AMDGPU(number, member)	call(DRM_COMMAND_BASE + (number), sizeof(args.member))
#define CORE(request)		call(_IOC_NR(request), _IOC_SIZE(request))

static void create(void)
{
	static const uint64_t domains[] = { AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_DOMAIN_GTT };

	args.create = (union drm_amdgpu_gem_create){ .in = {
		.bo_size = some_size(),
		.alignment = once_in(4) ? odd_number() : KFD_PAGE,
		.domains = once_in(20) ? odd_number() : domains[below(2)],
		.domain_flags = once_in(4) ? 1ull << below(20) : 0,
	} };
	if (AMDGPU(DRM_AMDGPU_GEM_CREATE, create))
		keep(GEM, args.create.out.handle);
}

static void map_offset(void)
{
	args.mmap = (union drm_amdgpu_gem_mmap){ .in.handle = (uint32_t)pool_guess(GEM) };
	if (AMDGPU(DRM_AMDGPU_GEM_MMAP, mmap))
		keep(GEM_OFFSET, args.mmap.out.addr_ptr);
}

static void va(void)
{
	args.va = (struct drm_amdgpu_gem_va){
		.handle = (uint32_t)pool_guess(GEM),
		.operation = 1 + below(once_in(20) ? 6 : 2),
		.flags = once_in(10) ? (uint32_t)odd_number() : AMDGPU_VM_PAGE_READABLE |
			 AMDGPU_VM_PAGE_WRITEABLE | AMDGPU_VM_PAGE_EXECUTABLE,
		.va_address = once_in(2) ? pool_any(PLACE) : arena_address(),
		.offset_in_bo = once_in(10) ? odd_number() : KFD_PAGE * below(4),
		.map_size = some_size(),
	};
	if (AMDGPU(DRM_AMDGPU_GEM_VA, va))
		keep(PLACE, args.va.va_address);
}

static void share(void)
{
	if (once_in(2)) {
		args.prime = (struct drm_prime_handle){
			.handle = (uint32_t)pool_guess(GEM),
			.flags = once_in(10) ? (uint32_t)odd_number() :
				 DRM_CLOEXEC | (once_in(2) ? DRM_RDWR : 0),
		};
		if (CORE(DRM_IOCTL_PRIME_HANDLE_TO_FD))
			keep(SHARED_FILE, (uint32_t)args.prime.fd);
	} else {
		args.prime = (struct drm_prime_handle){ .fd = (int)pool_guess(SHARED_FILE) };
		if (CORE(DRM_IOCTL_PRIME_FD_TO_HANDLE))
			keep(GEM, args.prime.handle);
	}
}

static void about_one(void)
{
	switch (below(3)) {
	case 0:
		args.metadata.handle = (uint32_t)pool_guess(GEM);
		args.metadata.op = 1 + below(3);
		args.metadata.data.data_size_bytes =
			once_in(10) ? (uint32_t)odd_number() : below(257);
		AMDGPU(DRM_AMDGPU_GEM_METADATA, metadata);
		break;
	case 1:
		args.idle = (union drm_amdgpu_gem_wait_idle){
			.in = { .handle = (uint32_t)pool_guess(GEM), .timeout = below(1000000) },
		};
		AMDGPU(DRM_AMDGPU_GEM_WAIT_IDLE, idle);
		break;
	default:
		args.op = (struct drm_amdgpu_gem_op){
			.handle = (uint32_t)pool_guess(GEM),
			.op = below(4),
			.value = once_in(2) ? (uintptr_t)room : odd_number(),
		};
		AMDGPU(DRM_AMDGPU_GEM_OP, op);
	}
}

static void contexts_and_lists(void)
{
	static _Thread_local struct drm_amdgpu_bo_list_entry entries[FEW];
	unsigned int i;

	if (once_in(2)) {
		args.ctx.in = (struct drm_amdgpu_ctx_in){
			.op = once_in(2) ? 1 : 1 + below(7),
			.flags = once_in(10) ? (uint32_t)odd_number() : 0,
			.ctx_id = below(6),
			.priority = once_in(4) ? (int32_t)odd_number() : 0,
		};
		AMDGPU(DRM_AMDGPU_CTX, ctx);
		return;
	}
	for (i = 0; i < FEW; i++)
		entries[i].bo_handle = (uint32_t)pool_guess(GEM);
	args.list.in = (struct drm_amdgpu_bo_list_in){
		.operation = below(4),
		.list_handle = below(6),
		.bo_number = once_in(20) ? (uint32_t)odd_number() : below(FEW + 1),
		.bo_info_size = once_in(20) ? (uint32_t)odd_number() : sizeof(entries[0]),
		.bo_info_ptr = (uintptr_t)some_pointer(entries),
	};
	AMDGPU(DRM_AMDGPU_BO_LIST, list);
}

static void sync_objects(void)
{
	static _Thread_local uint32_t handles[FEW];
	static _Thread_local uint64_t points[FEW];
	unsigned int i;

	for (i = 0; i < FEW; i++) {
		handles[i] = below(OBJECTS);
		points[i] = once_in(10) ? odd_number() : below(8);
	}
	switch (below(7)) {
	case 0:
	case 1:
		args.object.flags = below(once_in(10) ? 4 : 2);
		CORE(DRM_IOCTL_SYNCOBJ_CREATE);
		break;
	case 2:
		args.gone.handle = below(OBJECTS);
		CORE(DRM_IOCTL_SYNCOBJ_DESTROY);
		break;
	case 3:
		args.object_file = (struct drm_syncobj_handle){
			.handle = below(OBJECTS),
			.flags = below(2),
			.fd = (int)pool_guess(SHARED_FILE),
		};
		if (once_in(2))
			CORE(DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE);
		else if (CORE(DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD))
			keep(SHARED_FILE, (uint32_t)args.object_file.fd);
		break;
	case 4:
		args.points = (struct drm_syncobj_timeline_array){
			.handles = (uintptr_t)some_pointer(handles),
			.points = (uintptr_t)some_pointer(points),
			.count_handles = below(FEW + 1),
		};
		if (once_in(2))
			CORE(DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL);
		else
			CORE(DRM_IOCTL_SYNCOBJ_QUERY);
		break;
	case 5:
		args.wait_points = (struct drm_syncobj_timeline_wait){
			.handles = (uintptr_t)some_pointer(handles),
			.points = (uintptr_t)some_pointer(points),
			.count_handles = below(FEW + 1),
			.flags = below(8),
		};
		CORE(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT);
		break;
	default:
		args.transfer = (struct drm_syncobj_transfer){
			.src_handle = below(OBJECTS),
			.dst_handle = below(OBJECTS),
			.src_point = below(8),
			.dst_point = below(8),
		};
		CORE(DRM_IOCTL_SYNCOBJ_TRANSFER);
	}
}

/* The end of a job, as an object or a file. */
static void fence(void)
{
	const uint32_t as = below(once_in(10) ? 4 : 3);

	args.fence = (union drm_amdgpu_fence_to_handle){
		.in = {
			.fence = {
				.ctx_id = below(4),
				.ip_type = AMDGPU_HW_IP_DMA,
				.ring = below(2),
				.seq_no = once_in(2) ? UINT64_MAX : below(64),
			},
			.what = as,
		},
	};
	if (AMDGPU(DRM_AMDGPU_FENCE_TO_HANDLE, fence) &&
	    as != AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ)
		keep(SHARED_FILE, args.fence.out.handle);
}

static void memory_of_process(void)
{
	args.userptr = (struct drm_amdgpu_gem_userptr){
		.addr = once_in(10) ? odd_number() : arena_address(),
		.size = some_size(),
		.flags = once_in(10) ? (uint32_t)odd_number() :
			 AMDGPU_GEM_USERPTR_REGISTER | below(8),
	};
	if (AMDGPU(DRM_AMDGPU_GEM_USERPTR, userptr))
		keep(GEM, args.userptr.handle);
}

static void reservation(void)
{
	args.vm = (union drm_amdgpu_vm){ .in = { .op = below(4), .flags = once_in(10) } };
	AMDGPU(DRM_AMDGPU_VM, vm);
}

static void job(void)
{
	static _Thread_local union {
		struct drm_amdgpu_cs_chunk_ib ib;
		struct drm_amdgpu_cs_chunk_fence fence;
		struct drm_amdgpu_cs_chunk_syncobj points[2];
		uint32_t objects[8];
	} data[CHUNKS];
	static _Thread_local struct drm_amdgpu_cs_chunk chunks[CHUNKS];
	static _Thread_local uint64_t places[CHUNKS];
	unsigned int i, id, object;

	for (i = 0; i < CHUNKS; i++) {
		id = once_in(2) ? AMDGPU_CHUNK_ID_IB : below(12);
		if (id == AMDGPU_CHUNK_ID_FENCE)
			data[i].fence = (struct drm_amdgpu_cs_chunk_fence){
				.handle = (uint32_t)pool_guess(GEM),
				.offset = once_in(2) ? 0 : below(KFD_PAGE),
			};
		else if (id == AMDGPU_CHUNK_ID_SYNCOBJ_IN || id == AMDGPU_CHUNK_ID_SYNCOBJ_OUT)
			for (object = 0; object < 8; object++)
				data[i].objects[object] = below(OBJECTS);
		else if (id == AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT ||
			 id == AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL)
			for (object = 0; object < 2; object++)
				data[i].points[object] = (struct drm_amdgpu_cs_chunk_syncobj){
					.handle = below(OBJECTS),
					.flags = once_in(100) ? below(8) : 0,
					.point = below(8),
				};
		else
			data[i].ib = (struct drm_amdgpu_cs_chunk_ib){
				.flags = once_in(20) ? (uint32_t)odd_number() : 0,
				.va_start = pool_any(PLACE),
				.ib_bytes = once_in(10) ? (uint32_t)odd_number() : 32 * below(16),
				.ip_type = once_in(20) ? below(12) : AMDGPU_HW_IP_DMA,
				.ip_instance = once_in(50),
				.ring = once_in(10) ? below(4) : 0,
			};
		chunks[i] = (struct drm_amdgpu_cs_chunk){
			.chunk_id = id,
			.length_dw = once_in(20) ? (uint32_t)odd_number() :
				     id > AMDGPU_CHUNK_ID_DEPENDENCIES ? 4 * below(3) : 8,
			.chunk_data = (uintptr_t)some_pointer(&data[i]),
		};
		places[i] = (uintptr_t)some_pointer(&chunks[i]);
	}
	args.cs.in = (struct drm_amdgpu_cs_in){
		.ctx_id = below(4),
		.bo_list_handle = once_in(4) ? below(4) : 0,
		.num_chunks = once_in(20) ? (uint32_t)odd_number() : 1 + below(CHUNKS),
		.chunks = (uintptr_t)some_pointer(places),
	};
	AMDGPU(DRM_AMDGPU_CS, cs);
}

/* A wait without end ends with the job, which has two seconds. */
static void wait_for_job(void)
{
	args.wait.in = (struct drm_amdgpu_wait_cs_in){
		.handle = once_in(2) ? UINT64_MAX : below(64),
		.timeout = once_in(50) ? odd_number() : 0,
		.ip_type = once_in(20) ? below(12) : AMDGPU_HW_IP_DMA,
		.ip_instance = once_in(50),
		.ring = once_in(10) ? below(4) : 0,
		.ctx_id = below(4),
	};
	AMDGPU(DRM_AMDGPU_WAIT_CS, wait);
}

static void questions(void)
{
	switch (below(3)) {
	case 0:
		args.version = (struct drm_version){
			.name_len = below(20),
			.name = some_pointer(room),
		};
		CORE(DRM_IOCTL_VERSION);
		break;
	case 1:
		args.cap = (struct drm_get_cap){ .capability = below(24) };
		CORE(DRM_IOCTL_GET_CAP);
		break;
	default:
		args.info = (struct drm_amdgpu_info){
			.return_pointer = (uintptr_t)some_pointer(room),
			.return_size = once_in(10) ? (uint32_t)odd_number() : below(1024),
			.query = below(0x30),
			.read_mmr_reg = { .dword_offset = once_in(2) ? 0x263e : random32(),
					  .count = below(4) },
		};
		AMDGPU(DRM_AMDGPU_INFO, info);
	}
}

static void open_file(void)
{
	char path[40];
	int fd;

	snprintf(path, sizeof(path), "/dev/dri/renderD%u", gpu.drm_minor);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		keep(RENDER_FILE, (uint32_t)fd);
	count_call();
}

void fuzz_drm(void)
{
	switch (below(24)) {
	case 0:
	case 1:
	case 2:
		create();
		break;
	case 3:
	case 4:
		map_offset();
		break;
	case 5:
	case 6:
	case 7:
	case 8:
		va();
		break;
	case 9:
	case 10:
		share();
		break;
	case 11:
		args.close = (struct drm_gem_close){ .handle = (uint32_t)pool_take(GEM) };
		CORE(DRM_IOCTL_GEM_CLOSE);
		break;
	case 12:
		about_one();
		break;
	case 13:
		if (once_in(50))
			open_file();
		break;
	case 14:
		for (unsigned int i = 0; i < 256; i++)
			args.bytes[i] = once_in(3) ? (unsigned char)random32() : 0;
		call(below(256), below(256));
		break;
	case 15:
		contexts_and_lists();
		break;
	case 16:
	case 17:
		job();
		break;
	case 18:
		wait_for_job();
		break;
	case 19:
	case 20:
		sync_objects();
		break;
	case 21:
		fence();
		break;
	case 22:
		if (once_in(2))
			memory_of_process();
		else
			reservation();
		break;
	default:
		questions();
	}
}
