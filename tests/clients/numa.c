// SPDX-License-Identifier: GPL-2.0
/*
 * Host memory that libhsakmt allocates on the node of some processors is on their NUMA node,
 * and each GPU copies from one such node to the other.
 */
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/mempolicy.h>

#include <hsakmt/hsakmt.h>

#include "common/gpu.h"
#include "common/queue.h"
#include "tap.h"

#define SIZE	((size_t)4 << 20)
#define RING	(64u << 10)
#define MOST	8

/* The NUMA node of the page at @p, or -1. */
static int node_of(void *p)
{
	int node = -1;

	if (syscall(SYS_get_mempolicy, &node, NULL, 0, p, MPOL_F_NODE | MPOL_F_ADDR))
		return -1;
	return node;
}

static bool is_on(uint8_t *p, int node)
{
	size_t at;

	for (at = 0; at < SIZE; at += 4096)
		if (node_of(p + at) != node)
			return false;
	return true;
}

int main(void)
{
	uint32_t cpus[MOST], n_cpus = 0, buffers, i, j;
	HsaSystemProperties system;
	HsaNodeProperties node;
	uint8_t *memory[MOST];
	struct gpu gpu;

	tap_start();
	gpu_open(&gpu);
	if (hsaKmtAcquireSystemProperties(&system) != HSAKMT_STATUS_SUCCESS)
		die("no system properties");
	for (i = 0; i < gpu.node && n_cpus < MOST; i++)
		cpus[n_cpus++] = i;
	buffers = n_cpus > 1 ? n_cpus : 2;
	tap_note("%u nodes of processors, %u GPUs", n_cpus, system.NumNodes - n_cpus);
	for (i = 0; i < buffers; i++) {
		const uint32_t home = cpus[i % n_cpus];
		HsaMemFlags flags = { 0 };
		void *p;

		flags.ui32.HostAccess = 1;
		if (hsaKmtAllocMemory(home, SIZE, flags, &p) != HSAKMT_STATUS_SUCCESS)
			die("no memory on node %u", home);
		memory[i] = p;
		memset(p, 0x10 + (int)i, SIZE);
		tap_ok(is_on(p, (int)home), "memory of node %u is there", home);
		if (hsaKmtMapMemoryToGPU(p, SIZE, NULL) != HSAKMT_STATUS_SUCCESS)
			die("memory of node %u is not mapped", home);
	}
	for (i = n_cpus; i < system.NumNodes; i++) {
		struct gpu other = { .node = i };
		struct queue queue;

		if (hsaKmtGetNodeProperties(i, &node) != HSAKMT_STATUS_SUCCESS)
			die("no properties of node %u", i);
		other.gpu_id = node.KFDGpuID;
		queue_create(&other, &queue, RING, BUFFER_USERPTR);
		for (j = 0; j < buffers; j++) {
			const uint32_t to = (j + 1) % buffers;
			bool ok;

			memset(memory[j], (int)(0x20 + 16 * i + j), SIZE);
			ok = queue_copy(&queue, (uintptr_t)memory[to], (uintptr_t)memory[j],
					SIZE) &&
			     memcmp(memory[to], memory[j], SIZE) == 0;
			tap_ok(ok, "node %u copies from node %u to node %u", i, cpus[j % n_cpus],
			       cpus[to % n_cpus]);
			tap_ok(is_on(memory[to], (int)cpus[to % n_cpus]), "where it still is");
		}
		queue_destroy(&queue);
	}
	for (i = 0; i < buffers; i++) {
		hsaKmtUnmapMemoryToGPU(memory[i]);
		hsaKmtFreeMemory(memory[i], SIZE);
	}
	gpu_close();
	return tap_end();
}
