// SPDX-License-Identifier: GPL-2.0
/* CREATE, UPDATE and DESTROY of compute queues, and the other calls for them. */
#include <sys/mman.h>

#include "kfd_compute.h"
#include "kfd_harness.h"

#define RING		(64u * 1024)
#define TIMEOUT_MS	KFD_HANG_MS

FIXTURE(compute)
{
	struct kfd_dev dev;
	struct kfd_save save;
	struct kfd_compute queue;			/* its buffers */
	struct kfd_ioctl_create_queue_args args;	/* good ones, for tests to spoil */
};

FIXTURE_VARIANT(compute)
{
	bool aql;
};

FIXTURE_VARIANT_ADD(compute, pm4)
{
	.aql = false,
};

FIXTURE_VARIANT_ADD(compute, aql)
{
	.aql = true,
};

FIXTURE_SETUP(compute)
{
	ASSERT_EQ(0, kfd_open(&self->dev));
	ASSERT_EQ(0, kfd_save_create(&self->dev, &self->save));
	ASSERT_EQ(0, kfd_compute_prepare(&self->dev, &self->queue, &self->save,
					 variant->aql, RING, &self->args));
}

FIXTURE_TEARDOWN(compute)
{
	EXPECT_EQ(0, kfd_compute_release(&self->dev, &self->queue));
	EXPECT_EQ(0, kfd_save_destroy(&self->dev, &self->save));
	kfd_close(&self->dev);
}

static int create(const struct kfd_dev *dev, struct kfd_ioctl_create_queue_args *args)
{
	return kfd_ioctl(dev->fd, AMDKFD_IOC_CREATE_QUEUE, args);
}

/* The answer to a queue that must not be created; if amdkfd creates it, it is destroyed. */
static int try(const struct kfd_dev *dev, struct kfd_ioctl_create_queue_args *args)
{
	int err = create(dev, args);

	return err ? err : kfd_destroy_queue(dev->fd, args->queue_id);
}

static int update(const struct kfd_dev *dev, uint32_t id, const struct kfd_bo *ring,
		  uint32_t percentage)
{
	struct kfd_ioctl_update_queue_args args = {
		.ring_base_address = ring ? (uintptr_t)ring->cpu : 0,
		.ring_size = ring ? (uint32_t)ring->size : 0,
		.queue_id = id,
		.queue_percentage = percentage,
		.queue_priority = 15,
	};

	return kfd_ioctl(dev->fd, AMDKFD_IOC_UPDATE_QUEUE, &args);
}

TEST_F(compute, works)
{
	struct kfd_compute queue;

	ASSERT_EQ(0, kfd_compute_create(&self->dev, &queue, &self->save, variant->aql, RING));
	EXPECT_TRUE(kfd_compute_works(&queue, TIMEOUT_MS));
	EXPECT_TRUE(kfd_compute_works(&queue, TIMEOUT_MS));
	EXPECT_EQ(0, kfd_compute_destroy(&self->dev, &queue));
}

TEST_F(compute, wraps_around)
{
	struct kfd_compute queue;
	unsigned int i;

	ASSERT_EQ(0, kfd_compute_create(&self->dev, &queue, &self->save, variant->aql,
					KFD_PAGE));
	for (i = 0; i < 300; i++)
		ASSERT_TRUE(kfd_compute_works(&queue, TIMEOUT_MS));
	EXPECT_EQ(0, kfd_compute_destroy(&self->dev, &queue));
}

/* The CP's doorbells are in the slice's first page, apart from those of SDMA. */
TEST_F(compute, doorbells_are_the_cps)
{
	const uint64_t byte = KFD_DOORBELL_SLICE - 1;
	uint64_t slot;

	ASSERT_EQ(0, create(&self->dev, &self->args));
	EXPECT_EQ(KFD_OFFSET_DOORBELL | KFD_OFFSET_GPU(self->dev.gpu_id),
		  self->args.doorbell_offset & ~byte);
	slot = (self->args.doorbell_offset & byte) / 8;
	if (kfd_is_rkfd())
		EXPECT_GT(KFD_PAGE / 8, slot);
	EXPECT_TRUE(slot < 0x100 || slot >= 0x190);
	EXPECT_EQ(0, kfd_destroy_queue(self->dev.fd, self->args.queue_id));
}

