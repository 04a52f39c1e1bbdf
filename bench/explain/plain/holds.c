// Memory that stays or grows and is no leak, in C. First argument: which.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define CALLED __attribute__((noinline))
static void pause_ms(long ms) { usleep(ms * 1000); }
static unsigned long seed = 88172645463325252ul;
static unsigned pick(void) { seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17; return seed >> 13; }
static void *traffic[2000];
static void serve(int n) { while (n--) { void **at = &traffic[pick() % 2000]; free(*at); size_t size = 50 + pick() % 900; *at = memset(malloc(size), n, size); } }
static void idle(void) { for (;;) { serve(100); pause_ms(20); } }

// import: 300 MB of rows are read and freed, but one in a hundred stays.
static char **volatile rows;
CALLED void import_rows(void) {
    int count = 600000;
    rows = malloc(count * sizeof *rows);
    for (int i = 0; i < count; i++) rows[i] = memset(malloc(500), i, 500);
    for (int i = 0; i < count; i++) if (i % 100) { free(rows[i]); rows[i] = NULL; }
}
static void import(void) { pause_ms(3000); import_rows(); idle(); }

// crowd: forty threads fill 6 MB each, free all but a few blocks and end; then nothing more.
static void *volatile kept[40 * 8];
static void *burst(void *self) {
    static __thread void *mine[6000];
    for (int i = 0; i < 6000; i++) mine[i] = memset(malloc(1000), 1, 1000);
    pause_ms(500);
    for (int i = 0; i < 6000; i++) if (i % 800 == 799) kept[(long)self * 8 + i / 800] = mine[i]; else free(mine[i]);
    return NULL;
}
static void crowd(void) {
    pthread_t all[40];
    pause_ms(2000);
    for (long i = 0; i < 40; i++) pthread_create(&all[i], NULL, burst, (void *)i);
    for (int i = 0; i < 40; i++) pthread_join(all[i], NULL);
    idle();
}

// sizes: every three seconds all blocks of one size are freed but one in thirty, and larger ones follow.
static void *volatile survivors[400000]; static int survived;
CALLED void fill_phase(size_t size) {
    static void *blocks[60000];
    int count = 12000000 / size;
    for (int i = 0; i < count; i++) blocks[i] = memset(malloc(size), 2, size);
    for (int i = 0; i < count; i++) if (i % 30 == 0 && survived < 400000) survivors[survived++] = blocks[i]; else free(blocks[i]);
}
static void sizes(void) { for (size_t size = 200;; size += size / 4) { fill_phase(size > 30000 ? size = 200 : size); for (int i = 0; i < 30; i++) { serve(50); pause_ms(100); } } }

// chunks: the program's own pool asks for a megabyte at a time and gives none back.
static char *chunk; static size_t chunk_used = 1 << 20;
CALLED void new_chunk(void) { chunk = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); chunk_used = 0; }
CALLED void *pool_take(size_t size) { if (chunk_used + size > 1 << 20) new_chunk(); chunk_used += size; return memset(chunk + chunk_used - size, 3, size); }
static void chunks(void) { for (;;) { for (int i = 0; i < 40; i++) pool_take(1000); serve(50); pause_ms(20); } }

// waiters: a thread per request, each waits for ever with 100 KB of stack in use.
static void *waiter(void *unused) { char scratch[100000]; memset(scratch, 1, sizeof scratch); pause(); return scratch[pick() % 9] ? unused : NULL; }
CALLED void start_waiter(void) { pthread_t t; pthread_attr_t a; pthread_attr_init(&a); pthread_attr_setstacksize(&a, 262144); pthread_create(&t, &a, waiter, NULL); }
static void waiters(void) { for (;;) { start_waiter(); serve(50); pause_ms(60); } }

// log: a file is mapped and read, ever further.
static void log_file(void) {
    char name[] = "/tmp/holds-XXXXXX"; int fd = mkstemp(name); unlink(name);
    static char block[1 << 20]; memset(block, 'l', sizeof block);
    for (int i = 0; i < 150; i++) if (write(fd, block, sizeof block) < 0) exit(1);
    char *map = mmap(NULL, 150 << 20, PROT_READ, MAP_SHARED, fd, 0); volatile long sum = 0;
    for (long at = 0;; at += 4096) { if (at < 150 << 20) sum += map[at]; if (at % (1 << 20) == 0) { serve(50); pause_ms(400); } }
}

// segment: a segment of shared memory is written, ever further.
static void segment(void) {
    int fd = memfd_create("segment", 0); if (ftruncate(fd, 1l << 30)) exit(1);
    char *map = mmap(NULL, 1l << 30, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    for (long at = 0; at < 1l << 30; at += 4096) { map[at] = 1; if (at % (1 << 20) == 0) { serve(50); pause_ms(200); } }
}

// advised: buffers of 2 MB are used once and given back with MADV_FREE.
CALLED void use_buffer(void) { char *p = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); memset(p, 1, 2 << 20); madvise(p, 2 << 20, MADV_FREE); }
static void advised(void) { for (;;) { use_buffer(); serve(50); pause_ms(400); } }

// huge: index of 2 MB pieces with MADV_HUGEPAGE, a few bytes of each in use.
CALLED void add_piece(void) { static char *at, *end; if (at == end) { at = mmap(NULL, 1l << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); end = at + (1l << 30); madvise(at, 1l << 30, MADV_HUGEPAGE); at = (char *)(((unsigned long)at + (2 << 20) - 1) & -(2l << 20)); } if (end - at > 2 << 20) { *at = 1; at += 2 << 20; } }
static void huge(void) { for (int n = 0; n < 300; n++) { add_piece(); serve(50); pause_ms(300); } idle(); }

// churn: nothing grows.
static void churn(void) { for (;;) { serve(5000); pause_ms(5); } }

// daily: a report of 25 MB every six seconds, all freed afterwards.
CALLED void make_report(void) { static void *lines[50000]; for (int i = 0; i < 50000; i++) { lines[i] = memset(malloc(500), 1, 500); } pause_ms(1500); for (int i = 0; i < 50000; i++) free(lines[i]); }
static void daily(void) { for (;;) { make_report(); for (int i = 0; i < 45; i++) { serve(50); pause_ms(100); } } }

// table: an array of numbers that doubles when it is full.
static long *numbers; static size_t count, room;
CALLED void append(long n) { if (count == room) numbers = realloc(numbers, (room = room ? room * 2 : 1024) * sizeof *numbers); numbers[count++] = n; }
static void array(void) { for (long n = 0;; n++) { append(n); if (n % 1000 == 0) { serve(10); pause_ms(5); } } }

int main(int argc, char **words) {
    static const struct { const char *name; void (*run)(void); } all[] = {
        {"import", import}, {"crowd", crowd}, {"sizes", sizes}, {"chunks", chunks}, {"waiters", waiters}, {"log", log_file}, {"segment", segment},
        {"advised", advised}, {"huge", huge}, {"churn", churn}, {"daily", daily}, {"array", array},
    };
    for (size_t i = 0; argc > 1 && i < sizeof all / sizeof all[0]; i++) if (!strcmp(words[1], all[i].name)) all[i].run();
    return 0;
}
