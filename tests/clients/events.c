// SPDX-License-Identifier: GPL-2.0
/*
 * Events of libhsakmt that the GPU sets: an SDMA queue writes the event's slot and traps, as
 * ROCr's queues do at the end of a copy. Also interrupts that are lost on their way, and faults
 * of two processes.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/asleep.h"
#include "common/check.h"
#include "common/child.h"
#include "model.h"
#include "common/queue.h"
#include "tap.h"
#include "trace.h"

#define RING_SIZE	(16u << 10)
#define BYTES		4096u
#define MANY		32u
#define LOST		5u
/* The possible cost of a lost interrupt: waiters poll ten times in a second. */
#define LOST_MS		timeout_ms()

static HsaEvent *event_new(const struct gpu *gpu, HSA_EVENTTYPE type, bool manual)
{
	HsaEventDescriptor what = { .EventType = type, .NodeId = gpu->node };
	HsaEvent *event;

	if (hsaKmtCreateEvent(&what, manual, false, &event) != HSAKMT_STATUS_SUCCESS)
		die("no event of type %u", type);
	return event;
}

/* A copy with the event's signal behind it. */
static void copy_and_signal(struct queue *queue, const struct buffer *dst,
			    const struct buffer *src, const HsaEvent *event)
{
	struct packets p = { 0 };

	sdma_copy(&p, dst->gpu, src->gpu, BYTES);
	sdma_fence(&p, event->EventData.HWData2, event->EventData.HWData3);
	sdma_trap(&p, event->EventData.HWData3);
	queue_push(queue, &p);
	queue_ring(queue);
}

static bool comes(HsaEvent *event, unsigned int ms)
{
	return hsaKmtWaitOnEvent(event, ms) == HSAKMT_STATUS_SUCCESS;
}

static bool copies(struct queue *queue, struct buffer *dst, struct buffer *src,
		   HsaEvent *event, unsigned int times, unsigned int ms)
{
	unsigned int i;

	for (i = 0; i < times; i++) {
		memset(src->cpu, i + 1, BYTES);
		copy_and_signal(queue, dst, src, event);
		if (!comes(event, ms) || memcmp(src->cpu, dst->cpu, BYTES)) {
			tap_note("copy %u", i);
			return false;
		}
	}
	return true;
}

static void many_events(const struct gpu *gpu, struct queue *queue,
			struct buffer *dst, struct buffer *src)
{
	HsaEvent *events[MANY];
	unsigned int i;
	bool ok = true;

	for (i = 0; i < MANY; i++)
		events[i] = event_new(gpu, HSA_EVENTTYPE_SIGNAL, false);
	for (i = 0; i < MANY; i++)
		copy_and_signal(queue, dst, src, events[i]);
	tap_ok(hsaKmtWaitOnMultipleEvents(events, MANY, true, timeout_ms()) ==
	       HSAKMT_STATUS_SUCCESS, "%u copies, %u events, one wait for all", MANY, MANY);
	copy_and_signal(queue, dst, src, events[MANY / 2]);
	tap_ok(hsaKmtWaitOnMultipleEvents(events, MANY, false, timeout_ms()) ==
	       HSAKMT_STATUS_SUCCESS, "a wait for any of them");
	for (i = 0; i < MANY; i++)
		ok &= hsaKmtDestroyEvent(events[i]) == HSAKMT_STATUS_SUCCESS;
	tap_ok(ok, "they can be destroyed");
}

/*
 * Interrupts that threads of this program have handled: they are for all users of the CPU,
 * whatever the waiter's priority.
 */
static unsigned int handled_here(void)
{
	return trace_count("rkfd_interrupt", " events-");
}

/*
 * A copy whose message to the CPU is lost while this thread waits for it. @gate is a word that
 * the engine waits for.
 */
static bool loses_one(struct queue *queue, struct buffer *dst, struct buffer *src, HsaEvent *event,
		      const struct buffer *gate)
{
	struct packets p = { 0 };
	struct asleep asleep;
	bool ok;

	if (!model_command("drop-interrupt 1"))
		return false;
	memset(src->cpu, ~*(unsigned char *)src->cpu, BYTES);
	sdma_wait_memory(&p, gate->gpu, 1);
	asleep_begin(&asleep, (volatile uint32_t *)gate->cpu);
	queue_push(queue, &p);
	copy_and_signal(queue, dst, src, event);
	ok = comes(event, LOST_MS) && !memcmp(src->cpu, dst->cpu, BYTES);
	return asleep_end(&asleep) && ok;
}

/* The writes to memory are not lost with it. */
static void lost_interrupts(struct queue *queue, struct buffer *dst,
			    struct buffer *src, HsaEvent *event, const struct buffer *gate)
{
	unsigned int i;
	bool ok = true;

