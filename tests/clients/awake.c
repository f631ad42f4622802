// SPDX-License-Identifier: GPL-2.0
/*
 * The machine is asked to sleep, in all ways that it has, while a GPU is bound that cannot, as
 * another party has loaded its firmware. Each time the answer is EBUSY, the log has one line of
 * the driver's, and the GPU's work goes on. RKFD_TIMES is the number of times.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/suspend_ioctls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/busy.h"
#include "common/check.h"
#include "common/child.h"
#include "common/copies.h"
#include "common/kernel_log.h"
#include "tap.h"
#include "kfd.h"

#define STATE		"/sys/power/state"
#define TEST		"/sys/power/pm_test"
#define TEST_SECONDS	"/sys/module/suspend/parameters/pm_test_delay"
#define SNAPSHOT	"/dev/snapshot"
#define DRIVER		"/sys/bus/pci/drivers/rkfd"
#define LINE		"while the GPU is bound"

/*
 * Counts the lines that the log has got since the last call: those of the driver, and the
 * refusals among them.
 */
static void read_log(unsigned int *driver, unsigned int *refusals)
{
	char record[4096];

	*driver = 0;
	*refusals = 0;
	while (kernel_log_next(record, sizeof(record))) {
		*driver += strstr(record, "rkfd ") != NULL;
		*refusals += strstr(record, LINE) != NULL;
	}
}

static bool one_line(void)
{
	unsigned int driver, refusals;

	read_log(&driver, &refusals);
	if (driver != 1 || refusals != 1)
		tap_note("%u lines of the driver, %u refuse", driver, refusals);
	return driver == 1 && refusals == 1;
}

static bool knows(const char *state)
{
	char all[256];
	FILE *f = fopen(STATE, "re");
	bool known = false;

	if (!f)
		return false;
	if (fgets(all, sizeof(all), f))
		known = strstr(all, state) != NULL;
	fclose(f);
	return known;
}

static bool refused(const char *state)
{
	const int err = kfd_write_file(STATE, state);

	if (err != EBUSY)
		tap_note("%s: %s", state, strerror(err));
	return one_line() && err == EBUSY;
}

/* The first call of programs that write the image themselves, and of those that read it. */
static bool snapshot_refused(int how)
{
	int fd = open(SNAPSHOT, how | O_CLOEXEC), err = errno;

	if (fd >= 0)
		close(fd);
	else if (err != EBUSY)
		tap_note("%s: %s", SNAPSHOT, strerror(err));
	return one_line() && fd < 0 && err == EBUSY;
}

/*
 * The GPU is bound after the notifiers have agreed: the machine gets as far as to freeze all
 * processes.
 */
static void bound_too_late(const char *name)
{
	int fd = open(SNAPSHOT, O_RDONLY | O_CLOEXEC), err = 0;
	unsigned int driver, refusals;

	tap_ok(kfd_write_file(DRIVER "/bind", name) == 0, "the GPU comes back");
	read_log(&driver, &refusals);
	if (fd < 0) {
		tap_skip("a GPU that comes too late", "no " SNAPSHOT);
		return;
	}
	if (ioctl(fd, SNAPSHOT_FREEZE) || ioctl(fd, SNAPSHOT_CREATE_IMAGE, &err))
		err = errno;
	ioctl(fd, SNAPSHOT_UNFREEZE);
	close(fd);
	/* The kernel's own lines have the driver's name. */
	read_log(&driver, &refusals);
	tap_ok(err == EBUSY && refusals == 1,
	       "while a program hibernates the machine: refused (%s)", strerror(err));
}

/* A machine without a GPU of ours gets as far as the devices' sleep, and comes back from there. */
static void unbound(void)
{
	unsigned int driver, refusals;
	char name[64];
	int err;

	if (!kfd_find_device(name, sizeof(name)) || kfd_write_file(DRIVER "/unbind", name))
		die("the GPU is not taken away");
	read_log(&driver, &refusals);
	if (kfd_write_file(TEST, "devices") || kfd_write_file(TEST_SECONDS, "0")) {
		tap_skip("sleep without a GPU", "the kernel cannot try it");
	} else {
		err = kfd_write_file(STATE, "freeze");
		kfd_write_file(TEST, "none");
		read_log(&driver, &refusals);
		tap_ok(err == 0 && driver == 0, "without a GPU the driver is in nobody's way (%s)",
		       strerror(err));
	}
	bound_too_late(name);
	tap_ok(check_process_copies(), "the GPU is back and copies");
	read_log(&driver, &refusals);
}

int main(void)
{
	static const char *const states[] = { "freeze", "mem", "disk" };
	const char *times = getenv("RKFD_TIMES");
	const unsigned int rounds = times ? (unsigned int)atoi(times) : 3;
	unsigned int i, n, driver, refusals;
	pid_t busy;
	bool ok;

	tap_start();
	if (access(STATE, W_OK)) {
		tap_skip("sleep", "the kernel does not know how to");
		return tap_end();
	}
	kernel_log_start();
	read_log(&driver, &refusals);
	for (i = 0; i < 3; i++) {
		if (knows(states[i]))
			tap_ok(refused(states[i]), "%s is refused", states[i]);
		else
			tap_skip(states[i], "the machine does not know it");
	}
	if (access(SNAPSHOT, F_OK)) {
		tap_skip("hibernation by a program", "no " SNAPSHOT);
	} else {
		tap_ok(snapshot_refused(O_RDONLY), "hibernation by a program is refused");
		tap_ok(snapshot_refused(O_WRONLY), "so is coming back from one");
	}

	copies_start();
	busy = busy_start(4);
	ok = busy > 0;
	for (n = 0; n < rounds && ok; n++)
		for (i = 0; i < 3 && ok; i++)
			ok = !knows(states[i]) || (refused(states[i]) && copies_go_on());
	tap_ok(ok, "%u times while there are copies, which go on", n);
	tap_ok(copies_stop(), "their data is right");
	tap_ok(child_kill(busy), "who has busy compute queues is still there");
	unbound();
	tap_ok(refused("freeze"), "with the GPU sleep is refused again");
	return tap_end();
}
