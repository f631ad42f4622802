/* SPDX-License-Identifier: GPL-2.0 */
/* Processes with XNACK on whose SDMA queues copy memory that the GPU has not accessed yet. */
#ifndef RKFD_TEST_FAULTERS_H
#define RKFD_TEST_FAULTERS_H

#include <stdbool.h>

/* Starts @count of them on the first GPU; each has copied when this returns. */
void faulters_start(unsigned int count);
/* True if the copies go on. */
bool faulters_go_on(void);
/* Ends them; true if all copies were right. */
bool faulters_stop(void);

#endif /* RKFD_TEST_FAULTERS_H */
