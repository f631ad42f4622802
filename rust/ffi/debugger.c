// SPDX-License-Identifier: GPL-2.0
/* Tasks and files that debuggers name. */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/ptrace.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/stat.h>
#include <linux/string.h>
#include <linux/uio.h>

#include "rkfd_shims.h"

/* The task of this number in the caller's namespace, with a reference, or NULL. */
struct task_struct *rkfd_find_get_task(pid_t nr)
{
	struct pid *pid = find_get_pid(nr);
	struct task_struct *task = get_pid_task(pid, PIDTYPE_PID);

	put_pid(pid);
	return task;
}

/* The first thread of this process of the initial namespace, with a reference, or NULL. */
struct task_struct *rkfd_find_get_process(pid_t nr)
{
	struct task_struct *task;

	rcu_read_lock();
	task = pid_task(find_pid_ns(nr, &init_pid_ns), PIDTYPE_TGID);
	if (task)
		get_task_struct(task);
	rcu_read_unlock();
	return task;
}

/* The number of the task in its own namespace. */
pid_t rkfd_task_own_nr(struct task_struct *task)
{
	return task_pid_nr_ns(task, task_active_pid_ns(task));
}

/* With a reference to its memory, or NULL. */
struct mm_struct *rkfd_get_task_mm(struct task_struct *task)
{
	return get_task_mm(task);
}

/* The name of the task's process. */
void rkfd_get_task_name(struct task_struct *task, char *name, size_t size)
{
	rcu_read_lock();
	strscpy_pad(name, task->group_leader->comm, size);
	rcu_read_unlock();
}

bool rkfd_is_ptraced_by_current(struct task_struct *task)
{
	bool traced;

	rcu_read_lock();
	traced = ptrace_parent(task) == current;
	rcu_read_unlock();
	return traced;
}

/* The same of the first thread of the task's process. */
bool rkfd_is_leader_ptraced_by_current(struct task_struct *task)
{
	bool traced;

	rcu_read_lock();
	traced = ptrace_parent(task->group_leader) == current;
	rcu_read_unlock();
	return traced;
}

/* Returns how many bytes were written. */
int rkfd_write_process_vm(struct task_struct *task, unsigned long address, void *from, int size)
{
	return access_process_vm(task, address, from, size, FOLL_WRITE);
}

/* Does nothing for a file that is no pipe, or may not be written, and for a pipe that is full. */
void rkfd_pipe_write_byte(struct file *file, char byte)
{
	struct kvec vec = { .iov_base = &byte, .iov_len = 1 };
	struct kiocb call;
	struct iov_iter from;

	if (!S_ISFIFO(file_inode(file)->i_mode) || !(file->f_mode & FMODE_WRITE))
		return;
	init_sync_kiocb(&call, file);
	call.ki_flags |= IOCB_NOWAIT;
	iov_iter_kvec(&from, ITER_SOURCE, &vec, 1, 1);
	file->f_op->write_iter(&call, &from);
}
