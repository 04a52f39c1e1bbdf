// Memory outside of the heap; the first argument says which.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FAR __attribute__((noinline))
#define MIB (1ul << 20)
static void rest_ms(long ms) { usleep(ms * 1000); }
static void *blocks[500]; static unsigned turn;
static void traffic(void) { for (int i = 0; i < 200; i++) { free(blocks[turn % 500]); blocks[turn % 500] = memset(malloc(20 + turn * 37 % 1200), 1, 20); turn++; } }

// Segments of 24 MB that are written bit by bit and never unmapped.
// (Each looks at what it got: a function that only jumps to mmap is not on the stack any more.)
FAR char *map_segment(void) { char *fresh = mmap(NULL, 24 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); fresh[0] = 1; return fresh; }
static void segments(void) { for (;;) { char *segment = map_segment(); for (size_t at = 0; at < 24 * MIB; at += 65536) { memset(segment + at, 1, 65536); traffic(); rest_ms(40); } } }
// A mapping that grows by mremap.
FAR char *lengthen(char *old, size_t from, size_t to) { char *fresh = mremap(old, from, to, MREMAP_MAYMOVE); fresh[from] = 1; return fresh; }
static void extended(void) {
    size_t size = MIB;
    char *log = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (;;) { log = lengthen(log, size, size + 131072); memset(log + size, 1, 131072); size += 131072; traffic(); rest_ms(100); }
}
// Mapped by the bare system call, past every library.
FAR char *raw_map(size_t size) { return (char *)syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
static void raw(void) { for (;;) { memset(raw_map(200000), 1, 200000); traffic(); rest_ms(150); } }
// Shared memory with a name: one more segment a while.
static void posix_shm(void) {
    for (int i = 0;; i++) {
        char name[64];
        snprintf(name, sizeof name, "/highwater-bench-%d-%d", getpid(), i);
        int file = shm_open(name, O_CREAT | O_RDWR, 0600);
        shm_unlink(name);
        if (file < 0 || ftruncate(file, MIB)) exit(1);
        memset(mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), 1, MIB);
        close(file);
        for (int k = 0; k < 10; k++) { traffic(); rest_ms(70); }
    }
}
static void anon_shared(void) { for (;;) { memset(mmap(NULL, 300000, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), 1, 300000); traffic(); rest_ms(150); } }
// A large file is read through its mapping.
static void file_read(void) {
    char name[] = "/var/tmp/highwater-bench-XXXXXX";
    int file = mkstemp(name);
    unlink(name);
    char *chunk = malloc(MIB);
    memset(chunk, 5, MIB);
    for (int i = 0; i < 200; i++) if (write(file, chunk, MIB) < 0) exit(1);
    volatile unsigned char *map = mmap(NULL, 200 * MIB, PROT_READ, MAP_PRIVATE, file, 0);
    unsigned sum = 0;
    for (size_t at = 0; at < 200 * MIB; at += 4096) { sum += map[at]; if (at % (1 << 18) == 0) { traffic(); rest_ms(90); } }
    for (;;) { rest_ms(sum ? 100 : 200); traffic(); }
}
// An allocator of the program's own gives back by MADV_FREE and takes new ground.
static void lazy(void) { for (;;) { char *ground = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); memset(ground, 1, 2 * MIB); madvise(ground, 2 * MIB, MADV_FREE); traffic(); rest_ms(350); } }
// One line in each huge page.
static void sparse(void) {
    char *ground = mmap(NULL, 1000 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ground = (char *)(((uintptr_t)ground + 2 * MIB - 1) & ~(2 * MIB - 1));
    madvise(ground, 998 * MIB, MADV_HUGEPAGE);
    for (size_t at = 0; at < 990 * MIB; at += 2 * MIB) { ground[at + 777] = 1; traffic(); rest_ms(150); }
    for (;;) rest_ms(100);
}
// Threads: detached and stuck; ended and never joined; one that goes ever deeper.
static void *stuck(void *unused) { volatile char room[30000]; memset((void *)room, 1, sizeof room); pause(); return unused; }
static void *brief(void *unused) { volatile char room[40000]; memset((void *)room, 1, sizeof room); return unused; }
static void detached(void) {
    for (;;) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, stuck, NULL) == 0) pthread_detach(thread);
        traffic(); rest_ms(50);
    }
}
static void unjoined(void) { for (;;) { pthread_t thread; pthread_create(&thread, NULL, brief, NULL); traffic(); rest_ms(50); } }
FAR int descend(int depth) {
    volatile char frame[4000];
    memset((void *)frame, depth, sizeof frame);
    if (depth % 16 == 0) { traffic(); rest_ms(150); }
    int below = depth < 60000 ? descend(depth + 1) : (pause(), 0);
    return below + frame[depth % 4000];
}
static void *deep(void *unused) { descend(1); return unused; }
static void deeper(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * MIB);
    pthread_create(&thread, &attributes, deep, NULL);
    pause();
}
// Three thousand threads that sleep, and one that loses blocks.
FAR void lose_ticket(void) { char *volatile lost = malloc(2000); memset(lost, 1, 2000); }
static void *idle(void *unused) { pause(); return unused; }
static void crowd(void) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 65536);
    for (int i = 0; i < 3000; i++) { pthread_t thread; if (pthread_create(&thread, &attributes, idle, NULL)) break; }
    for (;;) { traffic(); for (int i = 0; i < 5; i++) lose_ticket(); rest_ms(50); }
}

int main(int count, char **words) {
    static const struct { const char *name; void (*run)(void); } all[] = {
        {"segments", segments}, {"extended", extended}, {"raw", raw}, {"posix-shm", posix_shm}, {"anon-shared", anon_shared},
        {"file-read", file_read}, {"lazy", lazy}, {"sparse", sparse}, {"detached", detached}, {"unjoined", unjoined},
        {"deeper", deeper}, {"crowd", crowd},
    };
    for (size_t i = 0; count > 1 && i < sizeof all / sizeof all[0]; i++) if (!strcmp(words[1], all[i].name)) all[i].run();
    return 2;
}
