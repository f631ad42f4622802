/* SPDX-License-Identifier: GPL-2.0 */
/* A FUSE file, served by a thread, whose pages arrive when the test lets them. */
#ifndef RKFD_TEST_SLOW_FILE_H
#define RKFD_TEST_SLOW_FILE_H

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define SLOW_HELD_MAX	64u

struct slow_file {
	int fuse, fd;
	size_t size;
	uint8_t value;		/* of every byte */
	pthread_t thread;
	uint32_t flags;		/* of FUSE_INIT */
	volatile bool hold;	/* do not answer reads and writes */
	volatile bool invalidate; /* make the kernel drop the content; cleared once that is done */
	volatile bool stop;
	volatile unsigned int held;
	struct {
		uint64_t unique;
		uint32_t size;
		bool write;
	} requests[SLOW_HELD_MAX];
};

static inline void slow_answer(struct slow_file *f, uint64_t unique, int err, const void *data,
			       size_t size)
{
	struct fuse_out_header head = {
		.len = (uint32_t)(sizeof(head) + size), .error = err, .unique = unique,
	};
	struct iovec parts[] = { { &head, sizeof(head) }, { (void *)data, size } };

	if (writev(f->fuse, parts, size ? 2 : 1) < 0)
		perror("# fuse");
}

static inline void slow_transfer(struct slow_file *f, uint64_t unique, uint32_t size, bool write)
{
	struct fuse_write_out written = { .size = size };
	static uint8_t content[1u << 20];

	if (write) {
		slow_answer(f, unique, 0, &written, sizeof(written));
		return;
	}
	memset(content, f->value, size);
	slow_answer(f, unique, 0, content, size);
}

static inline void slow_request(struct slow_file *f, const struct fuse_in_header *in)
{
	/* A write has its size in the same place. */
	const struct fuse_read_in *read_in = (const void *)(in + 1);
	const bool write = in->opcode == FUSE_WRITE;
	struct fuse_init_out init = {
		.major = FUSE_KERNEL_VERSION, .minor = 31, .max_readahead = 65536,
		.flags = f->flags, .max_background = 32, .congestion_threshold = 32,
		.max_write = 4096,
	};
	struct fuse_attr_out attr = {
		.attr_valid = 3600,
		.attr = { .ino = 1, .size = f->size, .mode = S_IFREG | 0644, .nlink = 1,
			  .blksize = 4096 },
	};
	struct fuse_open_out open_out = { 0 };

	switch (in->opcode) {
	case FUSE_INIT:
		slow_answer(f, in->unique, 0, &init, sizeof(init));
		return;
	case FUSE_GETATTR:
		slow_answer(f, in->unique, 0, &attr, sizeof(attr));
		return;
	case FUSE_OPEN:
		slow_answer(f, in->unique, 0, &open_out, sizeof(open_out));
		return;
	case FUSE_READ:
	case FUSE_WRITE:
		if (!f->hold || f->held == SLOW_HELD_MAX) {
			slow_transfer(f, in->unique, read_in->size, write);
			return;
		}
		f->requests[f->held].unique = in->unique;
		f->requests[f->held].size = read_in->size;
		f->requests[f->held].write = write;
		f->held++;
		return;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		return;
	case FUSE_FLUSH:
	case FUSE_RELEASE:
		slow_answer(f, in->unique, 0, NULL, 0);
		return;
	default:
		slow_answer(f, in->unique, -ENOSYS, NULL, 0);
		return;
	}
}

static inline void *slow_serve(void *arg)
{
	struct fuse_notify_inval_inode_out all = { .ino = 1, .off = 0, .len = 0 };
	static uint8_t buffer[FUSE_MIN_READ_BUFFER + 4096] __attribute__((aligned(8)));
	struct slow_file *f = arg;

	/* Touch all of it now: a waiter may hold the lock that a page fault takes. */
	memset(buffer, 1, sizeof(buffer));
	while (!f->stop) {
		struct pollfd ready = { .fd = f->fuse, .events = POLLIN };

		if (f->invalidate) {
			struct fuse_out_header head = {
				.len = sizeof(head) + sizeof(all),
				.error = FUSE_NOTIFY_INVAL_INODE,
			};
			struct iovec parts[] = { { &head, sizeof(head) }, { &all, sizeof(all) } };

			if (writev(f->fuse, parts, 2) < 0)
				perror("# fuse");
			f->invalidate = false;
		}
		while (!f->hold && f->held) {
			f->held--;
			slow_transfer(f, f->requests[f->held].unique, f->requests[f->held].size,
				      f->requests[f->held].write);
		}
		if (poll(&ready, 1, 5) == 1 && read(f->fuse, buffer, sizeof(buffer)) > 0)
			slow_request(f, (const void *)buffer);
	}
	return NULL;
}

/*
 * Opens a file of @size bytes; 0, or an error number. Its pages come at once until @f->hold is
 * set. Without FUSE_ASYNC_READ in @flags, readahead waits, too.
 */
static inline int slow_open(struct slow_file *f, size_t size, uint8_t value, uint32_t flags)
{
	char name[] = "/tmp/slow.XXXXXX", options[64];
	int at = mkstemp(name);
	struct stat st;

	memset(f, 0, sizeof(*f));
	f->size = size;
	f->value = value;
	f->flags = flags;
	f->fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (at < 0 || f->fuse < 0)
		return errno;
	close(at);
	snprintf(options, sizeof(options), "fd=%d,rootmode=100644,user_id=0,group_id=0", f->fuse);
	if (mount("slow", name, "fuse", 0, options) ||
	    pthread_create(&f->thread, NULL, slow_serve, f))
		return errno;
	f->fd = open(name, O_RDWR);
	/* The kernel asks for the size. */
	if (f->fd < 0 || fstat(f->fd, &st) || (size_t)st.st_size != size)
		return EIO;
	umount2(name, MNT_DETACH);
	unlink(name);
	return 0;
}

/* Waits until a read or write is pending without an answer; false after @ms milliseconds. */
static inline bool slow_await(const struct slow_file *f, unsigned int ms)
{
	for (; !f->held && ms; ms--)
		usleep(1000);
	return f->held;
}

static inline void slow_close(struct slow_file *f)
{
	f->hold = false;
	close(f->fd);
	usleep(50000);
	f->stop = true;
	pthread_join(f->thread, NULL);
	close(f->fuse);
}

#endif /* RKFD_TEST_SLOW_FILE_H */
