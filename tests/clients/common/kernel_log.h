/* SPDX-License-Identifier: GPL-2.0 */
/* The lines that the kernel's log gets while a test runs. */
#ifndef RKFD_TEST_KERNEL_LOG_H
#define RKFD_TEST_KERNEL_LOG_H

#include <stdbool.h>
#include <stddef.h>

/* From here on; ends the program if the log cannot be read. */
void kernel_log_start(void);
/* The next line since then, in @record; false if there is none yet. */
bool kernel_log_next(char *record, size_t size);

#endif /* RKFD_TEST_KERNEL_LOG_H */
