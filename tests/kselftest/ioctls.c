// SPDX-License-Identifier: GPL-2.0
/*
 * Each number of the interface has a deliberate answer: an error that says why it is refused,
 * or its function, whatever size the caller gives.
 */
#include <drm/amdgpu_drm.h>

#include "kfd_harness.h"

#define FIRST	0x01
#define LAST	0x28

/* The errors of refused numbers; all others have a function. */
static const struct {
	unsigned int nr;
	struct kfd_expect answer;
} refused[] = {
	{ 0x0d, SAME(EPERM) },		/* DBG_REGISTER_DEPRECATED */
	{ 0x0e, SAME(EPERM) },		/* DBG_UNREGISTER_DEPRECATED */
	{ 0x0f, SAME(EPERM) },		/* DBG_ADDRESS_WATCH_DEPRECATED */
	{ 0x10, SAME(EPERM) },		/* DBG_WAVE_CONTROL_DEPRECATED */
	{ 0x26, SAME(ESRCH) },		/* DBG_TRAP, of process 0 */
	/* That of a later version of the interface does not exist. */
	{ 0x28, DIFFERS(ENOTTY, 0) },	/* PROFILER */
};

static const struct kfd_expect *refusal(unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(refused); i++)
		if (refused[i].nr == nr)
			return &refused[i].answer;
	return NULL;
}

FIXTURE(ioctls)
{
	struct kfd_dev dev;
};

FIXTURE_SETUP(ioctls)
{
	ASSERT_EQ(0, kfd_open_files(&self->dev));
}

FIXTURE_TEARDOWN(ioctls)
{
	kfd_close(&self->dev);
}

#define GPU(self)	((self)->dev.gpu_id)
#define CALL(self, nr, args)	kfd_ioctl((self)->dev.fd, AMDKFD_IOC_##nr, args)

/* Arguments of zeros, in sizes from none to the largest: answered, and not by "no such ioctl". */
TEST_F(ioctls, every_number_every_size)
{
	static const unsigned int sizes[] = { 0, 1, 4, 8, 24, 64, 128, 4096, _IOC_SIZEMASK };
	char *data = malloc(_IOC_SIZEMASK);
	unsigned int nr, i;

	ASSERT_NE(NULL, data);
	for (nr = FIRST; nr <= LAST; nr++) {
		const struct kfd_expect *answer = refusal(nr);

		/* On another driver zeros may do anything: only our own is known. */
		if (!kfd_is_rkfd() && !answer)
			continue;
		for (i = 0; i < ARRAY_SIZE(sizes); i++) {
			int err;

			memset(data, 0, _IOC_SIZEMASK);
			err = kfd_ioctl(self->dev.fd,
					KFD_COMMAND(_IOC_READ | _IOC_WRITE, nr, sizes[i]), data);
			if (answer && kfd_is_rkfd())
				EXPECT_EQ(answer->rkfd, err)
					TH_LOG("number 0x%x, size %u", nr, sizes[i]);
			EXPECT_NE(ENOSYS, err)
				TH_LOG("number 0x%x, size %u", nr, sizes[i]);
			EXPECT_NE(EOPNOTSUPP, err)
				TH_LOG("number 0x%x, size %u", nr, sizes[i]);
			if (!answer)
				EXPECT_NE(ENOTTY, err)
					TH_LOG("number 0x%x, size %u", nr, sizes[i]);
		}
	}
	free(data);
}

TEST_F(ioctls, scratch_backing_va)
{
	struct kfd_ioctl_set_scratch_backing_va_args args = {
		.va_addr = 0x7f0000, .gpu_id = GPU(self),
	};

	EXPECT_ANSWER(vm_not_acquired, CALL(self, SET_SCRATCH_BACKING_VA, &args));
	ASSERT_EQ(0, kfd_acquire_vm(self->dev.fd, self->dev.drm_fd, GPU(self)));
	EXPECT_EQ(0, CALL(self, SET_SCRATCH_BACKING_VA, &args));
	args.va_addr = 0;
	EXPECT_EQ(0, CALL(self, SET_SCRATCH_BACKING_VA, &args));
	args.gpu_id = 0xdead;
	EXPECT_ANSWER(unknown_gpu, CALL(self, SET_SCRATCH_BACKING_VA, &args));
}

TEST_F(ioctls, trap_handler)
{
	struct kfd_ioctl_set_trap_handler_args args = {
		.tba_addr = 0x100000, .tma_addr = 0x101000, .gpu_id = GPU(self),
	};

	EXPECT_ANSWER(vm_not_acquired_trap, CALL(self, SET_TRAP_HANDLER, &args));
	ASSERT_EQ(0, kfd_acquire_vm(self->dev.fd, self->dev.drm_fd, GPU(self)));
	EXPECT_EQ(0, CALL(self, SET_TRAP_HANDLER, &args));
	args.tma_addr = 0xffff800000000000;
	EXPECT_ANSWER(trap_handler_in_kernel, CALL(self, SET_TRAP_HANDLER, &args));
	args.gpu_id = 0xdead;
	EXPECT_ANSWER(unknown_gpu, CALL(self, SET_TRAP_HANDLER, &args));
}

