// SPDX-License-Identifier: GPL-2.0
/*
 * A device that misbehaves on the test's command: the model loses an interrupt, stops an engine
 * for a while, refuses a copy. Only with the model.
 *
 * broken_device hubs: the hubs do not answer flushes, for a GPU that the driver cannot reset. Binds
 * the device again.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/check.h"
#include "common/child.h"
#include "debugfs.h"
#include "model.h"
#include "common/pattern.h"
#include "common/queue.h"
#include "tap.h"
#include "kfd.h"

#define DRIVER		"/sys/bus/pci/drivers/rkfd/"
#define MANY_BYTES	(16u << 20)
#define RING_SIZE	(16u << 10)
#define BYTES		(64u << 10)
/* Far less than the two seconds after which an idle engine counts as hung. */
#define PAUSE_MS	500u

static struct gpu gpu;
static struct buffer src, dst;

static uint32_t start(struct queue *queue)
{
	struct packets p = { 0 };

	memset(dst.cpu, 0, BYTES);
	sdma_copy(&p, dst.gpu, src.gpu, BYTES);
	return queue_submit(queue, &p);
}

static bool arrived(void)
{
	return pattern_check(dst.cpu, BYTES, 5, 0) == BYTES;
}

/* The interrupt at the end of a job is lost; the jobs behind it have to start all the same. */
static void lost_interrupts(void)
{
	const unsigned int times = work(10, 3);
	struct queue queue;
	unsigned int i, k;
	bool ok = true;

	queue_create(&gpu, &queue, RING_SIZE, BUFFER_GTT);
	for (i = 0; i < times && ok; i++) {
		ok = model_command("drop-interrupt 1");
		for (k = 0; k < 3 && ok; k++)
			ok = queue_wait(&queue, start(&queue)) && arrived();
	}
	tap_ok(ok, "copies finish although %u interrupts were lost", times);
	queue_destroy(&queue);
	tap_ok(check_copies(&gpu), "a new queue works after lost interrupts");
}

/* A slow engine is no broken engine: work in progress ends when the engine goes on. */
static void paused_engine(void)
{
	struct queue queue;
	uint32_t last;

	queue_create(&gpu, &queue, RING_SIZE, BUFFER_GTT);
	tap_ok(queue_wait(&queue, start(&queue)) && model_engines("pause"),
	       "the engines pause");
	last = start(&queue);
	tap_ok(!queue_wait_ms(&queue, last, PAUSE_MS), "no copy ends while they do");
	tap_ok(model_engines("resume") && queue_wait(&queue, last) && arrived(),
	       "the copy ends when they go on");
	queue_destroy(&queue);
}

/* A copy that the engine refuses stops its queue, which can be destroyed. */
static void refused_copy(void)
{
	struct queue queue;
	uint32_t last;

	queue_create(&gpu, &queue, RING_SIZE, BUFFER_GTT);
	if (!model_command("fail-copy")) {
		tap_ok(false, "a copy is to be refused");
		return;
	}
	last = start(&queue);
	tap_ok(!queue_wait_ms(&queue, last, 500), "a refused copy does not end");
	queue_destroy(&queue);
	tap_ok(check_copies(&gpu), "a new queue of the process works");
}

/* A count of the GPU's objects. */
static long long objects(const char *kind)
{
	char text[4096];

	return debugfs_read("objects", text, sizeof(text)) ? debugfs_number(text, kind) : -1;
}

/* Memory, and a queue that has a VMID: translations of the memory may be cached. */
struct mapped {
	struct kfd_dev dev;
	struct kfd_bo bo;
	struct kfd_queue queue;
};

static void map(struct mapped *mapped)
{
	if (kfd_open(&mapped->dev) ||
	    kfd_bo_create(&mapped->dev, &mapped->bo, MANY_BYTES, KFD_ALLOC_GTT) ||
	    kfd_queue_create(&mapped->dev, &mapped->queue, RING_SIZE) ||
	    kfd_queue_fill(&mapped->queue, (uintptr_t)mapped->bo.cpu, 7, BYTES, timeout_ms()))
		die("no memory and no queue");
}

static void map_and_wait(int ready, unsigned int number)
{
	struct mapped mapped;

	(void)number;
	map(&mapped);
	if (write(ready, "", 1) != 1)
		return;
	for (;;)
		pause();
}

/* The flush after the last queue is not answered: the memory stays until one is. */
static void memory_of_a_lost_vmid(void)
{
	struct mapped m;
	long long before;

	map(&m);
	before = objects("gtt_bytes");
	if (!model_command("hubs silent"))
		die("the hubs answer");
	tap_ok(!kfd_destroy_queue(m.dev.fd, m.queue.id), "a queue ends while hubs do not answer");
	tap_ok(kfd_unmap(m.dev.fd, m.bo.handle, m.dev.gpu_id) == ETIMEDOUT,
	       "its memory cannot be unmapped");
	tap_ok(kfd_free(m.dev.fd, m.bo.handle) && objects("gtt_bytes") >= before - BYTES,
	       "nor can it be freed");
	if (!model_command("hubs answer"))
		die("the hubs do not answer");
	tap_ok(!kfd_bo_destroy(&m.dev, &m.bo) && objects("gtt_bytes") <= before - MANY_BYTES,
	       "it can when they answer again");
	kfd_close(&m.dev);
}

/* A process that ends leaves its memory to the GPU that may still reach it. */
static void memory_of_a_process_that_ended(void)
{
	const long long processes = objects("processes");
	const unsigned long long end = now_ns() + timeout_ms() * 1000000ull;
	const pid_t pid = child_start(map_and_wait, 0);
	const long long before = objects("gtt_bytes");

	if (!pid || !model_command("hubs silent"))
		die("nothing to be kept");
	tap_ok(child_kill(pid), "a process ends while hubs do not answer");
	while (objects("processes") > processes && now_ns() < end)
		usleep(10000);
	tap_ok(objects("processes") == processes, "nothing but its memory is left");
	tap_ok(objects("gtt_bytes") >= before - BYTES && objects("vms") > 0,
	       "its memory stays: %lld bytes of %lld", objects("gtt_bytes"), before);
	if (!model_command("hubs answer"))
		die("the hubs do not answer");
}

static void bind_again(void)
{
	char name[32];

	tap_ok(kfd_find_device(name, sizeof(name)) && !kfd_write_file(DRIVER "unbind", name) &&
	       !kfd_write_file(DRIVER "bind", name), "the device is bound again");
	tap_ok(check_process_copies(), "a new process works");
}

int main(int argc, char **argv)
{
	tap_start();
	if (argc > 1 && !strcmp(argv[1], "hubs")) {
		memory_of_a_lost_vmid();
		memory_of_a_process_that_ended();
		bind_again();
		return tap_end();
	}
	if (!model_present()) {
		tap_skip("broken device", "needs the device model");
		return tap_end();
	}
	gpu_open(&gpu);
	buffer_create(&gpu, &src, BUFFER_GTT, BYTES);
	buffer_create(&gpu, &dst, BUFFER_VRAM, BYTES);
	pattern_fill(src.cpu, BYTES, 5, 0);
	lost_interrupts();
	paused_engine();
	refused_copy();
	buffer_destroy(&dst);
	buffer_destroy(&src);
	gpu_close();
	tap_ok(check_process_copies(), "a new process works");
	return tap_end();
}
