// SPDX-License-Identifier: GPL-2.0
/* Wrong packets, each for a queue of its own. */
#include <string.h>

#include "compute_bad.h"

/* PM4: written into the ring, or into the buffer that an AQL packet points to. */

static void write_nothing(struct trouble *t, struct packets *p)
{
	pm4_write(p, t->nothing, 1);
}

static void write_kernel(struct trouble *t, struct packets *p)
{
	/* The hub reports 48 bits of it. */
	t->address = 0xffff800000000000 & 0xffffffffffff;
	pm4_write(p, 0xffff800000000000, 1);
}

static void write_much(struct trouble *t, struct packets *p)
{
	unsigned int i;

	t->pages = 4;
	for (i = 0; i < 20; i++)
		pm4_write(p, t->nothing + i % 4 * KFD_PAGE, 1);
}

static void write_constant(struct trouble *t, struct packets *p)
{
	t->address = (uintptr_t)t->constant.cpu;
	pm4_write(p, t->address, 1);
}

static void release_nothing(struct trouble *t, struct packets *p)
{
	pm4_release(p, t->nothing, 1, 0);
}

static void release_constant(struct trouble *t, struct packets *p)
{
	t->address = (uintptr_t)t->constant.cpu;
	pm4_release(p, t->address, 1, t->inactive);
}

static void add_to_constant(struct trouble *t, struct packets *p)
{
	t->address = (uintptr_t)t->constant.cpu;
	pm4_atomic_add64(p, t->address, 1);
}

static void wait_for_nothing(struct trouble *t, struct packets *p)
{
	pm4_wait_memory(p, t->nothing, 1);
}

static void copy_nothing(struct trouble *t, struct packets *p)
{
	pm4_copy(p, at(t, MARK), t->nothing);
}

static void buffer_of_nothing(struct trouble *t, struct packets *p)
{
	pm4_indirect(p, t->nothing, 16);
}

static void buffer_over_the_end(struct trouble *t, struct packets *p)
{
	struct packets nops = { 0 };
	const uint64_t end = (uintptr_t)t->code.cpu + t->code.size;

	/* Its last packet ends where the mapping does. */
	pm4_nop(&nops, 15);
	memcpy((char *)t->code.cpu + t->code.size - 64, nops.dwords, 64);
	t->address = end;
	pm4_indirect(p, end - 64, 32);
}

static void unknown_opcode(struct trouble *t, struct packets *p)
{
	(void)t;
	pm4_header(p, 0xfe, 2);
	sdma_emit64(p, 0);
}

static void type_0(struct trouble *t, struct packets *p)
{
	(void)t;
	sdma_emit(p, 0x00010000 | 0x2040);
	sdma_emit64(p, 0);
}

static void write_without_data(struct trouble *t, struct packets *p)
{
	pm4_header(p, PM4_WRITE_DATA, 3);
	sdma_emit(p, 5u << 8);
	sdma_emit64(p, at(t, MARK));
}

static void long_release(struct trouble *t, struct packets *p)
{
	pm4_header(p, PM4_RELEASE_MEM, 8);
	sdma_emit(p, 0x14 | 5u << 8);
	sdma_emit(p, 2u << 29);
	sdma_emit64(p, at(t, MARK));
	sdma_emit64(p, 1);
	sdma_emit64(p, 0);
}

static void short_wait(struct trouble *t, struct packets *p)
{
	pm4_header(p, PM4_WAIT_REG_MEM, 3);
	sdma_emit(p, 3 | 1u << 4);
	sdma_emit64(p, at(t, MARK));
}

static void longer_than_the_ring(struct trouble *t, struct packets *p)
{
	(void)t;
	sdma_emit(p, 3u << 30 | 0x3ffeu << 16 | PM4_NOP << 8);
	sdma_emit(p, 0);
}

static void write_register(struct trouble *t, struct packets *p)
{
	(void)t;
	pm4_header(p, PM4_WRITE_DATA, 4);
	sdma_emit(p, 0);
	sdma_emit64(p, 0x30a);
	sdma_emit(p, 0);
}

static void read_register(struct trouble *t, struct packets *p)
{
	const uint32_t from_register = 0, to_memory = 5u << 8;

	pm4_header(p, PM4_COPY_DATA, 5);
	sdma_emit(p, from_register | to_memory);
	sdma_emit64(p, 0x30a);
	sdma_emit64(p, at(t, MARK));
}

static void run_list(struct trouble *t, struct packets *p)
{
	/* Packets that only the driver's own queues may use. */
	pm4_header(p, 0xa5, 3);
	sdma_emit64(p, (uintptr_t)t->code.cpu);
	sdma_emit(p, 1u << 23 | 16);
}

