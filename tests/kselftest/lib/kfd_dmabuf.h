/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sharing by plain system calls: dma-bufs, handles of the render node, descriptors sent to
 * other processes.
 */
#ifndef RKFD_TEST_KFD_DMABUF_H
#define RKFD_TEST_KFD_DMABUF_H

#include "kfd.h"

/* Functions that return int give 0 or a positive errno. */
int kfd_export(const struct kfd_dev *dev, uint64_t handle, uint32_t flags, int *fd);
/* With @va 0 the handle has no address. */
int kfd_import(const struct kfd_dev *dev, int fd, uint64_t va, uint64_t *handle);
int kfd_dmabuf_info(const struct kfd_dev *dev, int fd,
		    struct kfd_ioctl_get_dmabuf_info_args *args);

/* Imports @fd, of @size bytes, at new addresses, mapped to GPU and CPU. */
int kfd_bo_import(const struct kfd_dev *dev, struct kfd_bo *bo, int fd, size_t size);

/* Handles of an open render file. */
int drm_fd_to_handle(int drm_fd, int fd, uint32_t *handle);
int drm_handle_to_fd(int drm_fd, uint32_t handle, int *fd);
/* The same, for reading only. */
int drm_handle_to_read_only_fd(int drm_fd, uint32_t handle, int *fd);
/* A buffer of @size bytes; its handle is 0 on failure. */
int drm_gem_create(int drm_fd, uint64_t size, uint64_t domains, uint64_t flags, uint32_t *handle);
int drm_gem_close(int drm_fd, uint32_t handle);

/* A dma-buf of kernel pages from another exporter: /dev/udmabuf, or /dev/dma_heap/system. */
int udmabuf_create(size_t size, int *memfd, int *fd);
int dma_heap_alloc(size_t size, int *fd);
/* The same, with a descriptor for O_RDONLY or O_RDWR. */
int dma_heap_alloc_for(size_t size, uint32_t mode, int *fd);

/* The number of dwords in the memory that are not @value. */
size_t unequal(const void *memory, uint32_t value, size_t bytes);

/* Brackets the CPU's accesses to a mapping of @fd. */
int dmabuf_sync(int fd, bool end);

/* The inode number, which identifies the dma-buf of a descriptor. */
uint64_t fd_inode(int fd);

/* Descriptors over a socket. */
int send_fd(int socket, int fd);
int receive_fd(int socket, int *fd);

/*
 * In a child: the engine fills a buffer with @value, the buffer goes over the socket, and
 * nothing is cleaned up.
 */
int kfd_export_filled(int socket, size_t size, uint32_t flags, uint32_t value,
		      unsigned int timeout_ms);

#endif /* RKFD_TEST_KFD_DMABUF_H */
