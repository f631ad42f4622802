/* SPDX-License-Identifier: GPL-2.0 */
/* Memory that the CPU touches all the time, and looks whether it is what it was. */
#ifndef RKFD_TEST_TOUCHER_H
#define RKFD_TEST_TOUCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kfd.h"

/* A thread that does so: its argument. */
struct toucher {
	volatile uint32_t *mem;		/* a word of each page is this thread's */
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
