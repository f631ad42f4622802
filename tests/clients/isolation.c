// SPDX-License-Identifier: GPL-2.0
/*
 * One process cannot name another's objects: handles, queues, doorbells, mmap offsets,
 * addresses; and VRAM does not show its last owner's data.
 *
 * The processes make the ioctls themselves: libhsakmt would already refuse the calls that the
 * kernel must refuse.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/child.h"
#include "debugfs.h"
#include "common/pattern.h"
#include "tap.h"
#include "kfd.h"

#define RING_SIZE	(16u << 10)
#define BYTES		(1u << 20)
#define MIB		(1ull << 20)
#define SECRET		0x5ec3e75ec3e75ec3

/* The owner's data for the intruder. */
struct shared {
	struct kfd_bo vram;
	struct kfd_bo gtt;
	struct kfd_queue queues[2];
	volatile int attempts;		/* that were refused, or did no harm */
};

/* The intruder's attempts; each must fail. */
enum attempt {
	FREE_HANDLE,
	MAP_HANDLE,
	UNMAP_HANDLE,
	MMAP_OFFSET,
	DESTROY_QUEUE,
	UPDATE_QUEUE,
	QUEUE_ON_RING,
	RING_DOORBELL,
	ATTEMPTS,
};

static const char *const attempt_name[ATTEMPTS] = {
	[FREE_HANDLE] = "free of another's handle is refused",
	[MAP_HANDLE] = "map of another's handle is refused",
	[UNMAP_HANDLE] = "unmap of another's handle is refused",
	[MMAP_OFFSET] = "mmap of another's offset is refused",
	[DESTROY_QUEUE] = "destroying another's queue is refused",
	[UPDATE_QUEUE] = "updating another's queue is refused",
	[QUEUE_ON_RING] = "a queue on another's ring is refused",
	[RING_DOORBELL] = "a doorbell at another's offset can be rung in one's own slice only",
};

static int update_queue(const struct kfd_dev *dev, const struct kfd_queue *queue)
{
	struct kfd_ioctl_update_queue_args args = {
		.ring_base_address = (uintptr_t)queue->ring.cpu,
		.ring_size = (uint32_t)queue->ring.size,
		.queue_id = queue->id,
		.queue_percentage = 0,
	};

	return kfd_ioctl(dev->fd, AMDKFD_IOC_UPDATE_QUEUE, &args);
}

static int queue_on_ring(const struct kfd_dev *dev, const struct kfd_queue *queue)
{
	struct kfd_ioctl_create_queue_args args;

	kfd_queue_args(dev, &queue->ring, &queue->pointers, &args);
	return kfd_ioctl(dev->fd, AMDKFD_IOC_CREATE_QUEUE, &args);
}

/* Stores a wrong write pointer at the owner's second doorbell. */
static int ring_doorbell(const struct kfd_dev *dev, const struct kfd_queue *victim)
{
	const size_t at = (size_t)((char *)victim->doorbell - (char *)victim->slice);
	struct kfd_queue own;
	int err = kfd_queue_create(dev, &own, RING_SIZE);

	if (err)
		return err;
	if ((char *)own.doorbell - (char *)own.slice != (ptrdiff_t)at)
		*(volatile uint64_t *)((char *)own.slice + at) = victim->wptr + 64;
	usleep(50000);
	return kfd_queue_finish(&own, timeout_ms());
}

static void intrude(struct shared *s)
{
	struct kfd_dev dev;
	void *p;
	int refused[ATTEMPTS], i;

	if (kfd_open(&dev))
		exit(1);
	refused[FREE_HANDLE] = kfd_free(dev.fd, s->vram.handle) &&
			       kfd_free(dev.fd, s->gtt.handle);
	refused[MAP_HANDLE] = kfd_map(dev.fd, s->vram.handle, dev.gpu_id) &&
			      kfd_map(dev.fd, s->gtt.handle, dev.gpu_id);
	refused[UNMAP_HANDLE] = kfd_unmap(dev.fd, s->vram.handle, dev.gpu_id);
	refused[MMAP_OFFSET] =
		kfd_mmap(dev.drm_fd, s->vram.size, s->vram.mmap_offset, &p) &&
		kfd_mmap(dev.drm_fd, s->gtt.size, s->gtt.mmap_offset, &p);
	refused[DESTROY_QUEUE] = kfd_destroy_queue(dev.fd, s->queues[0].id) &&
				 kfd_destroy_queue(dev.fd, s->queues[1].id);
	refused[UPDATE_QUEUE] = update_queue(&dev, &s->queues[0]);
	refused[QUEUE_ON_RING] = queue_on_ring(&dev, &s->queues[0]);
	refused[RING_DOORBELL] = ring_doorbell(&dev, &s->queues[1]) == 0;
	for (i = 0; i < ATTEMPTS; i++)
		if (refused[i])
			s->attempts |= 1 << i;
	exit(0);
}

