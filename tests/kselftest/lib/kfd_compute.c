// SPDX-License-Identifier: GPL-2.0
/* Compute queues by plain ioctls; see kfd_compute.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/kfd_sysfs.h>

#include "kfd_compute.h"

#define ROOM_MS		KFD_HANG_MS

/* A property of the GPU's node; 0 if it has none of this name. */
static uint64_t node_property(const struct kfd_dev *dev, const char *name)
{
	uint64_t value;
	char path[128];

	snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%u/properties", dev->node);
	return kfd_property(path, name, &value) ? value : 0;
}

unsigned int kfd_cus(const struct kfd_dev *dev)
{
	const uint64_t of_cu = node_property(dev, "simd_per_cu");

	return of_cu ? (unsigned int)(node_property(dev, "simd_count") / of_cu) : 0;
}

unsigned int kfd_xccs(const struct kfd_dev *dev)
{
	const uint64_t xccs = node_property(dev, "num_xcc");

	return xccs ? (unsigned int)xccs : 1;
}

unsigned int kfd_xcc_cus(const struct kfd_dev *dev)
{
	return kfd_cus(dev) / kfd_xccs(dev);
}

unsigned int kfd_engines(const struct kfd_dev *dev)
{
	const uint64_t arrays = node_property(dev, "simd_arrays_per_engine");

	return arrays ? (unsigned int)(node_property(dev, "array_count") / arrays) / kfd_xccs(dev)
		      : 0;
}

bool kfd_ttmps_are_set(const struct kfd_dev *dev)
{
	return node_property(dev, "debug_prop") & HSA_DBG_DISPATCH_INFO_ALWAYS_VALID;
}

int kfd_save_create(const struct kfd_dev *dev, struct kfd_save *save)
{
	const uint64_t area = node_property(dev, "cwsr_size");
	const uint64_t stack = node_property(dev, "ctl_stack_size");
	const uint64_t arrays = node_property(dev, "array_count");
	const uint64_t xccs = kfd_xccs(dev);
	uint64_t waves, debug;

	if (!area || !stack || !arrays || kfd_cus(dev) == 0)
		return ENOENT;
	save->area = (uint32_t)area;
	save->control_stack = (uint32_t)stack;
	/*
	 * The debugger's area is 32 bytes a wave: 40 waves a CU, and at most 512 a shader array.
	 * Each XCC has areas of its own.
	 */
	waves = kfd_cus(dev) / xccs * 40;
	if (waves > arrays / xccs * 512)
		waves = arrays / xccs * 512;
	debug = (waves * 32 + 63) / 64 * 64;
	return kfd_bo_create(dev, &save->bo,
			     ((area + debug) * xccs + KFD_PAGE - 1) / KFD_PAGE * KFD_PAGE,
			     KFD_ALLOC_VRAM);
}

int kfd_save_destroy(const struct kfd_dev *dev, struct kfd_save *save)
{
	return kfd_bo_destroy(dev, &save->bo);
}

uint64_t kfd_compute_address(const struct kfd_compute *queue, size_t at)
{
	return (uintptr_t)queue->control.cpu + at;
}

volatile uint64_t *kfd_compute_qword(const struct kfd_compute *queue, size_t at)
{
	return (volatile uint64_t *)((char *)queue->control.cpu + at);
}

int kfd_compute_prepare(const struct kfd_dev *dev, struct kfd_compute *queue,
			const struct kfd_save *save, bool aql, size_t ring_size,
			struct kfd_ioctl_create_queue_args *args)
{
	int err;
	size_t i;

