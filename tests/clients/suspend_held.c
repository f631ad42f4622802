// SPDX-License-Identifier: GPL-2.0
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/pattern.h"
#include "tap.h"
#include "kfd_svm.h"
#include "kfd_userptr.h"
#include "pagemap.h"
#include "suspend_held.h"

#define VRAM		(16u << 20)
#define USER		(2u << 20)
#define NEW		(4u << 20)
#define RING		(16u << 10)
#define LOOP		32u
#define HUGE		(2u << 20)
#define SMALL		(16u * KFD_PAGE)
#define SHARED		(SMALL + 2 * HUGE)

#define WAVES		4u

/* By turns: a few registers, all there are, LDS. */
static const enum waves_program programs[] = { WAVES_SHARED, WAVES_LARGE, WAVES_HUGE, WAVES_SMALL };

static int to_vram(const struct held *held, const void *mem, size_t size)
{
	return prefetch_to_vram(held->dev.fd, mem, size, held->dev.gpu_id);
}

/* @size bytes of the process at @mem that the GPU may use, too. */
static bool share(const struct held *held, void *mem, size_t size, int advice)
{
	return anonymous(mem, size, PROT_READ | PROT_WRITE) == mem &&
	       !madvise(mem, size, advice) && !madvise(mem, size, MADV_DONTFORK) &&
	       !svm_set(held->dev.fd, mem, size, SVM_ACCESS, held->dev.gpu_id);
}

/*
 * The next contents of the shared memory, which go to VRAM: out of new huge pages if there are
 * any, as pages that have come back from there are small.
 */
static bool fill_shared(struct held *held)
{
	held->seed++;
	if (madvise(held->shared + SMALL, 2 * HUGE, MADV_DONTNEED))
		return false;
	pattern_fill(held->shared, SHARED, held->seed, 0);
	return !to_vram(held, held->shared, SHARED);
}

static bool start_waves(struct held *held)
{
	const unsigned int program = held->turn++ % (sizeof(programs) / sizeof(*programs));

	return waves_start(&held->waves, &held->waves_compute, programs[program], WAVES, true) &&
	       waves_go_on(&held->waves, timeout_ms());
}

static void start_shared(struct held *held)
{
	uint8_t *mem = kfd_reserve(SHARED + HUGE, HUGE);
	uint8_t *page = kfd_reserve(KFD_PAGE, KFD_PAGE);

	/* The small pages end where the huge ones begin, which have a mapping of their own. */
	held->shared = mem + HUGE - SMALL;
	held->count = (uint64_t *)page;
	held->seed = 1000;
	if (!mem || !page || !share(held, held->shared, SMALL, MADV_NOHUGEPAGE) ||
	    !share(held, held->shared + SMALL, 2 * HUGE, MADV_HUGEPAGE) ||
	    !share(held, page, KFD_PAGE, MADV_NOHUGEPAGE))
		die("no shared memory");
	memset(page, 0, KFD_PAGE);
	if (!fill_shared(held) || to_vram(held, page, KFD_PAGE) ||
	    in_vram(held->shared, SHARED) != SHARED / KFD_PAGE || in_vram(page, KFD_PAGE) != 1)
		die("shared memory does not go to VRAM");
	if (kfd_compute_create(&held->dev, &held->compute, &held->save, false, KFD_PAGE) ||
	    kfd_bo_create(&held->dev, &held->loop, KFD_PAGE, KFD_ALLOC_GTT) ||
	    !kfd_compute_count(&held->compute, &held->loop, LOOP, (uintptr_t)page, 0))
		die("nothing counts to shared memory");
}

void held_start(struct held *held, const struct kfd_dev *dev)
{
	held->dev = *dev;
	if (kfd_bo_create(dev, &held->vram, VRAM, KFD_ALLOC_VRAM) ||
	    kfd_bo_create(dev, &held->gtt, USER, KFD_ALLOC_GTT) ||
	    kfd_bo_create(dev, &held->user, USER, KFD_ALLOC_USERPTR) ||
	    kfd_bo_create(dev, &held->scratch, SHARED, KFD_ALLOC_GTT) ||
	    kfd_queue_create(dev, &held->sdma, RING) || kfd_save_create(dev, &held->save))
		die("no memory and queues");
	pattern_fill(held->vram.cpu, VRAM, 1, 0);
	pattern_fill(held->gtt.cpu, USER, 2, 0);
	start_shared(held);
	/* Waves have a save area of their own. */
	if (kfd_save_create(dev, &held->waves_save) ||
	    kfd_compute_create(dev, &held->waves_compute, &held->waves_save, false, RING) ||
	    waves_create(dev, &held->waves, WAVES))
		die("no queue for waves");
}

/* Copies to a place where the CPU may look without a move: 0, or the error. */
static int look(struct held *held, const void *mem, size_t size)
{
	memset(held->scratch.cpu, 0xee, size);
	return kfd_queue_copy(&held->sdma, (uintptr_t)held->scratch.cpu, (uintptr_t)mem, size,
			      timeout_ms());
}

