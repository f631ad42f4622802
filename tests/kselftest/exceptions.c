// SPDX-License-Identifier: GPL-2.0
/*
 * Exceptions of queues, as a runtime learns of them after RUNTIME_ENABLE: the header of a queue's
 * save area names a word, to which the exceptions are added, and an event, which is set.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "kfd_event.h"
#include "kfd_harness.h"
#include "kfd_waves.h"
#include "objects.h"
#include "tap.h"
#include "user_faults.h"

#define RING		(16u * 1024)
#define SOON_MS		KFD_HANG_MS
#define NOT_MS		300u
#define QUEUES		3u
#define TIMES		20u
/* What a word has before; it stays. */
#define BEFORE		(1ull << 40)
#define MASK(code)	KFD_EC_MASK(code)

FIXTURE(exceptions)
{
	struct kfd_dev dev;
	struct kfd_save save;
	struct kfd_bo page;
	struct kfd_compute queue;	/* PM4 */
	struct waves waves;
	uint32_t event, broken;		/* broken: a queue or the GPU had to be stopped */
	volatile uint64_t word;
};

static int runtime(const struct kfd_dev *dev, bool on)
{
	struct kfd_ioctl_runtime_enable_args args = {
		.mode_mask = on ? KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK : 0,
	};

	return kfd_ioctl(dev->fd, AMDKFD_IOC_RUNTIME_ENABLE, &args);
}

static struct kfd_context_save_area_header *header(const struct kfd_save *save)
{
	return save->bo.cpu;
}

/* Exceptions of the queue with this save area add to @word and set @event. */
static void name(const struct kfd_save *save, volatile uint64_t *word, uint32_t event)
{
	header(save)->err_payload_addr = (uintptr_t)word;
	header(save)->err_event_id = event;
}

/* The dword that tells the handler what to report. */
static volatile uint32_t *codes(const struct waves *waves)
{
	return (volatile uint32_t *)waves->data.cpu + 8;
}

static int open_all(FIXTURE_DATA(exceptions) *self, bool wanted)
{
	uint32_t first;
	int err = kfd_open(&self->dev);

	if (!err)
		err = event_page_user(&self->dev, &self->page, &first);
	if (!err)
		err = event_create(&self->dev, KFD_IOC_EVENT_SIGNAL, true, &self->event);
	if (!err)
		err = event_create(&self->dev, KFD_IOC_EVENT_HW_EXCEPTION, true, &self->broken);
	if (!err)
		err = kfd_save_create(&self->dev, &self->save);
	if (!err)
		err = waves_create(&self->dev, &self->waves, 1);
	if (!err)
		err = waves_set_handler(&self->dev, &self->waves, (uintptr_t)codes(&self->waves));
	if (!err && wanted)
		err = runtime(&self->dev, true);
	if (!err)
		err = kfd_compute_create(&self->dev, &self->queue, &self->save, false, RING);
	if (!err) {
		self->word = BEFORE;
		name(&self->save, &self->word, self->event);
	}
	return err;
}

FIXTURE_SETUP(exceptions)
{
	ASSERT_EQ(0, open_all(self, true));
}

FIXTURE_TEARDOWN(exceptions)
{
	EXPECT_EQ(0, kfd_compute_destroy(&self->dev, &self->queue));
	EXPECT_EQ(0, waves_destroy(&self->dev, &self->waves));
	EXPECT_EQ(0, kfd_save_destroy(&self->dev, &self->save));
	kfd_close(&self->dev);
}

/* Starts a wave that goes wrong; the handler reports @report, or what has happened if that is 0. */
static bool go_wrong(struct waves *waves, struct kfd_compute *queue, enum waves_wrong what,
		     uint32_t report)
{
	struct packets p = { 0 };

	((volatile uint32_t *)waves->data.cpu)[1] = what;
	*codes(waves) = report;
	waves_dispatch(&p, waves, WAVES_EXCEPTION, 1, true);
	return kfd_compute_pm4(queue, &p);
}

