/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's reports of a device that has hung: the uevent WEDGED=, and the core dump. */
#ifndef RKFD_TEST_WEDGED_H
#define RKFD_TEST_WEDGED_H

#include <stdbool.h>
#include <stddef.h>

/* Listens to uevents of the kernel, from now on; ends the program where that is not possible. */
int uevents(void);

/* The process at work, according to an event: 0 and "" where it names none. */
struct uevent_task {
	int pid;
	char name[32];
};

/* True if an event of a DRM device comes that has @line; fills in its @task. */
bool uevent_comes(int fd, const char *line, struct uevent_task *task);

/* Reads the device's core dump, and dismisses it; false if there is none. */
bool dump_read(char *text, size_t size);

/* True if @text has the section @name with a line that begins with @start. */
bool dump_has(const char *text, const char *name, const char *start);

#endif /* RKFD_TEST_WEDGED_H */
