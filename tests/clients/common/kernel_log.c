// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "kernel_log.h"
#include "tap.h"

static int log_fd = -1;

void kernel_log_start(void)
{
	log_fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (log_fd < 0 || lseek(log_fd, 0, SEEK_END) < 0)
		die("no log");
}

bool kernel_log_next(char *record, size_t size)
{
	ssize_t n;

	/* EPIPE: lines have been overwritten that were not read. */
	do {
		n = read(log_fd, record, size - 1);
	} while (n < 0 && errno == EPIPE);
	if (n <= 0)
		return false;
	record[n] = '\0';
	return true;
}
