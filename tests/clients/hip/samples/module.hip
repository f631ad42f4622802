// SPDX-License-Identifier: GPL-2.0
/* A code object alone: hip_module.co, which modules.hip loads. */
#include <hip/hip_runtime.h>

__device__ uint32_t launches;

extern "C" __global__ void scale(uint32_t *out, uint8_t offset, uint32_t factor)
{
	const uint32_t n = blockIdx.x * blockDim.x + threadIdx.x;

	out[n] = n * factor + offset;
	if (n == 0)
		launches++;
}
