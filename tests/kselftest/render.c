// SPDX-License-Identifier: GPL-2.0
/* The render node, as far as libdrm_amdgpu needs it. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <drm/amdgpu_drm.h>
#include <drm/drm.h>

#include "kfd_harness.h"

#define GB_ADDR_CONFIG	0x263e
#define FAMILY_AI	141

FIXTURE(render)
{
	struct kfd_dev dev;
};

FIXTURE_SETUP(render)
{
	ASSERT_EQ(0, kfd_find_gpu(&self->dev));
	ASSERT_EQ(0, kfd_open_render(&self->dev, &self->dev.drm_fd));
}

FIXTURE_TEARDOWN(render)
{
	kfd_close(&self->dev);
}

static int info(const struct kfd_dev *dev, struct drm_amdgpu_info *request,
		void *answer, size_t size)
{
	request->return_pointer = (uintptr_t)answer;
	request->return_size = (uint32_t)size;
	return kfd_ioctl(dev->drm_fd, DRM_IOCTL_AMDGPU_INFO, request);
}

TEST_F(render, device_file)
{
	char path[128];
	struct dirent *entry;
	struct stat st;
	bool card = false;
	DIR *dir;

	ASSERT_EQ(0, fstat(self->dev.drm_fd, &st));
	EXPECT_TRUE(S_ISCHR(st.st_mode));
	EXPECT_EQ(226, major(st.st_rdev));
	EXPECT_EQ(self->dev.drm_minor, minor(st.st_rdev));
	snprintf(path, sizeof(path), "/sys/dev/char/226:%u/device/drm", self->dev.drm_minor);
	dir = opendir(path);
	ASSERT_NE(NULL, dir);
	while ((entry = readdir(dir)))
		card |= strncmp(entry->d_name, "card", 4) == 0;
	closedir(dir);
	EXPECT_TRUE(card);
}

/* The BARs of VRAM, doorbells and registers can be mapped through sysfs. */
TEST_F(render, bars)
{
	static const unsigned int bars[] = { 0, 2, 5 };
	unsigned int i;
	char path[128];
	void *mem;
	int fd;

	for (i = 0; i < ARRAY_SIZE(bars); i++) {
		snprintf(path, sizeof(path), "/sys/dev/char/226:%u/device/resource%u",
			 self->dev.drm_minor, bars[i]);
		TH_LOG("%s", path);
		fd = open(path, O_RDWR | O_CLOEXEC);
		ASSERT_LE(0, fd);
		mem = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		EXPECT_NE(MAP_FAILED, mem);
		if (mem != MAP_FAILED)
			munmap(mem, KFD_PAGE);
		close(fd);
	}
}

TEST_F(render, version)
{
	char name[32] = "";
	struct drm_version version = { .name = name, .name_len = sizeof(name) - 1 };

	ASSERT_EQ(0, kfd_ioctl(self->dev.drm_fd, DRM_IOCTL_VERSION, &version));
	EXPECT_EQ(3, version.version_major);
	EXPECT_STREQ("amdgpu", name);
}

TEST_F(render, accel_working)
{
	struct drm_amdgpu_info request = { .query = AMDGPU_INFO_ACCEL_WORKING };
	uint32_t working = 0;

	ASSERT_EQ(0, info(&self->dev, &request, &working, sizeof(working)));
	EXPECT_EQ(1, working);
}

TEST_F(render, device_info)
{
	struct drm_amdgpu_info request = { .query = AMDGPU_INFO_DEV_INFO };
	struct drm_amdgpu_info_device answer;

	memset(&answer, 0, sizeof(answer));
	ASSERT_EQ(0, info(&self->dev, &request, &answer, sizeof(answer)));
	EXPECT_NE(0, answer.device_id);
	EXPECT_NE(0, answer.gpu_counter_freq);
	EXPECT_NE(0, answer.virtual_address_max);
	EXPECT_NE(0, answer.num_shader_engines);
	EXPECT_NE(0, answer.cu_active_number);
	if (kfd_is_rkfd()) {
		EXPECT_EQ(FAMILY_AI, answer.family);
		EXPECT_TRUE(answer.device_id == 0x740f || answer.device_id == 0x74a1);
	}
}

