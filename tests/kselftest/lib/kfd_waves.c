// SPDX-License-Identifier: GPL-2.0
/* Programs of waves.s on a PM4 queue; see kfd_waves.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kfd_waves.h"

/* The code, assembled; the path is the Makefile's. */
__asm__(".section .rodata\n"
	".balign 16\n"
	"waves_code:\n"
	".incbin \"waves.bin\"\n"
	"waves_code_end:\n"
	".previous\n");
extern const unsigned char waves_code[], waves_code_end[];

const struct waves_shape waves_shape[WAVES_PROGRAMS] = {
	[WAVES_SMALL] = { "8 VGPRs", 8, 0, 1, 0 },
	[WAVES_MIDDLE] = { "40 VGPRs", 40, 0, 1, 0 },
	[WAVES_LARGE] = { "64 and 64 VGPRs", 64, 64, 1, 0 },
	[WAVES_HUGE] = { "256 and 256 VGPRs", 256, 256, 1, 0 },
	[WAVES_SHARED] = { "64 KiB of LDS and barriers", 8, 0, 4, 0x10000 },
	[WAVES_WHERE] = { "HW_ID", 8, 0, 1, 0 },
	[WAVES_TOUCH] = { "a page an item", 8, 0, 1, 0 },
	[WAVES_LEAVE] = { "512 VGPRs and 64 KiB of LDS", 256, 256, 4, 0x10000 },
	[WAVES_FIND] = { "the same", 256, 256, 4, 0x10000 },
	/* Two of these are on a CU at a time. */
	[WAVES_LEAVE_SCALARS] = { "SGPRs", 8, 0, 12, 0 },
	[WAVES_FIND_SCALARS] = { "the same", 8, 0, 12, 0 },
	[WAVES_EXCEPTION] = { "an exception", 8, 0, 1, 0 },
};

#define PM4_SET_SH_REG		0x76
#define PM4_DISPATCH_DIRECT	0x15
#define COMPUTE_START_X		0x204	/* dwords from the first register of SH space */
#define COMPUTE_PGM_LO		0x20c
#define COMPUTE_PGM_RSRC1	0x212
#define COMPUTE_RESOURCE_LIMITS	0x215
#define COMPUTE_PGM_RSRC3	0x22d
#define COMPUTE_USER_DATA_0	0x240
#define LANES			64u

static void set_registers(struct packets *p, unsigned int first, const uint32_t *values,
			  unsigned int count)
{
	const uint32_t compute = 1u << 1;
	unsigned int i;

	pm4_header(p, PM4_SET_SH_REG, count + 1);
	p->dwords[p->count - 1] |= compute;
	sdma_emit(p, first);
	for (i = 0; i < count; i++)
		sdma_emit(p, values[i]);
}

int waves_create(const struct kfd_dev *dev, struct waves *waves, unsigned int most)
{
	const size_t code = (size_t)(waves_code_end - waves_code);
	const size_t data = WAVES_RECORDS + most * sizeof(struct waves_record);
	int err;

	memset(waves, 0, sizeof(*waves));
	err = kfd_bo_create(dev, &waves->code, (code + KFD_PAGE - 1) / KFD_PAGE * KFD_PAGE,
			    KFD_ALLOC_GTT);
	if (!err)
		err = kfd_bo_create(dev, &waves->data, (data + KFD_PAGE - 1) / KFD_PAGE * KFD_PAGE,
				    KFD_ALLOC_GTT);
	if (!err)
		memcpy(waves->code.cpu, waves_code, code);
	return err;
}

int waves_destroy(const struct kfd_dev *dev, struct waves *waves)
{
	int err = kfd_bo_destroy(dev, &waves->data);

	return err ? err : kfd_bo_destroy(dev, &waves->code);
}

volatile struct waves_record *waves_record(const struct waves *waves, unsigned int wave)
{
	return (volatile struct waves_record *)((char *)waves->data.cpu + WAVES_RECORDS) + wave;
}

/* The first words of the code are the places of the programs, and the handler's behind them. */
static uint64_t code_of(const struct waves *waves, unsigned int program)
{
	return (uintptr_t)waves->code.cpu + ((const uint32_t *)waves->code.cpu)[program];
}

int waves_set_handler(const struct kfd_dev *dev, const struct waves *waves, uint64_t codes)
{
	struct kfd_ioctl_set_trap_handler_args args = {
		.tba_addr = code_of(waves, WAVES_PROGRAMS),
		.tma_addr = codes,
		.gpu_id = dev->gpu_id,
	};

	return kfd_ioctl(dev->fd, AMDKFD_IOC_SET_TRAP_HANDLER, &args);
}

