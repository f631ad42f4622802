// SPDX-License-Identifier: GPL-2.0
/* Kernels of a code object that lies beside the program, and is loaded by name. */
#include <cstring>
#include <string>

#include <libgen.h>
#include <unistd.h>

#include "samples.hpp"

static std::string beside_the_program(const char *name)
{
	char path[512];
	const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (length < 0)
		die("the program does not know where it is");
	path[length] = '\0';
	return std::string(dirname(path)) + "/" + name;
}

void modules()
{
	constexpr uint32_t groups = 10, size = 128, count = groups * size;
	Buffer<uint32_t> out(count);
	hipFunction_t function;
	hipModule_t module;
	hipDeviceptr_t global;
	size_t bytes, bad;
	uint32_t factor = 5, launches;
	uint8_t offset = 7;

	MUST(hipModuleLoad(&module, beside_the_program("hip_module.co").c_str()));
	MUST(hipModuleGetFunction(&function, module, "scale"));
	MUST(hipModuleGetGlobal(&global, &bytes, module, "launches"));
	result(bytes == sizeof(launches), "a variable of a module");

	void *arguments[] = { &out.device, &offset, &factor };

	begin();
	MUST(hipModuleLaunchKernel(function, groups, 1, 1, size, 1, 1, 0, nullptr, arguments, nullptr));
	finish("scale");
	out.down();
	bad = differing(out, [&](size_t n) { return (uint32_t)n * factor + offset; });
	result(!bad, "hipModuleLaunchKernel, arguments by address");

	struct {
		uint32_t *out;
		uint8_t offset;
		uint32_t factor;
	} packed = { out.device, 9, 11 };
	size_t length = sizeof(packed);
	void *extra[] = { HIP_LAUNCH_PARAM_BUFFER_POINTER, &packed, HIP_LAUNCH_PARAM_BUFFER_SIZE, &length,
			  HIP_LAUNCH_PARAM_END };

	begin();
	MUST(hipModuleLaunchKernel(function, groups, 1, 1, size, 1, 1, 0, nullptr, nullptr, extra));
	finish("scale");
	out.down();
	bad = differing(out, [&](size_t n) { return (uint32_t)n * packed.factor + packed.offset; });
	result(!bad, "hipModuleLaunchKernel, arguments in one piece");

	MUST(hipMemcpyDtoH(&launches, global, sizeof(launches)));
	result(launches == 2, "what a module's kernels wrote to its variable");
	result(hipModuleGetFunction(&function, module, "none") == hipErrorNotFound, "a kernel that is not there");
	MUST(hipModuleUnload(module));
}
