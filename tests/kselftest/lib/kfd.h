/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The KFD interface by plain system calls, without libhsakmt. The ioctl tests use it, and so do
 * the client programs where libhsakmt does not allow the call (another process's handles, bad
 * input).
 *
 * Functions that return int give 0 or a positive errno.
 */
#ifndef RKFD_TEST_KFD_H
#define RKFD_TEST_KFD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <linux/kfd_ioctl.h>

#define KFD_PATH		"/dev/kfd"
#define KFD_TOPOLOGY		"/sys/devices/virtual/kfd/kfd/topology"
#define KFD_DOORBELL_SLICE	8192u
#define KFD_PAGE		4096u

/* KFD-fd mmap offsets: type in bits 63:62, gpu_id in bits 61:46. */
#define KFD_OFFSET_MMIO		(0ull << 62)
#define KFD_OFFSET_RESERVED	(1ull << 62)
#define KFD_OFFSET_EVENTS	(2ull << 62)
#define KFD_OFFSET_DOORBELL	(3ull << 62)
#define KFD_OFFSET_GPU(id)	((uint64_t)(id) << 46)

/* The attributes that libhsakmt gives an ordinary read-write allocation. */
#define KFD_ALLOC_RW	((uint32_t)(KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | \
			 KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE | \
			 KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE))
#define KFD_ALLOC_VRAM	(KFD_ALLOC_RW | KFD_IOC_ALLOC_MEM_FLAGS_VRAM | \
			 KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC)
#define KFD_ALLOC_GTT	(KFD_ALLOC_RW | KFD_IOC_ALLOC_MEM_FLAGS_GTT | \
			 KFD_IOC_ALLOC_MEM_FLAGS_COHERENT)
#define KFD_ALLOC_USERPTR (KFD_ALLOC_RW | KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | \
			 KFD_IOC_ALLOC_MEM_FLAGS_COHERENT)

/* An ioctl command of type 'K' with a chosen number and size. */
#define KFD_COMMAND(dir, nr, size)	_IOC(dir, AMDKFD_IOCTL_BASE, nr, size)

/* The first GPU node of the topology and the two open files of a client. */
struct kfd_dev {
	int fd;			/* /dev/kfd, or -1 */
	int drm_fd;		/* the node's render node, or -1 */
	uint32_t node;		/* index under topology/nodes */
	uint32_t gpu_id;
	uint32_t drm_minor;
};

/* True if the driver behind /dev/kfd is rkfd; otherwise it is amdkfd. */
bool kfd_is_rkfd(void);

/* Reads one key of a properties file under topology; false if it is not there. */
bool kfd_property(const char *file, const char *key, uint64_t *value);
/* True if the GPU is a gfx942, and not a gfx90a; the model can be either. */
bool kfd_is_gfx942(const struct kfd_dev *dev);
/* The SDMA engines of that chip. */
unsigned int kfd_sdma_engines(const struct kfd_dev *dev);
/*
 * The number behind @key in fdinfo of @fd; -1 if there is none, -2 if its unit is not @unit,
 * which is " KiB" or empty.
 */
long long kfd_fdinfo(int fd, const char *key, const char *unit);

/* Finds the first GPU node; opens nothing. ENODEV if there is none. */
int kfd_find_gpu(struct kfd_dev *dev);
/* The number of GPU nodes; opens nothing. */
unsigned int kfd_gpus(void);
int kfd_open_render(const struct kfd_dev *dev, int *fd);
/* Opens both files without acquiring the VM. */
int kfd_open_files(struct kfd_dev *dev);
/* Opens both files and acquires the VM. */
int kfd_open(struct kfd_dev *dev);
/*
 * Finds the GPU after @dev and acquires its VM through the same file of KFD; ENODEV if there is
 * none.
 */
int kfd_open_next(const struct kfd_dev *dev, struct kfd_dev *next);
void kfd_close(struct kfd_dev *dev);

/* ioctl() that returns 0 or the errno, and calls again after EINTR. */
int kfd_ioctl(int fd, unsigned long cmd, void *arg);

int kfd_acquire_vm(int fd, int drm_fd, uint32_t gpu_id);
int kfd_alloc(int fd, struct kfd_ioctl_alloc_memory_of_gpu_args *args);
/*
 * Allocates @size bytes at @va of @dev. With KFD_ALLOC_USERPTR in @flags it is the process's
 * memory at that address.
 */
int kfd_alloc_at(const struct kfd_dev *dev, uint32_t flags, uint64_t va, uint64_t size,
		 uint64_t *handle);
