/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A process for each GPU that copies there by SDMA all the time, from shared
 * virtual memory to such, which goes to VRAM for that and comes back, and looks
 * whether the data is right.
 */
#ifndef RKFD_TEST_MOVERS_H
#define RKFD_TEST_MOVERS_H

#include <stdbool.h>

#include "rounds.h"

#define MOVERS_MAX	ROUNDS_MAX

/* Starts @count of them, of the first GPUs; each has copied when this returns. */
void movers_start(unsigned int count);
/* Whether each copies: it ends some that it begins after this call. */
bool movers_go_on(void);
/* Ends them; whether all of their data was right. */
bool movers_stop(void);

#endif /* RKFD_TEST_MOVERS_H */
