/* SPDX-License-Identifier: GPL-2.0 */
/* The bad packets of compute_bad.c, and their data. */
#ifndef RKFD_TEST_COMPUTE_BAD_H
#define RKFD_TEST_COMPUTE_BAD_H

#include <stdbool.h>

#include "kfd_compute.h"

/* In the page of control of an AQL queue: parts of an amd_queue_t, and room. */
#define INACTIVE	0xc0
#define INACTIVE_SIGNAL	0x280
#define NEVER		0x300	/* a signal or dword that never changes */
#define MARK		0x340	/* no bad packet gets as far as writing here */

/* Values of queue_inactive_signal. */
#define BAD_DIMENSIONS	2
#define BAD_PACKET	32
#define BAD_VENDOR	256

/* Results of the packets. */
enum outcome {
	NOT_PRESENT,	/* a fault at the address, where nothing is mapped */
	READ_ONLY,	/* a fault at the address, which is not writable */
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
	unsigned int pages;		/* the fault is on one of so many from there on */
	/* the packet continues behind the end of the ring's content */
	bool partial;
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

/* The GPU's address of byte @byte of the bad queue's page of control. */
static inline uint64_t at(const struct trouble *t, size_t byte)
{
	return kfd_compute_address(&t->bad, byte);
}

#endif /* RKFD_TEST_COMPUTE_BAD_H */
