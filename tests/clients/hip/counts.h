/* SPDX-License-Identifier: GPL-2.0 */
/* The work of the GPU and the kernel, from the kernel's trace and the device model's summary. */
#ifndef RKFD_TEST_HIP_COUNTS_H
#define RKFD_TEST_HIP_COUNTS_H

#define ELEMENTS	5

struct counts {
	unsigned int doorbells;	/* stores to doorbells: SDMA and compute */
	unsigned int jobs;	/* drm_sched_job_run of the process's queues */
	unsigned int kernel_jobs;	/* the same of the kernel's own rings */
	unsigned int aql;	/* AQL packets */
	unsigned int kernels;	/* of them, dispatches */
	unsigned int waves;	/* that the dispatches launched */
	unsigned int pm4;	/* PM4 packets */
	unsigned int copies;	/* copy packets of SDMA */
	unsigned int windows[ELEMENTS];	/* sub-window copies by the log2 of an element's bytes */
	unsigned int mapped;	/* ioctls that map memory to the GPU */
};

/* With rkfd or amdgpu, whose queues have no jobs. */
void counts_open(void);
struct counts counts_now(void);
struct counts counts_since(const struct counts *before);

#endif /* RKFD_TEST_HIP_COUNTS_H */
