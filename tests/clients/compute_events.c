// SPDX-License-Identifier: GPL-2.0
/*
 * Events that compute queues set: RELEASE_MEM with an interrupt, and completion signals of AQL
 * packets with an event mailbox. Each interrupt wakes the process that it is for, and a lost
 * one costs time only.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/asleep.h"
#include "common/child.h"
#include "model.h"
#include "tap.h"
#include "kfd_compute.h"
#include "kfd_event.h"

#define RING		(16u << 10)
#define EVENTS		3u
#define SOON_MS		KFD_HANG_MS
#define NOT_MS		300u
#define ROUNDS		100u
#define LOST		5u
/* The possible cost of a lost interrupt: waiters poll ten times in a second. */
#define LOST_MS		KFD_HANG_MS
/* In the page of control: the queue waits for it. */
#define GATE		0x300

struct client {
	struct kfd_dev dev;
	struct kfd_save save;
	struct kfd_bo page;
	struct kfd_compute queue;
	volatile uint64_t *slots;
	uint32_t id[EVENTS];
};

static bool client_open(struct client *c, bool aql)
{
	unsigned int i;

	memset(c, 0, sizeof(*c));
	if (kfd_open(&c->dev) || kfd_save_create(&c->dev, &c->save) ||
	    event_page_user(&c->dev, &c->page, &c->id[0]) ||
	    kfd_compute_create(&c->dev, &c->queue, &c->save, aql, RING))
		return false;
	c->slots = c->page.cpu;
	for (i = 1; i < EVENTS; i++)
		if (event_create(&c->dev, KFD_IOC_EVENT_SIGNAL, true, &c->id[i]))
			return false;
	return true;
}

static void client_close(struct client *c)
{
	kfd_compute_destroy(&c->dev, &c->queue);
	kfd_save_destroy(&c->dev, &c->save);
	kfd_close(&c->dev);
}

static uint64_t slot_address(const struct client *c, uint32_t id)
{
	return (uintptr_t)c->page.cpu + 8 * id;
}

static struct aql_signal *completion(const struct client *c)
{
	return (struct aql_signal *)((char *)c->queue.control.cpu + KFD_COMPUTE_SIGNAL);
}

/* Makes the queue write to the slot of event @id and interrupt with @context. */
static bool submit(struct client *c, uint32_t id, uint32_t context)
{
	struct aql_signal *signal = completion(c);
	struct aql_packet packet;
	struct packets p = { 0 };

	if (!c->queue.aql) {
		pm4_release(&p, slot_address(c, id), id, EVENT_SLOTS);
		p.dwords[p.count - 1] = context;
		return kfd_compute_pm4(&c->queue, &p);
	}
	memset(signal, 0, sizeof(*signal));
	signal->value = 1;
	signal->mailbox = slot_address(c, id);
	signal->event = context;
	aql_barrier(&packet, AQL_BARRIER_AND, NULL, 0,
		    kfd_compute_address(&c->queue, KFD_COMPUTE_SIGNAL));
	return kfd_compute_aql(&c->queue, &packet, 1);
}

static bool is_quiet(const struct client *c, unsigned int event)
{
	return event_wait(&c->dev, c->id[event], 0) == ETIMEDOUT;
}

/*
 * When the queue has done its work: true if the driver notices the slot. No waiter is there to
 * look into it.
 */
static bool noted(struct client *c, uint32_t id)
{
	const uint64_t end = kfd_now_ms() + SOON_MS;

	if (!kfd_compute_works(&c->queue, SOON_MS))
		return false;
	while (c->slots[id] != EVENT_UNSIGNALED) {
		if (kfd_now_ms() > end)
			return false;
		usleep(1000);
	}
	return true;
}

/* Each time the queue sets the event when this thread sleeps already. */
static bool wakes(struct client *c, unsigned int rounds, unsigned int ms)
{
	unsigned int i;

	for (i = 0; i < rounds; i++) {
		const uint32_t id = c->id[i % EVENTS];
		struct packets gate = { 0 };
		struct asleep asleep;
		bool ok;

		pm4_wait_memory(&gate, kfd_compute_address(&c->queue, GATE), 1);
		asleep_begin(&asleep, (volatile uint32_t *)kfd_compute_qword(&c->queue, GATE));
		ok = kfd_compute_submit(&c->queue, &gate) && submit(c, id, id) &&
		     !event_wait(&c->dev, id, ms);
		if (!asleep_end(&asleep) || !ok) {
			tap_note("round %u", i);
			return false;
		}
		/* The work is done before the interrupt. */
		if (c->queue.aql && completion(c)->value != 0)
			return false;
	}
	return true;
}

