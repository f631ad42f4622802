/* SPDX-License-Identifier: GPL-2.0 */
/* Waves that touch pages of the process, one page for each lane. */
#ifndef RKFD_TEST_SVM_TOUCH_H
#define RKFD_TEST_SVM_TOUCH_H

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "kfd_waves.h"
#include "packets.h"
#include "svm_work.h"

#define LANES		64u

/* Makes waves touch @pages pages at @mem, a multiple of LANES; see touch_program in waves.s. */
static inline bool start_touch(struct kfd_compute *queue, const struct waves *waves, void *mem,
			       unsigned int pages)
{
	struct waves touch = *waves;
	struct packets p = { 0 };

	touch.data.cpu = mem;
	waves_dispatch(&p, &touch, WAVES_TOUCH, pages / LANES, true);
	return kfd_compute_pm4(queue, &p);
}

/* True if each page was touched @times times. */
static inline bool touched(const uint8_t *mem, unsigned int pages, uint32_t times)
{
	const uint64_t end = kfd_now_ms() + WAIT_MS;
	unsigned int i;

	for (i = 0; i < pages; i++) {
		const volatile uint32_t *word =
			(const volatile uint32_t *)(mem + (size_t)i * KFD_PAGE);

		while (word[1] < times && kfd_now_ms() < end)
			usleep(200);
		if (word[0] != i * times || word[1] != times) {
			printf("# page %u has %u and %u\n", i, word[0], word[1]);
			return false;
		}
	}
	return true;
}

#endif /* RKFD_TEST_SVM_TOUCH_H */
