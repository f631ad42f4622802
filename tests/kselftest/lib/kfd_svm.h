/* SPDX-License-Identifier: GPL-2.0 */
/* The SVM ioctl by plain calls; results as in kfd.h. */
#ifndef RKFD_TEST_KFD_SVM_H
#define RKFD_TEST_KFD_SVM_H

#include <string.h>

#include "kfd.h"

#define SVM_SET		KFD_IOCTL_SVM_OP_SET_ATTR
#define SVM_GET		KFD_IOCTL_SVM_OP_GET_ATTR
#define SVM_PREFERRED	KFD_IOCTL_SVM_ATTR_PREFERRED_LOC
#define SVM_PREFETCH	KFD_IOCTL_SVM_ATTR_PREFETCH_LOC
#define SVM_ACCESS	KFD_IOCTL_SVM_ATTR_ACCESS
#define SVM_IN_PLACE	KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE
#define SVM_NO_ACCESS	KFD_IOCTL_SVM_ATTR_NO_ACCESS
#define SVM_SET_FLAGS	KFD_IOCTL_SVM_ATTR_SET_FLAGS
#define SVM_CLR_FLAGS	KFD_IOCTL_SVM_ATTR_CLR_FLAGS
#define SVM_GRANULARITY	KFD_IOCTL_SVM_ATTR_GRANULARITY
#define SVM_UNDEFINED	KFD_IOCTL_SVM_LOCATION_UNDEFINED
#define SVM_SYSTEM	KFD_IOCTL_SVM_LOCATION_SYSMEM

/* The attributes of a range that none was set for. */
#define SVM_DEFAULT_FLAGS (KFD_IOCTL_SVM_FLAG_HOST_ACCESS | KFD_IOCTL_SVM_FLAG_COHERENT)
#define SVM_DEFAULT_GRANULARITY 9

#define SVM_MOST_ATTRIBUTES 16

struct svm_attribute {
	uint32_t type;
	uint32_t value;
};

/*
 * The ioctl with @count attributes, which it may change. The command's size is @size bytes more
 * than theirs.
 */
static inline int svm_sized(int fd, uint32_t op, const void *start, size_t size,
			    struct svm_attribute *attributes, uint32_t count, int more)
{
	struct {
		struct kfd_ioctl_svm_args args;
		struct svm_attribute attributes[SVM_MOST_ATTRIBUTES];
	} call = {
		.args = {
			.start_addr = (uintptr_t)start,
			.size = size,
			.op = op,
			.nattr = count,
		},
	};
	const size_t bytes = count * sizeof(*attributes);
	int err;

	if (count)
		memcpy(call.attributes, attributes, bytes);
	err = kfd_ioctl(fd, KFD_COMMAND(_IOC_READ | _IOC_WRITE, 0x20,
					(size_t)(sizeof(call.args) + bytes + more)), &call);
	if (count)
		memcpy(attributes, call.attributes, bytes);
	return err;
}

static inline int svm(int fd, uint32_t op, const void *start, size_t size,
		      struct svm_attribute *attributes, uint32_t count)
{
	return svm_sized(fd, op, start, size, attributes, count, 0);
}

/* Sets one attribute. */
static inline int svm_set(int fd, const void *start, size_t size, uint32_t type, uint32_t value)
{
	struct svm_attribute one = { type, value };

	return svm(fd, SVM_SET, start, size, &one, 1);
}

/* Gets one attribute. @value is input and output. */
static inline int svm_get(int fd, const void *start, size_t size, uint32_t type, uint32_t *value)
{
	struct svm_attribute one = { type, *value };
	int err = svm(fd, SVM_GET, start, size, &one, 1);

	*value = one.value;
	return err;
}

/* Access of @gpu_id to the range: one of the three kinds; 0 after an error. */
static inline uint32_t svm_access(int fd, const void *start, size_t size, uint32_t gpu_id)
{
	struct svm_attribute one = { SVM_ACCESS, gpu_id };

	return svm(fd, SVM_GET, start, size, &one, 1) ? 0 : one.type;
}

/* Turns the retry of page faults on (1) or off (0). */
static inline int xnack_set(int fd, int mode)
{
	struct kfd_ioctl_set_xnack_mode_args args = { .xnack_enabled = mode };

	return kfd_ioctl(fd, AMDKFD_IOC_SET_XNACK_MODE, &args);
}

/* The current mode; -1 after an error. */
static inline int xnack_get(int fd)
{
	struct kfd_ioctl_set_xnack_mode_args args = { .xnack_enabled = -1 };

	return kfd_ioctl(fd, AMDKFD_IOC_SET_XNACK_MODE, &args) ? -1 : args.xnack_enabled;
}

#endif /* RKFD_TEST_KFD_SVM_H */
