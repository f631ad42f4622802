// SPDX-License-Identifier: GPL-2.0
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "asleep.h"
#include "tap.h"

/* Whether the thread sleeps in an ioctl: of one that runs the kernel says no system call. */
static bool sleeps_in_ioctl(int thread)
{
	char path[64], text[8] = "", wanted[8];
	int fd;

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

static void *watch(void *data)
{
	const unsigned long long end = now_ns() + timeout_ms() * 1000000ull;
	struct asleep *asleep = data;

	while (!asleep->found && now_ns() < end) {
		asleep->found = sleeps_in_ioctl(asleep->waiter);
		usleep(100);
	}
	*asleep->word = 1;
	return NULL;
}

void asleep_begin(struct asleep *asleep, volatile uint32_t *word)
{
	*word = 0;
	asleep->word = word;
	asleep->waiter = (int)syscall(SYS_gettid);
	asleep->found = false;
	if (pthread_create(&asleep->thread, NULL, watch, asleep))
		die("no thread");
}

bool asleep_end(struct asleep *asleep)
{
	pthread_join(asleep->thread, NULL);
	return asleep->found;
}
