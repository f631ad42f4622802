/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What CRIU's plugin does of a process, without CRIU: PROCESS_INFO, CHECKPOINT and a copy of all
 * buffers, and RESTORE with the same addresses. Functions that return int give 0 or an errno.
 */
#ifndef RKFD_TEST_CRIU_H
#define RKFD_TEST_CRIU_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kfd.h"

#define CRIU_DEVICES	8u
#define CRIU_BOS	64u
#define CRIU_NO_FD	0xffffffffu
/* Where copies are, far from all that processes map. */
#define CRIU_PLACE	0x100000000000ull

/* A checkpoint, in memory that the restored process has at the same place. */
struct criu_dump {
	struct kfd_ioctl_criu_args args;
	struct kfd_criu_device_bucket devices[CRIU_DEVICES];
	struct kfd_criu_bo_bucket bos[CRIU_BOS];
	void *contents[CRIU_BOS];
	void *priv;
	uint64_t end;	/* of the copies */
};

static inline int criu_call(int fd, uint32_t op, struct kfd_ioctl_criu_args *args)
{
	args->op = op;
	return kfd_ioctl(fd, AMDKFD_IOC_CRIU_OP, args);
}

static inline int criu_plain(int fd, uint32_t op)
{
	struct kfd_ioctl_criu_args args = { 0 };

	return criu_call(fd, op, &args);
}

/* The caller's copy of the file of /dev/kfd that process @pid has; -1 without one. */
static inline int criu_file_of(pid_t pid)
{
	char path[64], name[64];
	struct dirent *entry;
	int pidfd, fd = -1;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	if (!dir)
		return -1;
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	while (pidfd >= 0 && fd < 0 && (entry = readdir(dir))) {
		const ssize_t length = readlinkat(dirfd(dir), entry->d_name, name, sizeof(name));

		if (length == (ssize_t)strlen(KFD_PATH) && !memcmp(name, KFD_PATH, (size_t)length))
			fd = (int)syscall(SYS_pidfd_getfd, pidfd, atoi(entry->d_name), 0);
	}
	close(pidfd);
	closedir(dir);
	return fd;
}

