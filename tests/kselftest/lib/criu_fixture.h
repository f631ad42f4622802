/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A process that is saved, killed and restored: children that do what the test orders, and the
 * memory that they share, by which the second one knows the objects of the first.
 */
#ifndef RKFD_TEST_CRIU_FIXTURE_H
#define RKFD_TEST_CRIU_FIXTURE_H

#include "criu.h"
#include "debuggee.h"
#include "kfd_harness.h"
#include "packets.h"

#define SOON_MS	KFD_HANG_MS
#define NOT_MS	300u
#define COPY	0x10000u
#define USER	0x180000000000ull	/* where user memory is */

/* Beside those of enum debuggee_order. */
enum order {
	RESTORE = 100,	/* in a new process; 0 or the errno */
	RESTORE_AS,	/* the same, of a process that knows the GPU by the id that is given */
	NAMES,		/* 0 if it knows the GPU by that id */
	REFUSES,	/* 0 if damaged data is refused */
	EVENT_SET,	/* SET_EVENT of the first event */
	EVENT_THERE,	/* 0 if that event is set, and its number is taken */
	GREW,		/* 0 if each wave has come further than when it was saved */
	OWNS,		/* 0 if buffers and queues are found by their old names */
	REGISTERS,	/* buffers of doorbells and of flush registers */
	FLUSHES,	/* 0 if the CPU can use the latter */
	SDMA_START,	/* a queue that copies and then waits for the gate; 0 if it has come there */
	SDMA_END,	/* opens the gate; 0 if the second copy, and only that, is made then */
	USER_START,	/* user memory that the GPU may write */
	USER_MAP,	/* lays out that memory, in a process that was restored without */
	USER_AGAIN,	/* unmaps and maps it for the GPU */
	USER_WORKS,	/* 0 if a queue writes to it */
	USER_QUEUE,	/* a queue of SDMA with its pointers there; 0 if it works */
	USER_QUEUE_WORKS,	/* 0 if it still does */
	SVM_START,	/* attributes of user memory */
	SVM_THERE,	/* 0 if the attributes are there */
};

/* What the processes share: the second has all that the first knows of its objects. */
struct all {
	struct debuggee_shared shared;
	struct debuggee_state state;
	struct criu_dump dump;
	struct kfd_queue sdma;
	struct kfd_bo from, to, gate;
	uint64_t user_handle, doorbells, flush, handle;
};

FIXTURE(restored)
{
	struct all *all;
	struct kfd_dev own;
	pid_t pid;
	int orders, answers;
};

static inline int sdma_copy_to(struct all *all, size_t at)
{
	struct packets p = { 0 };

	sdma_copy(&p, (uintptr_t)all->to.cpu + at, (uintptr_t)all->from.cpu, COPY);
	kfd_queue_submit(&all->sdma, p.dwords, p.count);
	return 0;
}

static inline bool is_copied(const struct all *all, size_t at)
{
	return !memcmp((char *)all->to.cpu + at, all->from.cpu, COPY);
}

static inline int sdma_start(struct all *all)
{
	const struct kfd_dev *dev = &all->state.dev;
	struct packets p = { 0 };
	uint32_t i;
	int err = kfd_bo_create(dev, &all->from, COPY, KFD_ALLOC_VRAM);

	if (!err)
		err = kfd_bo_create(dev, &all->to, 2 * COPY, KFD_ALLOC_GTT);
	if (!err)
		err = kfd_bo_create(dev, &all->gate, KFD_PAGE, KFD_ALLOC_GTT);
	if (!err)
		err = kfd_queue_create(dev, &all->sdma, 16384);
	if (err)
		return err;
	for (i = 0; i < COPY / 4; i++)
		((volatile uint32_t *)all->from.cpu)[i] = i * 2654435761u;
	memset(all->to.cpu, 0, 2 * COPY);
	memset(all->gate.cpu, 0, KFD_PAGE);
	sdma_copy_to(all, 0);
	/* This must happen once, before and after. */
	sdma_atomic_add64(&p, (uintptr_t)all->gate.cpu + 8, 1);
	kfd_queue_submit(&all->sdma, p.dwords, p.count);
	err = kfd_queue_finish(&all->sdma, SOON_MS);
	if (err || !is_copied(all, 0))
		return err ? err : EBADMSG;
	p.count = 0;
	sdma_wait_memory(&p, (uintptr_t)all->gate.cpu, 1);
	kfd_queue_submit(&all->sdma, p.dwords, p.count);
	return sdma_copy_to(all, COPY);
}

static inline int sdma_end(struct all *all)
{
	volatile uint64_t *const gate = all->gate.cpu;
	int err;

	if (is_copied(all, COPY) || !is_copied(all, 0))
		return EBADMSG;
	gate[0] = 1;
	err = kfd_queue_finish(&all->sdma, SOON_MS);
	if (err)
		return err;
	return is_copied(all, COPY) && gate[1] == 1 ? 0 : EBADMSG;
}

