// SPDX-License-Identifier: GPL-2.0
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "model.h"
#include "tap.h"

#define SDMA_ENGINES	5u

#define LINE		"/dev/rkfd-model"
#define ANSWER_MS	60000

bool model_present(void)
{
	return access(LINE, R_OK | W_OK) == 0;
}

/* Reads up to the end of a line, which is left out. */
static bool read_line(int fd, char *text, size_t size)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t n = 0;

	while (n + 1 < size) {
		char c;

		if (poll(&p, 1, ANSWER_MS) != 1 || read(fd, &c, 1) != 1)
			return false;
		if (c == '\n')
			break;
		if (c != '\r')
			text[n++] = c;
	}
	text[n] = '\0';
	return true;
}

bool model_ask(const char *command, char *answer, size_t size)
{
	char line[512];
	struct termios mode;
	int fd = open(LINE, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	bool ok;

	answer[0] = '\0';
	if (fd < 0)
		return false;
	if (tcgetattr(fd, &mode) == 0) {
		cfmakeraw(&mode);
		mode.c_cflag |= CLOCAL;
		tcsetattr(fd, TCSANOW, &mode);
		tcflush(fd, TCIFLUSH);
	}
	snprintf(line, sizeof(line), "%s\n", command);
	ok = write(fd, line, strlen(line)) == (ssize_t)strlen(line) &&
	     read_line(fd, answer, size) && strncmp(answer, "ok", 2) == 0;
	if (!ok)
		tap_note("model: '%s' was answered with '%s'", command, answer);
	else
		memmove(answer, answer + 2, strlen(answer + 2) + 1);
	close(fd);
	return ok;
}

bool model_command(const char *command)
{
	char answer[4096];

	return model_ask(command, answer, sizeof(answer));
}

bool model_engines(const char *verb)
{
	char command[32];
	unsigned int i;

	for (i = 0; i < SDMA_ENGINES; i++) {
		snprintf(command, sizeof(command), "%s %u", verb, i);
		if (!model_command(command))
			return false;
	}
	return true;
}

void model_counts(const char *names, unsigned long long *counts, size_t number)
{
	char command[500], answer[500];
	char *next = answer;
	size_t n;

	memset(counts, 0, number * sizeof(*counts));
	if (!model_present())
		return;
	snprintf(command, sizeof(command), "count %s", names);
	if (!model_ask(command, answer, sizeof(answer)))
		die("the model lacks a counter of %s", names);
	for (n = 0; n < number; n++)
		counts[n] = strtoull(next, &next, 10);
}

unsigned long long model_count(const char *group, const char *key)
{
	unsigned long long count;
	char name[100];

	snprintf(name, sizeof(name), "%s.%s", group, key);
	model_counts(name, &count, 1);
	return count;
}

bool model_exceeds(const char *group, const char *key, unsigned long long before)
{
	const unsigned long long end = now_ns() + timeout_ms() * 1000000ull;

	while (model_count(group, key) <= before) {
		if (now_ns() > end)
			return false;
		usleep(10000);
	}
	return true;
}
