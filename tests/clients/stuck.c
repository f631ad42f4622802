// SPDX-License-Identifier: GPL-2.0
/*
 * The engines stop answering while a queue is at work, in memory of its process. The process
 * closes its files and lives on; the driver is unbound, after which the device may not write to
 * memory any more; then the process frees the memory. Only with the model.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/check.h"
#include "model.h"
#include "packets.h"
#include "tap.h"
#include "kfd.h"

#define DEVICES		"/sys/bus/pci/drivers/rkfd/????:??:??.?"
#define PARAMETERS	"/sys/module/rkfd/parameters/*"
#define RING_SIZE	(64u << 10)
#define WAIT_MS		20000u
#define PCI_COMMAND	4
#define PCI_MASTER	4

/* A queue whose ring is memory of the process, in use. */
static void queue_on_own_memory(const struct kfd_dev *dev, struct kfd_queue *queue)
{
	struct kfd_ioctl_create_queue_args args;

	memset(queue, 0, sizeof(*queue));
	if (kfd_bo_create(dev, &queue->ring, RING_SIZE, KFD_ALLOC_USERPTR) ||
	    kfd_bo_create(dev, &queue->pointers, KFD_PAGE, KFD_ALLOC_GTT))
		die("no memory");
	memset(queue->pointers.cpu, 0, KFD_PAGE);
	kfd_queue_args(dev, &queue->ring, &queue->pointers, &args);
	if (kfd_ioctl(dev->fd, AMDKFD_IOC_CREATE_QUEUE, &args) ||
	    kfd_doorbell_map(dev->fd, args.doorbell_offset, &queue->slice, &queue->doorbell))
		die("no queue");
	queue->id = args.queue_id;
	if (kfd_queue_finish(queue, WAIT_MS))
		die("the queue does not work");
}

/* The module's parameters, in the form for insmod. */
static void parameters(char *text, size_t size)
{
	glob_t found;
	size_t i, at = 0;

	text[0] = '\0';
	if (glob(PARAMETERS, 0, NULL, &found))
		return;
	for (i = 0; i < found.gl_pathc; i++) {
		FILE *f = fopen(found.gl_pathv[i], "re");
		char value[32];

		if (f && fscanf(f, "%31s", value) == 1)
			at += (size_t)snprintf(text + at, size - at, " %s=%s",
					       strrchr(found.gl_pathv[i], '/') + 1, value);
		if (f)
			fclose(f);
	}
	globfree(&found);
}

/* The command register of the device whose configuration space is the file @path. */
static int command_of(const char *path)
{
	uint8_t bytes[2] = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = pread(fd, bytes, sizeof(bytes), PCI_COMMAND);
	close(fd);
	return n == sizeof(bytes) ? bytes[0] | bytes[1] << 8 : -1;
}

int main(void)
{
	char config[256], insert[512], params[400];
	struct kfd_queue queue;
	struct packets p = { 0 };
	struct kfd_dev dev;
	glob_t found;
	uint8_t *user;
	int command;

	tap_start();
	if (!model_present()) {
		tap_skip("stuck", "needs the device model");
		return tap_end();
	}
	if (glob(DEVICES, 0, NULL, &found) || !realpath(found.gl_pathv[0], config))
		die("no device");
	globfree(&found);
	strncat(config, "/config", sizeof(config) - strlen(config) - 1);
	parameters(params, sizeof(params));
	snprintf(insert, sizeof(insert), "insmod %s%s",
		 getenv("RKFD_MODULE") ? getenv("RKFD_MODULE") : "/rkfd/rkfd.ko", params);

	if (kfd_open(&dev))
		die("the device does not open");
	queue_on_own_memory(&dev, &queue);
	user = queue.ring.cpu;
	command = command_of(config);
	tap_ok(command >= 0 && command & PCI_MASTER, "the device may write to memory");
	tap_ok(model_engines("pause"), "the engines stop answering");
	sdma_fill(&p, (uintptr_t)queue.pointers.cpu + 1024, 1, 64);
	kfd_queue_submit(&queue, p.dwords, p.count);
	kfd_destroy_queue(dev.fd, queue.id);
	munmap(queue.slice, KFD_DOORBELL_SLICE);
	munmap(queue.pointers.cpu, KFD_PAGE);
	kfd_close(&dev);

	tap_ok(system("/rkfd/clients/unload.sh") == 0, "the module can be unloaded");
	command = command_of(config);
	tap_ok(command >= 0 && !(command & PCI_MASTER), "the device may not write to memory");
	/* The notifiers of the memory, if there were any left, would be called. */
	memset(user, 0, RING_SIZE);
	madvise(user, RING_SIZE, MADV_DONTNEED);
	tap_ok(munmap(user, RING_SIZE) == 0, "the process gives its memory back");
	tap_ok(model_engines("resume"), "the engines go on");
	tap_ok(system(insert) == 0, "the module can be loaded again");
	tap_ok(check_process_copies(), "a process copies");
	return tap_end();
}
