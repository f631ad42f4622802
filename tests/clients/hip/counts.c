// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>
#include <stdlib.h>
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

struct counts counts_now(void)
{
	struct counts c = { 0 };
	char key[32];
	size_t n;

	if (sdma_sched == 2)
		usleep(FOLLOWS_US);
	trace_each(see, &c);
	if (!model_present())
		return c;
	c.doorbells += model_count("doorbells", "cp");
	if (sdma_sched != 1)
		c.doorbells += model_count("doorbells", "sdma");
	c.aql = model_count("aql", "*");
	c.kernels = model_count("aql", "KERNEL_DISPATCH*");
	c.waves = model_count("sq", "waves");
	c.pm4 = model_count("pm4", "*");
	c.copies = model_count("packets", "COPY*");
	for (n = 0; n < ELEMENTS; n++) {
		snprintf(key, sizeof(key), "COPY_SUBWIN_%uB*", 1u << n);
		c.windows[n] = model_count("packets", key);
	}
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
