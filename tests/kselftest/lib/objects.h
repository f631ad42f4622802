/* SPDX-License-Identifier: GPL-2.0 */
/* What rkfd counts of its objects, in debugfs; nothing of it is there with another driver. */
#ifndef RKFD_TEST_OBJECTS_H
#define RKFD_TEST_OBJECTS_H

#include <stdbool.h>

/* The counts of a few GPUs, one GPU's after the other's. */
#define OBJECTS_MAX	4096

/*
 * The base line: what is there when @processes processes use each GPU at most. One that has been waited for may still
 * be on its way out. False if there are more after a while, or rkfd's counts cannot be read.
 */
bool objects_base(char base[OBJECTS_MAX], unsigned int processes);
/* Whether the counts are those of @base within @ms milliseconds; if not, says what is not. */
bool objects_return_to(const char *base, unsigned int ms);
/* The count of one kind on the first GPU, or -1. */
long long objects_count(const char *kind);
/* Whether it becomes @count within @ms milliseconds. */
bool objects_become(const char *kind, long long count, unsigned int ms);

#endif /* RKFD_TEST_OBJECTS_H */
