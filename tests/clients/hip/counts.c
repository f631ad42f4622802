// SPDX-License-Identifier: GPL-2.0
#include <ctype.h>
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

/*
 * The sum of the numbers of object @name in a JSON text, or of its members that begin with
 * @member. Of several objects the last counts, which is that of all engines.
 */
static unsigned int sum(const char *json, const char *name, const char *member)
{
	const char *p = NULL, *next = json;
	unsigned int total = 0;
	char key[64];

	snprintf(key, sizeof(key), "\"%s\":{", name);
	while ((next = strstr(next, key)))
		p = next++;
	if (!p)
		return 0;
	p += strlen(key);
	while (*p && *p != '}') {
		const char *end = strchr(p, ':');

		if (!end)
			break;
		if (!member || strncmp(p + 1, member, strlen(member)) == 0)
			total += (unsigned int)strtoul(end + 1, NULL, 10);
		for (p = end + 1; isdigit((unsigned char)*p) || *p == ','; p++)
			;
	}
	return total;
}

struct counts counts_now(void)
{
	static char text[16 << 10];
	struct counts c;

	if (sdma_sched == 2)
		usleep(FOLLOWS_US);
	c = (struct counts){
		.jobs = trace_count("drm_run_job", ring),
		.mapped = trace_count("rkfd_map", pid),
	};
	if (!model_present())
		return c;
	if (!model_ask("summary", text, sizeof(text)))
		die("the model has no summary");
	/* A scheduled queue's doorbell is memory; the one that the engine sees is the driver's. */
	c.doorbells = sum(text, "doorbells", "cp");
	c.doorbells += sdma_sched == 1 ? trace_count("rkfd_doorbell", pid) :
				   sum(text, "doorbells", "sdma");
	c.aql = sum(text, "aql", NULL);
	c.kernels = sum(text, "aql", "KERNEL_DISPATCH");
	c.waves = sum(text, "sq", "waves");
	c.pm4 = sum(text, "pm4", NULL);
	c.copies = sum(text, "packets", "COPY");
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
