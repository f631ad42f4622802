/* SPDX-License-Identifier: GPL-2.0 */
/* Programs of waves.s on a PM4 queue; see kfd_compute.h. */
#ifndef RKFD_TEST_KFD_WAVES_H
#define RKFD_TEST_KFD_WAVES_H

#include "kfd_compute.h"

/* The programs, in the order of the words at the beginning of waves.s. */
enum waves_program {
	WAVES_SMALL,
	WAVES_MIDDLE,
	WAVES_LARGE,
	WAVES_HUGE,
	WAVES_SHARED,
	WAVES_WHERE,
	WAVES_TOUCH,	/* no records: waves->data is pages, one for each item */
	/* These have struct waves_found instead of records. */
	WAVES_LEAVE,
	WAVES_FIND,
	WAVES_LEAVE_SCALARS,
	WAVES_FIND_SCALARS,
	WAVES_EXCEPTION, /* no records: dword 1 of waves->data is one of enum waves_wrong */
	WAVES_PROGRAMS,
};

/* What waves of WAVES_EXCEPTION do. */
enum waves_wrong {
	WAVES_ABORT,
	WAVES_TRAP,
	WAVES_ILLEGAL,
};

/* The hardware that a program needs. */
struct waves_shape {
	const char *name;
	unsigned int arch, acc;	/* vector registers */
	unsigned int waves;	/* of a group */
	unsigned int lds;	/* bytes */
};

extern const struct waves_shape waves_shape[WAVES_PROGRAMS];

/* A dispatch of one program, and the memory that it shares with the CPU. */
struct waves {
	struct kfd_bo code;
	struct kfd_bo data;
	unsigned int count;
	enum waves_program program;
};

/* The record that a wave writes, from WAVES_RECORDS on. */
struct waves_record {
	uint32_t rounds;
	uint32_t result;	/* WAVES_GOOD when nothing has changed */
	uint32_t lanes;		/* lanes that differed, in any vector register or LDS */
	uint32_t scalars;	/* scalar registers that differed */
	uint32_t hw_id;		/* of WAVES_WHERE, which ends at once */
	uint32_t more[11];
};

/*
 * What programs do that leave a secret in registers and LDS, and those that look for it. Their
 * waves stay until waves_stop().
 */
struct waves_found {
	uint32_t stop;
	uint32_t arrived;	/* waves that are through */
	uint32_t arch, acc;	/* dwords of VGPRs that had the secret */
	uint32_t lds;		/* dwords of LDS */
	uint32_t scalars;	/* SGPRs */
};

#define WAVES_RECORDS	64u
#define WAVES_GOOD	0x600d0000u

static inline volatile struct waves_found *waves_found(const struct waves *waves)
{
	return waves->data.cpu;
}

/* Makes the buffers for at most @most waves. */
int waves_create(const struct kfd_dev *dev, struct waves *waves, unsigned int most);
int waves_destroy(const struct kfd_dev *dev, struct waves *waves);
volatile struct waves_record *waves_record(const struct waves *waves, unsigned int wave);

/* The address of @program, and its COMPUTE_PGM_RSRC1. */
uint64_t waves_address(const struct waves *waves, enum waves_program program);
uint32_t waves_rsrc1(enum waves_program program);
/*
 * Appends the packets that start @count waves of @program. If waves_stop() has been called
 * since waves_start(), they end after a round.
 */
void waves_dispatch(struct packets *p, const struct waves *waves, enum waves_program program,
		    unsigned int count, bool trap);
/*
 * Starts @count waves of @program, a multiple of the group's size. Without @trap they have no
 * trap handler.
 */
bool waves_start(struct waves *waves, struct kfd_compute *queue, enum waves_program program,
		 unsigned int count, bool trap);
/*
 * SET_TRAP_HANDLER: a handler that reports exceptions of waves to the runtime, and ends them. The
 * exceptions are those in the dword at @codes, of the GPU's memory, or that of the trap if it is 0.
 */
int waves_set_handler(const struct kfd_dev *dev, const struct waves *waves, uint64_t codes);
/* Asks them to stop. */
void waves_stop(struct waves *waves);
/* True if each of them completes another round in time. */
bool waves_go_on(const struct waves *waves, unsigned int ms);
/* True if all of them have ended after waves_stop(). */
bool waves_ended(const struct waves *waves, unsigned int ms);
/* The number of waves that found a change; prints the first. */
unsigned int waves_bad(const struct waves *waves);
/* The sum of the rounds of all of them. */
uint64_t waves_rounds(const struct waves *waves);

#endif /* RKFD_TEST_KFD_WAVES_H */
