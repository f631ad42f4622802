// SPDX-License-Identifier: GPL-2.0
/* Events: creation, setting, waiting. Events that the GPU sets are in events_gpu.c. */
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "kfd_event.h"
#include "kfd_harness.h"
#include "waiter.h"

#define SHORT_MS	100u
#define LONG_MS		KFD_HANG_MS

KFD_FIXTURE(events)

TEST_F(events, every_type)
{
	uint32_t type, id;

	/* From here on there is a page of slots. */
	ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_SIGNAL, true, &id));
	ASSERT_EQ(0, event_destroy(&self->dev, id));
	for (type = KFD_IOC_EVENT_SIGNAL; type <= KFD_IOC_EVENT_MEMORY; type++) {
		const bool slot = type == KFD_IOC_EVENT_SIGNAL ||
				  type == KFD_IOC_EVENT_DEBUG_EVENT;
		struct kfd_ioctl_create_event_args args = { .event_type = type };

		ASSERT_EQ(0, event_create_args(&self->dev, &args));
		EXPECT_EQ(args.event_id, args.event_trigger_data);
		if (slot) {
			EXPECT_LT(0, args.event_id);
			EXPECT_GT(EVENT_SLOTS, args.event_id);
			EXPECT_EQ(args.event_id, args.event_slot_index);
			EXPECT_EQ(KFD_OFFSET_EVENTS, args.event_page_offset);
		} else {
			EXPECT_LE(EVENT_FIRST_OTHER, args.event_id);
			EXPECT_EQ(0, args.event_page_offset);
		}
		EXPECT_EQ(ETIMEDOUT, event_wait(&self->dev, args.event_id, 0));
		if (type != KFD_IOC_EVENT_SIGNAL) {
			EXPECT_ANSWER(event_not_settable, event_set(&self->dev, args.event_id));
			EXPECT_ANSWER(event_not_settable, event_reset(&self->dev, args.event_id));
		}
		EXPECT_EQ(0, event_destroy(&self->dev, args.event_id));
	}
}

TEST_F(events, unknown_type)
{
	uint32_t id;

	EXPECT_ANSWER(event_type_unknown,
		      event_create(&self->dev, KFD_IOC_EVENT_MEMORY + 1, false, &id));
	EXPECT_ANSWER(event_type_unknown, event_create(&self->dev, UINT32_MAX, false, &id));
}

TEST_F(events, unknown_numbers)
{
	const uint32_t ids[] = { 0, 7, 255, 256, EVENT_SLOTS - 1, EVENT_SLOTS,
		EVENT_FIRST_OTHER - 1, EVENT_FIRST_OTHER, EVENT_FIRST_OTHER + 3, 0x7fffffff,
		0x80000000, UINT32_MAX };
	uint32_t id;
	size_t i;

	/* With and without an event of the process. */
	for (i = 0; i < ARRAY_SIZE(ids); i++) {
		EXPECT_ANSWER(event_unknown, event_set(&self->dev, ids[i]));
		EXPECT_ANSWER(event_unknown, event_wait(&self->dev, ids[i], 0));
	}
	ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_SIGNAL, false, &id));
	for (i = 0; i < ARRAY_SIZE(ids); i++) {
		EXPECT_ANSWER(event_unknown, event_set(&self->dev, ids[i]));
		EXPECT_ANSWER(event_unknown, event_reset(&self->dev, ids[i]));
		EXPECT_ANSWER(event_unknown, event_destroy(&self->dev, ids[i]));
		EXPECT_ANSWER(event_unknown, event_wait(&self->dev, ids[i], 0));
	}
	EXPECT_EQ(0, event_destroy(&self->dev, id));
	EXPECT_ANSWER(event_unknown, event_destroy(&self->dev, id));
}

TEST_F(events, manual_reset)
{
	uint32_t id;

	ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_SIGNAL, false, &id));
	EXPECT_EQ(ETIMEDOUT, event_wait(&self->dev, id, 0));
	EXPECT_EQ(0, event_set(&self->dev, id));
	EXPECT_EQ(0, event_wait(&self->dev, id, LONG_MS));
	EXPECT_EQ(0, event_wait(&self->dev, id, 0));
	EXPECT_EQ(0, event_reset(&self->dev, id));
	EXPECT_EQ(ETIMEDOUT, event_wait(&self->dev, id, 0));
}

