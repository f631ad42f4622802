/* SPDX-License-Identifier: GPL-2.0 */
/* A tracefs instance of the program's own, and counts of its text. */
#ifndef RKFD_TEST_TRACE_H
#define RKFD_TEST_TRACE_H

#include <stdbool.h>

/* Some ticks, after which the jobs of followed queues are there. */
#define FOLLOWS_US	50000

/* Makes an empty instance; false if tracefs is not there. */
bool trace_open(const char *name);
/* @event: "group/event", or "group" for all of it. */
bool trace_enable(const char *event);
/* Enables tracing of the calls of @count kernel functions; false if it cannot. */
bool trace_functions(const char *const *names, unsigned int count);
void trace_clear(void);
/*
 * Lines of @event (null: any) that hold @text (null: any).
 */
unsigned int trace_count(const char *event, const char *text);
/*
 * True if there are lines with both texts, and the first with @first is before the first with
 * @second.
 */
bool trace_before(const char *first, const char *second);
/* Prints up to @lines lines that hold @text (null: any), each after @prefix. */
void trace_print(const char *prefix, const char *text, unsigned int lines);
/* Waits until trace_count() reaches @wanted; false after @ms milliseconds. */
bool trace_wait(const char *event, const char *text, unsigned int wanted,
		unsigned int ms);
/* The first line of @event that holds @text; false if there is none. */
bool trace_find(const char *event, const char *text, char *line, unsigned int size);
/* Calls @see for each line, with its thread, in the order of time. */
void trace_each(void (*see)(const char *line, int thread, void *arg), void *arg);
/* The same, and takes the lines out of the trace: none is seen twice. */
void trace_take(void (*see)(const char *line, int thread, void *arg), void *arg);
void trace_close(void);

#endif /* RKFD_TEST_TRACE_H */
