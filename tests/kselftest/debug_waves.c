// SPDX-License-Identifier: GPL-2.0
/* DBG_TRAP: how waves are launched, which exceptions trap, and which memory is watched. */
#include "debugger.h"

static int launch_override(int fd, pid_t pid, uint32_t mode, uint32_t *enabled, uint32_t *request)
{
	struct kfd_ioctl_dbg_trap_args args = {
		.launch_override = {
			.override_mode = mode,
			.enable_mask = *enabled,
			.support_request_mask = *request,
		},
	};
	int result = trap(fd, pid, KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_OVERRIDE, &args);

	*enabled = args.launch_override.enable_mask;
	*request = args.launch_override.support_request_mask;
	return result;
}

static int launch_mode(int fd, pid_t pid, uint32_t mode)
{
	struct kfd_ioctl_dbg_trap_args args = { .launch_mode.launch_mode = mode };

	return trap(fd, pid, KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_MODE, &args);
}

static int set_flags(int fd, pid_t pid, uint32_t *flags)
{
	struct kfd_ioctl_dbg_trap_args args = { .set_flags.flags = *flags };
	int result = trap(fd, pid, KFD_IOC_DBG_TRAP_SET_FLAGS, &args);

	*flags = args.set_flags.flags;
	return result;
}

static int watch(int fd, pid_t pid, uint32_t gpu, uint64_t address, uint32_t mode, uint32_t *id)
{
	struct kfd_ioctl_dbg_trap_args args = {
		.set_node_address_watch = {
			.address = address, .mode = mode, .mask = ~63u, .gpu_id = gpu,
		},
	};
	int result = trap(fd, pid, KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH, &args);

	*id = args.set_node_address_watch.id;
	return result;
}

static int unwatch(int fd, pid_t pid, uint32_t gpu, uint32_t id)
{
	struct kfd_ioctl_dbg_trap_args args = {
		.clear_node_address_watch = { .gpu_id = gpu, .id = id },
	};

	return trap(fd, pid, KFD_IOC_DBG_TRAP_CLEAR_NODE_ADDRESS_WATCH, &args);
}

TEST_F(debug, overrides_and_flags)
{
	const int fd = self->dev.fd, pid = self->child.pid;
	uint32_t enabled = 0, request = 0;

	ASSERT_EQ(0, attach_to_queue(self, 0));
	EXPECT_EQ(-EPERM, launch_override(fd, pid, 2, &enabled, &request));
	request = 0;
	EXPECT_EQ(0, launch_override(fd, pid, KFD_DBG_TRAP_OVERRIDE_OR, &enabled, &request));
	EXPECT_EQ(0, enabled);
	EXPECT_EQ(0x1ff, request);
	request = 1 << 9;
	EXPECT_EQ(-EACCES, launch_override(fd, pid, KFD_DBG_TRAP_OVERRIDE_OR, &enabled, &request));
	EXPECT_EQ(0x1ff, request);
	enabled = ~0u;
	request = 0x81;
	EXPECT_EQ(0, launch_override(fd, pid, KFD_DBG_TRAP_OVERRIDE_OR, &enabled, &request));
	EXPECT_EQ(0, enabled);
	enabled = 0;
	request = 1;
	EXPECT_EQ(0, launch_override(fd, pid, KFD_DBG_TRAP_OVERRIDE_REPLACE, &enabled, &request));
	EXPECT_EQ(0x81, enabled);
	request = 0;
	EXPECT_EQ(0, launch_override(fd, pid, KFD_DBG_TRAP_OVERRIDE_OR, &enabled, &request));
	EXPECT_EQ(0x80, enabled);
	enabled = KFD_DBG_TRAP_FLAG_SINGLE_ALU_OP;
	EXPECT_EQ(-EACCES, set_flags(fd, pid, &enabled));
	EXPECT_EQ(0, enabled);
	enabled = 4; /* LDS_OUT_OF_ADDR_RANGE, of later headers */
	EXPECT_EQ(-EACCES, set_flags(fd, pid, &enabled));
	enabled = KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP;
	EXPECT_EQ(0, set_flags(fd, pid, &enabled));
	EXPECT_EQ(0, enabled);
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_WORKS, 0));
	EXPECT_EQ(0, set_flags(fd, pid, &enabled));
	EXPECT_EQ(KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP, enabled);
	EXPECT_EQ(-EINVAL, launch_mode(fd, pid, 2));
	EXPECT_EQ(-EINVAL, launch_mode(fd, pid, 4));
	EXPECT_EQ(0, detach(self));
	/* A new debugger finds nothing of that. */
	EXPECT_EQ(0, attach(self, 0));
	enabled = 0;
	EXPECT_EQ(0, set_flags(fd, pid, &enabled));
	EXPECT_EQ(0, enabled);
	request = 0;
	EXPECT_EQ(0, launch_override(fd, pid, KFD_DBG_TRAP_OVERRIDE_OR, &enabled, &request));
	EXPECT_EQ(0, enabled);
	EXPECT_EQ(0, detach(self));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_WORKS, 0));
}

