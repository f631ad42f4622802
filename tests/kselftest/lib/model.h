/* SPDX-License-Identifier: GPL-2.0 */
/* The device model's control line, for tests that need a misbehaving device. */
#ifndef RKFD_TEST_MODEL_H
#define RKFD_TEST_MODEL_H

#include <stdbool.h>
#include <stddef.h>

/* True if there is a model; on a real GPU there is not. */
bool model_present(void);
/* Sends a command; false unless the answer begins with "ok". */
bool model_command(const char *command);
/* Sends a command that is for one SDMA engine for each of them. */
bool model_engines(const char *verb);
/* The same as model_command(), with the answer without its "ok ". */
bool model_ask(const char *command, char *answer, size_t size);

/*
 * The model's counters @names, each GROUP.KEY or, for the sum of those that begin so, GROUP.PREFIX*;
 * blanks are between them. 0 without a model. Each question takes some ten milliseconds.
 */
void model_counts(const char *names, unsigned long long *counts, size_t number);
/* One of them. */
unsigned long long model_count(const char *group, const char *key);
/* Waits until that is more than @before; true if it is within timeout_ms(). */
bool model_exceeds(const char *group, const char *key, unsigned long long before);

#endif /* RKFD_TEST_MODEL_H */
