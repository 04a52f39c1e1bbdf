/* A server with a thread for each connection, over TCP; clients are threads of another process. Threads have no names of their
 * own. One fault by flag: post (a reply awaited under a mutex), journal (two locks, fdatasync behind the second), busy (computing
 * under a mutex), convoy (a short lock taken twenty times a request, and a holder that takes it as often and longer), trim
 * (the allocator's memory given back), sync (twelve fdatasyncs a request), faults, none. "fixed" is the same program mended. */
#include "../../../highwater/tests/stalls/services/truth.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

enum { BERTHS = 10, BLOCKS = 300000 };
static int fixed, upstream, journal_fd = -1;
static const char *kind, *folder;
static pthread_mutex_t manifest = PTHREAD_MUTEX_INITIALIZER, logbook = PTHREAD_MUTEX_INITIALIZER;
static char page[8192];

static int dial(struct sockaddr_in at) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, (void *)&at, sizeof at)) exit(4);
    return fd;
}

static int door(struct sockaddr_in *at) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t size = sizeof *at;
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(fd, (void *)at, size) || listen(fd, 64) || getsockname(fd, (void *)at, &size)) exit(4);
    return fd;
}

__attribute__((noinline)) static void isobar_query(int ms) {
    unsigned char wanted = (unsigned char)ms;
    if (send(upstream, &wanted, 1, MSG_NOSIGNAL) != 1 || recv(upstream, &wanted, 1, 0) != 1) exit(0);
    sink++;
}

__attribute__((noinline)) static void cirrus_report(void) {
    if (!fixed) pthread_mutex_lock(&manifest);
    isobar_query(120);
    if (fixed) pthread_mutex_lock(&manifest);
    sink++;
    pthread_mutex_unlock(&manifest);
    sink++;
}

__attribute__((noinline)) static void stratus_flush(void) {
    if (!fixed) pthread_mutex_lock(&logbook);
    for (uint64_t end = now_ns() + 70000000u; now_ns() < end;) {
        for (int i = 0; i < 256; i++)
            if (pwrite(journal_fd, page, sizeof page, i * (off_t)sizeof page) < 0) exit(4);
        fdatasync(journal_fd);
    }
    if (fixed) pthread_mutex_lock(&logbook);
    sink++;
    pthread_mutex_unlock(&logbook);
    sink++;
}

/* Takes the manifest's lock, and the logbook's under it. */
static void *nimbus(void *arg) {
    for (;;) {
        pause_us(4000);
        pthread_mutex_lock(&manifest);
        pthread_mutex_lock(&logbook);
        sink++;
        pthread_mutex_unlock(&logbook);
        pthread_mutex_unlock(&manifest);
    }
    return arg;
}

__attribute__((noinline)) static void squall_sum(void) {
    if (!fixed) pthread_mutex_lock(&manifest);
    work_us(55000);
    if (fixed) pthread_mutex_lock(&manifest);
    sink++;
    pthread_mutex_unlock(&manifest);
    sink++;
}

__attribute__((noinline)) static void breeze_scan(void) {
    for (int i = 0; i < 30; i++) {
        if (!fixed) pthread_mutex_lock(&manifest);
        work_us(1100);
        if (fixed) pthread_mutex_lock(&manifest);
        sink++;
        pthread_mutex_unlock(&manifest);
    }
    sink++;
}

/* Fills the arena and empties it, as a cache does whose entries all end at once. A block behind them stays, or free gives the end
 * of the arena back by itself. */
static void *crates[BLOCKS];
__attribute__((noinline)) static void zephyr_expire(void) {
    static void *anchor;
    for (int i = 0; i < BLOCKS; i++) memset(crates[i] = malloc(600), 1, 600);
    if (!anchor) anchor = malloc(600);
    for (int i = 0; i < BLOCKS; i++) free(crates[i]);
    if (!fixed) malloc_trim(0);
    sink++;
}

static void *tide(void *arg) {
    for (int turn = 0;; turn++) {
        pause_us(740000);
        if (!strcmp(kind, "post")) cirrus_report();
        if (!strcmp(kind, "journal")) stratus_flush();
        if (!strcmp(kind, "busy")) squall_sum();
        if (!strcmp(kind, "convoy")) breeze_scan();
        if (!strcmp(kind, "trim")) zephyr_expire();
    }
    return arg;
}

static const char *chart;
static int chart_fd;
static const size_t CHART = 160u << 20;
__attribute__((noinline)) static void mistral_read(unsigned *seed) {
    for (int i = 0; i < 50; i++) sink += (uint64_t)chart[(size_t)rand_r(seed) % (CHART / 4096) * 4096];
}
static void *forget_chart(void *arg) {
    for (;;) {
        if (!fixed) {
            madvise((void *)chart, CHART, MADV_DONTNEED);
            posix_fadvise(chart_fd, 0, 0, POSIX_FADV_DONTNEED);
        }
        pause_us(500000);
    }
    return arg;
}