TEST_F(events, auto_reset)
{
	uint32_t id;

	ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_SIGNAL, true, &id));
	EXPECT_EQ(0, event_set(&self->dev, id));
	EXPECT_EQ(0, event_set(&self->dev, id));
	EXPECT_EQ(0, event_wait(&self->dev, id, LONG_MS));
	EXPECT_EQ(ETIMEDOUT, event_wait(&self->dev, id, 0));
}

TEST_F(events, timeout)
{
	uint64_t start = kfd_now_ms(), took;
	uint32_t id;

	ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_SIGNAL, true, &id));
	EXPECT_EQ(ETIMEDOUT, event_wait(&self->dev, id, 3 * SHORT_MS));
	took = kfd_now_ms() - start;
	EXPECT_LE(3 * SHORT_MS - 1, took);
	EXPECT_GT(LONG_MS, took);
}

TEST_F(events, any_or_all)
{
	struct kfd_event_data data[3] = { 0 };
	unsigned int i;

	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_SIGNAL, false,
					  &data[i].event_id));
	EXPECT_EQ(ETIMEDOUT, event_wait_many(&self->dev, data, 3, false, 0));
	EXPECT_EQ(0, event_set(&self->dev, data[2].event_id));
	EXPECT_EQ(0, event_wait_many(&self->dev, data, 3, false, LONG_MS));
	EXPECT_EQ(ETIMEDOUT, event_wait_many(&self->dev, data, 3, true, SHORT_MS));
	EXPECT_EQ(0, event_set(&self->dev, data[0].event_id));
	EXPECT_EQ(0, event_set(&self->dev, data[1].event_id));
	EXPECT_EQ(0, event_wait_many(&self->dev, data, 3, true, LONG_MS));
	/* A wait for all of no events is complete. */
	EXPECT_EQ(0, event_wait_many(&self->dev, data, 0, true, LONG_MS));
	EXPECT_EQ(0, event_wait_many(&self->dev, data, 0, false, LONG_MS));
}

TEST_F(events, bad_waits)
{
	struct kfd_event_data data = { 0 };

	ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_SIGNAL, true, &data.event_id));
	EXPECT_ANSWER(bad_argument_pointer, event_wait_many(&self->dev, NULL, 1, true, 0));
	EXPECT_ANSWER(bad_argument_pointer,
		      event_wait_many(&self->dev, (void *)(UINTPTR_MAX - 15), 1, true, 0));
	EXPECT_ANSWER(wait_too_many,
		      event_wait_many(&self->dev, &data, EVENT_SLOTS + 1, true, 0));
	EXPECT_ANSWER(wait_too_many, event_wait_many(&self->dev, &data, UINT32_MAX, true, 0));
	/* An unknown event among others consumes none of them. */
	if (kfd_is_rkfd()) {
		struct kfd_event_data two[2] = { data, { .event_id = 99 } };

		EXPECT_EQ(0, event_set(&self->dev, data.event_id));
		EXPECT_EQ(EINVAL, event_wait_many(&self->dev, two, 2, true, 0));
		EXPECT_EQ(0, event_wait(&self->dev, data.event_id, 0));
	}
}

TEST_F(events, ages)
{
	struct kfd_event_data data = { 0 };

	ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_SIGNAL, true, &data.event_id));
	data.signal_event_data.last_event_age = 1;
	EXPECT_EQ(ETIMEDOUT, event_wait_many(&self->dev, &data, 1, true, 0));
	EXPECT_EQ(1, data.signal_event_data.last_event_age);
	EXPECT_EQ(0, event_set(&self->dev, data.event_id));
	EXPECT_EQ(0, event_wait_many(&self->dev, &data, 1, true, LONG_MS));
	EXPECT_EQ(2, data.signal_event_data.last_event_age);
	EXPECT_EQ(ETIMEDOUT, event_wait_many(&self->dev, &data, 1, true, 0));
	/* A waiter that has not seen the last setting need not wait, even if it was consumed. */
	data.signal_event_data.last_event_age = 1;
	EXPECT_EQ(0, event_wait_many(&self->dev, &data, 1, true, LONG_MS));
	EXPECT_EQ(2, data.signal_event_data.last_event_age);
	/* Without an age none is returned. */
	EXPECT_EQ(0, event_set(&self->dev, data.event_id));
	data.signal_event_data.last_event_age = 0;
	EXPECT_EQ(0, event_wait_many(&self->dev, &data, 1, true, LONG_MS));
	EXPECT_EQ(0, data.signal_event_data.last_event_age);
}