TEST_F(compute, bad_eop)
{
	struct kfd_ioctl_create_queue_args args = self->args;

	args.eop_buffer_size = KFD_COMPUTE_EOP / 2;
	EXPECT_ANSWER(eop_size, try(&self->dev, &args));
	args.eop_buffer_size = 1ull << 40;
	EXPECT_ANSWER(eop_size, try(&self->dev, &args));
	args.eop_buffer_size = 3 * KFD_PAGE;
	EXPECT_ANSWER(eop_size, try(&self->dev, &args));
	args = self->args;
	args.eop_buffer_address += 256;
	EXPECT_ANSWER(eop_inside_page, try(&self->dev, &args));
	args.eop_buffer_address = 1ull << 40;
	EXPECT_ANSWER(eop_unmapped, try(&self->dev, &args));
	args.eop_buffer_address = UINT64_MAX - 4095;
	EXPECT_ANSWER(pointer_in_kernel, try(&self->dev, &args));
}

TEST_F(compute, bad_save_area)
{
	struct kfd_ioctl_create_queue_args args = self->args;

	args.ctl_stack_size += KFD_PAGE;
	EXPECT_ANSWER(save_size, create(&self->dev, &args));
	args.ctl_stack_size = 0;
	EXPECT_ANSWER(save_size, create(&self->dev, &args));
	args = self->args;
	args.ctx_save_restore_size -= KFD_PAGE;
	EXPECT_ANSWER(save_size, create(&self->dev, &args));
	args.ctx_save_restore_size = UINT32_MAX;
	EXPECT_ANSWER(save_size, create(&self->dev, &args));
	args = self->args;
	args.ctx_save_restore_address += self->save.bo.size / 2;
	EXPECT_ANSWER(save_unmapped, create(&self->dev, &args));
	args.ctx_save_restore_address = 1ull << 40;
	EXPECT_ANSWER(save_unmapped, create(&self->dev, &args));
}

TEST_F(compute, bad_ring_and_pointers)
{
	struct kfd_ioctl_create_queue_args args = self->args;

	args.ring_size = 3 * KFD_PAGE;
	EXPECT_ANSWER(ring_not_power_of_two, try(&self->dev, &args));
	args.ring_size = RING - 1;
	EXPECT_ANSWER(ring_not_power_of_two, try(&self->dev, &args));
	args.ring_size = RING / 2;
	EXPECT_ANSWER(ring_other_size, try(&self->dev, &args));
	args.ring_size = 1u << 31;
	EXPECT_ANSWER(ring_other_size, try(&self->dev, &args));
	args.ring_size = RING / 2;
	args.ring_base_address += RING / 2;
	EXPECT_ANSWER(ring_inside_buffer, try(&self->dev, &args));
	args = self->args;
	args.ring_base_address = UINT64_MAX - RING + 1;
	EXPECT_ANSWER(pointer_in_kernel, try(&self->dev, &args));
	args = self->args;
	args.ring_base_address = 1ull << 40;
	EXPECT_ANSWER(ring_unmapped, try(&self->dev, &args));
	args = self->args;
	args.read_pointer_address = 1ull << 40;
	EXPECT_ANSWER(pointer_unmapped, try(&self->dev, &args));
	args = self->args;
	args.read_pointer_address = 1ull << 63;
	EXPECT_ANSWER(pointer_in_kernel, try(&self->dev, &args));
	args = self->args;
	args.write_pointer_address = 1ull << 40;
	EXPECT_ANSWER(pointer_unmapped, try(&self->dev, &args));
	args = self->args;
	args.write_pointer_address += 4;
	EXPECT_ANSWER(pointer_unaligned, try(&self->dev, &args));
	args = self->args;
	args.queue_percentage = KFD_MAX_QUEUE_PERCENTAGE + 1;
	EXPECT_ANSWER(queue_percentage, try(&self->dev, &args));
	args = self->args;
	args.queue_priority = KFD_MAX_QUEUE_PRIORITY + 1;
	EXPECT_ANSWER(queue_priority, try(&self->dev, &args));
}

