/* SPDX-License-Identifier: GPL-2.0 */
/* Memory of each kind, mapped to the GPU. Failures end the program. */
#ifndef RKFD_TEST_BUFFER_H
#define RKFD_TEST_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#include "gpu.h"

enum buffer_kind {
	BUFFER_VRAM,		/* visible to the CPU */
	BUFFER_GTT,		/* the kernel's pages */
	BUFFER_USERPTR,		/* libhsakmt's anonymous pages */
	BUFFER_REGISTERED,	/* the program's own pages, registered */
	BUFFER_KINDS,
};

extern const char *const buffer_kind_name[BUFFER_KINDS];

struct buffer {
	enum buffer_kind kind;
	size_t size;		/* whole pages */
	uint8_t *cpu;
	uint64_t gpu;		/* differs from cpu for registered memory */
};

void buffer_create(const struct gpu *gpu, struct buffer *buffer,
		   enum buffer_kind kind, size_t size);
void buffer_destroy(struct buffer *buffer);

#endif /* RKFD_TEST_BUFFER_H */
