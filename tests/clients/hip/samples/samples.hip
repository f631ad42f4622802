// SPDX-License-Identifier: GPL-2.0
/*
 * Programs in the usual style of HIP, compiled by clang for both chips, host and device in one:
 * each launches kernels and compares their results with the processor's. Prints TAP, or with
 * --table the work for the launches. With --no-hostcalls it leaves out kernels that can call
 * the host, which HIP refuses where the device's atomics do not reach its memory.
 */
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "samples.hpp"

extern "C" {
#include "hip/counts.h"
}

void must(hipError_t error, const char *what)
{
	if (error != hipSuccess)
		die("%s: %s", what, hipGetErrorName(error));
}

/* Of the launches since the previous result. */
static struct counts total;
static struct counts before;
static bool table, all_right = true, hostcalls = true;

bool has_hostcalls(const char *name)
{
	if (!hostcalls && !table)
		tap_skip(name, "hostcalls want atomics of PCIe");
	return hostcalls;
}

void begin()
{
	if (table)
		before = counts_now();
}

void finish(const char *kernel)
{
	must(hipGetLastError(), kernel);
	must(hipDeviceSynchronize(), kernel);
	if (!table)
		return;

	const struct counts took = counts_since(&before);

	total.aql += took.aql;
	total.kernels += took.kernels;
	total.doorbells += took.doorbells;
	total.jobs += took.jobs;
	total.waves += took.waves;
}

void result(bool ok, const char *name, ...)
{
	char text[128];
	va_list args;

	va_start(args, name);
	vsnprintf(text, sizeof(text), name, args);
	va_end(args);
	all_right &= ok;
	if (!table)
		tap_ok(ok, "%s", text);
	else if (total.kernels)
		printf("%-52s %9u %9u %9u %11u %7u   %s\n", text, total.aql, total.kernels, total.doorbells,
		       total.jobs, total.waves, ok ? "yes" : "NO");
	total = {};
}

int main(int argc, char **argv)
{
	table = argc > 1 && strcmp(argv[1], "--table") == 0;
	hostcalls = argc < 2 || strcmp(argv[1], "--no-hostcalls") != 0;
	if (argc > 1 && strcmp(argv[1], "--fail") == 0)
		return failure();
	if (table) {
		counts_open();
		printf("%-52s %9s %9s %9s %11s %7s   %s\n", "kernels", "AQL", "launches", "doorbells",
		       "drm_run_job", "waves", "verified");
	} else {
		tap_start();
	}
	vectors();
	tiles();
	reductions();
	atomics();
	bodies();
	small_floats();
	control();
	modules();
	if (has_hostcalls("lines that kernels print"))
		printing();
	if (has_hostcalls("assertions"))
		assertions();
	if (table)
		return all_right ? EXIT_SUCCESS : EXIT_FAILURE;
	return tap_end();
}
