/* SPDX-License-Identifier: GPL-2.0 */
/* Finds out whether a thread sleeps in the kernel, for tests of its wake-up. */
#ifndef RKFD_TEST_KFD_ASLEEP_H
#define RKFD_TEST_KFD_ASLEEP_H

#include <stdbool.h>

/*
 * Waits until thread @thread (its number) of this program sleeps in an ioctl; false if it does
 * not within @ms.
 */
bool kfd_asleep(int thread, unsigned int ms);

#endif /* RKFD_TEST_KFD_ASLEEP_H */
