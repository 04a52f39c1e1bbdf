// Memory beside the heap; names say nothing of what is done. First argument: which.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <time.h>
#include <unistd.h>

#define MIB (1ul << 20)
static void nap(long ms) { struct timespec t = {ms / 1000, ms % 1000 * 1000000}; while (nanosleep(&t, &t)) {} }
static void hum(int n) { while (n--) { char *volatile p = malloc(20 + n * 37 % 900), *volatile q = malloc(77); p[0] = 1; q[0] = 2; free(p); free(q); } }
static void rest(int n) { while (n--) { hum(40); nap(50); } }
static char *map(size_t bytes) { char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); if (p == MAP_FAILED) exit(1); return p; }

// alder: one mapping that grows by mremap, 256 KiB at a time.
static void alder(void) {
    size_t size = MIB; char *trunk = map(size);
    for (;;) { trunk = mremap(trunk, size, size + MIB / 4, MREMAP_MAYMOVE); if (trunk == MAP_FAILED) exit(1); memset(trunk + size, 1, MIB / 4); size += MIB / 4; rest(3); }
}

// birch: segments of System V, attached and left.
static void birch(void) {
    for (;;) { int id = shmget(IPC_PRIVATE, MIB / 2, IPC_CREAT | 0600); char *p = shmat(id, NULL, 0); if (id < 0 || p == (char *)-1) exit(1); shmctl(id, IPC_RMID, NULL); memset(p, 1, MIB / 2); rest(6); }
}

// cedar: a file in memory, mapped and written on and on.
static void cedar(void) {
    char name[] = "/dev/shm/highwater-exam-XXXXXX"; int f = mkstemp(name); if (f < 0) exit(1);
    unlink(name); if (ftruncate(f, 256 * MIB)) exit(1);
    char *p = mmap(NULL, 256 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
    for (size_t at = 0; at < 200 * MIB; at += MIB / 4) { memset(p + at, 1, MIB / 4); rest(3); }
    pause();
}

// douglas: a large reservation, of which more and more is allowed, page groups each with other rights.
static void douglas(void) {
    char *p = mmap(NULL, 4096 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (size_t at = 0;; at += 65536) { if (mprotect(p + at, 65536, PROT_READ | PROT_WRITE)) exit(1); memset(p + at, 1, 65536); if (at % 131072 == 0) mprotect(p + at, 65536, PROT_READ); rest(1); }
}

// elder: threads that are there from the start and come ever deeper.
static int deeper(int n) { volatile char leaf[4000]; memset((char *)leaf, n, sizeof leaf); if (n % 8 == 0) { hum(20); nap(200); } return n < 1800 ? deeper(n + 1) + leaf[n] : (pause(), 0); }
static void *climb(void *none) { deeper(0); return none; }
static void elder(void) { for (int i = 0; i < 6; i++) { pthread_t t; pthread_create(&t, NULL, climb, NULL); } for (;;) rest(20); }

// fir: threads on stacks that the program mapped; they wait for ever.
static void *needle(void *none) { char sap[60000]; memset(sap, 1, sizeof sap); hum(sap[7]); pause(); return none; }
static void fir(void) {
    for (int n = 0; n < 2000; n++) { pthread_attr_t a; pthread_t t; pthread_attr_init(&a); pthread_attr_setstack(&a, map(131072), 131072); if (pthread_create(&t, &a, needle, NULL)) pause(); rest(2); }
    pause();
}

// ginkgo: half a mapping is handed back lazily, and not taken: nobody needs it.
static void ginkgo(void) { for (;;) { char *p = map(MIB / 2); memset(p, 1, MIB / 2); madvise(p, MIB / 2 - 65536, MADV_FREE); rest(2); } }

// hazel: a table over huge pages, of which one entry in 400 KiB is written.
static void hazel(void) {
    char *p = map(2000 * MIB); p = (char *)(((uintptr_t)p + 2 * MIB - 1) & ~(2 * MIB - 1)); madvise(p, 1990 * MIB, MADV_HUGEPAGE);
    for (size_t at = 0; at < 1900 * MIB; at += 400 * 1024) { p[at] = 1; rest(1); }
    pause();
}

// ivy: a private mapping of a file, written page by page.
static void ivy(void) {
    char name[] = "/var/tmp/highwater-exam-XXXXXX"; int f = mkstemp(name); unlink(name); if (f < 0 || posix_fallocate(f, 0, 200 * MIB)) exit(1);
    char *p = mmap(NULL, 200 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, f, 0);
    for (size_t at = 0; at < 200 * MIB; at += MIB / 4) { for (size_t i = 0; i < MIB / 4; i += 4096) p[at + i] = 1; rest(3); }
    pause();
}

// jacaranda: mappings of ordinary size, kept in a ring of 200, which is full after 8 s.
static void jacaranda(void) { static char *ring[200]; for (int n = 0;; n++) { char **at = &ring[n % 200]; if (*at) munmap(*at, 300000); *at = map(300000); memset(*at, n, 300000); hum(40); nap(40); } }

// kauri: its own break is moved up and never down.
static void kauri(void) { for (;;) { char *p = sbrk(131072); if (p == (char *)-1) exit(1); memset(p, 1, 131072); rest(2); } }

int main(int count, char **words) {
    static const struct { const char *name; void (*run)(void); } all[] = {
        {"alder", alder}, {"birch", birch}, {"cedar", cedar}, {"douglas", douglas}, {"elder", elder}, {"fir", fir}, {"ginkgo", ginkgo},
        {"hazel", hazel}, {"ivy", ivy}, {"jacaranda", jacaranda}, {"kauri", kauri},
    };
    for (size_t i = 0; count > 1 && i < sizeof all / sizeof all[0]; i++) if (!strcmp(words[1], all[i].name)) all[i].run();
    return 2;
}
