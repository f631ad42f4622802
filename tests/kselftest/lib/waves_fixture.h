/* SPDX-License-Identifier: GPL-2.0 */
/* A queue with its save area, and programs whose waves check that their state is unchanged. */
#ifndef RKFD_TEST_WAVES_FIXTURE_H
#define RKFD_TEST_WAVES_FIXTURE_H

#include "kfd_harness.h"
#include "kfd_waves.h"
#include "tap.h"

#define RING		(64u * 1024)
#define TIMEOUT_MS	KFD_HANG_MS
/* More than any GPU holds at once. */
#define MOST_WAVES	4096u

FIXTURE(waves)
{
	struct kfd_dev dev;
	struct kfd_save save;
	struct kfd_compute queue;
	struct waves waves;
};

FIXTURE_SETUP(waves)
{
	ASSERT_EQ(0, kfd_open(&self->dev));
	ASSERT_EQ(0, kfd_save_create(&self->dev, &self->save));
	ASSERT_EQ(0, kfd_compute_create(&self->dev, &self->queue, &self->save, false, RING));
	ASSERT_EQ(0, waves_create(&self->dev, &self->waves, MOST_WAVES));
}

FIXTURE_TEARDOWN(waves)
{
	EXPECT_EQ(0, kfd_compute_destroy(&self->dev, &self->queue));
	EXPECT_EQ(0, waves_destroy(&self->dev, &self->waves));
	EXPECT_EQ(0, kfd_save_destroy(&self->dev, &self->save));
	kfd_close(&self->dev);
}

#endif /* RKFD_TEST_WAVES_FIXTURE_H */
