// SPDX-License-Identifier: GPL-2.0
/*
 * A process that does not use a piece of hardware does not wait for it: neither a process that
 * reads about another one that waits for VRAM, nor one that comes after a hub was found not to
 * answer. Only with the model, which can stop and be silent.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "common/child.h"
#include "model.h"
#include "tap.h"
#include "common/wedged.h"
#include "kfd.h"
#include "objects.h"
#include "packets.h"

#define DRIVER	"/sys/bus/pci/drivers/rkfd"
#define RING_SIZE	(16u << 10)
/* Short enough that no engine counts as hung. */
#define LOOK_MS		3000u
#define BUFFERS		16u
/* The time that a hub may take to answer. */
#define FLUSH_MS	1000u
#define DUMP_SIZE	(300u << 10)

static struct kfd_dev dev;
static atomic_bool allocated, looked;
static bool ok_alloc, ok_look;
static uint64_t bytes;

static void *allocate(void *arg)
{
	struct kfd_bo *bo = arg;

	ok_alloc = kfd_bo_create(&dev, bo, bytes, KFD_ALLOC_VRAM) == 0;
	atomic_store(&allocated, true);
	return NULL;
}

static void *look(void *arg)
{
	(void)arg;
	ok_look = kfd_fdinfo(dev.drm_fd, "drm-total-vram", " KiB") >= 0 && kfd_available(&dev) > 0;
	atomic_store(&looked, true);
	return NULL;
}

/*
 * The engines clear VRAM before it is allocated, most of it while it is free: so all available
 * VRAM is freed while they stand still, and half of it wanted again.
 */
static void who_looks(void)
{
	const uint64_t all = kfd_available(&dev);
	pthread_t threads[2];
	struct kfd_bo bo;
	uint64_t end;
	bool before;

	if (kfd_bo_create(&dev, &bo, all, KFD_ALLOC_VRAM))
		die("no VRAM");
	bytes = all / 2 & ~(uint64_t)(KFD_PAGE - 1);
	if (!model_engines("pause"))
		die("the engines do not pause");
	if (kfd_bo_destroy(&dev, &bo))
		die("VRAM cannot be freed");
	pthread_create(&threads[0], NULL, allocate, &bo);
	usleep(300000);
	tap_ok(!atomic_load(&allocated), "ALLOC waits for engines that stand");
	pthread_create(&threads[1], NULL, look, NULL);
	end = kfd_now_ms() + LOOK_MS;
	while (!atomic_load(&looked) && kfd_now_ms() < end)
		usleep(10000);
	before = atomic_load(&looked) && !atomic_load(&allocated);
	if (!model_engines("resume"))
		die("the engines do not resume");
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	tap_ok(before && ok_look, "meanwhile what it has and what there is can be asked for");
	tap_ok(ok_alloc && !kfd_bo_destroy(&dev, &bo), "and then there is memory");
}

/* A process that copies from unmapped memory on request. */
static void fault(int ready, unsigned int number)
{
	struct packets p = { 0 };
	struct kfd_queue queue;
	struct kfd_dev own;
	sigset_t now;
	int which;

	(void)number;
	sigemptyset(&now);
	sigaddset(&now, SIGUSR1);
	sigprocmask(SIG_BLOCK, &now, NULL);
	/* Its VMID comes with the first packet. */
	if (kfd_open(&own) || kfd_queue_create(&own, &queue, RING_SIZE) ||
	    kfd_queue_finish(&queue, timeout_ms()) || write(ready, "", 1) != 1 ||
	    sigwait(&now, &which))
		_exit(1);
	sdma_copy(&p, (uintptr_t)queue.pointers.cpu + 1024,
		  (uintptr_t)kfd_reserve(KFD_PAGE, KFD_PAGE), 64);
	kfd_queue_submit(&queue, p.dwords, p.count);
	for (;;)
		pause();
}

/* The first to run into the silent hubs are a fault, and the thread that handles interrupts. */
static void silent_hubs(void)
{
	static char dump[DUMP_SIZE];
	struct kfd_bo bo[BUFFERS];
	struct uevent_task task;
	struct kfd_queue queue;
	unsigned int i, refused = 0;
	uint64_t since, took;
	uint32_t *data;
	bool ok = true;
	pid_t pid;
	int events;

	events = uevents();
	pid = child_start(fault, 0);
	if (!pid)
		die("nobody to cause a fault");
	for (i = 0; i < BUFFERS; i++)
		if (kfd_bo_create(&dev, &bo[i], KFD_PAGE, KFD_ALLOC_GTT))
			die("no memory");
	/* So that the process has a VMID. */
	if (kfd_queue_create(&dev, &queue, RING_SIZE) || kfd_queue_finish(&queue, timeout_ms()))
		die("no queue");
	if (!model_command("hubs silent mm"))
		die("the hub answers");
	kill(pid, SIGUSR1);
	tap_ok(uevent_comes(events, "WEDGED=rebind", &task),
	       "a fault finds that a hub does not answer, and the administrator is told");
	close(events);
	if (!model_command("hubs silent"))
		die("the hubs answer");
	since = kfd_now_ms();
	for (i = 0; i < BUFFERS; i++)
		refused += kfd_unmap(dev.fd, bo[i].handle, dev.gpu_id) != 0;
	took = kfd_now_ms() - since;
	if (!model_command("hubs answer"))
		die("the hubs do not answer");
	tap_ok(refused == BUFFERS, "%u of %u buffers cannot be unmapped without an answer", refused,
	       BUFFERS);
	tap_note("%llu ms, of which one flush is %u", (unsigned long long)took, FLUSH_MS);
	tap_ok(child_kill(pid), "who caused the fault is still there");
	/* Makes room for the next one; not every kernel has them. */
	dump_read(dump, sizeof(dump));
	for (i = 0; i < BUFFERS; i++)
		ok &= !kfd_bo_destroy(&dev, &bo[i]);
	tap_ok(ok, "they can be when there are answers again");
	data = queue.pointers.cpu;
	data[512] = 0xc0ffee;
	tap_ok(!kfd_queue_copy(&queue, (uintptr_t)&data[640], (uintptr_t)&data[512], 4,
			       timeout_ms()) && data[640] == 0xc0ffee, "copies work");
	tap_ok(!kfd_queue_destroy(&dev, &queue), "the queue goes");
}

/* Memory that the driver gave up when hubs were silent stays unused until then. */
static void rebound(void)
{
	char name[64];

	if (!kfd_find_device(name, sizeof(name)))
		die("no device");
	kfd_close(&dev);
	tap_ok(!kfd_write_file(DRIVER "/unbind", name) && !kfd_write_file(DRIVER "/bind", name) &&
	       objects_count("vmids") == 0, "all of it is there again after a rebind");
}

int main(void)
{
	tap_start();
	if (kfd_open(&dev))
		die("no device");
	if (!model_present()) {
		tap_skip("who waits for whom", "no model that could stop");
		return tap_end();
	}
	who_looks();
	silent_hubs();
	rebound();
	return tap_end();
}
