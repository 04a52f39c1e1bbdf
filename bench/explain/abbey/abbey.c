// An abbey in C with one thing each that its memory does; the first word: which. All of them serve requests besides.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define SEPARATE __attribute__((noinline))
static __thread unsigned seed = 11;
static unsigned dice(unsigned sides) { seed = seed * 1664525u + 1013904223u; return (seed >> 8) % sides; }
static void nap(int ms) { usleep(ms * 1000); }
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static void serve(int turns) {
    for (int turn = 0; turn < turns; turn++) {
        void *parts[12];
        for (int i = 0; i < 12; i++) { size_t n = 24 + dice(1200); parts[i] = memset(malloc(n), i, n); }
        for (int i = 0; i < 12; i++) free(parts[(i * 5) % 12]);
    }
}
static void crew(int threads, void *(*work)(void *)) {
    pthread_t t;
    for (long i = 0; i < threads; i++) pthread_create(&t, NULL, work, (void *)i);
}

// 32 threads with much traffic; all of them together lose 20 KB a second, of a size that the traffic has too.
struct slip { unsigned who; char line[500]; };
SEPARATE static struct slip *write_slip(unsigned who) { struct slip *s = malloc(sizeof *s); memset(s->line, 1, 500); s->who = who; return s; }
SEPARATE static unsigned read_slip(unsigned who) { struct slip *s = write_slip(who); unsigned n = s->who; free(s); return n; }
SEPARATE static unsigned mark_slip(unsigned who) { struct slip *s = write_slip(who); return s->who + s->line[3]; }
static void *scribe(void *none) {
    unsigned sum = 0;
    for (unsigned n = 1; ; n++) {
        serve(4);
        for (int i = 0; i < 10; i++) sum += read_slip(n);
        if (n % 16 == 0) sum += mark_slip(n);
        nap(50);
    }
    return (void *)(long)sum;
}

// All is well for twenty seconds; from then on the receipts stay.
struct receipt { int paid; char text[1500]; };
SEPARATE static struct receipt *give_receipt(int n) { struct receipt *r = malloc(sizeof *r); memset(r->text, n, sizeof r->text); r->paid = n; return r; }
SEPARATE static int settle(int n, double t) { struct receipt *r = give_receipt(n); int paid = r->paid; if (t < 20 || n % 4) free(r); return paid; }

// A roll that realloc makes longer by a half.
static char *roll; static size_t roll_used, roll_room;
SEPARATE static void lengthen_roll(const char *line, size_t n) {
    if (roll_used + n > roll_room) { roll_room = roll_room * 3 / 2 + 8192; roll = realloc(roll, roll_room); }
    memcpy(roll + roll_used, line, n); roll_used += n;
}

// Two plugins in turns, each opened, used and closed within a second; the first one loses something every time.
static void stage(int n) {
    char file[300];
    snprintf(file, sizeof file, "%s/lib%s.so", getenv("PLUGINS"), n % 2 ? "viol" : "flute");
    void *plugin = dlopen(file, RTLD_NOW);
    int (*play)(int) = (int (*)(int))dlsym(plugin, "play");
    for (int i = 0; i < 60; i++) { play(i); serve(1); nap(5); }
    dlclose(plugin);
}

// 90 MB that stay; after fifteen seconds a child begins that loses, and the parent only serves.
SEPARATE static void inherit(int n) { char *volatile lost = malloc(900); memset(lost, n, 900); }
static void warm(void) { static char *stays[3000]; for (int i = 0; i < 3000; i++) stays[i] = memset(malloc(30000), i, 30000); }
static void heir(void) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    for (int n = 0; ; n++) { inherit(n); serve(3); nap(10); }
}

// A rush of 120 MB in small blocks, of which one a page stays.
static void *pinned[60000]; static int pins;
static void pin_pages(void) {
    enum { N = 1000000 }; char **all = malloc(N * sizeof *all); unsigned long page = 0;
    for (int i = 0; i < N; i++) all[i] = memset(malloc(112), 1, 112);
    for (int i = 0; i < N; i++) {
        if ((unsigned long)all[i] >> 12 != page && pins < 60000) pinned[pins++] = all[i]; else free(all[i]);
        page = (unsigned long)all[i] >> 12;
    }
    free(all);
}

