// SPDX-License-Identifier: GPL-2.0
/*
 * Compute queues of processes with XNACK on beside those of processes with it off: all get on,
 * though firmware of the MEC before version 98 must never have both.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kfd_compute.h"
#include "kfd_harness.h"
#include "kfd_svm.h"

#define COMPUTE_RING	(64u * 1024)
#define PROCESSES	4u
#define LOOP		32u
#define STEPS		5u

KFD_FIXTURE(xnack_mix)

/* Counts for ever, in steps that the other processes see. */
static int count(bool xnack, volatile unsigned int *steps)
{
	struct kfd_compute queue;
	struct kfd_bo loop, word;
	volatile uint64_t *counted;
	struct kfd_save save;
	struct kfd_dev dev;
	uint64_t seen = 0;

	if (kfd_open(&dev) || xnack_set(dev.fd, xnack) || kfd_save_create(&dev, &save) ||
	    kfd_bo_create(&dev, &loop, KFD_PAGE, KFD_ALLOC_GTT) ||
	    kfd_bo_create(&dev, &word, KFD_PAGE, KFD_ALLOC_GTT))
		return 1;
	counted = word.cpu;
	*counted = 0;
	if (kfd_compute_create(&dev, &queue, &save, false, COMPUTE_RING) ||
	    !kfd_compute_count(&queue, &loop, LOOP, (uintptr_t)word.cpu, 0))
		return 1;
	for (;;) {
		usleep(1000);
		if (*counted != seen) {
			seen = *counted;
			(*steps)++;
		}
	}
}

TEST_F(xnack_mix, all_get_on)
{
	volatile unsigned int *steps = kfd_share();
	unsigned int i, before[PROCESSES];
	uint64_t end;
	pid_t pid[PROCESSES];

	ASSERT_NE(NULL, steps);
	if (kfd_sched_is_direct())
		SKIP(return, "the driver itself schedules");
	for (i = 0; i < PROCESSES; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (pid[i] == 0)
			_exit(count(i & 1, &steps[i]));
	}
	end = kfd_now_ms() + KFD_HANG_MS;
	for (i = 0; i < PROCESSES; i++)
		while (!steps[i] && kfd_now_ms() < end)
			usleep(1000);
	/* Again, after all have had a turn. */
	for (i = 0; i < PROCESSES; i++)
		before[i] = steps[i];
	for (i = 0; i < PROCESSES; i++) {
		while (steps[i] < before[i] + STEPS && kfd_now_ms() < end)
			usleep(1000);
		EXPECT_LE(before[i] + STEPS, steps[i]) {
			TH_LOG("process %u, XNACK %s", i, i & 1 ? "on" : "off");
		}
	}
	/* Those of one kind need no turns. */
	for (i = 0; i < PROCESSES; i += 2) {
		EXPECT_EQ(0, waitpid(pid[i], NULL, WNOHANG));
		kill(pid[i], SIGKILL);
		waitpid(pid[i], NULL, 0);
	}
	for (i = 1; i < PROCESSES; i += 2) {
		before[i] = steps[i];
		while (steps[i] < before[i] + STEPS && kfd_now_ms() < end)
			usleep(1000);
		EXPECT_LE(before[i] + STEPS, steps[i]);
		kill(pid[i], SIGKILL);
		waitpid(pid[i], NULL, 0);
	}
}

KFD_HARNESS_MAIN