int kfd_free(int fd, uint64_t handle);
int kfd_map(int fd, uint64_t handle, uint32_t gpu_id);
int kfd_unmap(int fd, uint64_t handle, uint32_t gpu_id);
int kfd_destroy_queue(int fd, uint32_t queue_id);
/* AVAILABLE_MEMORY of @dev, or UINT64_MAX when it fails. */
uint64_t kfd_available(const struct kfd_dev *dev);
/*
 * In a child: opens the first GPU and allocates all VRAM that is available, at @va, for @ms
 * milliseconds.
 */
int kfd_take_vram(uint64_t va, unsigned int ms);
/* Writes @text to an existing file. */
int kfd_write_file(const char *path, const char *text);
/*
 * The name of the first device that rkfd is bound to, in the form for "bind" and "unbind";
 * false without one.
 */
bool kfd_find_device(char *name, size_t size);

/* mmap() of a device file: 0 and the address, or the errno. */
int kfd_mmap(int fd, size_t length, uint64_t offset, void **address);

/* Reserves an aligned range of addresses without memory behind it. */
void *kfd_reserve(size_t size, size_t align);

/* A buffer object mapped to the GPU and, at the same address, to the CPU. */
struct kfd_bo {
	void *cpu;		/* also the GPU's address */
	size_t size;
	uint64_t handle;
	uint64_t mmap_offset;
	uint32_t flags;
};

int kfd_bo_create(const struct kfd_dev *dev, struct kfd_bo *bo, size_t size,
		  uint32_t flags);
int kfd_bo_destroy(const struct kfd_dev *dev, struct kfd_bo *bo);
/* A buffer of @kind for registers of the GPU, mapped to it. Returns its address, or 0. */
uint64_t kfd_map_registers(const struct kfd_dev *dev, uint32_t kind, size_t size, uint64_t *handle);

/* An SDMA queue with its ring, its page of pointers, and its doorbell. */
struct kfd_queue {
	struct kfd_bo ring;
	struct kfd_bo pointers;	/* write pointer +0, read pointer +8, fence +64 */
	void *slice;		/* the process's doorbell slice */
	volatile uint64_t *doorbell;
	uint64_t wptr;		/* bytes, ever growing */
	uint32_t id;
	uint32_t fence;		/* the last value a fence was asked for */
};

#define KFD_QUEUE_WPTR		0
#define KFD_QUEUE_RPTR		8
#define KFD_QUEUE_FENCE		64

/* Fills the arguments of an ordinary SDMA queue on the given buffers. */
void kfd_queue_args(const struct kfd_dev *dev, const struct kfd_bo *ring,
		    const struct kfd_bo *pointers,
		    struct kfd_ioctl_create_queue_args *args);
int kfd_queue_create(const struct kfd_dev *dev, struct kfd_queue *queue,
		     size_t ring_size);
/* The same on SDMA engine @engine. */
int kfd_queue_create_on(const struct kfd_dev *dev, struct kfd_queue *queue,
			size_t ring_size, uint32_t engine);
int kfd_queue_destroy(const struct kfd_dev *dev, struct kfd_queue *queue);
/* Maps the process's doorbell slice. @offset is the doorbell's offset from CREATE_QUEUE. */
int kfd_doorbell_map(int fd, uint64_t offset, void **slice, volatile uint64_t **doorbell);
/* Appends packets (they must not cross the ring's end) and rings the doorbell. */
void kfd_queue_submit(struct kfd_queue *queue, const uint32_t *dwords,
		      unsigned int count);
/* Submits a fence and waits for it: 0 or ETIMEDOUT. */
int kfd_queue_finish(struct kfd_queue *queue, unsigned int timeout_ms);
/* Fills with dwords of @value, or copies, and waits until that is done. Addresses are the GPU's. */
int kfd_queue_fill(struct kfd_queue *queue, uint64_t dst, uint32_t value, size_t bytes,
		   unsigned int timeout_ms);
int kfd_queue_copy(struct kfd_queue *queue, uint64_t dst, uint64_t src, size_t bytes,
		   unsigned int timeout_ms);

/*
 * Timeout, in milliseconds, that is long enough on a busy machine too: an operation that takes
 * longer hangs.
 */
#define KFD_HANG_MS	120000u

/* A page of zeros that children share; NULL if there is none. */
void *kfd_share(void);
/* True if *@word becomes @value within @ms milliseconds. */
bool kfd_becomes(volatile uint32_t *word, uint32_t value, unsigned int ms);
/* True if the driver schedules the compute queues by registers (sched=direct of rkfd). */
bool kfd_sched_is_direct(void);

/* Milliseconds of a monotonic clock. */
uint64_t kfd_now_ms(void);

#endif /* RKFD_TEST_KFD_H */
