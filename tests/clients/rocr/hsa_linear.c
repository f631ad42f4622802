// SPDX-License-Identifier: GPL-2.0
/* Copies of runs of bytes: sizes, kinds of host memory, engines, dependencies, waiting. */
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/pattern.h"
#include "tap.h"
#include "trace.h"
#include "hsa.h"
#include "kfd_asleep.h"

/* Bytes around the target of a copy that must not change. */
#define GUARD		64
/* From this size on ROCr copies within the GPU by a shader. */
#define SHADER_SIZE	MIB

static uint64_t seed;

/* By hsa_amd_memory_async_copy if @engine is 0. */
struct way {
	uint32_t engine;
	bool force;
};

static const struct way any_engine;

static hsa_status_t start(const struct way *way, void *dst, hsa_agent_t dst_agent, const void *src,
			  hsa_agent_t src_agent, size_t size, unsigned int deps,
			  const hsa_signal_t *dep, hsa_signal_t done)
{
	hsa_status_t status;

	if (way->engine)
		status = hsa_amd_memory_async_copy_on_engine(dst, dst_agent, src, src_agent, size,
							     deps, dep, done, way->engine,
							     way->force);
	else
		status = hsa_amd_memory_async_copy(dst, dst_agent, src, src_agent, size, deps, dep,
						   done);
	submissions += status == HSA_STATUS_SUCCESS;
	return status;
}

static bool copy_by(const struct way *way, void *dst, hsa_agent_t dst_agent, const void *src,
		    hsa_agent_t src_agent, size_t size)
{
	hsa_signal_t done = signal_new(1);
	bool ok;

	must(start(way, dst, dst_agent, src, src_agent, size, 0, NULL, done), "start of a copy");
	ok = signal_wait(done);
	must(hsa_signal_destroy(done), "hsa_signal_destroy");
	return ok;
}

/* Host to GPU, within the GPU by @within if that is given, back to the host. */
static bool round_trip(enum host_kind kind, size_t size, size_t at, const struct way *to,
		       const struct way *within, const struct way *from)
{
	struct host src, dst;
	uint8_t *vram = device_new(size + at), *other = within ? device_new(size + at) : vram;
	struct pattern_copy c = { .bytes = size, .seed = ++seed };
	bool ok;

	host_new(&src, kind, size + at);
	host_new(&dst, kind, size + at + 2 * GUARD);
	c.src = src.cpu;
	c.src_at = at;
	c.dst = dst.cpu;
	c.dst_size = dst.size;
	c.dst_at = GUARD + at;
	pattern_prepare(&c);
	host_pin(&src);
	ok = copy_by(to, vram + at, gpu, src.gpu + at, cpu, size);
	host_unpin(&src);
	if (ok && within)
		ok = copy_by(within, other, gpu, vram + at, gpu, size);
	host_pin(&dst);
	ok = ok && copy_by(from, dst.gpu + c.dst_at, cpu, within ? other : vram + at, gpu, size);
	host_unpin(&dst);
	ok = ok && pattern_verify(&c);
	host_free(&dst);
	host_free(&src);
	if (within)
		device_free(other);
	device_free(vram);
	return ok;
}

static void sizes_tests(void)
{
	static const size_t sizes[] = {
		1, 2, 3, 4, 5, 7, 8, 63, 64, 65, 255, 4095, 4096, 4097, 65536, 65539,
		MIB - 1, MIB, MIB + 4, 16 * MIB, 64 * MIB + 5, 256 * MIB,
	};
	const size_t limit = quick() ? 16 * MIB : 256 * MIB;
	/* The biggest are copied for one kind of memory only. */
	const size_t others = quick() ? MIB : 16 * MIB;
	enum host_kind kind;
	size_t i;

	for (kind = 0; kind < HOST_KINDS; kind++) {
		bool ok = true;

		for (i = 0; i < COUNT(sizes) && ok; i++) {
			if (sizes[i] > (kind == HOST_FINE ? limit : others))
				continue;
			ok = round_trip(kind, sizes[i], 0, &any_engine, NULL, &any_engine);
			if (ok && sizes[i] <= 65539)
				ok = round_trip(kind, sizes[i], 1 + sizes[i] % 61, &any_engine,
						NULL, &any_engine);
			if (!ok)
				tap_note("size %zu", sizes[i]);
		}
		tap_ok(ok, "async_copy to the GPU and back, %s memory", host_names[kind]);
	}
}

