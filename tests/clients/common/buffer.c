// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include <hsakmt/hsakmt.h>

#include "buffer.h"
#include "tap.h"

#define PAGE	4096u

const char *const buffer_kind_name[BUFFER_KINDS] = {
	[BUFFER_VRAM] = "vram",
	[BUFFER_GTT] = "gtt",
	[BUFFER_USERPTR] = "userptr",
	[BUFFER_REGISTERED] = "registered",
};

static HsaMemFlags flags_of(enum buffer_kind kind)
{
	HsaMemFlags flags = { .Value = 0 };

	flags.ui32.HostAccess = 1;
	flags.ui32.PageSize = HSA_PAGE_SIZE_4KB;
	if (kind == BUFFER_VRAM) {
		flags.ui32.NonPaged = 1;
		flags.ui32.NoSubstitute = 1;
		flags.ui32.CoarseGrain = 1;
	} else {
		/* Non-paged system memory is GTT, paged is a userptr. */
		flags.ui32.NonPaged = kind == BUFFER_GTT;
		flags.ui32.NoNUMABind = 1;
	}
	return flags;
}

static void *own_pages(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap of %zu bytes: %s", size, strerror(errno));
	if (hsaKmtRegisterMemory(p, size) != HSAKMT_STATUS_SUCCESS)
		die("hsaKmtRegisterMemory of %zu bytes failed", size);
	return p;
}

static void *allocated(const struct gpu *gpu, enum buffer_kind kind, size_t size)
{
	const uint32_t node = kind == BUFFER_VRAM ? gpu->node : 0;
	void *p = NULL;

	if (hsaKmtAllocMemory(node, size, flags_of(kind), &p) != HSAKMT_STATUS_SUCCESS)
		die("hsaKmtAllocMemory of %zu bytes of %s failed", size,
		    buffer_kind_name[kind]);
	return p;
}

void buffer_create(const struct gpu *gpu, struct buffer *buffer,
		   enum buffer_kind kind, size_t size)
{
	HSAuint64 address = 0;
	void *p;

	size = (size + PAGE - 1) / PAGE * PAGE;
	p = kind == BUFFER_REGISTERED ? own_pages(size) : allocated(gpu, kind, size);
	if (hsaKmtMapMemoryToGPU(p, size, &address) != HSAKMT_STATUS_SUCCESS)
		die("hsaKmtMapMemoryToGPU of %zu bytes of %s failed", size,
		    buffer_kind_name[kind]);
	*buffer = (struct buffer){
		.kind = kind,
		.size = size,
		.cpu = p,
		.gpu = address ? address : (uintptr_t)p,
	};
}

void buffer_destroy(struct buffer *buffer)
{
	if (!buffer->cpu)
		return;
	if (hsaKmtUnmapMemoryToGPU(buffer->cpu) != HSAKMT_STATUS_SUCCESS)
		die("hsaKmtUnmapMemoryToGPU of %s failed", buffer_kind_name[buffer->kind]);
	if (buffer->kind == BUFFER_REGISTERED) {
		if (hsaKmtDeregisterMemory(buffer->cpu) != HSAKMT_STATUS_SUCCESS)
			die("hsaKmtDeregisterMemory failed");
		munmap(buffer->cpu, buffer->size);
	} else if (hsaKmtFreeMemory(buffer->cpu, buffer->size) != HSAKMT_STATUS_SUCCESS) {
		die("hsaKmtFreeMemory of %s failed", buffer_kind_name[buffer->kind]);
	}
	buffer->cpu = NULL;
}
