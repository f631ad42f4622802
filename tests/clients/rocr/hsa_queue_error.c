// SPDX-License-Identifier: GPL-2.0
/*
 * ROCr's reaction to queues that go wrong: a refused packet and a wave that cannot go on reach the
 * queue's error handler, a fault the one for system events, and the program goes on with other
 * queues. A queue that hangs ends the program.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "code.h"
#include "model.h"
#include "tap.h"
#include "hsa.h"

#define PACKETS		64u
#define PACKET_BYTES	64u

#define HEADER(type)	((uint16_t)((type) << HSA_PACKET_HEADER_TYPE |			\
			 1u << HSA_PACKET_HEADER_BARRIER |				\
			 HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE | \
			 HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE))

/* The handlers' findings. */
static volatile struct {
	unsigned int calls;
	hsa_status_t status;
	hsa_queue_t *queue;
	uint64_t address;
} told;

static void queue_failed(hsa_status_t status, hsa_queue_t *queue, void *data)
{
	(void)data;
	told.status = status;
	told.queue = queue;
	__sync_fetch_and_add(&told.calls, 1);
}

static hsa_status_t system_event(const hsa_amd_event_t *event, void *data)
{
	(void)data;
	if (event->event_type != HSA_AMD_GPU_MEMORY_FAULT_EVENT)
		return HSA_STATUS_ERROR;
	told.address = event->memory_fault.virtual_address;
	__sync_fetch_and_add(&told.calls, 1);
	return HSA_STATUS_SUCCESS;
}

static bool is_told(void)
{
	const unsigned long long end = now_ns() + timeout_ms() * 1000000ull;

	while (!told.calls && now_ns() < end)
		usleep(1000);
	return told.calls == 1;
}

static hsa_queue_t *queue_new(void)
{
	hsa_queue_t *queue;

	must(hsa_queue_create(gpu, PACKETS, HSA_QUEUE_TYPE_SINGLE, queue_failed, NULL,
			      UINT32_MAX, UINT32_MAX, &queue), "hsa_queue_create");
	return queue;
}

static void submit(hsa_queue_t *queue, const void *packet)
{
	const uint64_t index = hsa_queue_add_write_index_relaxed(queue, 1);
	char *to = (char *)queue->base_address + index % queue->size * PACKET_BYTES;
	uint32_t head;

	memcpy(&head, packet, sizeof(head));
	memcpy(to + sizeof(head), (const char *)packet + sizeof(head),
	       PACKET_BYTES - sizeof(head));
	__atomic_store_n((uint32_t *)to, head, __ATOMIC_RELEASE);
	hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)index);
}

/* True if a barrier packet completes. */
static bool works(hsa_queue_t *queue)
{
	hsa_signal_t done = signal_new(1);
	hsa_barrier_and_packet_t packet = {
		.header = HEADER(HSA_PACKET_TYPE_BARRIER_AND),
		.completion_signal = done,
	};
	bool ok;

	submit(queue, &packet);
	ok = signal_wait(done);
	must(hsa_signal_destroy(done), "hsa_signal_destroy");
	return ok;
}

static void refused(const char *what, const void *packet, hsa_status_t status)
{
	hsa_queue_t *queue = queue_new(), *other = queue_new();

	memset((void *)&told, 0, sizeof(told));
	tap_ok(works(queue) && works(other), "%s: two queues work before it", what);
	submit(queue, packet);
	tap_ok(is_told() && told.queue == queue &&
	       told.status == status,
	       "%s: the queue's handler is told", what);
	tap_note("calls %u, status 0x%x", told.calls, told.status);
	tap_ok(works(other), "%s: the other queue goes on", what);
	tap_ok(hsa_queue_destroy(queue) == HSA_STATUS_SUCCESS &&
	       hsa_queue_destroy(other) == HSA_STATUS_SUCCESS, "%s: both can be destroyed", what);
}

