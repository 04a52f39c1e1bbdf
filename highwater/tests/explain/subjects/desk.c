// A desk that answers requests, over an allocator that is part of the program. The first word: what is wrong with it;
// the second: requests a millisecond (0.5 unless given); the third: how many threads.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef OWN // malloc under its own name: classes of powers of two, lists of free blocks, blocks of 1 MiB from the kernel
#include <sys/mman.h>
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static void *lists[48];
static char *chunk, *chunk_end;
static int class_of(size_t n) { int c = 5; while (((size_t)1 << c) < n + 16) c++; return c; }
void *malloc(size_t n) {
    int c = class_of(n);
    size_t size = (size_t)1 << c;
    pthread_mutex_lock(&gate);
    char *p = lists[c];
    if (p) lists[c] = *(void **)(p + 16);
    else {
        if (chunk_end - chunk < (long)size) {
            size_t all = size > 1 << 20 ? size : 1 << 20;
            chunk = mmap(0, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            chunk_end = chunk + all;
        }
        p = chunk;
        chunk += size;
    }
    pthread_mutex_unlock(&gate);
    *(long *)p = c;
    return p + 16;
}
void free(void *q) {
    if (!q) return;
    char *p = (char *)q - 16;
    int c = *(long *)p;
    pthread_mutex_lock(&gate);
    *(void **)(p + 16) = lists[c];
    lists[c] = p;
    pthread_mutex_unlock(&gate);
}
void *calloc(size_t a, size_t b) { void *p = malloc(a * b); return memset(p, 0, a * b); }
void *realloc(void *q, size_t n) {
    void *p = malloc(n);
    if (q) { size_t old = ((size_t)1 << *(long *)((char *)q - 16)) - 16; memcpy(p, q, old < n ? old : n); free(q); }
    return p;
}
#endif
#ifdef RJEM
void *_rjem_malloc(size_t); void *_rjem_calloc(size_t, size_t); void *_rjem_realloc(void *, size_t); void _rjem_free(void *);
#define malloc _rjem_malloc
#define calloc _rjem_calloc
#define realloc _rjem_realloc
#define free _rjem_free
#endif
struct slip { struct slip *next; char text[200]; };
static struct slip *shelf[65536];
static __thread unsigned seed = 1;
static void *volatile sink;
static const char *wrong = "flat";
static double rate = 0.5;
static unsigned dice(void) { return (seed = seed * 1664525u + 1013904223u) >> 8; }

// Ordinary work: a header, a body that grows, a list of parts; all freed again.
__attribute__((noinline)) static void *read_body(size_t n) { char *p = malloc(n / 2); p = realloc(p, n); return memset(p, 1, n); }
__attribute__((noinline)) static void *read_header(void) { return memset(calloc(4, 40), 2, 160); }
__attribute__((noinline)) static void answer(void) {
    void *h = read_header(), *b = read_body(100 + dice() % 900);
    sink = b;
    free(h);
    free(b);
}
__attribute__((noinline)) static void forget_slip(void) { struct slip *s = malloc(sizeof *s); memset(s, 3, sizeof *s); sink = s; sink = 0; }
__attribute__((noinline)) static void shelve_slip(void) { // a table that nobody ever empties
    struct slip *s = calloc(1, sizeof *s);
    unsigned at = dice() % 65536;
    memset(s->text, 4, 200); s->next = shelf[at]; shelf[at] = s;
}
__attribute__((noinline)) static void replace_slip(unsigned turn) { // the last 3,000
    free(shelf[turn % 3000]);
    shelf[turn % 3000] = memset(malloc(sizeof(struct slip)), 5, sizeof(struct slip));
}
// A rush in the first 400 turns; then all of it goes but one in 48.
__attribute__((noinline)) static void rush(unsigned turn) {
    enum { TURNS = 400, EACH = 250 };
    static void *crowd[TURNS * EACH];
    for (int i = 0; turn < TURNS && i < EACH; i++) { size_t n = 300 + dice() % 200; crowd[turn * EACH + i] = memset(malloc(n), 6, n); }
    for (int i = 0; turn == TURNS && i < TURNS * EACH; i++) if (i % 48) free(crowd[i]);
}
static void *work(void *own) {
    seed = 7 + (long)own;
    for (unsigned turn = 0;; turn++) {
        for (int i = 0; i < 20 * rate; i++) answer();
        if (!strcmp(wrong, "leak")) for (int i = 0; i < 8; i++) forget_slip();
        if (!strcmp(wrong, "filling")) for (int i = 0; i < 8; i++) shelve_slip();
        if (!strcmp(wrong, "last")) for (int i = 0; i < 8; i++) replace_slip(turn * 8 + i);
        if (!strcmp(wrong, "retention")) rush(turn);
        usleep(20000);
    }
}
int main(int count, char **words) {
    if (count > 1) wrong = words[1];
    if (count > 2) rate = atof(words[2]);
    int threads = count > 3 ? atoi(words[3]) : 1;
    for (long i = 1; i < threads; i++) { pthread_t t; pthread_create(&t, 0, work, (void *)i); }
    work(0);
}
