// SPDX-License-Identifier: GPL-2.0
/* The smallest client: one queue, one checked copy to VRAM and back. */
#include <stdio.h>
#include <stdlib.h>

#include "common/check.h"

int main(void)
{
	struct gpu gpu;
	bool ok;

	gpu_open(&gpu);
	ok = check_copies(&gpu);
	gpu_close();
	if (!ok)
		printf("one_copy: the data did not arrive\n");
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
