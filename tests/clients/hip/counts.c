// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "debugfs.h"
#include "model.h"
#include "tap.h"
#include "trace.h"
#include "counts.h"

/*
 * The numbers of the ioctls MAP_MEMORY_TO_GPU and SVM, as the trace has them: the size of SVM's
 * argument, which is in front of them, differs from call to call.
 */
#define MAP_MEMORY	"4b18, "
#define SVM		"4b20, "

static char ring[32], pid[32];
/* A job in the trace: rkfd has it under its old name too, which heads the tables. */
static const char *job = ": drm_sched_job_run: ";
static long long sdma_sched;

void counts_open(void)
{
	char text[512] = "";

	snprintf(ring, sizeof(ring), ".%d.", (int)getpid());
	snprintf(pid, sizeof(pid), " pid=%d ", (int)getpid());
	if (!trace_open("rkfd-hip") || !trace_enable("gpu_scheduler/drm_sched_job_run") ||
	    !trace_enable("syscalls/sys_enter_ioctl"))
		die("no trace of gpu_scheduler and ioctls");
	if (!debugfs_read("parameters", text, sizeof(text)))
		return;
	job = ": drm_run_job: ";
	if (!trace_enable("gpu_scheduler/drm_run_job") || !trace_enable("rkfd/rkfd_doorbell"))
		die("no trace of rkfd");
	sdma_sched = debugfs_number(text, "sdma_sched");
}

/* Counts a line of the trace. */
static void see(const char *line, int thread, void *arg)
{
	struct counts *c = arg;

	(void)thread;
	if (strstr(line, job)) {
		if (strstr(line, ring))
			c->jobs++;
		else
			c->kernel_jobs++;
	} else if (strstr(line, ": rkfd_doorbell: ")) {
		/* A scheduled queue's doorbell is memory; the engine sees one of the driver's. */
		if (sdma_sched == 1 && strstr(line, pid))
			c->doorbells++;
	} else if (strstr(line, MAP_MEMORY) || strstr(line, SVM)) {
		c->mapped++;
	}
}

/* The model's counters, and their places in its answer. */
static const char names[] = "doorbells.cp doorbells.sdma aql.* aql.KERNEL_DISPATCH* sq.waves pm4.* "
	"packets.COPY* packets.COPY_SUBWIN_1B* packets.COPY_SUBWIN_2B* packets.COPY_SUBWIN_4B* "
	"packets.COPY_SUBWIN_8B* packets.COPY_SUBWIN_16B*";
enum { OF_CP, OF_SDMA, AQL, KERNELS, WAVES, PM4, COPIES, WINDOWS, ALL = WINDOWS + ELEMENTS };

struct counts counts_now(void)
{
	/* What the trace has had so far: it would grow with each copy, and each is looked at twice. */
	static struct counts traced;
	unsigned long long found[ALL];
	struct counts c;
	size_t n;

	if (sdma_sched == 2)
		usleep(FOLLOWS_US);
	trace_take(see, &traced);
	c = traced;
	model_counts(names, found, ALL);
	c.doorbells += found[OF_CP];
	if (sdma_sched != 1)
		c.doorbells += found[OF_SDMA];
	c.aql = found[AQL];
	c.kernels = found[KERNELS];
	c.waves = found[WAVES];
	c.pm4 = found[PM4];
	c.copies = found[COPIES];
	for (n = 0; n < ELEMENTS; n++)
		c.windows[n] = found[WINDOWS + n];
	return c;
}

struct counts counts_since(const struct counts *before)
{
	const struct counts now = counts_now();
	struct counts since = {
		.doorbells = now.doorbells - before->doorbells,
		.jobs = now.jobs - before->jobs,
		.kernel_jobs = now.kernel_jobs - before->kernel_jobs,
		.aql = now.aql - before->aql,
		.kernels = now.kernels - before->kernels,
		.waves = now.waves - before->waves,
		.pm4 = now.pm4 - before->pm4,
		.copies = now.copies - before->copies,
		.mapped = now.mapped - before->mapped,
	};
	size_t n;

	for (n = 0; n < ELEMENTS; n++)
		since.windows[n] = now.windows[n] - before->windows[n];
	return since;
}