/* Below a size ROCr copies within the GPU in the same way as to the host. */
static void device_tests(void)
{
	static const size_t sizes[] = { 1, 17, 4096, 65537, SHADER_SIZE - 1 };
	bool ok = true;
	size_t i;

	for (i = 0; i < COUNT(sizes) && ok; i++)
		ok = round_trip(HOST_FINE, sizes[i], 3, &any_engine, &any_engine, &any_engine);
	tap_ok(ok, "async_copy within the GPU, below 1 MiB");
}

/* Whether ROCr leaves engine 0 alone for copies to the host: on gfx90a. */
static bool spares_engine(void)
{
	char name[64] = "";

	must(hsa_agent_get_info(gpu, HSA_AGENT_INFO_NAME, name), "the name of the GPU");
	return strcmp(name, "gfx90a") == 0;
}

/* ROCr sees two engines. Within the GPU it uses an engine only when forced to. */
static void engine_tests(void)
{
	const bool spares = spares_engine();
	static const uint32_t engines[] = { HSA_AMD_SDMA_ENGINE_0, HSA_AMD_SDMA_ENGINE_1 };
	static const size_t sizes[] = { 5, 4096, 3 * MIB + 1, 16 * MIB };
	const struct way back = { HSA_AMD_SDMA_ENGINE_1, false };
	uint8_t *vram = device_new(4096);
	hsa_signal_t done = signal_new(1);
	struct host host;
	unsigned int e, f;
	uint32_t mask = 0;
	size_t i;

	host_new(&host, HOST_FINE, 4096);
	must(hsa_amd_memory_copy_engine_status(gpu, cpu, &mask), "engines to the GPU");
	/* amdkfd counts three engines more: those for XGMI. */
	if (!of_rkfd())
		mask &= HSA_AMD_SDMA_ENGINE_0 | HSA_AMD_SDMA_ENGINE_1;
	tap_ok(mask == (HSA_AMD_SDMA_ENGINE_0 | HSA_AMD_SDMA_ENGINE_1),
	       "copy_engine_status to the GPU: both engines");
	must(hsa_amd_memory_copy_engine_status(cpu, gpu, &mask), "engines to the host");
	if (!of_rkfd())
		mask &= HSA_AMD_SDMA_ENGINE_0 | HSA_AMD_SDMA_ENGINE_1;
	tap_ok(mask == (spares ? HSA_AMD_SDMA_ENGINE_1 :
			HSA_AMD_SDMA_ENGINE_0 | HSA_AMD_SDMA_ENGINE_1),
	       "copy_engine_status to the host: %s", spares ? "engine 1" : "both engines");

	for (e = 0; e < COUNT(engines); e++) {
		const struct way within = { engines[e], true };
		bool ok = true;

		for (f = 0; f < 2; f++) {
			const struct way way = { engines[e], f };
			/* Back by the same engine where ROCr allows it. */
			const struct way from = { HSA_AMD_SDMA_ENGINE_1, f };

			for (i = 0, ok = true; i < COUNT(sizes) && ok; i++)
				ok = round_trip(HOST_FINE, sizes[i], 0, &way, NULL, &from);
			tap_ok(ok, "on_engine %u%s", e, f ? ", forced" : "");
			if (engines[e] != HSA_AMD_SDMA_ENGINE_0 || !spares)
				continue;
			tap_ok(start(&way, host.gpu, cpu, vram, gpu, 64, 0, NULL, done) ==
			       HSA_STATUS_ERROR_INVALID_ARGUMENT,
			       "on_engine 0 to the host%s is refused", f ? ", forced," : "");
		}
		for (i = 0, ok = true; i < COUNT(sizes) && ok; i++)
			ok = round_trip(HOST_FINE, sizes[i], 0, &back, &within, &back);
		tap_ok(ok, "on_engine %u within the GPU, forced", e);
	}
	if (of_rkfd())
		tap_ok(hsa_amd_memory_async_copy_on_engine(vram, gpu, host.gpu, cpu, 64, 0, NULL,
							   done, HSA_AMD_SDMA_ENGINE_2, false) ==
		       HSA_STATUS_ERROR_INVALID_ARGUMENT, "an engine that is not there is refused");
	else
		tap_skip("an engine that is not there is refused", "there are five");
	host_free(&host);
	must(hsa_signal_destroy(done), "hsa_signal_destroy");
	device_free(vram);
}

