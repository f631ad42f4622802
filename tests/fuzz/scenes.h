/* SPDX-License-Identifier: GPL-2.0 */
/* One call each, with its preparation and the call that undoes it. */
#ifndef RKFD_FUZZ_SCENES_H
#define RKFD_FUZZ_SCENES_H

#include "kfd.h"
#include "kfd_compute.h"

/* The state of a scene's process. */
struct stage {
	struct kfd_dev dev;
	struct kfd_bo bo;
	struct kfd_queue queue;
	struct kfd_save save;
	struct kfd_compute compute;
	struct kfd_ioctl_create_queue_args create;
	uint64_t handle;	/* of a buffer or a job that the call made */
	uint32_t number;	/* of an event, a queue or a GEM object that it made */
	int fd;			/* that it made */
	void *address;		/* that it made */
};

struct scene {
	const char *name;
	/* Prepares the call; true if that succeeded. */
	bool (*set)(struct stage *stage);
	/* The call: 0, or a positive errno. Called again after it failed. */
	int (*call)(struct stage *stage);
	/* Undoes a call that succeeded; true if that succeeds. NULL: there is nothing to undo. */
	bool (*undo)(struct stage *stage);
	/*
	 * The error of a repeated call after the call was done but its results could not be
	 * copied out (EFAULT, as with amdkfd); 0: none, it is done again.
	 */
	int done;
};

extern const struct scene scenes[];
extern const unsigned int scene_count;
extern const struct scene job_scenes[];
extern const unsigned int job_scene_count;
extern const struct scene debug_scenes[];
extern const unsigned int debug_scene_count;

#endif /* RKFD_FUZZ_SCENES_H */
