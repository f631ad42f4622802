// SPDX-License-Identifier: GPL-2.0
/*
 * HIP where little memory may be locked, as in containers: on each GPU the process has the SDMA
 * queues that it has without a limit, and copies. Arguments: limits in bytes (RLIMIT_MEMLOCK).
 */
#include <dirent.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory.h"

#define MOST	8

/* What a child has found. */
struct found {
	int gpus, right;	/* those whose copies are right */
	struct {
		unsigned long id;
		unsigned int queues;	/* of SDMA */
	} gpu[MOST];		/* that have queues, by their ids */
};

static int drop_ipc_lock(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data))
		return -1;
	data[CAP_IPC_LOCK / 32].effective &= ~(1u << CAP_IPC_LOCK % 32);
	return (int)syscall(SYS_capset, &header, data);
}

static unsigned long number_in(const char *folder, const char *name, const char *file)
{
	unsigned long value = 0;
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s/%s", folder, name, file);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%lu", &value) != 1)
		die("%s: no number", path);
	fclose(f);
	return value;
}

/* Counts the SDMA queues of this process on each GPU. */
static void count_queues(struct found *found)
{
	struct dirent *entry;
	char folder[64];
	DIR *queues;
	int i;

	snprintf(folder, sizeof(folder), "/sys/class/kfd/kfd/proc/%d/queues", getpid());
	queues = opendir(folder);
	if (!queues)
		die("%s is not there", folder);
	while ((entry = readdir(queues))) {
		unsigned long id;

		/* 1: SDMA, 3: SDMA for links between GPUs. */
		if (entry->d_name[0] == '.' ||
		    number_in(folder, entry->d_name, "type") % 2 == 0)
			continue;
		id = number_in(folder, entry->d_name, "gpuid");
		for (i = 0; i < MOST && found->gpu[i].id && found->gpu[i].id < id; i++)
			;
		if (i == MOST || (found->gpu[i].id != id && found->gpu[MOST - 1].id))
			die("more than %d GPUs have queues", MOST);
		if (found->gpu[i].id != id) {
			memmove(&found->gpu[i + 1], &found->gpu[i],
				(MOST - 1 - i) * sizeof(found->gpu[0]));
			found->gpu[i].id = id;
			found->gpu[i].queues = 0;
		}
		found->gpu[i].queues++;
	}
	closedir(queues);
}

/* In a child: copies there and back on each GPU. */
static void copy_on_all(struct found *found)
{
	uint32_t *host = malloc(SIZE), *back = malloc(SIZE);
	void *memory;
	int i;

	must(hipGetDeviceCount(&found->gpus), "hipGetDeviceCount");
	for (i = 0; i < found->gpus && i < MOST; i++) {
		must(hipSetDevice(i), "hipSetDevice");
		must(hipMalloc(&memory, SIZE), "hipMalloc");
		fill(host, i + 1);
		memset(back, 0, SIZE);
		must(hipMemcpy(memory, host, SIZE, hipMemcpyHostToDevice), "hipMemcpy");
		must(hipMemcpy(back, memory, SIZE, hipMemcpyDeviceToHost), "hipMemcpy");
		found->right += holds(back, i + 1);
	}
	count_queues(found);
}

/* The result of a child with @limit. */
static struct found with_limit(rlim_t limit)
{
	const struct rlimit locked = { .rlim_cur = limit, .rlim_max = limit };
	struct found *shared, found = { 0 };
	int status;
	pid_t pid;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		die("no shared memory");
	pid = fork();
	if (pid == 0) {
		if (setrlimit(RLIMIT_MEMLOCK, &locked) || drop_ipc_lock())
			die("the limit cannot be set");
		copy_on_all(shared);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		tap_note("the program with a limit of %llu ended with status 0x%x",
			 (unsigned long long)limit, status);
	found = *shared;
	tap_note("limit %llu: %d of %d GPUs right; %lu: %u, %lu: %u SDMA queues",
		 (unsigned long long)limit, found.right, found.gpus, found.gpu[0].id,
		 found.gpu[0].queues, found.gpu[1].id, found.gpu[1].queues);
	munmap(shared, sizeof(*shared));
	return found;
}

static bool is_same(const struct found *one, const struct found *other)
{
	int i;

	for (i = 0; i < MOST; i++)
		if (one->gpu[i].id != other->gpu[i].id ||
		    one->gpu[i].queues != other->gpu[i].queues)
			return false;
	return one->gpus == other->gpus && one->right == one->gpus;
}

int main(int argc, char **argv)
{
	struct found all, limited;
	int i;

	/* No copy by a shader. */
	setenv("GPU_FORCE_BLIT_COPY_SIZE", "0", 1);
	tap_start();
	all = with_limit(RLIM_INFINITY);
	tap_ok(all.gpus > 0 && all.gpus <= MOST && all.right == all.gpus,
	       "%d GPUs copy without a limit", all.gpus);
	for (i = 0; i < all.gpus && i < MOST; i++)
		tap_ok(all.gpu[i].queues > 0, "a GPU has %u SDMA queues", all.gpu[i].queues);
	for (i = 1; i < argc; i++) {
		limited = with_limit(strtoull(argv[i], NULL, 0));
		tap_ok(is_same(&limited, &all), "with a limit of %s bytes it has the same",
		       argv[i]);
	}
	return tap_end();
}
