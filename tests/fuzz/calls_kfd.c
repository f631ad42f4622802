// SPDX-License-Identifier: GPL-2.0
/* Calls of /dev/kfd. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "call.h"
#include "kfd_compute.h"
#include "kfd_event.h"
#include "keep.h"
#include "pool.h"
#include "rings.h"

/* Room for the arguments of any call, and the memory that they point to. */
static _Thread_local union {
	unsigned char bytes[1u << _IOC_SIZEBITS];
	struct kfd_ioctl_create_queue_args create_queue;
	struct kfd_ioctl_destroy_queue_args destroy_queue;
	struct kfd_ioctl_set_memory_policy_args policy;
	struct kfd_ioctl_get_process_apertures_new_args apertures;
	struct kfd_ioctl_update_queue_args update_queue;
	struct kfd_ioctl_create_event_args create_event;
	struct kfd_ioctl_set_event_args event;
	struct kfd_ioctl_wait_events_args wait;
	struct kfd_ioctl_set_scratch_backing_va_args scratch;
	struct kfd_ioctl_get_tile_config_args tiles;
	struct kfd_ioctl_set_trap_handler_args trap;
	struct kfd_ioctl_acquire_vm_args acquire;
	struct kfd_ioctl_alloc_memory_of_gpu_args alloc;
	struct kfd_ioctl_free_memory_of_gpu_args free;
	struct kfd_ioctl_map_memory_to_gpu_args map;
	struct kfd_ioctl_set_cu_mask_args cu_mask;
	struct kfd_ioctl_get_queue_wave_state_args waves;
	struct kfd_ioctl_get_dmabuf_info_args info;
	struct kfd_ioctl_import_dmabuf_args import;
	struct kfd_ioctl_export_dmabuf_args export;
	struct kfd_ioctl_alloc_queue_gws_args gws;
	struct kfd_ioctl_smi_events_args smi;
	struct kfd_ioctl_set_xnack_mode_args xnack;
	struct kfd_ioctl_get_available_memory_args available;
	struct kfd_ioctl_runtime_enable_args runtime;
	struct kfd_ioctl_svm_args svm;
	struct kfd_ioctl_dbg_trap_args debug;
} args;

static _Thread_local union {
	unsigned char bytes[16384];
	uint32_t dwords[4096];
	struct kfd_event_data events[64];
} room;

struct kfd_dev own;

/* AMDKFD_IOC_CREATE_PROCESS, which older headers do not have. */
#define CREATE_PROCESS	AMDKFD_IO(0x27)

static int file(void)
{
	return once_in(4) ? (int)pool_guess(KFD_FILE) : own.fd;
}

static uint32_t gpu_id(void)
{
	return once_in(40) ? (uint32_t)odd_number() : gpu.gpu_id;
}

static uintptr_t in_room(void)
{
	return (uintptr_t)some_pointer(room.bytes);
}

static bool call(unsigned int number, size_t size)
{
	return fuzz_call(file(), 'K', number, &args, size);
}

#define CALL(number, member)	call(number, sizeof(args.member))

static void create_queue(void)
{
	static const uint32_t types[] = {
		KFD_IOC_QUEUE_TYPE_SDMA, KFD_IOC_QUEUE_TYPE_SDMA, KFD_IOC_QUEUE_TYPE_COMPUTE,
		KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID,
	};
	const uint64_t pointers = some_address() & ~0xfffull;
	unsigned int again = RINGS;

	args.create_queue = (struct kfd_ioctl_create_queue_args){
		.ring_base_address = some_address(),
		.write_pointer_address = pointers + 8 * below(16),
		.read_pointer_address = pointers + 128 + 8 * below(16),
		.ring_size = once_in(10) ? (uint32_t)odd_number() : 4096u << below(3),
		.gpu_id = gpu_id(),
		.queue_type = once_in(20) ? below(8) : types[below(5)],
		.queue_percentage = once_in(10) ? below(200) : 100,
		.queue_priority = below(17),
		.eop_buffer_address = some_address(),
		.eop_buffer_size = 4096u << below(2),
		.ctx_save_restore_address = some_address(),
		.ctx_save_restore_size = (uint32_t)some_size(),
		.ctl_stack_size = (uint32_t)some_size(),
		.sdma_engine_id = below(6),
	};
	if (once_in(2)) {
		const uint32_t priority = args.create_queue.queue_priority;

		again = below(RINGS);
		args.create_queue = ring_args(again);
		args.create_queue.queue_priority = priority;
	}
	if (CALL(0x02, create_queue)) {
		keep(QUEUE, args.create_queue.queue_id);
		if (again < RINGS)
			ring_made(again, args.create_queue.doorbell_offset, NULL);
	}
}

