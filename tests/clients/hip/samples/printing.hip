// SPDX-License-Identifier: GPL-2.0
/* Kernels that call the host while they run: printf, assert. */
#include <algorithm>
#include <cassert>
#include <cstdio>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include "samples.hpp"

namespace {

__global__ void print(const char *word, double number)
{
	const uint32_t n = blockIdx.x * blockDim.x + threadIdx.x;

	if (n % 9 == 0)
		printf("item %u of %s: %5.2f %lld\n", n, word, number * n, (long long)n << 33);
}

__global__ void check(const uint32_t *values, uint32_t most)
{
	assert(values[threadIdx.x] <= most);
}

/* The output of @run to the descriptor @fd. */
template <typename F> std::string printed(int fd, F run)
{
	const int before = dup(fd);
	FILE *file = tmpfile();
	std::string text;
	char buffer[4096];
	size_t length;

	if (before < 0 || !file)
		die("no file for what is printed");
	fflush(nullptr);
	dup2(fileno(file), fd);
	run();
	fflush(nullptr);
	dup2(before, fd);
	close(before);
	rewind(file);
	while ((length = fread(buffer, 1, sizeof(buffer), file)) > 0)
		text.append(buffer, length);
	fclose(file);
	return text;
}

std::vector<std::string> lines(const std::string &text)
{
	std::vector<std::string> lines;
	size_t at = 0, end;

	for (; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
		lines.push_back(text.substr(at, end - at));
	std::sort(lines.begin(), lines.end());
	return lines;
}

}

void printing()
{
	constexpr uint32_t groups = 3, size = 100;
	const char word[] = "the grid";
	Buffer<char> text(sizeof(word));
	std::string wanted;

	std::copy(word, word + sizeof(word), text.host.begin());
	text.up();
	const std::string got = printed(STDOUT_FILENO, [&] {
		begin();
		print<<<groups, size>>>(text.device, 1.25);
		finish("print");
	});
	for (uint32_t n = 0; n < groups * size; n += 9) {
		char line[100];

		snprintf(line, sizeof(line), "item %u of %s: %5.2f %lld\n", n, word, 1.25 * n, (long long)n << 33);
		wanted += line;
	}
	result(lines(got) == lines(wanted), "printf of a kernel");
	if (lines(got) != lines(wanted))
		tap_note("%zu lines, %zu wanted", lines(got).size(), lines(wanted).size());
}

/* Checks in a kernel that no number from 0 to 63 is above @most. */
static hipError_t none_above(uint32_t most)
{
	Buffer<uint32_t> values(64);

	for (uint32_t n = 0; n < 64; n++)
		values[n] = n;
	values.up();
	check<<<1, 64>>>(values.device, most);
	return hipDeviceSynchronize();
}

void assertions()
{
	result(none_above(63) == hipSuccess, "assertions that hold");

	/* HIP ends a process whose assertion fails. */
	int status = 0;
	const std::string got = printed(STDERR_FILENO, [&] {
		const pid_t pid = fork();

		if (pid == 0) {
			execl("/proc/self/exe", "hip_samples", "--fail", nullptr);
			_exit(0);
		}
		if (waitpid(pid, &status, 0) != pid)
			status = 0;
	});
	result(status && got.find("values[threadIdx.x] <= most") != std::string::npos,
	       "one that does not");
}

int failure()
{
	return none_above(62) == hipSuccess ? EXIT_SUCCESS : EXIT_FAILURE;
}
