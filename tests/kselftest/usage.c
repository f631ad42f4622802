// SPDX-License-Identifier: GPL-2.0
/*
 * The figures that tools read about memory and load: fdinfo, the files in the device's folder,
 * AMDGPU_INFO, and the places where they look for GPUs.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <drm/amdgpu_drm.h>

#include "kfd_compute.h"
#include "kfd_harness.h"
#include "packets.h"

#define MIB		(1ull << 20)
#define RING		(64u * 1024)

KFD_FIXTURE(usage)

/* The number in file @name of the render node's device, or -1. */
static long long of_device(const struct kfd_dev *dev, const char *name)
{
	long long value = -1;
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/drm/renderD%u/device/%s", dev->drm_minor, name);
	f = fopen(path, "r");
	if (f && fscanf(f, "%lld", &value) != 1)
		value = -1;
	if (f)
		fclose(f);
	return value;
}

static int info(const struct kfd_dev *dev, uint32_t query, uint32_t more, void *answer,
		uint32_t size)
{
	struct drm_amdgpu_info args = {
		.return_pointer = (uintptr_t)answer,
		.return_size = size,
		.query = query,
	};

	args.sensor_info.type = more;
	return kfd_ioctl(dev->drm_fd, DRM_IOCTL_AMDGPU_INFO, &args);
}

TEST_F(usage, memory_of_the_device)
{
	struct kfd_dev *dev = &self->dev;
	struct drm_amdgpu_memory_info memory;
	long long vram, gtt;
	struct kfd_bo bo[2];

	ASSERT_EQ(0, info(dev, AMDGPU_INFO_MEMORY, 0, &memory, sizeof(memory)));
	EXPECT_EQ(memory.vram.total_heap_size, (uint64_t)of_device(dev, "mem_info_vram_total"));
	EXPECT_EQ(memory.cpu_accessible_vram.total_heap_size,
		  (uint64_t)of_device(dev, "mem_info_vis_vram_total"));
	EXPECT_EQ(memory.gtt.total_heap_size, (uint64_t)of_device(dev, "mem_info_gtt_total"));
	vram = of_device(dev, "mem_info_vram_used");
	gtt = of_device(dev, "mem_info_gtt_used");
	EXPECT_LE(0, vram);
	EXPECT_LE(0, gtt);
	ASSERT_EQ(0, kfd_bo_create(dev, &bo[0], 16 * MIB, KFD_ALLOC_VRAM));
	ASSERT_EQ(0, kfd_bo_create(dev, &bo[1], 8 * MIB, KFD_ALLOC_GTT));
	EXPECT_LE(vram + 16 * (long long)MIB, of_device(dev, "mem_info_vram_used"));
	EXPECT_LE(vram + 16 * (long long)MIB, of_device(dev, "mem_info_vis_vram_used"));
	EXPECT_LE(gtt + 8 * (long long)MIB, of_device(dev, "mem_info_gtt_used"));
	EXPECT_EQ(0, kfd_bo_destroy(dev, &bo[0]));
	EXPECT_EQ(0, kfd_bo_destroy(dev, &bo[1]));
}

/* A figure of firmware that is not read is absent, rather than made up. */
TEST_F(usage, nothing_is_invented)
{
	static const char *const absent[] = {
		"unique_id", "mem_busy_percent", "gpu_metrics", "pp_dpm_sclk", "pp_dpm_mclk",
		"hwmon",
	};
	struct kfd_dev *dev = &self->dev;
	char path[128];
	size_t i;

	SKIP_ON_AMDKFD("it asks the firmware");
	for (i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
		snprintf(path, sizeof(path), "/sys/class/drm/renderD%u/device/%s", dev->drm_minor,
			 absent[i]);
		EXPECT_NE(0, access(path, F_OK));
	}
}

