// Small servers in C with one thing wrong each; the first word: which. All of them answer requests besides.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef TWO
#include <mimalloc.h>
#endif
#define SEPARATE __attribute__((noinline))
static void *volatile sink;
static __thread unsigned seed = 1;
static unsigned dice(unsigned sides) { seed = seed * 1664525u + 1013904223u; return (seed >> 8) % sides; }
static void nap(int ms) { usleep(ms * 1000); }
SEPARATE static void lose(void *p) { sink = p; sink = NULL; }

SEPARATE static void answer(void) {
    void *parts[12];
    for (int i = 0; i < 12; i++) { size_t n = 24 + dice(2000); parts[i] = memset(malloc(n), i, n); }
    for (int i = 0; i < 12; i++) free(parts[(i * 5) % 12]);
}
static void work(int turns) { for (int i = 0; i < turns; i++) answer(); }

// Leaks.
SEPARATE static void remember_user(int n) { char name[120]; snprintf(name, sizeof name, "user-%08d-of-the-house-of-%0*d", n, 60, n); lose(strdup(name)); }
SEPARATE static void next_record(FILE *file) {
    char *line = NULL; size_t room = 0;
    if (getline(&line, &room, file) < 0) rewind(file);
    lose(line);
}
SEPARATE static void format_key(int n) { char *key; if (asprintf(&key, "key/%d/%0*d", n, 90, n) > 0) lose(key); }
struct frame { struct frame *next; char *body; int kind; };
SEPARATE static struct frame *parse_frame(int n) { // the way out for a bad kind forgets the frame and its body
    struct frame *f = malloc(sizeof *f);
    f->body = memset(malloc(300), n, 300);
    f->next = NULL;
    f->kind = n % 8;
    if (f->kind == 3) { lose(f); return NULL; }
    return f;
}
static void drop_frame(struct frame *f) { if (f) { free(f->body); free(f); } }
SEPARATE static void worker_turn(int n) { lose(memset(malloc(700), n, 700)); }
SEPARATE static void take_snapshot(int n) { lose(memset(malloc(400 * 1024), n, 400 * 1024)); }
#ifdef TWO
SEPARATE static void new_node(int n) { lose(memset(mi_malloc(480), n, 480)); }
#endif

// Shapes of the heap. Each makes some 100 MB in the first ten seconds.
enum { CROWD = 200000 };
static void *crowd[CROWD];
SEPARATE static void fill(int turn, int each, size_t size) {
    for (int i = turn * each; i < (turn + 1) * each && i < CROWD; i++) crowd[i] = memset(malloc(size), i, size);
}
SEPARATE static void empty_but(int every) { for (int i = 0; i < CROWD; i++) if (!every || i % every) { free(crowd[i]); crowd[i] = NULL; } }
static void *burst(void *own) { // an arena of its own: a burst every few seconds, of which one block in 200 stays for the next ten bursts
    seed = 17 + (long)own;
    static __thread void *kept[10][200];
    nap(500 * (long)own);
    for (int turn = 0;; turn++) {
        enum { EACH = 20000 };
        void **all = malloc(EACH * sizeof *all);
        for (int i = 0; i < EACH; i++) { size_t n = 300 + dice(500); all[i] = memset(malloc(n), i, n); }
        for (int i = 0; i < 100; i++) { free(kept[turn % 10][i]); kept[turn % 10][i] = all[i * 200]; all[i * 200] = NULL; }
        for (int i = 0; i < EACH; i++) free(all[i]);
        free(all);
        if (turn == 2) for (;;) nap(1000); // the rush is over
        nap(1500);
    }
}
SEPARATE static void large_peak(void) { // blocks of 3 MiB, below the threshold that a freed one of 8 MiB has raised; a small one behind each
    void *blocks[40];
    free(memset(malloc(8 << 20), 1, 8 << 20));
    for (int i = 0; i < 40; i++) { blocks[i] = memset(malloc(3 << 20), 1, 3 << 20); crowd[i] = memset(malloc(2000), 1, 2000); nap(100); }
    for (int i = 0; i < 40; i++) free(blocks[i]);
}

// Caches.
struct entry { int key; struct entry *chain; char text[500]; };
static struct entry *shelf[400000];
SEPARATE static void cache_entry(int key, int room) { // one slot a key; what stood there goes
    struct entry *e = malloc(sizeof *e);
    memset(e, 1, sizeof *e);
    e->key = key; e->chain = NULL;
    free(shelf[key % room]);
    shelf[key % room] = e;
}

