// SPDX-License-Identifier: GPL-2.0
/*
 * Managed memory: hipMallocManaged, prefetches and advice, the CPU and a kernel at work on the
 * same memory, and more of it than there is VRAM. With HSA_XNACK=1 also memory from malloc,
 * which the runtime does not know. "--more BYTES" makes two processes use that much each, and
 * nothing else.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

#include <hip/hip_runtime.h>

extern "C" {
#include "hip/memory.h"
}

#define MUST(call)	must(call, #call)

namespace {

constexpr uint32_t GROUP = 256;
constexpr size_t COUNT = SIZE / 4;

/* Each element once. */
__global__ void add(uint32_t *p, size_t count, uint32_t value)
{
	const size_t n = blockIdx.x * (size_t)GROUP + threadIdx.x;

	if (n < count)
		p[n] += value;
}

/* Each again and again: every second page, and by one each time. */
__global__ void count_up(uint32_t *p, uint32_t times)
{
	const size_t words = 1024, n = (blockIdx.x / 4 * 2) * words + blockIdx.x % 4 * GROUP + threadIdx.x;

	for (uint32_t k = 0; k < times; k++)
		atomicAdd_system(&p[n], 1);
}

void launch_add(uint32_t *p, size_t count, uint32_t value)
{
	add<<<dim3((count + GROUP - 1) / GROUP), dim3(GROUP)>>>(p, count, value);
	must(hipGetLastError(), "add");
}

void run_add(uint32_t *p, size_t count, uint32_t value)
{
	launch_add(p, count, value);
	MUST(hipDeviceSynchronize());
}

uint32_t *managed(size_t bytes)
{
	void *p = nullptr;

	MUST(hipMallocManaged(&p, bytes, hipMemAttachGlobal));
	return static_cast<uint32_t *>(p);
}

/* True if they are the values of fill(), plus @more. */
bool holds_more(const uint32_t *p, uint32_t seed, uint32_t more)
{
	size_t i;

	for (i = 0; i < COUNT; i++)
		if (p[i] != number(seed, i) + more)
			return false;
	return true;
}

int attribute(hipDeviceAttribute_t which)
{
	int value = -1;

	MUST(hipDeviceGetAttribute(&value, which, 0));
	return value;
}

void offered(bool xnack)
{
	tap_ok(attribute(hipDeviceAttributeManagedMemory) == 1, "managed memory is offered");
	tap_ok(attribute(hipDeviceAttributeConcurrentManagedAccess) == 1, "and may be used by both at once");
	tap_ok(attribute(hipDeviceAttributePageableMemoryAccess) == xnack, "all memory may be used: %d", xnack);
}

void both_in_turns()
{
	uint32_t *p = managed(SIZE);
	bool right = true;

	fill(p, 1);
	for (uint32_t k = 1; k <= 4; k++) {
		run_add(p, COUNT, 3);
		right &= holds_more(p, 1, 3 * k);
	}
	tap_ok(right, "the CPU and kernels in turns");
	MUST(hipFree(p));
}

void copies()
{
	uint32_t *p = managed(SIZE), *back = static_cast<uint32_t *>(malloc(SIZE));
	void *device = nullptr;

	MUST(hipMalloc(&device, SIZE));
	fill(p, 2);
	MUST(hipMemcpy(device, p, SIZE, hipMemcpyDefault));
	MUST(hipMemset(p, 0, SIZE));
	MUST(hipDeviceSynchronize());
	const bool cleared = p[0] == 0 && p[COUNT - 1] == 0;
	MUST(hipMemcpy(p, device, SIZE, hipMemcpyDefault));
	MUST(hipMemcpy(back, p, SIZE, hipMemcpyDefault));
	tap_ok(cleared && holds(p, 2) && holds(back, 2), "copies to it, from it, and hipMemset");
	MUST(hipFree(device));
	MUST(hipFree(p));
	free(back);
}

int last_prefetch(const uint32_t *p)
{
	int where = -3;

	MUST(hipMemRangeGetAttribute(&where, sizeof(where), hipMemRangeAttributeLastPrefetchLocation, p, SIZE));
	return where;
}

void prefetched()
{
	uint32_t *p = managed(SIZE);
	bool right = true, there = true;

	fill(p, 3);
	for (uint32_t k = 1; k <= 3; k++) {
		MUST(hipMemPrefetchAsync(p, SIZE, 0, nullptr));
		launch_add(p, COUNT, 5);
		MUST(hipDeviceSynchronize());
		there &= last_prefetch(p) == 0;
		MUST(hipMemPrefetchAsync(p, SIZE, hipCpuDeviceId, nullptr));
		MUST(hipDeviceSynchronize());
		there &= last_prefetch(p) == hipCpuDeviceId;
		right &= holds_more(p, 3, 5 * k);
	}
	tap_ok(right, "prefetched to the GPU, and back");
	tap_ok(there, "where it was prefetched to last");
	MUST(hipFree(p));
}

