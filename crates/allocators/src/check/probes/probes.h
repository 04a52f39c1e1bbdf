/* The program that `highwater allocators check` compiles and starts under a library, once for each
 * probe: `probes NAME SEED SECONDS`. Exit code 0: the probe found nothing; 1: a defect, said on
 * stdout; 3: it hung, and where is said; 77: it cannot be tried here. A signal is a crash, with what
 * was going on said on stdout. */
#ifndef PROBES_H
#define PROBES_H

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Says something and ends the program. Writes without stdio, which would allocate. */
#define END(code, ...)                                                                             \
    do {                                                                                           \
        char words[400];                                                                           \
        int length = snprintf(words, sizeof words, __VA_ARGS__);                                   \
        if (length >= (int)sizeof words) length = sizeof words - 1;                                \
        only_one();                                                                                \
        if (write(1, words, (size_t)length)) {                                                     \
        }                                                                                          \
        _exit(code);                                                                               \
    } while (0)
#define DEFECT(...) END(1, __VA_ARGS__)
#define CANNOT(...) END(77, __VA_ARGS__)

/* xorshift64*: the same numbers for the same seed on every machine. */
extern uint64_t seed;
static inline uint64_t next(uint64_t *state) {
    *state ^= *state >> 12, *state ^= *state << 25, *state ^= *state >> 27;
    return *state * 0x2545F4914F6CDD1DULL;
}
static inline size_t below(uint64_t *state, size_t limit) { return (size_t)(next(state) % limit); }

/* Fills a block so that every byte depends on the tag and its place, and looks whether it still
 * does. */
void fill(unsigned char *block, size_t size, unsigned tag);
int filled(const unsigned char *block, size_t size, unsigned tag);

/* What is going on, for the words of a crash or a hang; a text that stays. */
void doing(const char *words);
void watch(unsigned seconds);
void only_one(void);

/* A size that the compiler must not reason about. */
static inline size_t hidden(size_t size) {
    volatile size_t kept = size;
    return kept;
}

void probe_symbols(void);
void probe_sizes(void);
void probe_alignment(void);
void probe_overlap(void);
void probe_usable(void);
void probe_reuse(void);
void probe_threads(void);
void probe_thread_ends(void);
void probe_fork(void);
void probe_oversize(void);
void probe_errno(void);
void probe_realloc(void);
void probe_calloc(void);
void probe_early(void);
void probe_dlopen(void);
void protect_double_free(void);
void protect_free_list(void);
void protect_overrun(void);
void protect_invalid_free(void);
void protect_order(void);

#endif
