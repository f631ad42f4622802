// SPDX-License-Identifier: GPL-2.0
/*
 * Processes that together want more VRAM than there is: each has 40 % of it, and they copy by
 * turns. Wants a device with little VRAM.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/check.h"
#include "common/child.h"
#include "common/pattern.h"
#include "common/queue.h"
#include "tap.h"
#include "trace.h"
#include "kfd.h"
#include "objects.h"

#define MIB		(1u << 20)
#define PAGE		4096u
#define RING_SIZE	(16u << 10)
#define PROCESSES	4u
#define PERCENT		40u
#define CHUNK		(4u * MIB)
#define CHUNKS		3u	/* in a buffer */
#define BUFFERS_MAX	128u

/* A process's share of VRAM, and the other ends of its copies. */
struct share {
	struct gpu gpu;
	struct buffer vram[BUFFERS_MAX];
	unsigned int count;
	struct buffer from, to;
	struct queue queue;
	uint8_t *expected;
	unsigned int who;
};

static unsigned int chunks(const struct share *s)
{
	return s->count * CHUNKS;
}

static size_t chunk_at(unsigned int chunk)
{
	return (size_t)(chunk % CHUNKS) * CHUNK;
}

static uint64_t chunk_gpu(const struct share *s, unsigned int chunk)
{
	return s->vram[chunk / CHUNKS].gpu + chunk_at(chunk);
}

static uint8_t *chunk_cpu(const struct share *s, unsigned int chunk)
{
	return s->vram[chunk / CHUNKS].cpu + chunk_at(chunk);
}

/* Marks each page of @p with its owner, its chunk and the round. */
static void stamp(const struct share *s, uint8_t *p, unsigned int chunk,
		  unsigned int round)
{
	unsigned int page;

	for (page = 0; page < CHUNK / PAGE; page++) {
		const uint32_t words[4] = { s->who, chunk, round, page };

		memcpy(p + (size_t)page * PAGE, words, sizeof(words));
	}
}

/* A time slice may be long in coming: others have theirs. */
static bool copy(struct share *s, uint64_t dst, uint64_t src)
{
	struct packets p = { 0 };

	sdma_copy(&p, dst, src, CHUNK);
	return queue_wait_ms(&s->queue, queue_submit(&s->queue, &p),
			     PROCESSES * timeout_ms());
}

static bool put(struct share *s, unsigned int chunk, unsigned int round)
{
	stamp(s, s->from.cpu, chunk, round);
	return copy(s, chunk_gpu(s, chunk), s->from.gpu);
}

/* True if the chunk has the data that the engine put there. */
static bool is_right(struct share *s, unsigned int chunk, unsigned int round)
{
	memset(s->to.cpu, 0, PAGE);
	if (!copy(s, s->to.gpu, chunk_gpu(s, chunk)))
		return false;
	stamp(s, s->expected, chunk, round);
	return memcmp(s->to.cpu, s->expected, CHUNK) == 0;
}

/* True if the CPU sees the same, at both ends of the chunk. */
static bool cpu_is_right(struct share *s, unsigned int chunk, unsigned int round)
{
	const uint8_t *p = chunk_cpu(s, chunk);

	stamp(s, s->expected, chunk, round);
	return memcmp(p, s->expected, PAGE) == 0 &&
	       memcmp(p + CHUNK - PAGE, s->expected + CHUNK - PAGE, PAGE) == 0;
}

static bool is_zero(const uint8_t *p, size_t size)
{
	return p[0] == 0 && memcmp(p, p + 1, size - 1) == 0;
}

static void open_share(struct share *s, unsigned int who, unsigned int percent)
{
	size_t size;

	memset(s, 0, sizeof(*s));
	s->who = who;
	gpu_open(&s->gpu);
	size = s->gpu.vram / 100 * percent;
	buffer_create(&s->gpu, &s->from, BUFFER_GTT, CHUNK);
	buffer_create(&s->gpu, &s->to, BUFFER_GTT, CHUNK);
	queue_create(&s->gpu, &s->queue, RING_SIZE, BUFFER_GTT);
	s->expected = malloc(CHUNK);
	if (!s->expected)
		die("no memory");
	pattern_fill(s->from.cpu, CHUNK, who, 0);
	memcpy(s->expected, s->from.cpu, CHUNK);
	while (s->count < BUFFERS_MAX && size >= (size_t)(s->count + 1) * CHUNKS * CHUNK)
		buffer_create(&s->gpu, &s->vram[s->count++], BUFFER_VRAM, CHUNKS * CHUNK);
}