TEST_F(events, wakes)
{
	struct kfd_event_data data[2] = { 0 };
	struct waiter w = { .dev = &self->dev, .data = data, .count = 2 };
	unsigned int i;

	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_SIGNAL, true,
					  &data[i].event_id));
	waiter_start(_metadata, &w);
	EXPECT_EQ(0, event_set(&self->dev, data[1].event_id));
	pthread_join(w.thread, NULL);
	EXPECT_EQ(0, w.result);
	EXPECT_EQ(ETIMEDOUT, event_wait(&self->dev, data[1].event_id, 0));

	w.all = true;
	waiter_start(_metadata, &w);
	EXPECT_EQ(0, event_set(&self->dev, data[1].event_id));
	usleep(SHORT_MS * 1000);
	EXPECT_EQ(0, event_set(&self->dev, data[0].event_id));
	pthread_join(w.thread, NULL);
	EXPECT_EQ(0, w.result);
}

/* One setting wakes all threads that wait at the time, even if the event resets itself. */
TEST_F(events, wakes_all_waiters)
{
	struct kfd_event_data data[4] = { 0 };
	struct waiter w[4];
	unsigned int i;
	uint32_t id;

	ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_SIGNAL, true, &id));
	for (i = 0; i < 4; i++) {
		data[i].event_id = id;
		w[i] = (struct waiter){ .dev = &self->dev, .data = &data[i], .count = 1 };
		waiter_start(_metadata, &w[i]);
	}
	EXPECT_EQ(0, event_set(&self->dev, id));
	for (i = 0; i < 4; i++) {
		pthread_join(w[i].thread, NULL);
		EXPECT_EQ(0, w[i].result);
	}
}

/*
 * More waiters in an event's list than fit into contiguous pages: each thread names the event
 * as often as it may.
 */
TEST_F(events, many_waiters)
{
	static struct kfd_event_data data[EVENT_SLOTS];
	struct waiter w[40];
	unsigned int i;
	uint32_t id;

	ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_SIGNAL, false, &id));
	for (i = 0; i < EVENT_SLOTS; i++)
		data[i].event_id = id;
	for (i = 0; i < ARRAY_SIZE(w); i++) {
		w[i] = (struct waiter){ .dev = &self->dev, .data = data, .count = EVENT_SLOTS,
			.all = i & 1 };
		waiter_start(_metadata, &w[i]);
	}
	EXPECT_EQ(0, event_set(&self->dev, id));
	for (i = 0; i < ARRAY_SIZE(w); i++) {
		pthread_join(w[i].thread, NULL);
		EXPECT_EQ(0, w[i].result);
	}
}

TEST_F(events, destroyed_while_waited_for)
{
	struct kfd_event_data data[2] = { 0 };
	struct waiter w = { .dev = &self->dev, .data = data, .count = 2 };
	unsigned int i;

	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_SIGNAL, true,
					  &data[i].event_id));
	waiter_start(_metadata, &w);
	EXPECT_EQ(0, event_destroy(&self->dev, data[0].event_id));
	pthread_join(w.thread, NULL);
	EXPECT_ANSWER(wait_event_gone, w.result);
	/* The waiter for the destroyed event is in no list any more. */
	EXPECT_EQ(0, event_set(&self->dev, data[1].event_id));
	EXPECT_EQ(0, event_wait(&self->dev, data[1].event_id, 0));
}

static volatile unsigned int ticks;

static void tick(int signal)
{
	(void)signal;
	ticks++;
}

/* Makes SIGALRM arrive every SHORT_MS, with or without restarting system calls. */
static void start_ticking(int flags)
{
	const struct itimerval every = {
		.it_interval = { .tv_usec = SHORT_MS * 1000 },
		.it_value = { .tv_usec = SHORT_MS * 1000 },
	};
	struct sigaction action = { .sa_handler = tick, .sa_flags = flags };

	ticks = 0;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
}

static void stop_ticking(void)
{
	const struct itimerval never = { 0 };

	setitimer(ITIMER_REAL, &never, NULL);
}

