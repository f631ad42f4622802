// SPDX-License-Identifier: GPL-2.0
/*
 * info_sensor NUMBER...: prints the render node's answers to AMDGPU_INFO for those sensors,
 * each on a line: the value, or the name of the error.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <drm/amdgpu_drm.h>

#include "tap.h"
#include "kfd.h"

int main(int argc, char **argv)
{
	struct kfd_dev dev;
	int i;

	if (kfd_find_gpu(&dev) || kfd_open_render(&dev, &dev.drm_fd))
		die("no device");
	for (i = 1; i < argc; i++) {
		/* Two words: an answer is one of them. */
		uint32_t value[2] = { UINT32_MAX, UINT32_MAX };
		struct drm_amdgpu_info args = {
			.return_pointer = (uintptr_t)value,
			.return_size = sizeof(value),
			.query = AMDGPU_INFO_SENSOR,
		};
		int error;

		args.sensor_info.type = (uint32_t)strtoul(argv[i], NULL, 0);
		error = kfd_ioctl(dev.drm_fd, DRM_IOCTL_AMDGPU_INFO, &args);
		if (error)
			puts(strerrorname_np(error));
		else if (value[1] != UINT32_MAX)
			puts("too long");
		else
			printf("%" PRIu32 "\n", value[0]);
	}
	return 0;
}
