// SPDX-License-Identifier: GPL-2.0
/* Changes by a process to its memory, its files and its doorbells meanwhile. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "call.h"
#include "keep.h"
#include "pool.h"
#include "rings.h"
#include "touch.h"

static void map(void)
{
	const int prot = once_in(4) ? (int)below(8) : PROT_READ | PROT_WRITE;
	const int flags = once_in(20) ? MAP_PRIVATE : MAP_SHARED;
	const size_t size = (size_t)(once_in(20) ? some_size() : KFD_PAGE << below(3));
	uint64_t offset;
	void *p;
	int fd;

	if (once_in(2)) {
		static const uint64_t types[] = {
			KFD_OFFSET_DOORBELL, KFD_OFFSET_EVENTS, KFD_OFFSET_MMIO,
			KFD_OFFSET_RESERVED,
		};

		fd = (int)pool_any(KFD_FILE);
		offset = types[below(4)] | KFD_OFFSET_GPU(gpu.gpu_id) |
			 (once_in(10) ? KFD_PAGE * below(20) : 0);
	} else {
		fd = (int)pool_any(once_in(4) ? SHARED_FILE : RENDER_FILE);
		offset = once_in(20) ? odd_number() & ~0xfffull : pool_any(GEM_OFFSET);
	}
	if (size <= KFD_PAGE << 3 && once_in(4))
		p = mmap((void *)(uintptr_t)arena_address(), size, prot, flags | MAP_FIXED, fd,
			 (off_t)offset);
	else
		p = mmap(NULL, size, prot, flags, fd, (off_t)offset);
	if (p != MAP_FAILED)
		keep(once_in(2) ? MAPPING : DOORBELL, (uintptr_t)p);
}

/* Changes the arena, which holds the userptr pages. */
static void change(void)
{
	void *at = (void *)(uintptr_t)arena_address();
	const size_t size = KFD_PAGE * (1 + below(64));

	switch (below(5)) {
	case 0:
		madvise(at, size, MADV_DONTNEED);
		break;
	case 1:
		mprotect(at, size, once_in(2) ? PROT_READ : PROT_READ | PROT_WRITE);
		break;
	case 2:
		mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		     0);
		break;
	case 3:
		madvise(at, size, MADV_HUGEPAGE);
		break;
	default:
		touch((uintptr_t)at, "rkfd", 4);
	}
}

/* A child, with the inherited state, does one thing and ends. */
static void child(void)
{
	const pid_t pid = fork();

	if (pid == 0) {
		alarm(2);
		fuzz_kfd();
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static void files(void)
{
	static const enum kind kinds[] = { SHARED_FILE, SMI_FILE, RENDER_FILE, KFD_FILE };
	unsigned int which;
	char text[256];
	int fd;

	switch (below(8)) {
	case 0:
		which = below(once_in(50) ? 4 : 2);
		fd = (int)pool_take(kinds[which]);
		keep_not(kinds[which], (uint64_t)fd);
		break;
	case 1: {
		const uint64_t mask = odd_number();

		fd = (int)pool_any(SMI_FILE);
		if (write(fd, &mask, once_in(10) ? below(16) : sizeof(mask)) < 0)
			break;
		break;
	}
	case 2: {
		struct pollfd p = { .fd = (int)pool_any(SMI_FILE), .events = POLLIN };

		poll(&p, 1, 0);
		break;
	}
	default:
		fd = (int)pool_any(SMI_FILE);
		if (fd > 2 && read(fd, text, below(sizeof(text))) < 0)
			break;
	}
}

void fuzz_mm(void)
{
	count_call();
	switch (below(16)) {
	case 0:
	case 1:
	case 2:
		map();
		break;
	case 3:
		keep_not(MAPPING, pool_take(MAPPING));
		break;
	case 4:
		if (once_in(100))
			child();
		break;
	case 5:
	case 6:
		files();
		break;
	case 7:
	case 8:
	case 9:
	case 10:
		change();
		break;
	default:
		fuzz_ring();
	}
}
