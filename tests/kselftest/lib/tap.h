/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Results in TAP, and every program's parameters: whether there is a device at all, the amount
 * of work, the timeout.
 */
#ifndef RKFD_TEST_TAP_H
#define RKFD_TEST_TAP_H

#include <stdbool.h>

#define EXIT_SKIP	4

/* Prints the TAP header; ends the program with EXIT_SKIP without /dev/kfd. */
void tap_start(void);
/* One result; returns @ok. */
bool tap_ok(bool ok, const char *name, ...) __attribute__((format(printf, 2, 3)));
void tap_skip(const char *name, const char *why);
/* A remark that belongs to the result before it. */
void tap_note(const char *text, ...) __attribute__((format(printf, 1, 2)));
/* The plan; returns the program's exit status. */
int tap_end(void);
/* Prints a failure without which no result means anything, and exits with 1. */
void die(const char *text, ...)
	__attribute__((format(printf, 1, 2), noreturn));

/* RKFD_QUICK=1 shrinks the work, for a kernel that checks everything. */
bool quick(void);
/* @full, or @few in a quick run. */
unsigned int work(unsigned int full, unsigned int few);
/*
 * Timeout of events that must come, on a busy machine too: later means a hang. RKFD_TIMEOUT in
 * seconds, 120 by default.
 */
unsigned int timeout_ms(void);

/* A monotonic clock. */
unsigned long long now_ns(void);
/* Pseudo-random numbers; the seed is fixed, RKFD_SEED changes it. */
unsigned int random_below(unsigned int limit);

#endif /* RKFD_TEST_TAP_H */
