// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of one process in another by the HIP runtime: hipIpcGetMemHandle and
 * hipIpcOpenMemHandle, with data in both directions. HSA_ENABLE_IPC_MODE_LEGACY is 0, so that
 * ROCr passes dma-bufs; by default it uses ioctls that no upstream kernel has.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory.h"

#define ROUNDS	3
/* Seconds after which the test counts as hung. */
#define PATIENCE 240

static void send_all(int socket, const void *data, size_t size)
{
	if (write(socket, data, size) != (ssize_t)size)
		die("the other process is gone");
}

static void receive_all(int socket, void *data, size_t size)
{
	if (read(socket, data, size) != (ssize_t)size)
		die("the other process is gone");
}

/* The other process: true if it found the expected data, each time. */
static int child(int socket)
{
	uint32_t *host = malloc(SIZE);
	hipIpcMemHandle_t handle;
	unsigned int round;
	bool ok = true;
	void *p;

	alarm(PATIENCE);
	for (round = 0; round < ROUNDS; round++) {
		receive_all(socket, &handle, sizeof(handle));
		must(hipSetDevice(0), "hipSetDevice");
		must(hipIpcOpenMemHandle(&p, handle, hipIpcMemLazyEnablePeerAccess),
		     "hipIpcOpenMemHandle");
		must(hipMemcpy(host, p, SIZE, hipMemcpyDeviceToHost), "hipMemcpy");
		ok &= holds(host, 1000 * round);
		fill(host, 1000 * round + 500);
		must(hipMemcpy(p, host, SIZE, hipMemcpyHostToDevice), "hipMemcpy");
		must(hipIpcCloseMemHandle(p), "hipIpcCloseMemHandle");
		send_all(socket, &ok, sizeof(ok));
	}
	return !ok;
}

int main(void)
{
	uint32_t *host = malloc(SIZE);
	hipIpcMemHandle_t handle;
	int sockets[2], status;
	unsigned int round;
	pid_t pid;

	/* As in hip_copy: no copy by a shader. */
	setenv("GPU_FORCE_BLIT_COPY_SIZE", "0", 1);
	setenv("HSA_ENABLE_IPC_MODE_LEGACY", "0", 1);
	tap_start();
	alarm(PATIENCE);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
		die("no sockets");
	pid = fork();
	if (pid == 0)
		_exit(child(sockets[1]));
	close(sockets[1]);
	for (round = 0; round < ROUNDS; round++) {
		bool ok = false;
		void *p;

		must(hipMalloc(&p, SIZE), "hipMalloc");
		fill(host, 1000 * round);
		must(hipMemcpy(p, host, SIZE, hipMemcpyHostToDevice), "hipMemcpy");
		must(hipIpcGetMemHandle(&handle, p), "hipIpcGetMemHandle");
		send_all(sockets[0], &handle, sizeof(handle));
		receive_all(sockets[0], &ok, sizeof(ok));
		tap_ok(ok, "round %u: the other process reads what was written", round);
		memset(host, 0, SIZE);
		must(hipMemcpy(host, p, SIZE, hipMemcpyDeviceToHost), "hipMemcpy");
		tap_ok(holds(host, 1000 * round + 500), "round %u: and what it writes is read",
		       round);
		must(hipFree(p), "hipFree");
	}
	waitpid(pid, &status, 0);
	tap_ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the other process ends well");
	free(host);
	return tap_end();
}
