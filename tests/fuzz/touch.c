// SPDX-License-Identifier: GPL-2.0
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "touch.h"

static _Thread_local sigjmp_buf back;
static _Thread_local volatile bool guarded;

static void caught(int signal)
{
	if (guarded)
		siglongjmp(back, 1);
	_exit(128 + signal);
}

void touch_start(void)
{
	struct sigaction action = { .sa_handler = caught, .sa_flags = SA_NODEFER };

	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
}

void touch(uint64_t address, const void *data, size_t count)
{
	if (sigsetjmp(back, 1) == 0) {
		guarded = true;
		memcpy((void *)(uintptr_t)address, data, count);
	}
	guarded = false;
}
