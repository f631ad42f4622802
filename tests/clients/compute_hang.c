// SPDX-License-Identifier: GPL-2.0
/*
 * A compute queue hangs on the test's command. Its process gets rid of it in bounded time and
 * is notified, a watcher of the GPU is notified, and a neighbour's queue does all of its work
 * meanwhile. Only with the model.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/child.h"
#include "model.h"
#include "common/neighbour.h"
#include "tap.h"
#include "kfd_compute.h"
#include "kfd_event.h"

#define RING		(16u << 10)
#define TIMEOUT_MS	KFD_HANG_MS
#define SOON_MS		KFD_HANG_MS

struct owner {
	struct kfd_dev dev;
	struct kfd_save save;
	struct kfd_compute queue;
	uint32_t exception, fault;
	int watch;			/* lines about resets */
};

static bool watch(struct owner *owner)
{
	struct kfd_ioctl_smi_events_args args = { .gpuid = owner->dev.gpu_id };
	const uint64_t resets = KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_GPU_PRE_RESET) |
				KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_GPU_POST_RESET);

	if (kfd_ioctl(owner->dev.fd, AMDKFD_IOC_SMI_EVENTS, &args))
		return false;
	owner->watch = (int)args.anon_fd;
	return write(owner->watch, &resets, sizeof(resets)) == sizeof(resets);
}

static void own(struct owner *owner)
{
	if (kfd_open(&owner->dev) || kfd_save_create(&owner->dev, &owner->save) ||
	    event_create(&owner->dev, KFD_IOC_EVENT_HW_EXCEPTION, true, &owner->exception) ||
	    event_create(&owner->dev, KFD_IOC_EVENT_MEMORY, true, &owner->fault) ||
	    !watch(owner))
		die("the device does not open");
}

/* The next queue with work hangs: no other has any by now. */
static bool hang(struct owner *owner)
{
	const unsigned long long before = model_count("cp", "hangs");

	return model_command("hang-queue 1") && !kfd_compute_works(&owner->queue, 1) &&
	       model_exceeds("cp", "hangs", before);
}

static unsigned long long since_ms(unsigned long long begin)
{
	return (now_ns() - begin) / 1000000;
}

/* The lines of one reset, number @number of this GPU as far as this program knows. */
static bool watcher_told(const struct owner *owner, unsigned int *number)
{
	unsigned int event[2], seq[2];
	char text[512], cause[2][64];
	size_t length = 0;
	bool ok;

	memset(text, 0, sizeof(text));
	while (length < sizeof(text) - 1) {
		struct pollfd p = { .fd = owner->watch, .events = POLLIN };
		ssize_t n;

		if (poll(&p, 1, length ? 200 : (int)SOON_MS) != 1)
			break;
		n = read(owner->watch, text + length, sizeof(text) - 1 - length);
		if (n <= 0)
			break;
		length += (size_t)n;
	}
	ok = sscanf(text, "%x %x %63[^\n]\n%x %x %63[^\n]\n", &event[0], &seq[0], cause[0],
		    &event[1], &seq[1], cause[1]) == 6 &&
	     event[0] == KFD_SMI_EVENT_GPU_PRE_RESET &&
	     event[1] == KFD_SMI_EVENT_GPU_POST_RESET &&
	     seq[0] == seq[1] && seq[0] > *number &&
	     !strcmp(cause[0], "compute queue hang") && !strcmp(cause[0], cause[1]) &&
	     strchr(strchr(text, '\n') + 1, '\n') == text + length - 1;
	if (ok)
		*number = seq[0];
	else
		tap_note("lines: '%s'", text);
	return ok;
}

/* The exception's event names the cause, once, and there was no fault. */
static bool process_told(const struct owner *owner)
{
	struct kfd_event_data data = { .event_id = owner->exception };
	const struct kfd_hsa_hw_exception_data *what = &data.hw_exception_data;
	const int err = event_wait_many(&owner->dev, &data, 1, true, SOON_MS);

	if (!err && what->gpu_id == owner->dev.gpu_id && what->memory_lost &&
	    what->reset_type == KFD_HW_EXCEPTION_PER_ENGINE_RESET &&
	    what->reset_cause == KFD_HW_EXCEPTION_GPU_HANG)
		return event_wait(&owner->dev, owner->exception, 0) == ETIMEDOUT &&
		       event_wait(&owner->dev, owner->fault, 0) == ETIMEDOUT;
	tap_note("wait: %d; type %u, cause %u, lost %u, gpu %u", err, what->reset_type,
		 what->reset_cause, what->memory_lost, what->gpu_id);
	return false;
}

