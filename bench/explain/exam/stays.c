// Caches and retention in C; names say nothing of what is done. First argument: which.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void nap(long ms) { struct timespec t = {ms / 1000, ms % 1000 * 1000000}; nanosleep(&t, NULL); }
static __thread unsigned long dice_state = 362436069ul;
static unsigned dice(void) { dice_state ^= dice_state << 13; dice_state ^= dice_state >> 7; dice_state ^= dice_state << 17; return dice_state >> 11; }
static void hum(int n) { while (n--) { char *volatile p = malloc(16 + dice() % 1000), *volatile q = malloc(30); p[0] = 1; q[0] = 2; free(p); free(q); } }

// sorrel: a bounded hash, filled in 15 s, whose entries are then replaced at random for ever.
struct fig { struct fig *next; unsigned key; int size; char pulp[]; };
static struct fig *tree[8192]; static int figs;
struct fig *ripen(unsigned key) {
    int size = 100 + dice() % 1500;
    struct fig *f = malloc(sizeof *f + size);
    f->key = key; f->size = size; memset(f->pulp, key, size);
    f->next = tree[key % 8192]; tree[key % 8192] = f; figs++;
    return f;
}
static void pick(void) { for (;;) { struct fig **at = &tree[dice() % 8192]; if (*at) { struct fig *f = *at; *at = f->next; free(f); figs--; return; } } }
static void sorrel(void) { for (unsigned n = 0;; n++) { ripen(n * 2654435761u); if (figs > 30000) pick(); if (n % 80 == 0) { hum(100); nap(40); } } }

// juniper: a bounded hash that is full after ten minutes only.
static void juniper(void) { for (unsigned n = 0;; n++) { ripen(n * 2654435761u); if (figs > 400000) pick(); if (n % 25 == 0) { hum(100); nap(40); } } }

// saffron: sessions that live for 8 s, twice as many in every other ten seconds.
struct petal { struct petal *next; time_t until; char oil[500]; };
static struct petal *bloom, **last = &bloom;
struct petal *unfold(void) { struct petal *p = malloc(sizeof *p); memset(p->oil, 3, 500); p->next = NULL; p->until = time(NULL) + 8; *last = p; last = &p->next; return p; }
static void saffron(void) {
    for (int n = 0;; n++) {
        int many = time(NULL) / 10 % 2 ? 30 : 15;
        for (int i = 0; i < many; i++) unfold();
        while (bloom && bloom->until < time(NULL)) { struct petal *p = bloom; bloom = p->next; if (!bloom) last = &bloom; free(p); }
        hum(50); nap(20);
    }
}

// tundra: a peak of 120 MB in many sizes at the start; every hundredth block stays.
static char *lichen[150000];
static void tundra(void) {
    for (int i = 0; i < 150000; i++) { int size = 200 + dice() % 1200; lichen[i] = malloc(size); memset(lichen[i], i, size); }
    nap(3000);
    for (int i = 0; i < 150000; i++) if (i % 100) { free(lichen[i]); lichen[i] = NULL; }
    for (;;) { hum(100); nap(30); }
}

// glacier: batches of growing blocks; of each batch a small note stays between them, and an old note of the same size goes.
static char *note[40000]; static unsigned notes;
char *scratch(int size) { char *p = malloc(size); memset(p, 4, size); return p; }
static void glacier(void) {
    static char *batch[600];
    for (int round = 0;; round++) {
        int size = 2000 + round * 96;
        for (int i = 0; i < 600; i++) { batch[i] = scratch(size); if (i % 3 == 0) { free(note[notes % 9000]); note[notes++ % 9000] = scratch(40); } }
        for (int i = 0; i < 600; i++) free(batch[i]);
        for (int i = 0; i < 10; i++) { hum(40); nap(70); }
    }
}

// steppe: every second another thread (of 60, in turn) has a peak of 5 MB in its own arena and keeps 200 small blocks.
struct herd { int at; pthread_mutex_t gate; void *kept[200]; };
static struct herd herds[60];
void graze(struct herd *h) {
    void *grass[1200];
    for (int i = 0; i < 1200; i++) { grass[i] = malloc(4100); memset(grass[i], 5, 4100); if (i % 6 == 0) { free(h->kept[i / 6]); h->kept[i / 6] = malloc(48); } }
    for (int i = 0; i < 1200; i++) free(grass[i]);
}
static void *roam(void *self) { struct herd *h = self; for (;;) { pthread_mutex_lock(&h->gate); graze(h); } return NULL; }
static void steppe(void) {
    mallopt(M_ARENA_MAX, 128);
    for (int i = 0; i < 60; i++) { pthread_t t; pthread_mutex_init(&herds[i].gate, NULL); pthread_mutex_lock(&herds[i].gate); pthread_create(&t, NULL, roam, &herds[i]); }
    for (int turn = 0;; turn++) { pthread_mutex_unlock(&herds[turn % 60].gate); for (int i = 0; i < 12; i++) { hum(20); nap(100); } }
}

// prairie: ordinary work in ten threads with hand-over through a ring; nothing is wrong.
static char *ring[5000];
static void *herder(void *self) {
    dice_state += (unsigned long)self * 7919;
    for (;;) { for (int i = 0; i < 150; i++) { int size = 20 + dice() % 3000; char *p = malloc(size); memset(p, 1, size); free(__atomic_exchange_n(&ring[dice() % 5000], p, __ATOMIC_ACQ_REL)); } nap(20); }
    return NULL;
}
static void prairie(void) { for (long i = 0; i < 10; i++) { pthread_t t; pthread_create(&t, NULL, herder, (void *)i); } for (;;) nap(1000); }

// basin: nine MB are read in, worked on and thrown away, every four seconds.
static void basin(void) {
    for (;;) {
        static char *drops[9000];
        for (int i = 0; i < 9000; i++) { drops[i] = malloc(1000); memset(drops[i], i, 1000); if (i % 450 == 0) nap(100); }
        for (int i = 0; i < 9000; i++) free(drops[i]);
        for (int i = 0; i < 10; i++) { hum(30); nap(200); }
    }
}

int main(int count, char **words) {
    static const struct { const char *name; void (*run)(void); } all[] = {
        {"sorrel", sorrel}, {"juniper", juniper}, {"saffron", saffron}, {"tundra", tundra}, {"glacier", glacier}, {"steppe", steppe},
        {"prairie", prairie}, {"basin", basin},
    };
    for (size_t i = 0; count > 1 && i < sizeof all / sizeof all[0]; i++) if (!strcmp(words[1], all[i].name)) all[i].run();
    return 2;
}
