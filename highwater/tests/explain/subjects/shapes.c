// One program, many ways to use memory; the first argument says which. Each runs until it is ended.
//   gcc -g -O1 -fno-inline -pthread shapes.c -o shapes
#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1024u * 1024u)

static void rest_ms(long ms) { usleep(ms * 1000); }

// Ordinary traffic around the fault: blocks of many sizes that come and go.
#define LIVE 4096
static void *live[LIVE];
static unsigned seed = 1;
static unsigned next_random(void) { return seed = seed * 1664525u + 1013904223u; }
static void churn(int count) {
    for (int i = 0; i < count; i++) {
        unsigned at = (next_random() >> 8) % LIVE;
        size_t size = 16 + (next_random() >> 8) % 2000;
        free(live[at]);
        live[at] = malloc(size);
        memset(live[at], 1, size);
    }
}

// ---- leaks
__attribute__((noinline)) void forget_session(size_t size) {
    char *lost = malloc(size);
    memset(lost, 7, size);
    __asm__ volatile("" ::"r"(lost) : "memory");
}
static void leak(void) {
    for (;;) {
        churn(2000);
        for (int i = 0; i < 30; i++) forget_session(1500);
        rest_ms(20);
    }
}
static void *xmalloc(size_t size) {
    void *block = malloc(size);
    if (!block) abort();
    return block;
}
__attribute__((noinline)) void open_ticket(void) {
    char *lost = xmalloc(900);
    memset(lost, 7, 900);
    __asm__ volatile("" ::"r"(lost) : "memory");
}
static void leak_wrapped(void) {
    for (;;) {
        churn(500);
        for (int i = 0; i < 40; i++) open_ticket();
        rest_ms(20);
    }
}
// Large blocks are mapped one by one by glibc: live heap all the same.
__attribute__((noinline)) void keep_frame(void) { forget_session(300 * 1024); }
static void leak_large(void) {
    for (;;) {
        churn(500);
        keep_frame();
        rest_ms(150);
    }
}
// Most of what is allocated at the site is freed; one in eight is kept in a list for good.
struct node { struct node *next; char body[600]; };
static struct node *kept;
__attribute__((noinline)) struct node *take_request(void) {
    struct node *node = malloc(sizeof *node);
    memset(node->body, 3, sizeof node->body);
    return node;
}
static void leak_kept(void) {
    for (unsigned count = 0;; count++) {
        for (int i = 0; i < 200; i++) {
            struct node *node = take_request();
            if (i % 4 == 0) { node->next = kept; kept = node; } else free(node);
        }
        churn(500);
        rest_ms(50);
    }
}
static void *leaky_thread(void *unused) {
    (void)unused;
    for (;;) {
        for (int i = 0; i < 10; i++) forget_session(1500);
        rest_ms(20);
    }
    return NULL;
}
static void leak_threads(void) {
    for (int i = 0; i < 16; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, leaky_thread, NULL);
    }
    for (;;) { churn(100); rest_ms(20); }
}
static void leak_child(void) {
    if (fork() == 0) leak();
    for (;;) { churn(10); rest_ms(100); }
}

// ---- caches
#define SLOTS 400000
static void *slots[SLOTS];
__attribute__((noinline)) void *cache_put(size_t size) {
    void *entry = malloc(size);
    memset(entry, 5, size);
    return entry;
}
static void filling(void) {
    for (size_t at = 0; at < SLOTS; at++) {
        slots[at] = cache_put(1000);
        if (at % 40 == 0) { churn(50); rest_ms(20); }
    }
    for (;;) rest_ms(100);
}
// Full within a second, then entries are replaced.
static void cache(void) {
    for (size_t count = 0;; count++) {
        size_t at = count % 20000;
        free(slots[at]);
        slots[at] = cache_put(500 + (next_random() >> 8) % 1000);
        if (count % 1000 == 0) rest_ms(20);
    }
}

