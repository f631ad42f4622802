// SPDX-License-Identifier: GPL-2.0
/*
 * Many processes of which each takes all that it may get: VRAM, system memory, queues of both
 * kinds, page tables, buffers, events. Beside them one more process still opens the device,
 * gets memory and a queue, and copies. The argument, or RKFD_CROWD, is their number; the times
 * are notes. With a second argument each of them has at most so many queues, and nothing else:
 * the first queue waits for ever, so that all want a VMID and a slot all the time.
 */
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <drm/amdgpu_drm.h>
#include <drm/drm.h>

#include "common/child.h"
#include "tap.h"
#include "kfd.h"
#include "kfd_compute.h"
#include "objects.h"
#include "packets.h"

#define CROWD		8u
#define MOST		2000u
#define RING		4096u
#define BYTES		(64u << 10)
#define TIMEOUT_MS	300000u
#define END_MS		60000u
/* Addresses that only the GPU uses. */
#define GPU_VA		(1ull << 40)
#define PLACES_VA	(1ull << 44)
#define LARGE		(2ull << 20)

/* The number with compute queues, too: the save area of their waves is 61 MiB of VRAM. */
#define COMPUTE		4u

/*
 * The kinds of objects, one after the other: all processes open the device, then all of them
 * take queues, then page tables, and so on. System memory comes before VRAM: the processes'
 * maximum of VRAM is more than there is, and the rest becomes system memory.
 */
enum phase { NONE, OPEN, QUEUES, TABLES, SYSTEM, VRAM, SMALL, PHASES };

static const char *const phase_name[PHASES] = {
	"none", "open devices", "queues", "page tables", "system memory", "VRAM", "small things",
};

/* The maximum of queues for each. */
static unsigned int most_queues = UINT_MAX;

/* Shared by all. */
static volatile struct {
	unsigned int phase, done;
	uint64_t taken[PHASES];		/* in all; bytes of the memories */
} *shared;

/* Takes all that there is of one kind of memory, first in large pieces. */
static uint64_t take_memory(const struct kfd_dev *dev, uint32_t flags, uint64_t va)
{
	uint64_t size, handle, taken = 0;

	for (size = 8 << 20; size >= KFD_PAGE; size /= 8)
		while (!kfd_alloc_at(dev, flags, va + taken, size, &handle))
			taken += size;
	return taken;
}

/*
 * Takes queues of both kinds on one set of buffers, until there are no more. The first one
 * waits for ever.
 */
static uint64_t take_queues(const struct kfd_dev *dev, unsigned int who)
{
	static struct kfd_queue first;
	struct kfd_ioctl_create_queue_args args;
	struct packets p = { 0 };
	struct kfd_compute compute;
	struct kfd_save save;
	unsigned int count = 0;
	int err = kfd_queue_create(dev, &first, RING);

	if (err)
		return 0;
	count++;
	sdma_wait_memory(&p, (uintptr_t)first.pointers.cpu + KFD_QUEUE_FENCE + 64, 1);
	kfd_queue_submit(&first, p.dwords, p.count);
	if (who < COMPUTE && most_queues > 1 && !kfd_save_create(dev, &save) &&
	    !kfd_compute_prepare(dev, &compute, &save, false, RING, &args))
		for (; count < 64 && count < most_queues && !err; count += !err)
			err = kfd_ioctl(dev->fd, AMDKFD_IOC_CREATE_QUEUE, &args);
	kfd_queue_args(dev, &first.ring, &first.pointers, &args);
	while (count < most_queues && !kfd_ioctl(dev->fd, AMDKFD_IOC_CREATE_QUEUE, &args))
		count++;
	return count;
}

/*
 * Maps one page of memory at as many places as possible, each with page tables of its own. No
 * queue runs in the address space, so that takes no flush.
 */
