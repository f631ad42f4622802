// SPDX-License-Identifier: GPL-2.0
/* Waves that are saved in shared virtual memory, as libhsakmt does where that is available. */
#include <stdlib.h>

#include "kfd_harness.h"
#include "kfd_svm.h"
#include "kfd_waves.h"
#include "kfd_userptr.h"

#define RING		(64u * 1024)
#define TIMEOUT_MS	KFD_HANG_MS
#define WAVES		64u
#define HUGE		(2u << 20)

FIXTURE(svm_waves)
{
	struct kfd_dev dev;
	struct kfd_save save;
	struct kfd_compute queue;
	struct waves waves;
	void *area;
	size_t size;
};

FIXTURE_SETUP(svm_waves)
{
	ASSERT_EQ(0, kfd_open(&self->dev));
	ASSERT_EQ(0, kfd_save_create(&self->dev, &self->save));
	self->size = self->save.bo.size;
	ASSERT_EQ(0, kfd_save_destroy(&self->dev, &self->save));
	self->area = kfd_reserve(self->size, HUGE);
	ASSERT_EQ(self->area, anonymous(self->area, self->size, PROT_READ | PROT_WRITE));
	self->save.bo.cpu = self->area;
	ASSERT_EQ(0, waves_create(&self->dev, &self->waves, WAVES));
}

FIXTURE_TEARDOWN(svm_waves)
{
	EXPECT_EQ(0, waves_destroy(&self->dev, &self->waves));
	kfd_close(&self->dev);
}

/* The attributes that libhsakmt sets. */
static int share(const struct kfd_dev *dev, void *area, size_t size)
{
	struct svm_attribute said[] = {
		{ SVM_PREFETCH, dev->gpu_id },
		{ SVM_PREFERRED, SVM_SYSTEM },
		{ SVM_CLR_FLAGS, KFD_IOCTL_SVM_FLAG_COHERENT | KFD_IOCTL_SVM_FLAG_GPU_RO },
		{ SVM_SET_FLAGS, KFD_IOCTL_SVM_FLAG_HOST_ACCESS | KFD_IOCTL_SVM_FLAG_GPU_EXEC |
				 KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED },
		{ SVM_ACCESS, dev->gpu_id },
		{ SVM_GRANULARITY, 0xff },
	};

	return svm(dev->fd, SVM_SET, area, size, said, sizeof(said) / sizeof(said[0]));
}

/*
 * Makes the kernel replace the pages with others of the same content: large ones, or small
 * ones. True if it has.
 */
static int move(void *area, size_t size, bool large)
{
	if (large)
		return !madvise(area, size, MADV_HUGEPAGE) && !madvise(area, size, MADV_COLLAPSE);
	return !madvise(area, size, MADV_NOHUGEPAGE) && !madvise(area, size, MADV_PAGEOUT);
}

TEST_F(svm_waves, go_and_come)
{
	unsigned int i;
	int moved = 0;

	ASSERT_EQ(0, share(&self->dev, self->area, self->size));
	ASSERT_EQ(0, kfd_compute_create(&self->dev, &self->queue, &self->save, false, RING));
	ASSERT_TRUE(waves_start(&self->waves, &self->queue, WAVES_MIDDLE, WAVES, true));
	ASSERT_TRUE(waves_go_on(&self->waves, TIMEOUT_MS));
	for (i = 0; i < 10; i++) {
		ASSERT_EQ(0, kfd_compute_update(&self->dev, &self->queue, 0));
		/* While the waves are running the kernel moves the pages, */
		moved += move(self->area, self->size, i % 2);
		ASSERT_EQ(0, kfd_compute_update(&self->dev, &self->queue, 100));
		ASSERT_TRUE(waves_go_on(&self->waves, TIMEOUT_MS));
		/* and while they are saved, upon which the pages come back first. */
		moved += move(self->area, self->size, !(i % 2));
		ASSERT_TRUE(waves_go_on(&self->waves, TIMEOUT_MS));
	}
	EXPECT_LT(0, moved);
	waves_stop(&self->waves);
	ASSERT_TRUE(waves_ended(&self->waves, TIMEOUT_MS));
	EXPECT_EQ(0, waves_bad(&self->waves));
	EXPECT_EQ(0, kfd_compute_destroy(&self->dev, &self->queue));
}

TEST_F(svm_waves, has_to_be_there)
{
	const size_t half = self->size / 2 & ~(size_t)(HUGE - 1);
	int err;

	SKIP_ON_AMDKFD("it wants no save area without waves of its own");
	err = kfd_compute_create(&self->dev, &self->queue, &self->save, false, RING);
	EXPECT_EQ(EINVAL, err);
	ASSERT_EQ(0, share(&self->dev, self->area, half));
	err = kfd_compute_create(&self->dev, &self->queue, &self->save, false, RING);
	EXPECT_EQ(EINVAL, err);
	ASSERT_EQ(0, share(&self->dev, self->area, self->size));
	ASSERT_EQ(0, svm_set(self->dev.fd, self->area, HUGE, SVM_SET_FLAGS,
			     KFD_IOCTL_SVM_FLAG_GPU_RO));
	err = kfd_compute_create(&self->dev, &self->queue, &self->save, false, RING);
	EXPECT_EQ(EINVAL, err);
	ASSERT_EQ(0, svm_set(self->dev.fd, self->area, HUGE, SVM_CLR_FLAGS,
			     KFD_IOCTL_SVM_FLAG_GPU_RO));
	ASSERT_EQ(0, kfd_compute_create(&self->dev, &self->queue, &self->save, false, RING));
	EXPECT_EQ(0, kfd_compute_destroy(&self->dev, &self->queue));
}

/* A process that unmaps the save area of its waves loses them, and nothing else. */
TEST_F(svm_waves, taken_away)
{
	struct kfd_compute other;

	ASSERT_EQ(0, share(&self->dev, self->area, self->size));
	ASSERT_EQ(0, kfd_compute_create(&self->dev, &self->queue, &self->save, false, RING));
	ASSERT_TRUE(waves_start(&self->waves, &self->queue, WAVES_MIDDLE, 1, true));
	ASSERT_TRUE(waves_go_on(&self->waves, TIMEOUT_MS));
	ASSERT_EQ(0, munmap(self->area, self->size));
	kfd_compute_update(&self->dev, &self->queue, 0);
	EXPECT_EQ(0, kfd_compute_destroy(&self->dev, &self->queue));
	ASSERT_EQ(self->area, anonymous(self->area, self->size, PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, share(&self->dev, self->area, self->size));
	ASSERT_EQ(0, kfd_compute_create(&self->dev, &other, &self->save, false, RING));
	EXPECT_TRUE(kfd_compute_works(&other, TIMEOUT_MS));
	EXPECT_EQ(0, kfd_compute_destroy(&self->dev, &other));
}

KFD_HARNESS_MAIN