__attribute__((noinline)) static void foehn_append(int fd) {
    for (int i = 0; i < 12; i++) {
        if (pwrite(fd, page, 700, i * 700) < 0) exit(4);
        if (!fixed) fdatasync(fd);
    }
    sink++;
}

static void answer(unsigned *seed, int fd) {
    work_us(90);
    if (!strcmp(kind, "post") || !strcmp(kind, "journal") || !strcmp(kind, "busy")) {
        pthread_mutex_lock(&manifest);
        work_us(3);
        pthread_mutex_unlock(&manifest);
    }
    if (!strcmp(kind, "convoy"))
        for (int i = 0; i < 20; i++) {
            pthread_mutex_lock(&manifest);
            sink++;
            pthread_mutex_unlock(&manifest);
        }
    if (!strcmp(kind, "trim"))
        for (int i = 0; i < 40; i++) {
            char *some = malloc(2000 + (size_t)rand_r(seed) % 5000);
            some[0] = 1;
            asm volatile("" ::"r"(some) : "memory"); /* Or the compiler leaves the block out. */
            free(some);
        }
    if (!strcmp(kind, "sync")) foehn_append(fd);
    if (!strcmp(kind, "faults")) mistral_read(seed);
}

static void *berth(void *arg) {
    int fd = (int)(intptr_t)arg, own = -1;
    unsigned seed = (unsigned)fd;
    char path[4096];
    if (!strcmp(kind, "sync")) {
        snprintf(path, sizeof path, "%s.%d", folder, fd);
        own = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
        unlink(path);
    }
    for (char c; recv(fd, &c, 1, 0) == 1;) {
        uint64_t start = now_ns();
        answer(&seed, own);
        if (send(fd, &c, 1, MSG_NOSIGNAL) != 1) break;
        told(fd, start, 3000000);
    }
    exit(0);
    return arg;
}

static void *ship(void *arg) {
    int fd = (int)(intptr_t)arg;
    unsigned seed = (unsigned)fd * 7;
    for (char c = 1;; pause_us(2500 + rand_r(&seed) % 4000))
        if (send(fd, &c, 1, MSG_NOSIGNAL) != 1 || recv(fd, &c, 1, 0) != 1) _exit(0);
    return arg;
}

static void *far_away(void *arg) {
    int fd = accept((int)(intptr_t)arg, NULL, NULL);
    for (unsigned char ms; recv(fd, &ms, 1, 0) == 1; send(fd, &ms, 1, MSG_NOSIGNAL)) pause_us(ms * 1000L);
    _exit(0);
    return arg;
}

static void sea(struct sockaddr_in at, int other_door) {
    pthread_t t;
    prctl(PR_SET_PDEATHSIG, 9);
    pthread_create(&t, NULL, far_away, (void *)(intptr_t)other_door);
    for (int i = 0; i < BERTHS; i++) pthread_create(&t, NULL, ship, (void *)(intptr_t)dial(at));
    for (;;) pause();
}

static void prepare(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s.data", folder);
    if (!strcmp(kind, "journal") || !strcmp(kind, "faults")) {
        journal_fd = chart_fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
        unlink(path);
    }
    if (!strcmp(kind, "faults")) {
        for (size_t at = 0; at < CHART; at += sizeof page)
            if (write(chart_fd, page, sizeof page) < 0) exit(4);
        fsync(chart_fd);
        chart = mmap(NULL, CHART, PROT_READ, MAP_SHARED, chart_fd, 0);
        madvise((void *)chart, CHART, MADV_RANDOM);
        for (size_t at = 0; at < CHART; at += 4096) sink += (uint64_t)chart[at];
    }
    /* One arena for all threads, as many services are set up; memory of one purge is not kept. */
    if (!strcmp(kind, "trim")) mallopt(M_ARENA_MAX, 1);
    if (fixed) mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

int main(int argc, char **argv) {
    double seconds = opened(argc, argv);
    struct sockaddr_in at, other;
    pthread_t t;
    folder = argv[1];
    kind = argc > 3 ? argv[3] : "none";
    fixed = flagged(argc, argv, "fixed");
    int front = door(&at), back = door(&other);
    if (fork() == 0) sea(at, back);
    close(back);
    upstream = dial(other);
    prepare();
    if (!strcmp(kind, "journal")) pthread_create(&t, NULL, nimbus, NULL);
    if (!strcmp(kind, "faults")) pthread_create(&t, NULL, forget_chart, NULL);
    pthread_create(&t, NULL, tide, NULL);
    for (int i = 0; i < BERTHS; i++) pthread_create(&t, NULL, berth, (void *)(intptr_t)accept(front, NULL, NULL));
    pause_us((long)(seconds * 1e6));
    return 0;
}