	if (!model_present()) {
		tap_skip("lost interrupts", "no model that could lose them");
		return;
	}
	if (!trace_open("rkfd-events") || !trace_enable("rkfd/rkfd_interrupt"))
		die("no trace events");
	for (i = 0; i < LOST; i++)
		ok &= loses_one(queue, dst, src, event, gate);
	tap_ok(ok, "a wait ends though the interrupt is lost, %u times", LOST);
	tap_ok(trace_wait("rkfd_interrupt", NULL, LOST, LOST_MS) && !handled_here(),
	       "none of these is handled by who waits for it");
	trace_print("# ", " events-", 1);
	trace_close();
	tap_ok(copies(queue, dst, src, event, MANY, timeout_ms()),
	       "after that, interrupts come");
}

/* In a process of its own: the event's data after a fault or a refused packet. */
static bool told_of_fault(const struct gpu *gpu, struct queue *queue, struct buffer *dst)
{
	HsaEvent *event = event_new(gpu, HSA_EVENTTYPE_MEMORY, true);
	const HsaMemoryAccessFault *fault = &event->EventData.EventData.MemoryAccessFault;
	void *nothing = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct packets p = { 0 };

	sdma_copy(&p, dst->gpu, (uintptr_t)nothing, 64);
	queue_push(queue, &p);
	queue_ring(queue);
	return comes(event, timeout_ms()) && fault->NodeId == gpu->node &&
	       fault->VirtualAddress == (uintptr_t)nothing && fault->Failure.NotPresent == 1 &&
	       fault->Failure.ReadOnly == 0 &&
	       fault->Flags == HSA_EVENTID_MEMORY_FATAL_PROCESS;
}

static bool told_of_refusal(const struct gpu *gpu, struct queue *queue)
{
	HsaEvent *event = event_new(gpu, HSA_EVENTTYPE_HW_EXCEPTION, true);
	struct packets p = { 0 };

	sdma_emit(&p, 0xfe);
	queue_push(queue, &p);
	queue_ring(queue);
	return comes(event, timeout_ms()) &&
	       event->EventData.EventData.HwException.ResetCause ==
	       HSA_EVENTID_HW_EXCEPTION_GPU_HANG;
}

static int in_child(bool fault)
{
	struct buffer dst;
	struct queue queue;
	struct gpu gpu;

	gpu_open(&gpu);
	queue_create(&gpu, &queue, RING_SIZE, BUFFER_GTT);
	buffer_create(&gpu, &dst, BUFFER_GTT, BYTES);
	return !(fault ? told_of_fault(&gpu, &queue, &dst) : told_of_refusal(&gpu, &queue));
}

static pid_t start(bool fault, int *go)
{
	int ends[2];
	pid_t pid;
	char c;

	if (pipe(ends))
		die("no pipe");
	pid = child_fork();
	if (pid == 0) {
		close(ends[1]);
		/* Until the parent allows it, or has ended. */
		if (read(ends[0], &c, 1) != 1)
			exit(2);
		exit(in_child(fault));
	}
	close(ends[0]);
	*go = ends[1];
	return pid;
}

static bool succeeds(pid_t pid, int go)
{
	return write(go, "", 1) == 1 && child_status(pid) == 0;
}

int main(void)
{
	HsaEvent *event, *fault, *exception;
	struct buffer src, dst, gate;
	struct queue queue;
	struct gpu gpu;
	int go[2];
	pid_t pid[2];

	tap_start();
	/* Before libhsakmt is opened here. */
	pid[0] = start(true, &go[0]);
	pid[1] = start(false, &go[1]);

	gpu_open(&gpu);
	buffer_create(&gpu, &src, BUFFER_GTT, BYTES);
	buffer_create(&gpu, &dst, BUFFER_VRAM, BYTES);
	buffer_create(&gpu, &gate, BUFFER_GTT, BYTES);
	queue_create(&gpu, &queue, RING_SIZE, BUFFER_GTT);
	event = event_new(&gpu, HSA_EVENTTYPE_SIGNAL, false);
	tap_ok(event->EventData.HWData2 != 0, "the event has a slot");
	tap_ok(copies(&queue, &dst, &src, event, work(200, 40), timeout_ms()),
	       "copies that end with an event");
	many_events(&gpu, &queue, &dst, &src);
	lost_interrupts(&queue, &dst, &src, event, &gate);

	fault = event_new(&gpu, HSA_EVENTTYPE_MEMORY, true);
	exception = event_new(&gpu, HSA_EVENTTYPE_HW_EXCEPTION, true);
	tap_ok(succeeds(pid[0], go[0]), "a process is told of its fault");
	tap_ok(succeeds(pid[1], go[1]), "a process is told of a refused packet");
	tap_ok(!comes(fault, 0) && !comes(exception, 0), "and no other process");
	tap_ok(copies(&queue, &dst, &src, event, MANY, timeout_ms()), "which goes on");

	hsaKmtDestroyEvent(exception);
	hsaKmtDestroyEvent(fault);
	hsaKmtDestroyEvent(event);
	queue_destroy(&queue);
	buffer_destroy(&gate);
	buffer_destroy(&dst);
	buffer_destroy(&src);
	tap_ok(check_copies(&gpu), "after all that, copies work");
	gpu_close();
	return tap_end();
}
