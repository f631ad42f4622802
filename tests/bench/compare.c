// SPDX-License-Identifier: GPL-2.0
/*
 * Measurements for any driver of the ABI: nothing here needs more than the ioctls, so that one
 * program measures rkfd and amdkfd. Each part runs in a process of its own, as amdkfd's process
 * lives until its program ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "kfd_event.h"
#include "tap.h"

#define KIB		(1ull << 10)
#define MIB		(1ull << 20)
#define RING_SIZE	(64u << 10)
#define MANY		1000u
#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))

/* Measurements of children, seen by the parent. */
static struct samples *shared;

static void in_child(void (*part)(void))
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		die("no process");
	if (pid == 0) {
		part();
		fflush(stdout);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		die("a part of the measurement failed");
}

enum { OPEN, CLOSE, CLOSE_MANY, SHARED };

static void open_and_close(void)
{
	unsigned long long t = now_ns();
	struct kfd_dev dev;

	must(kfd_open(&dev), "open");
	sample(&shared[OPEN], t);
	t = now_ns();
	kfd_close(&dev);
	sample(&shared[CLOSE], t);
}

static uint64_t small_new(const struct kfd_dev *dev, void *at)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.va_addr = (uintptr_t)at,
		.size = 4 * KIB,
		.gpu_id = dev->gpu_id,
		.flags = KFD_ALLOC_VRAM,
	};

	must(kfd_alloc(dev->fd, &args), "alloc");
	return args.handle;
}

static void close_with_many(void)
{
	char *p = kfd_reserve(MANY * 4 * KIB, 2 * MIB);
	unsigned long long t;
	struct kfd_dev dev;
	unsigned int i;

	must(kfd_open(&dev), "open");
	for (i = 0; i < MANY; i++)
		must(kfd_map(dev.fd, small_new(&dev, p + i * 4 * KIB), dev.gpu_id), "map");
	t = now_ns();
	kfd_close(&dev);
	sample(&shared[CLOSE_MANY], t);
}

/* The mean of @MANY calls. */
static void report_mean(const char *name, unsigned long long since)
{
	struct samples s = { .ns = { (now_ns() - since) / MANY }, .count = 1 };

	report(name, 4 * KIB, &s);
}

static void many_buffers(void)
{
	static uint64_t handles[MANY];
	char *p = kfd_reserve(MANY * 4 * KIB, 2 * MIB);
	unsigned long long t;
	struct kfd_dev dev;
	unsigned int i;

	must(kfd_open(&dev), "open");
	t = now_ns();
	for (i = 0; i < MANY; i++)
		handles[i] = small_new(&dev, p + i * 4 * KIB);
	report_mean("alloc_1000", t);
	t = now_ns();
	for (i = 0; i < MANY; i++)
		must(kfd_map(dev.fd, handles[i], dev.gpu_id), "map");
	report_mean("map_1000", t);
	t = now_ns();
	for (i = 0; i < MANY; i++)
		must(kfd_unmap(dev.fd, handles[i], dev.gpu_id), "unmap");
	report_mean("unmap_1000", t);
	t = now_ns();
	for (i = 0; i < MANY; i++)
		must(kfd_free(dev.fd, handles[i]), "free");
	report_mean("free_1000", t);
	kfd_close(&dev);
}

static void small_calls(void)
{
	const unsigned int rounds = work(100, 10);
	struct samples version = { .count = 0 }, available = version, wait = version;
	struct kfd_ioctl_get_version_args args;
	struct kfd_dev dev;
	unsigned int i;
	uint32_t id;

	must(kfd_open(&dev), "open");
	must(event_create(&dev, KFD_IOC_EVENT_SIGNAL, true, &id), "event");
	for (i = 0; i < rounds; i++) {
		struct kfd_ioctl_get_available_memory_args memory = { .gpu_id = dev.gpu_id };
		unsigned long long t = now_ns();

		must(kfd_ioctl(dev.fd, AMDKFD_IOC_GET_VERSION, &args), "version");
		sample(&version, t);
		t = now_ns();
		must(kfd_ioctl(dev.fd, AMDKFD_IOC_AVAILABLE_MEMORY, &memory), "available");
		sample(&available, t);
		must(event_set(&dev, id), "set");
		t = now_ns();
		must(event_wait(&dev, id, timeout_ms()), "wait");
		sample(&wait, t);
	}
	report("get_version", 0, &version);
	report("available_memory", 0, &available);
	report("event_wait_set", 0, &wait);
	kfd_close(&dev);
}

