// SPDX-License-Identifier: GPL-2.0
/*
 * CRIU_OP: the callers that may save a process, the answers of PROCESS_INFO and CHECKPOINT, and
 * that the queues go on afterwards.
 */
#include <pthread.h>

#include "criu.h"
#include "debuggee.h"
#include "kfd_harness.h"

#define SOON_MS	KFD_HANG_MS
#define NOT_MS	300u

FIXTURE(criu)
{
	struct debuggee child;
	int fd;		/* the child's file */
	struct criu_dump dump;
};

FIXTURE_SETUP(criu)
{
	ASSERT_EQ(0, debuggee_start(&self->child, true));
	ASSERT_EQ(0, debuggee_do(&self->child, DEBUGGEE_OPEN, 0));
	self->fd = criu_file_of(self->child.pid);
	ASSERT_GE(self->fd, 0);
}

FIXTURE_TEARDOWN(criu)
{
	criu_free(&self->dump);
	close(self->fd);
	debuggee_end(&self->child);
}

/* What the ioctl returns in a child without capabilities. */
static int without_rights(void)
{
	struct kfd_dev dev;
	int status, err;
	pid_t pid = fork();

	if (pid == 0) {
		err = kfd_open_files(&dev);
		if (!err)
			err = setresuid(65534, 65534, 65534) ? errno : 0;
		_exit(err ? 255 : criu_plain(dev.fd, KFD_CRIU_OP_PROCESS_INFO));
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 254;
}

static void *call_in_thread(void *fd)
{
	return (void *)(intptr_t)criu_plain(*(int *)fd, KFD_CRIU_OP_PROCESS_INFO);
}

static int in_thread(int fd)
{
	pthread_t thread;
	void *result;

	if (pthread_create(&thread, NULL, call_in_thread, &fd) ||
	    pthread_join(thread, &result))
		return -1;
	return (int)(intptr_t)result;
}

static int in_child(int fd)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(criu_plain(fd, KFD_CRIU_OP_PROCESS_INFO));
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 254;
}

/* The process itself, and the thread that traces it. */
TEST_F(criu, callers)
{
	struct kfd_ioctl_get_version_args version;
	struct kfd_dev own;

	EXPECT_EQ(EACCES, without_rights());
	EXPECT_EQ(EBADF, in_thread(self->fd));
	EXPECT_EQ(EBADF, in_child(self->fd));
	EXPECT_EQ(EBADF, kfd_ioctl(self->fd, AMDKFD_IOC_GET_VERSION, &version));
	EXPECT_EQ(0, criu_plain(self->fd, KFD_CRIU_OP_PROCESS_INFO));
	EXPECT_EQ(0, criu_plain(self->fd, KFD_CRIU_OP_UNPAUSE));
	ASSERT_EQ(0, kfd_open_files(&own));
	EXPECT_EQ(0, criu_plain(own.fd, KFD_CRIU_OP_PROCESS_INFO));
	EXPECT_EQ(0, in_thread(own.fd));
	EXPECT_EQ(EBADF, in_child(own.fd));
	EXPECT_EQ(0, criu_plain(own.fd, KFD_CRIU_OP_UNPAUSE));
	kfd_close(&own);
}

TEST_F(criu, wrong_calls)
{
	struct kfd_ioctl_criu_args args;
	const int fd = self->fd;

	EXPECT_EQ(EINVAL, criu_plain(fd, KFD_CRIU_OP_RESUME + 1));
	EXPECT_EQ(EINVAL, criu_plain(fd, UINT32_MAX));
	EXPECT_EQ(EINVAL, criu_plain(fd, KFD_CRIU_OP_UNPAUSE));
	ASSERT_EQ(0, criu_info(fd, &self->dump));
	args = self->dump.args;
	EXPECT_EQ(0, criu_plain(fd, KFD_CRIU_OP_UNPAUSE));
	EXPECT_EQ(EINVAL, criu_plain(fd, KFD_CRIU_OP_UNPAUSE));
	/* Its queues run. */
	EXPECT_EQ(EINVAL, criu_call(fd, KFD_CRIU_OP_CHECKPOINT, &self->dump.args));
	EXPECT_EQ(0, criu_plain(fd, KFD_CRIU_OP_PROCESS_INFO));
#define WRONG(errno, member, value)						\
	do {									\
		struct kfd_ioctl_criu_args wrong = args;			\
										\
		wrong.member = value;						\
		EXPECT_EQ(errno, criu_call(fd, KFD_CRIU_OP_CHECKPOINT, &wrong));	\
	} while (0)
	WRONG(EINVAL, devices, 0);
	WRONG(EINVAL, bos, 0);
	WRONG(EINVAL, priv_data, 0);
	WRONG(EINVAL, num_devices, args.num_devices + 1);
	WRONG(EINVAL, num_bos, args.num_bos - 1);
	WRONG(EINVAL, num_objects, args.num_objects - 1);
	WRONG(EINVAL, priv_data_size, args.priv_data_size - 1);
	WRONG(EINVAL, priv_data_size, args.priv_data_size + 8);
	WRONG(EFAULT, devices, 8);
	WRONG(EFAULT, bos, 8);
	WRONG(EFAULT, priv_data, 8);
	EXPECT_EQ(0, criu_plain(fd, KFD_CRIU_OP_UNPAUSE));
	/* Whom it names. */
	EXPECT_EQ(ESRCH, criu_resume(fd, 0));
	EXPECT_EQ(ESRCH, criu_resume(fd, -1));
	EXPECT_EQ(ESRCH, criu_resume(fd, 1));
	SKIP_ON_AMDKFD("a process that was not restored: it lets queues run that it has not stopped");
	EXPECT_EQ(EINVAL, criu_resume(fd, self->child.pid));
}

