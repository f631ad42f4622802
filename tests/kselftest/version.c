// SPDX-License-Identifier: GPL-2.0
/* GET_VERSION, the matching of commands, and the calls that need no VM. */
#include <sys/stat.h>

#include "kfd_harness.h"

FIXTURE(kfd)
{
	struct kfd_dev dev;
};

FIXTURE_SETUP(kfd)
{
	ASSERT_EQ(0, kfd_open_files(&self->dev));
}

FIXTURE_TEARDOWN(kfd)
{
	kfd_close(&self->dev);
}

TEST_F(kfd, get_version)
{
	struct kfd_ioctl_get_version_args args = { 0 };

	ASSERT_EQ(0, kfd_ioctl(self->dev.fd, AMDKFD_IOC_GET_VERSION, &args));
	EXPECT_EQ(1, args.major_version);
	EXPECT_LT(0, args.minor_version);
}

/* Without udev only root may open it. */
TEST_F(kfd, mode)
{
	struct stat is;

	if (access("/run/udev", F_OK) == 0)
		SKIP(return, "udev decides");
	ASSERT_EQ(0, stat(KFD_PATH, &is));
	EXPECT_EQ(0600, is.st_mode & 07777);
}

/* Only the number of a command counts; the size is the caller's. */
TEST_F(kfd, command_matched_by_number)
{
	struct {
		struct kfd_ioctl_get_version_args args;
		uint32_t beyond[14];
	} large;
	uint32_t small[2] = { 0, 0x5a5a5a5a };

	memset(&large, 0xff, sizeof(large));
	ASSERT_EQ(0, kfd_ioctl(self->dev.fd,
			       KFD_COMMAND(_IOC_READ, 0x01, sizeof(large)), &large));
	EXPECT_EQ(1, large.args.major_version);

	ASSERT_EQ(0, kfd_ioctl(self->dev.fd,
			       KFD_COMMAND(_IOC_READ, 0x01, 4), small));
	EXPECT_EQ(1, small[0]);
	/* Nothing is written behind the caller's size. */
	EXPECT_EQ(0x5a5a5a5a, small[1]);
}

TEST_F(kfd, unknown_commands)
{
	static const unsigned int numbers[] = {
		0x00, 0x29, 0x2a, 0x40, 0x7f, 0x80, 0x81, 0x83, 0x84, 0x85, 0xff,
	};
	char data[256] = { 0 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(numbers); i++) {
		unsigned long cmd = KFD_COMMAND(_IOC_READ | _IOC_WRITE,
						numbers[i], 32);

		EXPECT_ANSWER(unknown_command, kfd_ioctl(self->dev.fd, cmd, data)) {
			TH_LOG("command number 0x%x", numbers[i]);
		}
	}
}

/* The largest size that a command can carry is no reason to fail or to hang. */
TEST_F(kfd, huge_command_size)
{
	char *data = calloc(1, _IOC_SIZEMASK + 1);
	struct kfd_ioctl_get_version_args *args = (void *)data;

	ASSERT_NE(NULL, data);
	ASSERT_EQ(0, kfd_ioctl(self->dev.fd,
			       KFD_COMMAND(_IOC_READ | _IOC_WRITE, 0x01, _IOC_SIZEMASK),
			       data));
	EXPECT_EQ(1, args->major_version);
	free(data);
}

TEST_F(kfd, bad_argument_pointer)
{
	EXPECT_ANSWER(bad_argument_pointer,
		      kfd_ioctl(self->dev.fd, AMDKFD_IOC_GET_VERSION, (void *)8));
	EXPECT_ANSWER(bad_argument_pointer,
		      kfd_ioctl(self->dev.fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, (void *)8));
	EXPECT_ANSWER(bad_argument_pointer,
		      kfd_ioctl(self->dev.fd, AMDKFD_IOC_CREATE_QUEUE,
				(void *)0xffff800000000000ul));
}

TEST_F(kfd, clock_counters)
{
	struct kfd_ioctl_get_clock_counters_args a = { .gpu_id = self->dev.gpu_id };
	struct kfd_ioctl_get_clock_counters_args b = a;

	ASSERT_EQ(0, kfd_ioctl(self->dev.fd, AMDKFD_IOC_GET_CLOCK_COUNTERS, &a));
	usleep(2000);
	ASSERT_EQ(0, kfd_ioctl(self->dev.fd, AMDKFD_IOC_GET_CLOCK_COUNTERS, &b));
	EXPECT_LT(a.gpu_clock_counter, b.gpu_clock_counter);
	EXPECT_LE(a.cpu_clock_counter + 2000000, b.cpu_clock_counter);
	EXPECT_LE(a.system_clock_counter + 2000000, b.system_clock_counter);
	EXPECT_EQ(1000000000, a.system_clock_freq);
}

/* A CPU node's id (0), or an unknown one, is no error here. */
TEST_F(kfd, clock_counters_unknown_gpu)
{
	struct kfd_ioctl_get_clock_counters_args args = { .gpu_id = 0xdead };

	ASSERT_EQ(0, kfd_ioctl(self->dev.fd, AMDKFD_IOC_GET_CLOCK_COUNTERS, &args));
	EXPECT_EQ(0, args.gpu_clock_counter);
	EXPECT_NE(0, args.cpu_clock_counter);
}

KFD_HARNESS_MAIN
