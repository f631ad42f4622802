// SPDX-License-Identifier: GPL-2.0
/* DBG_TRAP: which processes may debug which, and what a debugger is told. */
#include "debugger.h"

TEST_F(debug, who_may)
{
	const int fd = self->dev.fd;
	struct debuggee other;

	EXPECT_EQ(-ESRCH, plain(fd, 0, KFD_IOC_DBG_TRAP_DISABLE));
	EXPECT_EQ(-ESRCH, plain(fd, -1, KFD_IOC_DBG_TRAP_DISABLE));
	EXPECT_EQ(-ESRCH, plain(fd, 4000000, KFD_IOC_DBG_TRAP_DISABLE));
	/* Kernel threads have no memory. */
	EXPECT_EQ(-ESRCH, plain(fd, 2, KFD_IOC_DBG_TRAP_DISABLE));
	/* Traced, but it does not use KFD. */
	EXPECT_EQ(-ESRCH, plain(fd, self->child.pid, KFD_IOC_DBG_TRAP_DISABLE));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_OPEN, 0));
	EXPECT_EQ(-EINVAL, plain(fd, self->child.pid, KFD_IOC_DBG_TRAP_DISABLE));
	/* Not traced. */
	ASSERT_EQ(0, debuggee_start(&other, false));
	EXPECT_EQ(-ESRCH, enable(fd, other.pid, 0, self->notice[1], &self->info));
	EXPECT_EQ(0, debuggee_do(&other, DEBUGGEE_OPEN, 0));
	EXPECT_EQ(-EPERM, enable(fd, other.pid, 0, self->notice[1], &self->info));
	EXPECT_EQ(-EPERM, plain(fd, other.pid, KFD_IOC_DBG_TRAP_DISABLE));
	EXPECT_EQ(-EPERM, plain(fd, other.pid, 99));
	debuggee_end(&other);
	/* It debugs itself. */
	EXPECT_EQ(0, enable(fd, getpid(), 0, self->notice[1], &self->info));
	EXPECT_EQ(0, plain(fd, getpid(), KFD_IOC_DBG_TRAP_DISABLE));
	EXPECT_EQ(-EINVAL, plain(fd, getpid(), KFD_IOC_DBG_TRAP_DISABLE));
}

TEST_F(debug, errors_in_order)
{
	static const uint32_t of_hardware[] = {
		KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_OVERRIDE, KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_MODE,
		KFD_IOC_DBG_TRAP_SUSPEND_QUEUES, KFD_IOC_DBG_TRAP_RESUME_QUEUES,
		KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH, KFD_IOC_DBG_TRAP_CLEAR_NODE_ADDRESS_WATCH,
		KFD_IOC_DBG_TRAP_SET_FLAGS,
	};
	const int fd = self->dev.fd, pid = self->child.pid;
	struct kfd_ioctl_dbg_trap_args args = { 0 };
	unsigned int i;

	ASSERT_EQ(0, debuggee_do(&self->child, DEBUGGEE_OPEN, 0));
	for (i = KFD_IOC_DBG_TRAP_DISABLE; i < KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT + 2; i++)
		EXPECT_EQ(-EINVAL, plain(fd, pid, i));
	EXPECT_EQ(-EBADF, enable(fd, pid, 0, 999, &self->info));
	EXPECT_EQ(-EFAULT, enable(fd, pid, 0, self->notice[1], (void *)1));
	EXPECT_EQ(-EINVAL, plain(fd, pid, KFD_IOC_DBG_TRAP_DISABLE));
	EXPECT_EQ(0, attach(self, 0));
	EXPECT_EQ(-EALREADY, attach(self, 0));
	EXPECT_EQ(-EALREADY, enable(fd, pid, 0, 999, &self->info));
	for (i = 0; i < ARRAY_SIZE(of_hardware); i++)
		EXPECT_EQ(-EPERM, plain(fd, pid, of_hardware[i]));
	EXPECT_EQ(-EINVAL, plain(fd, pid, KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT + 1));
	EXPECT_EQ(-EINVAL, plain(fd, pid, KFD_IOC_DBG_TRAP_QUERY_EXCEPTION_INFO));
	EXPECT_EQ(-EINVAL, plain(fd, pid, KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT));
	EXPECT_EQ(-EINVAL, plain(fd, pid, KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT));
	EXPECT_EQ(-EAGAIN, query(fd, pid, 0, &args));
	EXPECT_EQ(0, args.query_debug_event.exception_mask);
	EXPECT_EQ(-ENODEV, send_event(fd, pid, MASK(EC_DEVICE_MEMORY_VIOLATION), 1, 0));
	/* Of no queue. */
	EXPECT_EQ(0, send_event(fd, pid, MASK(EC_QUEUE_WAVE_TRAP), 0, 77));
	EXPECT_EQ(0, detach(self));
	EXPECT_EQ(0, attach(self, 0));
	EXPECT_EQ(0, detach(self));
}

