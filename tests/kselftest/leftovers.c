// SPDX-License-Identifier: GPL-2.0
/*
 * What waves of one process find of another's in VGPRs, SGPRs and LDS. Nothing clears these by
 * itself; with enforce_isolation nothing is found.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kfd_harness.h"
#include "kfd_waves.h"

#define RING			(64u * 1024)
#define TIMEOUT_MS		KFD_HANG_MS
/* Groups: on all CUs, or on a few, as it takes the model long to save waves of all VGPRs. */
#define ALL			0u
#define FEW			4u
#define TIMES			5u
#define WORKERS			64u
#define WORK_MS			1000u

/* Why a process ends early. The harness has meanings for smaller ones. */
enum { NO_GPU = 11, NOT_CLOSED, NOT_STARTED, NOT_THROUGH, NOT_ENDED };

/* A process on the GPU. */
struct user {
	struct kfd_dev dev;
	struct kfd_save save;
	struct kfd_compute queue;
	struct waves waves;
};

/* What processes share. */
struct shared {
	struct waves_found found;
	uint32_t begun, ends;
	uint32_t rounds;	/* of the other process */
};

static void open_user(struct user *user)
{
	if (kfd_open(&user->dev) || kfd_save_create(&user->dev, &user->save) ||
	    kfd_compute_create(&user->dev, &user->queue, &user->save, false, RING) ||
	    waves_create(&user->dev, &user->waves, WORKERS))
		_exit(NO_GPU);
}

static void close_user(struct user *user)
{
	if (kfd_compute_destroy(&user->dev, &user->queue) ||
	    waves_destroy(&user->dev, &user->waves) || kfd_save_destroy(&user->dev, &user->save))
		_exit(NOT_CLOSED);
	kfd_close(&user->dev);
}

/* Starts @groups of @program, and waits until they are through. Their waves stay. */
static void run(struct user *user, enum waves_program program, unsigned int groups)
{
	/* Two groups without LDS fit on a CU. */
	const unsigned int all = kfd_xcc_cus(&user->dev) * (waves_shape[program].lds ? 1 : 2);
	const unsigned int count = (groups ? groups : all) * waves_shape[program].waves;
	const uint64_t end = kfd_now_ms() + TIMEOUT_MS;

	if (!count || !waves_start(&user->waves, &user->queue, program, count, true))
		_exit(NOT_STARTED);
	while (waves_found(&user->waves)->arrived < count) {
		if (kfd_now_ms() > end) {
			printf("# %u of %u waves are through\n",
			       waves_found(&user->waves)->arrived, count);
			_exit(NOT_THROUGH);
		}
		usleep(200);
	}
}

/* Lets the waves of run() end, and waits for it. */
static void stop(struct user *user)
{
	waves_stop(&user->waves);
	if (!kfd_compute_works(&user->queue, TIMEOUT_MS))
		_exit(NOT_ENDED);
}

/* In a process of its own: leaves the secret everywhere. */
static void leave(volatile struct shared *shared)
{
	struct user user;

	(void)shared;
	open_user(&user);
	run(&user, WAVES_LEAVE_SCALARS, ALL);
	stop(&user);
	run(&user, WAVES_LEAVE, ALL);
	stop(&user);
	close_user(&user);
}

static void find_with(struct user *user, unsigned int groups, volatile struct waves_found *found)
{
	run(user, WAVES_FIND_SCALARS, groups);
	stop(user);
	found->scalars += waves_found(&user->waves)->scalars;
	run(user, WAVES_FIND, groups);
	stop(user);
	found->arch += waves_found(&user->waves)->arch;
	found->acc += waves_found(&user->waves)->acc;
	found->lds += waves_found(&user->waves)->lds;
}

/* In a process of its own: counts what it finds. */
static void find(volatile struct shared *shared)
{
	struct user user;

	open_user(&user);
	find_with(&user, ALL, &shared->found);
	close_user(&user);
}

/* Leaves the secret, with waves that stay, until told to end. */
static void stay(volatile struct shared *shared)
{
	struct user user;

	open_user(&user);
	run(&user, WAVES_LEAVE, FEW);
	shared->begun = 1;
	while (!shared->ends)
		usleep(1000);
	stop(&user);
	close_user(&user);
}

/* Has waves that count, until told to end, and tells how far they are. */
static void work_on(volatile struct shared *shared)
{
	struct user user;

	open_user(&user);
	if (!waves_start(&user.waves, &user.queue, WAVES_MIDDLE, WORKERS, true) ||
	    !waves_go_on(&user.waves, TIMEOUT_MS))
		_exit(NOT_STARTED);
	shared->begun = 1;
	while (!shared->ends) {
		shared->rounds = (uint32_t)waves_rounds(&user.waves);
		usleep(1000);
	}
	waves_stop(&user.waves);
	if (!waves_ended(&user.waves, TIMEOUT_MS) || waves_bad(&user.waves))
		_exit(NOT_ENDED);
	close_user(&user);
}

static pid_t begin(void (*f)(volatile struct shared *shared), volatile struct shared *shared)
{
	const pid_t pid = fork();

	if (pid == 0) {
		f(shared);
		_exit(0);
	}
	return pid;
}