static void map_queues(struct trouble *t, struct packets *p)
{
	pm4_header(p, 0xa2, 6);
	sdma_emit(p, 0);
	sdma_emit(p, 1u << 29);
	sdma_emit64(p, (uintptr_t)t->code.cpu);
	sdma_emit64(p, at(t, MARK));
}

static void odd_atomic(struct trouble *t, struct packets *p)
{
	pm4_atomic_add64(p, at(t, MARK) + 4, 1);
}

static void buffer_in_buffer(struct trouble *t, struct packets *p)
{
	struct packets inner = { 0 };

	pm4_indirect(&inner, (uintptr_t)t->code.cpu + 256, 16);
	memcpy(t->code.cpu, inner.dwords, inner.count * 4);
	pm4_indirect(p, (uintptr_t)t->code.cpu, inner.count);
}

static void past_the_buffer(struct trouble *t, struct packets *p)
{
	struct packets inner = { 0 };

	pm4_nop(&inner, 15);
	memcpy(t->code.cpu, inner.dwords, inner.count * 4);
	pm4_indirect(p, (uintptr_t)t->code.cpu, 8);
}

static void buffer_without_end(struct trouble *t, struct packets *p)
{
	struct packets inner = { 0 };

	pm4_nop(&inner, 3);
	pm4_chain(&inner, (uintptr_t)t->code.cpu, 8);
	memcpy(t->code.cpu, inner.dwords, inner.count * 4);
	pm4_indirect(p, (uintptr_t)t->code.cpu, inner.count);
}

static void wait_without_end(struct trouble *t, struct packets *p)
{
	pm4_wait_memory(p, at(t, NEVER), 1);
}

static void half_a_packet(struct trouble *t, struct packets *p)
{
	t->partial = true;
	sdma_emit(p, 3u << 30 | 100u << 16 | PM4_NOP << 8);
}

/* AQL. */

static void invalid(struct trouble *t, struct aql_packet *p)
{
	(void)t;
	memset(p, 0, sizeof(*p));
	p->header = AQL_HEADER(AQL_INVALID);
}

static void kernel_dispatch(struct trouble *t, struct aql_packet *p)
{
	memset(p, 0, sizeof(*p));
	p->header = AQL_HEADER(AQL_KERNEL_DISPATCH);
	p->completion = at(t, NEVER);
}

static void agent_dispatch(struct trouble *t, struct aql_packet *p)
{
	(void)t;
	memset(p, 0, sizeof(*p));
	p->header = AQL_HEADER(4);
}

static void reserved_type(struct trouble *t, struct aql_packet *p)
{
	(void)t;
	memset(p, 0, sizeof(*p));
	p->header = AQL_HEADER(7);
}

static void last_type(struct trouble *t, struct aql_packet *p)
{
	(void)t;
	memset(p, 0, sizeof(*p));
	p->header = AQL_HEADER(0xff);
}

static void vendor_format(struct trouble *t, struct aql_packet *p)
{
	(void)t;
	memset(p, 0, sizeof(*p));
	p->header = AQL_HEADER(AQL_VENDOR);
	p->format = 99;
}

static void vendor_without_buffer(struct trouble *t, struct aql_packet *p)
{
	aql_pm4(p, (uintptr_t)t->code.cpu, 16, 0);
	p->dwords[0] = 3u << 30 | 2u << 16 | PM4_NOP << 8;
}

static void barrier(struct aql_packet *p, uint64_t signal, uint64_t completion)
{
	aql_barrier(p, AQL_BARRIER_AND, &signal, 1, completion);
}

static void signal_nothing(struct trouble *t, struct aql_packet *p)
{
	barrier(p, 0, t->nothing);
}

static void signal_constant(struct trouble *t, struct aql_packet *p)
{
	t->address = (uintptr_t)t->constant.cpu;
	barrier(p, 0, t->address);
}

static void mailbox_of_nothing(struct trouble *t, struct aql_packet *p)
{
	struct aql_signal *signal = (struct aql_signal *)((char *)t->bad.control.cpu +
							  KFD_COMPUTE_SIGNAL);

	memset(signal, 0, sizeof(*signal));
	signal->value = 1;
	signal->mailbox = t->nothing;
	signal->event = t->inactive;
	barrier(p, 0, at(t, KFD_COMPUTE_SIGNAL));
}

static void odd_signal(struct trouble *t, struct aql_packet *p)
{
	barrier(p, 0, at(t, NEVER) + 4);
}

static void depends_on_nothing(struct trouble *t, struct aql_packet *p)
{
	barrier(p, t->nothing, 0);
}