/* A refused UPDATE changes nothing. */
TEST_F(compute, bad_update)
{
	struct kfd_compute queue;
	struct kfd_bo other;
	const struct kfd_bo odd = { .cpu = self->queue.ring.cpu, .size = 3 * KFD_PAGE };
	const struct kfd_bo half = { .cpu = self->queue.ring.cpu, .size = RING / 2 };
	const struct kfd_bo nothing = { .cpu = kfd_reserve(RING, KFD_PAGE), .size = RING };
	const struct kfd_bo kernels = { .cpu = (void *)(UINTPTR_MAX - RING + 1), .size = RING };
	struct kfd_ioctl_update_queue_args args = { .queue_percentage = 100 };

	ASSERT_EQ(0, kfd_compute_create(&self->dev, &queue, &self->save, variant->aql, RING));
	EXPECT_ANSWER(ring_not_power_of_two, update(&self->dev, queue.id, &odd, 100));
	EXPECT_ANSWER(update_ring_unmapped, update(&self->dev, queue.id, &half, 100));
	EXPECT_ANSWER(update_ring_unmapped, update(&self->dev, queue.id, &nothing, 100));
	EXPECT_ANSWER(pointer_in_kernel, update(&self->dev, queue.id, &kernels, 100));
	EXPECT_ANSWER(queue_percentage, update(&self->dev, queue.id, NULL, 101));
	args.queue_id = queue.id;
	args.queue_priority = KFD_MAX_QUEUE_PRIORITY + 1;
	EXPECT_ANSWER(queue_priority,
		      kfd_ioctl(self->dev.fd, AMDKFD_IOC_UPDATE_QUEUE, &args));
	EXPECT_ANSWER(queue_unknown_update, update(&self->dev, queue.id + 100, NULL, 100));
	EXPECT_TRUE(kfd_compute_works(&queue, TIMEOUT_MS));
	/* A buffer that is no ring can be freed; a ring cannot. */
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &other, RING, KFD_ALLOC_GTT));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &other));
	EXPECT_ANSWER(ring_in_use, kfd_unmap(self->dev.fd, queue.ring.handle, self->dev.gpu_id));
	EXPECT_EQ(0, kfd_compute_destroy(&self->dev, &queue));
}

