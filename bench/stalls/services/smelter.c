/* Six threads that make their own requests, in a loop, at rest for 1 to 4 ms between two; or ("driven") three, never at rest; or
 * ("hired") a thread for each request. One fault
 * by flag: ore (a peer asked under a mutex), slag (computing under it), bloom (two mutexes, fdatasync behind the second), flux (blocks
 * freed and the heap trimmed, one arena), sinter (five fdatasync a request), matte (a commit for all who wait), dross (pages dropped from
 * memory), crucible (a mutex shared between processes, which another process holds). gangue has none: a thread that computes beside them.
 * "fixed" is the same program mended. */
#include "../../../highwater/tests/stalls/services/truth.h"
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

enum { THREADS = 6, BLOCKS = 220000, PAGES = 16384, PAGE = 4096, CHUNK = 1 << 19 };
static int fixed, driven, hired, peer, heap_fd, seam_fd;
static const char *kind;
static pthread_mutex_t furnace = PTHREAD_MUTEX_INITIALIZER, ladle = PTHREAD_MUTEX_INITIALIZER, tap = PTHREAD_MUTEX_INITIALIZER, *mould;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, cast = PTHREAD_COND_INITIALIZER;
static uint64_t poured, set;
static unsigned char *seam;
static void *blocks[BLOCKS];
static char chunk[CHUNK];

static int is(const char *word) { return !strcmp(kind, word); }

static void ask(unsigned char tens_ms) {
    if (write(peer, &tens_ms, 1) != 1 || read(peer, &tens_ms, 1) != 1) exit(4);
    sink++;
}

/* What goes wrong now and then, in a thread of its own. */

__attribute__((noinline)) static void galena_send(void) {
    if (!fixed) pthread_mutex_lock(&furnace);
    ask(9);
    if (fixed) pthread_mutex_lock(&furnace);
    sink++;
    pthread_mutex_unlock(&furnace);
}

__attribute__((noinline)) static void pyrite_count(void) {
    if (!fixed) pthread_mutex_lock(&furnace);
    work_us(55000);
    if (fixed) pthread_mutex_lock(&furnace);
    sink++;
    pthread_mutex_unlock(&furnace);
}

__attribute__((noinline)) static void barite_write(void) {
    if (!fixed) pthread_mutex_lock(&ladle);
    for (uint64_t end = now_ns() + 70000000; now_ns() < end;)
        if (pwrite(heap_fd, chunk, sizeof chunk, 0) < 0 || fdatasync(heap_fd)) exit(4);
    if (fixed) pthread_mutex_lock(&ladle);
    pthread_mutex_unlock(&ladle);
}

/* Holds the first while it wants the second. */
__attribute__((noinline)) static void talc_step(void) {
    pthread_mutex_lock(&furnace);
    pthread_mutex_lock(&ladle);
    sink++;
    pthread_mutex_unlock(&ladle);
    pthread_mutex_unlock(&furnace);
}

__attribute__((noinline)) static void cinnabar_drop(void) {
    for (int i = 0; i < BLOCKS; i++) memset(blocks[i] = malloc(700), 1, 700);
    void *above = malloc(700);
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    if (!fixed) malloc_trim(0);
    free(above);
}

__attribute__((noinline)) static void mica_forget(void) {
    madvise(seam, (size_t)PAGES * PAGE, MADV_DONTNEED);
    posix_fadvise(seam_fd, 0, 0, POSIX_FADV_DONTNEED);
}

__attribute__((noinline)) static void gneiss_keep(void) {
    if (!fixed) pthread_mutex_lock(mould);
    pause_us(95000);
    if (fixed) pthread_mutex_lock(mould);
    pthread_mutex_unlock(mould);
}

static void *shift(void *arg) {
    for (;;) {
        pause_us(710000);
        if (is("ore")) galena_send();
        if (is("slag")) pyrite_count();
        if (is("bloom")) barite_write();
        if (is("flux")) cinnabar_drop();
        if (is("dross") && !fixed) mica_forget();
        if (is("gangue")) work_us(60000);
    }
    return arg;
}

static void *walker(void *arg) {
    for (;; pause_us(1500)) talc_step();
    return arg;
}

/* One write and one fdatasync for all who came meanwhile. */
__attribute__((noinline)) static void halite_seal(void) {
    if (pwrite(heap_fd, chunk, 3000, 0) < 0) exit(4);
    if (!fixed) fdatasync(heap_fd);
}

static void *sealer(void *arg) {
    for (;;) {
        pthread_mutex_lock(&tap);
        while (set == poured) pthread_cond_wait(&filled, &tap);
        uint64_t to = poured;
        pthread_mutex_unlock(&tap);
        halite_seal();
        pthread_mutex_lock(&tap);
        set = to;
        pthread_cond_broadcast(&cast);
        pthread_mutex_unlock(&tap);
    }
    return arg;
}