/* A copy waits until all its signals are 0. */
static void held_test(void)
{
	const size_t size = 4096;
	struct host src, dst;
	uint8_t *vram = device_new(size);
	hsa_signal_t dep[5], done = signal_new(1), back = signal_new(1);
	struct pattern_copy c = { .bytes = size, .seed = ++seed };
	bool held = true, ok;
	size_t i;

	host_new(&src, HOST_FINE, size);
	host_new(&dst, HOST_FINE, size);
	c.src = src.cpu;
	c.dst = dst.cpu;
	c.dst_size = size;
	pattern_prepare(&c);
	for (i = 0; i < COUNT(dep); i++)
		dep[i] = signal_new(1);
	must(start(&any_engine, vram, gpu, src.gpu, cpu, size, COUNT(dep), dep, done),
	     "a held copy");
	must(start(&any_engine, dst.gpu, cpu, vram, gpu, size, 1, &done, back), "a copy after it");
	for (i = 0; i < COUNT(dep); i++) {
		usleep(20000);
		held &= hsa_signal_load_scacquire(done) == 1;
		held &= hsa_signal_load_scacquire(back) == 1;
		hsa_signal_store_screlease(dep[i], 0);
	}
	ok = signal_wait(back) && hsa_signal_load_scacquire(done) == 0;
	tap_ok(held && ok && pattern_verify(&c), "a copy waits for five signals, and one for it");
	must(hsa_signal_destroy(back), "hsa_signal_destroy");
	must(hsa_signal_destroy(done), "hsa_signal_destroy");
	for (i = 0; i < COUNT(dep); i++)
		must(hsa_signal_destroy(dep[i]), "hsa_signal_destroy");
	host_free(&dst);
	host_free(&src);
	device_free(vram);
}

/*
 * To the GPU, from place to place there, and back: all started at once, each after the one
 * before.
 */
static void chain_test(void)
{
	enum { LINKS = 32 };
	const struct way way = { HSA_AMD_SDMA_ENGINE_0, true };
	const size_t size = 64 * KIB;
	uint8_t *vram = device_new(LINKS * size);
	hsa_signal_t done[LINKS + 1];
	struct pattern_copy c = { .bytes = size, .seed = ++seed };
	struct host src, dst;
	unsigned int i;
	bool ok;

	host_new(&src, HOST_FINE, size);
	host_new(&dst, HOST_FINE, size);
	c.src = src.cpu;
	c.dst = dst.cpu;
	c.dst_size = size;
	pattern_prepare(&c);
	for (i = 0; i <= LINKS; i++)
		done[i] = signal_new(1);
	must(start(&any_engine, vram, gpu, src.gpu, cpu, size, 0, NULL, done[0]),
	     "first of a chain");
	for (i = 1; i < LINKS; i++)
		must(start(i % 2 ? &any_engine : &way, vram + i * size, gpu, vram + (i - 1) * size,
			   gpu,
			   size, 1, &done[i - 1], done[i]), "link of a chain");
	must(start(&any_engine, dst.gpu, cpu, vram + (LINKS - 1) * size, gpu, size, 1,
		   &done[LINKS - 1], done[LINKS]), "last of a chain");
	ok = signal_wait(done[LINKS]);
	tap_ok(ok && pattern_verify(&c), "a chain of %d copies on two engines", LINKS + 1);
	for (i = 0; i <= LINKS; i++)
		must(hsa_signal_destroy(done[i]), "hsa_signal_destroy");
	host_free(&dst);
	host_free(&src);
	device_free(vram);
}

