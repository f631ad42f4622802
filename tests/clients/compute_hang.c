// SPDX-License-Identifier: GPL-2.0
/*
 * A compute queue that hangs, on the word of the test: its process gets rid of
 * it in bounded time, and a neighbour's queue does all of its work meanwhile.
 * Only with the model.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/model.h"
#include "common/tap.h"
#include "kfd_compute.h"

#define RING		(16u << 10)
#define TIMEOUT_MS	20000u
/* Two seconds to drain, half a second each for the resets; and a slow machine. */
#define BOUND_MS	10000u

/* One line to a process and one back. */
struct neighbour {
	pid_t pid;
	int to, from;
};

struct owner {
	struct kfd_dev dev;
	struct kfd_save save;
	struct kfd_compute queue;
};

static void own(struct owner *owner, bool aql)
{
	if (kfd_open(&owner->dev) || kfd_save_create(&owner->dev, &owner->save) ||
	    kfd_compute_create(&owner->dev, &owner->queue, &owner->save, aql, RING))
		die("a queue cannot be made");
}

/* Works until it is told to stop, whenever it has been told to go; ends where any work is lost. */
static int neighbour_main(int from, int to)
{
	struct owner owner;
	char word;

	own(&owner, true);
	if (!kfd_compute_works(&owner.queue, TIMEOUT_MS) || write(to, "r", 1) != 1)
		return 1;
	while (read(from, &word, 1) == 1 && word == 'g') {
		for (;;) {
			fd_set set;
			struct timeval now = { 0 };

			if (!kfd_compute_works(&owner.queue, TIMEOUT_MS))
				return 1;
			FD_ZERO(&set);
			FD_SET(from, &set);
			if (select(from + 1, &set, NULL, NULL, &now) == 1)
				break;
		}
		if (read(from, &word, 1) != 1 || write(to, "y", 1) != 1)
			return 1;
	}
	return kfd_compute_destroy(&owner.dev, &owner.queue) != 0;
}

static void start(struct neighbour *n)
{
	int to[2], from[2];
	char word;

	fflush(stdout);
	if (pipe(to) || pipe(from))
		die("no pipe");
	n->pid = fork();
	if (n->pid == 0) {
		close(to[1]);
		close(from[0]);
		exit(neighbour_main(to[0], from[1]));
	}
	close(to[0]);
	close(from[1]);
	n->to = to[1];
	n->from = from[0];
	if (n->pid < 0 || read(n->from, &word, 1) != 1)
		die("the neighbour does not start");
}

static void go(const struct neighbour *n)
{
	if (write(n->to, "g", 1) != 1)
		die("the neighbour is gone");
}

/* Whether it has done work since it was told to go, and none was lost. */
static bool worked(const struct neighbour *n)
{
	char word;

	return write(n->to, "s", 1) == 1 && read(n->from, &word, 1) == 1 && word == 'y';
}

static bool ended(struct neighbour *n)
{
	int status;

	close(n->to);
	return waitpid(n->pid, &status, 0) == n->pid && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0;
}

/* The next queue that has something to do hangs: nobody else has, by now. */
static bool hang(struct owner *owner)
{
	return model_command("hang-queue 1") && !kfd_compute_works(&owner->queue, 300);
}

static unsigned long long since_ms(unsigned long long begin)
{
	return (now_ns() - begin) / 1000000;
}

static void destroyed(struct owner *owner, const struct neighbour *n, bool aql)
{
	const char *kind = aql ? "AQL" : "PM4";
	unsigned long long begin, took;
	struct kfd_compute other;
	bool ok;

	ok = !kfd_compute_create(&owner->dev, &owner->queue, &owner->save, aql, RING);
	tap_ok(ok && kfd_compute_works(&owner->queue, TIMEOUT_MS) && hang(owner),
	       "a queue of %s packets hangs", kind);
	go(n);
	begin = now_ns();
	ok = !kfd_compute_destroy(&owner->dev, &owner->queue);
	took = since_ms(begin);
	tap_ok(ok && took < BOUND_MS, "it is taken off in bounded time (%llu ms)", took);
	tap_ok(worked(n), "the neighbour's queue goes on with no lost work");
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
	int hangs[2], status;
	char word;
	pid_t pid;
	bool ok;

	fflush(stdout);
	if (pipe(hangs))
		die("no pipe");
	pid = fork();
	if (pid == 0) {
		own(&owner, false);
		word = hang(&owner) ? 'y' : 'n';
		_exit(write(hangs[1], &word, 1) != 1);
	}
	close(hangs[1]);
	tap_ok(pid > 0 && read(hangs[0], &word, 1) == 1 && word == 'y',
	       "a queue hangs that is not destroyed");
	go(n);
	begin = now_ns();
	ok = waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
	took = since_ms(begin);
	tap_ok(ok && took < BOUND_MS, "its process ends in bounded time (%llu ms)", took);
	tap_ok(worked(n), "the neighbour's queue goes on with no lost work");
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
	start(&n);
	if (kfd_open(&owner.dev) || kfd_save_create(&owner.dev, &owner.save))
		die("the device does not open");
	destroyed(&owner, &n, false);
	destroyed(&owner, &n, true);
	left_behind(&n);
	tap_ok(ended(&n), "the neighbour never missed anything");
	return tap_end();
}