/* Another process has neither the memory nor the queue, even if it knows address and number. */
TEST_F(compute, of_another_process)
{
	struct kfd_compute queue;
	int status;
	pid_t pid;

	ASSERT_EQ(0, kfd_compute_create(&self->dev, &queue, &self->save, variant->aql, RING));
	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0) {
		struct kfd_ioctl_create_queue_args args, own;
		struct kfd_compute mine;
		struct kfd_save save;
		struct kfd_dev dev;
		__u64 *const fields[] = {
			&args.ring_base_address, &args.read_pointer_address,
			&args.write_pointer_address, &args.eop_buffer_address,
			&args.ctx_save_restore_address,
		};
		const struct kfd_bo *const foreign[] = {
			&queue.ring, &queue.control, &queue.control, &queue.eop, &self->save.bo,
		};
		unsigned int i;

		/*
		 * No memory of the child may get this address; a mapping that both share is
		 * made once.
		 */
		for (i = 0; i < 5; i++)
			mmap(foreign[i]->cpu, foreign[i]->size, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (kfd_open(&dev) || kfd_save_create(&dev, &save) ||
		    kfd_compute_prepare(&dev, &mine, &save, variant->aql, RING, &own))
			_exit(1);
		for (i = 0; i < 5; i++) {
			args = own;
			*fields[i] = (uintptr_t)foreign[i]->cpu;
			if (create(&dev, &args) != EINVAL)
				_exit(10 + i);
		}
		if (update(&dev, queue.id, NULL, 0) != kfd_expected(answer_queue_unknown_update))
			_exit(2);
		if (kfd_destroy_queue(dev.fd, queue.id) !=
		    kfd_expected(answer_queue_unknown_destroy))
			_exit(3);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
	EXPECT_TRUE(kfd_compute_works(&queue, TIMEOUT_MS));
	EXPECT_EQ(0, kfd_compute_destroy(&self->dev, &queue));
}

/* The buffers of a queue stay as long as the queue does. */
TEST_F(compute, buffers_in_use_are_not_freed)
{
	const int fd = self->dev.fd;
	const uint32_t gpu = self->dev.gpu_id;

	ASSERT_EQ(0, create(&self->dev, &self->args));
	EXPECT_ANSWER(ring_in_use, kfd_unmap(fd, self->queue.ring.handle, gpu));
	EXPECT_ANSWER(ring_in_use, kfd_unmap(fd, self->queue.control.handle, gpu));
	EXPECT_ANSWER(ring_in_use, kfd_unmap(fd, self->queue.eop.handle, gpu));
	EXPECT_ANSWER(ring_in_use, kfd_unmap(fd, self->save.bo.handle, gpu));
	EXPECT_ANSWER(free_while_mapped, kfd_free(fd, self->queue.ring.handle));
	EXPECT_ANSWER(free_while_mapped, kfd_free(fd, self->queue.control.handle));
	EXPECT_ANSWER(free_while_mapped, kfd_free(fd, self->queue.eop.handle));
	EXPECT_ANSWER(free_while_mapped, kfd_free(fd, self->save.bo.handle));
	EXPECT_EQ(0, kfd_destroy_queue(fd, self->args.queue_id));
	EXPECT_ANSWER(queue_unknown_destroy, kfd_destroy_queue(fd, self->args.queue_id));
}

/* A queue of percentage 0 does nothing until it gets more. */
TEST_F(compute, inactive)
{
	struct kfd_compute queue;

	ASSERT_EQ(0, kfd_compute_create(&self->dev, &queue, &self->save, variant->aql, RING));
	ASSERT_EQ(0, update(&self->dev, queue.id, NULL, 0));
	EXPECT_FALSE(kfd_compute_works(&queue, 200));
	ASSERT_EQ(0, update(&self->dev, queue.id, &queue.ring, 50));
	EXPECT_TRUE(kfd_compute_wait(&queue, KFD_COMPUTE_FENCE, queue.fence, TIMEOUT_MS));
	EXPECT_TRUE(kfd_compute_works(&queue, TIMEOUT_MS));
	EXPECT_EQ(0, kfd_compute_destroy(&self->dev, &queue));
}

/* A queue without a ring does nothing, whatever its percentage, until it gets one. */
TEST_F(compute, without_ring)
{
	struct kfd_compute queue;

	ASSERT_EQ(0, kfd_compute_create(&self->dev, &queue, &self->save, variant->aql, RING));
	EXPECT_TRUE(kfd_compute_works(&queue, TIMEOUT_MS));
	ASSERT_EQ(0, update(&self->dev, queue.id, NULL, 100));
	EXPECT_FALSE(kfd_compute_works(&queue, 200));
	ASSERT_EQ(0, update(&self->dev, queue.id, NULL, 50));
	EXPECT_FALSE(kfd_compute_wait(&queue, KFD_COMPUTE_FENCE, queue.fence, 200));
	EXPECT_ANSWER(ring_in_use, kfd_unmap(self->dev.fd, queue.ring.handle, self->dev.gpu_id));
	ASSERT_EQ(0, update(&self->dev, queue.id, &queue.ring, 100));
	EXPECT_TRUE(kfd_compute_wait(&queue, KFD_COMPUTE_FENCE, queue.fence, TIMEOUT_MS));
	EXPECT_TRUE(kfd_compute_works(&queue, TIMEOUT_MS));
	EXPECT_EQ(0, kfd_compute_destroy(&self->dev, &queue));
}

TEST_F(compute, another_ring)
{
	struct kfd_compute queue;
	struct kfd_bo ring, old;

	ASSERT_EQ(0, kfd_compute_create(&self->dev, &queue, &self->save, variant->aql, RING));
	EXPECT_TRUE(kfd_compute_works(&queue, TIMEOUT_MS));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &ring, RING, KFD_ALLOC_GTT));
	memcpy(ring.cpu, queue.ring.cpu, RING);
	ASSERT_EQ(0, update(&self->dev, queue.id, &ring, 100));
	old = queue.ring;
	queue.ring = ring;
	EXPECT_TRUE(kfd_compute_works(&queue, TIMEOUT_MS));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &old));
	EXPECT_EQ(0, kfd_compute_destroy(&self->dev, &queue));
}

