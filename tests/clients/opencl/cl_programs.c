// SPDX-License-Identifier: GPL-2.0
/*
 * OpenCL: programs that the runtime's own compiler builds from source, with arguments, local
 * memory, atomics, doubles and printf; and a queue's operations on buffers.
 */
#define CL_TARGET_OPENCL_VERSION 200
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <CL/cl.h>

#include "common/pattern.h"
#include "tap.h"

#define GROUP	64u
#define COUNT	(200 * GROUP)
#define KIB	((size_t)1 << 10)
#define COUNT_OF(a)	(sizeof(a) / sizeof((a)[0]))

static const char *const source[] = {
	"kernel void add(global const int *a, global const int *b, global int *out)\n"
	"{ const size_t n = get_global_id(0); out[n] = a[n] + b[n]; }\n",

	"kernel void sums(global const uint *in, global uint *out, local uint *part)\n"
	"{\n"
	"	const uint n = get_local_id(0);\n"
	"	part[n] = in[get_global_id(0)];\n"
	"	for (uint half_ = get_local_size(0) / 2; half_ > 0; half_ /= 2) {\n"
	"		barrier(CLK_LOCAL_MEM_FENCE);\n"
	"		if (n < half_) part[n] += part[n + half_];\n"
	"	}\n"
	"	if (n == 0) out[get_group_id(0)] = part[0];\n"
	"}\n",

	"kernel void count(global const uint *in, volatile global uint *bins)\n"
	"{ atomic_inc(&bins[in[get_global_id(0)] % 16]); }\n",

	"kernel void roots(global double *values)\n"
	"{\n"
	"	const size_t n = get_global_id(0);\n"
	"	values[n] = sqrt(values[n]) + fma((double)n, 2.0, 1.0);\n"
	"}\n",

	"kernel void places(global uint4 *out)\n"
	"{\n"
	"	const size_t row = get_global_id(2) * get_global_size(1) + get_global_id(1);\n"
	"	const size_t n = row * get_global_size(0) + get_global_id(0);\n"
	"	out[n] = (uint4)(get_global_id(0), get_local_id(1), get_group_id(2),\n"
	"			 get_num_groups(0));\n"
	"}\n",

	"kernel void print(int number)\n"
	"{\n"
	"	if (get_global_id(0) % 50 == 0)\n"
	"		printf(\"item %d: %d %.2f\\n\", (int)get_global_id(0), number, 2.5f);\n"
	"}\n",
};

static cl_device_id device;
static cl_context context;
static cl_command_queue queue;
static cl_program program;

static void must(cl_int error, const char *what)
{
	if (error != CL_SUCCESS)
		die("%s: error %d", what, error);
}

static uint32_t number(uint32_t n)
{
	return n * 2654435761u + 12345;
}

static void open_device(void)
{
	static const cl_queue_properties profiled[] = {
		CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0
	};
	cl_platform_id platform;
	char name[256] = "", version[256] = "";
	cl_uint platforms = 0, devices = 0;
	cl_int error;

	must(clGetPlatformIDs(1, &platform, &platforms), "clGetPlatformIDs");
	must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_GPU, 1, &device, &devices), "clGetDeviceIDs");
	must(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof(name), name, NULL), "clGetDeviceInfo");
	must(clGetDeviceInfo(device, CL_DRIVER_VERSION, sizeof(version), version, NULL),
	     "clGetDeviceInfo");
	tap_note("%s, driver %s", name, version);
	tap_ok(platforms == 1 && devices == 1 &&
	       (strncmp(name, "gfx90a", 6) == 0 || strncmp(name, "gfx942", 6) == 0),
	       "one platform, one gfx90a or gfx942");
	context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
	must(error, "clCreateContext");
	queue = clCreateCommandQueueWithProperties(context, device, profiled, &error);
	must(error, "clCreateCommandQueueWithProperties");
}

static cl_int compile(const char *const *text, cl_uint count, cl_program *built, char *log,
		      size_t room)
{
	cl_int error;

	*built = clCreateProgramWithSource(context, count, (const char **)(uintptr_t)text, NULL,
					   &error);
	must(error, "clCreateProgramWithSource");
	error = clBuildProgram(*built, 1, &device, "", NULL, NULL);
	must(clGetProgramBuildInfo(*built, device, CL_PROGRAM_BUILD_LOG, room, log, NULL),
	     "the build's log");
	return error;
}

