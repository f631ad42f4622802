/* SPDX-License-Identifier: GPL-2.0 */
/* A thread that waits for events, started and asleep. For programs on the kernel's harness. */
#ifndef RKFD_TEST_WAITER_H
#define RKFD_TEST_WAITER_H

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kfd_asleep.h"
#include "kfd_event.h"
#include "kfd_harness.h"

/* A thread that waits while the test does something. */
struct waiter {
	const struct kfd_dev *dev;
	struct kfd_event_data *data;
	unsigned int count;
	bool all;
	int result;
	pthread_t thread;
	volatile int number;		/* of the thread */
};

static void *wait_in_thread(void *p)
{
	struct waiter *w = p;

	w->number = (int)syscall(SYS_gettid);
	w->result = event_wait_many(w->dev, w->data, w->count, w->all, EVENT_FOREVER);
	return NULL;
}

/* The thread waits when this returns. */
static void waiter_start(struct __test_metadata *_metadata, struct waiter *w)
{
	w->number = 0;
	ASSERT_EQ(0, pthread_create(&w->thread, NULL, wait_in_thread, w));
	while (!w->number)
		usleep(100);
	ASSERT_TRUE(kfd_asleep(w->number, KFD_HANG_MS));
}

#endif /* RKFD_TEST_WAITER_H */