static void update_queue(void)
{
	args.update_queue = (struct kfd_ioctl_update_queue_args){
		.ring_base_address = once_in(2) ? 0 : some_address(),
		.queue_id = (uint32_t)pool_guess(QUEUE),
		.ring_size = once_in(2) ? 0 : 4096,
		.queue_percentage = once_in(10) ? below(200) : once_in(2) ? 0 : 100,
		.queue_priority = below(17),
	};
	CALL(0x07, update_queue);
}

static void create_event(void)
{
	args.create_event = (struct kfd_ioctl_create_event_args){
		.event_page_offset = once_in(10) ? pool_guess(BUFFER) : 0,
		.event_type = below(10),
		.auto_reset = below(2),
		.node_id = once_in(4) ? (uint32_t)odd_number() : gpu.node,
	};
	if (CALL(0x08, create_event))
		keep(EVENT, args.create_event.event_id);
}

static void wait_events(void)
{
	const unsigned int count = once_in(20) ? below(64) : below(4);

	for (unsigned int i = 0; i < count; i++)
		room.events[i] = (struct kfd_event_data){
			.event_id = (uint32_t)pool_guess(EVENT),
			.signal_event_data.last_event_age = once_in(4) ? odd_number() : 0,
		};
	args.wait = (struct kfd_ioctl_wait_events_args){
		.events_ptr = in_room(),
		.num_events = once_in(100) ? (uint32_t)odd_number() : count,
		.wait_for_all = below(2),
		/* A thread that waits for ever ends with the process. */
		.timeout = once_in(1000) ? EVENT_FOREVER : below(20),
	};
	CALL(0x0c, wait);
}

static void alloc(void)
{
	static const uint32_t kinds[] = {
		KFD_ALLOC_VRAM, KFD_ALLOC_GTT, KFD_ALLOC_USERPTR, KFD_ALLOC_GTT, KFD_ALLOC_VRAM,
		KFD_ALLOC_RW | KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL,
		KFD_ALLOC_RW | KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP,
	};
	const uint64_t place = arena_address();

	args.alloc = (struct kfd_ioctl_alloc_memory_of_gpu_args){
		.va_addr = once_in(10) ? some_address() : place,
		.size = some_size(),
		.mmap_offset = once_in(10) ? some_address() : place,
		.gpu_id = gpu_id(),
		.flags = kinds[below(sizeof(kinds) / sizeof(kinds[0]))],
	};
	if (args.alloc.flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL)
		args.alloc.size = KFD_DOORBELL_SLICE;
	if (args.alloc.flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP)
		args.alloc.size = KFD_PAGE;
	if (once_in(20))
		args.alloc.flags ^= 1u << below(32);
	if (CALL(0x16, alloc)) {
		keep(BUFFER, args.alloc.handle);
		keep(PLACE, args.alloc.va_addr);
	}
}

static void map(bool in)
{
	const unsigned int count = once_in(10) ? below(4) : 1;

	for (unsigned int i = 0; i < count; i++)
		room.dwords[i] = gpu_id();
	args.map = (struct kfd_ioctl_map_memory_to_gpu_args){
		.handle = pool_guess(BUFFER),
		.device_ids_array_ptr = in_room(),
		.n_devices = once_in(50) ? (uint32_t)odd_number() : count,
		.n_success = once_in(20) ? below(4) : 0,
	};
	CALL(in ? 0x18 : 0x19, map);
}

/* Sets or gets attributes of the arena; nothing if the module has svm=0. */
static void svm(void)
{
	const unsigned int count = below(6);

	args.svm = (struct kfd_ioctl_svm_args){
		.start_addr = once_in(10) ? some_address() : arena_address(),
		.size = once_in(10) ? some_size() : KFD_PAGE * (1 + below(64)),
		.op = once_in(50) ? below(5) : below(2),
		.nattr = once_in(50) ? (uint32_t)odd_number() : count,
	};
	for (unsigned int i = 0; i < count; i++) {
		const uint32_t type = below(once_in(20) ? 10 : 8);
		const bool of_gpu = type < 5 && !once_in(10);

		args.svm.attrs[i].type = type;
		args.svm.attrs[i].value = of_gpu ? gpu_id() : once_in(2) ? below(256) : random32();
	}
	call(0x20, sizeof(args.svm) + count * sizeof(args.svm.attrs[0]));
}