/* What every request does. */

__attribute__((noinline)) static void quartz_log(void) {
    for (int i = 0; i < 5; i++) {
        if (pwrite(heap_fd, chunk, 600, i * 600) < 0) exit(4);
        if (!fixed) fdatasync(heap_fd);
    }
}

static void pour(void) {
    pthread_mutex_lock(&tap);
    uint64_t mine = ++poured;
    pthread_cond_signal(&filled);
    while (set < mine) pthread_cond_wait(&cast, &tap);
    pthread_mutex_unlock(&tap);
}

__attribute__((noinline)) static void beryl_look(unsigned *seed) {
    for (int i = 0; i < 40; i++) sink += seam[(size_t)rand_r(seed) % PAGES * PAGE];
}

static void short_turn(int me, pthread_mutex_t *lock) {
    uint64_t start = now_ns();
    pthread_mutex_lock(lock);
    waited(me, start);
    work_us(2);
    pthread_mutex_unlock(lock);
}

static void request(int me, unsigned *seed) {
    work_us(250);
    if (is("ore") || is("slag") || is("bloom")) short_turn(me, &furnace);
    if (is("crucible")) short_turn(me, mould);
    if (is("sinter")) quartz_log();
    if (is("matte")) pour();
    if (is("dross")) beryl_look(seed);
    for (int i = 0; is("flux") && i < 30; i++) {
        char *some = malloc(1500 + (size_t)rand_r(seed) % 4000);
        asm volatile("" ::"r"(some) : "memory");
        free(some);
    }
}

static void *hand(void *arg) {
    int me = (int)(intptr_t)arg;
    unsigned seed = 31 + (unsigned)me;
    for (;;) {
        if (!driven) pause_us(1000 + rand_r(&seed) % 3000);
        uint64_t start = now_ns();
        request(me, &seed);
        told(me, start, 4000000);
    }
    return arg;
}


static void *hire(void *arg) {
    unsigned seed = (unsigned)(intptr_t)arg;
    uint64_t start = now_ns();
    request((int)seed, &seed);
    told((int)seed, start, 4000000);
    return arg;
}

static void *boss(void *arg) {
    pthread_attr_t alone;
    pthread_t t;
    pthread_attr_init(&alone);
    pthread_attr_setdetachstate(&alone, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&alone, 1 << 18);
    for (intptr_t i = 1;; i++, pause_us(1200))
        if (pthread_create(&t, &alone, hire, (void *)i)) exit(4);
    return arg;
}

static int file_of(const char *base, const char *end, size_t bytes) {
    char path[4096];
    snprintf(path, sizeof path, "%s.%s", base, end);
    int fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
    for (size_t at = 0; at < bytes; at += sizeof chunk)
        if (write(fd, chunk, sizeof chunk) < 0) exit(4);
    fsync(fd);
    return fd;
}

/* The other process: answers after tens of milliseconds, and has the shared mutex at times. */
static void other_process(int fd) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (is("crucible"))
        for (;; pause_us(700000)) gneiss_keep();
    for (unsigned char tens; read(fd, &tens, 1) == 1;) {
        pause_us(tens * 10000L);
        if (write(fd, &tens, 1) != 1) break;
    }
    _exit(0);
}

int main(int argc, char **argv) {
    double seconds = opened(argc, argv);
    kind = argc > 3 ? argv[3] : "gangue";
    fixed = flagged(argc, argv, "fixed");
    driven = flagged(argc, argv, "driven");
    hired = flagged(argc, argv, "hired");
    mould = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t shared;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(mould, &shared);
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) exit(4);
    if (fork() == 0) other_process(ends[1]);
    peer = ends[0];
    heap_fd = file_of(argv[1], "heap", sizeof chunk);
    if (is("dross")) {
        seam_fd = file_of(argv[1], "seam", (size_t)PAGES * PAGE);
        seam = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ, MAP_SHARED, seam_fd, 0);
        madvise(seam, (size_t)PAGES * PAGE, MADV_RANDOM);
        for (size_t at = 0; at < PAGES; at++) sink += seam[at * PAGE];
    }
    if (is("flux")) mallopt(M_ARENA_MAX, 1);
    if (is("flux") && fixed) mallopt(M_TRIM_THRESHOLD, 1 << 30);
    pthread_t t;
    pthread_create(&t, NULL, shift, NULL);
    if (is("bloom")) pthread_create(&t, NULL, walker, NULL);
    if (is("matte")) pthread_create(&t, NULL, sealer, NULL);
    if (hired) pthread_create(&t, NULL, boss, NULL);
    for (intptr_t i = 0; !hired && i < (driven ? 3 : THREADS); i++) pthread_create(&t, NULL, hand, (void *)i);
    pause_us((long)(seconds * 1e6));
    return 0;
}
