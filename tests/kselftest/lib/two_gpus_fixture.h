/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fixture of the tests of two GPUs: fills and copies by their engines, and whether they
 * reach each other.
 */
#ifndef RKFD_TEST_TWO_GPUS_FIXTURE_H
#define RKFD_TEST_TWO_GPUS_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kfd_harness.h"
#include "kfd_dmabuf.h"
#include "objects.h"

#define SIZE		(3u << 20)
#define RING		(64u * 1024)
#define TIMEOUT_MS	KFD_HANG_MS
/* Addresses that only the GPU uses. */
#define GPU_VA		(1ull << 40)

/* The members of a fixture on two GPUs: a queue on each, and the counts that must return. */
#define TWO_GPUS_MEMBERS						\
	struct kfd_dev one, other;					\
	struct kfd_queue of_one, of_other;				\
	char base[OBJECTS_MAX]

/* Opens both GPUs for FIXTURE_SETUP(); skips the test where there is only one. */
#define TWO_GPUS_SETUP()						\
	do {								\
		int err;						\
									\
		ASSERT_TRUE(objects_base(self->base, 0));		\
		ASSERT_EQ(0, kfd_open(&self->one));			\
		err = kfd_open_next(&self->one, &self->other);		\
		if (err == ENODEV)					\
			SKIP(return, "one GPU only");			\
		ASSERT_EQ(0, err);					\
		ASSERT_EQ(0, kfd_queue_create(&self->one, &self->of_one, RING));	\
		ASSERT_EQ(0, kfd_queue_create(&self->other, &self->of_other, RING));	\
	} while (0)

/* Destroys the queues for FIXTURE_TEARDOWN(), if the setup made them. */
#define TWO_GPUS_DESTROY_QUEUES()					\
	do {								\
		EXPECT_EQ(0, kfd_queue_destroy(&self->one, &self->of_one));	\
		EXPECT_EQ(0, kfd_queue_destroy(&self->other, &self->of_other));	\
		close(self->other.drm_fd);				\
	} while (0)

/* Closes the files and expects all objects to be gone: the end of FIXTURE_TEARDOWN(). */
#define TWO_GPUS_CLOSE()						\
	do {								\
		kfd_close(&self->one);					\
		EXPECT_TRUE(objects_return_to(self->base, KFD_HANG_MS));	\
	} while (0)

static inline int gpu_fill(struct kfd_queue *queue, const void *dst, uint32_t value)
{
	return kfd_queue_fill(queue, (uintptr_t)dst, value, SIZE, TIMEOUT_MS);
}

/*
 * The engine copies @src to @host. Returns the number of dwords there that are not @value, or
 * -1.
 */
static inline long gpu_unequal(struct kfd_queue *queue, struct kfd_bo *host, const void *src,
			       uint32_t value)
{
	memset(host->cpu, 0xee, SIZE);
	if (kfd_queue_copy(queue, (uintptr_t)host->cpu, (uintptr_t)src, SIZE, TIMEOUT_MS))
		return -1;
	return (long)unequal(host->cpu, value, SIZE);
}

/* True if the topology says that the GPU of node @from reaches the memory of node @to. */
static inline bool reaches(uint32_t from, uint32_t to)
{
	uint64_t found = UINT64_MAX;
	char file[256];
	unsigned int i;

	for (i = 0; found != to; i++) {
		snprintf(file, sizeof(file), KFD_TOPOLOGY "/nodes/%u/p2p_links/%u/properties",
			 from, i);
		if (access(file, F_OK) || !kfd_property(file, "node_to", &found))
			return false;
	}
	return true;
}

/*
 * True if the machine has a path between the GPUs, according to its creator: the driver is not
 * asked.
 */
static inline bool linked_by_machine(void)
{
	const char *said = getenv("RKFD_LINKED");

	return said && *said == '1';
}

#endif /* RKFD_TEST_TWO_GPUS_FIXTURE_H */
