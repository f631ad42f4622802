// SPDX-License-Identifier: GPL-2.0
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "child.h"
#include "copies.h"
#include "pattern.h"
#include "queue.h"
#include "tap.h"

#define RING_SIZE	(64u << 10)
#define BYTES		(256u << 10)

static struct {
	atomic_ulong done;
	atomic_bool stop;
} *shared;
static pid_t copier;

static void run(int ready, unsigned int number)
{
	struct buffer src, vram, dst;
	struct queue queue;
	struct gpu gpu;
	bool ok = true;

	gpu_open(&gpu);
	queue_create(&gpu, &queue, RING_SIZE, BUFFER_GTT);
	buffer_create(&gpu, &src, BUFFER_GTT, BYTES);
	buffer_create(&gpu, &vram, BUFFER_VRAM, BYTES);
	buffer_create(&gpu, &dst, BUFFER_USERPTR, BYTES);
	while (ok && !atomic_load(&shared->stop)) {
		pattern_fill(src.cpu, BYTES, number, 0);
		ok = queue_copy(&queue, vram.gpu, src.gpu, BYTES) &&
		     queue_copy(&queue, dst.gpu, vram.gpu, BYTES) &&
		     pattern_check(dst.cpu, BYTES, number, 0) == BYTES;
		number++;
		if (atomic_fetch_add(&shared->done, 1) == 0 && write(ready, "", 1) != 1)
			ok = false;
	}
	exit(ok ? EXIT_SUCCESS : EXIT_FAILURE);
}

void copies_start(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		die("no memory");
	copier = child_start(run, 1);
	if (copier <= 0)
		die("no process that copies");
}

bool copies_go_on(void)
{
	const unsigned long long end = now_ns() + timeout_ms() * 1000000ull;
	/* One may be nearly done. */
	const unsigned long wanted = atomic_load(&shared->done) + 2;

	while (atomic_load(&shared->done) < wanted) {
		if (now_ns() > end)
			return false;
		usleep(1000);
	}
	return true;
}

bool copies_stop(void)
{
	bool ok;

	atomic_store(&shared->stop, true);
	ok = child_status(copier) == EXIT_SUCCESS;
	munmap(shared, sizeof(*shared));
	return ok;
}
