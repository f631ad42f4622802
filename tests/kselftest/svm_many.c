// SPDX-License-Identifier: GPL-2.0
/* What it costs to have much of shared virtual memory in small pieces, by counts: not more than so much for each piece. */
#include <glob.h>
#include <stdio.h>
#include <sys/stat.h>

#include "kfd_svm.h"
#include "packets.h"
#include "userptr.h"

#define FD		(self->dev.fd)
#define GPU		(self->dev.gpu_id)
#define COUNT		1000u
#define ALL		((size_t)COUNT * KFD_PAGE)
#define TRACE		"/sys/kernel/tracing/instances/svm_many"

/* How often code in Rust, which is the driver's, called the function that is traced. */
static unsigned long calls(void)
{
	FILE *f = fopen(TRACE "/trace", "re");
	unsigned long sum = 0;
	char line[512];

	while (f && fgets(line, sizeof(line), f))
		sum += strstr(line, "rb_next <-_R") != NULL;
	if (f)
		fclose(f);
	return sum;
}

/* Whether all calls were kept. */
static bool kept_all(void)
{
	bool all = true;
	char line[128];
	glob_t found;
	size_t i;

	if (glob(TRACE "/per_cpu/cpu*/stats", 0, NULL, &found))
		return false;
	for (i = 0; i < found.gl_pathc; i++) {
		FILE *f = fopen(found.gl_pathv[i], "re");
		unsigned long lost;

		while (f && fgets(line, sizeof(line), f))
			all &= sscanf(line, "overrun: %lu", &lost) != 1 || !lost;
		if (f)
			fclose(f);
	}
	globfree(&found);
	return all;
}

/*
 * Pieces that all lose their pages at once come back without each being looked for among all that is mapped: the steps of the
 * kernel from one node of a tree to the next.
 */
TEST_F(userptr, all_change_at_once)
{
	unsigned long steps;
	struct kfd_bo vram;
	unsigned int i;
	uint8_t *mem;

	if (mkdir(TRACE, 0700) || kfd_write_file(TRACE "/buffer_size_kb", "65536") ||
	    kfd_write_file(TRACE "/set_ftrace_filter", "rb_next"))
		SKIP(return, "the kernel traces no functions");
	mem = kfd_reserve(ALL, HUGE);
	ASSERT_NE(NULL, mem);
	ASSERT_EQ(mem, anonymous(mem, ALL, PROT_READ | PROT_WRITE));
	memset(mem, 0x21, ALL);
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &vram, ALL, KFD_ALLOC_VRAM));
	for (i = 0; i < COUNT; i += 2)
		ASSERT_EQ(0, svm_set(FD, mem + (size_t)i * KFD_PAGE, KFD_PAGE, SVM_SET_FLAGS,
				     KFD_IOCTL_SVM_FLAG_GPU_EXEC));
	ASSERT_EQ(0, svm_set(FD, mem, ALL, SVM_ACCESS, GPU));
	EXPECT_EQ(0, kfd_queue_copy(&self->queue, (uintptr_t)vram.cpu, (uintptr_t)mem, ALL,
				    WAIT_MS));
	EXPECT_TRUE(all(vram.cpu, 0x21, ALL));
	ASSERT_EQ(0, kfd_write_file(TRACE "/current_tracer", "function"));
	ASSERT_EQ(0, madvise(mem, ALL, MADV_DONTNEED));
	EXPECT_EQ(0, kfd_queue_copy(&self->queue, (uintptr_t)vram.cpu, (uintptr_t)mem, ALL,
				    WAIT_MS));
	ASSERT_EQ(0, kfd_write_file(TRACE "/tracing_on", "0"));
	EXPECT_TRUE(all(vram.cpu, 0, ALL));
	steps = calls();
	printf("# %lu steps for %u pieces%s\n", steps, COUNT, kept_all() ? "" : ", and more");
	EXPECT_TRUE(kept_all());
	EXPECT_GT(10ul * COUNT, steps);
	kfd_write_file(TRACE "/current_tracer", "nop");
	rmdir(TRACE);
}

KFD_HARNESS_MAIN
