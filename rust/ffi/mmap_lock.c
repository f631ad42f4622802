// SPDX-License-Identifier: GPL-2.0
/* Shims for the lock of a process's memory, and for waiting until memory is faulted in. */
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/sched/signal.h>
#include <linux/task_work.h>
#include <linux/timer.h>

#include "rkfd_shims.h"

/* A time limit for a task that waits for a lock: the timer interrupts the task. */
struct rkfd_limit {
	struct timer_list timer;
	struct task_struct *task;
};

static void rkfd_limit_is_over(struct timer_list *timer)
{
	struct rkfd_limit *limit = timer_container_of(limit, timer, timer);

	/* As TWA_SIGNAL does: this ends an interruptible wait. */
	set_tsk_thread_flag(limit->task, TIF_NOTIFY_SIGNAL);
	wake_up_process(limit->task);
}

bool rkfd_mmap_read_lock_within(struct mm_struct *mm, unsigned long jiffies_at_most)
{
	struct rkfd_limit limit = { .task = current };
	sigset_t fatal, blocked;
	bool locked;

	if (mmap_read_trylock(mm))
		return true;
	/* A signal that does not end the task would end every wait at once until it is handled. */
	siginitsetinv(&fatal, sigmask(SIGKILL));
	sigprocmask(SIG_SETMASK, &fatal, &blocked);
	clear_notify_signal();
	/*
	 * A trylock never succeeds while the lock has waiters, and it always has some where threads
	 * change the memory all the time. The lock can be waited for until the waiter is
	 * interrupted, but not with a time limit.
	 */
	timer_setup_on_stack(&limit.timer, rkfd_limit_is_over, 0);
	mod_timer(&limit.timer, jiffies + jiffies_at_most);
	locked = !down_read_interruptible(&mm->mmap_lock);
	timer_delete_sync(&limit.timer);
	timer_destroy_on_stack(&limit.timer);
	sigprocmask(SIG_SETMASK, &blocked, NULL);
	clear_notify_signal();
	/* The flag may also have been set for pending task work. */
	if (task_work_pending(current))
		set_thread_flag(TIF_NOTIFY_SIGNAL);
	return locked;
}

void rkfd_mmap_read_unlock(struct mm_struct *mm)
{
	mmap_read_unlock(mm);
}

int rkfd_mmap_await_killable(struct mm_struct *mm)
{
	int err = mmap_read_lock_killable(mm);

	if (!err)
		mmap_read_unlock(mm);
	return err;
}

bool rkfd_mmap_is_free(struct mm_struct *mm)
{
	/* Nothing changes under the lock, so readers of single VMAs need no notification. */
	if (!down_write_trylock(&mm->mmap_lock))
		return false;
	up_write(&mm->mmap_lock);
	return true;
}

long rkfd_fault_in_killable(struct mm_struct *mm, unsigned long start, unsigned long pages,
			    bool write)
{
	int locked = 1;
	long done;

	if (mmap_read_lock_killable(mm))
		return -EINTR;
	done = get_user_pages_remote(mm, start, pages, write ? FOLL_WRITE : 0, NULL, &locked);
	if (locked)
		mmap_read_unlock(mm);
	return done;
}

long rkfd_pin_killable(struct mm_struct *mm, unsigned long start, unsigned long pages,
		       unsigned int flags, struct page **list)
{
	int locked = 1;
	long done;

	if (mmap_read_lock_killable(mm))
		return -EINTR;
	done = pin_user_pages_remote(mm, start, pages, flags, list, &locked);
	if (locked)
		mmap_read_unlock(mm);
	return done;
}
