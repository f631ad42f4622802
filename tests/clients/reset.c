// SPDX-License-Identifier: GPL-2.0
/*
 * The firmware of the command processor, or of an SDMA engine, crashes, or a hub does not
 * answer any more, while four processes work. The GPU is reset as a whole and comes back by
 * itself: the processes are notified, and keep their system memory; new processes can use it at
 * once. Before the first reset the SMU has not answered a message.
 *
 * RKFD_ROUNDS is the number of rounds. Without it there are three, followed by the result of
 * too many resets, and of a GPU that does not come back. Only with the model, on a board whose
 * firmware the driver has loaded itself; with the argument stay on another board, which is not
 * reset.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <drm/drm.h>

#include "common/busy.h"
#include "common/check.h"
#include "common/child.h"
#include "debugfs.h"
#include "model.h"
#include "packets.h"
#include "common/pattern.h"
#include "tap.h"
#include "common/wedged.h"
#include "kfd_compute.h"
#include "kfd_event.h"
#include "objects.h"

#define DRIVER		"/sys/bus/pci/drivers/rkfd"
#define WORKERS		4u
#define BYTES		(1u << 20)
#define RING_SIZE	(16u << 10)
#define LOOP		32u
#define ENGINE		0u
#define DUMP_SIZE	(300u << 10)
#define TEXT_SIZE	16384u
#define STATE_SIZE	(4u << 20)
/* The time that a worker waits for its copy before it checks for a notification. */
#define LOOK_MS		20u
/* The time that a queue may take to get onto the hardware, microseconds. */
#define COMING_US	500000u

static sigjmp_buf no_doorbell;

static void on_bus_error(int sig)
{
	siglongjmp(no_doorbell, sig);
}

/* A failure, and the reports of it. */
struct failure {
	/* Command for the model. */
	const char *command;
	/* The event for watchers, and the cause in the core dump. */
	const char *event, *cause;
	/* A compute queue runs into it; else an SDMA queue does. */
	bool by_compute;
};

static const struct failure failures[] = {
	{ "crash mec", "compute scheduler hang", "the hardware scheduler does not answer", true },
	{ "crash sdma0", "SDMA engine hang", "sdma0 does not come to rest", false },
	{ "hubs silent mm", "VM hub hang", "MMHUB does not answer a flush", false },
	{ "hubs silent gfx", "VM hub hang", "GFXHUB does not answer a flush", true },
};

#define FAILURES	(sizeof(failures) / sizeof(*failures))

/* A worker's objects on the GPU. */
struct tools {
	struct kfd_dev dev;
	struct kfd_bo gtt, user, vram, loop;
	struct kfd_queue sdma;
	struct kfd_compute compute;
	struct kfd_save save;
	uint32_t event;
};

static int tools_get(struct tools *t, unsigned int number)
{
	if (kfd_open(&t->dev) || kfd_bo_create(&t->dev, &t->gtt, BYTES, KFD_ALLOC_GTT) ||
	    kfd_bo_create(&t->dev, &t->user, BYTES, KFD_ALLOC_USERPTR) ||
	    kfd_bo_create(&t->dev, &t->vram, BYTES, KFD_ALLOC_VRAM))
		return 10;
	if (event_create(&t->dev, KFD_IOC_EVENT_HW_EXCEPTION, false, &t->event))
		return 11;
	if (kfd_queue_create_on(&t->dev, &t->sdma, RING_SIZE, number % 2))
		return 12;
	if (kfd_save_create(&t->dev, &t->save) ||
	    kfd_compute_create(&t->dev, &t->compute, &t->save, number & 1, KFD_PAGE) ||
	    kfd_bo_create(&t->dev, &t->loop, KFD_PAGE, KFD_ALLOC_GTT) ||
	    !kfd_compute_count(&t->compute, &t->loop, LOOP,
			       kfd_compute_address(&t->compute, KFD_COMPUTE_FENCE), 0))
		return 13;
	pattern_fill(t->gtt.cpu, BYTES, number, 0);
	pattern_fill(t->user.cpu, BYTES, number + WORKERS, 0);
	return 0;
}