/* The process does not use KFD yet. */
TEST_F(debug, runtime_comes_and_goes)
{
	struct kfd_runtime_info info = { 0 };
	struct kfd_ioctl_dbg_trap_args args;
	uint32_t size = sizeof(info);

	self->info.runtime_state = 77;
	ASSERT_EQ(0, attach(self, MASK(EC_PROCESS_RUNTIME)));
	EXPECT_EQ(DEBUG_RUNTIME_STATE_DISABLED, self->info.runtime_state);
	ASSERT_EQ(0, debuggee_do(&self->child, DEBUGGEE_OPEN, 0));
	EXPECT_FALSE(is_notified(self, NOT_MS));
	EXPECT_EQ(-ENODATA, query_info(self->dev.fd, self->child.pid, EC_PROCESS_RUNTIME, 0, false,
				       &info, &size));
	debuggee_order(&self->child, DEBUGGEE_RUNTIME, ON);
	EXPECT_FALSE(debuggee_has_answer(&self->child, NOT_MS));
	ASSERT_EQ(0, shake_hands(self, &info));
	EXPECT_EQ(0, debuggee_answer(&self->child));
	EXPECT_EQ(DEBUG_RUNTIME_STATE_ENABLED, info.runtime_state);
	EXPECT_EQ(0x1234567000, info.r_debug);
	EXPECT_EQ(0, info.ttmp_setup);
	EXPECT_EQ(-EAGAIN, query(self->dev.fd, self->child.pid, 0, &args));
	EXPECT_EQ(EBUSY, debuggee_do(&self->child, DEBUGGEE_RUNTIME, ON));
	debuggee_order(&self->child, DEBUGGEE_RUNTIME, 0);
	ASSERT_EQ(0, shake_hands(self, &info));
	EXPECT_EQ(0, debuggee_answer(&self->child));
	EXPECT_EQ(DEBUG_RUNTIME_STATE_DISABLED, info.runtime_state);
	EXPECT_EQ(0, info.r_debug);
	EXPECT_EQ(0, detach(self));
}