static void free_buffer(void)
{
	args.free.handle = once_in(4) ? pool_guess(BUFFER) : pool_take(BUFFER);
	CALL(0x17, free);
}

static void export(void)
{
	args.export = (struct kfd_ioctl_export_dmabuf_args){
		.handle = pool_guess(BUFFER),
		.flags = once_in(10) ? (uint32_t)odd_number() : O_CLOEXEC | O_RDWR,
	};
	if (CALL(0x24, export))
		keep(SHARED_FILE, args.export.dmabuf_fd);
}

static void import(void)
{
	args.import = (struct kfd_ioctl_import_dmabuf_args){
		.va_addr = arena_address(),
		.gpu_id = gpu_id(),
		.dmabuf_fd = (uint32_t)pool_guess(SHARED_FILE),
	};
	if (CALL(0x1d, import)) {
		keep(BUFFER, args.import.handle);
		keep(PLACE, args.import.va_addr);
	}
}

static void smi(void)
{
	args.smi.gpuid = gpu_id();
	if (CALL(0x1f, smi))
		keep(SMI_FILE, args.smi.anon_fd);
}

static void questions(void)
{
	switch (below(8)) {
	case 0:
		CALL(0x01, free);
		break;
	case 1:
		args.acquire.gpu_id = gpu_id();
		call(0x05, sizeof(struct kfd_ioctl_get_clock_counters_args));
		break;
	case 2:
		call(0x06, sizeof(struct kfd_ioctl_get_process_apertures_args));
		break;
	case 3:
		args.tiles = (struct kfd_ioctl_get_tile_config_args){
			.tile_config_ptr = in_room(),
			.macro_tile_config_ptr = in_room(),
			.num_tile_configs = below(40),
			.num_macro_tile_configs = below(40),
			.gpu_id = gpu_id(),
		};
		CALL(0x12, tiles);
		break;
	case 4:
		args.apertures = (struct kfd_ioctl_get_process_apertures_new_args){
			.kfd_process_device_apertures_ptr = in_room(),
			.num_of_nodes = once_in(20) ? (uint32_t)odd_number() : below(3),
		};
		CALL(0x14, apertures);
		break;
	case 5:
		args.available.gpu_id = gpu_id();
		CALL(0x23, available);
		break;
	case 6:
		args.info = (struct kfd_ioctl_get_dmabuf_info_args){
			.metadata_ptr = in_room(),
			.metadata_size = once_in(4) ? (uint32_t)odd_number() : 256,
			.dmabuf_fd = (uint32_t)pool_guess(SHARED_FILE),
		};
		CALL(0x1c, info);
		break;
	default:
		args.waves = (struct kfd_ioctl_get_queue_wave_state_args){
			.ctl_stack_address = in_room(),
			.queue_id = (uint32_t)pool_guess(QUEUE),
		};
		CALL(0x1b, waves);
	}
}

static void settings(void)
{
	switch (below(7)) {
	case 0:
		args.policy = (struct kfd_ioctl_set_memory_policy_args){
			.gpu_id = gpu_id(),
			.default_policy = below(3),
			.alternate_policy = below(3),
		};
		CALL(0x04, policy);
		break;
	case 1:
		args.scratch.va_addr = some_address();
		args.scratch.gpu_id = gpu_id();
		CALL(0x11, scratch);
		break;
	case 2:
		args.trap = (struct kfd_ioctl_set_trap_handler_args){
			.tba_addr = some_address(),
			.tma_addr = some_address(),
			.gpu_id = gpu_id(),
		};
		CALL(0x13, trap);
		break;
	case 3:
		for (unsigned int i = 0; i < 8; i++)
			room.dwords[i] = random32();
		args.cu_mask = (struct kfd_ioctl_set_cu_mask_args){
			.queue_id = (uint32_t)pool_guess(QUEUE),
			.num_cu_mask = once_in(10) ? (uint32_t)odd_number() : 32 * (1 + below(4)),
			.cu_mask_ptr = in_room(),
		};
		CALL(0x1a, cu_mask);
		break;
	case 4:
		args.xnack.xnack_enabled = (int)below(3) - 1;
		CALL(0x21, xnack);
		break;
	case 5:
		args.runtime.mode_mask = below(4);
		CALL(0x25, runtime);
		break;
	default:
		args.gws.queue_id = (uint32_t)pool_guess(QUEUE);
		args.gws.num_gws = below(65);
		CALL(0x1e, gws);
	}
}

