// Losses in C, each with its mended twin ("-ok"); names say nothing of what is done. First argument: which.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int ok; // the mended twin
static void nap(long ms) { struct timespec t = {ms / 1000, ms % 1000 * 1000000}; nanosleep(&t, NULL); }
static __thread unsigned long dice_state = 88172645463325252ul;
static unsigned dice(void) {
    dice_state ^= dice_state << 13; dice_state ^= dice_state >> 7; dice_state ^= dice_state << 17;
    return dice_state >> 11;
}

// Background: a table of 6,000 slots, replaced at random.
static __thread char *slate[6000];
static void murmur(int n) {
    while (n--) {
        unsigned at = dice() % 6000, size = 8 + dice() % (dice() % 16 ? 400 : 9000);
        free(slate[at]);
        slate[at] = malloc(size);
        memset(slate[at], n, size);
    }
}

// quilt: everything is static and may be inlined.
static char *volatile corner;
static void basil(int n) { char *leaf = malloc(700 + n % 5); memset(leaf, n, 700); corner = leaf; if (ok) free(leaf); }
static void quilt(void) { for (int n = 0;; n++) { basil(n); if (n % 8 == 0) { murmur(60); nap(30); } } }

// mortar: sixteen threads use one function, and one of them does not free.
struct brick { long order; char clay[900]; };
static struct brick *brick_of(long order) { struct brick *b = calloc(1, sizeof *b); b->order = order; return b; }
__attribute__((noinline)) static void lay(struct brick *b, long self) { if (b->order % 3 == 0) murmur(1); if (ok || self != 11) free(b); }
static void *mason(void *self) { for (long n = 0;; n++) { lay(brick_of(n), (long)self); if (n % 40 == 0) nap(25); } return NULL; }
static void mortar(void) { for (long i = 0; i < 16; i++) { pthread_t t; pthread_create(&t, NULL, mason, (void *)i); } for (;;) nap(1000); }

// geyser: 1.5 MB at once every eleven seconds.
static void *spring[3000];
void tulip(void) { for (int i = 0; i < 3000; i++) { spring[i] = malloc(512); memset(spring[i], i, 512); } }
static void geyser(void) {
    for (;;) { tulip(); if (ok) for (int i = 0; i < 3000; i++) free(spring[i]); for (int i = 0; i < 110; i++) { murmur(100); nap(100); } }
}

// onion: four functions pass an allocation on.
__attribute__((noinline)) static void *kelp(size_t n) { void *p = malloc(n); if (!p) exit(9); return p; }
__attribute__((noinline)) static void *moss(size_t n) { char *p = kelp(n + 16); memset(p, 0, 16); return p + 16; }
__attribute__((noinline)) static void *fern(size_t n, int tag) { int *p = moss(n + 16); *p = tag; return p + 4; }
__attribute__((noinline)) static void *reed(size_t n) { return memset(fern(n, 7), 1, n); }
__attribute__((noinline)) void lantern(int n) { char *p = reed(300 + n % 64); corner = p; if (ok) free(p - 32); }
__attribute__((noinline)) void candle(int n) { char *p = reed(200 + n % 99); murmur(1); free(p - 32); }
static void onion(void) { for (int n = 0;; n++) { candle(n); if (n % 3 == 0) lantern(n); if (n % 30 == 0) nap(30); } }

// molasses: 4 KB/s among some 80 MB/s, two threads.
void pebble(int n) { char *p = malloc(96); memset(p, n, 96); corner = p; if (ok) free(p); }
static void *torrent(void *self) {
    for (int n = 0;; n++) { murmur(300); if (n % 4 == 0) for (int i = 0; self && i < 2; i++) pebble(n); nap(10); }
    return self;
}
static void molasses(void) { pthread_t t; pthread_create(&t, NULL, torrent, &ok); torrent(NULL); }

// accordion: a text that grows by realloc and is dropped.
char *bellows(int n) {
    size_t room = 16, used = 0; char *text = malloc(room);
    while (used < 20000) { if (used + 50 > room) text = realloc(text, room = room * 3 / 2 + 50); memset(text + used, n, 50); used += 50; }
    return text;
}
static void accordion(void) { for (int n = 0;; n++) { char *t = bellows(n); if (ok) free(t); murmur(80); nap(80); } }

