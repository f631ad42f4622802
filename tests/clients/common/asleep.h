/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A word that the GPU waits for, and that becomes 1 only when a thread sleeps in an ioctl: the
 * GPU's next action then finds the thread waiting.
 */
#ifndef RKFD_TEST_ASLEEP_H
#define RKFD_TEST_ASLEEP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct asleep {
	volatile uint32_t *word;
	int waiter;			/* the thread that is to sleep */
	bool found;			/* it did */
	pthread_t thread;
};

/*
 * Clears @word, and makes it 1 when the calling thread sleeps in its next ioctl. Must be called
 * before the GPU gets the wait.
 */
void asleep_begin(struct asleep *asleep, volatile uint32_t *word);
/* True if that was so; the word is 1 in any case. */
bool asleep_end(struct asleep *asleep);

#endif /* RKFD_TEST_ASLEEP_H */
