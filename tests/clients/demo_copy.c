// SPDX-License-Identifier: GPL-2.0
/*
 * The program of `make demo`: copies in each direction, one at a time, each checked, and each
 * compared with the drm_run_job events in the kernel's trace.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/pattern.h"
#include "common/queue.h"
#include "tap.h"
#include "trace.h"

#define RING_SIZE	(64u << 10)
#define MIB		(1ull << 20)

static const struct direction {
	const char *name;
	enum buffer_kind src, dst;
} directions[] = {
	{ "host -> vram", BUFFER_GTT, BUFFER_VRAM },
	{ "vram -> host", BUFFER_VRAM, BUFFER_GTT },
	{ "vram -> vram", BUFFER_VRAM, BUFFER_VRAM },
	{ "host -> host (gtt)", BUFFER_GTT, BUFFER_GTT },
	{ "host -> host (userptr)", BUFFER_USERPTR, BUFFER_REGISTERED },
};

static const struct step {
	const char *name;
	size_t bytes;
	unsigned int copies;
} steps[] = {
	{ "4 B", 4, 8 },
	{ "4 KiB", 4 << 10, 8 },
	{ "64 KiB", 64 << 10, 8 },
	{ "1 MiB", MIB, 4 },
	{ "16 MiB", 16 * MIB, 2 },
	{ "256 MiB", 256 * MIB, 1 },
};

#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))

static struct gpu gpu;
static struct queue queue;
static char our_ring[32];	/* part of the name of our queue's ring */

struct tally {
	unsigned int jobs;
	unsigned int run_job;
	unsigned int sched_job_run;
};

static struct tally traced(void)
{
	return (struct tally){
		.run_job = trace_count("drm_run_job", our_ring),
		.sched_job_run = trace_count("drm_sched_job_run", our_ring),
	};
}

/* Jobs that are made after the fact may be of several copies. */
static bool agree(const struct tally *t)
{
	const unsigned int most = gpu_scheduled() ? t->jobs : 0;
	const unsigned int least = gpu_followed() ? 1 : most;

	return t->run_job >= least && t->run_job <= most && t->sched_job_run == t->run_job;
}

/* The copies of one row of the table; true if all of them were right. */
static bool copies(const struct direction *d, const struct step *s)
{
	struct buffer src, dst;
	bool ok = true;
	unsigned int i;

	buffer_create(&gpu, &src, d->src, s->bytes);
	buffer_create(&gpu, &dst, d->dst, s->bytes);
	for (i = 0; i < s->copies && ok; i++) {
		const struct pattern_copy c = {
			.dst = dst.cpu,
			.dst_size = dst.size,
			.src = src.cpu,
			.bytes = s->bytes,
			.seed = now_ns(),
		};

		pattern_prepare(&c);
		ok = queue_copy(&queue, dst.gpu, src.gpu, s->bytes) && pattern_verify(&c);
	}
	buffer_destroy(&dst);
	buffer_destroy(&src);
	return ok;
}

static bool row(const struct direction *d, const struct step *s, struct tally *total)
{
	const struct tally before = traced();
	const bool verified = copies(d, s);
	struct tally t;

	if (gpu_followed())
		usleep(FOLLOWS_US);
	t = traced();
	t.jobs = s->copies;
	t.run_job -= before.run_job;
	t.sched_job_run -= before.sched_job_run;
	total->jobs += t.jobs;
	printf("%-24s %8s %6u %12u %18u   %s\n", d->name, s->name, t.jobs,
	       t.run_job, t.sched_job_run,
	       !verified ? "NO" : agree(&t) ? "yes" : "yes, but events differ");
	return verified && agree(&t);
}

/* One more copy with an empty trace, so that all of it can be seen. */
static bool excerpt(void)
{
	const struct step one = { .bytes = 64 << 10, .copies = 1 };
	bool ok;

	trace_clear();
	ok = copies(&directions[0], &one);
	if (gpu_followed())
		usleep(FOLLOWS_US);
	printf("\nTrace of one copy, host -> vram, 64 KiB:\n");
	trace_print("  ", NULL, 40);
	return ok;
}

int main(void)
{
	const unsigned int count = COUNT(steps) - (quick() ? 1 : 0);
	struct tally total = { 0 }, all;
	unsigned int d, s;
	bool ok = true;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (access("/dev/kfd", F_OK) != 0) {
		printf("demo: no /dev/kfd\n");
		return EXIT_SKIP;
	}
	snprintf(our_ring, sizeof(our_ring), ".%d.", (int)getpid());
	if (!trace_open("rkfd-demo") || !trace_enable("gpu_scheduler/drm_run_job") ||
	    !trace_enable("gpu_scheduler/drm_sched_job_run") || !trace_enable("rkfd"))
		die("no trace of gpu_scheduler and rkfd");
	gpu_open(&gpu);
	queue_create(&gpu, &queue, RING_SIZE, BUFFER_USERPTR);

	printf("%-24s %8s %6s %12s %18s   %s\n", "direction", "size", "jobs",
	       "drm_run_job", "drm_sched_job_run", "verified");
	for (d = 0; d < COUNT(directions); d++)
		for (s = 0; s < count; s++)
			ok &= row(&directions[d], &steps[s], &total);
	/* Events that came late, or between the rows, would show here. */
	all = traced();
	all.jobs = total.jobs;
	printf("%-24s %8s %6u %12u %18u   %s\n", "all", "", all.jobs, all.run_job,
	       all.sched_job_run, agree(&all) ? "yes" : "events differ");
	ok &= agree(&all);

	ok &= excerpt();
	queue_destroy(&queue);
	gpu_close();
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