/* One signal counts many copies. */
static void counted_test(void)
{
	enum { COPIES = 64 };
	const size_t size = 1000;
	struct pattern_copy c = { .bytes = COPIES * size, .seed = ++seed };
	struct host src, dst;
	hsa_signal_t done;
	unsigned int i;
	uint8_t *vram;
	bool ok;

	if (!has_atomics()) {
		tap_skip("one signal counts many copies",
			 "without PCIe atomics ROCr writes the value that it thinks is next");
		return;
	}
	done = signal_new(COPIES);
	vram = device_new(COPIES * size);
	host_new(&src, HOST_LOCKED, COPIES * size);
	host_new(&dst, HOST_FINE, COPIES * size);
	c.src = src.cpu;
	c.dst = dst.cpu;
	c.dst_size = COPIES * size;
	pattern_prepare(&c);
	for (i = 0; i < COPIES; i++) {
		const size_t at = (i * 29 % COPIES) * size;
		const struct way way = { i % 2 ? HSA_AMD_SDMA_ENGINE_0 : HSA_AMD_SDMA_ENGINE_1,
					 false };

		must(start(&way, vram + at, gpu, src.gpu + at, cpu, size, 0, NULL, done),
		     "a copy of many");
	}
	ok = signal_wait(done) && copy(dst.gpu, cpu, vram, gpu, COPIES * size);
	tap_ok(ok && pattern_verify(&c), "one signal counts %d copies", COPIES);
	must(hsa_signal_destroy(done), "hsa_signal_destroy");
	host_free(&dst);
	host_free(&src);
	device_free(vram);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t called = PTHREAD_COND_INITIALIZER;
static bool was_called;

static bool handler(hsa_signal_value_t value, void *data)
{
	pthread_mutex_lock(&lock);
	was_called = value == 0 && data == &was_called;
	pthread_cond_signal(&called);
	pthread_mutex_unlock(&lock);
	return false;
}

/* A copy that is held until a thread sleeps. */
struct held {
	hsa_signal_t dep;		/* 0 releases it */
	int waiter;
	bool asleep;			/* the thread did */
};

static void *release_asleep(void *data)
{
	struct held *held = data;

	held->asleep = kfd_asleep(held->waiter, timeout_ms());
	hsa_signal_store_screlease(held->dep, 0);
	return NULL;
}

/* A wait in which ROCr sleeps in the kernel; the GPU's interrupt ends it. */
static void interrupt_test(void)
{
	const size_t size = 4096;
	struct held held = { .dep = signal_new(1), .waiter = (int)syscall(SYS_gettid) };
	hsa_signal_t done = signal_new(1);
	uint8_t *vram = device_new(size);
	const unsigned int before = of_rkfd() ? trace_count("rkfd_interrupt", " source=224 ") : 0;
	struct timespec end;
	struct host host;
	pthread_t thread;
	bool ok = true;

	host_new(&host, HOST_FINE, size);
	must(hsa_amd_signal_async_handler(done, HSA_SIGNAL_CONDITION_EQ, 0, handler, &was_called),
	     "hsa_amd_signal_async_handler");
	must(start(&any_engine, vram, gpu, host.gpu, cpu, size, 1, &held.dep, done), "a held copy");
	if (pthread_create(&thread, NULL, release_asleep, &held))
		die("no thread");
	tap_ok(signal_wait(done), "a wait ends");
	pthread_join(thread, NULL);
	tap_ok(held.asleep, "it was asleep");
	if (of_rkfd())
		tap_ok(trace_wait("rkfd_interrupt", " source=224 ", before + 1, timeout_ms()),
		       "an SDMA trap came with it");
	else
		tap_skip("an SDMA trap came with it", "only rkfd traces it");

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += timeout_ms() / 1000;
	pthread_mutex_lock(&lock);
	while (!was_called && ok)
		ok = pthread_cond_timedwait(&called, &lock, &end) == 0;
	tap_ok(was_called, "the handler of a signal is called");
	pthread_mutex_unlock(&lock);
	must(hsa_signal_destroy(held.dep), "hsa_signal_destroy");
	must(hsa_signal_destroy(done), "hsa_signal_destroy");
	host_free(&host);
	device_free(vram);
}

void linear_tests(void)
{
	sizes_tests();
	device_tests();
	engine_tests();
}

void bulk_tests(void)
{
	held_test();
	chain_test();
	counted_test();
	interrupt_test();
}
