/* SPDX-License-Identifier: GPL-2.0 */
/* The lines of SMI_EVENTS about a GPU, as text without the times. */
#ifndef RKFD_TEST_SMI_LINES_H
#define RKFD_TEST_SMI_LINES_H

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "kfd.h"

#define SMI_MASK(event)	KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_##event)

/* Opens a file without any event enabled; 0 or the errno. */
static inline int smi_open(const struct kfd_dev *dev, int *fd)
{
	struct kfd_ioctl_smi_events_args args = { .gpuid = dev->gpu_id };
	int err = kfd_ioctl(dev->fd, AMDKFD_IOC_SMI_EVENTS, &args);

	*fd = (int)args.anon_fd;
	return err;
}

/* Enables the events of @mask; 0 or the errno. */
static inline int smi_want(int fd, uint64_t mask)
{
	return write(fd, &mask, sizeof(mask)) == sizeof(mask) ? 0 : errno;
}

/* Opens a file with the events of @mask enabled; -1 on failure. */
static inline int smi_watch(const struct kfd_dev *dev, uint64_t mask)
{
	int file;

	if (smi_open(dev, &file))
		return -1;
	if (!smi_want(file, mask))
		return file;
	close(file);
	return -1;
}

/*
 * Reads the next @count lines of @file, and all further ones that are there by then, as one
 * text. False if they do not come in time, or are too long.
 */
static inline bool smi_lines(int file, unsigned int count, char *text, size_t size)
{
	struct pollfd ready = { .fd = file, .events = POLLIN };
	unsigned int lines = 0;
	size_t length = 0;
	char *line, *time, *rest;
	ssize_t got;

	while (poll(&ready, 1, lines < count ? (int)KFD_HANG_MS : 0) == 1) {
		got = read(file, text + length, size - 1 - length);
		if (got <= 0)
			return false;
		for (; got; got--)
			lines += text[length++] == '\n';
	}
	if (lines < count)
		return false;
	text[length] = '\0';
	for (line = text; *line; line = strchr(line, '\n') + 1) {
		time = strchr(line, ' ');
		rest = time ? strchr(time + 1, ' ') : NULL;
		if (!rest)
			return false;
		memmove(time, rest, strlen(rest) + 1);
	}
	return true;
}

#endif /* RKFD_TEST_SMI_LINES_H */