TEST_F(compute, cu_mask)
{
	struct kfd_compute queue;
	uint32_t mask[32];
	struct kfd_ioctl_set_cu_mask_args args = {
		.num_cu_mask = 1024,
		.cu_mask_ptr = (uintptr_t)mask,
	};

	memset(mask, 0xff, sizeof(mask));
	ASSERT_EQ(0, kfd_compute_create(&self->dev, &queue, &self->save, variant->aql, RING));
	args.queue_id = queue.id;
	EXPECT_EQ(0, kfd_ioctl(self->dev.fd, AMDKFD_IOC_SET_CU_MASK, &args));
	args.num_cu_mask = 32;
	mask[0] = 1;
	EXPECT_EQ(0, kfd_ioctl(self->dev.fd, AMDKFD_IOC_SET_CU_MASK, &args));
	EXPECT_TRUE(kfd_compute_works(&queue, TIMEOUT_MS));
	mask[0] = 0;
	EXPECT_ANSWER(cu_mask_empty, kfd_ioctl(self->dev.fd, AMDKFD_IOC_SET_CU_MASK, &args));
	args.num_cu_mask = 0;
	EXPECT_ANSWER(cu_mask_size, kfd_ioctl(self->dev.fd, AMDKFD_IOC_SET_CU_MASK, &args));
	args.num_cu_mask = 16;
	EXPECT_ANSWER(cu_mask_size, kfd_ioctl(self->dev.fd, AMDKFD_IOC_SET_CU_MASK, &args));
	args.num_cu_mask = 33;
	EXPECT_ANSWER(cu_mask_size, kfd_ioctl(self->dev.fd, AMDKFD_IOC_SET_CU_MASK, &args));
	/* Bits beyond the maximum are not read and need not exist. */
	mask[0] = 1;
	args.num_cu_mask = UINT32_MAX - 31;
	EXPECT_EQ(0, kfd_ioctl(self->dev.fd, AMDKFD_IOC_SET_CU_MASK, &args));
	args.num_cu_mask = 32;
	args.queue_id += 100;
	EXPECT_ANSWER(cu_mask_unknown_queue,
		      kfd_ioctl(self->dev.fd, AMDKFD_IOC_SET_CU_MASK, &args));
	args.queue_id = queue.id;
	args.num_cu_mask = 32;
	args.cu_mask_ptr = 8;
	EXPECT_EQ(EFAULT, kfd_ioctl(self->dev.fd, AMDKFD_IOC_SET_CU_MASK, &args));
	EXPECT_EQ(0, kfd_compute_destroy(&self->dev, &queue));
}

/* Without waves nothing is saved. */
TEST_F(compute, wave_state)
{
	struct kfd_compute queue;
	struct kfd_ioctl_get_queue_wave_state_args args = {
		.ctl_stack_address = (uintptr_t)self->save.bo.cpu,
		.ctl_stack_used_size = 1,
		.save_area_used_size = 1,
	};
	const uint32_t *header = self->save.bo.cpu;

	ASSERT_EQ(0, kfd_compute_create(&self->dev, &queue, &self->save, variant->aql, RING));
	args.queue_id = queue.id;
	EXPECT_ANSWER(wave_state_active,
		      kfd_ioctl(self->dev.fd, AMDKFD_IOC_GET_QUEUE_WAVE_STATE, &args));
	EXPECT_TRUE(kfd_compute_works(&queue, TIMEOUT_MS));
	ASSERT_EQ(0, update(&self->dev, queue.id, NULL, 0));
	EXPECT_EQ(0, kfd_ioctl(self->dev.fd, AMDKFD_IOC_GET_QUEUE_WAVE_STATE, &args));
	EXPECT_EQ(0, args.ctl_stack_used_size);
	EXPECT_EQ(0, args.save_area_used_size);
	EXPECT_EQ(self->save.control_stack, header[0]);
	EXPECT_EQ(0, header[1]);
	EXPECT_EQ(self->save.control_stack, header[2]);
	EXPECT_EQ(0, header[3]);
	args.ctl_stack_address = 8;
	EXPECT_EQ(EFAULT, kfd_ioctl(self->dev.fd, AMDKFD_IOC_GET_QUEUE_WAVE_STATE, &args));
	args.ctl_stack_address = (uintptr_t)self->save.bo.cpu;
	args.queue_id += 100;
	EXPECT_ANSWER(wave_state_unknown_queue,
		      kfd_ioctl(self->dev.fd, AMDKFD_IOC_GET_QUEUE_WAVE_STATE, &args));
	EXPECT_EQ(0, kfd_compute_destroy(&self->dev, &queue));
}

