// SPDX-License-Identifier: GPL-2.0
/* Parameters for which module!() has no type. */
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/string.h>

#include "rkfd_shims.h"

static const char * const scheds[] = { "direct", "hws" };
static unsigned int sched = 1;

static int sched_set(const char *value, const struct kernel_param *param)
{
	int index = sysfs_match_string(scheds, value);

	if (index < 0)
		return index;
	sched = index;
	return 0;
}

static int sched_get(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%s\n", scheds[sched]);
}

static const struct kernel_param_ops sched_ops = {
	.set = sched_set,
	.get = sched_get,
};

module_param_cb(sched, &sched_ops, NULL, 0444);
MODULE_PARM_DESC(sched, "hws (default): the hardware's scheduler puts compute queues on the hardware; direct: the driver does");

unsigned int rkfd_param_sched(void)
{
	return sched;
}