/* The address layout that the render node reports; 0 if it does not. */
static uint32_t address_config(int drm_fd)
{
	uint32_t value = 0;
	struct drm_amdgpu_info info = {
		.query = AMDGPU_INFO_READ_MMR_REG,
		.return_pointer = (uintptr_t)&value,
		.return_size = sizeof(value),
		.read_mmr_reg = { .dword_offset = 0x263e, .count = 1, .instance = UINT32_MAX },
	};

	return kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_INFO, &info) ? 0 : value;
}

TEST_F(ioctls, tile_config)
{
	uint32_t tiles[64], macro_tiles[64];
	struct kfd_ioctl_get_tile_config_args args = {
		.tile_config_ptr = (uintptr_t)tiles,
		.macro_tile_config_ptr = (uintptr_t)macro_tiles,
		.num_tile_configs = ARRAY_SIZE(tiles),
		.num_macro_tile_configs = 3,
		.gpu_id = GPU(self),
	};

	memset(tiles, 0xff, sizeof(tiles));
	memset(macro_tiles, 0xff, sizeof(macro_tiles));
	ASSERT_EQ(0, CALL(self, GET_TILE_CONFIG, &args));
	EXPECT_EQ(address_config(self->dev.drm_fd), args.gb_addr_config);
	EXPECT_EQ(32, args.num_tile_configs);
	EXPECT_EQ(3, args.num_macro_tile_configs);
	/* Nothing is written beyond the counts. */
	EXPECT_EQ(0, tiles[31]);
	EXPECT_EQ(0xffffffff, tiles[32]);
	EXPECT_EQ(0, macro_tiles[2]);
	EXPECT_EQ(0xffffffff, macro_tiles[3]);

	args.tile_config_ptr = 8;
	EXPECT_ANSWER(bad_argument_pointer, CALL(self, GET_TILE_CONFIG, &args));
	EXPECT_EQ(0, args.num_tile_configs);
	args.gpu_id = 0xdead;
	EXPECT_ANSWER(unknown_gpu, CALL(self, GET_TILE_CONFIG, &args));
}

TEST_F(ioctls, xnack_mode)
{
	struct kfd_ioctl_set_xnack_mode_args args = { .xnack_enabled = -1 };
	struct kfd_queue queue;

	ASSERT_EQ(0, CALL(self, SET_XNACK_MODE, &args));
	EXPECT_LE(0, args.xnack_enabled);
	args.xnack_enabled = 0;
	EXPECT_EQ(0, CALL(self, SET_XNACK_MODE, &args));
	args.xnack_enabled = 1;
	EXPECT_ANSWER(xnack_on, CALL(self, SET_XNACK_MODE, &args));
	args.xnack_enabled = 0;
	EXPECT_EQ(0, CALL(self, SET_XNACK_MODE, &args));

	ASSERT_EQ(0, kfd_acquire_vm(self->dev.fd, self->dev.drm_fd, GPU(self)));
	ASSERT_EQ(0, kfd_queue_create(&self->dev, &queue, 4096));
	EXPECT_ANSWER(xnack_with_queues, CALL(self, SET_XNACK_MODE, &args));
	args.xnack_enabled = -1;
	EXPECT_EQ(0, CALL(self, SET_XNACK_MODE, &args));
	EXPECT_EQ(0, args.xnack_enabled);
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &queue));
}

TEST_F(ioctls, runtime_enable)
{
	struct kfd_ioctl_runtime_enable_args on = {
		.mode_mask = KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK,
	};
	struct kfd_ioctl_runtime_enable_args off = { 0 };
	struct kfd_queue queue;

	EXPECT_EQ(0, CALL(self, RUNTIME_ENABLE, &off));
	EXPECT_EQ(0, CALL(self, RUNTIME_ENABLE, &on));
	EXPECT_ANSWER(runtime_twice, CALL(self, RUNTIME_ENABLE, &on));
	EXPECT_EQ(0, CALL(self, RUNTIME_ENABLE, &off));
	EXPECT_EQ(0, CALL(self, RUNTIME_ENABLE, &on));
	EXPECT_EQ(0, CALL(self, RUNTIME_ENABLE, &off));

	ASSERT_EQ(0, kfd_acquire_vm(self->dev.fd, self->dev.drm_fd, GPU(self)));
	ASSERT_EQ(0, kfd_queue_create(&self->dev, &queue, 4096));
	EXPECT_ANSWER(runtime_with_queues, CALL(self, RUNTIME_ENABLE, &on));
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &queue));
	EXPECT_EQ(0, CALL(self, RUNTIME_ENABLE, &on));
	EXPECT_EQ(0, on.capabilities_mask);
	/* That it is enabled already comes before that there are queues. */
	ASSERT_EQ(0, kfd_queue_create(&self->dev, &queue, 4096));
	EXPECT_ANSWER(runtime_twice, CALL(self, RUNTIME_ENABLE, &on));
	EXPECT_EQ(0, CALL(self, RUNTIME_ENABLE, &off));
	EXPECT_ANSWER(runtime_with_queues, CALL(self, RUNTIME_ENABLE, &on));
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &queue));
}

KFD_HARNESS_MAIN
