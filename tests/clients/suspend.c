// SPDX-License-Identifier: GPL-2.0
/*
 * The machine sleeps with a GPU bound, and processes at work: copies whose data is checked,
 * compute queues that count and one that waits in the middle of a packet, waves, SDMA queues in
 * the middle of page faults, and memory of all kinds, which must be unchanged, on each GPU. It
 * sleeps down to the power management of devices and back, which loses nothing; to RAM, where a
 * model of a GPU loses power and VRAM; and as far as hibernation gets without a disk. With a
 * disk named swap there is hibernation, too, which comes back at once.
 *
 * RKFD_TIMES is the number of sleeps to RAM; a sleeping guest has to be woken by its host. With
 * the argument lost, only a GPU that does not come back: the model makes its SMU fail. With the
 * argument off, only hibernation from which the machine starts anew, as often in both ways of
 * powering off; its host starts it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/swap.h>
#include <unistd.h>

#include "common/busy.h"
#include "common/check.h"
#include "common/child.h"
#include "common/copies.h"
#include "common/faulters.h"
#include "common/kernel_log.h"
#include "model.h"
#include "common/movers.h"
#include "tap.h"
#include "suspend_held.h"

#define STATE		"/sys/power/state"
#define TEST		"/sys/power/pm_test"
#define DISK		"/sys/power/disk"
#define TEST_SECONDS	"/sys/module/suspend/parameters/pm_test_delay"
#define ALLOWANCE	"/sys/power/image_size"
#define GPUS_MAX	MOVERS_MAX
/* No machine with less RAM than the GPU has VRAM has room for it. */
#define HUGE		(256u << 20)
/* Far more than a sleep causes, and far fewer than come in a second if each causes the next. */
#define MOST_AGAIN	30u

/* The number of log lines since the last call that have @text. */
static unsigned int log_lines(const char *text)
{
	unsigned int count = 0;
	char record[4096];

	while (kernel_log_next(record, sizeof(record)))
		count += strstr(record, text) != NULL;
	return count;
}

/*
 * The BIOS of QEMU's q35 leaves the ACPI registers of the LPC bridge off when the machine comes
 * back from RAM: neither the next sleep nor powering off would do anything.
 */
static uint8_t lpc[8];
static int lpc_fd = -1;

static void lpc_save(void)
{
	static const char path[] = "/sys/bus/pci/devices/0000:00:1f.0/config";
	uint16_t id[2];

	lpc_fd = open(path, O_RDWR | O_CLOEXEC);
	if (lpc_fd < 0)
		return;
	if (pread(lpc_fd, id, sizeof(id), 0) != sizeof(id) || id[0] != 0x8086 || id[1] != 0x2918 ||
	    pread(lpc_fd, lpc, sizeof(lpc), 0x40) != sizeof(lpc)) {
		close(lpc_fd);
		lpc_fd = -1;
	}
}

static void lpc_restore(void)
{
	if (lpc_fd >= 0 && pwrite(lpc_fd, lpc, sizeof(lpc), 0x40) != sizeof(lpc))
		die("the machine's power registers stay off");
}

/* This process's objects on each GPU. */
static struct held mine[GPUS_MAX];
static unsigned int gpus;
/* There is swap, where memory of processes may be. */
static bool swapped;

/*
 * Starts all work: that of others, then of this process, whose files and memory they do not
 * share.
 */
static pid_t all_start(void)
{
	struct kfd_dev dev = { 0 }, last;
	unsigned int i;
	pid_t busy;

	gpus = kfd_gpus() < GPUS_MAX ? kfd_gpus() : GPUS_MAX;
	copies_start();
	busy = busy_start(4);
	if (busy <= 0)
		die("nobody is busy");
	movers_start(gpus);
	faulters_start(2);
	for (i = 0; i < gpus; i++) {
		last = dev;
		if (i ? kfd_open_next(&last, &dev) : kfd_open(&dev))
			die("no GPU %u", i);
		held_start(&mine[i], &dev);
	}
	return busy;
}

static void all_end(pid_t busy)
{
	tap_ok(child_kill(busy), "who has busy compute queues is still there");
	tap_ok(copies_stop(), "all copies were right");
	tap_ok(movers_stop(), "so were those of shared memory, on each GPU (%u)", gpus);
	tap_ok(faulters_stop(), "and those that the GPU faulted in");
}

