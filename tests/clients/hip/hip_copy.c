// SPDX-License-Identifier: GPL-2.0
/*
 * Copies and fills by the HIP runtime with its default settings: hipMemcpy, hipMemcpyAsync,
 * hipMemcpy3D and hipMemset, from and to each kind of host memory and within the device. Prints
 * TAP, or with --table the path of each copy: its stores to doorbells, and the resulting jobs
 * and packets. With another argument only copies whose names hold it are made. --sweep prints
 * the ways of sizes around each threshold, with rkfd or amdgpu; behind --table both.
 *
 * HIP and ROCr choose which of them use a kernel: fills and copies within the device do, and
 * from HIP 6.4 on those of up to 16 KiB (GPU_FORCE_BLIT_COPY_SIZE). hipMemcpyDeviceToDeviceNoCU
 * must not; then ROCr uses SDMA, but from 1 MiB on a kernel all the same (HSA_FORCE_SDMA_SIZE).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "debugfs.h"
#include "tap.h"
#include "hip_copy.h"

static const size_t sizes[] = { 4, KIB, 16 * KIB, 64 * KIB, 4 * MIB, 64 * MIB, 200 * MIB };
static const size_t within_sizes[] = { 4, KIB, 64 * KIB, 1000 * KIB, 4 * MIB, 64 * MIB };

static bool table, all_right = true;
static const char *only = "";

const char *path_of(const struct counts *c, const struct call *call)
{
	static char text[64];
	const char *host = "", *by;

	/*
	 * Memory that was pinned before is used as it is; other memory is mapped for the copy,
	 * or copied through a buffer.
	 */
	if (call->way == TO_DEVICE || call->way == TO_HOST) {
		if (call->host != HOST_PAGEABLE)
			host = "direct, ";
		else if (c->mapped)
			host = "pinned, ";
		else
			host = "staged, ";
	}
	if (c->kernels)
		by = c->copies ? "SDMA + kernel" : "kernel";
	else if (c->copies)
		by = c->aql ? "SDMA + compute queue" : "SDMA";
	else
		by = c->aql ? "compute queue" : "processor";
	snprintf(text, sizeof(text), "%s%s", host, by);
	return text;
}

static void one(const struct call *c)
{
	struct counts counts;
	bool ok;

	if (!strstr(call_name(c), only))
		return;
	if (!call_exists(c)) {
		if (table)
			printf("%-52s not in this release\n", call_name(c));
		else
			tap_skip(call_name(c), "not in this release");
		return;
	}
	ok = call_run(c, &counts);
	all_right &= ok;
	if (table)
		printf("%-52s %-28s %9u %11u %6u %7u %6u   %s\n", call_name(c), path_of(&counts, c),
		       counts.doorbells, counts.jobs, counts.aql, counts.kernels, counts.pm4,
		       ok ? "yes" : "NO");
	else
		tap_ok(ok, "%s: %s", call_name(c), path_of(&counts, c));
}

/* A table leaves out large copies whose rows would be those of others. */
static bool repeats(const struct call *c)
{
	return c->bytes > 4 * MIB && (c->how == HOW_ASYNC || c->host == HOST_REGISTERED);
}

static void copies(void)
{
	/* The first copy in a direction makes a queue, whose memory is mapped as well. */
	const struct call first[] = {
		{ TO_DEVICE, HOW_MEMCPY, HOST_PINNED, KIB, NULL },
		{ TO_HOST, HOW_MEMCPY, HOST_PINNED, KIB, NULL },
	};
	enum host_kind host;
	struct counts unused;
	size_t i;

	for (i = 0; i < COUNT_OF(first); i++)
		all_right &= call_run(&first[i], &unused);
	if (table)
		printf("%-52s %-28s %9s %11s %6s %7s %6s   %s\n", "call", "path", "doorbells",
		       "drm_run_job", "AQL", "kernels", "PM4", "verified");
	for (i = 0; i < COUNT_OF(sizes); i++) {
		for (host = 0; host < HOST_KINDS; host++) {
			const struct call calls[] = {
				{ TO_DEVICE, HOW_MEMCPY, host, sizes[i], NULL },
				{ TO_HOST, HOW_MEMCPY, host, sizes[i], NULL },
				{ TO_DEVICE, HOW_ASYNC, host, sizes[i], NULL },
				{ TO_HOST, HOW_ASYNC, host, sizes[i], NULL },
			};
			size_t n;

			if (quick() && sizes[i] > 64 * MIB)
				continue;
			for (n = 0; n < COUNT_OF(calls); n++)
				if (!table || !repeats(&calls[n]))
					one(&calls[n]);
		}
	}
	for (i = 0; i < COUNT_OF(within_sizes); i++) {
		const size_t bytes = within_sizes[i];

		one(&(struct call){ WITHIN, HOW_MEMCPY, HOST_PAGEABLE, bytes, NULL });
		one(&(struct call){ WITHIN, HOW_ASYNC, HOST_PAGEABLE, bytes, NULL });
		one(&(struct call){ WITHIN_NO_CU, HOW_MEMCPY, HOST_PAGEABLE, bytes, NULL });
		one(&(struct call){ WITHIN_NO_CU, HOW_ASYNC, HOST_PAGEABLE, bytes, NULL });
	}
	for (host = 0; host < HOST_KINDS; host++) {
		one(&(struct call){ TO_DEVICE, HOW_DEFAULT, host, 64 * KIB, NULL });
		one(&(struct call){ TO_HOST, HOW_DEFAULT, host, 64 * KIB, NULL });
		one(&(struct call){ HOST_TO_HOST, HOW_MEMCPY, host, 64 * KIB, NULL });
		one(&(struct call){ HOST_TO_HOST, HOW_DEFAULT, host, 64 * KIB, NULL });
		one(&(struct call){ TO_DEVICE, HOW_3D, host, 4 * MIB, NULL });
		one(&(struct call){ TO_HOST, HOW_3D, host, 4 * MIB, NULL });
	}
	one(&(struct call){ WITHIN, HOW_DEFAULT, HOST_PAGEABLE, 64 * KIB, NULL });
	one(&(struct call){ WITHIN, HOW_3D, HOST_PAGEABLE, 4 * MIB, NULL });
}