/* Descriptors of the caller. */
static unsigned int descriptors(void)
{
	unsigned int count = 0;
	DIR *dir = opendir("/proc/self/fd");

	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count;
}

/* The queue stands still, all is said exactly, and the queue goes on. */
TEST_F(criu, a_queue_goes_on)
{
	struct criu_dump again = { 0 };
	unsigned int before;
	uint32_t i;

	ASSERT_EQ(0, debuggee_do(&self->child, DEBUGGEE_QUEUE, 0));
	ASSERT_EQ(0, debuggee_do(&self->child, DEBUGGEE_START, 8));
	ASSERT_EQ(0, debuggee_do(&self->child, DEBUGGEE_RUNS, SOON_MS));
	ASSERT_EQ(0, criu_info(self->fd, &self->dump));
	EXPECT_EQ((uint32_t)self->child.pid, self->dump.args.pid);
	EXPECT_LE(kfd_gpus(), self->dump.args.num_devices);
	/* Event page, save area, code and data of waves; ring, pointers and EOP buffer. */
	EXPECT_EQ(7, self->dump.args.num_bos);
	/* Three events, and the queue. */
	EXPECT_EQ(4, self->dump.args.num_objects);
	EXPECT_EQ(ETIMEDOUT, debuggee_do(&self->child, DEBUGGEE_RUNS, NOT_MS));
	ASSERT_EQ(0, criu_call(self->fd, KFD_CRIU_OP_PROCESS_INFO, &again.args));
	EXPECT_EQ(self->dump.args.priv_data_size, again.args.priv_data_size);
	EXPECT_EQ(self->dump.args.num_objects, again.args.num_objects);
	before = descriptors();
	ASSERT_EQ(0, criu_call(self->fd, KFD_CRIU_OP_CHECKPOINT, &self->dump.args));
	EXPECT_EQ(before + 7, descriptors());
	ASSERT_EQ(0, criu_copy(&self->dump, true));
	criu_close_bos(&self->dump);
	EXPECT_EQ(before, descriptors());
	for (i = 0; i < self->dump.args.num_bos; i++) {
		const struct kfd_criu_bo_bucket *bo = &self->dump.bos[i];

		EXPECT_NE(0, bo->addr);
		EXPECT_EQ(self->child.shared->gpu_id, bo->gpu_id);
		if (bo->addr == self->child.shared->ring)
			EXPECT_EQ(DEBUGGEE_RING, bo->size);
		/* The header of the save area, which the child has written. */
		if (bo->addr == self->child.shared->save)
			EXPECT_NE(0, ((uint64_t *)self->dump.contents[i])[3]);
	}
	EXPECT_EQ(ETIMEDOUT, debuggee_do(&self->child, DEBUGGEE_RUNS, NOT_MS));
	ASSERT_EQ(0, criu_plain(self->fd, KFD_CRIU_OP_UNPAUSE));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_RUNS, SOON_MS));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_STOP, 0));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_WORKS, 0));
}

/* The process is killed while its queues are stopped. */
TEST_F(criu, killed_while_stopped)
{
	ASSERT_EQ(0, debuggee_do(&self->child, DEBUGGEE_QUEUE, 0));
	ASSERT_EQ(0, debuggee_do(&self->child, DEBUGGEE_START, 8));
	ASSERT_EQ(0, criu_dump(self->fd, &self->dump));
	kill(self->child.pid, SIGKILL);
	while (waitpid(self->child.pid, NULL, 0) < 0 && errno == EINTR)
		;
	EXPECT_EQ(EBADF, criu_plain(self->fd, KFD_CRIU_OP_UNPAUSE));
}

KFD_HARNESS_MAIN
