// SPDX-License-Identifier: GPL-2.0
#include <stdatomic.h>
#include <sys/ioctl.h>

#include "call.h"
#include "pool.h"

struct counts *counts;
struct kfd_dev gpu;

void count_call(void)
{
	atomic_fetch_add_explicit(&counts->calls, 1, memory_order_relaxed);
}

bool fuzz_call(int fd, char type, unsigned int number, void *args, size_t size)
{
	struct tally *tally = type == 'K' ? &counts->kfd : &counts->drm;
	size_t told = once_in(50) ? below(1u << _IOC_SIZEBITS) : size;
	unsigned char *bytes = args;
	bool good;

	if (once_in(20)) {
		for (unsigned int n = 1 + below(4); n && size; n--)
			bytes[below((uint32_t)size)] = (unsigned char)random32();
	}
	/* Arguments are in a buffer that is larger than any of them. */
	if (told > 4096)
		told = 4096;
	good = ioctl(fd, _IOC(once_in(50) ? below(4) : _IOC_READ | _IOC_WRITE, type, number, told),
		     some_pointer(args)) == 0;
	atomic_fetch_add_explicit(good ? &tally->good[number] : &tally->bad[number], 1,
				  memory_order_relaxed);
	count_call();
	return good;
}