static uint64_t take_tables(const struct kfd_dev *dev)
{
	union drm_amdgpu_gem_create create = { .in = {
		.bo_size = KFD_PAGE, .domains = AMDGPU_GEM_DOMAIN_GTT,
	} };
	struct drm_amdgpu_gem_va place = {
		.operation = AMDGPU_VA_OP_MAP,
		.flags = AMDGPU_VM_PAGE_READABLE,
		.va_address = PLACES_VA,
		.map_size = KFD_PAGE,
	};
	uint64_t count = 0;
	int fd;

	if (kfd_open_render(dev, &fd) ||
	    kfd_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_CREATE, &create))
		return 0;
	place.handle = create.out.handle;
	for (; !kfd_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_VA, &place); count++)
		place.va_address += LARGE;
	return count;
}

/* Buffers that are no memory, and events. */
static uint64_t take_small(const struct kfd_dev *dev)
{
	const uint32_t flags = KFD_ALLOC_RW | KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL;
	struct kfd_ioctl_create_event_args event = { .event_type = KFD_IOC_EVENT_SIGNAL };
	uint64_t handle, count = 0;

	while (!kfd_alloc_at(dev, flags, 2 * PLACES_VA + count * LARGE, KFD_DOORBELL_SLICE,
			     &handle))
		count++;
	while (!kfd_ioctl(dev->fd, AMDKFD_IOC_CREATE_EVENT, &event))
		count++;
	return count;
}

static uint64_t take_device(struct kfd_dev *dev)
{
	const int err = kfd_open(dev);

	if (err) {
		tap_note("a process of the crowd cannot open the device: %s", strerror(err));
		exit(1);
	}
	return 1;
}

static uint64_t take(struct kfd_dev *dev, enum phase phase, unsigned int who)
{
	switch (phase) {
	case OPEN:
		return take_device(dev);
	case QUEUES:
		return take_queues(dev, who);
	case VRAM:
		return take_memory(dev, KFD_ALLOC_VRAM, GPU_VA);
	case SYSTEM:
		return take_memory(dev, KFD_ALLOC_GTT, 2 * GPU_VA);
	case TABLES:
		return take_tables(dev);
	default:
		return take_small(dev);
	}
}

