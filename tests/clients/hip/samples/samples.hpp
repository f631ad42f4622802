/* SPDX-License-Identifier: GPL-2.0 */
/* Whole HIP programs in small: the parts that they have in common. */
#ifndef RKFD_TEST_HIP_SAMPLES_H
#define RKFD_TEST_HIP_SAMPLES_H

#include <cstdint>
#include <vector>

#include <hip/hip_runtime.h>

extern "C" {
#include "tap.h"
}

/* Ends the program if @error is one; @what names the call. */
void must(hipError_t error, const char *what);
#define MUST(call)	must(call, #call)

/*
 * Kernels are launched between these two. The second waits for them, and ends the program if
 * they failed.
 */
void begin();
void finish(const char *kernel);
/* One result: a line of TAP or of the table. */
void result(bool ok, const char *name, ...) __attribute__((format(printf, 2, 3)));

/*
 * True if kernels may call the host, as printf, assertions and calls of unknown functions do;
 * notes that @name is left out if not.
 */
bool has_hostcalls(const char *name);

/* The same numbers each time. */
static __host__ __device__ inline uint32_t number(uint32_t n)
{
	n = (n ^ n >> 16) * 0x45d9f3bu;
	n = (n ^ n >> 16) * 0x45d9f3bu;
	return n ^ n >> 16;
}

/* Memory on the device with a copy on the host. */
template <typename T> struct Buffer {
	std::vector<T> host;
	T *device = nullptr;

	explicit Buffer(size_t count, T value = T()) : host(count, value)
	{
		MUST(hipMalloc((void **)&device, count * sizeof(T)));
		up();
	}
	Buffer(const Buffer &) = delete;
	~Buffer()
	{
		(void)hipFree(device);
	}
	size_t size() const
	{
		return host.size();
	}
	T &operator[](size_t n)
	{
		return host[n];
	}
	void up()
	{
		MUST(hipMemcpy(device, host.data(), size() * sizeof(T), hipMemcpyHostToDevice));
	}
	void down()
	{
		MUST(hipMemcpy(host.data(), device, size() * sizeof(T), hipMemcpyDeviceToHost));
	}
};

/* Counts wrong values. */
template <typename T, typename F> size_t differing(const Buffer<T> &buffer, F wanted)
{
	size_t bad = 0;

	for (size_t n = 0; n < buffer.size(); n++)
		bad += buffer.host[n] != wanted(n);
	return bad;
}

/* Each prints its results. */
void vectors();
void tiles();
void reductions();
void atomics();
void bodies();
void small_floats();
void control();
void modules();
void printing();
void assertions();
/* The program whose end assertions() checks; its status. */
int failure();

#endif /* RKFD_TEST_HIP_SAMPLES_H */