/* Copies until a copy does not end, or the doorbell is gone. */
static void copy_on(struct tools *t)
{
	signal(SIGBUS, on_bus_error);
	if (sigsetjmp(no_doorbell, 1) == 0)
		while (!kfd_queue_copy(&t->sdma, (uintptr_t)t->vram.cpu,
				       (uintptr_t)t->user.cpu, BYTES, LOOK_MS * 50))
			if (event_wait(&t->dev, t->event, 0) == 0)
				break;
	signal(SIGBUS, SIG_DFL);
}

/*
 * True if the process is notified that the whole GPU is reset. A queue of its own may have been
 * reset before.
 */
static bool is_told(struct tools *t)
{
	const uint64_t end = kfd_now_ms() + timeout_ms();
	struct kfd_event_data data = { .event_id = t->event };
	struct kfd_hsa_hw_exception_data *what = &data.hw_exception_data;

	while (kfd_now_ms() < end) {
		if (event_wait_many(&t->dev, &data, 1, true, 1000))
			continue;
		if (what->reset_type == KFD_HW_EXCEPTION_WHOLE_GPU_RESET)
			return what->reset_cause == KFD_HW_EXCEPTION_GPU_HANG &&
			       what->memory_lost == 1 && what->gpu_id == t->dev.gpu_id;
		usleep(1000);
	}
	return false;
}

/* True if calls on its files are refused before long: not those that concern no GPU. */
static bool is_refused(const struct tools *t)
{
	const uint64_t end = kfd_now_ms() + timeout_ms();
	struct drm_version version = { 0 };
	struct kfd_bo bo;
	uint32_t id;

	while (ioctl(t->dev.drm_fd, DRM_IOCTL_VERSION, &version) == 0) {
		if (kfd_now_ms() > end)
			return false;
		usleep(10 * 1000);
	}
	return errno == ENODEV && kfd_bo_create(&t->dev, &bo, KFD_PAGE, KFD_ALLOC_GTT) &&
	       event_create(&t->dev, KFD_IOC_EVENT_SIGNAL, true, &id) == 0;
}

static void worker(int ready, unsigned int number)
{
	struct tools t;
	int err;

	memset(&t, 0, sizeof(t));
	err = tools_get(&t, number);
	if (err || kfd_queue_copy(&t.sdma, (uintptr_t)t.vram.cpu, (uintptr_t)t.gtt.cpu, BYTES,
				  timeout_ms()))
		exit(err ? err : 14);
	if (write(ready, "", 1) != 1)
		exit(15);
	copy_on(&t);
	if (!is_told(&t))
		exit(16);
	if (!is_refused(&t))
		exit(17);
	if (pattern_check(t.gtt.cpu, BYTES, number, 0) != BYTES)
		exit(18);
	if (pattern_check(t.user.cpu, BYTES, number + WORKERS, 0) != BYTES)
		exit(19);
	exit(0);
}

/* Makes the driver check the failed part: it waits for the queue to leave. */
static void look_at(bool by_compute)
{
	struct kfd_compute compute;
	struct packets p = { 0 };
	struct kfd_queue queue;
	struct kfd_save save;
	struct kfd_dev dev;

	if (kfd_open(&dev))
		exit(1);
	signal(SIGBUS, SIG_DFL);
	if (by_compute) {
		if (!kfd_save_create(&dev, &save))
			kfd_compute_create(&dev, &compute, &save, false, KFD_PAGE);
		/* It gets onto the hardware before it goes, if no other is there. */
		usleep(COMING_US);
		exit(0);
	}
	if (kfd_queue_create_on(&dev, &queue, RING_SIZE, ENGINE))
		exit(2);
	sdma_fill(&p, (uintptr_t)queue.pointers.cpu + 1024, 1, 64);
	kfd_queue_submit(&queue, p.dwords, p.count);
	usleep(COMING_US);
	kfd_destroy_queue(dev.fd, queue.id);
	exit(0);
}

/* Makes it happen and makes a queue run into it. */
static bool fails(const struct failure *failure)
{
	pid_t pid;

	if (!model_command(failure->command))
		return false;
	pid = child_fork();
	if (pid == 0)
		look_at(failure->by_compute);
	return pid == waitpid(pid, NULL, 0);
}