/* The work of one process; the exit status is 0 if all was right. */
static int copies(unsigned int who)
{
	const unsigned int rounds = work(4, 2);
	unsigned int c, round;
	struct share s;

	open_share(&s, who, PERCENT);
	/* Its new memory has no data of others in it, wherever their data went. */
	for (c = 0; c < chunks(&s); c++) {
		if (!copy(&s, s.to.gpu, chunk_gpu(&s, c)) || !is_zero(s.to.cpu, CHUNK)) {
			tap_note("process %u, chunk %u: not zero", who, c);
			return 1;
		}
	}
	for (round = 0; round < rounds; round++) {
		for (c = 0; c < chunks(&s); c++)
			if (!put(&s, c, round))
				return 1;
		for (c = 0; c < chunks(&s); c++) {
			if (!is_right(&s, c, round) || !cpu_is_right(&s, c, round)) {
				tap_note("process %u, round %u, chunk %u: wrong data",
					 who, round, c);
				return 1;
			}
		}
	}
	/* Half of them leave their objects to the kernel. */
	if (who & 1)
		return 0;
	queue_destroy(&s.queue);
	for (c = 0; c < s.count; c++)
		buffer_destroy(&s.vram[c]);
	gpu_close();
	return 0;
}

static pid_t child(int (*f)(unsigned int), unsigned int who)
{
	const pid_t pid = child_fork();

	if (pid == 0)
		exit(f(who));
	return pid;
}

/* A file with events about the queues of all processes. */
static int watch(void)
{
	const uint64_t wanted = KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_QUEUE_EVICTION) |
				KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_QUEUE_RESTORE);
	struct kfd_ioctl_smi_events_args args = { 0 };
	struct kfd_dev dev;
	int fd, err;

	if (kfd_find_gpu(&dev))
		die("no GPU");
	fd = open(KFD_PATH, O_RDWR | O_CLOEXEC);
	args.gpuid = dev.gpu_id;
	err = kfd_ioctl(fd, AMDKFD_IOC_SMI_EVENTS, &args);
	close(fd);
	if (err || write((int)args.anon_fd, &wanted, sizeof(wanted)) != sizeof(wanted))
		die("no SMI events");
	return (int)args.anon_fd;
}