/* A wait that is restarted after each signal does not wait longer for it. */
TEST_F(events, signals_restart)
{
	uint64_t start, took;
	uint32_t id;
	int err;

	ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_SIGNAL, true, &id));
	start = kfd_now_ms();
	start_ticking(SA_RESTART);
	err = event_wait(&self->dev, id, 8 * SHORT_MS);
	stop_ticking();
	took = kfd_now_ms() - start;
	EXPECT_EQ(ETIMEDOUT, err);
	EXPECT_LE(3, ticks);
	EXPECT_LE(8 * SHORT_MS - 16, took);
	/* If each restart began anew, it would not have ended while signals came. */
	EXPECT_GT(LONG_MS, took);
}

TEST_F(events, signals_interrupt)
{
	struct kfd_ioctl_wait_events_args args;
	struct kfd_event_data data = { 0 };
	int err = 0;

	ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_SIGNAL, true, &data.event_id));
	args = (struct kfd_ioctl_wait_events_args){
		.events_ptr = (uintptr_t)&data,
		.num_events = 1,
		.timeout = LONG_MS,
	};
	start_ticking(0);
	if (ioctl(self->dev.fd, AMDKFD_IOC_WAIT_EVENTS, &args))
		err = errno;
	stop_ticking();
	EXPECT_EQ(EINTR, err);
	/* The rest of the time. */
	EXPECT_GE(LONG_MS, args.timeout);
	EXPECT_LT(LONG_MS / 2, args.timeout);
	EXPECT_EQ(KFD_IOC_WAIT_RESULT_FAIL, args.wait_result);
}

/* Events that a wait had consumed when a signal came are not lost. */
TEST_F(events, signals_lose_nothing)
{
	struct kfd_event_data data[2] = { 0 };
	struct waiter w = { .dev = &self->dev, .data = data, .count = 2, .all = true };
	struct sigaction action = { .sa_handler = tick, .sa_flags = SA_RESTART };
	unsigned int i;

	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_SIGNAL, true,
					  &data[i].event_id));
	sigaction(SIGUSR1, &action, NULL);
	EXPECT_EQ(0, event_set(&self->dev, data[0].event_id));
	waiter_start(_metadata, &w);
	pthread_kill(w.thread, SIGUSR1);
	for (i = 0; i < LONG_MS && !ticks; i++)
		usleep(1000);
	EXPECT_EQ(1, ticks);
	EXPECT_EQ(0, event_set(&self->dev, data[1].event_id));
	pthread_join(w.thread, NULL);
	EXPECT_EQ(0, w.result);
}

/* Creates events up to the limit; returns their number, and the errno at the limit. */
static unsigned int create_all(const struct kfd_dev *dev, uint32_t type, int *err)
{
	unsigned int count = 0;
	uint32_t id;

	while (count <= 2 * EVENT_SLOTS) {
		*err = event_create(dev, type, true, &id);
		if (*err)
			break;
		count++;
	}
	return count;
}

TEST_F(events, limit_with_user_page)
{
	struct kfd_bo page;
	uint32_t id, again;
	int err;

	ASSERT_EQ(0, event_page_user(&self->dev, &page, &id));
	EXPECT_EQ(EVENT_SLOTS - 1, 1 + create_all(&self->dev, KFD_IOC_EVENT_SIGNAL, &err));
	EXPECT_ANSWER(events_too_many, err);
	EXPECT_EQ(0, event_set(&self->dev, EVENT_SLOTS - 1));
	EXPECT_EQ(0, event_wait(&self->dev, EVENT_SLOTS - 1, 0));
	/* A free number is given out again; other types have numbers of their own. */
	EXPECT_EQ(0, event_destroy(&self->dev, 77));
	EXPECT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_DEBUG_EVENT, true, &again));
	EXPECT_EQ(77, again);
	EXPECT_ANSWER(events_too_many,
		      event_create(&self->dev, KFD_IOC_EVENT_SIGNAL, true, &again));
	EXPECT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_MEMORY, false, &again));
}

