// SPDX-License-Identifier: GPL-2.0
/*
 * Three typical mistakes with the GPU's memory: a kernel that writes behind the end of a buffer,
 * into a buffer that was freed, and to an argument that is no address of the GPU. Each is a
 * program of its own, which the runtime ends. Shows what the runtime and the kernel's log say of
 * it (Documentation/faults.md has that), and checks that rkfd names the buffer and the kernel.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "code.h"
#include "debugfs.h"
#include "common/kernel_log.h"
#include "tap.h"

#define ITEMS	(64 * GROUP)
#define BYTES	((size_t)4 * ITEMS)
/* The runtime gets buffers of this size from the driver one by one. */
#define LARGE	(4 * MIB)

/* What a program in trouble is about to do. */
static struct {
	uint64_t kernel;
	uint64_t buffer;
} *about;

enum mistake { OVERRUN, FREED, ARGUMENT };

/* Ends by a signal. */
static void program(enum mistake mistake)
{
	struct host arguments;
	struct kernel kernel;
	struct code code;
	hsa_queue_t *queue;
	hsa_signal_t done;
	uint8_t *a, *b, *out;

	hsa_open();
	code_load(&code);
	must(hsa_queue_create(gpu, 64, HSA_QUEUE_TYPE_SINGLE, NULL, NULL, UINT32_MAX, UINT32_MAX,
			      &queue), "hsa_queue_create");
	host_new(&arguments, HOST_FINE, 4096);
	a = device_new(BYTES);
	b = device_new(BYTES);
	out = device_new(LARGE);
	about->buffer = (uintptr_t)out;
	switch (mistake) {
	case OVERRUN:
		/* A quarter of the result fits. */
		out += LARGE - BYTES / 4;
		break;
	case FREED:
		device_free(out);
		break;
	case ARGUMENT:
		/* The host's copy of the result, which the GPU does not know. */
		out = malloc(LARGE);
		break;
	}
	memcpy(arguments.cpu, &(void *[]){ a, b, out }, 24);
	kernel = code_kernel(&code, "add.kd");
	about->kernel = kernel.object;
	done = signal_new(1);
	kernel_start(queue, &kernel, ITEMS, arguments.gpu, done);
	signal_wait(done);
	exit(EXIT_FAILURE);
}

/* Shows the lines of the log since the last call. */
static void show_log(void)
{
	static char record[4096];
	char *text, *end;

	while (kernel_log_next(record, sizeof(record))) {
		text = strchr(record, ';');
		if (!text || (!strstr(text, "rkfd ") && !strstr(text, "amdgpu ")))
			continue;
		end = strchr(text, '\n');
		if (end)
			*end = '\0';
		tap_note("%s", text + 1);
	}
}

/* Shows the messages of the runtime, which are in @path. */
static void show_messages(const char *path)
{
	char line[512];
	FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		tap_note("%s", line);
	}
	if (f)
		fclose(f);
}

/* The report of the fault of process @pid, from its number on; empty if there is none. */
static const char *report_of(pid_t pid)
{
	static char reports[32 << 10];
	char own[64], *report, *end;

	snprintf(own, sizeof(own), "pid %d pasid", pid);
	debugfs_read("faults", reports, sizeof(reports));
	report = strstr(reports, own);
	if (!report)
		return "";
	end = strstr(report, "\n\n");
	if (end)
		*end = '\0';
	return report;
}

static void show_report(const char *report)
{
	int length;

	for (; *report; report += length + (report[length] == '\n')) {
		length = (int)strcspn(report, "\n");
		tap_note("%.*s", length, report);
	}
}

static void make(enum mistake mistake, const char *name, const char *around)
{
	const char *messages = "/tmp/messages";
	char text[160];
	const char *report;
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (!freopen(messages, "we", stderr))
			_exit(1);
		program(mistake);
	}
	tap_ok(pid > 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) &&
	       WTERMSIG(status) == SIGABRT, "%s: the runtime ends the program", name);
	show_messages(messages);
	unlink(messages);
	show_log();
	if (!of_rkfd())
		return;
	report = report_of(pid);
	snprintf(text, sizeof(text), around, (unsigned long long)about->buffer);
	tap_ok(strstr(report, text), "%s: the report says \"%s\"", name, text);
	snprintf(text, sizeof(text),
		 "dispatch, kernel object 0x%llx, grid %ux1x1, group %ux1x1, ",
		 (unsigned long long)about->kernel, ITEMS, GROUP);
	tap_ok(strstr(report, text), "%s: the report says \"%s\"", name, text);
	show_report(report);
}

int main(void)
{
	tap_start();
	about = mmap(NULL, sizeof(*about), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	if (about == MAP_FAILED)
		die("no shared memory");
	kernel_log_start();
	make(OVERRUN, "behind the end", " above the end of 4 MiB of VRAM at 0x%llx");
	make(FREED, "a freed buffer", "; 4 MiB of VRAM at 0x%llx was, and was freed ");
	make(ARGUMENT, "an address of the host", "address: no buffer is there");
	return tap_end();
}
