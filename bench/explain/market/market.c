// A market in C: one thing each that a stall's memory does; the first word: which. All of them serve buyers besides.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define SEPARATE __attribute__((noinline))
static unsigned state = 7;
static unsigned toss(unsigned sides) { state = state * 1664525u + 1013904223u; return (state >> 9) % sides; }
static void rest(int ms) { usleep(ms * 1000); }
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static void trade(int turns) {
    static char *wares[600];
    for (int i = 0; i < turns; i++) {
        int at = toss(600); size_t n = 16 + toss(900);
        free(wares[at]); wares[at] = memset(malloc(n), i, n);
    }
}

// Entries in a book of which the last one only is kept: asprintf's text is lost one time in five.
static char *entry;
SEPARATE static void post_entry(int n) {
    char *text; if (asprintf(&text, "%08d sold to a buyer whose name is %0400d", n, n) < 0) return;
    if (n % 5) free(entry);
    entry = text;
}

// Orders come faster than they are carried out, and wait in a list.
struct order { struct order *next; char words[700]; };
static struct order *first_order, **last_order = &first_order;
SEPARATE static void take_order(int n) { struct order *o = malloc(sizeof *o); memset(o->words, n, 700); o->next = NULL; *last_order = o; last_order = &o->next; }
SEPARATE static void carry_out(void) { struct order *o = first_order; if (!o || !o->next) return; first_order = o->next; free(o); }

// A fair of 150 MB that is cleared away but for the very last stall.
static void *last_stall;
static void fair(void) {
    enum { N = 30000 }; void **all = malloc(N * sizeof *all);
    for (int i = 0; i < N; i++) all[i] = memset(malloc(5000), 1, 5000);
    rest(4000);
    for (int i = 0; i < N - 1; i++) free(all[i]);
    last_stall = all[N - 1]; free(all);
}

// Plots of land by mmap, of which the lower half only is given back.
SEPARATE static void chart_plot(void) { char *m = mmap(NULL, 131072, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); memset(m, 1, 131072); munmap(m, 65536); }
// Boards that children could see.
SEPARATE static void hang_board(void) { char *m = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); memset(m, 2, 65536); }

// Watchmen that never come back.
static void *watchman(void *none) { char lamp[90000]; memset(lamp, 1, sizeof lamp); __asm__ volatile("" :: "r"(lamp) : "memory"); for (;;) pause(); return none; }
SEPARATE static void hire(void) { pthread_t t; if (!pthread_create(&t, NULL, watchman, NULL)) pthread_detach(t); }

// A pool of 160 MB, handed to the kernel as free but not taken by it.
static void drain_pool(void) { size_t n = 160u << 20; char *m = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); madvise(m, n, MADV_NOHUGEPAGE); memset(m, 1, n); madvise(m, n, MADV_FREE); }

// Cellars of 2 MB each, of which a crate is used.
SEPARATE static void dig_cellar(void) {
    size_t huge = 2u << 20; char *m = mmap(NULL, 2 * huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    m = (char *)(((unsigned long)m + huge - 1) & ~(huge - 1)); madvise(m, huge, MADV_HUGEPAGE); m[100] = 1;
}

// An almanac of 200 MB that is read page by page.
static void almanac(void) {
    char name[] = "/var/tmp/almanacXXXXXX"; int file = mkstemp(name); static char page[1 << 20]; unlink(name);
    memset(page, 6, sizeof page);
    for (int i = 0; i < 200; i++) if (write(file, page, sizeof page) < 0) exit(3);
    const volatile char *all = mmap(NULL, 200u << 20, PROT_READ, MAP_SHARED, file, 0); unsigned sum = 0;
    for (long at = 0; ; at += 65536) { if (at < 200 << 20) for (int i = 0; i < 65536; i += 4096) sum += all[at + i]; trade(40); rest(25); }
}

// Three stalls that are children; the second one loses from its tenth second on.
SEPARATE static void scrub(int n) { char *volatile rag = malloc(1100); memset(rag, n, 1100); }
static void stalls(void) {
    for (int i = 0; i < 3; i++) if (!fork()) {
        prctl(PR_SET_PDEATHSIG, SIGTERM); double begin = now();
        for (int n = 0; ; n++) { trade(30); if (i == 1 && now() - begin > 10) for (int k = 0; k < 3; k++) scrub(n); rest(20); }
    }
    while (wait(NULL) > 0) {}
}

// Coins that are weighed and lost; for a program linked without libraries.
SEPARATE static void weigh_coin(int n) { char *volatile scale = malloc(350); memset(scale, n, 350); if (n % 3) free(scale); }

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : ""; double begin = now();
#define IS(word) (strcmp(what, word) == 0)
    if (IS("almanac")) almanac();
    if (IS("stalls")) stalls();
    int held = 0;
    for (int n = 0; ; n++) {
        trade(60);
        if (IS("book")) for (int i = 0; i < 15; i++) post_entry(n * 15 + i);
        else if (IS("orders")) { for (int i = 0; i < 6; i++) take_order(n); for (int i = 0; i < 4; i++) carry_out(); }
        else if (IS("fair") && !held && now() - begin > 6) { held = 1; fair(); }
        else if (IS("plots") && n % 4 == 0) chart_plot();
        else if (IS("boards") && n % 3 == 0) hang_board();
        else if (IS("watch") && n % 20 == 0) hire();
        else if (IS("pool") && !held && now() - begin > 5) { held = 1; drain_pool(); }
        else if (IS("cellars") && n % 12 == 0) dig_cellar();
        else if (IS("coins")) for (int i = 0; i < 30; i++) weigh_coin(n + i);
        rest(20);
    }
}
