// SPDX-License-Identifier: GPL-2.0
/*
 * The machine sleeps with a GPU bound, and processes at work: copies whose data
 * is looked at, compute queues that count and one that waits in the middle of a
 * packet, and memory of all kinds, which is to be as it was. Down to the power
 * management of devices and back, which loses nothing; to RAM, where a model of
 * a GPU loses power and VRAM; and as far as hibernation comes without a disk.
 * With a disk named swap there is hibernation, too, which comes back at once.
 * RKFD_TIMES says how often to RAM; a guest that sleeps has to be woken by its
 * host. With the argument lost, only a GPU that does not come back: the model
 * has its SMU fail.
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
#include "common/kernel_log.h"
#include "common/model.h"
#include "common/pattern.h"
#include "common/tap.h"
#include "kfd_compute.h"

#define STATE		"/sys/power/state"
#define TEST		"/sys/power/pm_test"
#define DISK		"/sys/power/disk"
#define TEST_SECONDS	"/sys/module/suspend/parameters/pm_test_delay"
#define ALLOWANCE	"/sys/power/image_size"
#define VRAM		(48u << 20)
#define USER		(2u << 20)
#define NEW		(4u << 20)
#define RING		(16u << 10)
#define LOOP		32u
/* What no machine with less RAM than the GPU has VRAM has room for. */
#define HUGE		(256u << 20)

/* How many lines of the log since the last call have @text. */
static unsigned int log_lines(const char *text)
{
	unsigned int count = 0;
	char record[4096];

	while (kernel_log_next(record, sizeof(record)))
		count += strstr(record, text) != NULL;
	return count;
}

/*
 * The BIOS of QEMU's q35 leaves the ACPI registers of the LPC bridge off when
 * the machine comes back from RAM: neither the next sleep nor the end of the
 * machine would do anything.
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

/* What this process has on the GPU, and what is to be there after each sleep. */
static struct {
	struct kfd_dev dev;
	struct kfd_bo vram, gtt, user, loop;
	struct kfd_queue sdma;
	struct kfd_compute compute;
	struct kfd_save save;
} mine;

static void mine_start(void)
{
	if (kfd_open(&mine.dev) || kfd_bo_create(&mine.dev, &mine.vram, VRAM, KFD_ALLOC_VRAM) ||
	    kfd_bo_create(&mine.dev, &mine.gtt, USER, KFD_ALLOC_GTT) ||
	    kfd_bo_create(&mine.dev, &mine.user, USER, KFD_ALLOC_USERPTR) ||
	    kfd_queue_create(&mine.dev, &mine.sdma, RING) || kfd_save_create(&mine.dev, &mine.save) ||
	    kfd_compute_create(&mine.dev, &mine.compute, &mine.save, false, KFD_PAGE) ||
	    kfd_bo_create(&mine.dev, &mine.loop, KFD_PAGE, KFD_ALLOC_GTT) ||
	    !kfd_compute_count(&mine.compute, &mine.loop, LOOP,
			       kfd_compute_address(&mine.compute, KFD_COMPUTE_FENCE), 0))
		die("no memory and queues");
	pattern_fill(mine.vram.cpu, VRAM, 1, 0);
	pattern_fill(mine.gtt.cpu, USER, 2, 0);
}

static uint64_t counted(void)
{
	return *kfd_compute_qword(&mine.compute, KFD_COMPUTE_FENCE);
}

/* Whether the compute queue counts on from @from. */
static bool counts_on(uint64_t from)
{
	const uint64_t end = kfd_now_ms() + timeout_ms();

	while (counted() <= from) {
		if (kfd_now_ms() > end)
			return false;
		usleep(1000);
	}
	return true;
}

/* Whoever gets VRAM after a sleep finds nothing there, whatever it has become meanwhile. */
static bool new_is_empty(void)
{
	struct kfd_bo bo;
	bool ok;
	size_t i;

	if (kfd_bo_create(&mine.dev, &bo, NEW, KFD_ALLOC_VRAM))
		return false;
	for (i = 0; i < NEW && !((volatile uint8_t *)bo.cpu)[i]; i++)
		;
	ok = i == NEW;
	return kfd_bo_destroy(&mine.dev, &bo) == 0 && ok;
}

