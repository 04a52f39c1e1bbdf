// What every fragment may use. A fragment is one thing that real programs do; it prints what it observed by `say`,
// never an address, a process id or a time.
#ifndef GUEST_H
#define GUEST_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*body)(void);

// Writes one line to standard output by one write(2), without memory of the heap.
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Allocates `count` blocks of `bytes`, checks that no two overlap and errno stays, frees them. The number of faults.
long churn(long count, long bytes);
// Prints how a child ended.
void say_end(const char *name, int child);
// A file in the folder of the plugins.
const char *plugin_path(long kind, char *room, size_t bytes);
// What only jemalloc, mimalloc and tcmalloc have.
extern void mallctl(void) __attribute__((weak));
extern void mi_version(void) __attribute__((weak));
extern void tc_version(void) __attribute__((weak));
// Whether another allocator than the C library's is preloaded or linked in. By the name of a preloaded one: a failed
// look-up of a symbol would allocate.
static inline int has_other_allocator(void) {
    const char *preloaded = getenv("LD_PRELOAD");
    if (mallctl || mi_version || tc_version) return 1;
    return preloaded && (strstr(preloaded, "jemalloc") || strstr(preloaded, "mimalloc") || strstr(preloaded, "tcmalloc"));
}
// mimalloc leaves errno as its last system call did, also where it succeeds, from run to run differently.
static inline int leaves_errno(void) {
    const char *preloaded = getenv("LD_PRELOAD");
    return mi_version || (preloaded && strstr(preloaded, "mimalloc"));
}
// What the process has left at its end: descriptors, threads, children, mappings, signals.
void finish(void);
// Where the program waits until the runner lets it go on: before its first step, in the middle, before its last.
// Without GUEST_GATES in the environment it does not wait. Called in the first process only, and outside of seccomp.
void gate(unsigned number);
// What the program does when it is started again by exec.
int started_again(void);

#ifdef __cplusplus
}
#endif
#endif