static bool is_told(const struct kfd_dev *dev, uint32_t event)
{
	return event_wait(dev, event, SOON_MS) == 0;
}

static bool is_quiet(const struct kfd_dev *dev, uint32_t event, unsigned int ms)
{
	return event_wait(dev, event, ms) == ETIMEDOUT;
}

TEST_F(exceptions, waves)
{
	static const struct {
		enum waves_wrong what;
		uint64_t mask;
	} cases[] = {
		{ WAVES_ABORT, MASK(EC_QUEUE_WAVE_ABORT) },
		{ WAVES_TRAP, MASK(EC_QUEUE_WAVE_TRAP) },
		{ WAVES_ILLEGAL, MASK(EC_QUEUE_WAVE_ILLEGAL_INSTRUCTION) },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		self->word = BEFORE;
		ASSERT_TRUE(go_wrong(&self->waves, &self->queue, cases[i].what, 0));
		EXPECT_TRUE(is_told(&self->dev, self->event));
		EXPECT_EQ(BEFORE | cases[i].mask, self->word);
		/* The handler has ended the wave. */
		EXPECT_TRUE(kfd_compute_works(&self->queue, SOON_MS));
	}
	EXPECT_TRUE(is_quiet(&self->dev, self->broken, 0));
}

/* What a handler reports is passed on as it is. */
TEST_F(exceptions, reports)
{
	static const uint32_t reports[] = {
		MASK(EC_QUEUE_WAVE_MATH_ERROR),
		MASK(EC_QUEUE_WAVE_MEMORY_VIOLATION),
		MASK(EC_QUEUE_WAVE_APERTURE_VIOLATION),
		MASK(EC_QUEUE_WAVE_MEMORY_VIOLATION) | MASK(EC_QUEUE_WAVE_APERTURE_VIOLATION),
		/* Bits of no code come along. */
		MASK(EC_QUEUE_WAVE_ABORT) | 1u << 6 | 1u << 8,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(reports); i++) {
		self->word = BEFORE;
		ASSERT_TRUE(go_wrong(&self->waves, &self->queue, WAVES_TRAP, reports[i]));
		EXPECT_TRUE(is_told(&self->dev, self->event));
		EXPECT_EQ(BEFORE | reports[i], self->word);
	}
	/* They add up until the runtime takes them. */
	ASSERT_TRUE(go_wrong(&self->waves, &self->queue, WAVES_TRAP,
			     MASK(EC_QUEUE_WAVE_MATH_ERROR)));
	EXPECT_TRUE(is_told(&self->dev, self->event));
	EXPECT_EQ(BEFORE | reports[ARRAY_SIZE(reports) - 1] | MASK(EC_QUEUE_WAVE_MATH_ERROR),
		  self->word);
}

/* A message without an exception of a wave is an ordinary one. */
TEST_F(exceptions, other_messages)
{
	ASSERT_TRUE(go_wrong(&self->waves, &self->queue, WAVES_TRAP, 1u << 7));
	EXPECT_TRUE(is_quiet(&self->dev, self->event, NOT_MS));
	EXPECT_EQ(BEFORE, self->word);
}

/* Without a runtime the same messages are ordinary ones. */
TEST_F(exceptions, runtime_ends)
{
	EXPECT_EQ(0, runtime(&self->dev, false));
	ASSERT_TRUE(go_wrong(&self->waves, &self->queue, WAVES_TRAP, 0));
	EXPECT_TRUE(is_quiet(&self->dev, self->event, NOT_MS));
	EXPECT_EQ(BEFORE, self->word);
	EXPECT_TRUE(kfd_compute_works(&self->queue, SOON_MS));
}

