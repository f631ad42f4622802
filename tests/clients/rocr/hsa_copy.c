// SPDX-License-Identifier: GPL-2.0
/*
 * Copies by the HSA API of ROCr, with its default settings: by SDMA queues that ROCr makes and
 * drives, with completion by interrupt.
 *
 * The calls for which ROCr uses a shader are in hsa_kernels: hsa_memory_copy,
 * hsa_amd_memory_fill, and hsa_amd_memory_async_copy within the GPU from 1 MiB on
 * (HSA_FORCE_SDMA_SIZE); hsa_amd_memory_async_copy_on_engine within the GPU without its force
 * flag.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tap.h"
#include "trace.h"
#include "hsa.h"

/*
 * How the module sees the submissions of user SDMA queues, according to debugfs: its parameter
 * sdma_sched. 0: not at all, 1: each is a job, 2: each or some together are a job, a tick later.
 */
static int jobs_mode(void)
{
	FILE *f = popen("cat /sys/kernel/debug/rkfd/*/parameters", "re");
	char line[128];
	int mode = 0;

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "sdma_sched %d", &mode);
	if (f)
		pclose(f);
	return mode;
}

/*
 * Each submission since the last time is one job of the kernel's scheduler, or none is.
 * Submissions that follow each other closely may share a job.
 */
static void jobs_test(const char *what, bool close)
{
	const int mode = jobs_mode();
	const unsigned int most = mode ? submissions : 0;
	const unsigned int least = (close && mode) || mode == 2 ? 1 : most;
	char our_ring[32];
	unsigned int jobs;

	if (!of_rkfd()) {
		tap_skip(what, "only rkfd makes jobs of what user queues have");
		return;
	}
	snprintf(our_ring, sizeof(our_ring), ".%d.", (int)getpid());
	trace_wait("drm_run_job", our_ring, most, least < most ? 200 : timeout_ms());
	jobs = trace_count("drm_run_job", our_ring);
	tap_note("%u submissions, %u drm_run_job events, sdma_sched is %d", submissions, jobs,
		 mode);
	tap_ok(submissions && jobs >= least && jobs <= most, "jobs of the kernel: %s", what);
	trace_clear();
	submissions = 0;
}

int main(void)
{
	uint16_t major = 0, minor = 0;

	tap_start();
	if (of_rkfd() && (!trace_open("rkfd-hsa") || !trace_enable("gpu_scheduler/drm_run_job") ||
			  !trace_enable("rkfd/rkfd_interrupt")))
		die("no trace of gpu_scheduler and rkfd");
	hsa_open();
	hsa_system_get_info(HSA_SYSTEM_INFO_VERSION_MAJOR, &major);
	hsa_system_get_info(HSA_SYSTEM_INFO_VERSION_MINOR, &minor);
	tap_note("HSA %u.%u", major, minor);
	bulk_tests();
	jobs_test("copies with others under way", true);
	linear_tests();
	rect_tests();
	jobs_test("copies one at a time", false);
	hsa_close();
	return tap_end();
}