/* Checks the reports of buffers' evictions, and of the queues' restores. */
static void check_told(int fd)
{
	unsigned int id, gpu, evicted = 0, restored = 0;
	char text[16384], end;
	long long ns;
	size_t n = 0;
	ssize_t got;
	char *line;
	int pid;

	while (n < sizeof(text) - 1 && (got = read(fd, text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)got;
	text[n] = '\0';
	for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		if (sscanf(line, "%x %lld -%d %x %c", &id, &ns, &pid, &gpu, &end) != 5)
			continue;
		evicted += id == KFD_SMI_EVENT_QUEUE_EVICTION &&
			   end == '0' + KFD_QUEUE_EVICTION_TRIGGER_TTM;
		restored += id == KFD_SMI_EVENT_QUEUE_RESTORE;
	}
	tap_note("SMI events: %u evictions of buffers, %u restores", evicted, restored);
	tap_ok(evicted > 0 && restored > 0, "SMI events tell of both");
	close(fd);
}

static void in_turn(void)
{
	const int told = watch();
	pid_t pid[PROCESSES];
	unsigned int i;

	trace_clear();
	for (i = 0; i < PROCESSES; i++)
		pid[i] = child(copies, i);
	tap_ok(children_succeed(pid, PROCESSES),
	       "%u processes with %u %% of VRAM each, all data right", PROCESSES, PERCENT);
	tap_note("%u buffers out, %u home; queues halted %u times",
		 trace_count("rkfd_evict", NULL), trace_count("rkfd_restore", NULL),
		 trace_count("rkfd_queue_evict", "reason=eviction"));
	tap_ok(trace_count("rkfd_evict", NULL) > 0, "buffers were moved out");
	tap_ok(trace_count("rkfd_restore", NULL) > 0, "and home again");
	tap_ok(trace_count("rkfd_queue_evict", "reason=eviction") > 0,
	       "queues were halted for it");
	tap_ok(trace_count("rkfd_queue_restore", "reason=eviction") > 0,
	       "and let run again");
	check_told(told);
}

static int copies_for_ever(unsigned int who)
{
	struct share s;
	unsigned int c;

	open_share(&s, who, PERCENT);
	for (;;)
		for (c = 0; c < chunks(&s); c++)
			if (!put(&s, c, 0))
				return 1;
}

static void killed(const char *base)
{
	const unsigned int turns = work(4, 1);
	unsigned int t, i, out = 0;

	for (t = 0; t < turns; t++) {
		pid_t pid[PROCESSES];

		trace_clear();
		for (i = 0; i < PROCESSES; i++)
			pid[i] = child(copies_for_ever, i);
		/* They have begun to displace each other. */
		out += trace_wait("rkfd_evict", NULL, 20, PROCESSES * timeout_ms());
		usleep(random_below(500000));
		for (i = 0; i < PROCESSES; i++) {
			kill(pid[i], SIGKILL);
			usleep(random_below(100000));
		}
		for (i = 0; i < PROCESSES; i++)
			waitpid(pid[i], NULL, 0);
	}
	tap_ok(out == turns, "processes killed while buffers move");
	tap_ok(objects_return_to(base, timeout_ms()), "all is back at the base line");
}

/* Sends a byte to the other process. */
static void say(int fd)
{
	if (write(fd, "", 1) != 1)
		exit(1);
}

static bool hear(int fd)
{
	char byte;

	return read(fd, &byte, 1) == 1;
}

static int back[2], forth[2];

/* Takes 60 % of VRAM on request, and frees it on request. */
static int takes_much(unsigned int who)
{
	struct share s;

	close(back[0]);
	close(forth[1]);
	if (!hear(forth[0]))
		return 1;
	open_share(&s, who, 60);
	if (!put(&s, 0, 0))
		return 1;
	say(back[1]);
	return hear(forth[0]) ? 0 : 1;
}

/*
 * Data that the CPU writes to a buffer by its mapping, before the buffer is evicted and after
 * it, is there for the CPU and then for the engine.
 */
static int writes_by_cpu(unsigned int who)
{
	struct share s;
	unsigned int c;
	uint8_t *p;

	close(forth[0]);
	close(back[1]);
	open_share(&s, who, 60);
	for (c = 0; c < chunks(&s); c += 2) {
		p = chunk_cpu(&s, c);
		memcpy(p, s.expected, CHUNK);
		stamp(&s, p, c, 1);
	}
	trace_clear();
	say(forth[1]);
	if (!hear(back[0]))
		return 1;
	if (trace_count("rkfd_evict", NULL) == 0) {
		tap_note("nothing went away");
		return 1;
	}
	for (c = 0; c < chunks(&s); c += 2) {
		if (!cpu_is_right(&s, c, 1)) {
			tap_note("chunk %u: wrong data while away", c);
			return 1;
		}
		stamp(&s, chunk_cpu(&s, c), c, 2);
	}
	say(forth[1]);
	for (c = 0; c < chunks(&s); c += 2) {
		if (!is_right(&s, c, 2) || !cpu_is_right(&s, c, 2)) {
			tap_note("chunk %u: wrong data at home again", c);
			return 1;
		}
	}
	return 0;
}

static void by_cpu(void)
{
	pid_t pid[2];

	if (pipe(back) != 0 || pipe(forth) != 0)
		die("pipe failed");
	pid[0] = child(takes_much, 1);
	pid[1] = child(writes_by_cpu, 2);
	close(back[0]);
	close(back[1]);
	close(forth[0]);
	close(forth[1]);
	tap_ok(children_succeed(pid, 2), "CPU mappings follow the buffer");
}

int main(void)
{
	char base[OBJECTS_MAX];

	tap_start();
	if (!trace_open("evict") || !trace_enable("rkfd/rkfd_evict") ||
	    !trace_enable("rkfd/rkfd_restore") || !trace_enable("rkfd/rkfd_queue_evict") ||
	    !trace_enable("rkfd/rkfd_queue_restore"))
		die("no trace events");
	tap_ok(check_process_copies(), "a copy beforehand");
	if (!objects_base(base, 0))
		die("the GPU is in use");
	in_turn();
	tap_ok(objects_return_to(base, timeout_ms()), "all is back at the base line");
	by_cpu();
	killed(base);
	tap_ok(check_process_copies(), "a copy afterwards");
	return tap_end();
}
