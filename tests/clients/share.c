// SPDX-License-Identifier: GPL-2.0
/* Memory of one process in another, by libhsakmt's dma-bufs and by libdrm_amdgpu. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <amdgpu.h>
#include <hsakmt/hsakmt.h>

#include "common/child.h"
#include "common/queue.h"
#include "tap.h"
#include "kfd_dmabuf.h"
#include "objects.h"

#define SIZE	(1u << 20)

static void fill(void *memory, uint32_t seed)
{
	uint32_t *dwords = memory;
	size_t i;

	for (i = 0; i < SIZE / 4; i++)
		dwords[i] = seed ^ (uint32_t)i * 2654435761u;
}

static bool is_filled(const void *memory, uint32_t seed)
{
	const uint32_t *dwords = memory;
	size_t i;

	for (i = 0; i < SIZE / 4; i++)
		if (dwords[i] != (seed ^ (uint32_t)i * 2654435761u))
			return false;
	return true;
}

/* Findings of a process that has received memory; a bit each. */
enum {
	FOUND_REGISTERED = 1 << 0,
	FOUND_CONTENT = 1 << 1,
	FOUND_WRITTEN = 1 << 2,
	FOUND_BY_LIBDRM = 1 << 3,
};

/* The GPU reads the received memory, and writes it. */
static unsigned int by_libhsakmt(const struct gpu *gpu, int fd)
{
	HsaGraphicsResourceInfo info;
	HSAuint32 node = gpu->node;
	unsigned int found = 0;
	struct buffer host;
	struct queue queue;
	HSAuint64 va;

	memset(&info, 0, sizeof(info));
	if (hsaKmtRegisterGraphicsHandleToNodes((HSAuint64)fd, &info, 1, &node) !=
	    HSAKMT_STATUS_SUCCESS)
		return 0;
	if (info.SizeInBytes != SIZE || info.NodeId != gpu->node ||
	    hsaKmtMapMemoryToGPU(info.MemoryAddress, SIZE, &va) != HSAKMT_STATUS_SUCCESS)
		return 0;
	found |= FOUND_REGISTERED;
	buffer_create(gpu, &host, BUFFER_GTT, SIZE);
	queue_create(gpu, &queue, 64 * 1024, BUFFER_GTT);
	if (queue_copy(&queue, host.gpu, (uintptr_t)info.MemoryAddress, SIZE) &&
	    is_filled(host.cpu, 1))
		found |= FOUND_CONTENT;
	fill(host.cpu, 2);
	if (queue_copy(&queue, (uintptr_t)info.MemoryAddress, host.gpu, SIZE))
		found |= FOUND_WRITTEN;
	queue_destroy(&queue);
	buffer_destroy(&host);
	if (hsaKmtUnmapMemoryToGPU(info.MemoryAddress) != HSAKMT_STATUS_SUCCESS ||
	    hsaKmtDeregisterMemory(info.MemoryAddress) != HSAKMT_STATUS_SUCCESS)
		found = 0;
	return found;
}

/* libdrm sees the same buffer: its size, its content, and the same handle for it twice. */
static unsigned int by_libdrm(int fd)
{
	struct amdgpu_bo_import_result first, second;
	struct kfd_dev dev;
	struct amdgpu_bo_info info;
	amdgpu_device_handle device;
	uint32_t major, minor, out;
	bool good = false;
	int drm_fd;
	void *cpu;

	if (kfd_find_gpu(&dev) || kfd_open_render(&dev, &drm_fd))
		return 0;
	if (amdgpu_device_initialize(drm_fd, &major, &minor, &device))
		goto close;
	if (amdgpu_bo_import(device, amdgpu_bo_handle_type_dma_buf_fd, (uint32_t)fd, &first))
		goto deinitialize;
	if (amdgpu_bo_import(device, amdgpu_bo_handle_type_dma_buf_fd, (uint32_t)fd, &second))
		goto free;
	good = first.buf_handle == second.buf_handle && first.alloc_size == SIZE;
	amdgpu_bo_free(second.buf_handle);
	good = good && amdgpu_bo_query_info(first.buf_handle, &info) == 0;
	good = good && info.alloc_size == SIZE;
	good = good && amdgpu_bo_cpu_map(first.buf_handle, &cpu) == 0;
	good = good && is_filled(cpu, 2);
	if (good)
		amdgpu_bo_cpu_unmap(first.buf_handle);
	good = good && amdgpu_bo_export(first.buf_handle, amdgpu_bo_handle_type_dma_buf_fd,
					&out) == 0;
	if (good) {
		good = fd_inode((int)out) == fd_inode(fd);
		close((int)out);
	}
free:
	amdgpu_bo_free(first.buf_handle);
deinitialize:
	amdgpu_device_deinitialize(device);
close:
	close(drm_fd);
	return good ? FOUND_BY_LIBDRM : 0;
}

static unsigned int importer(int socket)
{
	unsigned int found;
	struct gpu gpu;
	int fd;

	if (receive_fd(socket, &fd))
		return 0;
	gpu_open(&gpu);
	found = by_libhsakmt(&gpu, fd);
	if (found & FOUND_WRITTEN)
		found |= by_libdrm(fd);
	close(fd);
	gpu_close();
	return found;
}

/* In a process of its own, so that each begins with nothing. */
static int exporter(int socket, enum buffer_kind kind)
{
	struct buffer buffer;
	struct gpu gpu;
	HSAuint64 offset;
	char done;
	int fd;

	gpu_open(&gpu);
	buffer_create(&gpu, &buffer, kind, SIZE);
	fill(buffer.cpu, 1);
	if (hsaKmtExportDMABufHandle(buffer.cpu, SIZE, &fd, &offset) != HSAKMT_STATUS_SUCCESS)
		return 1;
	if (offset != 0 || send_fd(socket, fd))
		return 2;
	close(fd);
	if (read(socket, &done, 1) != 1)
		return 3;
	return is_filled(buffer.cpu, 2) ? 0 : 4;
}

static void share(enum buffer_kind kind)
{
	int out[2], in[2], fd, status, found;
	pid_t from, to;
	char done = 0;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, out) || socketpair(AF_UNIX, SOCK_STREAM, 0, in))
		die("no sockets");
	from = child_fork();
	if (from == 0)
		_exit(exporter(out[1], kind));
	to = child_fork();
	if (to == 0)
		_exit((int)importer(in[1]));
	close(out[1]);
	close(in[1]);
	if (tap_ok(receive_fd(out[0], &fd) == 0, "%s is exported", buffer_kind_name[kind])) {
		send_fd(in[0], fd);
		close(fd);
	}
	close(in[0]);
	found = child_status(to);
	if (found < 0)
		found = 0;
	if (write(out[0], &done, 1) != 1)
		tap_note("the exporter is gone");
	status = child_status(from);
	close(out[0]);
	tap_ok(found & FOUND_REGISTERED, "another process registers %s", buffer_kind_name[kind]);
	tap_ok(found & FOUND_CONTENT, "its GPU address shows what was in it");
	tap_ok(found & FOUND_WRITTEN, "the GPU writes to it");
	tap_ok(found & FOUND_BY_LIBDRM, "libdrm shows the same");
	if (!tap_ok(status == 0, "the owner sees what was written"))
		tap_note("exporter: %d", status);
}

int main(void)
{
	char base[OBJECTS_MAX];

	tap_start();
	if (!objects_base(base, 0))
		die("the GPU is in use");
	share(BUFFER_VRAM);
	share(BUFFER_GTT);
	tap_ok(objects_return_to(base, KFD_HANG_MS), "nothing is left");
	return tap_end();
}