static void builds(void)
{
	static const char *const wrong[] = {
		"kernel void none(global int *p) { *p = missing; }\n",
	};
	static char log[16 * KIB];
	cl_program none;

	tap_ok(compile(source, COUNT_OF(source), &program, log, sizeof(log)) == CL_SUCCESS,
	       "a program is built from source");
	if (*log)
		tap_note("%s", log);
	tap_ok(compile(wrong, 1, &none, log, sizeof(log)) == CL_BUILD_PROGRAM_FAILURE &&
	       strstr(log, "missing"),
	       "one that is wrong is not, and the log says why");
	must(clReleaseProgram(none), "clReleaseProgram");
}

static cl_mem buffer_new(const void *data, size_t bytes)
{
	cl_int error;
	cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &error);

	must(error, "clCreateBuffer");
	if (data)
		must(clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, bytes, data, 0, NULL, NULL),
		     "clEnqueueWriteBuffer");
	return buffer;
}

static void buffer_read(cl_mem buffer, void *data, size_t bytes)
{
	must(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, bytes, data, 0, NULL, NULL),
	     "clEnqueueReadBuffer");
}

struct argument {
	size_t size;
	const void *value;
};

#define OF(x)	{ sizeof(x), &(x) }

static void launch(const char *name, cl_uint dims, const size_t *items, const size_t *group,
		   const struct argument *arguments, cl_uint count)
{
	cl_ulong queued, begin, end;
	cl_kernel kernel;
	cl_event event;
	cl_int error;

	kernel = clCreateKernel(program, name, &error);
	must(error, name);
	for (cl_uint n = 0; n < count; n++)
		must(clSetKernelArg(kernel, n, arguments[n].size, arguments[n].value),
		     "clSetKernelArg");
	must(clEnqueueNDRangeKernel(queue, kernel, dims, NULL, items, group, 0, NULL, &event),
	     "clEnqueueNDRangeKernel");
	must(clWaitForEvents(1, &event), "clWaitForEvents");
	must(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_QUEUED, 8, &queued, NULL),
	     "profile");
	must(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, 8, &begin, NULL),
	     "profile");
	must(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, 8, &end, NULL), "profile");
	if (begin > end || end - queued > 1000000ull * timeout_ms())
		die("%s: queued at %llu, began at %llu, ended at %llu", name,
		    (unsigned long long)queued, (unsigned long long)begin,
		    (unsigned long long)end);
	must(clReleaseEvent(event), "clReleaseEvent");
	must(clReleaseKernel(kernel), "clReleaseKernel");
}

static void lines_of_items(void)
{
	static uint32_t a[COUNT], b[COUNT], out[COUNT], bins[16], wanted[16];
	static double roots[COUNT];
	const size_t items = COUNT, group = GROUP;
	cl_mem x, y, z, few, wide;
	size_t bad = 0;

	for (uint32_t n = 0; n < COUNT; n++) {
		a[n] = number(n);
		b[n] = number(~n);
		roots[n] = (double)n * n;
		wanted[a[n] % 16]++;
	}
	x = buffer_new(a, sizeof(a));
	y = buffer_new(b, sizeof(b));
	z = buffer_new(out, sizeof(out));
	few = buffer_new(bins, sizeof(bins));
	wide = buffer_new(roots, sizeof(roots));

	launch("add", 1, &items, NULL, (struct argument[]){ OF(x), OF(y), OF(z) }, 3);
	buffer_read(z, out, sizeof(out));
	for (uint32_t n = 0; n < COUNT; n++)
		bad += out[n] != a[n] + b[n];
	tap_ok(!bad, "vector add");

	bad = 0;
	launch("sums", 1, &items, &group, (struct argument[]){ OF(x), OF(z), { GROUP * 4, NULL } },
	       3);
	buffer_read(z, out, sizeof(out));
	for (uint32_t n = 0; n < COUNT / GROUP; n++) {
		uint32_t sum = 0;

		for (uint32_t k = 0; k < GROUP; k++)
			sum += a[n * GROUP + k];
		bad += out[n] != sum;
	}
	tap_ok(!bad, "sums in local memory");

	launch("count", 1, &items, NULL, (struct argument[]){ OF(x), OF(few) }, 2);
	buffer_read(few, bins, sizeof(bins));
	tap_ok(memcmp(bins, wanted, sizeof(bins)) == 0, "atomics");

	bad = 0;
	launch("roots", 1, &items, NULL, (struct argument[]){ OF(wide) }, 1);
	buffer_read(wide, roots, sizeof(roots));
	for (uint32_t n = 0; n < COUNT; n++)
		bad += roots[n] != 3.0 * n + 1;
	tap_ok(!bad, "doubles");

	must(clReleaseMemObject(wide), "clReleaseMemObject");
	must(clReleaseMemObject(few), "clReleaseMemObject");
	must(clReleaseMemObject(z), "clReleaseMemObject");
	must(clReleaseMemObject(y), "clReleaseMemObject");
	must(clReleaseMemObject(x), "clReleaseMemObject");
}

