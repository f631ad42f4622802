/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A process for each GPU that copies there by SDMA all the time, between two areas of shared
 * virtual memory, which go to VRAM for that and come back, and checks the data.
 */
#ifndef RKFD_TEST_MOVERS_H
#define RKFD_TEST_MOVERS_H

#include <stdbool.h>

#include "rounds.h"

#define MOVERS_MAX	ROUNDS_MAX

/* Starts @count of them, of the first GPUs; each has copied when this returns. */
void movers_start(unsigned int count);
/* True if each copies: it ends some copies that it begins after this call. */
bool movers_go_on(void);
/* Ends them; true if all of their data was right. */
bool movers_stop(void);

#endif /* RKFD_TEST_MOVERS_H */
