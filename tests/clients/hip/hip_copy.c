// SPDX-License-Identifier: GPL-2.0
/*
 * Copies by the HIP runtime, without device code: hipMemcpy, hipMemcpyAsync and
 * hipMemcpy3D from and to each kind of host memory, and within the device
 * without its compute units. Prints TAP, or with --table the path that each call
 * took: what it stored to doorbells, and which jobs and packets came of that. With
 * another argument only calls whose names hold it are made.
 *
 * Not here, as HIP answers them with a shader: hipMemset, and hipMemcpy within
 * the device; without compute units (hipMemcpyDeviceToDeviceNoCU) from 1 MiB on,
 * as HIP leaves the choice of the engine to hsa_amd_memory_async_copy. From 6.4 on
 * copies up to 16 KiB are made by one as well, unless GPU_FORCE_BLIT_COPY_SIZE is
 * 0, which this program sets.
 *
 * HIP 5.7 on ROCr 6.1 gets no further than its first stream: that loads HIP's own
 * kernels, and RegionMemory::Freeze of ROCr brings a code object to the GPU by
 * GpuAgent::DmaCopy, which is a shader. ROCr 6.4 writes it through the BAR.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/debugfs.h"
#include "common/tap.h"
#include "hip_copy.h"

static const size_t sizes[] = { KIB, 64 * KIB, 4 * MIB, 64 * MIB, 200 * MIB };

/* From 1 MiB on ROCr has a shader copy, compute units wanted or not. */
static const size_t within_sizes[] = { KIB, 64 * KIB, 1000 * KIB };

static bool table, all_right = true;
static const char *only = "";

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
		printf("%-52s %-28s %9u %11u %6u %6u   %s\n", call_name(c), counts_path(&counts, c),
		       counts.doorbells, counts.jobs, counts.aql, counts.pm4, ok ? "yes" : "NO");
	else
		tap_ok(ok, "%s: %s", call_name(c), counts_path(&counts, c));
}

static void copies(void)
{
	/* The first copy in a direction makes a queue, whose memory is mapped as well. */
	const struct call first[] = {
		{ TO_DEVICE, HOW_MEMCPY, HOST_PINNED, KIB },
		{ TO_HOST, HOW_MEMCPY, HOST_PINNED, KIB },
	};
	enum host_kind host;
	struct counts unused;
	size_t i;

	for (i = 0; i < COUNT_OF(first); i++)
		all_right &= call_run(&first[i], &unused);
	if (table)
		printf("%-52s %-28s %9s %11s %6s %6s   %s\n", "call", "path", "doorbells",
		       "drm_run_job", "AQL", "PM4", "verified");
	for (i = 0; i < COUNT_OF(sizes); i++) {
		for (host = 0; host < HOST_KINDS; host++) {
			const struct call calls[] = {
				{ TO_DEVICE, HOW_MEMCPY, host, sizes[i] },
				{ TO_HOST, HOW_MEMCPY, host, sizes[i] },
				{ TO_DEVICE, HOW_ASYNC, host, sizes[i] },
				{ TO_HOST, HOW_ASYNC, host, sizes[i] },
			};
			size_t n;

			if (quick() && sizes[i] > 64 * MIB)
				continue;
			for (n = 0; n < COUNT_OF(calls); n++)
				one(&calls[n]);
		}
	}
	for (i = 0; i < COUNT_OF(within_sizes); i++) {
		one(&(struct call){ WITHIN, HOW_MEMCPY, HOST_PAGEABLE, within_sizes[i] });
		one(&(struct call){ WITHIN, HOW_ASYNC, HOST_PAGEABLE, within_sizes[i] });
	}
	for (host = 0; host < HOST_KINDS; host++) {
		one(&(struct call){ TO_DEVICE, HOW_3D, host, 4 * MIB });
		one(&(struct call){ TO_HOST, HOW_3D, host, 4 * MIB });
	}
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
	tap_ok(count == 1 && strncmp(properties.gcnArchName, "gfx90a", 6) == 0, "one gfx90a");
}

/* What is free falls by what is allocated, and comes back. */
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
	table = argc > 1 && strcmp(argv[1], "--table") == 0;
	if (argc > 1 + table)
		only = argv[1 + table];
	setenv("GPU_FORCE_BLIT_COPY_SIZE", "0", 0);
	if (!table)
		tap_start();
	counts_open();
	if (!table)
		device_test();
	if (!table)
		memory_test();
	if (HIP_VERSION < 60000000) {
		tap_skip("streams, events, copies", "ROCr 6.1 loads code objects by a shader");
		return tap_end();
	}
	must(hipStreamCreate(&stream), "hipStreamCreate");
	if (!table)
		event_test();
	copies();
	must(hipStreamDestroy(stream), "hipStreamDestroy");
	if (table)
		return all_right ? EXIT_SUCCESS : EXIT_FAILURE;
	return tap_end();
}
