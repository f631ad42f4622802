/* SPDX-License-Identifier: GPL-2.0 */
/* rkfd's counts of its objects, in debugfs. Other drivers have none. */
#ifndef RKFD_TEST_OBJECTS_H
#define RKFD_TEST_OBJECTS_H

#include <stdbool.h>

/* Room for the counts of a few GPUs, one GPU after the other. */
#define OBJECTS_MAX	4096

/*
 * The base line: the objects while at most @processes processes use each GPU. A process that
 * has been waited for may still be ending. False if there are more after a while, or rkfd's
 * counts cannot be read.
 */
bool objects_base(char base[OBJECTS_MAX], unsigned int processes);
/* True if the counts are those of @base within @ms milliseconds; if not, prints the differences. */
bool objects_return_to(const char *base, unsigned int ms);
/* The count of one kind on the first GPU, or -1. */
long long objects_count(const char *kind);
/* True if the count becomes @count within @ms milliseconds. */
bool objects_become(const char *kind, long long count, unsigned int ms);

#endif /* RKFD_TEST_OBJECTS_H */