/* All objects are still there, and can be used. */
static bool all_is_there(void)
{
	bool ok = true;
	unsigned int i;

	for (i = 0; i < gpus; i++)
		ok &= held_after(&mine[i], swapped);
	if (!copies_go_on()) {
		tap_note("copies do not go on");
		ok = false;
	}
	if (!movers_go_on()) {
		tap_note("copies of shared memory do not go on");
		ok = false;
	}
	if (!faulters_go_on()) {
		tap_note("copies that the GPU faults in do not go on");
		ok = false;
	}
	return ok;
}

/* Makes the machine sleep as @state says, down to @level of the test levels. */
static int sleep_to(const char *state, const char *level)
{
	int err;

	if (kfd_write_file(TEST, level))
		return ENOENT;
	err = kfd_write_file(STATE, state);
	lpc_restore();
	kfd_write_file(TEST, "none");
	return err;
}

/* One sleep that no process has noticed. */
static bool unnoticed(const char *state, const char *level)
{
	unsigned int lines, i;
	int err;

	for (i = 0; i < gpus; i++)
		if (!held_before(&mine[i]))
			return false;
	log_lines("");
	err = sleep_to(state, level);
	if (err)
		tap_note("%s, %s: %s", state, level, strerror(err));
	lines = log_lines("rkfd 0000:");
	/* It sleeps, two lines of its firmware, it is back. */
	if (lines < 4 * gpus)
		tap_note("%u lines of the driver", lines);
	return all_is_there() && !err && lines >= 4 * gpus;
}

/* To RAM: devices without power have lost all. */
static bool to_ram(void)
{
	const unsigned long long before = model_count("power", "losses");
	bool ok = unnoticed("mem", "none");

	if (model_present() && model_count("power", "losses") <= before) {
		tap_note("the model did not lose its power");
		ok = false;
	}
	return ok;
}

/*
 * The driver looks for entries of the interrupt ring before the first one comes: it finds none of
 * before the sleep. If it tells the hardware that it has read some, that interrupts again and
 * again.
 */
static void without_entries(void)
{
	unsigned long long before, again;
	bool ok;

	if (!model_present()) {
		tap_skip("entries that are late", "needs the device model");
		return;
	}
	ok = model_command("hold-entries 1800");
	before = model_count("interrupts", "rearmed");
	ok = ok && sleep_to("mem", "devices") == 0;
	/* The driver looks twice a second. */
	sleep(2);
	again = model_count("interrupts", "rearmed") - before;
	tap_ok(ok && again < MOST_AGAIN,
	       "the interrupt ring is found empty after a sleep: %llu interrupts follow others",
	       again);
}

/* Takes memory until a sleep has no room for the content of VRAM. */
static void take_all(int ready, unsigned int number)
{
	struct kfd_dev dev;
	struct kfd_bo bo;

	(void)number;
	if (kfd_open(&dev))
		exit(1);
	while (kfd_bo_create(&dev, &bo, HUGE, KFD_ALLOC_VRAM) == 0)
		;
	if (write(ready, "", 1) != 1)
		exit(2);
	for (;;)
		pause();
}

static void without_room(void)
{
	const pid_t other = child_start(take_all, 0);
	unsigned int lines;
	int err;

	if (other <= 0)
		die("nobody takes memory");
	log_lines("");
	err = sleep_to("mem", "devices");
	lines = log_lines("there is no system memory for");
	tap_ok(err == ENOMEM && lines == 1 && copies_go_on(),
	       "without room for what VRAM holds the machine stays awake: ENOMEM and one line");
	if (err != ENOMEM)
		tap_note("%s", strerror(err));
	child_kill(other);
}

/* The disk with that serial number. */
static bool find_swap(char *path, size_t size)
{
	char serial[64];
	unsigned int n;

	for (n = 0; n < 26; n++) {
		FILE *f;

		snprintf(path, size, "/sys/block/vd%c/serial", 'a' + n);
		f = fopen(path, "re");
		if (!f)
			continue;
		if (!fgets(serial, sizeof(serial), f))
			serial[0] = '\0';
		fclose(f);
		snprintf(path, size, "/dev/vd%c", 'a' + n);
		if (!strncmp(serial, "swap", 4))
			return true;
	}
	return false;
}

