/* SPDX-License-Identifier: GPL-2.0 */
/* Copies by the HIP runtime: the calls, and the work of the GPU for them. */
#ifndef RKFD_TEST_HIP_COPY_H
#define RKFD_TEST_HIP_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hip/hip_runtime_api.h>

#include "counts.h"

#define COUNT_OF(a)	(sizeof(a) / sizeof((a)[0]))
#define KIB		((size_t)1 << 10)
#define MIB		((size_t)1 << 20)

/* Ends the program if @error is one; @what names the call. */
void must(hipError_t error, const char *what);

/* Host memory. */
enum host_kind {
	HOST_PAGEABLE,		/* malloc */
	HOST_PINNED,		/* hipHostMalloc */
	HOST_REGISTERED,	/* malloc and hipHostRegister */
	HOST_KINDS
};

enum how {
	HOW_MEMCPY,		/* hipMemcpy */
	HOW_DEFAULT,		/* hipMemcpy, which finds out by itself what the addresses are */
	HOW_ASYNC,		/* hipMemcpyAsync and hipStreamSynchronize */
	HOW_3D,			/* hipMemcpy3D */
};

enum way {
	TO_DEVICE,
	TO_HOST,
	HOST_TO_HOST,
	WITHIN,			/* both ends on the device */
	WITHIN_NO_CU,		/* without its compute units */
};

/* The layout of hipMemcpy3D's boxes in memory. */
struct box {
	size_t width;		/* bytes of a row */
	size_t rows, layers;
	size_t src_spare;	/* bytes behind each row of the source */
	size_t dst_spare;	/* and of the target */
};

struct call {
	enum way way;
	enum how how;
	enum host_kind host;
	size_t bytes;
	/* For HOW_3D. Without one: 7 layers of 64 rows, whose widths and pitches 4 divides. */
	const struct box *box;
};

extern hipStream_t stream;

/*
 * Makes the call @c on buffers of its own; true if the data is right. @counts is the work for
 * the call alone.
 */
bool call_run(const struct call *c, struct counts *counts);
/* A description of the call, in a buffer that the next call overwrites. */
const char *call_name(const struct call *c);
/* True if this release of HIP has it. */
bool call_exists(const struct call *c);

/* hipMemset in all its forms. */
void fills(void);

/* The way of a call, of which this was the work; in a buffer that the next call overwrites. */
const char *path_of(const struct counts *c, const struct call *call);
/*
 * Prints the way of copies whose sizes are around each threshold. False if data was wrong, or if
 * a threshold changed nothing.
 */
bool sweep(void);

#endif /* RKFD_TEST_HIP_COPY_H */
