// SPDX-License-Identifier: GPL-2.0
/*
 * No doorbell is lost: stores to the doorbell at random moments around the transition of the
 * queue to idle, when the driver protects the page again.
 *
 * A copy that is never started shows as a fence that does not come. No later doorbell helps it:
 * the doorbell is stored once, and the next time only after the fence was seen (or, in bursts,
 * after a random time).
 */
#include <stdlib.h>

#include "common/pattern.h"
#include "common/queue.h"
#include "tap.h"

#define RING_SIZE	(64u << 10)
#define BYTES		64u
#define SLOTS		64u

static struct gpu gpu;
static struct buffer src, dst;

static void spin_ns(unsigned long long ns)
{
	const unsigned long long end = now_ns() + ns;

	while (now_ns() < end)
		;
}

/*
 * The delay after the fence. The driver learns of the end of a job some 10 to 1000 microseconds
 * after the engine wrote the fence: all magnitudes are equally likely, so that each part of the
 * transition is hit.
 */
static unsigned long long random_delay(void)
{
	const unsigned int magnitude = random_below(11);

	return random_below(2000u << magnitude);
}

static uint32_t submit(struct queue *queue, unsigned int i)
{
	struct packets p = { 0 };
	const uint64_t at = (uint64_t)(i % SLOTS) * BYTES;

	sdma_copy(&p, dst.gpu + at, src.gpu + at, BYTES);
	return queue_submit(queue, &p);
}

/* Returns the number of copies that finished, which should be @count. */
static unsigned int one_by_one(struct queue *queue, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		if (!queue_wait(queue, submit(queue, i)))
			break;
		spin_ns(random_delay());
	}
	return i;
}

static unsigned int bursts(struct queue *queue, unsigned int count)
{
	unsigned int done = 0;

	while (done < count) {
		unsigned int n = 1 + random_below(6);
		uint32_t last = 0;

		if (n > count - done)
			n = count - done;
		for (unsigned int i = 0; i < n; i++) {
			last = submit(queue, done + i);
			if (random_below(2))
				spin_ns(random_delay() / 4);
		}
		if (!queue_wait(queue, last))
			break;
		done += n;
	}
	return done;
}

/* Two queues share the doorbell page: traffic of one coincides with the other's transition. */
static unsigned int in_turn(struct queue *a, struct queue *b, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i += 2) {
		const uint32_t last_a = submit(a, i);
		uint32_t last_b;

		spin_ns(random_delay() / 2);
		last_b = submit(b, i + 1);
		if (!queue_wait(a, last_a) || !queue_wait(b, last_b))
			break;
	}
	return i;
}

int main(void)
{
	const unsigned int total = work(20000, 1000);
	const unsigned int singles = total / 2, burst = total / 4, pairs = total / 4;
	struct queue a, b;
	unsigned int done;

	tap_start();
	gpu_open(&gpu);
	buffer_create(&gpu, &src, BUFFER_GTT, SLOTS * BYTES);
	buffer_create(&gpu, &dst, BUFFER_VRAM, SLOTS * BYTES);
	queue_create(&gpu, &a, RING_SIZE, BUFFER_GTT);
	queue_create(&gpu, &b, RING_SIZE, BUFFER_GTT);
	pattern_fill(src.cpu, src.size, 4711, 0);

	done = one_by_one(&a, singles);
	tap_ok(done == singles, "%u of %u doorbells one by one", done, singles);
	done = bursts(&a, burst);
	tap_ok(done == burst, "%u of %u doorbells in bursts", done, burst);
	done = in_turn(&a, &b, pairs);
	tap_ok(done == pairs, "%u of %u doorbells of two queues on one page", done, pairs);
	tap_ok(pattern_check(dst.cpu, SLOTS * BYTES, 4711, 0) == SLOTS * BYTES,
	       "all data has arrived");

	queue_destroy(&b);
	queue_destroy(&a);
	buffer_destroy(&dst);
	buffer_destroy(&src);
	gpu_close();
	return tap_end();
}
