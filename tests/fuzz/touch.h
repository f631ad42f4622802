/* SPDX-License-Identifier: GPL-2.0 */
/* Stores to memory that is unmapped under the storing threads. */
#ifndef RKFD_FUZZ_TOUCH_H
#define RKFD_FUZZ_TOUCH_H

#include <stddef.h>
#include <stdint.h>

/* Catches the resulting signals; once, before the process's threads. */
void touch_start(void);
/* Writes @count bytes at an address that may be bad; nothing happens then. */
void touch(uint64_t address, const void *data, size_t count);

#endif /* RKFD_FUZZ_TOUCH_H */
