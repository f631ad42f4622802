/* SPDX-License-Identifier: GPL-2.0 */
/* Where the kernel keeps the process's pages. */
#ifndef RKFD_TEST_PAGEMAP_H
#define RKFD_TEST_PAGEMAP_H

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "kfd.h"
#include "kfd_svm.h"

/* Bits of a /proc/self/pagemap entry for a page that the CPU cannot access. */
#define PAGEMAP_PRESENT	(1ull << 63)
#define PAGEMAP_SWAP	(1ull << 62)
#define PAGEMAP_TYPE	0x1full		/* of a page that is not present */
/*
 * SWP_DEVICE_WRITE and SWP_DEVICE_READ. They follow the types of pages that the kernel is
 * moving at that moment, as compaction does.
 */
#define PAGEMAP_DEVICE_WRITE	28u
#define PAGEMAP_DEVICE_READ	29u

/* True if the entry's page is in a device's memory that the CPU cannot access. */
static inline bool pagemap_in_vram(uint64_t entry)
{
	const uint64_t type = entry & PAGEMAP_TYPE;

	return (entry & (PAGEMAP_PRESENT | PAGEMAP_SWAP)) == PAGEMAP_SWAP &&
	       (type == PAGEMAP_DEVICE_WRITE || type == PAGEMAP_DEVICE_READ);
}

static inline bool pagemap_absent(uint64_t entry)
{
	return !(entry & PAGEMAP_PRESENT);
}

/* The number of pages of @mem for which @is is true. */
static inline size_t pagemap_count(const void *mem, size_t size, bool (*is)(uint64_t entry))
{
	off_t at = (off_t)((uintptr_t)mem / KFD_PAGE * sizeof(uint64_t));
	int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	size_t left = size / KFD_PAGE, found = 0, some, i;
	uint64_t entries[512];

	for (; left; left -= some) {
		const size_t most = sizeof(entries) / sizeof(entries[0]);
		ssize_t bytes;

		some = left < most ? left : most;
		bytes = (ssize_t)(some * sizeof(entries[0]));
		if (pread(file, entries, (size_t)bytes, at) != bytes)
			break;
		for (i = 0; i < some; i++)
			found += is(entries[i]);
		at += bytes;
	}
	close(file);
	return found;
}

static inline size_t in_vram(const void *mem, size_t size)
{
	return pagemap_count(mem, size, pagemap_in_vram);
}

/*
 * Prefetches to VRAM of @gpu. Pages that another part of the kernel holds for a moment
 * (compaction does) stay behind until the next call.
 */
static inline int prefetch_to_vram(int fd, const void *mem, size_t size, uint32_t gpu)
{
	unsigned int tries = 20;
	int err;

	do {
		err = svm_set(fd, mem, size, SVM_PREFETCH, gpu);
	} while (!err && in_vram(mem, size) != size / KFD_PAGE && --tries && !usleep(1000));
	return err;
}

/* For a test of the kselftest harness, whose file defines FD and GPU: prefetches all of @mem. */
#define EXPECT_PREFETCH(mem, size)						\
	do {									\
		EXPECT_EQ(0, prefetch_to_vram(FD, mem, size, GPU));		\
		EXPECT_EQ((size) / KFD_PAGE, in_vram(mem, size));		\
	} while (0)

#endif /* RKFD_TEST_PAGEMAP_H */
