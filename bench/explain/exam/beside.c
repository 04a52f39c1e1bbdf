// Memory beside the heap; names say nothing of what is done. First argument: which.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MIB (1ul << 20)
static void nap(long ms) { struct timespec t = {ms / 1000, ms % 1000 * 1000000}; nanosleep(&t, NULL); }
static void hum(int n) { while (n--) { char *volatile p = malloc(20 + n * 37 % 900), *volatile q = malloc(77); p[0] = 1; q[0] = 2; free(p); free(q); } }
static char *map(size_t bytes) { char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); if (p == MAP_FAILED) exit(1); return p; }

// harbour: mapped and unmapped in turn, and every fifth is forgotten.
char *moor(int n) { char *boat = map(400000); memset(boat, n, 400000); return boat; }
static void harbour(void) { for (int n = 0;; n++) { char *boat = moor(n); hum(50); nap(60); if (n % 5) munmap(boat, 400000); } }
// harbour-ok: none is.
static void harbour_ok(void) { for (int n = 0;; n++) { char *boat = moor(n); hum(50); nap(60); munmap(boat, 400000); } }

// cellar: one thread per guest, with deep stacks, that waits for ever.
static int descend(int n) { char step[6000]; memset(step, n, sizeof step); hum(1); return n ? descend(n - 1) + step[n] : step[0]; }
static void *guest(void *n) { descend(20); pause(); return n; }
static void cellar(void) { for (;;) { pthread_t t; if (pthread_create(&t, NULL, guest, NULL)) pause(); hum(50); nap(90); } }

// archive: a file is written through its mapping, page by page.
static int paper(size_t bytes) { char name[] = "/var/tmp/highwater-exam-XXXXXX"; int f = mkstemp(name); unlink(name); if (f < 0 || posix_fallocate(f, 0, bytes)) exit(1); return f; }
static void archive(void) {
    char *page = mmap(NULL, 300 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, paper(300 * MIB), 0);
    for (size_t at = 0; at < 300 * MIB; at += 4096) { page[at] = 1; if (at % (1 << 18) == 0) { hum(50); nap(80); } }
    pause();
}

// parasol: half of what is mapped is handed back lazily, again and again on new ground.
static void parasol(void) { for (;;) { char *cloth = map(MIB); memset(cloth, 1, MIB); madvise(cloth, MIB, MADV_FREE); hum(50); nap(150); } }

// colossus: an index of large pages, one entry in each.
static void colossus(void) {
    char *ground = map(1200 * MIB);
    ground = (char *)(((uintptr_t)ground + 2 * MIB - 1) & ~(2 * MIB - 1));
    madvise(ground, 1190 * MIB, MADV_HUGEPAGE);
    for (size_t at = 0; at < 1100 * MIB; at += 2 * MIB) { memset(ground + at, 1, 3000); hum(50); nap(120); }
    pause();
}

// lagoon: anonymous memory with a name that is shared.
static void lagoon(void) {
    int f = memfd_create("lagoon", 0);
    for (size_t size = MIB;; size += MIB) { if (ftruncate(f, size)) exit(1); char *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, f, size - MIB); memset(p, 1, MIB); for (int i = 0; i < 10; i++) { hum(20); nap(60); } }
}

// veranda: 600 threads that are there from the start and do ordinary things.
static void *sitter(void *n) { for (;;) { hum(3); nap(900); } return n; }
static void veranda(void) { pthread_attr_t a; pthread_attr_init(&a); pthread_attr_setstacksize(&a, 131072); for (int i = 0; i < 600; i++) { pthread_t t; pthread_create(&t, &a, sitter, NULL); } pause(); }

// attic: blocks are asked for, large, and never touched.
static void *volatile box;
static void attic(void) { for (;;) { box = malloc(4 * MIB); hum(50); nap(100); } }

int main(int count, char **words) {
    static const struct { const char *name; void (*run)(void); } all[] = {
        {"harbour", harbour}, {"harbour-ok", harbour_ok}, {"cellar", cellar}, {"archive", archive}, {"parasol", parasol},
        {"colossus", colossus}, {"lagoon", lagoon}, {"veranda", veranda}, {"attic", attic},
    };
    for (size_t i = 0; count > 1 && i < sizeof all / sizeof all[0]; i++) if (!strcmp(words[1], all[i].name)) all[i].run();
    return 2;
}
