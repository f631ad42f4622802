/* SPDX-License-Identifier: GPL-2.0 */
/* Memory that the CPU touches all the time, checking that nothing has changed. */
#ifndef RKFD_TEST_TOUCHER_H
#define RKFD_TEST_TOUCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kfd.h"

/* Argument of the thread. */
struct toucher {
	volatile uint32_t *mem;		/* one word of each page belongs to this thread */
	size_t pages;
	volatile bool stop;
	unsigned int number, wrong;
	uint32_t rounds;
};

static inline void *touch(void *arg)
{
	struct toucher *me = arg;
	size_t i;

	while (!me->stop) {
		for (i = 0; i < me->pages; i++) {
			volatile uint32_t *word = me->mem + i * KFD_PAGE / 4 + me->number;

			me->wrong += *word != me->rounds;
			*word = me->rounds + 1;
		}
		me->rounds++;
	}
	return NULL;
}

#endif /* RKFD_TEST_TOUCHER_H */
