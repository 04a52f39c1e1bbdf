// Collections, caches and retention in C; names say nothing of what is done. First argument: which.
// A second one says after how many seconds a collection is full: 10 unless given; with 600 it fills all the time.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static unsigned full_s = 10;
static void nap(long ms) { struct timespec t = {ms / 1000, ms % 1000 * 1000000}; while (nanosleep(&t, &t)) {} }
static __thread unsigned long dice_state = 521288629ul;
static unsigned dice(void) { dice_state ^= dice_state << 13; dice_state ^= dice_state >> 7; dice_state ^= dice_state << 17; return dice_state >> 11; }
static __thread char *dust[3000];
static void grind(int n) { while (n--) { unsigned at = dice() % 3000, size = 8 + dice() % 700; free(dust[at]); dust[at] = malloc(size); memset(dust[at], n, size); } }
static double seconds(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }

// All collections take 400 entries a second, and are full after full_s: then each entry takes the place of one.
enum { RATE = 400 };
static unsigned room(void) { return full_s * RATE; }
static void paced(void (*one)(unsigned)) {
    double begun = seconds();
    for (unsigned n = 0;; n++) {
        one(n);
        if (n % 20 == 0) grind(60);
        while (seconds() < begun + n / (double)RATE) nap(5);
    }
}

// agate: the last used: a hash with chains and a list through all; an entry has a key and a value of their own.
struct agate { struct agate *chain, *newer, *older; char *key, *value; };
static struct agate *vein[4096], *newest, *oldest; static unsigned agates;
__attribute__((noinline)) struct agate *cut(unsigned n) {
    struct agate *a = malloc(sizeof *a); char name[40]; size_t size = 100 + dice() % 1200;
    snprintf(name, sizeof name, "stone-%u", n);
    a->key = strdup(name); a->value = malloc(size); memset(a->value, n, size);
    return a;
}
static void agate_out(void) {
    struct agate *a = oldest, **at = &vein[atoi(a->key + 6) % 4096];
    while (*at != a) at = &(*at)->chain;
    *at = a->chain; oldest = a->newer; if (oldest) oldest->older = NULL; else newest = NULL;
    free(a->key); free(a->value); free(a); agates--;
}
static void agate(unsigned n) {
    struct agate *a = cut(n);
    a->chain = vein[n % 4096]; vein[n % 4096] = a; a->older = newest; a->newer = NULL;
    if (newest) newest->newer = a; else oldest = a;
    newest = a;
    if (++agates > room()) agate_out();
}

// beryl: a radix tree of 16-ary nodes, three levels, whose pointers carry two bits of their own.
static uintptr_t *crown;
__attribute__((noinline)) uintptr_t *facet(void) { return calloc(16, sizeof(uintptr_t)); }
__attribute__((noinline)) char *polish(unsigned n) { char *p = malloc(300 + dice() % 900); memset(p, n, 300); return p; }
static void beryl(unsigned n) {
    unsigned key = n % room() * 2654435761u; uintptr_t *at = crown ? crown : (crown = facet());
    for (int shift = 28; shift > 12; shift -= 4) {
        uintptr_t *slot = &at[key >> shift & 15];
        if (!*slot) *slot = (uintptr_t)facet() | 1;
        at = (uintptr_t *)(*slot & ~3ul);
    }
    free((void *)(at[key >> 12 & 15] & ~3ul)); at[key >> 12 & 15] = (uintptr_t)polish(n) | 2;
}

// coral: values with a type in their upper sixteen bits, as interpreters keep them.
static uint64_t *reef;
static void coral(unsigned n) {
    uint64_t *at = &(reef ? reef : (reef = calloc(room(), sizeof *reef)))[n % room()];
    free((void *)(*at & 0xffffffffffff));
    *at = (uint64_t)(uintptr_t)polish(n) | 0xfffcull << 48;
}

// druse: rows of a table packed without gaps, so that no pointer is aligned.
struct __attribute__((packed)) druse { uint8_t kind; uint32_t key; char *crystal; };
static struct druse *cave;
static void druse(unsigned n) {
    struct druse *d = &(cave ? cave : (cave = calloc(room(), sizeof *d)))[n % room()];
    free(d->crystal); d->key = n; d->kind = 1; d->crystal = polish(n);
}

// emery: the index lies in shared memory that no malloc gave.
static char **wheel;
static void emery(unsigned n) {
    if (!wheel) {
        int f = memfd_create("emery", 0); if (f < 0 || ftruncate(f, room() * sizeof *wheel)) exit(1);
        wheel = mmap(NULL, room() * sizeof *wheel, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0); close(f);
    }
    free(wheel[n % room()]); wheel[n % room()] = polish(n);
}

// flint: entries that live for full_s, in a queue of chunks of a hundred.
struct chunk { struct chunk *next; unsigned many; char *entry[100]; };
static struct chunk *first, *last; static unsigned chunks;
__attribute__((noinline)) void chip(unsigned n) {
    if (!last || last->many == 100) { struct chunk *c = calloc(1, sizeof *c); if (last) last->next = c; else first = c; last = c; chunks++; }
    last->entry[last->many++] = polish(n);
}
static void flint(unsigned n) {
    chip(n);
    if (chunks * 100 <= room() + 100) return;
    struct chunk *c = first; first = c->next; chunks--;
    for (unsigned i = 0; i < c->many; i++) free(c->entry[i]);
    free(c);
}

