// SPDX-License-Identifier: GPL-2.0
/* CRIU_OP: the process saves itself, and gives back what was written. */
#include "call.h"
#include "keep.h"
#include "pool.h"

#define BUFFERS	32u
#define DATA	8192u

static _Thread_local struct kfd_ioctl_criu_args args;
static _Thread_local struct kfd_criu_device_bucket devices[8];
static _Thread_local struct kfd_criu_bo_bucket buffers[BUFFERS];
static _Thread_local unsigned char data[DATA];

static void call(uint32_t op)
{
	args.op = once_in(20) ? random32() : op;
	if (once_in(20))
		args.num_bos = random32();
	if (once_in(20))
		args.priv_data_size ^= 1ull << below(64);
	fuzz_call(once_in(4) ? (int)pool_guess(KFD_FILE) : own.fd, 'K', 0x22, &args, sizeof(args));
}

/* Queues of other threads go on. */
void criu_unpause(void)
{
	struct kfd_ioctl_criu_args go_on = { .op = KFD_CRIU_OP_UNPAUSE };

	kfd_ioctl(own.fd, AMDKFD_IOC_CRIU_OP, &go_on);
}

/* The data are given back as they are, or damaged. */
void fuzz_criu(void)
{
	args = (struct kfd_ioctl_criu_args){ 0 };
	call(once_in(4) ? below(6) : KFD_CRIU_OP_PROCESS_INFO);
	args.devices = (uintptr_t)some_pointer(devices);
	args.bos = (uintptr_t)some_pointer(buffers);
	args.priv_data = (uintptr_t)some_pointer(data);
	if (args.num_bos <= BUFFERS && args.priv_data_size <= DATA) {
		for (unsigned int i = 0; i < BUFFERS; i++)
			buffers[i].dmabuf_fd = UINT32_MAX;
		call(KFD_CRIU_OP_CHECKPOINT);
		for (unsigned int i = 0; i < BUFFERS; i++)
			if (buffers[i].dmabuf_fd != UINT32_MAX)
				keep(SHARED_FILE, buffers[i].dmabuf_fd);
	}
	criu_unpause();
	if (once_in(2))
		data[below(DATA)] ^= 1u << below(8);
	call(once_in(8) ? KFD_CRIU_OP_RESUME : KFD_CRIU_OP_RESTORE);
	criu_unpause();
}
