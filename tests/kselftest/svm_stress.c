// SPDX-License-Identifier: GPL-2.0
/*
 * Processes whose queues use their memory at the same addresses, while everything possible
 * happens to it: parts are unmapped and come back, it moves, goes to swap, to VRAM and back, is
 * merged, made of large pages and split, forked and written. Waves of other queues and the
 * processor write some of it at once. The content is right all the time, and never that of
 * another owner.
 *
 * RKFD_SECONDS: the duration, 20 by default. RKFD_XNACK: page faults are retried.
 */
#include <pthread.h>
#include <sys/wait.h>

#include "kfd_harness.h"
#include "kfd_svm.h"
#include "kfd_userptr.h"
#include "kfd_waves.h"
#include "tap.h"

#define HUGE		((size_t)2 << 20)
#define RING_SIZE	(16u << 10)
#define WAIT_MS		KFD_HANG_MS
#define PROCESSES	2u
#define WORKERS		2u
#define SLOTS		16u		/* of a worker */
#define SLOT_PAGES	33u		/* so that slots do not coincide with large pages */
#define SLOT_SIZE	((size_t)SLOT_PAGES * KFD_PAGE)
#define SLOTS_SIZE	((size_t)WORKERS * SLOTS * SLOT_SIZE)
#define LANES		64u
#define SHARED_PAGES	(2 * LANES)	/* of waves and the processor */
#define REGION		((SLOTS_SIZE + SHARED_PAGES * KFD_PAGE + HUGE - 1) & ~(HUGE - 1))

struct process {
	struct kfd_dev dev;
	uint8_t *mem;			/* REGION bytes */
	uint32_t tag;			/* in every word that it writes */
	uint64_t end;
	volatile bool stop;
	volatile unsigned int failed, rounds, launches, disturbed, forked;
};

struct worker {
	struct process *process;
	struct kfd_queue queue;
	struct kfd_bo vram;
	uint8_t *away;			/* SLOT_SIZE bytes that are otherwise unused */
	unsigned int number, seed;
	uint32_t stamp[SLOTS][SLOT_PAGES];	/* content of the pages; 0: zeros */
	uint32_t next;
};

static void fail(struct process *p, const char *what, const struct worker *w, unsigned int slot,
		 unsigned int page, uint32_t wanted, uint32_t got)
{
	if (p->failed++ < 5)
		printf("# process %x, worker %u, slot %u, page %u: %s: %08x, not %08x (%s)\n",
		       p->tag, w->number, slot, page, what, got, wanted, strerror(errno));
	p->stop = true;
}

/* Without any work nothing is proved, and the work may begin late where the host is busy. */
static bool goes_on(const struct process *p)
{
	return !p->stop &&
	       (kfd_now_ms() < p->end || !p->rounds || !p->launches || !p->disturbed);
}

static uint8_t *slot_at(const struct worker *w, unsigned int slot)
{
	return w->process->mem + ((size_t)w->number * SLOTS + slot) * SLOT_SIZE;
}

static void fill_page(void *page, uint32_t stamp)
{
	uint32_t *words = page;
	unsigned int i;

	for (i = 0; i < KFD_PAGE / 4; i++)
		words[i] = stamp;
}

static bool check_pages(struct worker *w, const void *pages, unsigned int slot, unsigned int first,
			unsigned int count, const char *what)
{
	const uint32_t *words = pages;
	unsigned int page, i;

	for (page = 0; page < count; page++)
		for (i = 0; i < KFD_PAGE / 4; i++) {
			const uint32_t wanted = w->stamp[slot][first + page];
			const uint32_t got = words[page * (KFD_PAGE / 4) + i];

			if (got == wanted)
				continue;
			fail(w->process, what, w, slot, first + page, wanted, got);
			return false;
		}
	return true;
}

static uint32_t new_stamp(struct worker *w)
{
	return w->process->tag | w->number << 24 | (++w->next & 0xffffff);
}

/* The GPU sees the slot's content. */
static bool gpu_sees(struct worker *w, unsigned int slot)
{
	int err = kfd_queue_copy(&w->queue, (uintptr_t)w->vram.cpu, (uintptr_t)slot_at(w, slot),
				 SLOT_SIZE, WAIT_MS);

	if (err) {
		fail(w->process, "copy from memory", w, slot, 0, 0, (uint32_t)err);
		return false;
	}
	return check_pages(w, w->vram.cpu, slot, 0, SLOT_PAGES, "the GPU sees");
}

