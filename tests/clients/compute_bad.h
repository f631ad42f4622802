/* SPDX-License-Identifier: GPL-2.0 */
/* The bad packets of compute_bad.c, and what they are made with. */
#ifndef RKFD_TEST_COMPUTE_BAD_H
#define RKFD_TEST_COMPUTE_BAD_H

#include <stdbool.h>

#include "kfd_compute.h"

/* In the page of control of an AQL queue: parts of an amd_queue_t, and room. */
#define INACTIVE	0xc0
#define INACTIVE_SIGNAL	0x280
#define NEVER		0x300	/* a signal or dword that stays as it is */
#define MARK		0x340	/* nothing bad gets as far as writing here */

/* What queue_inactive_signal becomes. */
#define BAD_DIMENSIONS	2
#define BAD_PACKET	32
#define BAD_VENDOR	256

/* What comes of the packets. */
enum outcome {
	NOT_PRESENT,	/* a fault at the address, of which there is nothing */
	READ_ONLY,	/* a fault at the address, which may not be written to */
	REFUSED,	/* the queue stops; others of the process do not */
	WAITS,		/* nothing: the queue waits, or is busy, for ever */
};

struct trouble {
	struct kfd_dev dev;
	struct kfd_save save;
	struct kfd_bo page;		/* of events */
	struct kfd_bo constant;		/* for reading only */
	struct kfd_bo code;		/* indirect buffers */
	struct kfd_compute bad, other;
	uint64_t nothing;		/* an address where nothing is mapped */
	uint64_t address;		/* of the fault */
	unsigned int pages;		/* on one of so many from there on */
	bool partial;			/* the packet goes on where the ring does not */
	uint32_t exception, fault, inactive;
	int log;
};

struct scenario {
	const char *name;
	bool aql;
	enum outcome outcome;
	void (*pm4)(struct trouble *t, struct packets *p);
	void (*packet)(struct trouble *t, struct aql_packet *p);
	int value;			/* of queue_inactive_signal */
};

extern const struct scenario scenarios[];
extern const unsigned int scenario_count;

/* Where the GPU finds byte @byte of the bad queue's page of control. */
static inline uint64_t at(const struct trouble *t, size_t byte)
{
	return kfd_compute_address(&t->bad, byte);
}

#endif /* RKFD_TEST_COMPUTE_BAD_H */
