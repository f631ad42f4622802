// SPDX-License-Identifier: GPL-2.0
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kfd.h"
#include "objects.h"

#define PAUSE_US	20000u

static void counts(char text[OBJECTS_MAX])
{
	size_t i, length = 0;
	glob_t found;
	FILE *f;

	text[0] = '\0';
	if (glob("/sys/kernel/debug/rkfd/*/objects", 0, NULL, &found))
		return;
	for (i = 0; i < found.gl_pathc; i++) {
		f = fopen(found.gl_pathv[i], "re");
		if (!f)
			continue;
		length += fread(text + length, 1, OBJECTS_MAX - 1 - length, f);
		text[length] = '\0';
		fclose(f);
	}
	globfree(&found);
}

/* The count on a line, if it is of @kind; or -1. */
static long long count_of(const char *line, const char *kind)
{
	const size_t length = strlen(kind);

	return strncmp(line, kind, length) == 0 && line[length] == ' ' ? atoll(line + length) : -1;
}

/* The largest number of processes on one GPU. */
static long long most_processes(const char *text)
{
	char copy[OBJECTS_MAX], *line, *rest = copy;
	long long most = 0;

	strcpy(copy, text);
	while ((line = strsep(&rest, "\n"))) {
		const long long here = count_of(line, "processes");

		most = here > most ? here : most;
	}
	return most;
}

bool objects_base(char base[OBJECTS_MAX], unsigned int processes)
{
	const uint64_t end = kfd_now_ms() + KFD_HANG_MS;
	char before[OBJECTS_MAX] = "";

	for (;;) {
		counts(base);
		if (!*base)
			return !kfd_is_rkfd();
		/* The VMID of a queue that was destroyed is given up a moment later. */
		if (most_processes(base) <= processes && strcmp(before, base) == 0)
			return true;
		strcpy(before, base);
		if (kfd_now_ms() > end)
			return false;
		usleep(PAUSE_US);
	}
}

static void say_changes(const char *before, const char *after)
{
	char a[OBJECTS_MAX], b[OBJECTS_MAX], *was, *is, *rest_a = a, *rest_b = b;

	strcpy(a, before);
	strcpy(b, after);
	while ((was = strsep(&rest_a, "\n")) && (is = strsep(&rest_b, "\n"))) {
		if (strcmp(was, is))
			fprintf(stderr, "# %s, was %s\n", is, was);
	}
	if (rest_a || rest_b)
		fprintf(stderr, "# not as many GPUs as there were\n");
}

bool objects_return_to(const char *base, unsigned int ms)
{
	const uint64_t end = kfd_now_ms() + ms;
	char text[OBJECTS_MAX];

	for (;;) {
		counts(text);
		if (strcmp(text, base) == 0)
			return true;
		if (kfd_now_ms() > end)
			break;
		usleep(PAUSE_US);
	}
	say_changes(base, text);
	return false;
}

long long objects_count(const char *kind)
{
	char text[OBJECTS_MAX], *line, *rest = text;

	counts(text);
	while ((line = strsep(&rest, "\n"))) {
		const long long count = count_of(line, kind);

		if (count >= 0)
			return count;
	}
	return -1;
}

bool objects_become(const char *kind, long long count, unsigned int ms)
{
	const uint64_t end = kfd_now_ms() + ms;

	while (objects_count(kind) != count) {
		if (kfd_now_ms() > end)
			return false;
		usleep(PAUSE_US / 2);
	}
	return true;
}
