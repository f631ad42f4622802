// SPDX-License-Identifier: GPL-2.0
/*
 * Interrupt entries without a PASID, of VMIDs that change hands: the errors that they report are
 * those of the process that had the VMID when the entry came, however late it is handled.
 */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kfd_event.h"
#include "kfd_harness.h"
#include "model.h"
#include "packets.h"
#include "tap.h"

#define RING_SIZE	(64u << 10)
#define BYTES		(64u << 10)
#define SOON_MS		60000u
/* More than the driver has VMIDs, with the two that fail. */
#define BYSTANDERS	6u
#define FAILING		2u
#define ROUNDS		work(20, 6)
/* The pages of a copy, of which none is mapped. */
#define BAD_PAGES	10000u
#define TRAPS		2000u
#define TRAPS_AT_ONCE	100u
/* An error is reported that soon, unless its entry was lost in a flood. */
#define REPORT_MS	1500u
/* Shorter than the time until the driver looks for entries whose interrupt is lost. */
#define LOSS_MS		50u

struct shared {
	volatile int stop;
	volatile unsigned int copies[BYSTANDERS];
	volatile unsigned int reports[FAILING];
};

/* The events that a process gets for an error of its queues. */
struct told {
	uint32_t memory, hardware;
};

static int told_create(const struct kfd_dev *dev, struct told *told)
{
	return event_create(dev, KFD_IOC_EVENT_MEMORY, true, &told->memory) ||
	       event_create(dev, KFD_IOC_EVENT_HW_EXCEPTION, true, &told->hardware);
}

static int bystander(struct shared *shared, unsigned int number)
{
	struct kfd_queue queue;
	struct kfd_bo from, to;
	struct told told;
	struct kfd_dev dev;

	if (kfd_open(&dev) || told_create(&dev, &told) ||
	    kfd_bo_create(&dev, &from, BYTES, KFD_ALLOC_GTT) ||
	    kfd_bo_create(&dev, &to, BYTES, KFD_ALLOC_VRAM) ||
	    kfd_queue_create(&dev, &queue, RING_SIZE))
		return 1;
	while (!shared->stop) {
		memset(from.cpu, (int)(shared->copies[number] + 1), BYTES);
		if (kfd_queue_copy(&queue, (uintptr_t)to.cpu, (uintptr_t)from.cpu, BYTES, SOON_MS))
			return 2;
		if (memcmp(from.cpu, to.cpu, BYTES))
			return 3;
		if (event_wait(&dev, told.memory, 0) != ETIMEDOUT)
			return 4;
		if (event_wait(&dev, told.hardware, 0) != ETIMEDOUT)
			return 5;
		shared->copies[number]++;
	}
	return 0;
}

/* Thousands of faults, of which only the first is retried. */
static void fault(struct kfd_queue *queue)
{
	const size_t bytes = (size_t)BAD_PAGES * KFD_PAGE;
	const uintptr_t bad = (uintptr_t)kfd_reserve(2 * bytes, KFD_PAGE);
	struct packets p = { 0 };

	sdma_copy(&p, bad, bad + bytes, bytes);
	kfd_queue_submit(queue, p.dwords, p.count);
}

/* A packet that the engine refuses, behind thousands of interrupts. */
static void refuse(struct kfd_queue *queue)
{
	static const uint32_t bad[] = { 0xfe, 0, 0 };
	struct packets p = { 0 };
	unsigned int i;

	for (i = 0; i < TRAPS_AT_ONCE; i++)
		sdma_trap(&p, 0);
	for (i = 0; i < TRAPS; i += TRAPS_AT_ONCE)
		kfd_queue_submit(queue, p.dwords, p.count);
	kfd_queue_submit(queue, bad, 3);
}

static const struct failing {
	const char *name;
	void (*submit)(struct kfd_queue *queue);
} failing[] = {
	{ "copies of memory that is not mapped", fault },
	{ "packets that are refused", refuse },
};

/* Fails again and again, each time with a new queue. */
static int fails(struct shared *shared, unsigned int number)
{
	struct kfd_queue queue;
	struct told told;
	struct kfd_dev dev;
	unsigned int i;

	if (kfd_open(&dev) || told_create(&dev, &told))
		return 1;
	for (i = 0; i < ROUNDS; i++) {
		struct kfd_event_data data[] = {
			{ .event_id = told.memory }, { .event_id = told.hardware },
		};

		if (kfd_queue_create(&dev, &queue, RING_SIZE))
			return 2;
		failing[number].submit(&queue);
		if (!event_wait_many(&dev, data, 2, false, REPORT_MS))
			shared->reports[number]++;
		if (kfd_queue_destroy(&dev, &queue))
			return 3;
	}
	return 0;
}

FIXTURE(nameless) {
	char none;
};

FIXTURE_SETUP(nameless)
{
	if (!model_present())
		SKIP(return, "no model");
	ASSERT_TRUE(model_command("omit-pasid on"));
}

FIXTURE_TEARDOWN(nameless)
{
	EXPECT_TRUE(model_command("omit-pasid off"));
}

TEST_F(nameless, errors_have_an_owner)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t beside[BYSTANDERS], pid[FAILING];
	unsigned int i, ended = 0;
	int status;

	ASSERT_NE(MAP_FAILED, (void *)shared);
	for (i = 0; i < BYSTANDERS; i++) {
		beside[i] = fork();
		ASSERT_LE(0, beside[i]);
		if (beside[i] == 0)
			_exit(bystander(shared, i));
	}
	for (i = 0; i < FAILING; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (pid[i] == 0)
			_exit(fails(shared, i));
	}
	while (ended < FAILING) {
		pid_t one = waitpid(pid[ended], &status, WNOHANG);

		ASSERT_LE(0, one);
		if (one) {
			EXPECT_EQ(0, status);
			TH_LOG("%s: %u of %u were reported", failing[ended].name,
			       shared->reports[ended], ROUNDS);
			EXPECT_NE(0, shared->reports[ended]);
			ended++;
			continue;
		}
		/* Entries are handled late then, when their VMIDs have other owners. */
		EXPECT_TRUE(model_command("drop-interrupt 1"));
		usleep(LOSS_MS * 1000);
	}
	shared->stop = 1;
	for (i = 0; i < BYSTANDERS; i++) {
		ASSERT_EQ(beside[i], waitpid(beside[i], &status, 0));
		EXPECT_EQ(0, status)
			TH_LOG("bystander %u, after %u copies", i, shared->copies[i]);
		EXPECT_NE(0, shared->copies[i]);
	}
}

KFD_HARNESS_MAIN
