// SPDX-License-Identifier: GPL-2.0
/* Processes: the VM's owner, apertures, memory policy, fork. */
#include <fcntl.h>
#include <sys/mman.h>

#include "kfd_harness.h"

FIXTURE(process)
{
	struct kfd_dev dev;
};

FIXTURE_SETUP(process)
{
	ASSERT_EQ(0, kfd_open_files(&self->dev));
}

FIXTURE_TEARDOWN(process)
{
	kfd_close(&self->dev);
}

TEST_F(process, acquire_vm_twice)
{
	struct kfd_dev *dev = &self->dev;

	EXPECT_EQ(0, kfd_acquire_vm(dev->fd, dev->drm_fd, dev->gpu_id));
	EXPECT_EQ(0, kfd_acquire_vm(dev->fd, dev->drm_fd, dev->gpu_id));
}

/* The open file counts, not its number: libdrm keeps a duplicate. */
TEST_F(process, acquire_vm_by_duplicate)
{
	struct kfd_dev *dev = &self->dev;
	int copy = dup(dev->drm_fd);

	ASSERT_LE(0, copy);
	EXPECT_EQ(0, kfd_acquire_vm(dev->fd, dev->drm_fd, dev->gpu_id));
	EXPECT_EQ(0, kfd_acquire_vm(dev->fd, copy, dev->gpu_id));
	close(dev->drm_fd);
	dev->drm_fd = copy;
	EXPECT_EQ(0, kfd_acquire_vm(dev->fd, copy, dev->gpu_id));
}

TEST_F(process, acquire_vm_other_file)
{
	struct kfd_dev *dev = &self->dev;
	int other;

	ASSERT_EQ(0, kfd_open_render(dev, &other));
	EXPECT_EQ(0, kfd_acquire_vm(dev->fd, dev->drm_fd, dev->gpu_id));
	EXPECT_ANSWER(vm_other_file, kfd_acquire_vm(dev->fd, other, dev->gpu_id));
	close(other);
}

TEST_F(process, acquire_vm_bad_files)
{
	struct kfd_dev *dev = &self->dev;
	int null = open("/dev/null", O_RDWR);

	ASSERT_LE(0, null);
	EXPECT_ANSWER(vm_bad_fd, kfd_acquire_vm(dev->fd, -1, dev->gpu_id));
	EXPECT_ANSWER(vm_bad_fd, kfd_acquire_vm(dev->fd, 1000, dev->gpu_id));
	EXPECT_ANSWER(vm_foreign_file, kfd_acquire_vm(dev->fd, null, dev->gpu_id));
	EXPECT_ANSWER(vm_foreign_file, kfd_acquire_vm(dev->fd, dev->fd, dev->gpu_id));
	/* A refused file does not prevent the right one. */
	EXPECT_EQ(0, kfd_acquire_vm(dev->fd, dev->drm_fd, dev->gpu_id));
	close(null);
}

TEST_F(process, acquire_vm_unknown_gpu)
{
	struct kfd_dev *dev = &self->dev;

	EXPECT_ANSWER(unknown_gpu,
		      kfd_acquire_vm(dev->fd, dev->drm_fd, dev->gpu_id ^ 1));
	EXPECT_ANSWER(unknown_gpu, kfd_acquire_vm(dev->fd, dev->drm_fd, 0));
}

TEST_F(process, memory_needs_vm)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.va_addr = 0x100000000,
		.size = KFD_PAGE,
		.gpu_id = self->dev.gpu_id,
		.flags = KFD_ALLOC_GTT,
	};

	EXPECT_ANSWER(vm_not_acquired, kfd_alloc(self->dev.fd, &args));
}

/* Two open files of one process are one KFD process. */
TEST_F(process, second_file_shares_the_process)
{
	struct kfd_dev *dev = &self->dev;
	int second = open(KFD_PATH, O_RDWR | O_CLOEXEC);
	struct kfd_bo bo;

	ASSERT_LE(0, second);
	ASSERT_EQ(0, kfd_acquire_vm(dev->fd, dev->drm_fd, dev->gpu_id));
	ASSERT_EQ(0, kfd_bo_create(dev, &bo, KFD_PAGE, KFD_ALLOC_GTT));
	EXPECT_EQ(0, kfd_unmap(second, bo.handle, dev->gpu_id));
	EXPECT_EQ(0, kfd_free(second, bo.handle));
	close(second);
}

static void check_apertures(struct __test_metadata *_metadata,
			    const struct kfd_dev *dev,
			    const struct kfd_process_device_apertures *a)
{
	EXPECT_EQ(dev->gpu_id, a->gpu_id);
	EXPECT_NE(0, a->lds_base >> 32);
	EXPECT_NE(0, a->scratch_base >> 32);
	EXPECT_LT(a->lds_base, a->lds_limit);
	EXPECT_LT(a->scratch_base, a->scratch_limit);
	EXPECT_LT(a->gpuvm_base, a->gpuvm_limit);
	/* libhsakmt uses plain mmap() addresses up to this limit. */
	EXPECT_LE((1ull << 47) - 1, a->gpuvm_limit);
}

/* The number of nodes in the topology, including those of processors. */
static uint32_t nodes(void)
{
	char path[64];
	uint32_t count = 0;

	do
		snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%u", count);
	while (access(path, F_OK) == 0 && ++count);
	return count;
}