TEST_F(exceptions, each_queue_has_its_own)
{
	struct kfd_compute queues[QUEUES];
	struct kfd_save saves[QUEUES];
	volatile uint64_t words[QUEUES];
	uint32_t events[QUEUES];
	unsigned int i, other;

	for (i = 0; i < QUEUES; i++) {
		words[i] = 0;
		ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_SIGNAL, true, &events[i]));
		ASSERT_EQ(0, kfd_save_create(&self->dev, &saves[i]));
		name(&saves[i], &words[i], events[i]);
		ASSERT_EQ(0, kfd_compute_create(&self->dev, &queues[i], &saves[i], false, RING));
	}
	for (i = 0; i < QUEUES; i++) {
		ASSERT_TRUE(go_wrong(&self->waves, &queues[i], WAVES_TRAP, 1u << i));
		EXPECT_TRUE(is_told(&self->dev, events[i]));
		for (other = 0; other < QUEUES; other++) {
			EXPECT_EQ(other <= i ? 1u << other : 0, words[other]);
			EXPECT_TRUE(is_quiet(&self->dev, events[other], 0));
		}
	}
	/* Without the first, the others go on. */
	EXPECT_EQ(0, kfd_compute_destroy(&self->dev, &queues[0]));
	ASSERT_TRUE(go_wrong(&self->waves, &queues[1], WAVES_ILLEGAL, 0));
	EXPECT_TRUE(is_told(&self->dev, events[1]));
	EXPECT_EQ(MASK(EC_QUEUE_WAVE_TRAP) | MASK(EC_QUEUE_WAVE_ILLEGAL_INSTRUCTION), words[1]);
	EXPECT_EQ(1, words[0]);
	for (i = 1; i < QUEUES; i++)
		EXPECT_EQ(0, kfd_compute_destroy(&self->dev, &queues[i]));
	for (i = 0; i < QUEUES; i++)
		EXPECT_EQ(0, kfd_save_destroy(&self->dev, &saves[i]));
	EXPECT_EQ(BEFORE, self->word);
}

/* Packets that the CP refuses, for a queue of their own each. */
TEST_F(exceptions, packets)
{
	static const struct {
		struct aql_packet packet;
		uint64_t mask;
	} cases[] = {
		/* No work-items in the dimensions. */
		{ { .header = AQL_HEADER(AQL_KERNEL_DISPATCH) },
		  MASK(EC_QUEUE_PACKET_DISPATCH_DIM_INVALID) },
		{ { .header = AQL_HEADER(7) }, MASK(EC_QUEUE_PACKET_UNSUPPORTED) },
		{ { .header = AQL_HEADER(4) }, MASK(EC_QUEUE_PACKET_UNSUPPORTED) },
		{ { .header = AQL_HEADER(AQL_VENDOR), .format = 99 },
		  MASK(EC_QUEUE_PACKET_VENDOR_UNSUPPORTED) },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct kfd_compute queue;

		self->word = BEFORE;
		ASSERT_EQ(0, kfd_compute_create(&self->dev, &queue, &self->save, true, RING));
		ASSERT_TRUE(kfd_compute_works(&queue, SOON_MS));
		ASSERT_TRUE(kfd_compute_aql(&queue, &cases[i].packet, 1));
		EXPECT_TRUE(is_told(&self->dev, self->event));
		EXPECT_EQ(BEFORE | cases[i].mask, self->word);
		EXPECT_EQ(0, kfd_compute_destroy(&self->dev, &queue));
	}
	/* That would end the runtime. */
	EXPECT_TRUE(is_quiet(&self->dev, self->broken, NOT_MS));
	EXPECT_TRUE(kfd_compute_works(&self->queue, SOON_MS));
}

/* A PM4 queue has no other way to tell its runtime. */
TEST_F(exceptions, packet_of_pm4)
{
	struct packets p = { 0 };

	pm4_header(&p, 0xfe, 2);
	sdma_emit64(&p, 0);
	ASSERT_TRUE(kfd_compute_pm4(&self->queue, &p));
	EXPECT_TRUE(is_told(&self->dev, self->event));
	EXPECT_EQ(BEFORE | MASK(EC_QUEUE_PACKET_UNSUPPORTED), self->word);
	EXPECT_TRUE(is_quiet(&self->dev, self->broken, NOT_MS));
}