/* @size bytes behind the copies that there are. */
static inline void *criu_room(struct criu_dump *dump, uint64_t size)
{
	const uint64_t place = dump->end ? dump->end : CRIU_PLACE;
	void *p = mmap((void *)place, size, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	dump->end = place + (size + KFD_PAGE - 1) / KFD_PAGE * KFD_PAGE;
	return p;
}

/* Closes the buffers' descriptors. */
static inline void criu_close_bos(struct criu_dump *dump)
{
	uint32_t i;

	for (i = 0; i < dump->args.num_bos; i++)
		if (dump->bos[i].dmabuf_fd != CRIU_NO_FD)
			close((int)dump->bos[i].dmabuf_fd);
}

/* PROCESS_INFO; the arguments are ready for CHECKPOINT. */
static inline int criu_info(int fd, struct criu_dump *dump)
{
	int err;

	memset(dump, 0, sizeof(*dump));
	err = criu_call(fd, KFD_CRIU_OP_PROCESS_INFO, &dump->args);
	if (err)
		return err;
	if (dump->args.num_devices > CRIU_DEVICES || dump->args.num_bos > CRIU_BOS)
		return E2BIG;
	dump->priv = criu_room(dump, dump->args.priv_data_size);
	dump->args.devices = (uintptr_t)dump->devices;
	dump->args.bos = (uintptr_t)dump->bos;
	dump->args.priv_data = (uintptr_t)dump->priv;
	return dump->priv ? 0 : ENOMEM;
}

/* Copies the contents of all buffers that have a descriptor, in this direction. */
static inline int criu_copy(struct criu_dump *dump, bool from_gpu)
{
	uint32_t i;

	for (i = 0; i < dump->args.num_bos; i++) {
		const struct kfd_criu_bo_bucket *bo = &dump->bos[i];
		void *p;

		if (bo->dmabuf_fd == CRIU_NO_FD)
			continue;
		p = mmap(from_gpu ? NULL : (void *)(CRIU_PLACE * 2), bo->size,
			 PROT_READ | PROT_WRITE, MAP_SHARED, (int)bo->dmabuf_fd, 0);
		if (p == MAP_FAILED)
			return errno;
		if (from_gpu)
			dump->contents[i] = criu_room(dump, bo->size);
		if (!dump->contents[i])
			return ENOMEM;
		if (from_gpu)
			memcpy(dump->contents[i], p, bo->size);
		else
			memcpy(p, dump->contents[i], bo->size);
		munmap(p, bo->size);
	}
	return 0;
}

/* PROCESS_INFO, CHECKPOINT, and the copies. The descriptors are closed then. */
static inline int criu_dump(int fd, struct criu_dump *dump)
{
	int err = criu_info(fd, dump);

	if (!err)
		err = criu_call(fd, KFD_CRIU_OP_CHECKPOINT, &dump->args);
	if (err)
		return err;
	err = criu_copy(dump, true);
	criu_close_bos(dump);
	return err;
}

static inline void criu_free(struct criu_dump *dump)
{
	if (dump->end)
		munmap((void *)CRIU_PLACE, dump->end - CRIU_PLACE);
	dump->end = 0;
}

/* RESTORE of @dump by the caller, whose files are those of @dev. */
static inline int criu_restore_call(const struct kfd_dev *dev, struct criu_dump *dump)
{
	uint32_t i;

	for (i = 0; i < dump->args.num_devices; i++)
		dump->devices[i].drm_fd = (uint32_t)dev->drm_fd;
	return criu_call(dev->fd, KFD_CRIU_OP_RESTORE, &dump->args);
}

/*
 * RESTORE, and the contents and mappings of all buffers, at the addresses that they had. Memory of
 * the process itself has to be there.
 */
static inline int criu_restore(const struct kfd_dev *dev, struct criu_dump *dump)
{
	int err = criu_restore_call(dev, dump);
	uint32_t i;

	if (!err)
		err = criu_copy(dump, false);
	for (i = 0; i < dump->args.num_bos && !err; i++) {
		const struct kfd_criu_bo_bucket *bo = &dump->bos[i];
		const uint32_t kfd = KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL |
				     KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP;

		if (!bo->addr || bo->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR)
			continue;
		if (mmap((void *)bo->addr, bo->size, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED, bo->alloc_flags & kfd ? dev->fd : dev->drm_fd,
			 (off_t)bo->restored_offset) == MAP_FAILED)
			err = errno;
	}
	if (!err)
		criu_close_bos(dump);
	return err;
}

/* Changes the id by which the saved process knows its only GPU. */
static inline int criu_rename_gpu(struct criu_dump *dump, uint32_t id)
{
	const uint64_t count = dump->args.priv_data_size / 4;
	uint64_t sum = 0xcbf29ce484222325ull, i, found = 0;
	uint32_t *const words = dump->priv;

	/* The record of a GPU: its kind, its length, the id. */
	for (i = 0; i + 2 < count && !found; i++)
		if (words[i] == 2 && words[i + 1] == 5 && words[i + 2] == dump->devices[0].user_gpu_id)
			found = i + 2;
	if (!found || dump->args.num_devices != 1)
		return ENOENT;
	words[found] = id;
	dump->devices[0].user_gpu_id = id;
	for (i = 0; i < dump->args.num_bos; i++)
		dump->bos[i].gpu_id = id;
	for (i = 0; i < count - 2; i++)
		sum = (sum ^ words[i]) * 0x100000001b3ull;
	words[count - 2] = (uint32_t)sum;
	words[count - 1] = (uint32_t)(sum >> 32);
	return 0;
}

/* RESUME of process @pid by the caller, on @fd. */
static inline int criu_resume(int fd, pid_t pid)
{
	struct kfd_ioctl_criu_args args = { .pid = (uint32_t)pid };

	return criu_call(fd, KFD_CRIU_OP_RESUME, &args);
}

#endif /* RKFD_TEST_CRIU_H */