// Memory that is not the heap's.
SEPARATE static void grow_segment(int n) { memset(mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), n, 65536); }
static void *wait_for_ever(void *own) { char page[60000]; memset(page, 1, sizeof page); sink = page; for (;;) pause(); return own; }
SEPARATE static void open_line(void) { pthread_t t; pthread_create(&t, NULL, wait_for_ever, NULL); }
SEPARATE static void read_index(int n) { // 512 MiB of a file, read as it goes
    static char *at; static long sum;
    if (!at) {
        char name[] = "/var/tmp/indexXXXXXX", block[1 << 16];
        int file = mkstemp(name);
        memset(block, 7, sizeof block);
        for (int i = 0; i < 8192; i++) if (write(file, block, sizeof block) < 0) exit(1);
        at = mmap(NULL, 512l << 20, PROT_READ, MAP_SHARED, file, 0);
        unlink(name);
    }
    for (int i = 0; i < 48 && n * 48 + i < 131072; i++) sum += at[(n * 48l + i) * 4096];
    sink = (void *)sum;
}
SEPARATE static void extend_board(int n) {
    static int file = -1;
    if (file < 0) file = memfd_create("board", 0);
    if (ftruncate(file, (n + 1l) * 65536) < 0) exit(1);
    char *part = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, file, n * 65536l);
    memset(part, 3, 65536);
}
SEPARATE static void give_back(int n) {
    char *part = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(part, n, 65536);
    madvise(part, 65536, MADV_FREE);
}
SEPARATE static void reserve_table(void) { // one page written of each two megabytes
    size_t huge = 2 << 20;
    char *at = mmap(NULL, 2 * huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    at = (char *)(((size_t)at + huge - 1) & ~(huge - 1));
    madvise(at, huge, MADV_HUGEPAGE);
    memset(at, 1, 4096);
}

static int is(const char *a, const char *b) { return !strcmp(a, b); }
static void (*filter)(int);
static void begin(const char *which) {
    if (is(which, "fork") && fork()) for (;;) { answer(); nap(20); }
    if (is(which, "arenas")) for (long i = 0; i < 8; i++) { pthread_t t; pthread_create(&t, NULL, burst, (void *)i); }
    if (is(which, "large")) large_peak();
    if (is(which, "plugin")) {
        void *library = dlopen(getenv("PLUGIN"), RTLD_NOW);
        filter = library ? (void (*)(int))dlsym(library, "filter_apply") : NULL;
        if (!filter) exit(1);
    }
}
static void one_thing_wrong(const char *which, int n, FILE *file) {
    if (is(which, "strdup")) for (int i = 0; i < 6; i++) remember_user(n * 6 + i);
    if (is(which, "getline")) for (int i = 0; i < 8; i++) next_record(file);
    if (is(which, "asprintf")) for (int i = 0; i < 6; i++) format_key(n * 6 + i);
    if (is(which, "error")) for (int i = 0; i < 30; i++) drop_frame(parse_frame(n * 30 + i));
    if (is(which, "fork")) for (int i = 0; i < 3; i++) worker_turn(n);
    if (is(which, "big") && n % 10 == 0) take_snapshot(n);
    if (is(which, "plugin")) filter(n);
    if (is(which, "peak")) { fill(n, 400, 500); if (n == 500) { crowd[0] = memset(malloc(100), 1, 100); empty_but(0); } }
    if (is(which, "every64")) { fill(n, 400, 500); if (n == 500) empty_but(64); }
    if (is(which, "filling")) for (int i = 0; i < 5; i++) cache_entry(n * 5 + i, 400000);
    if (is(which, "turning")) for (int i = 0; i < 40; i++) cache_entry(n * 40 + i, 8000);
    if (is(which, "mmap") && n % 3 == 0) grow_segment(n);
    if (is(which, "threads") && n % 4 == 0) open_line();
    if (is(which, "file")) read_index(n);
    if (is(which, "memfd") && n % 3 == 0) extend_board(n);
    if (is(which, "lazy") && n % 3 == 0) give_back(n);
    if (is(which, "huge") && n % 10 == 0) reserve_table();
#ifdef TWO
    mi_free(memset(mi_malloc(1000), n, 1000));
    if (is(which, "two")) for (int i = 0; i < 5; i++) new_node(n);
#endif
}
int main(int count, char **words) {
    const char *which = count > 1 ? words[1] : "flat";
    FILE *file = fopen("/proc/self/maps", "r");
    begin(which);
    for (int n = 0;; n++) {
        work(8);
        one_thing_wrong(which, n, file);
        nap(20);
    }
}