TEST_F(events, limit_with_kernel_page)
{
	volatile uint64_t *slots;
	uint32_t id;
	int err;

	SKIP_ON_AMDKFD("no event page of the kernel's since Linux 7.3");
	/* The limit of the size that the first clients mapped, until more is mapped. */
	EXPECT_EQ(255, create_all(&self->dev, KFD_IOC_EVENT_SIGNAL, &err));
	EXPECT_ANSWER(events_too_many, err);
	EXPECT_EQ(0, event_destroy(&self->dev, 1));
	ASSERT_EQ(0, event_page_kernel(&self->dev, &slots, &id));
	EXPECT_EQ(EVENT_SLOTS - 256, create_all(&self->dev, KFD_IOC_EVENT_SIGNAL, &err));
	EXPECT_ANSWER(events_too_many, err);
}

TEST_F(events, wait_for_all_of_them)
{
	static struct kfd_event_data data[EVENT_SLOTS];
	struct waiter w = { .dev = &self->dev, .data = data, .all = true };
	struct kfd_bo page;
	uint32_t id;
	int err;

	ASSERT_EQ(0, event_page_user(&self->dev, &page, &id));
	create_all(&self->dev, KFD_IOC_EVENT_SIGNAL, &err);
	for (id = 1; id < EVENT_SLOTS; id++)
		data[w.count++].event_id = id;
	waiter_start(_metadata, &w);
	for (id = 1; id < EVENT_SLOTS; id++)
		ASSERT_EQ(0, event_set(&self->dev, id));
	pthread_join(w.thread, NULL);
	EXPECT_EQ(0, w.result);
}

TEST_F(events, limit_without_slots)
{
	int err;

	/* amdkfd has no such limit. */
	if (!kfd_is_rkfd())
		SKIP(return, "not rkfd");
	EXPECT_EQ(1024, create_all(&self->dev, KFD_IOC_EVENT_MEMORY, &err));
	EXPECT_EQ(ENOSPC, err);
}

TEST_F(events, user_page)
{
	struct kfd_ioctl_create_event_args args = { .event_type = KFD_IOC_EVENT_SIGNAL };
	volatile uint64_t *slots;
	struct kfd_bo page, other;
	unsigned int i, set = 0;
	uint32_t id;
	void *p;

	ASSERT_EQ(0, event_page_user(&self->dev, &page, &id));
	slots = page.cpu;
	for (i = 0; i < EVENT_SLOTS; i++)
		set += slots[i] != EVENT_UNSIGNALED;
	EXPECT_EQ(0, set);
	/* The page stays as long as the process, which has only one. */
	ASSERT_EQ(0, kfd_unmap(self->dev.fd, page.handle, self->dev.gpu_id));
	EXPECT_ANSWER(event_page_free, kfd_free(self->dev.fd, page.handle));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &other, EVENT_PAGE_SIZE, KFD_ALLOC_GTT));
	args.event_page_offset = other.handle;
	EXPECT_ANSWER(event_page_again, event_create_args(&self->dev, &args));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &other));
	EXPECT_ANSWER(mmap_no_event_page,
		      kfd_mmap(self->dev.fd, 2 * EVENT_PAGE_SIZE, KFD_OFFSET_EVENTS, &p));
}

TEST_F(events, bad_user_page)
{
	struct kfd_ioctl_create_event_args args = { .event_type = KFD_IOC_EVENT_SIGNAL };
	struct kfd_bo bo;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, EVENT_PAGE_SIZE - KFD_PAGE, KFD_ALLOC_GTT));
	args.event_page_offset = bo.handle;
	EXPECT_ANSWER(event_page_bad, event_create_args(&self->dev, &args));
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
	args.event_page_offset = bo.handle;
	EXPECT_ANSWER(event_page_bad, event_create_args(&self->dev, &args));
	args.event_page_offset = UINT64_MAX;
	EXPECT_ANSWER(event_page_bad, event_create_args(&self->dev, &args));
	args.event_page_offset = 1;
	EXPECT_ANSWER(event_page_bad, event_create_args(&self->dev, &args));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, EVENT_PAGE_SIZE, KFD_ALLOC_VRAM));
	args.event_page_offset = bo.handle;
	EXPECT_ANSWER(event_page_in_vram, event_create_args(&self->dev, &args));
	/* Where the call succeeded, the page is the process's for good. */
	if (kfd_expected(answer_event_page_in_vram) == 0)
		return;
	EXPECT_EQ(0, kfd_bo_destroy(&self->dev, &bo));
	/* None of the failures prevents a good page. */
	args.event_page_offset = 0;
	EXPECT_EQ(0, event_create_args(&self->dev, &args));
}