/* Waves of the kernel @name end in an exception. */
static void exception(const struct code *code, const char *name, hsa_status_t status)
{
	const struct kernel kernel = code_kernel(code, name);
	hsa_queue_t *queue = queue_new(), *other = queue_new();
	hsa_signal_t done = signal_new(1);

	memset((void *)&told, 0, sizeof(told));
	kernel_start(queue, &kernel, GROUP, NULL, done);
	tap_ok(is_told() && told.queue == queue && told.status == status,
	       "%s: the queue's handler is told", name);
	tap_note("calls %u, status 0x%x", told.calls, told.status);
	tap_ok(works(other), "%s: the other queue goes on", name);
	tap_ok(hsa_queue_destroy(queue) == HSA_STATUS_SUCCESS &&
	       hsa_queue_destroy(other) == HSA_STATUS_SUCCESS, "%s: both can be destroyed", name);
	must(hsa_signal_destroy(done), "hsa_signal_destroy");
}

/* In a process of its own, before this one has the runtime. */
static void hang(void)
{
	int status = 0;
	pid_t pid;

	if (!model_present()) {
		tap_skip("a queue that hangs", "no model");
		return;
	}
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		const hsa_barrier_and_packet_t packet = {
			.header = HEADER(HSA_PACKET_TYPE_BARRIER_AND),
		};
		unsigned long long before;
		hsa_queue_t *queue;

		hsa_open();
		queue = queue_new();
		before = model_count("cp", "hangs");
		if (!model_command("hang-queue 1"))
			_exit(1);
		submit(queue, &packet);
		if (!model_exceeds("cp", "hangs", before))
			_exit(2);
		hsa_queue_destroy(queue);
		sleep(timeout_ms() / 1000);
		_exit(0);
	}
	tap_ok(pid > 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) &&
	       WTERMSIG(status) == SIGABRT, "a queue that hangs: the runtime ends the program");
	tap_note("status 0x%x", status);
}

static void fault(void)
{
	void *nothing = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const hsa_barrier_and_packet_t packet = {
		.header = HEADER(HSA_PACKET_TYPE_BARRIER_AND),
		.dep_signal[0] = { (uintptr_t)nothing },
	};
	hsa_queue_t *queue = queue_new();

	/* Not before: without it, any event of the system ends the program. */
	must(hsa_amd_register_system_event_handler(system_event, NULL),
	     "hsa_amd_register_system_event_handler");
	memset((void *)&told, 0, sizeof(told));
	submit(queue, &packet);
	tap_ok(is_told() && told.address == (uintptr_t)nothing,
	       "a fault: the handler of system events is told where");
	tap_ok(hsa_queue_destroy(queue) == HSA_STATUS_SUCCESS, "the queue can be destroyed");
	queue = queue_new();
	tap_ok(works(queue), "another one works");
	must(hsa_queue_destroy(queue), "hsa_queue_destroy");
}

int main(void)
{
	const hsa_kernel_dispatch_packet_t dispatch = {
		.header = HEADER(HSA_PACKET_TYPE_KERNEL_DISPATCH),
		.setup = 1,
		.workgroup_size_x = 64,
		.workgroup_size_y = 1,
		.workgroup_size_z = 1,
		.grid_size_x = 64,
		.grid_size_y = 1,
		.grid_size_z = 1,
	};
	const hsa_kernel_dispatch_packet_t nothing = {
		.header = HEADER(HSA_PACKET_TYPE_KERNEL_DISPATCH),
		.setup = 1,
	};
	const hsa_barrier_and_packet_t reserved = { .header = HEADER(7) };
	/* Its format is in the byte behind the header. */
	const hsa_barrier_and_packet_t vendor = {
		.header = HEADER(HSA_PACKET_TYPE_VENDOR_SPECIFIC),
		.reserved0 = 99,
	};
	struct code code;

	tap_start();
	hang();
	hsa_open();
	refused("a dispatch of no kernel", &dispatch, HSA_STATUS_ERROR_INVALID_CODE_OBJECT);
	refused("a dispatch of no work-items", &nothing,
		HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS);
	refused("a reserved type of packet", &reserved, HSA_STATUS_ERROR_INVALID_PACKET_FORMAT);
	refused("an unknown vendor packet", &vendor, HSA_STATUS_ERROR_INVALID_PACKET_FORMAT);
	code_load(&code);
	exception(&code, "gives_up.kd", HSA_STATUS_ERROR_EXCEPTION);
	exception(&code, "nonsense.kd", (hsa_status_t)HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION);
	code_unload(&code);
	fault();
	hsa_close();
	return tap_end();
}
