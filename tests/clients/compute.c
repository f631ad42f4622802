// SPDX-License-Identifier: GPL-2.0
/*
 * Compute queues, from one to far more than the hardware has room for, in more processes than
 * there are VMIDs. libhsakmt creates them where there is memory: it needs 61 MiB to save the
 * waves of each, though none of them has any. 128 queues want a guest of 13 GiB; with less,
 * plain ioctls create them, with one such area in VRAM for all queues of a process.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/child.h"
#include "common/fair.h"
#include "common/queue.h"
#include "tap.h"
#include "kfd_compute.h"
#include "kfd_event.h"

#define RING_SIZE	(16u << 10)
#define PROCESSES	20u
#define QUEUES_MAX	128u
#define TIMEOUT_MS	KFD_HANG_MS
#define ROUNDS		8u

/* Left for others when the areas are allocated. */
#define SPARE_KIB	(256u << 10)

/* The part of memory that the GPU may get on large machines, see Documentation/limits.md. */
#define LENT_PART(total) ((total) / 32 * 21)

#define FAIR_MS		2000u
#define FAIR_MOST_MS	KFD_HANG_MS

/* The objects of a process of many(). */
struct part {
	bool library;			/* libhsakmt made all of it */
	struct gpu gpu;			/* if so: */
	struct buffer ring[QUEUES_MAX], control[QUEUES_MAX];
	HsaQueueResource resource[QUEUES_MAX];
	HsaEvent *signal[QUEUES_MAX];
	struct kfd_dev dev;		/* if not: */
	struct kfd_save save;
	struct kfd_bo page;		/* of events */
	struct kfd_compute queue[QUEUES_MAX];
	uint32_t event[QUEUES_MAX];
	uint64_t slot[QUEUES_MAX];	/* of the events, for the GPU */
	unsigned int count;
};

/* The place where processes of many() wait for each other. */
struct meeting {
	int ready[2], go[2];
};

/* Creates the process's next queue; it holds AQL packets if @aql, else PM4. */
static bool create_by_library(struct part *part, bool aql)
{
	const unsigned int i = part->count;
	struct kfd_compute *queue = &part->queue[i];
	struct buffer *ring = &part->ring[i], *control = &part->control[i];
	HsaEventDescriptor what = { .EventType = HSA_EVENTTYPE_SIGNAL, .NodeId = part->gpu.node };
	HsaQueueResource *resource = &part->resource[i];
	unsigned int n;

	buffer_create(&part->gpu, ring, BUFFER_GTT, RING_SIZE);
	buffer_create(&part->gpu, control, BUFFER_GTT, KFD_PAGE);
	memset(control->cpu, 0, KFD_PAGE);
	queue->aql = aql;
	queue->ring = (struct kfd_bo){ .cpu = ring->cpu, .size = ring->size };
	queue->control = (struct kfd_bo){ .cpu = control->cpu, .size = control->size };
	if (aql) {
		struct aql_packet *packets = (struct aql_packet *)ring->cpu;

		for (n = 0; n < RING_SIZE / sizeof(*packets); n++)
			packets[n].header = AQL_INVALID;
		*(uint32_t *)(control->cpu + 0x88) = KFD_COMPUTE_RPTR;
		resource->QueueWptrValue = control->gpu + KFD_COMPUTE_WPTR;
		resource->QueueRptrValue = control->gpu + KFD_COMPUTE_RPTR;
	}
	if (hsaKmtCreateQueue(part->gpu.node, aql ? HSA_QUEUE_COMPUTE_AQL : HSA_QUEUE_COMPUTE,
			      100, HSA_QUEUE_PRIORITY_NORMAL, ring->cpu, ring->size, NULL,
			      resource) != HSAKMT_STATUS_SUCCESS)
		return false;
	queue->write = (volatile uint64_t *)resource->Queue_write_ptr_aql;
	queue->read = (volatile uint64_t *)resource->Queue_read_ptr_aql;
	queue->doorbell = (volatile uint64_t *)resource->Queue_DoorBell_aql;
	if (hsaKmtCreateEvent(&what, false, false, &part->signal[i]) != HSAKMT_STATUS_SUCCESS)
		return false;
	part->event[i] = part->signal[i]->EventId;
	part->slot[i] = part->signal[i]->EventData.HWData2;
	return true;
}

