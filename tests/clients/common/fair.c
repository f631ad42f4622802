// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "child.h"
#include "debugfs.h"
#include "fair.h"
#include "kfd_compute.h"
#include "kfd_userptr.h"
#include "tap.h"

#define RING_SIZE	(4u << 10)
/* Packets in an indirect buffer, and its bytes. */
#define BATCH		128u
#define BATCH_BYTES	(8u << 10)
/* From the first packet to the time that counts. */
#define SETTLE_MS	300u
#define SETUP_MS	120000u
#define TEXT_SIZE	(64u << 10)
#define PAGES		(2u * KFD_PAGE)

/*
 * Memory of all processes, which each of them gives the GPU at the same address: so all queues
 * begin, and are measured, at the same time.
 */
static volatile struct {
	uint32_t gate;		/* the queues wait for it */
	unsigned int ready, stop;
	struct {
		pid_t pid;
		uint32_t id;
	} queue[FAIR_QUEUES_MAX];
	uint64_t done[FAIR_QUEUES_MAX];
} *shared;

_Static_assert(sizeof(*shared) <= PAGES, "the GPU gets two pages");

static int register_memory(const struct kfd_dev *dev)
{
	uint64_t handle;

	return kfd_userptr_create(dev, (void *)shared, PAGES, KFD_ALLOC_USERPTR, &handle);
}

/* A process with queues @first to @first + @count. */
static int count(unsigned int first, unsigned int count)
{
	static struct kfd_compute queue[FAIR_QUEUES_MAX];
	static struct kfd_bo batch[FAIR_QUEUES_MAX];
	struct kfd_save save;
	struct kfd_dev dev;
	unsigned int i;

	if (kfd_open(&dev) || kfd_save_create(&dev, &save) || register_memory(&dev))
		return 1;
	for (i = 0; i < count; i++) {
		if (kfd_compute_create(&dev, &queue[i], &save, i & 1, RING_SIZE) ||
		    kfd_bo_create(&dev, &batch[i], BATCH_BYTES, KFD_ALLOC_GTT) ||
		    !kfd_compute_count(&queue[i], &batch[i], BATCH,
				       (uintptr_t)&shared->done[first + i],
				       (uintptr_t)&shared->gate))
			return 2;
		shared->queue[first + i].pid = getpid();
		shared->queue[first + i].id = queue[i].id;
	}
	__atomic_add_fetch(&shared->ready, 1, __ATOMIC_SEQ_CST);
	while (!shared->stop)
		usleep(20000);
	for (i = 0; i < count; i++)
		if (kfd_destroy_queue(dev.fd, queue[i].id))
			return 3;
	return 0;
}

static void look(uint64_t done[FAIR_QUEUES_MAX])
{
	unsigned int i;

	for (i = 0; i < FAIR_QUEUES_MAX; i++)
		done[i] = shared->done[i];
}

/* The number of turns that each queue has had, from one look at all of them. */
static bool turns(unsigned int queues, unsigned int result[FAIR_QUEUES_MAX])
{
	static char text[TEXT_SIZE];
	unsigned int found = 0, i;
	char *line, *rest = text;

	if (!debugfs_read("queues", text, sizeof(text)))
		return false;
	while ((line = strsep(&rest, "\n"))) {
		const char *last = strrchr(line, ' ');
		uint32_t id;
		int pid;

		if (sscanf(line, "%d %u", &pid, &id) != 2 || !last || last[1] == '-')
			continue;
		for (i = 0; i < queues; i++) {
			if (shared->queue[i].pid != pid || shared->queue[i].id != id)
				continue;
			result[i] = (unsigned int)strtoul(last + 1, NULL, 10);
			found++;
		}
	}
	return found == queues;
}

static void watch(unsigned int queues, unsigned int ms, unsigned int limit, struct fair *fair)
{
	unsigned int before[FAIR_QUEUES_MAX], after[FAIR_QUEUES_MAX], i;
	uint64_t begun[FAIR_QUEUES_MAX], done[FAIR_QUEUES_MAX], least, most;
	unsigned long long start;
	bool counted;

	usleep(SETTLE_MS * 1000);
	counted = turns(queues, before);
	start = now_ns();
	look(begun);
	do {
		usleep(ms * 1000);
		look(done);
		fair->ms = (unsigned int)((now_ns() - start) / 1000000);
		least = UINT64_MAX;
		most = 0;
		fair->done = 0;
		for (i = 0; i < queues; i++) {
			const uint64_t mine = done[i] - begun[i];

			least = mine < least ? mine : least;
			most = mine > most ? mine : most;
			fair->done += mine;
		}
	} while (!least && fair->ms < limit);
	fair->share = most ? (double)least / (double)most : 0;
	fair->counted = counted && turns(queues, after);
	fair->fewest = UINT32_MAX;
	fair->most = 0;
	for (i = 0; fair->counted && i < queues; i++) {
		const unsigned int mine = after[i] - before[i];

		fair->fewest = mine < fair->fewest ? mine : fair->fewest;
		fair->most = mine > fair->most ? mine : fair->most;
	}
}

bool fair_measure(unsigned int queues, unsigned int processes, unsigned int ms,
		  unsigned int limit, struct fair *fair)
{
	unsigned long long end = now_ns() + SETUP_MS * 1000000ull;
	pid_t pid[FAIR_PROCESSES_MAX];
	unsigned int i, first = 0;
	bool good;

	memset(fair, 0, sizeof(*fair));
	shared = mmap(NULL, PAGES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		die("no shared memory");
	for (i = 0; i < processes; i++) {
		const unsigned int mine = queues / processes + (i < queues % processes);

		pid[i] = child_fork();
		if (pid[i] == 0)
			exit(count(first, mine));
		first += mine;
	}
	while (shared->ready < processes && now_ns() < end)
		usleep(10000);
	shared->gate = 1;
	if (shared->ready == processes)
		watch(queues, ms, limit, fair);
	shared->stop = 1;
	good = children_succeed(pid, processes);
	munmap((void *)shared, PAGES);
	return good && fair->ms;
}