static int end(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Writes to amdgpu's file of the GPU; returns what it reads then, or -1. */
static int isolate(const char *value)
{
	char text[8] = "";
	int fd = open("/sys/class/drm/renderD128/device/enforce_isolation", O_RDWR | O_CLOEXEC);
	ssize_t got = -1;

	if (fd < 0)
		return -1;
	if (write(fd, value, strlen(value)) == (ssize_t)strlen(value))
		got = pread(fd, text, sizeof(text) - 1, 0);
	close(fd);
	return got > 0 ? text[0] - '0' : -1;
}

/* Returns whether the other process has begun. */
static bool begins(volatile struct shared *shared)
{
	return kfd_becomes(&shared->begun, 1, TIMEOUT_MS);
}

FIXTURE(leftovers)
{
	volatile struct shared *shared;
};

FIXTURE_SETUP(leftovers)
{
	self->shared = kfd_share();
	ASSERT_NE(NULL, self->shared);
}

FIXTURE_TEARDOWN(leftovers)
{
	EXPECT_EQ(0, isolate("0"));
}

static void tell(struct __test_metadata *_metadata, volatile struct waves_found *found)
{
	TH_LOG("found: %u dwords in arch VGPRs, %u in accumulation VGPRs, %u in LDS; %u SGPRs",
	       found->arch, found->acc, found->lds, found->scalars);
}

/* That there is something to clear. */
TEST_F(leftovers, of_another_process)
{
	volatile struct waves_found *found = &self->shared->found;

	ASSERT_EQ(0, isolate("0"));
	ASSERT_EQ(0, end(begin(leave, self->shared)));
	ASSERT_EQ(0, end(begin(find, self->shared)));
	tell(_metadata, found);
	EXPECT_LT(0, found->arch);
	EXPECT_LT(0, found->acc);
	EXPECT_LT(0, found->lds);
	EXPECT_LT(0, found->scalars);
}

static void expect_nothing(struct __test_metadata *_metadata, volatile struct waves_found *found)
{
	tell(_metadata, found);
	EXPECT_EQ(0, found->arch);
	EXPECT_EQ(0, found->acc);
	EXPECT_EQ(0, found->lds);
	EXPECT_EQ(0, found->scalars);
}

TEST_F(leftovers, of_a_process_that_has_ended)
{
	ASSERT_EQ(1, isolate("1"));
	ASSERT_EQ(0, end(begin(leave, self->shared)));
	ASSERT_EQ(0, end(begin(find, self->shared)));
	expect_nothing(_metadata, &self->shared->found);
}

/* Switched on while the other one has already left something. */
TEST_F(leftovers, of_before)
{
	ASSERT_EQ(0, isolate("0"));
	ASSERT_EQ(0, end(begin(leave, self->shared)));
	ASSERT_EQ(1, isolate("1"));
	ASSERT_EQ(0, end(begin(find, self->shared)));
	expect_nothing(_metadata, &self->shared->found);
}

/* Switched on while waves of both are there. They take turns from then on. */
TEST_F(leftovers, of_a_process_beside)
{
	struct user user;
	unsigned int i;
	pid_t pid;

	ASSERT_EQ(0, isolate("0"));
	pid = begin(stay, self->shared);
	ASSERT_TRUE(begins(self->shared));
	open_user(&user);
	ASSERT_TRUE(kfd_compute_works(&user.queue, TIMEOUT_MS));
	ASSERT_EQ(1, isolate("1"));
	/* amdkfd begins with the next list. */
	ASSERT_EQ(0, kfd_compute_update(&user.dev, &user.queue, 0));
	ASSERT_EQ(0, kfd_compute_update(&user.dev, &user.queue, 100));
	for (i = 0; i < TIMES; i++)
		find_with(&user, FEW, &self->shared->found);
	self->shared->ends = 1;
	EXPECT_EQ(0, end(pid));
	close_user(&user);
	expect_nothing(_metadata, &self->shared->found);
}

/* Both go on, and lose nothing of their own. What it costs is in the log. */
TEST_F(leftovers, of_processes_that_go_on)
{
	static const char *const modes[] = { "0", "1" };
	struct user user;
	unsigned int i;
	pid_t pid;

	pid = begin(work_on, self->shared);
	ASSERT_TRUE(begins(self->shared));
	open_user(&user);
	ASSERT_TRUE(waves_start(&user.waves, &user.queue, WAVES_MIDDLE, WORKERS, true));
	ASSERT_TRUE(waves_go_on(&user.waves, TIMEOUT_MS));
	for (i = 0; i < 2; i++) {
		uint64_t mine, my_first;
		uint32_t other, others_first;
		unsigned int ms = 0;

		ASSERT_EQ((int)i, isolate(modes[i]));
		others_first = self->shared->rounds;
		my_first = waves_rounds(&user.waves);
		/* On a slow machine a turn may last longer. */
		do {
			usleep(WORK_MS * 1000);
			ms += WORK_MS;
			other = self->shared->rounds - others_first;
			mine = waves_rounds(&user.waves) - my_first;
		} while ((!mine || !other) && ms < TIMEOUT_MS);
		TH_LOG("enforce_isolation=%s: %u and %u rounds in %u ms", modes[i],
		       (unsigned int)mine, other, ms);
		EXPECT_LT(0, mine);
		EXPECT_LT(0, other);
	}
	self->shared->ends = 1;
	EXPECT_EQ(0, end(pid));
	waves_stop(&user.waves);
	ASSERT_TRUE(waves_ended(&user.waves, TIMEOUT_MS));
	EXPECT_EQ(0, waves_bad(&user.waves));
	close_user(&user);
}

TEST_F(leftovers, values_without_meaning)
{
	EXPECT_EQ(-1, isolate("4"));
	EXPECT_EQ(-1, isolate("-1"));
	EXPECT_EQ(-1, isolate("yes"));
}

KFD_HARNESS_MAIN