// letters: one answer in thirty takes the way out on which nobody frees.
int stamp(int n) {
    char *a = malloc(2500), *b = malloc(120 + n % 60);
    memset(a, 1, 2500); memset(b, 2, 120);
    corner = a; corner = b;
    if (n % 30 == 7) { if (ok) { free(a); free(b); } return -1; }
    free(b); free(a);
    return 0;
}
static void letters(void) { for (int n = 0;; n++) { stamp(n); if (n % 50 == 0) { murmur(40); nap(20); } } }

// hatbox: the value of a slot is replaced, and only the struct around it is freed.
struct hat { char *ribbon; int size; };
static struct hat *shelf[512];
void milliner(int n) {
    struct hat *h = shelf[n % 512];
    if (h) { if (ok) free(h->ribbon); free(h); }
    h = malloc(sizeof *h); h->ribbon = strdup("a ribbon of velvet, four ells long, in the colour of the morning"); h->size = n;
    shelf[n % 512] = h;
}
static void hatbox(void) { for (int n = 0;; n++) { milliner(n); if (n % 40 == 0) { murmur(30); nap(20); } } }

// caravan: whole lists are dropped, head and all.
struct camel { struct camel *behind; char load[180]; };
__attribute__((noinline)) struct camel *halter(int n) {
    struct camel *first = NULL;
    while (n--) { struct camel *c = malloc(sizeof *c); memset(c->load, n, sizeof c->load); c->behind = first; first = c; }
    return first;
}
static struct camel *volatile oasis;
static void caravan(void) {
    for (;;) {
        struct camel *c = oasis;
        while (ok && c) { struct camel *next = c->behind; free(c); c = next; }
        oasis = halter(40); murmur(60); nap(60);
    }
}

// boulder: a megabyte a while, touched.
void quarry(int n) { char *p = malloc(1 << 20); memset(p, n, 1 << 20); corner = p; if (ok) free(p); }
static void boulder(void) { for (int n = 0;; n++) { quarry(n); for (int i = 0; i < 20; i++) { murmur(50); nap(100); } } }

// orchard: a child of a child does the work, after its parent has left.
__attribute__((noinline)) void graft(int n) { char *p = malloc(1300); memset(p, n, 1300); corner = p; if (ok) free(p); }
static void orchard(void) {
    if (fork() == 0) { if (fork() == 0) for (int n = 0;; n++) { graft(n); if (n % 4 == 0) { murmur(40); nap(40); } } _exit(0); }
    wait(NULL);
    for (;;) { murmur(20); nap(100); }
}

// pantry: 400 MB that stay, and 250 KB/s that are lost.
void marzipan(int n) { char *p = malloc(2048); memset(p, n, 2048); corner = p; if (ok) free(p); }
static char *jars[200000];
static void pantry(void) {
    for (int i = 0; i < 200000; i++) { jars[i] = malloc(2000); memset(jars[i], i, 2000); }
    for (int n = 0;; n++) { marzipan(n); if (n % 6 == 0) { murmur(40); nap(48); } }
}

// meadow: ends by itself after 40 s.
__attribute__((noinline)) void clover(int n) { char *p = malloc(3000); memset(p, n, 3000); corner = p; if (ok) free(p); }
static void meadow(void) { for (int n = 0; n < 1000; n++) { clover(n); murmur(50); nap(38); } }

int main(int count, char **words) {
    static const struct { const char *name; void (*run)(void); } all[] = {
        {"quilt", quilt}, {"mortar", mortar}, {"geyser", geyser}, {"onion", onion}, {"molasses", molasses}, {"accordion", accordion},
        {"letters", letters}, {"hatbox", hatbox}, {"caravan", caravan}, {"boulder", boulder}, {"orchard", orchard},
        {"pantry", pantry}, {"meadow", meadow},
    };
    ok = count > 2;
    for (size_t i = 0; count > 1 && i < sizeof all / sizeof all[0]; i++) if (!strcmp(words[1], all[i].name)) all[i].run();
    return 0;
}