static void update_sdma(const struct kfd_dev *dev)
{
	const unsigned int rounds = work(50, 5);
	struct samples s = { .count = 0 };
	struct kfd_queue queue;
	unsigned int i;

	must(kfd_queue_create(dev, &queue, RING_SIZE), "queue");
	for (i = 0; i < rounds; i++) {
		struct kfd_ioctl_update_queue_args args = {
			.ring_base_address = (uintptr_t)queue.ring.cpu,
			.ring_size = RING_SIZE,
			.queue_id = queue.id,
			.queue_percentage = KFD_MAX_QUEUE_PERCENTAGE,
			.queue_priority = 7,
		};
		const unsigned long long t = now_ns();

		must(kfd_ioctl(dev->fd, AMDKFD_IOC_UPDATE_QUEUE, &args), "update");
		sample(&s, t);
	}
	report("queue_update", 0, &s);
	must(kfd_queue_destroy(dev, &queue), "destroy");
}

static void sdma_queues(void)
{
	struct kfd_dev dev;

	must(kfd_open(&dev), "open");
	bench_queues(&dev);
	update_sdma(&dev);
	kfd_close(&dev);
}

static void compute_queues(void)
{
	struct kfd_dev dev;

	must(kfd_open(&dev), "open");
	bench_compute_calls(&dev);
	kfd_close(&dev);
}

static void memory(void)
{
	static const uint64_t sizes[] = { 4 * KIB, 2 * MIB, 64 * MIB, 256 * MIB };
	struct kfd_dev dev;
	unsigned int kind, s;

	must(kfd_open(&dev), "open");
	for (kind = 0; kind < BENCH_KINDS; kind++)
		for (s = 0; s < COUNT(sizes); s++)
			bench_memory(&dev, kind, sizes[s]);
	kfd_close(&dev);
}

static void events(void)
{
	struct kfd_dev dev;

	must(kfd_open(&dev), "open");
	bench_events(&dev);
	kfd_close(&dev);
}

static void copies_small(void)
{
	bench_latency(4 * KIB);
}

static void copies_large(void)
{
	bench_latency(MIB);
}

static void stream_small(void)
{
	bench_streaming(4 * KIB);
}

static void stream_large(void)
{
	bench_streaming(MIB);
}

void bench_compare(void)
{
	const unsigned int rounds = work(20, 3);
	unsigned int i;

	shared = mmap(NULL, SHARED * sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		die("no memory");
	for (i = 0; i < rounds; i++) {
		in_child(open_and_close);
		/* Some objects of a process are freed a little later. */
		usleep(20000);
	}
	for (i = 0; i < 3; i++)
		in_child(close_with_many);
	report("open", 0, &shared[OPEN]);
	report("close", 0, &shared[CLOSE]);
	report("close_1000", 0, &shared[CLOSE_MANY]);
	in_child(small_calls);
	in_child(memory);
	in_child(many_buffers);
	in_child(sdma_queues);
	in_child(compute_queues);
	in_child(events);
	in_child(copies_small);
	in_child(copies_large);
	in_child(stream_small);
	in_child(stream_large);
	in_child(bench_jobs);
}

static void run(char **argv)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		die("no process");
	if (pid == 0) {
		if (freopen("/dev/null", "w", stdout))
			execvp(argv[0], argv);
		_exit(127);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		die("%s failed", argv[0]);
}

void bench_command(char **argv)
{
	const unsigned int rounds = work(5, 3);
	struct samples s = { .count = 0 };
	unsigned int i;

	/* Which reads the program and its libraries from the disk. */
	run(argv + 1);
	for (i = 0; i < rounds; i++) {
		const unsigned long long t = now_ns();

		run(argv + 1);
		sample(&s, t);
	}
	report(argv[0], 0, &s);
}