static inline int registers(struct all *all)
{
	const struct kfd_dev *dev = &all->state.dev;

	all->doorbells = kfd_map_registers(dev, KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL,
					   KFD_DOORBELL_SLICE, &all->handle);
	all->flush = kfd_map_registers(dev, KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP, KFD_PAGE,
				       &all->handle);
	return all->doorbells && all->flush ? 0 : EINVAL;
}

static inline int user_map(void)
{
	return mmap((void *)USER, KFD_PAGE * 4, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED ?
	       errno : 0;
}

static inline int user_start(struct all *all)
{
	const struct kfd_dev *dev = &all->state.dev;
	int err = user_map();

	if (!err)
		err = kfd_alloc_at(dev, KFD_ALLOC_USERPTR, USER, KFD_PAGE * 4, &all->user_handle);
	return err ? err : kfd_map(dev->fd, all->user_handle, dev->gpu_id);
}

/* The same memory once more, with what the queue's pointers were. */
static inline int user_map_again(const struct all *all)
{
	uint64_t *const pointers = all->sdma.pointers.cpu;
	const int err = user_map();

	if (!err && (uintptr_t)pointers == USER + KFD_PAGE)
		pointers[KFD_QUEUE_WPTR / 8] = pointers[KFD_QUEUE_RPTR / 8] = all->sdma.wptr;
	return err;
}

static inline int user_queue(struct all *all)
{
	const struct kfd_dev *dev = &all->state.dev;
	struct kfd_queue *const queue = &all->sdma;
	struct kfd_ioctl_create_queue_args args;
	int err = kfd_bo_create(dev, &queue->ring, 16384, KFD_ALLOC_GTT);

	if (err)
		return err;
	queue->pointers.cpu = (void *)(USER + KFD_PAGE);
	kfd_queue_args(dev, &queue->ring, &queue->pointers, &args);
	err = kfd_ioctl(dev->fd, AMDKFD_IOC_CREATE_QUEUE, &args);
	if (err)
		return err;
	queue->id = args.queue_id;
	err = kfd_doorbell_map(dev->fd, args.doorbell_offset, &queue->slice, &queue->doorbell);
	return err ? err : kfd_queue_finish(queue, SOON_MS);
}

static inline int user_again(const struct all *all)
{
	const struct kfd_dev *dev = &all->state.dev;
	const int err = kfd_unmap(dev->fd, all->user_handle, dev->gpu_id);

	return err ? err : kfd_map(dev->fd, all->user_handle, dev->gpu_id);
}

static inline int user_works(struct all *all)
{
	volatile uint32_t *const word = (uint32_t *)USER;
	const uint32_t value = *word + 1;
	struct packets p = { 0 };

	pm4_write(&p, USER, value);
	if (!kfd_compute_pm4(&all->state.queue, &p))
		return ETIMEDOUT;
	return kfd_becomes(word, value, SOON_MS) ? 0 : ETIMEDOUT;
}

static inline int svm_call(const struct all *all, uint32_t op, struct kfd_ioctl_svm_attribute *attribute)
{
	struct {
		struct kfd_ioctl_svm_args args;
		struct kfd_ioctl_svm_attribute attribute;
	} call = {
		.args = {
			.start_addr = USER, .size = KFD_PAGE * 4, .op = op, .nattr = 1,
		},
		.attribute = *attribute,
	};
	const int err = kfd_ioctl(all->state.dev.fd,
				  KFD_COMMAND(_IOC_READ | _IOC_WRITE, 0x20, sizeof(call)), &call);

	*attribute = call.attribute;
	return err;
}

static inline int svm_start(struct all *all)
{
	struct kfd_ioctl_svm_attribute gpu = {
		KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE, all->state.dev.gpu_id,
	};
	struct kfd_ioctl_svm_attribute granularity = { KFD_IOCTL_SVM_ATTR_GRANULARITY, 3 };
	int err = user_map();

	if (!err)
		err = svm_call(all, KFD_IOCTL_SVM_OP_SET_ATTR, &gpu);
	return err ? err : svm_call(all, KFD_IOCTL_SVM_OP_SET_ATTR, &granularity);
}

static inline int svm_there(struct all *all)
{
	struct kfd_ioctl_svm_attribute gpu = {
		KFD_IOCTL_SVM_ATTR_ACCESS, all->state.dev.gpu_id,
	};
	struct kfd_ioctl_svm_attribute granularity = { KFD_IOCTL_SVM_ATTR_GRANULARITY, 0 };
	int err = svm_call(all, KFD_IOCTL_SVM_OP_GET_ATTR, &gpu);

	if (!err)
		err = svm_call(all, KFD_IOCTL_SVM_OP_GET_ATTR, &granularity);
	if (err)
		return err;
	if (gpu.type != KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE || granularity.value != 3)
		return EBADMSG;
	return user_works(all);
}

static inline int map_slice(const struct all *all, void *slice)
{
	const uint64_t offset = KFD_OFFSET_DOORBELL | KFD_OFFSET_GPU(all->state.dev.gpu_id);

	if (!slice)
		return 0;
	return mmap(slice, KFD_DOORBELL_SLICE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		    all->state.dev.fd, (off_t)offset) == MAP_FAILED ? errno : 0;
}

/* In the new process: its files, user memory if there was some, and all the rest. */
static inline int restore(struct all *all, bool user, uint32_t as)
{
	int err = kfd_open_files(&all->state.dev);

	if (!err && user)
		err = user_map();
	if (!err && as) {
		err = criu_rename_gpu(&all->dump, as);
		all->state.dev.gpu_id = as;
	}
	if (!err)
		err = criu_restore(&all->state.dev, &all->dump);
	if (!err)
		err = map_slice(all, all->state.queue.slice);
	return err ? err : map_slice(all, all->sdma.slice);
}

static inline int names(const struct all *all)
{
	const struct kfd_dev *dev = &all->state.dev;
	struct kfd_process_device_apertures apertures = { 0 };
	struct kfd_ioctl_get_process_apertures_new_args args = {
		.kfd_process_device_apertures_ptr = (uintptr_t)&apertures,
		.num_of_nodes = 1,
	};
	struct kfd_bo bo;
	int err = kfd_ioctl(dev->fd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &args);

	if (!err)
		err = kfd_bo_create(dev, &bo, KFD_PAGE, KFD_ALLOC_VRAM);
	if (err)
		return err;
	if (apertures.gpu_id != dev->gpu_id || bo.handle >> 32 != dev->gpu_id)
		return EBADMSG;
	return kfd_bo_destroy(dev, &bo);
}

static inline int refused(struct all *all, const char *what)
{
	const int err = criu_restore_call(&all->state.dev, &all->dump);

	if (err == EINVAL)
		return 0;
	printf("# %s: %d\n", what, err);
	return err ? err : EBADMSG;
}

static inline int refuses(struct all *all)
{
	struct kfd_ioctl_criu_args *const args = &all->dump.args;
	const struct kfd_ioctl_criu_args good = *args;
	const struct kfd_criu_bo_bucket bo = all->dump.bos[1];
	uint32_t *const words = all->dump.priv;
	const uint64_t count = good.priv_data_size / 4;
	int err = kfd_open_files(&all->state.dev);
	uint64_t bit;

	for (bit = 0; bit < count * 32 && !err; bit += 1 + bit / 64) {
		words[bit / 32] ^= 1u << bit % 32;
		err = refused(all, "a flipped bit");
		words[bit / 32] ^= 1u << bit % 32;
	}
#define WRONG(member, value)						\
	do {								\
		args->member = (value);					\
		if (!err)						\
			err = refused(all, #member);			\
		*args = good;						\
	} while (0)
	for (bit = 0; bit < count; bit += 1 + bit / 8)
		WRONG(priv_data_size, bit * 4);
	WRONG(priv_data_size, good.priv_data_size - 1);
	WRONG(priv_data_size, good.priv_data_size + 4);
	WRONG(priv_data_size, UINT64_MAX);
	WRONG(priv_data, 0);
	WRONG(devices, 0);
	WRONG(bos, 0);
	WRONG(num_devices, 0);
	WRONG(num_devices, good.num_devices + 1);
	WRONG(num_bos, good.num_bos - 1);
	WRONG(num_objects, good.num_objects + 1);
	if (err)
		return err;
	all->dump.bos[1].size += KFD_PAGE;
	err = refused(all, "another buffer");
	all->dump.bos[1] = bo;
	/* It is half restored, and cannot be once more. */
	return err ? err : refused(all, "a second time");
}

static inline int grew(const struct all *all)
{
	const struct waves *waves = &all->state.waves;
	const struct waves_record *saved = NULL;
	unsigned int i;

	for (i = 0; i < all->dump.args.num_bos; i++)
		if (all->dump.bos[i].addr == (uintptr_t)waves->data.cpu)
			saved = (void *)((char *)all->dump.contents[i] + WAVES_RECORDS);
	for (i = 0; saved && i < waves->count; i++)
		if (!saved[i].rounds || waves_record(waves, i)->rounds <= saved[i].rounds)
			return EBADMSG;
	return saved ? 0 : ENOENT;
}

static inline int owns(struct all *all)
{
	const struct kfd_dev *dev = &all->state.dev;
	int err = kfd_compute_destroy(dev, &all->state.queue);

	if (!err && kfd_destroy_queue(dev->fd, all->state.queue.id) != EINVAL)
		err = EBADMSG;
	if (!err)
		err = waves_destroy(dev, &all->state.waves);
	return err ? err : kfd_save_destroy(dev, &all->state.save);
}

static inline int obey(struct all *all, uint32_t order, uint32_t arg)
{
	const struct kfd_dev *dev = &all->state.dev;

	switch (order) {
	case RESTORE:
		return restore(all, arg != 0, 0);
	case RESTORE_AS:
		return restore(all, false, arg);
	case NAMES:
		return names(all);
	case REFUSES:
		return refuses(all);
	case EVENT_SET:
		return event_set(dev, all->state.event);
	case EVENT_THERE:
		return event_wait(dev, all->state.event, NOT_MS);
	case GREW:
		return grew(all);
	case OWNS:
		return owns(all);
	case REGISTERS:
		return registers(all);
	case FLUSHES:
		*(volatile uint32_t *)all->flush = 1;
		return kfd_unmap(dev->fd, all->handle, dev->gpu_id);
	case SDMA_START:
		return sdma_start(all);
	case SDMA_END:
		return sdma_end(all);
	case USER_START:
		return user_start(all);
	case USER_MAP:
		return user_map_again(all);
	case USER_AGAIN:
		return user_again(all);
	case USER_WORKS:
		return user_works(all);
	case USER_QUEUE:
		return user_queue(all);
	case USER_QUEUE_WORKS:
		return kfd_queue_finish(&all->sdma, SOON_MS);
	case SVM_START:
		return svm_start(all);
	case SVM_THERE:
		return svm_there(all);
	default:
		return debuggee_obey(&all->state, &all->shared, order, arg);
	}
}

/* A process that the calling thread traces, and that does what it orders. */
static inline int start(FIXTURE_DATA(restored) *self)
{
	int orders[2], answers[2], status;
	uint32_t order[2];

	if (pipe2(orders, O_CLOEXEC) || pipe2(answers, O_CLOEXEC))
		return errno;
	self->pid = fork();
	if (self->pid < 0)
		return errno;
	if (self->pid == 0) {
		close(orders[1]);
		close(answers[0]);
		/* Its files are its own. */
		close(self->own.fd);
		close(self->own.drm_fd);
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		while (read(orders[0], order, sizeof(order)) == sizeof(order)) {
			const int err = obey(self->all, order[0], order[1]);

			if (write(answers[1], &err, sizeof(err)) != sizeof(err))
				break;
		}
		_exit(1);
	}
	close(orders[0]);
	close(answers[1]);
	self->orders = orders[1];
	self->answers = answers[0];
	if (waitpid(self->pid, &status, 0) != self->pid || !WIFSTOPPED(status))
		return ECHILD;
	return ptrace(PTRACE_CONT, self->pid, NULL, NULL) ? errno : 0;
}

static inline void end(FIXTURE_DATA(restored) *self)
{
	int status;

	if (!self->pid)
		return;
	kill(self->pid, SIGKILL);
	while (waitpid(self->pid, &status, 0) == self->pid && WIFSTOPPED(status))
		ptrace(PTRACE_CONT, self->pid, NULL, NULL);
	close(self->orders);
	close(self->answers);
	self->pid = 0;
}

static inline int ask(FIXTURE_DATA(restored) *self, uint32_t what, uint32_t arg)
{
	const uint32_t order[2] = { what, arg };
	struct pollfd fd = { .fd = self->answers, .events = POLLIN };
	int err;

	if (write(self->orders, order, sizeof(order)) != sizeof(order))
		return EPIPE;
	if (poll(&fd, 1, KFD_HANG_MS * 2) != 1)
		return ETIMEDOUT;
	return read(self->answers, &err, sizeof(err)) == sizeof(err) ? err : EPIPE;
}

/* Saves the process, kills it, and starts another. */
static inline int replace(FIXTURE_DATA(restored) *self)
{
	const int fd = criu_file_of(self->pid);
	int err = fd < 0 ? EBADF : criu_dump(fd, &self->all->dump);

	close(fd);
	end(self);
	return err ? err : start(self);
}

static inline int resume(FIXTURE_DATA(restored) *self)
{
	return criu_resume(self->own.fd, self->pid);
}

FIXTURE_SETUP(restored)
{
	ASSERT_EQ(0, kfd_open_files(&self->own));
	self->all = mmap((void *)(CRIU_PLACE / 2), sizeof(*self->all), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	ASSERT_NE(MAP_FAILED, self->all);
	ASSERT_EQ(0, start(self));
}

FIXTURE_TEARDOWN(restored)
{
	end(self);
	criu_free(&self->all->dump);
	munmap(self->all, sizeof(*self->all));
	kfd_close(&self->own);
}

#endif /* RKFD_TEST_CRIU_FIXTURE_H */
