// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tap.h"
#include "trace.h"

#define INSTANCES	"/sys/kernel/tracing/instances"
#define BUFFER_KB	"4096"

static char instance[128];
static pid_t owner;	/* its forked children leave the instance alone */

static void path_of(char *path, size_t size, const char *file)
{
	snprintf(path, size, "%s/%s", instance, file);
}

static bool put_with(const char *file, const char *text, int flags)
{
	char path[256];
	bool ok;
	int fd;

	path_of(path, sizeof(path), file);
	fd = open(path, O_WRONLY | O_CLOEXEC | flags);
	if (fd < 0)
		return false;
	ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	close(fd);
	return ok;
}

static bool put(const char *file, const char *text)
{
	return put_with(file, text, O_TRUNC);
}

bool trace_open(const char *name)
{
	snprintf(instance, sizeof(instance), INSTANCES "/%s", name);
	if (mkdir(instance, 0700) != 0 && errno != EEXIST)
		return false;
	owner = getpid();
	atexit(trace_close);
	put("buffer_size_kb", BUFFER_KB);
	trace_clear();
	return put("tracing_on", "1");
}

bool trace_enable(const char *event)
{
	char file[128];

	snprintf(file, sizeof(file), "events/%s/enable", event);
	return put(file, "1");
}

bool trace_functions(const char *const *names, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		if (!put_with("set_ftrace_filter", names[i], O_APPEND))
			return false;
	return put("current_tracer", "function");
}

void trace_clear(void)
{
	put("trace", "");
}

/* "task-pid [cpu] flags time: event: fields" */
static bool matches(const char *line, const char *event, const char *text)
{
	char key[64];

	if (line[0] == '#')
		return false;
	if (event) {
		snprintf(key, sizeof(key), ": %s: ", event);
		if (!strstr(line, key))
			return false;
	}
	return !text || strstr(line, text);
}

static FILE *open_trace(void)
{
	char path[256];

	path_of(path, sizeof(path), "trace");
	return fopen(path, "re");
}

/* The next line that matches(); false if there is none. */
static bool next_line(FILE *f, const char *event, const char *text, char *line, unsigned int size)
{
	while (f && fgets(line, (int)size, f))
		if (matches(line, event, text))
			return true;
	return false;
}

static void close_trace(FILE *f)
{
	if (f)
		fclose(f);
}

bool trace_before(const char *first, const char *second)
{
	FILE *f = open_trace();
	bool has_first = false, has_second = false;
	char line[1024];

	while (!has_second && next_line(f, NULL, NULL, line, sizeof(line))) {
		has_first |= matches(line, NULL, first);
		has_second = matches(line, NULL, second);
	}
	close_trace(f);
	return has_first && has_second;
}

unsigned int trace_count(const char *event, const char *text)
{
	FILE *f = open_trace();
	char line[1024];
	unsigned int n = 0;

	while (next_line(f, event, text, line, sizeof(line)))
		n++;
	close_trace(f);
	return n;
}

void trace_print(const char *prefix, const char *text, unsigned int lines)
{
	FILE *f = open_trace();
	char line[1024];

	while (lines-- && next_line(f, NULL, text, line, sizeof(line)))
		printf("%s%s", prefix, line);
	close_trace(f);
}

bool trace_find(const char *event, const char *text, char *line, unsigned int size)
{
	FILE *f = open_trace();
	bool found = next_line(f, event, text, line, size);

	close_trace(f);
	return found;
}

static void each_line(FILE *f, void (*see)(const char *line, int thread, void *arg), void *arg)
{
	char line[1024];

	while (next_line(f, NULL, NULL, line, sizeof(line))) {
		const char *p = strstr(line, " [");

		while (p && p > line && *p != '-')
			p--;
		if (p)
			see(line, atoi(p + 1), arg);
	}
	close_trace(f);
}

void trace_each(void (*see)(const char *line, int thread, void *arg), void *arg)
{
	each_line(open_trace(), see, arg);
}

void trace_take(void (*see)(const char *line, int thread, void *arg), void *arg)
{
	char path[256];
	int fd;

	path_of(path, sizeof(path), "trace_pipe");
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	each_line(fd < 0 ? NULL : fdopen(fd, "r"), see, arg);
}

bool trace_wait(const char *event, const char *text, unsigned int wanted,
		unsigned int ms)
{
	const unsigned long long end = now_ns() + ms * 1000000ull;

	while (trace_count(event, text) < wanted) {
		if (now_ns() > end)
			return false;
		usleep(5000);
	}
	return true;
}

void trace_close(void)
{
	if (!instance[0] || getpid() != owner)
		return;
	put("events/enable", "0");
	rmdir(instance);
	instance[0] = '\0';
}
