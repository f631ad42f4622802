/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A process that is debugged: a child that its parent traces, and that does what the parent orders
 * over a pipe. It has one compute queue at most, with a wave's program and a trap handler.
 */
#ifndef RKFD_TEST_DEBUGGEE_H
#define RKFD_TEST_DEBUGGEE_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kfd_compute.h"
#include "kfd_event.h"
#include "kfd_waves.h"

#define DEBUGGEE_RING	(16u * 1024)
#define DEBUGGEE_PAGES	64u
#define DEBUGGEE_NOTHING	0x7000000000ull	/* where the GPU has no memory */

enum debuggee_order {
	DEBUGGEE_OPEN,		/* opens the GPU, prepares memory */
	DEBUGGEE_RUNTIME,	/* RUNTIME_ENABLE; @arg is its mode */
	DEBUGGEE_QUEUE,		/* creates the queue; @arg: an AQL queue */
	DEBUGGEE_DESTROY,
	DEBUGGEE_WRONG,		/* starts a wave that goes wrong: @arg of enum waves_wrong */
	DEBUGGEE_WORKS,		/* 0 if the queue works */
	DEBUGGEE_START,		/* starts @arg waves */
	DEBUGGEE_STOP,		/* lets them end; 0 if they have, and found nothing changed */
	DEBUGGEE_RUNS,		/* 0 if they go on within @arg milliseconds */
	DEBUGGEE_TOLD,		/* 0 if the runtime's event is set in time, with @arg in the word */
	DEBUGGEE_STEP,		/* starts a wave that counts; if it traps, it ends */
	DEBUGGEE_TOUCH,		/* starts a wave that changes pages; if it traps, it ends */
	DEBUGGEE_FAULT,		/* the same, where there are no pages */
	DEBUGGEE_FAULTED,	/* 0 if an event of memory is set within @arg milliseconds */
	DEBUGGEE_EXIT,
};

/* What the parent sees of the child's memory. */
struct debuggee_shared {
	volatile uint32_t queue_id, gpu_id;
	volatile uint64_t save;		/* address of its save area */
	volatile uint64_t ring, write, read;
	volatile uint64_t pages;	/* what DEBUGGEE_TOUCH changes, DEBUGGEE_PAGES of them */
};

struct debuggee {
	pid_t pid;
	int orders, answers;
	struct debuggee_shared *shared;
};

struct debuggee_state {
	struct kfd_dev dev;
	struct kfd_save save;
	struct kfd_compute queue;
	struct waves waves;
	struct kfd_bo page;
	uint32_t event, memory;
	volatile uint64_t word;
};

static inline int debuggee_open(struct debuggee_state *s, struct debuggee_shared *shared)
{
	struct kfd_context_save_area_header *header;
	uint32_t first;
	int err = kfd_open(&s->dev);

	if (!err)
		err = event_page_user(&s->dev, &s->page, &first);
	if (!err)
		err = event_create(&s->dev, KFD_IOC_EVENT_SIGNAL, true, &s->event);
	if (!err)
		err = event_create(&s->dev, KFD_IOC_EVENT_MEMORY, true, &s->memory);
	if (!err)
		err = kfd_save_create(&s->dev, &s->save);
	if (!err)
		err = waves_create(&s->dev, &s->waves,
				   DEBUGGEE_PAGES * KFD_PAGE / sizeof(struct waves_record));
	if (!err)
		err = waves_set_handler(&s->dev, &s->waves,
					(uintptr_t)s->waves.data.cpu + 32);
	if (err)
		return err;
	header = s->save.bo.cpu;
	header->err_payload_addr = (uintptr_t)&s->word;
	header->err_event_id = s->event;
	shared->gpu_id = s->dev.gpu_id;
	shared->save = (uintptr_t)header;
	shared->pages = (uintptr_t)s->waves.data.cpu;
	return 0;
}

static inline int debuggee_runtime(const struct debuggee_state *s, uint32_t mode)
{
	struct kfd_ioctl_runtime_enable_args args = {
		.r_debug = mode ? 0x1234567000 : 0,
		.mode_mask = mode,
	};

	return kfd_ioctl(s->dev.fd, AMDKFD_IOC_RUNTIME_ENABLE, &args);
}

static inline int debuggee_dispatch(struct debuggee_state *s, uint32_t first, uint32_t what)
{
	struct packets p = { 0 };

	((volatile uint32_t *)s->waves.data.cpu)[1] = what;
	((volatile uint32_t *)s->waves.data.cpu)[8] = 0;
	waves_dispatch(&p, &s->waves, (enum waves_program)first, 1, true);
	return kfd_compute_pm4(&s->queue, &p) ? 0 : ETIMEDOUT;
}

static inline int debuggee_fault(struct debuggee_state *s)
{
	struct waves waves = s->waves;
	struct packets p = { 0 };

	waves.data.cpu = (char *)DEBUGGEE_NOTHING;
	waves_dispatch(&p, &waves, WAVES_TOUCH, 1, true);
	return kfd_compute_pm4(&s->queue, &p) ? 0 : ETIMEDOUT;
}

