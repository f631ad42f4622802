// SPDX-License-Identifier: GPL-2.0
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <kselftest.h>

#include "tap.h"

void tap_start(void)
{
	ksft_print_header();
	if (access("/dev/kfd", F_OK) != 0)
		ksft_exit_skip("no /dev/kfd\n");
}

bool tap_ok(bool ok, const char *name, ...)
{
	char text[512];
	va_list args;

	va_start(args, name);
	vsnprintf(text, sizeof(text), name, args);
	va_end(args);
	ksft_test_result(ok, "%s\n", text);
	return ok;
}

void tap_skip(const char *name, const char *why)
{
	ksft_test_result_code(KSFT_SKIP, name, "%s", why);
}

void tap_note(const char *text, ...)
{
	char line[1024];
	va_list args;

	va_start(args, text);
	vsnprintf(line, sizeof(line), text, args);
	va_end(args);
	ksft_print_msg("%s\n", line);
}

int tap_end(void)
{
	const unsigned int results = ksft_test_num();

	ksft_set_plan(results);
	ksft_print_cnts();
	return ksft_get_fail_cnt() || !results ? KSFT_FAIL : KSFT_PASS;
}

void die(const char *text, ...)
{
	char line[512];
	va_list args;

	va_start(args, text);
	vsnprintf(line, sizeof(line), text, args);
	va_end(args);
	ksft_exit_fail_msg("%s\n", line);
}

bool quick(void)
{
	const char *s = getenv("RKFD_QUICK");

	return s && *s && *s != '0';
}

unsigned int work(unsigned int full, unsigned int few)
{
	return quick() ? few : full;
}

unsigned int timeout_ms(void)
{
	const char *s = getenv("RKFD_TIMEOUT");
	int seconds = s ? atoi(s) : 0;

	return seconds > 0 ? (unsigned int)seconds * 1000 : 120000;
}

unsigned long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (unsigned long long)t.tv_sec * 1000000000ull + (unsigned long long)t.tv_nsec;
}

unsigned int random_below(unsigned int limit)
{
	static unsigned long long state;

	if (!state) {
		const char *s = getenv("RKFD_SEED");

		state = s ? strtoull(s, NULL, 0) : 0;
		state += 0x2545f4914f6cdd1d;
	}
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return limit ? (unsigned int)((state >> 16) % limit) : 0;
}
