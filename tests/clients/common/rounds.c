// SPDX-License-Identifier: GPL-2.0
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "child.h"
#include "rounds.h"
#include "tap.h"

struct rounds_shared {
	atomic_ulong done[ROUNDS_MAX];
	atomic_bool stop;
};

void rounds_start(struct rounds *rounds, void (*run)(int ready, unsigned int number),
		  unsigned int count)
{
	unsigned int i;

	rounds->shared = mmap(NULL, sizeof(*rounds->shared), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (rounds->shared == MAP_FAILED || count > ROUNDS_MAX)
		die("no memory");
	rounds->count = count;
	for (i = 0; i < count; i++) {
		rounds->pids[i] = child_start(run, i);
		if (rounds->pids[i] <= 0)
			die("no process %u of %u", i, count);
	}
}

bool rounds_next(const struct rounds *rounds, int ready, unsigned int number)
{
	if (atomic_fetch_add(&rounds->shared->done[number], 1) == 0 && write(ready, "", 1) != 1)
		exit(EXIT_FAILURE);
	return !atomic_load(&rounds->shared->stop);
}

bool rounds_go_on(const struct rounds *rounds)
{
	const unsigned long long end = now_ns() + timeout_ms() * 1000000ull;
	unsigned long wanted[ROUNDS_MAX];
	unsigned int i;

	/* One may be nearly done. */
	for (i = 0; i < rounds->count; i++)
		wanted[i] = atomic_load(&rounds->shared->done[i]) + 2;
	for (i = 0; i < rounds->count; i++)
		while (atomic_load(&rounds->shared->done[i]) < wanted[i]) {
			if (now_ns() > end)
				return false;
			usleep(1000);
		}
	return true;
}

bool rounds_stop(struct rounds *rounds)
{
	bool ok;

	atomic_store(&rounds->shared->stop, true);
	ok = children_succeed(rounds->pids, rounds->count);
	munmap(rounds->shared, sizeof(*rounds->shared));
	return ok;
}
