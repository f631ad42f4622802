// SPDX-License-Identifier: GPL-2.0
#include <sys/syscall.h>
#include <unistd.h>

#include "asleep.h"
#include "kfd_asleep.h"
#include "tap.h"

static void *watch(void *data)
{
	struct asleep *asleep = data;

	asleep->found = kfd_asleep(asleep->waiter, timeout_ms());
	*asleep->word = 1;
	return NULL;
}

void asleep_begin(struct asleep *asleep, volatile uint32_t *word)
{
	*word = 0;
	asleep->word = word;
	asleep->waiter = (int)syscall(SYS_gettid);
	asleep->found = false;
	if (pthread_create(&asleep->thread, NULL, watch, asleep))
		die("no thread");
}

bool asleep_end(struct asleep *asleep)
{
	pthread_join(asleep->thread, NULL);
	return asleep->found;
}