/* Begins @phase, and wakes the processes that sleep until then. */
static void begin(unsigned int phase)
{
	__atomic_store_n(&shared->phase, phase, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &shared->phase, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Sleeps until @phase begins: a thousand processes that poll would use up the processors. */
static void await(unsigned int phase)
{
	unsigned int now;

	while ((now = __atomic_load_n(&shared->phase, __ATOMIC_SEQ_CST)) < phase)
		syscall(SYS_futex, &shared->phase, FUTEX_WAIT, now, NULL, NULL, 0);
}

/* One of the crowd. */
static void greedy(unsigned int who)
{
	struct kfd_dev dev;
	unsigned int phase;

	for (phase = OPEN; phase < PHASES; phase++) {
		await(phase);
		__atomic_add_fetch(&shared->taken[phase], take(&dev, phase, who), __ATOMIC_SEQ_CST);
		__atomic_add_fetch(&shared->done, 1, __ATOMIC_SEQ_CST);
	}
	for (;;)
		pause();
}

/* The steps of an innocent process, and the time of each. */
static const char *const step_name[] = {
	"open", "system memory", "VRAM", "queue", "copy", "end",
};
#define STEPS	(sizeof(step_name) / sizeof(*step_name))

struct visit {
	int err[STEPS];
	unsigned int us[STEPS];
	bool right;			/* the copy was right */
};

static void visit(struct visit *v)
{
	unsigned long long from = now_ns();
	struct kfd_queue queue;
	struct kfd_bo system, vram;
	struct kfd_dev dev;
	unsigned int step = 0, i;
	uint32_t *words;

	memset(v, 0xff, sizeof(*v));
#define STEP(call) do {							\
		v->err[step] = (call);					\
		v->us[step] = (unsigned int)((now_ns() - from) / 1000);	\
		from = now_ns();					\
		if (v->err[step++])					\
			return;						\
	} while (0)
	STEP(kfd_open(&dev));
	STEP(kfd_bo_create(&dev, &system, BYTES, KFD_ALLOC_GTT));
	STEP(kfd_bo_create(&dev, &vram, BYTES, KFD_ALLOC_VRAM));
	STEP(kfd_queue_create(&dev, &queue, RING));
	words = system.cpu;
	for (i = 0; i < BYTES / 4; i++)
		words[i] = i * 2654435761u;
	STEP(kfd_queue_copy(&queue, (uintptr_t)vram.cpu, (uintptr_t)system.cpu, BYTES,
			    TIMEOUT_MS));
	v->right = !memcmp(vram.cpu, system.cpu, BYTES);
	STEP(kfd_queue_destroy(&dev, &queue) || kfd_bo_destroy(&dev, &vram) ||
	     kfd_bo_destroy(&dev, &system));
	kfd_close(&dev);
}

/* An innocent process comes and goes; true if all was well. */
static bool innocent(const char *when)
{
	struct visit *v = mmap(NULL, sizeof(*v), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const pid_t pid = child_fork();
	unsigned int step;
	char line[256];
	size_t at = 0;
	bool ok;

	if (v == MAP_FAILED)
		die("no memory");
	if (pid == 0) {
		visit(v);
		_exit(0);
	}
	ok = child_status(pid) == 0 && v->right;
	for (step = 0; step < STEPS; step++) {
		ok &= v->err[step] == 0;
		at += snprintf(line + at, sizeof(line) - at, "%s %s ", step ? "," : "",
			       step_name[step]);
		if (v->err[step])
			at += snprintf(line + at, sizeof(line) - at, "%s",
				       v->err[step] > 0 ? strerror(v->err[step]) : "never");
		else
			at += snprintf(line + at, sizeof(line) - at, "%u us", v->us[step]);
	}
	tap_ok(ok, "a process comes and goes %s", when);
	tap_note("%s", line);
	munmap(v, sizeof(*v));
	return ok;
}

static bool all_have(enum phase phase, unsigned int count)
{
	const unsigned long long from = now_ns();
	unsigned long long said = from;

	begin(phase);
	while (shared->done < count) {
		usleep(20000);
		if (now_ns() - said > 20000000000ull) {
			said = now_ns();
			tap_note("%u of %u have all %s", shared->done, count, phase_name[phase]);
		}
		if (waitpid(-1, NULL, WNOHANG) > 0) {
			tap_note("one of the crowd is gone");
			return false;
		}
	}
	tap_note("%u processes have %llu of %s after %llu ms", count,
		 (unsigned long long)shared->taken[phase], phase_name[phase],
		 (now_ns() - from) / 1000000);
	/*
	 * Not when the next one begins: the process that was forked first ends its first one
	 * before that.
	 */
	shared->done = 0;
	return true;
}

int main(int argc, char **argv)
{
	const struct rlimit files = { 16384, 16384 };
	const char *many = argc > 1 ? argv[1] : getenv("RKFD_CROWD");
	unsigned int count = many ? (unsigned int)atoi(many) : work(CROWD, 6), i;
	static pid_t pid[MOST];
	char base[OBJECTS_MAX];
	unsigned int phase, phases = PHASES;
	bool ok = true;

	tap_start();
	if (count > MOST)
		count = MOST;
	if (argc > 2) {
		most_queues = (unsigned int)atoi(argv[2]);
		phases = QUEUES + 1;
	}
	setrlimit(RLIMIT_NOFILE, &files);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	if (shared == MAP_FAILED || !objects_base(base, 0))
		die("no memory, or no debugfs");
	innocent("alone");
	for (i = 0; i < count; i++) {
		pid[i] = child_fork();
		if (pid[i] == 0)
			greedy(i);
	}
	/*
	 * There may be no VRAM left, only system memory, and none of that for a process that
	 * has so much.
	 */
	for (phase = OPEN; phase < phases && ok; phase++)
		ok = all_have(phase, count) && (phase == VRAM || shared->taken[phase] > 0);
	tap_ok(ok, "each of %u processes takes all that it may get", count);
	innocent("beside them");
	innocent("beside them, again");
	for (i = 0; i < count; i++)
		kill(pid[i], SIGKILL);
	for (i = 0; i < count; i++)
		waitpid(pid[i], NULL, 0);
	tap_ok(objects_return_to(base, END_MS), "all of it is there again");
	innocent("after them");
	return tap_end();
}