void advised()
{
	uint32_t *p = managed(SIZE);
	int read_mostly = -1, preferred = -3;
	hipMemRangeAttribute which[] = {
		hipMemRangeAttributeReadMostly, hipMemRangeAttributePreferredLocation,
	};
	/*
	 * hipMemRangeGetAttributes of HIP 5.7 and 6.4 refuses a null among the first sizes[0]
	 * of them, however few there are.
	 */
	void *values[sizeof(read_mostly)] = { &read_mostly, &preferred, &preferred, &preferred };
	size_t sizes[] = { sizeof(read_mostly), sizeof(preferred) };

	fill(p, 4);
	MUST(hipMemAdvise(p, SIZE, hipMemAdviseSetPreferredLocation, 0));
	MUST(hipMemAdvise(p, SIZE, hipMemAdviseSetAccessedBy, 0));
	MUST(hipMemAdvise(p, SIZE, hipMemAdviseSetReadMostly, 0));
	MUST(hipMemRangeGetAttributes(values, sizes, which, 2, p, SIZE));
	tap_ok(read_mostly == 1 && preferred == 0, "advice is kept: read mostly %d, preferred %d", read_mostly, preferred);
	MUST(hipMemAdvise(p, SIZE, hipMemAdviseUnsetReadMostly, 0));
	MUST(hipMemAdvise(p, SIZE, hipMemAdviseUnsetPreferredLocation, 0));
	MUST(hipMemRangeGetAttributes(values, sizes, which, 2, p, SIZE));
	tap_ok(read_mostly == 0 && preferred == hipInvalidDeviceId, "and taken back: %d, %d", read_mostly, preferred);
	run_add(p, COUNT, 7);
	tap_ok(holds_more(p, 4, 7), "kernels use memory with advice");
	MUST(hipFree(p));
}

/* A kernel increments every second page; the CPU those between, as long as that runs. */
void both_at_once()
{
	const uint32_t pages = 16, words = 1024, times = 2000;
	uint32_t *p = managed(pages * words * 4), rounds = 0;
	size_t n, wrong = 0;

	memset(p, 0, pages * words * 4);
	count_up<<<dim3(pages / 2 * 4), dim3(GROUP)>>>(p, times);
	must(hipGetLastError(), "count_up");
	do {
		for (n = 0; n < pages * words; n++)
			if (n / words % 2)
				p[n]++;
		rounds++;
	} while (hipStreamQuery(nullptr) == hipErrorNotReady);
	MUST(hipDeviceSynchronize());
	for (n = 0; n < pages * words; n++)
		wrong += p[n] != (n / words % 2 ? rounds : times);
	tap_ok(!wrong, "the CPU beside a kernel: %u rounds, %zu wrong", rounds, wrong);
	MUST(hipFree(p));
}

/* Memory that the runtime has not been told of. */
void of_malloc()
{
	uint32_t *p = static_cast<uint32_t *>(malloc(SIZE));
	uint32_t on_stack[64] = { 0 };

	fill(p, 6);
	run_add(p, COUNT, 9);
	tap_ok(holds_more(p, 6, 9), "a kernel uses memory of malloc's");
	run_add(on_stack, 64, 11);
	tap_ok(on_stack[0] == 11 && on_stack[63] == 11, "and the stack");
	free(p);
}

/* Uses @bytes again and again; true if all of it is right. */
bool uses(size_t bytes, uint32_t seed)
{
	const size_t count = bytes / 4, part = (size_t)64 << 20;
	uint32_t *p = managed(bytes);
	size_t n, wrong = 0;

	for (n = 0; n < count; n++)
		p[n] = number(seed, n);
	for (uint32_t k = 0; k < 2; k++) {
		for (n = 0; n < bytes; n += part) {
			const size_t size = bytes - n < part ? bytes - n : part;

			MUST(hipMemPrefetchAsync(p + n / 4, size, 0, nullptr));
			launch_add(p + n / 4, size / 4, seed);
		}
		MUST(hipDeviceSynchronize());
	}
	for (n = 0; n < count; n++)
		wrong += p[n] != number(seed, n) + 2 * seed;
	MUST(hipFree(p));
	if (wrong)
		printf("# %zu of %zu are wrong\n", wrong, count);
	return !wrong;
}

/* In a process of its own, as HIP needs it. */
pid_t start(size_t bytes, uint32_t seed)
{
	const pid_t pid = fork();

	if (!pid)
		_exit(!uses(bytes, seed));
	return pid;
}

} // namespace

int main(int argc, char **argv)
{
	const char *wanted = getenv("HSA_XNACK");
	const bool xnack = wanted && strcmp(wanted, "1") == 0;

	tap_start();
	if (argc == 3 && strcmp(argv[1], "--more") == 0) {
		const size_t bytes = strtoull(argv[2], nullptr, 0);
		pid_t pids[2];
		int status, bad = 0;

		for (uint32_t n = 0; n < 2; n++)
			pids[n] = start(bytes, 17 + n);
		for (pid_t pid : pids) {
			if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status))
				bad++;
		}
		tap_ok(!bad, "two processes use %zu MiB each", bytes >> 20);
		return tap_end();
	}
	offered(xnack);
	both_in_turns();
	copies();
	prefetched();
	advised();
	both_at_once();
	if (xnack)
		of_malloc();
	return tap_end();
}
