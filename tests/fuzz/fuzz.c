// SPDX-License-Identifier: GPL-2.0
/*
 * Processes of several threads make calls of all kinds with good, nearly good and bad
 * arguments, write to their doorbells, change their memory, and are killed in the middle.
 * Beside them a process that does nothing wrong goes on, and afterwards all of the driver's
 * counts are back where they were.
 *
 * fuzz [CALLS [SEED]]
 *
 * The same seed makes the same choices in each thread; the interleaving of threads and
 * processes differs from run to run.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "call.h"
#include "child.h"
#include "neighbour.h"
#include "objects.h"
#include "pool.h"
#include "tap.h"
#include "touch.h"

#define PROCESSES	4u
#define THREADS		3u
#define RETURN_MS	30000u
/* In fewer calls chance decides whether each ioctl succeeds: some are made once in 500. */
#define FEW		40000u
/* Interval of the progress reports. */
#define SAY_NS		30000000000ull

static uint64_t wanted;

static void *thread(void *seed)
{
	pool_seed((uintptr_t)seed);
	for (;;) {
		switch (below(8)) {
		case 0:
		case 1:
			fuzz_drm();
			break;
		case 2:
		case 3:
			fuzz_mm();
			break;
		default:
			fuzz_kfd();
		}
	}
	return NULL;
}

static pid_t process_start(uint64_t seed)
{
	const pid_t pid = child_fork();

	if (pid == 0) {
		/* A runaway process must not take down the guest. */
		const struct rlimit memory = { 4ull << 30, 4ull << 30 };
		pthread_t other;

		setrlimit(RLIMIT_AS, &memory);
		pool_seed(seed);
		pool_start();
		touch_start();
		begin_kfd();
		for (uintptr_t i = 1; i < THREADS; i++)
			pthread_create(&other, NULL, thread,
				       (void *)(uintptr_t)(seed * THREADS + i));
		thread((void *)(uintptr_t)(seed * THREADS));
	}
	return pid;
}

/* True if each of @numbers succeeded and failed; prints those that did not. */
static bool all_seen(const char *name, const struct tally *tally, const unsigned char *numbers,
		     unsigned int count)
{
	bool all = true;

	for (unsigned int i = 0; i < count; i++) {
		const uint64_t good = tally->good[numbers[i]], bad = tally->bad[numbers[i]];

		if (good && bad)
			continue;
		tap_note("%s 0x%02x: %llu times well, %llu times with an error", name, numbers[i],
			 (unsigned long long)good, (unsigned long long)bad);
		all = false;
	}
	return all;
}

static uint64_t sum(const struct tally *tally)
{
	uint64_t good = 0;

	for (unsigned int i = 0; i < NUMBERS; i++)
		good += tally->good[i];
	return good;
}

/* Every ioctl that can succeed: not ALLOC_QUEUE_GWS, as there is no GWS. */
static const unsigned char kfd_numbers[] = {
	0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x11, 0x12, 0x13,
	0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1c, 0x1d, 0x1f, 0x21, 0x23, 0x24, 0x25,
};
static const unsigned char drm_numbers[] = {
	0x00, 0x09, 0x0c, 0x2d, 0x2e, 0x40, 0x41, 0x45, 0x46, 0x47, 0x48, 0x50,
};

int main(int argc, char **argv)
{
	char base[OBJECTS_MAX];
	pid_t pids[PROCESSES], other;
	unsigned int killed = 0, ended = 0;
	unsigned long long began, said;
	uint64_t seed;
	long rounds;

	wanted = argc > 1 ? strtoull(argv[1], NULL, 0) : work(60000, 6000);
	seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	tap_start();
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (counts == MAP_FAILED || kfd_find_gpu(&gpu))
		die("no GPU, or no memory");
	/* The first use may create lasting objects; the base line follows it. */
	tap_ok(neighbour_once(), "a copy beforehand");
	if (!objects_base(base, 0))
		die("the GPU is in use");
	tap_note("seed %llu", (unsigned long long)seed);
	other = neighbour_start();
	pool_seed(seed);
	began = said = now_ns();
	for (unsigned int i = 0; i < PROCESSES; i++)
		pids[i] = process_start(++seed);
	while (atomic_load(&counts->calls) < wanted) {
		const unsigned int i = below(PROCESSES);

		usleep(1000 * (50 + below(400)));
		kill(pids[i], SIGKILL);
		if (child_status(pids[i]) >= 0)
			ended++;
		else
			killed++;
		pids[i] = process_start(++seed);
		if (now_ns() - said > SAY_NS) {
			const uint64_t calls = atomic_load(&counts->calls);

			said = now_ns();
			tap_note("%llu calls, %llu a second, %u processes; seed %llu goes on from here",
				 (unsigned long long)calls, calls * 1000000000ull / (said - began),
				 killed + ended, (unsigned long long)seed);
		}
	}
	for (unsigned int i = 0; i < PROCESSES; i++)
		child_kill(pids[i]);
	tap_note("%llu calls a second",
		 (unsigned long long)atomic_load(&counts->calls) * 1000000000ull /
		 (now_ns() - began));
	tap_ok(killed > 0,
	       "%llu calls, %llu of KFD's and %llu of DRM's with success; %u processes killed in the middle",
	       (unsigned long long)atomic_load(&counts->calls),
	       (unsigned long long)sum(&counts->kfd),
	       (unsigned long long)sum(&counts->drm), killed);
	tap_ok(!ended, "none of them ended by itself (%u did)", ended);
	if (wanted >= FEW) {
		tap_ok(all_seen("KFD", &counts->kfd, kfd_numbers, sizeof(kfd_numbers)),
		       "each ioctl of KFD was answered with success and with an error");
		tap_ok(all_seen("DRM", &counts->drm, drm_numbers, sizeof(drm_numbers)),
		       "each ioctl of the render node was answered with success and with an error");
	}
	rounds = neighbour_end(other);
	tap_ok(rounds > 0, "a process beside them went on (%ld rounds)", rounds);
	tap_ok(objects_return_to(base, RETURN_MS), "all that is counted is back at the base line");
	tap_ok(neighbour_once(), "a copy afterwards");
	return tap_end();
}
