// SPDX-License-Identifier: GPL-2.0
/*
 * Copies that go wrong: addresses that the process has not mapped, packets that the engine
 * refuses. Only the process concerned is harmed, and another process, which copies all the
 * time, does not notice. The report of a fault says what is at its address, or was,
 * and which packet it was.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/check.h"
#include "common/child.h"
#include "debugfs.h"
#include "common/pattern.h"
#include "common/queue.h"
#include "tap.h"
#include "trace.h"
#include "common/wedged.h"
#include "objects.h"

#define RING_SIZE	(16u << 10)
#define BYTES		(64u << 10)

/* The process that copies beside the one in trouble. */
struct bystander {
	volatile int stop;
	volatile unsigned int copies;
	volatile unsigned int failures;
};

static struct bystander *bystander;

static void copy_beside(void)
{
	struct buffer src, dst;
	struct queue queue;
	struct gpu gpu;

	gpu_open(&gpu);
	buffer_create(&gpu, &src, BUFFER_GTT, BYTES);
	buffer_create(&gpu, &dst, BUFFER_VRAM, BYTES);
	queue_create(&gpu, &queue, RING_SIZE, BUFFER_GTT);
	while (!bystander->stop) {
		const uint64_t seed = bystander->copies;

		pattern_fill(src.cpu, BYTES, seed, 0);
		if (!queue_copy(&queue, dst.gpu, src.gpu, BYTES) ||
		    pattern_check(dst.cpu, BYTES, seed, 0) != BYTES) {
			bystander->failures++;
			break;
		}
		bystander->copies++;
	}
	exit(bystander->failures ? 1 : 0);
}

/* Waits until the bystander has done @more copies. */
static bool bystander_goes_on(unsigned int more)
{
	const unsigned int wanted = bystander->copies + more;
	const unsigned long long end = now_ns() + timeout_ms() * 1000000ull;

	while (bystander->copies < wanted && !bystander->failures && now_ns() < end)
		usleep(1000);
	return bystander->copies >= wanted && !bystander->failures;
}

/* The tools of a process in trouble. */
struct trouble {
	struct gpu gpu;
	struct queue queue;
	struct buffer good;
	uint64_t bad;		/* an address where nothing is mapped */
};

static void trouble_start(struct trouble *t)
{
	void *nothing;

	gpu_open(&t->gpu);
	queue_create(&t->gpu, &t->queue, RING_SIZE, BUFFER_GTT);
	buffer_create(&t->gpu, &t->good, BUFFER_VRAM, BYTES);
	nothing = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (nothing == MAP_FAILED)
		die("no addresses");
	t->bad = (uintptr_t)nothing;
	memset(nothing, 0x77, BYTES);
	memset(t->good.cpu, 0x11, BYTES);
}

/* True if a fault at @address was traced. */
static bool fault_traced(uint64_t address)
{
	char text[32];

	snprintf(text, sizeof(text), "%llx",
		 (unsigned long long)address & ~4095ull);
	return trace_wait("rkfd_vm_fault", text, 1, timeout_ms());
}

/* True if debugfs has a report of a fault of this process with @text. */
static bool fault_reported(const char *text)
{
	const unsigned long long end = now_ns() + timeout_ms() * 1000000ull;
	static char reports[32 << 10];
	const char *report;
	char own[64];

	snprintf(own, sizeof(own), "pid %d pasid", getpid());
	do {
		debugfs_read("faults", reports, sizeof(reports));
		report = strstr(reports, own);
		if (report && strstr(report, text))
			return true;
		usleep(1000);
	} while (now_ns() < end);
	tap_note("no report says \"%s\": %s", text, report ? report : reports);
	return false;
}

/* A copy that must fault at @address and move nothing. */
static bool faults(struct trouble *t, uint64_t dst, uint64_t src, uint64_t address)
{
	struct packets p = { 0 };
	char text[96];

	trace_clear();
	sdma_copy(&p, dst, src, 4096);
	queue_submit(&t->queue, &p);
	if (!fault_traced(address)) {
		tap_note("no fault at 0x%llx was traced", (unsigned long long)address);
		return false;
	}
	snprintf(text, sizeof(text), ": copy of 4096 bytes from 0x%llx to 0x%llx",
		 (unsigned long long)src, (unsigned long long)dst);
	return fault_reported(text);
}

