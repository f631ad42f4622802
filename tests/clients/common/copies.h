/* SPDX-License-Identifier: GPL-2.0 */
/* A process that copies by SDMA all the time and checks the data. */
#ifndef RKFD_TEST_COPIES_H
#define RKFD_TEST_COPIES_H

#include <stdbool.h>

/* Starts it; it has copied when this returns. */
void copies_start(void);
/* True if it copies: it ends some copies that it begins after this call. */
bool copies_go_on(void);
/* Ends it; true if all of its data was right. */
bool copies_stop(void);

#endif /* RKFD_TEST_COPIES_H */
