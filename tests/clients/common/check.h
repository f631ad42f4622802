/* SPDX-License-Identifier: GPL-2.0 */
/* The final check after everything: a plain copy still works. */
#ifndef RKFD_TEST_CHECK_H
#define RKFD_TEST_CHECK_H

#include <stdbool.h>

#include "gpu.h"

/* A queue, buffers, one checked copy to VRAM and one back; frees them all. */
bool check_copies(const struct gpu *gpu);
/* The same in a process of its own. */
bool check_process_copies(void);

#endif /* RKFD_TEST_CHECK_H */