static bool names_one(struct client *c)
{
	const uint32_t id = c->id[1];

	return submit(c, id, id) && noted(c, id) && is_quiet(c, 0) && is_quiet(c, 2) &&
	       !event_wait(&c->dev, id, 0) && is_quiet(c, 1);
}

/* A number that belongs to no event: all slots are scanned. */
static bool scans(struct client *c)
{
	const uint32_t contexts[] = { EVENT_SLOTS - 1, EVENT_SLOTS, 4000, 0x0fffffff, UINT32_MAX };
	unsigned int i;

	for (i = 0; i < sizeof(contexts) / sizeof(contexts[0]); i++) {
		const uint32_t context = contexts[i];

		/* One slot that the queue has written to, and one that another writer has. */
		c->slots[c->id[2]] = 1;
		if (!submit(c, c->id[0], context) || !noted(c, c->id[0]) ||
		    !noted(c, c->id[2]) || !is_quiet(c, 1) ||
		    event_wait(&c->dev, c->id[0], 0) || event_wait(&c->dev, c->id[2], 0)) {
			tap_note("context 0x%x", context);
			return false;
		}
	}
	return true;
}

/*
 * Number 0 is in interrupts without meaning, and this GPU's firmware never sends it for an
 * event: waiters poll.
 */
static bool without_number(struct client *c)
{
	return submit(c, c->id[1], 0) && !event_wait(&c->dev, c->id[1], SOON_MS) &&
	       is_quiet(c, 0) && is_quiet(c, 2);
}

/* An interrupt that names an event whose slot was not written to is an old one. */
static bool ignores_old(struct client *c)
{
	struct packets p = { 0 };

	pm4_release(&p, kfd_compute_address(&c->queue, KFD_COMPUTE_FENCE), ++c->queue.fence,
		    c->id[1]);
	return kfd_compute_submit(&c->queue, &p) &&
	       kfd_compute_wait(&c->queue, KFD_COMPUTE_FENCE, c->queue.fence, SOON_MS) &&
	       event_wait(&c->dev, c->id[1], NOT_MS) == ETIMEDOUT;
}

/* A process with events of the same numbers: interrupts of the other's are not for it. */
static int bystander(bool aql, int ready, int go)
{
	struct client c;
	char word = 'r';

	if (!client_open(&c, aql))
		return 1;
	c.slots[c.id[1]] = 1;
	if (write(ready, &word, 1) != 1 || read(go, &word, 1) != 1)
		return 2;
	if (c.slots[c.id[1]] != 1)
		return 3;
	c.slots[c.id[1]] = EVENT_UNSIGNALED;
	if (!wakes(&c, EVENTS, SOON_MS))
		return 4;
	client_close(&c);
	return 0;
}

static bool have_an_owner(struct client *c)
{
	int ready[2], go[2], status = -1;
	char word = 'g';
	pid_t pid;
	bool ok;

	if (pipe(ready) || pipe(go))
		die("no pipe");
	pid = child_fork();
	if (pid == 0)
		_exit(bystander(c->queue.aql, ready[1], go[0]));
	close(ready[1]);
	ok = read(ready[0], &word, 1) == 1 && names_one(c) && scans(c);
	usleep(NOT_MS * 1000);
	if (write(go[1], &word, 1) == 1)
		status = child_status(pid);
	if (status)
		tap_note("status of the other process: %d", status);
	close(ready[0]);
	close(go[0]);
	close(go[1]);
	return ok && status == 0;
}

/* The device's message to the CPU is lost; its writes to memory are not. */
static bool survives_loss(struct client *c)
{
	unsigned int i;

	for (i = 0; i < LOST; i++)
		if (!model_command("drop-interrupt 1") || !wakes(c, 1, LOST_MS))
			return false;
	return wakes(c, ROUNDS, SOON_MS);
}

static void run(bool aql)
{
	const char *kind = aql ? "AQL signals" : "RELEASE_MEM";
	struct client c;

	if (!client_open(&c, aql))
		die("a queue cannot be made");
	tap_ok(wakes(&c, ROUNDS, SOON_MS), "%s: %u waits end by an interrupt", kind, ROUNDS);
	tap_ok(names_one(&c), "%s: the event that is named is set, and no other", kind);
	tap_ok(scans(&c), "%s: with a number of no event, the slots are looked into", kind);
	tap_ok(without_number(&c), "%s: without a number, a wait ends too", kind);
	tap_ok(ignores_old(&c), "%s: an interrupt without a written slot sets nothing", kind);
	tap_ok(have_an_owner(&c), "%s: another process is not told", kind);
	if (model_present())
		tap_ok(survives_loss(&c), "%s: a wait ends though its interrupt is lost", kind);
	else
		tap_skip("lost interrupts", "no model that could lose them");
	client_close(&c);
}

int main(void)
{
	tap_start();
	run(false);
	run(true);
	return tap_end();
}
