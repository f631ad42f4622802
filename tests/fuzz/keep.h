/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Objects that a process has got are kept in its pool, and released when the pool has no place
 * for them any more.
 */
#ifndef RKFD_FUZZ_KEEP_H
#define RKFD_FUZZ_KEEP_H

#include "pool.h"

void keep(enum kind kind, uint64_t value);
/* Releases one, or a number that may be one. */
void keep_not(enum kind kind, uint64_t value);

#endif /* RKFD_FUZZ_KEEP_H */