static void device_test(void)
{
	static hipDeviceProp_t properties;
	int count = 0, version = 0;

	must(hipGetDeviceCount(&count), "hipGetDeviceCount");
	must(hipSetDevice(0), "hipSetDevice");
	must(hipGetDeviceProperties(&properties, 0), "hipGetDeviceProperties");
	must(hipRuntimeGetVersion(&version), "hipRuntimeGetVersion");
	tap_note("HIP %d, %s, %s", version, properties.name, properties.gcnArchName);
	tap_ok(count == 1 && (strncmp(properties.gcnArchName, "gfx90a", 6) == 0 ||
			      strncmp(properties.gcnArchName, "gfx942", 6) == 0),
	       "one gfx90a or gfx942");
}

/* Free memory shrinks by allocations, and comes back. */
static void memory_test(void)
{
	size_t free_before, free_then, free_after, total;
	char text[512] = "";
	void *p;

	must(hipMemGetInfo(&free_before, &total), "hipMemGetInfo");
	must(hipMalloc(&p, 256 * MIB), "hipMalloc");
	must(hipMemGetInfo(&free_then, &total), "hipMemGetInfo");
	must(hipFree(p), "hipFree");
	must(hipMemGetInfo(&free_after, &total), "hipMemGetInfo");
	debugfs_read("vram", text, sizeof(text));
	tap_ok((long long)total == debugfs_number(text, "total"), "hipMemGetInfo: all VRAM");
	tap_ok(free_before <= total && free_before - free_then >= 256 * MIB &&
	       free_before - free_then < 260 * MIB && free_after == free_before,
	       "hipMemGetInfo: what is free");
}

/* Two streams, the second after an event of the first. */
static void event_test(void)
{
	const size_t bytes = 4 * MIB;
	hipEvent_t begin, end;
	hipStream_t second;
	uint32_t *src, *dst;
	float ms = -1;
	size_t i;
	void *p;

	must(hipHostMalloc((void **)&src, bytes, hipHostMallocDefault), "hipHostMalloc");
	must(hipHostMalloc((void **)&dst, bytes, hipHostMallocDefault), "hipHostMalloc");
	must(hipMalloc(&p, bytes), "hipMalloc");
	must(hipStreamCreateWithFlags(&second, hipStreamNonBlocking), "hipStreamCreateWithFlags");
	must(hipEventCreate(&begin), "hipEventCreate");
	must(hipEventCreate(&end), "hipEventCreate");
	for (i = 0; i < bytes / sizeof(*src); i++)
		src[i] = (uint32_t)i * 2654435761u;
	memset(dst, 0, bytes);
	must(hipEventRecord(begin, stream), "hipEventRecord");
	must(hipMemcpyAsync(p, src, bytes, hipMemcpyHostToDevice, stream), "hipMemcpyAsync");
	must(hipEventRecord(end, stream), "hipEventRecord");
	must(hipStreamWaitEvent(second, end, 0), "hipStreamWaitEvent");
	must(hipMemcpyAsync(dst, p, bytes, hipMemcpyDeviceToHost, second), "hipMemcpyAsync");
	must(hipStreamSynchronize(second), "hipStreamSynchronize");
	must(hipEventSynchronize(end), "hipEventSynchronize");
	must(hipEventElapsedTime(&ms, begin, end), "hipEventElapsedTime");
	tap_ok(hipEventQuery(end) == hipSuccess && memcmp(src, dst, bytes) == 0,
	       "a stream waits for an event of another");
	tap_ok(ms > 0 && ms < timeout_ms(), "time between events");
	must(hipEventDestroy(end), "hipEventDestroy");
	must(hipEventDestroy(begin), "hipEventDestroy");
	must(hipStreamDestroy(second), "hipStreamDestroy");
	must(hipFree(p), "hipFree");
	must(hipHostFree(dst), "hipHostFree");
	must(hipHostFree(src), "hipHostFree");
}

int main(int argc, char **argv)
{
	bool sweeps = false;
	int n;

	for (n = 1; n < argc; n++) {
		if (strcmp(argv[n], "--table") == 0)
			table = true;
		else if (strcmp(argv[n], "--sweep") == 0)
			sweeps = true;
		else
			only = argv[n];
	}
	if (sweeps && !table) {
		counts_open();
		must(hipStreamCreate(&stream), "hipStreamCreate");
		all_right = sweep();
		must(hipStreamDestroy(stream), "hipStreamDestroy");
		return all_right ? EXIT_SUCCESS : EXIT_FAILURE;
	}
	if (!table)
		tap_start();
	counts_open();
	if (!table)
		device_test();
	if (!table)
		memory_test();
	must(hipStreamCreate(&stream), "hipStreamCreate");
	if (!table)
		event_test();
	copies();
	if (!table && !*only)
		fills();
	if (sweeps) {
		printf("\nThe same around each threshold:\n");
		all_right &= sweep();
	}
	must(hipStreamDestroy(stream), "hipStreamDestroy");
	if (table)
		return all_right ? EXIT_SUCCESS : EXIT_FAILURE;
	return tap_end();
}