// Twelve threads, each with a peak of its own three seconds after the one before it, and a few blocks that it keeps.
static void *cell(void *which) {
    enum { N = 60000 }; static char *kept[12][60]; char **all = malloc(N * sizeof *all); int keeps = 0;
    nap(3000 * (long)which + 500);
    for (int i = 0; i < N; i++) all[i] = memset(malloc(150), 2, 150);
    for (int i = 0; i < N; i++) if (i % 1000 == 999) kept[(long)which][keeps++] = all[i]; else free(all[i]);
    free(all);
    for (;;) { serve(2); nap(40); }
    return kept;
}

// The last used in a list with two ends, keys and values of their own: full after some twelve seconds.
struct jar { struct jar *older, *newer; char *label, *content; int key; };
static struct jar *shelf[9001], ends = { &ends, &ends, 0, 0, 0 }; static int jars;
static void unlink_jar(struct jar *j) { j->older->newer = j->newer; j->newer->older = j->older; }
static void front(struct jar *j) { j->older = ends.older; j->newer = &ends; ends.older->newer = j; ends.older = j; }
SEPARATE static void put_jar(int key, int most) {
    if (shelf[key]) { unlink_jar(shelf[key]); front(shelf[key]); return; }
    if (jars == most) {
        struct jar *o = ends.newer; unlink_jar(o); shelf[o->key] = NULL; free(o->label); free(o->content); free(o); jars--;
    }
    struct jar *j = malloc(sizeof *j); size_t n = 2000 + dice(3000); char text[40];
    snprintf(text, sizeof text, "jar %d of the pantry", key);
    j->label = strdup(text); j->content = memset(malloc(n), key, n); j->key = key;
    front(j); shelf[key] = j; jars++;
}

// A register in a shared file, which is made longer and mapped anew as it goes.
static void scroll(void) {
    char name[] = "/var/tmp/scrollXXXXXX"; int file = mkstemp(name); size_t room = 1 << 20, used = 0;
    unlink(name); if (ftruncate(file, room)) return;
    char *all = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    for (;; nap(20)) {
        serve(4);
        if (used + 16384 > room) { if (ftruncate(file, room * 2)) return; all = mremap(all, room, room * 2, MREMAP_MAYMOVE); room *= 2; }
        memset(all + used, 3, 16384); used += 16384;
    }
}

// Threads that have ended and that nobody joins, on stacks of 256 KiB of which they used most.
static void *guest(void *none) { char room[200000]; memset(room, 1, sizeof room); __asm__ volatile("" :: "r"(room) : "memory"); serve(1); return none; }
static void invite(void) { pthread_t t; pthread_attr_t a; pthread_attr_init(&a); pthread_attr_setstacksize(&a, 262144); pthread_create(&t, &a, guest, NULL); pthread_attr_destroy(&a); }

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : ""; double begin = now();
#define IS(word) (strcmp(what, word) == 0)
    if (IS("slips")) crew(32, scribe);
    if (IS("cells")) crew(12, cell);
    if (IS("scroll")) scroll();
    if (IS("heir")) warm();
    int born = 0, sum = 0; char line[400]; memset(line, 5, sizeof line);
    for (int n = 0; ; n++) {
        double t = now() - begin;
        serve(5);
        if (IS("receipts")) for (int i = 0; i < 10; i++) sum += settle(n * 10 + i, t);
        else if (IS("roll")) for (int i = 0; i < 20; i++) lengthen_roll(line, sizeof line);
        else if (IS("stage")) stage(n);
        else if (IS("heir") && t > 15 && !born) { born = 1; if (!fork()) heir(); }
        else if (IS("pins") && t > 4 && !pins) pin_pages();
        else if (IS("shelf")) for (int i = 0; i < 12; i++) put_jar(dice(9000), 4000);
        else if (IS("pantry")) put_jar(n % 9000, 9000);
        else if (IS("guests") && n % 4 == 0) invite();
        nap(20);
    }
    return sum;
}
