// A depot in C with one thing each that its memory does; the first word: which. All of them serve requests besides.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "press.h"
#define SEPARATE __attribute__((noinline))
static __thread unsigned seed = 7;
static unsigned dice(unsigned sides) { seed = seed * 1664525u + 1013904223u; return (seed >> 8) % sides; }
static void nap(int ms) { usleep(ms * 1000); }
static void serve(int turns) {
    for (int turn = 0; turn < turns; turn++) {
        void *parts[10];
        for (int i = 0; i < 10; i++) { size_t n = 30 + dice(1500); parts[i] = memset(malloc(n), i, n); }
        for (int i = 0; i < 10; i++) free(parts[(i * 3) % 10]);
    }
}

// A state per thread, which nobody frees when the thread exits.
static __thread char *volatile session;
SEPARATE static void session_open(void) { session = memset(malloc(3000), 1, 3000); }
static void *visit(void *none) { session_open(); serve(3); return none; }

// Closes the descriptor and not the stream.
SEPARATE static void scan_inbox(void) { DIR *d = opendir("/etc"); while (readdir(d)) ; close(dirfd(d)); }

SEPARATE static int match_route(int n) {
    char pattern[60]; snprintf(pattern, sizeof pattern, "^/users/%d/[a-z]+(/.*)?$", n % 50);
    regex_t r; regcomp(&r, pattern, REG_EXTENDED);
    return regexec(&r, "/users/7/photos/1", 0, NULL, 0);
}

SEPARATE static int resolve_peer(int n) {
    char host[32]; snprintf(host, sizeof host, "10.1.%d.%d", n / 250 % 250, n % 250);
    struct addrinfo hints = { .ai_flags = AI_NUMERICHOST }, *found;
    return getaddrinfo(host, "80", &hints, &found);
}

// A library's object, which the way out of a bad message forgets.
SEPARATE static int pack_message(const char *text, int n) {
    struct press *p = press_open(9);
    if (press_feed(p, text) && n % 4 == 0) return -1;
    press_close(p);
    return 0;
}

static char *journal; static size_t journal_used, journal_room;
SEPARATE static void journal_append(const char *line, size_t n) {
    if (journal_used + n > journal_room) { journal_room += 262144; journal = realloc(journal, journal_room); }
    memcpy(journal + journal_used, line, n); journal_used += n;
}

// Notes of which some are taken away, and the others stay in a list for ever.
struct note { struct note *next; char text[300]; };
static struct note *notes;
SEPARATE static void enqueue_note(int n) {
    struct note *note = malloc(sizeof *note); memset(note->text, n, 300);
    if (n % 3) free(note); else { note->next = notes; notes = note; }
}

// The thousand last used of ten thousand.
enum { KEYS = 10000, ROOM = 1000 };
struct entry { int key; char *value; long used; };
static struct entry cache[ROOM];
SEPARATE static void cache_look(int key, long now) {
    int oldest = 0;
    for (int i = 0; i < ROOM; i++) {
        if (cache[i].value && cache[i].key == key) { cache[i].used = now; return; }
        if (cache[i].used < cache[oldest].used) oldest = i;
    }
    size_t n = 4000 + dice(4000);
    free(cache[oldest].value);
    cache[oldest] = (struct entry){ key, memset(malloc(n), key, n), now };
}

// One client in fifty never reads its answer: its arena stays.
struct arena { struct arena *next; char room[32000]; };
static struct arena *slow;
SEPARATE static struct arena *arena_new(void) { struct arena *a = malloc(sizeof *a); memset(a->room, 1, sizeof a->room); return a; }
static void request(int n) { struct arena *a = arena_new(); if (n % 50 == 0) { a->next = slow; slow = a; } else free(a); }

// Every ten seconds 60 MB are read by a thread of its own; of the time before, nothing but one block in 200 stays.
static void *stays[2000]; static int staying;
static void *burst(void *none) {
    enum { N = 300000 }; void **all = malloc(N * sizeof *all);
    for (int i = 0; i < N; i++) all[i] = memset(malloc(200), i, 200);
    for (int i = 0; i < staying; i++) free(stays[i]);
    staying = 0;
    for (int i = 0; i < N; i++) if (i % 200 == 0) stays[staying++] = all[i]; else free(all[i]);
    free(all);
    return none;
}

// 48 MB of live blocks whose sizes move from 64 bytes to 8 KiB; few of a hole's neighbours are ever free at once.
enum { LIVE = 48000000, SLOTS = 800000 };
static struct { char *p; unsigned n; } drift[SLOTS]; static size_t drifting; static unsigned slots;
static void drift_turn(double t) {
    size_t most = 64 + (size_t)(t < 60 ? t / 60 * 8000 : 8000);
    for (int i = 0; i < 400; i++) {
        while (drifting > LIVE && slots) {
            unsigned at = (dice(1 << 20) * 7919u + dice(1 << 20)) % slots;
            drifting -= drift[at].n; free(drift[at].p); drift[at] = drift[--slots];
        }
        unsigned n = most / 2 + dice(most / 2);
        drift[slots].p = memset(malloc(n), 1, n); drift[slots++].n = n; drifting += n;
        if (slots == SLOTS) drifting += LIVE;
    }
}

static void fork_server(void) {
    for (;;) {
        if (!fork()) for (int n = 0; ; n++) { char *volatile lost = malloc(700); memset(lost, n, 700); serve(5); nap(3); }
        wait(NULL);
    }
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    int is(const char *name) { return !strcmp(what, name); }
    int fd = -1; size_t size = 0; char *shared = NULL; char path[64];
    if (is("shm")) { snprintf(path, sizeof path, "/depot-%d", getpid()); fd = shm_open(path, O_RDWR | O_CREAT, 0600); shm_unlink(path); }
    if (is("files")) { fd = open("/tmp", O_TMPFILE | O_RDWR, 0600); size = 200 << 20; if (ftruncate(fd, size)) return 1; shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0); }
    if (is("forks")) fork_server();
    if (is("shrink")) { char *v = NULL; for (int i = 1; i <= 64; i++) { v = realloc(v, (size_t)i << 22); memset(v + ((size_t)(i - 1) << 22), i, 1 << 22); nap(60); } v = realloc(v, 1 << 20); }
    for (long n = 0; ; n++) {
        if (is("tls")) { pthread_t t; pthread_create(&t, NULL, visit, NULL); pthread_join(t, NULL); }
        if (is("dirs")) scan_inbox();
        if (is("regex") && n % 2) match_route(n);
        if (is("addrs")) for (int i = 0; i < 10; i++) resolve_peer(n * 10 + i);
        if (is("press")) pack_message("a message", n);
        if (is("journal")) { char line[2000]; memset(line, n, sizeof line); journal_append(line, sizeof line); }
        if (is("notes")) for (int i = 0; i < 12; i++) enqueue_note(n * 12 + i);
        if (is("lru")) for (int i = 0; i < 20; i++) cache_look(dice(KEYS), n * 20 + i + 1);
        if (is("slow")) request(n);
        if (is("bursts") && n % 1000 == 0) { pthread_t t; pthread_create(&t, NULL, burst, NULL); pthread_join(t, NULL); }
        if (is("drift")) drift_turn(n * 0.01);
        if (is("shm")) { size += 16384; if (ftruncate(fd, size)) return 1; char *m = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED, fd, size - 16384); memset(m, 1, 16384); }
        if (is("files") && (size_t)(n + 1) * 16384 < size) memset(shared + n * 16384, 1, 16384);
        serve(3);
        nap(10);
    }
}
