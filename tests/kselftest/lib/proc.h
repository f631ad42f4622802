/* SPDX-License-Identifier: GPL-2.0 */
/* The files below /sys/class/kfd/kfd/proc, by process. */
#ifndef RKFD_TEST_PROC_H
#define RKFD_TEST_PROC_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kfd.h"

#define PROC		"/sys/class/kfd/kfd/proc"

/* Reads file @name below the folder of process @pid: 0 or the errno. */
static inline int read_text(pid_t pid, const char *name, char *text, size_t size)
{
	char path[256];
	ssize_t got;
	int fd, err;

	snprintf(path, sizeof(path), PROC "/%d/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	got = read(fd, text, size - 1);
	err = errno;
	close(fd);
	if (got < 0)
		return err;
	text[got] = '\0';
	return 0;
}

/* The number that is a file's content, or -1. */
static inline long long number(pid_t pid, const char *name)
{
	char text[64], *end;
	long long value;

	if (read_text(pid, name, text, sizeof(text)))
		return -1;
	value = strtoll(text, &end, 10);
	return end != text && (!*end || !strcmp(end, "\n")) ? value : -1;
}

/* The number in the file @name of @gpu. */
static inline long long number_of_gpu(pid_t pid, const char *format, uint32_t gpu)
{
	char name[64];

	snprintf(name, sizeof(name), format, gpu);
	return number(pid, name);
}

static inline long long vram(pid_t pid, const struct kfd_dev *dev)
{
	return number_of_gpu(pid, "vram_%u", dev->gpu_id);
}

static inline long long sdma(pid_t pid, const struct kfd_dev *dev)
{
	return number_of_gpu(pid, "sdma_%u", dev->gpu_id);
}

static inline long long evicted(pid_t pid, const struct kfd_dev *dev)
{
	return number_of_gpu(pid, "stats_%u/evicted_ms", dev->gpu_id);
}

static inline bool is_there(pid_t pid, const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), PROC "/%d/%s", pid, name);
	return access(path, F_OK) == 0;
}

/* The number of entries of a folder, or -1. */
static inline int entries(pid_t pid, const char *name)
{
	char path[256];
	struct dirent *entry;
	int count = 0;
	DIR *dir;

	snprintf(path, sizeof(path), PROC "/%d/%s", pid, name);
	dir = opendir(path);
	if (!dir)
		return -1;
	while ((entry = readdir(dir)))
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

/* True if the folder of @pid disappears: at once on rkfd, where it ends with the process. */
static inline bool goes(pid_t pid)
{
	uint64_t end = kfd_now_ms() + (kfd_is_rkfd() ? 0 : KFD_HANG_MS);

	while (is_there(pid, "")) {
		if (kfd_now_ms() >= end)
			return false;
		usleep(1000);
	}
	return true;
}

/* The value at which a time of this process stops growing, or -1 if it does not stop. */
static inline long long comes_to_rest(long long (*time)(pid_t, const struct kfd_dev *),
			       const struct kfd_dev *dev)
{
	uint64_t end = kfd_now_ms() + KFD_HANG_MS;
	long long before, now = time(getpid(), dev);

	do {
		if (kfd_now_ms() > end)
			return -1;
		usleep(50 * 1000);
		before = now;
		now = time(getpid(), dev);
	} while (before != now);
	return now;
}

#endif /* RKFD_TEST_PROC_H */
