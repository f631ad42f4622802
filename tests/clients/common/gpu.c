// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>
#include <string.h>

#include <hsakmt/hsakmt.h>

#include "debugfs.h"
#include "gpu.h"
#include "tap.h"

#define BANKS_MAX	16

static uint64_t vram_bytes(uint32_t node, uint32_t banks)
{
	HsaMemoryProperties bank[BANKS_MAX];
	uint64_t bytes = 0;
	uint32_t i;

	if (banks > BANKS_MAX)
		banks = BANKS_MAX;
	memset(bank, 0, sizeof(bank));
	if (hsaKmtGetNodeMemoryProperties(node, banks, bank) != HSAKMT_STATUS_SUCCESS)
		die("no memory properties of node %u", node);
	for (i = 0; i < banks; i++)
		if (bank[i].HeapType == HSA_HEAPTYPE_FRAME_BUFFER_PUBLIC ||
		    bank[i].HeapType == HSA_HEAPTYPE_FRAME_BUFFER_PRIVATE)
			bytes += bank[i].SizeInBytes;
	return bytes;
}

void gpu_open(struct gpu *gpu)
{
	HsaSystemProperties system;
	HsaNodeProperties node;
	uint32_t i;

	if (hsaKmtOpenKFD() != HSAKMT_STATUS_SUCCESS)
		die("hsaKmtOpenKFD failed");
	memset(&system, 0, sizeof(system));
	if (hsaKmtAcquireSystemProperties(&system) != HSAKMT_STATUS_SUCCESS)
		die("hsaKmtAcquireSystemProperties failed");
	for (i = 0; i < system.NumNodes; i++) {
		memset(&node, 0, sizeof(node));
		if (hsaKmtGetNodeProperties(i, &node) != HSAKMT_STATUS_SUCCESS)
			die("no properties of node %u", i);
		if (node.NumFComputeCores == 0)
			continue;
		gpu->node = i;
		gpu->gpu_id = node.KFDGpuID;
		gpu->vram = vram_bytes(i, node.NumMemoryBanks);
		gpu->sdma_queues = node.NumSdmaEngines * node.NumSdmaQueuesPerEngine;
		return;
	}
	die("no GPU among %u nodes", system.NumNodes);
}

void gpu_close(void)
{
	hsaKmtReleaseSystemProperties();
	hsaKmtCloseKFD();
}

static long long sdma_sched(void)
{
	char text[256];

	debugfs_read("parameters", text, sizeof(text));
	return debugfs_number(text, "sdma_sched");
}

int gpu_scheduled(void)
{
	return sdma_sched() != 0;
}

int gpu_followed(void)
{
	return sdma_sched() == 2;
}