TEST_F(debug, waves_launched_halted)
{
	const int fd = self->dev.fd, pid = self->child.pid;
	uint32_t id, header[4] = { 0 };

	ASSERT_EQ(0, attach_to_queue(self, WAVES));
	ASSERT_NE(NO_QUEUE, id = know_queue(self));
	EXPECT_EQ(0, launch_mode(fd, pid, KFD_DBG_TRAP_WAVE_LAUNCH_MODE_HALT));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_START, 4));
	EXPECT_EQ(ETIMEDOUT, debuggee_do(&self->child, DEBUGGEE_RUNS, NOT_MS));
	EXPECT_EQ(1, suspend(fd, pid, 0, &id, 1));
	ASSERT_TRUE(read_header(&self->child, header));
	EXPECT_NE(0, header[3]);
	EXPECT_EQ(1, resume(fd, pid, &id, 1));
	/* Those that are halted stay so: the debugger lets them go on by changing what was saved. */
	EXPECT_EQ(0, launch_mode(fd, pid, KFD_DBG_TRAP_WAVE_LAUNCH_MODE_NORMAL));
	EXPECT_EQ(ETIMEDOUT, debuggee_do(&self->child, DEBUGGEE_RUNS, NOT_MS));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_DESTROY, 0));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_QUEUE, 0));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_START, 4));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_RUNS, SOON_MS));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_STOP, 0));
	EXPECT_EQ(0, detach(self));
}

TEST_F(debug, waves_launched_stepping)
{
	const int fd = self->dev.fd, pid = self->child.pid;
	struct kfd_ioctl_dbg_trap_args args;

	ASSERT_EQ(0, attach_to_queue(self, WAVES));
	ASSERT_NE(NO_QUEUE, know_queue(self));
	EXPECT_EQ(0, launch_mode(fd, pid, KFD_DBG_TRAP_WAVE_LAUNCH_MODE_DEBUG));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_STEP, 0));
	EXPECT_TRUE(is_notified(self, SOON_MS));
	EXPECT_EQ(0, query(fd, pid, ~0ull, &args));
	EXPECT_EQ(MASK(EC_QUEUE_WAVE_TRAP), args.query_debug_event.exception_mask);
	/* The handler has ended it. */
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_WORKS, 0));
	EXPECT_EQ(0, detach(self));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_START, 4));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_STOP, 0));
}

/* The dwords at the beginning of a page of the child. */
static bool read_page(const struct debuggee *child, unsigned int page, uint32_t words[2])
{
	return read_words(child, child->shared->pages + (uint64_t)page * KFD_PAGE, words, 2);
}

