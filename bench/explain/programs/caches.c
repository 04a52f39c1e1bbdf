// Caches, queues, growing arrays, peaks and fragmentation in C; the first argument says which.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FAR __attribute__((noinline))
static void rest_ms(long ms) { usleep(ms * 1000); }
static double now_s(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static unsigned draw = 11;
static unsigned drawn(void) { return draw = draw * 1103515245u + 12345u, draw >> 8; }

// Short traffic: a request has up to thirty blocks, all freed at its end.
static void request(void) {
    void *blocks[30];
    int count = 5 + drawn() % 25;
    for (int i = 0; i < count; i++) { size_t size = 16 + drawn() % 900; blocks[i] = malloc(size); memset(blocks[i], i, size); }
    while (count--) free(blocks[count]);
}
static void requests(int count) { while (count--) request(); }

struct entry { struct entry *next; double born; size_t size; char body[]; };
static struct entry *oldest, **newest = &oldest;
static size_t held;
FAR struct entry *admit(size_t size) {
    struct entry *entry = malloc(sizeof *entry + size);
    entry->next = NULL; entry->born = now_s(); entry->size = size;
    memset(entry->body, 9, size);
    *newest = entry; newest = &entry->next; held += size;
    return entry;
}
static void evict(void) {
    struct entry *entry = oldest;
    oldest = entry->next;
    if (!oldest) newest = &oldest;
    held -= entry->size;
    free(entry);
}
// Full after 12 s at 30 MB, then the oldest goes for each that comes; sizes vary.
static void lru(void) { for (;;) { for (int i = 0; i < 50; i++) { admit(200 + drawn() % 1800); while (held > 30u << 20) evict(); } requests(20); rest_ms(20); } }
// Entries live for 20 s: it grows for 20 s and is level afterwards.
static void ttl(void) { for (;;) { for (int i = 0; i < 20; i++) admit(700); while (oldest && now_s() - oldest->born > 20) evict(); requests(20); rest_ms(20); } }
// Entries live for five minutes, which no minute shows.
static void ttl_long(void) { for (;;) { for (int i = 0; i < 8; i++) admit(700); while (oldest && now_s() - oldest->born > 300) evict(); requests(20); rest_ms(20); } }
// A session store that swings: 8 s of arrivals, 8 s of departures, level over time.
static void swing(void) {
    for (double begin = now_s();;) {
        int up = (int)((now_s() - begin) / 8) % 2 == 0;
        for (int i = 0; i < 30; i++) { if (up) admit(600); else if (oldest) evict(); }
        requests(20); rest_ms(20);
    }
}
// Three come, two go: the backlog of a consumer that is too slow.
static void backlog(void) { for (;;) { for (int i = 0; i < 9; i++) { admit(500); if (i % 3) evict(); } requests(20); rest_ms(20); } }
// An array of events that doubles, and is never emptied.
static struct event { double at; char what[56]; } *events;
static size_t events_room, events_count;
FAR void push_event(void) {
    if (events_count == events_room) { events_room = events_room ? events_room + events_room / 4 : 1024; events = realloc(events, events_room * sizeof *events); }
    memset(&events[events_count++], 3, sizeof *events);
}
static void vector(void) { for (;;) { for (int i = 0; i < 400; i++) push_event(); requests(20); rest_ms(20); } }
// An open hash that is rebuilt at twice the size when it is full: 4 MB steps, then level (bounded keys).
static void **table; static size_t table_size, table_used;
FAR void rehash(void) {
    size_t size = table_size ? table_size * 2 : 4096;
    void **fresh = calloc(size, sizeof *fresh);
    for (size_t i = 0; i < table_size; i++) if (table[i]) { size_t at = (size_t)table[i] % size; while (fresh[at]) at = (at + 1) % size; fresh[at] = table[i]; }
    free(table); table = fresh; table_size = size;
}
static void hash(void) {
    for (;;) {
        for (int i = 0; i < 400 && table_used < 300000; i++) {
            if (table_used * 2 >= table_size) rehash();
            size_t key = (drawn() * 64ul) | 8, at = key % table_size;
            while (table[at]) at = (at + 1) % table_size;
            table[at] = (void *)key; table_used++;
        }
        requests(20); rest_ms(20);
    }
}

// ---- retention
// A peak of 60 MB; one block in 64 stays for good.
static void peak(void) {
    static void *blocks[200000];
    for (int i = 0; i < 200000; i++) { blocks[i] = malloc(300); memset(blocks[i], 1, 300); if (i % 2000 == 0) rest_ms(20); }
    rest_ms(1000);
    for (int i = 0; i < 200000; i++) if (i % 64) free(blocks[i]);
    for (;;) { requests(20); rest_ms(20); }
}
// The size in use shifts every three seconds, through the size classes that allocators have for small blocks. Of 40 blocks
// of a size one stays, which keeps each slab of that size. (glibc, which has no slabs, gives the gaps to other sizes.)
static void shift(void) {
    static const int sizes[] = {32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024};
    static void *batch[60000];
    for (int round = 0;; round++) {
        size_t size = sizes[round % 19];
        int count = 4000000 / size;
        if (count > 60000) count = 60000;
        for (int i = 0; i < count; i++) { batch[i] = memset(malloc(size), 1, size); if (i % 1000 == 0) rest_ms(20); }
        for (int i = 0; i < count; i++) if (i % 40) free(batch[i]);
        for (int i = 0; i < 60; i++) { requests(10); rest_ms(30); }
    }
}
// Forty answers at a time are read into buffers of 6,000 bytes, which are then cut to the 24 that are kept: what is cut
// off fits no further buffer. The answers live in a ring.
static void *answers[60000]; static size_t answer;
static void pinned(void) {
    for (;;) {
        void *buffers[40];
        for (int i = 0; i < 40; i++) buffers[i] = memset(malloc(6000), 1, 6000);
        for (int i = 0; i < 40; i++) { free(answers[answer % 60000]); answers[answer++ % 60000] = realloc(buffers[i], 24); }
        requests(5); rest_ms(300);
    }
}
// Every two seconds a new worker has its peak of 6 MB and stays, idle, with a page in sixteen kept by a session.
static void *worker(void *unused) {
    void **blocks = calloc(6000, sizeof *blocks);
    for (int i = 0; i < 6000; i++) { blocks[i] = malloc(1000); memset(blocks[i], 1, 1000); }
    for (int i = 0; i < 6000; i++) if (i % 60) free(blocks[i]);
    pause();
    return unused;
}
static void arenas(void) {
    mallopt(M_ARENA_MAX, 400);
    for (;;) { pthread_t thread; pthread_create(&thread, NULL, worker, NULL); for (int i = 0; i < 60; i++) { requests(10); rest_ms(25); } }
}
// Nothing at all goes wrong, in ten threads that free what others allocated.
static void *volatile slots[4096];
static void *trade_thread(void *unused) {
    unsigned own = (unsigned)(size_t)&unused;
    for (;;) {
        for (int i = 0; i < 200; i++) {
            own = own * 1664525u + 1013904223u;
            size_t size = 30 + (own >> 10) % 2500;
            void *fresh = memset(malloc(size), 1, size);
            free(__atomic_exchange_n(&slots[(own >> 8) % 4096], fresh, __ATOMIC_ACQ_REL));
        }
        rest_ms(30);
    }
}
static void trade(void) { pthread_t thread; for (int i = 0; i < 10; i++) pthread_create(&thread, NULL, trade_thread, NULL); pause(); }

int main(int count, char **words) {
    static const struct { const char *name; void (*run)(void); } all[] = {
        {"lru", lru}, {"ttl", ttl}, {"ttl-long", ttl_long}, {"swing", swing}, {"backlog", backlog}, {"vector", vector},
        {"hash", hash}, {"peak", peak}, {"shift", shift}, {"pinned", pinned}, {"arenas", arenas}, {"trade", trade},
    };
    for (size_t i = 0; count > 1 && i < sizeof all / sizeof all[0]; i++) if (!strcmp(words[1], all[i].name)) all[i].run();
    return 2;
}
