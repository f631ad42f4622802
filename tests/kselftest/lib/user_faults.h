/* SPDX-License-Identifier: GPL-2.0 */
/* Memory whose page faults the process handles itself. */
#ifndef RKFD_TEST_USER_FAULTS_H
#define RKFD_TEST_USER_FAULTS_H

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kfd.h"

/* Lets the process handle the faults of @size bytes at @mem: the file that reports them, or -1. */
static inline int handle_faults(void *mem, size_t size)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register registered = {
		.range = { .start = (uintptr_t)mem, .len = size },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (uffd >= 0 && (ioctl(uffd, UFFDIO_API, &api) ||
			  ioctl(uffd, UFFDIO_REGISTER, &registered))) {
		close(uffd);
		return -1;
	}
	return uffd;
}

/* Provides @pages pages of zeros at @mem, whose faults the process handles; 0 or the errno. */
static inline int provide_zeros(int uffd, void *mem, unsigned int pages)
{
	static uint8_t zeros[KFD_PAGE];
	unsigned int i;

	for (i = 0; i < pages; i++) {
		struct uffdio_copy copy = {
			.dst = (uintptr_t)mem + (size_t)i * KFD_PAGE,
			.src = (uintptr_t)zeros,
			.len = KFD_PAGE,
		};

		if (ioctl(uffd, UFFDIO_COPY, &copy))
			return errno;
	}
	return 0;
}

#endif /* RKFD_TEST_USER_FAULTS_H */