/* All that was there is, and can be used; @seed is another one each time. */
static bool all_is_there(uint64_t seed, uint64_t count)
{
	bool ok = true;

	if (pattern_check(mine.vram.cpu, VRAM, 1, 0) != VRAM) {
		tap_note("VRAM is not what it was, from byte %zu on",
			 pattern_check(mine.vram.cpu, VRAM, 1, 0));
		ok = false;
	}
	if (pattern_check(mine.gtt.cpu, USER, 2, 0) != USER) {
		tap_note("system memory is not what it was");
		ok = false;
	}
	pattern_fill(mine.user.cpu, USER, seed, 0);
	if (kfd_queue_copy(&mine.sdma, (uintptr_t)mine.vram.cpu, (uintptr_t)mine.user.cpu, USER,
			   timeout_ms()) ||
	    pattern_check(mine.vram.cpu, USER, seed, 0) != USER) {
		tap_note("the queue of before does not copy");
		ok = false;
	}
	/* As it is to be the next time. */
	pattern_fill(mine.vram.cpu, USER, 1, 0);
	if (counted() < count || !counts_on(counted())) {
		tap_note("the compute queue stands at %llu, it was at %llu",
			 (unsigned long long)counted(), (unsigned long long)count);
		ok = false;
	}
	if (!new_is_empty()) {
		tap_note("there is something in new VRAM");
		ok = false;
	}
	if (!copies_go_on()) {
		tap_note("copies do not go on");
		ok = false;
	}
	return ok;
}

/* Has the machine sleep as @state says, down to @level of what can be tried. */
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

/* One sleep, after which nobody has noticed. */
static bool unnoticed(const char *state, const char *level)
{
	static uint64_t seed = 100;
	const uint64_t count = counted();
	unsigned int lines;
	int err;

	log_lines("");
	err = sleep_to(state, level);
	if (err)
		tap_note("%s, %s: %s", state, level, strerror(err));
	lines = log_lines("rkfd 0000:");
	/* It sleeps, two lines of its firmware, it is back. */
	if (lines < 4)
		tap_note("%u lines of the driver", lines);
	return all_is_there(seed++, count) && !err && lines >= 4;
}

/* To RAM: what has no power has lost all. */
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

/* Takes memory until a sleep has no room for what VRAM holds. */
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

/* The disk of that serial number. */
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

static void hibernate(void)
{
	char swap[64];

	if (system("modprobe virtio_blk") || !find_swap(swap, sizeof(swap)) || swapon(swap, 0)) {
		tap_skip("hibernation to a disk", "there is none");
		return;
	}
	if (kfd_write_file(DISK, "test_resume") || kfd_write_file(ALLOWANCE, "0"))
		die("no hibernation");
	tap_ok(unnoticed("disk", "none"), "to a disk and back: nobody has noticed");
	swapoff(swap);
}

/* Whether the log has a line with @text before long. */
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

/* Firmware that does not come up again: the GPU is lost for who used it, and given to the driver anew. */
static void lost(void)
{
	const pid_t busy = busy_start(4);
	char name[64];
	bool told;

	copies_start();
	if (busy <= 0 || !kfd_find_device(name, sizeof(name)) || !model_command("psp-fault smu-off"))
		die("nothing to lose");
	log_lines("");
	tap_ok(sleep_to("mem", "devices") == 0, "the machine sleeps and is back");
	/* The last of what is said: before it there is one line of the loss. */
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

	tap_ok(sleep_to("mem", "devices") == 0 && check_process_copies(),
	       "a GPU that nobody uses sleeps, and copies after that");
	mine_start();
	copies_start();
	busy = busy_start(4);
	if (busy <= 0)
		die("nobody is busy");
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
	tap_ok(child_kill(busy), "who has busy compute queues is still there");
	tap_ok(copies_stop(), "all copies were right");
	return tap_end();
}