/*
 * What is mapped while the process has no queue is there for the next one: the memory of the queue
 * itself, whose page tables the GPU has walked before. SDMA has nothing to do meanwhile.
 */
TEST_F(compute, mapped_between_queues)
{
	struct kfd_compute queue;
	unsigned int i;

	for (i = 0; i < 8; i++) {
		ASSERT_EQ(0, kfd_compute_create(&self->dev, &queue, &self->save, variant->aql,
						RING));
		EXPECT_TRUE(kfd_compute_works(&queue, TIMEOUT_MS));
		ASSERT_EQ(0, kfd_compute_destroy(&self->dev, &queue));
	}
}

/* The GPU itself rings the doorbell of a queue, and flushes the CPU's writes. */
TEST_F(compute, gpu_writes_registers)
{
	uint64_t doorbells, flush, end, handle[2];
	volatile uint64_t *doorbell, value;
	struct kfd_compute queue;
	struct kfd_queue sdma;
	struct packets p = { 0 };
	size_t offset;

	ASSERT_EQ(0, kfd_compute_create(&self->dev, &queue, &self->save, variant->aql, RING));
	ASSERT_EQ(0, kfd_queue_create(&self->dev, &sdma, RING));
	doorbells = kfd_map_registers(&self->dev, KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL,
				      KFD_DOORBELL_SLICE, &handle[0]);
	ASSERT_NE(0, doorbells);
	flush = kfd_map_registers(&self->dev, KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP, KFD_PAGE,
				  &handle[1]);
	ASSERT_NE(0, flush);
	/* No CPU rings when the packets are in the ring. All XCCs have read the first one's index. */
	EXPECT_TRUE(kfd_compute_works(&queue, TIMEOUT_MS));
	end = kfd_now_ms() + TIMEOUT_MS;
	while (variant->aql && kfd_compute_read_pointer(&queue) != queue.wptr && kfd_now_ms() < end)
		usleep(50);
	doorbell = queue.doorbell;
	queue.doorbell = &value;
	EXPECT_FALSE(kfd_compute_works(&queue, 100));
	offset = (size_t)((char *)(uintptr_t)doorbell - (char *)queue.slice);
	sdma_write(&p, flush, (const uint32_t[]){ 0 }, 1);
	sdma_write(&p, doorbells + offset, (const uint32_t *)(uintptr_t)&value, 2);
	kfd_queue_submit(&sdma, p.dwords, p.count);
	EXPECT_EQ(0, kfd_queue_finish(&sdma, TIMEOUT_MS));
	EXPECT_TRUE(kfd_compute_wait(&queue, KFD_COMPUTE_FENCE, queue.fence, TIMEOUT_MS));
	queue.doorbell = doorbell;
	EXPECT_TRUE(kfd_compute_works(&queue, TIMEOUT_MS));
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &sdma));
	EXPECT_EQ(0, kfd_compute_destroy(&self->dev, &queue));
	EXPECT_EQ(0, kfd_unmap(self->dev.fd, handle[0], self->dev.gpu_id));
	EXPECT_EQ(0, kfd_free(self->dev.fd, handle[0]));
	EXPECT_EQ(0, kfd_unmap(self->dev.fd, handle[1], self->dev.gpu_id));
	EXPECT_EQ(0, kfd_free(self->dev.fd, handle[1]));
}

/* Reads @address by a queue that is made for this alone. */
static int read_by_gpu(const struct kfd_dev *dev, const struct kfd_save *save, bool aql,
		       uint64_t address, uint32_t *value)
{
	const size_t spare = KFD_PAGE - 64;	/* in its page of control */
	struct packets p = { 0 };
	struct kfd_compute queue;
	bool works;

	if (kfd_compute_create(dev, &queue, save, aql, RING))
		return -1;
	*kfd_compute_qword(&queue, spare) = ~0ull;
	pm4_copy(&p, kfd_compute_address(&queue, spare), address);
	pm4_release(&p, kfd_compute_address(&queue, KFD_COMPUTE_FENCE), 1, 0);
	works = kfd_compute_submit(&queue, &p) &&
		kfd_compute_wait(&queue, KFD_COMPUTE_FENCE, 1, TIMEOUT_MS);
	*value = (uint32_t)*kfd_compute_qword(&queue, spare);
	return kfd_compute_destroy(dev, &queue) || !works ? -1 : 0;
}