static int smi_open(const struct kfd_dev *dev)
{
	struct kfd_ioctl_smi_events_args args = { .gpuid = dev->gpu_id };
	const uint64_t mask = KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_GPU_PRE_RESET) |
			      KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_GPU_POST_RESET);

	if (kfd_ioctl(dev->fd, AMDKFD_IOC_SMI_EVENTS, &args) ||
	    write((int)args.anon_fd, &mask, sizeof(mask)) != sizeof(mask))
		die("no SMI events");
	return (int)args.anon_fd;
}

/* True if the events before and after the reset for @cause come, in this order. */
static bool smi_told(int fd, const char *cause)
{
	const uint64_t end = kfd_now_ms() + timeout_ms();
	struct pollfd p = { .fd = fd, .events = POLLIN };
	static char text[TEXT_SIZE];
	size_t length = 0;
	bool before = false;

	while (kfd_now_ms() < end) {
		char *line, *rest;
		ssize_t n;

		if (poll(&p, 1, 1000) != 1)
			continue;
		n = read(fd, text + length, sizeof(text) - 1 - length);
		if (n <= 0)
			continue;
		length += (size_t)n;
		text[length] = '\0';
		before = false;
		for (line = text; (rest = strchr(line, '\n')); line = rest + 1) {
			unsigned int event, number;
			int at = 0;

			if (sscanf(line, "%x %x %n", &event, &number, &at) < 2 || !at ||
			    strncmp(line + at, cause, strlen(cause)))
				continue;
			if (event == KFD_SMI_EVENT_GPU_PRE_RESET)
				before = true;
			else if (before)
				return true;
		}
	}
	return false;
}

static bool dump_is_whole(const char *text, const struct failure *failure, const pid_t *pids)
{
	char cause[80], pid[32];
	unsigned int i;
	bool ok;

	snprintf(cause, sizeof(cause), "\ncause: %s", failure->cause);
	ok = strstr(text, cause) != NULL;
	for (i = 0; i < WORKERS; i++) {
		snprintf(pid, sizeof(pid), "%d ", pids[i]);
		ok = ok && dump_has(text, "processes", pid) && dump_has(text, "queues", pid);
	}
	return ok && dump_has(text, "rings", "sdma3 ") &&
	       dump_has(text, "registers", "CP_MEC_CNTL 0x") &&
	       dump_has(text, "registers", "SDMA0_F32_CNTL 0x");
}

/* True if the event names the same process as the core dump, if that names one. */
static bool task_is_named(const char *dump, const struct uevent_task *task)
{
	const char *cause = strstr(dump, "\ncause: ");
	char text[128], name[32];
	unsigned int queue;
	int pid = 0;
	FILE *f;

	snprintf(text, sizeof(text), "%.127s", cause ? cause + 1 : "");
	text[strcspn(text, "\n")] = '\0';
	cause = strstr(text, ", with queue ");
	tap_note("%s: PID=%d TASK=%s", text, task->pid, task->name);
	if (!cause)
		return !task->pid && !task->name[0];
	/* The processes of this test have one name. */
	f = fopen("/proc/self/comm", "re");
	if (!f || fscanf(f, "%31s", name) != 1)
		die("no name");
	fclose(f);
	return sscanf(cause, ", with queue %u of process %d", &queue, &pid) == 2 && pid &&
	       pid == task->pid && !strcmp(name, task->name);
}

/* A message that the SMU never answers, before the request for the reset. */
static bool smu_hangs(const char *name)
{
	char pattern[128], text[16];
	const char *command;
	bool silent = false;
	glob_t found;
	int fd;

	snprintf(pattern, sizeof(pattern), "/sys/bus/pci/devices/%s/hwmon/hwmon*/temp1_input",
		 name);
	/* That of MI300X measures no edge, and by another message. */
	command = "psp-fault smu-hangs=0x13";
	if (glob(pattern, 0, NULL, &found)) {
		command = "psp-fault smu-hangs=0x9";
		*strrchr(pattern, '1') = '2';
	}
	globfree(&found);
	if (!model_command(command) || glob(pattern, 0, NULL, &found))
		return false;
	fd = open(found.gl_pathv[0], O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		silent = read(fd, text, sizeof(text)) < 0 && errno == ETIMEDOUT;
		close(fd);
	}
	globfree(&found);
	return model_command("psp-fault none") && silent;
}

