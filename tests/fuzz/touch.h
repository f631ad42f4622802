/* SPDX-License-Identifier: GPL-2.0 */
/* Stores to memory that comes and goes under the threads that store to it. */
#ifndef RKFD_FUZZ_TOUCH_H
#define RKFD_FUZZ_TOUCH_H

#include <stddef.h>
#include <stdint.h>

/* Catches what comes of them; once, before the process's threads. */
void touch_start(void);
/* Writes @count bytes at an address that may be bad; nothing happens then. */
void touch(uint64_t address, const void *data, size_t count);

#endif /* RKFD_FUZZ_TOUCH_H */