struct destruction {
	struct owner *owner;
	bool ok;
	volatile bool over;
};

static void *destroy(void *data)
{
	struct destruction *d = data;

	d->ok = !kfd_compute_destroy(&d->owner->dev, &d->owner->queue);
	d->over = true;
	return NULL;
}

/* Calls for a queue beside the one that is being removed are answered meanwhile. */
static bool answered(const struct owner *owner, const struct kfd_compute *other,
		     const struct destruction *d)
{
	struct kfd_ioctl_get_queue_wave_state_args args = { .queue_id = other->id };
	bool ok, over;

	usleep(100000);
	ok = kfd_ioctl(owner->dev.fd, AMDKFD_IOC_GET_QUEUE_WAVE_STATE, &args) == EINVAL;
	over = d->over;
	if (!ok || over)
		tap_note("ok %d, over %d", ok, over);
	return ok && !over;
}

static void destroyed(struct owner *owner, const struct neighbour *n, bool aql)
{
	static unsigned int resets;
	const char *kind = aql ? "AQL" : "PM4";
	struct destruction d = { .owner = owner };
	unsigned long long begin, took;
	struct kfd_compute other;
	pthread_t thread;
	bool ok;

	ok = !kfd_compute_create(&owner->dev, &owner->queue, &owner->save, aql, RING) &&
	     !kfd_compute_create(&owner->dev, &other, &owner->save, aql, RING);
	tap_ok(ok && kfd_compute_works(&owner->queue, TIMEOUT_MS) && hang(owner),
	       "a queue of %s packets hangs", kind);
	neighbour_go(n);
	begin = now_ns();
	if (pthread_create(&thread, NULL, destroy, &d))
		die("no thread");
	tap_ok(answered(owner, &other, &d), "calls for another queue do not wait for it");
	pthread_join(thread, NULL);
	took = since_ms(begin);
	tap_ok(d.ok && took < TIMEOUT_MS, "it is taken off in bounded time (%llu ms)", took);
	tap_ok(process_told(owner), "its process is told of the exception");
	tap_ok(watcher_told(owner, &resets), "who watches the GPU is told of the reset");
	tap_ok(neighbour_worked(n),
	       "the neighbour's queue goes on with no lost work, and hears of nothing");
	tap_ok(kfd_compute_works(&other, TIMEOUT_MS) && !kfd_compute_destroy(&owner->dev, &other),
	       "its process's other queue works");
	ok = !kfd_compute_create(&owner->dev, &other, &owner->save, aql, RING) &&
	     kfd_compute_works(&other, TIMEOUT_MS);
	tap_ok(ok && !kfd_compute_destroy(&owner->dev, &other),
	       "its process makes another one, which works");
}

/* A process ends and leaves its hung queue to the kernel. */
static void left_behind(const struct neighbour *n)
{
	unsigned long long begin, took;
	struct owner owner;
	int hangs[2];
	char word;
	pid_t pid;
	bool ok;

	if (pipe(hangs))
		die("no pipe");
	pid = child_fork();
	if (pid == 0) {
		own(&owner);
		ok = !kfd_compute_create(&owner.dev, &owner.queue, &owner.save, false, RING);
		word = ok && hang(&owner) ? 'y' : 'n';
		_exit(write(hangs[1], &word, 1) != 1);
	}
	close(hangs[1]);
	tap_ok(read(hangs[0], &word, 1) == 1 && word == 'y',
	       "a queue hangs that is not destroyed");
	neighbour_go(n);
	begin = now_ns();
	ok = child_status(pid) == 0;
	took = since_ms(begin);
	tap_ok(ok && took < TIMEOUT_MS, "its process ends in bounded time (%llu ms)", took);
	tap_ok(neighbour_worked(n), "the neighbour's queue goes on with no lost work");
	close(hangs[0]);
}

int main(void)
{
	struct neighbour n;
	struct owner owner;

	tap_start();
	if (!model_present()) {
		tap_skip("hung queues", "no model");
		return tap_end();
	}
	neighbour_start(&n);
	own(&owner);
	destroyed(&owner, &n, false);
	destroyed(&owner, &n, true);
	left_behind(&n);
	tap_ok(neighbour_ended(&n), "the neighbour never missed anything");
	return tap_end();
}
