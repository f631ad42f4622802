/* SPDX-License-Identifier: GPL-2.0 */
/* Copies by the HIP runtime: what is called, and what it takes of the GPU. */
#ifndef RKFD_TEST_HIP_COPY_H
#define RKFD_TEST_HIP_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hip/hip_runtime_api.h>

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
	HOW_ASYNC,		/* hipMemcpyAsync and hipStreamSynchronize */
	HOW_3D,			/* hipMemcpy3D, of 7 layers of 64 rows */
};

enum way {
	TO_DEVICE,
	TO_HOST,
	/* Both ends on the device, without its compute units. */
	WITHIN,
};

struct call {
	enum way way;
	enum how how;
	enum host_kind host;
	size_t bytes;
};

/* What the GPU and the kernel were asked to do. */
struct counts {
	unsigned int doorbells;	/* stores to doorbells: SDMA and compute */
	unsigned int jobs;	/* drm_run_job */
	unsigned int aql;	/* AQL packets */
	unsigned int pm4;	/* PM4 packets */
	unsigned int copies;	/* copy packets of SDMA */
	unsigned int mapped;	/* ranges mapped to the GPU */
};

extern hipStream_t stream;

/* Makes the call @c on buffers of its own; whether the data is right, and what the call alone took. */
bool call_run(const struct call *c, struct counts *counts);
/* What the call is, for people; in a buffer that the next call overwrites. */
const char *call_name(const struct call *c);
/* Whether this release of HIP has it. */
bool call_exists(const struct call *c);

void counts_open(void);
struct counts counts_now(void);
struct counts counts_since(const struct counts *before);
/* What it says of the path that a copy of @bytes took. */
const char *counts_path(const struct counts *c, const struct call *call);

#endif /* RKFD_TEST_HIP_COPY_H */