TEST_F(debug, attaches_to_a_runtime)
{
	const int fd = self->dev.fd, pid = self->child.pid;
	struct kfd_dbg_device_info_entry devices[4] = { 0 };
	struct kfd_queue_snapshot_entry entries[2] = { 0 };
	struct kfd_ioctl_dbg_trap_args args = { 0 };
	uint32_t count, size;

	ASSERT_EQ(0, attach_to_queue(self, 0));
	EXPECT_EQ(DEBUG_RUNTIME_STATE_ENABLED, self->info.runtime_state);
	EXPECT_EQ(0x1234567000, self->info.r_debug);
	EXPECT_EQ(1, self->info.ttmp_setup);
	/* The queue is new until the debugger says that it knows it. */
	EXPECT_FALSE(is_notified(self, 0));
	EXPECT_EQ(0, subscribe(fd, pid, MASK(EC_QUEUE_NEW)));
	EXPECT_TRUE(is_notified(self, SOON_MS));
	EXPECT_EQ(0, query(fd, pid, 0, &args));
	EXPECT_EQ(MASK(EC_QUEUE_NEW), args.query_debug_event.exception_mask);
	EXPECT_EQ(self->child.shared->queue_id, args.query_debug_event.queue_id);
	EXPECT_EQ(self->child.shared->gpu_id, args.query_debug_event.gpu_id);
	count = 0;
	size = 40;
	EXPECT_EQ(0, queues(fd, pid, 0, NULL, &count, &size));
	EXPECT_EQ(1, count);
	EXPECT_EQ(40, size);
	count = 2;
	size = sizeof(entries[0]) + 8;
	EXPECT_EQ(0, queues(fd, pid, MASK(EC_QUEUE_NEW), entries, &count, &size));
	EXPECT_EQ(1, count);
	EXPECT_EQ(sizeof(entries[0]), size);
	EXPECT_EQ(MASK(EC_QUEUE_NEW), entries[0].exception_status);
	EXPECT_EQ(self->child.shared->queue_id, entries[0].queue_id);
	EXPECT_EQ(self->child.shared->gpu_id, entries[0].gpu_id);
	EXPECT_EQ(self->child.shared->ring, entries[0].ring_base_address);
	EXPECT_EQ(self->child.shared->read, entries[0].read_pointer_address);
	EXPECT_EQ(self->child.shared->write, entries[0].write_pointer_address);
	EXPECT_EQ(self->child.shared->save, entries[0].ctx_save_restore_address);
	EXPECT_EQ(DEBUGGEE_RING, entries[0].ring_size);
	EXPECT_EQ(KFD_IOC_QUEUE_TYPE_COMPUTE, entries[0].queue_type);
	EXPECT_NE(0, entries[0].ctx_save_restore_area_size);
	EXPECT_EQ(-EAGAIN, query(fd, pid, 0, &args));
	size = sizeof(entries[0]);
	EXPECT_EQ(-EFAULT, queues(fd, pid, 0, (void *)8, &count, &size));
	args.device_snapshot.snapshot_buf_ptr = (uintptr_t)devices;
	args.device_snapshot.num_devices = ARRAY_SIZE(devices);
	args.device_snapshot.entry_size = sizeof(devices[0]);
	EXPECT_EQ(0, trap(fd, pid, KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT, &args));
	EXPECT_EQ(kfd_gpus(), args.device_snapshot.num_devices);
	EXPECT_EQ(sizeof(devices[0]), args.device_snapshot.entry_size);
	EXPECT_EQ(self->child.shared->gpu_id, devices[0].gpu_id);
	EXPECT_EQ(0x1002, devices[0].vendor_id);
	EXPECT_NE(0, devices[0].simd_count);
	EXPECT_NE(0, devices[0].max_waves_per_simd);
	EXPECT_NE(0, devices[0].array_count);
	EXPECT_EQ(1, devices[0].num_xcc);
	EXPECT_NE(0, devices[0].capability & HSA_CAP_TRAP_DEBUG_FIRMWARE_SUPPORTED);
	EXPECT_EQ(0, detach(self));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_WORKS, 0));
}

