// SPDX-License-Identifier: GPL-2.0
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <unistd.h>

#include "code.h"
#include "tap.h"

void code_load(struct code *code)
{
	char folder[256], path[512], name[64];
	ssize_t length;

	length = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
	if (length < 0)
		die("the program does not know where it is");
	folder[length] = '\0';
	must(hsa_agent_get_info(gpu, HSA_AGENT_INFO_NAME, name), "agent's name");
	snprintf(path, sizeof(path), "%s/kernels.%s.co", dirname(folder), name);
	code->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (code->fd < 0)
		die("%s cannot be opened", path);
	must(hsa_code_object_reader_create_from_file(code->fd, &code->reader),
	     "code object reader");
	must(hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT,
				       NULL, &code->executable), "hsa_executable_create_alt");
	must(hsa_executable_load_agent_code_object(code->executable, gpu, code->reader, NULL,
						   NULL), "load");
	must(hsa_executable_freeze(code->executable, NULL), "freeze");
}

void code_unload(struct code *code)
{
	must(hsa_executable_destroy(code->executable), "hsa_executable_destroy");
	must(hsa_code_object_reader_destroy(code->reader), "hsa_code_object_reader_destroy");
	close(code->fd);
}

struct kernel code_kernel(const struct code *code, const char *name)
{
	hsa_executable_symbol_t symbol;
	struct kernel kernel;

	must(hsa_executable_get_symbol_by_name(code->executable, name, &gpu, &symbol), name);
	must(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT,
					    &kernel.object),
	     "kernel object");
	must(hsa_executable_symbol_get_info(symbol,
					    HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE,
					    &kernel.private), "private segment");
	must(hsa_executable_symbol_get_info(symbol,
					    HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE,
					    &kernel.group), "group segment");
	return kernel;
}

void kernel_start(hsa_queue_t *queue, const struct kernel *kernel, uint32_t items,
		  void *arguments, hsa_signal_t done)
{
	const uint64_t index = hsa_queue_add_write_index_relaxed(queue, 1);
	hsa_kernel_dispatch_packet_t *packet =
		(hsa_kernel_dispatch_packet_t *)queue->base_address + index % queue->size;
	const uint32_t header = HSA_PACKET_TYPE_KERNEL_DISPATCH << HSA_PACKET_HEADER_TYPE |
		HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
		HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE;

	packet->workgroup_size_x = GROUP;
	packet->workgroup_size_y = 1;
	packet->workgroup_size_z = 1;
	packet->grid_size_x = items;
	packet->grid_size_y = 1;
	packet->grid_size_z = 1;
	packet->private_segment_size = kernel->private;
	packet->group_segment_size = kernel->group;
	packet->kernel_object = kernel->object;
	packet->kernarg_address = arguments;
	packet->completion_signal = done;
	__atomic_store_n((uint32_t *)packet, header | 1u << 16, __ATOMIC_RELEASE);
	hsa_signal_store_screlease(queue->doorbell_signal, index);
}