static void three_dimensions(void)
{
	static const size_t items[] = { 12, 10, 6 }, group[] = { 4, 5, 2 };
	static uint32_t out[12 * 10 * 6][4];
	cl_mem buffer = buffer_new(NULL, sizeof(out));
	size_t bad = 0;

	launch("places", 3, items, group, (struct argument[]){ OF(buffer) }, 1);
	buffer_read(buffer, out, sizeof(out));
	for (size_t n = 0; n < items[0] * items[1] * items[2]; n++) {
		const size_t x = n % items[0], y = n / items[0] % items[1];
		const size_t z = n / (items[0] * items[1]);

		bad += out[n][0] != x || out[n][1] != y % group[1] || out[n][2] != z / group[2] ||
			out[n][3] != items[0] / group[0];
	}
	tap_ok(!bad, "three dimensions");
	must(clReleaseMemObject(buffer), "clReleaseMemObject");
}

static void print(void)
{
	static const char wanted[] = "item 0: -7 2.50\nitem 50: -7 2.50\nitem 100: -7 2.50\n";
	const size_t items = 128;
	const cl_int value = -7;
	char text[256] = "";
	int before;
	FILE *file;

	file = tmpfile();
	fflush(stdout);
	before = dup(STDOUT_FILENO);
	if (!file || before < 0 || dup2(fileno(file), STDOUT_FILENO) < 0)
		die("no file for what is printed");
	launch("print", 1, &items, NULL, (struct argument[]){ OF(value) }, 1);
	must(clFinish(queue), "clFinish");
	fflush(stdout);
	dup2(before, STDOUT_FILENO);
	close(before);
	rewind(file);
	if (fread(text, 1, sizeof(text) - 1, file) == 0)
		text[0] = '\0';
	fclose(file);
	/* Waves print in any order, but these are two waves of one group. */
	tap_ok(strlen(text) == strlen(wanted) && strstr(text, "item 0: -7 2.50\n") &&
	       strstr(text, "item 50: -7 2.50\n") && strstr(text, "item 100: -7 2.50\n"),
	       "printf of a kernel");
}

/* Through one buffer to another: written, filled in its middle, copied, read by a mapping. */
static void buffers(void)
{
	static const size_t sizes[] = { 64, 64 * KIB, 5 * 1024 * KIB };

	for (size_t k = 0; k < COUNT_OF(sizes); k++) {
		const size_t size = sizes[k], from = size / 4, length = size / 2;
		const uint32_t value = 0xfeedface;
		uint8_t *data = malloc(size), *seen;
		cl_mem first, second;
		bool ok;
		cl_int error;

		if (!data)
			die("out of memory");
		pattern_fill(data, size, k, 0);
		first = buffer_new(data, size);
		second = buffer_new(NULL, size);
		must(clEnqueueFillBuffer(queue, first, &value, 4, from, length, 0, NULL, NULL),
		     "clEnqueueFillBuffer");
		must(clEnqueueCopyBuffer(queue, first, second, 0, 0, size, 0, NULL, NULL),
		     "clEnqueueCopyBuffer");
		seen = clEnqueueMapBuffer(queue, second, CL_TRUE, CL_MAP_READ, 0, size, 0, NULL,
					  NULL, &error);
		must(error, "clEnqueueMapBuffer");
		ok = pattern_check(seen, from, k, 0) == from;
		for (size_t n = from; n < from + length; n += 4)
			ok &= memcmp(seen + n, &value, 4) == 0;
		ok &= pattern_check(seen + from + length, size - from - length, k, from + length) ==
			size - from - length;
		tap_ok(ok, "write, fill, copy, map: %zu bytes", size);
		must(clEnqueueUnmapMemObject(queue, second, seen, 0, NULL, NULL),
		     "clEnqueueUnmapMemObject");
		must(clFinish(queue), "clFinish");
		must(clReleaseMemObject(second), "clReleaseMemObject");
		must(clReleaseMemObject(first), "clReleaseMemObject");
		free(data);
	}
}

int main(void)
{
	tap_start();
	open_device();
	buffers();
	builds();
	lines_of_items();
	three_dimensions();
	print();
	must(clReleaseProgram(program), "clReleaseProgram");
	must(clReleaseCommandQueue(queue), "clReleaseCommandQueue");
	must(clReleaseContext(context), "clReleaseContext");
	return tap_end();
}