uint64_t waves_address(const struct waves *waves, enum waves_program program)
{
	return code_of(waves, program);
}

uint32_t waves_rsrc1(enum waves_program program)
{
	const struct waves_shape *shape = &waves_shape[program];

	/* 112 SGPRs, denormals kept, DX10_CLAMP, IEEE. */
	return ((shape->arch + shape->acc) / 8 - 1) | 12u << 6 | 0xc0u << 12 | 1u << 21 | 1u << 23;
}

void waves_dispatch(struct packets *p, const struct waves *waves, enum waves_program program,
		    unsigned int count, bool trap)
{
	const struct waves_shape *shape = &waves_shape[program];
	const uint64_t code = code_of(waves, program);
	const uint64_t data = (uintptr_t)waves->data.cpu;
	const uint32_t start[6] = { 0, 0, 0, shape->waves * LANES, 1, 1 };
	const uint32_t pgm[2] = { (uint32_t)(code >> 8), (uint32_t)(code >> 40) };
	/* 2 user SGPRs, the group's x, LDS. */
	const uint32_t rsrc[2] = {
		waves_rsrc1(program),
		2u << 1 | (trap ? 1u << 6 : 0) | 1u << 7 | shape->lds / 512 << 15,
	};
	const uint32_t rsrc3 = shape->arch / 4 - 1, no_limits = 0;
	const uint32_t user[2] = { (uint32_t)data, (uint32_t)(data >> 32) };
	const uint32_t shader_enable = 1;

	set_registers(p, COMPUTE_START_X, start, 6);
	set_registers(p, COMPUTE_PGM_LO, pgm, 2);
	set_registers(p, COMPUTE_PGM_RSRC1, rsrc, 2);
	set_registers(p, COMPUTE_RESOURCE_LIMITS, &no_limits, 1);
	set_registers(p, COMPUTE_PGM_RSRC3, &rsrc3, 1);
	set_registers(p, COMPUTE_USER_DATA_0, user, 2);
	pm4_header(p, PM4_DISPATCH_DIRECT, 4);
	p->dwords[p->count - 1] |= 1u << 1;
	sdma_emit(p, count / shape->waves);
	sdma_emit(p, 1);
	sdma_emit(p, 1);
	sdma_emit(p, shader_enable);
}

bool waves_start(struct waves *waves, struct kfd_compute *queue, enum waves_program program,
		 unsigned int count, bool trap)
{
	struct packets p = { 0 };

	waves->count = count;
	waves->program = program;
	memset(waves->data.cpu, 0, waves->data.size);
	waves_dispatch(&p, waves, program, count, trap);
	return kfd_compute_submit(queue, &p);
}

void waves_stop(struct waves *waves)
{
	*(volatile uint32_t *)waves->data.cpu = 1;
}

bool waves_go_on(const struct waves *waves, unsigned int ms)
{
	const uint64_t end = kfd_now_ms() + ms;
	uint32_t *before = calloc(waves->count, sizeof(*before));
	unsigned int i;

	if (!before)
		return false;
	for (i = 0; i < waves->count; i++)
		before[i] = waves_record(waves, i)->rounds;
	for (i = 0; i < waves->count; i++)
		while (waves_record(waves, i)->rounds == before[i] && kfd_now_ms() < end)
			usleep(200);
	for (i = 0; i < waves->count; i++)
		if (waves_record(waves, i)->rounds == before[i])
			break;
	free(before);
	if (i < waves->count)
		printf("# wave %u of %u does not go on\n", i, waves->count);
	return i == waves->count;
}

bool waves_ended(const struct waves *waves, unsigned int ms)
{
	const uint64_t end = kfd_now_ms() + ms;
	unsigned int i;

	for (i = 0; i < waves->count; i++)
		while (!waves_record(waves, i)->result) {
			if (kfd_now_ms() > end) {
				printf("# wave %u of %u does not end\n", i, waves->count);
				return false;
			}
			usleep(200);
		}
	return true;
}

unsigned int waves_bad(const struct waves *waves)
{
	unsigned int i, bad = 0;

	for (i = 0; i < waves->count; i++) {
		volatile struct waves_record *record = waves_record(waves, i);

		if (record->result == WAVES_GOOD)
			continue;
		if (!bad++)
			printf("# wave %u after %u rounds: %u lanes and %u scalars differ\n", i,
			       record->rounds, record->lanes, record->scalars);
	}
	return bad;
}

uint64_t waves_rounds(const struct waves *waves)
{
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < waves->count; i++)
		sum += waves_record(waves, i)->rounds;
	return sum;
}
