// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "busy.h"
#include "child.h"
#include "kfd_compute.h"
#include "tap.h"

#define RING_SIZE	(4u << 10)
/* Packets of a loop. */
#define LOOP		32u

/* Has a queue count without end. */
static bool count_on(struct kfd_compute *queue, const struct kfd_bo *loop)
{
	const uint64_t start = (uintptr_t)loop->cpu;
	struct aql_packet packet;
	struct packets p = { 0 };
	uint32_t *to = loop->cpu;
	unsigned int i, dwords = 0;

	for (i = 0; i < LOOP; i++) {
		p.count = 0;
		pm4_atomic_add64(&p, kfd_compute_address(queue, KFD_COMPUTE_FENCE), 1);
		memcpy(to + dwords, p.dwords, p.count * 4);
		dwords += p.count;
	}
	p.count = 0;
	/* Its own length is part of the buffer's. */
	pm4_chain(&p, start, dwords + 4);
	memcpy(to + dwords, p.dwords, p.count * 4);
	dwords += p.count;
	p.count = 0;
	pm4_indirect(&p, start, dwords);
	aql_pm4(&packet, start, dwords, 0);
	return queue->aql ? kfd_compute_aql(queue, &packet, 1) : kfd_compute_pm4(queue, &p);
}

static bool counts(const struct kfd_compute *queue)
{
	const unsigned long long end = now_ns() + timeout_ms() * 1000000ull;

	while (!*kfd_compute_qword(queue, KFD_COMPUTE_FENCE)) {
		if (now_ns() > end)
			return false;
		usleep(1000);
	}
	return true;
}

static void run(int ready, unsigned int queues)
{
	static struct kfd_compute queue[BUSY_QUEUES_MAX];
	static struct kfd_bo loop[BUSY_QUEUES_MAX];
	struct kfd_save save;
	struct packets p = { 0 };
	struct kfd_dev dev;
	unsigned int i;

	if (kfd_open(&dev) || kfd_save_create(&dev, &save))
		exit(1);
	for (i = 0; i < queues; i++) {
		if (kfd_compute_create(&dev, &queue[i], &save, i & 1, RING_SIZE) ||
		    kfd_bo_create(&dev, &loop[i], KFD_PAGE, KFD_ALLOC_GTT))
			exit(2);
		if (i + 1 < queues && !count_on(&queue[i], &loop[i]))
			exit(3);
	}
	/* In a buffer, so that both kinds can wait for it. */
	pm4_wait_memory(&p, kfd_compute_address(&queue[queues - 1], KFD_COMPUTE_FENCE), 1);
	if (queue[queues - 1].aql) {
		struct aql_packet packet;

		memcpy(loop[queues - 1].cpu, p.dwords, p.count * 4);
		aql_pm4(&packet, (uintptr_t)loop[queues - 1].cpu, p.count, 0);
		kfd_compute_aql(&queue[queues - 1], &packet, 1);
	} else {
		kfd_compute_pm4(&queue[queues - 1], &p);
	}
	for (i = 0; i + 1 < queues; i++)
		if (!counts(&queue[i]))
			exit(4);
	if (write(ready, "", 1) != 1)
		exit(5);
	for (;;)
		pause();
}

pid_t busy_start(unsigned int queues)
{
	return child_start(run, queues);
}
