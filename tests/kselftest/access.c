// SPDX-License-Identifier: GPL-2.0
/*
 * A process that may open /dev/kfd, but not the render node of a GPU, neither uses that GPU nor
 * takes anything from its users. The device cgroup denies the node: a BPF program of cgroup v2.
 */
#include <drm/amdgpu_drm.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"
#include "kfd_compute.h"
#include "kfd_dmabuf.h"
#include "kfd_harness.h"
#include "kfd_svm.h"
#include "smi_lines.h"

#define CGROUPS		"/tmp/cgroups"
#define CGROUP		CGROUPS "/access"
#define DRM_MAJOR	226
#define GPU_VA		(1ull << 40)
#define RING		4096u
/* More than there are slices of doorbells. */
#define PROCESSES	300u

static int alloc_doorbells(const struct kfd_dev *dev, uint64_t *handle)
{
	return kfd_alloc_at(dev, KFD_ALLOC_RW | KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL, GPU_VA,
			    KFD_DOORBELL_SLICE, handle);
}

/* In a child: asks for doorbells without memory, writes what came of it, and stays. */
static void wait_with_doorbells(const struct kfd_dev *gpu, volatile uint32_t *result,
				const int *pipes)
{
	struct kfd_dev dev = *gpu;
	uint64_t handle;
	char byte;

	close(pipes[1]);
	dev.fd = open(KFD_PATH, O_RDWR | O_CLOEXEC);
	*result = dev.fd < 0 ? (uint32_t)errno : (uint32_t)alloc_doorbells(&dev, &handle);
	/* Until the other end is closed. */
	_exit(read(pipes[0], &byte, 1) != 0);
}

/* Processes without a render node leave the doorbells to those that have one. */
TEST(doorbells_are_for_owners_of_memory)
{
	volatile uint32_t *results = kfd_share();
	unsigned int i, refused = 0;
	struct kfd_compute queue;
	pid_t pids[PROCESSES];
	struct kfd_save save;
	struct kfd_dev dev;
	int pipes[2];

	ASSERT_NE(NULL, results);
	ASSERT_EQ(0, pipe(pipes));
	ASSERT_EQ(0, kfd_find_gpu(&dev));
	for (i = 0; i < PROCESSES; i++) {
		results[i] = UINT32_MAX;
		pids[i] = fork();
		ASSERT_LE(0, pids[i]);
		if (!pids[i])
			wait_with_doorbells(&dev, &results[i], pipes);
	}
	for (i = 0; i < PROCESSES; i++) {
		while (results[i] == UINT32_MAX)
			usleep(1000);
		refused += (int)results[i] == kfd_expected(answer_vm_not_acquired);
	}
	EXPECT_EQ(PROCESSES, refused);
	ASSERT_EQ(0, kfd_open(&dev));
	ASSERT_EQ(0, kfd_save_create(&dev, &save));
	EXPECT_EQ(0, kfd_compute_create(&dev, &queue, &save, false, RING));
	close(pipes[1]);
	for (i = 0; i < PROCESSES; i++)
		EXPECT_EQ(pids[i], waitpid(pids[i], NULL, 0));
	kfd_close(&dev);
}

static long bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

/* Loads a program that denies the character device DRM_MAJOR:@minor; -1 on failure. */
static int deny_minor(uint32_t minor)
{
	const struct bpf_insn program[] = {
		{ BPF_LDX | BPF_MEM | BPF_W, BPF_REG_2, BPF_REG_1,
		  offsetof(struct bpf_cgroup_dev_ctx, major), 0 },
		{ BPF_JMP | BPF_JNE | BPF_K, BPF_REG_2, 0, 4, DRM_MAJOR },
		{ BPF_LDX | BPF_MEM | BPF_W, BPF_REG_2, BPF_REG_1,
		  offsetof(struct bpf_cgroup_dev_ctx, minor), 0 },
		{ BPF_JMP | BPF_JNE | BPF_K, BPF_REG_2, 0, 2, (int)minor },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 0 },
		{ BPF_JMP | BPF_EXIT, 0, 0, 0, 0 },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 1 },
		{ BPF_JMP | BPF_EXIT, 0, 0, 0, 0 },
	};
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE,
		.insn_cnt = ARRAY_SIZE(program),
		.insns = (uintptr_t)program,
		.license = (uintptr_t)"GPL",
	};

	return (int)bpf(BPF_PROG_LOAD, &attr);
}

