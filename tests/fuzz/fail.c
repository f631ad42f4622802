// SPDX-License-Identifier: GPL-2.0
/*
 * fail [SCENE...]: every allocation and every user copy of a call fails in turn: the call
 * returns an errno or does without, works when it is made again, and leaves nothing behind. Of
 * all scenes, or of those whose names begin as one of the arguments does.
 *
 * Needs a kernel with fault injection (failslab, fail_page_alloc, fail_usercopy), whose
 * fail-nth makes the Nth of a thread's fault points fail.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "neighbour.h"
#include "objects.h"
#include "scenes.h"
#include "tap.h"

#define DEBUGFS		"/sys/kernel/debug/"
#define FAIL_NTH	"/proc/thread-self/fail-nth"
/* No call has as many fault points. */
#define MOST		2000u
#define RETURN_MS	20000u

static void write_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	if (!f || fputs(text, f) < 0 || fclose(f) != 0)
		die("%s cannot be set", path);
}

/* All allocations may fail, and silently: only the driver's messages count. */
static void prepare(void)
{
	write_text(DEBUGFS "failslab/ignore-gfp-wait", "N");
	write_text(DEBUGFS "failslab/verbose", "0");
	write_text(DEBUGFS "fail_page_alloc/ignore-gfp-wait", "N");
	write_text(DEBUGFS "fail_page_alloc/ignore-gfp-highmem", "N");
	write_text(DEBUGFS "fail_page_alloc/min-order", "0");
	write_text(DEBUGFS "fail_page_alloc/verbose", "0");
	write_text(DEBUGFS "fail_usercopy/verbose", "0");
}

/* Opened beforehand: opening it is a call with fault points of its own. */
static int nth_fd;

static bool set(unsigned int nth)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", nth);
	return pwrite(nth_fd, text, strlen(text), 0) >= 0;
}

/*
 * Ends it; true if the failure happened. Reading and writing the file are user copies, which
 * are fault points as well.
 */
static bool disarm(void)
{
	char text[16] = "";
	unsigned int tries;

	if (pread(nth_fd, text, sizeof(text) - 1, 0) < 0) {
		if (errno != EFAULT)
			die("fail-nth cannot be read");
		return false;
	}
	for (tries = 0; !set(0); tries++)
		if (errno != EFAULT || tries)
			die("fail-nth cannot be set");
	return atoi(text) == 0;
}

/* The end of a scene's process. */
enum outcome {
	FAILED = 10,	/* its fault point failed, as it should */
	NO_MORE,	/* there are fewer fault points */
	WRONG,
};

/* One process: fault point @nth of the scene's call fails. */
static enum outcome play(const struct scene *scene, unsigned int nth)
{
	struct stage stage = { 0 };
	bool failed;
	int err, again = 0;

	nth_fd = open(FAIL_NTH, O_RDWR);
	if (nth_fd < 0 || !scene->set(&stage)) {
		tap_note("%s: what it needs is not there", scene->name);
		return WRONG;
	}
	if (!set(nth))
		die("fail-nth cannot be set");
	err = scene->call(&stage);
	failed = disarm();
	if (err && !failed) {
		tap_note("%s: %s though nothing failed", scene->name, strerror(err));
		return WRONG;
	}
	if (err && err != ENOMEM && err != EFAULT) {
		tap_note("%s: %s when chance %u fails", scene->name, strerror(err), nth);
		return WRONG;
	}
	if (err)
		again = scene->call(&stage);
	/* It had been done, but its result could not be returned. */
	if (err == EFAULT && again == scene->done)
		again = 0;
	if (again) {
		tap_note("%s: %s when it is made again after chance %u failed", scene->name,
			 strerror(again), nth);
		return WRONG;
	}
	if (scene->undo && !scene->undo(&stage)) {
		tap_note("%s: not undone after chance %u failed", scene->name, nth);
		return WRONG;
	}
	return failed ? FAILED : NO_MORE;
}

/* All fault points of a scene's call; returns their number, or -1. */
static int play_all(const struct scene *scene)
{
	for (unsigned int nth = 1; nth <= MOST; nth++) {
		const pid_t pid = child_fork();
		int status;

		if (pid == 0)
			_exit(play(scene, nth));
		status = child_status(pid);
		if (status == NO_MORE)
			return (int)nth - 1;
		if (status != FAILED)
			return -1;
		/* Each takes a while where the host is busy. */
		if (nth % 50 == 0)
			tap_note("%s: %u chances so far", scene->name, nth);
	}
	tap_note("%s: there is no end to it", scene->name);
	return -1;
}

/* True if the arguments from @names on, which end with NULL, select a scene. */
static bool is_meant(const struct scene *scene, char *const *names)
{
	if (!*names)
		return true;
	for (; *names; names++)
		if (!strncmp(scene->name, *names, strlen(*names)))
			return true;
	return false;
}

/* Plays those of @count scenes that @names select. */
static void play_list(const struct scene *list, unsigned int count, const char *base,
		      char *const *names)
{
	for (unsigned int i = 0; i < count; i++) {
		int chances;
		bool back;

		if (!is_meant(&list[i], names))
			continue;
		chances = play_all(&list[i]);
		back = objects_return_to(base, RETURN_MS);
		tap_ok(chances >= 0 && back, "%s: %d chances", list[i].name, chances);
	}
}

int main(int argc, char **argv)
{
	char base[OBJECTS_MAX];

	(void)argc;

	tap_start();
	if (access(FAIL_NTH, F_OK) != 0 || access(DEBUGFS "fail_usercopy", F_OK) != 0) {
		printf("1..0 # SKIP the kernel has no fault injection\n");
		return EXIT_SKIP;
	}
	prepare();
	tap_ok(neighbour_once(), "a copy beforehand");
	if (!objects_base(base, 0))
		die("the GPU is in use");
	play_list(job_scenes, job_scene_count, base, argv + 1);
	play_list(debug_scenes, debug_scene_count, base, argv + 1);
	play_list(scenes, scene_count, base, argv + 1);
	tap_ok(neighbour_once(), "a copy afterwards");
	return tap_end();
}