TEST_F(debug, exceptions_of_waves)
{
	static const struct {
		enum waves_wrong what;
		uint64_t mask;
	} cases[] = {
		{ WAVES_ABORT, MASK(EC_QUEUE_WAVE_ABORT) },
		{ WAVES_TRAP, MASK(EC_QUEUE_WAVE_TRAP) },
		{ WAVES_ILLEGAL, MASK(EC_QUEUE_WAVE_ILLEGAL_INSTRUCTION) },
	};
	const int fd = self->dev.fd, pid = self->child.pid;
	struct kfd_ioctl_dbg_trap_args args;
	uint32_t size = 0, queue;
	unsigned int i;
	char room;

	ASSERT_EQ(0, attach_to_queue(self, WAVES));
	queue = self->child.shared->queue_id;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_WRONG, cases[i].what));
		EXPECT_TRUE(is_notified(self, SOON_MS));
		EXPECT_EQ(0, query(fd, pid, 0, &args));
		EXPECT_EQ(cases[i].mask | MASK(EC_QUEUE_NEW), args.query_debug_event.exception_mask);
		EXPECT_EQ(queue, args.query_debug_event.queue_id);
		EXPECT_EQ(-ENODATA, query_info(fd, pid, EC_QUEUE_WAVE_MATH_ERROR, queue, true, &room,
					       &size));
		EXPECT_EQ(-EINVAL, query_info(fd, pid, 1 + (uint32_t)i, 99, true, &room, &size));
		EXPECT_EQ(0, query(fd, pid, cases[i].mask, &args));
		EXPECT_EQ(-EAGAIN, query(fd, pid, 0, &args));
	}
	/* What it does not handle is for the runtime. */
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_WRONG, WAVES_ABORT));
	EXPECT_TRUE(is_notified(self, SOON_MS));
	EXPECT_EQ(0, send_event(fd, pid, MASK(EC_QUEUE_WAVE_ABORT), 0, queue));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_TOLD, MASK(EC_QUEUE_WAVE_ABORT)));
	/* What it does not want to know is, too. */
	EXPECT_EQ(0, subscribe(fd, pid, 0));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_WRONG, WAVES_TRAP));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_TOLD,
				 MASK(EC_QUEUE_WAVE_ABORT) | MASK(EC_QUEUE_WAVE_TRAP)));
	EXPECT_FALSE(is_notified(self, 0));
	EXPECT_EQ(0, subscribe(fd, pid, MASK(EC_QUEUE_WAVE_TRAP)));
	EXPECT_TRUE(is_notified(self, SOON_MS));
	EXPECT_EQ(0, query_info(fd, pid, EC_QUEUE_WAVE_TRAP, queue, true, &room, &size));
	EXPECT_EQ(0, size);
	EXPECT_EQ(-EAGAIN, query(fd, pid, 0, &args));
	EXPECT_EQ(0, detach(self));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_WORKS, 0));
}

/* A queue that comes and goes. */
TEST_F(debug, queues_come_and_go)
{
	const int fd = self->dev.fd, pid = self->child.pid;
	struct kfd_ioctl_dbg_trap_args args;

	ASSERT_EQ(0, attach(self, MASK(EC_QUEUE_NEW) | MASK(EC_DEVICE_QUEUE_DELETE)));
	ASSERT_EQ(0, debuggee_do(&self->child, DEBUGGEE_OPEN, 0));
	ASSERT_EQ(0, debuggee_do(&self->child, DEBUGGEE_QUEUE, 0));
	EXPECT_TRUE(is_notified(self, SOON_MS));
	EXPECT_EQ(0, query(fd, pid, MASK(EC_QUEUE_NEW), &args));
	EXPECT_EQ(self->child.shared->queue_id, args.query_debug_event.queue_id);
	EXPECT_EQ(-EAGAIN, query(fd, pid, 0, &args));
	ASSERT_EQ(0, debuggee_do(&self->child, DEBUGGEE_DESTROY, 0));
	EXPECT_TRUE(is_notified(self, SOON_MS));
	EXPECT_EQ(0, query(fd, pid, MASK(EC_DEVICE_QUEUE_DELETE), &args));
	EXPECT_EQ(MASK(EC_DEVICE_QUEUE_DELETE), args.query_debug_event.exception_mask);
	EXPECT_EQ(self->child.shared->gpu_id, args.query_debug_event.gpu_id);
	EXPECT_EQ(0, args.query_debug_event.queue_id);
	EXPECT_EQ(-EAGAIN, query(fd, pid, 0, &args));
	EXPECT_EQ(0, detach(self));
}