/* clients/sensors.sh tests them where the SMU answers. The load rkfd measures itself. */
TEST_F(usage, sensors_without_smu)
{
	uint32_t type, value = 0x5a5a5a5a;

	for (type = 0; type < 32; type++) {
		if (type == AMDGPU_INFO_SENSOR_GPU_LOAD && kfd_is_rkfd())
			continue;
		EXPECT_ANSWER(sensor_without_smu, info(&self->dev, AMDGPU_INFO_SENSOR, type, &value,
						       sizeof(value)));
	}
	EXPECT_EQ(0x5a5a5a5a, value);
}

TEST_F(usage, fdinfo_of_engines)
{
	struct kfd_dev *dev = &self->dev;
	uint64_t end = kfd_now_ms() + KFD_HANG_MS;
	struct packets p = { 0 };
	long long first, second;
	struct kfd_queue queue;
	struct kfd_bo bo;

	SKIP_ON_AMDKFD("it counts no user queues");
	if (kfd_fdinfo(dev->drm_fd, "drm-engine-dma", " ns") == -1)
		SKIP(return, "without jobs (sdma_sched=0) it is not known");
	EXPECT_EQ(0, kfd_fdinfo(dev->drm_fd, "drm-engine-dma", " ns"));
	EXPECT_EQ(kfd_sdma_engines(dev), kfd_fdinfo(dev->drm_fd, "drm-engine-capacity-dma", ""));
	/* The CP's load is unknown, so it is not reported. */
	EXPECT_EQ(-1, kfd_fdinfo(dev->drm_fd, "drm-engine-compute", " ns"));
	ASSERT_EQ(0, kfd_queue_create(dev, &queue, RING));
	ASSERT_EQ(0, kfd_bo_create(dev, &bo, KFD_PAGE, KFD_ALLOC_GTT));
	*(volatile uint32_t *)bo.cpu = 0;
	sdma_wait_memory(&p, (uintptr_t)bo.cpu, 1);
	kfd_queue_submit(&queue, p.dwords, p.count);
	while ((first = kfd_fdinfo(dev->drm_fd, "drm-engine-dma", " ns")) == 0 &&
	       kfd_now_ms() < end)
		usleep(1000);
	usleep(200 * 1000);
	second = kfd_fdinfo(dev->drm_fd, "drm-engine-dma", " ns");
	EXPECT_LT(0, first);
	EXPECT_LE(first + 200 * 1000 * 1000, second);
	*(volatile uint32_t *)bo.cpu = 1;
	EXPECT_EQ(0, kfd_queue_finish(&queue, KFD_HANG_MS));
	EXPECT_EQ(0, kfd_queue_destroy(dev, &queue));
	EXPECT_EQ(0, kfd_bo_destroy(dev, &bo));
}

TEST_F(usage, fdinfo_of_memory)
{
	struct kfd_dev *dev = &self->dev;
	long long vram = kfd_fdinfo(dev->drm_fd, "drm-memory-vram", " KiB"), grown;
	struct kfd_bo bo;

	EXPECT_LE(0, vram);
	ASSERT_EQ(0, kfd_bo_create(dev, &bo, 4 * MIB, KFD_ALLOC_VRAM));
	grown = kfd_fdinfo(dev->drm_fd, "drm-memory-vram", " KiB") - vram;
	/* amdgpu charges the page tables of the buffer's mapping to the client. */
	EXPECT_LE(4096, grown);
	EXPECT_GE(kfd_is_rkfd() ? 4096 : 4096 + 64, grown);
	EXPECT_LE(4096, kfd_fdinfo(dev->drm_fd, "amd-requested-vram", " KiB"));
	EXPECT_LE(0, kfd_fdinfo(dev->drm_fd, "amd-requested-gtt", " KiB"));
	EXPECT_EQ(0, kfd_fdinfo(dev->drm_fd, "amd-evicted-vram", " KiB"));
	EXPECT_EQ(0, kfd_bo_destroy(dev, &bo));
}

/* Waits until the device's load is @busy: full, or none. */
static long long comes_to(const struct kfd_dev *dev, long long busy)
{
	uint64_t end = kfd_now_ms() + KFD_HANG_MS;
	long long now;

	do {
		/* An answer is repeated for a tenth of a second. */
		usleep(110 * 1000);
		now = of_device(dev, "gpu_busy_percent");
	} while (now != busy && kfd_now_ms() < end);
	return now;
}