/* The owner's objects work and have their content. */
static bool unharmed(struct shared *s)
{
	unsigned int q;

	if (pattern_check(s->vram.cpu, BYTES, 21, 0) != BYTES)
		return false;
	for (q = 0; q < 2; q++) {
		memset(s->gtt.cpu, 0, BYTES);
		if (kfd_queue_copy(&s->queues[q], (uintptr_t)s->gtt.cpu, (uintptr_t)s->vram.cpu,
				   BYTES, timeout_ms()) ||
		    pattern_check(s->gtt.cpu, BYTES, 21, 0) != BYTES)
			return false;
	}
	return true;
}

static void own(struct shared *s, int ready)
{
	struct kfd_dev dev;
	unsigned int q;

	if (kfd_open(&dev) ||
	    kfd_bo_create(&dev, &s->vram, BYTES, KFD_ALLOC_VRAM) ||
	    kfd_bo_create(&dev, &s->gtt, BYTES, KFD_ALLOC_GTT))
		die("the owner gets no memory");
	for (q = 0; q < 2; q++)
		if (kfd_queue_create(&dev, &s->queues[q], RING_SIZE))
			die("the owner gets no queue");
	pattern_fill(s->vram.cpu, BYTES, 21, 0);
	tap_ok(unharmed(s), "the owner's queues work");
	if (write(ready, "", 1) != 1)
		die("pipe");
}

static void names(void)
{
	struct shared *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int pipes[2], i;
	char byte;
	pid_t pid;

	if (s == MAP_FAILED || pipe(pipes) != 0)
		die("no shared memory");
	pid = child_fork();
	if (pid == 0) {
		if (read(pipes[0], &byte, 1) != 1)
			exit(1);
		intrude(s);
	}
	own(s, pipes[1]);
	tap_ok(child_status(pid) == 0, "an intruder has tried");
	for (i = 0; i < ATTEMPTS; i++)
		tap_ok(s->attempts & 1 << i, "%s", attempt_name[i]);
	tap_ok(unharmed(s), "the owner's queues and memory are unharmed");
}

/* Bytes of VRAM that are free now. */
static uint64_t free_vram(const struct kfd_dev *dev)
{
	char text[4096], file[256];
	uint64_t size = 0;
	long long n = -1;

	if (debugfs_read("vram", text, sizeof(text)))
		n = debugfs_number(text, "free");
	if (n > 0)
		return (uint64_t)n;
	snprintf(file, sizeof(file), KFD_TOPOLOGY "/nodes/%u/mem_banks/0/properties",
		 dev->node);
	kfd_property(file, "size_in_bytes", &size);
	return size;
}

#define PIECES_MAX	4096u
#define STRIDE		(64u << 10)

/* One process takes @bytes of VRAM in pieces, and reads or marks a word of each 64 KiB. */
static int take_vram(uint64_t bytes, uint64_t piece, bool mark)
{
	static struct kfd_bo pieces[PIECES_MAX];
	struct kfd_dev dev;
	unsigned int n;

	if (kfd_open(&dev))
		return 2;
	for (n = 0; n < PIECES_MAX && bytes >= piece; n++, bytes -= piece) {
		uint64_t at;

		if (kfd_bo_create(&dev, &pieces[n], piece, KFD_ALLOC_VRAM))
			return 3;
		for (at = 0; at < piece; at += STRIDE) {
			/* At a place that varies, the same for both processes. */
			const uint64_t place = at + at / STRIDE * 4168 % STRIDE;
			volatile uint64_t *word = (uint64_t *)((char *)pieces[n].cpu + place);

			if (mark)
				*word = SECRET ^ at;
			else if (*word != 0)
				return 4;
		}
	}
	return 0;
}

static int in_process(uint64_t bytes, uint64_t piece, bool mark)
{
	const pid_t pid = child_fork();

	if (pid == 0)
		_exit(take_vram(bytes, piece, mark));
	return child_status(pid);
}

/*
 * The first process marks more than half of the free VRAM, the second reads as much: some of
 * the memory must have been the first one's.
 */
static void leftovers(void)
{
	static const uint64_t pieces[] = { 64 * MIB, MIB };
	struct kfd_dev dev;
	unsigned int i;

	if (kfd_find_gpu(&dev))
		die("no GPU");
	for (i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		uint64_t bytes = free_vram(&dev) / 2 + 256 * MIB;
		int first, second;

		if (quick() && bytes > 256 * MIB)
			bytes = 256 * MIB;
		if (bytes > pieces[i] * PIECES_MAX)
			bytes = pieces[i] * PIECES_MAX;
		first = in_process(bytes, pieces[i], true);
		second = in_process(bytes, pieces[i], false);
		if (!tap_ok(first == 0 && second == 0,
			    "%llu MiB of VRAM in pieces of %llu MiB show nothing of their last owner",
			    (unsigned long long)(bytes >> 20),
			    (unsigned long long)(pieces[i] >> 20)))
			tap_note("first process %d, second %d (3: no memory, 4: not clear)",
				 first, second);
	}
}

int main(void)
{
	tap_start();
	leftovers();
	names();
	return tap_end();
}
