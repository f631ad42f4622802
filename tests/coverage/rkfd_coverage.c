// SPDX-License-Identifier: GPL-2.0
/*
 * Keeps the counters of a module rkfd that the compiler has instrumented (-Cinstrument-coverage),
 * which are in its data and go with it. The file rkfd_coverage of debugfs has the data of the first
 * rkfd that was unloaded, and after that the sums of the same quadwords of all that were. The first
 * part has the names of functions, by which scripts/coverage-lines finds their counters in the
 * second.
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

static struct debugfs_blob_wrapper kept;
static struct dentry *file;

/* Called with rkfd's code at rest: it was unloaded, or has failed to load. */
static void keep(const struct module_memory *data)
{
	const u64 *from = data->base;
	unsigned long i;
	u64 *sums;

	if (!kept.data) {
		kept.data = vzalloc(2ul * data->size);
		if (!kept.data)
			return;
		kept.size = 2ul * data->size;
		memcpy(kept.data, from, data->size);
		file = debugfs_create_blob("rkfd_coverage", 0400, NULL, &kept);
	}
	if (kept.size != 2ul * data->size)
		return;
	sums = kept.data + data->size;
	for (i = 0; i < data->size / sizeof(*sums); i++)
		sums[i] += from[i];
}

static int see_module(struct notifier_block *block, unsigned long state, void *data)
{
	struct module *module = data;

	if (state == MODULE_STATE_GOING && !strcmp(module->name, "rkfd"))
		keep(&module->mem[MOD_DATA]);
	return NOTIFY_OK;
}

static struct notifier_block block = { .notifier_call = see_module };

static int __init coverage_init(void)
{
	return register_module_notifier(&block);
}

static void __exit coverage_exit(void)
{
	unregister_module_notifier(&block);
	debugfs_remove(file);
	vfree(kept.data);
}

module_init(coverage_init);
module_exit(coverage_exit);
MODULE_DESCRIPTION("Keeps the counters of an instrumented rkfd");
MODULE_LICENSE("GPL");
