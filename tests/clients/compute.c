// SPDX-License-Identifier: GPL-2.0
/*
 * Compute queues, from one to far more than the hardware has room for, in more
 * processes than there are VMIDs. All but the first are made by plain ioctls:
 * libhsakmt would pin 61 MiB for the waves of each, which none of them has.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fair.h"
#include "common/queue.h"
#include "common/tap.h"
#include "kfd_compute.h"
#include "kfd_event.h"

#define RING_SIZE	(16u << 10)
#define PROCESSES	20u
#define QUEUES_MAX	128u
#define TIMEOUT_MS	60000u
#define ROUNDS		8u

#define FAIR_MS		2000u
#define FAIR_MOST_MS	40000u

static void hsakmt_queue(const struct gpu *gpu, bool aql)
{
	struct buffer ring, control, target;
	HsaQueueResource resource;
	struct packets p = { 0 };
	volatile uint64_t *wptr, *doorbell;
	unsigned long long end = now_ns() + timeout_ms() * 1000000ull;

	buffer_create(gpu, &ring, BUFFER_GTT, RING_SIZE);
	buffer_create(gpu, &control, BUFFER_GTT, 4096);
	buffer_create(gpu, &target, BUFFER_VRAM, 4096);
	memset(control.cpu, 0, 4096);
	memset(&resource, 0, sizeof(resource));
	if (aql) {
		*(uint32_t *)(control.cpu + 0x88) = 0x80;
		resource.QueueWptrValue = control.gpu + 0x38;
		resource.QueueRptrValue = control.gpu + 0x80;
	}
	if (!tap_ok(hsaKmtCreateQueue(gpu->node, aql ? HSA_QUEUE_COMPUTE_AQL : HSA_QUEUE_COMPUTE,
				      100, HSA_QUEUE_PRIORITY_NORMAL, ring.cpu, RING_SIZE,
				      NULL, &resource) == HSAKMT_STATUS_SUCCESS,
		    "libhsakmt makes a queue of %s packets", aql ? "AQL" : "PM4"))
		return;
	wptr = aql ? (volatile uint64_t *)(control.cpu + 0x38) :
	       (volatile uint64_t *)resource.Queue_write_ptr_aql;
	doorbell = (volatile uint64_t *)resource.Queue_DoorBell_aql;
	pm4_release(&p, target.gpu, 0xc0ffee, 0);
	if (aql) {
		memcpy(control.cpu + 0x400, p.dwords, p.count * 4);
		aql_pm4((struct aql_packet *)ring.cpu, control.gpu + 0x400, p.count, 0);
		*wptr = 1;
		__sync_synchronize();
		*doorbell = 0;
	} else {
		memcpy(ring.cpu, p.dwords, p.count * 4);
		*wptr = p.count;
		__sync_synchronize();
		*doorbell = p.count;
	}
	while (*(volatile uint64_t *)target.cpu != 0xc0ffee && now_ns() < end)
		usleep(100);
	tap_ok(*(volatile uint64_t *)target.cpu == 0xc0ffee, "it writes to memory");
	tap_ok(hsaKmtDestroyQueue(resource.QueueId) == HSAKMT_STATUS_SUCCESS, "it is destroyed");
	buffer_destroy(&target);
	buffer_destroy(&control);
	buffer_destroy(&ring);
}

/* What a process of many() or fairness() has. */
struct part {
	struct kfd_dev dev;
	struct kfd_save save;
	struct kfd_bo page;		/* of events */
	struct kfd_compute queue[QUEUES_MAX];
	uint32_t event[QUEUES_MAX];
	unsigned int count;
};

static bool part_open(struct part *part, unsigned int count, size_t ring)
{
	unsigned int i;

	memset(part, 0, sizeof(*part));
	if (kfd_open(&part->dev) || kfd_save_create(&part->dev, &part->save) ||
	    event_page_user(&part->dev, &part->page, &part->event[0]))
		return false;
	for (i = 0; i < count; i++, part->count++) {
		if (i && event_create(&part->dev, KFD_IOC_EVENT_SIGNAL, true, &part->event[i]))
			return false;
		/* Both kinds of packets, one after the other. */
		if (kfd_compute_create(&part->dev, &part->queue[i], &part->save, i & 1, ring))
			return false;
	}
	return true;
}

static bool part_close(struct part *part)
{
	while (part->count)
		if (kfd_compute_destroy(&part->dev, &part->queue[--part->count]))
			return false;
	if (kfd_save_destroy(&part->dev, &part->save))
		return false;
	kfd_close(&part->dev);
	return true;
}

static uint64_t slot(const struct part *part, unsigned int i)
{
	return (uintptr_t)part->page.cpu + 8 * part->event[i];
}

/*
 * One round of queue @i: waits for the round of the queue before it, counts in
 * memory, lets the next one go, and interrupts.
 */