/* Other memory at the same address, mapped while the process had no queue. */
TEST_F(compute, remapped_without_queues)
{
	uint64_t handle, address;
	struct kfd_bo old;
	uint32_t value;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &old, KFD_PAGE, KFD_ALLOC_GTT));
	address = (uintptr_t)old.cpu;
	*(volatile uint32_t *)old.cpu = 0x01d;
	ASSERT_EQ(0, read_by_gpu(&self->dev, &self->save, variant->aql, address, &value));
	EXPECT_EQ(0x01d, value);
	ASSERT_EQ(0, kfd_unmap(self->dev.fd, old.handle, self->dev.gpu_id));
	/* It is cleared when it comes, and the old memory is unchanged. */
	ASSERT_EQ(0, kfd_alloc_at(&self->dev, KFD_ALLOC_GTT, address, KFD_PAGE, &handle));
	ASSERT_EQ(0, kfd_map(self->dev.fd, handle, self->dev.gpu_id));
	ASSERT_EQ(0, read_by_gpu(&self->dev, &self->save, variant->aql, address, &value));
	EXPECT_EQ(0, value);
	EXPECT_EQ(0, kfd_unmap(self->dev.fd, handle, self->dev.gpu_id));
	EXPECT_EQ(0, kfd_free(self->dev.fd, handle));
	EXPECT_EQ(0, kfd_free(self->dev.fd, old.handle));
}

TEST_F(compute, gws)
{
	struct kfd_ioctl_alloc_queue_gws_args args = { .num_gws = 1 };

	ASSERT_EQ(0, create(&self->dev, &self->args));
	args.queue_id = self->args.queue_id;
	EXPECT_ANSWER(gws_none, kfd_ioctl(self->dev.fd, AMDKFD_IOC_ALLOC_QUEUE_GWS, &args));
	args.queue_id += 100;
	EXPECT_ANSWER(gws_unknown_queue,
		      kfd_ioctl(self->dev.fd, AMDKFD_IOC_ALLOC_QUEUE_GWS, &args));
	EXPECT_EQ(0, kfd_destroy_queue(self->dev.fd, self->args.queue_id));
}

/* An SDMA queue has no waves. */
TEST_F(compute, not_for_sdma)
{
	struct kfd_queue queue;
	uint32_t mask = 1;
	struct kfd_ioctl_set_cu_mask_args cus = {
		.num_cu_mask = 32,
		.cu_mask_ptr = (uintptr_t)&mask,
	};
	struct kfd_ioctl_get_queue_wave_state_args waves = { 0 };

	ASSERT_EQ(0, kfd_queue_create(&self->dev, &queue, RING));
	cus.queue_id = queue.id;
	waves.queue_id = queue.id;
	if (kfd_is_rkfd())
		EXPECT_EQ(EINVAL, kfd_ioctl(self->dev.fd, AMDKFD_IOC_SET_CU_MASK, &cus));
	EXPECT_EQ(EINVAL, kfd_ioctl(self->dev.fd, AMDKFD_IOC_GET_QUEUE_WAVE_STATE, &waves));
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &queue));
}

/* Each CP doorbell of the process's slice is used at some point. */
TEST_F(compute, too_many)
{
	static uint32_t ids[2048];
	unsigned int count, i;
	int err = 0;

	for (count = 0; count < 2048 && !err; count++) {
		err = create(&self->dev, &self->args);
		ids[count] = self->args.queue_id;
	}
	EXPECT_ANSWER(queues_too_many, err);
	for (i = 0; i + 1 < count; i++)
		EXPECT_EQ(0, kfd_destroy_queue(self->dev.fd, ids[i]));
	EXPECT_LT(100, count);
	ASSERT_EQ(0, create(&self->dev, &self->args));
	EXPECT_EQ(0, kfd_destroy_queue(self->dev.fd, self->args.queue_id));
}

KFD_HARNESS_MAIN