static void debug_arguments(uint32_t op)
{
	struct kfd_ioctl_dbg_trap_args *a = &args.debug;

	memset(a, 0, sizeof(*a));
	switch (op) {
	case KFD_IOC_DBG_TRAP_ENABLE:
		a->enable.exception_mask = once_in(2) ? ~0ull : odd_number();
		a->enable.rinfo_ptr = in_room();
		a->enable.rinfo_size = below(40);
		a->enable.dbg_fd = once_in(4) ? (uint32_t)pool_guess(KFD_FILE) : (uint32_t)own.fd;
		break;
	case KFD_IOC_DBG_TRAP_SEND_RUNTIME_EVENT:
		a->send_runtime_event.exception_mask = 1ull << below(64);
		a->send_runtime_event.gpu_id = gpu_id();
		a->send_runtime_event.queue_id = (uint32_t)pool_guess(QUEUE);
		break;
	case KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_OVERRIDE:
		a->launch_override.override_mode = below(3);
		a->launch_override.enable_mask = random32();
		a->launch_override.support_request_mask = random32() & 0x1ff;
		break;
	case KFD_IOC_DBG_TRAP_SUSPEND_QUEUES:
	case KFD_IOC_DBG_TRAP_RESUME_QUEUES:
		for (unsigned int i = 0; i < 8; i++)
			room.dwords[i] = (uint32_t)pool_guess(QUEUE);
		if (op == KFD_IOC_DBG_TRAP_SUSPEND_QUEUES) {
			a->suspend_queues.exception_mask = odd_number();
			a->suspend_queues.queue_array_ptr = in_room();
			a->suspend_queues.num_queues = once_in(10) ? random32() : below(9);
		} else {
			a->resume_queues.queue_array_ptr = once_in(4) ? 0 : in_room();
			a->resume_queues.num_queues = once_in(10) ? random32() : below(9);
		}
		break;
	case KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH:
		a->set_node_address_watch.address = some_address();
		a->set_node_address_watch.mode = below(4);
		a->set_node_address_watch.mask = random32();
		a->set_node_address_watch.gpu_id = gpu_id();
		break;
	case KFD_IOC_DBG_TRAP_CLEAR_NODE_ADDRESS_WATCH:
		a->clear_node_address_watch.gpu_id = gpu_id();
		a->clear_node_address_watch.id = below(5);
		break;
	case KFD_IOC_DBG_TRAP_QUERY_EXCEPTION_INFO:
		a->query_exception_info.info_ptr = in_room();
		a->query_exception_info.info_size = below(40);
		a->query_exception_info.source_id = once_in(2) ? gpu_id() :
								 (uint32_t)pool_guess(QUEUE);
		a->query_exception_info.exception_code = below(52);
		a->query_exception_info.clear_exception = below(2);
		break;
	case KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT:
	case KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT:
		a->queue_snapshot.exception_mask = once_in(2) ? ~0ull : odd_number();
		a->queue_snapshot.snapshot_buf_ptr = in_room();
		a->queue_snapshot.num_queues = below(64);
		a->queue_snapshot.entry_size = below(200);
		break;
	default:
		/* A mode, flags, a mask. */
		a->set_exceptions_enabled.exception_mask = once_in(2) ? below(5) : odd_number();
	}
}

static void debug_call(pid_t pid, uint32_t op)
{
	debug_arguments(op);
	args.debug.pid = (uint32_t)pid;
	args.debug.op = op;
	CALL(0x26, debug);
}

/*
 * The process debugs itself for some calls. No more than these, since calls of other threads may
 * wait for the debugger.
 */
static void debug(void)
{
	const pid_t pid = once_in(20) ? getppid() : getpid();
	unsigned int calls = 1 + below(12);

	debug_call(pid, KFD_IOC_DBG_TRAP_ENABLE);
	while (calls--)
		debug_call(pid, below(KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT + 2));
	args.debug.pid = (uint32_t)pid;
	args.debug.op = KFD_IOC_DBG_TRAP_DISABLE;
	kfd_ioctl(own.fd, AMDKFD_IOC_DBG_TRAP, &args.debug);
}

static void files(void)
{
	const int fd = once_in(2) ? open(KFD_PATH, O_RDWR | O_CLOEXEC) : -1;

	if (fd >= 0) {
		if (once_in(2))
			kfd_ioctl(fd, CREATE_PROCESS, NULL);
		keep(KFD_FILE, (uint32_t)fd);
	}
	args.acquire.drm_fd = (uint32_t)pool_guess(RENDER_FILE);
	args.acquire.gpu_id = gpu_id();
	CALL(0x15, acquire);
}

