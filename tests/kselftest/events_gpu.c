// SPDX-License-Identifier: GPL-2.0
/* Events that the GPU sets: TRAP packets of SDMA, faults. */
#include <drm/amdgpu_drm.h>

#include "kfd_event.h"
#include "kfd_harness.h"
#include "packets.h"

#define SOON_MS		KFD_HANG_MS
#define NOT_MS		300u
#define RING_SIZE	(16u << 10)

FIXTURE(events_gpu)
{
	struct kfd_dev dev;
	struct kfd_bo page;
	struct kfd_queue queue;
	volatile uint64_t *slots;
	uint32_t id[3];
};

FIXTURE_SETUP(events_gpu)
{
	unsigned int i;

	ASSERT_EQ(0, kfd_open(&self->dev));
	ASSERT_EQ(0, event_page_user(&self->dev, &self->page, &self->id[0]));
	for (i = 1; i < 3; i++)
		ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_SIGNAL, true, &self->id[i]));
	self->slots = self->page.cpu;
	ASSERT_EQ(0, kfd_queue_create(&self->dev, &self->queue, RING_SIZE));
}

FIXTURE_TEARDOWN(events_gpu)
{
	kfd_queue_destroy(&self->dev, &self->queue);
	kfd_close(&self->dev);
}

static uint64_t slot_address(const struct kfd_bo *page, uint32_t id)
{
	return (uintptr_t)page->cpu + 8 * id;
}

/* Makes the GPU write @value to a slot and, with @context, interrupt. */
static void signal_slot(struct kfd_queue *queue, const struct kfd_bo *page, uint32_t id,
			uint32_t context)
{
	struct packets p = { 0 };

	sdma_fence(&p, slot_address(page, id), id);
	sdma_trap(&p, context);
	kfd_queue_submit(queue, p.dwords, p.count);
}

/* True if the driver notices the slot; no waiter is there to look into it. */
static bool noted(const volatile uint64_t *slot, unsigned int ms)
{
	const uint64_t end = kfd_now_ms() + ms;

	while (*slot != EVENT_UNSIGNALED) {
		if (kfd_now_ms() > end)
			return false;
		usleep(1000);
	}
	return true;
}

/* All earlier submissions are done, and their interrupts are on their way. */
static int finish(struct kfd_queue *queue)
{
	return kfd_queue_finish(queue, SOON_MS);
}

TEST_F(events_gpu, trap_names_event)
{
	const uint32_t id = self->id[1];

	signal_slot(&self->queue, &self->page, id, id);
	ASSERT_EQ(0, finish(&self->queue));
	EXPECT_TRUE(noted(&self->slots[id], SOON_MS));
	EXPECT_EQ(ETIMEDOUT, event_wait(&self->dev, self->id[0], 0));
	EXPECT_EQ(ETIMEDOUT, event_wait(&self->dev, self->id[2], 0));
	EXPECT_EQ(0, event_wait(&self->dev, id, 0));
	EXPECT_EQ(ETIMEDOUT, event_wait(&self->dev, id, 0));
}

TEST_F(events_gpu, wait_ends_by_trap)
{
	unsigned int i;

	for (i = 0; i < 100; i++) {
		const uint32_t id = self->id[i % 3];

		signal_slot(&self->queue, &self->page, id, id);
		ASSERT_EQ(0, event_wait(&self->dev, id, SOON_MS));
	}
}

/* Without a number, or with a wrong one, the driver scans all slots. */
TEST_F(events_gpu, slots_are_scanned)
{
	const uint32_t contexts[] = { 0, EVENT_SLOTS - 1, EVENT_SLOTS, 0x0fffffff, 4000 };
	unsigned int i;

	for (i = 0; i < 5; i++) {
		struct packets p = { 0 };

		sdma_fence(&p, slot_address(&self->page, self->id[0]), 1);
		sdma_fence(&p, slot_address(&self->page, self->id[2]), 1);
		sdma_trap(&p, contexts[i]);
		kfd_queue_submit(&self->queue, p.dwords, p.count);
		ASSERT_EQ(0, finish(&self->queue));
		EXPECT_TRUE(noted(&self->slots[self->id[0]], SOON_MS))
			TH_LOG("context 0x%x", contexts[i]);
		EXPECT_TRUE(noted(&self->slots[self->id[2]], SOON_MS))
			TH_LOG("context 0x%x", contexts[i]);
		EXPECT_EQ(ETIMEDOUT, event_wait(&self->dev, self->id[1], 0));
		EXPECT_EQ(0, event_wait(&self->dev, self->id[0], 0));
		EXPECT_EQ(0, event_wait(&self->dev, self->id[2], 0));
	}
}

