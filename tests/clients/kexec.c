// SPDX-License-Identifier: GPL-2.0
/*
 * kexec KERNEL INITRD [hang | slow]: makes SDMA copies and compute queues run without end, and
 * starts another kernel in the middle of that. With hang the engines then hang, behind hubs
 * that do not answer; with slow the engines need a second and a half to release each of forty
 * further queues. Returns only when there is no other kernel.
 */
#include <fcntl.h>
#include <linux/reboot.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/busy.h"
#include "common/child.h"
#include "common/copies.h"
#include "model.h"
#include "tap.h"
#include "kfd.h"
#include "packets.h"

#define ENGINES		5u
/* As many as there are places for on the hardware. */
#define QUEUES		(8 * ENGINES)
#define RING_SIZE	(4u << 10)

static int must_open(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		die("no %s", path);
	return fd;
}

/* With the command line of this kernel. */
static void load(const char *kernel, const char *initrd)
{
	char line[4096];
	FILE *f = fopen("/proc/cmdline", "re");

	if (!f || !fgets(line, sizeof(line), f))
		die("no command line");
	fclose(f);
	line[strcspn(line, "\n")] = '\0';
	if (syscall(SYS_kexec_file_load, must_open(kernel), must_open(initrd),
		    strlen(line) + 1, line, 0UL))
		die("the kernel does not take another one: %m");
}

/* Queues that wait, for ever, on the hardware. */
static void wait_on(int ready, unsigned int queues)
{
	static struct kfd_queue queue[QUEUES];
	struct packets p = { 0 };
	struct kfd_dev dev;
	struct kfd_bo bo;
	unsigned int i;

	if (kfd_open(&dev) || kfd_bo_create(&dev, &bo, KFD_PAGE, KFD_ALLOC_GTT))
		exit(1);
	*(volatile uint32_t *)bo.cpu = 0;
	sdma_wait_memory(&p, (uintptr_t)bo.cpu, 1);
	for (i = 0; i < queues; i++) {
		if (kfd_queue_create_on(&dev, &queue[i], RING_SIZE, i % ENGINES))
			exit(2);
		kfd_queue_submit(&queue[i], p.dwords, p.count);
	}
	if (write(ready, "", 1) != 1)
		exit(3);
	for (;;)
		pause();
}

static void kmsg(const char *text)
{
	FILE *f = fopen("/dev/kmsg", "we");

	if (!f)
		return;
	fprintf(f, "<6>rkfd-run: %s\n", text);
	fclose(f);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		die("kexec KERNEL INITRD [hang | slow]");
	load(argv[1], argv[2]);
	copies_start();
	if (busy_start(BUSY_QUEUES_MAX) <= 0 || !copies_go_on())
		die("the GPU does not work");
	if (argc > 3 && !strcmp(argv[3], "slow") &&
	    (child_start(wait_on, QUEUES) <= 0 || !model_command("linger 1500")))
		die("there is nothing to wait for");
	if (argc > 3 && !strcmp(argv[3], "hang") &&
	    (!model_engines("pause") || !model_command("hang-queue 4") ||
	     !model_command("hubs silent")))
		die("the engines do not hang");
	/* From here on the console's clock shows how long it takes. */
	kmsg("another kernel takes over");
	syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2,
		LINUX_REBOOT_CMD_KEXEC, NULL);
	die("the other kernel does not start: %m");
}
