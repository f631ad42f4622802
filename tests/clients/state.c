// SPDX-License-Identifier: GPL-2.0
/*
 * The driver's settings in the device, as the model has them: after the bind, while queues
 * exist that have worked, and after they are gone. One line each: state WHEN REGISTER VALUE.
 * scripts/state compares two drivers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kfd.h"
#include "kfd_compute.h"
#include "model.h"
#include "tap.h"

#define ANSWER		(4u << 20)
#define RING_SIZE	4096u
#define SETTLE_US	200000u

static void must(int err, const char *what)
{
	if (err)
		die("%s: %s", what, strerror(err));
}

/* The string that begins at the quote at @at; returns the text behind it. */
static char *next_text(char *at, char **text)
{
	char *end = strchr(at + 1, '"');

	if (!end)
		die("the model's answer ends in a string");
	*end = '\0';
	*text = at + 1;
	return end + 1;
}

#define REGISTERS	128u

/* The registers of a loaded HQD. */
struct hqd {
	const char *slot;
	const char *name[REGISTERS], *value[REGISTERS];
	unsigned int count;
	bool user;
};

/* A user's queue has an address space of its own; the scheduler chooses its slot. */
static void print_hqd(const char *when, const struct hqd *hqd)
{
	unsigned int i;

	for (i = 0; i < hqd->count; i++)
		printf("state %s %s.%s %s\n", when, hqd->user ? "user" : hqd->slot, hqd->name[i],
		       hqd->value[i]);
}

/* As "GC VM_L2_CNTL": the block, and the register. */
static void join(char *name)
{
	while ((name = strchr(name, ' ')))
		*name = ':';
}

/* Prints the model's answer: an object of strings, and of such objects. */
static void dump(const char *when)
{
	static char answer[ANSWER];
	char *at = answer, *name, *value;
	struct hqd hqd = { .slot = NULL };

	if (!model_ask("state", answer, sizeof(answer)))
		die("the model does not tell its state");
	while ((at = strpbrk(at, "\"}"))) {
		if (*at == '}') {
			print_hqd(when, &hqd);
			hqd = (struct hqd){ .slot = NULL };
			at++;
			continue;
		}
		at = next_text(at, &name);
		join(name);
		at += strspn(at, ": ");
		if (*at == '{') {
			hqd.slot = name;
			continue;
		}
		at = next_text(at, &value);
		if (!hqd.slot) {
			printf("state %s %s %s\n", when, name, value);
		} else if (hqd.count < REGISTERS) {
			hqd.user |= !strcmp(name, "GC:CP_HQD_VMID");
			hqd.name[hqd.count] = name;
			hqd.value[hqd.count++] = value;
		}
	}
}

int main(void)
{
	struct kfd_compute compute;
	struct kfd_queue queue;
	struct kfd_save save;
	struct kfd_dev dev;

	dump("bind");
	must(kfd_open(&dev), "open");
	must(kfd_queue_create(&dev, &queue, RING_SIZE), "SDMA queue");
	must(kfd_queue_finish(&queue, timeout_ms()), "SDMA queue at work");
	must(kfd_save_create(&dev, &save), "save area");
	must(kfd_compute_create(&dev, &compute, &save, false, RING_SIZE), "compute queue");
	/* On rkfd it is loaded after the call: only after that a doorbell leaves its mark there. */
	usleep(SETTLE_US);
	if (!kfd_compute_works(&compute, timeout_ms()))
		die("the compute queue does not work");
	usleep(SETTLE_US);
	dump("queues");
	must(kfd_compute_destroy(&dev, &compute), "destroy");
	must(kfd_queue_destroy(&dev, &queue), "destroy");
	usleep(SETTLE_US);
	dump("destroyed");
	kfd_close(&dev);
	return EXIT_SUCCESS;
}