TEST_F(process, apertures)
{
	struct kfd_process_device_apertures apertures[16];
	struct kfd_ioctl_get_process_apertures_new_args args = { 0 };

	memset(apertures, 0, sizeof(apertures));
	ASSERT_EQ(0, kfd_ioctl(self->dev.fd,
			       AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &args));
	ASSERT_LE(1, args.num_of_nodes);

	/* libhsakmt passes the number of all nodes, including those of processors. */
	args.kfd_process_device_apertures_ptr = (uintptr_t)apertures;
	ASSERT_LT(args.num_of_nodes, nodes());
	args.num_of_nodes = nodes();
	ASSERT_EQ(0, kfd_ioctl(self->dev.fd,
			       AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &args));
	ASSERT_LE(1, args.num_of_nodes);
	check_apertures(_metadata, &self->dev, &apertures[0]);
	EXPECT_EQ(0, apertures[args.num_of_nodes].gpu_id);
}

TEST_F(process, apertures_old_form)
{
	struct kfd_ioctl_get_process_apertures_args args;

	memset(&args, 0, sizeof(args));
	ASSERT_EQ(0, kfd_ioctl(self->dev.fd, AMDKFD_IOC_GET_PROCESS_APERTURES, &args));
	ASSERT_LE(1, args.num_of_nodes);
	check_apertures(_metadata, &self->dev, &args.process_apertures[0]);
}

TEST_F(process, apertures_bad_input)
{
	struct kfd_process_device_apertures apertures[1];
	struct kfd_ioctl_get_process_apertures_new_args args = {
		.kfd_process_device_apertures_ptr = 8,
		.num_of_nodes = 1,
	};

	EXPECT_ANSWER(bad_argument_pointer,
		      kfd_ioctl(self->dev.fd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &args));
	args.kfd_process_device_apertures_ptr = (uintptr_t)apertures;
	args.num_of_nodes = nodes() + 1;
	EXPECT_ANSWER(too_many_nodes,
		      kfd_ioctl(self->dev.fd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &args));
	args.num_of_nodes = UINT32_MAX;
	EXPECT_ANSWER(too_many_nodes,
		      kfd_ioctl(self->dev.fd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &args));
}

TEST_F(process, memory_policy)
{
	struct kfd_dev *dev = &self->dev;
	struct kfd_ioctl_set_memory_policy_args args = {
		.gpu_id = dev->gpu_id,
		.default_policy = KFD_IOC_CACHE_POLICY_NONCOHERENT,
		.alternate_policy = KFD_IOC_CACHE_POLICY_COHERENT,
	};

	ASSERT_EQ(0, kfd_acquire_vm(dev->fd, dev->drm_fd, dev->gpu_id));
	EXPECT_EQ(0, kfd_ioctl(dev->fd, AMDKFD_IOC_SET_MEMORY_POLICY, &args));
	args.default_policy = 7;
	EXPECT_ANSWER(bad_policy,
		      kfd_ioctl(dev->fd, AMDKFD_IOC_SET_MEMORY_POLICY, &args));
	args.default_policy = KFD_IOC_CACHE_POLICY_COHERENT;
	args.alternate_policy = UINT32_MAX;
	EXPECT_ANSWER(bad_policy,
		      kfd_ioctl(dev->fd, AMDKFD_IOC_SET_MEMORY_POLICY, &args));
	args.alternate_policy = KFD_IOC_CACHE_POLICY_COHERENT;
	args.gpu_id = dev->gpu_id ^ 1;
	EXPECT_ANSWER(unknown_gpu,
		      kfd_ioctl(dev->fd, AMDKFD_IOC_SET_MEMORY_POLICY, &args));
}

/* Runs @call in a child and returns its result. */
static int in_child(int (*call)(const struct kfd_dev *), const struct kfd_dev *dev)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return -1;
	if (pid == 0)
		_exit(call(dev) & 0xff);
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

static int child_ioctl(const struct kfd_dev *dev)
{
	struct kfd_ioctl_get_version_args args;

	return kfd_ioctl(dev->fd, AMDKFD_IOC_GET_VERSION, &args);
}

static int child_mmap(const struct kfd_dev *dev)
{
	void *p;

	return kfd_mmap(dev->fd, KFD_DOORBELL_SLICE,
			KFD_OFFSET_DOORBELL | KFD_OFFSET_GPU(dev->gpu_id), &p);
}

static int child_reopens(const struct kfd_dev *parent)
{
	struct kfd_dev dev;
	struct kfd_bo bo;
	int err = kfd_open(&dev);

	(void)parent;
	if (!err)
		err = kfd_bo_create(&dev, &bo, KFD_PAGE, KFD_ALLOC_VRAM);
	return err;
}

static int child_takes_vm(const struct kfd_dev *parent)
{
	struct kfd_dev dev;
	int err = kfd_open_files(&dev);

	return err ? err : kfd_acquire_vm(dev.fd, parent->drm_fd, dev.gpu_id);
}

/* A VM belongs to one process, even if another holds its file. */
TEST_F(process, vm_of_other_process)
{
	struct kfd_dev *dev = &self->dev;

	ASSERT_EQ(0, kfd_acquire_vm(dev->fd, dev->drm_fd, dev->gpu_id));
	EXPECT_EQ(kfd_expected(answer_vm_of_other_process), in_child(child_takes_vm, dev));
	EXPECT_EQ(0, kfd_acquire_vm(dev->fd, dev->drm_fd, dev->gpu_id));
}

TEST_F(process, forked_child)
{
	struct kfd_ioctl_get_version_args args;

	EXPECT_EQ(kfd_expected(answer_file_of_other_process),
		  in_child(child_ioctl, &self->dev));
	EXPECT_EQ(kfd_expected(answer_file_of_other_process),
		  in_child(child_mmap, &self->dev));
	EXPECT_EQ(0, in_child(child_reopens, &self->dev));
	/* The parent's own file still works. */
	EXPECT_EQ(0, kfd_ioctl(self->dev.fd, AMDKFD_IOC_GET_VERSION, &args));
}

KFD_HARNESS_MAIN
