// SPDX-License-Identifier: GPL-2.0
/*
 * Wrong packets on compute queues: addresses that are not mapped or not writable, packets that
 * the CP refuses, packets that never end. The queue's process is notified in the way that
 * amdkfd and ROCr expect, and goes on with other queues; another process does not notice.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/neighbour.h"
#include "tap.h"
#include "compute_bad.h"
#include "kfd_event.h"
#include "objects.h"

#define RING		(16u << 10)
#define TIMEOUT_MS	KFD_HANG_MS
#define SOON_MS		KFD_HANG_MS
#define NOT_MS		100u
#define PACE_MS		260u

static struct aql_signal *inactive_signal(const struct trouble *t)
{
	return (struct aql_signal *)((char *)t->bad.control.cpu + INACTIVE_SIGNAL);
}

/* Queues as a runtime makes them: an AQL queue that stops sets a signal. */
static bool begin(struct trouble *t, bool aql)
{
	struct aql_signal *signal;

	if (kfd_compute_create(&t->dev, &t->other, &t->save, !aql, RING))
		return false;
	if (kfd_compute_create(&t->dev, &t->bad, &t->save, aql, RING))
		return false;
	if (aql) {
		signal = inactive_signal(t);
		signal->mailbox = (uintptr_t)t->page.cpu + 8 * t->inactive;
		signal->event = t->inactive;
		*kfd_compute_qword(&t->bad, INACTIVE) = at(t, INACTIVE_SIGNAL);
	}
	((struct aql_signal *)((char *)t->bad.control.cpu + NEVER))->value = 1;
	t->address = t->nothing;
	t->pages = 1;
	t->partial = false;
	return kfd_compute_works(&t->bad, TIMEOUT_MS) && kfd_compute_works(&t->other, TIMEOUT_MS);
}

/* The bad packets, and one behind them that is not reached when the queue stops. */
static bool submit(struct trouble *t, const struct scenario *s)
{
	struct packets p = { 0 }, mark = { 0 };
	struct aql_packet packets[2];

	if (s->pm4)
		s->pm4(t, &p);
	pm4_write(&mark, at(t, MARK), 0x600d);
	if (!s->aql) {
		/* The other half of a packet would be this one. */
		if (!t->partial) {
			memcpy(&p.dwords[p.count], mark.dwords, mark.count * 4);
			p.count += mark.count;
		}
		return kfd_compute_pm4(&t->bad, &p);
	}
	if (s->pm4) {
		/* Not through INDIRECT_BUFFER: the AQL packet leads there itself. */
		const bool jump = p.dwords[0] == (3u << 30 | 2u << 16 | PM4_INDIRECT_BUFFER << 8);

		if (jump) {
			memcpy(packets, &(struct aql_packet){ 0 }, sizeof(*packets));
			aql_pm4(&packets[0], p.dwords[1] | (uint64_t)p.dwords[2] << 32,
				p.dwords[3] & 0xfffff, 0);
		} else {
			memcpy((char *)t->bad.control.cpu + KFD_COMPUTE_IB + 256, p.dwords,
			       p.count * 4);
			aql_pm4(&packets[0], at(t, KFD_COMPUTE_IB + 256), p.count, 0);
		}
	} else {
		s->packet(t, &packets[0]);
	}
	memcpy((char *)t->bad.control.cpu + KFD_COMPUTE_IB, mark.dwords, mark.count * 4);
	aql_pm4(&packets[1], at(t, KFD_COMPUTE_IB), mark.count, 0);
	return kfd_compute_aql(&t->bad, packets, 2);
}

static bool is_quiet(const struct trouble *t, uint32_t event)
{
	return event_wait(&t->dev, event, 0) == ETIMEDOUT;
}

static bool told_of_fault(struct trouble *t, const struct scenario *s)
{
	struct kfd_event_data data = { .event_id = t->fault };
	const struct kfd_hsa_memory_exception_data *what = &data.memory_exception_data;
	const bool read_only = s->outcome == READ_ONLY;
	const int err = event_wait_many(&t->dev, &data, 1, true, SOON_MS);
	const uint64_t page = t->address & ~(uint64_t)(KFD_PAGE - 1);

	if (!err && what->gpu_id == t->dev.gpu_id && what->va - page < t->pages * KFD_PAGE &&
	    what->failure.NotPresent == !read_only && what->failure.ReadOnly == read_only &&
	    is_quiet(t, t->exception) && is_quiet(t, t->inactive))
		return true;
	tap_note("wait: %d; address 0x%llx, not present %u, read-only %u", err,
		 (unsigned long long)what->va, what->failure.NotPresent, what->failure.ReadOnly);
	return false;
}