/* Moves the process into a cgroup that denies the render node @minor; 0 or the errno. */
static int enter_without(uint32_t minor)
{
	union bpf_attr attr = { .attach_type = BPF_CGROUP_DEVICE };
	char pid[32];

	mkdir(CGROUPS, 0755);
	if (access(CGROUPS "/cgroup.procs", F_OK) && mount("none", CGROUPS, "cgroup2", 0, NULL))
		return errno;
	if (mkdir(CGROUP, 0755) && errno != EEXIST)
		return errno;
	attr.attach_bpf_fd = (uint32_t)deny_minor(minor);
	attr.target_fd = (uint32_t)open(CGROUP, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if ((int)attr.attach_bpf_fd < 0 || (int)attr.target_fd < 0 || bpf(BPF_PROG_ATTACH, &attr))
		return errno;
	close((int)attr.attach_bpf_fd);
	close((int)attr.target_fd);
	snprintf(pid, sizeof(pid), "%d", getpid());
	return kfd_write_file(CGROUP "/cgroup.procs", pid);
}

/* A GPU whose render node the cgroup denies, and another one if there is one. */
FIXTURE(denied)
{
	struct kfd_dev dev;	/* the denied GPU; its node was opened before */
	struct kfd_dev other;
	unsigned int gpus;
};

/* Undoes enter_without(). */
static void leave(void)
{
	kfd_write_file(CGROUPS "/cgroup.procs", "0");
	rmdir(CGROUP);
}

FIXTURE_SETUP(denied)
{
	int err, drm_fd;

	self->gpus = kfd_gpus();
	ASSERT_EQ(0, kfd_open_files(&self->other));
	close(self->other.fd);
	self->other.fd = -1;
	self->dev = self->other;
	if (self->gpus > 1) {
		EXPECT_EQ(EBADF, kfd_open_next(&self->other, &self->dev));
		ASSERT_LE(0, self->dev.drm_fd);
	}
	err = enter_without(self->dev.drm_minor);
	if (err == EINVAL || err == ENOSYS)
		SKIP(return, "a kernel without CONFIG_CGROUP_BPF");
	ASSERT_EQ(0, err);
	EXPECT_EQ(EPERM, kfd_open_render(&self->dev, &drm_fd));
	self->dev.fd = open(KFD_PATH, O_RDWR | O_CLOEXEC);
	if (self->dev.fd < 0 && self->gpus == 1 && !kfd_is_rkfd()) {
		leave();
		SKIP(return, "amdkfd is not opened without a GPU that is granted");
	}
	ASSERT_LE(0, self->dev.fd);
	self->other.fd = self->dev.fd;
}

FIXTURE_TEARDOWN(denied)
{
	kfd_close(&self->dev);
	leave();
}

/* The answers for a GPU that does not exist. */
TEST_F(denied, calls)
{
	struct kfd_ioctl_set_scratch_backing_va_args scratch = { .gpu_id = self->dev.gpu_id };
	struct kfd_ioctl_set_trap_handler_args trap = { .gpu_id = self->dev.gpu_id };
	struct kfd_ioctl_get_tile_config_args tiles = { .gpu_id = self->dev.gpu_id };
	struct kfd_ioctl_set_memory_policy_args policy = { .gpu_id = self->dev.gpu_id };
	struct kfd_ioctl_create_queue_args queue = {
		.gpu_id = self->dev.gpu_id,
		.queue_type = KFD_IOC_QUEUE_TYPE_SDMA,
		.queue_percentage = 100,
		.ring_size = RING,
	};
	const int fd = self->dev.fd, expected = kfd_expected(answer_unknown_gpu);
	uint64_t handle;
	int memfd, buf;

	EXPECT_EQ(expected, kfd_acquire_vm(fd, self->dev.drm_fd, self->dev.gpu_id));
	EXPECT_EQ(expected, kfd_ioctl(fd, AMDKFD_IOC_SET_SCRATCH_BACKING_VA, &scratch));
	EXPECT_EQ(expected, kfd_ioctl(fd, AMDKFD_IOC_SET_TRAP_HANDLER, &trap));
	EXPECT_EQ(expected, kfd_ioctl(fd, AMDKFD_IOC_GET_TILE_CONFIG, &tiles));
	EXPECT_EQ(expected, kfd_ioctl(fd, AMDKFD_IOC_SET_MEMORY_POLICY, &policy));
	EXPECT_EQ(expected, kfd_ioctl(fd, AMDKFD_IOC_CREATE_QUEUE, &queue));
	EXPECT_EQ(expected, alloc_doorbells(&self->dev, &handle));
	EXPECT_EQ(expected, kfd_alloc_at(&self->dev, KFD_ALLOC_VRAM, GPU_VA, KFD_PAGE, &handle));
	EXPECT_EQ(UINT64_MAX, kfd_available(&self->dev));
	EXPECT_EQ(expected, errno);
	EXPECT_EQ(expected, smi_open(&self->dev, &buf));
	if (!udmabuf_create(KFD_PAGE, &memfd, &buf)) {
		EXPECT_EQ(expected, kfd_import(&self->dev, buf, 0, &handle));
		close(buf);
		close(memfd);
	}
}

/*
 * A render file that is open goes on making buffers. KFD describes them only to a process that has
 * a GPU.
 */
TEST_F(denied, dmabuf_info)
{
	struct kfd_ioctl_get_dmabuf_info_args info = { 0 };
	uint32_t handle;
	int buf;

	ASSERT_EQ(0, drm_gem_create(self->dev.drm_fd, KFD_PAGE, AMDGPU_GEM_DOMAIN_GTT, 0, &handle));
	ASSERT_EQ(0, drm_handle_to_fd(self->dev.drm_fd, handle, &buf));
	EXPECT_EQ(self->gpus > 1 ? 0 : EINVAL, kfd_dmabuf_info(&self->dev, buf, &info));
	close(buf);
	EXPECT_EQ(0, drm_gem_close(self->dev.drm_fd, handle));
}

/* Clocks are the host's alone. */
TEST_F(denied, clocks)
{
	struct kfd_ioctl_get_clock_counters_args args = { .gpu_id = self->dev.gpu_id };

	EXPECT_EQ(0, kfd_ioctl(self->dev.fd, AMDKFD_IOC_GET_CLOCK_COUNTERS, &args));
	EXPECT_EQ(0, args.gpu_clock_counter);
	EXPECT_NE(0, args.cpu_clock_counter);
}

/* The process's apertures are those of the other GPUs. */
TEST_F(denied, apertures)
{
	struct kfd_process_device_apertures places[64];
	struct kfd_ioctl_get_process_apertures_new_args args = {
		.kfd_process_device_apertures_ptr = (uintptr_t)places,
	};
	struct kfd_ioctl_get_process_apertures_args old = { 0 };
	unsigned int i;

	EXPECT_EQ(0, kfd_ioctl(self->dev.fd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &args));
	EXPECT_EQ(self->gpus - 1, args.num_of_nodes);
	/* There may be room for all nodes of the topology. */
	args.num_of_nodes = self->gpus + 1;
	EXPECT_EQ(0, kfd_ioctl(self->dev.fd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &args));
	EXPECT_EQ(self->gpus - 1, args.num_of_nodes);
	for (i = 0; i < args.num_of_nodes; i++)
		EXPECT_NE(self->dev.gpu_id, places[i].gpu_id);
	EXPECT_EQ(0, kfd_ioctl(self->dev.fd, AMDKFD_IOC_GET_PROCESS_APERTURES, &old));
	EXPECT_EQ(self->gpus - 1, old.num_of_nodes);
}

/* Neither doorbells nor registers are mapped. */
TEST_F(denied, mappings)
{
	const uint64_t gpu = KFD_OFFSET_GPU(self->dev.gpu_id);
	void *address;

	EXPECT_EQ(ENODEV, kfd_mmap(self->dev.fd, KFD_DOORBELL_SLICE, KFD_OFFSET_DOORBELL | gpu,
				   &address));
	EXPECT_EQ(ENODEV, kfd_mmap(self->dev.fd, KFD_PAGE, KFD_OFFSET_MMIO | gpu, &address));
}

/* The GPU cannot be named in attributes of shared virtual memory. */
TEST_F(denied, attributes)
{
	uint8_t *mem = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);

	ASSERT_NE(MAP_FAILED, mem);
	if (self->gpus > 1)
		ASSERT_EQ(0, kfd_acquire_vm(self->other.fd, self->other.drm_fd,
					    self->other.gpu_id));
	EXPECT_EQ(EINVAL, svm_set(self->dev.fd, mem, KFD_PAGE, SVM_PREFERRED, self->dev.gpu_id));
	EXPECT_EQ(EINVAL, svm_set(self->dev.fd, mem, KFD_PAGE, SVM_ACCESS, self->dev.gpu_id));
}

