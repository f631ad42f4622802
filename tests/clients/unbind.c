// SPDX-License-Identifier: GPL-2.0
/*
 * The GPU is unbound while its memory is shared everywhere and compute queues are busy, and
 * comes back.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/busy.h"
#include "common/check.h"
#include "common/child.h"
#include "tap.h"
#include "trace.h"
#include "kfd_dmabuf.h"
#include "objects.h"

#define DRIVER	"/sys/bus/pci/drivers/rkfd"
#define SIZE	(256u * 1024)

static sigjmp_buf no_memory;

static void on_bus_error(int sig)
{
	siglongjmp(no_memory, sig);
}

/* True if a read of @p fails for want of memory. */
static bool is_gone(const volatile uint32_t *p)
{
	bool gone = true;

	signal(SIGBUS, on_bus_error);
	if (sigsetjmp(no_memory, 1) == 0) {
		(void)*p;
		gone = false;
	}
	signal(SIGBUS, SIG_DFL);
	return gone;
}

struct shared {
	struct kfd_bo bo;
	int fd;
	uint32_t *mapping;
	uint32_t handle;
};

static void share_out(const struct kfd_dev *dev, struct shared *s, uint32_t flags)
{
	if (kfd_bo_create(dev, &s->bo, SIZE, flags) ||
	    kfd_export(dev, s->bo.handle, O_CLOEXEC, &s->fd) ||
	    drm_fd_to_handle(dev->drm_fd, s->fd, &s->handle))
		die("no shared memory");
	s->mapping = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
	if (s->mapping == MAP_FAILED)
		die("no mapping");
	s->mapping[0] = 0x12345678;
	/* Not touched before the device goes. */
	s->mapping += KFD_PAGE / 4 * 8;
}

static void drop(struct shared *s)
{
	munmap(s->mapping - KFD_PAGE / 4 * 8, SIZE);
	munmap(s->bo.cpu, SIZE);
	close(s->fd);
}

/* The driver's last action in its unbind, and the driver core's first one after that. */
static const char *const teardown[] = { "free_irq", "iommu_device_unuse_default_domain" };

int main(void)
{
	struct shared vram, gtt;
	struct kfd_bo foreign = { 0 };
	char name[64], base[OBJECTS_MAX];
	int memfd, udmabuf, fd, err;
	struct kfd_dev dev;
	uint64_t handle;
	bool traced;
	pid_t busy;

	tap_start();
	if (!objects_base(base, 0))
		die("the GPU is in use");
	if (!kfd_find_device(name, sizeof(name)) || kfd_open(&dev))
		die("no device");
	share_out(&dev, &vram, KFD_ALLOC_VRAM);
	share_out(&dev, &gtt, KFD_ALLOC_GTT);
	err = udmabuf_create(SIZE, &memfd, &udmabuf);
	if (err != ENOENT && (err || kfd_bo_import(&dev, &foreign, udmabuf, SIZE)))
		die("nothing imported");

	busy = busy_start(4);
	traced = trace_open("unbind") && trace_functions(teardown, 2);
	tap_ok(!kfd_write_file(DRIVER "/unbind", name), "the GPU is taken away");
	if (traced)
		tap_ok(trace_before(teardown[0], teardown[1]),
		       "while the driver core still has all that it gave the driver");
	else
		tap_skip("the order of that", "the kernel traces no functions");
	trace_close();
	tap_ok(kfd_export(&dev, gtt.bo.handle, 0, &fd) != 0,
	       "its buffers have no handles any more");
	tap_ok(kfd_import(&dev, gtt.fd, 0, &handle) != 0, "nothing is imported");
	tap_ok(drm_fd_to_handle(dev.drm_fd, gtt.fd, &vram.handle) != 0,
	       "nor by the render node");
	tap_ok(is_gone(vram.mapping), "VRAM that was shared cannot be reached");
	tap_ok(!is_gone(gtt.mapping) && *(gtt.mapping - KFD_PAGE / 4 * 8) == 0x12345678,
	       "system memory can, with what is in it");
	if (foreign.cpu)
		tap_ok(!is_gone(foreign.cpu), "what another exporter has still can");
	else
		tap_skip("what another exporter has still can", "no /dev/udmabuf");
	tap_ok(!kfd_write_file(DRIVER "/bind", name), "the GPU comes back");
	tap_ok(check_process_copies(), "and copies, while old files and buffers are open");
	tap_ok(child_kill(busy), "who had busy compute queues is still there");
	busy = busy_start(4);
	tap_ok(child_kill(busy), "others have such queues now");

	drop(&vram);
	drop(&gtt);
	if (foreign.cpu) {
		munmap(foreign.cpu, SIZE);
		close(udmabuf);
		close(memfd);
	}
	kfd_close(&dev);
	tap_ok(check_process_copies(), "and when they are closed");
	tap_ok(objects_return_to(base, KFD_HANG_MS), "nothing is left");
	return tap_end();
}
