// SPDX-License-Identifier: GPL-2.0
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "tap.h"

pid_t child_fork(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		die("fork failed");
	return pid;
}

pid_t child_start(void (*run)(int ready, unsigned int number), unsigned int number)
{
	int pipes[2], status;
	bool ready;
	char byte;
	pid_t pid;

	if (pipe(pipes) != 0)
		die("pipe failed");
	pid = child_fork();
	if (pid == 0) {
		close(pipes[0]);
		run(pipes[1], number);
		exit(EXIT_FAILURE);
	}
	close(pipes[1]);
	ready = read(pipes[0], &byte, 1) == 1;
	close(pipes[0]);
	if (ready)
		return pid;
	waitpid(pid, &status, 0);
	tap_note("process %u ended with status %#x before it was ready", number, status);
	return 0;
}

bool child_kill(pid_t pid)
{
	int status;

	if (pid <= 0)
		return false;
	kill(pid, SIGKILL);
	return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) &&
	       WTERMSIG(status) == SIGKILL;
}

int child_status(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

bool children_succeed(const pid_t *pid, unsigned int count)
{
	bool good = true;
	unsigned int i;
	int status;

	for (i = 0; i < count; i++) {
		if (waitpid(pid[i], &status, 0) == pid[i] && WIFEXITED(status) &&
		    WEXITSTATUS(status) == 0)
			continue;
		tap_note("process %u ended with status %#x", i, status);
		good = false;
	}
	return good;
}
