/* SPDX-License-Identifier: GPL-2.0 */
/* Whether a thread has come to rest in the kernel, for tests of what then wakes it. */
#ifndef RKFD_TEST_KFD_ASLEEP_H
#define RKFD_TEST_KFD_ASLEEP_H

#include <stdbool.h>

/* Waits until @thread of this program, by its number, sleeps in an ioctl; false if it does not within @ms. */
bool kfd_asleep(int thread, unsigned int ms);

#endif /* RKFD_TEST_KFD_ASLEEP_H */
