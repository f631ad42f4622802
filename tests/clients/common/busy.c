// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>
#include <unistd.h>

#include "busy.h"
#include "child.h"
#include "kfd_compute.h"
#include "tap.h"

#define RING_SIZE	(4u << 10)
/* Packets of a loop. */
#define LOOP		32u

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
		if (i + 1 < queues &&
		    !kfd_compute_count(&queue[i], &loop[i], LOOP,
				       kfd_compute_address(&queue[i], KFD_COMPUTE_FENCE), 0))
			exit(3);
	}
	pm4_wait_memory(&p, kfd_compute_address(&queue[queues - 1], KFD_COMPUTE_FENCE), 1);
	kfd_compute_submit(&queue[queues - 1], &p);
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
