// SPDX-License-Identifier: GPL-2.0
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/netlink.h>

#include "kfd.h"
#include "tap.h"
#include "wedged.h"

#define DUMPS	"/sys/class/devcoredump/devcd*/data"

int uevents(void)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = 1 };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT);
	int room = 1 << 20;

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)))
		die("no uevents");
	return fd;
}

bool uevent_comes(int fd, const char *line, struct uevent_task *task)
{
	const uint64_t end = kfd_now_ms() + timeout_ms();
	struct pollfd p = { .fd = fd, .events = POLLIN };
	static char text[8192];

	while (kfd_now_ms() < end) {
		bool drm = false, found = false;
		ssize_t n, at;

		if (poll(&p, 1, 1000) != 1)
			continue;
		n = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);
		if (n <= 0)
			continue;
		text[n] = '\0';
		memset(task, 0, sizeof(*task));
		for (at = 0; at < n; at += (ssize_t)strlen(text + at) + 1) {
			drm |= !strcmp(text + at, "SUBSYSTEM=drm");
			found |= !strcmp(text + at, line);
			sscanf(text + at, "PID=%d", &task->pid);
			sscanf(text + at, "TASK=%31s", task->name);
			if (!strncmp(text + at, "WEDGED=", 7) && strcmp(text + at, line))
				tap_note("%s", text + at);
		}
		if (drm && found)
			return true;
	}
	return false;
}

bool dump_read(char *text, size_t size)
{
	size_t length = 0;
	glob_t found;
	ssize_t n;
	int fd;

	text[0] = '\0';
	if (glob(DUMPS, 0, NULL, &found))
		return false;
	fd = open(found.gl_pathv[0], O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && (n = read(fd, text + length, size - 1 - length)) > 0)
		length += (size_t)n;
	text[length] = '\0';
	close(fd);
	fd = open(found.gl_pathv[0], O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && write(fd, "1", 1) != 1)
		tap_note("the core dump stays");
	close(fd);
	globfree(&found);
	return length > 0;
}

bool dump_has(const char *text, const char *name, const char *start)
{
	char head[64];
	const char *line;

	snprintf(head, sizeof(head), "\n[%s]\n", name);
	line = strstr(text, head);
	if (!line)
		return false;
	for (line += 1; (line = strchr(line, '\n')); ) {
		line++;
		if (*line == '[' || !*line)
			return false;
		if (!strncmp(line, start, strlen(start)))
			return true;
	}
	return false;
}