static void odd_dependency(struct trouble *t, struct aql_packet *p)
{
	barrier(p, at(t, NEVER) + 4, 0);
}

static void depends_without_end(struct trouble *t, struct aql_packet *p)
{
	barrier(p, at(t, NEVER), 0);
}

#define PM4(text, what, make)					\
	{ .name = text, .outcome = what, .pm4 = make }
#define AQL(text, what, make, signal)				\
	{ .name = text, .aql = true, .outcome = what, .packet = make, .value = signal }
#define AQL_PM4(text, what, make)				\
	{ .name = text, .aql = true, .outcome = what, .pm4 = make, .value = BAD_PACKET }

const struct scenario scenarios[] = {
	PM4("a write to nothing", NOT_PRESENT, write_nothing),
	PM4("a write to the kernel's half", NOT_PRESENT, write_kernel),
	PM4("many writes to nothing", NOT_PRESENT, write_much),
	PM4("a write to read-only memory", READ_ONLY, write_constant),
	PM4("RELEASE_MEM to nothing", NOT_PRESENT, release_nothing),
	PM4("RELEASE_MEM to read-only memory", READ_ONLY, release_constant),
	PM4("an atomic on read-only memory", READ_ONLY, add_to_constant),
	PM4("WAIT_REG_MEM on nothing", NOT_PRESENT, wait_for_nothing),
	PM4("COPY_DATA of nothing", NOT_PRESENT, copy_nothing),
	PM4("an indirect buffer of nothing", NOT_PRESENT, buffer_of_nothing),
	PM4("an indirect buffer over the end", NOT_PRESENT, buffer_over_the_end),
	PM4("an unknown opcode", REFUSED, unknown_opcode),
	PM4("a packet of type 0", REFUSED, type_0),
	PM4("WRITE_DATA without data", REFUSED, write_without_data),
	PM4("RELEASE_MEM that is too long", REFUSED, long_release),
	PM4("WAIT_REG_MEM that is too short", REFUSED, short_wait),
	PM4("a packet longer than the ring", REFUSED, longer_than_the_ring),
	PM4("a write to a register", REFUSED, write_register),
	PM4("a read of a register", REFUSED, read_register),
	PM4("RUN_LIST", REFUSED, run_list),
	PM4("MAP_QUEUES", REFUSED, map_queues),
	PM4("an atomic that is not aligned", REFUSED, odd_atomic),
	PM4("an indirect buffer in another", REFUSED, buffer_in_buffer),
	PM4("a packet past its indirect buffer", REFUSED, past_the_buffer),
	PM4("an indirect buffer without end", WAITS, buffer_without_end),
	PM4("WAIT_REG_MEM without end", WAITS, wait_without_end),
	PM4("half a packet", WAITS, half_a_packet),

	AQL("a kernel dispatch of nothing", REFUSED, kernel_dispatch, BAD_DIMENSIONS),
	AQL("an agent dispatch", REFUSED, agent_dispatch, BAD_PACKET),
	AQL("a reserved type", REFUSED, reserved_type, BAD_PACKET),
	AQL("the last type", REFUSED, last_type, BAD_PACKET),
	AQL("an unknown vendor format", REFUSED, vendor_format, BAD_VENDOR),
	AQL("a vendor packet without buffer", REFUSED, vendor_without_buffer, BAD_VENDOR),
	AQL("a signal that is not aligned", REFUSED, odd_signal, BAD_PACKET),
	AQL("a dependency that is not aligned", REFUSED, odd_dependency, BAD_PACKET),
	AQL_PM4("an unknown opcode", REFUSED, unknown_opcode),
	AQL_PM4("an indirect buffer in another", REFUSED, buffer_in_buffer),
	AQL("a completion signal of nothing", NOT_PRESENT, signal_nothing, BAD_PACKET),
	AQL("a completion signal in read-only memory", READ_ONLY, signal_constant, BAD_PACKET),
	AQL("a mailbox of nothing", NOT_PRESENT, mailbox_of_nothing, BAD_PACKET),
	AQL("a dependency of nothing", NOT_PRESENT, depends_on_nothing, BAD_PACKET),
	AQL_PM4("an indirect buffer of nothing", NOT_PRESENT, buffer_of_nothing),
	AQL_PM4("a write to nothing", NOT_PRESENT, write_nothing),
	AQL("a packet that is never written", WAITS, invalid, BAD_PACKET),
	AQL("a dependency without end", WAITS, depends_without_end, BAD_PACKET),
	AQL_PM4("an indirect buffer without end", WAITS, buffer_without_end),
};

const unsigned int scenario_count = sizeof(scenarios) / sizeof(scenarios[0]);