TEST_F(events, kernel_page)
{
	volatile uint64_t *slots;
	unsigned int i, set = 0;
	uint32_t id;
	void *p;

	SKIP_ON_AMDKFD("no event page of the kernel's since Linux 7.3");
	EXPECT_ANSWER(mmap_no_event_page,
		      kfd_mmap(self->dev.fd, EVENT_PAGE_SIZE, KFD_OFFSET_EVENTS, &p));
	ASSERT_EQ(0, event_page_kernel(&self->dev, &slots, &id));
	for (i = 0; i < EVENT_SLOTS; i++)
		set += slots[i] != EVENT_UNSIGNALED;
	EXPECT_EQ(0, set);
	EXPECT_ANSWER(mmap_length,
		      kfd_mmap(self->dev.fd, 2 * EVENT_PAGE_SIZE, KFD_OFFSET_EVENTS, &p));
	/* Two mappings show the same page. */
	ASSERT_EQ(0, kfd_mmap(self->dev.fd, EVENT_PAGE_SIZE, KFD_OFFSET_EVENTS, &p));
	slots[5] = 3;
	EXPECT_EQ(3, ((volatile uint64_t *)p)[5]);
	munmap(p, EVENT_PAGE_SIZE);
	/* A slot value that the GPU would have written counts without an interrupt. */
	slots[id] = 1;
	EXPECT_EQ(0, event_wait(&self->dev, id, LONG_MS));
	EXPECT_EQ(EVENT_UNSIGNALED, slots[id]);
}

TEST_F(events, forked_child)
{
	int status;
	uint32_t id;
	pid_t pid;

	ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_SIGNAL, true, &id));
	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0) {
		const int expected = kfd_expected(answer_file_of_other_process);
		uint32_t other;

		_exit(event_set(&self->dev, id) != expected ||
		      event_wait(&self->dev, id, 0) != expected ||
		      event_create(&self->dev, KFD_IOC_EVENT_SIGNAL, true, &other) != expected ||
		      event_destroy(&self->dev, id) != expected);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(ETIMEDOUT, event_wait(&self->dev, id, 0));
}

/* A process is killed while its threads wait. */
TEST_F(events, killed_while_waiting)
{
	int status;
	pid_t pid = fork();

	ASSERT_LE(0, pid);
	if (pid == 0) {
		struct kfd_dev dev;
		uint32_t id;

		if (kfd_open(&dev) || event_create(&dev, KFD_IOC_EVENT_SIGNAL, true, &id))
			_exit(1);
		event_wait(&dev, id, EVENT_FOREVER);
		_exit(2);
	}
	usleep(5 * SHORT_MS * 1000);
	EXPECT_EQ(0, waitpid(pid, &status, WNOHANG));
	kill(pid, SIGKILL);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
}

/*
 * The page stays when its GPU goes. A buffer on the GPU's next life that gets the same handle
 * is not the page.
 */
TEST_F(events, page_of_a_gpu_that_went)
{
	struct kfd_bo page, other;
	struct kfd_dev again;
	unsigned int tries;
	char name[64];
	uint32_t id;

	SKIP_ON_AMDKFD("an unbind waits for the processes");
	ASSERT_TRUE(kfd_find_device(name, sizeof(name)));
	ASSERT_EQ(0, event_page_user(&self->dev, &page, &id));
	EXPECT_EQ(EPERM, kfd_free(self->dev.fd, page.handle));
	ASSERT_EQ(0, kfd_write_file("/sys/bus/pci/drivers/rkfd/unbind", name));
	ASSERT_EQ(0, kfd_write_file("/sys/bus/pci/drivers/rkfd/bind", name));
	ASSERT_EQ(0, kfd_open(&again));
	for (tries = 0; tries < 16; tries++) {
		ASSERT_EQ(0, kfd_bo_create(&again, &other, KFD_PAGE, KFD_ALLOC_GTT));
		if (other.handle == page.handle)
			break;
	}
	ASSERT_EQ(page.handle, other.handle);
	EXPECT_EQ(0, kfd_bo_destroy(&again, &other));
	EXPECT_EQ(0, event_set(&again, id));
	EXPECT_EQ(0, event_wait(&again, id, LONG_MS));
	kfd_close(&again);
}

KFD_HARNESS_MAIN
