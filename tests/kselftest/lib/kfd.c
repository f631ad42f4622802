// SPDX-License-Identifier: GPL-2.0
/* Files, topology and single ioctls; see kfd.h. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "kfd.h"

bool kfd_is_rkfd(void)
{
	return access("/sys/module/rkfd", F_OK) == 0;
}

bool kfd_property(const char *file, const char *key, uint64_t *value)
{
	char name[128];
	uint64_t number;
	bool found = false;
	FILE *f = fopen(file, "re");

	if (!f)
		return false;
	while (!found && fscanf(f, "%127s %" SCNu64 "\n", name, &number) == 2) {
		if (strcmp(name, key) == 0) {
			*value = number;
			found = true;
		}
	}
	fclose(f);
	return found;
}

bool kfd_is_gfx942(const struct kfd_dev *dev)
{
	uint64_t version;
	char path[128];

	snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%u/properties", dev->node);
	return kfd_property(path, "gfx_target_version", &version) && version == 90402;
}

unsigned int kfd_sdma_engines(const struct kfd_dev *dev)
{
	return kfd_is_gfx942(dev) ? 4 : 5;
}

static bool read_number(const char *file, uint64_t *value)
{
	FILE *f = fopen(file, "re");
	bool ok;

	if (!f)
		return false;
	ok = fscanf(f, "%" SCNu64, value) == 1;
	fclose(f);
	return ok;
}

long long kfd_fdinfo(int fd, const char *key, const char *unit)
{
	const size_t length = strlen(key);
	char path[64], line[256], *end;
	long long value = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, key, length) || line[length] != ':')
			continue;
		value = strtoll(line + length + 1, &end, 10);
		if (strncmp(end, unit, strlen(unit)) || end[strlen(unit)] != '\n')
			value = -2;
		break;
	}
	if (f)
		fclose(f);
	return value;
}

int kfd_find_gpu(struct kfd_dev *dev)
{
	char file[256];
	uint64_t gpu_id, minor;
	uint32_t node;

	*dev = (struct kfd_dev){ .fd = -1, .drm_fd = -1 };
	for (node = 0; ; node++) {
		snprintf(file, sizeof(file), KFD_TOPOLOGY "/nodes/%u/gpu_id", node);
		if (!read_number(file, &gpu_id))
			return ENODEV;
		if (gpu_id != 0)
			break;
	}
	snprintf(file, sizeof(file), KFD_TOPOLOGY "/nodes/%u/properties", node);
	if (!kfd_property(file, "drm_render_minor", &minor))
		return ENODEV;
	dev->node = node;
	dev->gpu_id = (uint32_t)gpu_id;
	dev->drm_minor = (uint32_t)minor;
	return 0;
}

unsigned int kfd_gpus(void)
{
	unsigned int node, gpus = 0;
	char file[256];
	uint64_t gpu_id;

	for (node = 0; ; node++) {
		snprintf(file, sizeof(file), KFD_TOPOLOGY "/nodes/%u/gpu_id", node);
		if (!read_number(file, &gpu_id))
			return gpus;
		gpus += gpu_id != 0;
	}
}

int kfd_open_render(const struct kfd_dev *dev, int *fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/dev/dri/renderD%u", dev->drm_minor);
	*fd = open(path, O_RDWR | O_CLOEXEC);
	return *fd < 0 ? errno : 0;
}

int kfd_open_files(struct kfd_dev *dev)
{
	int err = kfd_find_gpu(dev);

	if (err)
		return err;
	dev->fd = open(KFD_PATH, O_RDWR | O_CLOEXEC);
	if (dev->fd < 0)
		return errno;
	err = kfd_open_render(dev, &dev->drm_fd);
	if (err)
		kfd_close(dev);
	return err;
}

int kfd_open(struct kfd_dev *dev)
{
	int err = kfd_open_files(dev);

	if (err)
		return err;
	err = kfd_acquire_vm(dev->fd, dev->drm_fd, dev->gpu_id);
	if (err)
		kfd_close(dev);
	return err;
}

int kfd_open_next(const struct kfd_dev *dev, struct kfd_dev *next)
{
	char file[256];
	uint64_t gpu_id, minor;
	int err;

	*next = *dev;
	next->node++;
	snprintf(file, sizeof(file), KFD_TOPOLOGY "/nodes/%u/gpu_id", next->node);
	if (!read_number(file, &gpu_id) || gpu_id == 0)
		return ENODEV;
	snprintf(file, sizeof(file), KFD_TOPOLOGY "/nodes/%u/properties", next->node);
	if (!kfd_property(file, "drm_render_minor", &minor))
		return ENODEV;
	next->gpu_id = (uint32_t)gpu_id;
	next->drm_minor = (uint32_t)minor;
	err = kfd_open_render(next, &next->drm_fd);
	return err ? err : kfd_acquire_vm(next->fd, next->drm_fd, next->gpu_id);
}

void kfd_close(struct kfd_dev *dev)
{
	if (dev->drm_fd >= 0)
		close(dev->drm_fd);
	if (dev->fd >= 0)
		close(dev->fd);
	dev->drm_fd = -1;
	dev->fd = -1;
}

int kfd_ioctl(int fd, unsigned long cmd, void *arg)
{
	int ret;

	do {
		ret = ioctl(fd, cmd, arg);
	} while (ret < 0 && errno == EINTR);
	return ret < 0 ? errno : 0;
}

int kfd_acquire_vm(int fd, int drm_fd, uint32_t gpu_id)
{
	struct kfd_ioctl_acquire_vm_args args = {
		.drm_fd = (uint32_t)drm_fd,
		.gpu_id = gpu_id,
	};

	return kfd_ioctl(fd, AMDKFD_IOC_ACQUIRE_VM, &args);
}

int kfd_alloc(int fd, struct kfd_ioctl_alloc_memory_of_gpu_args *args)
{
	return kfd_ioctl(fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, args);
}

int kfd_alloc_at(const struct kfd_dev *dev, uint32_t flags, uint64_t va, uint64_t size,
		 uint64_t *handle)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.va_addr = va,
		.mmap_offset = flags & KFD_ALLOC_USERPTR ? va : 0,
		.size = size,
		.gpu_id = dev->gpu_id,
		.flags = flags,
	};
	int err = kfd_alloc(dev->fd, &args);

	*handle = args.handle;
	return err;
}

int kfd_free(int fd, uint64_t handle)
{
	struct kfd_ioctl_free_memory_of_gpu_args args = { .handle = handle };

	return kfd_ioctl(fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &args);
}

int kfd_map(int fd, uint64_t handle, uint32_t gpu_id)
{
	struct kfd_ioctl_map_memory_to_gpu_args args = {
		.handle = handle,
		.device_ids_array_ptr = (uintptr_t)&gpu_id,
		.n_devices = 1,
	};

	return kfd_ioctl(fd, AMDKFD_IOC_MAP_MEMORY_TO_GPU, &args);
}

int kfd_unmap(int fd, uint64_t handle, uint32_t gpu_id)
{
	struct kfd_ioctl_unmap_memory_from_gpu_args args = {
		.handle = handle,
		.device_ids_array_ptr = (uintptr_t)&gpu_id,
		.n_devices = 1,
	};

	return kfd_ioctl(fd, AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &args);
}

int kfd_destroy_queue(int fd, uint32_t queue_id)
{
	struct kfd_ioctl_destroy_queue_args args = { .queue_id = queue_id };

	return kfd_ioctl(fd, AMDKFD_IOC_DESTROY_QUEUE, &args);
}

uint64_t kfd_available(const struct kfd_dev *dev)
{
	struct kfd_ioctl_get_available_memory_args args = { .gpu_id = dev->gpu_id };

	if (kfd_ioctl(dev->fd, AMDKFD_IOC_AVAILABLE_MEMORY, &args))
		return UINT64_MAX;
	return args.available;
}

int kfd_take_vram(uint64_t va, unsigned int ms)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.va_addr = va,
		.flags = KFD_ALLOC_VRAM,
	};
	struct kfd_dev dev;
	int err;

	err = kfd_open(&dev);
	if (err)
		return err;
	args.gpu_id = dev.gpu_id;
	args.size = kfd_available(&dev);
	err = kfd_alloc(dev.fd, &args);
	usleep(ms * 1000);
	return err;
}

int kfd_write_file(const char *path, const char *text)
{
	int err = 0, fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return errno;
	if (write(fd, text, strlen(text)) < 0)
		err = errno;
	close(fd);
	return err;
}

bool kfd_find_device(char *name, size_t size)
{
	glob_t found;

	name[0] = '\0';
	if (glob("/sys/bus/pci/drivers/rkfd/????:??:??.?", 0, NULL, &found))
		return false;
	snprintf(name, size, "%s", strrchr(found.gl_pathv[0], '/') + 1);
	globfree(&found);
	return true;
}

int kfd_mmap(int fd, size_t length, uint64_t offset, void **address)
{
	*address = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			(off_t)offset);
	return *address == MAP_FAILED ? errno : 0;
}

uint64_t kfd_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void *kfd_share(void)
{
	void *page = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			  0);

	return page == MAP_FAILED ? NULL : page;
}

bool kfd_becomes(volatile uint32_t *word, uint32_t value, unsigned int ms)
{
	const uint64_t end = kfd_now_ms() + ms;

	while (*word != value) {
		if (kfd_now_ms() > end)
			return false;
		usleep(500);
	}
	return true;
}

bool kfd_sched_is_direct(void)
{
	FILE *f = fopen("/sys/module/rkfd/parameters/sched", "r");
	char value[16] = "";
	bool direct;

	direct = f && fscanf(f, "%15s", value) == 1 && !strcmp(value, "direct");
	if (f)
		fclose(f);
	return direct;
}
