/* SPDX-License-Identifier: GPL-2.0 */
/* Compute queues by plain ioctls; see kfd.h. */
#ifndef RKFD_TEST_KFD_COMPUTE_H
#define RKFD_TEST_KFD_COMPUTE_H

#include "kfd.h"
#include "pm4.h"

/*
 * The save area of waves, which queues of a process share here. None of these queues has waves,
 * and an area for each would be 61 MiB.
 */
struct kfd_save {
	struct kfd_bo bo;
	uint32_t area;		/* bytes, from the topology */
	uint32_t control_stack;
};

/* Compute units of the GPU, from the topology; 0 if it has no such entry. */
unsigned int kfd_cus(const struct kfd_dev *dev);
/* XCCs, likewise, and compute units of one of them, which are those of a PM4 queue. */
unsigned int kfd_xccs(const struct kfd_dev *dev);
unsigned int kfd_xcc_cus(const struct kfd_dev *dev);
/* Shader engines of an XCC, likewise. */
unsigned int kfd_engines(const struct kfd_dev *dev);
/* True if the topology says that waves always find their dispatch in TTMPs. */
bool kfd_ttmps_are_set(const struct kfd_dev *dev);
int kfd_save_create(const struct kfd_dev *dev, struct kfd_save *save);
int kfd_save_destroy(const struct kfd_dev *dev, struct kfd_save *save);

struct kfd_compute {
	bool aql;
	struct kfd_bo ring;
	struct kfd_bo control;	/* pointers, fence, signals; for AQL an amd_queue_t */
	struct kfd_bo eop;
	void *slice;
	volatile uint64_t *doorbell;
	volatile uint64_t *write, *read;	/* the pointers in memory */
	uint64_t wptr;		/* dwords or packets, ever growing */
	uint64_t fence;		/* the last value asked for */
	uint32_t id;
};

/* Offsets in the page of control. */
#define KFD_COMPUTE_WPTR	0x38
#define KFD_COMPUTE_RPTR	0x80
#define KFD_COMPUTE_FENCE	0x200
#define KFD_COMPUTE_SIGNAL	0x240	/* a struct aql_signal */
#define KFD_COMPUTE_IB		0x400	/* room for packets, used in turn */
#define KFD_COMPUTE_IBS		8u
#define KFD_COMPUTE_IB_BYTES	0x100u
#define KFD_COMPUTE_EOP		4096u

/* Makes the buffers and the arguments of an ordinary queue, but not the queue. */
int kfd_compute_prepare(const struct kfd_dev *dev, struct kfd_compute *queue,
			const struct kfd_save *save, bool aql, size_t ring_size,
			struct kfd_ioctl_create_queue_args *args);
int kfd_compute_create(const struct kfd_dev *dev, struct kfd_compute *queue,
		       const struct kfd_save *save, bool aql, size_t ring_size);
/* Frees what kfd_compute_prepare() made. */
int kfd_compute_release(const struct kfd_dev *dev, struct kfd_compute *queue);
int kfd_compute_destroy(const struct kfd_dev *dev, struct kfd_compute *queue);
/* Lets the queue run or not: 0 stops it. */
int kfd_compute_update(const struct kfd_dev *dev, const struct kfd_compute *queue,
		       uint32_t percentage);

uint64_t kfd_compute_read_pointer(const struct kfd_compute *queue);
/* The GPU's address of byte @at of the page of control. */
uint64_t kfd_compute_address(const struct kfd_compute *queue, size_t at);
volatile uint64_t *kfd_compute_qword(const struct kfd_compute *queue, size_t at);

/*
 * Appends packets to a PM4 queue, waiting for room, and rings. False if there was no room in
 * time.
 */
bool kfd_compute_pm4(struct kfd_compute *queue, const struct packets *packets);
/* Appends packets to an AQL queue, waiting for room, and rings. */
bool kfd_compute_aql(struct kfd_compute *queue, const struct aql_packet *packets,
		     unsigned int count);
/* Makes a queue of either kind run @dwords dwords of PM4 packets at @address. */
bool kfd_compute_run(struct kfd_compute *queue, uint64_t address, unsigned int dwords);
/*
 * Makes a queue of either kind run @packets. For an AQL queue they are placed in its room for
 * packets, which must be large enough.
 */
bool kfd_compute_submit(struct kfd_compute *queue, const struct packets *packets);
/*
 * Makes a queue of either kind add 1 to the qword at @count for ever, by a loop of
 * packets in @buffer, @packets of them. Unless @gate is 0, the queue first waits until the
 * dword at @gate is 1 or more.
 */
bool kfd_compute_count(struct kfd_compute *queue, const struct kfd_bo *buffer,
		       unsigned int packets, uint64_t count, uint64_t gate);
/* True if the qword at @at of the page of control becomes @value in time. */
bool kfd_compute_wait(const struct kfd_compute *queue, size_t at, uint64_t value,
		      unsigned int ms);
/* Makes the queue write to memory and waits for that. */
bool kfd_compute_works(struct kfd_compute *queue, unsigned int ms);

#endif /* RKFD_TEST_KFD_COMPUTE_H */