/* Where the word cannot be written the event is set all the same, as in amdkfd. */
TEST_F(exceptions, memory_taken_away)
{
	uint64_t *memory = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT_NE(MAP_FAILED, memory);
	*memory = BEFORE;
	name(&self->save, memory, self->event);
	ASSERT_EQ(0, mprotect(memory, KFD_PAGE, PROT_READ));
	ASSERT_TRUE(go_wrong(&self->waves, &self->queue, WAVES_TRAP, 0));
	EXPECT_TRUE(is_told(&self->dev, self->event));
	EXPECT_EQ(BEFORE, *memory);
	ASSERT_EQ(0, munmap(memory, KFD_PAGE));
	ASSERT_TRUE(go_wrong(&self->waves, &self->queue, WAVES_TRAP, 0));
	EXPECT_TRUE(is_told(&self->dev, self->event));
	/* No word, an address of the kernel's, an event that is not there. */
	name(&self->save, NULL, self->event);
	ASSERT_TRUE(go_wrong(&self->waves, &self->queue, WAVES_TRAP, 0));
	EXPECT_TRUE(is_told(&self->dev, self->event));
	name(&self->save, (uint64_t *)0xffff800000000000, self->event);
	ASSERT_TRUE(go_wrong(&self->waves, &self->queue, WAVES_TRAP, 0));
	EXPECT_TRUE(is_told(&self->dev, self->event));
	name(&self->save, &self->word, 4000);
	ASSERT_TRUE(go_wrong(&self->waves, &self->queue, WAVES_TRAP, 0));
	EXPECT_TRUE(is_quiet(&self->dev, self->event, NOT_MS));
	EXPECT_EQ(BEFORE | MASK(EC_QUEUE_WAVE_TRAP), self->word);
	/* Not even the header. */
	name(&self->save, &self->word, self->event);
	self->word = BEFORE;
	ASSERT_EQ(0, mprotect(self->save.bo.cpu, KFD_PAGE, PROT_NONE));
	ASSERT_TRUE(go_wrong(&self->waves, &self->queue, WAVES_TRAP, 0));
	EXPECT_TRUE(is_quiet(&self->dev, self->event, NOT_MS));
	EXPECT_EQ(BEFORE, self->word);
	ASSERT_EQ(0, mprotect(self->save.bo.cpu, KFD_PAGE, PROT_READ | PROT_WRITE));
	EXPECT_TRUE(kfd_compute_works(&self->queue, SOON_MS));
}

/* After DESTROY_QUEUE the process may use the memory for something else. */
TEST_F(exceptions, destroyed_queues_write_nothing)
{
	unsigned int i;

	for (i = 0; i < work(TIMES, TIMES / 4); i++) {
		struct kfd_compute queue;

		ASSERT_EQ(0, kfd_compute_create(&self->dev, &queue, &self->save, false, RING));
		ASSERT_TRUE(go_wrong(&self->waves, &queue, WAVES_TRAP, 0));
		usleep(i * 50);
		ASSERT_EQ(0, kfd_compute_destroy(&self->dev, &queue));
		self->word = BEFORE;
		usleep(2000);
		ASSERT_EQ(BEFORE, self->word);
		event_wait(&self->dev, self->event, 0);
	}
}

/* A word in memory that the process itself has to provide. */
static uint64_t *slow_word(int *uffd)
{
	uint64_t *word = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (word == MAP_FAILED)
		return NULL;
	*uffd = handle_faults(word, KFD_PAGE);
	return *uffd < 0 ? NULL : word;
}

/* True if the kernel waits for the page, within some time. */
static bool is_asked_for(int uffd)
{
	struct pollfd fd = { .fd = uffd, .events = POLLIN };

	return poll(&fd, 1, (int)SOON_MS) == 1;
}

