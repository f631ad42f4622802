// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>
#include <unistd.h>

#include "tap.h"
#include "hsa.h"

/* The offset in its page at which memory of malloc begins. */
#define ODD_OFFSET	52

hsa_agent_t cpu, gpu;
unsigned int submissions;

bool of_rkfd(void)
{
	return access("/sys/module/rkfd", F_OK) == 0;
}

const char *const host_names[HOST_KINDS] = {
	[HOST_FINE] = "fine-grained pool",
	[HOST_COARSE] = "coarse-grained pool",
	[HOST_LOCKED] = "locked",
	[HOST_PAGEABLE] = "pageable",
};

static hsa_amd_memory_pool_t host_fine, host_coarse, device_pool;
static uint64_t ticks_per_ms;

void must(hsa_status_t status, const char *what)
{
	const char *text = NULL;

	if (status == HSA_STATUS_SUCCESS)
		return;
	hsa_status_string(status, &text);
	die("%s: %s (0x%x)", what, text ? text : "?", status);
}

static hsa_status_t see_agent(hsa_agent_t agent, void *data)
{
	hsa_device_type_t type;
	hsa_agent_t *first;

	(void)data;
	must(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type), "hsa_agent_get_info");
	first = type == HSA_DEVICE_TYPE_CPU ? &cpu : type == HSA_DEVICE_TYPE_GPU ? &gpu : NULL;
	if (first && !first->handle)
		*first = agent;
	return HSA_STATUS_SUCCESS;
}

static hsa_status_t see_pool(hsa_amd_memory_pool_t pool, void *data)
{
	hsa_amd_segment_t segment;
	uint32_t flags = 0;
	bool alloc;

	must(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment),
	     "hsa_amd_memory_pool_get_info");
	must(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED,
					  &alloc), "hsa_amd_memory_pool_get_info");
	if (segment != HSA_AMD_SEGMENT_GLOBAL || !alloc)
		return HSA_STATUS_SUCCESS;
	must(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags),
	     "hsa_amd_memory_pool_get_info");
	if (data == &gpu) {
		if (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED)
			device_pool = pool;
	} else if (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED) {
		host_coarse = pool;
	} else if (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED &&
		   !(flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT)) {
		host_fine = pool;
	}
	return HSA_STATUS_SUCCESS;
}

void hsa_open(void)
{
	uint64_t frequency;

	must(hsa_init(), "hsa_init");
	must(hsa_iterate_agents(see_agent, NULL), "hsa_iterate_agents");
	if (!cpu.handle || !gpu.handle)
		die("no agents of processor and GPU");
	must(hsa_amd_agent_iterate_memory_pools(cpu, see_pool, &cpu), "pools of the processor");
	must(hsa_amd_agent_iterate_memory_pools(gpu, see_pool, &gpu), "pools of the GPU");
	if (!host_fine.handle || !host_coarse.handle || !device_pool.handle)
		die("a pool of memory is missing");
	must(hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY, &frequency),
	     "timestamp frequency");
	ticks_per_ms = frequency / 1000;
}

bool has_atomics(void)
{
	hsa_amd_memory_pool_link_info_t link = { 0 };

	must(hsa_amd_agent_memory_pool_get_info(gpu, host_fine,
						HSA_AMD_AGENT_MEMORY_POOL_INFO_LINK_INFO, &link),
	     "link to the host");
	return link.atomic_support_64bit;
}

void hsa_close(void)
{
	must(hsa_shut_down(), "hsa_shut_down");
}

void host_pin(struct host *host)
{
	if (!host->gpu)
		must(hsa_amd_memory_lock(host->cpu, host->size, &gpu, 1, (void **)&host->gpu),
		     "hsa_amd_memory_lock");
}

void host_unpin(struct host *host)
{
	if (host->kind == HOST_PAGEABLE && host->gpu) {
		must(hsa_amd_memory_unlock(host->cpu), "hsa_amd_memory_unlock");
		host->gpu = NULL;
	}
}

void host_new(struct host *host, enum host_kind kind, size_t size)
{
	*host = (struct host){ .kind = kind, .size = size };
	if (kind == HOST_FINE || kind == HOST_COARSE) {
		must(hsa_amd_memory_pool_allocate(kind == HOST_FINE ? host_fine : host_coarse,
						  size, 0, &host->block), "allocate from a pool");
		must(hsa_amd_agents_allow_access(1, &gpu, NULL, host->block), "allow access");
		host->cpu = host->block;
		host->gpu = host->block;
		return;
	}
	host->block = malloc(size + ODD_OFFSET);
	if (!host->block)
		die("out of memory");
	host->cpu = (uint8_t *)host->block + ODD_OFFSET;
	if (kind == HOST_LOCKED)
		host_pin(host);
}

void host_free(struct host *host)
{
	if (host->kind == HOST_FINE || host->kind == HOST_COARSE) {
		must(hsa_amd_memory_pool_free(host->block), "free to a pool");
		return;
	}
	if (host->gpu)
		must(hsa_amd_memory_unlock(host->cpu), "hsa_amd_memory_unlock");
	free(host->block);
}

uint8_t *device_new(size_t size)
{
	void *p;

	must(hsa_amd_memory_pool_allocate(device_pool, size, 0, &p), "allocate VRAM");
	return p;
}

void device_free(void *p)
{
	must(hsa_amd_memory_pool_free(p), "free VRAM");
}

hsa_signal_t signal_new(hsa_signal_value_t value)
{
	hsa_signal_t signal;

	must(hsa_signal_create(value, 0, NULL, &signal), "hsa_signal_create");
	return signal;
}

bool signal_wait(hsa_signal_t signal)
{
	const hsa_signal_value_t value =
		hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_LT, 1,
					  timeout_ms() * ticks_per_ms, HSA_WAIT_STATE_BLOCKED);

	if (value != 0)
		tap_note("the signal is %lld", (long long)value);
	return value == 0;
}

bool copy(void *dst, hsa_agent_t dst_agent, const void *src, hsa_agent_t src_agent, size_t size)
{
	hsa_signal_t done = signal_new(1);
	bool ok;

	must(hsa_amd_memory_async_copy(dst, dst_agent, src, src_agent, size, 0, NULL, done),
	     "hsa_amd_memory_async_copy");
	submissions++;
	ok = signal_wait(done);
	must(hsa_signal_destroy(done), "hsa_signal_destroy");
	return ok;
}
