/* SPDX-License-Identifier: GPL-2.0 */
/* Copies by the HIP runtime: what is called, and what it takes of the GPU. */
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
	HOW_3D,			/* hipMemcpy3D, of 7 layers of 64 rows */
};

enum way {
	TO_DEVICE,
	TO_HOST,
	HOST_TO_HOST,
	WITHIN,			/* both ends on the device */
	WITHIN_NO_CU,		/* and it is to do without its compute units */
};

struct call {
	enum way way;
	enum how how;
	enum host_kind host;
	size_t bytes;
};

extern hipStream_t stream;

/* Makes the call @c on buffers of its own; whether the data is right, and what the call alone took. */
bool call_run(const struct call *c, struct counts *counts);
/* What the call is, for people; in a buffer that the next call overwrites. */
const char *call_name(const struct call *c);
/* Whether this release of HIP has it. */
bool call_exists(const struct call *c);

/* hipMemset in all its forms. */
void fills(void);

#endif /* RKFD_TEST_HIP_COPY_H */