static bool submit(struct part *part, unsigned int i, unsigned int round)
{
	struct kfd_compute *queue = &part->queue[i];
	const struct kfd_compute *before = i ? &part->queue[i - 1] : NULL;
	struct packets p = { 0 };

	if (before)
		pm4_wait_memory(&p, kfd_compute_address(before, KFD_COMPUTE_FENCE), round);
	pm4_atomic_add64(&p, kfd_compute_address(queue, KFD_COMPUTE_FENCE + 8), round);
	pm4_release(&p, kfd_compute_address(queue, KFD_COMPUTE_FENCE), round, 0);
	if (!queue->aql) {
		pm4_release(&p, slot(part, i), part->event[i], part->event[i]);
		return kfd_compute_pm4(queue, &p);
	} else {
		struct aql_signal *signal = (void *)kfd_compute_qword(queue, KFD_COMPUTE_SIGNAL);
		const size_t ib = KFD_COMPUTE_IB + round % 8 * 0x100;
		const uint64_t address = kfd_compute_address(queue, KFD_COMPUTE_SIGNAL);
		struct aql_packet packets[2];

		signal->kind = 1;
		signal->mailbox = slot(part, i);
		signal->event = part->event[i];
		signal->value = 1;
		memcpy((char *)queue->control.cpu + ib, p.dwords, p.count * 4);
		aql_pm4(&packets[0], kfd_compute_address(queue, ib), p.count, 0);
		aql_barrier(&packets[1], AQL_BARRIER_AND, NULL, 0, address);
		return kfd_compute_aql(queue, packets, 2);
	}
}

static int rounds(unsigned int count)
{
	struct part part;
	unsigned int round, i;

	if (!part_open(&part, count, RING_SIZE))
		return 1;
	for (round = 1; round <= ROUNDS; round++) {
		/* The last first: it has to wait for all others. */
		for (i = count; i-- > 0;)
			if (!submit(&part, i, round))
				return 2;
		for (i = 0; i < count; i++)
			if (event_wait(&part.dev, part.event[i], TIMEOUT_MS))
				return 3;
	}
	for (i = 0; i < count; i++)
		if (*kfd_compute_qword(&part.queue[i], KFD_COMPUTE_FENCE + 8) !=
		    ROUNDS * (ROUNDS + 1) / 2)
			return 4;
	return part_close(&part) ? 0 : 5;
}

/* Runs @what in @processes processes with @queues queues among them. */
static bool together(unsigned int processes, unsigned int queues,
		     int (*what)(unsigned int first, unsigned int count))
{
	unsigned int i, first = 0;
	pid_t pid[PROCESSES];
	bool good = true;
	int status;

	fflush(stdout);
	for (i = 0; i < processes; i++) {
		const unsigned int count = queues / processes + (i < queues % processes);

		pid[i] = fork();
		if (pid[i] < 0)
			die("fork failed");
		if (pid[i] == 0)
			exit(what(first, count));
		first += count;
	}
	for (i = 0; i < processes; i++) {
		if (waitpid(pid[i], &status, 0) > 0 && WIFEXITED(status) &&
		    WEXITSTATUS(status) == 0)
			continue;
		tap_note("a process ended with status %#x", status);
		good = false;
	}
	return good;
}

static int rounds_of(unsigned int first, unsigned int count)
{
	(void)first;
	return rounds(count);
}

static void many(unsigned int queues, unsigned int processes)
{
	const unsigned long long begin = now_ns();
	const bool good = together(processes, queues, rounds_of);

	tap_ok(good,
	       "%u queues of %u processes write, wait for each other, interrupt (%llu ms)",
	       queues, processes, (now_ns() - begin) / 1000000);
}

/*
 * Queues that have work all the time: none of them starves. They are looked at
 * for two seconds, and for longer where the machine is so slow that not each
 * had its turn by then.
 */
static void fairness(unsigned int queues, unsigned int processes)
{
	struct fair fair;
	const bool good = fair_measure(queues, processes, FAIR_MS, FAIR_MOST_MS, &fair);

	tap_ok(good && fair.share > 0, "each of %u busy queues of %u processes gets on", queues,
	       processes);
	tap_note("least over most %.2f in %u ms, all together did %llu", fair.share, fair.ms,
		 (unsigned long long)fair.done);
	if (fair.counted)
		tap_ok(fair.most <= fair.fewest + 1, "all had as many turns: %u to %u",
		       fair.fewest, fair.most);
}

int main(void)
{
	struct gpu gpu;

	tap_start();
	many(1, 1);
	many(32, work(PROCESSES, 4));
	many(work(QUEUES_MAX, 40), work(PROCESSES, 14));
	fairness(48, 16);
	fairness(work(QUEUES_MAX, 40), work(PROCESSES, 14));
	gpu_open(&gpu);
	hsakmt_queue(&gpu, false);
	hsakmt_queue(&gpu, true);
	gpu_close();
	return tap_end();
}
