// SPDX-License-Identifier: GPL-2.0
/*
 * The driver's own queues of SDMA engines fail: by an error that an engine reports, and by an
 * engine that stops for good in the middle of their work. Only with the model, on a board whose
 * firmware another driver has loaded, so that it is not reset as a whole.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/check.h"
#include "debugfs.h"
#include "common/kernel_log.h"
#include "model.h"
#include "tap.h"
#include "common/wedged.h"
#include "kfd.h"

#define DRIVER		"/sys/bus/pci/drivers/rkfd"
#define ENGINES		5u
#define LEFT		(32ull << 20)
#define MUCH		(128ull << 20)
#define VA		0x100000000ull
/* A job that does not end is given up after 12 seconds, its engine 2 seconds later. */
#define GIVEN_UP_MS	60000u

/* True if @count lines with @text come in the kernel's log. */
static bool log_says(const char *text, unsigned int count)
{
	const uint64_t end = kfd_now_ms() + GIVEN_UP_MS;
	char record[1024];

	while (count && kfd_now_ms() < end) {
		if (!kernel_log_next(record, sizeof(record)))
			usleep(10000);
		else if (strstr(record, text))
			count--;
	}
	return !count;
}

/* Allocates @bytes of VRAM, or with 0 almost all. 0 or the errno. */
static int alloc_vram(uint64_t bytes)
{
	struct kfd_dev dev;
	uint64_t handle;
	int err = kfd_open(&dev);

	if (err)
		return err;
	if (!bytes)
		bytes = kfd_available(&dev) - LEFT;
	return kfd_alloc_at(&dev, KFD_ALLOC_VRAM, VA, bytes, &handle);
}

/*
 * The same in a process of its own. The driver clears what is not clean, as most VRAM is not after
 * a process has had it.
 */
static int another_allocs(uint64_t bytes)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(alloc_vram(bytes));
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return ECHILD;
	return WEXITSTATUS(status);
}

/* A process that has almost all VRAM until it is killed. */
static pid_t holder(void)
{
	int ready[2];
	char byte;
	pid_t pid;

	if (pipe(ready))
		die("no pipe");
	pid = fork();
	if (pid == 0) {
		if (alloc_vram(0) || write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (pid < 0 || read(ready[0], &byte, 1) != 1)
		die("no process has VRAM");
	close(ready[0]);
	return pid;
}

/* Each engine's turn comes, as they take turns. */
static bool vram_is_cleared(void)
{
	unsigned int i;

	for (i = 0; i < ENGINES; i++)
		if (another_allocs(0))
			return false;
	return true;
}

static long long vram_in_use(void)
{
	char text[4096];

	return debugfs_read("objects", text, sizeof(text)) ? debugfs_number(text, "vram_bytes") : -1;
}

/* Off and on again, on a board that another driver has started. */
static bool bound_anew(const char *name)
{
	return !kfd_write_file(DRIVER "/unbind", name) && model_command("power warm") &&
	       !kfd_write_file(DRIVER "/bind", name) && check_process_copies();
}

/* An error costs the jobs that were under way, not the engine. */
static void errors(void)
{
	struct uevent_task task;
	int events = uevents();

	tap_ok(model_engines("ecc") && log_says("driver's ring started again", ENGINES),
	       "each engine is reset, and the driver goes on with it");
	tap_ok(vram_is_cleared() && check_process_copies(), "VRAM is allocated, and copies are made");
	tap_ok(model_command("ecc 0") && log_says("fails again and again", 1) &&
	       uevent_comes(events, "WEDGED=rebind", &task),
	       "an engine that fails again soon is given up, and WEDGED=rebind");
	tap_ok(vram_is_cleared(), "VRAM is cleared by the others");
	close(events);
}

/* An engine that may still write to memory keeps it, until the device can write to no memory. */
static void a_crash(void)
{
	const pid_t pid = holder();
	const long long held = vram_in_use();
	const uint64_t end = kfd_now_ms() + GIVEN_UP_MS;
	unsigned int i;
	long long before;
	bool ok = true;

	for (i = 0; i < ENGINES; i++) {
		char command[16];

		snprintf(command, sizeof(command), "crash sdma%u", i);
		ok &= model_command(command);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	while (vram_in_use() > held / 2 && kfd_now_ms() < end)
		usleep(10000);
	before = vram_in_use();
	tap_ok(ok && before >= 0 && before <= held / 2,
	       "the engines stop for good, and VRAM is not clean");
	tap_ok(another_allocs(MUCH) != 0, "no VRAM can be cleared");
	tap_ok(log_says("does not come to rest", 1), "an engine is given up");
	/* Whether it is freed a little later is not to be seen; that it was freed is. */
	usleep(500000);
	tap_ok(vram_in_use() >= before + (long long)MUCH / 2,
	       "the VRAM that they were clearing stays allocated");
}

int main(void)
{
	char name[64];

	tap_start();
	if (!model_present()) {
		tap_skip("ring fails", "needs the device model");
		return tap_end();
	}
	if (!kfd_find_device(name, sizeof(name)))
		die("no device");
	kernel_log_start();
	errors();
	tap_ok(bound_anew(name), "all works when it was switched off and on");
	a_crash();
	tap_ok(bound_anew(name), "all works when it was switched off and on");
	return tap_end();
}
