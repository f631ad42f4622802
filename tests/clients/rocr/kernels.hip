// SPDX-License-Identifier: GPL-2.0
// Kernels of hsa_kernels.c and hsa_queue_error.c, in groups of 256. They have no implicit arguments, so none need to be
// filled in.
#define GLOBAL extern "C" __attribute__((global))

static inline __attribute__((device)) unsigned int here()
{
	return __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x();
}

GLOBAL void add(const unsigned int *a, const unsigned int *b, unsigned int *out)
{
	out[here()] = a[here()] + b[here()];
}

// Each group's sum, through LDS.
GLOBAL void sum(const unsigned int *a, const unsigned int *, unsigned int *out)
{
	static __attribute__((shared)) unsigned int part[256];
	const unsigned int t = __builtin_amdgcn_workitem_id_x();

	part[t] = a[here()];
	for (unsigned int s = 128; s; s >>= 1) {
		__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
		__builtin_amdgcn_s_barrier();
		__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
		if (t < s)
			part[t] += part[t + s];
	}
	if (!t)
		out[__builtin_amdgcn_workgroup_id_x()] = part[0];
}

// An array in private memory; the data alone decides which place of it is used.
GLOBAL void shuffle(const unsigned int *a, const unsigned int *b, unsigned int *out)
{
	unsigned int mine[64];

	for (unsigned int n = 0; n < 64; n++)
		mine[(n + b[here()]) & 63] = n * a[here()];
	out[here()] = mine[b[here() ^ 1] & 63] + mine[a[here() ^ 1] & 63];
}

// As a failed assertion does.
GLOBAL void gives_up()
{
	__builtin_trap();
}

// This is no instruction.
GLOBAL void nonsense()
{
	asm volatile(".long 0xbfff0000");
}