static bool new_ones_work(void)
{
	pid_t busy;

	if (!check_process_copies())
		return false;
	busy = busy_start(2);
	return child_kill(busy);
}

static void workers_start(pid_t *pids)
{
	unsigned int i;

	for (i = 0; i < WORKERS; i++) {
		pids[i] = child_start(worker, i);
		if (!pids[i])
			die("no worker");
	}
}

/* A process whose access faults. Its end waits for the report, which is a core dump, too. */
static bool fault_once(void)
{
	const uintptr_t nothing = KFD_PAGE;
	static char reports[TEXT_SIZE];
	struct kfd_queue queue;
	struct kfd_dev dev;
	char own[64];
	int status;
	pid_t pid;

	pid = child_fork();
	if (pid == 0) {
		if (!kfd_open(&dev) && !kfd_queue_create(&dev, &queue, RING_SIZE))
			kfd_queue_copy(&queue, (uintptr_t)queue.pointers.cpu + 1024, nothing, 64,
				       1000);
		_exit(0);
	}
	status = child_status(pid);
	snprintf(own, sizeof(own), "pid %d pasid", pid);
	debugfs_read("faults", reports, sizeof(reports));
	if (!strstr(reports, own))
		tap_note("status %d, reports: %s", status, reports);
	return strstr(reports, own);
}

/* One crash, and all its consequences. Its core dump takes the place of that of a fault. */
static bool a_round(unsigned int number, const char *base)
{
	const struct failure *failure = &failures[number % FAILURES];
	struct uevent_task task = { 0 };
	static char dump[DUMP_SIZE];
	pid_t pids[WORKERS];
	struct kfd_dev dev;
	bool told, back;
	int smi, events;

	if (!fault_once())
		die("no fault");
	if (kfd_open(&dev))
		die("the device does not open");
	smi = smi_open(&dev);
	events = uevents();
	workers_start(pids);
	if (!fails(failure))
		die("nothing fails");
	told = smi_told(smi, failure->event);
	back = uevent_comes(events, "WEDGED=none", &task);
	close(events);
	close(smi);
	kfd_close(&dev);
	if (!tap_ok(told, "round %u: who watches hears of the reset: %s", number,
		    failure->event) ||
	    !tap_ok(back, "round %u: WEDGED=none", number))
		return false;
	return tap_ok(children_succeed(pids, WORKERS),
		      "round %u: processes are told, and keep what is in system memory", number) &
	       tap_ok(dump_read(dump, sizeof(dump)) && dump_is_whole(dump, failure, pids),
		      "round %u: a core dump", number) &
	       tap_ok(task_is_named(dump, &task), "round %u: the event names the process", number) &
	       tap_ok(new_ones_work(), "round %u: new processes copy and compute", number) &
	       tap_ok(objects_return_to(base, timeout_ms()), "round %u: nothing is left",
		      number);
}

/* An administrator resets the device under the driver and its users, by the kernel's own means. */
static void by_hand(const char *name, const char *base)
{
	const uint64_t end = kfd_now_ms() + timeout_ms();
	pid_t pids[WORKERS];
	struct kfd_dev dev;
	bool back = false;
	char path[128];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/reset", name);
	workers_start(pids);
	tap_ok(!kfd_write_file(path, "1"), "an administrator resets the device");
	tap_ok(children_succeed(pids, WORKERS),
	       "by hand: processes are told, and keep what is in system memory");
	while (!back && kfd_now_ms() < end) {
		back = !kfd_open(&dev);
		if (!back)
			usleep(100 * 1000);
	}
	tap_ok(back, "by hand: it comes back");
	if (back)
		kfd_close(&dev);
	tap_ok(new_ones_work(), "by hand: new processes copy and compute");
	tap_ok(objects_return_to(base, timeout_ms()), "by hand: nothing is left");
}

