/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The prerequisites of copies by the HSA API: the agents, their memory, and signals. Calls that
 * must not fail end the program.
 */
#ifndef RKFD_TEST_HSA_H
#define RKFD_TEST_HSA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))
#define KIB		((size_t)1 << 10)
#define MIB		((size_t)1 << 20)

/* The first agent of each kind. */
extern hsa_agent_t cpu, gpu;

/* Ends the program if @status is an error; @what names the call. */
void must(hsa_status_t status, const char *what);

/* True if the driver is rkfd, and not another of the same ABI. */
bool of_rkfd(void);

void hsa_open(void);
void hsa_close(void);

/* The kind of memory at the host's side of a copy. */
enum host_kind {
	HOST_FINE,	/* the fine-grained pool */
	HOST_COARSE,	/* the coarse-grained pool */
	HOST_LOCKED,	/* memory of malloc, locked as long as it is used */
	HOST_PAGEABLE,	/* memory of malloc, locked for each copy alone */
	HOST_KINDS
};

extern const char *const host_names[HOST_KINDS];

/* Memory of the host: its address for programs, and that for the GPU. */
struct host {
	enum host_kind kind;
	size_t size;
	uint8_t *cpu;
	uint8_t *gpu;		/* NULL between copies for pageable memory */
	void *block;		/* argument of free() */
};

void host_new(struct host *host, enum host_kind kind, size_t size);
void host_free(struct host *host);
/* Before and after a copy. */
void host_pin(struct host *host);
void host_unpin(struct host *host);

/* Memory of the GPU. */
uint8_t *device_new(size_t size);
void device_free(void *p);

/* A signal whose waiters an interrupt wakes. */
hsa_signal_t signal_new(hsa_signal_value_t value);
/* Waits, asleep, until it is 0; false after timeout_ms(). */
bool signal_wait(hsa_signal_t signal);

/* A copy between host and GPU, or within the GPU if @size is below 1 MiB. */
bool copy(void *dst, hsa_agent_t dst_agent, const void *src, hsa_agent_t src_agent,
	  size_t size);
/* Copies that went over SDMA queues so far. */
extern unsigned int submissions;

/* True if the GPU's 64-bit atomic operations reach the host's memory. */
bool has_atomics(void);

/* hsa_linear.c: copies with others in progress, and one at a time. */
void bulk_tests(void);
void linear_tests(void);
/* hsa_rect.c: one at a time. */
void rect_tests(void);

#endif /* RKFD_TEST_HSA_H */