/* The queue's count; 0 also when it cannot be read. */
static uint64_t counted(struct held *held)
{
	return look(held, held->count, sizeof(*held->count)) ? 0 : *(uint64_t *)held->scratch.cpu;
}

/* True if it counts on from its value before the sleep. */
static bool counts_on(struct held *held)
{
	const uint64_t end = kfd_now_ms() + timeout_ms(), from = counted(held);

	if (from < held->counted)
		return false;
	while (counted(held) <= from) {
		if (kfd_now_ms() > end)
			return false;
		usleep(1000);
	}
	return true;
}

/* VRAM that is allocated after a sleep is cleared, whatever it has become meanwhile. */
static bool new_is_empty(struct held *held)
{
	struct kfd_bo bo;
	bool ok;
	size_t i;

	if (kfd_bo_create(&held->dev, &bo, NEW, KFD_ALLOC_VRAM))
		return false;
	for (i = 0; i < NEW && !((volatile uint8_t *)bo.cpu)[i]; i++)
		;
	ok = i == NEW;
	return kfd_bo_destroy(&held->dev, &bo) == 0 && ok;
}

/* Notes @what when it is not @ok, which it returns. */
static bool is(bool ok, const struct held *held, const char *what)
{
	if (!ok)
		tap_note("node %u: %s", held->dev.node, what);
	return ok;
}

/* Buffers, and the queue that copies. */
static bool buffers_are_there(struct held *held)
{
	static uint64_t seed = 100;
	bool ok = true;

	ok &= is(pattern_check(held->vram.cpu, VRAM, 1, 0) == VRAM, held,
		 "VRAM is not what it was");
	ok &= is(pattern_check(held->gtt.cpu, USER, 2, 0) == USER, held,
		 "system memory is not what it was");
	pattern_fill(held->user.cpu, USER, ++seed, 0);
	ok &= is(!kfd_queue_copy(&held->sdma, (uintptr_t)held->vram.cpu, (uintptr_t)held->user.cpu,
				 USER, timeout_ms()) &&
		 pattern_check(held->vram.cpu, USER, seed, 0) == USER, held,
		 "the queue of before does not copy");
	/* The content for the next time. */
	pattern_fill(held->vram.cpu, USER, 1, 0);
	return ok;
}

/* Shared memory: where it was, for GPU and CPU. */
static bool shared_is_there(struct held *held, bool swapped)
{
	bool ok = true;

	ok &= is(swapped || (in_vram(held->shared, SHARED) == SHARED / KFD_PAGE &&
			     in_vram(held->count, KFD_PAGE) == 1), held,
		 "shared memory has left VRAM");
	ok &= is(counts_on(held), held, "nobody counts to shared memory");
	ok &= is(!look(held, held->shared, SHARED) &&
		 pattern_check(held->scratch.cpu, SHARED, held->seed, 0) == SHARED, held,
		 "shared memory is not what it was for the GPU");
	/* The first half changes there. */
	pattern_fill(held->scratch.cpu, SHARED / 2, held->seed + 1, 0);
	ok &= is(!kfd_queue_copy(&held->sdma, (uintptr_t)held->shared, (uintptr_t)held->scratch.cpu,
				 SHARED / 2, timeout_ms()), held, "no copy to shared memory");
	ok &= is(pattern_check(held->shared, SHARED / 2, held->seed + 1, 0) == SHARED / 2 &&
		 pattern_check(held->shared + SHARED / 2, SHARED / 2, held->seed, SHARED / 2) ==
		 SHARED / 2, held, "shared memory is not what it was for the CPU");
	ok &= is(in_vram(held->shared, SHARED) == 0, held, "shared memory does not leave VRAM");
	held->seed++;
	ok &= is(fill_shared(held) && (swapped ||
				       in_vram(held->shared, SHARED) == SHARED / KFD_PAGE),
		 held, "shared memory does not go to VRAM");
	return ok;
}

/* Waves go on, have found nothing changed, and end. */
static bool waves_are_there(struct held *held)
{
	bool ok = is(waves_go_on(&held->waves, timeout_ms()), held, "waves do not go on");

	waves_stop(&held->waves);
	return is(ok && waves_ended(&held->waves, timeout_ms()), held, "waves do not end") &&
	       is(!waves_bad(&held->waves), held, "waves have changed");
}

bool held_before(struct held *held)
{
	held->counted = counted(held);
	/*
	 * No longer than they have to: a device that is emulated has little time for anything
	 * else beside them.
	 */
	return is(start_waves(held), held, "waves do not begin");
}

bool held_after(struct held *held, bool swapped)
{
	bool ok = waves_are_there(held);

	ok &= buffers_are_there(held);
	ok &= shared_is_there(held, swapped);
	return is(new_is_empty(held), held, "there is something in new VRAM") && ok;
}
