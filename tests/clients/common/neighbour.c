// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdlib.h>
#include <sys/select.h>
#include <unistd.h>

#include "child.h"
#include "kfd_compute.h"
#include "kfd_event.h"
#include "neighbour.h"
#include "tap.h"

#define RING		(16u << 10)
#define TIMEOUT_MS	KFD_HANG_MS

struct self {
	struct kfd_dev dev;
	struct kfd_save save;
	struct kfd_compute queue;
	uint32_t exception, fault;
};

static bool self_open(struct self *self)
{
	return !kfd_open(&self->dev) && !kfd_save_create(&self->dev, &self->save) &&
	       !event_create(&self->dev, KFD_IOC_EVENT_HW_EXCEPTION, false, &self->exception) &&
	       !event_create(&self->dev, KFD_IOC_EVENT_MEMORY, false, &self->fault) &&
	       !kfd_compute_create(&self->dev, &self->queue, &self->save, true, RING);
}

static bool told_of_nothing(const struct self *self)
{
	return event_wait(&self->dev, self->exception, 0) == ETIMEDOUT &&
	       event_wait(&self->dev, self->fault, 0) == ETIMEDOUT;
}

static bool readable(int fd)
{
	struct timeval now = { 0 };
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	return select(fd + 1, &set, NULL, NULL, &now) == 1;
}

/* Works from each request to go until the request to stop; ends where any work is lost. */
static int run(int from, int to)
{
	struct self self;
	char word;

	if (!self_open(&self) || !kfd_compute_works(&self.queue, TIMEOUT_MS) ||
	    write(to, "r", 1) != 1)
		return 1;
	while (read(from, &word, 1) == 1 && word == 'g') {
		do {
			if (!kfd_compute_works(&self.queue, TIMEOUT_MS))
				return 1;
		} while (!readable(from));
		if (!told_of_nothing(&self) || read(from, &word, 1) != 1 ||
		    write(to, "y", 1) != 1)
			return 1;
	}
	return kfd_compute_destroy(&self.dev, &self.queue) != 0;
}

void neighbour_start(struct neighbour *n)
{
	int to[2], from[2];
	char word;

	if (pipe(to) || pipe(from))
		die("no pipe");
	n->pid = child_fork();
	if (n->pid == 0) {
		close(to[1]);
		close(from[0]);
		exit(run(to[0], from[1]));
	}
	close(to[0]);
	close(from[1]);
	n->to = to[1];
	n->from = from[0];
	if (read(n->from, &word, 1) != 1)
		die("the neighbour does not start");
}

void neighbour_go(const struct neighbour *n)
{
	if (write(n->to, "g", 1) != 1)
		die("the neighbour is gone");
}

bool neighbour_worked(const struct neighbour *n)
{
	char word;

	return write(n->to, "s", 1) == 1 && read(n->from, &word, 1) == 1 && word == 'y';
}

bool neighbour_ended(struct neighbour *n)
{
	close(n->to);
	return child_status(n->pid) == 0;
}