TEST_F(debug, watches_memory)
{
	/* A wave loads the first dword of a page, stores it, and adds to the second. */
	static const struct {
		uint32_t mode;
		bool stored, added;
	} cases[] = {
		{ KFD_DBG_TRAP_ADDRESS_WATCH_MODE_READ, false, false },
		{ KFD_DBG_TRAP_ADDRESS_WATCH_MODE_NONREAD, true, false },
		{ KFD_DBG_TRAP_ADDRESS_WATCH_MODE_ATOMIC, true, true },
		{ KFD_DBG_TRAP_ADDRESS_WATCH_MODE_ALL, false, false },
	};
	const int fd = self->dev.fd, pid = self->child.pid;
	uint32_t enabled, request = 0x80, id, words[2], before[2];
	struct kfd_ioctl_dbg_trap_args args;
	uint64_t place;
	unsigned int i;

	ASSERT_EQ(0, attach_to_queue(self, WAVES));
	ASSERT_NE(NO_QUEUE, know_queue(self));
	enabled = KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP;
	EXPECT_EQ(0, set_flags(fd, pid, &enabled));
	enabled = 0x80;
	EXPECT_EQ(0, launch_override(fd, pid, KFD_DBG_TRAP_OVERRIDE_OR, &enabled, &request));
	place = self->child.shared->pages + 5 * KFD_PAGE;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		ASSERT_TRUE(read_page(&self->child, 5, before));
		EXPECT_EQ(0, watch(fd, pid, self->child.shared->gpu_id, place, cases[i].mode, &id));
		EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_TOUCH, 0));
		EXPECT_TRUE(is_notified(self, SOON_MS));
		EXPECT_EQ(0, query(fd, pid, ~0ull, &args));
		EXPECT_EQ(MASK(EC_QUEUE_WAVE_TRAP), args.query_debug_event.exception_mask);
		EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_WORKS, 0));
		ASSERT_TRUE(read_page(&self->child, 5, words));
		EXPECT_EQ(cases[i].stored, words[0] == before[0] + 5);
		EXPECT_EQ(cases[i].added, words[1] == before[1] + 1);
		EXPECT_EQ(0, unwatch(fd, pid, self->child.shared->gpu_id, id));
		EXPECT_EQ(-EINVAL, unwatch(fd, pid, self->child.shared->gpu_id, id));
	}
	/* Not where the wave has nothing to do. */
	EXPECT_EQ(0, watch(fd, pid, self->child.shared->gpu_id, place + 2048,
			   KFD_DBG_TRAP_ADDRESS_WATCH_MODE_ALL, &id));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_TOUCH, 0));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_WORKS, 0));
	EXPECT_FALSE(is_notified(self, NOT_MS));
	EXPECT_EQ(0, detach(self));
	/* Nor without a debugger. */
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_TOUCH, 0));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_WORKS, 0));
}

TEST_F(debug, watch_points)
{
	const int fd = self->dev.fd, pid = self->child.pid;
	uint32_t id, gpu, ids = 0;
	unsigned int i;

	ASSERT_EQ(0, attach_to_queue(self, 0));
	gpu = self->child.shared->gpu_id;
	EXPECT_EQ(-ENODEV, watch(fd, pid, 1, 0, 0, &id));
	EXPECT_EQ(-ENODEV, unwatch(fd, pid, 1, 0));
	EXPECT_EQ(-EINVAL, unwatch(fd, pid, gpu, 0));
	EXPECT_EQ(-EINVAL, unwatch(fd, pid, gpu, 4));
	for (i = 0; i < 4; i++) {
		EXPECT_EQ(0, watch(fd, pid, gpu, 0, 0, &id));
		ids |= 1u << id;
	}
	EXPECT_EQ(0xf, ids);
	EXPECT_EQ(-ENOMEM, watch(fd, pid, gpu, 0, 0, &id));
	EXPECT_EQ(0, unwatch(fd, pid, gpu, 2));
	EXPECT_EQ(0, watch(fd, pid, gpu, 0, 0, &id));
	EXPECT_EQ(2, id);
	EXPECT_EQ(0, detach(self));
	EXPECT_EQ(0, attach(self, 0));
	EXPECT_EQ(0, watch(fd, pid, gpu, 0, 0, &id));
	EXPECT_EQ(0, id);
	/* It keeps it until it ends. */
	debuggee_end(&self->child);
	ASSERT_EQ(0, debuggee_start(&self->child, true));
	ASSERT_EQ(0, attach_to_queue(self, 0));
	for (i = 0; i < 4; i++)
		EXPECT_EQ(0, watch(fd, self->child.pid, gpu, 0, 0, &id));
}

KFD_HARNESS_MAIN