// garnet: a header before what the caller sees, and the pointers that are kept point behind it.
static char **setting;
__attribute__((noinline)) char *mount(unsigned n) { size_t size = 64 + dice() % 1000; size_t *p = malloc(sizeof(size_t) * 8 + size); p[0] = size; memset(p + 8, n, size); return (char *)(p + 8); }
static void garnet(unsigned n) {
    char **at = &(setting ? setting : (setting = calloc(room(), sizeof *setting)))[n % room()];
    if (*at) free(*at - 64);
    *at = mount(n);
}

// heliodor: a tree that is balanced by nobody, whose nodes hold what they are asked for.
struct node { struct node *less, *more; unsigned key; char glow[400]; };
static struct node *root; static unsigned nodes;
__attribute__((noinline)) struct node *shine(unsigned key) { struct node *p = calloc(1, sizeof *p); p->key = key; memset(p->glow, key, sizeof p->glow); return p; }
static void fade(struct node *at) { if (!at) return; fade(at->less); fade(at->more); free(at); }
static void heliodor(unsigned n) {
    unsigned key = dice(); struct node **at = &root;
    while (*at) at = key < (*at)->key ? &(*at)->less : &(*at)->more;
    *at = shine(key + n % 2);
    if (++nodes > room()) { fade(root); root = NULL; nodes = 0; }
}

// iolite: 90 MB of blocks at the start; then all but the last of each page's worth goes.
static char *grain[200000];
static void iolite(void) {
    for (int i = 0; i < 200000; i++) { grain[i] = malloc(440); memset(grain[i], i, 440); }
    nap(2000);
    for (int i = 0; i < 200000; i++) if (i % 9) { free(grain[i]); grain[i] = NULL; }
    for (;;) { grind(100); nap(40); }
}

// jasper: eight threads, each with a peak of its own size, one after the other; then they rest, alive.
static void *seam(void *self) {
    long turn = (long)self; static char *rock[8][6000];
    nap(turn * 1500);
    for (int i = 0; i < 6000; i++) { int size = 500 + turn * 400 + dice() % 300; rock[turn][i] = malloc(size); memset(rock[turn][i], i, size); }
    nap(1000);
    for (int i = 0; i < 6000; i++) if (i % 150) free(rock[turn][i]);
    for (;;) { grind(10); nap(100); }
    return NULL;
}
static void jasper(void) { for (long i = 0; i < 8; i++) { pthread_t t; pthread_create(&t, NULL, seam, (void *)i); } for (;;) nap(1000); }

// kyanite: requests of some MB each; the answer of each stays among 4,000 answers, made in the middle of the request.
static char *answer[4000]; static unsigned answers;
__attribute__((noinline)) char *settle(unsigned n) { size_t size = 60 + dice() % 200; char *p = malloc(size); memset(p, n, size); return p; }
static void kyanite(void) {
    static char *part[4000];
    for (unsigned n = 0;; n++) {
        unsigned many = 500 + n * 12, step = many / 8;
        if (many > 4000) many = 4000;
        for (unsigned i = 0; i < many; i++) {
            size_t size = 600 + dice() % 1800; part[i] = malloc(size); memset(part[i], i, size);
            if (i % step == 0) { unsigned at = answers++ % 4000; free(answer[at]); answer[at] = settle(n); }
        }
        for (unsigned i = 0; i < many; i++) free(part[i]);
        nap(150);
    }
}

// larimar: every six seconds 8 MB are read in and thrown away; nothing is wrong.
static void larimar(void) {
    static char *wave[4000];
    for (;;) { for (int i = 0; i < 4000; i++) { wave[i] = malloc(2000); memset(wave[i], i, 2000); } nap(800); for (int i = 0; i < 4000; i++) free(wave[i]); for (int i = 0; i < 26; i++) { grind(100); nap(200); } }
}

int main(int count, char **words) {
    static const struct { const char *name; void (*one)(unsigned); } collections[] = {
        {"agate", agate}, {"beryl", beryl}, {"coral", coral}, {"druse", druse}, {"emery", emery}, {"flint", flint}, {"garnet", garnet}, {"heliodor", heliodor},
    };
    static const struct { const char *name; void (*run)(void); } others[] = {{"iolite", iolite}, {"jasper", jasper}, {"kyanite", kyanite}, {"larimar", larimar}};
    if (count > 2) full_s = atoi(words[2]);
    for (size_t i = 0; count > 1 && i < sizeof collections / sizeof collections[0]; i++) if (!strcmp(words[1], collections[i].name)) paced(collections[i].one);
    for (size_t i = 0; count > 1 && i < sizeof others / sizeof others[0]; i++) if (!strcmp(words[1], others[i].name)) others[i].run();
    return 2;
}