static bool told_of_refusal(struct trouble *t, const struct scenario *s)
{
	struct kfd_event_data data = { .event_id = s->aql ? t->inactive : t->exception };
	const struct kfd_hsa_hw_exception_data *what = &data.hw_exception_data;
	const int err = event_wait_many(&t->dev, &data, 1, true, SOON_MS);
	bool ok = !err && is_quiet(t, t->fault);

	if (s->aql) {
		/* No exception: that would end a runtime which can go on. */
		usleep(NOT_MS * 1000);
		ok &= inactive_signal(t)->value == s->value && is_quiet(t, t->exception);
		if (!ok)
			tap_note("wait: %d; signal: %lld", err,
				 (long long)inactive_signal(t)->value);
	} else {
		ok &= what->gpu_id == t->dev.gpu_id && what->memory_lost &&
		      what->reset_type == KFD_HW_EXCEPTION_PER_ENGINE_RESET &&
		      what->reset_cause == KFD_HW_EXCEPTION_GPU_HANG && is_quiet(t, t->inactive);
		if (!ok)
			tap_note("wait: %d; type %u, cause %u", err, what->reset_type,
				 what->reset_cause);
	}
	return ok;
}

static bool told_of_nothing(struct trouble *t)
{
	usleep(NOT_MS * 1000);
	return is_quiet(t, t->fault) && is_quiet(t, t->exception) && is_quiet(t, t->inactive);
}

static bool told(struct trouble *t, const struct scenario *s)
{
	switch (s->outcome) {
	case NOT_PRESENT:
	case READ_ONLY:
		return told_of_fault(t, s);
	case REFUSED:
		return told_of_refusal(t, s);
	default:
		return told_of_nothing(t);
	}
}

/* A runtime's calls for a queue that has stopped; none of them makes it go on. */
static bool operations(struct trouble *t, const struct scenario *s)
{
	struct kfd_ioctl_get_queue_wave_state_args waves = {
		.ctl_stack_address = (uintptr_t)t->save.bo.cpu,
		.queue_id = t->bad.id,
	};
	uint32_t mask = 1;
	struct kfd_ioctl_set_cu_mask_args cus = {
		.queue_id = t->bad.id,
		.num_cu_mask = 32,
		.cu_mask_ptr = (uintptr_t)&mask,
	};
	bool ok = !kfd_compute_update(&t->dev, &t->bad, 0) &&
		  !kfd_ioctl(t->dev.fd, AMDKFD_IOC_GET_QUEUE_WAVE_STATE, &waves) &&
		  !kfd_ioctl(t->dev.fd, AMDKFD_IOC_SET_CU_MASK, &cus) &&
		  !kfd_compute_update(&t->dev, &t->bad, 100) &&
		  !kfd_compute_update(&t->dev, &t->other, 0) &&
		  !kfd_compute_update(&t->dev, &t->other, 100);

	if (s->outcome == REFUSED || s->outcome == WAITS)
		ok &= kfd_compute_works(&t->other, TIMEOUT_MS) && !usleep(NOT_MS * 1000) &&
		      *kfd_compute_qword(&t->bad, MARK) == 0;
	else
		/* A fault stops all of the process's queues, as with amdkfd. */
		ok &= !kfd_compute_works(&t->bad, NOT_MS) && !kfd_compute_works(&t->other, NOT_MS);
	return ok;
}

static bool destroyed(struct trouble *t)
{
	/* A queue that does not leave the hardware would be reset, with a line in the log. */
	bool ok = !kfd_compute_destroy(&t->dev, &t->bad);

	ok &= !kfd_compute_destroy(&t->dev, &t->other);
	/* Consume repeated reports. */
	while (!event_wait(&t->dev, t->fault, 0))
		;
	return ok;
}

static bool another_works(struct trouble *t, bool aql)
{
	struct kfd_compute queue;

	return !kfd_compute_create(&t->dev, &queue, &t->save, aql, RING) &&
	       kfd_compute_works(&queue, TIMEOUT_MS) && !kfd_compute_destroy(&t->dev, &queue);
}

