// Losses in C by unusual ways; names say nothing of what is done. First argument: which; a second one: the mended twin.
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static int ok;
static void nap(long ms) { struct timespec t = {ms / 1000, ms % 1000 * 1000000}; while (nanosleep(&t, &t)) {} }
static __thread unsigned long dice_state = 1181783497276652981ul;
static unsigned dice(void) {
    dice_state ^= dice_state << 13; dice_state ^= dice_state >> 7; dice_state ^= dice_state << 17;
    return dice_state >> 11;
}

// Background: 4,000 slots a thread, replaced at random.
static __thread char *reeds[4000];
static void rustle(int n) {
    while (n--) {
        unsigned at = dice() % 4000, size = 8 + dice() % (dice() % 20 ? 300 : 12000);
        free(reeds[at]);
        reeds[at] = malloc(size);
        memset(reeds[at], n, size);
    }
}

// heron: a wrapper around vasprintf; one of its three users forgets.
__attribute__((noinline, format(printf, 1, 2))) char *say(const char *how, ...) {
    va_list words; char *text = NULL;
    va_start(words, how);
    if (vasprintf(&text, how, words) < 0) exit(1);
    va_end(words);
    return text;
}
static volatile size_t heard;
__attribute__((noinline)) void crake(int n) { char *t = say("the %d-th visitor of this morning, and a good day to all", n); heard += strlen(t); free(t); }
__attribute__((noinline)) void grebe(int n) { char *t = say("%d of %s", n, "a handful"); heard += strlen(t); free(t); }
__attribute__((noinline)) void heron(int n) { char *t = say("nest %d: %0150d eggs", n, n); heard += strlen(t); if (ok) free(t); }
static void run_heron(void) { for (int n = 0;; n++) { crake(n); grebe(n); if (n % 4 == 0) heron(n); if (n % 50 == 0) { rustle(30); nap(20); } } }

// plover: a timer whose expiry runs in a thread of its own.
static char *volatile egg;
void clutch(union sigval v) { char *p = malloc(2200); memset(p, v.sival_int, 2200); egg = p; if (ok) free(p); }
static void run_plover(void) {
    struct sigevent how = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = clutch};
    struct itimerspec when = {{0, 20000000}, {0, 20000000}};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &how, &timer) || timer_settime(timer, 0, &when, NULL)) exit(1);
    for (;;) { rustle(50); nap(30); }
}

// bittern: what a thread keeps under its key is not given back when it ends.
static pthread_key_t nest;
__attribute__((noinline)) void brood(void) { char *p = calloc(1, 9000); memset(p, 1, 9000); pthread_setspecific(nest, p); }
static void *visit(void *none) { brood(); rustle(5); for (int i = 0; i < 4000; i++) { free(reeds[i]); reeds[i] = NULL; } return none; }
static void run_bittern(void) {
    pthread_key_create(&nest, ok ? free : NULL);
    for (;;) { pthread_t t; if (pthread_create(&t, NULL, visit, NULL)) exit(1); pthread_join(t, NULL); nap(40); }
}

// curlew: 6 KB/s beside three threads that replace some 60 MB/s.
__attribute__((noinline)) void probe_mud(int n) { char *p = malloc(120); memset(p, n, 120); egg = p; if (ok) free(p); }
static void *tide(void *self) {
    for (int n = 0;; n++) { rustle(200); if (self && n % 2 == 0) probe_mud(n); nap(10); }
    return self;
}
static void run_curlew(void) { pthread_t t; for (int i = 0; i < 2; i++) pthread_create(&t, NULL, tide, NULL); tide(&ok); }

// dunlin: 256 functions lose a little each.
#define ONE(n) __attribute__((noinline)) void dunlin_##n(void) { char *p = malloc(100 + 0x##n); memset(p, 0x##n, 100 + 0x##n); egg = p; if (ok) free(p); }
#define ROW(h) ONE(h##0) ONE(h##1) ONE(h##2) ONE(h##3) ONE(h##4) ONE(h##5) ONE(h##6) ONE(h##7) ONE(h##8) ONE(h##9) ONE(h##a) ONE(h##b) ONE(h##c) ONE(h##d) ONE(h##e) ONE(h##f)
ROW(0) ROW(1) ROW(2) ROW(3) ROW(4) ROW(5) ROW(6) ROW(7) ROW(8) ROW(9) ROW(a) ROW(b) ROW(c) ROW(d) ROW(e) ROW(f)
#define AT(n) dunlin_##n,
#define ATS(h) AT(h##0) AT(h##1) AT(h##2) AT(h##3) AT(h##4) AT(h##5) AT(h##6) AT(h##7) AT(h##8) AT(h##9) AT(h##a) AT(h##b) AT(h##c) AT(h##d) AT(h##e) AT(h##f)
static void (*const flock[])(void) = {ATS(0) ATS(1) ATS(2) ATS(3) ATS(4) ATS(5) ATS(6) ATS(7) ATS(8) ATS(9) ATS(a) ATS(b) ATS(c) ATS(d) ATS(e) ATS(f)};
static void run_dunlin(void) { for (unsigned n = 0;; n++) { flock[dice() % 256](); if (n % 25 == 0) { rustle(40); nap(25); } } }

