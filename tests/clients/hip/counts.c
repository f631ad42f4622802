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

static char ring[32], pid[32];
static long long sdma_sched;

void counts_open(void)
{
	char text[512] = "";

	snprintf(ring, sizeof(ring), ".%d.", (int)getpid());
	snprintf(pid, sizeof(pid), " pid=%d ", (int)getpid());
	if (!trace_open("rkfd-hip") || !trace_enable("gpu_scheduler/drm_run_job") ||
	    !trace_enable("rkfd/rkfd_doorbell") || !trace_enable("rkfd/rkfd_map"))
		die("no trace of gpu_scheduler and rkfd");
	debugfs_read("parameters", text, sizeof(text));
	sdma_sched = debugfs_number(text, "sdma_sched");
}

struct counts counts_now(void)
{
	struct counts c;

	if (sdma_sched == 2)
		usleep(FOLLOWS_US);
	c = (struct counts){
		.jobs = trace_count("drm_run_job", ring),
		.mapped = trace_count("rkfd_map", pid),
	};
	if (!model_present())
		return c;
	/* A scheduled queue's doorbell is memory; the one that the engine sees is the driver's. */
	c.doorbells = model_count("doorbells", "cp");
	c.doorbells += sdma_sched == 1 ? trace_count("rkfd_doorbell", pid) :
				   model_count("doorbells", "sdma");
	c.aql = model_count("aql", "*");
	c.kernels = model_count("aql", "KERNEL_DISPATCH*");
	c.waves = model_count("sq", "waves");
	c.pm4 = model_count("pm4", "*");
	c.copies = model_count("packets", "COPY*");
	return c;
}

struct counts counts_since(const struct counts *before)
{
	const struct counts now = counts_now();

	return (struct counts){
		.doorbells = now.doorbells - before->doorbells,
		.jobs = now.jobs - before->jobs,
		.aql = now.aql - before->aql,
		.kernels = now.kernels - before->kernels,
		.waves = now.waves - before->waves,
		.pm4 = now.pm4 - before->pm4,
		.copies = now.copies - before->copies,
		.mapped = now.mapped - before->mapped,
	};
}