/* The GPU writes some pages of the slot, and the process sees that. */
static bool gpu_writes(struct worker *w, unsigned int slot, unsigned int first, unsigned int count)
{
	uint8_t *at = slot_at(w, slot);
	unsigned int i;
	int err;

	for (i = 0; i < count; i++) {
		w->stamp[slot][first + i] = new_stamp(w);
		fill_page((uint8_t *)w->vram.cpu + i * KFD_PAGE, w->stamp[slot][first + i]);
	}
	err = kfd_queue_copy(&w->queue, (uintptr_t)(at + first * KFD_PAGE), (uintptr_t)w->vram.cpu,
			     count * KFD_PAGE, WAIT_MS);
	if (err) {
		fail(w->process, "copy to memory", w, slot, first, 0, (uint32_t)err);
		return false;
	}
	return check_pages(w, at, slot, 0, SLOT_PAGES, "the process sees");
}

static bool must(struct worker *w, bool ok, const char *what, unsigned int slot)
{
	if (!ok)
		fail(w->process, what, w, slot, 0, 0, (uint32_t)errno);
	return ok;
}

static int give(struct worker *w, void *at, size_t size)
{
	struct process *p = w->process;
	int err = svm_set(p->dev.fd, at, size, SVM_ACCESS, p->dev.gpu_id);

	errno = err;
	return err;
}

static bool zero_stamps(struct worker *w, unsigned int slot, unsigned int first, unsigned int count)
{
	memset(&w->stamp[slot][first], 0, count * sizeof(uint32_t));
	return true;
}