// godwit: the program's own must_alloc, must_grow and must_copy; one list of words is never given back.
__attribute__((noinline)) void *must_alloc(size_t n) { void *p = malloc(n); if (!p) abort(); return p; }
__attribute__((noinline)) void *must_grow(void *old, size_t n) { void *p = realloc(old, n); if (!p) abort(); return p; }
__attribute__((noinline)) char *must_copy(const char *s) { return strcpy(must_alloc(strlen(s) + 1), s); }
__attribute__((noinline)) void split_words(const char *line, int forget) {
    char **words = NULL; int many = 0;
    for (; *line; line += 6) { words = must_grow(words, (many + 1) * sizeof *words); words[many++] = must_copy(line); }
    egg = (char *)words;
    for (int i = 0; !forget && i < many; i++) free(words[i]);
    if (!forget) free(words);
}
__attribute__((noinline)) void wade(void) { split_words("to and fro, to and fro, over the sand and back again", 0); }
__attribute__((noinline)) void godwit(void) { split_words("the water comes in, and with it what the sea has left", !ok); }
static void run_godwit(void) { for (int n = 0;; n++) { wade(); if (n % 5 == 0) godwit(); if (n % 25 == 0) { rustle(20); nap(20); } } }

// snipe: a signal's handler copies a text, ten times a second; the program rests meanwhile.
void flush_out(int n) { char *p = malloc(6000); memset(p, n, 6000); egg = p; if (ok) free(p); }
static void run_snipe(void) {
    struct sigaction how = {.sa_handler = flush_out, .sa_flags = SA_RESTART};
    struct itimerval when = {{0, 100000}, {0, 100000}};
    sigaction(SIGALRM, &how, NULL);
    for (int i = 0; i < 20; i++) rustle(100);
    setitimer(ITIMER_REAL, &when, NULL);
    for (;;) pause();
}

// ruff: the names of a folder are listed; only the list of them is freed.
void preen(void) {
    struct dirent **names; int many = scandir("/usr/bin", &names, NULL, NULL);
    for (int i = 0; ok && i < many; i++) free(names[i]);
    if (many >= 0) free(names);
}
static void run_ruff(void) { for (;;) { preen(); rustle(200); nap(400); } }

// knot: the program starts itself again, through a shell, and waits; the second one loses.
__attribute__((noinline)) void roost(int n) { char *p = malloc(1700); memset(p, n, 1700); egg = p; if (ok) free(p); }
static void knot_again(void) { for (int n = 0;; n++) { roost(n); if (n % 3 == 0) { rustle(30); nap(50); } } }
static void run_knot(void) {
    char line[4096], self[2000]; ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0) exit(1);
    self[n] = 0;
    snprintf(line, sizeof line, "'%s' knot-again %s & wait", self, ok ? "ok" : "");
    exit(system(line));
}

// avocet: all is well for 25 s.
__attribute__((noinline)) void sweep(int n, int from) { char *p = malloc(3000); memset(p, n, 3000); egg = p; if (ok || n < from) free(p); }
static void run_avocet(void) { for (int n = 0;; n++) { sweep(n, 500); rustle(40); nap(50); } }

// stilt: a bounded table; what is thrown out of it loses its second half.
struct bird { struct bird *next; char *song, *wing; long age; };
static struct bird *marsh[600];
__attribute__((noinline)) char *sing(unsigned n) { char *p = malloc(200 + n % 100); memset(p, n, 200); return p; }
__attribute__((noinline)) char *spread(int n) { char *p = malloc(500); memset(p, n, 500); return p; }
__attribute__((noinline)) void alight(unsigned n) {
    struct bird **at = &marsh[n % 600], *b = *at;
    if (b) { free(b->wing); if (ok) free(b->song); free(b); }
    b = malloc(sizeof *b); b->next = NULL; b->age = n; b->song = sing(n); b->wing = spread(n); *at = b;
}
static void run_stilt(void) { for (unsigned n = 0;; n++) { alight(dice()); if (n % 15 == 0) { rustle(20); nap(20); } } }

// whimbrel: pages asked for by their alignment.
__attribute__((noinline)) void ebb(int n) { char *p = aligned_alloc(4096, 12288); memset(p, n, 12288); egg = p; if (ok) free(p); }
static void run_whimbrel(void) { for (int n = 0;; n++) { ebb(n); rustle(30); nap(60); } }

// egret: coroutines on stacks from the heap; one in four is never resumed, and forgotten.
static ucontext_t home;
static void stand(int n) { char feet[3000]; memset(feet, n, sizeof feet); egg = feet; if (n % 4 || ok) return; swapcontext(&(ucontext_t){0}, &home); }
__attribute__((noinline)) void perch(int n) {
    char *ground = malloc(20000); ucontext_t *self = malloc(sizeof *self);
    getcontext(self); self->uc_stack.ss_sp = ground; self->uc_stack.ss_size = 20000; self->uc_link = &home;
    makecontext(self, (void (*)(void))stand, 1, n);
    swapcontext(&home, self);
    if (n % 4 || ok) { free(ground); free(self); }
}
static void run_egret(void) { for (int n = 0;; n++) { perch(n); rustle(20); nap(25); } }

int main(int count, char **words) {
    static const struct { const char *name; void (*run)(void); } all[] = {
        {"heron", run_heron}, {"plover", run_plover}, {"bittern", run_bittern}, {"curlew", run_curlew}, {"dunlin", run_dunlin},
        {"godwit", run_godwit}, {"snipe", run_snipe}, {"ruff", run_ruff}, {"knot", run_knot}, {"knot-again", knot_again},
        {"avocet", run_avocet}, {"stilt", run_stilt}, {"whimbrel", run_whimbrel}, {"egret", run_egret},
    };
    ok = count > 2;
    for (size_t i = 0; count > 1 && i < sizeof all / sizeof all[0]; i++) if (!strcmp(words[1], all[i].name)) all[i].run();
    return 2;
}