/* The disk to hibernate to, as swap; skips the tests that need one. */
static bool start_swap(char *swap, size_t size)
{
	if (!system("modprobe virtio_blk") && find_swap(swap, size) && !swapon(swap, 0)) {
		swapped = true;
		return true;
	}
	tap_skip("hibernation to a disk", "there is none");
	return false;
}

static void hibernate(void)
{
	char swap[64];

	if (!start_swap(swap, sizeof(swap)))
		return;
	if (kfd_write_file(DISK, "test_resume") || kfd_write_file(ALLOWANCE, "0"))
		die("no hibernation");
	tap_ok(unnoticed("disk", "none"), "to a disk and back: nobody has noticed");
	swapped = swapoff(swap) != 0;
}

/* As users do it: the machine powers off, and starts anew with the image on the disk. */
static void off(unsigned int rounds)
{
	static const char *const ways[] = { "shutdown", "platform" };
	unsigned int way, n;
	char swap[64];
	pid_t busy;

	if (!start_swap(swap, sizeof(swap)))
		return;
	busy = all_start();
	for (way = 0; way < 2; way++) {
		if (kfd_write_file(DISK, ways[way]))
			die("no hibernation");
		for (n = 0; n < rounds; n++)
			if (!unnoticed("disk", "none"))
				break;
		tap_ok(n == rounds, "%u times off (%s), of %u: nobody has noticed", n, ways[way],
		       rounds);
	}
	all_end(busy);
}

/* True if the log gets a line with @text before long. */
static bool is_told(const char *text)
{
	const uint64_t end = kfd_now_ms() + timeout_ms();

	while (log_lines(text) == 0) {
		if (kfd_now_ms() > end)
			return false;
		usleep(10000);
	}
	return true;
}

/*
 * Firmware that does not come up again: the GPU is lost for its users, and given to the driver
 * anew.
 */
static void lost(void)
{
	const pid_t busy = busy_start(4);
	char name[64];
	bool told;

	copies_start();
	if (busy <= 0 || !kfd_find_device(name, sizeof(name)) ||
	    !model_command("psp-fault smu-off"))
		die("nothing to lose");
	log_lines("");
	tap_ok(sleep_to("mem", "devices") == 0, "the machine sleeps and is back");
	/* The last line of it: before it there is one line about the loss. */
	told = is_told("the GPU cannot be used: EIO");
	tap_ok(told, "the GPU is not: it is tried once more");
	if (!model_command("psp-fault none"))
		die("no end of the fault");
	tap_ok(!copies_stop() && child_kill(busy), "who used it has lost it, and is still there");
	tap_ok(kfd_write_file("/sys/bus/pci/drivers/rkfd/bind", name) == 0 &&
	       check_process_copies(), "once the fault is gone others use it");
}

int main(int argc, char **argv)
{
	const char *times = getenv("RKFD_TIMES");
	const unsigned int rounds = times ? (unsigned int)atoi(times) : 2;
	unsigned int n;
	pid_t busy;

	tap_start();
	if (access(STATE, W_OK) || access(TEST, W_OK)) {
		tap_skip("sleep", "the kernel does not know how to");
		return tap_end();
	}
	kernel_log_start();
	if (kfd_write_file(TEST_SECONDS, "0"))
		die("no tries");
	lpc_save();
	if (argc > 1 && !strcmp(argv[1], "lost")) {
		lost();
		return tap_end();
	}

	if (argc > 1 && !strcmp(argv[1], "off")) {
		off(times ? rounds : 1);
		return tap_end();
	}

	tap_ok(sleep_to("mem", "devices") == 0 && check_process_copies(),
	       "a GPU that nobody uses sleeps, and copies after that");
	without_entries();
	busy = all_start();
	tap_ok(unnoticed("mem", "devices"), "devices sleep: nobody has noticed");
	tap_ok(unnoticed("mem", "platform"), "in D3hot, too");
	tap_ok(unnoticed("disk", "core"), "an image of the machine is made: nobody has noticed");
	for (n = 0; n < rounds; n++)
		if (!to_ram())
			break;
	tap_ok(n == rounds, "%u times to RAM, of %u: nobody has noticed", n, rounds);
	hibernate();
	without_room();
	tap_ok(unnoticed("mem", "devices"), "with room it sleeps again");
	all_end(busy);
	return tap_end();
}
