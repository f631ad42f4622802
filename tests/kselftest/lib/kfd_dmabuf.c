// SPDX-License-Identifier: GPL-2.0
/* Sharing by plain system calls; see kfd_dmabuf.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <drm/amdgpu_drm.h>
#include <drm/drm.h>
#include <linux/dma-buf.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>

#include "kfd_dmabuf.h"

#define RING	(64u * 1024)

int kfd_export(const struct kfd_dev *dev, uint64_t handle, uint32_t flags, int *fd)
{
	struct kfd_ioctl_export_dmabuf_args args = { .handle = handle, .flags = flags };
	int err = kfd_ioctl(dev->fd, AMDKFD_IOC_EXPORT_DMABUF, &args);

	*fd = err ? -1 : (int)args.dmabuf_fd;
	return err;
}

int kfd_import(const struct kfd_dev *dev, int fd, uint64_t va, uint64_t *handle)
{
	struct kfd_ioctl_import_dmabuf_args args = {
		.va_addr = va,
		.gpu_id = dev->gpu_id,
		.dmabuf_fd = (uint32_t)fd,
	};
	int err = kfd_ioctl(dev->fd, AMDKFD_IOC_IMPORT_DMABUF, &args);

	*handle = args.handle;
	return err;
}

int kfd_dmabuf_info(const struct kfd_dev *dev, int fd,
		    struct kfd_ioctl_get_dmabuf_info_args *args)
{
	args->dmabuf_fd = (uint32_t)fd;
	return kfd_ioctl(dev->fd, AMDKFD_IOC_GET_DMABUF_INFO, args);
}

int kfd_bo_import(const struct kfd_dev *dev, struct kfd_bo *bo, int fd, size_t size)
{
	int err;

	*bo = (struct kfd_bo){ .size = size };
	bo->cpu = kfd_reserve(size, 2u << 20);
	if (!bo->cpu)
		return ENOMEM;
	err = kfd_import(dev, fd, (uintptr_t)bo->cpu, &bo->handle);
	if (err)
		goto unreserve;
	if (mmap(bo->cpu, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
	    MAP_FAILED) {
		err = errno;
		goto free;
	}
	err = kfd_map(dev->fd, bo->handle, dev->gpu_id);
	if (!err)
		return 0;
free:
	kfd_free(dev->fd, bo->handle);
unreserve:
	munmap(bo->cpu, size);
	bo->cpu = NULL;
	return err;
}

int drm_fd_to_handle(int drm_fd, int fd, uint32_t *handle)
{
	struct drm_prime_handle args = { .fd = fd };
	int err = kfd_ioctl(drm_fd, DRM_IOCTL_PRIME_FD_TO_HANDLE, &args);

	*handle = args.handle;
	return err;
}

static int to_fd(int drm_fd, uint32_t handle, uint32_t flags, int *fd)
{
	struct drm_prime_handle args = { .handle = handle, .flags = flags };
	int err = kfd_ioctl(drm_fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &args);

	*fd = err ? -1 : args.fd;
	return err;
}

int drm_handle_to_fd(int drm_fd, uint32_t handle, int *fd)
{
	return to_fd(drm_fd, handle, DRM_CLOEXEC | DRM_RDWR, fd);
}

int drm_handle_to_read_only_fd(int drm_fd, uint32_t handle, int *fd)
{
	return to_fd(drm_fd, handle, DRM_CLOEXEC, fd);
}

int drm_gem_create(int drm_fd, uint64_t size, uint64_t domains, uint64_t flags, uint32_t *handle)
{
	union drm_amdgpu_gem_create args = {
		.in = { .bo_size = size, .domains = domains, .domain_flags = flags },
	};
	int err = kfd_ioctl(drm_fd, DRM_IOCTL_AMDGPU_GEM_CREATE, &args);

	*handle = err ? 0 : args.out.handle;
	return err;
}

int drm_gem_close(int drm_fd, uint32_t handle)
{
	struct drm_gem_close args = { .handle = handle };

	return kfd_ioctl(drm_fd, DRM_IOCTL_GEM_CLOSE, &args);
}

int udmabuf_create(size_t size, int *memfd, int *fd)
{
	struct udmabuf_create args = { .flags = UDMABUF_FLAGS_CLOEXEC, .size = size };
	int dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), err = 0;

	if (dev < 0)
		return errno;
	*memfd = memfd_create("udmabuf", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	if (*memfd < 0 || ftruncate(*memfd, (off_t)size) ||
	    fcntl(*memfd, F_ADD_SEALS, F_SEAL_SHRINK)) {
		err = errno;
	} else {
		args.memfd = (uint32_t)*memfd;
		*fd = ioctl(dev, UDMABUF_CREATE, &args);
		if (*fd < 0)
			err = errno;
	}
	close(dev);
	return err;
}

int dma_heap_alloc(size_t size, int *fd)
{
	return dma_heap_alloc_for(size, O_RDWR, fd);
}

int dma_heap_alloc_for(size_t size, uint32_t mode, int *fd)
{
	struct dma_heap_allocation_data args = { .len = size, .fd_flags = mode | O_CLOEXEC };
	int dev = open("/dev/dma_heap/system", O_RDWR | O_CLOEXEC), err;

	if (dev < 0)
		return errno;
	err = kfd_ioctl(dev, DMA_HEAP_IOCTL_ALLOC, &args);
	close(dev);
	*fd = err ? -1 : (int)args.fd;
	return err;
}

size_t unequal(const void *memory, uint32_t value, size_t bytes)
{
	const uint32_t *dwords = memory;
	size_t i, n = 0;

	for (i = 0; i < bytes / 4; i++)
		n += dwords[i] != value;
	return n;
}

int dmabuf_sync(int fd, bool end)
{
	struct dma_buf_sync args = {
		.flags = DMA_BUF_SYNC_RW | (end ? DMA_BUF_SYNC_END : DMA_BUF_SYNC_START),
	};

	return kfd_ioctl(fd, DMA_BUF_IOCTL_SYNC, &args);
}

uint64_t fd_inode(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

struct fd_message {
	char byte;
	struct iovec part;
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct msghdr header;
};

static void fd_message_init(struct fd_message *m)
{
	memset(m, 0, sizeof(*m));
	m->part = (struct iovec){ &m->byte, 1 };
	m->header = (struct msghdr){
		.msg_iov = &m->part,
		.msg_iovlen = 1,
		.msg_control = m->control.bytes,
		.msg_controllen = sizeof(m->control.bytes),
	};
}

int send_fd(int socket, int fd)
{
	struct fd_message m;
	struct cmsghdr *c;

	fd_message_init(&m);
	c = CMSG_FIRSTHDR(&m.header);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	return sendmsg(socket, &m.header, 0) == 1 ? 0 : errno;
}

int receive_fd(int socket, int *fd)
{
	struct fd_message m;
	struct cmsghdr *c;

	fd_message_init(&m);
	if (recvmsg(socket, &m.header, MSG_CMSG_CLOEXEC) != 1)
		return errno ? errno : EPIPE;
	c = CMSG_FIRSTHDR(&m.header);
	if (!c || c->cmsg_type != SCM_RIGHTS)
		return EPROTO;
	memcpy(fd, CMSG_DATA(c), sizeof(*fd));
	return 0;
}

int kfd_export_filled(int socket, size_t size, uint32_t flags, uint32_t value,
		      unsigned int timeout_ms)
{
	struct kfd_queue queue;
	struct kfd_dev dev;
	struct kfd_bo bo;
	int err, fd;

	err = kfd_open(&dev);
	if (!err)
		err = kfd_queue_create(&dev, &queue, RING);
	if (!err)
		err = kfd_bo_create(&dev, &bo, size, flags);
	if (!err)
		err = kfd_queue_fill(&queue, (uintptr_t)bo.cpu, value, size, timeout_ms);
	if (!err)
		err = kfd_export(&dev, bo.handle, O_CLOEXEC, &fd);
	return err ? err : send_fd(socket, fd);
}
