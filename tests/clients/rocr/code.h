/* SPDX-License-Identifier: GPL-2.0 */
/* Compiled kernels and their dispatch. Failures end the program. */
#ifndef RKFD_TEST_CODE_H
#define RKFD_TEST_CODE_H

#include <stdint.h>

#include "hsa.h"

/* Items of a work-group of all of these kernels. */
#define GROUP	256u

/* The kernels of kernels.hip, which lie beside the program. */
struct code {
	hsa_code_object_reader_t reader;
	hsa_executable_t executable;
	int fd;
};

struct kernel {
	uint64_t object;
	uint32_t private, group;
};

void code_load(struct code *code);
void code_unload(struct code *code);
struct kernel code_kernel(const struct code *code, const char *name);
/* Starts @items items of a kernel; @done becomes 0 when they have ended. */
void kernel_start(hsa_queue_t *queue, const struct kernel *kernel, uint32_t items,
		  void *arguments, hsa_signal_t done);

#endif /* RKFD_TEST_CODE_H */