/* A TRAP that names an event whose slot was not written to is an old one. */
TEST_F(events_gpu, old_traps)
{
	struct packets p = { 0 };

	sdma_trap(&p, self->id[1]);
	kfd_queue_submit(&self->queue, p.dwords, p.count);
	ASSERT_EQ(0, finish(&self->queue));
	EXPECT_EQ(ETIMEDOUT, event_wait(&self->dev, self->id[1], NOT_MS));
}

/* A queue without TRAPs causes no interrupts, however the driver follows its work. */
TEST_F(events_gpu, other_interrupts)
{
	unsigned int i;

	self->slots[self->id[1]] = 1;
	for (i = 0; i < 20; i++)
		ASSERT_EQ(0, finish(&self->queue));
	EXPECT_FALSE(noted(&self->slots[self->id[1]], NOT_MS));
}

TEST_F(events_gpu, debug_event)
{
	uint32_t id;

	ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_DEBUG_EVENT, true, &id));
	signal_slot(&self->queue, &self->page, id, id);
	EXPECT_EQ(0, event_wait(&self->dev, id, SOON_MS));
}

/* A slot that was written to while it was free does not set the next event in it. */
TEST_F(events_gpu, new_event_in_old_slot)
{
	const uint32_t id = self->id[1];
	uint32_t again;

	ASSERT_EQ(0, event_destroy(&self->dev, id));
	signal_slot(&self->queue, &self->page, id, id);
	ASSERT_EQ(0, finish(&self->queue));
	usleep(NOT_MS * 1000);
	ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_SIGNAL, true, &again));
	EXPECT_EQ(id, again);
	EXPECT_EQ(EVENT_UNSIGNALED, self->slots[id]);
	EXPECT_EQ(ETIMEDOUT, event_wait(&self->dev, id, 0));
}

/* Two processes with events of the same numbers: each interrupt belongs to one of them. */
TEST_F(events_gpu, interrupts_have_an_owner)
{
	const uint32_t id = self->id[1];
	int ready[2], go[2], status;
	char c = 0;
	pid_t pid;

	ASSERT_EQ(0, pipe(ready));
	ASSERT_EQ(0, pipe(go));
	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0) {
		struct kfd_dev dev;
		struct kfd_bo page;
		uint32_t mine;
		int err = kfd_open(&dev);

		if (!err)
			err = event_page_user(&dev, &page, &mine);
		if (!err)
			err = event_create(&dev, KFD_IOC_EVENT_SIGNAL, true, &mine);
		if (err || mine != id)
			_exit(1);
		((volatile uint64_t *)page.cpu)[mine] = 1;
		if (write(ready[1], &c, 1) != 1 || read(go[0], &c, 1) != 1)
			_exit(2);
		_exit(((volatile uint64_t *)page.cpu)[mine] == 1 ? 0 : 3);
	}
	ASSERT_EQ(1, read(ready[0], &c, 1));
	signal_slot(&self->queue, &self->page, id, id);
	signal_slot(&self->queue, &self->page, id, 0);
	ASSERT_EQ(0, finish(&self->queue));
	EXPECT_TRUE(noted(&self->slots[id], SOON_MS));
	usleep(NOT_MS * 1000);
	ASSERT_EQ(1, write(go[1], &c, 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
}

/* The page that the driver made. The GPU does not reach it, so the test writes to the slot. */
TEST_F(events_gpu, kernel_page)
{
	volatile uint64_t *slots;
	struct kfd_queue queue;
	struct packets p = { 0 };
	struct kfd_dev dev;
	int status;
	uint32_t id;
	pid_t pid;

	SKIP_ON_AMDKFD("no event page of the kernel's since Linux 7.3");
	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0) {
		if (kfd_open(&dev) || event_page_kernel(&dev, &slots, &id) ||
		    kfd_queue_create(&dev, &queue, RING_SIZE))
			_exit(1);
		slots[id] = 1;
		sdma_trap(&p, id);
		kfd_queue_submit(&queue, p.dwords, p.count);
		_exit(noted(&slots[id], SOON_MS) && !event_wait(&dev, id, 0) ? 0 : 2);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
}

TEST_F(events_gpu, fault)
{
	const uint64_t bad = (uintptr_t)kfd_reserve(KFD_PAGE, KFD_PAGE);
	struct kfd_event_data data = { 0 };
	struct packets p = { 0 };
	uint32_t exception;

	ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_MEMORY, false, &data.event_id));
	ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_HW_EXCEPTION, false, &exception));
	sdma_copy(&p, slot_address(&self->page, 8), bad, 64);
	kfd_queue_submit(&self->queue, p.dwords, p.count);
	ASSERT_EQ(0, event_wait_many(&self->dev, &data, 1, true, SOON_MS));
	EXPECT_EQ(self->dev.gpu_id, data.memory_exception_data.gpu_id);
	EXPECT_EQ(bad, data.memory_exception_data.va);
	EXPECT_EQ(1, data.memory_exception_data.failure.NotPresent);
	EXPECT_EQ(0, data.memory_exception_data.failure.ReadOnly);
	EXPECT_EQ(0, data.memory_exception_data.failure.NoExecute);
	EXPECT_EQ(0, data.memory_exception_data.failure.imprecise);
	EXPECT_EQ(KFD_MEM_ERR_NO_RAS, data.memory_exception_data.ErrorType);
	EXPECT_EQ(ETIMEDOUT, event_wait(&self->dev, exception, 0));
}

