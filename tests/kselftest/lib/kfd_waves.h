/* SPDX-License-Identifier: GPL-2.0 */
/* Programs of waves.s on a PM4 queue; see kfd_compute.h. */
#ifndef RKFD_TEST_KFD_WAVES_H
#define RKFD_TEST_KFD_WAVES_H

#include "kfd_compute.h"

/* The words at the beginning of waves.s, in their order. */
enum waves_program {
	WAVES_SMALL,
	WAVES_MIDDLE,
	WAVES_LARGE,
	WAVES_HUGE,
	WAVES_SHARED,
	WAVES_WHERE,
	WAVES_TOUCH,	/* no records: waves->data is pages, one an item */
	WAVES_PROGRAMS,
};

/* What the programs need of the hardware. */
struct waves_shape {
	const char *name;
	unsigned int arch, acc;	/* vector registers */
	unsigned int waves;	/* of a group */
	unsigned int lds;	/* bytes */
};

extern const struct waves_shape waves_shape[WAVES_PROGRAMS];

/* A dispatch of one of them, and what it and the CPU share. */
struct waves {
	struct kfd_bo code;
	struct kfd_bo data;
	unsigned int count;
	enum waves_program program;
};

/* What a wave writes, from WAVES_RECORDS on. */
struct waves_record {
	uint32_t rounds;
	uint32_t result;	/* WAVES_GOOD when all was as it was */
	uint32_t lanes;		/* that differed, in any vector register or LDS */
	uint32_t scalars;	/* that differed */
	uint32_t hw_id;		/* of WAVES_WHERE, which ends at once */
	uint32_t more[11];
};

#define WAVES_RECORDS	64u
#define WAVES_GOOD	0x600d0000u

/* Makes the buffers for at most @most waves. */
int waves_create(const struct kfd_dev *dev, struct waves *waves, unsigned int most);
int waves_destroy(const struct kfd_dev *dev, struct waves *waves);
volatile struct waves_record *waves_record(const struct waves *waves, unsigned int wave);

/*
 * Appends what starts @count waves of @program. If waves_stop() has been called since waves_start(), they end after
 * a round.
 */
void waves_dispatch(struct packets *p, const struct waves *waves, enum waves_program program,
		    unsigned int count, bool trap);
/* Starts @count waves of @program, a multiple of its group's. Without @trap they have no trap handler. */
bool waves_start(struct waves *waves, struct kfd_compute *queue, enum waves_program program,
		 unsigned int count, bool trap);
/* Tells them to stop. */
void waves_stop(struct waves *waves);
/* Whether all of them do a round from now on. */
bool waves_go_on(const struct waves *waves, unsigned int ms);
/* Whether all of them have ended, which waves_stop() has told them. */
bool waves_ended(const struct waves *waves, unsigned int ms);
/* How many of them found something changed; prints the first. */
unsigned int waves_bad(const struct waves *waves);
/* The rounds of all of them together. */
uint64_t waves_rounds(const struct waves *waves);

#endif /* RKFD_TEST_KFD_WAVES_H */
