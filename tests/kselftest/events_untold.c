// SPDX-License-Identifier: GPL-2.0
/*
 * Waits whose result cannot be returned, since the caller's memory cannot be written: EFAULT,
 * and an event that resets itself remains for the next wait.
 */
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "kfd_event.h"
#include "kfd_harness.h"

#define SHORT_MS	100u
#define LONG_MS		KFD_HANG_MS

FIXTURE(events_untold)
{
	struct kfd_dev dev;
	/* Two events that reset themselves; with an age, which is written back. */
	struct kfd_event_data data[2];
};

FIXTURE_SETUP(events_untold)
{
	unsigned int i;

	SKIP_ON_AMDKFD("what came is lost");
	ASSERT_EQ(0, kfd_open(&self->dev));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_SIGNAL, true,
					  &self->data[i].event_id));
		self->data[i].signal_event_data.last_event_age = 1;
	}
}

FIXTURE_TEARDOWN(events_untold)
{
	kfd_close(&self->dev);
}

/* A read-only page of its own that holds @data. */
static void *read_only(const void *data, size_t bytes)
{
	void *page = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return NULL;
	memcpy(page, data, bytes);
	return mprotect(page, KFD_PAGE, PROT_READ) ? NULL : page;
}

/* Each event that is in the mask @these comes once more, and no other does. */
static void expect_there(struct __test_metadata *_metadata, const struct kfd_dev *dev,
			 const struct kfd_event_data *data, unsigned int these)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		const int expected = these >> i & 1 ? 0 : ETIMEDOUT;

		EXPECT_EQ(expected, event_wait(dev, data[i].event_id, 0));
		EXPECT_EQ(ETIMEDOUT, event_wait(dev, data[i].event_id, 0));
	}
}

TEST_F(events_untold, read_only_events)
{
	struct kfd_event_data *fixed = read_only(self->data, sizeof(self->data));

	ASSERT_NE(NULL, fixed);
	EXPECT_EQ(0, event_set(&self->dev, fixed[0].event_id));
	EXPECT_EQ(EFAULT, event_wait_many(&self->dev, fixed, 1, true, LONG_MS));
	expect_there(_metadata, &self->dev, fixed, 1);
	/* One of two. */
	EXPECT_EQ(0, event_set(&self->dev, fixed[1].event_id));
	EXPECT_EQ(EFAULT, event_wait_many(&self->dev, &fixed[1], 1, false, LONG_MS));
	expect_there(_metadata, &self->dev, fixed, 2);
	/* Both. */
	EXPECT_EQ(0, event_set(&self->dev, fixed[0].event_id));
	EXPECT_EQ(0, event_set(&self->dev, fixed[1].event_id));
	EXPECT_EQ(EFAULT, event_wait_many(&self->dev, fixed, 2, true, LONG_MS));
	expect_there(_metadata, &self->dev, fixed, 3);
}

TEST_F(events_untold, read_only_arguments)
{
	const struct kfd_ioctl_wait_events_args args = {
		.events_ptr = (uintptr_t)self->data,
		.num_events = 2,
		.timeout = SHORT_MS,
	};
	void *fixed = read_only(&args, sizeof(args));

	ASSERT_NE(NULL, fixed);
	EXPECT_EQ(0, event_set(&self->dev, self->data[1].event_id));
	EXPECT_EQ(-1, ioctl(self->dev.fd, AMDKFD_IOC_WAIT_EVENTS, fixed));
	EXPECT_EQ(EFAULT, errno);
	expect_there(_metadata, &self->dev, self->data, 2);
	/* An event that did not come before is not there either. */
	self->data[0].signal_event_data.last_event_age = 0;
	self->data[1].signal_event_data.last_event_age = 0;
	EXPECT_EQ(-1, ioctl(self->dev.fd, AMDKFD_IOC_WAIT_EVENTS, fixed));
	EXPECT_EQ(EFAULT, errno);
	expect_there(_metadata, &self->dev, self->data, 0);
}

/* A thread that unmaps the array during the wait. */
struct thief {
	const struct kfd_dev *dev;
	void *page;
	uint32_t id;
};

static void *unmap_and_set(void *p)
{
	struct thief *thief = p;

	usleep(SHORT_MS * 1000);
	munmap(thief->page, KFD_PAGE);
	event_set(thief->dev, thief->id);
	return NULL;
}

TEST_F(events_untold, unmapped_while_waiting)
{
	struct thief thief = {
		.dev = &self->dev,
		.page = read_only(self->data, sizeof(self->data)),
		.id = self->data[1].event_id,
	};
	pthread_t thread;

	ASSERT_NE(NULL, thief.page);
	ASSERT_EQ(0, pthread_create(&thread, NULL, unmap_and_set, &thief));
	EXPECT_EQ(EFAULT, event_wait_many(&self->dev, thief.page, 2, false, LONG_MS));
	pthread_join(thread, NULL);
	expect_there(_metadata, &self->dev, self->data, 2);
}

KFD_HARNESS_MAIN
