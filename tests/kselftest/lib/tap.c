// SPDX-License-Identifier: GPL-2.0
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tap.h"

static unsigned int results;
static unsigned int failures;

void tap_start(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("TAP version 13\n");
	if (access("/dev/kfd", F_OK) != 0) {
		printf("1..0 # SKIP no /dev/kfd\n");
		exit(EXIT_SKIP);
	}
}

bool tap_ok(bool ok, const char *name, ...)
{
	va_list args;

	results++;
	if (!ok)
		failures++;
	printf("%s %u ", ok ? "ok" : "not ok", results);
	va_start(args, name);
	vprintf(name, args);
	va_end(args);
	printf("\n");
	return ok;
}

void tap_skip(const char *name, const char *why)
{
	results++;
	printf("ok %u %s # SKIP %s\n", results, name, why);
}

void tap_note(const char *text, ...)
{
	va_list args;

	printf("# ");
	va_start(args, text);
	vprintf(text, args);
	va_end(args);
	printf("\n");
}

int tap_end(void)
{
	printf("1..%u\n", results);
	return failures || !results ? EXIT_FAILURE : EXIT_SUCCESS;
}

void die(const char *text, ...)
{
	va_list args;

	fflush(stdout);
	printf("Bail out! ");
	va_start(args, text);
	vprintf(text, args);
	va_end(args);
	printf("\n");
	exit(EXIT_FAILURE);
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
