// SPDX-License-Identifier: GPL-2.0
/*
 * The port above the GPUs reports errors (by the kernel's aer_inject): one that lost a
 * transaction, after which all goes on, and one that lost the link, after which all GPUs below
 * are gone until they are removed and found again.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/busy.h"
#include "common/check.h"
#include "common/child.h"
#include "common/copies.h"
#include "model.h"
#include "tap.h"
#include "kfd.h"

#define DEVICES		"/sys/bus/pci/drivers/rkfd/????:??:??.?"
#define ROOT		"/pci0000:00/"
#define INJECT		"/dev/aer_inject"
/* Bits of PCI_ERR_UNCOR_STATUS: a completion that did not come, a protocol error of the link. */
#define COMPLETION	0x4000u
#define LINK		0x10u

/* The structure of the kernel's drivers/pci/pcie/aer_inject.c. */
struct error {
	uint8_t bus, dev, fn;
	uint32_t uncorrectable, correctable, header[4], domain;
};

static unsigned int devices(void)
{
	glob_t found;
	unsigned int n;

	if (glob(DEVICES, 0, NULL, &found))
		return 0;
	n = found.gl_pathc;
	globfree(&found);
	return n;
}

/* The name of the port above the first of them. */
static bool find_port(char *port, size_t size)
{
	char path[PATH_MAX], *at, *next;
	glob_t found;

	if (glob(DEVICES, 0, NULL, &found) || !realpath(found.gl_pathv[0], path))
		return false;
	globfree(&found);
	at = strstr(path, ROOT);
	next = at ? strchr(at + strlen(ROOT), '/') : NULL;
	if (!next)
		return false;
	*next = '\0';
	snprintf(port, size, "%s", at + strlen(ROOT));
	return true;
}

static bool inject(const char *port, uint32_t status)
{
	struct error error = { .uncorrectable = status };
	unsigned int domain, bus, dev, fn;
	int fd = open(INJECT, O_WRONLY | O_CLOEXEC);
	bool ok = false;

	if (fd < 0)
		return false;
	if (sscanf(port, "%x:%x:%x.%x", &domain, &bus, &dev, &fn) == 4) {
		error.domain = domain;
		error.bus = bus;
		error.dev = dev;
		error.fn = fn;
		ok = write(fd, &error, sizeof(error)) == sizeof(error);
	}
	if (!ok)
		tap_note("%s: %m", INJECT);
	close(fd);
	return ok;
}

static bool remove_devices(void)
{
	char path[PATH_MAX];
	glob_t found;
	size_t i;
	bool ok = glob(DEVICES, 0, NULL, &found) == 0;

	if (!ok)
		return false;
	for (i = 0; i < found.gl_pathc && ok; i++) {
		snprintf(path, sizeof(path), "%s/remove", found.gl_pathv[i]);
		ok = !kfd_write_file(path, "1");
	}
	globfree(&found);
	return ok;
}

/* The kernel handles an error in a thread, and logs when it is done. */
static bool handled(int log, const char *how)
{
	const unsigned long long end = now_ns() + timeout_ms() * 1000000ull;
	char record[4096];
	ssize_t n;

	while (now_ns() < end) {
		n = read(log, record, sizeof(record) - 1);
		if (n < 0 && errno == EAGAIN)
			usleep(10000);
		if (n <= 0)
			continue;
		record[n] = '\0';
		if (strstr(record, how))
			return true;
	}
	return false;
}

int main(void)
{
	const unsigned int before = devices();
	struct kfd_dev dev;
	struct kfd_bo bo;
	char port[64];
	pid_t busy;
	int log;

	tap_start();
	if (!model_present() || system("modprobe aer_inject 2>/dev/null") || access(INJECT, W_OK)) {
		tap_skip("errors of PCI Express", "the kernel cannot make them up");
		return tap_end();
	}
	log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (log < 0 || lseek(log, 0, SEEK_END) < 0)
		die("no log");
	if (!find_port(port, sizeof(port)) || kfd_open(&dev))
		die("no GPU behind a port");
	copies_start();
	busy = busy_start(4);
	tap_ok(inject(port, COMPLETION) && handled(log, "device recovery successful"),
	       "a transaction is lost");
	tap_ok(copies_go_on() && copies_stop(), "copies go on, with the right data");
	/* Without a link a GPU does not reach memory either. */
	if (!model_engines("pause") || !model_command("pause mec"))
		die("the engines do not stop");
	tap_ok(inject(port, LINK) && handled(log, "device recovery failed"), "the link is lost");
	tap_ok(devices() == before && kfd_bo_create(&dev, &bo, KFD_PAGE, KFD_ALLOC_GTT) != 0,
	       "a process has lost the GPU");
	tap_ok(child_kill(busy), "who had busy compute queues is still there");
	tap_ok(remove_devices() && devices() == 0, "%u GPUs are removed", before);
	if (!model_engines("resume") || !model_command("resume mec"))
		die("the engines do not go on");
	tap_ok(!kfd_write_file("/sys/bus/pci/rescan", "1") && devices() == before,
	       "and found again");
	kfd_close(&dev);
	tap_ok(check_process_copies(), "a process copies");
	return tap_end();
}