/* The last fault of the process by the render node: rkfd has it when its report is made. */
static struct drm_amdgpu_info_gpuvm_fault last_fault(const struct kfd_dev *dev)
{
	struct drm_amdgpu_info_gpuvm_fault fault = { .addr = 1 };
	struct drm_amdgpu_info request = {
		.return_pointer = (uintptr_t)&fault,
		.return_size = sizeof(fault),
		.query = AMDGPU_INFO_GPUVM_FAULT,
	};

	return kfd_ioctl(dev->drm_fd, DRM_IOCTL_AMDGPU_INFO, &request) ?
		(struct drm_amdgpu_info_gpuvm_fault){ .addr = 1 } : fault;
}

TEST_F(events_gpu, last_fault)
{
	const uint64_t bad = (uintptr_t)kfd_reserve(KFD_PAGE, KFD_PAGE);
	const uint64_t end = kfd_now_ms() + SOON_MS;
	struct drm_amdgpu_info_gpuvm_fault fault;
	struct packets p = { 0 };

	fault = last_fault(&self->dev);
	EXPECT_EQ(0, fault.addr);
	EXPECT_EQ(0, fault.status);
	sdma_copy(&p, slot_address(&self->page, 8), bad + 64, 64);
	kfd_queue_submit(&self->queue, p.dwords, p.count);
	while (!fault.addr && kfd_now_ms() < end) {
		usleep(1000);
		fault = last_fault(&self->dev);
	}
	EXPECT_EQ(bad, fault.addr);
	EXPECT_NE(0, fault.status);
	EXPECT_EQ(AMDGPU_VMHUB_TYPE_MM0, fault.vmhub);
}

TEST_F(events_gpu, fault_of_read_only_memory)
{
	const uint32_t flags = KFD_ALLOC_GTT & ~(uint32_t)KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE;
	struct kfd_event_data data = { 0 };
	struct packets p = { 0 };
	struct kfd_bo bo;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, KFD_PAGE, flags));
	ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_MEMORY, false, &data.event_id));
	sdma_fill(&p, (uintptr_t)bo.cpu, 1, 64);
	kfd_queue_submit(&self->queue, p.dwords, p.count);
	ASSERT_EQ(0, event_wait_many(&self->dev, &data, 1, true, SOON_MS));
	EXPECT_EQ((uintptr_t)bo.cpu, data.memory_exception_data.va);
	/* amdkfd may report the entry by which amdgpu ended the retries. */
	if (!kfd_is_rkfd())
		return;
	EXPECT_EQ(0, data.memory_exception_data.failure.NotPresent);
	EXPECT_EQ(1, data.memory_exception_data.failure.ReadOnly);
}

TEST_F(events_gpu, refused_packet)
{
	struct kfd_event_data data = { 0 };
	struct packets p = { 0 };

	SKIP_ON_AMDKFD("it does nothing about a packet that SDMA refuses");
	ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_HW_EXCEPTION, false, &data.event_id));
	sdma_emit(&p, 0xfe);
	kfd_queue_submit(&self->queue, p.dwords, p.count);
	ASSERT_EQ(0, event_wait_many(&self->dev, &data, 1, true, SOON_MS));
	EXPECT_EQ(self->dev.gpu_id, data.hw_exception_data.gpu_id);
	EXPECT_EQ(KFD_HW_EXCEPTION_PER_ENGINE_RESET, data.hw_exception_data.reset_type);
	EXPECT_EQ(KFD_HW_EXCEPTION_GPU_HANG, data.hw_exception_data.reset_cause);
	EXPECT_EQ(1, data.hw_exception_data.memory_lost);
}

KFD_HARNESS_MAIN