// ---- retention
// Every second a new thread has a burst in an arena of its own; one block in eight stays and shrinks in place to next
// to nothing, so that its page stays.
// 1.5 MiB each: an unoptimised walk of the hundreds that larger ones leave took longer than there was time.
#define BURST 1500
static void *burst(void *unused) {
    static __thread void *blocks[BURST];
    for (int i = 0; i < BURST; i++) { blocks[i] = malloc(1000); memset(blocks[i], 1, 1000); }
    for (int i = 0; i < BURST; i++) {
        if (i % 8) free(blocks[i]); else blocks[i] = realloc(blocks[i], 32);
    }
    pause();
    return unused;
}
static void frag(void) {
    mallopt(M_ARENA_MAX, 200);
    for (;;) {
        pthread_t thread;
        pthread_create(&thread, NULL, burst, NULL);
        churn(500);
        rest_ms(500);
    }
}
// A peak that is over: all but one block in 300 is freed, from the bottom up.
static void peak(void) {
    static void *blocks[400000];
    for (int i = 0; i < 400000; i++) { blocks[i] = malloc(300); memset(blocks[i], 1, 300); if (i % 4000 == 0) rest_ms(10); }
    rest_ms(2000);
    for (int i = 0; i < 400000; i++) if (i % 300) free(blocks[i]);
    for (;;) { rest_ms(50); void *p = malloc(100); free(p); }
}

// ---- no heap
__attribute__((noinline)) char *open_window(size_t size) {
    char *window = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(window, 1, size);
    return window;
}
static void mapping(void) {
    for (;;) { open_window(256 * 1024); churn(100); rest_ms(100); }
}
static void windows(void) {
    for (;;) munmap(open_window(8192), 8192);
}
static void *sleeper(void *unused) {
    (void)unused;
    volatile char deep[64 * 1024];
    memset((void *)deep, 1, sizeof deep);
    pause();
    return NULL;
}
static void stacks(void) {
    for (;;) {
        pthread_t thread;
        pthread_create(&thread, NULL, sleeper, NULL);
        churn(100);
        rest_ms(60);
    }
}
// What follows goes on for seven minutes: on a busy machine explain observes for three times as long, and the test asks
// it for nine times as long; a mapping that is full by then is flat.
static void files(void) {
    char name[] = "/var/tmp/highwater-shapes-XXXXXX";
    int file = mkstemp(name);
    unlink(name);
    size_t size = 1024 * (size_t)MIB;
    if (ftruncate(file, size)) exit(1);
    volatile char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    for (size_t at = 0; at < size; at += 4096) {
        map[at] = 1;
        if (at % (64 * 4096) == 0) { churn(50); rest_ms(100); }
    }
    for (;;) rest_ms(100);
}
static void shared(void) {
    int file = memfd_create("ring", 0);
    size_t size = 1024 * (size_t)MIB;
    if (ftruncate(file, size)) exit(1);
    volatile char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    for (size_t at = 0; at < size; at += 4096) {
        map[at] = 1;
        if (at % (64 * 4096) == 0) { churn(50); rest_ms(100); }
    }
    for (;;) rest_ms(100);
}
static void lazyfree(void) {
    for (;;) {
        char *block = open_window(MIB);
        madvise(block, MIB, MADV_FREE);
        churn(50);
        rest_ms(200);
    }
}
static void hugepages(void) {
    size_t size = 1800 * (size_t)MIB;
    char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    map = (char *)(((uintptr_t)map + 2 * MIB - 1) & ~(uintptr_t)(2 * MIB - 1));
    madvise(map, size - 2 * MIB, MADV_HUGEPAGE);
    for (size_t at = 0; at + 4 * MIB < size; at += 2 * MIB) {
        memset(map + at, 1, 4096);
        churn(50);
        rest_ms(450);
    }
    for (;;) rest_ms(100);
}
static void flat(void) {
    for (;;) { churn(3000); rest_ms(20); }
}

int main(int count, char **words) {
    static const struct { const char *name; void (*run)(void); } all[] = {
        {"leak", leak}, {"leak-wrapped", leak_wrapped}, {"leak-large", leak_large}, {"leak-kept", leak_kept},
        {"leak-threads", leak_threads}, {"leak-child", leak_child}, {"filling", filling}, {"cache", cache},
        {"frag", frag}, {"peak", peak}, {"mapping", mapping}, {"windows", windows}, {"stacks", stacks},
        {"files", files}, {"shared", shared}, {"lazyfree", lazyfree}, {"hugepages", hugepages}, {"flat", flat},
    };
    for (size_t i = 0; count > 1 && i < sizeof all / sizeof all[0]; i++)
        if (!strcmp(words[1], all[i].name)) all[i].run();
    fprintf(stderr, "which?\n");
    return 2;
}