/* The debugger takes a refused access, and gives it back. */
TEST_F(debug, memory_violation)
{
	const int fd = self->dev.fd, pid = self->child.pid;
	struct kfd_hsa_memory_exception_data data = { 0 };
	struct kfd_ioctl_dbg_trap_args args;
	uint32_t size = sizeof(data), gpu;

	ASSERT_EQ(0, attach_to_queue(self, MASK(EC_DEVICE_MEMORY_VIOLATION)));
	gpu = self->child.shared->gpu_id;
	ASSERT_EQ(0, debuggee_do(&self->child, DEBUGGEE_FAULT, 0));
	EXPECT_TRUE(is_notified(self, SOON_MS));
	EXPECT_EQ(0, query(fd, pid, 0, &args));
	EXPECT_EQ(MASK(EC_DEVICE_MEMORY_VIOLATION), args.query_debug_event.exception_mask);
	EXPECT_EQ(gpu, args.query_debug_event.gpu_id);
	EXPECT_EQ(0, args.query_debug_event.queue_id);
	/* The runtime does not know. */
	EXPECT_EQ(ETIMEDOUT, debuggee_do(&self->child, DEBUGGEE_FAULTED, 0));
	EXPECT_EQ(0, query_info(fd, pid, EC_DEVICE_MEMORY_VIOLATION, gpu, false, &data, &size));
	if (kfd_is_rkfd()) {
		EXPECT_EQ(sizeof(data), size);
		EXPECT_EQ(DEBUGGEE_NOTHING, data.va & ~(DEBUGGEE_PAGES * KFD_PAGE - 1ull));
		EXPECT_EQ(gpu, data.gpu_id);
		EXPECT_EQ(1, data.failure.NotPresent);
	} else {
		EXPECT_EQ(0, size);	/* it does not count the data */
	}
	EXPECT_EQ(0, send_event(fd, pid, MASK(EC_DEVICE_MEMORY_VIOLATION), gpu, 0));
	EXPECT_EQ(0, debuggee_do(&self->child, DEBUGGEE_FAULTED, SOON_MS));
	EXPECT_EQ(0, detach(self));
}

/* A call that waits for the debugger is interrupted, and made again. */
static void nothing(int signal)
{
	(void)signal;
}

TEST_F(debug, runtime_is_interrupted)
{
	struct sigaction action = { .sa_handler = nothing };
	struct kfd_ioctl_runtime_enable_args args = { .mode_mask = ON };
	struct kfd_runtime_info info;
	int err, status, fd;
	pid_t pid;

	pid = fork();
	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		sigaction(SIGUSR1, &action, NULL);
		fd = open(KFD_PATH, O_RDWR);
		err = ioctl(fd, AMDKFD_IOC_RUNTIME_ENABLE, &args) ? errno : 0;
		if (err != EINTR)
			_exit(1);
		_exit(ioctl(fd, AMDKFD_IOC_RUNTIME_ENABLE, &args) ? errno : 0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, enable(self->dev.fd, pid, MASK(EC_PROCESS_RUNTIME), self->notice[1], &info));
	ASSERT_EQ(0, ptrace(PTRACE_CONT, pid, NULL, NULL));
	EXPECT_TRUE(is_notified(self, SOON_MS));
	kill(pid, SIGUSR1);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_TRUE(WIFSTOPPED(status));
	ASSERT_EQ(0, ptrace(PTRACE_CONT, pid, NULL, SIGUSR1));
	EXPECT_FALSE(is_notified(self, NOT_MS));
	EXPECT_EQ(0, send_event(self->dev.fd, pid, MASK(EC_PROCESS_RUNTIME), 0, 0));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

KFD_HARNESS_MAIN