/* The first bytes of a file of the GPU's node; the errno on failure. */
static int read_of_node(const struct kfd_dev *dev, const char *name)
{
	char path[256], text[4096];
	int fd, err;

	snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%u/%s", dev->node, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	err = read(fd, text, sizeof(text)) < 0 ? errno : 0;
	close(fd);
	return err;
}

/* The files of its node cannot be read. */
TEST_F(denied, topology)
{
	static const char *const files[] = {
		"gpu_id", "name", "properties", "mem_banks/0/properties", "caches/0/properties",
		"io_links/0/properties",
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(files); i++) {
		TH_LOG("%s", files[i]);
		EXPECT_EQ(EPERM, read_of_node(&self->dev, files[i]));
		if (self->gpus > 1)
			EXPECT_EQ(0, read_of_node(&self->other, files[i]));
	}
}

/* The other GPU works, and maps no memory for the denied one. */
TEST_F(denied, the_other_gpu)
{
	struct kfd_queue queue;
	struct kfd_bo bo;

	if (self->gpus < 2)
		SKIP(return, "one GPU only");
	ASSERT_EQ(0, kfd_acquire_vm(self->other.fd, self->other.drm_fd, self->other.gpu_id));
	ASSERT_EQ(0, kfd_queue_create(&self->other, &queue, 64 << 10));
	ASSERT_EQ(0, kfd_bo_create(&self->other, &bo, KFD_PAGE, KFD_ALLOC_GTT));
	EXPECT_EQ(0, kfd_queue_fill(&queue, (uintptr_t)bo.cpu, 0x1234, KFD_PAGE, KFD_HANG_MS));
	EXPECT_EQ(0x1234, *(uint32_t *)bo.cpu);
	EXPECT_EQ(EINVAL, kfd_map(self->other.fd, bo.handle, self->dev.gpu_id));
	EXPECT_EQ(0, kfd_bo_destroy(&self->other, &bo));
	EXPECT_EQ(0, kfd_queue_destroy(&self->other, &queue));
}

KFD_HARNESS_MAIN