	memset(queue, 0, sizeof(*queue));
	queue->aql = aql;
	err = kfd_bo_create(dev, &queue->ring, ring_size, KFD_ALLOC_GTT);
	if (!err)
		err = kfd_bo_create(dev, &queue->control, KFD_PAGE, KFD_ALLOC_GTT);
	if (!err)
		err = kfd_bo_create(dev, &queue->eop, KFD_COMPUTE_EOP, KFD_ALLOC_VRAM);
	if (err) {
		kfd_compute_release(dev, queue);
		return err;
	}
	memset(queue->control.cpu, 0, KFD_PAGE);
	queue->write = kfd_compute_qword(queue, KFD_COMPUTE_WPTR);
	queue->read = kfd_compute_qword(queue, KFD_COMPUTE_RPTR);
	if (aql) {
		struct aql_packet *ring = queue->ring.cpu;

		for (i = 0; i < ring_size / sizeof(*ring); i++)
			ring[i].header = AQL_INVALID;
		/* Offset of the read index in amd_queue_t. */
		*(uint32_t *)((char *)queue->control.cpu + 0x88) = KFD_COMPUTE_RPTR;
	}
	*args = (struct kfd_ioctl_create_queue_args){
		.ring_base_address = (uintptr_t)queue->ring.cpu,
		.ring_size = (uint32_t)ring_size,
		.write_pointer_address = kfd_compute_address(queue, KFD_COMPUTE_WPTR),
		.read_pointer_address = kfd_compute_address(queue, KFD_COMPUTE_RPTR),
		.gpu_id = dev->gpu_id,
		.queue_type = aql ? KFD_IOC_QUEUE_TYPE_COMPUTE_AQL : KFD_IOC_QUEUE_TYPE_COMPUTE,
		.queue_percentage = KFD_MAX_QUEUE_PERCENTAGE,
		.queue_priority = 7,
		.eop_buffer_address = (uintptr_t)queue->eop.cpu,
		.eop_buffer_size = KFD_COMPUTE_EOP,
		.ctx_save_restore_address = (uintptr_t)save->bo.cpu,
		.ctx_save_restore_size = save->area,
		.ctl_stack_size = save->control_stack,
	};
	return 0;
}

int kfd_compute_release(const struct kfd_dev *dev, struct kfd_compute *queue)
{
	int err = kfd_bo_destroy(dev, &queue->eop);

	if (!err)
		err = kfd_bo_destroy(dev, &queue->control);
	if (!err)
		err = kfd_bo_destroy(dev, &queue->ring);
	return err;
}

int kfd_compute_create(const struct kfd_dev *dev, struct kfd_compute *queue,
		       const struct kfd_save *save, bool aql, size_t ring_size)
{
	struct kfd_ioctl_create_queue_args args;
	int err = kfd_compute_prepare(dev, queue, save, aql, ring_size, &args);

	if (err)
		return err;
	err = kfd_ioctl(dev->fd, AMDKFD_IOC_CREATE_QUEUE, &args);
	if (err)
		goto release;
	queue->id = args.queue_id;
	err = kfd_doorbell_map(dev->fd, args.doorbell_offset, &queue->slice, &queue->doorbell);
	if (!err)
		return 0;
	kfd_destroy_queue(dev->fd, queue->id);
release:
	kfd_compute_release(dev, queue);
	return err;
}

int kfd_compute_destroy(const struct kfd_dev *dev, struct kfd_compute *queue)
{
	int err = kfd_destroy_queue(dev->fd, queue->id);

	if (err)
		return err;
	munmap(queue->slice, KFD_DOORBELL_SLICE);
	return kfd_compute_release(dev, queue);
}

int kfd_compute_update(const struct kfd_dev *dev, const struct kfd_compute *queue,
		       uint32_t percentage)
{
	struct kfd_ioctl_update_queue_args args = {
		.ring_base_address = (uintptr_t)queue->ring.cpu,
		.ring_size = (uint32_t)queue->ring.size,
		.queue_id = queue->id,
		.queue_percentage = percentage,
		.queue_priority = 7,
	};

	return kfd_ioctl(dev->fd, AMDKFD_IOC_UPDATE_QUEUE, &args);
}

uint64_t kfd_compute_read_pointer(const struct kfd_compute *queue)
{
	const uint64_t value = *queue->read;

	return queue->aql ? value : (uint32_t)value;
}

/* True if there is room for @count more dwords; one is always left free. */
static bool pm4_has_room(const struct kfd_compute *queue, unsigned int count)
{
	const uint64_t dwords = queue->ring.size / 4;
	const uint64_t used = (queue->wptr - kfd_compute_read_pointer(queue)) & (dwords - 1);

	return used + count < dwords;
}

static bool aql_has_room(const struct kfd_compute *queue)
{
	return queue->wptr - kfd_compute_read_pointer(queue) <
	       queue->ring.size / sizeof(struct aql_packet);
}

static bool in_time(uint64_t end)
{
	if (kfd_now_ms() > end)
		return false;
	usleep(50);
	return true;
}

