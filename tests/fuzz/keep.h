/* SPDX-License-Identifier: GPL-2.0 */
/* What a process has got is kept in its pool, and given back when the pool has no place for it any more. */
#ifndef RKFD_FUZZ_KEEP_H
#define RKFD_FUZZ_KEEP_H

#include "pool.h"

void keep(enum kind kind, uint64_t value);
/* Gives one back, or what may be one. */
void keep_not(enum kind kind, uint64_t value);

#endif /* RKFD_FUZZ_KEEP_H */
