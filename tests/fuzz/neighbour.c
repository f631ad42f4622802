// SPDX-License-Identifier: GPL-2.0
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "child.h"
#include "kfd.h"
#include "neighbour.h"
#include "tap.h"

#define BYTES	(64u << 10)

struct shared {
	_Atomic bool end;
	_Atomic long rounds;
};

static struct shared *shared;

static bool filled(const struct kfd_bo *bo, uint32_t value)
{
	const volatile uint32_t *p = bo->cpu;

	for (size_t i = 0; i < BYTES / sizeof(*p); i++)
		if (p[i] != value)
			return false;
	return true;
}

struct place {
	struct kfd_dev dev;
	struct kfd_queue queue;
	struct kfd_bo vram, gtt;
};

static bool begin(struct place *p)
{
	return kfd_open(&p->dev) == 0 &&
	       kfd_bo_create(&p->dev, &p->vram, BYTES, KFD_ALLOC_VRAM) == 0 &&
	       kfd_bo_create(&p->dev, &p->gtt, BYTES, KFD_ALLOC_GTT) == 0 &&
	       kfd_queue_create(&p->dev, &p->queue, 16u << 10) == 0;
}

static bool round_trip(struct place *p, uint32_t value)
{
	const uint64_t vram = (uintptr_t)p->vram.cpu, gtt = (uintptr_t)p->gtt.cpu;

	return kfd_queue_fill(&p->queue, vram, value, BYTES, timeout_ms()) == 0 &&
	       filled(&p->vram, value) &&
	       kfd_queue_copy(&p->queue, gtt, vram, BYTES, timeout_ms()) == 0 &&
	       filled(&p->gtt, value);
}

bool neighbour_once(void)
{
	const pid_t pid = child_fork();

	if (pid == 0) {
		struct place p;

		_exit(begin(&p) && round_trip(&p, 0x600df00d) ? 0 : 1);
	}
	return child_status(pid) == 0;
}

pid_t neighbour_start(void)
{
	pid_t pid;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		die("no memory for a neighbour");
	pid = child_fork();
	if (pid == 0) {
		struct place p;

		if (!begin(&p))
			_exit(1);
		while (!atomic_load(&shared->end)) {
			if (!round_trip(&p, 0x1000000u + (uint32_t)atomic_load(&shared->rounds)))
				_exit(2);
			atomic_fetch_add(&shared->rounds, 1);
			usleep(20000);
		}
		_exit(0);
	}
	return pid;
}

long neighbour_end(pid_t pid)
{
	atomic_store(&shared->end, true);
	return child_status(pid) == 0 ? atomic_load(&shared->rounds) : -1;
}