bool kfd_compute_pm4(struct kfd_compute *queue, const struct packets *packets)
{
	const uint64_t end = kfd_now_ms() + ROOM_MS, mask = queue->ring.size / 4 - 1;
	uint32_t *ring = queue->ring.cpu;
	unsigned int i;

	while (!pm4_has_room(queue, packets->count))
		if (!in_time(end))
			return false;
	for (i = 0; i < packets->count; i++)
		ring[queue->wptr++ & mask] = packets->dwords[i];
	__sync_synchronize();
	*queue->write = queue->wptr;
	__sync_synchronize();
	*queue->doorbell = queue->wptr;
	return true;
}

bool kfd_compute_aql(struct kfd_compute *queue, const struct aql_packet *packets,
		     unsigned int count)
{
	const uint64_t end = kfd_now_ms() + ROOM_MS;
	const uint64_t mask = queue->ring.size / sizeof(*packets) - 1;
	struct aql_packet *ring = queue->ring.cpu;
	unsigned int i;

	for (i = 0; i < count; i++) {
		struct aql_packet *at = &ring[queue->wptr & mask];

		while (!aql_has_room(queue))
			if (!in_time(end))
				return false;
		*queue->write = ++queue->wptr;
		/* The rest of the packet must be in memory before its header. */
		memcpy((char *)at + 4, (const char *)&packets[i] + 4, sizeof(*at) - 4);
		__sync_synchronize();
		*(volatile uint32_t *)at = packets[i].header |
					   (uint32_t)packets[i].format << 16;
		__sync_synchronize();
		*queue->doorbell = queue->wptr - 1;
	}
	return true;
}

bool kfd_compute_run(struct kfd_compute *queue, uint64_t address, unsigned int dwords)
{
	struct aql_packet packet;
	struct packets p = { 0 };

	if (queue->aql) {
		aql_pm4(&packet, address, dwords, 0);
		return kfd_compute_aql(queue, &packet, 1);
	}
	pm4_indirect(&p, address, dwords);
	return kfd_compute_pm4(queue, &p);
}

bool kfd_compute_submit(struct kfd_compute *queue, const struct packets *packets)
{
	const size_t at = KFD_COMPUTE_IB + queue->wptr % KFD_COMPUTE_IBS * KFD_COMPUTE_IB_BYTES;
	const uint64_t end = kfd_now_ms() + ROOM_MS;

	if (!queue->aql)
		return kfd_compute_pm4(queue, packets);
	if (packets->count * 4 > KFD_COMPUTE_IB_BYTES)
		return false;
	/* Do not overwrite packets that the queue has not read yet. */
	while (queue->wptr - kfd_compute_read_pointer(queue) >= KFD_COMPUTE_IBS)
		if (!in_time(end))
			return false;
	memcpy((char *)queue->control.cpu + at, packets->dwords, packets->count * 4);
	return kfd_compute_run(queue, kfd_compute_address(queue, at), packets->count);
}

/* Moves packets to @at; returns the place behind them. */
static uint32_t *put(uint32_t *at, struct packets *packets)
{
	memcpy(at, packets->dwords, packets->count * 4);
	at += packets->count;
	packets->count = 0;
	return at;
}

bool kfd_compute_count(struct kfd_compute *queue, const struct kfd_bo *buffer,
		       unsigned int packets, uint64_t count, uint64_t gate)
{
	uint32_t *const start = buffer->cpu, *loop = start, *at;
	struct packets p = { 0 };

	if (gate) {
		pm4_wait_memory(&p, gate, 1);
		loop = put(start, &p);
	}
	for (at = loop; packets; packets--) {
		pm4_atomic_add64(&p, count, 1);
		at = put(at, &p);
	}
	/* The chain packet is part of the loop's length. */
	pm4_chain(&p, (uintptr_t)loop, (unsigned int)(at - loop) + 4);
	at = put(at, &p);
	return kfd_compute_run(queue, (uintptr_t)start, (unsigned int)(at - start));
}

bool kfd_compute_wait(const struct kfd_compute *queue, size_t at, uint64_t value,
		      unsigned int ms)
{
	const uint64_t end = kfd_now_ms() + ms;

	while (*kfd_compute_qword(queue, at) != value)
		if (!in_time(end))
			return false;
	return true;
}

bool kfd_compute_works(struct kfd_compute *queue, unsigned int ms)
{
	const uint64_t value = ++queue->fence;
	struct packets p = { 0 };

	pm4_release(&p, kfd_compute_address(queue, KFD_COMPUTE_FENCE), value, 0);
	return kfd_compute_submit(queue, &p) &&
	       kfd_compute_wait(queue, KFD_COMPUTE_FENCE, value, ms);
}