static inline int debuggee_obey(struct debuggee_state *s, struct debuggee_shared *shared,
				uint32_t order, uint32_t arg)
{
	int err;

	switch (order) {
	case DEBUGGEE_OPEN:
		return debuggee_open(s, shared);
	case DEBUGGEE_RUNTIME:
		return debuggee_runtime(s, arg);
	case DEBUGGEE_QUEUE:
		err = kfd_compute_create(&s->dev, &s->queue, &s->save, arg != 0, DEBUGGEE_RING);
		shared->queue_id = s->queue.id;
		shared->ring = (uintptr_t)s->queue.ring.cpu;
		shared->read = kfd_compute_address(&s->queue, KFD_COMPUTE_RPTR);
		shared->write = kfd_compute_address(&s->queue, KFD_COMPUTE_WPTR);
		return err;
	case DEBUGGEE_DESTROY:
		return kfd_compute_destroy(&s->dev, &s->queue);
	case DEBUGGEE_WRONG:
		return debuggee_dispatch(s, WAVES_EXCEPTION, arg);
	case DEBUGGEE_WORKS:
		return kfd_compute_works(&s->queue, KFD_HANG_MS) ? 0 : ETIMEDOUT;
	case DEBUGGEE_START:
		return waves_start(&s->waves, &s->queue, WAVES_SMALL, arg, true) ? 0 : ETIMEDOUT;
	case DEBUGGEE_STOP:
		waves_stop(&s->waves);
		if (!waves_ended(&s->waves, KFD_HANG_MS))
			return ETIMEDOUT;
		return waves_bad(&s->waves) ? EBADMSG : 0;
	case DEBUGGEE_RUNS:
		return waves_go_on(&s->waves, arg) ? 0 : ETIMEDOUT;
	case DEBUGGEE_TOLD:
		err = event_wait(&s->dev, s->event, KFD_HANG_MS);
		return err ? err : s->word == arg ? 0 : EBADMSG;
	case DEBUGGEE_STEP:
		return debuggee_dispatch(s, WAVES_SMALL, 0);
	case DEBUGGEE_TOUCH:
		return debuggee_dispatch(s, WAVES_TOUCH, 0);
	case DEBUGGEE_FAULT:
		return debuggee_fault(s);
	case DEBUGGEE_FAULTED:
		return event_wait(&s->dev, s->memory, arg);
	case DEBUGGEE_EXIT:
		_exit(0);
	}
	return ENOSYS;
}

static inline void debuggee_main(int orders, int answers, struct debuggee_shared *shared)
{
	struct debuggee_state s = { 0 };
	uint32_t order[2];
	int err;

	while (read(orders, order, sizeof(order)) == sizeof(order)) {
		err = debuggee_obey(&s, shared, order[0], order[1]);
		if (write(answers, &err, sizeof(err)) != sizeof(err))
			break;
	}
	_exit(1);
}

/* Starts it; the calling thread traces it if @traced. 0 or an errno. */
static inline int debuggee_start(struct debuggee *d, bool traced)
{
	int orders[2], answers[2], status;

	d->shared = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (d->shared == MAP_FAILED || pipe2(orders, O_CLOEXEC) || pipe2(answers, O_CLOEXEC))
		return errno;
	d->pid = fork();
	if (d->pid < 0)
		return errno;
	if (d->pid == 0) {
		close(orders[1]);
		close(answers[0]);
		if (traced) {
			ptrace(PTRACE_TRACEME, 0, NULL, NULL);
			raise(SIGSTOP);
		}
		debuggee_main(orders[0], answers[1], d->shared);
	}
	close(orders[0]);
	close(answers[1]);
	d->orders = orders[1];
	d->answers = answers[0];
	if (!traced)
		return 0;
	if (waitpid(d->pid, &status, 0) != d->pid || !WIFSTOPPED(status))
		return ECHILD;
	return ptrace(PTRACE_CONT, d->pid, NULL, NULL) ? errno : 0;
}

/* Gives an order, whose answer debuggee_answer() waits for. */
static inline void debuggee_order(const struct debuggee *d, enum debuggee_order what, uint32_t arg)
{
	const uint32_t order[2] = { what, arg };

	if (write(d->orders, order, sizeof(order)) != sizeof(order))
		return;
}

/* True if there is an answer within @ms milliseconds. */
static inline bool debuggee_has_answer(const struct debuggee *d, unsigned int ms)
{
	struct pollfd fd = { .fd = d->answers, .events = POLLIN };

	return poll(&fd, 1, (int)ms) == 1 && fd.revents & POLLIN;
}

static inline int debuggee_answer(const struct debuggee *d)
{
	int err;

	if (!debuggee_has_answer(d, KFD_HANG_MS))
		return ETIMEDOUT;
	return read(d->answers, &err, sizeof(err)) == sizeof(err) ? err : EPIPE;
}

static inline int debuggee_do(const struct debuggee *d, enum debuggee_order what, uint32_t arg)
{
	debuggee_order(d, what, arg);
	return debuggee_answer(d);
}

/* Ends it, and waits for its end. */
static inline void debuggee_end(struct debuggee *d)
{
	int status;

	kill(d->pid, SIGKILL);
	while (waitpid(d->pid, &status, 0) == d->pid && WIFSTOPPED(status))
		ptrace(PTRACE_CONT, d->pid, NULL, NULL);
	close(d->orders);
	close(d->answers);
	munmap(d->shared, KFD_PAGE);
}

#endif /* RKFD_TEST_DEBUGGEE_H */
