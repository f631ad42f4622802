// SPDX-License-Identifier: GPL-2.0
/*
 * A device that misbehaves on the test's command: the model loses an interrupt, stops an engine
 * for a while, refuses a copy. Only with the model.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/check.h"
#include "common/model.h"
#include "common/pattern.h"
#include "common/queue.h"
#include "common/tap.h"

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

int main(void)
{
	tap_start();
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