TEST_F(usage, busy)
{
	struct kfd_dev *dev = &self->dev;
	uint32_t load = ~0u, half = ~0u;
	struct packets p = { 0 }, pm4 = { 0 };
	struct kfd_compute compute;
	struct kfd_queue queue;
	struct kfd_save save;
	struct kfd_bo bo;

	SKIP_ON_AMDKFD("it asks the firmware");
	EXPECT_EQ(0, comes_to(dev, 0));
	EXPECT_EQ(0, info(dev, AMDGPU_INFO_SENSOR, AMDGPU_INFO_SENSOR_GPU_LOAD, &load,
			  sizeof(load)));
	EXPECT_EQ(0, load);
	ASSERT_EQ(0, kfd_bo_create(dev, &bo, KFD_PAGE, KFD_ALLOC_GTT));
	*(volatile uint32_t *)bo.cpu = 0;

	ASSERT_EQ(0, kfd_queue_create(dev, &queue, RING));
	sdma_wait_memory(&p, (uintptr_t)bo.cpu, 1);
	kfd_queue_submit(&queue, p.dwords, p.count);
	EXPECT_EQ(100, comes_to(dev, 100));
	EXPECT_EQ(0, info(dev, AMDGPU_INFO_SENSOR, AMDGPU_INFO_SENSOR_GPU_LOAD, &load,
			  sizeof(load)));
	EXPECT_EQ(100, load);
	/* As much of the answer as there is room for. */
	EXPECT_EQ(0, info(dev, AMDGPU_INFO_SENSOR, AMDGPU_INFO_SENSOR_GPU_LOAD, &half, 2));
	EXPECT_EQ(0xffff0000u + 100, half);
	EXPECT_EQ(EINVAL, info(dev, AMDGPU_INFO_SENSOR, AMDGPU_INFO_SENSOR_GPU_LOAD, &half, 0));
	*(volatile uint32_t *)bo.cpu = 1;
	EXPECT_EQ(0, kfd_queue_finish(&queue, KFD_HANG_MS));
	EXPECT_EQ(0, kfd_queue_destroy(dev, &queue));
	EXPECT_EQ(0, comes_to(dev, 0));

	*(volatile uint32_t *)bo.cpu = 0;
	ASSERT_EQ(0, kfd_save_create(dev, &save));
	ASSERT_EQ(0, kfd_compute_create(dev, &compute, &save, false, RING));
	pm4_wait_memory(&pm4, (uintptr_t)bo.cpu, 1);
	ASSERT_TRUE(kfd_compute_pm4(&compute, &pm4));
	EXPECT_EQ(100, comes_to(dev, 100));
	*(volatile uint32_t *)bo.cpu = 1;
	EXPECT_EQ(0, comes_to(dev, 0));
	EXPECT_EQ(0, kfd_compute_destroy(dev, &compute));
	EXPECT_EQ(0, kfd_save_destroy(dev, &save));
	EXPECT_EQ(0, kfd_bo_destroy(dev, &bo));
}

/* Kubernetes' device plugin looks for GPUs here, and for their nodes inside. */
TEST_F(usage, gpus_of_the_driver)
{
	const char *drivers = "/sys/module/amdgpu/drivers/pci:amdgpu";
	struct dirent *entry;
	int gpus = 0;
	DIR *dir;

	dir = opendir(drivers);
	ASSERT_NE(NULL, dir);
	while ((entry = readdir(dir))) {
		char path[512];

		if (!strchr(entry->d_name, ':'))
			continue;
		snprintf(path, sizeof(path), "%s/%s/drm/renderD%u", drivers, entry->d_name,
			 self->dev.drm_minor);
		gpus += access(path, F_OK) == 0;
		snprintf(path, sizeof(path), "%s/%s/numa_node", drivers, entry->d_name);
		EXPECT_EQ(0, access(path, R_OK));
	}
	closedir(dir);
	EXPECT_EQ(1, gpus);
}

KFD_HARNESS_MAIN
