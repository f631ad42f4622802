/* SPDX-License-Identifier: GPL-2.0 */
/* The threads of the kernel's workqueues, and their use of the processors. */
#ifndef RKFD_TEST_KWORKERS_H
#define RKFD_TEST_KWORKERS_H

#include <glob.h>
#include <stdio.h>
#include <string.h>

struct kworkers {
	unsigned int count;
	unsigned long long sleeps;	/* voluntary sleeps so far */
	unsigned long long run_ns;	/* on processors so far */
};

static inline FILE *kworkers_open(const char *folder, const char *file)
{
	char path[64];

	snprintf(path, sizeof(path), "%.32s/%s", folder, file);
	return fopen(path, "r");
}

/*
 * The threads whose names begin with "kworker/" and @kind: "R" for rescuers, "u" for threads
 * that are bound to no processor.
 */
static inline struct kworkers kworkers(const char *kind)
{
	struct kworkers all = { 0 };
	char name[64], line[128];
	unsigned long long count;
	glob_t found;
	size_t i;

	snprintf(name, sizeof(name), "Name:\tkworker/%s", kind);
	if (glob("/proc/[0-9]*", 0, NULL, &found))
		return all;
	for (i = 0; i < found.gl_pathc; i++) {
		FILE *f = kworkers_open(found.gl_pathv[i], "status");

		/* The name is the first line. */
		if (f && fgets(line, sizeof(line), f) && !strncmp(line, name, strlen(name))) {
			all.count++;
			while (fgets(line, sizeof(line), f))
				if (sscanf(line, "voluntary_ctxt_switches: %llu", &count) == 1)
					all.sleeps += count;
			fclose(f);
			f = kworkers_open(found.gl_pathv[i], "schedstat");
			if (f && fscanf(f, "%llu", &count) == 1)
				all.run_ns += count;
		}
		if (f)
			fclose(f);
	}
	globfree(&found);
	return all;
}

#endif /* RKFD_TEST_KWORKERS_H */