struct destroyer {
	const struct kfd_dev *dev;
	struct kfd_compute *queue;
	int err;
	volatile bool done;
};

static void *destroy(void *arg)
{
	struct destroyer *d = arg;

	d->err = kfd_compute_destroy(d->dev, d->queue);
	d->done = true;
	return NULL;
}

/* Only the process waits for its memory, and DESTROY_QUEUE does. */
TEST_F(exceptions, memory_that_comes_late)
{
	struct destroyer d = { .dev = &self->dev };
	struct kfd_compute queue;
	pthread_t thread;
	uint64_t *word;
	int uffd, status;
	pid_t pid;

	SKIP_ON_AMDKFD("no interrupt of any process is handled meanwhile");
	word = slow_word(&uffd);
	ASSERT_NE(NULL, word);
	name(&self->save, word, self->event);
	ASSERT_EQ(0, kfd_compute_create(&self->dev, &queue, &self->save, false, RING));
	d.queue = &queue;
	ASSERT_TRUE(go_wrong(&self->waves, &queue, WAVES_TRAP, 0));
	ASSERT_TRUE(is_asked_for(uffd));
	EXPECT_TRUE(is_quiet(&self->dev, self->event, NOT_MS));
	/* Another process is told of its own. */
	pid = fork();
	if (pid == 0) {
		FIXTURE_DATA(exceptions) other = { 0 };

		_exit(open_all(&other, true) ||
		      !go_wrong(&other.waves, &other.queue, WAVES_ABORT, 0) ||
		      !is_told(&other.dev, other.event) ||
		      other.word != (BEFORE | MASK(EC_QUEUE_WAVE_ABORT)));
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	ASSERT_EQ(0, pthread_create(&thread, NULL, destroy, &d));
	usleep(NOT_MS * 1000);
	EXPECT_FALSE(d.done);
	ASSERT_EQ(0, provide_zeros(uffd, word, 1));
	EXPECT_TRUE(is_told(&self->dev, self->event));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(0, d.err);
	EXPECT_EQ(MASK(EC_QUEUE_WAVE_TRAP), *word);
	close(uffd);
}

/* A process with an exception that waits for its memory; says which file reports that. */
static void wait_for_memory(int out)
{
	FIXTURE_DATA(exceptions) own = { 0 };
	uint64_t *word;
	int uffd;

	if (open_all(&own, true))
		_exit(1);
	word = slow_word(&uffd);
	if (!word)
		_exit(2);
	name(&own.save, word, own.event);
	if (!go_wrong(&own.waves, &own.queue, WAVES_TRAP, 0) || !is_asked_for(uffd))
		_exit(3);
	if (write(out, &uffd, sizeof(uffd)) != sizeof(uffd))
		_exit(4);
	pause();
}

/* A process is killed while its memory is waited for: nothing stays. */
TEST(killed_meanwhile)
{
	char base[OBJECTS_MAX];
	int out[2], process, number, uffd, status;
	pid_t pid;

	SKIP_ON_AMDKFD("no interrupt of any process is handled meanwhile");
	ASSERT_TRUE(objects_base(base, 0));
	ASSERT_EQ(0, pipe(out));
	pid = fork();
	if (pid == 0) {
		wait_for_memory(out[1]);
		_exit(0);
	}
	close(out[1]);
	ASSERT_EQ(sizeof(number), read(out[0], &number, sizeof(number)));
	close(out[0]);
	/* Otherwise the wait would end with the process's own copy. */
	process = (int)syscall(SYS_pidfd_open, pid, 0);
	ASSERT_LE(0, process);
	uffd = (int)syscall(SYS_pidfd_getfd, process, number, 0);
	ASSERT_LE(0, uffd);
	kill(pid, SIGKILL);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(SIGKILL, status);
	EXPECT_TRUE(objects_return_to(base, SOON_MS));
	close(uffd);
	close(process);
}

KFD_HARNESS_MAIN
