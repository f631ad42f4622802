// SPDX-License-Identifier: GPL-2.0
/*
 * Kernels by the HSA API of ROCr: its own, which fill and copy within the GPU,
 * and compiled ones, with arguments, groups, LDS and private memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "code.h"
#include "tap.h"
#include "hsa.h"

#define ITEMS	(64 * GROUP)
#define GUARD	256

static uint32_t number(uint32_t n)
{
	return n * 2654435761u + 12345;
}

static void fills(uint8_t *device, uint8_t *host, size_t room)
{
	static const size_t dwords[] = { 1, 63, 1000, 16 * KIB, 256 * KIB + 3 };

	for (size_t n = 0; n < COUNT(dwords); n++) {
		const size_t bytes = 4 * dwords[n];
		const uint32_t value = number(n);
		size_t bad = 0;

		must(hsa_amd_memory_fill(device, 0, room / 4), "hsa_amd_memory_fill");
		must(hsa_amd_memory_fill(device + GUARD, value, dwords[n]), "hsa_amd_memory_fill");
		if (!copy(host, cpu, device, gpu, room))
			die("a copy to the host does not end");
		for (size_t k = 0; k < room; k += 4) {
			const bool inside = k >= GUARD && k < GUARD + bytes;
			uint32_t word;

			memcpy(&word, host + k, 4);
			bad += word != (inside ? value : 0);
		}
		tap_ok(!bad, "hsa_amd_memory_fill of %zu bytes", bytes);
	}
}

static void copies(uint8_t *device, uint8_t *host, size_t room)
{
	static const struct {
		size_t from, to, bytes;
	} cases[] = {
		{ 0, 0, 4 },		{ 1, 2, 1 },		{ 3, 3, 4099 },
		{ 0, 256, 65536 },	{ 5, 2, 100003 },	{ 7, 3, 512 * KIB + 1 },
	};
	uint8_t *const to = device + room;

	for (size_t k = 0; k < room; k++)
		host[k] = number(k) >> 24;
	if (!copy(device, gpu, host, cpu, room))
		die("a copy to the GPU does not end");
	for (size_t n = 0; n < COUNT(cases); n++) {
		size_t bad = 0;

		must(hsa_amd_memory_fill(to, 0, room / 4), "hsa_amd_memory_fill");
		must(hsa_memory_copy(to + GUARD + cases[n].to, device + cases[n].from,
				     cases[n].bytes),
		     "hsa_memory_copy");
		if (!copy(host, cpu, to, gpu, room))
			die("a copy to the host does not end");
		for (size_t k = 0; k < room; k++) {
			const size_t at = k - GUARD - cases[n].to;
			uint32_t want = 0;

			if (at < cases[n].bytes)
				want = number(cases[n].from + at) >> 24;
			bad += host[k] != want;
		}
		tap_ok(!bad, "hsa_memory_copy of %zu bytes within the GPU, from +%zu to +%zu",
		       cases[n].bytes,
		       cases[n].from, cases[n].to);
	}
}

static bool run(hsa_queue_t *queue, const struct kernel *kernel, void *arguments)
{
	hsa_signal_t done = signal_new(1);
	bool ok;

	kernel_start(queue, kernel, ITEMS, arguments, done);
	ok = signal_wait(done);
	must(hsa_signal_destroy(done), "hsa_signal_destroy");
	return ok;
}

static void compiled(void)
{
	struct host arguments, a, b, out;
	hsa_queue_t *queue;
	struct kernel kernel;
	struct code code;

	code_load(&code);
	must(hsa_queue_create(gpu, 64, HSA_QUEUE_TYPE_SINGLE, NULL, NULL, UINT32_MAX, UINT32_MAX,
			      &queue),
	     "hsa_queue_create");
	host_new(&arguments, HOST_FINE, 4096);
	host_new(&a, HOST_FINE, 4 * ITEMS);
	host_new(&b, HOST_COARSE, 4 * ITEMS);
	host_new(&out, HOST_FINE, 4 * ITEMS);
	memcpy(arguments.cpu, &(void *[]){ a.gpu, b.gpu, out.gpu }, 24);
	uint32_t *const x = (uint32_t *)a.cpu, *const y = (uint32_t *)b.cpu;
	const uint32_t *const z = (const uint32_t *)out.cpu;

	for (uint32_t n = 0; n < ITEMS; n++) {
		x[n] = number(n);
		y[n] = number(~n);
	}

	size_t bad = 0;

	kernel = code_kernel(&code, "add.kd");
	tap_ok(run(queue, &kernel, arguments.gpu), "vector add ends");
	for (uint32_t n = 0; n < ITEMS; n++)
		bad += z[n] != x[n] + y[n];
	tap_ok(!bad, "vector add");

	bad = 0;
	kernel = code_kernel(&code, "sum.kd");
	tap_ok(kernel.group >= 1024 && run(queue, &kernel, arguments.gpu), "sums in LDS end");
	for (uint32_t n = 0; n < ITEMS / GROUP; n++) {
		uint32_t sum = 0;

		for (uint32_t k = 0; k < GROUP; k++)
			sum += x[n * GROUP + k];
		bad += z[n] != sum;
	}
	tap_ok(!bad, "sums in LDS");

	bad = 0;
	kernel = code_kernel(&code, "shuffle.kd");
	tap_ok(kernel.private >= 256 && run(queue, &kernel, arguments.gpu),
	       "private memory: it ends");
	for (uint32_t n = 0; n < ITEMS; n++) {
		const uint32_t first = (y[n ^ 1] - y[n]) & 63, second = (x[n ^ 1] - y[n]) & 63;

		bad += z[n] != first * x[n] + second * x[n];
	}
	tap_ok(!bad, "private memory");

	host_free(&out);
	host_free(&b);
	host_free(&a);
	host_free(&arguments);
	must(hsa_queue_destroy(queue), "hsa_queue_destroy");
	code_unload(&code);
}

int main(void)
{
	const size_t room = 2 * MIB;
	struct host host;
	uint8_t *device;

	tap_start();
	hsa_open();
	host_new(&host, HOST_FINE, room);
	device = device_new(2 * room);
	fills(device, host.cpu, room);
	copies(device, host.cpu, room);
	device_free(device);
	host_free(&host);
	compiled();
	hsa_close();
	return tap_end();
}
