/* SPDX-License-Identifier: GPL-2.0 */
/* Where the kernel has the process's pages. */
#ifndef RKFD_TEST_PAGEMAP_H
#define RKFD_TEST_PAGEMAP_H

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "kfd.h"
#include "kfd_svm.h"

/* What /proc/self/pagemap says of a page that the CPU does not reach. */
#define PAGEMAP_PRESENT	(1ull << 63)
#define PAGEMAP_SWAP	(1ull << 62)
#define PAGEMAP_TYPE	0x1full		/* of what is not present */
/* SWP_DEVICE_WRITE and SWP_DEVICE_READ: behind those of pages that the kernel is just moving, as compaction does. */
#define PAGEMAP_DEVICE_WRITE	28u
#define PAGEMAP_DEVICE_READ	29u

/* How many pages are in a device's memory that the CPU does not reach. */
static inline size_t in_vram(const void *mem, size_t size)
{
	const size_t pages = size / KFD_PAGE;
	int file = open("/proc/self/pagemap", O_RDONLY);
	size_t found = 0, done = 0, i;
	uint64_t entries[512];
	ssize_t got;

	while (done < pages) {
		const size_t left = pages - done, most = sizeof(entries) / sizeof(entries[0]);
		const off_t at = (off_t)(((uintptr_t)mem / KFD_PAGE + done) * sizeof(entries[0]));

		got = pread(file, entries, (left < most ? left : most) * sizeof(entries[0]), at);
		if (got < (ssize_t)sizeof(entries[0]))
			break;
		for (i = 0; i < (size_t)got / sizeof(entries[0]); i++)
			found += (entries[i] & (PAGEMAP_PRESENT | PAGEMAP_SWAP)) == PAGEMAP_SWAP &&
				 ((entries[i] & PAGEMAP_TYPE) == PAGEMAP_DEVICE_WRITE ||
				  (entries[i] & PAGEMAP_TYPE) == PAGEMAP_DEVICE_READ);
		done += i;
	}
	close(file);
	return found;
}

/* Prefetches to VRAM of @gpu: what another part of the kernel has for a moment, as compaction does, stays behind until it is asked again. */
static inline int prefetch_to_vram(int fd, const void *mem, size_t size, uint32_t gpu)
{
	unsigned int tries = 20;
	int err;

	do {
		err = svm_set(fd, mem, size, SVM_PREFETCH, gpu);
	} while (!err && in_vram(mem, size) != size / KFD_PAGE && --tries && !usleep(1000));
	return err;
}

/* In a test of the kselftest harness, whose file has FD and GPU: all of it is there then. */
#define EXPECT_PREFETCH(mem, size)						\
	do {									\
		EXPECT_EQ(0, prefetch_to_vram(FD, mem, size, GPU));		\
		EXPECT_EQ((size) / KFD_PAGE, in_vram(mem, size));		\
	} while (0)

#endif /* RKFD_TEST_PAGEMAP_H */