static bool all_bytes(const uint8_t *p, size_t size, uint8_t value)
{
	size_t i;

	for (i = 0; i < size; i++)
		if (p[i] != value)
			return false;
	return true;
}

static bool read_unmapped(struct trouble *t)
{
	/* The CPU's data at the address must not become visible. */
	return faults(t, t->good.gpu, t->bad, t->bad) &&
	       !memchr(t->good.cpu, 0x77, BYTES) &&
	       fault_reported("address: no buffer is there");
}

static bool write_unmapped(struct trouble *t)
{
	return faults(t, t->bad, t->good.gpu, t->bad) &&
	       all_bytes((uint8_t *)(uintptr_t)t->bad, BYTES, 0x77);
}

/* An address that was mapped a moment ago, so that a TLB may still have it. */
static bool read_after_unmap(struct trouble *t)
{
	struct buffer gone;
	uint64_t address;
	char text[96];

	buffer_create(&t->gpu, &gone, BUFFER_GTT, BYTES);
	memset(gone.cpu, 0x33, BYTES);
	address = gone.gpu;
	if (!queue_copy(&t->queue, t->good.gpu, address, 4096) ||
	    !all_bytes(t->good.cpu, 4096, 0x33))
		return false;
	memset(t->good.cpu, 0x11, BYTES);
	buffer_destroy(&gone);
	snprintf(text, sizeof(text), "; 64 KiB of GTT at 0x%llx was, and was freed ",
		 (unsigned long long)address);
	return faults(t, t->good.gpu, address, address) &&
	       !memchr(t->good.cpu, 0x33, BYTES) && fault_reported(text);
}

/* Memory that was allocated for reading only. */
static bool write_read_only(struct trouble *t)
{
	HsaMemFlags flags = { .Value = 0 };
	HSAuint64 address = 0;
	char text[96];
	void *p = NULL;

	flags.ui32.NonPaged = 1;
	flags.ui32.HostAccess = 1;
	flags.ui32.ReadOnly = 1;
	flags.ui32.NoNUMABind = 1;
	if (hsaKmtAllocMemory(0, BYTES, flags, &p) != HSAKMT_STATUS_SUCCESS ||
	    hsaKmtMapMemoryToGPU(p, BYTES, &address) != HSAKMT_STATUS_SUCCESS)
		return false;
	address = address ? address : (uintptr_t)p;
	snprintf(text, sizeof(text), "address: it is in 64 KiB of GTT at 0x%llx, read-only",
		 (unsigned long long)address);
	return queue_copy(&t->queue, t->good.gpu, address, 4096) &&
	       faults(t, address, t->good.gpu, address) && fault_reported(text);
}

/* Half of the range is mapped, half is not. */
static bool run_over_the_end(struct trouble *t)
{
	const uint64_t end = t->good.gpu + t->good.size;
	struct packets p = { 0 };
	char text[96];

	trace_clear();
	sdma_fill(&p, end - 8192, 0x44444444, 4096);
	queue_submit(&t->queue, &p);
	snprintf(text, sizeof(text), "%llx", (unsigned long long)end);
	if (!trace_wait("rkfd_vm_fault", text, 1, timeout_ms()))
		return false;
	snprintf(text, sizeof(text), "; 0 bytes above the end of 64 KiB of VRAM at 0x%llx",
		 (unsigned long long)t->good.gpu);
	if (!fault_reported(text))
		return false;
	snprintf(text, sizeof(text), ": fill of 16384 bytes to 0x%llx\n",
		 (unsigned long long)end - 8192);
	return fault_reported(text);
}

/* A queue of its own stops at the packet: the packets behind it are not done. */
static bool stops(struct trouble *t, const struct packets *p)
{
	struct queue queue;
	bool stopped;

	queue_create(&t->gpu, &queue, RING_SIZE, BUFFER_GTT);
	stopped = !queue_wait_ms(&queue, queue_submit(&queue, p), 500);
	queue_destroy(&queue);
	return stopped;
}