void fuzz_kfd(void)
{
	unsigned int nr;

	switch (below(32)) {
	case 0:
	case 1:
		create_queue();
		break;
	case 2:
	case 3:
		args.destroy_queue.queue_id = (uint32_t)(once_in(2) ? pool_guess(QUEUE) :
							 pool_take(QUEUE));
		CALL(0x03, destroy_queue);
		break;
	case 4:
	case 5:
		update_queue();
		break;
	case 6:
		create_event();
		break;
	case 7:
		args.event.event_id = (uint32_t)(once_in(2) ? pool_guess(EVENT) : pool_take(EVENT));
		CALL(0x09, event);
		break;
	case 8:
	case 9:
		args.event.event_id = (uint32_t)pool_guess(EVENT);
		call(once_in(2) ? 0x0a : 0x0b, sizeof(args.event));
		break;
	case 10:
	case 11:
		wait_events();
		break;
	case 12:
	case 13:
	case 14:
	case 15:
		alloc();
		break;
	case 16:
	case 17:
		free_buffer();
		break;
	case 18:
	case 19:
	case 20:
		map(true);
		break;
	case 21:
	case 22:
		map(false);
		break;
	case 23:
		export();
		break;
	case 24:
		import();
		break;
	case 25:
		smi();
		break;
	case 26:
		if (once_in(3))
			debug();
		else
			settings();
		break;
	case 27:
		if (once_in(20))
			files();
		else if (once_in(4))
			fuzz_criu();
		break;
	case 28:
		/*
		 * Any number and any bytes, but CREATE_PROCESS, by which the file would lose all that
		 * it has.
		 */
		for (unsigned int i = 0; i < 256; i++)
			args.bytes[i] = once_in(3) ? (unsigned char)random32() : 0;
		nr = below(0x30);
		call(nr == _IOC_NR(CREATE_PROCESS) ? nr + 1 : nr, below(256));
		criu_unpause();
		break;
	case 29:
		svm();
		break;
	default:
		questions();
	}
}

/* Queue @i in these buffers, with the arguments @create. */
static void begin_queue(unsigned int i, struct kfd_ioctl_create_queue_args *create,
			const struct kfd_bo *ring, const struct kfd_bo *pointers)
{
	void *slice;

	keep(BUFFER, ring->handle);
	keep(BUFFER, pointers->handle);
	keep(PLACE, (uintptr_t)ring->cpu);
	keep(PLACE, (uintptr_t)pointers->cpu);
	ring_begin(i, create);
	if (kfd_ioctl(own.fd, AMDKFD_IOC_CREATE_QUEUE, create) != 0)
		return;
	keep(QUEUE, create->queue_id);
	if (kfd_mmap(own.fd, KFD_DOORBELL_SLICE,
		     create->doorbell_offset & ~(KFD_DOORBELL_SLICE - 1ull), &slice) != 0)
		return;
	ring_made(i, create->doorbell_offset, slice);
	keep(DOORBELL, (uintptr_t)slice + (create->doorbell_offset & (KFD_DOORBELL_SLICE - 1)));
}

void begin_kfd(void)
{
	struct kfd_bo ring, pointers;
	struct kfd_compute compute;
	struct kfd_save save;
	struct kfd_ioctl_create_queue_args create;
	uint32_t event;

	if (kfd_open(&own) != 0)
		return;
	keep(KFD_FILE, (uint32_t)own.fd);
	keep(RENDER_FILE, (uint32_t)own.drm_fd);
	if (kfd_bo_create(&own, &ring, KFD_PAGE, KFD_ALLOC_GTT) == 0 &&
	    kfd_bo_create(&own, &pointers, KFD_PAGE, KFD_ALLOC_GTT) == 0) {
		kfd_queue_args(&own, &ring, &pointers, &create);
		begin_queue(0, &create, &ring, &pointers);
	}
	if (kfd_save_create(&own, &save) == 0 &&
	    kfd_compute_prepare(&own, &compute, &save, once_in(2), KFD_PAGE, &create) == 0)
		begin_queue(1, &create, &compute.ring, &compute.control);
	if (event_create(&own, KFD_IOC_EVENT_SIGNAL, once_in(2), &event) == 0)
		keep(EVENT, event);
}
