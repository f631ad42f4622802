// SPDX-License-Identifier: GPL-2.0
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debugfs.h"
#include "tap.h"

#define ROOT	"/sys/kernel/debug/rkfd"

/* The directory of the first device on the bus. */
static bool device_dir(char *path, size_t size)
{
	struct dirent *entry;
	DIR *dir = opendir(ROOT);

	if (!dir)
		return false;
	path[0] = '\0';
	while ((entry = readdir(dir))) {
		char other[300];

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		snprintf(other, sizeof(other), ROOT "/%s", entry->d_name);
		if (!path[0] || strcmp(other, path) < 0)
			snprintf(path, size, "%s", other);
	}
	closedir(dir);
	return path[0];
}

bool debugfs_read(const char *name, char *text, size_t size)
{
	char dir[300], path[400];
	size_t n;
	FILE *f;

	text[0] = '\0';
	if (!device_dir(dir, sizeof(dir)))
		return false;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "re");
	if (!f)
		return false;
	n = fread(text, 1, size - 1, f);
	text[n] = '\0';
	fclose(f);
	return n > 0;
}

long long debugfs_number(const char *text, const char *key)
{
	const size_t length = strlen(key);
	const char *line = text;

	while (line && *line) {
		if (strncmp(line, key, length) == 0 &&
		    (line[length] == ' ' || line[length] == '\t'))
			return atoll(line + length + 1);
		line = strchr(line, '\n');
		if (line)
			line++;
	}
	return -1;
}