/* The maximum number of resets is reached: the rest is the administrator's. */
static void too_often(const char *name)
{
	struct uevent_task task;
	static char dump[DUMP_SIZE];
	int events = uevents();

	tap_ok(fails(failures) && uevent_comes(events, "WEDGED=rebind", &task),
	       "too often: WEDGED=rebind");
	close(events);
	tap_ok(dump_read(dump, sizeof(dump)), "too often: a core dump");
	tap_ok(!kfd_write_file(DRIVER "/unbind", name) && !kfd_write_file(DRIVER "/bind", name) &&
	       new_ones_work(), "it works after a rebind");
}

static void not_posted(const char *name)
{
	struct uevent_task task;
	int events = uevents();

	tap_ok(model_command("psp-fault no-post") && fails(failures) &&
	       uevent_comes(events, "WEDGED=rebind", &task), "it hangs, and would not be posted");
	close(events);
	tap_ok(!kfd_write_file(DRIVER "/unbind", name), "the driver can be taken away");
	tap_ok(kfd_write_file(DRIVER "/bind", name) != 0, "it does not take the GPU back");
	tap_ok(model_command("psp-fault none") && model_command("power cold") &&
	       !kfd_write_file(DRIVER "/bind", name) && new_ones_work(),
	       "but when that was switched off and on");
}

/* True if a VMID that the firmware assigns leads to page tables. */
static bool firmware_has_tables(void)
{
	static char state[STATE_SIZE];
	unsigned int vmid;
	char reg[64];

	if (!model_ask("state", state, sizeof(state)))
		die("the model does not tell its state");
	for (vmid = 10; vmid <= 15; vmid++) {
		snprintf(reg, sizeof(reg), "VM_CONTEXT%u_PAGE_TABLE_BASE_ADDR", vmid);
		if (strstr(state, reg))
			return true;
	}
	return false;
}

/* True if no VMID leads to page tables any more before long. */
static bool firmware_loses_tables(void)
{
	const uint64_t end = kfd_now_ms() + timeout_ms();

	while (firmware_has_tables()) {
		if (kfd_now_ms() > end)
			return false;
		usleep(100 * 1000);
	}
	return true;
}

/*
 * Firmware that another party has loaded is not reset: the working parts go on, until the
 * administrator acts.
 */
static void stays(const char *name)
{
	const pid_t busy = busy_start(2);
	struct uevent_task task;
	static char dump[DUMP_SIZE];
	int events = uevents();

	tap_ok(busy && firmware_has_tables(), "the firmware has given out VMIDs");
	tap_ok(fails(failures) && uevent_comes(events, "WEDGED=rebind", &task), "WEDGED=rebind");
	close(events);
	tap_ok(firmware_loses_tables(), "waves that nothing ends reach no memory");
	tap_ok(child_kill(busy), "who had queues there can end");
	if (access("/sys/class/devcoredump", F_OK) == 0)
		tap_ok(dump_read(dump, sizeof(dump)), "a core dump");
	else
		tap_skip("a core dump", "the kernel has none");
	tap_ok(check_process_copies(), "copies go on");
	tap_ok(!kfd_write_file(DRIVER "/unbind", name) && model_command("power warm") &&
	       !kfd_write_file(DRIVER "/bind", name) && new_ones_work(),
	       "all works when it was switched off and on");
}

int main(int argc, char **argv)
{
	const char *rounds = getenv("RKFD_ROUNDS");
	const unsigned int count = rounds ? (unsigned int)atoi(rounds) : 3;
	char name[64], base[OBJECTS_MAX];
	unsigned int i;

	tap_start();
	if (!model_present()) {
		tap_skip("reset", "needs the device model");
		return tap_end();
	}
	if (!kfd_find_device(name, sizeof(name)))
		die("no device");
	if (argc > 1 && !strcmp(argv[1], "stay")) {
		stays(name);
		return tap_end();
	}
	if (!objects_base(base, 0))
		die("no debugfs");
	tap_ok(smu_hangs(name), "the SMU does not answer before the first round");
	for (i = 0; i < count; i++)
		if (!a_round(i, base))
			return tap_end();
	by_hand(name, base);
	if (!rounds) {
		too_often(name);
		not_posted(name);
	}
	return tap_end();
}
