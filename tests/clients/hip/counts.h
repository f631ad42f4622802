/* SPDX-License-Identifier: GPL-2.0 */
/* The work of the GPU and the kernel, from the kernel's trace and the device model's summary. */
#ifndef RKFD_TEST_HIP_COUNTS_H
#define RKFD_TEST_HIP_COUNTS_H

struct counts {
	unsigned int doorbells;	/* stores to doorbells: SDMA and compute */
	unsigned int jobs;	/* drm_run_job */
	unsigned int aql;	/* AQL packets */
	unsigned int kernels;	/* of them, dispatches */
	unsigned int waves;	/* that the dispatches launched */
	unsigned int pm4;	/* PM4 packets */
	unsigned int copies;	/* copy packets of SDMA */
	unsigned int mapped;	/* ranges mapped to the GPU */
};

void counts_open(void);
struct counts counts_now(void);
struct counts counts_since(const struct counts *before);

#endif /* RKFD_TEST_HIP_COUNTS_H */
