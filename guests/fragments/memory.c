// Mappings, the break, limits and locks.
#include "guest.h"
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

// step mapped(count: 1 20, bytes: 4096 262144)
void mapped(long count, long bytes) {
    char *all[20];
    long faults = 0;
    for (long each = 0; each < count; each++) {
        all[each] = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (all[each] == MAP_FAILED) {
            say("mapped: refused, errno %d", errno);
            for (long made = 0; made < each; made++) munmap(all[made], bytes);
            return;
        }
        memset(all[each], (int)each, bytes);
    }
    for (long each = 0; each < count; each++) {
        all[each] = mremap(all[each], bytes, bytes * 2, MREMAP_MAYMOVE);
        faults += all[each][bytes - 1] != (char)each || all[each][bytes] != 0;
        faults += madvise(all[each], bytes, MADV_DONTNEED) != 0 || all[each][0] != 0;
        faults += munmap(all[each], bytes * 2) != 0;
    }
    errno = 77;
    int code = munmap((void *)1, 4096);
    say("mapped: %ld faults; misaligned %d, errno %d", faults, code, errno);
}

// The program has moved the break itself.
static int is_break_moved;

// step broken(bytes: 4096 100000 3000000 1..5000000)
void broken(long bytes) {
    errno = 77;
    char *before = sbrk(bytes);
    if (before == (void *)-1) {
        say("broken: refused, errno %d", errno);
        return;
    }
    is_break_moved = 1;
    memset(before, 4, bytes);
    long faults = churn(50, 5000);
    long held = before[bytes - 1] == 4;
    say("broken: %ld faults, held %ld, errno %d", faults, held, errno);
}

// step moved_break(bytes: 4096 1..500000)
void moved_break(long bytes) {
    char *start = sbrk(0), *before = sbrk(bytes);
    errno = 77;
    is_break_moved = 1;
    int code = brk((char *)1), errno_after = errno;
    if (before != (void *)-1) memset(before, 1, bytes);
    char *end = sbrk(0);
    // The last one takes back what it got, as long as no other did in between.
    int is_last = end == before + bytes;
    say("moved_break: %d, %d, brk %d, errno %d", start == before, is_last, code, errno_after);
    if (is_last && bytes % 2) sbrk(-bytes);
    say("moved_break: %ld faults", churn(30, bytes / 3 + 1));
}

// step file_limit(count: 3 40 3..60) not in amid
void file_limit(long count) {
    struct rlimit before, low;
    getrlimit(RLIMIT_NOFILE, &before);
    low = before;
    low.rlim_cur = count;
    int code = setrlimit(RLIMIT_NOFILE, &low), opened = 0, made[64];
    while (opened < 64 && (made[opened] = dup(1)) >= 0) opened++;
    int errno_after = errno;
    long faults = churn(50, 100000);
    for (int each = 0; each < opened; each++) close(made[each]);
    setrlimit(RLIMIT_NOFILE, &before);
    say("file_limit: code %d, %d opened, errno %d, %ld faults", code, opened, errno_after, faults);
}

// What counts against such a limit by now, in bytes.
static rlim_t in_use(int which) {
    char text[200] = "";
    unsigned long size = 0, data = 0;
    int statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (statm < 0) return 0;
    if (read(statm, text, sizeof text - 1) > 0) sscanf(text, "%lu %*u %*u %*u %*u %lu", &size, &data);
    close(statm);
    return (which == RLIMIT_AS ? size : data) * (rlim_t)sysconf(_SC_PAGESIZE);
}

// Beyond what is in use: how many arenas earlier threads made differs from run to run, and each takes 64 MiB. The limit
// leaves room enough for the allocator, and the request is far beyond it.
// around under_memory_limit(kind: 0 1, megabytes: 500 2000)
void under_memory_limit(body inner, long kind, long megabytes) {
    int which = kind ? RLIMIT_DATA : RLIMIT_AS;
    struct rlimit before, low;
    getrlimit(which, &before);
    low = before;
    low.rlim_cur = in_use(which) + ((rlim_t)megabytes << 20);
    int code = setrlimit(which, &low);
    errno = 77;
    void *block = malloc((size_t)megabytes << 21);
    say("under_memory_limit: code %d, got %d, errno %d", code, block != NULL, block && leaves_errno() ? 77 : errno);
    free(block);
    inner();
    setrlimit(which, &before);
}

// The stack does not grow any more once the address space is used up: what functions called later will need.
__attribute__((noinline)) static void grow_stack(void) {
    volatile char deep[200000];
    for (unsigned at = 0; at < sizeof deep; at += 4096) deep[at] = 0;
}

static void use_up(long megabytes) {
    grow_stack();
    struct rlimit before, low;
    getrlimit(RLIMIT_AS, &before);
    low = before;
    low.rlim_cur = (rlim_t)megabytes << 20;
    setrlimit(RLIMIT_AS, &low);
    void *head = NULL, *block;
    while ((block = malloc(1000000))) {
        *(void **)block = head;
        head = block;
    }
    int errno_after = errno;
    while ((block = malloc(1000))) {
        *(void **)block = head;
        head = block;
    }
    // Whether this one still fits depends on the last few pages.
    free(calloc(1, 100000));
    void *kept = head ? realloc(head, 500000000) : NULL;
    say("used_up: errno %d, %d", errno_after, kept != NULL);
    while (head) {
        block = *(void **)head;
        free(head);
        head = block;
    }
    setrlimit(RLIMIT_AS, &before);
    say("used_up: then %ld faults", churn(100, 100000));
}

// In a child: the shape of the heap afterwards follows from the room there was, which the probe takes some of.
// step used_up(megabytes: 300 400) not in among_threads amid locked in_handler in_context in_thread in_thread_on_own_stack
void used_up(long megabytes) {
    // With a heap in two parts glibc 2.36 fails an assertion of its own (sysmalloc) where the last pages are of a certain
    // number; one library more in the program decides it.
    if (is_break_moved) return say("used_up: left out");
    int child = fork();
    if (child == 0) {
        use_up(megabytes);
        _exit(7);
    }
    say_end("used_up", child);
}

// around locked(kilobytes: 64 100000, flags: 1 2 3 6)
void locked(body inner, long kilobytes, long flags) {
    struct rlimit before, low;
    getrlimit(RLIMIT_MEMLOCK, &before);
    low = before;
    low.rlim_cur = (rlim_t)kilobytes << 10;
    if (low.rlim_cur > low.rlim_max) low.rlim_cur = low.rlim_max;
    setrlimit(RLIMIT_MEMLOCK, &low);
    // The C library's heap exists before: where its first block is asked for under the lock, it depends on luck.
    free(malloc(1000));
    errno = 0;
    int code = mlockall(flags);
    // Without root a small limit refuses what is there already; how much that is is the machine's.
    say("locked: %s", geteuid() == 0 && code ? "refused" : "done");
    inner();
    munlockall();
    setrlimit(RLIMIT_MEMLOCK, &before);
}

// step stack_limit(kilobytes: 64 1024)
void stack_limit(long kilobytes) {
    struct rlimit before, low;
    getrlimit(RLIMIT_STACK, &before);
    low = before;
    low.rlim_cur = (rlim_t)kilobytes << 10;
    int code = setrlimit(RLIMIT_STACK, &low);
    long faults = churn(100, 100000);
    setrlimit(RLIMIT_STACK, &before);
    say("stack_limit: code %d, %ld faults", code, faults);
}