/* Moves pages of the slot away and back: on the way they are other memory, without attributes. */
static bool move_away(struct worker *w, unsigned int slot, uint8_t *at, size_t size)
{
	void *away = w->away;

	return must(w, mremap(at, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, away) == away,
		    "mremap away", slot) &&
	       must(w, mremap(away, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at,
		    "mremap back", slot) &&
	       must(w, !give(w, at, size), "set after mremap", slot);
}

/* A random change to some pages of a slot that is not in use. */
static bool happen(struct worker *w, unsigned int slot, unsigned int first, unsigned int count)
{
	uint8_t *at = slot_at(w, slot) + first * KFD_PAGE;
	const size_t size = count * (size_t)KFD_PAGE;
	unsigned int i;

	switch (rand_r(&w->seed) % 8) {
	case 0:
		return must(w, !madvise(at, size, MADV_DONTNEED), "DONTNEED", slot) &&
		       zero_stamps(w, slot, first, count);
	case 1:
		return must(w, !munmap(at, size), "munmap", slot) &&
		       must(w, anonymous(at, size, PROT_READ | PROT_WRITE) == at, "mmap", slot) &&
		       must(w, !give(w, at, size), "set after munmap", slot) &&
		       zero_stamps(w, slot, first, count);
	case 2:
		return must(w, anonymous(at, size, PROT_READ | PROT_WRITE) == at, "mmap over",
			    slot) &&
		       must(w, !give(w, at, size), "set after mmap", slot) &&
		       zero_stamps(w, slot, first, count);
	case 3:
		return move_away(w, slot, at, size);
	case 4:
		return must(w, !mprotect(at, size, PROT_READ), "mprotect R", slot) &&
		       gpu_sees(w, slot) &&
		       must(w, !mprotect(at, size, PROT_READ | PROT_WRITE), "mprotect RW", slot);
	case 5:
		return must(w, !svm_set(w->process->dev.fd, at, size, SVM_NO_ACCESS,
					w->process->dev.gpu_id), "no access", slot) &&
		       must(w, !give(w, at, size), "access again", slot);
	default:
		for (i = 0; i < count; i++) {
			w->stamp[slot][first + i] = new_stamp(w);
			fill_page(at + i * KFD_PAGE, w->stamp[slot][first + i]);
		}
		return true;
	}
}

static void *run_worker(void *arg)
{
	struct worker *w = arg;
	struct process *p = w->process;

	while (goes_on(p)) {
		const unsigned int slot = (unsigned int)rand_r(&w->seed) % SLOTS;
		const unsigned int first = (unsigned int)rand_r(&w->seed) % SLOT_PAGES;
		const unsigned int random = (unsigned int)rand_r(&w->seed);
		const unsigned int count = 1 + random % (SLOT_PAGES - first);

		if (!happen(w, slot, first, count) || !gpu_sees(w, slot) ||
		    !gpu_writes(w, slot, first, count))
			break;
		__sync_fetch_and_add(&p->rounds, 1);
	}
	return NULL;
}

/* Launches waves, and writes its own words beside theirs. */
struct launcher {
	struct process *process;
	struct kfd_save save;
	struct kfd_compute queue;
	struct waves waves;
	volatile uint32_t *mem;		/* SHARED_PAGES */
};

/*
 * The words of a page: the first two belong to the waves (see touch_program in waves.s), and
 * this one to the processor.
 */
#define OWN_WORD	500u

static bool launcher_create(struct launcher *l, struct process *p)
{
	l->process = p;
	l->mem = (volatile uint32_t *)(p->mem + SLOTS_SIZE);
	return !kfd_save_create(&p->dev, &l->save) &&
	       !kfd_compute_create(&p->dev, &l->queue, &l->save, false, 4 * RING_SIZE) &&
	       !waves_create(&p->dev, &l->waves, 1);
}

static bool page_is_right(struct process *p, const volatile uint32_t *mem, uint32_t number,
			  uint32_t times)
{
	const volatile uint32_t *page = mem + number * (KFD_PAGE / 4);
	const uint32_t wanted[3] = { number * times, times, times };
	const uint32_t got[3] = { page[0], page[1], page[OWN_WORD] };
	unsigned int i, other, written = 0;

	for (i = 0; i < 3; i++) {
		if (got[i] == wanted[i])
			continue;
		for (other = 0; other < SHARED_PAGES; other++)
			written += mem[other * (KFD_PAGE / 4) + 1] == times;
		if (p->failed++ < 5)
			printf("# process %x, page %u of waves, word %u: %08x, not %08x; %u of the pages are written\n",
			       p->tag, number, i, got[i], wanted[i], written);
		p->stop = true;
		return false;
	}
	return true;
}

static void *launch(void *arg)
{
	struct launcher *l = arg;
	struct process *p = l->process;
	struct waves touch = l->waves;
	uint32_t times, i;

	touch.data.cpu = (void *)l->mem;
	for (times = 1; goes_on(p); times++) {
		const uint64_t end = kfd_now_ms() + WAIT_MS;
		struct packets packets = { 0 };

		waves_dispatch(&packets, &touch, WAVES_TOUCH, SHARED_PAGES / LANES, true);
		if (!kfd_compute_pm4(&l->queue, &packets))
			break;
		for (i = 0; i < SHARED_PAGES; i++)
			l->mem[i * (KFD_PAGE / 4) + OWN_WORD]++;
		for (i = 0; i < SHARED_PAGES; i++) {
			volatile uint32_t *page = l->mem + i * (KFD_PAGE / 4);

			while (page[1] != times && kfd_now_ms() < end)
				usleep(500);
			if (!page_is_right(p, l->mem, i, times))
				return NULL;
		}
		p->launches++;
		/* The model's waves take a processor from the others. */
		usleep(5000);
	}
	return NULL;
}

/* A child writes to all of it, and finds all else unchanged. */
static void fork_and_write(struct process *p)
{
	int status = 0;
	pid_t pid = fork();
	size_t at;

	if (!pid) {
		for (at = 0; at < REGION; at += 3 * KFD_PAGE)
			*(volatile uint32_t *)(p->mem + at) = 0xdeadbeef;
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, &status, 0);
	p->forked += pid > 0 && WIFEXITED(status);
}

/*
 * Changes that keep the content happen anywhere, also under copies. Holes that workers make are
 * no error.
 */
static void *disturb(void *arg)
{
	static const int advice[] = {
		MADV_COLD, MADV_PAGEOUT, MADV_MERGEABLE, MADV_UNMERGEABLE, MADV_HUGEPAGE,
		MADV_NOHUGEPAGE, MADV_COLLAPSE, MADV_PAGEOUT,
	};
	const unsigned int kinds = ARRAY_SIZE(advice) + 4;
	struct process *p = arg;
	unsigned int seed = p->tag;

	while (goes_on(p)) {
		const unsigned int pages = REGION / KFD_PAGE;
		const unsigned int first = (unsigned int)rand_r(&seed) % pages;
		const unsigned int count = 1 + (unsigned int)rand_r(&seed) % (pages - first);
		const unsigned int what = (unsigned int)rand_r(&seed) % kinds;
		uint8_t *at = p->mem + (size_t)first * KFD_PAGE;
		const uint64_t begin = kfd_now_ms();

		if (what < ARRAY_SIZE(advice))
			madvise(at, count * (size_t)KFD_PAGE, advice[what]);
		else if (what == ARRAY_SIZE(advice))
			svm_set(p->dev.fd, at, count * (size_t)KFD_PAGE,
				rand_r(&seed) & 1 ? SVM_SET_FLAGS : SVM_CLR_FLAGS,
				KFD_IOCTL_SVM_FLAG_COHERENT);
		else if (what == ARRAY_SIZE(advice) + 1)
			fork_and_write(p);
		else
			svm_set(p->dev.fd, at, count * (size_t)KFD_PAGE, SVM_PREFETCH,
				rand_r(&seed) % 3 ? p->dev.gpu_id : SVM_SYSTEM);
		p->disturbed++;
		/*
		 * Queues do not run meanwhile, which may be long where the host is busy: they
		 * get as much time afterwards.
		 */
		usleep(2000 + 1000 * (useconds_t)(kfd_now_ms() - begin));
	}
	return NULL;
}

/* Returns the failures. */
static unsigned int run_process(uint32_t tag, uint64_t end)
{
	struct process p = { .tag = tag, .end = end };
	struct worker w[WORKERS] = { 0 };
	pthread_t threads[WORKERS + 2];
	struct launcher launcher = { 0 };
	unsigned int i;

	if (kfd_open(&p.dev) || (getenv("RKFD_XNACK") && xnack_set(p.dev.fd, 1)))
		return 1;
	p.mem = kfd_reserve(REGION, HUGE);
	if (!p.mem || anonymous(p.mem, REGION, PROT_READ | PROT_WRITE) != p.mem ||
	    svm_set(p.dev.fd, p.mem, REGION, SVM_ACCESS, p.dev.gpu_id))
		return 1;
	for (i = 0; i < WORKERS; i++) {
		w[i].process = &p;
		w[i].number = i;
		w[i].seed = tag + i + 1;
		w[i].away = kfd_reserve(SLOT_SIZE, KFD_PAGE);
		if (!w[i].away || kfd_queue_create(&p.dev, &w[i].queue, RING_SIZE) ||
		    kfd_bo_create(&p.dev, &w[i].vram, SLOT_SIZE, KFD_ALLOC_VRAM))
			return 1;
	}
	if (!launcher_create(&launcher, &p))
		return 1;
	for (i = 0; i < WORKERS; i++)
		pthread_create(&threads[i], NULL, run_worker, &w[i]);
	pthread_create(&threads[WORKERS], NULL, launch, &launcher);
	pthread_create(&threads[WORKERS + 1], NULL, disturb, &p);
	for (i = 0; i < WORKERS + 2; i++)
		pthread_join(threads[i], NULL);
	printf("# process %x: %u rounds and %u launches beside %u disturbances and %u forks\n", tag,
	       p.rounds, p.launches, p.disturbed, p.forked);
	fflush(stdout);
	return p.failed + !p.rounds + !p.launches + !p.disturbed;
}

TEST(everything_at_once)
{
	const char *seconds = getenv("RKFD_SECONDS");
	const uint64_t end = kfd_now_ms() + 1000u * (seconds ? (unsigned int)atoi(seconds) : 20);
	pid_t pids[PROCESSES];
	unsigned int i;
	int status;

	SKIP_ON_AMDKFD("pages that stay keep the fragment of those that are gone");
	/*
	 * As fast as the kernel's own default. The GPU must get merged pages back as pages of
	 * its own before queues run, and if they are merged again before that, the queues never
	 * run. A kernel that takes longer for that has to rest longer between merges.
	 */
	if (quick())
		kfd_write_file("/sys/kernel/mm/ksm/sleep_millisecs", "1000");
	kfd_write_file("/sys/kernel/mm/ksm/run", "1");
	fflush(stdout);
	for (i = 0; i < PROCESSES; i++) {
		pids[i] = fork();
		ASSERT_LE(0, pids[i]);
		if (!pids[i])
			_exit(run_process((0xau + i) << 28, end) != 0);
	}
	for (i = 0; i < PROCESSES; i++) {
		ASSERT_EQ(pids[i], waitpid(pids[i], &status, 0));
		EXPECT_EQ(0, status);
	}
	kfd_write_file("/sys/kernel/mm/ksm/run", "2");
	kfd_write_file("/sys/kernel/mm/ksm/sleep_millisecs", "20");
}

KFD_HARNESS_MAIN