static bool create_by_ioctls(struct part *part, bool aql)
{
	const unsigned int i = part->count;

	if (i && event_create(&part->dev, KFD_IOC_EVENT_SIGNAL, true, &part->event[i]))
		return false;
	part->slot[i] = (uintptr_t)part->page.cpu + 8 * part->event[i];
	return !kfd_compute_create(&part->dev, &part->queue[i], &part->save, aql, RING_SIZE);
}

static bool part_open(struct part *part, unsigned int first, unsigned int count)
{
	if (part->library)
		gpu_open(&part->gpu);
	else if (kfd_open(&part->dev) || kfd_save_create(&part->dev, &part->save) ||
		 event_page_user(&part->dev, &part->page, &part->event[0]))
		return false;
	for (; part->count < count; part->count++) {
		/* Both kinds of packets, one after the other. */
		const bool aql = (first + part->count) & 1;

		if (part->library ? create_by_library(part, aql) : create_by_ioctls(part, aql))
			continue;
		tap_note("queue %u of a process: %s", part->count, strerror(errno));
		return false;
	}
	return true;
}

static bool part_wait(struct part *part, unsigned int i)
{
	if (part->library)
		return hsaKmtWaitOnEvent(part->signal[i], TIMEOUT_MS) == HSAKMT_STATUS_SUCCESS;
	return !event_wait(&part->dev, part->event[i], TIMEOUT_MS);
}

static bool part_close(struct part *part)
{
	while (part->count) {
		const unsigned int i = --part->count;

		if (!part->library) {
			if (kfd_compute_destroy(&part->dev, &part->queue[i]))
				return false;
			continue;
		}
		if (hsaKmtDestroyQueue(part->resource[i].QueueId) != HSAKMT_STATUS_SUCCESS ||
		    hsaKmtDestroyEvent(part->signal[i]) != HSAKMT_STATUS_SUCCESS)
			return false;
		buffer_destroy(&part->control[i]);
		buffer_destroy(&part->ring[i]);
	}
	if (part->library) {
		gpu_close();
		return true;
	}
	if (kfd_save_destroy(&part->dev, &part->save))
		return false;
	kfd_close(&part->dev);
	return true;
}

/*
 * One round of queue @i: waits for the round of the queue before it, counts in memory, releases
 * the next one, and interrupts.
 */
static bool submit(struct part *part, unsigned int i, unsigned int round)
{
	struct kfd_compute *queue = &part->queue[i];
	const struct kfd_compute *before = i ? &part->queue[i - 1] : NULL;
	struct packets p = { 0 };
	struct aql_packet packets[2];
	struct aql_signal *signal;
	uint64_t address;
	size_t ib;

	if (before)
		pm4_wait_memory(&p, kfd_compute_address(before, KFD_COMPUTE_FENCE), round);
	pm4_atomic_add64(&p, kfd_compute_address(queue, KFD_COMPUTE_FENCE + 8), round);
	pm4_release(&p, kfd_compute_address(queue, KFD_COMPUTE_FENCE), round, 0);
	if (!queue->aql) {
		pm4_release(&p, part->slot[i], part->event[i], part->event[i]);
		return kfd_compute_pm4(queue, &p);
	}
	signal = (void *)kfd_compute_qword(queue, KFD_COMPUTE_SIGNAL);
	ib = KFD_COMPUTE_IB + round % 8 * 0x100;
	address = kfd_compute_address(queue, KFD_COMPUTE_SIGNAL);
	signal->kind = 1;
	signal->mailbox = part->slot[i];
	signal->event = part->event[i];
	signal->value = 1;
	memcpy((char *)queue->control.cpu + ib, p.dwords, p.count * 4);
	aql_pm4(&packets[0], kfd_compute_address(queue, ib), p.count, 0);
	aql_barrier(&packets[1], AQL_BARRIER_AND, NULL, 0, address);
	return kfd_compute_aql(queue, packets, 2);
}

/* Reports that this process has its queues, and waits until all have theirs. */
static bool meet(const struct meeting *meeting)
{
	char byte = 0;

	close(meeting->go[1]);
	return write(meeting->ready[1], &byte, 1) == 1 && !close(meeting->ready[1]) &&
	       read(meeting->go[0], &byte, 1) == 0;
}

