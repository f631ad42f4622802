// SPDX-License-Identifier: GPL-2.0
/* A refused request does not take anything from other processes meanwhile. */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <drm/amdgpu_drm.h>

#include "kfd_harness.h"
#include "kfd_dmabuf.h"
#include "tap.h"

KFD_FIXTURE(refused)

/* The number of refusals, over all processes. */
static volatile unsigned int *refusals;

/* Requests again and again the largest possible amount of system memory, which is refused. */
static void *ask_for_all(void *arg)
{
	const struct kfd_dev *dev = arg;
	struct drm_amdgpu_info_vram_gtt sizes = { 0 };
	struct drm_amdgpu_info info = {
		.return_pointer = (uintptr_t)&sizes,
		.return_size = sizeof(sizes),
		.query = AMDGPU_INFO_VRAM_GTT,
	};
	uint64_t all;
	uint32_t handle;

	if (kfd_ioctl(dev->drm_fd, DRM_IOCTL_AMDGPU_INFO, &info))
		return NULL;
	all = sizes.gtt_size & ~(uint64_t)(KFD_PAGE - 1);
	for (;;) {
		switch (drm_gem_create(dev->drm_fd, all, AMDGPU_GEM_DOMAIN_GTT, 0, &handle)) {
		case 0:
			drm_gem_close(dev->drm_fd, handle);
			break;
		case ENOMEM:
			__atomic_add_fetch(refusals, 1, __ATOMIC_RELAXED);
			break;
		}
	}
}

TEST_F(refused, system_memory)
{
	const uint64_t end = kfd_now_ms() + KFD_HANG_MS;
	unsigned int i, before, refused = 0;
	pthread_t thread[4];
	struct kfd_bo bo;
	pid_t pid;

	refusals = kfd_share();
	ASSERT_NE(NULL, refusals);
	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0) {
		struct kfd_dev dev;

		if (kfd_open(&dev))
			_exit(1);
		for (i = 0; i < ARRAY_SIZE(thread); i++)
			pthread_create(&thread[i], NULL, ask_for_all, &dev);
		pause();
	}
	while (!*refusals && kfd_now_ms() < end)
		usleep(1000);
	before = *refusals;
	EXPECT_LT(0, before);
	for (i = 0; i < work(5000, 200); i++) {
		if (kfd_bo_create(&self->dev, &bo, KFD_PAGE, KFD_ALLOC_GTT))
			refused++;
		else
			kfd_bo_destroy(&self->dev, &bo);
	}
	EXPECT_EQ(0, refused);
	EXPECT_LT(before, *refusals);
	TH_LOG("%u refusals, %u of them meanwhile", *refusals, *refusals - before);
	EXPECT_EQ(0, waitpid(pid, NULL, WNOHANG));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

KFD_HARNESS_MAIN
