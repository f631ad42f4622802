// SPDX-License-Identifier: GPL-2.0
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "kfd_asleep.h"

/* Pause between two polls. */
#define PAUSE_US	100

static bool sleeps_in_ioctl(int thread)
{
	char path[64], text[8] = "", wanted[8];
	int fd;

	/* For a thread that is running or runnable the kernel names no system call. */
	snprintf(wanted, sizeof(wanted), "%d ", (int)SYS_ioctl);
	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", thread);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	close(fd);
	return !strncmp(text, wanted, strlen(wanted));
}

bool kfd_asleep(int thread, unsigned int ms)
{
	struct timespec t;
	long long now, end = 0;

	while (!sleeps_in_ioctl(thread)) {
		clock_gettime(CLOCK_MONOTONIC, &t);
		now = t.tv_sec * 1000ll + t.tv_nsec / 1000000;
		if (!end)
			end = now + ms;
		if (now > end)
			return false;
		usleep(PAUSE_US);
	}
	return true;
}