static int rounds(bool library, unsigned int first, unsigned int count,
		  const struct meeting *meeting)
{
	static struct part part;
	unsigned int round, i;

	part.library = library;
	if (!part_open(&part, first, count))
		return 1;
	if (!meet(meeting))
		return 6;
	for (round = 1; round <= ROUNDS; round++) {
		/* The last one first: it has to wait for all others. */
		for (i = count; i-- > 0;)
			if (!submit(&part, i, round))
				return 2;
		for (i = 0; i < count; i++)
			if (!part_wait(&part, i))
				return 3;
	}
	for (i = 0; i < count; i++)
		if (*kfd_compute_qword(&part.queue[i], KFD_COMPUTE_FENCE + 8) !=
		    ROUNDS * (ROUNDS + 1) / 2)
			return 4;
	return part_close(&part) ? 0 : 5;
}

/* True if there is memory for the areas that libhsakmt allocates for @queues queues. */
static bool is_roomy(unsigned int queues)
{
	uint64_t available = 0, total = 0, area, wanted;
	char line[128], path[128];
	struct kfd_dev dev;
	FILE *f;

	if (kfd_find_gpu(&dev))
		die("no GPU");
	snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%u/properties", dev.node);
	f = fopen("/proc/meminfo", "re");
	if (!f || !kfd_property(path, "cwsr_size", &area))
		die("no figures of memory");
	while (fgets(line, sizeof(line), f)) {
		sscanf(line, "MemTotal: %" SCNu64, &total);
		sscanf(line, "MemAvailable: %" SCNu64, &available);
	}
	fclose(f);
	/*
	 * In KiB; the area is a little larger, and other things want memory too. All may be
	 * there at once.
	 */
	wanted = (area / 1024 + 2048) * queues;
	return available > wanted + SPARE_KIB && LENT_PART(total) > wanted;
}

/* Queues of @processes processes, @queues in all; the first one holds AQL packets if @aql. */
static void many(unsigned int queues, unsigned int processes, bool aql)
{
	const unsigned long long begin = now_ns();
	const bool library = is_roomy(queues);
	unsigned int i, first = aql;
	struct meeting meeting;
	pid_t pid[PROCESSES];
	char byte;

	if (pipe(meeting.ready) || pipe(meeting.go))
		die("pipe failed");
	for (i = 0; i < processes; i++) {
		const unsigned int count = queues / processes + (i < queues % processes);

		pid[i] = child_fork();
		if (pid[i] == 0)
			exit(rounds(library, first, count, &meeting));
		first += count;
	}
	/* A process that failed reports nothing, and then the others stop too. */
	close(meeting.ready[1]);
	for (i = 0; i < processes && read(meeting.ready[0], &byte, 1) == 1;)
		i++;
	close(meeting.ready[0]);
	close(meeting.go[0]);
	close(meeting.go[1]);
	tap_ok(children_succeed(pid, processes),
	       "%u queues of %u processes write, wait for each other, interrupt",
	       queues, processes);
	tap_note("made by %s, %llu ms", library ? "libhsakmt" : "ioctls, for want of memory",
		 (now_ns() - begin) / 1000000);
}

/*
 * Queues that have work all the time: none of them starves. The measurement takes two seconds,
 * and longer where the machine is so slow that some queue has not run by then.
 */
static void fairness(unsigned int queues, unsigned int processes)
{
	struct fair fair;
	const bool good = fair_measure(queues, processes, FAIR_MS, FAIR_MOST_MS, &fair);

	tap_ok(good && fair.share > 0, "each of %u busy queues of %u processes gets on", queues,
	       processes);
	tap_note("least over most %.2f in %u ms, all together did %llu", fair.share, fair.ms,
		 (unsigned long long)fair.done);
	if (kfd_sched_is_direct())
		tap_ok(fair.counted && fair.most <= fair.fewest + 1,
		       "all had as many turns: %u to %u", fair.fewest, fair.most);
}

int main(void)
{
	tap_start();
	many(1, 1, false);
	many(1, 1, true);
	many(32, work(PROCESSES, 4), false);
	many(work(QUEUES_MAX, 40), work(PROCESSES, 14), false);
	fairness(48, 16);
	fairness(work(QUEUES_MAX, 40), work(PROCESSES, 14));
	return tap_end();
}