/* The ring is all right, but its content is not. */
static bool refused_packets(struct trouble *t)
{
	const uint32_t scratch_register = 0x2040;
	const uint32_t equal = 3, memory = 0;
	struct packets p[4] = { 0 };
	unsigned int i;
	bool ok = true;

	/* An opcode that does not exist. */
	sdma_emit(&p[0], 0xfe);
	sdma_emit64(&p[0], 0);
	/* Registers are the kernel's, to write and to read. */
	sdma_srbm_write(&p[1], scratch_register, 1);
	sdma_header(&p[2], SDMA_POLL_REGMEM, 0, equal << 28 | memory << 31);
	sdma_emit64(&p[2], scratch_register * 4);
	sdma_emit64(&p[2], 0);
	sdma_emit(&p[2], 0xfffu << 16 | 10);
	/* A fence writes aligned dwords. */
	sdma_fence(&p[3], t->good.gpu + 2, 1);
	for (i = 0; i < 4; i++) {
		if (stops(t, &p[i]))
			continue;
		tap_note("packet 0x%08x did not stop its queue", p[i].dwords[0]);
		ok = false;
	}
	return ok && all_bytes(t->good.cpu, BYTES, 0x11);
}

static const struct scenario {
	const char *name;
	bool (*run)(struct trouble *t);
} scenarios[] = {
	{ "a read of an unmapped address", read_unmapped },
	{ "a write to an unmapped address", write_unmapped },
	{ "a read after unmap", read_after_unmap },
	{ "a write to read-only memory", write_read_only },
	{ "a fill over the end of a buffer", run_over_the_end },
	{ "a packet that the engine refuses", refused_packets },
};

#define AS_IT_SHOULD	0
#define NO_FAULT	1
#define NO_RECOVERY	2

static int in_trouble(const struct scenario *s)
{
	struct trouble t;

	trouble_start(&t);
	if (!s->run(&t))
		return NO_FAULT;
	/* The queue in trouble can be destroyed, and another takes its place. */
	if (hsaKmtDestroyQueue(t.queue.resource.QueueId) != HSAKMT_STATUS_SUCCESS)
		return NO_RECOVERY;
	return check_copies(&t.gpu) ? AS_IT_SHOULD : NO_RECOVERY;
}

static void run(const struct scenario *s)
{
	const pid_t pid = child_fork();
	int status;

	if (pid == 0)
		exit(in_trouble(s));
	status = child_status(pid);
	tap_ok(status >= 0 && status != NO_FAULT, "%s is seen", s->name);
	tap_ok(status == AS_IT_SHOULD,
	       "%s: the queue can be destroyed, a new one works", s->name);
	tap_ok(bystander_goes_on(10), "%s: another process goes on", s->name);
}

static char dump[32 << 10];

/* The core dump of the device is that of the first fault. */
static void check_dump(void)
{
	if (access("/sys/class/devcoredump", F_OK))
		tap_skip("a core dump", "the kernel has none");
	else
		tap_ok(dump_read(dump, sizeof(dump)) &&
		       strstr(dump, "\ncause: a page fault of process faults, pid ") &&
		       dump_has(dump, "fault", "address: no buffer is there") &&
		       dump_has(dump, "fault", "suspect: queue 1 (SDMA, engine "),
		       "the first fault has left a core dump");
}

int main(void)
{
	const unsigned int count = sizeof(scenarios) / sizeof(scenarios[0]);
	char base[OBJECTS_MAX];
	unsigned int i;
	pid_t pid;

	tap_start();
	if (!trace_open("rkfd-faults") || !trace_enable("rkfd/rkfd_vm_fault"))
		die("no trace of rkfd_vm_fault");
	if (!objects_base(base, 0))
		die("the GPU is in use");
	bystander = mmap(NULL, sizeof(*bystander), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (bystander == MAP_FAILED)
		die("no shared memory");
	pid = child_fork();
	if (pid == 0)
		copy_beside();
	tap_ok(bystander_goes_on(3), "a bystander copies");
	/* An earlier program may have left one. */
	dump_read(dump, sizeof(dump));
	for (i = 0; i < count; i++)
		run(&scenarios[i]);
	check_dump();
	bystander->stop = 1;
	tap_ok(child_status(pid) == 0,
	       "the bystander made %u copies without a fault", bystander->copies);
	tap_ok(objects_return_to(base, timeout_ms()), "nothing is left behind");
	trace_close();
	return tap_end();
}
