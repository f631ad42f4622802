/* SPDX-License-Identifier: GPL-2.0 */
/* rkfd's files under debugfs. */
#ifndef RKFD_TEST_DEBUGFS_H
#define RKFD_TEST_DEBUGFS_H

#include <stdbool.h>
#include <stddef.h>

/* Reads the file @name of the first device on the bus; false if it is not there. */
bool debugfs_read(const char *name, char *text, size_t size);
/* The number behind @key in a text of "key number" lines, or -1. */
long long debugfs_number(const char *text, const char *key);

#endif /* RKFD_TEST_DEBUGFS_H */