/* Lines of rkfd in the kernel's log since the last time; waits until there are @wanted. */
static unsigned int logged(const struct trouble *t, unsigned int wanted)
{
	const uint64_t end = kfd_now_ms() + SOON_MS;
	unsigned int lines = 0;
	char record[1024];
	ssize_t n;

	for (;;) {
		while ((n = read(t->log, record, sizeof(record) - 1)) > 0 || errno == EPIPE) {
			record[n > 0 ? n : 0] = '\0';
			lines += strstr(record, ";rkfd ") != NULL;
		}
		if (lines >= wanted || kfd_now_ms() > end)
			return lines;
		usleep(1000);
	}
}

/*
 * The driver writes at most five lines of a kind in a second for a process: leave some time
 * between one start and the next.
 */
static void pace(void)
{
	static uint64_t next;
	const uint64_t now = kfd_now_ms();

	if (now < next)
		usleep((useconds_t)(next - now) * 1000);
	next = kfd_now_ms() + PACE_MS;
}

static void run(struct trouble *t, const struct neighbour *n, const struct scenario *s)
{
	const char *kind = s->aql ? "AQL" : "PM4";
	/* That of a fault is followed by one with what is around the address. */
	const unsigned int wanted =
		s->outcome == WAITS ? 0 : s->outcome == REFUSED ? 1 : 2;
	unsigned int lines;

	pace();
	logged(t, 0);
	if (!begin(t, s->aql))
		die("%s: no queues", s->name);
	neighbour_go(n);
	tap_ok(submit(t, s) && told(t, s), "%s, %s: its process is told %s", kind, s->name,
	       s->outcome == WAITS ? "nothing" : "so");
	tap_ok(operations(t, s),
	       "%s, %s: later calls are answered, other queues are as they should", kind, s->name);
	tap_ok(destroyed(t) && another_works(t, s->aql),
	       "%s, %s: the queue can be destroyed, another one works", kind, s->name);
	tap_ok(neighbour_worked(n), "%s, %s: another process goes on and hears nothing", kind,
	       s->name);
	lines = logged(t, wanted);
	if (!tap_ok(lines == wanted, "%s, %s: %u line%s in the log", kind, s->name, wanted,
		    wanted == 1 ? "" : "s"))
		tap_note("lines: %u", lines);
}

static void open_all(struct trouble *t)
{
	const uint32_t read_only = KFD_ALLOC_GTT & ~(uint32_t)KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE;
	void *nothing;

	memset(t, 0, sizeof(*t));
	t->log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (t->log < 0 || lseek(t->log, 0, SEEK_END) < 0)
		die("no /dev/kmsg");
	if (kfd_open(&t->dev) || kfd_save_create(&t->dev, &t->save) ||
	    event_page_user(&t->dev, &t->page, &t->inactive) ||
	    event_create(&t->dev, KFD_IOC_EVENT_HW_EXCEPTION, true, &t->exception) ||
	    event_create(&t->dev, KFD_IOC_EVENT_MEMORY, true, &t->fault) ||
	    kfd_bo_create(&t->dev, &t->constant, KFD_PAGE, read_only) ||
	    kfd_bo_create(&t->dev, &t->code, KFD_PAGE, KFD_ALLOC_GTT))
		die("the device does not open");
	nothing = kfd_reserve(4 * KFD_PAGE, KFD_PAGE);
	t->nothing = (uintptr_t)nothing;
}

static void close_all(struct trouble *t)
{
	close(t->log);
	munmap(t->page.cpu, t->page.size);
	kfd_bo_destroy(&t->dev, &t->code);
	kfd_bo_destroy(&t->dev, &t->constant);
	kfd_save_destroy(&t->dev, &t->save);
	kfd_close(&t->dev);
}

int main(void)
{
	char base[OBJECTS_MAX];
	struct neighbour n;
	struct trouble t;
	unsigned int i;

	tap_start();
	if (!objects_base(base, 0))
		die("the GPU is in use");
	neighbour_start(&n);
	open_all(&t);
	for (i = 0; i < scenario_count; i++)
		run(&t, &n, &scenarios[i]);
	tap_ok(neighbour_ended(&n), "the neighbour never missed anything");
	close_all(&t);
	tap_ok(objects_return_to(base, timeout_ms()), "nothing is left behind");
	return tap_end();
}