/*
 * The shader engines of the model's boards have different compute units fused off: those of MI210
 * two in engine 2 and none in engine 6, those of MI300X one in engines 0 and 2.
 */
TEST_F(render, compute_units)
{
	static const unsigned int mi210[8] = { 0x3ff7, 0x3eff, 0x1fbf, 0x3fef,
					       0x3dff, 0x3ffe, 0x3fff, 0x3bff };
	static const unsigned int mi300x[4] = { 0x3f7, 0x3ff, 0x37f, 0x3ff };
	const unsigned int *working;
	struct drm_amdgpu_info request = { .query = AMDGPU_INFO_DEV_INFO };
	struct drm_amdgpu_info_device answer;
	unsigned int engine, engines;

	memset(&answer, 0, sizeof(answer));
	ASSERT_EQ(0, info(&self->dev, &request, &answer, sizeof(answer)));
	working = answer.device_id == 0x74a1 ? mi300x : mi210;
	engines = answer.device_id == 0x74a1 ? ARRAY_SIZE(mi300x) : ARRAY_SIZE(mi210);
	EXPECT_EQ(engines, answer.num_shader_engines);
	EXPECT_EQ(answer.device_id == 0x74a1 ? 38 : 104, answer.cu_active_number);
	for (engine = 0; engine < engines; engine++)
		EXPECT_EQ(working[engine], answer.cu_bitmap[engine % 4][engine / 4]);
}

/* The caller's structure may be older or newer than the kernel's. */
TEST_F(render, device_info_sizes)
{
	struct drm_amdgpu_info request = { .query = AMDGPU_INFO_DEV_INFO };
	struct {
		struct drm_amdgpu_info_device known;
		uint32_t beyond[64];
	} large;
	uint32_t small[2] = { 0, 0x5a5a5a5a };

	ASSERT_EQ(0, info(&self->dev, &request, small, sizeof(small[0])));
	EXPECT_NE(0, small[0]);
	EXPECT_EQ(0x5a5a5a5a, small[1]);

	memset(&large, 0, sizeof(large));
	ASSERT_EQ(0, info(&self->dev, &request, &large, sizeof(large)));
	EXPECT_EQ(small[0], large.known.device_id);
}

TEST_F(render, read_register)
{
	struct drm_amdgpu_info request = { .query = AMDGPU_INFO_READ_MMR_REG };
	uint32_t value = 0;

	request.read_mmr_reg.dword_offset = GB_ADDR_CONFIG;
	request.read_mmr_reg.count = 1;
	request.read_mmr_reg.instance = UINT32_MAX;
	EXPECT_EQ(0, info(&self->dev, &request, &value, sizeof(value)));
	/* A register that is not on the list, and an absurd count. */
	request.read_mmr_reg.dword_offset = 0x1234567;
	EXPECT_NE(0, info(&self->dev, &request, &value, sizeof(value)));
	request.read_mmr_reg.dword_offset = GB_ADDR_CONFIG;
	request.read_mmr_reg.count = UINT32_MAX;
	EXPECT_NE(0, info(&self->dev, &request, &value, sizeof(value)));
}

TEST_F(render, bad_input)
{
	struct drm_amdgpu_info request = { .query = 0xffff };
	uint32_t answer[64] = { 0 };

	EXPECT_ANSWER(drm_unknown_query,
		      info(&self->dev, &request, answer, sizeof(answer)));
	request.query = AMDGPU_INFO_DEV_INFO;
	EXPECT_ANSWER(bad_argument_pointer, info(&self->dev, &request, (void *)8, 64));
	EXPECT_ANSWER(drm_unknown_command,
		      kfd_ioctl(self->dev.drm_fd,
				_IOC(_IOC_READ | _IOC_WRITE, DRM_IOCTL_BASE, 0x9f, 8),
				answer));
}

KFD_HARNESS_MAIN
